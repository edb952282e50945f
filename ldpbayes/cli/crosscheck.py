"""The command ``ldpbayes crosscheck``."""

from typing import Annotated

import typer

from ldpbayes.cli import options


def command(
    file: options.File,
    *,
    by: options.By = None,
    prior: Annotated[str, typer.Option(help=f"Prior of P: {options.PRIORS}")] = "jeffreys",
    draws: options.Draws = 1000,
    random_seed: options.Seed = None,
    outputs: options.Shown,
):
    """Compare the exact posterior (where feasible), NUTS, MLE and oracle, and check that the channel fits the reports.

    Exit status 0: nothing to flag; 1: something is flagged (the last lines name it); 2: bad input.

    Examples:

      ldpbayes crosscheck example:nigeria --seed 1

      ldpbayes crosscheck example:minarets --page crosscheck.html
    """
    from ldpbayes.fitness.crosschecking import crosscheck
    from ldpbayes.pages.crosscheck import of_crosscheck, of_crosscheck_of_cells

    outputs.check()
    collection = options.read(file, by)
    seed = options.chosen_seed(random_seed)
    check = crosscheck(collection, options.prior(prior), random_seed=seed, draws=draws, progressbar=outputs.shows_progress)
    title, command = collection.title or collection.id, options.command_line(random_seed, seed)
    if collection.by:
        content = of_crosscheck_of_cells(check, title=title, command=command)
    else:
        content = of_crosscheck(check, title=title, collection=collection, command=command)
    outputs.show(content)
    raise typer.Exit(1 if check.flagged else 0)
