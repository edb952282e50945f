"""Regression: the log odds of every cell's distribution are linear in the cell's covariates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import helmert

from ldpbayes import checks
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import AbstractSoftmax, Law, NormalLaw, ScaleLaw, product

#: Standard deviation of a slope: of the log odds between two categories, for one sd of the column.
SCALE = 2.5
#: That of the intercept: the log odds between two categories of Jeffreys' Dirichlet(½) have variance 2ψ′(½) = π².
INTERCEPT = math.pi
#: Of the half-normal prior of the sd between groups.
BETWEEN = 1.0


@dataclass(frozen=True, eq=False)
class Effects:
    """Varying coefficients of one grouping factor, such as ``(1 | county)``.

    Parameters
    ----------
    name : str
        Such as ``1|county``.
    levels : tuple of str
        The groups.
    matrix : (cells, levels) array
        The column that varies, in units of ``unit``, in the group of each cell; zero elsewhere.
    scale : float
        Of the half-normal prior of the sd between groups, for a change of the column by ``unit``.
    unit : float
        Effects and their sd are reported for a change of the column by one.
    centre : float
        What was taken off the column, in its own units, because of ``intercept``.
    intercept : int, optional
        Position among the effects of the varying intercept of the same groups: its effects are reported for a column of 0,
        its sd for a column of ``centre``.
    """

    name: str
    levels: tuple[str, ...]
    matrix: np.ndarray
    scale: float = BETWEEN
    unit: float = 1.0
    centre: float = 0.0
    intercept: int | None = None


@dataclass(frozen=True, eq=False)
class Regression(AbstractSoftmax):
    """Multinomial logit: P_c = softmax(X_c B), B normal on standardised columns, with normal effects of groups.

    Every column but the intercept is centred and divided by its standard deviation. The log odds between any two categories
    then change by N(0, scale²) for one sd of the column, so that the prior does not depend on the reference category. The
    effects of a grouping factor are σ z: log odds between two categories differ by N(0, σ²) between groups, σ half-normal.

    Parameters
    ----------
    design : (cells, terms) array
        X, with a column of ones for the intercept, if any.
    terms : sequence of str, optional
        Names of the columns.
    n_categories : int
    scale : float or (terms,) array, optional
        Standard deviations; by default 2.5, and π for the intercept.
    effects : sequence of Effects
    sizes : (cells,) array, optional
        How much each cell weighs in means and standard deviations of the columns.
    reference : int
        Category that coefficients are log odds against.

    References
    ----------
    The theory page "Regression on a private answer".
    """

    design: np.ndarray
    terms: Sequence[str] = ()
    n_categories: int = 2
    scale: float | np.ndarray | None = None
    effects: tuple[Effects, ...] = ()
    sizes: np.ndarray | None = field(default=None, repr=False)
    reference: int = 0
    categories: tuple[str, ...] = ()

    def __post_init__(self):
        rule = "a finite matrix with a row per cell and a column per term"
        design = checks.reals(self.design, "design", rule, ndim=2)
        if not design.size:
            raise ArgumentError(f"design must be {rule}.")
        terms = checks.labels(self.terms, "terms", "distinct names, one per column") or tuple(
            f"x{k}" for k in range(design.shape[1])
        )
        if len(terms) != design.shape[1] or len(set(terms)) != len(terms):
            raise ArgumentError(f"terms must be {design.shape[1]} distinct names, one per column, got {len(terms)}.")
        checks.categories_count(self.n_categories)
        reference = checks.integer(self.reference, "reference", minimum=0, maximum=self.n_categories - 1)
        sizes = np.ones(len(design)) if self.sizes is None else checks.reals(self.sizes, "sizes")
        if sizes.shape != (len(design),) or not (sizes >= 0).all() or not sizes.sum() > 0:
            raise ArgumentError("sizes must be numbers above 0, one per cell.")
        for effect in checks.entries(self.effects, "effects", "a sequence of Effects"):
            checks.instance(effect, "effects", Effects, "a sequence of Effects")
            if np.shape(effect.matrix) != (len(design), len(effect.levels)):
                raise ArgumentError(f"the effects {effect.name} must have a row per cell and a column per group.")
            checks.positive(effect.scale, "scale")
            checks.positive(effect.unit, "unit")
        for name, value in {"design": design, "terms": terms, "sizes": sizes, "reference": reference}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "effects", tuple(self.effects))
        _ = self.scales

    # ---- the columns ---------------------------------------------------------------------------------------------------
    @cached_property
    def intercept(self) -> int | None:
        """Position of the column of ones, or None."""
        ones = np.flatnonzero((self.design == 1).all(axis=0))
        return int(ones[0]) if ones.size else None

    @cached_property
    def scales(self) -> np.ndarray:
        """Prior sd of the log odds between two categories, for one sd of each column, shape (terms,)."""
        k = self.design.shape[1]
        if self.scale is None:
            found = np.full(k, SCALE)
            if self.intercept is not None:
                found[self.intercept] = INTERCEPT
            return found
        scale = checks.reals(self.scale, "scale", "a number above 0, or one per term", ndim=None)
        if scale.shape not in ((), (1,), (k,)):
            raise ArgumentError(f"scale must be a number above 0, or one per term, got shape {scale.shape}.")
        found = np.array(np.broadcast_to(scale, (k,)))
        if not (np.isfinite(found) & (found > 0)).all():
            raise ArgumentError("scale must be finite and above 0.")
        return found

    @cached_property
    def spread(self) -> np.ndarray:
        """Standard deviation of each column over people, 1 for columns that do not vary, shape (terms,)."""
        return self._moments[1]

    @cached_property
    def _moments(self):
        weight = self.sizes / self.sizes.sum()
        mean = weight @ self.design
        sd = np.sqrt(weight @ (self.design - mean) ** 2)
        sd = np.where(sd > 1e-12 * np.abs(self.design).max(axis=0), sd, 1.0)
        return (mean if self.intercept is not None else np.zeros_like(mean)), sd

    @cached_property
    def transform(self) -> np.ndarray:
        """T with X T the columns that standard normal unknowns multiply: B = T Z Vᵀ, shape (terms, terms)."""
        mean, sd = self._moments
        factor = self.scales / (sd * math.sqrt(2))
        found, one = np.diag(factor), self.intercept
        if one is not None:
            found[one] = -mean * factor
            found[one, one] = self.scales[one] / math.sqrt(2)
        return found

    @cached_property
    def columns(self) -> np.ndarray:
        """X T, shape (cells, terms)."""
        return self.design @ self.transform

    @cached_property
    def basis(self) -> np.ndarray:
        """V: orthonormal columns that sum to zero over the categories, shape (a, a − 1)."""
        return np.ascontiguousarray(helmert(self.n_categories).T)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """For each factor: where its log σ stands among the unknowns, and where its effects begin."""
        out, at = [], self.design.shape[1] * (self.n_categories - 1)
        for effect in self.effects:
            out.append((at, at + 1))
            at += 1 + len(effect.levels) * (self.n_categories - 1)
        return out

    # ---- the prior -----------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.design), self.n_categories)

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        free = self.n_categories - 1
        found: dict[str, tuple[Law, tuple[int, ...]]] = {"": (NormalLaw(), (self.design.shape[1], free))}
        for i, effect in enumerate(self.effects):
            found[f"sd_{i}"] = ScaleLaw(2, effect.scale), (1,)
            found[f"effects_{i}"] = NormalLaw(), (len(effect.levels), free)
        return found

    def eta(self, values: Mapping[str, Any], xp: Any) -> Any:
        found = product(self.columns, values[""], xp)
        for i, effect in enumerate(self.effects):
            own = values[f"sd_{i}"][..., None] / math.sqrt(2) * values[f"effects_{i}"]
            found = found + product(effect.matrix, own, xp)
        return found @ self.basis.T  # the logits sum to zero over the categories

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        inner = slope @ self.basis
        found = {"": self.columns.T @ inner}
        for i, effect in enumerate(self.effects):
            each = effect.matrix.T @ inner / math.sqrt(2)
            found[f"sd_{i}"] = (each * values[f"effects_{i}"]).sum()
            found[f"effects_{i}"] = values[f"sd_{i}"] * each
        return found

    def describe(self) -> str:
        one, slopes = self.intercept, np.delete(self.scales, [] if self.intercept is None else self.intercept)
        parts = [] if one is None else [f"intercept N(0, {self.scales[one]:.3g}²)"]
        if slopes.size:
            same = np.ptp(slopes) == 0
            sizes = f"{slopes[0]:.3g}" if same else f"{slopes.min():.3g}² to {slopes.max():.3g}"
            parts.append(f"coefficients N(0, {sizes}²) for one sd of the column")
        for effect in self.effects:
            of = "" if effect.unit == 1 else " for one sd of the column"
            parts.append(f"sd of {effect.name} half-normal({effect.scale:g}){of}")
        return f"regression, {', '.join(parts)}"

    def to_dict(self) -> dict[str, np.ndarray]:
        return {"coefficient_scale": self.scales, "column_sd": self.spread}

    # ---- what readers ask for ------------------------------------------------------------------------------------------
    def coefficients(self, z: np.ndarray) -> np.ndarray:
        """Return B on the columns as they are, log odds against the reference category, shape (k, terms, a).

        Parameters
        ----------
        z : (k, n_unknowns) array
        """
        z, free, k = np.asarray(z, dtype=float), self.n_categories - 1, self.design.shape[1]
        found = self.transform @ z[..., : k * free].reshape(*z.shape[:-1], k, free) @ self.basis.T
        return found - found[..., self.reference : self.reference + 1]

    def group_effects(self, z: np.ndarray, i: int) -> np.ndarray:
        """Return the effects of the groups of factor i, log odds against the reference category, shape (k, groups, a)."""
        found = self._own_effects(z, i)
        for j, effect in enumerate(self.effects):
            if effect.intercept == i:
                found = found - effect.centre * self._own_effects(z, j)
        return found

    def _own_effects(self, z, i):
        z, free = np.asarray(z, dtype=float), self.n_categories - 1
        (at, start), m = self.places[i], len(self.effects[i].levels)
        own = z[..., start : start + m * free].reshape(*z.shape[:-1], m, free) @ self.basis.T
        own = np.exp(z[..., at])[..., None, None] / (math.sqrt(2) * self.effects[i].unit) * own
        return own - own[..., self.reference : self.reference + 1]

    def coefficient_sd(self) -> np.ndarray:
        """Return the prior sd of the coefficients, shape (terms, a); zero for the reference category."""
        basis = self.basis - self.basis[self.reference]
        return np.sqrt((self.transform**2).sum(axis=1)[:, None] * (basis**2).sum(axis=1)[None, :])

    def start(self, coefficients: np.ndarray) -> np.ndarray:
        """Return z with these coefficients, (terms, a) in any parametrisation of the softmax, and no effects of groups."""
        z = np.zeros(self.n_unknowns)
        inner = np.linalg.solve(self.transform, np.asarray(coefficients, dtype=float) @ self.basis)
        z[: inner.size] = inner.ravel()
        return z

    def coords(self) -> dict[str, Sequence]:
        """Return the labels of the dims of variables() other than cell and category."""
        found: dict[str, Sequence] = {"term": list(self.terms)}
        for effect in self.effects:
            found[f"{effect.name}_level"] = list(effect.levels)
        return found

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the coefficients, the sd between groups and the effects of groups, for z of shape (k, n_unknowns).

        Log odds are against the reference category, whose own entries are zero.
        """
        found: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"coefficients": (("term", "category"), self.coefficients(z))}
        for i, effect in enumerate(self.effects):
            found[f"{effect.name}_sigma"] = ((), np.exp(np.asarray(z)[..., self.places[i][0]]) / effect.unit)
            found[effect.name] = ((f"{effect.name}_level", "category"), self.group_effects(z, i))
        return found
