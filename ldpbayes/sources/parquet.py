"""Parquet files: pieces are runs of row groups, read in batches of rows whose bytes are limited.

A file of some hundred bytes can say that it holds a gigabyte: columns are compressed, and a value that is repeated is
written once. Texts and bytes are therefore read as codes and a dictionary, and how many rows are read at once follows from
the sizes that the footer states.
"""

import contextlib
import functools
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ldpbayes.errors import DataError
from ldpbayes.sources.base import arrow_kind, foreign
from ldpbayes.sources.constants import BATCH, BYTES_A_BYTE, ITEMS, MOST_BYTES, MOST_ITEMS, PIECE, READ_BYTES, ROWS_A_BYTE
from ldpbayes.sources.stream import AbstractFile, runs


@dataclass(frozen=True)
class ParquetFile(AbstractFile):
    """A Parquet file; its pieces are some row groups each, one after the other.

    Attributes
    ----------
    groups : tuple of int
    """

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    groups: tuple[int, ...] = ()

    def schema(self):
        return footer(self.source).schema

    def pieces(self):
        metadata, first = footer(self.source).metadata, 0
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        for groups in runs(range(len(rows)), PIECE, rows.__getitem__):
            n = sum(rows[i] for i in groups)
            yield replace(self, first_row=first, n_rows=n, groups=tuple(groups))
            first += n

    def rows(self, columns):
        return read_batches(self.source, columns, self.groups)


class Footer(NamedTuple):
    """What the footer of a file says: its columns as Arrow has them, and Parquet's own metadata."""

    schema: Any
    metadata: Any


def footer(path: Any) -> Footer:
    """Return the footer of a Parquet file."""
    with foreign("is not a readable Parquet file", path):
        return _footer(path, *_state(path))


def _state(path):
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns


@functools.lru_cache(maxsize=8)
def _footer(path, size, changed):
    """Return the footer of a file; that of a large file takes a while to parse."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return Footer(file.schema_arrow, file.metadata)


def read_batches(path: Any, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Yield the rows of a Parquet file, or of some of its row groups, as Arrow tables; texts come as dictionaries.

    Raises
    ------
    DataError
        Where the file is malformed, or would take too much memory.
    """
    import pyarrow as pa
    from pyarrow import parquet

    metadata, columns = footer(path).metadata, list(columns)
    size, rows = os.stat(path).st_size, metadata.num_rows
    if rows > max(ITEMS, ROWS_A_BYTE * size):
        raise DataError(f"says that it holds {rows:,} rows in {size:,} bytes, which no reports do", source=path)
    with foreign("is not a readable Parquet file", path):
        chunks = _chunks(path, *_state(path), tuple(columns))
        every = [column for group in chunks for column in group]
        codes = {column.leaf.path for column in every if column.has("DICTIONARY")}
        codes -= {column.leaf.path for column in every if column.has("DELTA")}  # Arrow makes no codes of these
        settings = {"metadata": metadata, "read_dictionary": list(codes), "page_checksum_verification": True}
        with parquet.ParquetFile(path, **settings) as file:
            for parts in runs(_parts(path, file, columns, groups, chunks, codes), 0.5, lambda part: part[1]):
                yield pa.Table.from_batches([part for part, _ in parts])
                parts.clear()  # before the next are read


def read_whole(path: Any, columns: Sequence[str] | None = None) -> Any:
    """Return the rows of a Parquet file as one table."""
    import pyarrow as pa

    schema = footer(path).schema
    names = schema.names if columns is None else list(columns)
    batches = list(read_batches(path, names))
    if not batches:
        return schema.empty_table().select(names)
    return pa.concat_tables(batches).replace_schema_metadata(schema.metadata)


def _parts(path, file, columns, groups, chunks, codes):
    """Yield (record batch, its share of what a table holds)."""
    for group in range(len(chunks)) if groups is None else groups:
        n_rows = file.metadata.row_group(group).num_rows
        most = min((column.most_rows(n_rows, column.leaf.path in codes, path) for column in chunks[group]), default=BATCH)
        most = max(1, min(BATCH, most, int(READ_BYTES / max(1, sum(column.width for column in chunks[group])))))
        for batch in file.iter_batches(most, row_groups=[group], columns=columns, use_threads=False):
            for part, share in sliced(batch, path):
                yield part, max(share, part.nbytes / READ_BYTES, part.num_rows / BATCH)


# ---- what the footer says of a column --------------------------------------------------------------------------------
class _Unread(Exception):
    """The reader asked for the bytes of a column."""


class _Closed(io.FileIO):
    """A file of which nothing can be read."""

    def read(self, *_):
        raise _Unread

    readinto = readall = read


@functools.lru_cache(maxsize=8)
def _chunks(path, size, changed, columns):
    """Return the columns of each row group of a file.

    PyArrow ends the process where an accessor of a column finds something that it does not like. Its reader of rows raises
    an error instead, before it asks for a byte of the column.
    """
    from pyarrow import parquet

    metadata, out = _footer(path, size, changed).metadata, []
    leaves = [(i, metadata.schema.column(i)) for i in range(len(metadata.schema))]
    leaves = [(i, leaf, leaf.path.partition(".")[0]) for i, leaf in leaves]
    with _Closed(path) as handle, parquet.ParquetFile(handle, metadata=metadata) as file:
        for i in range(metadata.num_row_groups):
            with contextlib.suppress(_Unread):
                list(file.iter_batches(1, row_groups=[i], columns=list(columns), use_threads=False))
            group = metadata.row_group(i)
            out.append([_Column(name, leaf, group.column(j)) for j, leaf, name in leaves if name in columns])
    return out


class _Column(NamedTuple):
    """A column of a row group.

    Attributes
    ----------
    name : str
        Of the column of the table, of which this may be the items.
    leaf : pyarrow.parquet.ColumnSchema
    chunk : pyarrow.parquet.ColumnChunkMetaData
    """

    name: str
    leaf: Any
    chunk: Any

    @property
    def width(self) -> float:
        """Bytes of a row as it is read, about: of numbers as they are stored, otherwise on average."""
        stored = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}.get(self.leaf.physical_type, 0)
        return max(stored, self.chunk.total_uncompressed_size / max(self.chunk.num_values, 1))

    def has(self, encoding: str) -> bool:
        """Return whether texts or bytes are written in an encoding of this name."""
        return self.leaf.physical_type == "BYTE_ARRAY" and any(encoding in name for name in self.chunk.encodings)

    def most_rows(self, n_rows: int, coded: bool, path: Any) -> int:
        """Return how many rows are read at once: as many as take at most about ``MOST_BYTES`` as they are read."""
        size, stored, n = self.chunk.total_uncompressed_size, self.chunk.total_compressed_size, self.chunk.num_values
        lists = self.leaf.max_repetition_level > 0
        if size > max(MOST_BYTES, BYTES_A_BYTE * stored):
            reason = f"says that it holds {size:,} bytes in {stored:,}, which no reports do"
            raise DataError(reason, source=path, field=self.name)
        if lists and n > min(max(ITEMS, BYTES_A_BYTE * stored), MOST_ITEMS):
            reason = f"says that it holds {n:,} items in {stored:,} bytes of lists; write smaller row groups"
            raise DataError(reason, source=path, field=self.name)
        most = ITEMS if lists else BATCH  # values that are read at once
        if size > MOST_BYTES:
            most = min(most, MOST_BYTES * n // size)
        if not coded and (self.has("DICTIONARY") or self.has("DELTA_BYTE_ARRAY")):  # each may repeat the longest of them
            most = min(most, MOST_BYTES // max(size, 1))
        if self.leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
            most = min(most, MOST_BYTES // max(self.leaf.length, 1))
        return most * n_rows // max(n, 1) if lists else most


def sliced(batch, path):
    """Yield (part of a batch, its share of ``MOST_BYTES`` once its dictionaries are decoded), of shares up to one.

    Raises
    ------
    DataError
        Where one row takes more.
    """
    longest, waiting = [_longest(array) for array in batch.columns], [batch]
    while waiting:
        part = waiting.pop()
        sizes = [max(map(len, _coded(array)), default=0) for array in part.columns]
        shares = [size * length / MOST_BYTES for size, length in zip(sizes, longest, strict=True)]
        if max(shares, default=0) <= 1:
            yield part, max(shares, default=0)
        elif part.num_rows == 1:
            name = part.schema.names[shares.index(max(shares))]
            raise DataError(f"has a row of more than {MOST_BYTES:,} bytes", source=path, field=name)
        else:
            half = part.num_rows // 2
            waiting += [part.slice(half), part.slice(0, half)]


def _longest(array):
    """Return the length of the longest entry of the dictionaries of an array."""
    return max((int(_lengths(leaf.dictionary).max(initial=0)) for leaf in _coded(array)), default=0)


def _lengths(array):
    """Return the bytes of each entry of texts or bytes; Arrow's functions for it take long to import."""
    if array.type.num_buffers == 2:
        return np.array([array.type.byte_width])
    dtype = np.int64 if str(array.type).startswith("large") else np.int32
    stored = array.buffers()[1] or bytes(dtype().itemsize * (len(array) + 1))
    return np.diff(np.frombuffer(stored, dtype, len(array) + 1, array.offset * dtype().itemsize))


def _coded(array):
    """Yield the dictionary arrays of texts or bytes that an array is, or that its lists and structs hold."""
    from pyarrow import types

    if types.is_dictionary(array.type):
        yield from [array] if arrow_kind(array.type) in ("texts", "bytes") else []
    elif types.is_nested(array.type):
        children = array.flatten()  # a list of those of a struct, the items of lists
        for child in children if isinstance(children, list) else [children]:
            yield from _coded(child)
