"""Algebra of curvatures: by differences of a gradient, their roots, and what draws say of a covariance."""

from collections.abc import Callable

import numpy as np

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


def spread(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the roots of the covariance of draws (S, u), drawn to one by as much as their number leaves open."""
    offset, size = draws - draws.mean(axis=0), draws.shape[1]
    return roots((offset.T @ offset + size * np.eye(size)) / (len(draws) + size), *STRETCHED)
