"""Local hashing (BLH, OLH), as in a textbook.

Everybody draws a public seed, which fixes a hash of the a categories into g buckets, and sends the bucket of the own value
through randomized response on buckets: the true bucket with probability e^ε/(e^ε + g − 1), any other one with probability
1/(e^ε + g − 1). The seed says nothing about the value. Given it, with β = e^ε − 1, bucket v comes with probability

    P(v) = (1 + β Σ_{x: hash(x) = v} p_x) / (g + β):

a categorical distribution per person, whose bucket masses are sums of p over what that person's hash throws together.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm


def model(buckets, reports, n_buckets, epsilon, alpha=0.5):
    """Return the PyMC model; each person's report is one observation.

    Parameters
    ----------
    buckets : (n, a) array of int
        The bucket of every category under each person's hash.
    reports : (n,) array of int
        The bucket that each person sent.
    n_buckets : int
        g.
    epsilon : float
        Privacy level in nats.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    buckets = np.asarray(buckets)
    holds = (buckets[:, None, :] == np.arange(n_buckets)[:, None]).astype(float)
    beta = np.expm1(epsilon)
    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, buckets.shape[1]).astype(float))
        mass = (holds * distribution).sum(axis=-1)
        pm.Categorical("reports", p=(1 + beta * mass) / (n_buckets + beta), observed=reports)
    return result
