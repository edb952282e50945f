"""Means that depend on a handful of records: tails so long that a mean has no interval that holds."""

import numpy as np

from ldpbayes.inference.constants import LEAST_WEIGHED
from ldpbayes.inference.importance import smooth

#: Mathematics: The variance is infinite from this shape of a Pareto tail on, and nothing that records say bounds it.
SHAPE = 0.5
#: Mathematics: Such a tail has half of the squared distances from the mean in fewer than about e^{−γ/2} √n = .75 √n of n
#: records.
ROOTS = 0.5


def hangs_on(value: np.ndarray, weight: np.ndarray) -> int:
    """Return on how many records the mean hangs: the fewest with half of the squared distances, 0 where it has an interval.

    An interval of a mean holds where the variance is finite: where excesses over a high threshold have a Pareto law of a
    shape below one half. The shape is fitted as for importance weights (Vehtari et al., 2024), on either side; so few
    records as make half of the variance have to agree, because rounding bends the fit. A mean that depends on one record
    needs no fit.

    Parameters
    ----------
    value : (n,) array
    weight : (n,) array
    """
    pull = weight * (value - np.average(value, weights=weight))
    squares = np.sort(pull**2)[::-1]
    total = squares.sum()
    if not total > 0:
        return int(len(value) == 1)
    few = int(np.searchsorted(np.cumsum(squares), total / 2)) + 1
    if few == 1 or (few < ROOTS * len(value) ** 0.5 and _shape(pull) >= SHAPE):
        return few
    return 0


def _shape(pull: np.ndarray) -> float:
    """Return the larger Pareto shape of the two tails, as far as there are enough values to fit one."""
    apart = _untied(pull)
    shapes = [-np.inf]
    for side in (apart - apart[0], apart[-1] - apart):
        side = side[side > 0]
        if len(side) >= LEAST_WEIGHED:
            shapes.append(smooth(np.log(side))[1])
    return max(shape for shape in shapes if not np.isnan(shape) and shape < np.inf)


def _untied(value: np.ndarray) -> np.ndarray:
    """Return values in order, ties spread evenly up to halfway to the neighbours: a density needs values that differ."""
    distinct, counts = np.unique(value, return_counts=True)
    gap = np.diff(distinct)
    place = np.repeat(np.arange(len(distinct)), counts)
    within = (np.arange(len(value)) - (np.cumsum(counts) - counts)[place] + 0.5) / counts[place] - 0.5
    return distinct[place] + within * np.where(within < 0, np.append(gap[:1], gap)[place], np.append(gap, gap[-1:])[place])
