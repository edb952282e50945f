"""The pages of what conclusions withstand: fake reports, and respondents who ignore the device."""

import dataclasses
import functools

import numpy as np

from ldpbayes import plots
from ldpbayes.errors import InfeasibleError
from ldpbayes.estimators.mle import maximize
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.prose import sourced, split
from ldpbayes.pages.tables import TableRows, filled
from ldpbayes.result.facts import facts_of
from ldpbayes.robust.faking import fakes
from ldpbayes.robust.figures import CATEGORIES
from ldpbayes.robust.ignoring import sensitivity

#: Display: Points of the curve in the table of a sensitivity.
POINTS = 11
#: Display: Categories of the table of fabricated reports, and by how much they are lifted.
FAKED, LIFT = 10, 0.01


def of_contamination(hull, *, title: str = "If some reports are fake") -> Page:
    """Return the Page of a ContaminationHull: a row for each quantity and share of fakes."""
    order = np.argsort(-hull["estimate"].values, kind="stable")[:CATEGORIES]
    shares = hull["share"].values
    picked = range(shares.size) if order.size * shares.size <= CATEGORIES else [int(shares.argmax())]
    shown = hull.isel(quantity=order, share=list(picked))
    rows = TableRows(shown, "quantity", "share")
    columns = [
        (Column("quantity", "estimate of", "text"), rows.numbers(shown["quantity"])),
        rows.number("share", "share of fakes, at most", ".3g"),
        (Column("fakes", "reports", spec=",.0f", priority=3, full="fake reports, at most"), rows.numbers(shown["fakes"])),
    ]
    for name, heading, means in (
        ("", "range", "Least and largest estimate that the honest reports may have."),
        ("confidence", "with sampling error", "The same, with the sampling error of the honest reports."),
    ):
        column = Column(f"{name}_interval".lstrip("_"), heading, "interval", priority=bool(name), means=means)
        ends = (shown[f"{name}_{end}".lstrip("_")] for end in ("low", "high"))
        columns.append((column, rows.pairs(*ends)))
    caption = f"{hull.question[:1].upper()}{hull.question[1:]}: the range of the honest reports' estimate if some are fake."
    table = filled(f"{title}: {hull.question}", columns)
    return _concluded(hull, title, table, "contamination", plots.plot_contamination, caption, caption, _facts(hull))


def of_sensitivity(curve, *, title: str = "Sensitivity to respondents who ignore the device") -> Page:
    """Return the Page of a Sensitivity: a row for some of the curve's points."""
    chosen = np.unique(np.linspace(0, curve.sizes["gamma"] - 1, min(POINTS, curve.sizes["gamma"])).astype(int))
    rows = TableRows(curve, "gamma", at=chosen)
    columns = [
        rows.number("gamma", curve.attrs.get("symbol", "γ"), ".3f"),
        rows.number("answer", "share among compliers"),
        rows.number("error", "s.e.", priority=1),
    ]
    table = filled(f"{title}: {curve.question}", columns)
    caption = f"{curve.question} against {curve.attrs.get('share', 'the share γ of respondents who ignore the device')}."
    facts = dict(curve.attrs) | {name: curve[name].values for name in ("gamma", "answer", "error")}
    return _concluded(curve, title, table, "sensitivity", plots.plot_sensitivity, caption, f"Curve: {caption}", facts)


def beside_fit(tree, collection):
    """Return the figure of the largest share, or the second of two, against the share who ignore the device, or None."""
    if "cell" in tree["summary"].dims or len(collection.laws) != 1 or collection.denied:
        return None
    mean = tree["summary"]["mean"].sel(target="distribution")
    label = str(mean["category"].values[1 if mean.size == 2 else int(np.argmax(mean.values))])
    which = "every γ that the reports allow" if "noncompliance_low" in facts_of(tree) else "γ within two sds of its estimate"
    caption = f"The share of {label} among those who follow the device, for {which}."
    alt = f"Curve: {caption} {facts_of(tree).get('noncompliance', '')}".strip()
    return Figure("sensitivity", caption, alt, functools.partial(_drawn_sensitivity, collection, label))


def _drawn_sensitivity(collection, label):
    return plots.plot_sensitivity(sensitivity(collection, label, points=21))


def beside(page: Page, hull) -> Page:
    """Return a page with the table, figure and sentence of a ContaminationHull beside its own."""
    own = of_contamination(hull)
    return dataclasses.replace(
        page,
        tables=(*page.tables, *own.tables),
        notes=(Note(Kind.DATA, hull.sentence), *page.notes),
        figures=(*page.figures, *own.figures),
        facts=dict(page.facts) | {"contamination": own.facts},
    )


def _concluded(result, title, table, name, plot, caption, alt, facts) -> Page:
    """Return the page of a result with a sentence, of which the first one is the summary, and a figure."""
    summary, rest = split(sourced(f"{result.sentence[:1].upper()}{result.sentence[1:]}", result.attrs))
    notes = (Note(Kind.VERDICT, rest),) if rest else ()
    figure = Figure(name, caption, f"{alt} {result.sentence}", functools.partial(plot, result))
    return Page(title, (table,), notes, (figure,), facts, summary)


def _facts(hull) -> dict:
    """Return a ContaminationHull as plain data."""
    arrays = {str(name): values.values for name, values in hull.drop_dims("at", errors="ignore").items()}
    labels = {"labels": hull["quantity"].values, "share": hull["share"].values}
    return dict(hull.attrs) | labels | arrays


def fakes_table(collection) -> Table:
    """Return how many fabricated reports would lift each share or let it overtake the next larger one.

    Raises
    ------
    InfeasibleError
        Where that is not known.
    """
    order = np.argsort(-maximize(collection.rows).p, kind="stable")[:FAKED]
    labels, rows = collection.categories, []
    try:
        for i, x in enumerate(order):
            lifted = fakes(collection, labels[x], lift=LIFT, channel=collection.tallies[0].name)
            ahead = labels[order[i - 1]] if i else ""
            over = fakes(collection, labels[x], overtake=ahead, channel=collection.tallies[0].name) if i else None
            rows.append((labels[x], lifted.added.item(), ahead, None if over is None else over.added.item()))
    except InfeasibleError:
        raise InfeasibleError("The number of fabricated reports is not known for this design.") from None
    columns = (
        Column("category", "category", "text"),
        Column("lift", f"to lift it by {LIFT:g}", spec=",.0f"),
        Column("ahead", "next larger", "text", priority=1),
        Column("overtake", "to overtake that", spec=",.0f"),
    )
    several = len(collection.tallies) > 1
    note = f"Of the channel {collection.tallies[0].name!r} and its own estimate." if several else ""
    return Table("Fabricated reports needed", columns, tuple(rows), note)
