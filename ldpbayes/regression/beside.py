"""Regressions beside which further unknowns change what reports say: who denies, how many items of a list apply."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import Law, NormalLaw
from ldpbayes.priors.regression import SCALE, Regression
from ldpbayes.regression.target import Target

#: Numbers that a block of draws × entries holds: few enough to stay near the processor.
BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class Beside(Regression):
    """The prior of a regression, and of unknowns of another part: standard normal, some of them slopes of its columns W̃.

    The columns W̃ are centred and divided by their sd, so that the other unknowns hold where they are at their means.

    Parameters
    ----------
    other_design : (cells, terms) array
        W, the first column of which is ones.
    other_terms : tuple of str
    """

    other_design: np.ndarray = field(default_factory=lambda: np.ones((1, 1)))
    other_terms: tuple[str, ...] = ("Intercept",)
    #: Name of the block of unknowns, and of the dim of its terms.
    part: ClassVar[str]
    #: Prior sd of a slope, for one sd of its column.
    slope: ClassVar[float] = SCALE

    @abc.abstractmethod
    def other_shape(self) -> tuple[int, ...]:
        """Return the shape of the block of unknowns of the other part."""

    @property
    @abc.abstractmethod
    def owners(self) -> np.ndarray:
        """The category of each kind of people, (kinds,): the columns of the likelihood rows are these kinds."""

    @abc.abstractmethod
    def parts(self, z: np.ndarray) -> np.ndarray:
        """Return the share of each kind among the people of its category, shape (…, cells, kinds)."""

    @abc.abstractmethod
    def pulled_parts(self, z: np.ndarray, parts: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return the gradient in the other unknowns of a function of the parts with the gradient slope, (cells, kinds)."""

    @cached_property
    def _standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of the columns of W but the first, and what a unit of z changes the logit by for one unit of them."""
        columns = self.other_design[:, 1:]
        assert self.sizes is not None
        weight = self.sizes / self.sizes.sum()
        mean = weight @ columns
        sd = np.sqrt(weight @ (columns - mean) ** 2)
        return mean, self.slope / np.where(sd > 1e-12 * np.abs(columns).max(axis=0, initial=0.0), sd, 1.0)

    @cached_property
    def other_columns(self) -> np.ndarray:
        """W̃ times the prior sd of its slopes, without the intercept, shape (cells, terms − 1)."""
        return (self.other_design[:, 1:] - self._standard[0]) * self._standard[1]

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        return {**super().blocks(), self.part: (NormalLaw(), self.other_shape())}

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        return super().pulled(values, slope) | {self.part: np.zeros_like(values[self.part])}

    def others(self, z: np.ndarray) -> np.ndarray:
        """Return the unknowns of the other part."""
        return self.values(np.asarray(z, dtype=float))[self.part]

    def in_blocks(self, z: np.ndarray, each: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return what a function makes of (people of each cell and category, z), shape (k, *shape), in blocks of draws."""
        out, sizes = np.empty((len(z), *shape)), np.asarray(self.sizes)
        step = max(BLOCK // len(self.owners) // len(self.design), 1)
        for start in range(0, len(z), step):
            part = slice(start, start + step)
            out[part] = each(sizes[:, None] * self.to_simplex(z[part]), z[part])
        return out

    def coords(self) -> dict[str, Sequence]:
        return {**super().coords(), f"{self.part}_term": list(self.other_terms)}


@dataclass(frozen=True, eq=False)
class BesideTarget(Target):
    """The target of a regression whose reports hang on kinds of people within its categories."""

    prior: Any
    #: There is no compiled density.
    kernel: ClassVar[Any] = None  # type: ignore[misc]  # a property of what is compiled

    @cached_property
    def collapse(self) -> np.ndarray:
        """Which category each kind is of, ones and zeros of shape (kinds, a)."""
        return np.eye(self.prior.n_categories)[self.prior.owners]

    def pooled(self) -> np.ndarray:
        return super().pooled() @ self.collapse

    def joint(self, z: np.ndarray, cell: np.ndarray, code: np.ndarray) -> np.ndarray:
        prior = self.prior
        kinds = prior.to_simplex(z)[:, prior.owners] * prior.parts(z)
        return (kinds[cell] * self.reports.table[code]) @ self.collapse

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        prior, e = self.prior, self.reports
        p, parts = prior.to_simplex(z), prior.parts(z)
        whole, rows = p[:, prior.owners], e.table[e.row]
        seen = np.maximum(((whole * parts)[e.cell] * rows).sum(axis=1), 1e-300)
        slope = np.stack([np.bincount(e.cell, column * e.weight / seen, e.n_cells) for column in rows.T], axis=1)
        along = (slope * parts) @ self.collapse
        out = prior.pullback_logits(z, p * (along - (p * along).sum(axis=1, keepdims=True)))
        own = prior.pulled_parts(z, parts, slope * whole)
        out[out.size - own.size :] = own.ravel()
        value = float(e.weight @ np.log(seen))
        return (value, out) if self.flat else (value + float(prior.log_density(z)), out + prior.gradient(z))

    def likelihoods(self, z: np.ndarray, *, tallies: bool = False, watch=None):
        e, a, size = self.reports, self.prior.n_categories, len(z)
        value, shares, expected = np.full(size, e.constant), np.empty((size, a)), np.zeros((size, a))
        step = max(BLOCK // (e.n_categories * (e.cell.size + e.n_cells)), 1)
        by_row = [(row, np.flatnonzero(e.row == row)) for row in np.unique(e.row)]
        for start in range(0, size, step):
            part = slice(start, start + step)
            p = self.prior.to_simplex(z[part])
            kinds = p[..., self.prior.owners] * self.prior.parts(z[part])
            shares[part] = np.einsum("c,sca->sa", e.sizes, p)
            for row, some in by_row:
                here = kinds[:, e.cell[some]]
                seen = np.maximum(here @ e.table[row], 1e-300)
                value[part] += np.log(seen) @ e.weight[some]
                if tallies:
                    kind = np.einsum("se,sek->sk", e.weight[some] / seen, here) * e.table[row]
                    expected[part] += kind @ self.collapse
        return value, shares, expected if tallies else None


def checked_intercept(columns: np.ndarray, what: str) -> None:
    """Refuse columns W without an intercept."""
    if not (columns[:, 0] == 1).all():
        raise ArgumentError(f"the formula of {what} must keep its intercept.")
