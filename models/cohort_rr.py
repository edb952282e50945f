"""Cohort randomized response (O-RR), as in a textbook.

Everybody belongs to one of C cohorts, drawn uniformly and public. Cohort c has its own hash of the a categories into k
buckets (or a permutation of the categories, taken modulo k), and its members send the bucket of their value through
randomized response on buckets. With β = e^ε − 1, in cohort c bucket v comes with probability

    P(v | c) = (1 + β Σ_{x: hash_c(x) = v} p_x) / (k + β),

so the counts of each cohort are multinomial. Two categories that collide in one cohort are distinguished by another.
Categories that collide in every cohort cannot be distinguished by any number of reports.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm


def model(buckets, counts, epsilon, alpha=0.5):
    """Return the PyMC model.

    Parameters
    ----------
    buckets : (C, a) array of int
        The bucket of every category in each cohort.
    counts : (C, k) array of int
        How many members of each cohort sent each bucket.
    epsilon : float
        Privacy level in nats.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    buckets, counts = np.asarray(buckets), np.asarray(counts)
    n_buckets = counts.shape[1]
    holds = (buckets[:, None, :] == np.arange(n_buckets)[:, None]).astype(float)
    beta = np.expm1(epsilon)
    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, buckets.shape[1]).astype(float))
        mass = (holds * distribution).sum(axis=-1)
        pm.Multinomial("reports", n=counts.sum(axis=1), p=(1 + beta * mass) / (n_buckets + beta), observed=counts)
    return result
