"""The command ``ldpbayes study``."""

import enum
import pathlib
import sys
from typing import Annotated

import typer

from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError
from ldpbayes.pages.page import Column, Kind, Note, Page, Table
from ldpbayes.pages.renderers.terminal import out


class Setting(enum.StrEnum):
    """Sizes of a study that --setting takes."""

    small = "small"
    paper = "paper"


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A study; without it they are listed.")] = None,
    setting: Annotated[
        Setting,
        typer.Option(
            help="[bold]small[/bold]: about a minute on one core; [bold]paper[/bold]: the paper's own sizes, in blocks of "
            "replications that are added to the results in --output."
        ),
    ] = Setting.small,
    output: Annotated[
        pathlib.Path, typer.Option(help="Folder for the results (Parquet), the figure (PNG) and the finished cells.")
    ] = pathlib.Path("out/studies"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 for every core.", min=-1)] = 1,
    seed: Annotated[int, typer.Option(help="Random seed; the numbers do not depend on --jobs.", min=0)] = 0,
    replications: Annotated[int | None, typer.Option(help="Replications a cell, instead of the setting's.", min=2)] = None,
    minutes: Annotated[
        float | None, typer.Option(help="With --setting paper: stop after about so many minutes and keep what is found.")
    ] = None,
    page: options.PagePath = None,
):
    """Repeat a paper's experiment with the posterior mean and the bounds beside its estimators.

    Every number comes with its Monte Carlo standard error. An interrupted study continues where it stopped when the same
    command is given again.

    Examples:

      ldpbayes study

      ldpbayes study risk --jobs 2 --page risk.html

      ldpbayes study risk --setting paper --output studies --jobs 2 --minutes 1
    """
    from ldpbayes.pages.study import of_study
    from ldpbayes.plots import plot_study, save_figure
    from ldpbayes.study import find_study, full_studies, list_studies, run_study

    if name is None:
        return printing.display(_list(list_studies()))
    options.check_page(page)
    chosen = find_study(name)
    if setting is Setting.paper and chosen.name in full_studies():
        if replications is not None:
            raise ArgumentError("replications must be left out with a study that runs in blocks; minutes limits it.")
        return _full(full_studies()[chosen.name], output, jobs, seed, minutes, page)
    if minutes is not None:
        raise ArgumentError("minutes must be left out unless --setting is paper and the study runs in blocks.")
    settings = {"jobs": jobs, "random_seed": seed, "replications": replications, "progressbar": sys.stderr.isatty()}
    try:
        table = run_study(chosen, setting.value, output=output, **settings)
    except KeyboardInterrupt:
        printing.complain(
            f"ldpbayes: interrupted; finished cells are in {output}, and the same command continues from them.", style=None
        )
        raise SystemExit(130) from None
    path = output / f"{chosen.name}-{setting.value}.png"
    content = of_study(table, chosen, command=options.command_line())
    save_figure(plot_study(table, chosen.x, chosen.lines, chosen.panels, title=chosen.title), path)
    out.print(f"{content.title}.")
    printing.show(content, page=page)
    out.print(f"Wrote {path.with_suffix('.parquet')} and {path.name}.")


def _full(study, output, jobs, seed, minutes, page):
    """Continue a study at its paper's size, and show how far it has come."""
    from ldpbayes.pages.study import of_progress
    from ldpbayes.study import run_full

    path = output / f"{study.name}.parquet"
    settings = {"minutes": minutes, "jobs": jobs, "random_seed": seed, "progressbar": sys.stderr.isatty()}
    try:
        cells = run_full(study, path, **settings)
    except KeyboardInterrupt:
        printing.complain(f"ldpbayes: interrupted; the same command continues from {path}.", style=None)
        raise SystemExit(130) from None
    content = of_progress(study, cells, command=options.command_line())
    out.print(content.summary)
    printing.show(content, page=page)
    out.print(f"Wrote {path}.")


def _list(studies):
    columns = tuple(Column(name, name, "text") for name in ("name", "what it shows", "repeats"))
    use = Note(Kind.METHOD, "Run one with: ldpbayes study NAME")
    return Page("Studies", (Table("Studies", columns, tuple(map(tuple, studies))),), (use,))
