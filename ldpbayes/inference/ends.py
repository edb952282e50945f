"""Ends of intervals: that they are equal-tailed is decided here, and here only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from ldpbayes.inference.constants import ORDERED, SOME

#: Levels of the quantiles that a result keeps where they are exact: even on the normal scale, far enough out for joint
#: intervals of thousands of categories.
LEVELS = ndtr(np.array([-5.6, -5.0, -4.4, -3.8, -3.2, -2.6, -2.0, -1.4, -0.7, 0.7, 1.4, 2.0, 2.6, 3.2, 3.8, 4.4, 5.0, 5.6]))


@dataclass(frozen=True)
class Accuracy:
    """Errors of numbers that come without draws: guards, measured between engines that share no code.

    Attributes
    ----------
    solved, rough : float
        Interval ends that solve an integral, and ends by moments of second order in the saddle point, in posterior sds.
        Measured: eight ends of randomized response (5 of 20 to 2,700 of 10,000 reports) lie within 2e-5 sd of a grid's
        ends with two million points, and the tests compare the rest at 1e-4. It is a thousandth of LIMITS.end_error:
        half and double are below what any page shows.
    integral, expanded : float
        Log-evidences by the saddle point, in nats: the part of the integrals of factors, at large concentrations, and all of
        it where factors are expansions, most where categories are few. Measured: on the same surveys as the ends.
    """

    solved: float = 1e-4
    rough: float = 0.02
    integral: float = 5e-5
    expanded: float = 0.01


ACCURACY = Accuracy()


def tails(ci_prob: float) -> tuple[float, float]:
    """Return the levels of the two ends of an interval with this probability."""
    return (1 - ci_prob) / 2, (1 + ci_prob) / 2


def normal_reach(ci_prob: float) -> float:
    """Return how many sds the interval of a normal distribution reaches to either side."""
    return float(ndtri(tails(ci_prob)[1]))


def level_of_largest(ci_prob: float, k: int, a: int, *, simultaneous: bool = False) -> float:
    """Return the level at which intervals of k of a categories hold on average, or all at once, whatever picks these.

    The share of the k shown that are missed is on average at most Σ_x P(x is missed)/k, which is 1 − c at the level
    1 − (1 − c) k/a of each. All hold at once with probability c at 1 − (1 − c)/a.

    Parameters
    ----------
    ci_prob : float
        c.
    k, a : int
    simultaneous : bool

    References
    ----------
    Benjamini and Yekutieli (2005), Journal of the American Statistical Association 100.
    """
    return 1 - (1 - ci_prob) * (1 if simultaneous else k) / a


def numerical_error(facts: Mapping[str, Any], ci_prob: float) -> float:
    """Return the error, in posterior sd, of ends of P without draws, from the facts of a result.

    Where means and sds are off by e sds, the end of an interval that reaches z sds is off by (1 + z) e at most.

    Parameters
    ----------
    facts : mapping
        ``predicted_error`` of an expansion and ``quadrature_error``, of means and sds;
        ``rough_cells``, whose moments are of second order in the saddle point.
    ci_prob : float
    """
    moments = max(float(facts.get(name, 0.0)) for name in ("predicted_error", "quadrature_error"))
    least = ACCURACY.rough if facts.get("rough_cells") else ACCURACY.solved
    return max(least, (1 + normal_reach(ci_prob)) * moments)


def ends_of_equal_draws(draws: np.ndarray, ci_prob: float) -> np.ndarray:
    """Return (lower, upper) of draws (S, …), shape (2, …); without errors."""
    return np.quantile(draws, tails(ci_prob), axis=0)


def ends_of_draws(
    draws: np.ndarray, ci_prob: float, effective: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (lower, upper, and the standard error of each) of equal-tailed intervals, four (k,) arrays.

    The level of a sample quantile at q has the sd δ = √(q(1 − q)/n), n the effective draws: its error is half of what lies
    between the quantiles at q ± δ, so that no density is estimated.

    Parameters
    ----------
    draws : (S, k) array
    ci_prob : float
    effective : (k,) array
        Effective draws of each quantity, for its tails; the errors are nan where they are not known.
    """
    finite, middle = np.isfinite(effective), np.array(tails(ci_prob))[:, None]
    step = np.sqrt(middle * (1 - middle) / np.where(finite, np.maximum(effective, 1.0), 1.0))
    levels = np.clip(middle + np.array([0, 1, -1])[:, None, None] * step, 0.0, 1.0)
    (lower, upper), high, low = _quantiles(draws, levels.reshape(6, -1)).reshape(levels.shape)
    lower_error, upper_error = np.where(finite, 0.5 * (high - low), np.nan)
    return lower, upper, lower_error, upper_error


def ends_of_weighted_draws(draws: np.ndarray, weights: np.ndarray, ci_prob: float) -> np.ndarray:
    """Return (lower, upper, and the standard error of each) of weighted draws, shape (4, …, k).

    The share p of the weight below an end has the variance Σ w² (1{x ≤ end} − p)²; the error of the end is half the distance
    between the quantiles a standard error of p to either side (Woodruff 1952). What does not vary has errors of 0.

    Parameters
    ----------
    draws : (S, k) array
    weights : (…, S) array
        Normalized.
    ci_prob : float
    """
    levels, every = np.array(tails(ci_prob)), np.atleast_2d(weights)
    out = np.zeros((4, len(every), draws.shape[1]))
    for m, w in enumerate(every):
        for k, x in enumerate(draws.T):
            out[:, m, k] = _ends(x, w, levels, *_bounds(x, w, levels[0]))
    return out.reshape(4, *weights.shape[:-1], -1)


def _bounds(x, w, level):
    """Return values between which only the middle of many draws lies, by some of them."""
    step = (len(x) // SOME) | 1  # odd, as every second Sobol point is in one half of the space
    if step < 8:
        return np.inf, np.inf
    few, weight = x[::step], w[::step]
    order = np.argsort(few)
    reached = np.cumsum(weight[order])
    return few[order[np.searchsorted(reached, reached[-1] * np.array([3 * level, 1 - 3 * level])).clip(max=len(few) - 1)]]


def _ends(x, w, levels, first, last):
    """Return (lower, upper, and the error of each) of draws (S,); draws between two values are not put in order."""
    some = np.flatnonzero((x <= first) | (x >= last))
    some = some[np.argsort(x[some])]
    at, weight = x[some], w[some]
    if at[0] == at[-1]:
        return at[0], at[0], 0.0, 0.0
    reached, gap = np.cumsum(weight) - 0.5 * weight, np.searchsorted(at, first, side="right")
    reached[gap:] += 1 - weight.sum()
    ends = np.interp(levels, reached, at)
    below, above = np.split(weight**2, np.searchsorted(at, ends, side="right"))[::2]
    error = np.sqrt(np.array([below.sum(), w @ w - above.sum()]) * (1 - 2 * levels) + levels**2 * (w @ w))
    if len(some) < len(x) and not (reached[gap - 1] > levels[0] + error[0] and reached[gap] < levels[1] - error[1]):
        return _ends(x, w, levels, np.inf, np.inf)
    low, high = np.interp([levels - error, levels + error], reached, at)
    return *ends, *(0.5 * (high - low))


def beta_ends(mean: "np.ndarray | float", sd: "np.ndarray | float", levels) -> list[np.ndarray]:
    """Return the quantiles, one array a level, of beta distributions with these means and sds."""
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
    inside = (sd > 0) & (mean > 0) & (mean < 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        total = np.where(inside, mean * (1 - mean) / sd**2 - 1, 1.0)
        inside &= total > 0
        first, second = np.where(inside, mean * total, 1.0), np.where(inside, (1 - mean) * total, 1.0)
        ends = [betaincinv(first, second, level) for level in levels]
    return [np.where(inside, end, mean) for end in ends]


def ends_of_sums(weights: np.ndarray, mean: np.ndarray, sd: np.ndarray, levels) -> list[np.ndarray]:
    """Return the quantiles, one array a level, of Σ_c w_c p_c, where p_c are independent with beta laws.

    They belong to the beta law on an interval that has the first four moments of the sum (Pearson's type I). A beta law on
    (0, 1) would be less skewed than the sum where the share of a large cell is known. Exact for one cell.

    Parameters
    ----------
    weights : (cells,) array
    mean, sd : (cells, a) arrays
        Mean and sd of the shares.
    levels : sequence of float
    """
    moves = (sd > 0) & (mean > 0) & (mean < 1)
    m, s = np.where(moves, mean, 0.5), np.where(moves, sd, 0.25)
    odd, even = 1 - 2 * m, m * (1 - m)
    total = even / s**2 - 1
    skewness = 2 * odd / ((total + 2) * s)
    excess = 6 * (odd**2 * (total + 1) / (even * (total + 2)) - 1) / (total + 3)
    parts = weights[:, None] * np.where(moves, sd, 0.0)
    centre, spread = weights @ mean, np.sqrt((parts**2).sum(axis=0))
    scale = np.where(spread > 0, spread, 1.0)
    skew, kurtosis = ((parts**k * of).sum(axis=0) / scale**k for k, of in ((3, skewness), (4, excess)))
    away = 3 * skew**2 - 2 * kurtosis  # at most 0 where no such law has these moments: the normal one then
    both = np.where(away > 0, np.clip(6 * (2 + kurtosis - skew**2) / np.where(away > 0, away, 1.0), 1e-3, 1e6), 1e6)
    root = np.sqrt(((both + 2) * skew) ** 2 + 16 * (both + 1))
    first, second = (both / 2 * (1 + sign * (both + 2) * skew / root) for sign in (-1, 1))
    return [np.clip(centre + spread / 2 * root * (betaincinv(first, second, q) - first / both), 0.0, 1.0) for q in levels]


def _quantiles(draws: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the quantiles of each column of draws (S, k) at its own levels (m, k), as np.quantile does.

    Columns are ordered as far as the levels ask for it, in batches that stay in the processor's cache.
    """
    out, step = np.empty(levels.shape), max(1, ORDERED // len(draws))
    for start in range(0, draws.shape[1], step):
        block = slice(start, start + step)
        place = levels[:, block] * (len(draws) - 1)
        below = np.floor(place).astype(int)
        above = np.minimum(below + 1, len(draws) - 1)
        ranked = np.partition(draws[:, block], np.unique([below, above]), axis=0)
        first, second = (np.take_along_axis(ranked, rank, axis=0) for rank in (below, above))
        out[:, block] = first + (place - below) * (second - first)
    return out
