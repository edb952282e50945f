"""The command ``ldpbayes fit``."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.pages.page import TOP

AUTO = options.Method("auto")
#: What --noncompliance-prior must be.
BETA = "two numbers above 0, the b,c of a Beta prior"


@dataclass(frozen=True)
class Posterior:
    """How the posterior is computed: arguments of fit."""

    panel: ClassVar[str] = "Posterior"

    prior: Annotated[
        str,
        typer.Option(
            help="Prior of P: [bold]default[/bold] (learnt from 20 categories on, else Jeffreys'; the output says which and "
            "why), [bold]learnt[/bold] (a Dirichlet whose concentration the reports decide), [bold]smooth[/bold] (ordered "
            f"categories), {options.PRIORS}"
        ),
    ] = "default"
    method: Annotated[
        options.Method, typer.Option(help="Posterior method; [bold]auto[/bold] picks one and explains its choice.")
    ] = AUTO
    exclude: Annotated[
        list[options.Method] | None, typer.Option(help="A method that auto must not choose; may be repeated.")
    ] = None
    ci_prob: options.Ci = 0.95
    draws: Annotated[
        int | None,
        typer.Option(
            help="Draws per chain (four chains), 1000 by default; 0 gives moments and intervals without draws.", min=0
        ),
    ] = None
    random_seed: options.Seed = None


@dataclass(frozen=True)
class Ignoring:
    """Who ignores the device."""

    panel: ClassVar[str] = "Respondents"

    noncompliance: options.Noncompliance = None
    noncompliance_prior: Annotated[
        str | None, typer.Option(help="b,c of the Beta prior of the share who ignore the device; 1,9 by default.")
    ] = None

    def stated(self, collection, belief):
        """Return (collection, prior) with those who ignore the device, and print what the design can say of their share."""
        from ldpbayes.posteriors.problem import scaled
        from ldpbayes.priors import DEFAULT, Compliance

        if self.noncompliance:
            collection = collection.with_noncompliers(options.named_laws(self.noncompliance))
        if self.noncompliance_prior is not None:
            if not collection.laws:
                raise ArgumentError(
                    "noncompliance-prior needs respondents who ignore the device; state them with --noncompliance."
                )
            beta = options.levels(self.noncompliance_prior, "noncompliance-prior", BETA)
            if len(beta) != 2 or not all(0 < number < math.inf for number in beta):
                raise ArgumentError(f"noncompliance-prior must be {BETA}, got {shown(self.noncompliance_prior)}.")
            belief = Compliance("jeffreys" if belief == DEFAULT else belief, tuple(beta))
        if collection.laws and not collection.by:
            found = scaled(collection).noncompliance()
            if found.identified:  # otherwise fit refuses with that sentence, or the user stated a prior
                typer.echo(found.sentence, err=True)
        return collection, belief


def command(
    file: options.File,
    *,
    by: options.By = None,
    top: options.Top = TOP,
    fakes: options.Fakes = False,
    explain: Annotated[bool, typer.Option("--explain", help="Only print which method auto would choose, and why.")] = False,
    posterior: Posterior,
    respondents: options.Respondents,
    ignoring: Ignoring,
    outputs: options.Outputs,
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

    collection = options.read(file, by, **respondents.stated())
    collection, belief = ignoring.stated(collection, options.prior(posterior.prior))
    settings = dataclasses.asdict(posterior) | {"prior": belief, "exclude": tuple(posterior.exclude or ())}
    if explain:
        if collection.by:
            raise ArgumentError(
                "--explain needs a collection without cells, because the method is chosen separately for every cell."
            )
        from ldpbayes.fitting import select_method
        from ldpbayes.pages.choice import of_choice

        choice = select_method(collection, belief, exclude=settings["exclude"])
        return printing.display(of_choice(choice, title=collection.title or collection.id))
    table = options.fakes_table(collection) if fakes else None
    outputs.check()
    tree = fit(collection, **settings, progressbar=outputs.shows_progress)
    from ldpbayes.pages.fit import of_fit

    again = options.command_line(posterior.random_seed, tree.attrs["random_seed"])
    content = of_fit(tree, top=top, collection=collection, command=again)
    if table is not None:
        content = dataclasses.replace(content, tables=(*content.tables, table))
    outputs.show(content, result=tree)
