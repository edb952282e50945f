"""Parquet files, read in batches of rows: only the columns in use, and only distinct reports leave a batch."""

import glob
import os
import pathlib

from ldpbayes.errors import DataError
from ldpbayes.sources.base import AbstractSource, foreign, optional
from ldpbayes.sources.frame import FrameSource

_BATCH = 2**20  # rows that are in memory together


class ParquetSource(AbstractSource):
    """One Parquet file, a folder of them, or all that a pattern such as ``reports/*.parquet`` matches.

    Parameters
    ----------
    path : path-like
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def distinct(self, columns, *, count=None, where=None, by=(), labelled=True):
        pyarrow = optional("pyarrow", "Reading Parquet")
        dataset = optional("pyarrow.dataset", "Reading Parquet")
        where = where or {}
        with foreign("is not a readable Parquet file", self.path):
            table = dataset.dataset(self._files(), format="parquet")
            used = list(dict.fromkeys([*columns, *by, *([count] if count else []), *where]))
            for column in used:
                if table.schema.names.count(column) != 1:
                    problem = f"has two columns {column!r}" if column in table.schema.names else f"has no column {column!r}"
                    raise DataError(f"{problem}; it has {', '.join(table.schema.names) or 'none'}", source=self.path)
            for part in _parts(pyarrow, table.to_batches(columns=used, batch_size=_BATCH, batch_readahead=2)):
                yield from FrameSource(part).distinct(columns, count=count, where=where, by=by, labelled=labelled)

    def _files(self):
        if self.path.exists():
            return str(self.path)
        found = sorted(file for file in glob.glob(str(self.path)) if os.path.isfile(file))
        if not found:
            raise DataError("cannot be read (No such file or directory)", source=self.path)
        return found


def _parts(pyarrow, batches):
    """Yield tables of about _BATCH rows."""
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.num_rows
        if size >= _BATCH:
            yield pyarrow.Table.from_batches(held)
            held, size = [], 0
    if size:
        yield pyarrow.Table.from_batches(held)
