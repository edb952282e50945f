"""Algebra of curvatures: by differences of a gradient, their roots and factors, and what draws say of a covariance."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpbtrs, dtbtrs

#: Step of the differences of a gradient.
DIFFERENCE = 1e-4
#: Curvatures below this count as this: every unknown is of the order of one under its prior.
LEAST = 0.05
#: Variances of draws in coordinates that were to have variance one are believed between these.
STRETCHED = 0.1, 10.0


def curvature(gradient: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, step: float = DIFFERENCE) -> np.ndarray:
    """Return minus the Hessian at a point (u,) by central differences of the gradient, symmetric, shape (u, u)."""
    steps = step * np.eye(centre.size)
    found = np.array([gradient(centre - one) - gradient(centre + one) for one in steps]) / (2 * step)
    return 0.5 * (found + found.T)


def roots(matrix: np.ndarray, least: float = LEAST, most: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    """Return (|M|^{−½}, |M|^{½}), both symmetric; absolute eigenvalues count as being between the bounds."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.sqrt(np.clip(np.abs(values), least, most))
    return (vectors / values) @ vectors.T, (vectors * values) @ vectors.T


def positive(blocks: np.ndarray) -> np.ndarray:
    """Return symmetric blocks (m, k, k) whose negative eigenvalues are zero."""
    values, vectors = np.linalg.eigh(blocks)
    return (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)


def spread(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the roots of the covariance of draws (S, u), drawn to one by as much as their number leaves open."""
    offset, size = draws - draws.mean(axis=0), draws.shape[1]
    return roots((offset.T @ offset + size * np.eye(size)) / (len(draws) + size), *STRETCHED)


@dataclass(frozen=True, eq=False)
class BandedFactor:
    """The lower Cholesky factor of a banded matrix."""

    lower: np.ndarray
    shape: tuple[int, int]

    @property
    def half_log_det(self) -> float:
        return float(np.log(self.lower[0]).sum())

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Return the matrix's inverse times v (m, K)."""
        return dpbtrs(self.lower, v.ravel(), lower=1)[0].reshape(self.shape)

    def spread(self, z: np.ndarray) -> np.ndarray:
        """Return normal draws (S, m, K) with this precision from standard ones (S, m·K)."""
        return dtbtrs(self.lower, z.T, uplo="L", trans="T")[0].T.reshape(len(z), *self.shape)

    def pull(self, v: np.ndarray) -> np.ndarray:
        """Return gradients in the standard normal z (S, m·K) from those in g = spread(z), (S, m, K)."""
        return dtbtrs(self.lower, v.reshape(len(v), -1).T, uplo="L", trans="N")[0].T


@dataclass(frozen=True, eq=False)
class DenseFactor:
    """The lower Cholesky factor of a matrix."""

    lower: np.ndarray
    shape: tuple[int, int]

    @property
    def half_log_det(self) -> float:
        return float(np.log(np.diag(self.lower)).sum())

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Return the matrix's inverse times v (m, K)."""
        return cho_solve((self.lower, True), v.ravel()).reshape(self.shape)

    def spread(self, z: np.ndarray) -> np.ndarray:
        """Return normal draws (S, m, K) with this precision from standard ones (S, m·K)."""
        return solve_triangular(self.lower, z.T, lower=True, trans="T").T.reshape(len(z), *self.shape)

    def pull(self, v: np.ndarray) -> np.ndarray:
        """Return gradients in the standard normal z (S, m·K) from those in g = spread(z), (S, m, K)."""
        return solve_triangular(self.lower, v.reshape(len(v), -1).T, lower=True).T
