"""The interface of a source, the readers by suffix, and the one way from the cells of a source to tallies."""

import abc
import decimal
import importlib
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import files
from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections import Tally
from ldpbayes.collections.tally import places
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, listed, shown
from ldpbayes.protocols.columns import rows_of, sure


@dataclass(frozen=True, eq=False)
class Groups:
    """Distinct cells of a table, or of a part of it, with how often they came.

    Attributes
    ----------
    columns : tuple
        One column per column that was asked for, as ``parse_reports`` takes them: texts, or a class of
        ``ldpbayes.protocols.columns``.
    counts : (m,) int64 array
        Their sum stays below 2^63.
    keys : list of tuple, or None
        The cell of the grouping columns behind each entry; None without them.
    line : callable
        From the position of an entry to the line of the file where it came first, or to None where there are no lines.
    row : callable
        The same for tables that have rows and no lines, counted from one.
    source : str or None
        The file, where the source has several.
    """

    columns: tuple
    counts: np.ndarray
    keys: list | None = None
    line: Callable[[int], int | None] = lambda i: None
    row: Callable[[int], int | None] = lambda i: None
    source: str | None = None


class AbstractSource(abc.ABC):
    """A table of reports. A reader of files is a subclass, in a file of this package, that states its suffixes."""

    #: Suffixes of the files that ``cls(path)`` reads; none for sources that are no files.
    suffixes: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def distinct(
        self,
        columns: Sequence[str],
        *,
        count: str | None = None,
        where: Mapping[str, object] | None = None,
        by: Sequence[str] = (),
        labelled: bool = True,
    ) -> Iterator[Groups]:
        """Yield the distinct cells of columns, grouped as far as that saves work.

        A table may come in several parts, and a cell may come again in a later one.

        Parameters
        ----------
        columns : sequence of str
            The columns of one report.
        count : str, optional
            The column of counts; without it every row is one report.
        where : mapping, optional
            Column = value; only rows that match all of them are read.
        by : sequence of str
            Grouping columns.
        labelled : bool
            Whether the caller named the categories; see ``columns.Integers``.

        Raises
        ------
        DataError
            On a missing column, a missing cell, or a count that is not a whole number from 0 to 10^12.
        """

    def names(self) -> Sequence[str]:
        """Return the names of the columns as far as they are known without reading the rows; none by default."""
        return ()

    def metadata(self) -> Sequence[Mapping[str, str]]:
        """Return the key-value metadata of every file, where the format has any; none by default."""
        return ()


#: Readers of tables by the suffix of the file; filled where the package is imported.
READERS: dict[str, Callable[[pathlib.Path], AbstractSource]] = {}


def open_table(path) -> AbstractSource:
    """Return the source that reads a file, by its suffix; others are read as CSV, and folders as those of Parquet files."""
    path = files.as_path(path)
    return READERS.get(".parquet" if os.path.isdir(path) else path.suffix.lower(), READERS[".csv"])(path)


def read_channels(
    source,
    protocols,
    report=None,
    *,
    level=None,
    count=None,
    where=None,
    by=(),
    sample=None,
    categories=None,
    labelled=None,
    positions=False,
    names=("all",),
) -> list[dict[tuple, tuple[Tally, np.ndarray, np.ndarray, list]]]:
    """Return the tallies of a source, a dict for each protocol: the only way from cells to reports.

    Parameters
    ----------
    source : AbstractSource
    protocols : sequence of AbstractProtocol
    report : sequence of str, optional
        One column per field of the protocols' reports; by default the protocols' own names.
    level : (str, mapping), optional
        The column that says which protocol made a report, and from its texts to the protocol's place.
    count, where, by
        As in ``AbstractSource.distinct``.
    sample : sequence of str, optional
        Columns of weights, strata and clusters: none where the population alone is known. By default no places are given.
    categories : sequence of str, optional
        Labels; "0", "1", … where they are not named.
    labelled : bool, optional
        Whether the caller named them; by default where they are named.
    positions : bool
        Whether whole numbers are known to be reports as the protocol makes them.
    names : sequence of str
        Of the channels.

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
    settings = {"level": level, "count": count, "where": where, "by": (*by, *(sample or ())), "categories": categories}
    settings |= {"labelled": labelled, "positions": positions, "names": names}
    out: list[dict] = []
    for protocol, name, found in zip(protocols, names, read_parts(source, protocols, report, **settings), strict=True):
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
    source,
    protocols,
    report=None,
    *,
    level=None,
    count=None,
    where=None,
    by=(),
    categories=None,
    labelled=None,
    positions=False,
    names=("all",),
) -> list[dict[tuple, list]]:
    """Return the canonical reports of a source by channel and key: lists of (reports, counts), not merged.

    Parameters as for ``read_channels``.
    """
    taken = {*(field for one in protocols for field in one.report_fields)} if report is None else set(report)
    for name in by:
        if name in taken or name == count:
            raise ArgumentError(f"a grouping column must not hold the reports or their counts, got {shown(name)}.")
    labels = [str(i) for i in range(protocols[0].n_categories)] if categories is None else list(categories)
    labelled = categories is not None if labelled is None else labelled
    read = _Reading(source, labels, labelled and not positions, positions, count, where or {}, by, names)
    fields = {protocol.report_fields for protocol in protocols}
    if report is None and len(fields) > 1:  # protocols with different columns
        for i, protocol in enumerate(protocols):
            own = {text: 0 for text, place in level[1].items() if place == i}
            for text in own:
                read.take([protocol], list(protocol.report_fields), None, {level[0]: text}, i)
    else:
        read.take(protocols, list(protocols[0].report_fields) if report is None else report, level)
    check_total(read.n_read, sum(int(part[1].sum()) for cells in read.found for parts in cells.values() for part in parts))
    return read.found


class _Reading:
    """The canonical reports of a source as they are read, by channel and key."""

    def __init__(self, source, labels, labelled, positions, count, where, by, names):
        self.source, self.labels, self.labelled, self.positions = source, labels, labelled, positions
        self.count, self.where, self.by, self.names = count, where, by, names
        self.found: list[dict[tuple, list]] = [{} for _ in names]
        self.totals = [0] * len(names)
        self.n_read = 0

    def take(self, protocols, report, level=None, where=None, first=0):
        """Read the rows that match ``where`` on top of the common condition; channels are counted from ``first``."""
        by = self.by if level is None else (level[0], *self.by)
        condition = {**self.where, **(where or {})}
        for groups in self.source.distinct(report, count=self.count, where=condition, by=by, labelled=self.labelled):
            self.n_read += int(groups.counts.sum())
            columns = [sure(column) for column in groups.columns] if self.positions else groups.columns
            if level is None:
                self._add(first, protocols[0], report, groups, columns, groups.keys, None)
                continue
            of = np.array([_place(level, key[0]) for key in groups.keys], dtype=np.int64)
            for place in np.unique(of).tolist():
                here = np.flatnonzero(of == place)
                keys = [groups.keys[i][1:] for i in here] if self.by else None
                own = [rows_of(column, here) for column in columns]
                self._add(first + place, protocols[place], report, groups, own, keys, here)

    def _add(self, channel, protocol, report, groups, columns, keys, here):
        """Parse rows of one channel: all of a group, or those at some positions."""
        counts = groups.counts if here is None else groups.counts[here]
        self.totals[channel] += int(counts.sum())
        if self.totals[channel] > MAX_COUNT:
            raise DataError(f"channel {self.names[channel]!r} has more than 10**12 reports")
        try:
            reports = protocol.parse_reports(columns, self.labels)
        except DataError as err:
            fields = dict(zip(protocol.report_fields, report, strict=True))
            err = DataError(err.message, line=err.line, field=fields.get(err.field, report[0]))
            raise located(err, groups, here) from None
        if keys is None:
            self.found[channel].setdefault((), []).append((reports, counts))
            return
        for key, at in _positions(keys):
            self.found[channel].setdefault(key, []).append((reports[at], counts[at]))


def located(err: DataError, groups: Groups, here: np.ndarray | None = None) -> DataError:
    """Return the error of an entry of groups, or of those at ``here``, with the file and the line or row where it came."""
    line = row = None
    if err.line is not None:
        position = err.line if here is None else int(here[err.line])
        line, row = groups.line(position), groups.row(position)
    message = err.message if row is None else f"row {row:,}: {err.message}"
    return DataError(message, source=groups.source, line=line, field=err.field)


def check_total(n_read: int, n_out: int, source: object = None) -> None:
    """Refuse to go on where reports were lost or doubled between their reading and the result.

    Parameters
    ----------
    n_read, n_out : int
        Reports as they were read, and those in the result.
    source : path-like, optional

    Raises
    ------
    DataError
        Where the two differ.
    """
    if n_read != n_out:
        raise DataError(
            f"{n_read:,} reports were read and {n_out:,} came out: the data changed while they were read, or ldpbayes is at "
            "fault; please report it",
            source=source,
        )


def _place(level, cell):
    """Return the place of the protocol that a cell names."""
    column, known = level
    place = known.get(str(cell))
    if place is None:  # a file that changed since its column was looked at
        raise DataError(f"has the unexpected entry {shown(cell)}", field=column)
    return place


def _positions(keys):
    """Yield (key, positions of its entries)."""
    codes = {}
    code = np.fromiter((codes.setdefault(key, len(codes)) for key in keys), dtype=np.int64, count=len(keys))
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code, minlength=len(codes)))
    yield from zip(codes, np.split(order, ends[:-1]), strict=True)


def sorted_keys(keys):
    """Return keys in order: numbers by their value, whole ones also where they are texts, before all else by its text."""

    def rank(part):
        text = str(part)
        if isinstance(part, (float, decimal.Decimal)):
            return 0, part, text
        return (0, int(text), text) if is_whole(text) else (1, 0, text)

    return sorted(keys, key=lambda key: [rank(part) for part in key])


def check_column(names, name, subject="", use="", **at):
    """Refuse a table that lacks a column, or has two of its name.

    Parameters
    ----------
    names : iterable of str
        Those of the table.
    name : str
    subject, use : str
        What the sentence begins with, and what the column is for.
    **at
        Where: fields of DataError.
    """
    held = list(names)
    if held.count(name) != 1:
        problem = "has two columns" if name in held else "has no column"
        raise DataError(f"{subject}{problem} {shown(name)}{use}; it has {listed(held) or 'none'}", **at)


def is_whole(text):
    """Return whether a text is a whole number of at most 18 digits."""
    digits = text.removeprefix("-")
    return len(digits) < 19 and digits.isascii() and digits.isdecimal()


def optional(module, purpose, extra="frames"):
    """Import an optional package, or raise the ArgumentError that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as err:
        package = module.split(".")[0]
        raise ArgumentError(
            f"{purpose} needs the package {package}, which is not installed: pip install 'ldpbayes[{extra}]'."
        ) from err


class foreign:
    """Context manager that turns errors of another library into a DataError in one sentence."""

    def __init__(self, message, source=None):
        self.message, self.source = message, source

    def __enter__(self):
        return self

    def __exit__(self, kind, err, trace):
        if kind is None or not issubclass(kind, Exception) or issubclass(kind, (LDPBayesError, MemoryError)):
            return False
        if isinstance(err, OSError) and err.strerror:
            raise DataError(f"cannot be read ({err.strerror})", source=self.source) from err
        first = next((line.strip() for line in str(err).splitlines() if line.strip()), kind.__name__)
        raise DataError(f"{self.message}: {first[:200]}", source=self.source) from err
