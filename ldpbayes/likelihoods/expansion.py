"""The sums over reports that expand a log-likelihood at a pilot, averaged over a Gaussian spread about it."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ldpbayes.arrays import FloatArray

if TYPE_CHECKING:
    from ldpbayes.likelihoods.base import Rows

#: Nodes and weights for the expectation over a Gaussian spread of (L p)_j.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
#: A Gaussian reaches below what any distribution gives a report; a tenth of the mean is far in that tail.
FLOOR = 0.1


class Sums(NamedTuple):
    """The sums that ``Summary`` keeps, with u_j = (L p₀)_j at the pilot p₀; in a pass over groups each has one row a group.

    Attributes
    ----------
    value : float or (n_groups,) array
        Σ_j w_j log u_j.
    gradient : (a,) or (n_groups, a) array
        Σ_j w_j E[1/u_j] L_j.
    square : (a,) or (n_groups, a) array
        Σ_j w_j E[1/u_j²] L_jx²; zero where curvature was not asked for.
    cross : (a,) or (n_groups, a) array
        Σ_j w_j E[1/u_j²] (Σ_x L_jx) L_j; zero where curvature was not asked for.
    """

    value: float | FloatArray
    gradient: FloatArray
    square: FloatArray
    cross: FloatArray


def expected_inverses(centre: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (E[1/u], E[1/u²]) over u Gaussian about ``centre`` with standard deviation ``noise``, cut at a tenth of it."""
    mean, square = np.zeros_like(centre), np.zeros_like(centre)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        inverse = 1 / np.maximum(centre + noise * node, FLOOR * centre)
        mean += weight * inverse
        square += weight * inverse**2
    return mean, square


def noise_of(rows: "Rows", spread: FloatArray) -> FloatArray:
    """Return the standard deviations of L p where p has these variances, independent given their sum."""
    variance = rows.square_matvec(spread) - rows.matvec(spread) ** 2 / spread.sum()
    return np.sqrt(np.maximum(variance, 0.0))


def by_products(rows: "Rows", pilot: FloatArray, spread: FloatArray | None = None) -> Sums:
    """Return the sums of any rows by their products; as ``Rows.expansion``."""
    centre = rows.matvec(pilot)
    if spread is None or not spread.any():
        first, second = 1 / centre, 1 / centre**2
    else:
        first, second = expected_inverses(centre, noise_of(rows, spread))
    first, second = rows.counts * first, rows.counts * second
    return Sums(
        float(rows.counts @ np.log(centre)),
        rows.rmatvec(first),
        rows.gram_diagonal(second),
        rows.rmatvec(second * rows.matvec(np.ones_like(pilot))),
    )
