"""Arrow: tables, record batches, datasets and readers in memory, and files of Arrow IPC."""

from __future__ import annotations

import itertools
import sys
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.sources.base import check_column, foreign
from ldpbayes.sources.frames import BatchPiece
from ldpbayes.sources.stream import BATCH, AbstractFile, AbstractSource, FilePiece


class ArrowSource(AbstractSource):
    """Anything of Arrow that yields record batches.

    Parameters
    ----------
    open_batches : callable
        From the columns in use to an iterable of record batches.
    schema : pyarrow.Schema
    n_rows : int, optional
    once : bool
        Whether it can be called only once.
    """

    def __init__(self, open_batches, schema, n_rows=None, once=False) -> None:
        self._open, self.n_rows, self._once, self._read = open_batches, n_rows, once, False
        self._schema = schema

    @classmethod
    def opened(cls, data):
        pa = sys.modules.get("pyarrow")
        if pa is None:
            return None
        batches, tables, readers = pa.RecordBatch, pa.Table, pa.RecordBatchReader
        if isinstance(data, batches):
            data = pa.Table.from_batches([data])
        if isinstance(data, tables):
            return cls(lambda columns: data.to_batches(BATCH), data.schema, data.num_rows)
        if isinstance(data, readers):
            return cls(lambda columns: data, data.schema, once=True)
        dataset = sys.modules.get("pyarrow.dataset")
        if dataset is not None and isinstance(data, dataset.Dataset):

            def batches(columns):
                settings = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
                return data.to_batches(columns=[name for name in columns if name in data.schema.names], **settings)

            return cls(batches, data.schema)
        return None

    def names(self):
        return self._schema.names

    def metadata(self):
        return [texts_of(self._schema.metadata)]

    def first(self, name):
        return [] if self._once or name not in self.names() else super().first(name)

    def pieces(self, columns):
        for name in columns:
            check_column(self.names(), name, "the frame ")
        return self._pieces(columns)

    def _pieces(self, columns):
        if self._once and self._read:
            raise ArgumentError(
                "A RecordBatchReader can be read once, and these reports need two passes; give the dataset, the table "
                "or the files that it reads."
            )
        self._read = True
        return joined(self._open(list(dict.fromkeys(columns))))


class ArrowFile(AbstractFile):
    """A file of Arrow IPC, also called Feather."""

    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")

    def schema(self):
        with _opened(self.path) as file:
            return file.schema

    def pieces(self):
        return [IpcPiece(self.path)]


class IpcPiece(FilePiece):
    """All batches of a file of Arrow IPC."""

    def rows(self, columns):
        import pyarrow as pa

        with foreign("is not a readable Arrow file", self.source), _opened(self.source, columns) as file:
            for i in range(file.num_record_batches):
                try:
                    batch = file.get_batch(i).select(columns)
                except pa.ArrowMemoryError:
                    raise DataError("says that it holds more than there is memory for", source=self.source) from None
                batch.validate(full=True)  # what does not fit in a damaged file would be read beyond its end
                yield pa.Table.from_batches([batch])


def _opened(path, columns=None):
    """Return the open file; of several columns only those in use are decoded."""
    import pyarrow as pa

    files.open_input(path).close()
    with foreign("is not a readable Arrow file", path):
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        if columns is None:
            return file
        chosen = pa.ipc.IpcReadOptions(included_fields=[file.schema.get_field_index(name) for name in columns])
        return pa.ipc.open_file(pa.memory_map(str(path)), options=chosen)


def texts_of(metadata):
    """Return the key-value metadata of Arrow as texts."""
    return {key.decode(errors="replace"): text.decode(errors="replace") for key, text in (metadata or {}).items()}


def joined(batches, source=None):
    """Yield the pieces of record batches; small batches are joined.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
    source : str, optional
        What the pieces belong to, for messages.
    """
    import pyarrow as pa

    first, held, size = 0, [], 0
    with foreign("the Arrow source cannot be read"):
        for batch in itertools.chain(batches, [None]):
            if batch is not None:
                held.append(batch)
                size += batch.num_rows
            if size >= BATCH // 2 or (batch is None and size):
                yield BatchPiece(pa.Table.from_batches(held), first, source)
                first, held, size = first + size, [], 0
