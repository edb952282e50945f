"""Parquet files, read in batches of rows: only the columns in use, and only distinct reports leave a batch."""

import functools
import glob
import pathlib
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import DataError, listed, shown
from ldpbayes.sources.base import AbstractSource, foreign, optional
from ldpbayes.sources.frame import FrameSource

_BATCH = 2**20  # rows that are in memory together


class ParquetSource(AbstractSource):
    """One Parquet file, or all that a pattern such as ``reports/*.parquet`` matches.

    Parameters
    ----------
    path : path-like
    """

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def distinct(self, columns, *, count=None, where=None, by=(), labelled=True):
        pyarrow = optional("pyarrow", "Reading Parquet")
        dataset = optional("pyarrow.dataset", "Reading Parquet")
        where = where or {}
        used = list(dict.fromkeys([*columns, *by, *([count] if count else []), *where]))
        alike: dict[tuple, list[str]] = {}  # files whose columns have other types are read by themselves
        for file, schema in self._schemas.items():
            if self._lacks_rows(file, schema, used, where):
                continue
            for column in used:
                if schema.names.count(column) != 1:
                    problem = "has two columns" if column in schema.names else "has no column"
                    raise DataError(f"{problem} {shown(column)}; it has {listed(schema.names) or 'none'}", source=file)
            alike.setdefault(tuple(str(schema.field(column).type) for column in used), []).append(file)
        with foreign("is not a readable Parquet file", self.path):
            for paths in alike.values():
                table = dataset.dataset(paths, format="parquet")
                for part in _parts(pyarrow, table.to_batches(columns=used, batch_size=_BATCH, batch_readahead=2)):
                    yield from FrameSource(part).distinct(columns, count=count, where=where, by=by, labelled=labelled)

    def _lacks_rows(self, file, schema, used, where):
        """Return whether a file that lacks a column has no row that is asked for, as files of another protocol."""
        if not where or set(used) <= set(schema.names) or not set(where) <= set(schema.names):
            return False
        parquet = optional("pyarrow.parquet", "Reading Parquet")
        with foreign("is not a readable Parquet file", file):
            rows = FrameSource(parquet.read_table(file, columns=list(where)))
        return not any(True for _ in rows.distinct(list(where), where=where))

    def names(self):
        return list(dict.fromkeys(name for schema in self._schemas.values() for name in schema.names))

    def metadata(self):
        found = [schema.metadata or {} for schema in self._schemas.values()]
        return [{key.decode(errors="replace"): text.decode(errors="replace") for key, text in one.items()} for one in found]

    @functools.cached_property
    def _schemas(self):
        """The schema of every file, by its path."""
        optional("pyarrow", "Reading Parquet")
        parquet = optional("pyarrow.parquet", "Reading Parquet")
        with foreign("is not a readable Parquet file", self.path):
            return {file: parquet.read_schema(file) for file in self._files()}

    def _files(self):
        """Return the files, each of which is a regular one that can be opened."""
        found = sorted(glob.glob(str(self.path))) if glob.has_magic(str(self.path)) and not self.path.exists() else []
        found = found or [str(self.path)]
        for file in found:
            files.open_input(file).close()
        return found


def _parts(pyarrow, batches):
    """Yield tables of about _BATCH rows."""
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.num_rows
        if size >= _BATCH:
            yield pyarrow.Table.from_batches(held).unify_dictionaries()
            held, size = [], 0
    if size:
        yield pyarrow.Table.from_batches(held).unify_dictionaries()
