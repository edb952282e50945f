"""Ranks of truths among posterior draws: are they uniform, and do intervals cover?"""

from functools import cache

import numpy as np
from scipy import stats

#: Draws that a truth is ranked among; MCMC draws are thinned to these.
RANKED = 99
LEVEL = 0.01
INTERVAL = 0.9


def rank(truth, draws, rng):
    """Return how many draws are below the truth, ties broken by lot."""
    return (draws < truth).sum() + rng.integers(0, (draws == truth).sum() + 1)


@cache
def null_statistics(replications, sets=10_000):
    """Return the sorted statistic of uniform ranks, by simulation."""
    rng = np.random.default_rng(0)
    ranks = rng.integers(0, RANKED + 1, (sets, replications))
    return np.sort([extremeness(row) for row in ranks])


def extremeness(ranks):
    """Return the least pointwise tail probability of the ranks' empirical distribution function."""
    below = np.bincount(ranks, minlength=RANKED + 1).cumsum()[:-1]
    return tails(ranks.size)[np.arange(RANKED), below].min()


@cache
def tails(replications):
    """Return min(P(B ≤ c), P(B ≥ c)) for B ~ Binomial(replications, i/(RANKED + 1)), shape (RANKED, replications + 1)."""
    law = stats.binom(replications, np.arange(1, RANKED + 1)[:, None] / (RANKED + 1))
    count = np.arange(replications + 1)
    return np.minimum(law.cdf(count), law.sf(count - 1))


def p_value(ranks):
    """Return the level at which the simultaneous band around uniform ranks just touches these (Säilynoja et al. 2022)."""
    null = null_statistics(ranks.size)
    return (np.searchsorted(null, extremeness(ranks) * (1 + 1e-9), side="right") + 1) / (null.size + 1)


def covered(ranks):
    """Return which truths are in the equal-tailed interval between order statistics, of probability INTERVAL exactly."""
    tail = round((1 - INTERVAL) / 2 * (RANKED + 1))
    return (ranks >= tail) & (ranks <= RANKED - tail)


def binomial_p(hits, one_sided=False):
    """Return the p-value of the coverage INTERVAL; one-sided where discreteness makes intervals wider than asked."""
    kind = "less" if one_sided else "two-sided"
    return stats.binomtest(int(hits.sum()), hits.size, INTERVAL, alternative=kind).pvalue
