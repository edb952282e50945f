"""Bins of an open measurement: of equal width in the normal score of the rank, with ties in one bin."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

#: Bins for ten thousand records, and how their number grows: 100, 150 and 200 bins for 1e4, 1e5 and 1e6 records.
BINS, GROWTH = 100, 0.155


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
    """

    index: np.ndarray
    size: int
    width: float
    middle: int
    score: np.ndarray


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
    position = (score - low) / width + 0.5  # extremes are the middles of the outer bins
    index = np.minimum(position.astype(np.int64), size - 1)
    middle = int(np.clip(round(-low / width), 0, max(size - 2, 0)))
    return Bins(index[code], size, float(width), middle, position[code])
