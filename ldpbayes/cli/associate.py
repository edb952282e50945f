"""The command ``ldpbayes associate``."""

import pathlib
import sys
from typing import Annotated

import typer

from ldpbayes.cli import options, printing
from ldpbayes.collections import Cells
from ldpbayes.errors import ArgumentError


def command(
    file: options.File,
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
    ci: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    draws: options.Draws = 1000,
    seed: options.Seed = None,
    top: Annotated[int, typer.Option(help="Number of pairs whose conditional shares are printed.", min=1)] = 6,
    output: Annotated[pathlib.Path | None, typer.Option(help="Write the whole result as NetCDF (ArviZ reads it).")] = None,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write heat maps of the pairs (.png, .pdf, .svg).")] = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
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

    collection = options.read(file)
    if isinstance(collection, Cells):
        raise ArgumentError("file must hold one table; its channels are split into cells by a grouping column.")
    options.check_outputs(output, plot, page)
    tree = associate(
        collection,
        names=name,
        prior=prior if prior == "loglinear" else options.prior(prior),
        order=order,
        separator=separator,
        draws=draws,
        random_seed=seed,
        ci_prob=ci,
        progressbar=sys.stderr.isatty() and not as_json,
    )
    from ldpbayes.pages.association import of_association

    again = options.command_line(seed, tree.attrs["random_seed"])
    content = of_association(tree, top=top, collection=collection, command=again)
    printing.show(content, as_json, result=tree, output=output, plot=plot, page=page)
