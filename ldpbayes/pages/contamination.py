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
    order = np.argsort(-hull["estimate"].values, kind="stable")[:ROWS]
    shares = hull["share"].values
    picked = range(shares.size) if order.size * shares.size <= ROWS else [int(shares.argmax())]
    shown = hull.isel(quantity=order, share=list(picked))
    rows = Rows(shown, "quantity", "share")
    columns = [
        (Column("quantity", "estimate of", "text"), rows.numbers(shown["quantity"])),
        rows.number("share", "share of fakes, at most", ".3g"),
        (Column("fakes", "reports", spec=",.0f", priority=3, full="fake reports, at most"), rows.numbers(shown["fakes"])),
    ]
    for name, heading, means in (
        ("", "range", "Least and largest estimate that the honest reports may have."),
        ("confidence", "with sampling error", "The same, with the sampling error of the honest reports."),
        *([("posterior", "posterior mean", "")] if hull.posterior is not None else []),
    ):
        column = Column(f"{name}_interval".lstrip("_"), heading, "interval", priority=bool(name), means=means)
        ends = (shown[f"{name}_{end}".lstrip("_")] for end in ("low", "high"))
        columns.append((column, rows.pairs(*ends)))
    return filled(f"{title}: {hull.question}", columns)


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
