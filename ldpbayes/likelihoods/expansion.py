"""The sums over reports that expand a log-likelihood at a pilot, averaged over a Gaussian spread about it."""

import functools
from typing import NamedTuple

import numpy as np

from ldpbayes.arrays import FloatArray

#: Rule: A Gaussian reaches below what any distribution gives a report; a tenth of the mean is far in that tail.
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
        Σ_j w_j E[1/u_j²] L_jx².
    cross : (a,) or (n_groups, a) array
        Σ_j w_j E[1/u_j²] (Σ_x L_jx) L_j.
    """

    value: float | FloatArray
    gradient: FloatArray
    square: FloatArray
    cross: FloatArray


class Quadratic(NamedTuple):
    """A log-likelihood to second order, up to a constant: b·p − pᵀHp/2, with b (a,) and H (a, a)."""

    linear: FloatArray
    hessian: FloatArray

    def value_and_gradient(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the values at many p (S, a), and the gradients."""
        bent = p @ self.hessian
        return p @ self.linear - 0.5 * (bent * p).sum(axis=1), self.linear - bent

    def curvature(self, p: FloatArray, steps: FloatArray) -> FloatArray:
        """Return KᵀHK for steps K (a, k), the same at every p."""
        return steps.T @ self.hessian @ steps


@functools.cache
def gaussian_nodes() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for the expectation over a Gaussian spread of (L p)_j."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    return nodes, weights / weights.sum()


def expected_inverses(centre: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (E[1/u], E[1/u²]) over u Gaussian about ``centre`` with standard deviation ``noise``, cut at a tenth of it."""
    mean, square = np.zeros_like(centre), np.zeros_like(centre)
    for node, weight in zip(*gaussian_nodes(), strict=True):
        inverse = 1 / np.maximum(centre + noise * node, FLOOR * centre)
        mean += weight * inverse
        square += weight * inverse**2
    return mean, square


def shared_part(diagonal: FloatArray, sums: FloatArray) -> FloatArray:
    """Return f of a Hessian H that is nearly diag(D) + f1ᵀ + 1fᵀ, from its diagonal and its row sums.

    f is the mean of the off-diagonal entries of a row; the last two terms vanish on differences of distributions. With two
    categories only f₁ + f₂ matters.

    Parameters
    ----------
    diagonal, sums : (a,) arrays
        diag H and H1.
    """
    others, a = sums - diagonal, diagonal.size
    return (others - others.sum() / (2 * a - 2)) / (a - 2) if a > 2 else others / 2


def tangent_curvature(diagonal: FloatArray, sums: FloatArray) -> FloatArray:
    """Return D > 0 of ``shared_part``: the diagonal of H on differences of distributions, shape (a,)."""
    curvature = diagonal - 2 * shared_part(diagonal, sums)
    return np.maximum(curvature, least_curvature(curvature))


def least_curvature(curvature: FloatArray) -> float:
    """Return the curvature that every category has at least."""
    return float(1e-6 * np.median(np.abs(curvature)) + 1e-9)
