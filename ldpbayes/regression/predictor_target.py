"""The joint density of a private answer and an open outcome that depends on it: no answer is drawn, all are summed.

A row with report r and outcome y has the likelihood Σ_z P(r | z) P(z | x) f(y | z, x). Its logarithm is formed on the log
scale, category by category.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import chdtrc, logsumexp

from ldpbayes.constants import MIN_P_VALUE
from ldpbayes.errors import DiagnosticWarning, warn
from ldpbayes.inference.constants import DIFFERENCE
from ldpbayes.inference.newton import find_mode
from ldpbayes.priors.base import Law, NormalLaw, ScaleLaw
from ldpbayes.priors.regression import BETWEEN, Regression
from ldpbayes.regression import target as of_answers
from ldpbayes.regression.constants import LEAST, NUMBERS_IN_CACHE
from ldpbayes.regression.denying import Denied
from ldpbayes.regression.design import arrays
from ldpbayes.regression.devices import Tried
from ldpbayes.regression.lists import Listed
from ldpbayes.regression.maximum import starting_point
from ldpbayes.regression.predictor import OutcomeRecords
from ldpbayes.sources.records import Entries


@dataclass(frozen=True, eq=False)
class OutcomePrior(Regression):
    """The prior of a regression of a private answer, and that of the coefficients of an outcome.

    Parameters
    ----------
    records : OutcomeRecords
    """

    records: OutcomeRecords | None = None
    #: No engine compiles it as a whole.
    linear = None  # type: ignore[assignment]

    @property
    def outcome(self) -> OutcomeRecords:
        assert self.records is not None
        return self.records

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        # Before the groups' effects, which stand last: see ``disjoint``.
        own = dict(super().blocks())
        effects = {name: own.pop(name) for pair in self.multiplied().items() for name in pair}
        mine: dict[str, tuple[Law, tuple[int, ...]]] = {"outcome": (NormalLaw(), (len(self.outcome.design.terms),))}
        if self.outcome.asked.family.spread:
            mine["spread"] = ScaleLaw(2, BETWEEN), (1,)
        return {**own, **mine, **effects}

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        mine = {
            name: np.zeros(self.spans[name].stop - self.spans[name].start) for name in ("outcome", "spread")[: self._own]
        }
        return {**super().pulled(values, slope), **mine}

    @property
    def _own(self) -> int:
        return 1 + self.outcome.asked.family.spread

    def outcome_coefficients(self, z: np.ndarray) -> np.ndarray:
        """Return the coefficients of η on the columns as they are, in units of the outcome, for z of shape (k, u)."""
        centre, unit = self.outcome.units
        out = unit * (z[:, self.spans["outcome"]] @ self.outcome.transform.T)
        out[:, self.outcome.intercept] += centre
        return out

    def told(self, z: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Return (coefficients of the outcome for one sd of their columns (k, terms), their names, their log-density)."""
        own = z[:, self.spans["outcome"]]
        return own * self.outcome.scales, list(self.outcome.design.terms), -0.5 * (own**2).sum(axis=1)

    def precisions(self, z: np.ndarray) -> np.ndarray:
        """Return about the precision of each unknown under the prior, at z (u,), (u,)."""
        return np.ones(z.size)

    def describe(self) -> str:
        records, (centre, unit) = self.outcome, self.outcome.units
        y, scale = records.asked.formula.answer, records.scales
        slopes = np.delete(scale, records.intercept)
        sizes = f"{slopes[0]:.3g}" if not np.ptp(slopes) else f"{slopes.min():.3g}² to {slopes.max():.3g}"
        of = f", in units of {unit:.3g}, the sd of {y}" if records.asked.family.spread else ""
        spread = f", sd of {y} given all half-normal({BETWEEN:g})" if records.asked.family.spread else ""
        about = f"{centre / unit:.3g}" if centre else "0"
        return (
            f"{super().describe()}; of {y}{of}: intercept N({about}, {scale[records.intercept]:.3g}²), coefficients "
            f"N(0, {sizes}²) for one sd of the column, or between two answers{spread}"
        )

    def coords(self) -> dict[str, Sequence]:
        return {
            **super().coords(),
            "outcome_term": list(self.outcome.design.terms),
            "outcome": [self.outcome.asked.formula.answer],
        }

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        z = np.asarray(z, dtype=float)
        mine: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        mine["outcome_coefficients"] = ("outcome_term",), self.outcome_coefficients(z)
        if self._own == 2:
            mine["outcome_sd"] = ("outcome",), self.outcome.units[1] * np.exp(z[:, self.spans["spread"]])
        return {**super().variables(z), **mine}


@dataclass(frozen=True, eq=False)
class DenyingOutcomePrior(OutcomePrior, Denied):
    """The same where some deny."""


@dataclass(frozen=True, eq=False)
class ListedOutcomePrior(OutcomePrior, Listed):
    """The same of the trait of a list."""


@dataclass(frozen=True, eq=False)
class TriedOutcomePrior(OutcomePrior, Tried):
    """The same through a device whose probabilities are not known exactly."""

    def precisions(self, z):
        out = super().precisions(z)
        out[self.spans[self.part]] = self.precision(z)
        return out


#: The prior beside an outcome of each prior that has further unknowns.
_JOINED: Mapping[type[Regression], type[OutcomePrior]] = {
    Denied: DenyingOutcomePrior,
    Listed: ListedOutcomePrior,
    Tried: TriedOutcomePrior,
}


@dataclass(frozen=True, eq=False)
class OutcomeEntries(Entries):
    """Entries that have an outcome each, in the order of the cells of the private answer.

    Attributes
    ----------
    place : (e,) int array
        Which distinct row of the outcome's covariates each has.
    y : (…, e) array
        Outcomes, as the family takes them.
    left_out : float
        What the densities of all outcomes leave out.
    """

    place: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    y: np.ndarray = field(default_factory=lambda: np.zeros(0))
    left_out: float = 0.0

    @classmethod
    def joined(cls, reports: Any, cell: np.ndarray, n_cells: int, records: OutcomeRecords) -> "OutcomeEntries":
        """Return the entries of rows of a table: equal ones count together.

        Parameters
        ----------
        reports : regression.reports.RowReports
        cell : (n,) int array
            The cell of each row.
        n_cells : int
        records : OutcomeRecords
        """
        family, (centre, unit) = records.asked.family, records.units
        seen = reports.count > 0
        key = np.stack([cell, records.place, reports.code, records.y], axis=1)[seen]
        rows, at = np.unique(key, axis=0, return_inverse=True)
        weight = np.bincount(np.ravel(at), reports.count[seen])
        where = rows[:, :3].astype(np.int64).T
        left_out = family.constant(rows[:, 3], weight, centre, unit)
        own = np.ascontiguousarray(where[1]), family.standard(rows[:, 3], centre, unit), left_out
        return cls(where[0], where[2], weight, reports.table, n_cells, reports.log_constants, *own)

    @property
    def constant(self) -> float:  # type: ignore[override]
        known = 0.0 if self.log_constants is None else float(self.weight @ self.log_constants[self.row])
        return known + self.left_out

    @cached_property
    def log_table(self) -> np.ndarray:
        """Log of the likelihood row of each entry, (kinds, e)."""
        with np.errstate(divide="ignore"):
            return np.log(self.table)[self.row].T.copy()


@dataclass(frozen=True, eq=False)
class OutcomeTarget(of_answers.RegressionTarget):
    """log prior(z) + Σ_rows log Σ_x P(r | x) P(x) f(y | x), or the likelihood alone.

    Attributes
    ----------
    """

    prior: OutcomePrior
    reports: OutcomeEntries

    #: Nothing is compiled.
    kernel = None  # type: ignore[assignment]
    alike = True

    @property
    def columns(self) -> np.ndarray:
        """X T of the outcome, (places · a, terms)."""
        return self._columns

    @cached_property
    def _columns(self):
        records = self.prior.outcome
        return records.columns.reshape(-1, len(records.design.terms)) @ records.transform

    def linear_predictor(self, z: np.ndarray) -> np.ndarray:
        """Return η in units of the outcome for z of shape (…, u), (…, places, a)."""
        eta = z[..., self.prior.spans["outcome"]] @ self._columns.T
        return eta.reshape(*z.shape[:-1], -1, self.prior.n_categories)

    def log_spread(self, z: np.ndarray) -> np.ndarray:
        """Return the log of σ in units of the outcome, (…,); zero where the family has none."""
        return z[..., self.prior.spans["spread"].start] if self.prior._own == 2 else np.zeros(z.shape[:-1])

    def _terms(self, z):
        """Return (log of report, kind and outcome of each entry (kinds, …, e), shares of kinds (…, cells, kinds), η)."""
        e, owners, family = self.reports, self.prior.owners, self.prior.outcome.asked.family
        kinds, eta, log_spread = self.prior.kinds(z), self.linear_predictor(z), self.log_spread(z)[..., None]
        log_kinds = np.log(np.maximum(kinds, LEAST))
        densities = [family.log_density(e.y, eta[..., e.place, x], log_spread) for x in range(self.prior.n_categories)]
        each = [densities[x] + e.log_table[k] + log_kinds[..., e.cell, k] for k, x in enumerate(owners)]
        return np.stack(each), kinds, eta

    def _likelihood(self, z):
        e = self.reports
        terms, kinds, eta = self._terms(z)
        top = terms.max(axis=0)
        chance = np.exp(terms - top)
        total = chance.sum(axis=0)
        chance *= e.weight / total
        slope = np.stack([np.bincount(e.cell, each, e.n_cells) for each in chance], axis=1) - e.sizes[:, None] * kinds
        out = self.prior.pullback_logits(z, slope)
        of_answer = self.prior.collapse.T @ chance
        spans, moved, log_spread, wider = self.prior.spans, np.empty_like(eta), self.log_spread(z), 0.0
        for x, each in enumerate(of_answer):
            score, widened = self.prior.outcome.asked.family.scores(e.y, eta[e.place, x], log_spread)
            moved[:, x] = np.bincount(e.place, each * score, len(eta))
            wider += float(np.sum(each * widened))
        out[spans["outcome"]] = moved.ravel() @ self._columns
        if "spread" in spans:
            out[spans["spread"]] = wider
        return float(e.weight @ (np.log(total) + top)), out

    def information(self, z: np.ndarray) -> np.ndarray:
        """Return the sum over people of the outer products of their scores at z (u,), by differences, (u, u)."""
        scores = np.empty((z.size, self.reports.cell.size))
        for k, step in enumerate(DIFFERENCE * np.eye(z.size)):
            above, below = (logsumexp(self._terms(at)[0], axis=0) for at in (z + step, z - step))
            scores[k] = (above - below) / (2 * DIFFERENCE)
        return (scores * self.reports.weight) @ scores.T

    def likelihoods(self, z: np.ndarray, *, tallies: bool = False, watch=None):
        a, size, e = self.prior.n_categories, len(z), self.reports
        value, shares, expected = np.empty(size), np.empty((size, a)), np.zeros((size, a))
        step = max(NUMBERS_IN_CACHE // (len(self.prior.owners) * e.cell.size), 1)
        starts: Any = range(0, size, step)
        if watch is not None and e.visited * size > of_answers.WATCHED:
            starts = watch.track(starts, "Likelihood of the draws", len(starts))
        for start in starts:
            some = slice(start, start + step)
            terms, kinds, _ = self._terms(z[some])
            top = terms.max(axis=0)
            np.exp(np.subtract(terms, top, out=terms), out=terms)
            total = terms.sum(axis=0)
            value[some] = (np.log(total) + top) @ e.weight + e.constant
            shares[some] = np.tensordot(kinds, e.sizes, (1, 0)) @ self.prior.collapse
            if tallies:
                expected[some] = np.einsum("kse,e,kx->sx", terms / total, e.weight, self.prior.collapse)
        return value, shares, expected if tallies else None

    def relabelled(self, z, order):
        at, span = super().relabelled(z, order), self.prior.spans["outcome"]
        at[span] = np.linalg.lstsq(self._columns, self.linear_predictor(z)[:, order].ravel())[0]
        return at

    def judged(self, z, values):
        both = self.prior.coefficients(z).reshape(len(z), -1), self.prior.outcome_coefficients(z)
        return np.concatenate(both, axis=1)


def joined(model: Any, records: OutcomeRecords) -> tuple[OutcomePrior, OutcomeTarget]:
    """Return the prior and the target of a model of the private answer that has an outcome beside it.

    Parameters
    ----------
    model : Model
    records : OutcomeRecords
    """
    inner = model.prior
    prior = _JOINED.get(type(inner), OutcomePrior)(
        **{one.name: getattr(inner, one.name) for one in fields(inner)}, records=records
    )
    return prior, OutcomeTarget(
        prior, OutcomeEntries.joined(model.reports, model.cell, model.target.reports.n_cells, records)
    )


def climb(target: OutcomeTarget, watch: Any = None) -> tuple[OutcomeTarget, tuple, list[float]]:
    """Return (the target with its modes, the highest mode as ``find_mode`` has it, how many nats lower the others are).

    The likelihood has several modes where reports say little: those in which labels switch, for one. Searches start where
    the answer has no effect, where the effect of each of its categories is one sd of the outcome, up or down, and where two
    labels of the highest of these modes are exchanged. Heights have the log-volume of the mode, by its Hessian.
    """
    start, records = starting_point(target), target.prior.outcome
    points = [start]
    for k in records.effects():
        for sign in (1.0, -1.0):
            at = start.copy()
            at[target.prior.spans["outcome"].start + k] = sign / records.transform[k, k]
            points.append(at)

    modes = [find_mode(target, at, watch if k == 0 else None) for k, at in enumerate(points)]
    first = max(modes, key=target.mass)
    return target.ranked([*modes, *(find_mode(target, at) for at in target.exchanged(first[0]))])


def patterns(records: OutcomeRecords) -> Any:
    """Return what restores the outcome's design, and the rows of covariates of both parts, as a Dataset."""
    import xarray as xr

    design, (people, sizes) = records.design, records.people
    columns: dict[str, Any] = {"n_rows": (("pattern",), design.rows), "n_reports": (("person",), sizes)}
    for kind, dim, frame in (("covariate", "pattern", design.frame), ("person", "person", people)):
        for name, values in arrays(frame).items():
            columns[f"{kind} {name}"] = ((dim,), values.astype(np.int8) if values.dtype.kind == "b" else values)
    columns["columns"] = ("pattern", "outcome_term"), design.columns.common
    attrs = {"design": design.describe(), "levels": list(records.levels)}
    return xr.Dataset(columns, {"outcome_term": list(design.terms)}, attrs)


def facts(target: OutcomeTarget, sample: Any) -> dict[str, Any]:
    """Return what a result says of the outcome: formulas, family, how much its form tells, and modes that chains left out.

    Parameters
    ----------
    target : OutcomeTarget
    sample : Outcome
        Draws of the unknowns.
    """
    asked, z = target.prior.outcome.asked, sample.unknowns.reshape(-1, target.prior.n_unknowns).mean(axis=0)
    said: dict[str, Any] = {"predictor": asked.answer, "private_formula": asked.private.text, "family": asked.family.name}
    return said | form_facts(target, z)


def form_facts(target: OutcomeTarget, z: np.ndarray) -> dict[str, Any]:
    """Return how much the form of the outcome tells, and whether reports contradict it, at unknowns z (u,)."""
    asked, share, fits = target.prior.outcome.asked, form_share(target, z), agreement(target, z)
    said = {"form_share": share, "agreement": fits, "contradiction": contradiction(asked, fits)}
    text = (
        f"Without any report the {asked.family.name} family of {asked.formula.answer} would give {100 * share:.0f} % of the "
        f"precision on the effect of {asked.answer}."
    )
    return said | {"form": text if asked.family.formed else ""}


def warn_of_form(said: Mapping[str, Any]) -> None:
    """Warn where reports contradict the form of the outcome, or where it tells more than they do, by ``form_facts``."""
    for sentence in (said["contradiction"], said["form"] if form_decides(said) else ""):
        if sentence:
            warn(sentence, DiagnosticWarning)


def form_decides(said: Mapping[str, Any]) -> bool:
    """Return whether the form of the outcome tells more of the effect than the reports do, by ``form_facts``."""
    return said["form_share"] > 0.5


def contradiction(asked: Any, p_value: float) -> str:
    """Return the sentence about mean outcomes by report that are not those of the model, or an empty string."""
    if not p_value < MIN_P_VALUE:
        return ""
    return (
        f"The reports contradict the effect of {asked.answer}: mean {asked.formula.answer} by report is not that of the "
        f"{asked.family.name} model (p = {p_value:.2g}). The family of {asked.formula.answer} is wrong, or its columns are; "
        "a transformed outcome, such as a logarithm, may follow the family."
    )


def agreement(target: OutcomeTarget, z: np.ndarray) -> float:
    """Return the p-value of whether mean outcomes by report are those of the model, whatever the form of the outcome.

    Given the report and the covariates alone, an answer has the probability q and the outcome the mean Σ_x q_x μ_x. The
    residuals have mean 0 beside q less its regression on the columns of the reference answer, if the means are right: a
    χ² of their sum by its variance over people, which leaves out that coefficients were fitted and so is rather too large.

    Parameters
    ----------
    target : OutcomeTarget
    z : (u,) array
    """
    prior, e = target.prior, target.reports
    eta, table = target.linear_predictor(z)[e.place], e.table[e.row] * prior.kinds(z)[e.cell]
    q = table @ prior.collapse
    q /= q.sum(axis=1, keepdims=True)
    scores = [prior.outcome.asked.family.scores(e.y, eta[:, x], 0.0)[0] for x in range(prior.n_categories)]
    rest, root = (q * np.stack(scores, axis=1)).sum(axis=1), np.sqrt(e.weight)[:, None]
    others, beside = np.delete(q, prior.reference, axis=1), prior.outcome.columns[e.place, prior.reference]
    apart = others - beside @ np.linalg.lstsq(root * beside, root * others)[0]
    total, moved = (e.weight * rest) @ apart, apart * rest[:, None]
    variance = (moved * e.weight[:, None]).T @ moved
    return float(chdtrc(len(total), total @ np.linalg.pinv(variance, hermitian=True) @ total))


def form_share(target: OutcomeTarget, z: np.ndarray) -> float:
    """Return the share of the precision on an effect of the answer that the form of the outcome would give without reports.

    Precisions are those of the effect by the outer products of the scores of all rows, with those of the prior taken off. Of
    several effects, the largest share.

    Parameters
    ----------
    target : OutcomeTarget
    z : (u,) array
    """
    places = target.prior.spans["outcome"].start + np.array(target.prior.outcome.effects(), dtype=int)
    blind = replace(target, reports=replace(target.reports, table=np.ones_like(target.reports.table)))
    with_reports, without = (
        1 / np.diag(np.linalg.inv(one.information(z) + np.diag(target.prior.precisions(z))))[places] - 1
        for one in (target, blind)
    )
    return float(np.clip(np.divide(without, np.maximum(with_reports, LEAST)), 0.0, 1.0).max(initial=0.0))
