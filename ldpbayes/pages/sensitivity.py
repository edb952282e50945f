"""The page, or the section of another one, of a sensitivity curve."""

import functools

import numpy as np

from ldpbayes import plots
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table

#: Rows of the table: some of the curve's points.
ROWS = 11


def of_sensitivity(curve, *, title: str = "Sensitivity to respondents who ignore the device") -> Page:
    """Return the Page of a Sensitivity."""
    columns = (
        Column("gamma", "γ", spec=".3f"),
        Column("answer", "share among compliers", spec=".4f"),
        Column("error", "s.e.", spec=".4f", priority=1),
    )
    chosen = np.unique(np.linspace(0, curve.gamma.size - 1, min(ROWS, curve.gamma.size)).astype(int))
    rows = [(float(curve.gamma[i]), float(curve.answer[i]), float(curve.error[i])) for i in chosen]
    note = Note(Kind.VERDICT, f"{curve.sentence[:1].upper()}{curve.sentence[1:]}")
    facts = {name: getattr(curve, name) for name in ("question", "gamma", "answer", "error", "turning", "threshold")}
    table = Table(f"{title}: {curve.question}", columns, tuple(rows))
    return Page(title, (table,), (note,), (figure_of(curve),), facts | {"sentence": curve.sentence})


def figure_of(curve) -> Figure:
    """Return the figure of a Sensitivity, for any page."""

    caption = f"{curve.question} against the share γ of respondents who ignore the device."
    return Figure(
        "sensitivity", caption, f"Curve: {caption} {curve.sentence}", functools.partial(plots.plot_sensitivity, curve)
    )
