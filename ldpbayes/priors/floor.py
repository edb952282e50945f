"""A learnt Dirichlet over a nearly even floor: a few categories may be large while all others are alike."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ldpbayes import checks
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import AbstractPrior, state
from ldpbayes.priors.dirichlet import Dirichlet
from ldpbayes.priors.learnt import Learnt
from ldpbayes.priors.mixing import Mixing

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


class OverFloor(NamedTuple):
    """The prior given λ and α: P = λE + (1 − λ)D with D ~ Dirichlet(α, …, α) and E ~ Dirichlet(κ, …, κ).

    Attributes
    ----------
    share, alpha, evenness : float
        λ, α and κ.
    """

    share: float
    alpha: float
    evenness: float

    def concentrations(self) -> None:
        """Return None: P is no Dirichlet."""
        return None


@dataclass(frozen=True)
class Floor(AbstractPrior):
    """P = λE + (1 − λ)D: D under the learnt prior, E ~ Dirichlet(κ, …, κ), and λ = 0 or uniform, each with probability ½.

    Parameters
    ----------
    median : float
        Median of the concentration α of D a priori.
    sd : float
        Prior standard deviation of log α.
    evenness : float
        κ, at least 1: how even the floor E is; infinite where all categories have the same. Its shares have the coefficient
        of variation 1/√κ.
    n_categories : int, optional
        Filled in by the collection.

    Notes
    -----
    The unknowns are u with λ = max(0, 2Φ(u) − 1), those of the learnt prior, and the sticks of E. An even floor says that
    a tail that slopes is even, and its intervals are too short then: see docs/theory/floor.md.
    """

    median: float = 0.5
    sd: float = 1.0
    evenness: float = 4.0
    n_categories: int = None  # type: ignore[assignment]  # filled in by the collection

    def __post_init__(self):
        learnt = Learnt(self.median, self.sd, self.n_categories)  # which checks them
        for name in ("median", "sd", "n_categories"):
            object.__setattr__(self, name, getattr(learnt, name))
        if checks.real(self.evenness, "evenness", "a number of at least 1, or inf") != math.inf:
            object.__setattr__(self, "evenness", checks.positive(self.evenness, "evenness"))
        if self.evenness < 1:
            raise ArgumentError(f"evenness must be at least 1, got {self.evenness:g}.")

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], "Floor"]]:
        return {"floor": lambda n_categories: cls(n_categories=n_categories)}

    @cached_property
    def learnt(self) -> Learnt:
        """The prior of D."""
        return Learnt(self.median, self.sd, self.n_categories)

    @cached_property
    def even(self) -> Dirichlet | None:
        """The prior of E; None where E is the uniform distribution itself."""
        return None if self.evenness == math.inf else Dirichlet(np.full(self.n_categories, self.evenness))

    @property
    def n_unknowns(self) -> int:
        return 1 + self.learnt.n_unknowns + (0 if self.even is None else self.even.n_unknowns)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        share = _share(rng.standard_normal(size))[:, None]
        floor = 1 / self.n_categories if self.even is None else self.even.sample(size, rng)
        return share * floor + (1 - share) * self.learnt.sample(size, rng)

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray:
        parts = [rng.standard_normal((size, 1)), self.learnt.unknowns(size, rng)]
        return np.concatenate(parts if self.even is None else [*parts, self.even.unknowns(size, rng)], axis=1)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        u, uneven, even = self._split(z)
        density = self.learnt.log_density(uneven) - 0.5 * u**2 - 0.5 * math.log(2 * math.pi)
        return density if self.even is None else density + self.even.log_density(even)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        u, uneven, even = self._split(z)
        parts: list[Any] = [[-u], self.learnt.gradient(uneven)]
        return np.concatenate(parts if self.even is None else [*parts, self.even.gradient(even)])

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        u, uneven, even = self._split(z)
        share, floor = _share(u)[..., None], 1 / self.n_categories if self.even is None else self.even.to_simplex(even)
        return share * floor + (1 - share) * self.learnt.to_simplex(uneven)

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        u, uneven, even = self._split(z)
        share, rest = float(_share(u)), self.learnt.to_simplex(uneven)
        floor = np.full(rest.size, 1 / rest.size) if self.even is None else self.even.to_simplex(even)
        steep = 2 * math.exp(-0.5 * u**2) / math.sqrt(2 * math.pi) if u > 0 else 0.0
        parts: list[Any] = [[steep * (dp @ (floor - rest))], self.learnt.pullback(uneven, (1 - share) * dp)]
        return np.concatenate(parts if self.even is None else [*parts, self.even.pullback(even, share * dp)])

    def _split(self, z):
        """Return (u, unknowns of D, unknowns of E)."""
        z, size = np.asarray(z, dtype=float), 1 + self.learnt.n_unknowns
        return z[..., 0], z[..., 1:size], z[..., size:]

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        u, uneven, _ = self._split(z)
        return {"floor": _share(u), **self.learnt.hyperparameters(uneven)}

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        density = self.learnt.log_hyperprior(draws)
        if density is None:
            return None
        # N(0, 1) to the power γ is N(0, 1/γ): its mass at λ = 0 stays, as at the mean of −u²/2 above.
        u = ndtri(0.5 + 0.5 * np.minimum(draws["floor"], 1 - 1e-15))
        return density - 0.5 * np.where(draws["floor"] > 0, u**2, 1.0)

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        u = pm.Normal(f"{name}_floor", 0.0, 1.0)
        share = state("floor", pt.maximum(pt.erf(u / math.sqrt(2.0)), 0.0))
        rest = self.learnt.pymc(f"{name}_uneven")
        floor = 1 / self.n_categories if self.even is None else self.even.pymc(f"{name}_even")
        return share * floor + (1 - share) * rest

    def describe(self) -> str:
        kind = "an even floor" if self.even is None else f"a floor Dirichlet({self.evenness:g})"
        return f"{self.learnt.describe()}, over {kind} with a learnt share that is 0 with probability 1/2"

    def to_dict(self) -> dict[str, np.ndarray]:
        # What is kept are finite numbers: 1/κ says that of an even floor, too.
        return self.learnt.to_dict() | {"unevenness": np.array(1 / self.evenness)}

    @property
    def has_atom(self) -> bool:
        return True

    def nodes(self) -> Mixing:
        return Mixing(
            lambda floor, alpha: OverFloor(floor, alpha, self.evenness),
            lambda z: {"floor": ndtr(z[:, 0]), **self.learnt.nodes().values(z[:, 1:])},
            size=2,
            atom=0.5,
            facts=_facts,
        )


def _facts(values: Mapping[str, np.ndarray], zero: float) -> dict[str, Any]:
    """Return what a result says of the share of the floor."""
    mean = values["floor"].mean()
    sentence = f"Given the reports, the share of the floor is {mean:.2g} in the mean, and 0 with probability {zero:.2g}."
    return {"floor_zero": zero, "prior_reason": sentence}


def _share(u):
    """Return λ at u."""
    return np.maximum(2 * ndtr(u) - 1, 0.0)
