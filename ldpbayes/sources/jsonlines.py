"""JSON lines, one object a row: Arrow reads them, and Python's slower reader finds the line of what is wrong."""

import io
import json
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.sources.base import foreign
from ldpbayes.sources.stream import AbstractFile

#: Bytes that are read in one go, with the rest of the last line.
BLOCK = 2**24


class JsonFile(AbstractFile):
    """A file of JSON lines. Texts stay texts, also those of dates."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    def schema(self):
        import pyarrow as pa

        first = next(self._tables(), None)
        if first is None:
            raise _refusal(self.source, "")
        types = pa.types
        fields = [field.with_type(pa.string()) if types.is_timestamp(field.type) else field for field in first.schema]
        return pa.schema(fields)

    def rows(self, columns):
        import pyarrow as pa

        schema = self.schema()
        return self._tables(pa.schema([schema.field(name) for name in columns or schema.names[:1]]))

    def slowly(self):
        for number, text, problem in _lines(self.source):
            yield number, text.decode(errors="replace").rstrip("\r\n"), problem and "is no JSON object"

    def _tables(self, schema=None):
        """Yield the rows as tables of some columns, by default of all that the table itself has.

        Arrow's own stream makes nothing of a row that stands alone in a block without the end of its line.
        """
        with files.open_input(self.source) as handle:
            while block := handle.read(BLOCK):
                block += handle.readline(64 * BLOCK)  # the rest of a line, unless it is no line
                try:
                    table = _parsed(block, schema)
                except (OSError, ValueError, NotImplementedError) as err:  # what Arrow raises
                    if not self.lenient:
                        raise _refusal(self.source, str(err)) from err
                    self.leave_out()
                    with foreign("is not a readable file of JSON lines", self.source):
                        table = _parsed(b"".join(line for line in io.BytesIO(block) if not _problem(line)), schema)
                if table is not None:
                    yield table


def _parsed(block, schema):
    """Return lines as a table, None where all are blank."""
    from pyarrow import json as arrow

    if not block.strip():
        return None
    options = arrow.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore" if schema else "infer")
    return arrow.read_json(io.BytesIO(block), arrow.ReadOptions(use_threads=False, block_size=len(block) + 1), options)


def _problem(line):
    """Return what is wrong with a line, "" where it holds an object."""
    try:
        return "" if isinstance(json.loads(line), dict) else "holds something else than a JSON object"
    except (ValueError, RecursionError) as err:  # also text that is not UTF-8
        return f"is not JSON: {str(err).splitlines()[0]}"


def _lines(path):
    """Yield (number, bytes, what is wrong with it) of every line that is not blank."""
    with files.open_input(path) as handle:
        yield from ((number, text, _problem(text)) for number, text in enumerate(handle, 1) if text.strip())


def _refusal(path, message):
    """Return what is wrong with a file that Arrow does not read: its first line that is no object, or Arrow's reason."""
    number = None
    for number, _, problem in _lines(path):
        if problem:
            return DataError(problem, source=path, line=number)
    if number is None:
        return DataError("has no rows", source=path)
    reason = message.splitlines()[0].rpartition("Invalid: ")[2].partition(" in row ")[0]  # the row is one of a block
    return DataError(f"is not a readable file of JSON lines: {reason[:200]}", source=path)
