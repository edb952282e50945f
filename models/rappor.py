"""Cohort RAPPOR with Bloom filters, as in a textbook.

Everybody belongs to a public cohort c, whose h hash functions send a value to at most h bits of a filter of k bits: the
value's Bloom filter B_c(x). Each bit of it is then sent through a binary channel: a one with probability q where the filter
has a one, with probability r < q where it has a zero, independent over bits. (In full RAPPOR q and r are those of
the permanent and the instantaneous randomization together.) A report y of a member of cohort c has probability

    P(y | c) = Σ_x p_x Π_b (q if B_c(x)_b else r)^{y_b} (1 − q if B_c(x)_b else 1 − r)^{1 − y_b}.

Unlike unary encoding this is no function of one sum over a support: values share bits, and a row of the likelihood takes as
many levels as a filter has bits.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model(filters, cohorts, bits, q, r, alpha=0.5):
    """Return the PyMC model; each person's report is one observation.

    Parameters
    ----------
    filters : (C, a, k) array of 0 and 1
        The Bloom filter of every category in each cohort.
    cohorts : (n,) array of int
        Each person's cohort.
    bits : (n, k) array of 0 and 1
        The filter that each person sent.
    q, r : float
        P(bit sent = 1) where the Bloom filter has a one and a zero.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    own = np.asarray(filters)[np.asarray(cohorts)]
    one = np.where(own, q, r)

    def logp(bits, p):
        given_value = (bits[..., None, :] * np.log(one) + (1 - bits[..., None, :]) * np.log1p(-one)).sum(axis=-1)
        return pt.logsumexp(pt.log(p) + given_value, axis=-1)

    def generate(p, size):
        value = pm.Categorical.dist(p, size=size)
        return pm.Bernoulli.dist(pt.as_tensor(one)[pt.arange(len(one)), value])

    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, own.shape[1]).astype(float))
        pm.CustomDist("reports", distribution, logp=logp, dist=generate, signature="(a)->(k)", observed=np.asarray(bits))
    return result
