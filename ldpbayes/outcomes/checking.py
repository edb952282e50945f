"""Checks of a smooth fit: against the recipe's shares, and whether values look rounded."""

import numpy as np

#: A difference of the shares by more posterior standard deviations than this is a warning.
MOST = 0.5
#: Rounding classes are divisors of whole values, the coarsest first; what none divides is a class as well.
DIVISORS = (15, 5)
#: Whole values look rounded where so many times as many as expected by chance are divisible.
EXCESS = 1.3


def discrepancy(shares: np.ndarray, recipe: np.ndarray) -> np.ndarray:
    """Return (posterior mean share − recipe's share) / posterior sd of each group, shape (k,).

    The recipe's share needs no model of the value. A smooth model that holds has a posterior mean within about a tenth of
    a standard deviation of it.

    Parameters
    ----------
    shares : (S, k) array
    recipe : (k,) array
    """
    sd = shares.std(axis=0, ddof=1)
    apart = shares.mean(axis=0) - recipe
    return np.where(np.abs(apart) < 1e-9, 0.0, apart / np.maximum(sd, 1e-12))


def rounding_classes(value: np.ndarray) -> np.ndarray | None:
    """Return the rounding class of whole values: 0 for multiples of 15, 1 of 5, 2 for others; None where none stand out.

    Parameters
    ----------
    value : (n,) array
    """
    if not (value == np.round(value)).all():
        return None
    classes = np.full(len(value), len(DIVISORS))
    for i, divisor in reversed(list(enumerate(DIVISORS))):
        classes[value % divisor == 0] = i
    least = min(DIVISORS)
    if (classes < len(DIVISORS)).mean() < EXCESS / least or len(np.unique(classes)) < 2:
        return None
    return classes
