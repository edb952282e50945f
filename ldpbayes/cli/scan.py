"""The command ``ldpbayes scan``."""

import dataclasses
import pathlib
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.pages.page import TOP


@dataclass(frozen=True)
class Reading:
    """How the files are read: arguments of scan."""

    panel: ClassVar[str] = "Reading"

    sample: Annotated[
        int | None,
        typer.Option(
            help="Keep up to so many reports of each cell by chance, to check the summary; 10,000 where epsilon is above "
            "1.5, else 0.",
            min=0,
        ),
    ] = None
    keep: Annotated[
        int | None,
        typer.Option(
            help="Cells with fewer reports keep all of them. By default 0 up to epsilon 1.5, 10,000 up to 2, then 2,000 a "
            "category.",
            min=0,
        ),
    ] = None
    random_seed: options.Seed = 0
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads that read and count.", min=1)] = 1
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER",
            help="Let Spark's workers read the files, such as local[4] or spark://host:7077; they must see the same paths.",
        ),
    ] = None
    checkpoint: Annotated[
        pathlib.Path | None,
        typer.Option(help="File for the state of the scan: the same command goes on where a killed one stopped."),
    ] = None


def command(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Parquet files of reports, a folder of them, or a quoted pattern."),
    ],
    *,
    by: options.By = None,
    pilot_by: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of --by whose cells share a pilot. Cells add up only where they do: [bold]country[/bold] if the "
            "days of a country will be added up."
        ),
    ] = None,
    output: Annotated[
        pathlib.Path | None, typer.Option(help="Write the cells, one row each (.parquet); [bold]fit[/bold] reads the file.")
    ] = None,
    top: options.Top = TOP,
    reports: options.Reports,
    reading: Reading,
    outputs: options.Shown,
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
    outputs.check(output, reading.checkpoint)
    prepared = scan(
        list(files),
        _protocol(reports),
        reports.report or None,
        options.columns(by),
        pilot_by=options.columns(pilot_by),
        categories=reports.labels,
        progressbar=outputs.shows_progress,
        **dataclasses.asdict(reading),
    )
    try:
        found = prepared()
    except KeyboardInterrupt:
        if reading.checkpoint is not None:
            printing.complain(f"{reading.checkpoint} holds what was read: the same command goes on from there.", style=None)
        raise
    from ldpbayes.pages.scan import of_scan

    if output is not None:
        found.to_parquet(output)
    written = None if output is None else str(output)
    content = of_scan(found, command=options.command_line(), output=written, top=top)
    outputs.show(content, output=output)


def _protocol(reports):
    """Return the protocol that the options state, or None where the files do."""
    if reports.protocol is None and not reports.parameter and (reports.categories is None or reports.labels):
        return None
    return reports.mechanism
