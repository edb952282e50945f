"""The tally of a stream: how often each report came, by channel and cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections import Tally
from ldpbayes.collections.tally import places
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.base import check_column, check_total
from ldpbayes.sources.encode import Format, column, counts_of, encoded_key, matching
from ldpbayes.sources.keys import check_kinds, kinds_of
from ldpbayes.sources.stream import COUNT, AbstractSource, Batch


def read_channels(
    source: AbstractSource,
    protocols: Sequence[AbstractProtocol],
    report: Sequence[str] | None = None,
    *,
    by: Sequence[str] = (),
    sample: Sequence[str] | None = None,
    categories: tuple[str, ...] | None = None,
    names: Sequence[str] = ("all",),
    **settings: Any,
) -> list[dict[tuple, tuple[Tally, np.ndarray | None, np.ndarray | None, list]]]:
    """Return the tallies of a source, a dict for each protocol: the only way from cells to reports.

    Parameters
    ----------
    source : AbstractSource
    protocols : sequence of AbstractProtocol
    report : sequence of str, optional
    by : sequence of str
        Grouping columns.
    sample : sequence of str, optional
        Columns of weights, strata and clusters: none where the population alone is known. By default no places are given.
    categories : sequence of str, optional
        Labels; "0", "1", … where they are not named.
    names : sequence of str
        Of the channels.
    **settings
        As for ``read_parts``.

    Returns
    -------
    list of dict
        From the key of a cell to (tally, places of the reports in it, counts, cells of ``sample``), which is what
        ``SampleColumns.survey`` takes.

    Raises
    ------
    DataError
        Naming line and column where the source knows them.
    """
    every = (*by, *(sample or ()))
    read = read_parts(source, protocols, report, by=every, categories=categories, names=names, **settings)
    out: list[dict] = []
    for protocol, name, found in zip(protocols, names, read, strict=True):
        cells: dict[tuple, list] = {}
        for key, parts in found.items():
            cells.setdefault(key[: len(by)], []).extend((*part, key[len(by) :]) for part in parts)
        out.append({})
        for key, parts in cells.items():
            reports, counts = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
            tally = Tally.trusted(protocol, reports, counts, name, categories)
            where_from = (
                (None, None, []) if sample is None else (places(tally, reports), counts, [p[2] for p in parts for _ in p[1]])
            )
            out[-1][key] = tally, *where_from
            check_total(sum(int(part[1].sum()) for part in parts), tally.n_reports)
    return out


def read_parts(
    source: AbstractSource,
    protocols: Sequence[AbstractProtocol],
    report: Sequence[str] | None = None,
    *,
    level: tuple[str, Mapping[str, int]] | None = None,
    count: str | None = None,
    where: Mapping[str, object] | None = None,
    by: Sequence[str] = (),
    categories: Sequence[str] | None = None,
    labelled: bool | None = None,
    positions: bool = False,
    names: Sequence[str] = ("all",),
) -> list[dict[tuple, list]]:
    """Return the canonical reports of a source by channel and key: lists of (reports, counts), not merged.

    Parameters
    ----------
    source : AbstractSource
    protocols : sequence of AbstractProtocol
    report : sequence of str, optional
        One column per field of the protocols' reports; by default the protocols' own names.
    level : (str, mapping), optional
        The column that says which protocol made a report, and from its texts to the protocol's place.
    count : str, optional
        The column of counts; without it every row is one report.
    where : mapping, optional
        Column = value; only rows that match all of them are read.
    by : sequence of str
        Grouping columns.
    categories : sequence of str, optional
        Labels; "0", "1", … where they are not named.
    labelled : bool, optional
        Whether the caller named them; by default where they are named.
    positions : bool
        Whether whole numbers are known to be reports as the protocol makes them.
    names : sequence of str
        Of the channels.
    """
    fold = _Fold(protocols, report, level, count, where or {}, by, names)
    labels = [str(i) for i in range(protocols[0].n_categories)] if categories is None else list(categories)
    fold.read(source, labels, categories is not None if labelled is None else labelled, positions)
    check_total(fold.n_read, sum(int(part[1].sum()) for cells in fold.found for parts in cells.values() for part in parts))
    for cells in fold.found:
        check_kinds(kinds_of(cells), by)
    return fold.found


class _Fold:
    """The canonical reports of a source as they are read, by channel and key."""

    def __init__(self, protocols, report, level, count, where, by, names):
        self.protocols, self.level, self.count, self.where, self.by, self.names = protocols, level, count, where, by, names
        self.fields = [one.report_fields if report is None else tuple(report) for one in protocols]
        for name in by:
            if name == count or any(name in fields for fields in self.fields):
                raise ArgumentError(f"a grouping column must not hold the reports or their counts, got {shown(name)}.")
        self.found: list[dict[tuple, list]] = [{} for _ in names]
        self.totals = [0] * len(names)
        self.n_read = 0

    def read(self, source, labels, labelled, positions):
        """Read all rows of a source."""
        self.formats = [
            Format(protocol, fields, labels, labelled, positions)
            for protocol, fields in zip(self.protocols, self.fields, strict=True)
        ]
        used = [*self.where, *([self.level[0]] if self.level else []), *self.by, *([self.count] if self.count else [])]
        used = list(dict.fromkeys([*(name for fields in self.fields for name in fields), *used]))
        for batch, weights in weighted(source, used, strict=not self.where and len(self.protocols) == 1):
            self._add(batch, weights)

    def _add(self, batch, weights):
        table, rows = batch.table, None
        try:
            if self.where:
                rows = matching(self._with(batch, self.where), self.where)
            if rows is not None:
                table, weights = table.take(rows), None if weights is None else weights[rows]
            if not table.num_rows:
                return
            if self.count:
                own = counts_of(self._with(batch, [self.count], table), self.count)
                weights = own if weights is None else own * weights
            self.n_read += table.num_rows if weights is None else int(weights.sum())
            for place, here in self._places(table):
                part, own = table, weights
                if here is not None:
                    part, own = table.take(here), None if weights is None else weights[here]
                try:
                    self._tally(place, self._with(batch, [*self.fields[place], *self.by], part), own)
                except DataError as err:
                    line = err.line if err.line is None or here is None else int(here[err.line])
                    raise DataError(err.message, source=err.source, line=line, field=err.field) from None
        except DataError as err:
            raise batch.located(err, rows) from None

    def _with(self, batch, columns, table=None):
        """Return a table, by default that of a batch, which must have these columns."""
        for name in columns:
            check_column(batch.names or batch.table.schema.names, name)
        return batch.table if table is None else table

    def _places(self, table):
        """Yield (place of a channel, its rows or None for all)."""
        if self.level is None:
            yield 0, None
            return
        name, known = self.level
        codes, values = encoded_key(table, name)
        present = np.unique(codes)
        of = np.zeros(len(values), dtype=np.int64)
        for code in present.tolist():
            place = known.get(str(values[code]).strip())
            if place is None:  # a file that changed since its column was looked at
                raise DataError(f"has the unexpected entry {shown(values[code])}", field=name)
            of[code] = place
        every = np.unique(of[present]).tolist()
        for place in every:
            yield place, None if len(every) == 1 else np.flatnonzero(of[codes] == place)

    def _tally(self, place, table, weights):
        keys, group, reports, counts = self.formats[place].distinct(table, self.by, weights)
        self.totals[place] += int(counts.sum())
        if self.totals[place] > MAX_COUNT:
            raise DataError(f"channel {self.names[place]!r} has more than 10**12 reports")
        for key, rows in zip(keys, _by_group(group, len(keys)), strict=True):
            self.found[place].setdefault(key, []).append((reports[rows], counts[rows]))


def _by_group(group, n):
    """Return the positions of the entries of each of n groups."""
    if n == 1:
        return [slice(None)]
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group, minlength=n))[:-1])


def weighted(source: AbstractSource, columns: Sequence[str], strict: bool = True) -> Iterator[tuple[Batch, Any]]:
    """Yield (batch, how many rows each of its rows stands for or None), grouped by the source itself where it can.

    Parameters
    ----------
    source : AbstractSource
    columns : sequence of str
    strict : bool
        See ``AbstractSource.batches``.
    """
    table = source.counted(columns) if strict or set(columns) <= set(source.names()) else None
    if table is None:
        for batch in source.batches(columns, strict):
            yield batch, None
    elif table.num_rows:
        yield Batch(table), column(table, COUNT).to_numpy().astype(np.int64)
