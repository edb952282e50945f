"""The command ``ldpbayes crosscheck``."""

import sys

import typer

from ldpbayes.cli import options, printing


def command(
    file: options.File,
    prior: options.Prior = "jeffreys",
    draws: options.Draws = 1000,
    seed: options.Seed = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
):
    """Compare the exact posterior (where feasible), NUTS, MLE and oracle, and check that the channel fits the reports.

    Exit status 0: nothing to flag; 1: something is flagged (the last lines name it); 2: bad input.

    Examples:

      ldpbayes crosscheck example:nigeria --seed 1

      ldpbayes crosscheck my_survey.toml --page crosscheck.html
    """
    from ldpbayes.fitness.crosschecking import crosscheck
    from ldpbayes.pages.crosscheck import of_crosscheck

    options.check_page(page)
    collection = options.read(file)
    seed, given = options.chosen_seed(seed), seed
    progressbar = sys.stderr.isatty() and not as_json
    check = crosscheck(collection, options.prior(prior), random_seed=seed, draws=draws, progressbar=progressbar)
    title, command = collection.title or collection.id, options.command_line(given, seed)
    printing.show(of_crosscheck(check, title=title, collection=collection, command=command), as_json, page)
    raise typer.Exit(1 if check.flagged else 0)
