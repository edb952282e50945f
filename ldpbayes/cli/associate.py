"""The command ``ldpbayes associate``."""

from ldpbayes.cli import options, printing, settings


def command(
    file,
    assignments=None,
    names=None,
    prior="loglinear",
    order=None,
    separator="/",
    ci_prob=0.95,
    draws=1000,
    random_seed=None,
    *,
    outputs: options.Outputs,
):
    """Infer how the private answers to two or more questions are associated.

    The collection's categories are the cells of a joint table: all combinations of the questions' categories, written
    no/no, no/yes, yes/no, yes/yes (the last question changes fastest). Its channels are products, protocol = "attributes" or
    "kronecker" with one factor for each question. Schemes in which everybody reports a single attribute (smp, rs_fd) show
    the margins but no association.

    Prints for each pair of questions (attributes) Cramér's V (0 independence, 1 one answer follows from the other), the odds
    ratio of two categories each, and the probability that they are independent; then margins and conditional shares
    (of --top pairs). Margins of all tables agree.

    Exit status 0: fine; 1: the posterior is not to be trusted; 2: bad input.

    Examples:

      ldpbayes associate example:wada --seed 1

      ldpbayes associate example:wada --name tested,supplements,psychoactive,doping --page wada.html

      ldpbayes associate example:wada --order 2 --json
    """
    from ldpbayes.association.fitting import associate

    collection = options.read(file, stated=settings.parsed(assignments, "associate")).single("associate")
    outputs.check()
    tree = associate(
        collection,
        names=options.columns(names),
        prior=prior if prior == "loglinear" else options.prior(prior),
        order=order,
        separator=separator,
        draws=draws,
        random_seed=random_seed,
        ci_prob=ci_prob,
        progressbar=outputs.shows_progress,
    )
    outputs.show(outputs.page_of(tree, random_seed, tree.attrs["random_seed"], collection=collection), result=tree)
    return printing.status_of(tree)
