"""The page of an answer: a table of numbers by their dimensions, and the sentence that says what they mean."""

from typing import Any

import numpy as np

from ldpbayes.pages.page import TOP, Column, Kind, Note, Page
from ldpbayes.pages.tables import Rows, filled, interval_of


def of_dataset(found: Any, *, title: str = "", top: int = TOP) -> Page:
    """Return the Page of an answer: a row for each combination of its dimensions, a column for each of its numbers."""
    title = title or found.attrs.get("question") or "Answer"
    rows = Rows(found, *found.sizes)
    pairs = {"lower", "upper"} <= set(found.data_vars)
    keys = [name for name in found.coords if found[name].dims]
    names = [name for name in found.data_vars if not (pairs and name in ("lower", "upper"))]
    columns = [(Column(str(name), str(name), "text"), _values(rows, found[name])) for name in keys]
    for name in names:
        column = Column(str(name), str(name).replace("_", " "), "text" if _is_text(found[name]) else "number", ".4g")
        columns.append((column, _values(rows, found[name])))
    if pairs:
        heading = interval_of(float(found.attrs["ci_prob"])) if "ci_prob" in found.attrs else "interval"
        columns.append((Column("interval", heading, "interval", ".4g"), rows.pairs(found["lower"], found["upper"])))
    table = filled(title, columns)
    told = {str(name): value for name, value in found.attrs.items() if name not in ("ci_prob", "question", "sentence")}
    told |= {str(name): found[name].item() for name in found.coords if not found[name].dims}
    notes = tuple(Note(Kind.METHOD, f"{name.replace('_', ' ')}: {value}") for name, value in told.items() if value != "")
    if "sentence" in found.attrs:
        notes = (Note(Kind.VERDICT, found.attrs["sentence"]), *notes)
    return Page(title, (table.first(top),), notes, facts={**dict(found.attrs), "rows": table.records()})


def _is_text(values) -> bool:
    return not (np.issubdtype(values.dtype, np.number) or values.dtype == bool)


def _values(rows, values) -> list:
    """Return the entries of a variable, one a row: numbers as they are, all else as text."""
    return list(map(str, rows(values))) if _is_text(values) else rows.numbers(values)
