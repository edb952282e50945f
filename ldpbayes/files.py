"""Reading TOML and CSV files with errors that name the line, and writing files whole.

A file is written under a temporary name and then renamed, so that an interrupted run loses nothing.
"""

import contextlib
import csv
import os
import pathlib
import tempfile
import tomllib

import numpy as np

from ldpbayes.checks import MAX_COUNT
from ldpbayes.errors import DataError

_CHUNK = 2**16  # rows of a CSV file that are in memory together


@contextlib.contextmanager
def replacing(path):
    """Yield a temporary path beside ``path``; on success it takes the place of ``path``, on failure it is removed.

    Raises
    ------
    DataError
        Where the folder does not exist or cannot be written.
    """
    path = pathlib.Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    except OSError as err:
        raise DataError(f"cannot be written ({err.strerror})", source=path) from err
    os.close(handle)
    try:
        yield pathlib.Path(name)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise


def write_text(path, text):
    """Write text to path, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def read_text(path):
    """Return the text of a UTF-8 file (with or without a byte-order mark), or raise a DataError in one sentence."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as err:
        raise DataError(f"is not UTF-8 text (byte {err.start})", source=path) from err
    except OSError as err:
        raise DataError(f"cannot be read ({err.strerror})", source=path) from err


def read_toml(path):
    """Return the document of a TOML file, or raise a DataError that holds the parser's line and column."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as err:
        raise DataError(f"is not valid TOML: {err}", source=path) from err


def read_table(source, columns, where=None):
    """Read columns of a CSV file in chunks, as text.

    The file is UTF-8 with a header line; a byte-order mark, CRLF line ends and empty lines are accepted.

    Parameters
    ----------
    source : path-like
    columns : sequence of str
        Names in the header.
    where : dict, optional
        Column = value; only rows that match all of them are read.

    Yields
    ------
    lines : list of int
        Line numbers of the rows, counted from one.
    cells : list of lists of str
        One list per column.

    Raises
    ------
    DataError
        On a missing file, a missing or doubled column, a ragged row, or text that is not UTF-8 or not CSV.
    """
    where = where or {}
    reader = None
    try:
        with open(source, encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            _check_header(header, [*columns, *where])
            positions = [header.index(column) for column in columns]
            wanted = {header.index(key): str(value).strip() for key, value in where.items()}
            for lines, rows in _chunks(reader, len(header), wanted):
                yield lines, [[cells[i] for cells in rows] for i in positions]
    except DataError as err:
        raise err.at(source=source) from None
    except csv.Error as err:
        raise DataError(f"is not a valid CSV file: {err}", source=source, line=reader.line_num) from err
    except UnicodeDecodeError as err:
        raise DataError(f"is not UTF-8 text (after line {reader.line_num})", source=source) from err
    except OSError as err:
        raise DataError(f"cannot be read ({err.strerror})", source=source) from err


def parse_counts(column, lines, field):
    """Return a text column as int64 counts, or raise a DataError that names the line of the first bad one."""
    out = np.empty(len(column), dtype=np.int64)
    for i, text in enumerate(column):
        try:
            value = int(text.replace("_", "?"))  # int() would read 4_0 as forty
        except ValueError:
            raise DataError(f"count must be a whole number, got {text!r}", line=lines[i], field=field) from None
        if not 0 <= value <= MAX_COUNT:
            raise DataError(f"count must be from 0 to 10**12, got {value}", line=lines[i], field=field)
        out[i] = value
    return out


def _check_header(header, used):
    for column in used:
        if header.count(column) != 1:
            problem = f"has two columns {column!r}" if column in header else f"has no column {column!r}"
            raise DataError(f"{problem}; it has {', '.join(header) or 'none'}", line=1)


def _chunks(reader, width, wanted):
    """Yield (line numbers, rows) of at most _CHUNK rows that hold the wanted cells."""
    lines, rows = [], []
    for cells in reader:
        if not cells:
            continue
        if len(cells) != width:
            raise DataError(f"has {len(cells)} cells, the header {width}", line=reader.line_num)
        if any(cells[i].strip() != value for i, value in wanted.items()):
            continue
        lines.append(reader.line_num)
        rows.append(cells)
        if len(rows) == _CHUNK:
            yield lines, rows
            lines, rows = [], []
    if rows:
        yield lines, rows
