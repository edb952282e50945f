"""Data frames: pandas, Polars, DuckDB relations and whatever else narwhals reads, by their Arrow export."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, ClassVar

from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.sources.base import check_column, foreign, optional
from ldpbayes.sources.keys import check_kinds, kinds_of, plain_keys
from ldpbayes.sources.stream import BATCH, COUNT, AbstractPiece, AbstractSource


class BatchPiece(AbstractPiece):
    """A batch that is in memory: an Arrow record batch or table, or a data frame.

    Parameters
    ----------
    batch : pyarrow.RecordBatch, pyarrow.Table or data frame
    first_row : int
        Rows of the source before it.
    source : str, optional
    """

    def __init__(self, batch: Any, first_row: int = 0, source: str | None = None) -> None:
        self.batch, self.source, self.first_row = batch, source, first_row
        self.n_rows = None
        with contextlib.suppress(TypeError):  # a lazy frame has no length
            self.n_rows = len(batch)

    def tables(self, columns):
        import pyarrow as pa

        batches, tables = pa.RecordBatch, pa.Table
        if isinstance(self.batch, batches):
            yield pa.Table.from_batches([self.batch])
        elif isinstance(self.batch, tables):
            yield self.batch
        else:
            yield arrow_of(self.batch, columns)


class FrameSource(AbstractSource):
    """A data frame, eager or lazy; a lazy one groups its own rows where reports are counted.

    Parameters
    ----------
    frame : narwhals DataFrame or LazyFrame
    """

    asked_last: ClassVar[bool] = True

    def __init__(self, frame) -> None:
        self.frame = frame

    @classmethod
    def opened(cls, data):
        try:
            return cls(narwhal(data))
        except TypeError:
            return None

    @property
    def n_rows(self):  # type: ignore[override]
        return None if _is_lazy(self.frame) else len(self.frame)

    def names(self):
        with foreign("the frame cannot be read"):
            return list(self.frame.collect_schema())

    def counted(self, columns):
        import narwhals as nw

        if not _is_lazy(self.frame) or not columns:
            return None
        with foreign("the frame cannot be read"):
            schema = self._check(columns)
            if any(schema[name] in (nw.List, nw.Array, nw.Object, nw.Struct, nw.Binary) for name in columns):
                return None
            grouped = self.frame.group_by(list(dict.fromkeys(columns))).agg(nw.len().alias(COUNT))
            return arrow_of(grouped, [*columns, COUNT])

    def pieces(self, columns):
        with foreign("the frame cannot be read"):
            self._check(columns)
        return self._pieces(list(dict.fromkeys(columns)))

    def _pieces(self, columns):
        first = 0
        for batch in _batches(self.frame.select(columns)):
            yield BatchPiece(batch, first)
            first += batch.num_rows

    def first(self, name):
        with foreign("the frame cannot be read"):
            if name not in self.frame.collect_schema():
                return []
            return arrow_of(self.frame.head(1), [name]).column(0).to_pylist()

    def _check(self, columns):
        schema = dict(self.frame.collect_schema())
        for name in columns:
            check_column(schema, name, "the frame ")
        return schema


def narwhal(frame: Any) -> Any:
    """Return a frame as narwhals has it; a TypeError where it is none that narwhals reads."""
    narwhals = optional("narwhals", "Reading a data frame")
    try:
        return narwhals.from_native(frame)
    except narwhals.exceptions.DuplicateError as err:
        raise DataError("the frame has two columns of the same name; rename one") from err
    except narwhals.exceptions.NarwhalsError as err:
        raise DataError(f"the frame cannot be read: {str(err).splitlines()[0]}") from err


def eager(frame: Any) -> Any:
    """Return any data frame as a narwhals DataFrame; a lazy one is collected.

    Raises
    ------
    ArgumentError
        Where narwhals does not read it.
    """
    try:
        frame = narwhal(frame)
    except TypeError as err:
        raise ArgumentError(f"frame must be a data frame that narwhals reads, got {type(frame).__name__}.") from err
    with foreign("the frame cannot be read"):
        return frame.collect() if _is_lazy(frame) else frame


def arrow_of(frame: Any, columns: Any) -> Any:
    """Return columns of a frame that narwhals reads as an Arrow table."""
    with foreign("the frame cannot be read"):
        frame = narwhal(frame).select(list(dict.fromkeys(columns)))
        return _to_arrow(_collected(frame))


def _to_arrow(frame):
    """Return an eager frame as an Arrow table, or the sentence for a column of Python objects that Arrow does not hold."""
    import pyarrow as pa

    try:
        table = frame.to_arrow()
        _check_objects(frame, table)
        return table
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as err:
        for name in frame.columns:
            try:
                frame.select(name).to_arrow()
            except Exception:
                problem = "holds objects that are neither texts, numbers, bytes nor lists of them"
                problem = "holds whole numbers beyond 64 bits" if isinstance(err, OverflowError) else problem
                raise DataError(problem, field=name) from err
        raise


def _check_objects(frame, table):
    """Refuse a column of Python objects of several kinds, of which Arrow makes numbers."""
    import narwhals as nw
    from pyarrow import types

    for name, dtype in frame.schema.items() if frame.implementation.is_pandas_like() else ():
        kind = table.schema.field(name).type
        if dtype == nw.Object and (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            keys = [(key,) for key in plain_keys(frame[name].to_list(), name) if key is not None]
            check_kinds(kinds_of(keys), [name])


def _is_lazy(frame):
    import narwhals as nw

    return isinstance(frame, nw.LazyFrame)


def _collected(frame):
    """Return a frame collected, as Arrow where the engine can."""
    if not _is_lazy(frame):
        return frame
    kind = frame.implementation
    return frame.collect() if kind.is_polars() or kind.is_dask() else frame.collect("pyarrow")


def _batches(frame):
    """Yield a frame's rows as Arrow tables of about BATCH rows, without holding all of them where the engine can."""
    with foreign("the frame cannot be read"):
        parts = _lazy_batches(frame.to_native(), frame.implementation) if _is_lazy(frame) else None
        if parts is not None:
            yield from parts
            return
        frame = _collected(frame)
        for start in itertools.count(0, BATCH):
            part = frame[start : start + BATCH]
            if not len(part):
                return
            yield _to_arrow(part)


def _duckdb_reader(relation):
    """Return the record batches of a DuckDB relation, under the name that its version gives them."""
    try:
        return relation.to_arrow_reader(BATCH)
    except AttributeError:
        return relation.fetch_arrow_reader(BATCH)


def _lazy_batches(native, kind):
    """Return the rows of a lazy frame as Arrow tables; None where the engine only collects it whole."""
    import pyarrow as pa

    try:
        if kind.is_duckdb():
            return (pa.Table.from_batches([batch]) for batch in _duckdb_reader(native))
        if kind.is_polars():
            return (part.to_arrow() for part in native.collect_batches(chunk_size=BATCH, maintain_order=True))
    except AttributeError:  # of this version of Polars
        pass
    return None
