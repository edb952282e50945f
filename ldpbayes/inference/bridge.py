"""The ratio of two normalizing constants, from draws of both densities."""

import numpy as np
from scipy.special import logsumexp

#: Most steps of the iteration, and the change of the log below which it ends.
STEPS, SETTLED = 1000, 1e-8


def log_ratio(first: np.ndarray, second: np.ndarray) -> float:
    """Return the log of the constant of a density over that of another one, by the optimal bridge between their draws.

    The two laws need no more than to overlap.

    Parameters
    ----------
    first, second : (S,) arrays
        Log of the density over the other one: at draws of the other one, and at as many of its own.

    References
    ----------
    Meng and Wong (1996), Statistica Sinica 6.
    """
    ratio = float(np.median(second))
    for _ in range(STEPS):
        above = logsumexp(first - np.logaddexp(first, ratio))
        moved = above - logsumexp(-np.logaddexp(second, ratio))
        if abs(moved - ratio) < SETTLED:
            break
        ratio = float(moved)
    return ratio
