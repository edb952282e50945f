"""Arrow: tables, record batches, datasets and readers in memory, and files of Arrow IPC."""

import mmap
import struct
import sys
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.sources.base import foreign, texts_of
from ldpbayes.sources.constants import BATCH, BYTES_A_BYTE, MOST_BYTES, ROWS_A_BYTE
from ldpbayes.sources.parquet import sliced
from ldpbayes.sources.stream import AbstractFile, Source


def opened(data):
    """Return the Source of a table, a record batch, a reader or a dataset of Arrow, None for all else."""
    import pyarrow as pa

    dataset, schemas, n_rows, left = sys.modules.get("pyarrow.dataset"), [], None, [data]
    kinds = pa.RecordBatch, pa.Table
    if isinstance(data, kinds):
        n_rows = data.num_rows
        rows = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data

        def read(columns, most):
            return rows.to_batches(BATCH)

    elif isinstance(data, pa.RecordBatchReader):

        def read(columns, most):
            if most is not None:  # what is looked at would be lost
                return ()
            if not left:
                raise ArgumentError(
                    "A RecordBatchReader can be read once, and these reports need two passes; give the dataset, the table "
                    "or the files that it reads."
                )
            return left.pop()

    elif dataset is not None and isinstance(data, dataset.Dataset):
        with foreign("the Arrow source cannot be read"):  # its own schema has the metadata of the first file alone
            schemas = [fragment.physical_schema for fragment in data.get_fragments()]

        def read(columns, most):
            settings = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
            return data.to_batches(columns=columns, **settings)

    else:
        return None
    return Source(data.schema.names, read, None, [texts_of(schema.metadata) for schema in schemas or [data.schema]], n_rows)


class ArrowFile(AbstractFile):
    """A file of Arrow IPC, also called Feather."""

    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")

    def schema(self):
        with _opened(self.source) as file:
            return file.schema

    def rows(self, columns):
        import pyarrow as pa

        _check_sizes(self.source)
        with foreign("is not a readable Arrow file", self.source), _opened(self.source, columns) as file:
            for i in range(file.num_record_batches):
                try:
                    batch = file.get_batch(i).select(columns)
                except pa.ArrowMemoryError:
                    raise DataError("says that it holds more than there is memory for", source=self.source) from None
                batch.validate(full=True)  # what does not fit in a damaged file would be read beyond its end
                for piece, _ in sliced(batch, self.source):
                    yield pa.Table.from_batches([piece])


def _opened(path, columns=None):
    """Return the open file; of several columns only those in use are decoded."""
    import pyarrow as pa

    with foreign("is not a readable Arrow file", path):
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        if columns is None:
            return file
        chosen = pa.ipc.IpcReadOptions(included_fields=[file.schema.get_field_index(name) for name in columns])
        return pa.ipc.open_file(pa.memory_map(str(path)), options=chosen)


def _check_sizes(path):
    """Refuse a file whose batches say that they hold far more than any reports that take so few bytes."""
    with files.open_input(path) as handle:
        try:
            with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for kind, size, most, stored in _sizes(data):
                    if size > max(MOST_BYTES, most * stored):
                        reason = f"says that it holds {size:,} {kind} in {stored:,} bytes, which no reports do"
                        raise DataError(reason, source=path)
        except DataError:
            raise
        except (struct.error, ValueError, IndexError, TypeError) as err:
            raise DataError("is not a readable Arrow file: its footer or a header is broken", source=path) from err


def _sizes(data):
    """Yield (rows or bytes, how many there are, most for a byte, bytes) of the dictionaries and batches of an Arrow file.

    References
    ----------
    Apache Arrow, File.fbs and Message.fbs: Footer, Block, Message, RecordBatch, DictionaryBatch; a compressed buffer begins
    with its size.
    """
    footer = _root(data, len(data) - 10 - _number(data, "<i", len(data) - 10))
    for field in (2, 3):  # of dictionaries and batches: offsets, and the bytes of headers and bodies
        start, n = _vector(data, footer, field)
        for at in range(start, start + 24 * n, 24):
            head, size, body = struct.unpack_from("<qi4xq", data, at)
            prefix = 8 if _number(data, "<i", head) == -1 else 4  # of files before Arrow 0.15
            batch = _root(data, _place(data, _root(data, head + prefix), 2))
            batch = _root(data, _place(data, batch, 1)) if field == 2 else batch
            rows = _place(data, batch, 0)
            yield "rows", _number(data, "<q", rows) if rows else 0, ROWS_A_BYTE, body + 1
            if _place(data, batch, 3):
                first, many = _vector(data, batch, 2)
                buffers = (struct.unpack_from("<qq", data, first + 16 * i) for i in range(many))
                sizes = (_number(data, "<q", head + size + place) for place, length in buffers if length)
                yield "bytes", sum(max(size, 0) for size in sizes), BYTES_A_BYTE, body + 1


def _number(data, kind, at):
    if at < 0:
        raise IndexError
    return struct.unpack_from(kind, data, at)[0]


def _root(data, at):
    """Return the place of the table that a place of a flatbuffer points to."""
    return at + _number(data, "<I", at)


def _place(data, table, i):
    """Return the place of a field of a table, or None where it is not there."""
    fields = table - _number(data, "<i", table)
    offset = _number(data, "<H", fields + 4 + 2 * i) if 4 + 2 * i < _number(data, "<H", fields) else 0
    return table + offset if offset else None


def _vector(data, table, i):
    """Return (place of the first entry, number of entries) of a field that is a vector."""
    at = _place(data, table, i)
    return (0, 0) if at is None else (_root(data, at) + 4, _number(data, "<I", _root(data, at)))
