"""Parquet files: a piece is a run of row groups of one file, which ``parquet_batches`` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.sources.base import foreign
from ldpbayes.sources.parquet_batches import opened, read_batches, schema_of
from ldpbayes.sources.stream import AbstractFile, FilePiece

#: Rows of one piece: what is read between two notes in a checkpoint.
_PIECE = 2**22


class ParquetFile(AbstractFile):
    """A Parquet file."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def schema(self):
        return schema_of(self.path)

    def pieces(self):
        with foreign("is not a readable Parquet file", self.path), opened(self.path, ()) as file:
            rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        out, held, first, n = [], [], 0, 0
        for i, size in enumerate(rows):
            if held and n + size > _PIECE:
                out.append(RowGroups(self.path, first, n, groups=tuple(held)))
                held, first, n = [], first + n, 0
            held.append(i)
            n += size
        return out + ([RowGroups(self.path, first, n, groups=tuple(held))] if n else [])


@dataclass(frozen=True)
class RowGroups(FilePiece):
    """Some row groups of a Parquet file, one after the other.

    Attributes
    ----------
    groups : tuple of int
    """

    groups: tuple[int, ...] = ()

    def rows(self, columns):
        return read_batches(self.source, columns, self.groups)
