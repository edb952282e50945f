"""The command ``ldpbayes crosscheck``."""

import secrets

from ldpbayes.cli import options, settings


def command(
    file,
    by=None,
    assignments=None,
    prior="default",
    draws=1000,
    random_seed=None,
    *,
    table: options.TableOptions,
    outputs: options.Shown,
):
    """Compute the posterior by independent methods and compare them.

    The methods are the one that fit chooses, an exact sum where it is feasible, NUTS (chains of PyMC's sampler), maximum
    likelihood (MLE) and the unbiased estimate (oracle). It also tests whether the reports fit their design.

    Exit status 0: nothing to flag; 1: something is flagged (the first line names it); 2: bad input.

    Examples:

      ldpbayes crosscheck example:nigeria --seed 1

      ldpbayes crosscheck example:minarets --page crosscheck.html
    """
    from ldpbayes.robust.crosschecking import crosscheck

    outputs.check()
    collection = options.read(file, by, settings.parsed(assignments, "crosscheck"), **table.settings)
    seed = secrets.randbits(31) if random_seed is None else random_seed
    check = crosscheck(collection, options.prior(prior), random_seed=seed, draws=draws, progressbar=outputs.shows_progress)
    title = collection.title or collection.id
    outputs.show(outputs.page_of(check, random_seed, seed, title=title, collection=collection))
    return int(check.flagged)
