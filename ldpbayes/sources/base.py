"""The interface of a source, the readers by suffix, and the one way from the cells of a source to tallies."""

import abc
import importlib
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections import Tally
from ldpbayes.collections.tally import places
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError


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
    """

    columns: tuple
    counts: np.ndarray
    keys: list | None = None
    line: Callable[[int], int | None] = lambda i: None


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


#: Readers of tables by the suffix of the file; filled where the package is imported.
READERS: dict[str, Callable[[pathlib.Path], AbstractSource]] = {}


def open_table(path) -> AbstractSource:
    """Return the source that reads a file, by its suffix; files of other suffixes are read as CSV."""
    path = pathlib.Path(path)
    return READERS.get(path.suffix.lower(), READERS[".csv"])(path)


def read_tallies(
    source, protocol, report, *, count=None, where=None, by=(), categories=None, name="all"
) -> dict[tuple, Tally]:
    """Return the tallies of a source: the only way from cells to reports.

    Parameters
    ----------
    source : AbstractSource
    protocol : AbstractProtocol
    report : sequence of str
        One column per field of the protocol's reports.
    count, where, by
        As in ``AbstractSource.distinct``.
    categories : sequence of str, optional
        Labels; "0", "1", … where the caller does not name them.
    name : str
        Of the channel.

    Returns
    -------
    dict
        From the key of a cell, a tuple with an entry per column of ``by``, to its Tally; the only key is () without ``by``.

    Raises
    ------
    DataError
        Naming line and column where the source knows them.
    """
    found = _parsed(source, protocol, report, count, where, by, categories, name)

    def joined(parts):
        reports, counts = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        return Tally.trusted(protocol, reports, counts, name, categories)

    return {key: joined(parts) for key, parts in found.items()}


def read_samples(
    source, protocol, report, sample, *, count=None, where=None, by=(), categories=None, name="all"
) -> dict[tuple, tuple[Tally, np.ndarray, np.ndarray, list]]:
    """Return, like read_tallies, the tallies of respondents with weights, strata or clusters.

    Parameters
    ----------
    source, protocol, report, count, where, by, categories, name
        As in ``read_tallies``.
    sample : SampleColumns

    Returns
    -------
    dict
        From the key of a cell to (tally, places of the reports in it, counts, keys): what ``SampleColumns.survey`` takes.
    """
    found = _parsed(source, protocol, report, count, where, (*by, *sample.names), categories, name)
    cells: dict[tuple, list] = {}
    for key, parts in found.items():
        cells.setdefault(key[: len(by)], []).extend((*part, key[len(by) :]) for part in parts)
    out = {}
    for key, parts in cells.items():
        reports, counts = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        tally = Tally.trusted(protocol, reports, counts, name, categories)
        out[key] = tally, places(tally, reports), counts, [part[2] for part in parts for _ in part[1]]
    return out


def _parsed(source, protocol, report, count, where, by, categories, name):
    """Return {key: [(canonical reports, counts), …]} of a source."""
    labels = [str(i) for i in range(protocol.n_categories)] if categories is None else list(categories)
    columns = dict(zip(protocol.report_fields, report, strict=True))
    found: dict[tuple, list] = {}
    total = 0
    for groups in source.distinct(report, count=count, where=where, by=by, labelled=categories is not None):
        total += int(groups.counts.sum())
        if total > MAX_COUNT:
            raise DataError(f"channel {name!r} has more than 10**12 reports")
        try:
            reports = protocol.parse_reports(groups.columns, labels)
        except DataError as err:
            line = None if err.line is None else groups.line(err.line)
            raise DataError(err.message, line=line, field=columns.get(err.field, report[0])) from None
        if groups.keys is None:
            found.setdefault((), []).append((reports, groups.counts))
            continue
        for key, here in _positions(groups.keys):
            found.setdefault(key, []).append((reports[here], groups.counts[here]))
    return found


def _positions(keys):
    """Yield (key, positions of its entries)."""
    codes = {}
    code = np.fromiter((codes.setdefault(key, len(codes)) for key in keys), dtype=np.int64, count=len(keys))
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code, minlength=len(codes)))
    yield from zip(codes, np.split(order, ends[:-1]), strict=True)


def sorted_keys(keys):
    """Return keys in order: whole numbers by their value, also where they are texts, before all else by its text."""

    def rank(key):
        return [(0, int(text), "") if is_whole(text) else (1, 0, text) for text in map(str, key)]

    return sorted(keys, key=rank)


def is_whole(text):
    """Return whether a text is a whole number of at most 18 digits."""
    digits = text.removeprefix("-")
    return len(digits) < 19 and digits.isascii() and digits.isdecimal()


def optional(module, purpose):
    """Import an optional package, or raise the ArgumentError that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as err:
        package = module.split(".")[0]
        raise ArgumentError(
            f"{purpose} needs the package {package}, which is not installed: pip install 'ldpbayes[frames]'."
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
