"""Respondents who ignore the device: a Beta prior of their share, independent of the compliers' distribution."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.priors.dirichlet import Dirichlet
from ldpbayes.priors.naming import as_prior
from ldpbayes.priors.tree import AbstractTree

#: The prior of the share who ignore the device: one in ten in the mean, a quarter or more with probability 0.075.
BETA = (1.0, 9.0)
#: Most laws by which respondents may ignore the device.
MAX_LAWS = 1000


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
        rule = "the two parameters of a Beta distribution"
        gamma = checks.entries(self.gamma, "gamma", rule)
        if len(gamma) != 2:
            raise ArgumentError(f"gamma must be {rule}, got {shown(self.gamma)}.")
        object.__setattr__(self, "gamma", tuple(checks.positive(value, "gamma") for value in gamma))
        size = checks.integer(self.n_laws, "n_laws", 1, MAX_LAWS)
        # γ ~ Beta(b, c) and an independent split s ~ Dirichlet(b/m, …) are one Dirichlet of the compliers and the m laws.
        object.__setattr__(self, "_top", Dirichlet(np.array([self.gamma[1], *[self.gamma[0] / size] * size])))
        start = np.zeros(size)
        start[0] = math.log(self.gamma[1] * size / self.gamma[0])
        object.__setattr__(self, "_start", start)
        if self.n_categories is not None:
            object.__setattr__(self, "n_categories", checks.integer(self.n_categories, "n_categories", size + 2))
            others = self.n_categories - size
            object.__setattr__(self, "blocks", (tuple(range(others)), *((others + k,) for k in range(size))))
            # A wrong prior is refused here, not when it is first used.
            object.__setattr__(self, "_inner", (as_prior(self.compliers, others),))

    def sized(self, n_categories: int, n_cells: int | None) -> "Compliance":
        if n_cells is not None:
            raise ArgumentError("prior must be over the categories of one cell where respondents may ignore the device.")
        return super().sized(n_categories, n_cells)

    def beside(self, n_laws: int) -> "Compliance":
        return self if self.n_categories is not None else replace(self, n_laws=n_laws)

    def without(self, n_laws: int) -> AbstractPrior:
        return self._inner[0]

    def describe(self) -> str:
        b, c = self.gamma
        return f"{self._inner[0].describe()} for the compliers, Beta({b:g}, {c:g}) for the share of others"

    def to_dict(self) -> dict[str, np.ndarray]:
        inner = {f"compliers_{name}": value for name, value in self._inner[0].to_dict().items()}
        return {"noncompliance_beta": np.array(self.gamma), **inner}
