"""Parquet files: pieces are runs of row groups, read in batches of rows whose bytes are limited before they are decoded.

A file of some hundred bytes can say that it holds a gigabyte: columns are compressed, and a value that is repeated is
written once. What a page takes is therefore read from the headers of the pages, and rows are read in batches that fit.
"""

import functools
import itertools
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from ldpbayes.errors import DataError
from ldpbayes.sources.base import arrow_kind, foreign
from ldpbayes.sources.stream import BATCH, AbstractFile, runs

#: Rows of one piece, at least: what is read between two notes in a checkpoint.
_PIECE = 2**22

#: Most bytes of one page, and about the most bytes of one column of a batch.
MOST_BYTES = 2**27
#: The encoding in which a value may repeat the one before it: DELTA_BYTE_ARRAY.
_DELTA = 7
#: Those of which Arrow makes codes: plain ones, of dictionaries, and of runs and packed bits beside them.
_CODED = {0, 2, 3, 4, 8}
#: Most bytes that one byte of a chunk can become, by the codec: none, Snappy and LZ4. Others have no such bound.
_RATIOS = {0: 1, 1: 64, 5: 256, 7: 256}
#: About the bytes of row groups that are read in one go.
_TOGETHER = 2**24
#: Items of the lists, and rows, of a row group and a file that are read from few bytes; and items, or rows, a byte. Reports
#: that privacy has made random take more.
_ITEMS, _ITEMS_A_BYTE, ROWS_A_BYTE = 2**25, 2**8, 2**12
#: Rows of a batch that is not worth a look at the file to enlarge.
_SMALL = 2**16
#: Items of the lists of a row group beyond which it is refused.
_MOST_ITEMS = 2**30


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
        return known(self.source).schema

    def pieces(self):
        metadata, first = known(self.source).metadata, 0
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        for groups in runs(range(len(rows)), _PIECE, rows.__getitem__):
            n = sum(rows[i] for i in groups)
            yield replace(self, first_row=first, n_rows=n, groups=tuple(groups))
            first += n

    def rows(self, columns):
        return read_batches(self.source, columns, self.groups)


def read_batches(path: Any, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Yield the rows of a Parquet file, or of some of its row groups, as Arrow tables; texts come as dictionaries.

    Raises
    ------
    DataError
        Where the file is malformed, or its pages would take too much memory.
    """
    import pyarrow as pa
    from pyarrow import parquet

    footer = known(path)
    _check_rows(path, footer.metadata)
    codes = [name for name in columns if name in footer.texts]
    settings = {"metadata": footer.metadata, "read_dictionary": codes, "page_checksum_verification": True}
    with (
        foreign("is not a readable Parquet file", path),
        parquet.ParquetFile(path, **settings) as file,
        open(path, "rb") as handle,
        mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        for parts in runs(_parts(path, file, data, columns, groups), 1, lambda part: part[0].num_rows / part[1]):
            yield pa.Table.from_batches([part for part, _ in parts])


def _parts(path, file, data, columns, groups):
    """Yield (record batch, how many of such rows fit in one table)."""
    groups = range(file.num_row_groups) if groups is None else groups
    # Arrow holds the bytes of all that it reads in one go.
    for together in runs(groups, _TOGETHER, lambda group: max(file.metadata.row_group(group).total_byte_size, 0)):
        size = min(_most_rows(path, file, data, group, columns) for group in together)
        for batch in file.iter_batches(size, row_groups=together, columns=list(columns), use_threads=False):
            yield from ((part, min(size, most)) for part, most in sliced(batch))


def read_whole(path: Any, columns: Sequence[str] | None = None) -> Any:
    """Return the rows of a Parquet file as one table."""
    import pyarrow as pa

    schema = known(path).schema
    names = schema.names if columns is None else list(columns)
    batches = list(read_batches(path, names))
    if not batches:
        return schema.empty_table().select(names)
    return pa.concat_tables(batches).replace_schema_metadata(schema.metadata)


class _Known(NamedTuple):
    """What the footer says: chunks of columns by row group, and the columns of texts that are read as dictionaries."""

    schema: Any
    metadata: Any
    groups: list[list[dict]]
    texts: frozenset[str]


def known(path: Any) -> _Known:
    """Return what the footer of a Parquet file says."""
    with foreign("is not a readable Parquet file", path):
        state = os.stat(path)
        return _parsed(path, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _parsed(path, size, changed):
    """Return what a footer says; one of a large file takes a while to parse."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        texts = {field.name for field in schema if arrow_kind(field.type) == "texts"}
        leaves = [file.schema.column(i).path for i in range(len(file.schema))]
    groups = _footer(path, len(leaves))
    chunks = (pair for group in groups for pair in zip(leaves, group, strict=True))
    texts -= {leaf for leaf, chunk in chunks if chunk and not _CODED.issuperset(chunk[_ENCODINGS])}
    return _Known(schema, metadata, groups, frozenset(texts))


# ---- what the file says before it is decoded -------------------------------------------------------------------------
def _check_rows(path, metadata):
    size, rows = os.stat(path).st_size, metadata.num_rows
    if rows > _ITEMS and rows > ROWS_A_BYTE * size:
        raise DataError(f"says that it holds {rows:,} rows in {size:,} bytes, which no reports do", source=path)


def _most_rows(path, file, data, group, columns):
    """Return how many rows of a row group are read at once: so many that no column takes more than about MOST_BYTES."""
    n_rows, most = file.metadata.row_group(group).num_rows, BATCH
    for i, chunk in enumerate(known(path).groups[group]):
        leaf = file.schema.column(i)
        name = next((name for name in columns if leaf.path == name or leaf.path.startswith(f"{name}.")), None)
        if name is None:
            continue
        if chunk is None:
            raise DataError("is encrypted, and only plain columns are read", source=path, field=name)
        try:
            most = min(most, _most_of_column(path, group, data, chunk, leaf, n_rows))
        except DataError as err:
            raise err.at(source=path, field=name) from None
    return max(1, most)


def _most_of_column(path, group, data, chunk, leaf, n_rows):
    wide = leaf.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
    grown = chunk[_STORED] * _RATIOS.get(chunk.get(_CODEC, 0), MOST_BYTES)  # bytes that its pages can become
    small = grown <= MOST_BYTES and not leaf.max_repetition_level and (not wide or leaf.path in known(path).texts)
    pages = list(itertools.islice(_pages(data, chunk), 1 if small else None))  # the first may be a dictionary
    for kind, size, n_values in pages:
        if size > MOST_BYTES:
            raise DataError(f"has a page of {size:,} bytes, more than {MOST_BYTES:,}; write smaller pages")
        if kind == "dictionary" and n_values > 8 * size + 8:
            raise DataError(f"has a dictionary of {n_values:,} entries in {size:,} bytes")
    if small:  # of texts the codes are read, and long entries are told apart after that
        return BATCH
    lists, most = leaf.max_repetition_level, BATCH  # values that are read at once; a list has several
    n_values = max(chunk[_VALUES], sum(n for kind, _, n in pages if kind == "data"), 1)
    if lists:
        stored, most = max(chunk[_STORED], 1), _ITEMS
        if n_values > _MOST_ITEMS or (n_values > _ITEMS and n_values > _ITEMS_A_BYTE * stored):
            raise DataError(f"says that it holds {n_values:,} items in {stored:,} bytes of lists; write smaller row groups")
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        most = min(most, MOST_BYTES // max(leaf.length, 1))
    if leaf.physical_type == "BYTE_ARRAY":
        fit = [MOST_BYTES * n // max(size, 1) for kind, size, n in pages if kind == "data"]
        if _DELTA in chunk[_ENCODINGS]:  # a value may repeat the one before it for a byte or two
            fit += [MOST_BYTES // max(size, 1) for _, size, _ in pages]
        for kind, size, _ in pages:  # no entry is longer than all of them, which saves a look at most files
            if kind == "dictionary" and size:
                coded = not lists and _CODED.issuperset(chunk[_ENCODINGS])
                longest = _longest(path, group, leaf.path) if coded and MOST_BYTES // size < _SMALL else size
                fit += [MOST_BYTES // max(longest, 1)] if longest is not None else []
        most = min([most, *fit])
    return most * n_rows // n_values if lists else most


def _longest(path, group, name):
    """Return the length of the longest entry of the dictionary of a column in a row group; None where it has none."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, read_dictionary=[name]) as file:
        for batch in file.iter_batches(1, row_groups=[group], columns=[name], use_threads=False):
            return _longest_entry(batch.column(0))
    return None


def _longest_entry(array):
    """Return the length of the longest entry of the dictionary of texts or bytes of an array, None where it has none."""
    from pyarrow import compute, types

    if not types.is_dictionary(array.type) or arrow_kind(array.type) not in ("texts", "bytes"):
        return None
    return compute.max(compute.binary_length(array.dictionary)).as_py()


def sliced(batch):
    """Yield (part of a batch, how many of its rows take at most about MOST_BYTES with decoded dictionaries)."""
    most = max(1, MOST_BYTES // max([1, *(_longest_entry(array) or 0 for array in batch.columns)]))
    for start in range(0, batch.num_rows, most):
        yield batch.slice(start, most), most


# ---- the footer and the headers of pages: Thrift's compact protocol --------------------------------------------------
# PyArrow ends the process where its accessors of a column's metadata find something that they do not like, so that the
# fields are read here.
#: Fields of a column's chunk: how it is encrypted, and what it holds.
_ENCRYPTED, _CHUNK = 8, 3
_ENCODINGS, _CODEC, _VALUES, _STORED, _DATA, _DICTIONARY = 2, 4, 5, 7, 9, 11
#: By the kind of a page the field of the header whose field 1 is the number of values.
_HEADERS = {0: 5, 2: 7, 3: 8}
_KINDS = {0: "data", 2: "dictionary", 3: "data"}
#: Bytes of the types of a fixed width: booleans in lists, bytes and doubles.
_WIDTHS = {1: 1, 2: 1, 3: 1, 7: 8}
#: What a struct that ends too early, or is another one, ends in.
_BROKEN = (LookupError, TypeError, AttributeError, RecursionError)


def _footer(path, n_columns):
    """Return the chunks of columns in every row group of a file, each a dict of fields; None for one that is encrypted.

    References
    ----------
    Apache Parquet, parquet.thrift: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData.
    """
    with open(path, "rb") as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(max(size - 8, 0))
        handle.seek(max(size - 8 - int.from_bytes(handle.read(4), "little"), 0))
        data = handle.read()
    try:
        groups = [group.get(1, []) for group in _Thrift(data).struct().get(4, [])]
        if any(len(chunks) != n_columns for chunks in groups):
            raise IndexError
        return [[None if _ENCRYPTED in chunk else chunk.get(_CHUNK) for chunk in chunks] for chunks in groups]
    except _BROKEN:
        raise DataError("has a footer that is broken", source=path) from None


def _pages(data, chunk):
    """Yield (kind, bytes when decompressed, number of values) of the pages of a column chunk.

    References
    ----------
    Apache Parquet, parquet.thrift: PageHeader.
    """
    starts = [place for place in (chunk.get(_DICTIONARY), chunk[_DATA]) if isinstance(place, int) and place > 0]
    reader, seen = _Thrift(data, min(starts, default=0)), 0
    end = reader.at + chunk[_STORED] + 256  # old writers leave out the header of the dictionary
    while seen < chunk[_VALUES] and reader.at < min(end, len(data)):
        try:
            header = reader.struct()
            kind, size, stored = header[1], header[2], header[3]
            n_values = header.get(_HEADERS.get(kind), {}).get(1, 0)
            if min(size, stored, n_values) < 0 or reader.at + stored > len(data):
                raise IndexError
        except _BROKEN:
            raise DataError("has a page whose header is broken") from None
        reader.at += stored
        seen += n_values if _KINDS.get(kind) == "data" else 0
        yield _KINDS.get(kind, "other"), size, n_values


class _Thrift:
    """A place in bytes of Thrift's compact protocol; what ends too early ends in an IndexError."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def struct(self):
        """Return {number of a field: value}: whole numbers, lists and structs; None for all else."""
        out: dict[int, Any] = {}
        number = 0
        while byte := self.byte():
            number = number + (byte >> 4) if byte >> 4 else self.zigzag()
            out[number] = None if byte & 15 in (1, 2) else self.value(byte & 15)  # the type of a boolean is its value
        return out

    def value(self, kind):
        """Return a value of a type."""
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 12:
            return self.struct()
        if kind in (9, 10):
            head = self.byte()
            size = self.varint() if head >> 4 == 15 else head >> 4
            if size > len(self.data):  # every item takes a byte
                raise IndexError
            return [self.value(head & 15) for _ in range(size)]
        passed = self.varint() if kind == 8 else _WIDTHS[kind]
        self.at += passed
        return None

    def byte(self):
        """Return the next byte."""
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        """Return a whole number of as many bytes as it takes."""
        out = shift = 0
        while (byte := self.byte()) > 127:
            out |= (byte & 127) << shift
            shift += 7
            if shift > 70:
                raise IndexError
        return out | byte << shift

    def zigzag(self):
        """Return a whole number whose last bit is its sign."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)
