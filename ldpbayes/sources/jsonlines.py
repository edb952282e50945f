"""JSON lines, one object a row: Arrow reads them, and Python's slower reader finds the line of what is wrong."""

import functools
import io
import itertools
import json
import re
from typing import ClassVar

import numpy as np

from ldpbayes import files
from ldpbayes.constants import MAX_NESTING
from ldpbayes.errors import DataError
from ldpbayes.sources.base import foreign
from ldpbayes.sources.constants import BLOCK, PART, PARTS
from ldpbayes.sources.encode import unread
from ldpbayes.sources.stream import AbstractFile

#: Strings of JSON; one without an end goes to the end of its line. Possessive, so that the time is linear in the length.
_STRING = re.compile(rb'"(?:[^"\\\n]++|\\.)*+"?')
#: All but brackets, and all but opening ones and the ends of rows.
_NO_BRACKET, _NO_OPENING = (bytes(set(range(256)) - set(kept)) for kept in (b"[]{}", b"[{\0"))


class JsonFile(AbstractFile):
    """A file of JSON lines. Texts stay texts, also those of dates."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    def schema(self):
        return self._schema

    @functools.cached_property
    def _schema(self):
        import pyarrow as pa

        kinds, last, left, size = {}, None, PART * PARTS, 0
        for table in itertools.islice(self._tables(), PARTS):
            changed = last is None or not table.schema.equals(last)
            size = _n_keys(pa.struct(list(table.schema))) if changed else size
            left -= table.num_rows * size
            if left < 0 and last is not None:
                break
            if not changed:
                continue
            last = table.schema
            for field in last:
                kind = pa.string() if pa.types.is_timestamp(field.type) else field.type
                known = kinds.setdefault(field.name, kind)
                if kind != known and not _is_record(known):
                    both = [pa.schema([(field.name, one)]) for one in (known, kind)]
                    with foreign("is not a readable file of JSON lines", self.source):
                        kinds[field.name] = pa.unify_schemas(both, promote_options="permissive").field(0).type
        if last is None:
            raise _refusal(self.source, "")
        return pa.schema(list(kinds.items()))

    def rows(self, columns):
        import pyarrow as pa

        schema = self.schema()
        fields = [schema.field(name) for name in columns or schema.names[:1]]
        for field in fields:
            if columns and _is_record(field.type):  # of which a part of the file says how many keys the others have
                raise unread(field.type, field.name).at(source=self.source)
        return self._tables(pa.schema(fields))

    def slowly(self):
        for number, text, problem in _lines(self.source):
            yield number, text.decode(errors="replace").rstrip("\r\n"), problem and "is no JSON object"

    def _tables(self, schema=None):
        """Yield the rows as tables of some columns, by default of small parts and all that these have.

        Arrow's own stream makes nothing of a row that stands alone in a block without the end of its line.
        """
        with files.open_input(self.source) as handle:
            while block := handle.read(BLOCK if schema else PART):
                rest = handle.readline(64 * BLOCK)  # of a line, unless it is no line
                block += rest
                try:
                    long = len(rest) > PART and schema is None  # may hold objects side by side, which Arrow takes for rows
                    problem = "is nested" if _is_deep(block) else long and _problem(block[block.rfind(b"\n", 0, -1) + 1 :])
                    if problem:
                        raise ValueError(problem)
                    table = _parsed(block, schema)
                except (OSError, ValueError, NotImplementedError) as err:  # what Arrow raises
                    if not self.lenient:
                        raise _refusal(self.source, str(err)) from err
                    self.leave_out()
                    with foreign("is not a readable file of JSON lines", self.source):
                        table = _parsed(b"".join(line for line in io.BytesIO(block) if not _problem(line)), schema)
                if table is not None:
                    yield table


def _is_deep(data):
    """Return whether brackets are nested deeper in JSON than a reader should follow, in what is valid of it.

    Arrow goes one call deeper for each bracket, and ends the process where it has no more room for them.
    """
    # Between rows, and nowhere else in valid JSON, a line ends in a bracket and the next begins with one.
    rows = data.replace(b"}\r\n{", b"}\0{").replace(b"}\n{", b"}\0{")
    if b"[" * (MAX_NESTING + 1) not in rows.translate(bytes.maketrans(b"{", b"["), _NO_OPENING):
        return False
    brackets = np.frombuffer(_STRING.sub(b"", data).translate(None, _NO_BRACKET), dtype=np.uint8)
    steps = np.where(np.isin(brackets, list(b"[{")), np.int8(1), np.int8(-1))
    return bool(np.cumsum(steps, dtype=np.int32).max(initial=0) > MAX_NESTING)


def _is_record(kind):
    """Return whether a column holds objects, or lists of them, whose keys are no columns."""
    from pyarrow import types

    while types.is_list(kind):
        kind = kind.value_type
    return types.is_struct(kind)


def _n_keys(kind):
    """Return the number of keys of objects, at any depth, lists among them."""
    return sum(1 + _n_keys(kind.field(i).type) for i in range(kind.num_fields))


def _parsed(block, schema):
    """Return lines as a table, None where all are blank."""
    from pyarrow import json as arrow

    if not block.strip():
        return None
    options = arrow.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore" if schema else "infer")
    return arrow.read_json(io.BytesIO(block), arrow.ReadOptions(use_threads=False, block_size=len(block) + 1), options)


def _problem(line):
    """Return what is wrong with a line, "" where it holds an object."""
    if _is_deep(line):
        return f"is nested more than {MAX_NESTING} levels deep"
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
