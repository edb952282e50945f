"""The command ``ldpbayes study``."""

import enum
import pathlib
import sys
from typing import Annotated

import typer

from ldpbayes.cli import options, printing
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
            help="[bold]small[/bold]: about a minute on one core; [bold]paper[/bold]: the whole grid, if it is here."
        ),
    ] = Setting.small,
    output: Annotated[
        pathlib.Path, typer.Option(help="Folder for the results (Parquet), the figure (PNG) and the finished cells.")
    ] = pathlib.Path("out/studies"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 for every core.", min=-1)] = 1,
    seed: Annotated[int, typer.Option(help="Random seed; the numbers do not depend on --jobs.", min=0)] = 0,
    replications: Annotated[int | None, typer.Option(help="Replications a cell, instead of the setting's.", min=2)] = None,
    page: options.PagePath = None,
):
    """Repeat a paper's experiment with the posterior mean and the bounds beside its estimators.

    Every number comes with its Monte Carlo standard error. An interrupted study continues where it stopped when the same
    command is given again.

    Examples:

      ldpbayes study

      ldpbayes study risk --jobs 2 --page risk.html
    """
    from ldpbayes.pages.study import of_study
    from ldpbayes.plots import plot_study, save_figure
    from ldpbayes.study import find_study, list_studies, run_study

    if name is None:
        return printing.display(_list(list_studies()))
    options.Shown(page).check()
    chosen = find_study(name)
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


def _list(studies):
    columns = tuple(Column(name, name, "text") for name in ("name", "what it shows", "repeats"))
    use = Note(Kind.METHOD, "Run one with: ldpbayes study NAME")
    return Page("Studies", (Table("Studies", columns, tuple(map(tuple, studies))),), (use,))
