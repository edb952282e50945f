"""Batches in memory, and data frames: DuckDB relations, Polars frames and whatever else narwhals reads."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, ClassVar

from ldpbayes.sources.base import check_column, foreign, optional
from ldpbayes.sources.frame import narwhal
from ldpbayes.sources.parameters import COLUMN
from ldpbayes.sources.scanning.tables import BATCH, COUNT, AbstractPiece, AbstractTable


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

    def batches(self, columns):
        pa = optional("pyarrow", "Scanning reports")
        batches, tables = pa.RecordBatch, pa.Table
        if isinstance(self.batch, batches):
            yield pa.Table.from_batches([self.batch])
        elif isinstance(self.batch, tables):
            yield self.batch
        else:
            yield arrow_of(self.batch, columns)


class FrameTable(AbstractTable):
    """A data frame, eager or lazy; it groups its own rows where reports are counted.

    Parameters
    ----------
    frame : narwhals DataFrame or LazyFrame
    """

    asked_last: ClassVar[bool] = True

    def __init__(self, frame) -> None:
        self.frame = frame

    @classmethod
    def opened(cls, source):
        try:
            return cls(narwhal(source))
        except TypeError:
            return None

    @property
    def n_rows(self):  # type: ignore[override]
        import narwhals as nw

        return None if isinstance(self.frame, nw.LazyFrame) else len(self.frame)

    def counted(self, columns):
        import narwhals as nw

        with foreign("the frame cannot be read"):
            schema = self._check(columns)
            if any(schema[name] in (nw.List, nw.Array, nw.Object, nw.Struct) for name in columns):
                return None
            if not columns:
                return None
            grouped = self.frame.group_by(list(dict.fromkeys(columns))).agg(nw.len().alias(COUNT))
            return arrow_of(grouped, [*columns, COUNT])

    def pieces(self, columns):
        with foreign("the frame cannot be read"):
            self._check(columns)
        return self._pieces(list(dict.fromkeys(columns)))

    def _pieces(self, columns):
        first = 0
        with foreign("the frame cannot be read"):
            for batch in _batches(self.frame.select(columns)):
                yield BatchPiece(batch, first)
                first += batch.num_rows

    def stated(self):
        with foreign("the frame cannot be read"):
            if COLUMN not in self.frame.collect_schema():
                return [], []
            return arrow_of(self.frame.select(COLUMN).head(1), [COLUMN]).column(0).to_pylist(), []

    def _check(self, columns):
        schema = dict(self.frame.collect_schema())
        for name in columns:
            check_column(schema, name, "the frame ")
        return schema


def arrow_of(frame, columns):
    """Return columns of a frame that narwhals reads as an Arrow table."""
    import narwhals as nw

    frame = nw.from_native(frame, pass_through=False)
    frame = frame.select(list(dict.fromkeys(columns)))
    return _eager(frame).to_arrow()


def _eager(frame):
    """Return a frame collected, as Arrow where the engine can."""
    import narwhals as nw

    if not isinstance(frame, nw.LazyFrame):
        return frame
    kind = frame.implementation
    return frame.collect() if kind.is_polars() or kind.is_dask() else frame.collect("pyarrow")


def _duckdb_reader(relation):
    """Return the record batches of a DuckDB relation, under the name that its version gives them."""
    try:
        return relation.to_arrow_reader(BATCH)
    except AttributeError:
        return relation.fetch_arrow_reader(BATCH)


def _polars_batches(frame):
    """Return the batches of a lazy Polars frame; None where the version of Polars only collects it whole."""
    try:
        return frame.collect_batches(chunk_size=BATCH, maintain_order=True)
    except AttributeError:
        return None


def _batches(frame):
    """Yield a frame's rows as Arrow tables of about BATCH rows, without holding all of them where the engine can."""
    pa = optional("pyarrow", "Scanning a data frame")
    import narwhals as nw

    native, kind = frame.to_native(), frame.implementation
    if isinstance(frame, nw.LazyFrame):
        if kind.is_duckdb():
            for batch in _duckdb_reader(native):
                yield pa.Table.from_batches([batch])
            return
        parts = _polars_batches(native) if kind.is_polars() else None
        if parts is not None:
            for part in parts:
                yield part.to_arrow()
            return
        frame = _eager(frame)
    for start in itertools.count(0, BATCH):
        part = frame[start : start + BATCH]
        if not len(part):
            return
        yield part.to_arrow()
