"""The one reader of Parquet files: batches of rows whose bytes are limited before they are decoded.

A file of some hundred bytes can say that it holds a gigabyte: columns are compressed, and a value that is repeated is
written once. What a page takes is therefore read from the headers of the pages, and rows are read in batches that fit.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.sources.base import foreign

#: Most rows of a batch.
BATCH = 2**20
#: Most bytes of one page, and about the most bytes of one column of a batch.
MOST_BYTES = 2**27
#: The encoding in which a value may repeat the one before it.
_DELTA = "DELTA_BYTE_ARRAY"
#: Bytes that are read in one go.
_TOGETHER = 2**24
#: Items of the lists, and rows, of a row group and a file that are read from few bytes; and items, or rows, a byte. Reports
#: that privacy has made random take more.
_ITEMS, _ITEMS_A_BYTE, _ROWS_A_BYTE = 2**25, 2**8, 2**12
#: Rows of a batch that is not worth a look at the file to enlarge.
_SMALL = 2**16
#: Items of the lists of a row group beyond which it is refused.
_MOST_ITEMS = 2**30


def read_batches(path: Any, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Yield the rows of a Parquet file as Arrow tables; texts come as dictionaries.

    Parameters
    ----------
    path : str
    columns : sequence of str
    groups : sequence of int, optional
        Row groups; all by default.

    Raises
    ------
    DataError
        Where the file is malformed, or its pages would take too much memory.
    """
    import pyarrow as pa

    held: list = []
    rows = size = 0
    with foreign("is not a readable Parquet file", path):
        for part, decoded in _parts(pa, path, columns, groups):
            if held and (rows + part.num_rows > BATCH or size + decoded > MOST_BYTES):
                yield pa.Table.from_batches(held).unify_dictionaries()
                held, rows, size = [], 0, 0
            held.append(part)
            rows, size = rows + part.num_rows, size + decoded
        if held:
            yield pa.Table.from_batches(held).unify_dictionaries()


def _parts(pa, path, columns, groups):
    """Yield (record batch, about its bytes where dictionaries are decoded)."""
    with opened(path, columns) as file:
        _check_rows(path, file.metadata)
        for together in _together(file, range(file.num_row_groups) if groups is None else groups):
            size = min(_most_rows(path, file, group, columns) for group in together)
            for batch in file.iter_batches(size, row_groups=together, columns=list(columns), use_threads=False):
                yield from _sliced(pa, batch)


def read_whole(path: Any, columns: Sequence[str] | None = None) -> Any:
    """Return the rows of a Parquet file that fit in one batch's bytes, or in so many batches as there are, as one table."""
    import pyarrow as pa

    schema = schema_of(path)
    names = schema.names if columns is None else list(columns)
    parts = list(read_batches(path, names))
    if not parts:
        return schema.empty_table().select(names)
    return pa.concat_tables(parts).replace_schema_metadata(schema.metadata)


def schema_of(path: Any) -> Any:
    """Return the schema of a Parquet file as Arrow reads it."""
    from pyarrow import parquet

    files.open_input(path).close()
    with foreign("is not a readable Parquet file", path):
        return parquet.read_schema(path)


def opened(path: Any, columns: Sequence[str]) -> Any:
    """Return the open Parquet file; columns of texts come as dictionaries."""
    from pyarrow import parquet

    state = os.stat(path)
    metadata, texts = _known(path, state.st_size, state.st_mtime_ns)
    settings = {"metadata": metadata, "page_checksum_verification": True}
    return parquet.ParquetFile(path, read_dictionary=[name for name in columns if name in texts], **settings)


@functools.lru_cache(maxsize=8)
def _known(path, size, changed):
    """Return (metadata, names of the columns of texts) of a file: a large one takes a while to parse."""
    from pyarrow import parquet, types

    with parquet.ParquetFile(path) as file:
        texts = {
            field.name for field in file.schema_arrow if types.is_string(field.type) or types.is_large_string(field.type)
        }
        for i in range(file.metadata.num_row_groups if texts else 0):
            group = file.metadata.row_group(i)
            chunks = map(group.column, range(group.num_columns))
            texts -= {chunk.path_in_schema for chunk in chunks if _DELTA in chunk.encodings}  # Arrow makes no codes of these
        return file.metadata, frozenset(texts)


def _together(file, groups):
    """Yield lists of row groups of about _TOGETHER bytes: Arrow holds the bytes of all that it reads in one go."""
    held, size = [], 0
    for group in groups:
        held.append(group)
        size += max(file.metadata.row_group(group).total_byte_size, 0)
        if size >= _TOGETHER:
            yield held
            held, size = [], 0
    if held:
        yield held


# ---- what the file says before it is decoded -------------------------------------------------------------------------
def _check_rows(path, metadata):
    size, rows = os.stat(path).st_size, metadata.num_rows
    if rows > _ITEMS and rows > _ROWS_A_BYTE * size:
        raise DataError(f"says that it holds {rows:,} rows in {size:,} bytes, which no reports do", source=path)


def _most_rows(path, file, group, columns):
    """Return how many rows of a row group are read at once: so many that no column takes more than about MOST_BYTES."""
    metadata, schema, most = file.metadata.row_group(group), file.schema, BATCH
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for i in range(metadata.num_columns):
            chunk, leaf = metadata.column(i), schema.column(i)
            leaf_of = chunk.path_in_schema
            name = next((name for name in columns if leaf_of == name or leaf_of.startswith(f"{name}.")), None)
            if name is None:
                continue
            try:
                most = min(most, _most_of_column(path, file, group, data, chunk, leaf, metadata.num_rows))
            except DataError as err:
                raise err.at(source=path, field=name) from None
    return max(1, most)


def _most_of_column(path, file, group, data, chunk, leaf, n_rows):
    pages = list(_pages(data, chunk))
    for kind, size, n_values in pages:
        if size > MOST_BYTES:
            raise DataError(f"has a page of {size:,} bytes, more than {MOST_BYTES:,}; write smaller pages")
        if kind == "dictionary" and n_values > 8 * size + 8:
            raise DataError(f"has a dictionary of {n_values:,} entries in {size:,} bytes")
    if leaf.max_repetition_level:
        stored = max(chunk.total_compressed_size, 1)
        n_items = max(chunk.num_values, sum(n for kind, _, n in pages if kind == "data"))
        if n_items > _MOST_ITEMS or (n_items > _ITEMS and n_items > _ITEMS_A_BYTE * stored):
            raise DataError(f"says that it holds {n_items:,} items in {stored:,} bytes of lists; write smaller row groups")
        return BATCH if n_items <= _ITEMS else max(1, _ITEMS * n_rows // n_items)
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return MOST_BYTES // max(leaf.length, 1)
    if leaf.physical_type != "BYTE_ARRAY":
        return BATCH
    most = _windows([(size, n) for kind, size, n in pages if kind == "data"])
    if _DELTA in chunk.encodings:  # a value may repeat the one before it for a byte or two
        most = min(most, MOST_BYTES // max((size for _, size, _ in pages), default=1))
    dictionary = max((size for kind, size, _ in pages if kind == "dictionary"), default=0)
    if dictionary and chunk.num_values:  # no entry is longer than all of them, which saves a look at most files
        longest = dictionary if MOST_BYTES // dictionary >= _SMALL else _longest(path, group, leaf.path)
        most = most if longest is None else min(most, MOST_BYTES // max(longest, 1))
    return most


def _windows(pages):
    """Return the largest power of two of rows, at most BATCH, of which no run takes more than MOST_BYTES of pages."""
    total = sum(size for size, _ in pages)
    rows = BATCH
    while total > MOST_BYTES and rows > 1:
        start = size = n = largest = 0
        for own, many in pages:
            size, n = size + own, n + many
            while start < len(pages) and n - pages[start][1] >= rows:
                size, n, start = size - pages[start][0], n - pages[start][1], start + 1
            largest = max(largest, size)
        if largest <= MOST_BYTES:
            break
        rows //= 4
    return rows


def _longest(path, group, name):
    """Return the length of the longest entry of the dictionary of a column in a row group; None where it has none."""
    import pyarrow as pa
    from pyarrow import compute, parquet

    with parquet.ParquetFile(path, read_dictionary=[name]) as file:
        for batch in file.iter_batches(1, row_groups=[group], columns=[name], use_threads=False):
            array = batch.column(0)
            return (
                compute.max(compute.binary_length(array.dictionary)).as_py() if pa.types.is_dictionary(array.type) else None
            )
    return None


def _sliced(pa, batch):
    """Yield parts of a batch that would take at most about MOST_BYTES with decoded dictionaries, and their bytes."""
    from pyarrow import compute

    most = 0
    for array in batch.columns:
        if pa.types.is_dictionary(array.type) and _is_bytes(pa.types, array.type.value_type) and len(array.dictionary):
            longest = compute.max(compute.binary_length(array.dictionary)).as_py() or 0
            most = max(most, longest)
    rows = max(1, min(batch.num_rows, MOST_BYTES // max(most, 1)))
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        yield part, part.nbytes + most * part.num_rows


def _is_bytes(types, kind):
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)


# ---- headers of pages: Thrift's compact protocol ---------------------------------------------------------------------
def _pages(data, chunk):
    """Yield (kind, bytes when decompressed, number of values) of the pages of a column chunk.

    References
    ----------
    Apache Parquet, parquet.thrift: PageHeader.
    """
    starts = [place for place in (chunk.dictionary_page_offset, chunk.data_page_offset) if place]
    at, seen = min(starts, default=0), 0
    end = at + chunk.total_compressed_size + 256  # old writers leave out the header of the dictionary
    while seen < chunk.num_values and at < min(end, len(data)):
        try:
            header, at = _struct(data, at, 0)
        except (IndexError, RecursionError):
            raise DataError("has a page whose header is broken") from None
        size, stored = header.get(2, -1), header.get(3, -1)
        if not isinstance(size, int) or not isinstance(stored, int) or size < 0 or stored < 0 or at + stored > len(data):
            raise DataError("has a page whose header is broken")
        at += stored
        inner = header.get(5) or header.get(8) or header.get(7)
        n_values = inner.get(1, 0) if isinstance(inner, dict) else 0
        if not isinstance(n_values, int) or n_values < 0:
            raise DataError("has a page whose header is broken")
        kind = {0: "data", 3: "data", 2: "dictionary"}.get(header.get(1), "other")
        seen += n_values if kind == "data" else 0
        yield kind, size, n_values


def _struct(data, at, depth):
    """Return ({number of a field: value}, the place behind it); texts and lists are passed over."""
    if depth > 8:
        raise IndexError
    out: dict[int, Any] = {}
    number = 0
    while True:
        byte = data[at]
        at += 1
        if byte == 0:
            return out, at
        if byte >> 4:
            number += byte >> 4
        else:
            number, at = _zigzag(data, at)
        out[number], at = _value(data, at, byte & 15, depth)


def _value(data, at, kind, depth):
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = _varint(data, at)
        return None, at + size
    if kind in (9, 10):
        head = data[at]
        size, at = (head >> 4, at + 1) if head >> 4 != 15 else _varint(data, at + 1)
        if size > len(data):
            raise IndexError
        for _ in range(size):
            _, at = (None, at + 1) if head & 15 in (1, 2) else _value(data, at, head & 15, depth + 1)
        return None, at
    if kind == 12:
        return _struct(data, at, depth + 1)
    raise IndexError


def _varint(data, at):
    out = shift = 0
    while True:
        byte = data[at]
        out |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return out, at
        if shift > 63:
            raise IndexError


def _zigzag(data, at):
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at
