"""The page of an answer: a table of numbers by their dimensions, and the sentence that says what they mean."""

import math
from typing import Any

import numpy as np

from ldpbayes import rooms
from ldpbayes.pages.page import Column, Kind, Note, Page
from ldpbayes.pages.prose import sourced
from ldpbayes.pages.tables import TableRows, decimals, filled, interval_of, odds_spec, of_asked

#: What the page says elsewhere than in a note.
_SAID = {"call", "ci_prob", "doubt", "question", "sentence", "source", "n_reports", "random_seed"}
#: What says how well the other numbers are known.
ERRORS = ("mcse", "lower_error", "upper_error", "probability_mcse", "pseudo")

#: Headings that are no names of numbers.
_HEADINGS = {"probability_positive": "P(> 0)"}


def of_dataset(result: Any, *, title: str = "") -> Page:
    """Return the Page of an answer: a row for each combination of its dimensions, a column for each of its numbers."""
    figures = tuple(_figures(result))
    result = result.drop_dims(["chain", "draw"], errors="ignore")
    title = title or result.attrs.get("question") or "Answer"
    table = _table(result, title)
    told = {str(name): value for name, value in result.attrs.items() if name not in _SAID}
    told |= {str(name): result[name].item() for name in result.coords if not result[name].dims}
    kinds = dict.fromkeys(("unseen", "beyond", "clusters"), Kind.WARNING)
    notes = tuple(
        Note(kinds.get(name, Kind.METHOD), value if name in kinds else f"{name.replace('_', ' ')}: {value}")
        for name, value in told.items()
        if value != ""
    )
    facts = {**dict(result.attrs), "rows": table.complete().records()}
    said = result.attrs.get("sentence") or " ".join([_sentence(result, title, table), result.attrs.get("doubt", "")]).strip()
    summary = sourced(said, result.attrs)
    seed = {"Random seed": str(result.attrs["random_seed"])} if "random_seed" in result.attrs else {}
    return Page(title, (table,), notes, figures, facts=facts, summary=summary, again=seed)


def _sentence(result, title, table):
    """Return the row of a table whose number is largest in words: the number with its interval, and which one it is.

    Of groups the first is the whole population, and its rows alone are looked at.
    """
    if not table.rows:
        return ""
    keys = {str(name) for name in result.coords if result[name].dims}
    numbers = [i for i, c in enumerate(table.columns) if c.kind == "number" and c.key not in {*keys, *ERRORS, "sd"}]
    group = next((i for i, c in enumerate(table.columns) if c.key == "group" and "group" in result.dims), None)
    asked = [row for row in table.rows if group is None or row[group] == table.rows[0][group]]
    sizes = [_size(row[numbers[0]]) if numbers else -1.0 for row in asked]
    cells = list(zip(table.columns, table.texts()[sizes.index(max(sizes))], strict=True))
    told = [(column, text) for column, text in cells if column.key not in keys and text]
    intervals = [f"{column.full_heading} {text}" for column, text in told if column.kind == "interval"]
    middle = [text for column, text in told if column.kind == "number" and column.key not in (*ERRORS, "sd")]
    if not middle and not intervals:
        return ""
    number = f"{middle[0]} ({intervals[0]})" if middle and intervals else (middle or intervals)[0]
    which = ", ".join(f"{column.heading} {text}" for column, text in cells if column.key in keys)
    of = "largest" if max(sizes) >= 0 else "first"
    more = f", the {of} of {len(asked):,} rows" if len(asked) > 1 else ""
    return f"{title}: {number}{more}{f' ({which})' if which else ''}."


def _size(value):
    """Return the absolute value of a number, and less than any where there is none."""
    return abs(value) if isinstance(value, float) and not math.isnan(value) else -1.0


def _table(result, title):
    """Return the table of an answer: of two shares, one of which follows from the other, the one that is asked for."""
    rows = TableRows(result, *result.sizes)
    keys = [name for name in result.coords if result[name].dims]
    columns = [_key(rows, str(name), result[name]) for name in keys]
    spec = _spec(result)
    heading = interval_of(float(result.attrs["ci_prob"])) if "ci_prob" in result.attrs else "interval"
    ends = {f"{start}lower": f"{start}upper" for start in ("", "confidence_") if f"{start}upper" in result.data_vars}
    for name in sorted(map(str, result.data_vars), key=lambda name: (name in ERRORS, name == "sd")):
        if name in ends:
            full = heading.replace("interval", "confidence") if name.startswith("confidence") else heading
            column = Column(name.replace("lower", "interval"), full, "interval", spec)
            columns.append((column, rows.pairs(result[name], result[ends[name]])))
        elif name not in ends.values():
            error = 2 if name in ERRORS else 0  # the first to go where the screen is narrow
            kind = "text" if _is_text(result[name]) else "number"
            digits = ".2g" if name in ERRORS else spec if name in ("mean", "sd", "odds_ratio") else ".4g"
            named = _HEADINGS.get(name, name.replace("_", " "))
            columns.append((Column(name, named, kind, digits, priority=error), _values(rows, result[name])))
    whole = filled(title, columns)
    return of_asked(whole, "category") if _complementary(result) else whole


def _key(rows, name, values):
    """Return the column of a coordinate: covariates that are fractions have sixteen digits, of which people read six."""
    if values.dtype.kind == "f":
        return Column(name, name, spec=".6g", align="left"), rows.numbers(values)
    return rows.label(name)


def _spec(result):
    """Return how means, sds and ends are printed: small numbers with equal decimals, by their sds, odds by their ends."""
    if {"odds_ratio", "lower", "upper"} <= set(result.data_vars):
        return odds_spec(result)
    if not {"mean", "sd"} <= set(result.data_vars) or not (np.abs(result["mean"]).max() < 10):
        return ".4g"
    return f".{decimals(result['sd'].values)}f"


def _complementary(result):
    """Return whether the answer is about two shares, or differences of them, one of which follows from the other."""
    if "mean" not in result.data_vars or result.sizes.get("category", 0) != 2 or "category" not in result["mean"].dims:
        return False
    total = result["mean"].sum("category", skipna=False).values
    return bool(np.isclose(total, 0, atol=1e-9).all() or np.isclose(total, 1, atol=1e-9).all())


def _figures(result):
    """Yield the figures that rooms have for an answer."""
    figures = (rooms.function(name)(result) for name in rooms.brought("ANSWERS").values())
    yield from (figure for figure in figures if figure is not None)


def _is_text(values) -> bool:
    return not (np.issubdtype(values.dtype, np.number) or values.dtype == bool)


def _values(rows, values) -> list:
    """Return the entries of a variable, one a row: numbers as they are, all else as text."""
    return list(map(str, rows(values))) if _is_text(values) else rows.numbers(values)
