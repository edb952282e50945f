"""Files of rows: one, several, a pattern or a folder of them; names of folders such as ``country=NL`` are columns."""

import functools
import glob
import os
import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from ldpbayes import files
from ldpbayes.errors import DataError, listed
from ldpbayes.sources.base import arrow_kind, check_column, foreign, texts_of, whole_or_texts
from ldpbayes.sources.copies import check_files, origins_of
from ldpbayes.sources.csv import CsvFile
from ldpbayes.sources.stream import Source, formats

#: The folder of rows whose entry is missing.
_MISSING = "__HIVE_DEFAULT_PARTITION__"


class FileSource(Source):
    """One or more files, each in the format of its suffix; others are read as CSV."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.files = [_format(path)(path) for path in paths]
        self.of_texts = all(isinstance(file, CsvFile) for file in self.files)
        for path in paths:
            files.open_input(path).close()

    @classmethod
    def opened(cls, data):
        """Return the source of a path or several, None for all else."""
        if isinstance(data, (str, bytes, os.PathLike)):
            return cls(matching([data]))
        if isinstance(data, (list, tuple)) and data and all(isinstance(path, (str, os.PathLike)) for path in data):
            return cls(matching(data))
        return None

    def names(self):
        return list(dict.fromkeys(name for _, schema, folders in self._known for name in (*schema.names, *folders)))

    def metadata(self):
        return [texts_of(schema.metadata) for _, schema, _ in self._known]

    def pieces(self, columns, strict=True, most=None):
        pieces, kinds = [], {}
        for file, schema, own in self._known:
            for name in columns if strict else ():
                if name not in own:
                    check_column(schema.names, name, source=file.source, line=file.header)
                    _check_kind(schema.field(name).type, name, file.source, kinds)
            facts = {
                "names": (*schema.names, *own),
                "folders": tuple((name, value) for name, value in own.items() if name in columns),
            }
            with foreign("cannot be read", file.source):
                pieces += [replace(piece, **facts) for piece in file.pieces()]
        sizes = [piece.n_rows for piece in pieces]
        self.n_rows = None if None in sizes else sum(sizes)
        return pieces

    def marks(self):
        """Return the name, size and time of every file; None where one is standard input."""
        if files.STDIN in self.paths:
            return None
        states = ((os.path.realpath(path), os.stat(path)) for path in self.paths)
        return [f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in states]

    def origins(self, columns):
        return origins_of((file for file in self.files if file.source != files.STDIN), columns)

    @functools.cached_property
    def _known(self):
        """Every file, its Arrow schema, and the columns that the names of its folders hold and it does not hold itself."""
        files, folders = [], columns_of_folders(self.paths)
        for file in self.files:
            file = replace(file, lenient=self.lenient)
            schema = file.schema()
            with foreign("has names of columns that cannot be read", file.source):  # in a damaged file they are no UTF-8
                names = schema.names
            files.append((file, schema, {name: value for name, value in folders[file.source].items() if name not in names}))
        if self.copies == "refuse":
            check_files(self.files, self.count_column)
        return files


def _format(path):
    """Return the format of a file; CSV, the usual one, is known without a look at the others."""
    suffix = pathlib.Path(path).suffix.lower()
    return CsvFile if suffix == ".csv" else formats().get(suffix, CsvFile)


def _check_kind(kind, name, path, kinds):
    """Refuse a file with a column of another kind than in the files before it; one without entries may have any type."""
    kind = arrow_kind(kind)
    if kind == "null":
        return
    first, expected = kinds.setdefault(name, (path, kind))
    if kind != expected:
        remedy = "write all files alike, or name each kind as a channel of its own in a collection file"
        raise DataError(f"holds {kind}, but {expected} in {first}; {remedy}", source=path, field=name)


def matching(sources: Iterable[Any]) -> list[str]:
    """Return the files that paths, folders and patterns stand for; a file that has two names, such as a link, comes once.

    Raises
    ------
    ArgumentError, DataError
        On an empty name, a folder without files of rows, or a pattern that matches none.
    """
    named: dict[str, str] = {}
    for path in (path for source in sources for path in _matching(files.text_of(source))):
        named.setdefault(os.path.realpath(path), path)
    return list(named.values())


def _matching(text):
    if "\0" in text:
        raise DataError("cannot be read (a name cannot hold a NUL character)", source=text)
    if os.path.isdir(text):
        path = pathlib.Path(text)
        readers = formats()
        tables = (file for file in path.rglob("*") if file.suffix.lower() in readers and not file.is_dir())
        # As Spark and Arrow have it: what programs leave in a folder of tables has names that begin with these.
        found = sorted(str(file) for file in tables if not any(part[0] in "._" for part in file.relative_to(path).parts))
        first = {readers[pathlib.Path(file).suffix.lower()]: file for file in reversed(found)}
        if len(first) > 1:
            names = listed([os.path.relpath(file, text) for file in sorted(first.values())])
            reason = f"holds files of several formats ({names}); name a pattern such as {os.path.join(text, '*.csv')}"
            raise DataError(reason, source=text)
        if not found:
            raise DataError(f"holds no file of rows ({', '.join(sorted(readers))})", source=text)
        return found
    if glob.has_magic(text) and not os.path.exists(text):
        found = sorted(glob.glob(text, recursive=True))
        if not found:
            raise DataError(f"matches no file{files.elsewhere(text)}", source=text)
        return found
    return [text]


def columns_of_folders(paths: Sequence[str]) -> dict[str, dict[str, str | int | None]]:
    """Return the columns that names of folders such as ``country=NL`` hold, in a dict for every file.

    A column whose entries are whole numbers in all files holds numbers, another texts; an entry may be missing.
    """
    columns: dict[str, dict[str, str | int | None]] = {path: {} for path in paths}
    for path, values in columns.items():
        for part in pathlib.Path(path).parts[:-1]:
            name, equals, text = part.partition("=")
            if equals and name:
                values[unquote(name)] = None if text == _MISSING else unquote(text)
    for name in {name for values in columns.values() for name in values}:
        held = [values for values in columns.values() if name in values]
        for values, entry in zip(held, whole_or_texts([values[name] for values in held]), strict=True):
            values[name] = entry
    return columns
