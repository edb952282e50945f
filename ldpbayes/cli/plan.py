"""The command ``ldpbayes plan``."""

import functools
import pathlib
from typing import Annotated

import typer

from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError

#: Points of a plotted curve.
POINTS = 25


def command(
    categories: Annotated[int | None, typer.Option(help="Number of categories.", min=2)] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy level ε in nats.")] = None,
    users: Annotated[float | None, typer.Option("--users", "-n", help="Number of reports.")] = None,
    error: Annotated[float | None, typer.Option(help="Target error, of the kind that --kind says.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="[bold]l2[/bold]: expected sum of squared errors; [bold]l1[/bold]: of absolute errors; "
            "[bold]max[/bold]: no category off by more; [bold]half_width[/bold]: half an interval, of the widest category."
        ),
    ] = "l2",
    protocol: Annotated[
        list[str] | None, typer.Option(help="Only these (grr, subset, oue, sue, olh, hadamard); may be repeated.")
    ] = None,
    p: Annotated[
        str,
        typer.Option(
            help="Assumed distribution: [bold]uniform[/bold] (the worst case for l2), [bold]jeffreys[/bold] or "
            "[bold]flat[/bold] (averaged over that prior), or a CSV of true counts with columns value and count."
        ),
    ] = "uniform",
    target: Annotated[str, typer.Option(help="distribution (P) or frequency (F of these users).")] = "distribution",
    estimator: Annotated[str, typer.Option(help="mle (what MLE and posterior attain) or oracle.")] = "mle",
    ci: Annotated[float, typer.Option(help="Probability for max and half_width.")] = 0.95,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write the error against ε (or n) as a picture.")] = None,
    as_json: options.AsJSON = False,
):
    """Choose protocol, ε and sample size: give three of categories, epsilon, users and error, and get the fourth.

    Protocols are ranked, best first, beside the least error that any ε-LDP protocol can have and the error of as many open
    answers. Nothing is simulated.

    Examples:

      ldpbayes plan --categories 16 --epsilon 1 --error 0.01

      ldpbayes plan --categories 100 --users 50000 --error 0.02 --kind half_width

      ldpbayes plan --categories 73 --epsilon 1 --users 32561 --p my_counts.csv --plot plan.png
    """
    if plot is not None:
        from ldpbayes.plots import check_ending

        check_ending(plot)
    from ldpbayes.theory import planning

    assumptions = {"kind": kind, "p": _assumed(p), "target": target, "estimator": estimator, "ci_prob": ci}
    known = {"n_categories": categories, "epsilon": epsilon, "n": users, "error": error}
    if categories is None and not isinstance(assumptions["p"], str):
        raise ArgumentError("p must be uniform, jeffreys or flat where the number of categories is the unknown.")
    plans = planning.plan(**known, protocols=protocol or None, **assumptions)
    from ldpbayes.pages.plan import of_plan

    along = "n" if epsilon is not None and users is None else "epsilon"
    draw = functools.partial(_draw, plans[0], kind, protocol, assumptions, along)
    page = of_plan(plans, kind=kind, assumed=p, draw=draw if plot else None)
    printing.display(page, as_json)
    if plot:
        from ldpbayes.plots import save_figure

        save_figure(draw(), plot)
        if not as_json:
            printing.wrote(plot)


def _draw(best, kind, protocol, assumptions, along):
    import numpy as np

    from ldpbayes import plots
    from ldpbayes.theory import planning

    if not best.feasible:
        raise ArgumentError("plot must have a feasible plan to draw, got none.")
    middle = best.n if along == "n" else best.epsilon
    values = np.geomspace(middle / 10, middle * 10, POINTS) if along == "n" else np.geomspace(0.1, max(5.0, middle), POINTS)
    setting = {"epsilon": best.epsilon} if along == "n" else {"n": best.n}
    found = planning.curves(
        along, values, n_categories=best.n_categories, protocols=protocol or None, **setting, **assumptions
    )
    held = f"{best.users:,} reports" if along == "epsilon" else f"ε = {best.epsilon:.3g}"
    title = f"Error of {best.n_categories} categories at {held}, by protocol"
    return plots.plot_plan(
        along, values, found, planning.KINDS[kind], chosen=(middle, best.error, best.protocol), title=title
    )


def _assumed(text):
    if text in ("uniform", "jeffreys", "flat"):
        return text
    from ldpbayes.simulate import population

    return population(text).distribution
