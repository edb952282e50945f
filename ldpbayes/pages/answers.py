"""The pages of answers: tables of numbers by their dimensions, and single numbers with a sentence."""

import itertools
from typing import Any

import numpy as np

from ldpbayes.pages.page import Column, Kind, Note, Page, Table

#: Rows of the table on a terminal; pages and files have all of them.
TOP = 60


def of_dataset(found: Any, *, title: str = "Answer", top: int = TOP) -> Page:
    """Return the Page of an answer: a row for each combination of its dimensions, a column for each of its numbers.

    Parameters
    ----------
    found : xarray.Dataset
        From a function of ldpbayes.answers, or from a method of PrivateGroups. Variables ``lower`` and ``upper`` are shown
        as intervals.
    title : str
    top : int
        Number of rows of the table.

    Returns
    -------
    Page
    """
    dims = [str(dim) for dim in found.sizes]
    keys = [name for name in found.coords if found[name].dims]
    pairs = {"lower", "upper"} <= set(found.data_vars)
    names = [name for name in found.data_vars if not (pairs and name in ("lower", "upper"))]
    columns = [Column(str(name), str(name), "text") for name in keys]
    columns += [Column(str(name), str(name).replace("_", " "), _kind(found[name]), ".4g") for name in names]
    percent = f"{100 * float(found.attrs['ci_prob']):g} % " if "ci_prob" in found.attrs else ""
    columns += [Column("interval", f"{percent}interval", "interval", ".4g")] if pairs else []
    rows = []
    for place in itertools.product(*(range(found.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        row = [_value(found[name], at) for name in keys] + [_value(found[name], at) for name in names]
        rows.append((*row, (_value(found["lower"], at), _value(found["upper"], at))) if pairs else tuple(row))
    whole = Table(title, tuple(columns), tuple(rows))
    note = f"The first {top} of {len(rows):,} rows are shown." if len(rows) > top else ""
    table = Table(title, whole.columns, whole.rows[:top], note, whole=None if len(rows) <= top else lambda: whole)
    told = {str(name): value for name, value in found.attrs.items() if name != "ci_prob"}
    told |= {str(name): found[name].item() for name in found.coords if not found[name].dims}
    notes = tuple(Note(Kind.METHOD, f"{name.replace('_', ' ')}: {value}") for name, value in told.items())
    plain = [dict(zip((column.key for column in columns), row, strict=True)) for row in rows]
    return Page(title, (table,), notes, facts={**dict(found.attrs), "rows": plain})


def of_dict(found: Any, *, title: str = "Answer") -> Page:
    """Return the Page of an answer that is a dict: a row for each number, a note for each sentence.

    Parameters
    ----------
    found : dict
        Such as ``worth``, ``decision`` and ``independence`` return.
    title : str

    Returns
    -------
    Page
    """
    rows = tuple((name.replace("_", " "), float(value)) for name, value in found.items() if not isinstance(value, str))
    columns = (Column("quantity", "quantity", "text"), Column("value", "value", spec=".6g"))
    notes = [Note(Kind.VERDICT, text) for text in found.values() if isinstance(text, str) and text.endswith(".")]
    return Page(title, (Table(title, columns, rows),) if rows else (), tuple(notes), facts=dict(found))


def of_fakes(found: Any, *, title: str = "Fabricated reports needed") -> Page:
    """Return the Page of Fakes.

    Parameters
    ----------
    found : Fakes
        From answers.fakes_needed.
    title : str

    Returns
    -------
    Page
    """
    columns = (
        Column("category", "category", "text"),
        Column("added", "reports to add", spec=",.0f"),
        Column("replaced", "reports to replace", spec=",.1f"),
        Column("share", "share of all reports then", spec=".4g"),
    )
    row = (found.category, found.added, found.replaced, found.share)
    facts = dict(zip((column.key for column in columns), row, strict=True)) | {"sentence": found.sentence}
    return Page(title, (Table(title, columns, (row,)),), (Note(Kind.WORTH, found.sentence),), facts=facts)


def _kind(values) -> str:
    return "number" if np.issubdtype(values.dtype, np.number) or values.dtype == bool else "text"


def _value(values, at):
    """Return the entry of a variable at a place, of the dimensions that it has."""
    value = values.isel({dim: i for dim, i in at.items() if dim in values.dims}).values.item()
    return value if isinstance(value, str) or _kind(values) == "number" else str(value)
