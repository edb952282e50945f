"""Regression: the log odds of every cell's distribution are linear in the cell's covariates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.sparse import csr_array

from ldpbayes import checks
from ldpbayes.arrays import times
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.priors.base import AbstractSoftmax, ExponentialLaw, Law, Linear, NormalLaw, ScaleLaw, Term
from ldpbayes.priors.links import LINKS, Link, ShareLaw

#: Rule: Standard deviation of a slope: of the log odds between two categories, for one sd of the column. It is the scale of
#: Gelman et al. (2008, Annals of Applied Statistics 2), of a normal law here: 95 % of the slopes change odds by less than
#: e^4.9 = 134 times. Half (11 times) shrinks what strong predictors do; double (18,000 times) leaves separated columns to
#: the prior's tail. Under perfect separation a coefficient is 13 with 2.5 and 21 with 5 (docs/theory/regression.md).
SCALE = 2.5
#: That of the intercept: the log odds between two categories of Jeffreys' Dirichlet(½) have variance 2ψ′(½) = π².
INTERCEPT = math.pi
#: Time: Columns with more entries are multiplied without their zeros.
DENSE = 2**14
#: Rule: Of the half-normal prior of the sd between groups, in log odds: its median is .67, and 95 % are below 1.96, so that
#: one group in six has more than twice the odds of the middle at the median, and more than seven times at the upper end.
#: With half the latter is 2.7 times, less than regions differ in; with double 50 times, and few groups hardly shrink.
BETWEEN = 1.0


@dataclass(frozen=True, eq=False)
class Effects:
    """Varying coefficients of one grouping factor, such as ``(1 | county)``, or a walk over ordered levels.

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
    root : (levels, k) array, optional
        The effects of k standard normal unknowns at unit sd; without it each level has an unknown.
    """

    name: str
    levels: tuple[str, ...]
    matrix: np.ndarray
    scale: float = BETWEEN
    unit: float = 1.0
    centre: float = 0.0
    intercept: int | None = None
    root: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Number of unknowns of each free category."""
        return len(self.levels) if self.root is None else self.root.shape[1]


@dataclass(frozen=True, eq=False)
class Monotone:
    """An effect that rises or falls over ordered levels: a normal change from the first to the last, in steps of a simplex.

    Parameters
    ----------
    name : str
        Such as ``mo(schooling)``.
    levels : tuple of str
    matrix : (cells, levels) array
        1 in the level of each cell.
    root : (levels, levels − 1) array
        1 for the steps below each level, each column less its mean over people.
    scale : float
        Standard deviation of the change of the log odds between two categories; the steps are Dirichlet(1).

    References
    ----------
    Bürkner and Charpentier 2020, British Journal of Mathematical and Statistical Psychology 73.
    """

    name: str
    levels: tuple[str, ...]
    matrix: np.ndarray
    root: np.ndarray
    scale: float = SCALE


def moments_of(columns: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (means, standard deviations) of columns over people, 1 for columns that do not vary.

    Parameters
    ----------
    columns : (cells,) or (cells, terms) array
    sizes : (cells,) array
        People of each cell.
    """
    weight = sizes / sizes.sum()
    mean = weight @ columns
    mean = mean + weight @ (columns - mean)  # to the last digit, however far from 0 the column is
    sd = np.sqrt(weight @ (columns - mean) ** 2)
    return mean, np.where(sd > np.finfo(float).eps * np.abs(columns).max(axis=0, initial=0.0), sd, 1.0)


def walk_root(places: np.ndarray) -> np.ndarray:
    """Return R with R Rᵀ the covariance of a random walk at some places, less its mean, of mean variance 1, (m, m − 1).

    The unknowns are those of its principal axes, from smooth to rough.

    Parameters
    ----------
    places : (m,) increasing array
    """
    values, vectors = np.linalg.eigh(_centred_walk(places))
    return (vectors * np.sqrt(np.maximum(values, 0.0) / values.mean()))[:, :0:-1]


def walk_between(places: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (weights of the known levels (new, m), sd of what is added to them) of such a walk at new places.

    Between two levels a walk is normal about the straight line, beyond the last about that one.

    Parameters
    ----------
    places : (m,) increasing array
    new : (new,) array
    """
    at = np.searchsorted(places, new)
    low, high = np.clip(at - 1, 0, None), np.clip(at, None, len(places) - 1)
    before, after = np.abs(new - places[low]), np.abs(places[high] - new)
    inside = low != high
    weight = np.where(inside, before / np.where(inside, before + after, 1.0), 0.0)
    matrix = np.zeros((len(new), len(places)))
    np.add.at(matrix, (np.arange(len(new)), low), 1 - weight)
    np.add.at(matrix, (np.arange(len(new)), high), weight)
    variance = np.where(inside, weight * after, before) / np.linalg.eigvalsh(_centred_walk(places)).mean()
    return matrix, np.sqrt(variance)


def _centred_walk(places):
    covariance = np.minimum.outer(places, places) - places[0]
    return covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None] + covariance.mean()


@dataclass(frozen=True, eq=False)
class Regression(AbstractSoftmax):
    """Multinomial logit: P_c = softmax(X_c B), B normal on standardized columns, with normal effects of groups.

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
    monotone : sequence of Monotone
    sizes : (cells,) array, optional
        How much each cell weighs in means and standard deviations of the columns.
    reference : int
        Category that coefficients are log odds against.
    link : {"logit", "probit", "cloglog", "cauchit"}
        How the share of the other of two categories follows from what the columns move. Scales of priors are log odds with
        every link: those of columns where both shares are ½, that of the intercept at any share.

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
    monotone: tuple[Monotone, ...] = ()
    link: str = "logit"

    def __post_init__(self):
        checks.choice(self.link, "link", ("logit", *LINKS))
        if self.link != "logit" and self.n_categories != 2:
            raise ArgumentError(f"link must be logit for more than two categories, got {self.link!r}.")
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

    # ---- the link ------------------------------------------------------------------------------------------------------
    @property
    def linked(self) -> Link | None:
        """The link, None of log odds."""
        return LINKS.get(self.link)

    @property
    def unit(self) -> float:
        """What a coefficient counts for a unit of log odds, where both shares are ½."""
        return 1.0 if self.linked is None else self.linked.unit

    @cached_property
    def event(self) -> np.ndarray:
        """1 for the category whose share is F(η), −1 for the reference."""
        return np.where(np.arange(2) == self.reference, -1.0, 1.0)

    def to_odds(self, eta: np.ndarray) -> np.ndarray:
        """Return the logits of P, (…, cells, a), of what the columns add up to."""
        return eta if self.linked is None else 0.5 * self.linked.log_odds(eta @ self.event)[..., None] * self.event

    def pulled_slopes(self, values: Mapping[str, np.ndarray], slope: np.ndarray, cell: Any = slice(None)) -> np.ndarray:
        """Return the gradient in X B, (n, a − 1), of a function of the logits of cells with the gradient slope, (n, a)."""
        if self.linked is not None:
            steep = self.linked.slope(self._sums(values, np)[cell] @ self.event)
            slope = 0.5 * (steep * (slope @ self.event))[..., None] * self.event
        return slope @ self.basis

    def slopes_of(self, z: np.ndarray) -> Any:
        """Return the derivatives of what the unknowns of the columns stand for at z, (n_unknowns,); 1 without a link."""
        return self.blocks()[""][0].slope(z[self.spans[""]])

    def pymc(self, name: str) -> Any:
        if self.linked is not None:
            raise InfeasibleError(f"A regression with the link {self.link} has no PyMC variable; the logit has one.")
        return super().pymc(name)

    # ---- the columns ---------------------------------------------------------------------------------------------------
    @cached_property
    def intercept(self) -> int | None:
        """Position of the column of ones, or None."""
        ones = np.flatnonzero((self.design == 1).all(axis=0))
        return int(ones[0]) if ones.size else None

    @cached_property
    def scales(self) -> np.ndarray:
        """Prior sd of what one sd of each column moves, shape (terms,): without a link the log odds of two categories."""
        return self.odds_scales * self.unit

    @cached_property
    def odds_scales(self) -> np.ndarray:
        """The same in log odds, where both shares are ½."""
        k = self.design.shape[1]
        if self.scale is None:
            scales = np.full(k, SCALE)
            if self.intercept is not None:
                scales[self.intercept] = INTERCEPT
            return scales
        scale = checks.reals(self.scale, "scale", "a number above 0, or one per term", ndim=None)
        if scale.shape not in ((), (1,), (k,)):
            raise ArgumentError(f"scale must be a number above 0, or one per term, got shape {scale.shape}.")
        scales = np.array(np.broadcast_to(scale, (k,)))
        if not (np.isfinite(scales) & (scales > 0)).all():
            raise ArgumentError("scale must be finite and above 0.")
        return scales

    @cached_property
    def spread(self) -> np.ndarray:
        """Standard deviation of each column over people, 1 for columns that do not vary, shape (terms,)."""
        return self._moments[1]

    @cached_property
    def _moments(self):
        mean, sd = moments_of(self.design, self.sizes)
        return (mean if self.intercept is not None else np.zeros_like(mean)), sd

    @cached_property
    def transform(self) -> np.ndarray:
        """T with X T the columns that standard normal unknowns multiply: B = T Z Vᵀ, shape (terms, terms)."""
        mean, sd = self._moments
        factor = self.scales / (sd * math.sqrt(2))
        matrix, intercept = np.diag(factor), self.intercept
        if intercept is not None:
            matrix[intercept] = -mean * factor
            matrix[intercept, intercept] = self.scales[intercept] / math.sqrt(2)
        return matrix

    @cached_property
    def columns(self) -> np.ndarray:
        """X T, shape (cells, terms)."""
        return self.design @ self.transform

    @cached_property
    def basis(self) -> np.ndarray:
        """V: orthonormal columns that sum to zero over the categories, shape (a, a − 1)."""
        return np.ascontiguousarray(helmert(self.n_categories).T)

    @cached_property
    def odds(self) -> np.ndarray:
        """What turns coordinates in the basis into log odds against the reference category, shape (a − 1, a)."""
        return (self.basis - self.basis[self.reference]).T

    # ---- the prior -----------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.design), self.n_categories)

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        free = self.n_categories - 1
        law: Law = NormalLaw()
        if self.linked is not None and self.intercept is not None:
            way = float(self.basis[:, 0] @ self.event) / math.sqrt(2)
            own = self.odds_scales[self.intercept]
            law = ShareLaw(self.linked, self.intercept, way * own, way * own * self.unit)
        blocks: dict[str, tuple[Law, tuple[int, ...]]] = {"": (law, (self.design.shape[1], free))}
        for i, rise in enumerate(self.monotone):
            blocks[f"change_{i}"] = NormalLaw(), (1, free)
            blocks[f"steps_{i}"] = ExponentialLaw(), (len(rise.levels) - 1,)  # over their sum they are Dirichlet(1)
        for i, effect in enumerate(self.effects):
            blocks[f"sd_{i}"] = ScaleLaw(2, effect.scale), (1,)
            blocks[f"effects_{i}"] = NormalLaw(), (effect.size, free)
        return blocks

    @property
    def levelled(self) -> list[Any]:
        """What has levels: monotone effects and effects of groups."""
        return [*self.monotone, *self.effects]

    @cached_property
    def matrix(self) -> Any:
        """All columns: X T, and those of the levels of each part, (cells, K); sparse where they have many entries."""
        matrix = np.hstack([self.columns, *(part.matrix for part in self.levelled)])
        return matrix if matrix.size <= DENSE else csr_array(matrix)

    @cached_property
    def _transposed(self):
        return self.matrix.T

    def eta(self, values: Mapping[str, Any], xp: Any) -> Any:
        return self.to_odds(self._sums(values, xp))

    def _sums(self, values: Mapping[str, Any], xp: Any) -> Any:
        """Return what the columns add up to, (…, cells, a)."""
        rises = [self._rise(values, i, xp) for i in range(len(self.monotone))]
        effects = [self._effects(values, i, xp) for i in range(len(self.effects))]
        stacked = xp.concatenate([values[""], *rises, *effects], axis=-2)
        eta = times(self.matrix, stacked) if xp is np else xp.dot(csr_array(self.matrix).toarray(), stacked)
        return eta @ self.basis.T  # the logits sum to zero over the categories

    def _effects(self, values: Mapping[str, Any], i: int, xp: Any = np) -> Any:
        """Return the effects of the levels of factor i, in the basis, (…, levels, a − 1)."""
        root = self.effects[i].root
        effects = values[f"sd_{i}"][..., None] / math.sqrt(2) * values[f"effects_{i}"]
        return effects if root is None else xp.matmul(root, effects)

    def _rise(self, values: Mapping[str, Any], i: int, xp: Any = np) -> Any:
        """Return the monotone effect i of its levels, in the basis, (…, levels, a − 1)."""
        rise, steps = self.monotone[i], values[f"steps_{i}"]
        along = (steps / steps.sum(axis=-1, keepdims=True))[..., None] * values[f"change_{i}"]
        return xp.matmul(rise.root * (rise.scale / math.sqrt(2)), along)

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        inner = self.pulled_slopes(values, slope)
        ends = np.cumsum([self.design.shape[1], *(len(part.levels) for part in self.levelled)])[:-1]
        first, *of_levels = np.split(self._transposed @ inner, ends)
        slopes, more = {"": first}, iter(of_levels)
        for i, rise in enumerate(self.monotone):
            pulled = rise.root.T @ next(more) * (rise.scale / math.sqrt(2))
            steps, along = values[f"steps_{i}"], (pulled * values[f"change_{i}"]).sum(axis=1)
            share = steps / steps.sum()
            slopes[f"change_{i}"] = share @ pulled
            slopes[f"steps_{i}"] = (along - share @ along) / steps.sum()
        for i, effect in enumerate(self.effects):
            pulled = next(more) / math.sqrt(2)
            pulled = pulled if effect.root is None else effect.root.T @ pulled
            slopes[f"sd_{i}"] = (pulled * values[f"effects_{i}"]).sum()
            slopes[f"effects_{i}"] = values[f"sd_{i}"] * pulled
        return slopes

    @property
    def owners(self) -> np.ndarray:
        """The category of each kind of people, (kinds,): the columns of the likelihood rows are these kinds."""
        return np.arange(self.n_categories)

    def kinds(self, z: np.ndarray) -> np.ndarray:
        """Return the shares of the kinds, (…, cells, kinds): P, where there is one kind to a category."""
        return self.to_simplex(z)

    @cached_property
    def collapse(self) -> np.ndarray:
        """Which category each kind is of, ones and zeros of shape (kinds, a)."""
        return np.eye(self.n_categories)[self.owners]

    def stated(self, table: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return likelihood rows as a result keeps them, as {name: (dims, values)}."""
        return {"likelihood_rows": (("code", "category"), table)}

    def stated_columns(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return further columns of the cells that a result keeps, as {name: (dims, values)}."""
        return {}

    def disjoint(self) -> tuple[int, int] | None:
        if len(self.effects) != 1 or self.effects[0].root is not None:
            return None
        return self.spans["effects_0"].start, self.n_categories - 1

    def multiplied(self) -> Mapping[str, str]:
        return {f"sd_{i}": f"effects_{i}" for i in range(len(self.effects))}

    @cached_property
    def linear(self) -> Linear | None:  # type: ignore[override]  # cached
        if self.linked is not None:
            return None
        units = [rise.scale for rise in self.monotone] + [1.0] * len(self.effects)
        sizes = [len(part.levels) for part in self.levelled]
        unit = np.append(np.ones(self.design.shape[1]), np.repeat(units, sizes) / math.sqrt(2))
        columns = csr_array(self.matrix).multiply(unit)
        terms = [Term(0, 0, self.design.shape[1])]
        terms += [Term(2, self.spans[f"change_{i}"].start, len(r.levels), r.root) for i, r in enumerate(self.monotone)]
        for i, effect in enumerate(self.effects):  # the scales are taken out
            start = self.spans[f"effects_{i}"].start - i - 1
            terms.append(Term(int(effect.root is not None), start, len(effect.levels), effect.root))
        return Linear(self.basis, columns, terms, self.unknown_device)

    @property
    def unknown_device(self) -> tuple | None:
        """What compiled functions read of a device whose shares are unknowns; None where it is known."""
        return None

    def describe(self) -> str:
        intercept, slopes = self.intercept, np.delete(self.scales, [] if self.intercept is None else self.intercept)
        texts = [] if self.linked is None else [f"{self.linked.title} link"]
        if intercept is not None:
            what = "intercept" if self.linked is None else "log odds at average covariates"
            texts.append(f"{what} N(0, {self.odds_scales[intercept]:.3g}²)")
        if slopes.size:
            same = np.ptp(slopes) == 0
            sizes = f"{slopes[0]:.3g}" if same else f"{slopes.min():.3g}² to {slopes.max():.3g}"
            texts.append(f"coefficients N(0, {sizes}²) for one sd of the column")
        for effect in self.effects:
            of = "" if effect.unit == 1 else " for one sd of the column"
            texts.append(f"sd of {effect.name} half-normal({effect.scale:g}){of}")
        texts += [f"change over {effect.name} N(0, {effect.scale:.3g}²) in Dirichlet(1) steps" for effect in self.monotone]
        return f"regression, {', '.join(texts)}"

    def to_dict(self) -> dict[str, np.ndarray]:
        return {"coefficient_scale": self.scales, "column_sd": self.spread}

    # ---- what readers ask for ------------------------------------------------------------------------------------------
    def coefficients(self, z: np.ndarray) -> np.ndarray:
        """Return B on the columns as they are, against the reference category, shape (k, terms, a): log odds, or of a link.

        Parameters
        ----------
        z : (k, n_unknowns) array
        """
        return self.transform @ self.values(np.asarray(z, dtype=float))[""] @ self.odds

    def coefficient_sd(self) -> np.ndarray:
        """Return the prior sd of the coefficients, shape (terms, a); zero for the reference category.

        With a link that of the intercept is one where both shares are ½.
        """
        return np.sqrt((self.transform**2).sum(axis=1)[:, None] * (self.odds**2).sum(axis=0))

    def coords(self) -> dict[str, Sequence]:
        """Return the labels of the dims of variables() other than cell and category."""
        coords: dict[str, Sequence] = {"term": list(self.terms)}
        coords |= {f"{part.name}_level": list(part.levels) for part in self.levelled}
        for rise in self.monotone:
            coords[f"{rise.name}_step"] = list(rise.levels[1:])
        return coords

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the coefficients, the sd between groups and the effects of levels, for z of shape (k, n_unknowns).

        Log odds are against the reference category, whose own entries are zero.
        """
        values = self.values(np.asarray(z, dtype=float))
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        variables["coefficients"] = ("term", "category"), self.transform @ values[""] @ self.odds
        variables |= self.of_groups(values)
        for i, rise in enumerate(self.monotone):
            steps, change = values[f"steps_{i}"], values[f"change_{i}"][..., 0, :] * (rise.scale / math.sqrt(2))
            variables[f"{rise.name}_change"] = ("category",), change @ self.odds
            variables[f"{rise.name}_steps"] = (f"{rise.name}_step",), steps / steps.sum(axis=-1, keepdims=True)
            variables[rise.name] = (f"{rise.name}_level", "category"), self._rise(values, i) @ self.odds
        return variables

    def of_groups(self, values: Mapping[str, np.ndarray]) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the sd between groups and the effects of levels, of what unknowns stand for."""
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        effects = [self._effects(values, i) @ self.odds / effect.unit for i, effect in enumerate(self.effects)]
        for i, effect in enumerate(self.effects):
            beside = [(j, other.centre) for j, other in enumerate(self.effects) if other.intercept == i]
            of_levels = effects[i] - sum(centre * effects[j] for j, centre in beside)
            variables[f"{effect.name}_sigma"] = ((), values[f"sd_{i}"][..., 0] / effect.unit)
            variables[effect.name] = ((f"{effect.name}_level", "category"), of_levels)
        return variables
