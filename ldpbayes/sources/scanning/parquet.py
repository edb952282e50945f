"""Parquet files as a scan reads them: a piece is a run of row groups of one file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.sources.base import check_column, foreign, optional
from ldpbayes.sources.parameters import COLUMN, METADATA
from ldpbayes.sources.parquet import columns_of_folders, matching, with_folders
from ldpbayes.sources.parquet_batches import opened, read_batches
from ldpbayes.sources.scanning.tables import AbstractPiece, AbstractTable

#: Rows of one piece: what is read between two notes in a checkpoint.
_PIECE = 2**22


@dataclass(frozen=True)
class RowGroups(AbstractPiece):
    """Some row groups of a Parquet file, one after the other.

    Attributes
    ----------
    source : str
        The file.
    groups : tuple of int
    first_row, n_rows : int
    folders : tuple of (str, text or int)
        Columns that the names of the file's folders hold.
    """

    source: str
    groups: tuple[int, ...]
    first_row: int
    n_rows: int
    folders: tuple[tuple[str, str | int], ...] = ()

    def batches(self, columns):
        used = [name for name in dict.fromkeys(columns) if name not in dict(self.folders)]
        for batch in read_batches(self.source, used, self.groups):
            yield with_folders(batch, self.folders)

    def origin(self):
        return os.path.abspath(self.source)


class ParquetTable(AbstractTable):
    """One or more Parquet files.

    Parameters
    ----------
    paths : list of str
    """

    identified: ClassVar[bool] = True

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        for path in paths:
            files.open_input(path).close()

    @classmethod
    def opened(cls, source):
        if isinstance(source, (str, os.PathLike)):
            return cls(matching([source]))
        if isinstance(source, (list, tuple)) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
            return cls(matching(source))
        return None

    def pieces(self, columns):
        found, kinds = [], {}
        folders = columns_of_folders(self.paths, columns)
        for path in self.paths:
            with foreign("is not a readable Parquet file", path), opened(path, columns) as file:
                own = {name: value for name, value in folders.get(path, {}).items() if name not in file.schema_arrow.names}
                self._check(file.schema_arrow, path, [name for name in columns if name not in own], kinds)
                rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            found += _runs(path, rows, tuple(own.items()))
        self.n_rows = sum(piece.n_rows for piece in found)
        return found

    def stated(self):
        texts, courtesy = [], []
        for path in self.paths:
            with foreign("is not a readable Parquet file", path), opened(path, [COLUMN]) as file:
                metadata = file.schema_arrow.metadata or {}
                if METADATA.encode() in metadata:
                    courtesy.append(metadata[METADATA.encode()].decode())
                if not texts and COLUMN in file.schema_arrow.names and file.metadata.num_rows:
                    texts += next(file.iter_batches(1, columns=[COLUMN])).column(0).to_pylist()
        return texts, courtesy

    def marks(self):
        out = []
        for path in self.paths:
            state = os.stat(path)
            out.append(f"{os.path.realpath(path)} {state.st_size} {state.st_mtime_ns}")
        return out

    def _check(self, schema, path, columns, kinds):
        """Refuse a file without a column, or with one of another type than the files before it."""
        for name in columns:
            check_column(schema.names, name, source=path)
            kind = _kind(schema.field(name).type)
            first, expected = kinds.setdefault(name, (path, kind))
            if kind != expected:
                raise DataError(f"holds {kind}, but {expected} in {first}; write all files alike", source=path, field=name)


def _is_text(types, kind):
    return types.is_string(kind) or types.is_large_string(kind)


def _kind(kind):
    """Return the kind of a column of reports or keys, in which files may not differ."""
    types = optional("pyarrow", "Reading Parquet").types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if _is_text(types, kind) or types.is_string_view(kind):
        return "texts"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_boolean(kind):
        return "booleans"
    if types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0):
        return "whole numbers"
    if types.is_floating(kind):
        return "numbers with decimals"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"lists of {_kind(kind.value_type)}"
    return str(kind)


def _runs(path, rows, folders=()):
    """Return the pieces of a file: runs of row groups of about _PIECE rows."""
    out, held, first, n = [], [], 0, 0
    for i, size in enumerate(rows):
        if held and n + size > _PIECE:
            out.append(RowGroups(path, tuple(held), first, n, folders))
            held, first, n = [], first + n, 0
        held.append(i)
        n += size
    if n:
        out.append(RowGroups(path, tuple(held), first, n, folders))
    return out
