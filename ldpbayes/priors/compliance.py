"""Respondents who deny or ignore the device: Beta priors of their shares, independent of the distribution of answers.

Of one distribution; ``priors/extended.py`` joins them to a prior over all cells. What the further categories are called and
what is said of them is no prior: ``collections/wrappers/``, one file a wrapper.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.priors.dirichlet import Dirichlet
from ldpbayes.priors.naming import as_prior
from ldpbayes.priors.tree import AbstractTree

#: Memory: Most laws by which respondents may ignore the device.
MAX_LAWS = 1000
#: Rule: The prior of the share who ignore the device: one in ten in the mean, a quarter or more with probability 0.075.
BETA = (1.0, 9.0)
#: Rule: The prior of the share of a category who deny it: uniform.
EVEN = (1.0, 1.0)

type Owners = tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class Compliance(AbstractTree):
    """p′ = ((1 − γ) P, γ s): γ ~ Beta(b, c), P by a separate prior, and s ~ Dirichlet(b/m, …), all independent.

    The last n_laws categories are the respondents who ignore the device, γ is their share and s how they split over the m
    laws. Where P ~ Dirichlet(α) and c = Σα, p′ is Dirichlet(α, b/m, …), which exact methods handle.

    Parameters
    ----------
    compliers : str, float, array or AbstractPrior
        Prior of P, as ``fit`` takes one.
    gamma : pair of float
        b and c.
    n_laws : int
    n_categories : int, optional
        Of p′; filled in by the collection.
    """

    compliers: object = "jeffreys"
    gamma: tuple[float, float] = BETA
    n_laws: int = 1
    n_categories: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "gamma", _beta(self.gamma, "gamma"))
        size = checks.integer(self.n_laws, "n_laws", 1, MAX_LAWS)
        # γ ~ Beta(b, c) and an independent split s ~ Dirichlet(b/m, …) are one Dirichlet of the compliers and the m laws.
        object.__setattr__(self, "_top", Dirichlet(np.array([self.gamma[1], *[self.gamma[0] / size] * size])))
        start = np.zeros(size)
        start[0] = math.log(self.gamma[1] * size / self.gamma[0])
        object.__setattr__(self, "_start", start)
        if self.n_categories is not None:
            object.__setattr__(
                self, "n_categories", checks.integer(self.n_categories, "n_categories", size + 2, checks.MAX_CATEGORIES)
            )
            n_others = self.n_categories - size
            object.__setattr__(self, "blocks", (tuple(range(n_others)), *((n_others + k,) for k in range(size))))
            # A wrong prior is refused here, not when it is first used.
            object.__setattr__(self, "_inner", (as_prior(self.compliers, n_others),))

    def sized(self, n_categories: int, n_cells: int | None) -> "Compliance":
        _of_one_cell(n_cells)
        return super().sized(n_categories, n_cells)

    def beside(self, owners: Owners) -> "Compliance":
        if any(x is not None for x in owners):
            raise ArgumentError("prior must be one of shares who deny, such as Denial: these respondents may deny.")
        return self if self.n_categories is not None else replace(self, n_laws=len(owners))

    def without(self, owners: Owners) -> AbstractPrior:
        return self._inner[0]

    def describe(self) -> str:
        b, c = self.gamma
        return f"{self._inner[0].describe()} for the compliers, Beta({b:g}, {c:g}) for the share of others"

    def to_dict(self) -> dict[str, np.ndarray]:
        inner = {f"compliers_{name}": value for name, value in self._inner[0].to_dict().items()}
        return {"noncompliance_beta": np.array(self.gamma), **inner}


@dataclass(frozen=True, eq=False)
class Denial(AbstractTree):
    """p′ = (P with (1 − δ_s) P_s in the places of the categories s that are denied, then δ_s P_s): δ_s ~ Beta(b, c).

    The last categories are those who deny, in the order of ``of``. All δ and P are independent: a Dirichlet tree where P is
    Dirichlet, and where b + c = α_s a Dirichlet, which exact methods handle.

    Parameters
    ----------
    compliers : str, float, array or AbstractPrior
        Prior of P, as ``fit`` takes one.
    denial : pair of float
        b and c.
    of : sequence of int
        Positions of the categories that are denied; filled in by the collection.
    n_categories : int, optional
        Of p′; filled in by the collection.
    """

    compliers: object = "jeffreys"
    denial: tuple[float, float] = EVEN
    of: tuple[int, ...] = (1,)
    n_categories: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "denial", _beta(self.denial, "denial"))
        of = tuple(checks.integer(x, "of", 0) for x in checks.entries(self.of, "of", "positions of categories"))
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "_inner", (Dirichlet(np.array(self.denial[::-1])),) * len(of))
        if self.n_categories is not None:
            answers = checks.integer(self.n_categories, "n_categories", len(of) + 2, checks.MAX_CATEGORIES) - len(of)
            if not of or len(set(of)) != len(of) or max(of) >= answers:
                raise ArgumentError(f"of must be positions of different categories, got {shown(list(of))}.")
            object.__setattr__(self, "_top", as_prior(self.compliers, answers))
            pairs = {x: (x, answers + k) for k, x in enumerate(of)}
            object.__setattr__(self, "blocks", tuple(pairs.get(x, (x,)) for x in range(answers)))

    def sized(self, n_categories: int, n_cells: int | None) -> "Denial":
        _of_one_cell(n_cells)
        return super().sized(n_categories, n_cells)

    def beside(self, owners: Owners) -> "Denial":
        if None in owners:
            raise ArgumentError(
                "prior must be one of those who ignore the device, such as Compliance: nobody may deny here."
            )
        return self if self.n_categories is not None else replace(self, of=owners)

    def without(self, owners: Owners) -> AbstractPrior:
        return self._top

    def split(self) -> tuple[np.ndarray, int, tuple[float, float]] | None:
        alpha = self._top.concentrations()
        return None if alpha is None or len(self.of) > 1 else (alpha, self.of[0], self.denial)

    def describe(self) -> str:
        b, c = self.denial
        return f"{self._top.describe()} for all, Beta({b:g}, {c:g}) for the share of a category who deny"

    def to_dict(self) -> dict[str, np.ndarray]:
        inner = {f"compliers_{name}": value for name, value in self._top.to_dict().items()}
        return {"denial_beta": np.array(self.denial), **inner}


def over_cells(one: Compliance | Denial, answers: AbstractPrior, owners: Owners, n_categories: int) -> Compliance | Denial:
    """Return a prior of shares of one cell whose prior of P is one over all cells, for p′ of so many categories."""
    shares = replace(one.beside(owners), compliers="jeffreys", n_categories=n_categories)
    object.__setattr__(shares, *(("_inner", (answers,)) if None in owners else ("_top", answers)))
    return shares


def _beta(value: object, name: str) -> tuple[float, ...]:
    """Return the two parameters of a Beta distribution, checked."""
    rule = "the two parameters of a Beta distribution"
    pair = checks.entries(value, name, rule)
    if len(pair) != 2:
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    return tuple(checks.positive(x, name) for x in pair)


def _of_one_cell(n_cells: int | None) -> None:
    """Refuse a prior for several cells at once."""
    if n_cells is not None:
        raise ArgumentError("prior must be over the categories of one cell where respondents may deny or ignore the device.")
