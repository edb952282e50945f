"""The check of an answer against what the reports alone say of the groups' shares."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

#: Rule: A difference of the shares by more posterior standard deviations than this is a warning, where the smooth model
#: is no more precise: a 95 % interval that is off by so much covers 92 %. It covers 94 % with half, and 83 % with double.
MOST = 0.5
#: Rule: A smooth model is believed to be more precise by at most this share of its variance: at 1 the reports alone have
#: twice its variance, and √(MOST² + z²) sd are allowed, 2.9 for two shares (z = 2.8). In the study of
#: docs/theory/private-groups.md shares have .91 to 1.15 of the recipe's squared error, so that a gain of more than half
#: comes from a curve that does not hold. With half 2.1 sd are allowed, with double 4.0, which let through what is 4 sd away.
MORE = 1.0


@dataclass(frozen=True, eq=False)
class ShareCheck:
    """How far an answer's shares are from those that the reports alone give, for each cell and group.

    Attributes
    ----------
    discrepancy : (cells, k) array
        (mean share − mean share by the reports alone) / posterior sd.
    allowed : (cells, k) array
        What a sound answer may have.
    identified : bool
        Whether the reports alone tell all groups apart.
    """

    discrepancy: np.ndarray
    allowed: np.ndarray
    identified: bool = True

    @property
    def worst(self) -> tuple[float, float]:
        """The discrepancy that is largest in units of what is allowed, and what is allowed there."""
        at = np.unravel_index(np.argmax(np.abs(self.discrepancy) / self.allowed), self.discrepancy.shape)
        return float(np.abs(self.discrepancy[at])), float(self.allowed[at])

    @property
    def good(self) -> bool:
        """Whether no discrepancy is larger than what is allowed."""
        return bool((np.abs(self.discrepancy) <= self.allowed).all())


def check_shares(
    shares: Sequence[np.ndarray], mean: np.ndarray, variance: np.ndarray, identified: bool = True, smooth: bool = True
) -> ShareCheck:
    """Return the check of the shares of all cells.

    What the reports alone say of the shares needs no model of the value. Where the smooth model holds and is hardly more
    precise, its posterior mean is within a tenth of a standard deviation of it. Of two estimates the more precise may be
    further away: the difference of an efficient and another estimate has the difference of their variances (Hausman, 1978).
    With z for one false warning in a hundred, √(MOST² + z² |variance by the reports alone / posterior variance − 1|) is
    allowed, to a smooth model only for being more precise and to the recipe only for being less.

    Parameters
    ----------
    shares : sequence of (S, k) arrays
        Draws of the answer's shares, for each cell.
    mean, variance : (cells, k) arrays
        Of the shares by the reports alone.
    identified : bool
        Whether the reports alone tell all groups apart.
    smooth : bool
        Whether a smooth model made the answer, and not the recipe.
    """
    fitted = np.stack([draws.mean(axis=0) for draws in shares])
    posterior = np.maximum(np.stack([draws.var(axis=0, ddof=1) for draws in shares]), 1e-24)
    ratio = np.maximum(variance, 1e-24) / posterior
    apart = fitted - mean
    apart = np.where(np.abs(apart) < 1e-9, 0.0, apart / np.sqrt(posterior))
    z = ndtri(1 - 0.005 / apart.size)
    gap = np.clip(ratio - 1 if smooth else 1 - ratio, 0.0, MORE)
    return ShareCheck(apart, np.sqrt(MOST**2 + z**2 * gap), identified)
