"""Tables of results: a row for each combination of some dimensions of a data set, and the columns that many tables have."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes.pages.page import Column, Table
from ldpbayes.plots.base import asked

#: A column beside its values, one a row.
Filled = tuple[Column, Sequence]
#: Display: Sds below this share of the largest one take no further decimals.
NEGLIGIBLE = 0.01
#: Display: Sds below this one would hardly be seen in numbers with four decimals.
HIDDEN = 1e-3
R_HAT = "Agreement of the chains: 1 where they agree, and not trusted above 1.01."
EFFECTIVE = "How many independent draws would be as precise as these."


def percent(prob: float) -> str:
    """Return a probability such as "95 %"."""
    return f"{100 * prob:g} %"


def interval_of(ci_prob: float) -> str:
    """Return the heading of a column of intervals, such as "95 % interval"."""
    return f"{percent(ci_prob)} interval"


def filled(title: str, columns: Sequence[Filled], note: str = "", **shorter: Any) -> Table:
    """Return the Table of columns with their values; ``whole``, ``brief`` and ``detail`` are its fields."""
    rows = tuple(zip(*(values for _, values in columns), strict=True))
    return Table(title, tuple(column for column, _ in columns), rows, note, **shorter)


def of_asked(whole: Table, key: str) -> Table:
    """Return a table with the rows of the answer that a binary question is about: a label in the column of that key."""
    place = [column.key for column in whole.columns].index(key)
    answers = list(dict.fromkeys(row[place] for row in whole.rows))
    yes = asked(answers)
    if yes is None:
        return whole
    return replace(whole, rows=tuple(row for row in whole.rows if row[place] == answers[yes]), whole=whole)


def decimals(sd: np.ndarray) -> int:
    """Return how many decimals show two digits of the smallest sd that matters beside the largest, four at least."""
    least = sd[sd > NEGLIGIBLE * np.nanmax(sd, initial=0.0)]
    return min(max(4, math.ceil(1 - math.log10(least.min()))), 12) if least.size else 4


def spec_of(sd: np.ndarray) -> str:
    """Return how coefficients with these sds are printed, each in its own units: four decimals hide those of an income."""
    return ".4f" if _least(sd) >= HIDDEN else "#.4g"


def odds_spec(odds: Any) -> str:
    """Return how odds ratios are printed: three digits, and more where an interval of the log odds is that narrow."""
    with np.errstate(divide="ignore", invalid="ignore"):  # odds of zero, whose logarithm is unknown
        least = _least((np.log(odds["upper"]) - np.log(odds["lower"])).values / 4)
    return "#.3g" if least >= HIDDEN else f"#.{min(math.ceil(2 - math.log10(least)), 12)}g"


def _least(sd):
    """Return the least of the sds that are positive."""
    return float(np.min(sd, where=sd > 0, initial=np.inf))


def numbers_of(data: Any, at: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return what a summary has of the quantities there, for programs; results of earlier versions lack the last two."""
    keys = ("mean", "sd", "lower", "upper", "mcse", "lower_error", "upper_error")
    return {key: data[f"{prefix}{key}"].sel(at).values for key in keys if f"{prefix}{key}" in data.data_vars}


class TableRows:
    """The rows of a table over some dimensions of a data set, the last of which changes fastest.

    Parameters
    ----------
    data : xarray.Dataset
    dims : sequence of str
        Those that the data set lacks are left out.
    at : slice or array, optional
        Positions of the rows that the table shows; all of them by default.
    """

    def __init__(self, data: Any, *dims: str, at: Any = slice(None)) -> None:
        self.data, self.at = data, at
        self.sizes = {dim: data.sizes[dim] for dim in dims if dim in data.sizes}

    @property
    def size(self) -> int:
        """How many rows there are over all."""
        return math.prod(self.sizes.values())

    def __call__(self, values: Any) -> np.ndarray:
        """Return the entries of an array over some of the dimensions, one a row."""
        missing = {dim: size for dim, size in self.sizes.items() if dim not in values.dims}
        return values.expand_dims(missing).transpose(*self.sizes).values.ravel()[self.at]

    def numbers(self, values: Any) -> list:
        """Return the entries of an array as plain numbers."""
        return self(values).tolist()

    def label(self, name: str, heading: str = "", key: str = "") -> Filled:
        """Return the column of the labels of a dimension, or of a coordinate along it: numbers where it has these."""
        labels = self(self.data[name])
        return Column(key or name, heading or name, "text"), labels.tolist() if labels.dtype.kind in "biuf" else [
            *map(str, labels)
        ]

    def number(self, key: str, heading: str, spec: str = ".4f", priority: int = 0, means: str = "") -> Filled:
        """Return the column of a variable of numbers."""
        return Column(key, heading, spec=spec, priority=priority, means=means), self.numbers(self.data[key])

    def pairs(self, lower: Any, upper: Any) -> list[tuple]:
        """Return the ends of intervals, one pair a row."""
        return list(zip(self.numbers(lower), self.numbers(upper), strict=True))

    def table(self, title: str, data: Any = None, **settings: Any) -> Table:
        """Return the table of the labels and of a summary, that of the data set itself by default; see ``summary``."""
        return filled(title, [*map(self.label, self.sizes), *self.summary(self.data if data is None else data, **settings)])

    def summary(
        self,
        data: Any,
        *,
        prefix: str = "",
        key: str = "",
        heading: str = "mean",
        of: str = "",
        spec: str = ".4f",
        priority: tuple[int, int, int] = (0, 0, 0),
        means: tuple[str, str] = ("", ""),
        bar: bool = False,
    ) -> list[Filled]:
        """Return mean, sd and interval of a summary as columns.

        Parameters
        ----------
        data : xarray.Dataset
            With mean, sd, lower and upper, each after the prefix, and ci_prob among its attributes.
        prefix : str
            Of the variables.
        key : str
            What the keys of the columns begin with.
        heading : str
            Of the means.
        of : str
            Whose numbers they are, for headings that stand alone.
        spec : str
        priority : tuple of three int
        means : tuple of two str
            What means and intervals are.
        bar : bool
            Whether the means are shares that a page may draw.
        """
        level = interval_of(float(data.attrs["ci_prob"]))
        mean, sd, low, high = (data[f"{prefix}{name}"] for name in ("mean", "sd", "lower", "upper"))
        full = [f"{name} of {of}" if of else "" for name in ("sd", level)]
        return [
            (Column(f"{key}mean", heading, spec=spec, priority=priority[0], means=means[0], bar=bar), self.numbers(mean)),
            (Column(f"{key}sd", "sd", spec=spec, priority=priority[1], full=full[0]), self.numbers(sd)),
            (
                Column(f"{key}interval", level, "interval", spec, priority[2], full=full[1], means=means[1]),
                self.pairs(low, high),
            ),
        ]

    def diagnostics(self, data: Any, prefix: str, priority: tuple[int, int]) -> list[Filled]:
        """Return R-hat and effective draws as columns, where these are known: R-hat is not, of independent draws."""
        agreement = Column("r_hat", "R-hat", spec=".3f", priority=priority[0], means=R_HAT)
        effective = Column("ess_bulk", "effective draws", spec=",.0f", priority=priority[1], means=EFFECTIVE)
        known = (agreement, effective) if np.isfinite(data[f"{prefix}r_hat"].values).any() else (effective,)
        return [(column, self.numbers(data[f"{prefix}{column.key}"])) for column in known]
