"""Reports as Parquet files in the layout that is read fastest and that states its protocol."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, shown
from ldpbayes.protocols import AbstractProtocol
from ldpbayes.sources import parameters
from ldpbayes.sources.base import arrow_kind, foreign
from ldpbayes.sources.constants import ROW_GROUP
from ldpbayes.sources.stream import Source

#: Key of the metadata for numbers that belong to the reports, such as the truth of simulated ones.
PUBLISHED = "ldpbayes.published"
#: Memory: Whole numbers below this are dictionary-encoded where a report has several fields.
_FEW = 2**15


def write_reports(
    path: Any, reports: Any, protocol: AbstractProtocol, /, *, categories: Sequence[str] | None = None, **columns: Any
) -> Any:
    """Write reports as ``write`` does, whose parameters these are."""
    parameters.check_protocol(protocol)
    import pyarrow as arrow

    layout = Layout(protocol, categories)
    several = isinstance(reports, Iterator)
    batches = (_pair(batch, columns) for batch in reports) if several else iter([(reports, columns)])
    if path is not None:
        return write_batches(path, batches, layout)
    tables = [layout.table(*batch) for batch in batches]
    if not tables:
        raise ArgumentError("reports must hold at least one report, got none.")
    return arrow.concat_tables(tables).combine_chunks()


def write_batches(path: Any, batches: Iterable[tuple], layout: Layout) -> int:
    """Write (reports, columns) batches as one file, whole or not at all, and return the number of reports."""
    path = files.as_parquet(path)
    from pyarrow import parquet

    total = 0
    with files.replacing(path) as temporary:
        writer = None
        try:
            for table in _row_groups(layout, batches):
                if writer is None:
                    settings = {"compression": "lz4", "use_dictionary": layout.encoded(table), "write_page_checksum": True}
                    writer = parquet.ParquetWriter(temporary, table.schema, **settings)
                writer.write_table(table, row_group_size=ROW_GROUP)
                total += table.num_rows
        finally:
            if writer is not None:
                writer.close()
        if not total:
            raise ArgumentError("reports must hold at least one report, got none.")
    return total


class Layout:
    """The columns of a file of reports through one protocol, and numbers that are published with them."""

    def __init__(self, protocol, categories, published=()):
        import pyarrow as arrow

        self.arrow, self.protocol = arrow, protocol
        self.labels = parameters.labels_of(categories, protocol)
        try:
            self.text = parameters.protocol_text(protocol, self.labels)
            if parameters.parse_protocol(self.text).protocol != protocol:
                raise ValueError
        except (LDPBayesError, TypeError, ValueError) as err:
            raise ArgumentError(f"protocol must be one that a file can state, got {shown(protocol)}.") from err
        self.metadata = {parameters.METADATA: self.text}
        self.metadata |= {PUBLISHED: json.dumps(list(published), separators=(",", ":"))} if published else {}
        self.schema = None
        self.rows = 0

    def table(self, reports, columns):
        """Return the Arrow table of one batch."""
        try:
            reports = self.protocol.check_reports(reports)
        except DataError as err:
            line = None if err.line is None else self.rows + err.line
            raise DataError(err.message if line is None else f"{err.message} (row {line})", field=err.field) from None
        m, arrow = len(reports), self.arrow
        fields = self.protocol.report_fields
        for name in columns:
            if name in fields or name == parameters.COLUMN:
                raise ArgumentError(f"columns must not be named {shown(name)}, which is a column of the layout.")
        labels = self.labels or self.protocol.default_labels
        made = dict(zip(fields, map(self._column, self.protocol.report_columns(reports, labels)), strict=True))
        made |= {name: self._key(name, values, m) for name, values in columns.items()}
        made[parameters.COLUMN] = arrow.repeat(self.text, m).dictionary_encode()
        table = arrow.table(made)
        if self.schema is None:
            self.schema = table.schema.with_metadata(self.metadata)
        elif table.column_names != self.schema.names:
            raise ArgumentError(
                f"every batch must have the columns {', '.join(self.schema.names)}, got {', '.join(table.column_names)}."
            )
        self.rows += m
        with foreign("a column of a later batch does not fit the first"):
            return table.cast(self.schema)

    def encoded(self, table):
        """Return the columns that are dictionary-encoded: keys, the protocol, and small numbers of several fields."""
        fields, types = self.protocol.report_fields, self.arrow.types
        keys = [name for name in table.column_names if name not in fields]
        from pyarrow import compute

        small = [
            name
            for name in fields
            if types.is_int64(table.schema.field(name).type) and compute.max(table[name]).as_py() < _FEW
        ]
        return [*keys, *small, *(name for name in fields if types.is_dictionary(table.schema.field(name).type))]

    def _column(self, values):
        """Return a column of reports: packed bits, numbers or texts."""
        arrow = self.arrow
        if not isinstance(values, np.ndarray):
            return arrow.array(list(values), arrow.string()).dictionary_encode()
        if values.ndim == 2:
            packed = np.ascontiguousarray(values)
            return arrow.Array.from_buffers(arrow.binary(packed.shape[1]), len(packed), [None, arrow.py_buffer(packed)])
        if len(self.protocol.report_fields) == 1 and self.protocol.n_outputs is not None:
            return arrow.array(values.astype(np.min_scalar_type(-self.protocol.n_outputs)))
        return arrow.array(np.ascontiguousarray(values, dtype=np.int64))

    def _key(self, name, values, m):
        """Return a column of keys."""
        arrow, types = self.arrow, self.arrow.types
        is_arrow = isinstance(values, (arrow.Array, arrow.ChunkedArray))
        alone = not is_arrow and checks.array_of(values, f"column {shown(name)}", "one entry, or one per report").ndim == 0
        if alone:
            values = np.array([values]) if isinstance(values, np.generic) else [values]
        with foreign(f"the column {shown(name)} cannot be stored"):
            column = values if is_arrow else arrow.array(values)
        column = column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column
        if types.is_nested(column.type):
            raise ArgumentError(f"column {shown(name)} must hold texts, numbers or dates, got {column.type}.")
        if len(column) != m and not alone:
            raise ArgumentError(f"column {shown(name)} must have one entry per report ({m:,}), got {len(column):,}.")
        if column.null_count or (types.is_floating(column.type) and np.isnan(column.to_numpy(zero_copy_only=False)).any()):
            raise DataError("has missing entries", field=name)
        if types.is_timestamp(column.type) and column.type.unit == "ns":  # which Spark does not read
            column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
        column = arrow.repeat(column[0], m) if alone else column
        return column.cast(arrow.string()).dictionary_encode() if arrow_kind(column.type) == "texts" else column


def _pair(batch, columns):
    """Return a batch of an iterator as (reports, columns), with the columns that all batches share."""
    if isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[1], Mapping):
        reports, counts = batch
        return reports, {**columns, **counts}
    return batch, columns


def _row_groups(layout, batches):
    """Yield tables of ROW_GROUP rows, the last one shorter, with one chunk, and so one dictionary, a column."""
    waiting, size = [], 0
    for batch in batches:
        table = layout.table(*batch)
        waiting.append(table)
        size += table.num_rows
        while size >= ROW_GROUP:
            whole = layout.arrow.concat_tables(waiting)
            yield whole.slice(0, ROW_GROUP).combine_chunks()
            waiting, size = [whole.slice(ROW_GROUP)], size - ROW_GROUP
    if size:
        yield layout.arrow.concat_tables(waiting).combine_chunks()


def published_of(source: Source) -> tuple[dict, ...]:
    """Return the numbers that belong to the reports of a source, where one of its files holds them."""
    texts = [entries[PUBLISHED] for entries in source.metadata() if PUBLISHED in entries]
    if len(texts) != 1 or len(source.metadata()) != 1:
        return ()
    try:
        stated = json.loads(texts[0])
    except (ValueError, RecursionError):
        return ()
    good = isinstance(stated, list) and all(isinstance(entry, dict) for entry in stated)
    return tuple(stated) if good else ()
