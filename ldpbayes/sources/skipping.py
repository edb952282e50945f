"""Bad rows: refused with their place, or left out, counted by reason and written to a file of their own."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError, DataError, LDPBayesWarning, listed, shown, warn
from ldpbayes.sources.constants import QUARANTINED
from ldpbayes.sources.encode import column
from ldpbayes.sources.parameters import COLUMN
from ldpbayes.sources.stream import Batch, Piece

#: Display: Rows that a sentence names.
NAMED = 10
#: Display: Reasons that are told apart.
REASONS = 20
_OTHERS = "other reasons"
#: Time: Bad values of a batch that are left out one by one; with more of them the batch is halved.
_TRIES = 16
_QUOTED = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
#: What to do about a row that is refused.
_ADVICE = re.compile("; (?:fill them in|say missing=)")
#: What a row holds, where it ends a sentence, and where it stands within one.
_LAST = re.compile(rf"{_QUOTED}|, got .*", re.DOTALL)
_WITHIN = re.compile(rf"\b(report|category|history|user) (?:{_QUOTED}|-?\d+\b)|\b(\w+) -?\d+(?= is outside)")


@dataclass(eq=False)
class Skipped:
    """Rows that were left out. Those of different pieces add up.

    Attributes
    ----------
    most : int
        Rows whose places and texts are kept.
    counts : dict of str to int
        By reason.
    rows : list of (file, line or None, row or None, reason, text)
        The first of them; lines and rows are counted from one.
    read : list of str
        Pieces whose lines that are no rows are counted: a file that several channels read has them once.
    """

    most: int = NAMED
    counts: dict[str, int] = field(default_factory=dict)
    rows: list[Sequence] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, bad_rows: str, quarantine: Any = None) -> Skipped | None:
        """Return where to keep bad rows, None where they are refused."""
        checks.choice(bad_rows, "bad_rows", ("refuse", "skip"))
        if quarantine is not None:
            if bad_rows == "refuse":
                raise ArgumentError("quarantine is for rows that are left out: it goes with bad_rows='skip'.")
            files.check_output(files.as_path(quarantine))
        return None if bad_rows == "refuse" else cls(NAMED if quarantine is None else QUARANTINED)

    def __add__(self, other: Skipped | None) -> Skipped:
        both = Skipped(self.most, dict(self.counts), list(self.rows))
        for reason, n in other.counts.items() if other else ():
            both._count(reason, n)
        both.rows += (other.rows if other else [])[: max(both.most - len(both.rows), 0)]
        return both

    @property
    def total(self) -> int:
        """Number of the rows."""
        return sum(self.counts.values())

    def _count(self, reason: str, n: int) -> str:
        reason = reason if reason in self.counts or len(self.counts) < REASONS else _OTHERS
        self.counts[reason] = self.counts.get(reason, 0) + n
        return reason

    def add(self, bad: Batch, err: DataError) -> None:
        """Add a batch of rows that have the same error."""
        message = _ADVICE.split(_LAST.sub(lambda found: found[1] or "", err.message))[0]
        reason = message if err.field is None else f"field {shown(err.field)}: {message}"
        self._count(reason, bad.n_reports)
        room = max(self.most - len(self.rows), 0)
        source = bad.piece.source if bad.piece else None
        for row, entry in zip(bad.places[:room].tolist(), bad.table.slice(0, room).to_pylist(), strict=True):
            place = None if bad.piece is None else row + 1
            self.rows.append((source or "", None, place, reason, json.dumps(entry, default=_text, ensure_ascii=False)))

    def finish(self, piece: Piece | None) -> None:
        """Add the lines of a piece that is read to its end: those of its bad rows, and those that are no rows at all."""
        if piece is None:
            return
        own = [i for i, (source, line, row, *_) in enumerate(self.rows) if source == piece.source and row and line is None]
        lines = piece.lines([self.rows[i][2] - 1 for i in own])
        for i in own:
            source, _, row, *rest = self.rows[i]
            self.rows[i] = (source, lines.get(row - 1), row, *rest)
        place = piece.identity()
        for line, message, text in () if place in self.read else piece.broken():
            reason = self._count(message, 1)
            if len(self.rows) < self.most:
                self.rows.append((piece.source or "", line, None, reason, json.dumps(text, ensure_ascii=False)))
        self.read.append(place)

    @property
    def sentence(self) -> str:
        """How many rows were left out and why, with the places of the first; empty where there are none.

        It is published with a result, and therefore says nothing of what somebody wrote into a row.
        """
        kinds: dict[str, int] = {}
        for reason, n in self.counts.items():
            kind = _WITHIN.sub(lambda found: found[1] or found[3], reason)
            kinds[kind] = kinds.get(kind, 0) + n
        return self._said(kinds)

    def _said(self, counts: dict[str, int]) -> str:
        if not counts:
            return ""
        reasons = "; ".join(f"{n:,} × {reason}" for reason, n in sorted(counts.items(), key=lambda item: -item[1]))
        places = [
            f"{source + ', ' if source else ''}{f'line {line:,}' if line else f'row {row:,}'}"
            for source, line, row, *_ in self.rows[:NAMED]
            if line or row
        ]
        first = f" The first: {listed(places, most=NAMED)}." if places else ""
        subject = "1 row that holds no report was" if self.total == 1 else f"{self.total:,} rows that hold no report were"
        return f"{subject} left out: {reasons}.{first}"

    def tell(self, quarantine: Any = None) -> str:
        """Warn of the rows in their own words, write them to the quarantine file if named, and return the sentence."""
        self.rows.sort(key=lambda row: (row[0], row[1] or 0, row[2] or 0))
        if quarantine is not None:
            with files.replacing(files.as_path(quarantine)) as path, open(path, "w", encoding="utf-8", newline="") as out:
                files.write_rows(out, [("file", "line", "row", "reason", "text"), *self.rows])
        if self.counts:
            warn(self._said(self.counts), LDPBayesWarning)
        return self.sentence


def _text(value):
    return value.hex() if isinstance(value, bytes) else str(value)


def good_rows(
    batches: Iterable[Batch], work: Callable, skipped: Skipped | None, alike: Mapping[str, Sequence[str]]
) -> Iterator[Any]:
    """Yield what ``work`` returns for batches, or for their good rows.

    ``work`` raises a DataError whose ``line`` is a bad row of the batch that it gets; ``skipped`` takes it, or it is refused
    with its file and place. ``alike`` has the columns on which it hangs whether the entry of a column is good, itself where
    it is not there.
    """
    for piece, own in itertools.groupby(batches, lambda batch: batch.piece):
        for batch in own:
            yield from _good_rows(batch, work, skipped, alike)
        if skipped is not None:
            skipped.finish(piece)


def _good_rows(batch, work, skipped, alike):
    """Yield what ``work`` returns for the good rows of a batch."""
    for _ in range(_TRIES):
        if not len(batch):
            return
        try:
            yield work(batch)
            return
        except DataError as err:
            if skipped is None or err.line is None or (err.field == COLUMN and COLUMN not in alike):
                raise batch.located(err) from None
            names = alike.get(err.field or "", (err.field,))
            bad = _same(batch.table, err.line, [name for name in names if name in batch.table.schema.names])
            skipped.add(batch.take(np.flatnonzero(bad)), err)
            batch = batch.take(np.flatnonzero(~bad))
    for half in np.array_split(np.arange(len(batch)), 2):
        yield from _good_rows(batch.take(half), work, skipped, alike)


def _same(table, row, names):
    """Return which rows have the entries of one of them in some columns; of lists, only that row."""
    import pyarrow as pa
    from pyarrow import compute

    arrays = [column(table, name, missing=True) for name in names]
    arrays = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in arrays]
    same = np.full(table.num_rows, bool(arrays) and not any(pa.types.is_nested(array.type) for array in arrays))
    for array in arrays if same.any() else ():
        equal = compute.equal(array, array[row]).fill_null(False) if array[row].is_valid else array.is_null()
        same &= equal.to_numpy(zero_copy_only=False)
    same[row] = True
    return same
