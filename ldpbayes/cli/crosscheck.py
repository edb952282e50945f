"""The command ``ldpbayes crosscheck``."""

import sys

import typer

from ldpbayes.cli import options, printing


def command(
    file: options.File,
    prior: options.Prior = "jeffreys",
    draws: options.Draws = 1000,
    seed: options.Seed = None,
    as_json: options.AsJSON = False,
):
    """Compare the exact posterior (where feasible), NUTS, MLE and oracle, and check that the channel fits the reports.

    Exit status 0: nothing to flag; 1: something is flagged (the last lines name it); 2: bad input.

    Examples:

      ldpbayes crosscheck example:nigeria --seed 1
    """
    from ldpbayes.fitness.crosschecking import crosscheck
    from ldpbayes.pages.crosscheck import of_crosscheck

    collection = options.read(file)
    progressbar = sys.stderr.isatty() and not as_json
    check = crosscheck(collection, options.prior(prior), random_seed=seed, draws=draws, progressbar=progressbar)
    printing.display(of_crosscheck(check, title=collection.title or collection.id), as_json)
    raise typer.Exit(1 if check.flagged else 0)
