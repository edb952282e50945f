"""The command ``ldpbayes plan``."""

import functools
import pathlib
from typing import Annotated

import typer

from ldpbayes import files
from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError, shown

#: Options of which three determine the fourth, and the arguments that they set.
_FOUR = {"categories": "n_categories", "epsilon": "epsilon", "users": "n", "error": "error"}
#: Points of a plotted curve.
POINTS = 25


def command(
    categories: Annotated[int | None, typer.Option(help="Number of categories.", min=2)] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy level ε in nats.")] = None,
    users: Annotated[float | None, typer.Option("--users", "-n", help="Number of reports.")] = None,
    error: Annotated[float | None, typer.Option(help="Target error; --kind defines it.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="[bold]l2[/bold]: expected sum of squared errors; [bold]l1[/bold]: of absolute errors; "
            "[bold]max[/bold]: no category off by more; [bold]half_width[/bold]: half an interval, of the widest category."
        ),
    ] = "l2",
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one; may be repeated. Any name of [bold]ldpbayes protocols[/bold]; without it grr, subset, oue, "
            "sue, olh, hadamard and block_design are compared. Parameters may follow: olh:seeds=4096."
        ),
    ] = None,
    parameter: options.Parameters = None,
    p: Annotated[
        str,
        typer.Option(
            help="Assumed distribution: [bold]uniform[/bold] (the worst case for l2), [bold]jeffreys[/bold] or "
            "[bold]flat[/bold] (averaged over that prior), shares such as 0.9,0.1, or a CSV of true counts with columns "
            "value and count."
        ),
    ] = "uniform",
    target: Annotated[str, typer.Option(help="distribution (P) or frequency (F of these users).")] = "distribution",
    estimator: Annotated[str, typer.Option(help="mle (what MLE and posterior attain) or oracle.")] = "mle",
    ci: Annotated[float, typer.Option(help="Probability for max and half_width.")] = 0.95,
    groups: Annotated[
        int | None, typer.Option(help="Compare this many groups of equal size: interval widths and differences.", min=2)
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Difference between two groups' shares: the power to find it, at level 1 − ci.")
    ] = None,
    power: Annotated[
        float | None, typer.Option(help="Instead of --error: find --delta with this probability, such as 0.8.")
    ] = None,
    fakes: Annotated[
        float | None, typer.Option(help="Share of crafted reports, such as 0.05: what they do to a share of 0.01.")
    ] = None,
    noncompliance: Annotated[
        list[str] | None,
        typer.Option(
            help="Respondents who ignore the device, name=law, such as no-sayer=no: the sd of their share that the design "
            "can give; may be repeated."
        ),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(help="Share of those who ignore the device, for --noncompliance; 0.1 by default.")
    ] = None,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write the error against ε (or n) as a picture.")] = None,
    page: options.PagePath = None,
    as_json: options.AsJSON = False,
):
    """Choose protocol, ε and sample size: give three of categories, epsilon, users and error, and get the fourth.

    Protocols are ranked, best first, beside the least error that any ε-LDP protocol can have (least possible) and the error
    of as many open answers. Nothing is simulated. The ε of a survey design follows from its parameters: give users or error.

    An error of kind half_width is the easiest to read: 0.03 means that a share is known to plus or minus three percentage
    points. Ask with --groups, --delta and --power for comparisons of groups, with --fakes what crafted reports can do, and
    with --noncompliance whether the design can tell how many ignore it.

    Examples:

      ldpbayes plan --categories 16 --epsilon 1 --error 0.01

      ldpbayes plan --categories 100 --users 50000 --error 0.02 --kind half_width

      ldpbayes plan --protocol forced_response -p truth=0.75 -p forced=[1,1] --error 0.03 --kind half_width

      ldpbayes plan --categories 128 --epsilon 1 --users 1e6 --protocol olh --protocol olh:seeds=4096

      ldpbayes plan --categories 5 --epsilon 1 --groups 2 --delta 0.05 --power 0.8

      ldpbayes plan --categories 20 --epsilon 1 --users 10000 --fakes 0.05

      ldpbayes plan --protocol extended_crosswise -p p=0.2 --users 3000 --noncompliance no-sayer=different

      ldpbayes plan --epsilon 1 --users 32561 --p 0.5,0.3,0.2 --plot plan.png
    """
    if plot is not None:
        from ldpbayes.plots import check_ending

        check_ending(plot)
        files.check_output(plot)
    options.check_page(page)
    from ldpbayes.theory import planning, prospects

    if power is not None:
        kind, error = "half_width", _error_for(power, delta, groups, error, kind, ci)
    laws = options.named_laws(noncompliance)
    if gamma is not None and not laws:
        raise ArgumentError("gamma goes with noncompliance, which states how those report who ignore the device.")
    assumptions = {"kind": kind, "p": _assumed(p), "target": target, "estimator": estimator, "ci_prob": ci}
    known = {"n_categories": categories, "epsilon": epsilon, "n": users, "error": error}
    asked = {"groups": groups, "delta": delta, "fakes": fakes, "laws": laws, "gamma": 0.1 if gamma is None else gamma}
    if categories is None and not isinstance(assumptions["p"], str):
        if None in (epsilon, users, error):
            known["n_categories"] = categories = len(assumptions["p"])
    if categories is None and not isinstance(assumptions["p"], str):
        raise ArgumentError("p must be uniform, jeffreys or flat where the number of categories is the unknown.")
    settings = options.parameters(parameter)
    if settings and len(protocol or ()) != 1:
        raise ArgumentError(f"parameter needs exactly one --protocol that takes it, got {len(protocol or ())}.")
    makers = None
    if not protocol or planning.has_free_epsilon(protocol[0], settings):
        missing = [f"--{name}" for name, key in _FOUR.items() if known[key] is None]
        if len(missing) != 1:
            more = f"{', '.join(missing)} are missing" if missing else "all four were given"
            raise ArgumentError(f"Three of {', '.join(f'--{name}' for name in _FOUR)} determine the fourth; {more}.")
    fixed = [name for name in protocol or () if not planning.has_free_epsilon(name, settings)]
    if fixed and len(fixed) < len(protocol or ()):
        raise ArgumentError(f"protocol must name designs that fix epsilon ({', '.join(fixed)}) or protocols that take it.")
    if fixed:
        plans, makers = _fixed(fixed, settings, known, assumptions)
    else:
        makers = planning.named_makers(protocol, settings) if protocol else None
        plans = planning.plan(**known, protocols=makers, **assumptions)
    rest = {key: value for key, value in assumptions.items() if key != "kind"}
    plans = prospects.with_prospects(plans, makers, **asked, **rest)
    from ldpbayes.pages.plan import of_plan

    along = "n" if fixed or (epsilon is not None and users is None) else "epsilon"
    draw = functools.partial(_draw, plans[0], kind, makers, assumptions, along)
    drawn = draw if plot or (page and plans[0].feasible) else None
    content = of_plan(
        plans,
        kind=kind,
        assumed=p,
        ci_prob=ci,
        draw=drawn,
        command=options.command_line(),
        groups=groups,
        delta=delta,
        fakes=fakes,
    )
    printing.show(content, as_json, page=page)
    if plot:
        from ldpbayes.plots import save_figure

        save_figure(draw(), plot)
        if not as_json:
            printing.wrote(plot)


def _error_for(power, delta, groups, error, kind, ci):
    """Return the half-width over all users at which two of the groups are found to differ."""
    from ldpbayes.theory import prospects

    if delta is None:
        raise ArgumentError("power needs --delta, the difference to be found.")
    if error is not None or kind not in ("l2", "half_width"):
        raise ArgumentError("power stands for --error and --kind; leave these out.")
    return prospects.half_width_for(delta, power, groups=groups or 2, ci_prob=ci)


def _fixed(names, settings, known, assumptions):
    """Return (plans, makers) of designs whose parameters fix ε."""
    from ldpbayes.protocols import make_protocol
    from ldpbayes.theory import planning

    if known["epsilon"] is not None:
        raise ArgumentError(f"epsilon follows from the parameters of {names[0]}; leave it out.")
    rest = {"n_categories": known["n_categories"] or 2, "n": known["n"], "error": known["error"]}
    plans = [planning.plan_design(name, settings, **rest, **assumptions) for name in names]
    makers = {name: lambda a, epsilon, name=name: make_protocol(name, list(map(str, range(a))), settings) for name in names}
    return sorted(plans, key=lambda plan: getattr(plan, plan.solved)), makers


def _draw(best, kind, makers, assumptions, along):
    import numpy as np

    from ldpbayes import plots
    from ldpbayes.pages.plan import error_in_words
    from ldpbayes.theory import planning

    if not best.feasible:
        raise ArgumentError("plot must have a feasible plan to draw, got none.")
    middle = best.n if along == "n" else best.epsilon
    values = np.geomspace(middle / 10, middle * 10, POINTS) if along == "n" else np.geomspace(0.1, max(5.0, middle), POINTS)
    setting = {"epsilon": best.epsilon} if along == "n" else {"n": best.n}
    found = planning.curves(along, values, n_categories=best.n_categories, protocols=makers, **setting, **assumptions)
    held = f"{best.users:,} reports" if along == "epsilon" else f"ε = {best.epsilon:.3g}"
    title = f"Error of {best.n_categories} categories at {held}, by protocol"
    return plots.plot_plan(
        along,
        values,
        found,
        error_in_words(kind, assumptions["ci_prob"]),
        chosen=(middle, best.error, best.protocol),
        title=title,
    )


def _assumed(text):
    if text in ("uniform", "jeffreys", "flat"):
        return text
    if "," in text:
        try:
            return [float(part) for part in text.split(",")]
        except ValueError:
            raise ArgumentError(f"p must be shares such as 0.9,0.1, got {shown(text)}.") from None
    from ldpbayes.simulate import population

    return population(text).distribution
