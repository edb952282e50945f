"""Tables of reports as a scan reads them: in pieces, each of which any worker can read by itself.

A kind of source is a subclass of AbstractTable in a file of this package that recognizes its sources.
"""

from __future__ import annotations

import abc
import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from ldpbayes.errors import ArgumentError
from ldpbayes.sources.scanning.partials import Partial

#: Rows of one batch.
BATCH = 2**20


class AbstractPiece(abc.ABC):
    """A part of a table that is read by itself, and that can be sent to another process.

    Attributes
    ----------
    source : str or None
        The file, for messages.
    first_row : int
        Rows of the source before this piece.
    n_rows : int or None
        Where it is known.
    """

    source: str | None
    first_row: int
    n_rows: int | None

    @abc.abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow tables of these columns, in order."""

    def identity(self) -> str:
        """Return what tells this piece from others of its table, also in another run."""
        return f"{self.origin()}:{self.first_row}"

    def origin(self) -> str:
        """Return what the rows of this piece are counted in: the file."""
        return self.source or ""


class AbstractTable(abc.ABC):
    """A source of reports that a scan reads once or twice.

    Attributes
    ----------
    n_rows : int or None
        Where it is known, for the progress bar.
    identified : bool
        Whether ``AbstractPiece.identity`` names the same rows in another run, so that a scan can be resumed.
    asked_last : bool
        Whether the class also takes what others read better.
    """

    n_rows: int | None = None
    identified: ClassVar[bool] = False
    asked_last: ClassVar[bool] = False

    @classmethod
    @abc.abstractmethod
    def opened(cls, source: Any) -> AbstractTable | None:
        """Return the table of a source that this class reads, else None."""

    @abc.abstractmethod
    def pieces(self, columns: Sequence[str]) -> Iterable[AbstractPiece]:
        """Return the pieces, in order.

        Parameters
        ----------
        columns : sequence of str
            Those that will be read.

        Raises
        ------
        DataError
            Where the source lacks one of them, or its parts do not agree.
        """

    def counted(self, columns: Sequence[str]) -> Any | None:
        """Return the distinct rows of columns with the column ``COUNT`` of how often each came, as an Arrow table.

        None where the source has no GROUP BY; its pieces are then counted.
        """
        return None

    def total(self, partial: Callable[[AbstractPiece], Partial], columns: Sequence[str]) -> Partial | None:
        """Return the sum of ``partial`` over all rows where the source computes that itself, else None.

        Engines that send the work to where the rows are do so here; ``partial`` can be pickled, and also takes an Arrow
        record batch.
        """
        return None

    def stated(self) -> tuple[list[str], list[str]]:
        """Return (first entries of the column ``protocol``, what the metadata states), as texts."""
        return [], []

    def marks(self) -> list[str]:
        """Return what changes when the source does: names, sizes and times of files."""
        return []


#: Name of the column of counts that ``counted`` returns.
COUNT = "count of reports"


def open_source(source: Any) -> AbstractTable:
    """Return the table of a source, by the classes of this package.

    Raises
    ------
    ArgumentError
        Where none of them reads it.
    """
    for cls in TABLES:
        table = cls.opened(source)
        if table is not None:
            return table
    raise ArgumentError(
        "source must be Parquet files (a path, a pattern or a list), an Arrow table, dataset or reader, a DuckDB relation, "
        f"a Spark data frame or any other that narwhals reads, got {type(source).__name__}."
    )


#: Kinds of tables, in the order in which they are asked; filled where the package is imported.
TABLES: list[type[AbstractTable]] = []


def in_order(work: Callable, items: Iterable, jobs: int) -> Iterator:
    """Yield (item, work(item)) in the order of the items, with up to ``jobs`` threads at work.

    Parameters
    ----------
    work : callable
    items : iterable
    jobs : int
    """
    if jobs == 1:
        for item in items:
            yield item, work(item)
        return
    waiting: collections.deque = collections.deque()
    pool = ThreadPoolExecutor(jobs)
    try:
        source = iter(items)
        for item in itertools.islice(source, jobs + 1):
            waiting.append((item, pool.submit(work, item)))
        while waiting:
            item, future = waiting.popleft()
            result = future.result()
            for following in itertools.islice(source, 1):
                waiting.append((following, pool.submit(work, following)))
            yield item, result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
