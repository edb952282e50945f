"""regress: from a formula and a data frame to the posterior of the coefficients, or their maximum-likelihood estimates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import numpy as np

from ldpbayes import checks
from ldpbayes.collections.data import mechanisms
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.collections.survey import NO_USERS
from ldpbayes.compiling import OneThread
from ldpbayes.errors import (
    ArgumentError,
    ConvergenceError,
    DataError,
    DiagnosticWarning,
    InfeasibleError,
    listed,
    shown,
    warn,
)
from ldpbayes.estimators.linearized import scores_of
from ldpbayes.inference import effects
from ldpbayes.inference.handover import hand_over, in_order
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.scaling import Scaled
from ldpbayes.inference.structure import roots
from ldpbayes.inference.verdict import ACCEPTED, LIMITS, refused
from ldpbayes.inference.weighted import Weighting, weighted
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.watch import Watch
from ldpbayes.pages.about import fingerprint_of_arrays
from ldpbayes.presenting import recorded
from ldpbayes.priors.links import LINKS, logits_of, scale_of
from ldpbayes.priors.regression import BETWEEN, INTERCEPT, SCALE, Effects, Monotone, Regression, moments_of, walk_root
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.designs import ListExperiment
from ldpbayes.regression import denying, devices, lists, maximum, predictor_target
from ldpbayes.regression.beside import Beside
from ldpbayes.regression.constants import ROUNDING
from ldpbayes.regression.design import MAX_COLUMNS, Design, arrays
from ldpbayes.regression.estimating import estimate
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.predictor import OutcomeRecords, Predicted
from ldpbayes.regression.reports import Asked, RowReports, cells_of, read_reports, readable, reports_of_cells
from ldpbayes.regression.table import clean, to_pandas
from ldpbayes.regression.target import WEIGHTING, RegressionTarget
from ldpbayes.regression.totals import KnownTotals
from ldpbayes.result.facts import facts_of, state
from ldpbayes.road.request import Request

if TYPE_CHECKING:
    from ldpbayes.result import Result

METHODS = ("auto", "weighted", "hmc", "nuts", "mle")


@dataclass(frozen=True)
class Serving:
    """When a regression is served otherwise, and what it says.

    Attributes
    ----------
    unknowns : int
        More of them go to chains at once. Derived: a fit of a proposal wants two effective draws an unknown
        (``Weighting.each``), and weights are accepted from 1,000 of the usual 4,000 draws on (``LIMITS.share``). At 400 a
        fit wants 800, so that it can still help; at 500 and beyond it wants what is accepted already. With half, a county
        effect of 300 levels goes to chains, which take several times as long.
    averaged : int
        Draws of which the expected frequencies are averaged. Derived: of the sd that their regression on P leaves, .07 is
        the error of the mean (.1 with half, .05 with double), which is stated. More draws cost as many more likelihoods.
    each, slow : float
        Seconds of each cell × category × draw, and those from which a fit is announced: 4,000 draws of two categories take
        them from 500,000 distinct rows on. Measured: one thread, the compiled likelihood. Chosen: any value from 5 to 30
        serves for the latter, because it changes a warning and no number.
    levels, weak : int
        A factor of so many levels as plain columns, with fewer reports a level, is announced with a remedy. Derived: 500
        reports behind randomized response at ε = 1 are worth 107 direct answers and leave an sd of .19 log odds at a share
        of ½ (.27 with half, .14 with double), less than groups commonly differ. Chosen: any number of levels from 20 to 80
        serves, because it changes a warning and no number.
    floor : float
        The prior decides on a coefficient where twice its weight moves the mean or an end by more log odds for one sd of the
        column. Derived: .3 log odds move a share of ½ by 7.4 percentage points, and multiply odds by 1.35. Half is 3.7
        points, less than the errors of most surveys behind a device; double is 15, which changes what a reader concludes.
    """

    unknowns: int = 400
    averaged: int = 200
    each: float = 2.5e-9
    slow: float = 10.0
    levels: int = 40
    weak: int = 500
    floor: float = 0.3


SERVING = Serving()


class Settings(TypedDict, total=False):
    """The keywords of ``regress`` but its method, for type checkers."""

    report: str | Sequence[str] | None
    design: str | None
    count: str | None
    weights: str | None
    strata: str | None
    cluster: str | None
    categories: Sequence[str] | None
    reference: str | None
    scale: float | Mapping[str, float] | None
    draws: int
    chains: int
    random_seed: int | None
    ci_prob: float
    progressbar: bool
    bad_rows: str
    deniers: str | Mapping[str, Any] | None
    family: str | None
    private: str | None
    link: str
    totals: Mapping[str, float | tuple[float, float]] | None


Protocols = AbstractProtocol | Mapping[Any, AbstractProtocol] | ListExperiment | None


@overload
def regress(
    data: Any, formula: str, protocol: Protocols = None, *, method: Literal["mle"], **settings: Unpack[Settings]
) -> maximum.Maximum: ...


@overload
def regress(
    data: Any,
    formula: str,
    protocol: Protocols = None,
    *,
    method: Literal["auto", "weighted", "hmc", "nuts"] = "auto",
    **settings: Unpack[Settings],
) -> "Result": ...


@overload
def regress(
    data: Any, formula: str, protocol: Protocols = None, *, method: str, **settings: Unpack[Settings]
) -> "Result | maximum.Maximum": ...


@recorded
def regress(
    data: Any,
    formula: str,
    protocol: Protocols = None,
    *,
    report: str | Sequence[str] | None = None,
    design: str | None = None,
    count: str | None = None,
    weights: str | None = None,
    strata: str | None = None,
    cluster: str | None = None,
    categories: Sequence[str] | None = None,
    reference: str | None = None,
    scale: float | Mapping[str, float] | None = None,
    method: str = "auto",
    draws: int = 1000,
    chains: int = 4,
    random_seed: int | None = None,
    ci_prob: float = 0.95,
    progressbar: bool = False,
    bad_rows: str = "refuse",
    deniers: str | Mapping[str, Any] | None = None,
    family: str | None = None,
    private: str | None = None,
    link: str = "logit",
    totals: Mapping[str, float | tuple[float, float]] | None = None,
) -> "Result | maximum.Maximum":
    """Regress a private answer (``drugs ~ age``), or an outcome on it (``y ~ private(drugs)``): Result; by "mle" Maximum.

    P(answer = x | covariates) = softmax(X B)_x, and each report has the probability that its protocol gives it at that P.
    Rows with the same covariates are one cell, so that the cost grows with the number of distinct rows.

    Parameters
    ----------
    data : data frame, mapping of columns, or Cells
        pandas, Polars, PyArrow, DuckDB or anything else that narwhals reads, with a row per report or per count. Cells bring
        their reports along; their keys and covariates are the columns.
    formula : str
        ``"answer ~ age + C(sex) + (1 | county)"``: the left side names the private answer, the right side its terms, in the
        notation of R; ``(1 | g)`` are effects of groups that are pooled in part, ``(1 | g/h)`` nested ones, ``rw(x)`` is a
        random walk over ordered levels, ``mo(x)`` a monotone effect, ``s(x)`` a penalised curve, and ``sex*mo(x)`` one that
        differs by sex. ``private(answer)`` is a private answer that predicts an open left side. Names are columns of the
        data. The only functions beside these are abs, binary, bs, C, ceil, center, cos, exp, expm1, factor, floor, I, log,
        log10, log1p, log2, poly, round, S, scale, sin, sqrt, standardize and T, so that a formula from elsewhere can do no
        harm.
    protocol : AbstractProtocol, mapping of value to AbstractProtocol, or ListExperiment
        How the reports were made; with ``design``, the protocol of each value of that column. Of a list experiment the
        answer is the trait, and the values are 0 or control, 1 or treatment, and direct.
    report : str or sequence of str, optional
        Column or columns of a report; by default the protocol's own names, or the column named like the answer.
    design : str, optional
        Column that says by which of several protocols a row's report was made.
    count, weights, strata, cluster : str, optional
        Columns of counts, of survey weights, and of the strata and clusters that were sampled. Each of the last three makes
        the result a pseudo-posterior: the log-likelihood is weighted and scaled by the linearized design effect, and the
        coefficients have their linearized covariance.
    categories : sequence of str, optional
        Labels of the private answer, in the order of the protocol's categories.
    reference : str, optional
        The category that coefficients are log odds against; the first by default. It does not change the model.
    scale : float or mapping of term to float, optional
        Prior sds of the coefficients: log odds between two categories for one sd of the column, by default 2.5, and π for
        the intercept; a mapping names terms, factors of effects and walks (their half-normal scale: by default 1
        for the log odds of one sd of the column that varies) and monotone effects, whose change has the scale of a column
        with equal steps. Maximum likelihood has none.
    method : {"auto", "weighted", "hmc", "nuts", "mle"}
        ``auto`` weighs draws about the mode, takes Hamiltonian Monte Carlo where their weights cannot be trusted, and NUTS
        where its trajectories do not hold; ``mle`` is maximum likelihood. Of an uncertain device the trials are part of the
        likelihood; a stated law stands for them, as a function of these probabilities.
    draws, chains, random_seed, ci_prob, progressbar : as in fit
    bad_rows : {"refuse", "skip"}
        Whether a row is refused, or left out, in which a covariate, the report or what is stated of it is missing (design,
        count, weight, stratum or cluster), or whose report, design or count cannot be read, as ``read`` has it. How many
        were left out, and why, stands in the result.
    deniers : str or mapping, optional
        The formula of the share δ who deny, such as "age": logit δ is linear in its terms, "1" is one number. A mapping also
        has ``of``, ``say`` and ``channel``, as ``Collection.with_deniers`` takes them; channels of a table are the values of
        ``design``. Cells whose respondents may deny have one δ unless a formula is given. Of the stochastic lie detector
        and of cheater detection the answer is the trait, and δ the share of its carriers who lie, or of all who cheat.
    family : {"normal", "bernoulli", "poisson"}, optional
        Where the formula is of an open outcome on the private answer, ``"y ~ age + private(answer)"``: the distribution of
        y, whose mean, log odds or log mean is linear in the terms. Both parts are fitted together.
    private : str, optional
        The formula of that private answer, such as ``"answer ~ age + female"``; by default it has the outcome's other terms.
    link : {"logit", "probit", "cloglog", "cauchit"}
        Of two categories: what is linear in the terms. The complementary log-log is that of the category which is not the
        reference. ``scale`` is of log odds with every link: of columns where both shares are ½, of the intercept
        at any share.

    totals : mapping of category to share, or to (share, sd), optional
        Shares of categories among all people of the data, by their weights, that are known from elsewhere: data beside the
        reports, normal with this sd. Without one a total is exact: its sd is then that of the share by the reports over the
        root of the number of draws, and stated.

    Returns
    -------
    Result, or Maximum for ``mle``
        Posterior variables ``coefficients`` (term, category), log odds against the reference category, and ``distribution``,
        the distribution of a person drawn from the rows. Of ``mo(x)``, ``rw(x)`` and ``s(x)`` there is ``mo(x)_change``
        (category) and so on, the change from the first level to the last, or from the least value of a curve to the largest.
        ``predictions``, ``comparisons``, ``slopes``, ``odds_ratio`` and ``poststratify`` take it. With an outcome they are
        of the private answer, and ``outcome_coefficients`` (outcome_term) are beside them; ``predictions`` and
        ``comparisons`` are then of the outcome, too.

    Raises
    ------
    ArgumentError, DataError
        Where formula, columns or protocol do not fit.
    InfeasibleError
        Where maximum likelihood does not exist, or the design is too large.
    ConvergenceError
        Where the draws of the asked method cannot be trusted; its ``result`` has them.

    Examples
    --------
    >>> import ldpbayes as lb
    >>> survey = lb.load_example("nigeria_cells")
    >>> found = lb.regress(survey, "connected ~ female + married + age_group", method="mle")
    >>> found.coefficients.sel(category="yes").values.round(3).tolist()
    [-0.575, -0.578, -0.45, -0.146, 0.097, 0.014, 0.189]
    """
    request = Request.of(
        method=checks.choice(method, "method", METHODS),
        draws=checks.integer(draws, "draws", minimum=1),  # without draws there are no moments
        chains=checks.integer(chains, "chains", minimum=1),
        random_seed=random_seed,
        ci_prob=ci_prob,
        progressbar=progressbar,
        estimates=False,
        exclude=(),
    )
    checks.choice(bad_rows, "bad_rows", ("refuse", "skip"))
    checks.choice(link, "link", ("logit", *LINKS))
    if method == "mle" and scale is not None:
        raise ArgumentError("scale must be left out with method='mle', which has no prior.")
    parsed = Formula.parse(formula)
    predicted = Predicted.asked(parsed, family, private)
    stated: dict[str, Any] = {"design": design, "count": count, "weights": weights, "strata": strata, "cluster": cluster}
    stated = {name: checks.column(value, name) for name, value in stated.items()}
    if predicted is not None:
        predicted.refuse(stated | {"link": None if link == "logit" else link})
        parsed = predicted.private
    data, left_out = _with_reports(data)
    protocol, labels = lists.channels_of(protocol, categories, checks.columns(report, "report"))
    honesty, labels = denying.honest(protocol, data, labels, predicted is not None)
    data, of_denial, where = denying.asked(deniers, data, parsed.answer, honesty)
    outcome = () if predicted is None else predicted.columns
    columns, reports, beside, rows = _read(parsed, data, protocol, report, bad_rows, stated, labels, of_denial, outcome)
    if reports.pooled.device_law is not None:
        devices.refuse({"deniers": of_denial, "totals": totals})
    experiment = lists.traits_of(reports.pooled)
    if experiment is not None and of_denial is not None:
        raise ArgumentError(
            "deniers must be left out of a list; ListExperiment takes them as shares, ceiling_effect and floor_effect."
        )
    if of_denial is not None:
        reports = denying.apart(reports, where) if honesty is None else honesty.apart(reports)
    reference = checks.column(reference, "reference")
    records, of_answer = None, scale
    if predicted is not None:
        answers = reports.pooled.answers if experiment is None else experiment.traits
        records, of_answer = predicted.of(rows, reports, answers, reference).under(scale, columns.terms)
    model = Model.of(columns, reports, reference, of_answer, beside, experiment, link, honesty)
    model = model if records is None else model.predicting(records)
    model = model if totals is None else model.knowing(totals)
    if left_out:
        warn(left_out, DiagnosticWarning)
    facts = {"dropped": reports.dropped} if reports.dropped else {}
    if method == "mle":
        with OneThread():
            best = estimate(model, request.ci_prob, draws * chains)
        arrays = {name: values for name, (_, values) in model.observed().items()}
        data = fingerprint_of_arrays(model.coords()["category"], arrays)
        best.attrs |= facts | {"mechanisms": mechanisms(model.channels()), "formula": model.text, "data": data}
        return best
    reports.pooled.warn_if_unidentified()
    checks.draws_size(draws, chains, model.prior.n_unknowns)
    with OneThread():
        tree = _posterior(model, request, Watch(progressbar))
    state(tree, facts | ({"left_out": left_out} if left_out else {}))
    return tree


@dataclass(frozen=True, eq=False)
class Model:
    """A design with its reports: what both the posterior and maximum likelihood start from.

    Attributes
    ----------
    design : Design
    reports : RowReports
    cell : (n,) int array
        The cell of each row of the table.
    prior : Regression
    target : RegressionTarget
    records : OutcomeRecords, optional
        Of an outcome that depends on the private answer.
    known : KnownTotals, optional
    """

    design: Design
    reports: RowReports
    cell: np.ndarray
    prior: Regression
    target: RegressionTarget
    records: OutcomeRecords | None = None
    known: KnownTotals | None = None

    @classmethod
    def of(
        cls,
        design: Design,
        reports: RowReports,
        reference: str | None,
        scale: Any,
        beside: Design | None = None,
        experiment: ListExperiment | None = None,
        link: str = "logit",
        honesty: denying.Honesty | None = None,
    ) -> "Model":
        """Return the model of a design and its reports.

        Parameters
        ----------
        design : Design
        reports : RowReports
        reference : str, optional
        scale : float or mapping, optional
            As in ``regress``.
        beside : Design, optional
            Of the share who deny.
        experiment : ListExperiment, optional
            Where the reports are those of a list, and the answer is its trait.
        link : str
        honesty : Honesty, optional
            Where the categories of the design say who is honest, and the answer is the trait.
        """
        of_denial = np.ones((0, 0)) if beside is None else beside.columns.common[design.split(beside)]
        (first, cell), pooled, groups = design.cells, reports.pooled, design.columns.groups
        columns, labels = design.columns.common[first], pooled.categories
        more: dict[str, Any] = {"link": link}
        kind: type[Regression] = Regression
        if experiment is not None:
            kind, labels = lists.Listed, experiment.traits
            more |= {"items": experiment.sizes, "other_design": columns, "other_terms": design.terms}
        elif honesty is not None and beside is not None:
            kind, labels = denying.Denied, honesty.traits
            more |= {"denied": honesty.denied, "one": True, "other_design": of_denial, "other_terms": beside.terms}
        elif beside is not None:
            kind, labels, places = denying.Denied, pooled.answers, tuple(x for x in pooled.owners if x is not None)
            more |= {"denied": places, "other_design": of_denial, "other_terms": beside.terms}
        elif pooled.device_law is not None:
            kind, labels = devices.Tried, pooled.answers
            more |= devices.Tried.settings(pooled.device_law, len(first))
        label = labels[0] if reference is None else reference
        if label not in labels:
            raise ArgumentError(f"reference must be one of the categories ({listed(labels)}), got {shown(label)}.")
        if link != "logit" and len(labels) != 2:
            raise ArgumentError(f"link must be logit for {len(labels)} categories: {scale_of(link)} is of two.")
        scales, between = _scales(scale, design, LINKS[link].unit if link in LINKS else 1.0)
        people = np.bincount(cell, reports.count, len(first))
        regression = kind(
            columns,
            design.terms,
            len(labels),
            scales,
            tuple(_effects([group for group in groups if group.kind != "mo"], first, people, between)),
            people,
            labels.index(label),
            labels,
            tuple(_monotone(group, first, people, between[group.name], columns) for group in groups if group.kind == "mo"),
            **more,
        )
        if (unknowns := regression.n_unknowns) > MAX_COLUMNS:
            raise InfeasibleError(
                f"The regression has {unknowns:,} unknowns, more than {MAX_COLUMNS:,}; join levels of factors and groups."
            )
        return cls(design, reports, cell, regression, RegressionTarget(regression, reports.entries(cell, len(first))))

    def predicting(self, records: OutcomeRecords) -> "Model":
        """Return the model with an outcome that depends on the private answer.

        Raises
        ------
        InfeasibleError
            Where no report tells answers apart.
        """
        if why := devices.unidentified(self.reports.pooled):
            raise InfeasibleError(
                f"{why} Only the distribution of {records.asked.formula.answer} would tell who "
                "gave which answer; that is no measurement, and is refused."
            )
        prior, target = predictor_target.joined(self, records)
        return replace(self, prior=prior, target=target, records=records)

    def knowing(self, totals: Any) -> "Model":
        """Return the model with shares of categories that are known from elsewhere."""
        if self.records is not None:
            raise ArgumentError("totals must be left out where a private answer is a predictor.")
        return replace(self, known=KnownTotals.of(totals, self.prior.categories))

    @property
    def text(self) -> str:
        """The formula: of the outcome, where there is one."""
        return self.design.text if self.records is None else self.records.asked.formula.text

    @property
    def one_factor(self) -> np.ndarray | None:
        """The group of each cell where all effects are those of one grouping factor, else None."""
        groups, first = self.design.columns.groups, self.design.cells[0]
        alike = all(group.kind == "group" and np.array_equal(group.index, groups[0].index) for group in groups)
        return groups[0].index[first] if alike else None

    @property
    def linearized(self) -> bool:
        """Whether the draws get the linearized covariance of the coefficients: of samples, without effects of groups."""
        return self.reports.weighted and not (self.design.columns.groups or isinstance(self.prior, Beside) or self.known)

    # ---- what a result asks of its data ------------------------------------------------------------------------------
    #: Dimensions of P.
    dims = ("category",)

    @property
    def id(self) -> str:
        """The private answer."""
        return self.design.answer

    @property
    def title(self) -> str:
        """That of the data; the formula where they have none."""
        return self.reports.pooled.title or self.text

    @property
    def n_reports(self) -> int:
        """Number of users."""
        return int(self.reports.count.sum())

    def coords(self) -> dict[str, list]:
        """Return the labels of the categories, the terms and the groups."""
        return {"category": list(self.prior.categories)} | {name: list(x) for name, x in self.prior.coords().items()}

    def observed(self) -> dict[str, tuple]:
        """Return the reports and the cell of each row, as {name: (dims, array)}."""
        columns = {"code": self.reports.code, "count": self.reports.count, "weight": self.reports.weight, "cell": self.cell}
        if self.records is not None:
            columns |= {"outcome": self.records.y, "pattern": self.records.place}
        return {name: (("row",), values) for name, values in columns.items()}

    def constants(self) -> dict[str, tuple]:
        """Return the number of users, the likelihood of each report and what the prior is, as {name: (dims, array)}."""
        return {
            **self.reports.pooled.constants(),
            "n_reports": ((), self.n_reports),
            **self.prior.stated(self.reports.table),
            "log_constants": (("code",), self.reports.log_constants),
            "coefficient_prior_sd": (("term", "category"), self.prior.coefficient_sd()),
            "column_sd": (("term",), self.prior.spread),
        }

    def identifiability(self) -> str:
        """Return the sentence about categories that the channels cannot tell apart, or an empty string."""
        return self.reports.pooled.identifiability()

    def caveat(self) -> str:
        """Return what every reader of a fit must know about the protocols, or an empty string."""
        return self.reports.pooled.caveat()

    def device(self) -> str:
        """Return what the devices do, in words."""
        return self.reports.pooled.device()

    def channels(self) -> dict[str, list]:
        """Return the channels of all rows together, as the data have them."""
        return self.reports.pooled.channels()

    def variables(self, z: np.ndarray, watch: Any = None) -> dict[str, tuple]:
        """Return P of all people and the variables of the prior at draws (chains, draws, u), as {name: (dims, array)}."""
        flat = z.reshape(-1, z.shape[-1])
        sums = self.target.likelihoods(flat, watch=watch)[1]
        variables = {"distribution": (self.dims, sums / sums.sum(axis=1, keepdims=True))} | self.prior.variables(flat)
        return {name: (dims, x.reshape(*z.shape[:2], *x.shape[1:])) for name, (dims, x) in variables.items()}

    def with_totals(self, z: np.ndarray, covariance: np.ndarray, draws: int) -> tuple["Model", str]:
        """Return (the model with its known totals as data, what to say of them), from its mode without."""
        assert self.known is not None
        totals, said = self.known.bound(self.target, z, covariance, draws)
        return replace(self, target=replace(self.target, totals=totals)), said

    def scaled(self, factor: float) -> "Model":
        """Return the model with the survey weights multiplied by a factor."""
        entries = self.reports.entries(self.cell, self.target.reports.n_cells, factor)
        return replace(self, target=replace(self.target, reports=entries))


def _with_reports(data):
    """Return (data, of cells those with their reports over outcomes, the sentence about the cells that are left out)."""
    cells = cells_of(data)
    if cells is None:
        return data, ""
    if cells.keeps_reports:
        return with_outcomes(cells), ""
    pairs = zip(cells, cells.labels, cells.collections(), strict=True)
    lost = {key: label for key, label, cell in pairs if not cell.keeps_reports}
    why = f"A regression needs the reports; of the cell {listed(lost.values())} only a summary was kept."
    if len(lost) == len(cells):
        raise InfeasibleError(f"{why} Fit such cells with fit(cells, prior=Regression(…)).")
    kept = cells.take([key for key in cells if key not in lost])
    return with_outcomes(kept), f"{len(lost)} of {len(cells)} cells are left out. {why}"


def _read(formula, frame, protocol, report, bad_rows, columns, labels=None, of_denial=None, outcome=()):
    """Return (Design, RowReports, Design of δ or None, frame of the columns of an outcome)."""
    variables = tuple(dict.fromkeys((*formula.variables, *(of_denial.variables if of_denial else ()), *outcome)))
    cells = cells_of(frame)
    if cells is not None:
        given = {"protocol": protocol, "report": report, **columns, "categories": labels}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise ArgumentError(f"{extra[0]} must be left out for Cells, which bring their reports along.")
        table = to_pandas(frame.key_columns() | (frame.covariates or {}))
        reports, owner = reports_of_cells(frame)
        cleaned, kept = clean(table.iloc[owner].reset_index(drop=True), variables, bad_rows=bad_rows)
        of_rows = {name: getattr(reports, name) for name in ("code", "count", "weight", "strata", "cluster")}
        reports = replace(reports, **{name: None if x is None else x[kept] for name, x in of_rows.items()})
    else:
        table = to_pandas(frame)
        if protocol is None:
            raise ArgumentError("protocol must say how the reports were made, such as GRR(4, epsilon=1.0), got none.")
        asked = Asked.of(table, protocol, report, formula.answer, columns)
        cleaned, kept = clean(table, variables, bad_rows=bad_rows, reported=asked.needed(table))
    dropped, gone = [], int((~kept).sum())
    if gone:
        others = any(columns[name] is not None for name in columns)
        missed = "a covariate, the report, or what is stated of it," if others else "a covariate or the report"
        dropped = [f"{gone:,} of {kept.size:,} rows are left out: {missed} is missing."]
    if cells is None:
        try:
            reports = read_reports(table, kept, asked, formula.answer, labels)
        except DataError:
            if bad_rows == "refuse":
                raise
            good, skipped = readable(table, kept, asked, labels)
            if not (skipped.total and good.any()):
                raise
            cleaned, kept = cleaned[good[kept]].reset_index(drop=True), good
            dropped.append(skipped.tell())
            reports = read_reports(table, kept, asked, formula.answer, labels)
    reports = replace(reports, dropped=" ".join(dropped))
    return Design(formula, cleaned), reports, None if of_denial is None else Design(of_denial, cleaned), cleaned


def _effects(groups, first, people, scales):
    """Yield the Effects of each factor; the column that varies is divided by its sd over the people of the cells.

    Beside a varying intercept it is centred as well, so that its location has no influence; each group has the same effects.
    """
    names = [group.name for group in groups]
    for group in groups:
        value = group.value[first]
        if group.kind != "group":  # over levels or a curve, for a unit of an indicator or one sd of a number
            unit = 1.0 if np.isin(value, (-1, 0, 1)).all() else float(moments_of(value, people)[1])
            root, matrix = walk_root(group.places), group.matrix(first) / unit
            yield Effects(group.name, group.levels, matrix, scales[group.name], unit, root=root)
            continue
        centre, unit = map(float, moments_of(value, people))
        if not np.ptp(value[people > 0]):  # an intercept, or a constant
            yield Effects(group.name, group.levels, group.matrix(first), scales[group.name])
            continue
        beside = f"1|{group.name.partition('|')[2]}"
        if beside not in names:
            yield Effects(group.name, group.levels, group.matrix(first) / unit, scales[group.name], unit)
            continue
        at = names.index(beside)
        # A row where the column is 0 has lost its group.
        matrix = replace(groups[at], value=(group.value - centre) / unit).matrix(first)
        yield Effects(group.name, group.levels, matrix, scales[group.name], unit, centre, at)


def _monotone(group, first, people, scale, columns):
    """Return a monotone effect, whose change has the prior of a column with equal steps: of two levels that of a factor.

    Its mean over people is taken off where the common columns have what multiplies it, such as the intercept.
    """
    root, index, value = np.tri(len(group.levels), len(group.levels) - 1, -1), group.index[first], group.value[first]
    rest = value - columns @ np.linalg.lstsq(columns, value)[0]
    if not np.ptp(value) or np.abs(rest).max() <= ROUNDING * np.abs(value).max():
        root -= np.average(root[index], axis=0, weights=people * value**2)
    unit = float(moments_of(value * root.mean(axis=1)[index], people)[1])
    return Monotone(group.name, group.levels, group.matrix(first), root, scale / unit)


def _scales(stated, design, unit):
    """Return (scales of the terms, those of the effects of each factor and over ordered levels, in units of the link)."""
    scales = np.full(len(design.terms), SCALE)
    if "Intercept" in design.terms:
        scales[design.terms.index("Intercept")] = INTERCEPT
    between = {group.name: SCALE if group.kind == "mo" else BETWEEN for group in design.columns.groups}
    if stated is None:
        return scales, {name: unit * scale for name, scale in between.items()}
    if not isinstance(stated, Mapping):
        scale = checks.positive(stated, "scale")
        between |= {group.name: scale for group in design.columns.groups if group.kind == "mo"}
        scales = np.where(np.array(design.terms) == "Intercept", scales, scale)
        return scales, {name: unit * scale for name, scale in between.items()}
    for name, value in stated.items():
        value = checks.positive(value, f"scale of {name}")
        written = {effect: re.sub(r"\[[^]]*\]", "", effect).replace("1|", "") for effect in between}
        short = [effect for effect, text in written.items() if name in (effect, text)]
        chosen = [k for k, term in enumerate(design.terms) if term == name or term.split("[")[0] == name]
        if not chosen and not short:
            raise ArgumentError(f"scale must name terms ({listed([*design.terms, *between])}), got {shown(name)}.")
        scales[chosen] = value
        between |= dict.fromkeys(short, value)
    return scales, {name: unit * scale for name, scale in between.items()}


# ---- the posterior -------------------------------------------------------------------------------------------------------
def _posterior(model, request, watch):
    """Return the result of a model by the asked method, or by the first whose draws can be trusted."""
    facts, rng, method = {}, np.random.default_rng(request.random_seed), request.name
    size = model.target.reports.n_cells * model.prior.n_categories * request.draws * request.chains
    if size * SERVING.each > SERVING.slow:
        warn(
            f"{model.target.reports.n_cells:,} distinct rows of covariates make this fit slow (about "
            f"{size * SERVING.each:.0f} s of weights); covariates that are rounded or binned make fewer.",
            DiagnosticWarning,
        )
    _warn_of_levels(model)
    chains_alone = method in ("hmc", "nuts") or (method != "weighted" and model.prior.n_unknowns > SERVING.unknowns)
    if chains_alone and model.prior.disjoint() is not None and not (model.reports.weighted or model.known):
        # Chains look for their middle by groups; the Hessian of all of them together takes long.
        mode = (maximum.starting_point(model.target),)
    elif model.records is not None:
        target, mode, _ = predictor_target.climb(model.target, watch)
        model = replace(model, target=target)
    else:
        target, mode = maximum.climb_all(model.target, watch)
        model = replace(model, target=target)
    if model.reports.weighted:
        effect = _design_effect(model, mode[0])
        facts["design_effect"] = effect.value
        facts["pseudo"] = (
            f"{effect.sentence('' if model.linearized else 'coefficient')} This is a pseudo-posterior"
            f"{', whose draws have the linearized covariance of the coefficients' if model.linearized else ''}. {NO_USERS}"
        )
        model = model.scaled(effect.respondents / (model.reports.count @ model.reports.weight))
        target, mode = maximum.climb_all(model.target, watch)
        model = replace(model, target=target)
    if model.known is not None:
        covariance = (mode[2] / mode[1]) @ mode[2].T
        model, facts["totals"] = model.with_totals(mode[0], covariance, request.draws * request.chains)
        mode = find_mode(model.target, mode[0], watch)
    if method == "weighted" and model.prior.n_unknowns > SERVING.unknowns:
        raise InfeasibleError(
            f"The method weighted takes at most {SERVING.unknowns} unknowns, got {model.prior.n_unknowns}."
        )
    steps = {} if chains_alone else {"weighted": lambda: _about_the_mode(model, mode, request, rng, watch)}
    if method != "weighted":
        steps["chains"] = lambda: _by_chains(model, mode[0], request, watch)
    outcome = hand_over(in_order(steps), lambda sample: sample.problem)
    sample = outcome.answer
    facts |= sample.facts | {"reason": sample.facts["reason"] + outcome.before}
    if model.reports.weighted or model.known:  # the evidence of a pseudo-likelihood is no probability
        facts = {name: value for name, value in facts.items() if not name.startswith("log_evidence")}
        if model.linearized:
            sample = _stretched(model, sample, _design_effect(model, mode[0]))
    tree = _tree(model, sample, request, facts)
    if sample.verdict.problem and method == "weighted":
        raise ConvergenceError(f"The weights of the draws cannot be trusted: {sample.problem}.", tree)
    if not tree.attrs["converged"]:
        warn(tree.attrs["outcome"], DiagnosticWarning)
    if tree.attrs["prior_decides"]:
        warn(tree.attrs["prior_decides"], DiagnosticWarning)
    if model.records is not None:
        predictor_target.warn_of_form(facts_of(tree))
    return tree


def _warn_of_levels(model):
    """Warn of a factor with many weak levels that are plain columns: chains sample them, and random effects need none."""
    for part in dict.fromkeys(part for block in model.design.blocks for part, _ in block):
        levels = len(part.levels or ())
        if levels >= SERVING.levels and model.reports.count.sum() < SERVING.weak * levels:
            warn(
                f"{part.name} has {levels:,} levels, each with a coefficient of its own and few reports: that may take "
                f"minutes, and the prior may decide on many. (1 | {part.name}) estimates them together, in less.",
                DiagnosticWarning,
            )
            return


def _about_the_mode(model, mode, request, rng, watch):
    """Return the Outcome of a multivariate t about the mode, weighted by the posterior density and resampled."""
    weighting = WEIGHTING if model.records is None else Weighting()  # whose likelihood is not compiled
    drawn = weighted(model.target, request.draws * request.chains, rng, watch, mode, request.ci_prob, weighting)
    people = drawn.values / drawn.values.sum(axis=1, keepdims=True)
    sample = Outcome.of_weights(drawn, model.prior, people, (request.chains, request.draws), rng)
    entries = sample.known_at(request.ci_prob)
    worth = min(float(np.min(values["ess_bulk"], where=values["mcse"] > 0, initial=np.inf)) for values in entries.values())
    facts = {
        "method": "weighted",
        "reason": "Weighted draws about the mode of all coefficients; their k-hat says whether to trust them.",
        "weights_effective": drawn.found.effective_sample,
        "interval_error": drawn.end_error,
    }
    return replace(sample, effective=min(worth, drawn.effective), known=entries, facts=facts | sample.facts)


def _by_chains(model, mode, request, watch):
    """Return the Outcome of Hamiltonian Monte Carlo or the No-U-Turn sampler: thinned draws of chains that went on."""
    from ldpbayes.inference import diagnostics

    rng, prob, values = np.random.default_rng(request.random_seed), request.ci_prob, model.prior.coefficients
    allowed = LIMITS.end_error
    aimed = allowed if model.target.kernel is None else WEIGHTING.aimed
    # The No-U-Turn sampler takes minutes where the density is not compiled.
    name = "hmc" if model.target.kernel is None and request.name == "auto" else request.name
    settings = {"values": values, "prob": prob, "aimed": aimed, "allowed": allowed, "method": name}
    (z, stats, trouble, _), name = effects.sample(model.target, mode, request.draws, request.chains, rng, watch, **settings)
    if len(model.target.modes) > 1:
        trouble = trouble or model.target.unvisited(z)
    error = float(effects.end_errors(values, z, prob).max(initial=0.0))
    step, named = max(z.shape[1] // request.draws, 1), model.variables(z, watch)
    entries = {
        key: diagnostics.entries_of(x.reshape(*z.shape[:2], -1), {}, "", prob, False)
        for key, (_, x) in (named.items() if step > 1 else ())
    }
    kept = {key: (dims, x[:, step - 1 :: step]) for key, (dims, x) in named.items()}
    return Outcome(
        kept.pop("distribution")[1],
        independent=False,
        verdict=refused(trouble) if trouble else ACCEPTED.with_ends(error, allowed, z.shape[1] / request.draws),
        stats={key: x[:, step - 1 :: step] for key, x in stats.items()},
        variables=kept,
        known=entries,
        facts={
            "method": name,
            "reason": "Chains in coordinates whitened by the Hessian work for every regression.",
            "interval_error": error,
        },
        unknowns=z[:, step - 1 :: step],
    )


def _stretched(model, sample, effect):
    """Return the Outcome with the linearized covariance G⁻¹(V + 1)G⁻¹, where that of its likelihood is G⁻¹ = (V₀ + 1)⁻¹.

    1 is the curvature of the prior. The draws move by the map between the two normal laws that moves them least.
    """
    random, designed = effect.of_respondents()
    if not np.isfinite(designed).all() or np.allclose(designed, random):  # unknown, or one effect for all directions
        return sample
    one = np.eye(len(random))
    before = np.linalg.inv(random + one)
    inverse, root = roots(before, 0.0)
    map_ = inverse @ roots(root @ before @ (designed + one) @ before @ root, 0.0)[1] @ inverse
    centre = sample.unknowns.mean(axis=(0, 1))
    z = centre + (sample.unknowns - centre) @ map_
    named = model.variables(z)
    return replace(sample, distribution=named.pop("distribution")[1], variables=named, known={}, unknowns=z)


def _design_effect(model, z):
    """Return the design effect of the coefficients at unknowns z.

    The device has the share in the variance of a score that it has where everybody has the distribution of all.
    """
    prior, reports = model.prior, model.reports
    kinds = model.target.reports.sizes @ prior.kinds(z)
    kinds = kinds / kinds.sum()
    basis = prior.basis[prior.owners] * (kinds / (kinds @ prior.collapse)[prior.owners])[:, None]
    amount = np.bincount(reports.code, reports.count * reports.weight, len(reports.table))
    scores, device, _ = scores_of(reports.table, kinds, amount, basis)
    pooled = reports.design(scores[reports.code], device)
    share = pooled.floor / pooled.kish
    return reports.design(maximum.scores_of(model.target, z, model.cell, reports), share, 1.0)


def _tree(model, sample, request, facts):
    """Return the result of draws."""
    import xarray as xr

    from ldpbayes.inference import diagnostics
    from ldpbayes.result.building import write
    from ldpbayes.result.fits import Fit
    from ldpbayes.result.validation import validate

    prior, reports, entries = model.prior, model.reports, model.target.reports
    draws = {name: (dims, values, {"of": "prior"}) for name, (dims, values) in sample.variables.items()}
    # First the coefficients, whose terms ArviZ's summary then names before their categories.
    draws = {"coefficients": draws.pop("coefficients"), "distribution": (model.dims, sample.distribution), **draws}
    interrupted = sample.distribution[..., 0].size < request.draws * request.chains
    settings = request.stated | {"formula": model.text, "reference": prior.categories[prior.reference]}
    attrs = {
        "n_patterns": entries.n_cells,
        "random_seed": request.random_seed,
        "frequency_draws": "mean only",
        "regression": model.design.describe(),
        "formula": model.text,
        "reference": prior.categories[prior.reference],
        "link": prior.link,
        "weighted": int(reports.weighted),
    }
    summary = diagnostics.summarize(
        draws,
        sample.diagnostics(interrupted),
        request.ci_prob,
        stats=sample.stats,
        facts=facts,
        known=sample.known,
        joint=True,
    )
    changes = _changes(model.design, draws)
    worth = summary.diagnostics.effective_draws
    computed = {
        name: diagnostics.entries_of(values, {}, name, request.ci_prob, sample.independent, worth)
        for name, (_, values, _) in changes.items()
        if name not in draws
    }
    summary = replace(summary, entries={**summary.entries, **computed})
    draws |= changes
    more = {"stats": sample.stats or {}, "facts": attrs | facts, "summary": summary}
    tree = write(Fit(model, prior.describe(), facts["method"], settings, draws, **more))
    tree["design"] = xr.DataTree(_patterns(model))
    if model.records is not None:
        tree["outcome_design"] = xr.DataTree(predictor_target.patterns(model.records))
        state(tree, predictor_target.facts(model.target, sample))
    _add_frequency(tree, model, sample)
    tree.attrs["prior_decides"] = _undecided(model, sample.unknowns.reshape(-1, prior.n_unknowns), request.ci_prob)
    validate(tree)
    return tree


def _changes(design, draws):
    """Return the draws of the change over the levels of each monotone effect, walk and curve, which states both ends."""
    changes = {}
    for effect in design.effects:
        if effect.kind == "group":
            continue
        name, (first, last, weights) = f"{effect.name}_change", effect.change()
        values = draws[name][1] if name in draws else np.einsum("cdla,l->cda", draws[effect.name][1], weights)
        changes[name] = ("category",), values, {"of": "prior", "first": first, "last": last}
    return changes


def _patterns(model):
    """Return the distinct combinations of the covariates, with how many rows and reports have each."""
    import xarray as xr

    design = model.design
    users = np.bincount(design.pattern, model.reports.count * model.reports.weight, len(design.rows))
    columns = {"n_rows": (("pattern",), design.rows), "n_reports": (("pattern",), users)}
    for name, values in arrays(design.frame).items():
        columns[f"covariate {name}"] = (("pattern",), values.astype(np.int8) if values.dtype.kind == "b" else values)
    columns["columns"] = (("pattern_of_columns", "term"), model.prior.design)
    first, _ = design.cells
    centres = {effect.name: effect.centre for effect in model.prior.effects}
    columns |= model.prior.stated_columns()
    for group in design.columns.groups:
        for key, array in group.stored().items():
            dims = ("pattern_of_columns", f"{group.name}_level")[: array.ndim]
            columns[f"{key} {group.name}"] = (dims, array[first], {"centre": centres.get(group.name, 0.0)})
    return xr.Dataset(columns, {"term": list(model.prior.terms)})


def _add_frequency(tree, model, sample):
    """Write the mean of F, E[T | reports]/n, into the summary; its draws would cost one allocation for every row.

    F is averaged over some of the draws; its regression on P, whose mean is known from all of them, takes most of the error.
    """
    if model.reports.weighted:
        return  # F has no meaning under weights
    import xarray as xr

    z, p = (x.reshape(-1, x.shape[-1]) for x in (sample.unknowns, sample.distribution))
    chosen = np.unique(np.linspace(0, len(z) - 1, SERVING.averaged).astype(int))
    f, p = model.target.likelihoods(z[chosen], tallies=True)[2], p[chosen]
    f = f / f.sum(axis=1, keepdims=True)
    offset = p - p.mean(axis=0)
    slope = (offset * f).sum(axis=0) / np.maximum((offset**2).sum(axis=0), 1e-300)
    summary = tree["summary"].to_dataset()
    of_p = summary.sel(target="distribution")
    mean = f.mean(axis=0) + slope * (of_p["mean"].values - p.mean(axis=0))
    share = np.minimum(of_p["ess_bulk"].values / len(z), 1.0)
    rest = (f - f.mean(axis=0) - slope * offset).var(axis=0) / (len(chosen) * share)
    at = {"target": "frequency"}
    summary["mean"].loc[at] = mean / mean.sum()
    summary["mcse"].loc[at] = np.sqrt(rest + (slope * of_p["mcse"].values) ** 2)
    tree["summary"] = xr.DataTree(summary)


def _undecided(model, z, ci_prob):
    """Return the sentence that says about which coefficients the prior decides, or an empty string."""
    prior = model.prior
    scaled, names = _scaled(prior, z, ci_prob)
    verdict, moves = scaled.verdict, np.divide(scaled.moves, scaled.sd, out=np.zeros(scaled.sd.shape), where=scaled.sd > 0)
    named = {which: [name for name, found in zip(names, verdict, strict=True) if found == which] for which in (1, 2)}
    linked = maximum.dependent(prior.design, model.target.reports.sizes, tuple(prior.terms))
    texts = []
    if linked:
        verb = "is a linear combination" if len(linked) == 1 else "are linear combinations"
        texts.append(
            f"Over the rows with reports, {listed(linked)} {verb} of the other columns: only the prior separates them."
        )
    for which, start in ((1, "The prior decides on"), (2, "Prior and reports disagree on")):
        if named[which]:
            most = moves[verdict == which].max()
            texts.append(
                f"{start} {listed(named[which])}: with twice its weight the mean or an end moves by up to {most:.2g} sd."
            )
    return " ".join(texts)


def _scaled(prior, z, ci_prob):
    """Return (what scaling the prior does to the coefficients, for one sd of the column, and their names).

    The prior of what is told from reports only through the sd between groups, the effects, is part of the model and stays as
    it is.
    """
    log_prior = -0.5 * (z[:, prior.spans[""]] ** 2).sum(axis=1)
    for batch in prior.varying:
        log_prior -= 0.5 * (np.exp(np.minimum(z[:, batch.place], 300.0)) / batch.scale) ** 2
    others = [x for x in range(prior.n_categories) if x != prior.reference]
    coefficients = prior.coefficients(z)
    if prior.linked is not None and prior.intercept is not None:  # by the log odds of its share: a link may stretch it far
        logits = logits_of(coefficients[:, prior.intercept], prior.link, prior.reference)
        coefficients[:, prior.intercept] = logits * prior.unit
    values = (coefficients * (prior.spread[:, None] / prior.unit))[:, :, others].reshape(len(z), -1)
    names = [f"{term} ({prior.categories[x]})" if len(others) > 1 else term for term in prior.terms for x in others]
    if isinstance(prior, predictor_target.OutcomePrior):
        more, terms, log_density = prior.told(z)
        values, names, log_prior = np.hstack([values, more]), names + terms, log_prior + log_density
    return Scaled.of_draws(values, log_prior, shares=False, floor=SERVING.floor, ci_prob=ci_prob), names
