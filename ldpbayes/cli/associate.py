"""The command ``ldpbayes associate``."""

from typing import Annotated

import typer

from ldpbayes.cli import options


def command(
    file: options.File,
    *,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of an attribute, once for each in the order of the labels; by default those of the file's derived "
            "margins, else A, B, …."
        ),
    ] = None,
    prior: Annotated[
        str,
        typer.Option(
            help="[bold]loglinear[/bold]: interactions are small unless the reports say otherwise; or jeffreys, flat, a "
            "concentration: a Dirichlet over the cells."
        ),
    ] = "loglinear",
    order: Annotated[
        int | None,
        typer.Option(help="Most attributes that interact in the loglinear prior (3 by default); 1 is independence.", min=1),
    ] = None,
    separator: Annotated[str, typer.Option(help="What separates the levels in the labels of the cells.")] = "/",
    ci_prob: options.Ci = 0.95,
    draws: options.Draws = 1000,
    random_seed: options.Seed = None,
    top: Annotated[int, typer.Option(help="Number of pairs whose conditional shares are printed.", min=1)] = 6,
    outputs: options.Outputs,
):
    """Infer how the private answers to two or more questions go together.

    The collection's categories are the cells of a joint table: all combinations of the questions' levels, written
    no/no, no/yes, yes/no, yes/yes (the last question changes fastest). Its channels are products, protocol = "attributes" or
    "kronecker" with one factor for each question. Schemes in which everybody reports a single attribute (smp, rs_fd) show
    the margins but no association.

    Prints for each pair Cramér's V (0 independence, 1 one answer follows from the other), the odds ratio where both have two
    levels, and the probability that they are independent; then margins and conditional shares. Margins of all tables agree.

    Examples:

      ldpbayes associate example:wada --seed 1

      ldpbayes associate example:wada --name tested --name supplements --name psychoactive --name doping --page wada.html

      ldpbayes associate example:wada --order 2 --json
    """
    from ldpbayes.association import associate

    collection = options.read(file).single("associate")
    outputs.check()
    tree = associate(
        collection,
        names=name,
        prior=prior if prior == "loglinear" else options.prior(prior),
        order=order,
        separator=separator,
        draws=draws,
        random_seed=random_seed,
        ci_prob=ci_prob,
        progressbar=outputs.shows_progress,
    )
    from ldpbayes.pages.association import of_association

    again = options.command_line(random_seed, tree.attrs["random_seed"])
    content = of_association(tree, top=top, collection=collection, command=again)
    outputs.show(content, result=tree)
