"""A symmetric Dirichlet whose concentration is learnt from the reports: how uneven is this population?"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import digamma, gammaln, log_expit

from ldpbayes import checks
from ldpbayes.compiling import model_data
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import AbstractPrior, state
from ldpbayes.priors.dirichlet import Dirichlet, stick_draws, sticks
from ldpbayes.priors.mixing import Mixing

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


@dataclass(frozen=True)
class Learnt(AbstractPrior):
    """P | α ~ Dirichlet(α, …, α) with log α ~ N(log median, sd²), integrated over.

    Parameters
    ----------
    median : float
        Median of α a priori; ½ is Jeffreys.
    sd : float
        Prior standard deviation of log α.
    n_categories : int, optional
        Filled in by the collection.

    Notes
    -----
    The unknowns are t = (log α − log median)/sd and the sticks of Dirichlet(α). A flat prior of log α would be harmful:
    where the reports say little, it puts weight on values of α for which one category has everything.
    """

    median: float = 0.5
    sd: float = 1.0
    n_categories: int | None = None
    #: The mixing hyperparameter, as results call it.
    parameter: ClassVar[str] = "alpha"

    def __post_init__(self):
        for name in ("median", "sd"):
            object.__setattr__(self, name, checks.positive(getattr(self, name), name))
        if not (1e-3 <= self.median <= 1e3 and self.sd <= 3):
            raise ArgumentError(f"median must be from 0.001 to 1000 and sd at most 3, got {self.median:g} and {self.sd:g}.")
        if self.n_categories is not None:
            object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], "Learnt"]]:
        return {"learnt": lambda n_categories: cls(n_categories=n_categories)}

    @property
    def n_unknowns(self) -> int:
        return self.n_categories

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        shape = self.alpha(rng.standard_normal(size))[:, None]
        # Gamma(α) = Gamma(α + 1) U^(1/α), in logs: a small α underflows otherwise.
        log_gamma = np.log(rng.standard_gamma(np.broadcast_to(shape + 1, (size, self.n_categories))))
        log_gamma += np.log(rng.random((size, self.n_categories))) / shape
        p = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray:
        t = rng.standard_normal((size, 1))
        each = np.column_stack([np.ones(self.n_categories - 1), self._after])
        return np.concatenate([t, stick_draws(self.alpha(t)[..., None] * each, rng)], axis=1)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        alpha, count = self.alpha(z[..., 0]), self._after
        logit = z[..., 1:] - np.log(count)
        log_share, rest = log_expit(logit).sum(axis=-1), log_expit(-logit) @ count
        a = self.n_categories
        constant = gammaln(a * alpha) - a * gammaln(alpha)
        return constant + alpha * (log_share + rest) - 0.5 * z[..., 0] ** 2 - 0.5 * math.log(2 * math.pi)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        alpha, count, a = float(self.alpha(z[0])), self._after, self.n_categories
        logit = z[1:] - np.log(count)
        share = np.exp(log_expit(logit))
        slope = a * digamma(a * alpha) - a * digamma(alpha) + log_expit(logit).sum() + log_expit(-logit) @ count
        return np.concatenate([[self.sd * alpha * slope - z[0]], alpha * (1 - share) - alpha * count * share])

    @property
    def _after(self):
        """Return the number of categories after each stick, shape (a − 1,)."""
        return np.arange(self.n_categories - 1, 0, -1.0)

    @property
    def _sticks(self):
        return Dirichlet.flat(self.n_categories)  # the map from sticks to P does not depend on α

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        return self._sticks.to_simplex(np.asarray(z, dtype=float)[..., 1:])

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], self._sticks.pullback(z[1:], dp)])

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return {"alpha": self.alpha(z[..., 0])}

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return log N(log α; log(γ median), sd²) over that at γ = 1, divided by log γ: scaling multiplies α."""
        return np.log(draws["alpha"] / self.median) / self.sd**2 if "alpha" in draws else None

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        t = pm.Normal(f"{name}_t", 0.0, 1.0)
        alpha = state("alpha", self.median * pt.exp(self.sd * t))
        after = model_data(f"{name}_categories_after", self._after)
        # α stays above what a logit of float64 can express; the prior gives less than 1e-9 of its mass there.
        floor = pt.maximum(alpha, 1e-3)
        return sticks(name, floor + 0 * after, floor * after, self.n_categories)

    def describe(self) -> str:
        return f"learnt, symmetric Dirichlet with log alpha ~ N(log {self.median:g}, {self.sd:g}²)"

    def to_dict(self) -> dict[str, np.ndarray]:
        return {"median": np.array(self.median), "sd": np.array(self.sd)}

    # ---- symmetric Dirichlet priors, mixed over t ~ N(0, 1) --------------------------------------------------------------
    def nodes(self) -> Mixing:
        return Mixing(lambda **values: self.given(*values.values()), lambda z: {self.parameter: self.alpha(z[:, 0])})

    def given(self, value: float) -> Dirichlet:
        """Return the conjugate prior given α."""
        return Dirichlet(np.full(self.n_categories, float(value)))

    def alpha(self, t: np.ndarray) -> np.ndarray:
        """Return α at t prior standard deviations of log α above its median."""
        return self.median * np.exp(self.sd * np.asarray(t, dtype=float))
