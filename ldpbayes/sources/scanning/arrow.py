"""Arrow tables, record batches, datasets and readers as a scan reads them."""

from __future__ import annotations

import functools
import itertools
import sys

from ldpbayes.errors import ArgumentError
from ldpbayes.sources.base import check_column, foreign, optional
from ldpbayes.sources.parameters import COLUMN, METADATA
from ldpbayes.sources.scanning.frames import BatchPiece
from ldpbayes.sources.scanning.tables import BATCH, AbstractTable


class ArrowTable(AbstractTable):
    """Anything of Arrow that yields record batches.

    Parameters
    ----------
    open_batches : callable
        From the columns in use to an iterable of record batches.
    schema : pyarrow.Schema
    first : callable, optional
        From columns to a table of the first row.
    n_rows : int, optional
    once : bool
        Whether it can be called only once.
    """

    def __init__(self, open_batches, schema, first=None, n_rows=None, once=False) -> None:
        self._open, self.n_rows, self._once, self._read = open_batches, n_rows, once, False
        self._schema, self._first = schema, first

    @classmethod
    def opened(cls, source):
        pa = sys.modules.get("pyarrow")
        if pa is None:
            return None
        if isinstance(source, pa.RecordBatch):
            source = pa.Table.from_batches([source])
        tables, readers = pa.Table, pa.RecordBatchReader
        if isinstance(source, tables):
            first = functools.partial(_first_of_table, source)
            return cls(lambda columns: source.to_batches(BATCH), source.schema, first, source.num_rows)
        if isinstance(source, readers):
            return cls(lambda columns: source, source.schema, once=True)
        dataset = sys.modules.get("pyarrow.dataset")
        if dataset is not None and isinstance(source, dataset.Dataset):

            def batches(columns):
                used = [name for name in dict.fromkeys(columns) if name in source.schema.names]
                settings = {"batch_size": BATCH, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
                return source.to_batches(columns=used, **settings)

            return cls(batches, source.schema, lambda columns: source.head(1, columns=columns))
        return None

    def stated(self):
        courtesy = (self._schema.metadata or {}).get(METADATA.encode())
        texts = []
        if self._first is not None and COLUMN in self._schema.names:
            with foreign("the Arrow source cannot be read"):
                texts = self._first([COLUMN]).column(0).to_pylist()
        return texts, [] if courtesy is None else [courtesy.decode()]

    def pieces(self, columns):
        if self._once and self._read:
            raise ArgumentError(
                "A RecordBatchReader can be read once, and these reports need two passes; give the dataset, the table "
                "or the files that it reads."
            )
        for name in columns:
            check_column(self._schema.names, name)
        self._read = True
        return joined(self._open(columns))


def _first_of_table(table, columns):
    return table.select(columns).slice(0, 1)


def joined(batches, source=None):
    """Yield the pieces of record batches; small batches are joined.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
    source : str, optional
        What the pieces belong to, for messages.
    """
    pa = optional("pyarrow", "Scanning reports")
    first, held, size = 0, [], 0
    with foreign("the Arrow source cannot be read"):
        for batch in itertools.chain(batches, [None]):
            if batch is not None:
                held.append(batch)
                size += batch.num_rows
            if size >= BATCH // 2 or (batch is None and size):
                yield BatchPiece(pa.Table.from_batches(held), first, source)
                first, held, size = first + size, [], 0
