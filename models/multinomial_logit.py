"""Multinomial logit on a private answer, as in a textbook; two categories are logistic regression.

People of one pattern of covariates have the distribution

    p_c = softmax(x_c B),

and report y with probability Σ_x Q[y, x] p_cx, so that the counts of their reports are multinomial. Only differences of the
columns of B between categories matter. Normal coefficients of variance s²/2 in every category make the log odds between any
two categories N(0, s²), whichever category they are stated against.

Covariates are centred and divided by their standard deviation over people; the intercept belongs to a person with average
covariates. ``log_odds`` are the coefficients on the covariates as they are, against the first category.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm


def model(x, counts, channel, scale=2.5, intercept=np.pi):
    """Return the PyMC model.

    Parameters
    ----------
    x : (cells, terms) array
        Covariates with a column of ones in front.
    counts : (cells, outputs) array of int
        How many people of each cell reported each output.
    channel : (outputs, a) array
        Q[y, x], the probability of report y where the true answer is x.
    scale, intercept : float
        Prior standard deviations of the log odds between two categories: for one standard deviation of a covariate, and for
        a person with average covariates.
    """
    x, counts, channel = (np.asarray(part, dtype=float) for part in (x, counts, channel))
    people = counts.sum(axis=1)
    mean = people @ x / people.sum()
    sd = np.sqrt(people @ (x - mean) ** 2 / people.sum())
    standard = np.column_stack([np.ones(len(x)), (x[:, 1:] - mean[1:]) / sd[1:]])
    scales = np.array([intercept, *[scale] * (x.shape[1] - 1)]) / np.sqrt(2)
    with pm.Model() as result:
        b = pm.Normal("b", 0, scales[:, None], shape=(x.shape[1], channel.shape[1]))
        p = pm.math.softmax(pm.math.dot(standard, b), axis=1)
        pm.Multinomial("reports", n=people.astype(int), p=pm.math.dot(p, channel.T), observed=counts.astype(int))
        slopes = b[1:] / sd[1:, None]
        first = b[:1] - (mean[1:, None] * slopes).sum(axis=0, keepdims=True)
        raw = pm.math.concatenate([first, slopes], axis=0)
        pm.Deterministic("log_odds", raw - raw[:, :1])
    return result
