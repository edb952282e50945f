"""One stream of rows: whatever holds reports yields Arrow tables, each with the origin of its rows.

Readers, scans and records share this interface::

    source = open_source(data)      # files, Arrow, data frames, DuckDB, Spark
    source.names()                  # its columns, known before a row is read
    source.metadata()               # key-value metadata of its files
    source.pieces(columns)          # parts that any worker reads by itself
    source.batches(columns)         # all rows in order, as Batch(table, piece, first)

``encode.Format`` turns a table into reports, and a batch says in which file and row a report stood. What is made of the
stream is a fold: ``tally.read_parts`` (counts of reports), ``scanning.fold.Fold`` (sums that add up) and the records of
private groups. A table in memory or behind an engine is a Source, files are a FileSource, and a format of files is a
subclass of AbstractFile in a file of this package.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import functools
import importlib
import itertools
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ldpbayes.errors import DataError
from ldpbayes.sources.base import check_column, check_total, foreign
from ldpbayes.sources.constants import BATCH
from ldpbayes.sources.encode import listed_texts, with_folders

#: Name of the column of counts where a source has grouped its rows.
COUNT = "count of reports"


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that follow each other in a source, or some of these.

    Attributes
    ----------
    table : pyarrow.Table
    piece : Piece or None
        What they belong to; None for rows that an engine has grouped, which have no place.
    first : int
        Rows of the file, or of what has no files, before the first of those that followed each other.
    weights : (m,) int64 array or None
        How many reports each row stands for; one by default.
    rows : (m,) int64 array or None
        The places of these rows among those that followed each other; None where they are all of them.
    """

    table: Any
    piece: Piece | None = None
    first: int = 0
    weights: np.ndarray | None = None
    rows: np.ndarray | None = None

    def __len__(self) -> int:
        return self.table.num_rows

    @property
    def names(self) -> Sequence[str]:
        """All columns of the file, for messages."""
        return (self.piece.names if self.piece else None) or self.table.schema.names

    @property
    def n_reports(self) -> int:
        """Number of reports that the rows stand for."""
        return len(self) if self.weights is None else int(self.weights.sum())

    @property
    def places(self) -> np.ndarray:
        """The rows of the file, or of what has no files, that these are, counted from zero."""
        return self.first + (np.arange(len(self)) if self.rows is None else self.rows)

    def take(self, rows: np.ndarray) -> Batch:
        """Return the batch of some rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(
            self, table=self.table.take(rows), weights=weights, rows=rows if self.rows is None else self.rows[rows]
        )

    @contextlib.contextmanager
    def part(self, rows: np.ndarray | None) -> Iterator[Batch]:
        """Yield the batch of some rows, None for all; the ``line`` of an error inside becomes that row of this batch."""
        try:
            yield self if rows is None else self.take(rows)
        except DataError as err:
            if rows is None or err.line is None:
                raise
            raise DataError(err.message, line=int(rows[err.line]), field=err.field) from None

    def located(self, err: DataError) -> DataError:
        """Return an error whose ``line`` is a row of this batch with its file and line or row."""
        source = err.source or (self.piece.source if self.piece else None)
        if err.line is None or self.piece is None:
            return DataError(err.message, source=source, field=err.field)
        row = int(self.places[err.line])
        line = self.piece.lines([row]).get(row)
        message = err.message if line else f"row {row + 1:,}: {err.message}"
        return DataError(message, source=source, line=line, field=err.field)


@dataclass(frozen=True)
class Piece:
    """A part of a source that is read by itself, and that can be sent to another process: here rows in memory.

    Attributes
    ----------
    source : str or None
        The file, for messages.
    first_row : int
        Rows of the file, or of what has no files, before this piece.
    n_rows : int or None
        Where it is known.
    table : pyarrow.Table, optional
        The rows, where no file holds them.
    names : tuple of str, optional
        All columns of the file.
    """

    source: str | None = None
    first_row: int = 0
    n_rows: int | None = None
    table: Any = None
    names: tuple[str, ...] | None = None

    def tables(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow tables of these columns, in order."""
        yield self.table

    def batches(self, columns: Sequence[str], least: int = 0) -> Iterator[Batch]:
        """Yield the rows of the piece with their origin, in batches of at least so many rows; columns may be missing.

        Raises
        ------
        DataError
            Where they are not as many as the piece has.
        """
        import pyarrow as pa

        first = self.first_row
        present = [name for name in columns if self.names is None or name in self.names]
        for tables in runs(self.tables(present), least):
            yield Batch(pa.concat_tables(tables), self, first)
            first += sum(map(len, tables))
        if self.n_rows is not None:
            check_total(self.n_rows, first - self.first_row, self.source)

    def lines(self, rows: Sequence[int]) -> dict[int, int]:
        """Return the lines on which rows of the file end, counted from one; none in formats without lines."""
        places, every = set(rows), itertools.islice(self.every_line(), max(rows, default=-1) + 1)
        return {row: line for row, line in enumerate(every) if row in places}

    def every_line(self) -> Iterable[int]:
        """Return the line on which each row of the file ends, in formats of lines."""
        return ()

    def broken(self) -> Iterable[tuple[int | None, str, str]]:
        """Return (line, what is wrong, text) of what was no row at all, once all rows have been read."""
        return ()

    def identity(self) -> str:
        """Return what tells this piece from others of its source, also in another run."""
        return f"{self.origin()}:{self.first_row}"

    def origin(self) -> str:
        """Return what the rows of this piece are counted in: the file."""
        return os.path.abspath(self.source) if self.source else ""


@dataclass(frozen=True)
class AbstractFile(Piece, abc.ABC):
    """A file of rows in one format, or a part of one.

    Attributes
    ----------
    folders : tuple of (str, text, int or None)
        Columns that the names of the file's folders hold.
    lenient : bool
        Whether what is no row is left out, and ``broken`` then tells of it; otherwise it is refused.
    is_broken : bool
        Whether something was left out.
    """

    #: Suffixes of the files that the class reads.
    suffixes: ClassVar[tuple[str, ...]]
    #: The line on which the names of columns stand, in formats of lines.
    header: ClassVar[int | None] = None

    folders: tuple[tuple[str, str | int | None], ...] = ()
    lenient: bool = False
    is_broken: bool = field(default=False, compare=False)

    @abc.abstractmethod
    def schema(self) -> Any:
        """Return the Arrow schema of the file."""

    def pieces(self) -> Iterable[AbstractFile]:
        """Return the parts of the file, in order; by default it has one."""
        return [self]

    def tables(self, columns):
        folders = dict(self.folders)
        for table in self.rows([name for name in dict.fromkeys(columns) if name not in folders]):
            yield with_folders(table, self.folders)

    @abc.abstractmethod
    def rows(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow tables of columns that the file itself holds."""

    def slowly(self) -> Iterable[tuple[int, str, str]]:
        """Return (line on which it ends, text, what is wrong or "") of all that may be a row, in formats of lines."""
        return ()

    def leave_out(self, *_: Any) -> str:
        """Note that something is left out."""
        object.__setattr__(self, "is_broken", True)
        return "skip"

    def every_line(self):
        return (line for line, _, problem in self.slowly() if not problem)

    def broken(self):
        return [(line, problem, text) for line, text, problem in (self.slowly() if self.is_broken else ()) if problem]


class Source:
    """A table of reports: of Arrow, a data frame, or rows that an engine holds.

    Parameters
    ----------
    names : sequence of str
        Of its columns.
    read : callable
        From columns, and the most rows that are wanted or None, to an iterable of Arrow's record batches.
    count : callable, optional
        From columns to an Arrow table of their distinct rows with the column ``COUNT`` of how often each came; None where
        the engine cannot group by these columns.
    metadata : sequence of mapping of str to str
        Of every file, or of the table.
    n_rows : int, optional
        Where it is known.

    Attributes
    ----------
    lenient : bool
        Whether a reader that leaves out bad rows asks, so that lines of a file that are no rows are left out too.
    of_texts : bool
        Whether all that the rows hold are texts, as in CSV files.
    copies : {"refuse", "add"}
        What becomes of files with the same bytes.
    count_column : str or None
        The column of counts.
    paths : sequence of str
        The files; none where the rows are in no files.
    """

    lenient: bool = False
    of_texts: bool = False
    copies: str = "add"
    count_column: str | None = None
    paths: Any = ()
    n_rows: int | None = None
    _count: Callable | None = None

    def __init__(self, names, read, count=None, metadata=(), n_rows=None) -> None:
        self._names, self._read, self._count, self.n_rows = list(names), read, count, n_rows
        self._metadata = list(metadata)

    def names(self) -> Sequence[str]:
        """Return the names of the columns."""
        return self._names

    def metadata(self) -> Sequence[Mapping[str, str]]:
        """Return the key-value metadata of every file, where the format has any."""
        return self._metadata

    def marks(self) -> list[str] | None:
        """Return what changes when the rows do; None where ``Piece.identity`` does not name the same rows in another run."""
        return None

    def origins(self, columns: Sequence[str]) -> frozenset[str]:
        """Return what tells the files from others, also on another machine; none of rows that no files hold."""
        return frozenset()

    def pieces(self, columns: Sequence[str], strict: bool = True, most: int | None = None) -> Iterable[Piece]:
        """Return the pieces, in order.

        Parameters
        ----------
        columns : sequence of str
            Those that will be read.
        strict : bool
            Whether every file must have every column; otherwise a table may lack one.
        most : int, optional
            Rows that are wanted, for engines that need not read the others.

        Raises
        ------
        DataError
            Where the source lacks one of them, or its parts do not agree.
        """
        return joined(self._read(self._checked([name for name in columns if strict or name in self.names()]), most))

    def batches(self, columns: Sequence[str], strict: bool = True, most: int | None = None) -> Iterator[Batch]:
        """Yield all rows, in order; parameters as for ``pieces``."""
        for piece in self.pieces(columns, strict, most):
            yield from piece.batches(columns)

    def grouped(self, columns: Sequence[str]) -> Batch | None:
        """Return the distinct rows of columns as a batch with weights, None where the source has no GROUP BY."""
        table = self._count(self._checked(columns)) if self._count and columns else None
        return None if table is None else Batch(table, weights=table.column(COUNT).to_numpy().astype(np.int64))

    def condensed(self, columns: Sequence[str], strict: bool = True) -> Iterable[Batch]:
        """Return all rows, grouped by the source itself where it can; parameters as for ``batches``."""
        batch = self.grouped(columns) if strict or set(columns) <= set(self.names()) else None
        if batch is None:
            return self.batches(columns, strict)
        return [batch] if batch.table.num_rows else []

    def total(self, partial: Callable[[Piece], Any], columns: Sequence[str]) -> Any | None:
        """Return the sum of ``partial`` over all rows where the source computes that itself, else None.

        Engines that send the work to where the rows are do so here; ``partial`` can be pickled, and also takes an Arrow
        record batch.
        """
        return None

    def first(self, name: str) -> list:
        """Return the first entry of a column as a list, which is empty where there is none."""
        for batch in self.batches([name], False, 1) if name in self.names() else ():
            if len(batch) and name in batch.table.schema.names:
                try:
                    return listed_texts(batch.table.column(name).slice(0, 1), name)
                except DataError as err:
                    raise batch.located(err) from err
        return []

    def _checked(self, columns):
        for name in columns:
            check_column(self._names, name, "the frame ")
        return list(dict.fromkeys(columns))


def joined(batches: Iterable[Any], source: str | None = None) -> Iterator[Piece]:
    """Yield the pieces of record batches; small ones are joined."""
    import pyarrow as pa

    first = 0
    with foreign("the Arrow source cannot be read"):
        for rows in runs(batches, BATCH // 2):
            size = sum(map(len, rows))
            if size:
                yield Piece(source, first, size, pa.Table.from_batches(rows))
            first += size


def runs(items: Iterable[Any], least: float, size: Callable[[Any], int] = len) -> Iterator[list]:
    """Yield lists of items that follow each other, by default tables, each of as few as have ``least`` rows together."""
    waiting, total = [], 0
    for item in items:
        waiting.append(item)
        total += size(item)
        if total >= least:
            yield waiting
            waiting, total = [], 0
    if waiting:
        yield waiting


@functools.cache
def formats() -> dict[str, type[AbstractFile]]:
    """Return the formats of files by suffix, those of every file of this package."""
    package = importlib.import_module("ldpbayes.sources")
    for module in pkgutil.iter_modules(package.__path__, "ldpbayes.sources."):
        importlib.import_module(module.name)
    return {suffix: cls for cls in AbstractFile.__subclasses__() for suffix in cls.suffixes}


def in_order(work: Callable, items: Iterable, jobs: int) -> Iterator:
    """Yield (item, work(item)) in the order of the items, with up to ``jobs`` threads at work."""
    if jobs == 1:
        yield from ((item, work(item)) for item in items)
        return
    waiting: collections.deque = collections.deque()
    with ThreadPoolExecutor(jobs) as pool:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > jobs:
                item, future = waiting.popleft()
                yield item, future.result()
        for item, future in waiting:
            yield item, future.result()
