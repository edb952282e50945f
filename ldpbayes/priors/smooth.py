"""Ordered categories: neighbours have similar probabilities, except where there is a step or a spike."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.priors.base import AbstractSoftmax, Law, NormalLaw, ScaleLaw, StudentLaw

#: Rule: Prior mean of σ √a: how far the walk typically goes over all categories, in nats, when σ is at its prior mean: the
#: last category is four times as frequent as the first, or a quarter. With half it is twice, which is flatter than ages or
#: hours are; with double 16 times. σ is exponential, whose 95 % reach from a fortieth of the mean to 3.7 times it, so that
#: reports of many categories decide.
REACH = 1.4


@dataclass(frozen=True)
class Smooth(AbstractSoftmax):
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
    kind: ClassVar[str] = "walk"

    def __post_init__(self):
        for name in ("rate", "degrees", "local"):
            if name != "rate" or self.rate is not None:
                object.__setattr__(self, name, checks.positive(getattr(self, name), name))
        if self.n_categories is not None:
            object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))
            object.__setattr__(self, "rate", math.sqrt(self.n_categories) / REACH if self.rate is None else self.rate)

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], "Smooth"]]:
        return {"smooth": lambda n_categories: cls(n_categories=n_categories)}

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        a = self.n_categories
        steps, deviations = (StudentLaw(self.degrees), (a - 1,)), (NormalLaw(), (a,))
        return {"scale": (ScaleLaw(1), (1,)), "local": (ScaleLaw(1), (1,)), "": steps, "deviations": deviations}

    def eta(self, values: Mapping[str, Any], xp: Any) -> Any:
        walk = xp.cumsum(values["scale"] / self.rate * values[""], axis=-1)
        start = xp.zeros_like(walk[..., :1])
        return xp.concatenate([start, walk], axis=-1) + values["local"] * self.local * values["deviations"]

    def multiplied(self) -> Mapping[str, str]:
        return {"scale": "", "local": "deviations"}

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        later = slope[::-1].cumsum()[::-1][1:]  # a step moves every later category
        return {
            "scale": later @ values[""] / self.rate,
            "local": slope @ values["deviations"] * self.local,
            "": values["scale"] / self.rate * later,
            "deviations": values["local"] * self.local * slope,
        }

    def learnt(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"sigma": values["scale"][..., 0] / self.rate, "tau": values["local"][..., 0] * self.local}

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        return -draws["sigma"] * self.rate - draws["tau"] / self.local if {"sigma", "tau"} <= set(draws) else None

    def describe(self) -> str:
        return f"smooth, random walk over ordered categories with Student-t({self.degrees:g}) steps and local deviations"
