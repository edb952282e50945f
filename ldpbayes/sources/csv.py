"""CSV files: Arrow reads them; Python's slower reader finds the words and the line of what is wrong."""

import codecs
import contextlib
import csv
import functools
import io
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.sources.base import foreign
from ldpbayes.sources.constants import BATCH, BLOCK
from ldpbayes.sources.encode import TEXTS
from ldpbayes.sources.stream import AbstractFile

#: The cells of a row behind the last one: a file that ends inside of quotes swallows it.
_END = "\x00end\x00"
#: How files of other kinds begin, and what to do with them.
_OTHERS = {
    **dict.fromkeys((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ"), "compressed; unpack it first"),
    b"PK\x03\x04": "a workbook or an archive; write it as CSV first",
    b"\xd0\xcf\x11\xe0": "a workbook; write it as CSV first",
    **dict.fromkeys((b'{"', b"[{"), "JSON; write one object a line, in a file whose name ends in .jsonl"),
    b"ARROW1": "an Arrow file; its name must end in .arrow",
    b"PAR1": "a Parquet file; its name must end in .parquet",
    b"\xff\xfe": "UTF-16 text; write it as UTF-8",
    b"\xfe\xff": "UTF-16 text; write it as UTF-8",
}


class CsvFile(AbstractFile):
    """A CSV file: UTF-8 with a header line; a byte-order mark, CRLF or CR at the ends of lines and empty lines are fine."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    header: ClassVar[int | None] = 1

    def schema(self):
        import pyarrow as pa

        return pa.schema([(name, pa.string()) for name in self.cells])

    @functools.cached_property
    def cells(self):
        """Names of the cells of a line."""
        try:
            with _reader(self.source, errors="replace") as rows:
                names = next(rows, [])
        except csv.Error as err:
            raise DataError(f"is not a valid CSV file: {err}", source=self.source, line=1) from err
        if names == []:
            raise DataError("is empty, and must name the columns", source=self.source, line=1)
        if len(names) > BATCH:
            reason = f"has {len(names):,} columns, more than the {BATCH:,} that are read"
            raise DataError(reason, source=self.source, line=1)
        return tuple(cell.strip() for cell in names)

    def rows(self, columns):
        import pyarrow as pa
        from pyarrow import csv as arrow

        columns = columns or self.cells[:1]  # where folders hold all that is asked for
        places = [str(self.cells.index(name)) for name in columns]
        every = list(map(str, range(len(self.cells))))
        settings = {
            "read_options": arrow.ReadOptions(column_names=every, skip_rows_after_names=1, block_size=BLOCK),
            "parse_options": arrow.ParseOptions(
                newlines_in_values=True, invalid_row_handler=self.leave_out if self.lenient else None
            ),
            "convert_options": arrow.ConvertOptions(column_types=dict.fromkeys(places, pa.string()), include_columns=places),
        }
        held = None
        with opened(self.source) as handle:
            try:
                for batch in arrow.open_csv(_WithEnd(handle, ",".join([_END] * len(every)), self.lenient), **settings):
                    if held is not None:
                        yield _named(pa, held, columns)
                    held = batch if batch.num_rows else held
                if held is None or held.column(0)[-1].as_py() != _END:
                    raise ValueError("unexpected end of data")
                yield _named(pa, held.slice(0, held.num_rows - 1), columns)
            except (OSError, ValueError) as err:  # also those of Arrow
                raise self._refusal(err) from err

    def slowly(self):
        problem = "has other cells than the header"
        with contextlib.suppress(csv.Error, DataError), _reader(self.source, strict=False) as rows:
            next(rows, None)
            for row in filter(None, rows):
                yield rows.line_num, ",".join(row), problem if len(row) != len(self.cells) else ""

    def _refusal(self, err):
        """Return what is wrong with a file that Arrow does not read."""
        try:
            with _reader(self.source) as rows:
                for row in filter(None, rows):
                    if len(row) != len(self.cells):
                        return DataError(
                            f"has {len(row)} cells, the header {len(self.cells)}", source=self.source, line=rows.line_num
                        )
        except csv.Error as problem:
            return DataError(f"is not a valid CSV file: {problem}", source=self.source, line=rows.line_num)
        except DataError as problem:
            return problem
        with foreign("is not a valid CSV file", self.source):
            raise err


def _named(pa, batch, columns):
    """Return a batch as a table under the names of the file, marked as one of texts."""
    return pa.Table.from_arrays(batch.columns, list(columns)).replace_schema_metadata({TEXTS: b"1"})


def opened(path):
    """Return the open CSV file; what begins as a file of another kind, or is separated otherwise, is refused."""
    handle = files.open_input(path)
    start = handle.peek(8)
    wrong = [f"is {kind}" for known, kind in _OTHERS.items() if start.startswith(known)]
    header = start.partition(b"\n")[0].decode("latin-1")
    if not wrong and "\0" in header:
        wrong.append("holds NUL characters, as UTF-16 text does; write it as UTF-8")
    for separator, name in () if wrong else ((";", "semicolons"), ("\t", "tabs")):
        with contextlib.suppress(csv.Error):  # lines that end in CR, as on old Macs, or what the reader of the file names
            if "," not in header and len(next(csv.reader([header], delimiter=separator), [])) > 1:
                wrong.append(f"is separated by {name}; write it with commas, as write.csv of R does")
    if wrong:
        handle.close()
        piped = f"{wrong[0].partition(';')[0]}; standard input must be CSV" if str(path) == files.STDIN else ""
        raise DataError(piped or wrong[0], source=path)
    return handle


@contextlib.contextmanager
def _reader(path, strict=True, errors="strict"):
    """Yield the rows of a CSV file by Python's reader."""
    with io.TextIOWrapper(opened(path), encoding="utf-8-sig", errors=errors, newline="") as handle:
        rows = csv.reader(_lines(handle, path), strict=strict)
        try:
            yield rows
        except UnicodeDecodeError as err:
            after = f" (after line {rows.line_num})" if rows.line_num else ""
            raise DataError(f"is not UTF-8 text{after}", source=path) from err


def _lines(handle, path):
    """Yield the lines of an open file; one that is longer than what is read in one go is refused before it is in memory."""
    for number, line in enumerate(iter(lambda: handle.readline(BLOCK), ""), 1):
        if len(line) == BLOCK:
            raise DataError(f"has {BLOCK:,} characters or more", source=path, line=number)
        yield line


class _WithEnd(io.RawIOBase):
    """The bytes of a file, and a last line; where rows are left out all is UTF-8, or Arrow would print a stack for one."""

    def __init__(self, handle, line, checked):
        self.handle, self.line = handle, f"\n{line}\n".encode()
        self.check = codecs.getincrementaldecoder("utf-8")().decode if checked else bytes

    def readable(self):
        return True

    def read(self, size=-1):
        data = self.handle.read(size)
        if size < 0 or len(data) < size:
            data, self.line = data + self.line, b""
        self.check(data)
        return data
