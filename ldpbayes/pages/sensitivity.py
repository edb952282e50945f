"""The page, or the section of another one, of a sensitivity curve."""

import functools

import numpy as np

from ldpbayes import plots
from ldpbayes.pages.page import Figure, Kind, Note, Page
from ldpbayes.pages.prose import split
from ldpbayes.pages.tables import Rows, filled

#: Rows of the table: some of the curve's points.
ROWS = 11


def of_sensitivity(curve, *, title: str = "Sensitivity to respondents who ignore the device") -> Page:
    """Return the Page of a Sensitivity."""
    chosen = np.unique(np.linspace(0, curve.sizes["gamma"] - 1, min(ROWS, curve.sizes["gamma"])).astype(int))
    rows = Rows(curve, "gamma", at=chosen)
    columns = [
        rows.number("gamma", curve.attrs.get("symbol", "γ"), ".3f"),
        rows.number("answer", "share among compliers"),
        rows.number("error", "s.e.", priority=1),
    ]
    summary, rest = split(f"{curve.sentence[:1].upper()}{curve.sentence[1:]}")
    notes = (Note(Kind.VERDICT, rest),) if rest else ()
    facts = dict(curve.attrs) | {name: curve[name].values for name in ("gamma", "answer", "error")}
    return Page(title, (filled(f"{title}: {curve.question}", columns),), notes, (figure_of(curve),), facts, summary)


def figure_of(curve) -> Figure:
    """Return the figure of a Sensitivity, for any page."""

    caption = f"{curve.question} against {curve.attrs.get('share', 'the share γ of respondents who ignore the device')}."
    return Figure(
        "sensitivity", caption, f"Curve: {caption} {curve.sentence}", functools.partial(plots.plot_sensitivity, curve)
    )
