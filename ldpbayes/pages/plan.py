"""The page of a plan."""

import math

from ldpbayes.pages.about import again
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table

_NAMES = {"n_categories": "categories", "epsilon": "epsilon", "n": "users", "error": "error"}


def of_plan(plans, *, kind: str = "l2", assumed: str = "uniform", ci_prob: float = 0.95, draw=None, command="") -> Page:
    """Return the Page of a list of Plan.

    Parameters
    ----------
    plans : list of Plan
        From theory.planning.plan, best first.
    kind : str
        What the error is: a key of theory.planning.KINDS.
    assumed : str
        The assumed distribution, in words.
    ci_prob : float
        Probability of the kinds "max" and "half_width".
    draw : callable, optional
        Returns the figure of the error against ε or n.
    command : str
        The line for a shell that makes this page.

    Returns
    -------
    Page
    """
    what = error_in_words(kind, ci_prob)
    title = f"{what[0].upper()}{what[1:]}; p {assumed}; best first, solved for {_NAMES[plans[0].solved]}"
    columns = (
        Column("protocol", "protocol", "text"),
        Column("n_categories", "categories", spec=",.0f", priority=4),
        Column("epsilon", "epsilon", spec=".4g"),
        Column("users", "users", spec=",.0f"),
        Column("error", "error", spec=".4g"),
        Column("bound", "least possible", spec=".4g", priority=2),
        Column("open_answers", "open answers", spec=".4g", priority=3),
        Column("bytes_per_report", "bytes a report", spec=",.0f", priority=5),
        Column("note", "computed by", "text", priority=6),
    )
    rows = tuple(
        (
            *(p.protocol, float(p.n_categories), p.epsilon, float(p.users), p.error, p.bound, p.open_answers),
            *(float(p.bytes_per_report) if p.bytes_per_report else None, p.note if p.feasible else None),
        )
        for p in plans
    )
    blank = {"bound"} if all(math.isnan(plan.bound) for plan in plans) else set()  # only some kinds have a least error
    kept = [i for i, column in enumerate(columns) if column.key not in blank]
    notes = [
        Note(Kind.METHOD, "Users are rounded up. Nothing was simulated, except averages over a prior."),
    ]
    hopeless = [plan for plan in plans if not plan.feasible]
    notes += [Note(Kind.WARNING, f"{plan.protocol}: {plan.note}") for plan in hopeless]
    figures: tuple[Figure, ...] = ()
    if draw is not None:
        best = plans[0]
        alt = f"Curves of the error of each protocol; {best.protocol} is best, with error {best.error:.3g} at the plan."
        figures = (Figure("plan", title, alt, draw),)
    facts = {"kind": kind, "p": assumed, "solved": plans[0].solved, "plans": [plan.row() for plan in plans]}
    table = Table(title, columns, rows).only(kept)
    return Page(title, (table,), tuple(notes), figures, facts, _summary(plans, what), {}, again(command))


def _summary(plans, what):
    """Return what the best protocol needs or reaches, in a sentence or two."""
    best = plans[0]
    if not best.feasible:
        return f"No protocol reaches this target. {best.note}"
    found = {
        "n": f"needs the fewest users: {best.users:,}",
        "epsilon": f"needs the least ε: {best.epsilon:.3g}",
        "error": f"has the least error: {best.error:.3g}",
        "n_categories": f"allows the most categories: {best.n_categories:,}",
    }[best.solved]
    text = f"{best.protocol} {found}." if len(plans) > 1 else f"{best.protocol}: {found.split(': ')[1]}."
    setting = f"{best.n_categories:,} categories, ε = {best.epsilon:.3g} and {best.users:,} users"
    text += f" With {setting} the {what} is {best.error:.3g}"
    open_answers = f"as many unprotected answers would leave {best.open_answers:.3g}" if best.open_answers > 0 else ""
    text += f"; {open_answers}." if open_answers else "."
    return text


def error_in_words(kind: str, ci_prob: float = 0.95) -> str:
    """Return what the error of a plan is, with its probability as a number."""
    from ldpbayes.theory.planning import KINDS

    return KINDS[kind].replace("ci_prob", f"{ci_prob * 100:g} %")
