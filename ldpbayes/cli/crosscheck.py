"""The command ``ldpbayes crosscheck``."""

import sys
from typing import Annotated

import typer

from ldpbayes.cli import options, printing
from ldpbayes.collections import Cells


def command(
    file: options.File,
    prior: options.Prior = "jeffreys",
    draws: options.Draws = 1000,
    seed: options.Seed = None,
    by: Annotated[
        list[str] | None, typer.Option(help="A column of the tables: a cross-check for each of its values; may be repeated.")
    ] = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
):
    """Compare the exact posterior (where feasible), NUTS, MLE and oracle, and check that the channel fits the reports.

    Exit status 0: nothing to flag; 1: something is flagged (the last lines name it); 2: bad input.

    Examples:

      ldpbayes crosscheck example:nigeria --seed 1

      ldpbayes crosscheck example:minarets --page crosscheck.html
    """
    from ldpbayes.fitness.crosschecking import crosscheck
    from ldpbayes.pages.crosscheck import of_crosscheck, of_crosscheck_of_cells

    options.check_page(page)
    collection = options.read(file, by)
    seed, given = options.chosen_seed(seed), seed
    progressbar = sys.stderr.isatty() and not as_json
    check = crosscheck(collection, options.prior(prior), random_seed=seed, draws=draws, progressbar=progressbar)
    title, command = collection.title or collection.id, options.command_line(given, seed)
    if isinstance(collection, Cells):
        content = of_crosscheck_of_cells(check, title=title, command=command)
    else:
        content = of_crosscheck(check, title=title, collection=collection, command=command)
    printing.show(content, as_json, page=page)
    raise typer.Exit(1 if check.flagged else 0)
