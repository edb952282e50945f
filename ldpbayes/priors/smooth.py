"""Ordered categories: neighbours have similar probabilities, except where there is a step or a spike."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import gammaln

from ldpbayes import checks
from ldpbayes.priors.base import AbstractPrior, Walk

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

#: Prior mean of σ √a: how far the walk typically goes over all categories, in nats, when σ is at its prior mean.
REACH = 1.4


@dataclass(frozen=True)
class Smooth(AbstractPrior):
    """P = softmax(walk + deviations): a random walk over the ordered categories, and a deviation of each from it.

    The walk has steps σ t_x with t_x ~ Student-t(degrees), the deviations are τ s_x with s_x ~ N(0, 1); σ ~
    Exponential(rate) and τ ~ Exponential with mean ``local``. Heavy-tailed steps let the level jump; deviations let single
    categories, such as heaped ages and round distances, stand out from their neighbours.

    Parameters
    ----------
    rate : float, optional
        Of the exponential prior of σ; by default √a/1.4, so that the prior does not depend on how finely a range is cut.
    degrees : float
        Degrees of freedom of the steps; many make the walk Gaussian.
    local : float
        Prior mean of τ.
    n_categories : int, optional
        Filled in by the collection. The categories must be in their order.

    Notes
    -----
    The unknowns are log(rate·σ), log(τ/local), the steps t and the deviations s. See docs/theory/priors.md.
    """

    rate: float | None = None
    degrees: float = 2.0
    local: float = 0.5
    n_categories: int | None = None
    hyperparameter_names: ClassVar[tuple[str, ...]] = ("sigma", "tau")

    def __post_init__(self):
        for name in ("rate", "degrees", "local"):
            if name != "rate" or self.rate is not None:
                object.__setattr__(self, name, checks.positive(getattr(self, name), name))
        if self.n_categories is not None:
            object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], "Smooth"]]:
        return {"smooth": lambda n_categories: cls(n_categories=n_categories)}

    def sized(self, n_categories: int, n_cells: int | None) -> "Smooth":
        return self if self.n_categories is not None else replace(self, n_categories=n_categories)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_categories,)

    @property
    def n_unknowns(self) -> int:
        return 2 * self.n_categories + 1

    def walk(self) -> Walk:
        rate = math.sqrt(self.n_categories) / REACH if self.rate is None else self.rate
        return Walk(rate, self.degrees, self.local)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        scale = np.log(rng.standard_exponential((size, 2)))
        steps = rng.standard_t(self.degrees, (size, self.n_categories - 1))
        deviations = rng.standard_normal((size, self.n_categories))
        return self.to_simplex(np.concatenate([scale, steps, deviations], axis=1))

    def _parts(self, z):
        """Return (log scales, steps, deviations)."""
        z = np.asarray(z, dtype=float)
        return z[..., :2], z[..., 2 : self.n_categories + 1], z[..., self.n_categories + 1 :]

    def log_density(self, z: np.ndarray) -> np.ndarray:
        (logs, steps, deviations), nu, a = self._parts(z), self.degrees, self.n_categories
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * math.log(nu * math.pi)
        found = constant * (a - 1) - 0.5 * (nu + 1) * np.log1p(steps**2 / nu).sum(axis=-1)
        found = found - 0.5 * (deviations**2).sum(axis=-1) - 0.5 * a * math.log(2 * math.pi)
        return found + (logs - np.exp(logs)).sum(axis=-1)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        (logs, steps, deviations), nu = self._parts(z), self.degrees
        return np.concatenate([1 - np.exp(logs), -(nu + 1) * steps / (nu + steps**2), -deviations])

    def _scales(self, z):
        """Return (σ, τ) with an axis of one; far in the tail of their prior they are cut off, within the range of floats."""
        unit, law = np.exp(np.minimum(self._parts(z)[0], 300.0)), self.walk()
        return unit[..., :1] / law.rate, unit[..., 1:] * law.local

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        (sigma, tau), (_, steps, deviations) = self._scales(z), self._parts(z)
        walk = np.cumsum(sigma * steps, axis=-1)
        logits = np.concatenate([np.zeros_like(walk[..., :1]), walk], axis=-1) + tau * deviations
        p = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        (sigma, tau), (_, steps, deviations) = self._scales(z), self._parts(z)
        p = self.to_simplex(z)
        logits = p * (dp - p @ dp)
        moved = sigma * logits[::-1].cumsum()[::-1][1:]  # a step moves every later category
        return np.concatenate([[moved @ steps, tau[0] * (logits @ deviations)], moved, tau * logits])

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        sigma, tau = self._scales(z)
        return {"sigma": sigma[..., 0], "tau": tau[..., 0]}

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        law = self.walk()
        sigma = pm.Deterministic("sigma", pm.Exponential(f"{name}_scale", 1.0) / law.rate)
        tau = pm.Deterministic("tau", pm.Exponential(f"{name}_local", 1.0) * law.local)
        steps = pm.StudentT(name, nu=self.degrees, mu=0.0, sigma=1.0, shape=self.n_categories - 1)
        deviations = pm.Normal(f"{name}_deviations", 0.0, 1.0, shape=self.n_categories)
        return pm.math.softmax(pt.concatenate([np.zeros(1), pt.cumsum(sigma * steps)]) + tau * deviations)

    def describe(self) -> str:
        return f"smooth, random walk over ordered categories with Student-t({self.degrees:g}) steps and local deviations"

    def to_dict(self) -> dict[str, np.ndarray]:
        law = self.walk()
        return {"rate": np.array(law.rate), "degrees": np.array(law.degrees), "local": np.array(law.local)}
