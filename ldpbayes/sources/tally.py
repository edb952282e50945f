"""The tally of a stream: how often each report came, by channel and cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections import Tally
from ldpbayes.collections.tally import places
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.base import check_column, check_total
from ldpbayes.sources.encode import Format, by_group, counts_of, encoded_key, matching
from ldpbayes.sources.keys import check_kinds, kinds_of
from ldpbayes.sources.missing import Missing, added
from ldpbayes.sources.skipping import Skipped, good_rows
from ldpbayes.sources.stream import Source


@dataclass(frozen=True, eq=False)
class Channels:
    """The protocols that made the reports of a table.

    Attributes
    ----------
    protocols : tuple of AbstractProtocol
        Distinct, over equally many categories.
    names : tuple of str
    categories : tuple of str or None
        Labels, where caller or data state them.
    level : (str, dict) or None
        The column that says which protocol made a report, and from its texts to places in ``protocols``; None where there
        is one protocol.
    positions : bool
        Whether whole numbers are reports as the protocol makes them: where the data state the protocol.
    """

    protocols: tuple[AbstractProtocol, ...]
    names: tuple[str, ...]
    categories: tuple[str, ...] | None = None
    level: tuple[str, dict[str, int]] | None = None
    positions: bool = False


@dataclass(frozen=True, eq=False)
class Columns:
    """What the columns of a table hold, and which of its rows are read.

    Attributes
    ----------
    report : sequence of str, optional
        One column per field of the protocols' reports; by default the protocols' own names.
    count : str, optional
        The column of counts; without it every row is one report.
    where : mapping
        Column = value; only rows that match all of them are read.
    by : sequence of str
        Grouping columns.
    labelled : bool, optional
        Whether the caller named the categories; by default where they are named.
    skipped : Skipped, optional
        Takes bad rows, which are refused without it.
    missing : Missing, optional
        Counts missing answers, which are bad rows without it.
    """

    report: Sequence[str] | None = None
    count: str | None = None
    where: Mapping[str, object] = field(default_factory=dict)
    by: Sequence[str] = ()
    labelled: bool | None = None
    skipped: Skipped | None = None
    missing: Missing | None = None


def tallies(
    channels: Channels, found: Sequence[Mapping[tuple, list]], n_by: int, sampled: bool
) -> list[dict[tuple, tuple[Tally, np.ndarray | None, np.ndarray | None, list]]]:
    """Return the tallies of the parts that ``read_parts`` found, a dict for each channel.

    Parameters
    ----------
    channels : Channels
    found : sequence of mapping
    n_by : int
        How many of the grouping columns are those of cells; the others say how the respondents were sampled.
    sampled : bool
        Whether places are wanted.

    Returns
    -------
    list of dict
        From the key of a cell to (tally, places of the reports in it, counts, entries of the other columns), which is what
        ``SampleColumns.survey`` takes.
    """
    out: list[dict] = []
    for protocol, name, held in zip(channels.protocols, channels.names, found, strict=True):
        cells: dict[tuple, list] = {}
        for key, parts in held.items():
            cells.setdefault(key[:n_by], []).extend((*part, key[n_by:]) for part in parts)
        out.append({})
        for key, parts in cells.items():
            reports, counts = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
            tally = Tally.trusted(protocol, reports, counts, name, channels.categories)
            entries = [entry for part in parts for entry in [part[2]] * len(part[1])] if sampled else []
            where_from = (places(tally.reports, reports), counts) if sampled else (None, None)
            out[-1][key] = tally, *where_from, entries
    return out


def read_parts(source: Source, channels: Channels, columns: Columns) -> list[dict[tuple, list]]:
    """Return the canonical reports of a source by channel and key: lists of (reports, counts), not merged.

    Parameters
    ----------
    source : Source
    channels : Channels
    columns : Columns

    Raises
    ------
    DataError
        Naming line and column where the source knows them.
    """
    fold = _Fold(channels, columns)
    fold.read(source)
    check_total(fold.n_read, sum(int(part[1].sum()) for cells in fold.found for parts in cells.values() for part in parts))
    for cells in fold.found:
        check_kinds(kinds_of(cells), columns.by)
    return fold.found


class _Fold:
    """The canonical reports of a source as they are read, by channel and key."""

    def __init__(self, channels, columns):
        self.channels, self.columns = channels, columns
        labels = channels.categories or [str(i) for i in range(channels.protocols[0].n_categories)]
        labelled = channels.categories is not None if columns.labelled is None else columns.labelled
        self.formats = []
        for protocol in channels.protocols:
            report = protocol.report_fields if columns.report is None else tuple(columns.report)
            self.formats.append(Format(protocol, report, list(labels), labelled, channels.positions))
        if columns.missing is not None:
            columns.missing.check(labels)
        self.fields = list(dict.fromkeys(name for one in self.formats for name in one.report))
        for name in columns.by:
            if name == columns.count or name in self.fields:
                raise ArgumentError(f"a grouping column must not hold the reports or their counts, got {shown(name)}.")
        self.level = [channels.level[0]] if channels.level else []
        self.found: list[dict[tuple, list]] = [{} for _ in channels.names]
        self.totals = [0] * len(channels.names)
        self.n_read = 0

    def read(self, source):
        """Read all rows of a source."""
        own, last = self.columns, None
        used = [*self.fields, *own.where, *self.level, *own.by, *([own.count] if own.count else [])]
        alike = {name: [*self.fields, *self.level] for name in self.fields}
        for batch in source.condensed(list(dict.fromkeys(used)), strict=not own.where and len(self.formats) == 1):
            if own.skipped is not None and batch.piece is not last:
                own.skipped.finish(last)
                last = batch.piece

            def work(table, weights, rows, batch=batch):
                return self._parts(batch, table, weights)

            for n_read, absent, parts in good_rows(batch, work, own.skipped, alike):
                self.n_read += n_read
                if own.missing is not None:
                    own.missing.counts = added(own.missing.counts, absent)
                for place, keys, group, reports, counts in parts:
                    self.totals[place] += int(counts.sum())
                    if self.totals[place] > MAX_COUNT:
                        problem = f"channel {self.channels.names[place]!r} has more than 10**12 reports"
                        raise batch.located(DataError(problem))
                    for key, held in zip(keys, by_group(group, len(keys)), strict=True):
                        self.found[place].setdefault(key, []).append((reports[held], counts[held]))
        if own.skipped is not None:
            own.skipped.finish(last)

    def _parts(self, batch, table, weights):
        """Return (reports that were read, missing answers by cell, parts by channel) of a table of rows of a batch."""
        rows, own, held = None, self.columns, batch.names or table.schema.names
        absent: dict[tuple, int] = {}
        for name in own.where:
            check_column(held, name)
        if own.where:
            rows = matching(table, own.where)
        table, weights = _taken(table, weights, rows)
        if not table.num_rows:
            return 0, absent, []
        try:
            if own.count:
                check_column(held, own.count)
                counts = counts_of(table, own.count)
                weights = counts if weights is None else counts * weights
            parts = []
            for place, here in self._places(table):
                for name in (*self.formats[place].report, *own.by):
                    check_column(held, name)
                part, many = _taken(table, weights, here)
                given = None
                try:
                    if own.missing is not None:
                        part, many, given, lost = own.missing.split(part, self.formats[place], many)
                        absent = added(absent, lost)
                    if part.num_rows:
                        parts.append((place, *self.formats[place].distinct(part, own.by, many)))
                except DataError as err:
                    raise moved(moved(err, given), here) from None
        except DataError as err:
            raise moved(err, rows) from None
        n_rows = table.num_rows if weights is None else int(weights.sum())
        return n_rows - sum(absent.values()), absent, parts

    def _places(self, table):
        """Yield (place of a channel, its rows or None for all)."""
        if self.channels.level is None:
            yield 0, None
            return
        name, known = self.channels.level
        codes, values = encoded_key(table, name)
        of = np.array([known.get(str(value).strip(), -1) for value in values], dtype=np.int64)[codes]
        if (of < 0).any():  # no level at all, or a file that changed since its column was looked at
            row = int(np.argmax(of < 0))
            raise DataError(f"has the unexpected entry {shown(values[codes[row]])}", line=row, field=name)
        every = np.flatnonzero(np.bincount(of)).tolist()
        for place in every:
            yield place, None if len(every) == 1 else np.flatnonzero(of == place)


def _taken(table, weights, rows):
    """Return some rows of a table and their weights; None for all."""
    return (table, weights) if rows is None else (table.take(rows), None if weights is None else weights[rows])


def moved(err, rows):
    """Return an error whose line is a place among rows, None for all, as one of the table that they were taken from."""
    return err if rows is None or err.line is None else DataError(err.message, line=int(rows[err.line]), field=err.field)
