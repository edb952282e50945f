"""The posterior density of a regression's unknowns, with its gradient and Hessian, over all cells at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldpbayes.inference.bending import Batch
from ldpbayes.inference.effects import AbstractTarget
from ldpbayes.inference.structure import curvature
from ldpbayes.priors.regression import Regression
from ldpbayes.regression.reports import Entries

#: Draws between two looks at whether to stop, and evaluations (cells × draws × categories) beyond which progress is shown.
TOGETHER, WATCHED = 512, 5e8


@dataclass(frozen=True, eq=False)
class Target(AbstractTarget):
    """log prior(z) + log P(Y | z), or the likelihood alone.

    Attributes
    ----------
    prior : Regression
    entries : Entries
    flat : bool
        Leave the prior out: for maximum likelihood.
    """

    prior: Regression
    entries: Entries
    flat: bool = False

    # ---- the linear map from unknowns to logits ------------------------------------------------------------------------
    @cached_property
    def columns(self) -> np.ndarray:
        """All columns that have coefficients, those of groups too, shape (cells, K)."""
        parts = [effect.matrix / np.sqrt(2) for effect in self.prior.effects]
        return np.hstack([self.prior.columns, *parts]) if parts else self.prior.columns

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What compiled functions read: where each cell's columns other than zero begin, these and their values; entries."""
        e = self.entries
        cell, index = np.nonzero(self.columns)
        sparse = np.searchsorted(cell, np.arange(e.n_cells + 1)), index, self.columns[cell, index]
        return tuple(np.ascontiguousarray(part) for part in (*sparse, e.starts, e.row, e.weight, e.table, e.sizes))

    # ---- what chains ask for -------------------------------------------------------------------------------------------
    @cached_property
    def batches(self) -> list[Batch]:
        """The effects of each factor."""
        free = self.prior.n_categories - 1
        return [
            Batch(place, slice(start, start + len(effect.levels) * free), float(effect.scale), 2)
            for effect, (place, start) in zip(self.prior.effects, self.prior.places, strict=True)
        ]

    @property
    def visited(self) -> int:
        """Entries of the likelihood."""
        return self.entries.cell.size * self.entries.n_categories

    @property
    def kernel(self) -> tuple:
        """What the compiled density reads."""
        free = self.prior.n_categories - 1
        shape = self.columns.shape[1], free
        return 0, self.prior.design.shape[1] * free, shape, (self.prior.basis, *self.arrays)

    # ---- one point -----------------------------------------------------------------------------------------------------
    def stacked(self, z: np.ndarray) -> np.ndarray:
        """Return the coefficients of the columns in the basis V, shape (…, K, a − 1)."""
        prior, free = self.prior, self.prior.n_categories - 1
        k = prior.design.shape[1]
        parts = [z[..., : k * free].reshape(*z.shape[:-1], k, free)]
        for effect, (at, start) in zip(prior.effects, prior.places, strict=True):
            m = len(effect.levels)
            own = z[..., start : start + m * free].reshape(*z.shape[:-1], m, free)
            parts.append(np.exp(np.minimum(z[..., at], 300.0))[..., None, None] * own)
        return np.concatenate(parts, axis=-2)

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density at z, without the constants of the likelihood, and its gradient."""
        from ldpbayes.inference import _kernels

        prior, free = self.prior, self.prior.n_categories - 1
        stacked, out = self.stacked(z), np.empty(prior.n_unknowns)
        slope, k = np.empty_like(stacked), prior.design.shape[1]
        value = _kernels.likelihood(stacked, slope, prior.basis, *self.arrays)
        out[: k * free] = slope[:k].ravel()
        for effect, (at, start) in zip(prior.effects, prior.places, strict=True):
            m = len(effect.levels)
            out[start : start + m * free] = np.exp(min(z[at], 300.0)) * slope[k : k + m].ravel()
            out[at] = (slope[k : k + m] * stacked[k : k + m]).sum()
            k += m
        if self.flat:
            return value, out
        return value + float(prior.log_density(z)), out + prior.gradient(z)

    def hessian(self, z: np.ndarray) -> np.ndarray:
        """Return the Hessian at z by differences of the gradient, which costs less than writing out every cell's."""
        return -curvature(lambda at: self.value_and_gradient(at)[1], z)

    # ---- many points ---------------------------------------------------------------------------------------------------
    def log_density(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density of many z, shape (S, n_unknowns), with the likelihood's constants, and z itself."""
        found = self.likelihoods(z)[0]
        return found + (0.0 if self.flat else self.prior.log_density(z)), z

    def likelihoods(self, z: np.ndarray, *, tallies: bool = False, watch=None):
        """Return (log-likelihoods (S,), sums over people of P (S, a), sums of the expected true tallies or None).

        Parameters
        ----------
        z : (S, n_unknowns) array
        tallies : bool
            Whether to add up E[T | z, reports] = Σ_e w_e q_e, shape (S, a).
        watch : Watch, optional
        """
        from ldpbayes.regression import _kernels

        a, size = self.prior.n_categories, len(z)
        value, shares = np.full(size, self.entries.constant), np.empty((size, a))
        expected = np.empty((size, a)) if tallies else None
        blocks = range(0, size, TOGETHER)
        if watch is not None and self.columns.shape[0] * size * a > WATCHED:
            blocks = watch.track(blocks, "Likelihood of the draws", len(blocks))
        for start in blocks:
            part = slice(start, min(start + TOGETHER, size))
            many = part.stop - start
            contrasts = self.stacked(z[part]) @ (self.prior.basis[1:] - self.prior.basis[0]).T  # (S, K, a - 1)
            sums = np.zeros((a, many)), np.zeros((a if tallies else 0, many))
            moved = np.ascontiguousarray(np.moveaxis(contrasts, 0, -1).swapaxes(0, 1))
            _kernels.of_draws(moved, *self.arrays, value[part], *sums)
            shares[part] = sums[0].T
            if expected is not None:
                expected[part] = sums[1].T
        return value, shares, expected
