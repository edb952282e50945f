"""The page, or the section of another one, of a contamination hull."""

import dataclasses
import functools

import numpy as np

from ldpbayes import plots
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.prose import split
from ldpbayes.pages.tables import Rows, filled

#: Categories of the table, the largest estimates first.
ROWS = 20
TITLE = "If some reports are fake"


def of_contamination(hull, *, title: str = TITLE) -> Page:
    """Return the Page of a ContaminationHull."""
    summary, rest = split(hull.sentence)
    notes = (Note(Kind.VERDICT, rest),) if rest else ()
    return Page(title, (table_of(hull, title),), notes, (figure_of(hull),), facts_of(hull), summary)


def beside(page: Page, hull) -> Page:
    """Return a page with the table, figure and sentence of a ContaminationHull beside its own.

    Parameters
    ----------
    page : Page
    hull : ContaminationHull
    """
    return dataclasses.replace(
        page,
        tables=(*page.tables, table_of(hull)),
        notes=(Note(Kind.DATA, hull.sentence), *page.notes),
        figures=(*page.figures, figure_of(hull)),
        facts=dict(page.facts) | {"contamination": facts_of(hull)},
    )


def table_of(hull, title: str = TITLE) -> Table:
    """Return the table of a ContaminationHull, for any page: a row for each quantity and share of fakes."""
    columns = [
        Column("quantity", "estimate of", "text"),
        Column("share", "share of fakes, at most", spec=".3g"),
        Column("fakes", "reports", spec=",.0f", priority=2, full="fake reports, at most"),
        Column("low", "from", spec=".4f", means="Least and largest estimate that the honest reports may have."),
        Column("high", "to", spec=".4f"),
        Column(
            "confidence_low",
            "with sampling error, from",
            spec=".4f",
            priority=1,
            means="The same, with the sampling error of the honest reports.",
        ),
        Column("confidence_high", "to", spec=".4f", priority=1),
    ]
    order = np.argsort(-hull["estimate"].values, kind="stable")[:ROWS]
    shares = hull["share"].values
    picked = range(shares.size) if order.size * shares.size <= ROWS else [int(shares.argmax())]
    shown = hull.isel(quantity=order, share=list(picked))
    rows = Rows(shown, "quantity", "share")
    if hull.posterior is not None:
        columns += [
            Column("posterior_low", "posterior mean, from", spec=".4f", priority=1),
            Column("posterior_high", "to", spec=".4f", priority=1),
        ]
    return filled(f"{title}: {hull.question}", [(column, rows.numbers(shown[column.key])) for column in columns])


def figure_of(hull) -> Figure:
    """Return the figure of a ContaminationHull, for any page."""

    caption = f"{hull.question[:1].upper()}{hull.question[1:]}: the range of the honest reports' estimate if some are fake."
    return Figure("contamination", caption, f"{caption} {hull.sentence}", functools.partial(plots.plot_contamination, hull))


def facts_of(hull) -> dict:
    """Return a ContaminationHull as plain data."""
    arrays = {str(name): values.values for name, values in hull.drop_dims("at", errors="ignore").items()}
    posterior = {name.removeprefix("posterior_"): arrays.pop(name) for name in list(arrays) if name.startswith("posterior_")}
    labels = {"labels": hull["quantity"].values, "share": hull["share"].values}
    return dict(hull.attrs) | labels | arrays | ({"posterior": posterior} if posterior else {})
