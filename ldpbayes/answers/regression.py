"""Questions to a regression: predictions, average comparisons and slopes, odds ratios, and post-stratification."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import softmax

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.inference.ends import ends_of_equal_draws
from ldpbayes.regression.design import Columns, Design
from ldpbayes.regression.maximum import Maximum
from ldpbayes.regression.table import clean, to_pandas

#: Numbers (draws × rows × categories) that one answer computes; beyond, only some of the draws are taken.
MAX_NUMBERS = 4 * 10**8
#: Numbers that are held at once.
BLOCK = 2**22
#: Stored columns and those that a stored design gives may differ by rounding, relative to the largest of the column.
ROUNDING = 1e-7
#: A slope is a difference over this share of the column's standard deviation.
STEP = 1e-3


class Fitted:
    """The design and the draws of a result of regress.

    Parameters
    ----------
    result : Result
    """

    def __init__(self, result: xr.DataTree):
        if not isinstance(result, xr.DataTree) or "regression" not in result.attrs:
            raise ArgumentError("result must be a posterior that regress returned.")
        self.result = result
        try:
            held = result["design"].to_dataset()
            start = "covariate "
            patterns = {str(n).removeprefix(start): held[n].values for n in held.data_vars if str(n).startswith(start)}
            self.design = Design.restore(result.attrs["regression"], patterns, held["n_rows"].values)
            self.sizes: NDArray = np.asarray(held["n_reports"].values, dtype=float)
            self._check(held)
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            if isinstance(err, DataError):
                raise
            raise DataError(f"the group 'design' is not that of a regression ({type(err).__name__})") from None
        self.categories = [str(name) for name in base.variable(result, "posterior", "category").values]
        groups = self.design.columns.groups
        rows = [("coefficients", len(self.design.terms)), *((group.name, len(group.levels)) for group in groups)]
        parts: list[NDArray] = []
        for name, size in rows:
            values = base.variable(result, "posterior", name).values
            if values.ndim != 4 or values.shape[2:] != (size, len(self.categories)) or values.dtype.kind != "f":
                raise DataError(f"posterior {shown(name)} has other terms or groups than the design")
            parts.append(values)
        if len({values.shape[:2] for values in parts}) > 1 or not all(np.isfinite(values).all() for values in parts):
            raise DataError("the coefficients in the posterior are not finite, or not of the same draws")
        self._coefficients: NDArray = np.concatenate(parts, axis=2)

    def _check(self, held: xr.Dataset) -> None:
        """Refuse a description whose columns are not those of the fit, such as one that was edited."""
        columns, (first, _) = self.design.columns, self.design.cells
        pairs = [(held["columns"].values, columns.common[first])]
        for group in columns.groups:
            pairs += [(held[f"{key} {group.name}"].values, getattr(group, key)[first]) for key in ("index", "value")]
        for stored, made in pairs:
            limit = ROUNDING * np.abs(made).max(axis=0, initial=1e-300)
            if stored.shape != made.shape or not (np.abs(stored - made) <= limit).all():
                raise DataError("the attribute 'regression' describes other columns than those of the fit; fit again")
        if self.sizes.shape != self.design.rows.shape or not np.isfinite(self.sizes).all() or not self.sizes.sum() > 0:
            raise DataError("the group 'design' must have the number of reports of every row of covariates")

    def people(self, data: Any, count: str | None = None) -> tuple[Any, NDArray]:
        """Return (frame of the variables, how many people each row stands for): new data, or those of the fit."""
        names = tuple(self.design.variables)
        if data is None:
            if count is not None:
                raise ArgumentError("count must be left out where no data are given.")
            return self.design.frame, self.sizes
        table = to_pandas(data)
        extra = [] if count is None else [count]
        found, _ = clean(table, names, extra=extra, remedy="fill it in, or leave such rows out")
        if not names:
            found = found.reindex(range(len(table)))
        if count is None:
            return found, np.ones(len(table))
        sizes = np.asarray(table[count])
        try:
            sizes = sizes.astype(float)
        except (TypeError, ValueError):
            raise DataError("must hold numbers of people", field=count) from None
        if not np.isfinite(sizes).all() or (sizes < 0).any() or not sizes.sum() > 0:
            raise DataError("must be finite, not negative and not all zero", field=count)
        return found, sizes

    def columns(self, frame: Any) -> Columns:
        """Return the columns of the design for a frame of its variables."""
        return self.design.new(frame)

    def draws(self, rows: int) -> NDArray:
        """Return coefficients (S, K, a): every draw of each chain, or some at equal steps where there are many rows."""
        chains, length = self._coefficients.shape[:2]
        step = max(1, -(-chains * length * rows * len(self.categories) // MAX_NUMBERS))
        step = min(step, max(1, length // 50))
        found = self._coefficients[:, ::step]
        return found.reshape(-1, *found.shape[2:])

    def shares(self, columns: Columns, coefficients: NDArray, rows: slice = slice(None)) -> NDArray:
        """Return P of some rows, shape (S, rows, a)."""
        k = columns.common.shape[1]
        eta = columns.common[rows] @ coefficients[:, :k]
        at = k
        for group in columns.groups:
            eta += group.value[rows][:, None] * coefficients[:, at + group.index[rows]]
            at += len(group.levels)
        return softmax(eta, axis=-1)

    def blocks(self, rows: int, draws: int) -> list[slice]:
        """Return slices of the rows that are computed together."""
        step = max(1, BLOCK // (draws * len(self.categories)))
        return [slice(start, start + step) for start in range(0, rows, step)]

    def mean(self, frame: Any, weight: NDArray, coefficients: NDArray) -> NDArray:
        """Return the mean of P over people, shape (S, a)."""
        columns = self.columns(frame)
        total = np.zeros((len(coefficients), len(self.categories)))
        for rows in self.blocks(len(frame), len(coefficients)):
            total += np.einsum("r,sra->sa", weight[rows], self.shares(columns, coefficients, rows))
        return total / weight.sum()

    def described(self, draws: NDArray, coords: dict, ci_prob: float, question: str, **more: NDArray) -> Answer:
        """Return the Dataset of draws (S, …, a) over dims and the categories."""
        return base.described(self.result, draws, {**coords, "category": self.categories}, ci_prob, question, **more)


def predictions(result: xr.DataTree, data: Any = None, *, ci_prob: float = 0.95) -> Answer:
    """Return the distribution of the private answer for each row of a table.

    Parameters
    ----------
    result : Result
        A result of regress.
    data : data frame, optional
        With the covariates; by default the distinct combinations of covariates that the fit had.
    ci_prob : float
        Of the equal-tailed intervals.

    Returns
    -------
    Answer
        mean, sd, lower, upper and mcse (row, category), with the covariates as coordinates of the rows.

    Raises
    ------
    ArgumentError
        If result is no posterior of regress.
    DataError
        On missing columns or values, and on levels that the fit has not seen.

    Examples
    --------
    >>> import ldpbayes as lb
    >>> survey = lb.load_example("nigeria_cells")
    >>> found = lb.regress(survey, "connected ~ female + married", random_seed=1)
    >>> lb.predictions(found, {"female": [0, 1], "married": [1, 1]})["mean"].sel(category="yes").values.round(2).tolist()
    [0.28, 0.17]
    """
    fitted = Fitted(result)
    frame, sizes = fitted.people(data)
    coefficients = fitted.draws(min(len(frame), 1000))
    columns, index = fitted.columns(frame), np.arange(len(frame))
    parts = [
        fitted.described(fitted.shares(columns, coefficients, rows), {"row": index[rows]}, ci_prob, "Predicted shares")
        for rows in fitted.blocks(len(frame), len(coefficients))
    ]
    coords: dict[str, Any] = {}
    for name in fitted.design.variables:
        values = frame[name].to_numpy()
        coords[name if name not in ("row", "category") else f"covariate_{name}"] = (
            ("row",),
            values if values.dtype.kind in "iufb" else values.astype(str).astype(object),
        )
    if data is None:
        coords["n_reports"] = (("row",), sizes)
    whole = xr.concat(parts, "row").assign_coords(coords)
    return Answer(whole.data_vars, whole.coords, whole.attrs)


def comparisons(
    result: xr.DataTree,
    variable: str,
    values: Sequence[Any] | None = None,
    *,
    data: Any = None,
    ci_prob: float = 0.95,
) -> Answer:
    """Return average differences: how the shares change where everybody's value of a variable is changed.

    For every person the distribution of the private answer is predicted with one value and with the other, all other
    covariates as they are, and the difference is averaged over people.

    Parameters
    ----------
    result : Result
        A result of regress.
    variable : str
        A covariate of the formula.
    values : sequence, optional
        Values to compare; each is compared with the first. By default the levels of a factor, the two values of a number
        that has two, and otherwise everybody's own value with one more.
    data : data frame, optional
        The people to average over; by default those of the fit.
    ci_prob : float
        Of the equal-tailed intervals.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse and probability (that the difference is above 0), dims comparison and category.

    Raises
    ------
    ArgumentError
        If result is no posterior of regress, or the variable is not in its formula.
    DataError
        On levels that the fit has not seen.
    """
    fitted = Fitted(result)
    _known(fitted, variable)
    frame, weight = fitted.people(data)
    own = fitted.design.frame[variable]
    number = own.dtype.kind in "iuf" and variable not in fitted.design.factors
    if values is None:
        seen = sorted(own.unique()) if str(own.dtype) != "category" else list(own.cat.remove_unused_categories().cat.categories)
        moved = number and len(seen) > 2
        chosen = [] if moved else [value.item() if isinstance(value, np.generic) else value for value in seen]
    else:
        rule = "at least two values to compare"
        moved, chosen = False, [] if isinstance(values, str) else list(checks.entries(values, "values", rule))
        if len(chosen) < 2:
            raise ArgumentError(f"values must be {rule}, got {shown(values)}.")
    coefficients = fitted.draws(len(frame) * max(len(chosen), 2))
    if moved:
        shares = [fitted.mean(frame, weight, coefficients)]
        shares.append(fitted.mean(frame.assign(**{variable: frame[variable] + 1}), weight, coefficients))
        labels = ["+1"]
    else:
        shares = [fitted.mean(_with(frame, variable, value, own), weight, coefficients) for value in chosen]
        labels = [f"{value} - {chosen[0]}" for value in chosen[1:]]
    draws = np.stack([share - shares[0] for share in shares[1:]], axis=1)
    found = fitted.described(
        draws, {"comparison": labels}, ci_prob, f"Differences by {variable}", probability=(draws > 0).mean(axis=0)
    )
    return found.assign_coords(variable=variable)


def slopes(result: xr.DataTree, variable: str, *, data: Any = None, ci_prob: float = 0.95) -> Answer:
    """Return the average marginal effect of a number: the slope of each share, averaged over people.

    Parameters
    ----------
    result : Result
        A result of regress.
    variable : str
        A covariate that holds numbers.
    data : data frame, optional
        The people to average over; by default those of the fit.
    ci_prob : float
        Of the equal-tailed intervals.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse and probability (that the slope is above 0), dim category.

    Raises
    ------
    ArgumentError
        If result is no posterior of regress, or the variable is no number of its formula or makes the shares jump.
    """
    fitted = Fitted(result)
    _known(fitted, variable)
    own = fitted.design.frame[variable]
    if own.dtype.kind not in "iuf" or variable in fitted.design.factors:
        raise ArgumentError(f"variable must hold numbers, {variable!r} is a factor; comparisons takes it.")
    frame, weight = fitted.people(data)
    coefficients = fitted.draws(2 * len(frame))
    h = STEP * (float(np.repeat(own.to_numpy(), fitted.design.rows).std()) or 1.0)
    values = frame[variable].to_numpy(dtype=float)

    def slope(of: NDArray, by: float) -> NDArray:
        up, down = (fitted.mean(frame.assign(**{variable: values + d}), weight, of) for d in (by, -by))
        return (up - down) / (2 * by)

    whole, part = (slope(coefficients[:1], size) for size in (h, h / 4))
    if np.abs(whole - part).max() > 0.1 * np.abs(part).max() + 1e-9 / h:
        raise ArgumentError(
            f"variable must move the shares smoothly, but they jump with {variable!r}; comparisons takes it."
        )
    draws = slope(coefficients, h)
    found = fitted.described(draws, {}, ci_prob, f"Slopes in {variable}", probability=(draws > 0).mean(axis=0))
    return found.assign_coords(variable=variable)


def odds_ratios(result: xr.DataTree | Maximum, *, ci_prob: float = 0.95) -> Answer:
    """Return the coefficients as odds ratios against the reference category.

    Parameters
    ----------
    result : Result or Maximum
        A result of regress.
    ci_prob : float
        Of the intervals: equal-tailed, or by the normal approximation for maximum likelihood.

    Returns
    -------
    Answer
        odds_ratio (the posterior median, or the estimate), lower and upper (term, category).
    """
    ci_prob = checks.level(ci_prob)
    if isinstance(result, Maximum):
        found = result.summary(ci_prob)
        kept = found[["odds_ratio", "odds_lower", "odds_upper"]]
        kept = kept.rename(odds_lower="lower", odds_upper="upper")
        return Answer(kept.data_vars, kept.coords, {**kept.attrs, "question": "Odds ratios"})
    if not isinstance(result, xr.DataTree) or "regression" not in result.attrs:
        raise ArgumentError("result must be what regress returned.")
    draws = base.variable(result, "posterior", "coefficients").drop_sel(category=result.attrs["reference"])
    flat = draws.values.reshape(-1, *draws.shape[2:])
    middle, (lower, upper) = np.exp(np.median(flat, axis=0)), np.exp(ends_of_equal_draws(flat, ci_prob))
    data = {"odds_ratio": middle, "lower": lower, "upper": upper}
    coords = {name: draws[name].values for name in ("term", "category")}
    about = {"question": "Odds ratios", "ci_prob": ci_prob}
    return Answer({name: (("term", "category"), values) for name, values in data.items()}, coords, about)


def poststratify_table(
    result: xr.DataTree, table: Any, count: str | None, *, by: str | None = None, ci_prob: float = 0.95
) -> Answer:
    """Return the distribution in a population whose table of counts has the covariates; see ``poststratify``.

    Parameters
    ----------
    result : Result
        A result of regress.
    table : data frame
        A row for each combination of the covariates, with the number of people in the population.
    count : str
        The column of these numbers.
    by : str, optional
        A column of the table: one distribution for each of its values.
    ci_prob : float
    """
    if not isinstance(count, str):
        raise ArgumentError("count must name the column of the table that holds the numbers of people, got none.")
    fitted = Fitted(result)
    frame, sizes = fitted.people(table, count)
    coefficients = fitted.draws(len(frame))
    if by is None:
        draws = fitted.mean(frame, sizes, coefficients)
        return fitted.described(draws, {}, ci_prob, "Shares in the population")
    if not isinstance(by, str):
        raise ArgumentError(f"by must name one column of the table, got {shown(by)}.")
    whole = to_pandas(table)
    if by not in whole.columns:
        raise DataError(f"the table has no column {shown(by)}; it has {listed(map(str, whole.columns))}")
    texts = whole[by].astype(str).to_numpy()
    labels = [label for label in dict.fromkeys(texts) if sizes[texts == label].sum() > 0]
    draws = np.stack(
        [fitted.mean(frame[texts == label].reset_index(drop=True), sizes[texts == label], coefficients) for label in labels],
        axis=1,
    )
    return fitted.described(draws, {"group": labels}, ci_prob, f"Shares in the population by {by}")


def _known(fitted: Fitted, variable: str) -> None:
    names = fitted.design.variables
    if not isinstance(variable, str) or variable not in names:
        held = listed(names) or "it has none"
        raise ArgumentError(f"variable must be a covariate of the formula ({held}), got {shown(variable)}.")


def _with(frame: Any, variable: str, value: Any, own: Any) -> Any:
    """Return the frame with one value for everybody, in the type of the variable."""
    import pandas as pd

    if str(own.dtype) == "category":
        levels = list(own.cat.categories)
        if str(value) not in levels:
            said = f"{variable} has the level {shown(str(value))}, which the fit has not seen; it has {listed(levels)}"
            raise DataError(said)
        return frame.assign(**{variable: pd.Categorical([str(value)] * len(frame), levels, ordered=True)})
    if own.dtype.kind in "iuf":
        number = float(checks.reals(value, "values", f"finite numbers like those of {variable!r}", ndim=0))
        return frame.assign(**{variable: int(number) if own.dtype.kind != "f" and number.is_integer() else number})
    if own.dtype.kind == "b":
        if not isinstance(value, (bool, np.bool_)) and (isinstance(value, str) or value not in (0, 1)):
            raise ArgumentError(f"values must be True or False like those of {variable!r}, got {shown(value)}.")
        return frame.assign(**{variable: bool(value)})
    return frame.assign(**{variable: str(value)})
