"""Regressions beside which further unknowns change what reports say: who denies, how many items of a list apply."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes.arrays import blocks
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import Law, NormalLaw, softmax
from ldpbayes.priors.regression import SCALE, Regression, moments_of
from ldpbayes.regression.constants import LEAST, NUMBERS_IN_CACHE


@dataclass(frozen=True, eq=False)
class Beside(Regression):
    """The prior of a regression, and of unknowns of another part: what holds at the means of its columns W̃, and slopes.

    They say how the people of a category are divided into kinds (``owners``), which the columns of likelihood rows are.
    The columns W̃ are centred and divided by their sd, so that the other unknowns hold where they are at their means.

    Parameters
    ----------
    other_design : (cells, terms) array
        W, the first column of which is ones.
    other_terms : tuple of str
    """

    other_design: np.ndarray = field(default_factory=lambda: np.ones((1, 1)))
    other_terms: tuple[str, ...] = ("Intercept",)
    #: Name of the block of unknowns at the means, and of the dim of its terms; slopes are another block.
    part: ClassVar[str]
    #: Law of the unknowns at the means.
    law: ClassVar[Law] = NormalLaw()
    #: Prior sd of a slope, for one sd of its column.
    slope: ClassVar[float] = SCALE
    #: No engine compiles it as a whole.
    linear = None  # type: ignore[assignment]

    @abc.abstractmethod
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of the unknowns at the means, and of those that each column moves."""

    @abc.abstractmethod
    def parts(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the share of each kind among the people of its category, shape (…, cells, kinds)."""

    @abc.abstractmethod
    def pulled_parts(self, parts: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients in both blocks of a function of the parts with the gradient slope, (cells, kinds)."""

    def kinds(self, z: np.ndarray) -> np.ndarray:
        values = self.values(np.asarray(z, dtype=float))
        return softmax(self.eta(values, np))[..., self.owners] * self.parts(values)

    def logits_of(self, z: np.ndarray) -> np.ndarray:
        """Return the logits of the shares of all kinds, (…, cells, kinds)."""
        return np.log(np.maximum(self.kinds(z), LEAST))

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        return softmax(super().logits_of(z))

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        parts = self.parts(values)
        own = self.pulled_parts(parts, slope / np.maximum(parts, LEAST))
        return super().pulled(values, slope @ self.collapse) | dict(zip(self.others, own, strict=True))

    @property
    def others(self) -> tuple[str, str]:
        """Names of the blocks of the other part."""
        return self.part, f"{self.part}_slopes"

    @cached_property
    def _standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of the columns of W but the first, and what a unit of z changes the logit by for one unit of them."""
        mean, sd = moments_of(self.other_design[:, 1:], np.asarray(self.sizes))
        return mean, self.slope / sd

    @cached_property
    def other_columns(self) -> np.ndarray:
        """W̃ times the prior sd of its slopes, without the intercept, shape (cells, terms − 1)."""
        return (self.other_design[:, 1:] - self._standard[0]) * self._standard[1]

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        # Before the groups' effects, which stand last: see ``disjoint``.
        own, (first, moved) = dict(super().blocks()), self.shapes()
        effects = {name: own.pop(name) for pair in self.multiplied().items() for name in pair}
        slopes = NormalLaw(), (self.other_columns.shape[1], *moved)
        return {**own, **dict(zip(self.others, ((self.law, first), slopes), strict=True)), **effects}

    def in_blocks(self, z: np.ndarray, each: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return what a function makes of (people of each cell and category, values), (k, *shape), in blocks of draws."""
        out, sizes = np.empty((len(z), *shape)), np.asarray(self.sizes)
        for part in blocks(len(z), len(self.owners) * len(self.design), NUMBERS_IN_CACHE):
            values = self.values(z[part])
            out[part] = each(sizes[:, None] * softmax(self.eta(values, np)), values)
        return out

    def coords(self) -> dict[str, Sequence]:
        return {**super().coords(), f"{self.part}_term": list(self.other_terms)}


def checked_intercept(columns: np.ndarray, what: str) -> None:
    """Refuse columns W without an intercept."""
    if not (columns[:, 0] == 1).all():
        raise ArgumentError(f"the formula of {what} must keep its intercept.")
