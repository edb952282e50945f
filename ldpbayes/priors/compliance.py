"""Respondents who ignore the device: a Beta prior of their share, independent of the compliers' distribution."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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
#: Most laws by which respondents may ignore the device.
MAX_LAWS = 1000


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

    if TYPE_CHECKING:  # what __post_init__ makes

        @property
        def _shares(self) -> Dirichlet: ...
        @property
        def _inner(self) -> AbstractPrior: ...

    def __post_init__(self):
        rule = "the two parameters of a Beta distribution"
        gamma = checks.entries(self.gamma, "gamma", rule)
        if len(gamma) != 2:
            raise ArgumentError(f"gamma must be {rule}, got {shown(self.gamma)}.")
        object.__setattr__(self, "gamma", tuple(checks.positive(value, "gamma") for value in gamma))
        size = checks.integer(self.n_laws, "n_laws", 1, MAX_LAWS)
        # γ ~ Beta(b, c) and an independent split s ~ Dirichlet(b/m, …) are one Dirichlet of the compliers and the m laws.
        object.__setattr__(self, "_shares", Dirichlet(np.array([self.gamma[1], *[self.gamma[0] / size] * size])))
        if self.n_categories is not None:
            object.__setattr__(self, "n_categories", checks.integer(self.n_categories, "n_categories", size + 2))
            # A wrong prior is refused here, not when it is first used.
            object.__setattr__(self, "_inner", as_prior(self.compliers, self.n_categories - size))

    def sized(self, n_categories: int, n_cells: int | None) -> "Compliance":
        if n_cells is not None:
            raise ArgumentError("prior must be over the categories of one cell where respondents may ignore the device.")
        return super().sized(n_categories, n_cells)

    def beside(self, n_laws: int) -> "Compliance":
        return self if self.n_categories is not None else replace(self, n_laws=n_laws)

    def without(self, n_laws: int) -> AbstractPrior:
        return self._inner

    def _parts(self, z):
        """Return the unknowns of the shares of compliers and laws, which lie at their prior's mean at zero, and of P."""
        z, size, (b, c) = np.asarray(z, dtype=float), self._shares.n_unknowns, self.gamma
        shift = np.zeros(size)
        shift[0] = math.log(c * size / b)
        return z[..., :size] + shift, z[..., size:]

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self._inner.hyperparameters(self._parts(z)[1])

    @property
    def n_unknowns(self) -> int:
        return self._shares.n_unknowns + self._inner.n_unknowns

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        shares = self._shares.sample(size, rng)
        return np.concatenate([shares[:, :1] * self._inner.sample(size, rng), shares[:, 1:]], axis=1)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        shares, inner = self._parts(z)
        return self._shares.log_density(shares) + self._inner.log_density(inner)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        shares, inner = self._parts(z)
        return np.concatenate([self._shares.gradient(shares), self._inner.gradient(inner)])

    def _pieces(self, z):
        """Return the shares and P."""
        shares, inner = self._parts(z)
        return self._shares.to_simplex(shares), self._inner.to_simplex(inner)

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        shares, p = self._pieces(z)
        return np.concatenate([shares[..., :1] * p, shares[..., 1:]], axis=-1)

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        (shares, p), parts, a = self._pieces(z), self._parts(z), self._inner.n_categories
        along = np.concatenate([[dp[:a] @ p], dp[a:]])
        return np.concatenate([self._shares.pullback(parts[0], along), self._inner.pullback(parts[1], shares[0] * dp[:a])])

    def pymc(self, name: str) -> "TensorVariable":
        import pytensor.tensor as pt

        shares = self._shares.pymc(f"{name}_shares")
        return pt.concatenate([shares[0] * self._inner.pymc(name), shares[1:]])

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
        total = float(alpha.sum())

        def log_ratio(p: np.ndarray) -> np.ndarray:
            """Return log Beta(γ; b, c) − log Beta(γ; b, Σα)."""
            with np.errstate(divide="ignore"):
                return (c - total) * np.log(p[:, : alpha.size].sum(axis=1)) + betaln(b, total) - betaln(b, c)

        return np.concatenate([alpha, self._shares.alpha[1:]]), log_ratio

    def concentrations(self) -> np.ndarray | None:
        alpha = self._inner.concentrations()
        if alpha is None or not math.isclose(alpha.sum(), self.gamma[1], rel_tol=1e-12):
            return None
        return np.concatenate([alpha, self._shares.alpha[1:]])
