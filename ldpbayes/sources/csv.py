"""CSV files, read in chunks with errors that name the line."""

import csv
import io
import re

import numpy as np

from ldpbayes import files
from ldpbayes.checks import MAX_COUNT
from ldpbayes.errors import DataError, listed, shown

_CHUNK = 2**16  # rows of a CSV file that are in memory together


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
        with io.TextIOWrapper(files.open_input(source), encoding="utf-8-sig", newline="") as handle:
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
        after = f" (after line {reader.line_num})" if reader.line_num else ""
        raise DataError(f"is not UTF-8 text{after}", source=source) from err
    except OSError as err:
        raise DataError(f"cannot be read ({err.strerror})", source=source) from err


def parse_counts(column, lines, field):
    """Return a text column as int64 counts, or raise a DataError that names the line of the first bad one."""
    out = np.empty(len(column), dtype=np.int64)
    for i, text in enumerate(column):
        # int() would read 4_0 as forty and the digits of every script, and refuses thousands of digits.
        number = text.strip()
        if not _WHOLE.fullmatch(number):
            raise DataError(f"count must be a whole number, got {shown(text)}", line=lines[i], field=field)
        if len(number) > 40 or not 0 <= int(number) <= MAX_COUNT:
            raise DataError(f"count must be from 0 to 10**12, got {number:.40}", line=lines[i], field=field)
        out[i] = int(number)
    return out


_WHOLE = re.compile(r"[+-]?[0-9]+")


def _check_header(header, used):
    for column in used:
        if header.count(column) != 1:
            problem = f"has two columns {shown(column)}" if column in header else f"has no column {shown(column)}"
            raise DataError(f"{problem}; it has {listed(header) or 'none'}", line=1)


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
