"""The pages of answers: tables of numbers by their dimensions, and single numbers with a sentence."""

from typing import Any

import numpy as np

from ldpbayes.pages.page import TOP, Column, Kind, Note, Page, Table
from ldpbayes.pages.tables import Rows, filled, interval_of


def of_dataset(found: Any, *, title: str = "Answer", top: int = TOP) -> Page:
    """Return the Page of an answer: a row for each combination of its dimensions, a column for each of its numbers."""
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
    told = {str(name): value for name, value in found.attrs.items() if name != "ci_prob"}
    told |= {str(name): found[name].item() for name in found.coords if not found[name].dims}
    notes = tuple(Note(Kind.METHOD, f"{name.replace('_', ' ')}: {value}") for name, value in told.items())
    return Page(title, (table.first(top),), notes, facts={**dict(found.attrs), "rows": table.records()})


def of_dict(found: Any, *, title: str = "Answer") -> Page:
    """Return the Page of an answer that is a dict: a row for each number, a note for each sentence."""
    rows = tuple((name.replace("_", " "), float(value)) for name, value in found.items() if not isinstance(value, str))
    columns = (Column("quantity", "quantity", "text"), Column("value", "value", spec=".6g"))
    notes = [Note(Kind.VERDICT, text) for text in found.values() if isinstance(text, str) and text.endswith(".")]
    return Page(title, (Table(title, columns, rows),) if rows else (), tuple(notes), facts=dict(found))


def of_fakes(found: Any, *, title: str = "Fabricated reports needed") -> Page:
    """Return the Page of Fakes."""
    columns = (
        Column("category", "category", "text"),
        Column("added", "reports to add", spec=",.0f"),
        Column("replaced", "reports to replace", spec=",.1f"),
        Column("share", "share of all reports then", spec=".4g"),
    )
    row = (found.category, found.added, found.replaced, found.share)
    facts = dict(zip((column.key for column in columns), row, strict=True)) | {"sentence": found.sentence}
    return Page(title, (Table(title, columns, (row,)),), (Note(Kind.WORTH, found.sentence),), facts=facts)


def _is_text(values) -> bool:
    return not (np.issubdtype(values.dtype, np.number) or values.dtype == bool)


def _values(rows, values) -> list:
    """Return the entries of a variable, one a row: numbers as they are, all else as text."""
    return list(map(str, rows(values))) if _is_text(values) else rows.numbers(values)
