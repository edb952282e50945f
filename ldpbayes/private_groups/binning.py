"""Bins of an open measurement: of equal width in the normal score of the rank, with ties in one bin."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

#: Rule: Bins for ten thousand records, and how their number grows: 100, 140 and 200 bins for 1e4, 1e5 and 1e6 records, twice
#: as many for a hundred times the records, as bins of least squared error would be some n^(1/5). Chosen: any value from 50
#: to 200 serves: of two samples of 10,000 records and one of 1,000 (the near design of docs/theory/private-groups.md) means,
#: shares and quantiles move by .06 to .15 sd, and by .09 to .17 with another seed. Bins cost time in proportion.
BINS, GROWTH = 100, 0.155
#: Rule: Gaps are looked for where this share of values is distinct, between the ends of about so many runs of at least so
#: many. Above a half, ties are rarer than not, and distances between values say a density. A run of 30 values has a density
#: with an error of 1/√30 = 18 %, which DEEP is six sd above; with 15 it is 26 %, and chance begins to part values. A hundred
#: runs are one a bin; with half of them gaps are too coarse to place, and with double a run has 50 of 10,000 values.
UNTIED, MOST, LEAST = 0.5, 100, 30
#: Rule: In a gap the density is so many times lower than in the modes beside it; a run counts at most so many scores, and
#: parts the modes where these are more than so many. Between two normal laws of equal shares scores are three
#: times less dense from 3.1 sd apart on, where 6 % of either lie beyond the middle; with half a gap begins at 2.0 sd, where
#: there are no two modes, with double at 3.9. Over one score a curve of the typical σ moves by 1/√3 = .6 log odds of
#: itself: half as far both sides still tell of each other. Over two it moves by 1.6, so that neither does, and a longer
#: way would only cost bins.
DEEP, FARTHEST, APART = 3.0, 2.0, 1.0


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of one cell's records.

    Attributes
    ----------
    index : (n,) int array
        The bin of each record, in the records' order.
    size : int
        Number of bins, also those without a record.
    width : float
        Of a bin, in normal scores.
    middle : int
        The bin where the score is 0.
    score : (n,) array
        Position of each record in units of bins: index + 1/2 at the middle of its bin.
    mode : (n,) int array
        The mode of each record among those that long gaps part, from 0.
    """

    index: np.ndarray
    size: int
    width: float
    middle: int
    score: np.ndarray
    mode: np.ndarray


def default_bins(n: float) -> int:
    """Return the number of bins for n records."""
    return int(max(8, round(BINS * (n / 1e4) ** GROWTH / 10) * 10))


def normal_score_bins(value: np.ndarray, weight: np.ndarray, size: int) -> Bins:
    """Return bins of equal width in the normal score Φ⁻¹(rank) of a value.

    The rank of a value is the share of records below it plus half of those equal to it, so that ties share a bin. Bins
    reach from the score of the least value to that of the greatest. Their tails are fine, where bins of equal count would
    put the whole tail of a group into one bin.

    Parameters
    ----------
    value : (n,) array
    weight : (n,) array
    size : int

    Returns
    -------
    Bins
    """
    distinct, code = np.unique(value, return_inverse=True)
    mass = np.bincount(code, weight, len(distinct))
    rank = (np.cumsum(mass) - mass / 2) / mass.sum()
    score = ndtri(np.clip(rank, 1e-15, 1 - 1e-15))
    low, high = score[0], score[-1]
    width = (high - low) / max(size - 1, 1) if high > low else 1.0
    longer, mode = np.zeros(len(distinct)), np.zeros(len(distinct), dtype=np.int64)
    if len(distinct) > UNTIED * len(value):
        longer, mode = _gaps(distinct)
    place = score + longer
    position = (place - low) / width + 0.5  # extremes are the middles of the outer bins
    index = np.floor(position + 1e-9).astype(np.int64)
    middle = int(np.clip(round((np.interp(0.0, score, place) - low) / width), 0, max(size - 2, 0)))
    return Bins(index[code], max(size, int(index[-1]) + 1), float(width), middle, position[code], mode[code])


def _gaps(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how much longer than in normal scores the way to each distinct value is, for gaps before it, and its mode.

    Between two modes values are far apart where their ranks are near. Groups of one mode say little of those of the other:
    there the way from value to value is what it would be at the density of the modes, the geometric mean of both, wherever
    the density is below the lesser of them by a factor DEEP. A single mode has no gap, however long its tails are, and a
    spike counts as one value. ``value`` (A,) increases.
    """
    each = max(LEAST, len(value) // MOST)
    edges = np.unique(np.append(np.arange(0, len(value) - each, each), len(value) - 1))
    if len(edges) < 4:
        return np.zeros(len(value)), np.zeros(len(value), dtype=np.int64)
    ways, at = np.diff(ndtri((edges + 0.5) / len(value))), value[edges]
    apart = np.diff(at)
    density = ways / apart
    left, right = np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1]
    longer = np.minimum(apart * np.sqrt(left * right), FARTHEST) - ways
    deep = DEEP * density < np.minimum(left, right)
    reach = np.interp(value, at, np.append(0.0, np.cumsum(np.where(deep, np.maximum(longer, 0.0), 0.0))))
    ends = np.flatnonzero(np.diff(deep & (longer > APART), prepend=False, append=False)).reshape(-1, 2)  # of runs of gaps
    widest = [first + int(np.diff(value[first : last + 1]).argmax()) for first, last in edges[ends].tolist()]
    return reach, np.searchsorted(widest, np.arange(len(value)))
