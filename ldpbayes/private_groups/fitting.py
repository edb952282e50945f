"""The front door: by_private_group, from a frame of records to the distributions of an open value in private groups."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, DataError, DiagnosticWarning, InfeasibleError, listed, warn
from ldpbayes.inference.handover import hand_over, in_order
from ldpbayes.inference.nested import Cores
from ldpbayes.inference.scaling import Scaled
from ldpbayes.inference.verdict import ACCEPTED
from ldpbayes.presenting import recorded
from ldpbayes.private_groups.binning import Bins, default_bins, normal_score_bins
from ldpbayes.private_groups.checking import ShareCheck, check_shares
from ldpbayes.private_groups.measure import Atoms, Measure, hangs_on
from ldpbayes.private_groups.recipe import bootstrap, weighed
from ldpbayes.private_groups.records import Records, read_records
from ldpbayes.private_groups.result import PrivateGroups, label_of
from ldpbayes.private_groups.rounding import Classes, rounding_classes
from ldpbayes.private_groups.smoothing import Curve, Curves, Exchange, Walk, approximated, draw_curves
from ldpbayes.private_groups.storing import TARGETS
from ldpbayes.result.fits import cells_left_out
from ldpbayes.sources.records import Entries

#: Ways to the answer; "auto" begins with the first and hands over where its check fails.
METHODS = ("auto", "smooth", "rounding", "recipe")
#: Memory: Records with so many different likelihood rows keep a slot for each in every bin.
MAX_SLOTS = 64
#: Time: Draws of the groups' shares by the reports alone.
ALONE = 4000
#: Rule: Moves of the log-odds of a share that matter, for a doubling of the prior's weight: at a share of ½ a quarter of it,
#: .0025, as much as ``PowerScaling.floor``, which a table of three decimals hardly shows. Half and double are .001 and .005.
FLOOR_ODDS = 0.01
#: Memory: Fewest and most draws of a cell.
FEWEST_DRAWS, MOST_DRAWS = 100, 1_000_000
#: Memory: Numbers that the draws of one cell may hold with a slot for each likelihood row, and those of all cells without.
MAX_NUMBERS, MAX_HELD = 60_000_000, 250_000_000


@recorded
def by_private_group(
    data: Any,
    value: str,
    protocol: Any = None,
    *,
    report: str | Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    epsilon_column: str | None = None,
    rate_column: str | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    target: str = "distribution",
    method: str = "auto",
    bins: int | None = None,
    draws: int = 500,
    chains: int = 4,
    quantiles: Sequence[float] = (0.5, 0.75, 0.95),
    ci_prob: float = 0.95,
    random_seed: int | None = None,
) -> PrivateGroups:
    """Estimate the distribution of a column that is not private, numbers or labels, in each group of a private answer.

    Every record has an open value and the privatized report of a group. The result has each group's share,
    mean, quantiles and distribution function, and differences between groups. No record gets a negative weight, and every
    distribution function is monotone.

    Values are put into bins of equal width in the normal score of their rank. Within a bin the groups' shares are those that
    its reports allow, and each group has the distribution of the pooled records. From bin to bin the logits of the shares
    are a second-order random walk whose scale is integrated.

    Where values look rounded, "auto" begins with one curve for each rounding class (multiples of 15, of 5, other values) if
    its evidence is the larger. The shares are compared with those by the likelihood of the reports alone. Where they differ
    by more than half a posterior standard deviation and what precision explains, or draws cannot be trusted, "auto" hands
    over to the curves of rounding classes, and then to the recipe with a bootstrap. The result names its method and the
    reason.

    ``left_out`` names what cannot be said: a mean that a handful of records decides, a quantile whose interval ends at the
    value of one record, and a combination of covariates whose answer fails.

    Parameters
    ----------
    data : data frame or lazy frame
        pandas, Polars, PyArrow, DuckDB and whatever else narwhals reads; one row a record.
    value : str
        Column of the open value: numbers; or texts and booleans, an open category, for which the result is a cross table.
    protocol : AbstractProtocol, optional
        How the reports were made.
    report : str or sequence of str, optional
        The column or columns of the report; by default the protocol's own.
    categories : sequence of str, optional
        Labels of the private groups.
    epsilon_column : str, optional
        Column of the ε of each report; ``protocol`` is then the protocol at any level.
    rate_column : str, optional
        Column of the probability with which each group was replaced by a uniformly drawn one; ``protocol`` is then left
        out.
    by : str or sequence of str, optional
        Open covariates: one set of answers for each combination. Curves of all combinations share their scale.
    weights : str, optional
        Column of survey weights. The reports then count as many as Kish's effective number of records.
    target : {"distribution", "frequency"}
        The population that the records were drawn from, or these very records.
    method : {"auto", "smooth", "rounding", "recipe"}
    bins : int, optional
        Number of bins; by default 100 for 1e4 records, 140 for 1e5 and 200 for 1e6.
    draws, chains : int
        Draws per chain and chains, as in fit; the draws are independent.
    quantiles : sequence of float
        Levels in the summary.
    ci_prob : float
    random_seed : int, optional

    Returns
    -------
    PrivateGroups

    Raises
    ------
    ArgumentError
        On arguments that break their rule.
    DataError
        On missing columns or entries, rates outside [0, 1], unknown reports, negative weights, and values that are all
        equal.
    InfeasibleError
        Where reports cannot be taken one by one, or memory would not hold the draws.

    References
    ----------
    docs/theory/private-groups.md

    Examples
    --------
    >>> import numpy as np, pyarrow
    >>> import ldpbayes as lb
    >>> rng = np.random.default_rng(1)
    >>> cold = rng.random(20_000) < 0.3
    >>> duration = np.exp(rng.normal(np.where(cold, 1.0, 0.0), 0.5))
    >>> report = lb.GRR(2, epsilon=1.1).privatize(cold.astype(int), rng)
    >>> frame = pyarrow.table({"duration": duration, "report": report})
    >>> found = lb.by_private_group(frame, "duration", protocol=lb.GRR(2, epsilon=1.1), random_seed=1)
    >>> bool(abs(found.mean()["mean"].sel(group="1") - np.exp(1.125)) < 0.2)
    True
    """
    checks.choice(target, "target", TARGETS)
    checks.choice(method, "method", METHODS)
    draws, chains = checks.integer(draws, "draws", minimum=1), checks.integer(chains, "chains", minimum=1)
    if not FEWEST_DRAWS <= draws * chains <= MOST_DRAWS:
        raise ArgumentError(
            f"draws must be from {FEWEST_DRAWS} to {MOST_DRAWS:,} in all chains together, got {draws:,} × {chains:,}."
        )
    ci_prob = checks.level(ci_prob)
    levels = _levels(quantiles)
    random_seed = checks.seed(random_seed)
    if bins is not None:
        bins = checks.integer(bins, "bins", minimum=3)
    columns: dict[str, Any] = {"epsilon": epsilon_column, "rate": rate_column, "by": by, "weights": weights}
    records = read_records(data, value, report, protocol, categories=categories, **columns)
    return analyse(records, Arguments(value, target, method, bins, draws * chains, levels, ci_prob, random_seed))


class Arguments(NamedTuple):
    """What is asked of Records: parameters of ``by_private_group``, which are checked; draws of all chains together."""

    value: str = "value"
    target: str = "distribution"
    method: str = "auto"
    bins: int | None = None
    draws: int = 2000
    levels: tuple[float, ...] = (0.5, 0.75, 0.95)
    ci_prob: float = 0.95
    random_seed: int = 0


def analyse(records: Records, asked: Arguments) -> PrivateGroups:
    """Return the answers for Records, of all cells but those whose answer fails."""
    _refuse(records, asked)
    refused: dict[str, str] = {}
    while True:
        result, failed = _answered(records, asked)
        if not 0 < len(failed) < len(records.cells):
            break
        refused |= {label_of(records.cells[c]): why for c, why in failed.items()}
        records = records.take(~np.isin(records.cell, list(failed)))
    said = [cells_left_out(refused, len(refused) + len(records.cells))] if refused else []
    said += [_hanging(result, records)] if any(result.hanging) else []
    said += _unbounded(result)
    result = replace(result, left_out=" ".join(said))
    if result.left_out:
        warn(result.left_out, DiagnosticWarning)
    if not result.trusted:
        warn(result.outcome, DiagnosticWarning)
    return result


def _answered(records: Records, asked: Arguments) -> tuple[PrivateGroups, dict[int, str]]:
    """Return the answers of all cells, and why they may not be used in those cells that fail."""
    rng = np.random.default_rng(asked.random_seed)
    places = [np.flatnonzero(records.cell == c) for c in range(len(records.cells))]
    problem, method = _Problem(records, places, asked, rng), asked.method
    recipes = None if records.decode is None else tuple(_recipe(records, at, asked.levels) for at in places)
    divisions, said = problem.divisions()
    if method == "rounding" and not divisions:
        raise DataError("has no values that stand out as rounded; use another method", field=asked.value)
    ways = [*divisions, *["recipe"] * (method == "recipe" or (method == "auto" and records.decode is not None))]
    alone = _alone(records, places, asked.target, rng)
    steps = {used: partial(problem.tried, divisions.get(used), alone) for used in ways}
    outcome = hand_over(in_order(steps), lambda fit: "" if fit.accepted else fit.said)
    fit = outcome.answer
    said += [*outcome.rejected.values(), *([fit.said] if fit.accepted else [])]
    drawn = None if fit.curves is None else fit.curves.drawn
    hangs = records.levels is None and asked.target == "distribution"
    result = PrivateGroups(
        groups=records.groups,
        measures=tuple(fit.measures),
        cells=records.cells,
        by=records.by,
        levels=records.levels,
        value=asked.value,
        target=asked.target,
        method=outcome.name,
        reason=" ".join(said),
        quantiles=asked.levels,
        ci_prob=asked.ci_prob,
        random_seed=asked.random_seed,
        n_records=records.n,
        design=records.design,
        n_bins=tuple(len(measure.atoms.mean) for measure in fit.measures),
        check=fit.check,
        hanging=tuple(hangs_on(records.value[at], records.weight[at]) if hangs else 0 for at in places),
        left_out="",
        discretization=fit.moved,
        recipe=recipes,
        who_decides=_who_decides(fit, records.groups, asked.ci_prob),
        sampling="weighted" if drawn is None else drawn.way,
        problem="" if drawn is None else drawn.verdict.problem,
        k_hat=np.nan if drawn is None else drawn.k_hat,
        effective_draws=np.nan if drawn is None else drawn.effective,
    )
    return result, {c: why for c in range(len(places)) if (why := _failure(result, c, fit.unsound))}


def _failure(result: PrivateGroups, c: int, unsound: Collection[int]) -> str:
    """Return why the answer in one cell may not be used; empty where it may."""
    check = ShareCheck(result.check.discrepancy[[c]], result.check.allowed[[c]])
    if not check.good:
        apart, allowed = check.worst
        return (
            f"its shares differ from those that its reports alone give by {apart:.2f} posterior sd, {allowed:.2f} allowed."
        )
    if c in unsound:
        return f"its draws cannot be trusted: {result.problem}."
    empty = listed(np.array(result.groups)[result.empty[c]])
    return f"many draws have nobody in {empty}." if empty else ""


def _hanging(result: PrivateGroups, records: Records) -> str:
    """Return the sentence about means that depend on a handful of records."""
    sizes = np.bincount(records.cell, minlength=len(result.cells)).tolist()
    few = [
        f"{k:,} of {n:,}{' in ' + label_of(key) if result.by else ''}"
        for k, n, key in zip(result.hanging, sizes, result.cells, strict=True)
        if k
    ]
    where = f" in {len(few)} of {len(sizes)} cells" if result.by else ""
    return (
        f"The means of {result.value}{where} are left out: no interval of them would hold, because half of the squared "
        f"distances from the mean lie in a handful of records ({listed(few)}). Medians are what the data decide."
    )


def _unbounded(result: PrivateGroups) -> list[str]:
    """Return the sentence about quantiles of the summary whose interval ends at the value of one record, if any does."""
    if result.levels is not None or not result.quantiles or result.target == "frequency":
        return []
    open_ = np.isnan(result.quantile()["mean"].values).reshape(-1, len(result.quantiles), len(result.groups))
    few = [
        f"{100 * q:g} % in {group}" + (f" of {label_of(key)}" if result.by else "")
        for key, of_cell in zip(result.cells, open_, strict=True)
        for q, of_level in zip(result.quantiles, of_cell, strict=True)
        for group, is_open in zip(result.groups, of_level, strict=True)
        if is_open
    ]
    return few and [
        f"Some quantiles of {result.value} are left out ({listed(few)}): their intervals would end at the least or greatest "
        "value of all records, and nothing says how far others lie beyond."
    ]


def _refuse(records: Records, asked: Arguments) -> None:
    """Raise the error of records that have nothing to compare, or that the method or the bins do not fit."""
    name, method, bins = asked.value, asked.method, asked.bins
    if records.levels is None and records.value.min() == records.value.max():
        raise DataError(
            f"all values are {records.value[0]:g}: there is no distribution to compare between groups", field=name
        )
    if records.levels is not None and len(records.levels) < 2:
        raise DataError(f"has one category only, {records.levels[0]}: there is nothing to compare", field=name)
    if records.levels is not None and "share" in records.levels:
        raise DataError("has the category 'share', which tables of answers call the groups' shares; rename it", field=name)
    if bins is not None and bins > records.n:
        raise ArgumentError(f"bins must be at most the number of records ({records.n:,}), got {bins:,}.")
    if method == "recipe" and records.decode is None:
        raise InfeasibleError("The recipe needs reports that identify every group; these do not. Use method='smooth'.")
    if method == "rounding" and records.levels is not None:
        raise ArgumentError("method must not be 'rounding' for an open category.")


class _Fit(NamedTuple):
    """What one way to the answer found, whether its check accepts it, and the sentence that says so.

    Curves, how far answers move within bins, and the cells whose draws are unsound are those of smooth ways.
    """

    measures: list[Measure]
    check: ShareCheck
    accepted: bool
    said: str
    curves: Curves | None
    moved: np.ndarray | None
    unsound: set[int]


class _Division(NamedTuple):
    """Classes of values, the class of each record by cell, and the normal approximations of a curve for each of them."""

    classes: Classes
    parts: list[np.ndarray]
    cores: Cores

    @property
    def owners(self) -> list[int]:
        """The cell of each curve."""
        return [c for c, part in enumerate(self.parts) for _ in range(part.max() + 1)]


@dataclass(frozen=True, eq=False)
class _Problem:
    """Records by cell, and the ways to fit them."""

    records: Records
    held: list[np.ndarray]
    asked: Arguments
    rng: np.random.Generator

    def divisions(self) -> tuple[dict[str, _Division], list[str]]:
        """Return the divisions of the ways with curves that the method tries, in their order, and what to say of them.

        With "auto" one curve for all records comes first, unless a division by rounding has the larger evidence.
        """
        method = self.asked.method
        rounds = method in ("auto", "rounding") and self.records.levels is None
        splits = rounding_classes(self.records.value) if rounds else []
        sure = method == "auto" and any(classes.sure for classes in splits)
        made, said = {}, []
        if method in ("auto", "smooth") and not sure:
            made["smooth"] = self._division(Classes(np.zeros(self.records.n, dtype=np.int64), ()))
        if splits:
            first = max(map(self._division, splits), key=lambda division: division.cores.log_evidence)
            made["rounding"], names = first, first.classes.names
            if sure:
                said.append(f"{names[0].capitalize()} have a curve of their own.")
            elif method == "auto" and (more := first.cores.log_evidence - made["smooth"].cores.log_evidence) > 0:
                del made["smooth"]
                apart = f"the reports are e^{more:.1f} times as probable with a curve each"
                said.append(f"Groups differ between {' and '.join(names)} at equal values: {apart}.")
        return made, said

    def _division(self, classes: Classes) -> _Division:
        """Return one curve for each cell and class."""
        parts, curves, records = [], [], self.records
        for at, bins in zip(self.held, self.cells, strict=True):
            part = np.unique(classes.index[at], return_inverse=True)[1]
            prior = Exchange(bins.size) if records.levels is not None else Walk(bins.size, bins.width, bins.middle)
            for mine in part == np.arange(part.max() + 1)[:, None]:
                curves.append(Curve(_entries(records, at[mine], bins.index[mine], bins.size), prior))
            parts.append(part)
        return _Division(classes, parts, approximated(curves))

    def tried(self, division: _Division | None, alone: tuple[np.ndarray, np.ndarray, bool]) -> _Fit:
        """Return what a way to the answer finds, the recipe without a division; ``alone`` is what the reports alone say."""
        curves, moved, verdict, unsound = None, None, ACCEPTED, set()
        if division is None:
            measures = self._recipe()
        else:
            curves = draw_curves(division.cores, self.asked.draws, self.rng)
            measures, moved = self._smooth(division, curves)
            verdict, each = curves.drawn.verdict, curves.drawn.verdicts
            unsound = {c for c, of_curve in zip(division.owners, each, strict=True) if not of_curve.accepted}
        check = check_shares([measure.shares() for measure in measures], *alone, smooth=curves is not None)
        apart, allowed = check.worst
        what, verbs = "Smooth curves", ("agree", "differ")
        if division is None:
            whose = ", whose intervals are those of the population," if self.asked.target == "frequency" else ""
            what, verbs = f"The recipe with a bootstrap{whose}", ("agrees", "differs")
        elif division.classes.names:
            what += f", one each for {', '.join(division.classes.names)},"
        shares = "the shares that the reports alone give"
        if not verdict.accepted:
            said = f"{what} have draws that cannot be trusted: {verdict.problem}."
        elif check.good:
            said = f"{what} {verbs[0]} with {shares} to {apart:.2f} posterior sd."
        else:
            said = f"{what} {verbs[1]} from {shares} by {apart:.2f} posterior sd, where {allowed:.2f} is allowed."
        return _Fit(measures, check, verdict.accepted and check.good, said, curves, moved, unsound)

    def _smooth(self, division: _Division, curves: Curves) -> tuple[list[Measure], np.ndarray | None]:
        """Return the measure of each cell, and how far its answers move within bins, from draws of its curves."""
        measures, moved, every = [], [], iter(curves.shares)
        for at, bins, part in zip(self.held, self.cells, division.parts, strict=True):
            shares, mode = [next(every) for _ in range(part.max() + 1)], bins.mode
            if division.classes.sure:  # each spike is a mode
                mode = np.where(division.classes.index[at] == 0, mode.max() + 1 + bins.index, mode)
            for one in np.unique(mode) if mode.min() < mode.max() else ():
                for i, curve in enumerate(shares):
                    if len(here := np.flatnonzero((part == i) & (mode == one))):
                        self._absent(at[here], curve, np.unique(bins.index[here]))
            measures.append(self._measure(at, bins, part, shares))
            if self.records.levels is None:
                moved.append(self._moved(at, bins, part, [curve.mean(axis=0) for curve in shares]))
        return measures, np.stack(moved) if moved else None

    def _absent(self, at: np.ndarray, shares: np.ndarray, places: np.ndarray) -> None:
        """Set shares (S, m, k) of a curve to 0 at the places of a mode in those draws in which a group is absent from it.

        Gaps part the modes. A curve is never 0, and reports bound a share near 0 to about 1/√n: far away that moves means
        by many of their errors. So a group is absent from a mode with the prior probability ½. What the mode's reports say
        against it is the ratio of their greatest likelihoods with and without the group: the most that any prior of its
        share could make of them (Edwards, Lindman and Savage, 1963).
        """
        chance = _absence(_entries(self.records, at, np.zeros(len(at), dtype=np.int64), 1))
        absent = self.rng.random((len(shares), len(chance))) < chance
        absent &= ~absent.all(axis=1, keepdims=True)
        left = np.maximum(shares[:, places], 1e-300) * ~absent[:, None]
        shares[:, places] = left / left.sum(axis=2, keepdims=True)

    def _moved(self, at: np.ndarray, bins: Bins, part: np.ndarray, curves: list[np.ndarray]) -> np.ndarray:
        """Return how far share, mean and quantiles move where mean curves are interpolated within bins, (quantities, k).

        Curves are constant within a bin otherwise; this is the error of the bins, to first order.
        """
        records = self.records
        value, centres = records.value[at], np.arange(bins.size) + 0.5
        answers = []
        for score in (bins.index + 0.5, bins.score):
            each = np.empty((len(at), len(records.groups)))
            for i, curve in enumerate(curves):
                mine = part == i
                each[mine] = np.stack([np.interp(score[mine], centres, column) for column in curve.T], axis=1)
            if self.asked.target == "frequency":
                each *= records.table[records.kind[at]]
                each /= each.sum(axis=1, keepdims=True)
            shares, means, quantiles = weighed(value, each * records.weight[at, None], self.asked.levels)
            answers.append(np.vstack([shares, means, quantiles]))
        return answers[1] - answers[0]

    def _recipe(self) -> list[Measure]:
        """Return the recipe with its bootstrap."""
        records, measures = self.records, []
        assert records.decode is not None
        for at in self.held:
            columns = records.value[at], records.kind[at], records.decode, records.weight[at]
            measures.append(bootstrap(*columns, self.asked.draws, self.rng))
        return measures

    @cached_property
    def cells(self) -> list[Bins]:
        """The bins of each cell's records."""
        cells = [self._bins(at) for at in self.held]
        size = self.asked.draws * sum(bins.size for bins in cells) * len(self.records.groups)
        if size > MAX_HELD:
            raise InfeasibleError(f"The draws hold {size:,} numbers, more than {MAX_HELD:,}; ask for fewer draws or bins.")
        return cells

    def _bins(self, at: np.ndarray) -> Bins:
        records = self.records
        value = records.value[at]
        if records.levels is not None:
            index = value.astype(np.int64)
            return Bins(index, len(records.levels), 1.0, 0, index + 0.5, np.zeros_like(index))
        size = default_bins(len(at)) if self.asked.bins is None else self.asked.bins
        return normal_score_bins(value, records.weight[at], max(3, min(size, len(at))))

    def _measure(self, at: np.ndarray, bins: Bins, part: np.ndarray, shares: list[np.ndarray]) -> Measure:
        """Return the measure of one cell from draws of its curves, (S, m, k) for each part of the records."""
        records, rng, m, draws = self.records, self.rng, bins.size, self.asked.draws
        n_parts, k, n_kinds = len(shares), len(records.groups), len(records.table)
        value, index, weight = records.value[at], bins.index, records.weight[at]
        if self.asked.target == "distribution":
            load, square = (np.bincount(part * m + index, weight**power, n_parts * m) for power in (1, 2))
            mass = np.empty((draws, m, n_parts, k))
            for i, r in enumerate(shares):
                here = slice(i * m, (i + 1) * m)
                shape = load[here] ** 2 / np.maximum(square[here], 1e-300)
                pi = rng.standard_gamma(shape, (draws, m))
                pi *= load[here] / np.maximum(shape, 1e-300)
                mass[:, :, i] = pi[:, :, None] * r
            record = float(square.sum() / load.sum())
            return Measure(Atoms.of(value, index, m, part, n_parts, weight), mass, record=record)
        # these very records: a record's group is drawn from P(x | its report, its bin)
        by_kind = n_kinds <= MAX_SLOTS and draws * m * n_parts * n_kinds * k <= MAX_NUMBERS
        kinds = n_kinds if by_kind else 1
        slot = part * kinds + (records.kind[at] if by_kind else 0)
        mass = np.zeros((draws, m, n_parts * kinds, k))
        for i, r in enumerate(shares):
            mine = np.flatnonzero(part == i)
            entries, place = np.unique(index[mine] * n_kinds + records.kind[at[mine]], return_inverse=True)
            counts, load = (np.bincount(place, weight[mine] ** power) for power in (0, 1))
            column, kind = entries // n_kinds, entries % n_kinds
            to = i * kinds + (kind if by_kind else 0 * kind)
            for block in np.array_split(np.arange(len(entries)), max(1, draws * len(entries) * k // 20_000_000)):
                post = r[:, column[block]] * records.table[kind[block]]
                post /= post.sum(axis=2, keepdims=True)
                drawn = rng.multinomial(counts[block].astype(np.int64), post) * (load / counts)[block, None]
                starts = np.flatnonzero(np.append(True, np.diff((column * mass.shape[2] + to)[block]) > 0))
                mass[:, column[block][starts], to[block][starts]] += np.add.reduceat(drawn, starts, axis=1)
        return Measure(
            Atoms.of(value, index, m, slot, n_parts * kinds, weight), mass, whole=bool((records.weight == 1).all())
        )


def _who_decides(fit: _Fit, groups: Sequence[str], ci_prob: float) -> str:
    """Return the sentence on who decides on shares, by scaling the prior of level, slope and scale of the curves."""
    if fit.curves is None:
        return "The data decide: there is no prior."
    if not fit.check.identified:
        return "The reports alone do not identify the groups' shares: the prior decides in part."
    odds = logit(np.clip(np.hstack([measure.shares() for measure in fit.measures]), 1e-12, 1 - 1e-12))
    scaled = Scaled.of_draws(odds, fit.curves.log_prior, shares=False, floor=FLOOR_ODDS, ci_prob=ci_prob)
    moved = float((scaled.moves / np.maximum(scaled.sd, 1e-12)).max())
    hangs = scaled.verdict.reshape(-1, len(groups))
    if not hangs.any():
        return f"The data decide: with twice the weight of the curves' prior log-odds would move by {moved:.2f} sd at most."
    named = listed([name for name, weak in zip(groups, hangs.any(axis=0), strict=True) if weak])
    start = "Prior and reports disagree on" if (hangs == 2).any() else "The prior decides on"
    return f"{start} the share of {named}: with twice the weight of the curves' prior log-odds would move by {moved:.2f} sd."


def _entries(records: Records, at: np.ndarray, index: np.ndarray, size: int) -> Entries:
    """Return how often each report was seen in each bin, among some records."""
    weight = records.weight[at] * (records.weight.sum() / (records.weight**2).sum())  # as many as the sample is worth
    return Entries.counted(index, records.kind[at], weight, records.table, size)


def _absence(entries: Entries) -> np.ndarray:
    """Return the probability that nobody in one cell of reports is in a group, for each group; see _Problem._absent."""

    def likeliest(chosen):
        part = replace(entries, table=entries.table[:, chosen])
        return part.weight @ np.log(np.maximum(part.table @ part.pooled(), 1e-300))[part.row]

    every = np.arange(entries.n_categories)
    against = np.array([likeliest(every) - likeliest(every != x) for x in every])
    return expit(-np.maximum(against, 0.0))


def _recipe(records: Records, at: np.ndarray, levels: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Return the recipe's shares, means and quantiles of one cell."""
    assert records.decode is not None
    weights = records.decode[records.kind[at]] * records.weight[at, None]
    shares, means, quantiles = weighed(records.value[at], weights, levels)
    return {"share": shares, "mean": means, "quantile": quantiles}


def _alone(
    records: Records, places: list[np.ndarray], target: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return (means, variances) of the groups' shares in each cell by the reports alone, and whether these identify them.

    One bin holds all records of a cell: the posterior of its shares knows nothing of the value.
    """
    mean, variance = [], []
    for at in places:
        entries = _entries(records, at, np.zeros(len(at), dtype=np.int64), 1)
        (curve,) = draw_curves(approximated([Curve(entries, Exchange(1))]), ALONE, rng).shares
        shares = curve[:, 0]
        spread = np.zeros(len(records.groups))
        if target == "frequency":  # the records themselves are given
            weight, kind = records.weight[at] / records.weight[at].sum(), records.kind[at]
            load, square = (np.bincount(kind, weight**power, len(records.table)) for power in (1, 2))
            drawn = np.empty_like(shares)
            for block in np.array_split(np.arange(ALONE), max(1, ALONE * records.table.size // 20_000_000)):
                post = shares[block, None] * records.table
                post /= post.sum(axis=2, keepdims=True)
                drawn[block] = np.einsum("j,sjx->sx", load, post)
                spread += np.einsum("j,sjx->x", square, post * (1 - post)) / ALONE
            shares = drawn
        mean.append(shares.mean(axis=0))
        variance.append(shares.var(axis=0, ddof=1) + spread)
    identified = np.linalg.matrix_rank(records.table) == len(records.groups)
    return np.stack(mean), np.stack(variance), bool(identified)


def _levels(quantiles: Sequence[float]) -> tuple[float, ...]:
    levels = checks.entries(quantiles, "quantiles", "a sequence of levels")
    return tuple(checks.probability(prob, "quantiles", open_low=True, open_high=True) for prob in levels)
