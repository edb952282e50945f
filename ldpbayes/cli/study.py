"""The command that runs a study."""

import enum
import pathlib
import sys
from typing import Annotated

import typer

from ldpbayes.pages.terminal import err, new_table, out


class Setting(enum.StrEnum):
    """Sizes of a study that --setting takes."""

    small = "small"
    paper = "paper"


def study(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A study; without it they are listed.")] = None,
    setting: Annotated[
        Setting, typer.Option(help="[bold]small[/bold]: about a minute on one core; [bold]paper[/bold]: the paper's own.")
    ] = Setting.small,
    output: Annotated[
        pathlib.Path, typer.Option(help="Folder for the results (Parquet), the figure (PNG) and the finished cells.")
    ] = pathlib.Path("out/studies"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 for every core.", min=-1)] = 1,
    seed: Annotated[int, typer.Option(help="Random seed; the numbers do not depend on --jobs.", min=0)] = 0,
    replications: Annotated[int | None, typer.Option(help="Replications a cell, instead of the setting's.", min=2)] = None,
):
    """Repeat a paper's experiment with the posterior mean and the bounds beside its estimators.

    Every number comes with its Monte Carlo standard error. An interrupted study goes on where it stopped when the same
    command is given again.

    Examples:

      ldpbayes study

      ldpbayes study risk --jobs 2
    """
    from ldpbayes.plots import plot_study, save_figure
    from ldpbayes.study import find_study, list_studies, pivot, run_study

    if name is None:
        return _print_table("ldpbayes study NAME", ("name", "what it shows", "repeats"), list_studies())
    chosen = find_study(name)
    settings = {"jobs": jobs, "random_seed": seed, "replications": replications, "progressbar": sys.stderr.isatty()}
    try:
        table = run_study(chosen, setting.value, output=output, **settings)
    except KeyboardInterrupt:
        err.print(
            f"ldpbayes: interrupted; finished cells are in {output}, and the same command goes on from them.", soft_wrap=True
        )
        raise SystemExit(130) from None
    path = output / f"{chosen.name}-{setting.value}.png"
    save_figure(plot_study(table, chosen.x, chosen.lines, chosen.panels, title=chosen.title), path)
    out.print(f"{chosen.title} ({chosen.source}).", highlight=False, soft_wrap=True)
    _print_table(None, *pivot(table, chosen))
    out.print("value ± Monte Carlo standard error; floors have no error worth showing.", highlight=False)
    out.print(f"Wrote {path.with_suffix('.parquet')} and {path.name}.", highlight=False, soft_wrap=True)


def _print_table(title, headers, rows):
    table = new_table(title, headers)
    for row in rows:
        table.add_row(*row)
    out.print(table)
