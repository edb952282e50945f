"""The command ``ldpbayes groups``."""

import csv
import io
import pathlib
from typing import Annotated, Any

import typer

from ldpbayes import files
from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError, DataError, listed, shown


def command(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Table with a row per record (.csv, .parquet)."),
    ],
    value: Annotated[str, typer.Option(help="The column of the open value: a number, or an open category.")] = "duration",
    report: Annotated[
        list[str] | None,
        typer.Option(help="The column of the report of the private group; repeat it for several, such as seed and value."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="The column of the probability with which the group was replaced by a uniformly drawn one."),
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="The column of the ε of each report; goes with --protocol.")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="How the reports were made: a name of [bold]ldpbayes protocols[/bold]; parameters by -p."),
    ] = None,
    parameter: options.Parameters = None,
    epsilon_value: Annotated[float | None, typer.Option(help="The same as -p epsilon=…: one ε for all reports.")] = None,
    categories: Annotated[str | None, typer.Option(help="Labels of the private groups in order, such as high,low.")] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Columns of open covariates, such as country; may be repeated.")
    ] = None,
    weights: Annotated[str | None, typer.Option("--weights", "--weight", help="The column of survey weights.")] = None,
    quantiles: Annotated[str, typer.Option(help="Levels of the quantiles.")] = ".5,.75,.95",
    target: Annotated[
        str, typer.Option(help="distribution: the population; frequency: these very records.")
    ] = "distribution",
    method: Annotated[str, typer.Option(help="auto, smooth, rounding or recipe.")] = "auto",
    bins: Annotated[
        int | None, typer.Option(help="Number of bins; by default 100 to 200, by the number of records.")
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit of the value in tables and figures, such as ms.")] = "",
    ci: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    draws: Annotated[int, typer.Option(help="Draws.", min=1)] = 2000,
    seed: options.Seed = None,
    top: Annotated[int, typer.Option(help="Number of rows of a table to print.", min=1)] = 60,
    output: Annotated[pathlib.Path | None, typer.Option(help="Write every answer as a row (.csv or .parquet).")] = None,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write a plot of the distributions (.png, .pdf, .svg).")] = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
):
    """Compare an open value, such as a duration, between groups that are known through privatised reports only.

    Every record has an open value and a report of a private answer. Prints share, mean and quantiles of each group,
    and differences between groups, with intervals. No record gets a negative weight, and distribution functions are
    monotone. The reweighting recipe's numbers stand beside the estimates.

    Say how the reports were made: --rate names a column of randomization rates, --epsilon a column of ε, --protocol one
    protocol for all.

    Examples:

      ldpbayes groups example:survey.csv --value income --report smokes --protocol warner -p p=0.7 --categories no,yes
      --weights w --target distribution

      ldpbayes groups example:survey.csv --value region --report smokes --protocol warner -p p=0.7 --categories no,yes
    """
    from ldpbayes.outcomes import by_private_group

    file = options.located(file)
    suffix = pathlib.PurePath(file).suffix.lower()
    levels = _levels(quantiles)
    columns = _columns(by)
    if output is not None and output.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise ArgumentError(f"output must end in .csv or .parquet, got {shown(str(output))}.")
    options.check_outputs(output, plot, page, saved=False)
    stated: dict[str, Any] = {
        "rate": rate,
        "epsilon": epsilon,
        "protocol": protocol,
        "categories": categories,
        "parameter": parameter,
    }
    stated |= {"epsilon-value": epsilon_value, "report": report}
    settings = _design(stated, weights)
    frame = _table(file, suffix, value, [*(report or ()), rate, epsilon, weights, *columns], report or ())
    chosen = options.chosen_seed(seed)
    found = by_private_group(
        frame,
        value,
        **settings,
        by=columns or None,
        weights=weights,
        target=target,
        method=method,
        bins=bins,
        draws=draws,
        quantiles=levels,
        ci_prob=ci,
        random_seed=chosen,
    )
    from ldpbayes.pages.groups import long_rows, of_groups

    again = options.command_line(seed, chosen)
    content = of_groups(found, unit=unit, design=_words(stated), top=top, command=again)
    if output:
        _write(long_rows(found), output)
    printing.show(content, as_json, output=output, plot=plot, page=page)


def _levels(text):
    """Return the levels that a text such as ".5,.95" writes."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ArgumentError(f"quantiles must be levels such as .5,.75,.95, got {shown(text)}.") from None


def _columns(texts):
    """Return the names of repeated options that may each name several columns."""
    return [name.strip() for text in texts or () for name in text.split(",") if name.strip()]


def _design(stated, weights):
    """Return the arguments of by_private_group that say how the reports of a table were made."""
    names = [name for name in ("rate", "epsilon", "protocol") if stated[name] is not None]
    if not names:
        raise ArgumentError(
            "rate, epsilon or protocol must say how the reports were made, such as --rate rate or --protocol grr "
            "-p epsilon=1.1."
        )
    if "rate" in names and len(names) > 1:
        raise ArgumentError(f"{listed(names[1:])} must be left out with rate, which is that of randomised response.")
    labels = None if stated["categories"] is None else [label.strip() for label in stated["categories"].split(",")]
    found = {"report": stated["report"], "categories": labels, "rate": stated["rate"], "epsilon": stated["epsilon"]}
    if stated["protocol"] is None:
        if stated["parameter"] or stated["epsilon-value"] is not None:
            raise ArgumentError("protocol must be named with its parameters, such as --protocol grr -p epsilon=1.1.")
        if "epsilon" in names:
            raise ArgumentError("protocol must be named with epsilon, such as --protocol grr --epsilon eps.")
        return found
    parameters = options.parameters(stated["parameter"])
    if stated["epsilon-value"] is not None:
        if "epsilon" in parameters:
            raise ArgumentError("epsilon must be stated once, with -p epsilon=… or --epsilon-value.")
        parameters["epsilon"] = stated["epsilon-value"]
    if stated["epsilon"] is not None:
        if parameters:
            raise ArgumentError("parameter must be left out with epsilon, the column of the ε of each report.")
        return found | {"protocol": stated["protocol"]}
    if labels is None:
        raise ArgumentError("categories must name the private groups in order, such as --categories no,yes.")
    from ldpbayes.protocols import make_protocol
    from ldpbayes.sources.numbers import number

    plain = {}
    for name, text in parameters.items():
        known = number(text) if isinstance(text, str) else None
        plain[name] = text if known is None else known
    return found | {"protocol": make_protocol(stated["protocol"], labels, plain)}


def _words(stated):
    """Return how the reports were made, in words."""
    if stated["rate"] is not None:
        return (
            f"Randomised response: at the rate in the column {stated['rate']} a group is replaced by a uniformly drawn one."
        )
    at = f"with the ε in the column {stated['epsilon']}" if stated["epsilon"] is not None else ""
    parts = [*(stated["parameter"] or ())]
    parts += [] if stated["epsilon-value"] is None else [f"epsilon={stated['epsilon-value']:g}"]
    return (
        " ".join(filter(None, ["Reports through", stated["protocol"], f"({', '.join(parts)})" if parts else "", at])) + "."
    )


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
    for name in wanted:
        if held.count(name) != 1:
            problem = "has two columns" if name in held else "has no column"
            raise DataError(f"{problem} {shown(name)}; it has {listed(held) or 'none'}", source=path)


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


def _write(rows, path):
    """Write rows as CSV or Parquet, whole or not at all."""
    if path.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if cell is None else cell for key, cell in row.items()} for row in rows)
        files.write_text(path, text.getvalue())
        return
    from ldpbayes.sources.base import optional

    pyarrow, parquet = optional("pyarrow", "Writing Parquet"), optional("pyarrow.parquet", "Writing Parquet")
    with files.replacing(path) as temporary:
        parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)
