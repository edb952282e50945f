"""Answers that are missing: who was asked and gave none is counted by cell, not dropped in silence."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.protocols.labels import Places
from ldpbayes.sources.base import arrow_kind
from ldpbayes.sources.encode import Format, cells, column, encoded_key, texts
from ldpbayes.sources.stream import Batch


@dataclass(eq=False)
class Missing:
    """Which answers are missing, and how many.

    Attributes
    ----------
    labels : tuple of str
        Entries that say so, beside None, NaN and, but for sets, empty texts.
    by, sample : tuple of str
        Grouping columns of the cells, and the columns that say how people were sampled.
    counts : dict
        By the key of a cell, its parts as texts, and the entries of the columns of the sample.
    """

    labels: tuple[str, ...]
    by: tuple[str, ...] = ()
    sample: tuple[str, ...] = ()
    counts: dict[tuple, int] = field(default_factory=dict)

    @classmethod
    def of(cls, missing: Any, by: Sequence[str], sample: Sequence[str] = ()) -> Missing | None:
        """Return where to count missing answers, None where they are refused as bad rows are."""
        if missing is None:
            return None
        rule = "a label or several"
        given = [missing] if isinstance(missing, str) or _is_number(missing) else checks.entries(missing, "missing", rule)
        for label in filter(_is_number, given):
            checks.real(label, "missing", rule)
        labels = checks.labels([_text(label) if _is_number(label) else label for label in given], "missing", rule)
        return cls(tuple(label.strip() for label in labels), tuple(by), tuple(sample))

    def check(self, categories: Sequence[str]) -> None:
        """Refuse a label that is a category."""
        found = Places(categories)
        both = [label for label in self.labels if found.place(label, positions=False) is not None]
        if both:
            raise ArgumentError(f"missing must be no category, got {shown(both[0])}, which is one.")


@contextlib.contextmanager
def answers(missing: Missing | None, batch: Batch, form: Format) -> Iterator[tuple[Batch, dict]]:
    """Yield the rows of a batch that hold an answer, as ``Batch.part`` does, and the number of the others by cell.

    All columns of a report are missing where no answer was given; the empty text is a set without members. Whole numbers
    that their frame holds as floats, for the sake of NaN, are whole numbers again. Without ``missing`` all rows are taken.
    """
    rows = np.empty(0, dtype=np.int64)
    if missing is not None:
        supports = form.protocol.supports()
        labels = {*missing.labels, *([""] if supports is None or supports.hashed is not None else [])}
        absent = np.logical_and.reduce([_absent(batch.table, name, labels) for name in form.report])
        rows = np.flatnonzero(absent)
    if missing is None or not len(rows):
        yield batch, {}
        return
    sample = [encoded_key(batch.table, name, missing=True) for name in missing.sample]
    keys, _, place = cells([encoded_key(batch.table, name) for name in missing.by] + sample, len(batch))
    many = None if batch.weights is None else batch.weights[rows]
    sizes = np.bincount(place[rows], many, len(keys)).astype(np.int64).tolist()
    with batch.part(np.flatnonzero(~absent)) as present:
        table = present.table
        for name in form.report:
            table = _whole(table, name, form.labels)
        k = len(missing.by)
        lost = {(*map(str, key[:k]), *key[k:]): n for key, n in zip(keys, sizes, strict=True) if n}
        yield replace(present, table=table), lost


def _absent(table, name, labels):
    """Return which entries of a column of reports are missing; bytes and lists are so where they are None alone."""
    array = column(table, name, missing=True)
    absent = array.is_null().to_numpy(zero_copy_only=False)
    if arrow_kind(array.type) not in ("texts", "whole numbers", "numbers with decimals"):
        return absent
    codes, values = encoded_key(table, name, missing=True)
    blank = "" if texts(table) else None  # what encoded_key has for blanks: of a file of texts they are None too
    keys = [{blank} if key is None else {str(key).strip(), _text(key)} for key in values]
    is_missing = [not key.isdisjoint((None, *labels)) for key in keys]
    return np.array(is_missing or [True])[codes]


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _text(value):
    """Return an entry as text; a whole number has no point, also where its column holds floats for the sake of NaN."""
    return str(int(value)) if _is_number(value) and float(value).is_integer() else str(value).strip()


def _whole(table, name, labels):
    """Return a table one of whose columns holds whole numbers as such, unless labels are numbers with a point."""
    import pyarrow as pa

    array = table.column(name)
    if not pa.types.is_floating(array.type) or any("." in label for label in labels):
        return table
    try:
        return table.set_column(table.schema.get_field_index(name), name, array.cast(pa.int64()))
    except pa.ArrowInvalid:
        return table


def added(one: Mapping, other: Mapping) -> dict:
    """Return the counts of both by key."""
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}


def sentence(missing: Mapping[tuple[str, ...], int], n_reports: int) -> str:
    """Return how many gave no answer, in all and by cell, the most first; empty where everyone gave one."""
    total = sum(missing.values())
    if not total:
        return ""
    asked = total + n_reports
    share = f"{total:,} of {asked:,} who were asked ({100 * total / asked:.3g} %) gave no answer and are left out"
    most = sorted(missing.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{n:,} in {', '.join(key)}" for key, n in most if key and n]
    return f"{share}{': ' if named else ''}{listed(named)}."
