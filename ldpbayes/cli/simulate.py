"""The command ``ldpbayes simulate``."""

import pathlib
from typing import Annotated

import typer

from ldpbayes.cli import options
from ldpbayes.errors import ArgumentError
from ldpbayes.pages.prose import number_of
from ldpbayes.pages.renderers.terminal import out


def command(
    output: Annotated[
        pathlib.Path, typer.Argument(metavar="OUT.toml", help="Collection file to write; its CSV goes beside it.")
    ],
    population: Annotated[
        str,
        typer.Option(help="True population: zipf, geometric, dirichlet, or a file with columns value and count."),
    ] = "zipf",
    categories: Annotated[
        int | None, typer.Option(help="Number of categories of zipf, geometric and dirichlet.", min=2)
    ] = None,
    protocol: Annotated[str, typer.Option(help="A name of [bold]ldpbayes protocols[/bold].")] = "grr",
    parameter: options.Parameters = None,
    users: Annotated[
        int | None, typer.Option(help="Number of users; without it everyone in a population file.", min=1)
    ] = None,
    seed: options.Seed = None,
):
    """Simulate a collection: draw users from a true population and send their values through a protocol.

    The true values stay in the file, in its tables \\[\\[published]] with source = "truth", so that estimates can be
    compared with them. This is for planning and testing, not for protecting people.

    Examples:

      ldpbayes simulate out.toml --population zipf --categories 100 --users 100000 -p epsilon=1

      ldpbayes simulate out.toml --population my_counts.csv --protocol subset -p epsilon=2
    """
    from ldpbayes.protocols import make_protocol
    from ldpbayes.simulate import population as make_population
    from ldpbayes.simulate import simulate_collection
    from ldpbayes.sources import write_collection

    truth = make_population(population, categories, random_seed=seed)
    mechanism = make_protocol(protocol, truth.categories, options.parameters(parameter))
    if users is None and truth.counts is None:
        raise ArgumentError(f"users must be given for the {population} population, got none.")
    collection, _ = simulate_collection(mechanism, truth, users, random_seed=seed, id=output.stem)
    write_collection(collection, output)
    named = f" of {truth.title}" if truth.title else ""
    out.print(
        f"Wrote {output}: {number_of(collection.n_reports, 'report')}{named} through {protocol}, "
        f"epsilon {mechanism.epsilon:g}. Now: ldpbayes fit {output}"
    )
