"""CSV files, read in chunks with errors that name the line."""

import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from typing import ClassVar

import numpy as np

from ldpbayes import files
from ldpbayes.checks import MAX_COUNT
from ldpbayes.errors import DataError, shown
from ldpbayes.sources.base import AbstractSource, Groups, check_column, check_total

_CHUNK = 2**16  # rows of a CSV file that are in memory together
_LOOK = 2**10  # rows of a chunk that are looked at before it is grouped

#: How files of other kinds begin, and what to do with them.
_OTHERS = {
    b"\x1f\x8b": "compressed; unpack it first",
    b"PK\x03\x04": "a workbook or an archive; write it as CSV first",
    b"PAR1": "a Parquet file; its name must end in .parquet",
    b"\xff\xfe": "UTF-16 text; write it as UTF-8",
    b"\xfe\xff": "UTF-16 text; write it as UTF-8",
}

_WHOLE = re.compile(r"[+-]?[0-9]+")
_BREAK = re.compile(r"\r\n|\r|\n")


class CsvSource(AbstractSource):
    """A CSV file: UTF-8 with a header line, read and grouped in chunks.

    Parameters
    ----------
    path : path-like
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    def __init__(self, path):
        self.path = path

    def distinct(self, columns, *, count=None, where=None, by=(), labelled=True):
        names = [*columns, *by, *([count] if count else [])]
        for lines, cells in read_table(self.path, names, where):
            counts = parse_counts(cells[-1], lines, count) if count else None
            keys = [[text.strip() for text in column] for column in cells[len(columns) : len(columns) + len(by)]]
            for name, column in zip(by, keys, strict=True):
                if "" in column:
                    raise DataError("holds missing values", source=self.path, line=lines[column.index("")], field=name)
            groups = _group(cells[: len(columns)], keys, counts, lines)
            check_total(len(lines) if counts is None else int(counts.sum()), int(groups.counts.sum()), self.path)
            yield groups

    def names(self):
        with _foreign(self.path), _opened(self.path) as handle:
            return [cell.strip() for cell in next(csv.reader(handle, strict=True), [])]


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
    lines : sequence of int
        Line numbers of the rows, counted from one.
    cells : list of sequences of str
        One sequence per column.

    Raises
    ------
    DataError
        On a missing file, a missing or doubled column, a ragged row, or text that is not UTF-8 or not CSV.
    """
    where = where or {}
    reader = None
    with _foreign(source, lambda: reader.line_num if reader is not None else 0):
        with _opened(source) as handle:
            reader = csv.reader(handle, strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            for column in (*columns, *where):
                check_column(header, column, line=1)
            positions = [header.index(column) for column in columns]
            wanted = {header.index(key): str(value).strip() for key, value in where.items()}
            for lines, rows in _chunks(reader, len(header), wanted):
                table = list(zip(*rows, strict=True))
                yield lines, [table[i] for i in positions]


def _opened(path):
    """Return the open text of a CSV file; what begins as a file of another kind is refused by its name."""
    handle = files.open_input(path)
    start = handle.peek(4)[:4]
    for known, kind in _OTHERS.items():
        if start.startswith(known):
            handle.close()
            raise DataError(f"is {kind}")
    return io.TextIOWrapper(handle, encoding="utf-8-sig", newline="")


@contextlib.contextmanager
def _foreign(source, line=lambda: 0):
    """Turn the errors of a CSV file into DataErrors that name the file."""
    try:
        yield
    except DataError as err:
        raise err.at(source=source) from None
    except csv.Error as err:
        raise DataError(f"is not a valid CSV file: {err}", source=source, line=line() or None) from err
    except UnicodeDecodeError as err:
        after = f" (after line {line()})" if line() else ""
        raise DataError(f"is not UTF-8 text{after}", source=source) from err
    except OSError as err:
        raise DataError(f"cannot be read ({err.strerror})", source=source) from err


def parse_counts(column, lines, field):
    """Return a text column as int64 counts, or raise a DataError that names the line of the first bad one.

    Counts are written in the digits 0 to 9.
    """
    known = dict.fromkeys(column)
    for text in known:
        plain = text.strip(" \t")  # of other white space int() would read some and refuse some
        if not _WHOLE.fullmatch(plain):
            problem = f"count must be a whole number, got {shown(text)}"
        elif len(plain) > 40 or not 0 <= int(plain) <= MAX_COUNT:
            problem = f"count must be from 0 to 10**12, got {plain:.40}"
        else:
            known[text] = int(plain)
            continue
        raise DataError(problem, line=lines[list(column).index(text)], field=field)
    return np.fromiter(map(known.__getitem__, column), dtype=np.int64, count=len(column))


def _group(columns, keys, counts, lines):
    """Return the Groups of one chunk; chunks whose cells are nearly all distinct stay as they are."""
    joined = [*columns, *keys]
    rows = joined[0] if len(joined) == 1 else list(zip(*joined, strict=True))
    look = rows[:_LOOK]
    if len(set(look)) > 0.9 * len(look):
        ones = np.ones(len(rows), dtype=np.int64)
        by = list(zip(*keys, strict=True)) if keys else None
        return Groups(tuple(columns), ones if counts is None else counts, by, lines.__getitem__)
    if counts is None:
        totals = Counter(rows)
        counts = np.fromiter(totals.values(), dtype=np.int64, count=len(totals))
    else:
        totals = {}
        codes = np.fromiter((totals.setdefault(row, len(totals)) for row in rows), dtype=np.int64, count=len(rows))
        sums = np.zeros(len(totals), dtype=np.int64)
        np.add.at(sums, codes, counts)
        counts = sums
    cells = list(totals)
    parts = [cells] if len(joined) == 1 else list(zip(*cells, strict=True))
    by = list(zip(*parts[len(columns) :], strict=True)) if keys else None
    return Groups(tuple(parts[: len(columns)]), counts, by, lambda i: lines[rows.index(cells[i])])


def _chunks(reader, width, wanted):
    """Yield (line numbers, rows) of at most _CHUNK rows that hold the wanted cells."""
    while True:
        before = reader.line_num
        rows = list(itertools.islice(reader, _CHUNK))
        if not rows:
            return
        lines = range(before + 1, reader.line_num + 1)
        if len(lines) != len(rows):  # some cell has a line break
            lines = _last_lines(rows, before)
        if set(map(len, rows)) != {width}:
            kept = [i for i, row in enumerate(rows) if row]  # an empty line is no row
            rows, lines = [rows[i] for i in kept], [lines[i] for i in kept]
            for line, row in zip(lines, rows, strict=True):
                if len(row) != width:
                    raise DataError(f"has {len(row)} cells, the header {width}", line=line)
        if wanted:
            kept = [i for i, row in enumerate(rows) if all(row[j].strip() == value for j, value in wanted.items())]
            rows, lines = [rows[i] for i in kept], [lines[i] for i in kept]
        if rows:
            yield lines, rows


def _last_lines(rows, before):
    """Return the line on which each row ends, from the line breaks in its cells."""
    breaks = [sum(len(_BREAK.findall(cell)) for cell in row) for row in rows]
    return (before + np.cumsum(np.array(breaks) + 1)).tolist()
