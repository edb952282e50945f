"""Respondents who ignore the device: a Beta prior of their share, independent of the compliers' distribution."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.priors.dirichlet import Dirichlet
from ldpbayes.priors.naming import as_prior

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

#: The prior of the share who ignore the device: one in ten in the mean, a quarter or more with probability 0.075.
BETA = (1.0, 9.0)


@dataclass(frozen=True, eq=False)
class Compliance(AbstractPrior):
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
        object.__setattr__(self, "n_laws", checks.integer(self.n_laws, "n_laws", minimum=1))
        if self.n_categories is not None:
            least = self.n_laws + 2
            object.__setattr__(self, "n_categories", checks.integer(self.n_categories, "n_categories", least))
            self._inner  # noqa: B018 -- a wrong prior is refused here, not when it is first used

    def sized(self, n_categories: int, n_cells: int | None) -> "Compliance":
        if n_cells is not None:
            raise ArgumentError("prior must be over the categories of one cell where respondents may ignore the device.")
        return super().sized(n_categories, n_cells)

    def beside(self, n_laws: int) -> "Compliance":
        return self if self.n_categories is not None else replace(self, n_laws=n_laws)

    def without(self, n_laws: int) -> AbstractPrior:
        return self._inner

    @cached_property
    def _inner(self) -> AbstractPrior:
        return as_prior(self.compliers, self.n_categories - self.n_laws)

    @cached_property
    def _share(self):
        """The prior of (γ, 1 − γ), and the logit at which its unknown is zero."""
        return Dirichlet(np.array(self.gamma)), math.log(self.gamma[0] / self.gamma[1])

    @cached_property
    def _split(self) -> Dirichlet | None:
        return None if self.n_laws == 1 else Dirichlet(np.full(self.n_laws, self.gamma[0] / self.n_laws))

    def _parts(self, z):
        """Return the unknowns of γ (shifted to its logit), of s and of P."""
        z = np.asarray(z, dtype=float)
        return z[..., :1] + self._share[1], z[..., 1 : self.n_laws], z[..., self.n_laws :]

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        return self._inner.hyperparameter_names

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self._inner.hyperparameters(self._parts(z)[2])

    @property
    def n_unknowns(self) -> int:
        return self.n_laws + self._inner.n_unknowns

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        share = self._share[0].sample(size, rng)[:, :1]
        split = np.ones((size, 1)) if self._split is None else self._split.sample(size, rng)
        return np.concatenate([(1 - share) * self._inner.sample(size, rng), share * split], axis=1)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        share, split, inner = self._parts(z)
        value = self._share[0].log_density(share) + self._inner.log_density(inner)
        return value if self._split is None else value + self._split.log_density(split)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        share, split, inner = self._parts(z)
        middle = [] if self._split is None else [self._split.gradient(split)]
        return np.concatenate([self._share[0].gradient(share), *middle, self._inner.gradient(inner)])

    def _pieces(self, z):
        """Return (γ, 1 − γ), s and P."""
        share, split, inner = self._parts(z)
        laws = np.ones_like(share) if self._split is None else self._split.to_simplex(split)
        return self._share[0].to_simplex(share), laws, self._inner.to_simplex(inner)

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        share, laws, p = self._pieces(z)
        return np.concatenate([share[..., 1:] * p, share[..., :1] * laws], axis=-1)

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        share, laws, p = self._pieces(z)
        parts, first = self._parts(z), dp.size - self.n_laws
        along = np.array([dp[first:] @ laws, dp[:first] @ p])
        middle = [] if self._split is None else [self._split.pullback(parts[1], share[0] * dp[first:])]
        inner = self._inner.pullback(parts[2], share[1] * dp[:first])
        return np.concatenate([self._share[0].pullback(parts[0], along), *middle, inner])

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        share = pm.Beta(f"{name}_noncompliance", *self.gamma)
        laws = np.ones(1)
        if self._split is not None:
            laws = pm.Dirichlet(f"{name}_laws", self._split.alpha)
        return pt.concatenate([(1 - share) * self._inner.pymc(name), share * laws])

    def describe(self) -> str:
        return (
            f"{self._inner.describe()} for the compliers, Beta({self.gamma[0]:g}, {self.gamma[1]:g}) for the share of others"
        )

    def to_dict(self) -> dict[str, np.ndarray]:
        inner = {f"compliers_{name}": value for name, value in self._inner.to_dict().items()}
        return {"noncompliance_beta": np.array(self.gamma), **inner}

    def weight(self) -> float:
        alpha = self.concentrations()
        return float("nan") if alpha is None else float(alpha.sum())

    def tilted(self) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]] | None:
        alpha, (b, c) = self._inner.concentrations(), self.gamma
        if alpha is None:
            return None
        total, laws = float(alpha.sum()), np.full(self.n_laws, b / self.n_laws)

        def log_ratio(p: np.ndarray) -> np.ndarray:
            """Return log Beta(γ; b, c) − log Beta(γ; b, Σα)."""
            with np.errstate(divide="ignore"):
                return (c - total) * np.log(p[:, : alpha.size].sum(axis=1)) + betaln(b, total) - betaln(b, c)

        return np.concatenate([alpha, laws]), log_ratio

    def concentrations(self) -> np.ndarray | None:
        alpha = self._inner.concentrations()
        if alpha is None or not math.isclose(alpha.sum(), self.gamma[1], rel_tol=1e-12):
            return None
        return np.concatenate([alpha, np.full(self.n_laws, self.gamma[0] / self.n_laws)])
