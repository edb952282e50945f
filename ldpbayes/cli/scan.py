"""The command ``ldpbayes scan``."""

import pathlib
import sys
from typing import Annotated

import typer

from ldpbayes import files
from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.pages.scan import TOP


def command(
    reports: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Parquet files of reports, a folder of them, or a quoted pattern."),
    ],
    protocol: Annotated[
        str | None,
        typer.Option(
            help="How the reports were made: a name of [bold]ldpbayes protocols[/bold], parameters by -p. May be left out "
            "where the files state it in a column."
        ),
    ] = None,
    parameter: options.Parameters = None,
    categories: Annotated[
        str | None, typer.Option(help="Number of categories, such as 128, or their labels in order, such as no,yes.")
    ] = None,
    report: Annotated[
        list[str] | None, typer.Option(help="The column of the reports; repeat it for several, such as seed and value.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Grouping columns, such as country,day: a cell for each combination; may be repeated."),
    ] = None,
    pilot_by: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of --by whose cells share a pilot. Cells add up only where they do: [bold]country[/bold] if the "
            "days of a country will be added up."
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="Keep up to so many reports of each cell by chance, to check the summary; 10,000 where epsilon is above "
            "1.5, else 0.",
            min=0,
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            help="Cells with fewer reports keep all of them. By default 0 up to epsilon 1.5, 10,000 up to 2, then 2,000 a "
            "category.",
            min=0,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads that read and count.", min=1)] = 1,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER",
            help="Let Spark's workers read the files, such as local[4] or spark://host:7077; they must see the same paths.",
        ),
    ] = None,
    checkpoint: Annotated[
        pathlib.Path | None,
        typer.Option(help="File for the state of the scan: the same command goes on where a killed one stopped."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the sample.", min=0)] = 0,
    output: Annotated[
        pathlib.Path | None, typer.Option(help="Write the cells, one row each (.parquet); [bold]fit[/bold] reads the file.")
    ] = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
    top: Annotated[int, typer.Option(help="Number of cells to print.", min=1)] = TOP,
):
    """Scan reports that need not fit in memory, and keep of each cell what its posterior needs.

    Reports of protocols with few possible reports (grr, hadamard, survey designs) are counted in one pass. Others (oue, sue,
    olh, subset, rappor) take two: the first counts how many reports support each category, the second expands the
    likelihood of the whole reports at the posterior mean of these counts. Memory does not grow with the number of reports.

    Days of a country can be added up later without another scan if they share a pilot: scan --by country,day
    --pilot-by country, then fit --by country.

    Examples:

      mkdir -p reports/country=NO/day=1 reports/country=NO/day=2

      ldpbayes simulate reports/country=NO/day=1/a.parquet --categories 128 --users 5000 --protocol oue -p epsilon=1

      ldpbayes simulate reports/country=NO/day=2/a.parquet --categories 128 --users 5000 --protocol oue -p epsilon=1

      ldpbayes scan reports/ --by country,day --pilot-by country --output summaries.parquet

      ldpbayes fit summaries.parquet --by country

      ldpbayes scan reports/ --protocol oue -p epsilon=1 --categories 128 --by country --checkpoint scan.state
    """
    from ldpbayes.sources import scan

    if output is not None and output.suffix.lower() not in (".parquet", ".pq"):
        raise ArgumentError(f"output must end in .parquet, got {shown(str(output))}.")
    options.check_page(page)
    files.check_outputs(output, page, checkpoint)
    labels = _labels(categories)
    prepared = scan(
        list(reports),
        _protocol(protocol, parameter, categories, labels),
        report or None,
        _columns(by),
        pilot_by=_columns(pilot_by),
        sample=sample,
        jobs=jobs,
        categories=labels,
        checkpoint=checkpoint,
        keep=keep,
        random_seed=seed,
        progressbar=sys.stderr.isatty() and not as_json,
        spark=spark,
    )
    try:
        found = prepared()
    except KeyboardInterrupt:
        if checkpoint is not None:
            printing.complain(f"{checkpoint} holds what was read: the same command goes on from there.", style=None)
        raise
    from ldpbayes.pages.scan import of_scan

    if output is not None:
        found.to_parquet(output)
    written = None if output is None else str(output)
    content = of_scan(found, command=options.command_line(), output=written, top=top)
    printing.show(content, as_json, output=output, page=page)


def _columns(texts):
    """Return the names of repeated options that may each name several columns, or None."""
    names = [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
    return names or None


def _labels(text):
    """Return the labels that --categories states, or None where it is their number."""
    if text is None or text.strip().isdecimal():
        return None
    return [label.strip() for label in text.split(",")]


def _protocol(name, pairs, categories, labels):
    """Return the protocol that the options state, or None where the files do."""
    if name is None:
        if pairs or (categories is not None and labels is None):
            raise ArgumentError("protocol must name how the reports were made, such as --protocol oue -p epsilon=1.")
        return None
    if categories is None:
        raise ArgumentError("categories must be their number or labels, such as --categories 128 or --categories no,yes.")
    from ldpbayes.protocols import make_protocol

    names = labels or [str(i) for i in range(options.count_of(categories, "categories"))]
    return make_protocol(name, names, options.parameters(pairs))
