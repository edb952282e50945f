"""The command ``ldpbayes fit``."""

import dataclasses
import math

from ldpbayes.cli import options, printing, settings
from ldpbayes.errors import ArgumentError, shown

#: What noncompliance_prior and deniers_prior must be.
BETA = "two numbers above 0, the b,c of a Beta prior"
#: How the posterior is computed.
POSTERIOR = options.OptionGroup(prior="default", method="auto", exclude=None, ci_prob=0.95, draws=None, random_seed=None)


def command(
    file,
    by=None,
    assignments=None,
    noncompliance_prior=None,
    deniers_prior=None,
    *,
    posterior=POSTERIOR,
    table: options.TableOptions,
    outputs: options.Outputs,
):
    """Estimate the share of each category from reports that hide single answers.

    P is the distribution in the population, F the shares among the very people who reported. For each category, or for yes
    alone of a yes-no question, it prints posterior mean, sd and interval of P and of F. Beside them stand the
    maximum-likelihood estimate (MLE) with its standard error (s.e.), and the unbiased estimate (oracle), as far as the line
    is wide enough. At most three notes follow, warnings first. --explain prints all notes, further tables and the methods
    considered.

    Exit status 0: fine; 1: the posterior is not to be trusted; 2: bad input; 3: some groups (cells) are left out and named.
    Whether the reports fit the design is the exit status of check.

    Examples:

      ldpbayes fit example:nigeria --prior flat --ci 0.9

      ldpbayes fit example:minarets --plot minarets.png --output minarets.nc

      ldpbayes fit example:cheating --method nuts --seed 1 --json

      ldpbayes fit example:nigeria --page nigeria.html

      ldpbayes fit example:survey.csv --protocol warner -p p=0.7 --categories no,yes --report smokes

      ldpbayes fit example:nigeria_cells --prior hierarchical

      ldpbayes fit example:survey --by region

      ldpbayes fit example:survey --set weights=w --set strata=region --set cluster=village
    """
    from ldpbayes.fitting import fit, select_method
    from ldpbayes.pages import show

    collection = options.read(file, by, settings.parsed(assignments, "fit"), **table.settings)
    doubts = {"noncompliance_prior": noncompliance_prior, "deniers_prior": deniers_prior}
    belief = _doubting(collection, options.prior(posterior["prior"]), doubts)
    exclude = tuple(options.columns(posterior["exclude"]) or ())
    outputs.check()
    tree = fit(collection, **posterior | {"prior": belief, "exclude": exclude}, progressbar=outputs.shows_progress)
    content = outputs.page_of(tree, posterior["random_seed"], tree.attrs["random_seed"], collection=collection)
    if outputs.explain and not collection.by and posterior["method"] == "auto":  # it is chosen for every cell apart
        draws = posterior["draws"] or None
        considered = show(select_method(collection, belief, exclude=exclude, draws=draws), title="Methods").tables
        content = dataclasses.replace(content, tables=(*content.tables, *considered))
    outputs.show(content, result=tree)
    return printing.status_of(tree)


def _doubting(collection, belief, betas):
    """Return the prior with those of who deny or ignore the device, and print what the design says of their share."""
    from ldpbayes.methods.problem import scaled
    from ldpbayes.priors import DEFAULT, Compliance, Denial

    for name, family, there, how in (
        ("noncompliance_prior", Compliance, collection.laws and not collection.denied, "noncompliance.NAME=HOW"),
        ("deniers_prior", Denial, collection.denied, "deniers.of=LABEL"),
    ):
        beta = betas[name]
        if beta is None:
            continue
        if not there:
            who = "who deny" if family is Denial else "who ignore the device"
            raise ArgumentError(f"{name} needs respondents {who}: --set {how}.")
        numbers = options.levels(beta, name, BETA)
        if len(numbers) != 2 or not all(0 < number < math.inf for number in numbers):
            raise ArgumentError(f"{name} must be {BETA}, got {shown(beta)}.")
        belief = family("jeffreys" if belief == DEFAULT else belief, tuple(numbers))
    if collection.laws and not collection.by:
        estimate = scaled(collection).noncompliance()
        if estimate.identified:  # otherwise fit refuses with that sentence, or the user stated a prior
            printing.complain(estimate.sentence, style=None)
    return belief
