"""Ordered categories: neighbours have similar probabilities, except where there is a spike."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import gammaln

from ldpbayes import checks
from ldpbayes.priors.base import AbstractPrior

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


@dataclass(frozen=True)
class Smooth(AbstractPrior):
    """P = softmax(η) with a random walk η_{x+1} = η_x + σ t_x, t_x ~ Student-t, σ ~ Exponential(rate).

    Parameters
    ----------
    rate : float
        Of the exponential prior of the scale σ of one step.
    degrees : float
        Degrees of freedom of the steps. Few of them let single categories, such as heaped ages, stand out from their
        neighbours; many make the walk Gaussian.
    n_categories : int, optional
        Filled in by the collection. The categories must be in their order.

    Notes
    -----
    The unknowns are log(rate·σ) and the steps t.
    """

    rate: float = 6.0
    degrees: float = 4.0
    n_categories: int | None = None
    hyperparameter_names: ClassVar[tuple[str, ...]] = ("sigma",)

    def __post_init__(self):
        for name in ("rate", "degrees"):
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
        return self.n_categories

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        scale = np.log(rng.standard_exponential((size, 1)))
        steps = rng.standard_t(self.degrees, (size, self.n_categories - 1))
        return self.to_simplex(np.concatenate([scale, steps], axis=1))

    def log_density(self, z: np.ndarray) -> np.ndarray:
        z, nu = np.asarray(z, dtype=float), self.degrees
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * math.log(nu * math.pi)
        steps = constant * (self.n_categories - 1) - 0.5 * (nu + 1) * np.log1p(z[..., 1:] ** 2 / nu).sum(axis=-1)
        return z[..., 0] - np.exp(z[..., 0]) + steps

    def gradient(self, z: np.ndarray) -> np.ndarray:
        t, nu = z[1:], self.degrees
        return np.concatenate([[1 - math.exp(z[0])], -(nu + 1) * t / (nu + t**2)])

    def _scale(self, z):
        """Return σ; far in the tail of its prior it is cut off, where the walk would leave the range of floats."""
        return np.exp(np.minimum(np.asarray(z, dtype=float)[..., :1], 300.0)) / self.rate

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        walk = np.cumsum(self._scale(z) * z[..., 1:], axis=-1)
        walk = np.concatenate([np.zeros_like(walk[..., :1]), walk], axis=-1)
        p = np.exp(walk - walk.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        p, scale = self.to_simplex(z), float(self._scale(z)[0])
        logits = p * (dp - p @ dp)
        steps = scale * logits[::-1].cumsum()[::-1][1:]  # a step moves every later category
        return np.concatenate([[steps @ z[1:]], steps])

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return {"sigma": self._scale(z)[..., 0]}

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        unit = pm.Exponential(f"{name}_scale", 1.0)
        sigma = pm.Deterministic("sigma", unit / self.rate)
        steps = pm.StudentT(name, nu=self.degrees, mu=0.0, sigma=1.0, shape=self.n_categories - 1)
        return pm.math.softmax(pt.concatenate([np.zeros(1), pt.cumsum(sigma * steps)]))

    def describe(self) -> str:
        return f"smooth, random walk over ordered categories with Student-t({self.degrees:g}) steps"

    def to_dict(self) -> dict[str, np.ndarray]:
        return {"rate": np.array(self.rate), "degrees": np.array(self.degrees)}
