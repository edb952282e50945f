"""The command ``ldpbayes groups``."""

import dataclasses
import pathlib
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from ldpbayes import files
from ldpbayes.cli import options
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.pages.page import TOP


@dataclass(frozen=True)
class Reports(options.Reports):
    """How the reports of a table were made, where each may state it."""

    rate: Annotated[
        str | None,
        typer.Option(help="The column of the probability with which the group was replaced by a uniformly drawn one."),
    ] = None
    epsilon: Annotated[str | None, typer.Option(help="The column of the ε of each report; goes with --protocol.")] = None

    def design(self):
        """Return the arguments of by_private_group that say how the reports were made."""
        if self.rate is None and self.epsilon is None and self.protocol is None:
            raise ArgumentError(
                "rate, epsilon or protocol must say how the reports were made, such as --rate rate or --protocol grr "
                "-p epsilon=1.1."
            )
        if self.rate is not None and (self.epsilon is not None or self.protocol is not None):
            name = "epsilon" if self.protocol is None else "protocol"
            raise ArgumentError(f"{name} must be left out with rate, which is that of randomised response.")
        columns = {"report": self.report, "categories": self.labels, "rate": self.rate, "epsilon": self.epsilon}
        if self.protocol is None:
            if self.parameter or self.epsilon is not None:
                name = "its parameters" if self.parameter else "epsilon"
                raise ArgumentError(f"protocol must be named with {name}, such as --protocol grr -p epsilon=1.1.")
            return columns
        if self.epsilon is None:
            return columns | {"categories": self.names, "protocol": self.mechanism}
        if self.parameter:
            raise ArgumentError("parameter must be left out with epsilon, the column of the ε of each report.")
        return columns | {"protocol": self.protocol}

    def words(self):
        """Return how the reports were made, in words."""
        if self.rate is not None:
            return (
                f"Randomised response: at the rate in the column {self.rate} a group is replaced by a uniformly drawn one."
            )
        at = f"with the ε in the column {self.epsilon}" if self.epsilon is not None else ""
        parts = f"({', '.join(self.parameter)})" if self.parameter else ""
        return " ".join(filter(None, ["Reports through", self.protocol, parts, at])) + "."


@dataclass(frozen=True)
class Answer:
    """What is computed, and how: arguments of by_private_group."""

    panel: ClassVar[str] = "Answers"

    quantiles: Annotated[str, typer.Option(help="Levels of the quantiles.")] = ".5,.75,.95"
    target: Annotated[str, typer.Option(help="distribution: the population; frequency: these very records.")] = (
        "distribution"
    )
    method: Annotated[str, typer.Option(help="auto, smooth, rounding or recipe.")] = "auto"
    bins: Annotated[int | None, typer.Option(help="Number of bins; by default 100 to 200, by the number of records.")] = None
    ci_prob: options.Ci = 0.95
    draws: Annotated[int, typer.Option(help="Draws.", min=1)] = 2000
    random_seed: options.Seed = None


def command(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Table with a row per record (.csv, .parquet)."),
    ],
    *,
    value: Annotated[str, typer.Option(help="The column of the open value: a number, or an open category.")] = "duration",
    unit: Annotated[str, typer.Option(help="Unit of the value in tables and figures, such as ms.")] = "",
    by: options.By = None,
    weight: Annotated[str | None, typer.Option(help="The column of survey weights.")] = None,
    output: Annotated[pathlib.Path | None, typer.Option(help="Write every answer as a row (.csv or .parquet).")] = None,
    plot: options.Plot = None,
    top: options.Top = TOP,
    answer: Answer,
    reports: Reports,
    outputs: options.Shown,
):
    """Compare an open value, such as a duration, between groups that are known through privatised reports only.

    Every record has an open value and a report of a private answer. Prints share, mean and quantiles of each group,
    and differences between groups, with intervals. No record gets a negative weight, and distribution functions are
    monotone. The reweighting recipe's numbers stand beside the estimates.

    Say how the reports were made: --rate names a column of randomization rates, --epsilon a column of ε, --protocol one
    protocol for all.

    Examples:

      ldpbayes groups example:survey.csv --value income --report smokes --protocol warner -p p=0.7 --categories no,yes
      --weight w --target distribution

      ldpbayes groups example:survey.csv --value region --report smokes --protocol warner -p p=0.7 --categories no,yes
    """
    from ldpbayes.outcomes import by_private_group

    file = options.located(file)
    suffix = pathlib.PurePath(file).suffix.lower()
    settings = dataclasses.asdict(answer) | {"random_seed": options.chosen_seed(answer.random_seed)}
    settings["quantiles"] = options.levels(answer.quantiles, "quantiles", "levels such as .5,.75,.95")
    columns = options.columns(by) or []
    if output is not None and output.suffix.lower() not in (".csv", ".parquet"):
        raise ArgumentError(f"output must end in .csv or .parquet, got {shown(str(output))}.")
    options.check_plot(plot)
    outputs.check(output, plot)
    names = [*(reports.report or ()), reports.rate, reports.epsilon, weight, *columns]
    stated = reports.design()
    frame = _table(file, suffix, value, names, reports.report or ())
    found = by_private_group(frame, value, **stated, by=columns or None, weights=weight, **settings)
    from ldpbayes.pages import write
    from ldpbayes.pages.groups import long_rows, of_groups
    from ldpbayes.pages.page import Column, Page, Table

    again = options.command_line(answer.random_seed, settings["random_seed"])
    content = of_groups(found, unit=unit, design=reports.words(), top=top, command=again)
    if output:
        rows = long_rows(found)
        columns = tuple(Column(key, key, "text") for key in rows[0])
        write(Page("", (Table("", columns, tuple(tuple(row.values()) for row in rows)),)), output)
    outputs.show(content, output=output, plot=plot)


def _table(file, suffix, value, names, report):
    """Return the columns in use of a CSV or Parquet file, as a PyArrow table."""
    from ldpbayes.sources.base import foreign, optional
    from ldpbayes.sources.parquet_batches import read_whole, schema_of

    pyarrow = optional("pyarrow", "Reading a table of records")
    path = files.as_path(file)
    files.open_input(path).close()
    if suffix in (".parquet", ".pq"):
        schema = schema_of(path)
        used = [name for name in dict.fromkeys([value, *names, *_fields(schema.names, report)]) if name in schema.names]
        _refuse_missing(schema.names, [value, *filter(None, names)], path)
        return read_whole(path, used)
    csv_reader = optional("pyarrow.csv", "Reading CSV")
    with foreign("is not a readable CSV file", path):
        types = {name: pyarrow.string() for name in report}
        settings = csv_reader.ConvertOptions(column_types=types, strings_can_be_null=True)
        found = csv_reader.read_csv(path, convert_options=settings)
    _refuse_missing(found.column_names, [value, *filter(None, names)], path)
    _refuse_half_numbers(pyarrow, found, value, path)
    return found


def _fields(held, report):
    """Return the columns that protocols name their reports by, where the caller names none."""
    return [] if report else held


def _refuse_missing(held, wanted, path):
    from ldpbayes.sources.base import check_column

    for name in wanted:
        check_column(held, name, source=path)


def _refuse_half_numbers(pyarrow, table, value, path):
    """Refuse a column of numbers with entries that are none; all texts are an open category."""
    column = table[value]
    if not pyarrow.types.is_string(column.type):
        return
    wrong = None
    numbers = 0
    for row, text in enumerate(column.to_pylist()):
        try:
            float(text)
            numbers += 1
        except (TypeError, ValueError):
            wrong = row if wrong is None else wrong
    if wrong is not None and numbers > len(column) / 2:
        text = column[wrong].as_py()
        raise DataError(f"must be a number, got {shown(text)}", source=path, line=wrong + 2, field=value)
