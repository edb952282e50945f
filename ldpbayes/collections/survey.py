"""Samples that are not simple random ones: weights, strata, clusters, and how much less (or more) their reports say."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks
from ldpbayes.collections.tally import rows_weighed
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.likelihoods import Rows, StackedRows

#: Mathematics: Directions in which the scores vary by less than this share of the largest variance carry no information.
RANK_TOLERANCE = 1e-10
#: Mathematics: Weights above are no weights of a sample; their squares would overflow.
LARGEST_WEIGHT = 1e100
#: What weights leave out.
NO_USERS = "The respondents' own frequencies F and the evidence have no meaning under weights and are left out."
#: What is said of cells some of which have weights; the numbers of each are facts about it.
WEIGHTED_CELLS = f"Pseudo-posterior: the weights of every cell add up to its effective respondents. {NO_USERS}"
#: What is said of cells that respondents of one cluster are in, and of every sum and difference of such cells.
SHARED_CLUSTERS = (
    "Cells have clusters in common, so that their errors go together: the interval of each cell is right, those of sums and "
    "differences take them as independent. regress by the grouping columns, with the same cluster, has the error of both."
)
#: Rule: With fewer degrees of freedom a design effect is said to be uncertain: quantiles of t are 4 % and more above normal
#: ones.
FEW = 30
#: The one stratum of a sample without strata, which no label can have.
ALL = ""


@dataclass(frozen=True, eq=False)
class DesignEffect:
    """How much larger the variance of an estimate is under the design of a sample than under simple random sampling.

    Attributes
    ----------
    value : float
        The mean of ``effects``; beside a prior tr(H⁻¹V)/tr(H⁻¹V₀), H = V₀ + the prior's curvature.
    effects : (r,) array
        The generalized design effects, largest first: the eigenvalues of V₀⁻¹V.
    kish : float
        n Σw² / (Σw)²: what the weights alone would give; it cannot see strata and clusters.
    n : int
        Number of respondents.
    degrees : float
        The degrees of freedom of the variance. Where all sampled units (clusters, or respondents) are alike, they are the
        units less strata; a domain that most of them have nobody of has fewer.
    variance, random, noise : (k, k) arrays
        V, the variance over the design of the total of the weighted scores, whose weights add up to n; V₀, what it would be
        under simple random sampling; and the part of V that comes from the device alone.
    floor : float
        What ``value`` would be if the device alone made the reports vary.
    """

    value: float
    effects: np.ndarray
    kish: float
    n: int
    degrees: float
    variance: np.ndarray
    random: np.ndarray
    noise: np.ndarray
    floor: float = 0.0

    @property
    def inflation(self) -> float:
        """(t(degrees) / t(n − 1))² ≥ 1, t the .975 quantiles of Student's law: what V is made larger by, as an estimate."""
        from scipy.special import stdtrit

        least, most = stdtrit([self.n - 1.0, min(max(self.degrees, 1.0), 1e9)], 0.975)
        return max(most / least, 1.0) ** 2

    @property
    def respondents(self) -> float:
        """How many respondents of a simple random sample know as much, as far as the sample tells its own design effect.

        n / (value · inflation) (Korn and Graubard 1998, Survey Methodology 24); not more than the randomness of the device
        allows, and not fewer than one.
        """
        if self.n < 2:
            return float(self.n)
        return max(self.n / max(self.value * self.inflation, self.floor), 1.0)

    def of_respondents(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (V₀, V) of scores whose weights add up to ``respondents``; V inflated, and not below the device's part."""
        share = self.respondents / self.n
        inflated = self.inflation * self.variance
        values, vectors = np.linalg.eigh(self.noise - inflated)
        return share * self.random, share**2 * (inflated + (vectors * np.maximum(values, 0.0)) @ vectors.T)

    def sentence(self, each: str = "category") -> str:
        """Return what a reader should know of the design, as a sentence.

        Parameters
        ----------
        each : str
            What the intervals are of that one number serves; empty where each has an effect of its own.
        """
        text = (
            f"The design effect is {self.value:.3g} (weights alone: {self.kish:.3g}): the {self.n:,} reports of this sample "
            f"know as much as {self.respondents:,.0f} of a simple random sample."
        )
        if each and self.effects.size > 1 and self.effects[0] > 1.25 * self.effects[-1]:
            text += (
                f" It is the mean over {self.effects.size} directions, in which it goes from {self.effects[-1]:.3g} to "
                f"{self.effects[0]:.3g}: intervals are right on average, not for each {each}."
            )
        if self.n > 1 and self.degrees < FEW:
            text += (
                f" The effect is estimated with {max(self.degrees, 1.0):.3g} degrees of freedom (about the sampled units "
                "with anybody of these, less strata), for which it is made larger."
            )
        return text


def design_effect(
    scores: ArrayLike,
    weights: ArrayLike | None = None,
    strata: Sequence | np.ndarray | None = None,
    clusters: Sequence | np.ndarray | None = None,
    population: float | Mapping | None = None,
    *,
    counts: ArrayLike | None = None,
    device: ArrayLike | float = 0.0,
    frame: Mapping[str, tuple[float, float]] | None = None,
    curvature: float | None = None,
) -> DesignEffect:
    """Return the linearized design effect of an estimate that solves Σ w_i s_i(θ) = 0.

    With weights that add up to n and scores s_i at the estimate, the variance of Σ w_i s_i over the design is
    V = Σ_h (1 − f_h) n_h/(n_h − 1) Σ_c (z_hc − z̄_h)(z_hc − z̄_h)ᵀ, where z_hc is the sum of w_i s_i over the cluster c of
    the stratum h, n_h the number of sampled clusters there and f_h their share of the population's. Under simple random
    sampling it would be V₀ = n/(n − 1) Σ w_i s_i s_iᵀ. The estimate's own variance is J⁻¹VJ⁻¹ in both cases, so that the
    eigenvalues of V₀⁻¹V are the generalized design effects of θ; their mean is the effect of one number.

    Parameters
    ----------
    scores : (m,) or (m, k) array
        Gradient of log P(report_i | θ) at the weighted estimate, one row per respondent or group of equal ones.
    weights : (m,) array, optional
        Sampling weights of any scale, above zero; equal ones by default.
    strata, clusters : (m,) sequence, optional
        Labels. A cluster lies in one stratum: equal labels in two strata are two clusters. Without clusters every
        respondent is one.
    population : float or mapping, optional
        How many units (respondents, or clusters where clusters were sampled) the population has: in all, or by stratum.
        The correction 1 − f_h is for samples without replacement. A total is divided among strata in proportion to the
        weights; with clusters the same f is used in all of them, and people are taken to be drawn in the clusters.
    counts : (m,) array of whole numbers, optional
        Respondents behind each row, who are alike in everything; without clusters each is a sampling unit.
    device : (k, k) array or float
        Covariance of one score given the true answer, or its share of the covariance of any score. The randomness of the
        device does not shrink as the sample takes in the population: this part keeps its weight f_h. With clusters the
        whole f_h Σ w_i² s_i s_iᵀ stays.
    frame : mapping, optional
        Where the rows are a domain of a larger sample, such as its women: units sampled and their total weight in every
        stratum of the whole sample. n_h and f_h are then those of the sample, whose units without anybody of the domain
        have z_hc = 0.
    curvature : float, optional
        Of the log-prior of coefficients θ, the same in every direction: one where the unknowns are standard normal. The
        coefficient of a column that is constant in clusters, and varies between few, makes their scores add up to nearly 0;
        what V lacks of it is added as if respondents were independent.

    Returns
    -------
    DesignEffect

    Raises
    ------
    ArgumentError, DataError
        On weights that are missing or not positive, a stratum with one unit, or a population smaller than the sample.

    References
    ----------
    Binder (1983), International Statistical Review 51; Rao and Scott (1981), Journal of the American Statistical
    Association 76; docs/theory/survey.md.
    """
    s = np.asarray(scores, dtype=float)
    s = s[:, None] if s.ndim == 1 else s
    if s.ndim != 2 or not len(s):
        raise ArgumentError(f"scores must have shape (respondents,) or (respondents, k), got {np.shape(scores)}.")
    if not np.isfinite(s).all():
        raise ArgumentError("scores must be finite.")
    m = len(s)
    c = np.ones(m) if counts is None else _column(counts, m, "counts").astype(float)
    w = np.ones(m) if weights is None else check_weights(_column(weights, m, "weights"))
    stratum, labels = _codes(strata, m, "strata")
    n, nothing = float(c.sum()), np.zeros((s.shape[1], s.shape[1]))
    if n < 2 and frame is None:
        raise DataError("the variance over a design needs at least two respondents, got 1")
    if n < 2:  # the only one of a domain
        return DesignEffect(1.0, np.ones(1), 1.0, 1, 0.0, nothing + np.nan, nothing, nothing)
    kish = float(n * (c @ w**2) / (c @ w) ** 2)
    w = w * (n / float(c @ w))
    s = s - (c * w) @ s / n
    under_random = n / (n - 1) * (s.T * (c * w)) @ s

    def noise(weight: np.ndarray) -> np.ndarray:  # of the device, in a total of scores with squared weights
        return weight.sum() * np.atleast_2d(device) if np.ndim(device) else device * (s.T * weight) @ s

    variance, degrees = _variance(s * w[:, None], w, c, stratum, labels, clusters, population, noise, frame)
    lowest = noise(c * w**2)
    if curvature is not None and clusters is not None:
        inverse = np.linalg.pinv(under_random + curvature * np.eye(len(nothing)), hermitian=True)
        variance = variance + _lost(s, w, c, stratum, clusters, inverse)
    if n >= 2 and not degrees > 0:  # a domain in one cluster: together they know what one of them does, or more
        return DesignEffect(n, np.array([n]), kish, round(n), 0.0, nothing + np.nan, under_random, lowest)
    values, vectors = np.linalg.eigh(under_random)
    positive = values > max(RANK_TOLERANCE * values[-1], np.finfo(float).tiny)
    if not positive.any():  # every report is the same: no score varies
        return DesignEffect(kish, np.array([kish]), kish, round(n), degrees, variance, under_random, lowest)
    root, told = vectors[:, positive] / np.sqrt(values[positive]), values[positive] / (values[positive] + (curvature or 0.0))
    along = root.T @ variance @ root
    value, floor = (float(told @ np.diag(x) / told.sum()) for x in (along, root.T @ lowest @ root))
    if not max(value, floor) > 0:
        raise DataError("the scores do not vary between the units of any stratum, so that the design effect is 0")
    effects = np.linalg.eigvalsh(along)[::-1]
    return DesignEffect(value, effects, kish, round(n), degrees, variance, under_random, lowest, floor)


def _variance(
    z: np.ndarray,
    w: np.ndarray,
    c: np.ndarray,
    stratum: np.ndarray,
    labels: list,
    clusters: Any,
    population: Any,
    noise: Callable[[np.ndarray], np.ndarray],
    frame: Mapping | None,
) -> tuple[np.ndarray, float]:
    """Return (variance over the design of the total of z, its degrees of freedom)."""
    if clusters is None:
        unit_stratum, totals, many, sums = stratum, z, c, np.stack([w, w**2])
    else:
        cluster, names = _codes(clusters, len(z), "clusters")
        pairs, place = np.unique(stratum * len(names) + cluster, return_inverse=True)
        unit_stratum, many = pairs // len(names), np.ones(len(pairs))
        totals = np.zeros((len(pairs), z.shape[1]))
        np.add.at(totals, place.ravel(), c[:, None] * z)
        sums = np.stack([np.bincount(place.ravel(), c * w**power) for power in (1, 2)])
    units = np.bincount(unit_stratum, many, len(labels))
    weight = np.bincount(stratum, c * w, len(labels))
    strata = dict(zip(map(str, labels), zip(units, weight, strict=True), strict=True)) if frame is None else frame
    sampled = np.array([strata[str(label)][0] for label in labels])
    fraction = _fractions(population, labels, strata, clusters is not None)
    variance = np.zeros((z.shape[1], z.shape[1]))
    for h, label in enumerate(labels):
        if fraction[h] < 1:
            if sampled[h] < 2:
                unit = "respondent" if clusters is None else "cluster"
                where = f"stratum {shown(label)}" if len(labels) > 1 else "the sample"
                raise DataError(
                    f"{where} has a single {unit}, so that its variance is unknown; join it to another stratum, or state "
                    "its population"
                )
            here = unit_stratum == h
            mean = many[here] @ totals[here] / sampled[h]
            apart = totals[here] - mean
            within = (apart.T * many[here]) @ apart + (sampled[h] - units[h]) * np.outer(mean, mean)
            variance += (1 - fraction[h]) * sampled[h] / (sampled[h] - 1) * within
    degrees = _degrees(sums[0], sums[1], many, unit_stratum, sampled, fraction)
    if clusters is not None:  # people drawn in clusters that were taken for sure are a sample as before
        variance += (z.T * (c * fraction[stratum])) @ z
    else:
        variance += noise(c * w**2 * fraction[stratum])
    return variance, degrees


def _lost(
    s: np.ndarray, w: np.ndarray, c: np.ndarray, stratum: np.ndarray, clusters: Any, inverse: np.ndarray
) -> np.ndarray:
    """Return W − E[V], by how much V is too small where respondents are independent and W = Σ w² s sᵀ is their variance.

    The estimate moves with all scores, so that of a cluster with the total S_c what is left is z_c = S_c − I_c H⁻¹ S, with
    I_c = Σ w s sᵀ over the cluster and H⁻¹ the inverse curvature; and E z_c z_cᵀ = W_c − I_c H⁻¹ W_c − W_c H⁻¹ I_c +
    I_c H⁻¹ W H⁻¹ I_c, of a stratum as of a cluster.
    """
    total = (s.T * (c * w**2)) @ s

    def left(rows: np.ndarray) -> np.ndarray:
        told, own = ((s[rows].T * (c * w**power)[rows]) @ s[rows] for power in (1, 2))
        crossed = told @ inverse @ own
        return own - crossed - crossed.T + told @ inverse @ total @ inverse @ told

    cluster, lost = _codes(clusters, len(s), "clusters")[0], total
    for h in np.unique(stratum):
        here = np.flatnonzero(stratum == h)
        here = here[np.argsort(cluster[here], kind="stable")]
        units = np.split(here, np.flatnonzero(np.diff(cluster[here])) + 1)
        lost = lost - (sum(map(left, units)) - left(here) / len(units)) * len(units) / (len(units) - 1)
    return lost


def _degrees(
    w: np.ndarray, v: np.ndarray, many: np.ndarray, stratum: np.ndarray, sampled: np.ndarray, fraction: np.ndarray
) -> float:
    """Return the degrees of freedom of V, by the Satterthwaite approximation: (tr B)²/tr(B²).

    If scores were independent with one variance, the totals u of the units would have the variances v. V is a quadratic form
    of z = u − w Σu/Σw, since the estimate makes the weighted scores add up to 0: V = zᵀAz with A = g(I − 11ᵀ/n_h) in every
    stratum, g = (1 − f_h) n_h/(n_h − 1); and B = D G D, D = diag(√v), G_ij = A_ij − r_i − r_j + κ, r = Aw/Σw, κ = rᵀw/Σw
    (Bell and McCaffrey 2002, Survey Methodology 28). Sums over pairs are products of sums.
    """
    size = sampled.size

    def by(x: np.ndarray) -> np.ndarray:  # sums by stratum
        return np.bincount(stratum, many * x, size)

    g = (1 - fraction) * sampled / np.maximum(sampled - 1, 1)
    r = g[stratum] * (w - (by(w) / sampled)[stratum]) / (many @ w)
    kappa = float((many * r) @ w / (many @ w))
    total, crossed, square = (many * v).sum(), (many * v) @ r, (many * v) @ r**2
    trace = g @ (by(v) * (1 - 1 / sampled)) - 2 * crossed + kappa * total
    both = g**2 @ (by(v**2) * (1 - 2 / sampled) + (by(v) / sampled) ** 2)
    both += 2 * g @ (by(v**2 * (kappa - 2 * r)) - (kappa * by(v) ** 2 - 2 * by(v) * by(v * r)) / sampled)
    both += kappa**2 * total**2 + 2 * total * square + 2 * crossed**2 - 4 * kappa * total * crossed
    if trace <= 1e-9 * (many @ v):  # nothing varies but the device: everybody was asked, or all are of one unit
        return 0.0 if (fraction < 1).any() else np.inf
    return float(trace**2 / both)


def _fractions(population: Any, labels: list, frame: Mapping, clustered: bool) -> np.ndarray:
    """Return f_h, the share of the population's units that were sampled, by stratum."""
    if population is None:
        return np.zeros(len(labels))
    sampled, weight = np.array([frame[str(label)] for label in labels]).T
    units, total = np.sum(list(frame.values()), axis=0)
    if isinstance(population, Mapping):
        if labels == [ALL]:
            raise ArgumentError("population by stratum needs the strata of the sample; state them, or one number.")
        sizes = {str(label): size for label, size in population.items()}
        missing = [label for label in labels if str(label) not in sizes]
        if missing:
            stated = f"it states {listed(sizes)}"
            raise ArgumentError(f"the population's size by stratum lacks that of {shown(missing[0])}; {stated}.")
        size = np.array([_size(sizes[str(label)]) for label in labels])
    elif clustered:
        size = _size(population) * sampled / units
    else:
        size = _size(population) * weight / total
    if (sampled > size * (1 + 1e-9)).any():
        h = int(np.argmax(sampled / size))
        where = f" of stratum {shown(labels[h])}" if len(labels) > 1 else ""
        raise DataError(f"population{where} must not be below the {sampled[h]:,.0f} sampled units, got {size[h]:,.6g}")
    return np.minimum(sampled / size, 1.0)


def _size(value: Any) -> float:
    try:
        size = float("nan") if isinstance(value, str) else float(value)  # a text of 1.000 may write a thousand
    except (TypeError, ValueError):
        size = float("nan")
    if not (0 < size < float("inf")) or isinstance(value, bool):
        raise ArgumentError(f"population must be a positive number, or one for each stratum, got {shown(value)}.")
    return size


def check_weights(weights: ArrayLike) -> np.ndarray:
    """Return weights as positive finite floats, or raise a DataError that names the first that is none."""
    try:
        w = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise DataError("weights must be numbers") from None
    bad = np.flatnonzero(~(np.isfinite(w) & (w > 0)))
    if not bad.size and w.size and w.max() > LARGEST_WEIGHT:
        raise DataError(f"weights must be at most {LARGEST_WEIGHT:g}, got {w.max():g}")
    if bad.size:
        value = w[bad[0]]
        what = "a missing one" if np.isnan(value) else f"{value:g}"
        raise DataError(f"weights must be above 0, got {what}; leave out the respondents that do not count")
    return w


def _column(values: Any, size: int, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (size,):
        raise ArgumentError(f"{name} must have one entry per row of the scores ({size}), got shape {array.shape}.")
    return array


def _codes(labels: Any, size: int, name: str) -> tuple[np.ndarray, list]:
    """Return (whole number per row, label of each number); None is one group."""
    if labels is None:
        return np.zeros(size, dtype=np.int64), [ALL]
    import pandas as pd

    codes, named = pd.factorize(_column(np.asarray(labels, dtype=object), size, name))
    if (codes < 0).any() or "" in named:
        raise DataError(f"{name} must not be missing")
    return codes, named.tolist()


@dataclass(frozen=True)
class SampleColumns:
    """The columns of a table that say how its respondents were sampled.

    Attributes
    ----------
    weights, strata, cluster : str or None
    population_size : float, mapping or None
        As in ``design_effect``.
    """

    weights: str | None = None
    strata: str | None = None
    cluster: str | None = None
    population_size: float | Mapping | None = None

    def __post_init__(self) -> None:
        for name in ("weights", "strata", "cluster"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise ArgumentError(f"{name} must be the name of a column, got {shown(value)}.")
        if len(set(self.names)) < len(self.names):
            raise ArgumentError(f"weights, strata and cluster must be different columns, got {', '.join(self.names)}.")

    def __bool__(self) -> bool:
        return bool(self.names) or self.population_size is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are named, in the order weights, strata, cluster."""
        return tuple(name for name in (self.weights, self.strata, self.cluster) if name is not None)

    def survey(self, parts: Sequence[tuple[int, np.ndarray, np.ndarray, list]]) -> Survey:
        """Return the Survey of entries as a reader finds them.

        Parameters
        ----------
        parts : sequence of (channel, places, counts, keys)
            Keys hold the cells of ``names``.

        Raises
        ------
        DataError
            Where a cell is missing, or a weight is no positive number.
        """
        channel = np.concatenate([np.full(len(place), i, dtype=np.int64) for i, place, _, _ in parts])
        place, counts = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        keys = [key for part in parts for key in part[3]]
        present = counts > 0
        columns = dict(zip(self.names, zip(*keys, strict=True), strict=True)) if self.names else {}
        for name, cells in columns.items():
            if any(checks.blank(cell) for cell in cells):
                raise DataError("holds missing values", field=name)
        weights = np.ones(len(place))
        if self.weights is not None:
            numbers = {cell: weight_of(cell, self.weights) for cell in set(columns[self.weights])}
            weights = np.array([numbers[cell] for cell in columns[self.weights]])
        strata, clusters = (
            None if name is None else np.array([str(cell) for cell in columns[name]], dtype=object)[present]
            for name in (self.strata, self.cluster)
        )
        rows = channel[present], place[present], counts[present], weights[present]
        return Survey(*rows, strata, clusters, self.population_size)

    def surveys(self, cells: Mapping[tuple, Sequence], absent: Mapping[tuple, Sequence]) -> dict[tuple, Survey]:
        """Return the Survey of every cell, with that of all who were asked where some gave no answer.

        Parameters
        ----------
        cells : mapping
            From the key of a cell to what ``survey`` takes.
        absent : mapping
            From the key of a cell to (number, entries of the columns of the sample) of those who gave no answer. Where an
            entry is missing, or a weight 0, nobody knows whom they stand for.
        """
        lost = {key: [(-1, *np.array([[0, n]]).T, [entry]) for n, entry in parts] for key, parts in absent.items()}
        by_key, asked = self._domains(cells), dict[tuple, Survey]()
        with contextlib.suppress(DataError):
            asked = self._domains({key: [*parts, *lost[key]] for key, parts in cells.items()})
        return {key: replace(survey, asked=asked.get(key) if lost[key] else None) for key, survey in by_key.items()}

    def _domains(self, cells: Mapping[tuple, Sequence]) -> dict[tuple, Survey]:
        """Return the Survey of every cell: domains of one sample, of which all know the strata."""
        by_key = {key: self.survey(parts) for key, parts in cells.items()}
        if len(by_key) == 1:
            return by_key
        surveys, weight = list(by_key.values()), Counter[Any]()
        clusters, units = set[tuple]().union(*(survey.sampled_clusters() for survey in surveys)), Counter[Any]()
        for survey in surveys:
            for h, n, w in zip(survey.stratum_of(), survey.counts.tolist(), survey.weights.tolist(), strict=True):
                units[h], weight[h] = units[h] + n, weight[h] + n * w
        units = Counter(h for h, _ in clusters) if clusters else units
        frame = {str(h): (float(units[h]), weight[h]) for h in units}
        return {key: replace(survey, frame=frame) for key, survey in by_key.items()}


def weight_of(cell: Any, name: str) -> float:
    """Return the weight that an entry of the column of weights holds, or raise a DataError."""
    try:
        return float(check_weights([cell])[0])
    except DataError as err:
        message = err.message if not isinstance(cell, str) else f"weights must be numbers above 0, got {shown(cell)}"
        raise DataError(message, field=name) from None


@dataclass(frozen=True, eq=False)
class Survey:
    """How the respondents behind a collection's reports were sampled: one row for each kind of respondent.

    Attributes
    ----------
    channel, place : (m,) int arrays
        The tally of the collection, and the report's place in it.
    counts : (m,) int array
        Respondents who are alike in everything.
    weights : (m,) array
    strata, clusters : (m,) object arrays or None
    population : float, mapping or None
        As in ``design_effect``.
    effect : DesignEffect or None
        Where it is known, the likelihood's weights add up to its ``respondents``, otherwise to n.
    frame : mapping or None
        The strata of the sample that this one is a domain of, as in ``design_effect``.
    asked : Survey or None
        Of all who were asked, where some gave no answer: these are of the channel −1.
    """

    channel: np.ndarray
    place: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    strata: np.ndarray | None = None
    clusters: np.ndarray | None = None
    population: float | Mapping | None = None
    effect: DesignEffect | None = None
    frame: Mapping[str, tuple[float, float]] | None = None
    asked: Survey | None = None

    def __post_init__(self) -> None:
        check_weights(self.weights)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Survey):
            return NotImplemented
        names = ("channel", "place", "counts", "weights", "strata", "clusters", "population", "frame", "asked")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((self.channel.tobytes(), self.place.tobytes(), self.weights.tobytes()))

    @property
    def n(self) -> int:
        """Number of respondents."""
        return int(self.counts.sum())

    def columns(self) -> SampleColumns:
        """Return the columns of a table that hold this survey."""
        weight = "weight" if (self.weights != 1).any() or (self.strata is None and self.clusters is None) else None
        named = ("stratum" if self.strata is not None else None, "cluster" if self.clusters is not None else None)
        return SampleColumns(weight, *named, self.population)

    def kinds(
        self, channel: int, names: SampleColumns | None = None
    ) -> Iterator[tuple[tuple[str, ...], np.ndarray, np.ndarray]]:
        """Yield (cells of the columns, by default ``columns()``, places, counts) of a channel's entries that share them."""
        names = names or self.columns()
        columns = [self.weights.tolist()] if names.weights else []
        columns += [labels.tolist() for labels in (self.strata, self.clusters) if labels is not None]
        groups: dict[tuple, list[int]] = {}
        for i in np.flatnonzero(self.channel == channel).tolist():
            key = tuple(repr(v) if isinstance(v, float) else str(v) for v in (column[i] for column in columns))
            groups.setdefault(key, []).append(i)
        for key, rows in groups.items():
            yield key, self.place[rows], self.counts[rows]

    def known_effect(self) -> float:
        """Return the design effect where it is known, otherwise that of the weights alone."""
        if self.effect is not None:
            return self.effect.value
        return float(self.n * (self.counts @ self.weights**2) / (self.counts @ self.weights) ** 2)

    def totals(self, tallies: Sequence) -> list[np.ndarray]:
        """Return the weight of every distinct report of each tally: Σ w = n, or the effect's ``respondents`` if known."""
        scale = (self.n if self.effect is None else self.effect.respondents) / float(self.counts @ self.weights)
        weights = self.counts * self.weights * scale
        here = [self.channel == i for i in range(len(tallies))]
        return [np.bincount(self.place[at], weights[at], len(t.reports)) for at, t in zip(here, tallies, strict=True)]

    def rows(self, tallies: Sequence) -> Rows:
        """Return the weighted likelihood rows of the tallies."""
        rows = [rows_weighed(tally, weights) for tally, weights in zip(tallies, self.totals(tallies), strict=True)]
        return (rows[0] if len(rows) == 1 else StackedRows(rows)).weighing()

    def respondents(self, tallies: Sequence) -> tuple[np.ndarray, np.ndarray]:
        """Return (dense likelihood rows (m, a) of all channels, the row of every entry)."""
        kinds = np.stack([self.channel, self.place], axis=1)
        return self.rows(tallies).dense(), np.unique(kinds, axis=0, return_inverse=True)[1].ravel()

    def design(self, scores: np.ndarray, device: np.ndarray | float = 0.0) -> DesignEffect:
        """Return the design effect of scores, one row per entry."""
        return design_effect(
            scores,
            self.weights,
            self.strata,
            self.clusters,
            self.population,
            counts=self.counts,
            device=device,
            frame=self.frame,
        )

    def absence(self) -> tuple[float, float]:
        """Return (weighted share of those who were asked that gave no answer, respondents who would know it as well).

        These are respondents of a simple random sample; nan of both where nobody's answer is missing or weights are.
        """
        if self.asked is None:
            return np.nan, np.nan
        absent, weight = (self.asked.channel < 0).astype(float), self.asked.counts * self.asked.weights
        try:  # where everybody of the population was asked the share is known, but for rounding
            known = self.asked.design(absent, np.full((1, 1), np.finfo(float).eps)).respondents
        except (ArgumentError, DataError):  # nobody of a stratum gave an answer, and its variance or size is not known
            known = self.asked.n / self.asked.known_effect()
        return float(absent @ weight / weight.sum()), known

    def sampled_clusters(self) -> set[tuple]:
        """Return the clusters, as (stratum, label): equal labels in two strata are two clusters."""
        return set() if self.clusters is None else set(zip(self.stratum_of(), self.clusters.tolist(), strict=True))

    def stratum_of(self) -> list:
        """Return the stratum of each row: one for all of a sample without strata."""
        return [ALL] * len(self.counts) if self.strata is None else self.strata.tolist()

    def stated(self) -> dict[str, Any]:
        """Return what every result says of these weights, by name, once their design effect is known."""
        if self.effect is None:
            return {}
        known = f"{self.sentence().rstrip('.')}; the{self.effect.sentence().removeprefix('The')}"
        pseudo = f"{known} This is a pseudo-posterior. {NO_USERS}"
        return {"design_effect": self.effect.value, "kish_effect": self.effect.kish, "pseudo": pseudo}

    def sentence(self) -> str:
        """Return how these respondents were sampled."""
        words = ["weights"] if np.ptp(self.weights) > 0 else []
        if self.strata is not None:
            words.append(f"{len(set(self.strata.tolist())):,} strata")
        if self.clusters is not None:
            words.append(f"{len(self.sampled_clusters()):,} clusters")
        words += ["a finite population"] if self.population is not None else []
        named = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
        return f"Sampled with {named or 'equal weights'}."


def stated_of_cells(surveys: Sequence[Survey]) -> dict[str, Any]:
    """Return what every result of cells says of their weights, and of the clusters that they have in common.

    Parameters
    ----------
    surveys : sequence of Survey
        Of the cells that have one.
    """
    clusters = [survey.sampled_clusters() for survey in surveys]
    shared = sum(map(len, clusters)) > len(set[tuple]().union(*clusters))
    return ({"pseudo": WEIGHTED_CELLS} if surveys else {}) | ({"clusters": SHARED_CLUSTERS} if shared else {})
