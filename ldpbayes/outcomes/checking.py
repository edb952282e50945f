"""The check of a smooth fit against the recipe's shares."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

#: A difference of the shares by more posterior standard deviations than this is a warning.
MOST = 0.5
#: A smooth model is believed to be more precise by at most this share of its variance.
MORE = 1.0


@dataclass(frozen=True, eq=False)
class Check:
    """How far smooth shares are from those of the recipe, for each cell and group.

    Attributes
    ----------
    discrepancy : (cells, k) array
        (posterior mean share − recipe's share within [0, 1]) / posterior sd.
    allowed : (cells, k) array
        What a sound model may have.
    ratio : (cells, k) array
        Posterior sd of a share divided by the error of the recipe's.
    """

    discrepancy: np.ndarray
    allowed: np.ndarray
    ratio: np.ndarray

    @property
    def worst(self) -> tuple[float, float]:
        """The discrepancy that is largest in units of what is allowed, and what is allowed there."""
        at = np.unravel_index(np.argmax(np.abs(self.discrepancy) / self.allowed), self.discrepancy.shape)
        return float(np.abs(self.discrepancy[at])), float(self.allowed[at])

    @property
    def good(self) -> bool:
        """Whether no discrepancy is larger than what is allowed."""
        return bool((np.abs(self.discrepancy) <= self.allowed).all())


def check_shares(shares: Sequence[np.ndarray], recipe: Sequence[np.ndarray], variance: Sequence[np.ndarray]) -> Check:
    """Return the check of the shares of all cells.

    The recipe's share needs no model of the value. Where the smooth model holds and is hardly more precise, its posterior
    mean is within a tenth of a standard deviation of it. A model that is more precise may be further away: the difference
    of an efficient and another unbiased estimate has the difference of their variances (Hausman, 1978). Allowed is
    √(MOST² + z² (variance of the recipe / posterior variance − 1)), with z for one false warning in a hundred.

    A posterior share is never negative, the recipe's may be. So the recipe's share and variance are those of its normal law
    cut to [0, 1], which are the same where 0 and 1 are far.

    Parameters
    ----------
    shares : sequence of (S, k) arrays
    recipe, variance : sequence of (k,) arrays
        The recipe's shares, and their variances.
    """
    mean = np.stack([one.mean(axis=0) for one in shares])
    posterior = np.maximum(np.stack([one.var(axis=0, ddof=1) for one in shares]), 1e-24)
    whole, own = within(np.stack(recipe), np.maximum(np.stack(variance), 1e-24))
    apart = mean - whole
    apart = np.where(np.abs(apart) < 1e-9, 0.0, apart / np.sqrt(posterior))
    z = ndtri(1 - 0.005 / apart.size)
    more = np.maximum(own / posterior - 1, 0.0)
    return Check(apart, np.sqrt(MOST**2 + z**2 * np.minimum(more, MORE)), np.sqrt(posterior / own))


def within(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (means, variances) of normal laws cut to [0, 1].

    Parameters
    ----------
    mean, variance : arrays of one shape
        Of the whole laws.

    Examples
    --------
    >>> mean, variance = within(np.array([0.5, -0.1]), np.array([1e-4, 1e-2]))
    >>> mean.round(3).tolist(), np.sqrt(variance).round(3).tolist()
    ([0.5, 0.053], [0.01, 0.045])
    """
    sd = np.sqrt(variance)
    centre = np.clip(mean, 0.0, 1.0)
    reach = 12 * sd / np.maximum(np.abs(mean - centre) / sd / 3, 1.0)  # the law falls off like an exponential far out
    low, high = np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
    points = low[..., None] + (high - low)[..., None] * np.linspace(0, 1, 2001)
    log_density = -0.5 * ((points - mean[..., None]) / sd[..., None]) ** 2
    weight = np.exp(log_density - log_density.max(axis=-1, keepdims=True))
    weight[..., [0, -1]] /= 2
    weight /= weight.sum(axis=-1, keepdims=True)
    found = (weight * points).sum(axis=-1)
    spread = (weight * (points - found[..., None]) ** 2).sum(axis=-1)
    return found, np.maximum(spread, 1e-24)
