"""Unary encoding (SUE = basic one-time RAPPOR, OUE), as in a textbook.

A person whose value is x sends a bits, one per category: bit x is one with probability κ, every other bit with probability
λ < κ, all independent. Summing over the unknown value, a report y has probability

    P(y) = Σ_x p_x P(y | x),    P(y | x) = κ^{y_x} (1 − κ)^{1 − y_x} Π_{z ≠ x} λ^{y_z} (1 − λ)^{1 − y_z}.

The bits of one report are *not* independent given p (at most one of them can be the truth), so the product of the bits'
marginal probabilities is a composite likelihood, not this one. The privacy level is ε = log[κ(1 − λ) / (λ(1 − κ))].

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model(bits, kappa, lam, alpha=0.5):
    """Return the PyMC model; each person's report is one observation.

    Parameters
    ----------
    bits : (n, a) array of 0 and 1
    kappa, lam : float
        P(bit = 1) at the true value and elsewhere.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    bits = np.asarray(bits)
    a = bits.shape[1]

    def logp(bits, p):
        noise = bits * np.log(lam) + (1 - bits) * np.log1p(-lam)
        truth = bits * np.log(kappa) + (1 - bits) * np.log1p(-kappa)
        given_value = noise.sum(axis=-1, keepdims=True) - noise + truth
        return pt.logsumexp(pt.log(p) + given_value, axis=-1)

    def generate(p, size):
        value = pm.Categorical.dist(p, size=size)
        return pm.Bernoulli.dist(pt.where(pt.eq(value[..., None], pt.arange(a)), kappa, lam))

    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, a).astype(float))
        pm.CustomDist("reports", distribution, logp=logp, dist=generate, signature="(a)->(a)", observed=bits)
    return result
