"""Questions to a regression: predictions, average comparisons and slopes, odds ratios, and post-stratification."""

import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.special import softmax

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.arrays import blocks
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, listed, shown
from ldpbayes.inference.ends import ends_of_equal_draws
from ldpbayes.priors.links import LINKS, logits_of, scale_of
from ldpbayes.priors.regression import walk_between
from ldpbayes.regression import predictor_questions
from ldpbayes.regression.changing import changed
from ldpbayes.regression.constants import MAX_NUMBERS, NUMBERS_TOGETHER, ROUNDING
from ldpbayes.regression.design import Columns, Design, arrays
from ldpbayes.regression.maximum import Maximum
from ldpbayes.regression.table import clean, to_pandas
from ldpbayes.result.facts import facts_of
from ldpbayes.sources.base import foreign

#: What the subgroup of all is called.
POPULATION = "population"
#: Mathematics: Margins may differ in total by this share; raking ends where no cell moves by more than the second, at most
#: after so many rounds.
MARGINS_APART, RAKED, MOST_RAKED = 1e-3, 1e-9, 2000
#: Mathematics: A slope is a difference over this share of the column's standard deviation.
STEP = 1e-3
asks = base.asking(
    base.WORDS
    | {
        "result": "result : Result\n    A result of regress.",
        "variable": "variable : str\n    A covariate of the formula.",
        "data": "data : data frame, optional\n    The people to average over; by default those of the fit.",
    },
)


class Fitted:
    """The design and the draws of a result of regress.

    Parameters
    ----------
    result : Result
    """

    def __init__(self, result: xr.DataTree):
        if not isinstance(result, xr.DataTree) or "regression" not in facts_of(result):
            more = "; maximum likelihood has no draws to answer from" if isinstance(result, Maximum) else ""
            raise ArgumentError(f"result must be a posterior that regress returned{more}.")
        self.result = result
        with foreign("the group 'design' is not that of a regression"):
            design = result["design"].to_dataset()
            start = "covariate "
            patterns = {str(n).removeprefix(start): design[n].values for n in design.data_vars if str(n).startswith(start)}
            #: The least and the largest value of each number that the fit has met.
            self.met = {name: (x.min(), x.max()) for name, x in patterns.items() if x.dtype.kind in "iuf"}
            self.design = Design.restore(facts_of(result)["regression"], patterns, design["n_rows"].values)
            self.sizes: NDArray = np.asarray(design["n_reports"].values, dtype=float)
            self._check(design)
            firsts = [f"{next(iter(group.stored()))} {group.name}" for group in self.design.columns.groups]
            self._centres = [design[name].attrs.get("centre", 0.0) for name in firsts]
        self.categories = [str(name) for name in result.children["posterior"].dataset["category"].values]
        self.link = str(facts_of(result).get("link", "logit"))
        if self.link != "logit" and (self.link not in LINKS or len(self.categories) != 2):
            raise DataError(f"the attribute 'link' must name one of two categories, got {shown(self.link)}")
        groups = self.design.columns.groups
        rows = [("coefficients", len(self.design.terms)), *((group.name, len(group.levels)) for group in groups)]
        columns: list[NDArray] = []
        for name, size in rows:
            drawn = result.children["posterior"].dataset[name]
            values = drawn.transpose(..., *[dim for dim in drawn.dims if dim == "category"]).values
            if values.ndim != 4 or values.shape[2:] != (size, len(self.categories)) or values.dtype.kind != "f":
                raise DataError(f"posterior {shown(name)} has other terms or groups than the design")
            columns.append(values)
        if len({values.shape[:2] for values in columns}) > 1 or not all(np.isfinite(values).all() for values in columns):
            raise DataError("the coefficients in the posterior are not finite, or not of the same draws")
        for group in groups:  # after the coefficients, by what groups differ
            sd = result.children["posterior"].dataset[f"{group.name}_sigma"].values if group.kind != "mo" else np.zeros(())
            columns.append(np.broadcast_to(sd[..., None, None], (*columns[0].shape[:2], 1, len(self.categories))))
        self.coefficients: NDArray = np.concatenate(columns, axis=2)

    def _check(self, design: xr.Dataset) -> None:
        """Refuse a description whose columns are not those of the fit, such as one that was edited."""
        columns, (first, _) = self.design.columns, self.design.cells
        pairs = [(design["columns"].values, columns.common[first])]
        for group in columns.groups:
            pairs += [(design[f"{key} {group.name}"].values, array[first]) for key, array in group.stored().items()]
        for stored, computed in pairs:
            limit = ROUNDING * np.abs(computed).max(axis=0, initial=1e-300)
            if stored.shape != computed.shape or not (np.abs(stored - computed) <= limit).all():
                raise DataError("the attribute 'regression' describes other columns than those of the fit; fit again")
        if self.sizes.shape != self.design.rows.shape or not np.isfinite(self.sizes).all() or not self.sizes.sum() > 0:
            raise DataError("the group 'design' must have the number of reports of every row of covariates")

    @property
    def outcome(self) -> predictor_questions.FittedOutcome | None:
        """The part that has an outcome, where the private answer is a predictor."""
        return predictor_questions.FittedOutcome(self) if "predictor" in facts_of(self.result) else None

    def people(self, data: Any, count: str | None = None, names: Sequence[str] | None = None) -> tuple[Any, NDArray]:
        """Return (frame of the variables, how many people each row stands for): new data, or those of the fit."""
        names = tuple(self.design.variables) if names is None else names
        if data is None:
            if count is not None:
                raise ArgumentError("count must be left out where no data are given.")
            return self.design.frame, self.sizes
        table = to_pandas(data)
        extra = [] if count is None else [count]
        cleaned, _ = clean(table, names, extra=extra, remedy="fill it in, or leave such rows out")
        if not names:
            cleaned = cleaned.reindex(range(len(table)))
        if count is None:
            return cleaned, np.ones(len(table))
        sizes = np.asarray(table[count])
        try:
            if sizes.dtype.kind not in "biuf" and any(isinstance(size, str) for size in sizes.tolist()):
                raise TypeError  # a text of 1.000 may write a thousand
            sizes = sizes.astype(float)
        except (TypeError, ValueError):
            raise DataError("must hold numbers of people, which are no texts", field=count) from None
        if not np.isfinite(sizes).all() or (sizes < 0).any() or not sizes.sum() > 0:
            raise DataError("must be finite, not negative and not all zero", field=count)
        return cleaned, sizes

    def draws(self, rows: int) -> NDArray:
        """Return coefficients (S, K, a): every draw of each chain, or some at equal steps where there are many rows."""
        chains, length = self.coefficients.shape[:2]
        step = max(1, -(-chains * length * rows * len(self.categories) // MAX_NUMBERS))
        step = min(step, max(1, length // 50))
        coefficients = self.coefficients[:, ::step]
        return coefficients.reshape(-1, *coefficients.shape[2:])

    def effects(self, columns: Columns, coefficients: NDArray) -> list[NDArray]:
        """Return the effects of the levels of each group, those of the fit and then new ones, each (S, levels, a).

        A new group has draws of its prior given their sd, a new place of a walk those given its neighbours; they depend on
        its name and on the seed of the fit alone, so that questions can be compared.
        """
        at, effects, k = columns.common.shape[1], [], len(columns.groups)
        basis, seed = helmert(len(self.categories)).T, int(self.result.attrs.get("random_seed") or 0)
        basis = (basis - basis[self.categories.index(self.result.attrs["reference"])]) / np.sqrt(2)
        for i, group in enumerate(columns.groups):
            levels = coefficients[:, at : at + len(group.levels)]
            at += len(group.levels)
            if group.new:
                seeds = [[seed % 2**32, zlib.crc32(f"{group.name} {label}".encode())] for label in group.new]
                shape = len(coefficients), len(self.categories) - 1
                drawn = np.stack([np.random.default_rng(seed).standard_normal(shape) for seed in seeds], axis=1) @ basis.T
                drawn *= coefficients[:, i - k, None, :1]
                if group.kind == "rw":
                    weights, sd = walk_between(group.places, group.new_places)
                    drawn = weights @ levels + sd[:, None] * drawn
                levels = np.concatenate([levels, drawn], axis=1)
            effects.append(levels)
        names = [group.name for group in columns.groups]
        for i, name in enumerate(names):  # the sd of an intercept is that at the mean of the column that varies
            beside, m = f"1|{name.partition('|')[2]}", len(columns.groups[i].levels)
            if self._centres[i] and beside in names:
                effects[names.index(beside)][:, m:] -= self._centres[i] * effects[i][:, m:]
        return effects

    def shares(self, columns: Columns, coefficients: NDArray, effects: list[NDArray], rows: slice = slice(None)) -> NDArray:
        """Return P of some rows, shape (S, rows, a)."""
        eta = columns.common[rows] @ coefficients[:, : columns.common.shape[1]]
        for group, effect in zip(columns.groups, effects, strict=True):
            eta += group.times(effect, rows)
        reference = self.categories.index(self.result.attrs["reference"])
        return softmax(logits_of(eta, self.link, reference), axis=-1)

    def means(self, frame: Any, weight: NDArray, coefficients: NDArray, group: NDArray) -> NDArray:
        """Return the means of P over the people of each group of rows, shape (S, groups, a)."""
        columns = self.design.new(frame)
        effects = self.effects(columns, coefficients)
        total = np.zeros((len(coefficients), group.max() + 1, len(self.categories)))
        for rows in blocks(len(frame), coefficients[:, 0].size, NUMBERS_TOGETHER):
            shares = self.shares(columns, coefficients, effects, rows) * weight[rows][:, None]
            order = np.argsort(group[rows], kind="stable")
            labels, starts = np.unique(group[rows][order], return_index=True)
            total[:, labels] += np.add.reduceat(shares[:, order], starts, axis=1)
        return total / np.bincount(group, weight)[:, None]

    def noted(self, answer: Answer, columns: Columns, weight: NDArray, frame: Any) -> Answer:
        """Return the answer with sentences of what the fit has not met: groups (``unseen``), numbers ``beyond`` a curve."""
        new, beyond = {}, []
        for group in columns.groups:
            for name in self.met if group.kind == "s" else ():
                low, high = self.met[name]
                if re.search(rf"\b{re.escape(name)}\b", group.name) and not frame[name].between(low, high).all():
                    beyond.append(
                        f"{group.name} stays level beyond {name} {low:g} to {high:g}, where the sample has nobody."
                    )
        for group in columns.groups:
            share = weight[group.index >= len(group.levels)].sum() / weight.sum()
            if share > 0:
                new[group.name.partition("|")[2] or group.name] = (
                    f"{listed(map(repr, group.new))} ({100 * share:.1f} % of the people)"
                )
        each = "; ".join(f"{name} {which}" for name, which in new.items())
        said = {"unseen": f"The sample lacks {each}: their effects are drawn, given those of the others."} if new else {}
        return answer.assign_attrs(said | ({"beyond": " ".join(beyond)} if beyond else {}))

    def mean(self, frame: Any, weight: NDArray, coefficients: NDArray) -> NDArray:
        """Return the mean of P over people, shape (S, a)."""
        return self.means(frame, weight, coefficients, np.zeros(len(frame), dtype=int))[:, 0]

    def described(self, draws: NDArray, coords: dict, ci_prob: float, question: str, **more: NDArray) -> Answer:
        """Return the Dataset of draws (S, …, a) over dims and the categories."""
        return base.described(self.result, draws, {**coords, "category": self.categories}, ci_prob, question, **more)


@asks
def predictions(result: xr.DataTree, data: Any = None, *, ci_prob: float = 0.95) -> Answer:
    """Predict shares, or the mean outcome, by a regression: for rows of a table, by default the distinct rows of the fit.

    Parameters
    ----------
    data : data frame, optional
        With the covariates; by default the distinct combinations of covariates that the fit had, in their order.

    Returns
    -------
    Answer
        mean, sd, lower, upper and mcse (row, category), with the covariates as coordinates of the rows. Where the private
        answer is a predictor they are of the mean outcome under each answer, and share_mean, share_sd, share_lower and
        share_upper of the answers.

    Raises
    ------
    ArgumentError
        If result is no posterior of regress.
    DataError
        On missing columns or values, and on levels of a factor that the fit has not seen. Groups behind a bar may be new:
        they have draws of a new group, and ``unseen`` names them.

    Examples
    --------
    >>> import ldpbayes as lb
    >>> survey = lb.load_example("nigeria_cells")
    >>> found = lb.regress(survey, "connected ~ female + married", random_seed=1)
    >>> lb.predictions(found, {"female": [0, 1], "married": [1, 1]})["mean"].sel(category="yes").values.round(2).tolist()
    [0.28, 0.17]
    """
    fitted = Fitted(result)
    if (outcome := fitted.outcome) is not None:
        return predictor_questions.predictions(outcome, data, ci_prob)
    frame, sizes = fitted.people(data)
    if data is None:
        order = fitted.design.order(frame)
        frame, sizes = frame.iloc[order].reset_index(drop=True), sizes[order]
    coefficients = fitted.draws(min(len(frame), 1000))
    columns, index = fitted.design.new(frame), np.arange(len(frame))
    effects = fitted.effects(columns, coefficients)
    answers = [
        fitted.described(
            fitted.shares(columns, coefficients, effects, rows), {"row": index[rows]}, ci_prob, "Predicted shares"
        )
        for rows in blocks(len(frame), coefficients[:, 0].size, NUMBERS_TOGETHER)
    ]
    coords: dict[str, Any] = {}
    for name, values in arrays(frame[list(fitted.design.variables)]).items():
        coords[name if name not in ("row", "category") else f"covariate_{name}"] = (("row",), values)
    if data is None:
        coords["n_reports"] = (("row",), sizes)
    joined = xr.concat(answers, "row").assign_coords(coords)
    return fitted.noted(Answer(joined.data_vars, joined.coords, joined.attrs), columns, np.ones(len(frame)), frame)


@asks
def comparisons(
    result: xr.DataTree,
    variable: str,
    values: Sequence[Any] | None = None,
    *,
    data: Any = None,
    ci_prob: float = 0.95,
) -> Answer:
    """Return average differences of a regression's shares, or of its mean outcome, between values of one variable.

    For every person the distribution of the private answer is predicted with one value and with the other, all other
    covariates as they are, and the difference is averaged over people.

    Parameters
    ----------
    values : sequence, optional
        Values to compare; each is compared with the first. By default the levels of a factor, the two values of a number
        that has two, and otherwise everybody's own value with one more.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse and probability_positive (that the difference is above 0), dims comparison and category.
        Where the private answer is a predictor, dim comparison: differences of the mean outcome, by the answer, or by a
        covariate while everybody's answer stays as it is.

    Raises
    ------
    ArgumentError
        If result is no posterior of regress, or the variable is not in its formula.
    DataError
        On levels of a factor that the fit has not seen.
    """
    import pandas as pd

    fitted = Fitted(result)
    if (outcome := fitted.outcome) is not None:
        return predictor_questions.comparisons(outcome, variable, values, data, ci_prob)
    own, number = _covariate(fitted, variable)
    frame, weight = fitted.people(data)
    frames, labels = changed(frame, variable, own, number, values)
    coefficients = fitted.draws(len(frame) * max(len(frames), 2))
    shares = [fitted.mean(changed, weight, coefficients) for changed in frames]
    draws = np.stack([share - shares[0] for share in shares[1:]], axis=1)
    answer = fitted.described(
        draws, {"comparison": labels}, ci_prob, f"Differences by {variable}", probability_positive=(draws > 0).mean(axis=0)
    ).assign_coords(variable=variable)
    every = pd.concat(frames)
    return fitted.noted(answer, fitted.design.new(every), np.tile(weight, len(frames)), every)


@asks
def slopes(result: xr.DataTree, variable: str, *, data: Any = None, ci_prob: float = 0.95) -> Answer:
    """Return the average marginal effect of a number: the slope of each share, averaged over people.

    Parameters
    ----------
    variable : str
        A covariate that holds numbers.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse and probability_positive (that the slope is above 0), dim category.

    Raises
    ------
    ArgumentError
        If result is no posterior of regress, or the variable is no number of its formula or makes the shares jump.
    """
    fitted = Fitted(result)
    own, number = _covariate(fitted, variable)
    if not number:
        raise ArgumentError(f"variable must hold numbers, {variable!r} is a factor; comparisons takes it.")
    frame, weight = fitted.people(data)
    coefficients = fitted.draws(2 * len(frame))
    h = STEP * (float(np.repeat(own.to_numpy(), fitted.design.rows).std()) or 1.0)
    values = frame[variable].to_numpy(dtype=float)

    def slope(of: NDArray, by: float) -> NDArray:
        up, down = (fitted.mean(frame.assign(**{variable: values + d}), weight, of) for d in (by, -by))
        return (up - down) / (2 * by)

    coarse, fine = (slope(coefficients[:1], size) for size in (h, h / 4))
    if np.abs(coarse - fine).max() > 0.1 * np.abs(fine).max() + 1e-9 / h:
        raise ArgumentError(
            f"variable must move the shares smoothly, but they jump with {variable!r}; comparisons takes it."
        )
    draws = slope(coefficients, h)
    answer = fitted.described(draws, {}, ci_prob, f"Slopes in {variable}", probability_positive=(draws > 0).mean(axis=0))
    return fitted.noted(answer.assign_coords(variable=variable), fitted.design.new(frame), weight, frame)


def odds_ratio(
    result: xr.DataTree | Maximum, first: None, second: None, *, kind: str, target: str, ci_prob: float
) -> Answer:
    """Return the coefficients as odds ratios against the reference category, as ``answers.odds_ratio`` does."""
    if first is not None or second is not None:
        raise ArgumentError("first and second must be left out for a regression, whose coefficients are its odds ratios.")
    checks.choice(kind, "kind", ("local",))
    checks.choice(target, "target", ("distribution",))
    ci_prob = checks.level(ci_prob)
    link = facts_of(result).get("link", "logit") if isinstance(result, (Maximum, xr.DataTree)) else "logit"
    if link != "logit":
        raise ArgumentError(f"result must be a logit to have odds ratios, got the link {scale_of(link)}; see comparisons.")
    if isinstance(result, Maximum):
        summary = result.summary(ci_prob)
        columns = summary[["odds_ratio", "odds_lower", "odds_upper"]]
        columns = columns.rename(odds_lower="lower", odds_upper="upper")
        return Answer(columns.data_vars, columns.coords, {**columns.attrs, "question": "Odds ratios"})
    draws = result.children["posterior"].dataset["coefficients"].drop_sel(category=result.attrs["reference"])
    flat = draws.values.reshape(-1, *draws.shape[2:])
    summary = result["summary"].to_dataset().drop_sel(category=result.attrs["reference"])
    if summary.attrs["ci_prob"] == ci_prob:  # whose ends come from more than the draws that are kept
        ends = [summary[f"coefficients_{end}"].transpose("term", "category").values for end in ("lower", "upper")]
    else:
        ends = list(ends_of_equal_draws(flat, ci_prob))
    data = dict(zip(("odds_ratio", "lower", "upper"), np.exp([np.median(flat, axis=0), *ends]), strict=True))
    coords = {name: draws[name].values for name in ("term", "category")}
    attrs = {"question": "Odds ratios", "ci_prob": ci_prob}
    return Answer({name: (("term", "category"), values) for name, values in data.items()}, coords, attrs)


@asks
def poststratify_table(
    result: xr.DataTree,
    table: Any,
    count: str | None,
    *,
    by: str | Sequence[str] | None = None,
    ci_prob: float = 0.95,
) -> Answer:
    """Return the distribution in a population whose table of counts has the covariates; see ``poststratify``.

    Parameters
    ----------
    table : data frame, or list of them
        A row for each combination of the covariates, with the number of people in the population; or the margins of it.
    count : str
        The column of these numbers.
    by : str or sequence of str, optional
        Columns of the table: one distribution for each combination of their values, and the population's.
    """
    import pandas as pd

    fitted = Fitted(result)
    if not isinstance(count, str):
        raise ArgumentError("count must name the column of the table that holds the numbers of people, got none.")
    raked = isinstance(table, (list, tuple))
    frame, sizes = _raked(fitted, table, count) if raked else fitted.people(table, count)
    keys = checks.columns(by, "by") or ()
    census = frame if raked else to_pandas(table)
    for name in keys:
        if name not in census.columns:
            what = "margins of the formula's covariates have" if raked else "table has"
            raise DataError(f"the {what} no column {shown(name)}; it has {listed(map(str, census.columns))}")
    texts = [", ".join(row) for row in zip(*(census[name].astype(str) for name in keys), strict=True)]
    code, labels = pd.factorize(np.array(texts if keys else [POPULATION] * len(frame), dtype=object))
    kept = (np.bincount(code, sizes) > 0)[code]  # groups without people have no shares
    frame, sizes, (code, order) = frame[kept].reset_index(drop=True), sizes[kept], pd.factorize(code[kept])
    labels, people = [str(labels[k]) for k in order], np.bincount(code, sizes)
    draws = fitted.means(frame, sizes, fitted.draws(len(frame)), code)
    question = " by ".join(["Shares in the population", *([listed(keys)] if keys else [])])
    if not keys:
        answer = fitted.described(draws[:, 0], {}, ci_prob, question)
    else:
        if POPULATION in labels:
            raise DataError(f"must not have the value {POPULATION!r}, which stands for all together", field=listed(keys))
        draws = np.concatenate([(draws * people[:, None]).sum(axis=1, keepdims=True) / people.sum(), draws], axis=1)
        answer = fitted.described(draws, {"group": [POPULATION, *labels]}, ci_prob, question)
        answer = answer.assign(population_share=(("group",), np.append(1.0, people / people.sum())))
    chains = result["posterior"].sizes["chain"]
    attrs = {name: facts_of(result)[name] for name in ("sampling", "effective_draws") if name in facts_of(result)}
    values = draws.reshape(chains, -1, *answer["mean"].shape)
    answer = answer.assign(draws=(("chain", "draw", *answer["mean"].dims), values, attrs))
    return fitted.noted(answer, fitted.design.new(frame), sizes, frame)


def _raked(fitted: Fitted, tables: Sequence[Any], count: str) -> tuple[Any, NDArray]:
    """Return (rows of covariates of the sample, numbers of people that have the margins of some tables).

    The sample's cells are scaled to one margin after the other until all are met (Deming and Stephan 1940).
    """
    import pandas as pd

    design, (frame, sizes) = fitted.design, fitted.people(None)
    sizes, margins, totals = sizes.copy(), [], []
    for table in tables:
        names = [str(name) for name in to_pandas(table).columns if str(name) != count]
        if not names or not set(names) <= set(design.variables):
            raise ArgumentError(
                f"each margin must have the column of counts and covariates of the formula ({listed(design.variables)}), "
                f"got {listed(names) or 'no other column'}."
            )
        rows, target = fitted.people(table, count, names)
        keys = [
            pd.MultiIndex.from_arrays([design.values(name, held[name]) for name in names], names=names)
            for held in (rows, frame)
        ]
        if keys[0].has_duplicates:
            raise DataError(f"the margin of {listed(names)} has {listed(keys[0][keys[0].duplicated()][0])} twice")
        index = keys[0].get_indexer(keys[1])
        margins.append((names, keys, index, target))
        totals.append(float(target.sum()))
    if not margins:
        raise ArgumentError("population must be a table, or a list of its margins, got an empty list.")
    if max(totals) - min(totals) > MARGINS_APART * max(totals):
        raise DataError(
            f"the margins disagree on how many people there are ({listed(f'{total:,.6g}' for total in totals)}); make their "
            "totals equal, such as by dividing each by its own"
        )
    for names, (counted, sampled), index, target in margins:
        lacking = (np.bincount(index[index >= 0], sizes[index >= 0], len(target)) <= 0) & (target > 0)
        if lacking.any():
            raise DataError(
                f"the sample has nobody with {listed(names)} {listed(counted[int(np.argmax(lacking))])}, whom a margin "
                "counts; join levels, or give a census of all covariates together"
            )
        if (index < 0).any():
            raise DataError(
                f"the margin of {listed(names)} lacks {listed(sampled[int(np.argmin(index))])}, which the sample has; say "
                "how many people of the population they are, 0 if there are none"
            )
    for _ in range(MOST_RAKED):
        moved = 0.0
        for _, _, index, target in margins:
            before = np.bincount(index, sizes, len(target))
            factor = np.divide(target / target.sum() * totals[0], before, out=np.zeros_like(before), where=before > 0)
            moved = max(moved, float(np.abs(factor - 1)[before > 0].max()))
            sizes = sizes * factor[index]
        if moved < RAKED:
            return frame, sizes
    raise InfeasibleError(
        "No numbers of people in the sample's cells have these margins: too many combinations have nobody in the sample. "
        "Join levels, or give a census of all covariates together."
    )


def _covariate(fitted: Fitted, variable: str) -> tuple[Any, bool]:
    """Return the column of a covariate in the fit, and whether it enters as a number."""
    names = fitted.design.variables
    if not isinstance(variable, str) or variable not in names:
        names_held = listed(names) or "it has none"
        raise ArgumentError(f"variable must be a covariate of the formula ({names_held}), got {shown(variable)}.")
    column = fitted.design.frame[variable]
    return column, column.dtype.kind in "iuf" and variable not in fitted.design.factors
