"""Parquet files, read in batches of rows: only the columns in use, and only distinct reports leave a batch."""

import dataclasses
import functools
import glob
import os
import pathlib
from typing import ClassVar
from urllib.parse import unquote

import numpy as np

from ldpbayes import files
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.sources.base import AbstractSource, check_column, check_total, foreign, is_whole, optional
from ldpbayes.sources.frame import FrameSource
from ldpbayes.sources.parquet_batches import read_batches, rows_of, schema_of

_MISSING = "__HIVE_DEFAULT_PARTITION__"  # the folder of rows whose entry is missing


class ParquetSource(AbstractSource):
    """One Parquet file, all that a pattern such as ``reports/*.parquet`` matches, or all in a folder.

    Parameters
    ----------
    path : path-like
    """

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def distinct(self, columns, *, count=None, where=None, by=(), labelled=True):
        where = where or {}
        used = list(dict.fromkeys([*columns, *by, *([count] if count else []), *where]))
        folders = columns_of_folders(self._schemas, used)
        settings = {"count": count, "where": where, "by": by, "labelled": labelled}
        for file, schema in self._schemas.items():
            own = {name: value for name, value in folders.get(file, {}).items() if name not in schema.names}
            held = [name for name in used if name not in own]
            if self._lacks_rows(file, schema, held, where):
                continue
            for column in held:
                check_column(schema.names, column, source=file)
            first = 0
            for part in read_batches(file, held):
                try:
                    frame = FrameSource(with_folders(part, own.items()))
                    for groups in frame.distinct(columns, **settings):
                        row = functools.partial(_row, groups.row, first)
                        yield dataclasses.replace(groups, row=row, source=file)
                except DataError as err:
                    raise err.at(source=file) from err.__cause__
                first += len(part)
            with foreign("is not a readable Parquet file", file):
                check_total(rows_of(file), first, file)

    def _lacks_rows(self, file, schema, used, where):
        """Return whether a file that lacks a column has no row that is asked for, as files of another protocol."""
        if not where or set(used) <= set(schema.names) or not set(where) <= set(schema.names):
            return False
        parts = map(FrameSource, read_batches(file, list(where)))
        return not any(True for part in parts for _ in part.distinct(list(where), where=where))

    def names(self):
        held = [name for schema in self._schemas.values() for name in schema.names]
        return list(dict.fromkeys([*held, *(name for own in columns_of_folders(self._schemas).values() for name in own)]))

    def metadata(self):
        found = [schema.metadata or {} for schema in self._schemas.values()]
        return [{key.decode(errors="replace"): text.decode(errors="replace") for key, text in one.items()} for one in found]

    @functools.cached_property
    def _schemas(self):
        """The schema of every file, by its path."""
        return {file: schema_of(file) for file in matching([self.path])}


def matching(sources):
    """Return the files that paths, folders and patterns stand for; a file that has two names, such as a link, comes once.

    Parameters
    ----------
    sources : iterable of path-like

    Raises
    ------
    ArgumentError, DataError
        On an empty name, a folder without Parquet files, or a pattern that matches none.
    """
    named = {}
    for path in (path for source in sources for path in _matching(_text(source))):
        named.setdefault(os.path.realpath(path), path)
    return list(named.values())


def _text(source):
    """Return the text of a path, as it stands: without its last slash a folder would be a file."""
    if isinstance(source, str) and not source:
        return source
    files.as_path(source)  # refuses what names no file
    return os.fsdecode(source)


def _matching(text):
    if not text:
        raise ArgumentError("source must name files, got an empty name.")
    if "\0" in text:
        raise DataError("cannot be read (a name cannot hold a NUL character)", source=text)
    if os.path.isdir(text):
        path = pathlib.Path(text)
        tables = (file for file in path.rglob("*") if file.suffix.lower() in ParquetSource.suffixes and not file.is_dir())
        # As Spark and Arrow have it: what programs leave in a folder of tables has names that begin with these.
        found = sorted(str(file) for file in tables if not any(part[0] in "._" for part in file.relative_to(path).parts))
        if not found:
            raise DataError("holds no Parquet file (.parquet, .pq)", source=text)
        return found
    if glob.has_magic(text) and not os.path.exists(text):
        found = sorted(glob.glob(text, recursive=True))
        if not found:
            raise DataError(f"matches no file{files.elsewhere(text)}", source=text)
        return found
    return [text]


def columns_of_folders(paths, columns=None):
    """Return the columns that names of folders such as ``country=NL`` hold, in a dict for every file.

    A column whose entries are whole numbers in all files holds numbers, another texts.

    Parameters
    ----------
    paths : iterable of str
    columns : sequence of str, optional
        Those that are asked for; all of them by default.
    """
    found = {path: {} for path in paths}
    for path, own in found.items():
        for part in pathlib.Path(path).parts[:-1]:
            name, equals, text = part.partition("=")
            if equals and name and (columns is None or unquote(name) in columns):
                own[unquote(name)] = unquote(text)
    for name in {name for own in found.values() for name in own}:
        texts = [own[name] for own in found.values() if name in own]
        if texts and all(is_whole(text) and str(int(text)) == text for text in texts):
            for own in found.values():
                own.update({name: int(own[name])} if name in own else {})
    return found


def with_folders(table, folders):
    """Return an Arrow table with the columns, pairs of a name and the entry of all rows, that folders hold."""
    pyarrow = optional("pyarrow", "Reading Parquet")
    for name, value in folders:
        if value == _MISSING:
            raise DataError("holds missing values", field=name)
        entry = pyarrow.array([value])
        codes = pyarrow.array(np.zeros(len(table), dtype=np.int32))
        column = pyarrow.DictionaryArray.from_arrays(codes, entry) if isinstance(value, str) else entry.take(codes)
        table = table.append_column(name, column)
    return table


def _row(row, first, position):
    """Return the row of a file, where that of its part is known."""
    found = row(position)
    return None if found is None else first + found
