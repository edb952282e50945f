"""The command ``ldpbayes fit``."""

import dataclasses
import pathlib
import sys
from typing import Annotated

import typer

from ldpbayes.cli import options, printing
from ldpbayes.collections import Cells
from ldpbayes.errors import ArgumentError
from ldpbayes.pages.fit import TOP

AUTO = options.Method("auto")


def command(
    file: options.File,
    method: Annotated[
        options.Method, typer.Option(help="Posterior method; [bold]auto[/bold] picks one and explains its choice.")
    ] = AUTO,
    prior: options.FitPrior = "default",
    ci: Annotated[float, typer.Option(help="Probability of the equal-tailed intervals.")] = 0.95,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Draws per chain (four chains), 1000 by default; 0 gives moments and intervals without draws.", min=0
        ),
    ] = None,
    seed: options.Seed = None,
    output: Annotated[pathlib.Path | None, typer.Option(help="Write the whole result as NetCDF (ArviZ reads it).")] = None,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write a forest plot (.png, .pdf, .svg).")] = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
    top: Annotated[
        int,
        typer.Option(
            help="Number of categories to print and plot: those with the largest posterior means. With [bold]--by[/bold], "
            "number of rows of a table.",
            min=1,
        ),
    ] = TOP,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of the tables: one posterior for each of its values (replaces [bold]by[/bold] of the file); may "
            "be repeated."
        ),
    ] = None,
    exclude: Annotated[
        list[options.Method] | None, typer.Option(help="A method that auto must not choose; may be repeated.")
    ] = None,
    noncompliance: Annotated[
        list[str] | None,
        typer.Option(help="Respondents who ignore the device, name=law, such as no-sayer=no; may be repeated."),
    ] = None,
    noncompliance_prior: Annotated[
        str | None, typer.Option(help="b,c of the Beta prior of the share who ignore the device; 1,9 by default.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="The column of sampling weights; the result is then a pseudo-posterior.")
    ] = None,
    strata: Annotated[str | None, typer.Option(help="The column of the sample's strata.")] = None,
    cluster: Annotated[str | None, typer.Option(help="The column of the sample's clusters.")] = None,
    population: Annotated[
        str | None,
        typer.Option(help="Size of the population, for the finite population correction: 5000, or north=2000,south=3000."),
    ] = None,
    by_user: Annotated[
        str | None,
        typer.Option(
            help="The column of users, where a user may have sent several reports, one a row: each user then counts once, "
            "with all reports."
        ),
    ] = None,
    fakes: Annotated[
        bool, typer.Option("--fakes", help="Also print how many fabricated reports would lift a share or change the order.")
    ] = False,
    explain: Annotated[bool, typer.Option(help="Only print which method auto would choose, and why.")] = False,
):
    """Infer the distribution P and the users' own frequencies F from a collection.

    Prints posterior mean, sd and interval of P and of F for each category, beside the maximum-likelihood estimate (MLE)
    with its standard error (s.e.) and the unbiased oracle; then the method, why it was chosen, and its diagnostics.

    Examples:

      ldpbayes fit example:nigeria --prior flat --ci 0.9

      ldpbayes fit example:minarets --plot minarets.png --output minarets.nc

      ldpbayes fit example:cheating --method nuts --seed 1 --json

      ldpbayes fit example:nigeria --page nigeria.html

      ldpbayes fit example:nigeria_cells --prior hierarchical

      ldpbayes fit example:survey --by region

      ldpbayes fit example:survey --weight w --strata region --cluster village
    """
    from ldpbayes.fitting import fit

    sample = {"weight": weight, "strata": strata, "cluster": cluster, "population": options.population_of(population)}
    sample |= {"by_user": by_user}
    collection, belief = options.read(file, by, **sample), options.prior(prior)
    if noncompliance or noncompliance_prior:
        collection, belief = options.noncompliant(collection, belief, noncompliance, noncompliance_prior)
    options.say_noncompliance(collection)
    excluded = tuple(name.value for name in exclude or ())
    if explain:
        if isinstance(collection, Cells):
            raise ArgumentError(
                "--explain needs a collection without cells, because the method is chosen separately for every cell."
            )
        from ldpbayes.fitting import select_method
        from ldpbayes.pages.choice import of_choice

        choice = select_method(collection, belief, exclude=excluded)
        return printing.display(of_choice(choice, title=collection.title or collection.id))
    table = options.fakes_table(collection) if fakes else None
    options.check_outputs(output, plot, page)
    tree = fit(
        collection,
        belief,
        method.value,
        draws=draws,
        random_seed=seed,
        ci_prob=ci,
        progressbar=sys.stderr.isatty() and not as_json,
        exclude=excluded,
    )
    from ldpbayes.pages.fit import of_fit

    content = of_fit(tree, top=top, collection=collection, command=options.command_line(seed, tree.attrs["random_seed"]))
    if table is not None:
        content = dataclasses.replace(content, tables=(*content.tables, table))
    printing.show(content, as_json, result=tree, output=output, plot=plot, page=page)
