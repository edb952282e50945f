"""The tally of a stream: how often each report came, by channel and cell."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ldpbayes.arrays import groups_of
from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections.survey import SampleColumns, check_weights, weight_of
from ldpbayes.errors import ArgumentError, DataError, LDPBayesWarning, shown, warn
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.base import check_column, check_total
from ldpbayes.sources.encode import Format, counts_of, encoded_key, matching
from ldpbayes.sources.keys import check_alike, check_kinds, kinds_of
from ldpbayes.sources.missing import Missing, added, answers
from ldpbayes.sources.skipping import Skipped, good_rows
from ldpbayes.sources.stream import Source

#: The name of the column of counts in the files that ``write`` makes.
COUNT = "count"


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
    bitorder : {"big", "little"}
        See ``encode.Format``.
    """

    protocols: tuple[AbstractProtocol, ...]
    names: tuple[str, ...]
    categories: tuple[str, ...] | None = None
    level: tuple[str, dict[str, int]] | None = None
    positions: bool = False
    bitorder: str = "big"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the categories, or those that the protocol has itself."""
        return self.categories or self.protocols[0].default_labels

    @property
    def columns(self) -> list[str]:
        """The column that says which protocol made a report, where there is one."""
        return [] if self.level is None else [self.level[0]]

    def places(self, table) -> np.ndarray:
        """Return which of the protocols made the report of each row of a table."""
        if self.level is None:
            return np.zeros(table.num_rows, dtype=np.int64)
        name, levels = self.level
        codes, values = encoded_key(table, name)
        of = np.array([levels.get(str(value).strip(), -1) for value in values], dtype=np.int64)[codes]
        if (of < 0).any():  # no level at all, or a file that changed since its column was looked at
            row = int(np.argmax(of < 0))
            raise DataError(f"has the unexpected entry {shown(values[codes[row]])}", line=row, field=name)
        return of


@dataclass(frozen=True, eq=False)
class TableColumns:
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
    user : str, optional
        The column of users.
    sample : SampleColumns
    skipped : Skipped, optional
        Takes bad rows, which are refused without it.
    missing : Missing, optional
        Counts missing answers, which are bad rows without it.
    """

    report: Sequence[str] | None = None
    count: str | None = None
    where: Mapping[str, object] = field(default_factory=dict)
    by: Sequence[str] = ()
    user: str | None = None
    sample: SampleColumns = SampleColumns()  # noqa: RUF009  # it cannot be changed
    skipped: Skipped | None = None
    missing: Missing | None = None


def read_parts(source: Source, channels: Channels, columns: TableColumns, by: Sequence[str]) -> list[dict[tuple, list]]:
    """Return the canonical reports of a source by channel and key in ``by``: lists of (reports, counts), not merged.

    Raises
    ------
    DataError
        Naming line and column where the source knows them.

    Warns
    -----
    LDPBayesWarning
        Where a column has the name that counts have in files of ``write``, and nothing is said of it.
    """
    fold, n_read = _Fold(channels, columns, by), 0
    if columns.count is None and COUNT in source.names() and COUNT not in fold.used:
        warn(
            f"The column {COUNT!r} was not read: each row is one report. Where it holds numbers of reports, name it as the "
            "column of counts.",
            LDPBayesWarning,
        )
    cells_of: list[dict[tuple, list]] = [{} for _ in channels.names]
    totals = [0] * len(cells_of)
    whole = [*fold.fields, *channels.columns]  # rows that no condition matches are of another channel
    alike = {name: [*(whole if name in fold.fields else [name]), *columns.where] for name in fold.used}
    batches = source.condensed(fold.used, strict=not columns.where and len(cells_of) == 1)
    for many, absent, parts in good_rows(batches, fold.parts, columns.skipped, alike):
        n_read += many
        if columns.missing is not None:
            columns.missing.counts = added(columns.missing.counts, absent)
        for place, keys, group, reports, counts in parts:
            totals[place] += int(counts.sum())
            if totals[place] > MAX_COUNT:
                raise DataError(f"channel {channels.names[place]!r} has more than 10**12 reports")
            for i, rows in groups_of(group):
                cells_of[place].setdefault(keys[i], []).append((reports[rows], counts[rows]))
    check_total(n_read, sum(int(part[1].sum()) for cells in cells_of for parts in cells.values() for part in parts))
    for cells in cells_of:
        check_kinds(kinds_of(cells), by)
    check_alike(
        {key for cells in cells_of for key in cells}, [None if name == columns.sample.weights else name for name in by]
    )
    return cells_of


class _Fold:
    """From a batch to the canonical reports of each channel and cell."""

    def __init__(self, channels, columns, by):
        self.channels, self.columns, self.by = channels, columns, by
        self.formats = []
        for protocol in channels.protocols:
            report = protocol.report_fields if columns.report is None else tuple(columns.report)
            named = channels.categories is not None
            self.formats.append(Format(protocol, report, channels.labels, named, channels.positions, channels.bitorder))
        if columns.missing is not None:
            columns.missing.check(channels.labels)
        self.fields = list(dict.fromkeys(name for form in self.formats for name in form.report))
        for name in by:
            if name == columns.count or name in self.fields:
                raise ArgumentError(f"a grouping column must not hold the reports or their counts, got {shown(name)}.")
        count = [columns.count] if columns.count else []
        self.used = list(dict.fromkeys([*self.fields, *columns.where, *channels.columns, *by, *count]))

    def parts(self, batch):
        """Return (reports that were read, missing answers by cell, parts by channel) of a batch."""
        columns, names = self.columns, batch.names
        absent: dict[tuple, int] = {}
        parts: list[tuple] = []
        for name in columns.where:
            check_column(names, name)
        with batch.part(matching(batch.table, columns.where)) as matched:
            if not len(matched):
                return 0, absent, parts
            if columns.count:
                check_column(names, columns.count)
                counts = counts_of(matched.table, columns.count)
                matched = replace(matched, weights=counts if matched.weights is None else counts * matched.weights)
            every = [(0, None)] if self.channels.level is None else groups_of(self.channels.places(matched.table))
            for place, rows in every:
                form = self.formats[place]
                for name in (*form.report, *self.by):
                    check_column(names, name)
                with matched.part(rows) as own, answers(columns.missing, own, form) as (answered, lost):
                    absent = added(absent, lost)
                    if len(answered):
                        _check_weights(answered.table, columns.sample.weights)
                        parts.append((place, *form.distinct(answered.table, self.by, answered.weights)))
        return matched.n_reports - sum(absent.values()), absent, parts


def _check_weights(table, name):
    """Refuse a weight that is no number above 0, with its row; there may be no such column."""
    codes, values = ([], []) if name is None else encoded_key(table, name)
    with contextlib.suppress(DataError):
        check_weights([value for value in values if value is not None])
        return
    seen, first = np.unique(codes, return_index=True)
    for i in np.argsort(first):
        try:
            weight_of(values[seen[i]], name)
        except DataError as err:
            raise DataError(err.message, line=int(first[i]), field=name) from None
