"""Tables of several attributes: main effects, and interactions that are small unless the reports say otherwise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import helmert
from scipy.special import logsumexp

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.likelihoods.tensor import along_axes
from ldpbayes.priors.base import AbstractSoftmax, Law, NormalLaw, ScaleLaw

#: Memory: The basis of a log-linear model is written out up to so many entries. The bank's 317 problems never cross it.
MAX_BASIS = 2**24
#: Grid of log(σ/scale) for integrals over the sd of the interactions of one order.
GRID = np.linspace(-14.0, 4.5, 371)
#: Knots of log(square/scale²), square the sum of squares of the effects of a batch: its density is constant below the first,
#: and nothing beyond the last.
SQUARES = np.linspace(-36.0, 24.0, 1201)


@dataclass(frozen=True)
class LogLinear(AbstractSoftmax):
    """P = softmax(η), η the sum of main effects and interactions of the attributes of a table.

    The effects of level x of one attribute, and of a combination of levels of two or three, are normal about zero and
    centred over each attribute: main effects with a known sd, interactions of m attributes with a sd σ_m ~ Exponential
    that the reports inform. σ_m = 0 for every m is independence.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each attribute; the last one varies fastest among the cells.
    main : float
        Sd of the main effects; by default π/√2, that of the log shares of Jeffreys' prior of one attribute.
    scale : float
        Mean of the exponential prior of σ_m, m = 2, …, order.
    order : int
        Most attributes that interact; 1 is independence.

    Notes
    -----
    With H_k an orthonormal basis of the contrasts of attribute k (Helmert; Walsh for two categories), η = Σ_S (⊗_{k∈S}
    H_k) θ_S over the sets S of at most ``order`` attributes: iid normal effects of combinations, projected on what no
    smaller set explains, have iid normal θ_S. The unknowns are log(σ_m/scale) and θ_S in units of their sd. See
    docs/theory/association.md.

    References
    ----------
    Agresti (2013), Categorical Data Analysis, chapter 9; Gelman (2005), Annals of Statistics 33, on batches of effects.

    Examples
    --------
    >>> prior = LogLinear((2, 3))
    >>> prior.n_categories, prior.n_unknowns, prior.describe()
    (6, 6, 'log-linear over 2 × 3 cells, interactions of up to 2 attributes')
    """

    sizes: tuple[int, ...]
    main: float = math.pi / math.sqrt(2)
    scale: float = 0.5
    order: int = 3
    kind: ClassVar[str] = "table"

    def __post_init__(self):
        object.__setattr__(self, "sizes", checks.attribute_sizes(self.sizes))
        for name in ("main", "scale"):
            object.__setattr__(self, name, checks.positive(getattr(self, name), name))
        order = min(checks.integer(self.order, "order", 1), len(self.sizes))
        object.__setattr__(self, "order", order)

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of cells of the table."""
        return math.prod(self.sizes)

    @property
    def scales(self) -> tuple[str, ...]:
        """Names of the learnt sds: sigma_2 for pairs of attributes, sigma_3 for triples, …"""
        return tuple(f"sigma_{m}" for m in range(2, self.order + 1))

    @cached_property
    def _orders(self):
        """(Flat positions in the table of coefficients, number of interacting attributes of each)."""
        d = len(self.sizes)
        places, orders = [], []
        strides = np.array([math.prod(self.sizes[k + 1 :]) for k in range(d)])
        for m in range(1, self.order + 1):
            for chosen in combinations(range(d), m):
                grid = np.stack(np.meshgrid(*(np.arange(1, self.sizes[k]) for k in chosen), indexing="ij"), axis=-1)
                found = (grid.reshape(-1, m) * strides[list(chosen)]).sum(axis=1)
                places.append(found)
                orders.append(np.full(found.size, m))
        return np.concatenate(places), np.concatenate(orders)

    @cached_property
    def _contrasts(self):
        """The square matrices [1, H_k] of the attributes."""
        return [np.column_stack([np.ones(size), -helmert(size).T]) for size in self.sizes]

    @property
    def n_effects(self) -> int:
        """Number of coefficients θ."""
        return self._orders[0].size

    # ---- η = B θ ----------------------------------------------------------------------------------------------------------
    def predictor(self, effects: np.ndarray) -> np.ndarray:
        """Return η = B θ for θ of shape (n_effects,) or (k, n_effects), axis by axis."""
        effects = np.asarray(effects, dtype=float)
        flat = effects.reshape(-1, self.n_effects)
        table = np.zeros((len(flat), self.n_categories))
        table[:, self._orders[0]] = flat
        return along_axes(self._contrasts, table).reshape(*effects.shape[:-1], self.n_categories)

    def effects_of(self, slopes: np.ndarray) -> np.ndarray:
        """Return Bᵀ g for g of shape (a,) or (k, a)."""
        slopes = np.asarray(slopes, dtype=float)
        flat = slopes.reshape(-1, self.n_categories)
        table = along_axes([basis.T for basis in self._contrasts], flat)
        return table[:, self._orders[0]].reshape(*slopes.shape[:-1], self.n_effects)

    @cached_property
    def basis(self) -> np.ndarray:
        """B, shape (a, n_effects).

        Raises
        ------
        InfeasibleError
            Where it has more than MAX_BASIS entries.
        """
        if self.n_effects * self.n_categories > MAX_BASIS:
            raise InfeasibleError(f"{self.n_effects:,} effects over {self.n_categories:,} cells are too many; lower order.")
        return np.ascontiguousarray(self.predictor(np.eye(self.n_effects)).T)

    # ---- the unknowns -----------------------------------------------------------------------------------------------------
    def deviations(self, logs: np.ndarray) -> np.ndarray:
        """Return the sd of every coefficient given log(σ_m/scale), shape (…, order − 1)."""
        return self._sd(np.exp(np.minimum(logs, 300.0)), np)

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        return {"sigma": (ScaleLaw(1), (self.order - 1,)), "": (NormalLaw(), (self.n_effects,))}

    def _sd(self, units, xp):
        main = xp.full((*units.shape[:-1], 1), self.main)
        return xp.concatenate([main, self.scale * units], axis=-1)[..., self._orders[1] - 1]

    def eta(self, values: Mapping[str, Any], xp: Any) -> Any:
        effects = self._sd(values["sigma"], xp) * values[""]
        return self.predictor(effects) if xp is np else xp.dot(self.basis, effects)

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        steps = self.effects_of(slope)
        along = np.array([self.scale * (steps[batch] @ values[""][batch]) for batch in self.batches])
        return {"sigma": along, "": self._sd(values["sigma"], np) * steps}

    def learnt(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.scale * values["sigma"][..., i] for i, name in enumerate(self.scales)}

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        is_known = self.scales and set(self.scales) <= set(draws)
        return -np.sum([draws[name] for name in self.scales], axis=0) / self.scale if is_known else None

    def describe(self) -> str:
        reach = f"interactions of up to {self.order} attributes" if self.order > 1 else "no interactions"
        return f"log-linear over {' × '.join(map(str, self.sizes))} cells, {reach}"

    def to_dict(self) -> dict[str, np.ndarray]:
        numbers = {name: np.array(float(getattr(self, name))) for name in ("main", "scale", "order")}
        return numbers | {f"size_{k}": np.array(float(size)) for k, size in enumerate(self.sizes, 1)}

    # ---- what engines ask of a table -----------------------------------------------------------------------------------
    def independence(self) -> "LogLinear":
        """Return this prior without interactions."""
        return LogLinear(self.sizes, self.main, self.scale, 1)

    @property
    def batches(self) -> list[np.ndarray]:
        """For every learnt sd the positions of its coefficients among the effects."""
        return [np.flatnonzero(self._orders[1] == m) for m in range(2, self.order + 1)]

    @property
    def mains(self) -> np.ndarray:
        """Positions of the main effects."""
        return np.flatnonzero(self._orders[1] == 1)

    def log_prior_given(self, effects: np.ndarray, logs: Any) -> np.ndarray:
        """Return log p(θ, s) with s = log(σ_m/scale) given, for θ of shape (…, n_effects)."""
        logs = np.asarray(logs, dtype=float)
        sd = self.deviations(logs)
        normal = -0.5 * ((effects / sd) ** 2).sum(axis=-1) - np.log(sd).sum() - 0.5 * sd.size * math.log(2 * math.pi)
        return normal + float((logs - np.exp(logs)).sum())

    def log_prior(self, effects: np.ndarray) -> np.ndarray:
        """Return log p(θ) with the learnt sds integrated over, for θ of shape (k, n_effects).

        The density of a batch depends on its sum of squares alone, so that the integral over log σ is a curve.
        """
        out = self.log_prior_mains(effects[..., self.mains])
        for batch in self.batches:
            with np.errstate(divide="ignore"):
                square = np.log((effects[..., batch] ** 2).sum(axis=-1)) - 2 * math.log(self.scale)
            out = (
                out + _density_of_squares(batch.size)(np.clip(square, *SQUARES[[0, -1]])) - batch.size * math.log(self.scale)
            )
        return out

    def log_prior_mains(self, mains: np.ndarray) -> np.ndarray:
        """Return the log-density of the main effects, for arrays of shape (…, number of them)."""
        normal = -0.5 * ((mains / self.main) ** 2).sum(axis=-1)
        return normal - mains.shape[-1] * (math.log(self.main) + 0.5 * math.log(2 * math.pi))

    def draw_scales(self, effects: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return a draw of every σ_m given θ of shape (k, n_effects), from its exact conditional on a fine grid."""
        out = {}
        for name, batch in zip(self.scales, self.batches, strict=True):
            terms = _scale_terms(np.linalg.norm(effects[..., batch], axis=-1) / self.scale, batch.size)
            cumulative = np.cumsum(np.exp(terms - terms.max(axis=-1, keepdims=True)), axis=-1)
            u = rng.random(len(effects)) * cumulative[:, -1]
            place = np.minimum((cumulative < u[:, None]).sum(axis=1), GRID.size - 1)
            step = GRID[1] - GRID[0]
            out[name] = self.scale * np.exp(GRID[place] + step * (rng.random(len(effects)) - 0.5))
        return out


def _scale_terms(length, size):
    """Return the logs of the terms of the trapezoid sum over log σ for norms of effects in units of the scale."""
    log_given = -size * GRID - 0.5 * (length[..., None] / np.exp(GRID)) ** 2 - 0.5 * size * math.log(2 * math.pi)
    return log_given + GRID - np.exp(GRID) + math.log(GRID[1] - GRID[0])


@cache
def _density_of_squares(size):
    """Return the log-density of so many effects, σ integrated over, as a spline of the log of their sum of squares."""
    from scipy.interpolate import CubicSpline

    return CubicSpline(SQUARES, logsumexp(_scale_terms(np.exp(0.5 * SQUARES), size), axis=-1))
