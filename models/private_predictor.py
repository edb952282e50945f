"""A private answer as a predictor, as in a textbook: randomized response over two groups beside an open measurement.

A page load has a confidence x, 0 "high" or 1 "low", and a duration z. The browser states x with probability 1 − r and tosses
a fair coin for it otherwise, so the report is y = x with probability 1 − r/2. With π = P(x = 1),

    P(y = 1) = (1 − r/2) π + (r/2) (1 − π).

Given the report, the duration is a mixture of what it is in the two groups, with weights from Bayes' rule:

    P(x | y) ∝ P(x) P(y | x),        f(z | y) = Σ_x P(x | y) f_x(z).

Durations are log-normal in each group, with one spread. The product P(y) f(z | y) is the likelihood of a record.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm


def model(durations, reports, rate):
    """Return the PyMC model.

    Parameters
    ----------
    durations : (n,) array of float
        Milliseconds.
    reports : (n,) array of int
        0 or 1.
    rate : float or (n,) array
        Probability of the coin.
    """
    reports = np.asarray(reports)
    truthful = 1 - np.broadcast_to(rate, reports.shape) / 2
    if_high = np.where(reports == 0, truthful, 1 - truthful)  # P(y | x = 0)
    if_low = np.where(reports == 1, truthful, 1 - truthful)
    with pm.Model() as result:
        low = pm.Beta("low", 1, 1)
        centre = pm.Normal("centre", 7, 1, shape=2)
        spread = pm.HalfNormal("spread", 1)
        pm.Bernoulli("reports", p=truthful * low + (1 - truthful) * (1 - low), observed=reports)
        joint = pm.math.stack([(1 - low) * if_high, low * if_low], axis=-1)
        groups = pm.LogNormal.dist(centre, spread, shape=(len(reports), 2))
        pm.Mixture("durations", w=joint / joint.sum(axis=-1, keepdims=True), comp_dists=groups, observed=durations)
    return result
