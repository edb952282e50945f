"""The page of an answer: a table of numbers by their dimensions, and the sentence that says what they mean."""

from typing import Any

import numpy as np

from ldpbayes.pages.page import TOP, Column, Kind, Note, Page
from ldpbayes.pages.tables import Rows, filled, interval_of


def of_dataset(result: Any, *, title: str = "", top: int = TOP) -> Page:
    """Return the Page of an answer: a row for each combination of its dimensions, a column for each of its numbers."""
    title = title or result.attrs.get("question") or "Answer"
    rows = Rows(result, *result.sizes)
    pairs = {"lower", "upper"} <= set(result.data_vars)
    keys = [name for name in result.coords if result[name].dims]
    names = [name for name in result.data_vars if not (pairs and name in ("lower", "upper"))]
    columns = [(Column(str(name), str(name), "text"), _values(rows, result[name])) for name in keys]
    for name in names:
        column = Column(str(name), str(name).replace("_", " "), "text" if _is_text(result[name]) else "number", ".4g")
        columns.append((column, _values(rows, result[name])))
    if pairs:
        heading = interval_of(float(result.attrs["ci_prob"])) if "ci_prob" in result.attrs else "interval"
        columns.append((Column("interval", heading, "interval", ".4g"), rows.pairs(result["lower"], result["upper"])))
    table = filled(title, columns)
    told = {str(name): value for name, value in result.attrs.items() if name not in ("ci_prob", "question", "sentence")}
    told |= {str(name): result[name].item() for name in result.coords if not result[name].dims}
    notes = tuple(Note(Kind.METHOD, f"{name.replace('_', ' ')}: {value}") for name, value in told.items() if value != "")
    if "sentence" in result.attrs:
        notes = (Note(Kind.VERDICT, result.attrs["sentence"]), *notes)
    return Page(title, (table.first(top),), notes, facts={**dict(result.attrs), "rows": table.records()})


def _is_text(values) -> bool:
    return not (np.issubdtype(values.dtype, np.number) or values.dtype == bool)


def _values(rows, values) -> list:
    """Return the entries of a variable, one a row: numbers as they are, all else as text."""
    return list(map(str, rows(values))) if _is_text(values) else rows.numbers(values)
