"""The posterior density of a regression's unknowns, with its gradient and Hessian, over all cells at once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes.inference.bending import Batch
from ldpbayes.inference.effects import AbstractTarget
from ldpbayes.inference.structure import Dense, curvature
from ldpbayes.priors.regression import Regression, simplex
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
        parts = [effect.matrix * (effect.scale / np.sqrt(2)) for effect in self.prior.monotone]
        parts += [effect.matrix / np.sqrt(2) for effect in self.prior.effects]
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
            Batch(place, slice(start, start + effect.size * free), float(effect.scale), 2)
            for effect, (place, start) in zip(self.prior.effects, self.prior.places, strict=True)
        ]

    @property
    def visited(self) -> int:
        """Entries of the likelihood."""
        return self.entries.cell.size * self.entries.n_categories

    @cached_property
    def kernel(self) -> tuple:
        """What the compiled density reads."""
        prior, shape = self.prior, (self.columns.shape[1], self.prior.n_categories - 1)
        k = prior.design.shape[1]
        numbers = [at for at, _, _ in prior.rises]
        numbers += [start - i - 1 for i, (_, start) in enumerate(prior.places)]  # the scales are taken out
        terms: list[Any] = [*prior.monotone, *prior.effects]
        kinds = [2] * len(prior.monotone) + [int(effect.root is not None) for effect in prior.effects]
        sizes = [len(term.levels) for term in terms]
        rows = k + np.cumsum([0, *sizes])[:-1]
        parts = [(0, 0, 0, k), *zip(kinds, numbers, rows.tolist(), sizes, strict=True)]
        roots = np.concatenate([np.zeros(0), *(np.ravel(term.root) for term in terms if term.root is not None)])
        known = np.zeros(shape), np.zeros(shape), np.array(parts), roots, prior.basis, *self.arrays
        return 0, prior.fixed, (prior.n_unknowns - len(prior.effects),), known

    def functions(self, coordinates):
        if self.kernel is None or not isinstance(coordinates, Dense):
            return None
        from ldpbayes.regression import _kernels

        return _kernels.density, _kernels.trajectories

    def pooled(self) -> np.ndarray:
        """Return the distribution of all people together, roughly."""
        return self.entries.pooled()

    def stated_rows(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the likelihood rows as a result keeps them, as {name: (dims, values)}."""
        return {"likelihood_rows": (("code", "category"), self.entries.table)}

    def stated_columns(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return further columns of the cells that a result keeps, as {name: (dims, values)}."""
        return {}

    def joint(self, z: np.ndarray, cell: np.ndarray, code: np.ndarray) -> np.ndarray:
        """Return P(report, category) of reports by the numbers of their rows, given the cell of each, up to a constant."""
        return self.entries.table[code] * self.prior.to_simplex(z)[cell]

    # ---- one point -----------------------------------------------------------------------------------------------------
    def stacked(self, z: np.ndarray) -> np.ndarray:
        """Return the coefficients of the columns in the basis V, shape (…, K, a − 1)."""
        prior, free = self.prior, self.prior.n_categories - 1
        k = prior.design.shape[1]
        parts = [z[..., : k * free].reshape(*z.shape[:-1], k, free)]
        for rise, (at, start, end) in zip(prior.monotone, prior.rises, strict=True):
            parts.append((simplex(z[..., start:end]) @ rise.root.T)[..., None] * z[..., None, at:start])
        for effect, (at, start) in zip(prior.effects, prior.places, strict=True):
            own = z[..., start : start + effect.size * free].reshape(*z.shape[:-1], effect.size, free)
            own = np.exp(np.minimum(z[..., at], 300.0))[..., None, None] * own
            parts.append(own if effect.root is None else effect.root @ own)
        return np.concatenate(parts, axis=-2)

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density at z, without the constants of the likelihood, and its gradient."""
        from ldpbayes.regression import _kernels

        batches, scale = self.batches, np.ones(len(z))
        for batch in batches:
            scale[batch.span] = np.exp(min(z[batch.place], 300.0))
        effects, out = np.ones(len(z), dtype=bool), np.zeros(len(z))
        effects[[batch.place for batch in batches]] = False
        numbers = (scale * z)[effects]
        slope = np.empty_like(numbers)
        value = _kernels.likelihood(numbers, slope, *self.kernel[3])
        out[effects] = slope
        for batch in batches:
            out[batch.place] = (scale * out * z)[batch.span].sum()
        out *= scale
        if self.flat:
            return value, out
        return value + float(self.prior.log_density(z)), out + self.prior.gradient(z)

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
