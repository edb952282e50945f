"""Coordinates in which the posterior of all cells is nearly standard normal, from its Hessian at one point."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ldpbayes.inference.hmc import stepwise
from ldpbayes.inference.structure import DIFFERENCE, LEAST, curvature, roots, spread

#: Most unknowns with a dense Hessian.
MAX_DENSE = 400


class AbstractCoordinates:
    """Coordinates u of unknowns z = of(u).

    Attributes
    ----------
    white : bool
        Whether the posterior is nearly standard normal in them.
    """

    white: ClassVar[bool] = True

    def density(self, target):
        """Return u → (log-density, gradient): in one compiled call where the prior has such a form."""
        whole = self.compiled(target)
        if whole is not None:
            return whole

        def stepwise(u):
            value, slope = target.value_and_gradient(self.of(u))
            return value, self.gradient(slope)

        return stepwise

    def trajectories(self, target):
        """Return what moves a chain along trajectories; see inference.hmc."""
        return stepwise(self.density(target))

    def compiled(self, target):
        """Return u → (log-density, gradient) in one compiled call, or None where the prior has no such form."""
        return None

    def stretched(self, u):
        """Return coordinates in which draws of the first of these have covariance one, where they are apart."""
        return self


@dataclass(frozen=True, eq=False)
class Plain(AbstractCoordinates):
    """z = centre + u."""

    centre: np.ndarray
    white: ClassVar[bool] = False

    def of(self, u):
        return self.centre + u

    def gradient(self, slope):
        return slope

    def back(self, z):
        return z - self.centre


@dataclass(frozen=True, eq=False)
class Dense(AbstractCoordinates):
    """z = centre + R u with R Rᵀ the inverse of the absolute value of the Hessian."""

    centre: np.ndarray
    root: np.ndarray
    inverse: np.ndarray

    @classmethod
    def at(cls, gradient, centre):
        """Return the coordinates about a point; gradient is that of the log-density."""
        return cls(centre, *roots(curvature(gradient, centre)))

    def of(self, u):
        return self.centre + u @ self.root

    def gradient(self, slope):
        return self.root @ slope

    def back(self, z):
        return (z - self.centre) @ self.inverse


@dataclass(frozen=True, eq=False)
class Arrow(AbstractCoordinates):
    """Shared unknowns h and k unknowns for each cell: the Hessian has blocks on the diagonal and a border.

    With blocks K_c, border B_c and Schur complement S = A − Σ B_cᵀ K_c⁻¹ B_c: h = ĥ + S^{−½} v and
    z_c = ẑ_c + K_c^{−½} w_c − K_c⁻¹ B_c (h − ĥ).

    Attributes
    ----------
    centre : (u,) array
    shared, blocks, border : (s, s), (cells, k, k) and (s, cells·k) arrays
        S^{−½}, K^{−½}, and (K⁻¹ B S^{−½})ᵀ.
    """

    centre: np.ndarray
    shared: np.ndarray
    blocks: np.ndarray
    border: np.ndarray

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
        """Return the coordinates where the blocks are nearly I + v σσᵀ∘J; see priors.base.Logits.spectrum."""
        columns, width = _border(gradient, centre, start), len(scales)
        shift = columns[:width, :width] - np.eye(width)
        blocks = np.eye(width) + weights[:, None, None] * (scales[:, None] * scales * shift)
        return cls._of(centre, start, columns, blocks)

    @classmethod
    def _of(cls, centre, start, columns, blocks):
        cells, width = blocks.shape[:2]
        values, vectors = np.linalg.eigh(0.5 * (blocks + blocks.transpose(0, 2, 1)))
        values = np.maximum(np.abs(values), LEAST)
        halves = (vectors / np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
        border = columns[start:].reshape(cells, width, start)
        solved = (vectors / values[:, None, :]) @ (vectors.transpose(0, 2, 1) @ border)
        schur = columns[:start] - np.einsum("cks,ckt->st", border, solved)
        shared, _ = roots(schur)
        return cls(centre, shared, halves, np.ascontiguousarray((solved @ shared).reshape(cells * width, start).T))

    def of(self, u):
        if u.ndim == 1:
            out = np.empty(u.size)
            _kernels().arrow(u, out, *self._frame)
            return out
        start = len(self.shared)
        v, w = u[..., :start], u[..., start:].reshape(*u.shape[:-1], *self.blocks.shape[:2])
        out = np.empty_like(u)
        out[..., :start] = v @ self.shared
        out[..., start:] = np.matmul(w[..., None, :], self.blocks).reshape(*u.shape[:-1], -1) - v @ self.border
        out += self.centre
        return out

    def gradient(self, slope):
        out = np.empty(slope.size)
        _kernels().arrow_gradient(slope, out, *self._frame)
        return out

    def back(self, z):
        start = len(self.shared)
        offset = z - self.centre
        v = np.linalg.solve(self.shared.T, offset[..., :start].T).T
        left = (offset[..., start:] + v @ self.border).reshape(*z.shape[:-1], *self.blocks.shape[:2])
        w = np.linalg.solve(self.blocks, left[..., None])[..., 0]
        return np.concatenate([v, w.reshape(*z.shape[:-1], -1)], axis=-1)

    def stretched(self, u):
        _, root = spread(u[:, : len(self.shared)])
        return replace(self, shared=root @ self.shared, border=root @ self.border)

    def compiled(self, target):
        if target.grouped is None:
            return None
        kernel, known = _kernels().density, self._known(target)

        def density(u):
            out = np.empty(u.size)
            return kernel(u, out, *known), out

        return density

    def trajectories(self, target):
        if target.grouped is None:
            return super().trajectories(target)
        kernel, known = _kernels().trajectories, self._known(target)
        return lambda *moved: kernel(*moved, *known)

    @property
    def _frame(self):
        return self.centre, self.shared, self.blocks, self.border

    def _known(self, target):
        """Return what the compiled functions read, and room for them to work in."""
        form, (cells, a), (_, width) = target.grouped, target.prior.shape, self.blocks.shape[:2]
        size, shape = self.centre.size, (1 + cells, width)
        room = tuple(np.empty(one) for one in (size, size, shape, shape))
        reports = form.centre, form.scale, form.basis, np.empty((cells, a)), np.empty((cells, a)), target.forms.arrays
        return room, self._frame, target.straight.arrays(0, width), reports


class Within:
    """The density of a target in coordinates of its bent unknowns, as inference.sampling takes it.

    Parameters
    ----------
    target : Target
    coordinates : AbstractCoordinates
    """

    def __init__(self, target, coordinates):
        self.target, self.coordinates = target, coordinates
        self.pair = coordinates.density(target), coordinates.trajectories(target)

    def of(self, u):
        return self.target.unbent(self.coordinates.of(u))

    def back(self, z):
        bend = self.target.bend
        return self.coordinates.back(z if bend is None else bend.back(z))

    def anew(self, u):
        return Within(self.target, self.coordinates.stretched(u))


def _border(gradient, centre, start):
    """Return the columns of minus the Hessian of the first unknowns, shape (u, start)."""
    steps = DIFFERENCE * np.eye(start, centre.size)
    return np.array([gradient(centre - step) - gradient(centre + step) for step in steps]).T / (2 * DIFFERENCE)


def _kernels():
    from ldpbayes.posteriors.joint import _kernels

    return _kernels


def whitened(target, centre):
    """Return the coordinates for a target about a point: an arrow, a dense root, or none where there are too many."""

    def gradient(z):
        return target.value_and_gradient(z)[1]

    if target.local is not None:
        return Arrow.at(gradient, centre, *target.local)
    if centre.size <= MAX_DENSE:
        return Dense.at(gradient, centre)
    if (spectrum := target.spectrum(centre)) is not None:
        return Arrow.near(gradient, centre, *spectrum)
    return Plain(centre)
