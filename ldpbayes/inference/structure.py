"""Algebra of curvatures: by differences of a gradient, their roots and factors, and coordinates that make them one."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dtbtrs, dtrtrs

from ldpbayes.inference.constants import DIFFERENCE


@dataclass(frozen=True)
class Curvatures:
    """Which curvatures are believed.

    Attributes
    ----------
    least : float
        Those below count as this: every unknown is of the order of one under its prior. Variances of draws in coordinates
        that were to have variance one are believed within this factor of it. Bank: half and double show nothing.
    most_dense : int
        Most unknowns with a dense Hessian, where another structure is known. Measured: a decomposition of 400 takes .1 s.
    """

    least: float = 0.05
    most_dense: int = 400


CURVATURES = Curvatures()


def curvature(gradient: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, step: float = DIFFERENCE) -> np.ndarray:
    """Return minus the Hessian at a point (u,) by central differences of the gradient, symmetric, shape (u, u)."""
    steps = step * np.eye(centre.size)
    differences = np.array([gradient(centre - along) - gradient(centre + along) for along in steps]) / (2 * step)
    return 0.5 * (differences + differences.T)


def roots(matrix: np.ndarray, least: float = CURVATURES.least, most: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    """Return (|M|^{−½}, |M|^{½}), both symmetric; absolute eigenvalues count as being between the bounds."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.sqrt(np.clip(np.abs(values), least, most))
    return (vectors / values) @ vectors.T, (vectors * values) @ vectors.T


def positive(blocks: np.ndarray) -> np.ndarray:
    """Return symmetric blocks (…, k, k) whose negative eigenvalues are zero."""
    values, vectors = np.linalg.eigh(blocks)
    return (vectors * np.maximum(values, 0.0)[..., None, :]) @ vectors.swapaxes(-1, -2)


def spread(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the roots of the covariance of draws (S, u), drawn to one by as much as their number leaves open."""
    offset, size = draws - draws.mean(axis=0), draws.shape[1]
    return roots((offset.T @ offset + size * np.eye(size)) / (len(draws) + size), CURVATURES.least, 1 / CURVATURES.least)


@dataclass(frozen=True, eq=False)
class Factor:
    """The lower Cholesky factor of a matrix over unknowns of some shape: whole, or by its bands."""

    lower: np.ndarray
    shape: tuple[int, ...]
    banded: bool = False

    @property
    def half_log_det(self) -> float:
        return float(np.log(self.lower[0] if self.banded else np.diag(self.lower)).sum())

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Return the matrix's inverse times v, an array of the shape."""
        return self.spread(self.pull(v[None]))[0]

    def spread(self, z: np.ndarray) -> np.ndarray:
        """Return normal draws (S, …) with this precision from standard ones (S, m·K)."""
        return self._solved(z, transposed=True).reshape(len(z), *self.shape)

    def pull(self, v: np.ndarray) -> np.ndarray:
        """Return gradients in the standard normal z (S, m·K) from those in g = spread(z), (S, …)."""
        return self._solved(v.reshape(len(v), -1), transposed=False)

    def _solved(self, rows, transposed):
        """Return the inverse of the factor, or of its transpose, times each row."""
        if self.banded:
            return dtbtrs(self.lower, rows.T, uplo="L", trans="NT"[transposed])[0].T
        return dtrtrs(self.lower, rows.T, lower=1, trans=int(transposed))[0].T


@dataclass(frozen=True, eq=False)
class Arrow:
    """Shared unknowns h and k unknowns for each cell: the Hessian has blocks on the diagonal and a border.

    With blocks K_c, border B_c and Schur complement S = A − Σ B_cᵀ K_c⁻¹ B_c: h = ĥ + S^{−½} v and
    z_c = ẑ_c + K_c^{−½} w_c − K_c⁻¹ B_c (h − ĥ). A dense Hessian is an arrow without cells.

    Attributes
    ----------
    centre : (u,) array
    shared, blocks, border : (s, s), (cells, k, k) and (s, cells·k) arrays
        S^{−½}, K^{−½}, and (K⁻¹ B S^{−½})ᵀ.
    white : bool
        Whether a Hessian is known: else the coordinates are the unknowns, from a centre.
    """

    centre: np.ndarray
    shared: np.ndarray
    blocks: np.ndarray
    border: np.ndarray
    white: bool = True

    @classmethod
    def plain(cls, centre):
        """Return the unknowns, from a centre."""
        return cls(centre, np.empty((0, 0)), np.ones((centre.size, 1, 1)), np.empty((0, centre.size)), False)

    @classmethod
    def whole(cls, gradient, centre):
        """Return coordinates by the whole Hessian, its eigenvalues taken absolutely."""
        return cls.along(centre, roots(curvature(gradient, centre))[0])

    @classmethod
    def along(cls, centre, axes):
        """Return coordinates along the columns of a matrix."""
        return cls(centre, np.ascontiguousarray(axes.T), np.empty((0, 1, 1)), np.empty((centre.size, 0)))

    @classmethod
    def at(cls, gradient, centre, start, width):
        """Return the coordinates about a point; two gradients per shared unknown and per unknown of one cell."""
        cells = (centre.size - start) // width

        def along(direction):
            return (gradient(centre - DIFFERENCE * direction) - gradient(centre + DIFFERENCE * direction)) / (2 * DIFFERENCE)

        columns = _border(gradient, centre, start)
        blocks = np.empty((cells, width, width))
        for j in range(width):
            direction = np.zeros(centre.size)
            direction[start + j :: width] = 1.0  # cells do not meet: one difference does for all
            blocks[:, :, j] = along(direction)[start:].reshape(cells, width)
        return cls._of(centre, start, columns, blocks)

    @classmethod
    def near(cls, gradient, centre, start, scales, weights):
        """Return the coordinates where the blocks are nearly I + v σσᵀ∘J; see AbstractPrior.spectrum."""
        columns, width = _border(gradient, centre, start), len(scales)
        shift = columns[:width, :width] - np.eye(width)
        blocks = np.eye(width) + weights[:, None, None] * (scales[:, None] * scales * shift)
        return cls._of(centre, start, columns, blocks)

    @classmethod
    def _of(cls, centre, start, columns, blocks):
        cells, width = blocks.shape[:2]
        values, vectors = np.linalg.eigh(0.5 * (blocks + blocks.transpose(0, 2, 1)))
        values = np.maximum(np.abs(values), CURVATURES.least)
        halves = (vectors / np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
        border = columns[start:].reshape(cells, width, start)
        solved = (vectors / values[:, None, :]) @ (vectors.transpose(0, 2, 1) @ border)
        schur = columns[:start] - np.einsum("cks,ckt->st", border, solved)
        shared, _ = roots(schur)
        return cls(centre, shared, halves, np.ascontiguousarray((solved @ shared).reshape(cells * width, start).T))

    @property
    def dense(self):
        """Whether there are no cells."""
        return not len(self.blocks)

    @property
    def variances(self):
        """Variances of the unknowns, where the coordinates are standard normal."""
        diagonal = (self.blocks**2).sum(axis=1).ravel() + (self.border**2).sum(axis=0)
        return np.append((self.shared**2).sum(axis=0), diagonal)

    def of(self, u):
        """Return the unknowns of coordinates, shape (…, u)."""
        v, w = self._parts(u)
        cells = np.matmul(w[..., None, :], self.blocks).reshape(*u.shape[:-1], self.border.shape[1])
        return self.centre + np.concatenate([v @ self.shared, cells - v @ self.border], axis=-1)

    def placed(self, u):
        """Return (unknowns of coordinates (S, u), log of their volume for a unit of these)."""
        volume = np.linalg.slogdet(self.shared)[1] + np.linalg.slogdet(self.blocks)[1].sum()
        return self.of(u), np.full(len(u), volume)

    def gradient(self, slope):
        """Return the gradient in the coordinates, of one in the unknowns (u,)."""
        start = len(self.shared)
        cells = np.matmul(self.blocks, self._parts(slope)[1][..., None])
        return np.append(self.shared @ slope[:start] - self.border @ slope[start:], cells)

    def back(self, z):
        """Return the coordinates of unknowns, shape (…, u)."""
        start = len(self.shared)
        offset = z - self.centre
        v = np.linalg.solve(self.shared.T, offset[..., :start].T).T
        offset[..., start:] += v @ self.border
        w = np.linalg.solve(self.blocks, self._parts(offset)[1][..., None])
        return np.concatenate([v, w.reshape(*z.shape[:-1], self.border.shape[1])], axis=-1)

    def stretched(self, u):
        """Return coordinates in which enough draws (S, u) have shared ones with mean zero and covariance one."""
        v, _ = self._parts(u)
        if not 0 < 2 * v.shape[1] < len(v):
            return self
        _, root = spread(v)
        there = np.zeros(u.shape[1])
        there[: v.shape[1]] = v.mean(axis=0)
        return replace(self, centre=self.of(there), shared=root @ self.shared, border=root @ self.border)

    @property
    def frame(self):
        """What compiled functions read."""
        return self.centre, self.shared, self.blocks, self.border

    def _parts(self, u):
        """Return coordinates or unknowns in two parts: the shared ones (…, s), and the cells' own (…, cells, k)."""
        start = len(self.shared)
        return u[..., :start], u[..., start:].reshape(*u.shape[:-1], *self.blocks.shape[:2])


def _border(gradient, centre, start):
    """Return the columns of minus the Hessian of the first unknowns, shape (u, start)."""
    steps = DIFFERENCE * np.eye(start, centre.size)
    return np.array([gradient(centre - step) - gradient(centre + step) for step in steps]).T / (2 * DIFFERENCE)
