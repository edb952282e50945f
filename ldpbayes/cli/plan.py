"""The command ``ldpbayes plan``."""

import dataclasses
import functools
import pathlib
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from ldpbayes.cli import options
from ldpbayes.errors import ArgumentError

#: Points of a plotted curve.
POINTS = 25


@dataclass(frozen=True)
class Four:
    """Of which three determine the fourth."""

    panel: ClassVar[str] = "Three of these give the fourth"

    n_categories: Annotated[int | None, typer.Option("--categories", help="Number of categories.", min=2)] = None
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Privacy level ε in nats.")] = None
    n: Annotated[float | None, typer.Option("--users", "-n", help="Number of reports.")] = None
    error: Annotated[float | None, typer.Option("--error", help="Target error; --kind defines it.")] = None

    def check(self):
        """Refuse any number of them but three."""
        options = {field.type.__metadata__[0].default: getattr(self, field.name) for field in dataclasses.fields(self)}
        missing = [name for name, value in options.items() if value is None]
        if len(missing) != 1:
            more = f"{', '.join(missing)} are missing" if missing else "all four were given"
            raise ArgumentError(f"Three of {', '.join(options)} determine the fourth; {more}.")


@dataclass(frozen=True)
class Assumed:
    """What the error is, and of what."""

    panel: ClassVar[str] = "Assumptions"

    kind: Annotated[
        str,
        typer.Option(
            help="[bold]l2[/bold]: expected sum of squared errors; [bold]l1[/bold]: of absolute errors; "
            "[bold]max[/bold]: no category off by more; [bold]half_width[/bold]: half an interval, of the widest category."
        ),
    ] = "l2"
    p: Annotated[
        str,
        typer.Option(
            help="Assumed distribution: [bold]uniform[/bold] (the worst case for l2), [bold]jeffreys[/bold] or "
            "[bold]flat[/bold] (averaged over that prior), shares such as 0.9,0.1, or a CSV of true counts with columns "
            "value and count."
        ),
    ] = "uniform"
    target: Annotated[str, typer.Option(help="distribution (P) or frequency (F of these users).")] = "distribution"
    estimator: Annotated[str, typer.Option(help="mle (what MLE and posterior attain) or oracle.")] = "mle"
    ci_prob: options.Ci = 0.95


@dataclass(frozen=True)
class Questions:
    """What else is asked of every plan."""

    panel: ClassVar[str] = "Groups, fake reports, and respondents who ignore the device"

    groups: Annotated[
        int | None, typer.Option(help="Compare this many groups of equal size: interval widths and differences.", min=2)
    ] = None
    delta: Annotated[
        float | None, typer.Option(help="Difference between two groups' shares: the power to find it, at level 1 − ci.")
    ] = None
    power: Annotated[
        float | None, typer.Option(help="Instead of --error: find --delta with this probability, such as 0.8.")
    ] = None
    fakes: Annotated[
        float | None, typer.Option(help="Share of crafted reports, such as 0.05: what they do to a share of 0.01.")
    ] = None
    noncompliance: options.Noncompliance = None
    gamma: Annotated[
        float | None, typer.Option(help="Share of those who ignore the device, for --noncompliance; 0.1 by default.")
    ] = None


def command(
    *,
    four: Four,
    protocols: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol",
            help="Only this one; may be repeated. Any name of [bold]ldpbayes protocols[/bold]; without it grr, subset, oue, "
            "sue, olh, hadamard and block_design are compared. Parameters may follow: olh:seeds=4096.",
        ),
    ] = None,
    parameter: options.Parameters = None,
    assumed: Assumed,
    questions: Questions,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write the error against ε (or n) as a picture.")] = None,
    outputs: options.Shown,
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
    options.check_plot(plot)
    outputs.check(plot)
    from ldpbayes.theory import planning, prospects

    if questions.power is not None:
        four, assumed = _with_power(four, assumed, questions)
    assumptions = dataclasses.asdict(assumed) | {"p": _distribution(assumed.p)}
    asked = {name: getattr(questions, name) for name in ("groups", "delta", "fakes")}
    laws = options.named_laws(questions.noncompliance)
    if questions.gamma is not None and not laws:
        raise ArgumentError("gamma goes with noncompliance, which states how those report who ignore the device.")
    settings, names = options.parameters(parameter), protocols or ()
    four = _with_categories(four, assumptions["p"])
    if settings and len(names) != 1:
        raise ArgumentError(f"parameter needs exactly one --protocol that takes it, got {len(names)}.")
    fixed = [name for name in names if not planning.has_free_epsilon(name, settings)]
    if not names or names[0] not in fixed:
        four.check()
    if fixed and len(fixed) < len(names):
        raise ArgumentError(f"protocol must name designs that fix epsilon ({', '.join(fixed)}) or protocols that take it.")
    if fixed:
        plans, makers = _fixed(fixed, settings, dataclasses.asdict(four), assumptions)
    else:
        makers = planning.named_makers(protocols, settings) if protocols else None
        plans = planning.plan(**dataclasses.asdict(four), protocols=makers, **assumptions)
    rest = {key: value for key, value in assumptions.items() if key != "kind"}
    gamma = 0.1 if questions.gamma is None else questions.gamma
    plans = prospects.with_prospects(plans, makers, **asked, laws=laws, gamma=gamma, **rest)
    from ldpbayes.pages.plan import of_plan

    along = "n" if fixed or (four.epsilon is not None and four.n is None) else "epsilon"
    draw = functools.partial(_draw, plans[0], assumed.kind, makers, assumptions, along)
    content = of_plan(
        plans,
        kind=assumed.kind,
        assumed=assumed.p,
        ci_prob=assumed.ci_prob,
        draw=draw if plot or (outputs.page and plans[0].feasible) else None,
        command=options.command_line(),
        **asked,
    )
    outputs.show(content, plot=plot)


def _with_categories(four, p):
    """Return the four with the number of categories that an assumed distribution has, where it is not the unknown."""
    if four.n_categories is not None or isinstance(p, str):
        return four
    if None not in (four.epsilon, four.n, four.error):
        raise ArgumentError("p must be uniform, jeffreys or flat where the number of categories is the unknown.")
    return dataclasses.replace(four, n_categories=len(p))


def _with_power(four, assumed, questions):
    """Return the four and the assumptions with the half-width over all users at which two of the groups differ."""
    from ldpbayes.theory import prospects

    if questions.delta is None:
        raise ArgumentError("power needs --delta, the difference to be found.")
    if four.error is not None or assumed.kind not in ("l2", "half_width"):
        raise ArgumentError("power stands for --error and --kind; leave these out.")
    error = prospects.half_width_for(questions.delta, questions.power, groups=questions.groups or 2, ci_prob=assumed.ci_prob)
    return dataclasses.replace(four, error=error), dataclasses.replace(assumed, kind="half_width")


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


def _distribution(text):
    if text in ("uniform", "jeffreys", "flat"):
        return text
    if "," in text:
        return options.levels(text, "p", "shares such as 0.9,0.1")
    from ldpbayes.simulate import population

    return population(text).distribution
