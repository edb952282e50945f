"""JSON lines, one object a row: Arrow reads them, and Python's slower reader finds the line of what is wrong."""

import io
import itertools
import json
from dataclasses import dataclass, field
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.sources.base import foreign
from ldpbayes.sources.stream import BATCH, AbstractFile

#: Bytes that are read in one go; a line must fit.
BLOCK = 2**24
#: What Arrow raises.
_ERRORS = (OSError, ValueError, NotImplementedError)


@dataclass(frozen=True)
class JsonFile(AbstractFile):
    """A file of JSON lines. Texts stay texts, also those of dates.

    Attributes
    ----------
    is_broken : bool
        Whether lines that are no objects, such as one that was cut off, are left out.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    is_broken: bool = field(default=False, compare=False)

    def schema(self):
        return self._dataset().schema

    def rows(self, columns):
        import pyarrow as pa

        dataset, read = self._dataset(), 0
        try:
            for batch in dataset.to_batches(columns=list(columns), batch_size=BATCH, use_threads=False):
                yield pa.Table.from_batches([batch])
                read += batch.num_rows
        except _ERRORS as err:
            self._leave_out(err)
            good = itertools.islice(self._good(), read, None)
            while lines := list(itertools.islice(good, BATCH)):
                yield self._parsed(lines, dataset.schema).select(columns)

    def every_line(self):
        return (number for number, _, problem in _lines(self.source) if not (self.is_broken and problem))

    def broken(self):
        for number, text, problem in _lines(self.source) if self.is_broken else ():
            if problem:
                yield number, "is no JSON object", text.decode(errors="replace").rstrip("\r\n")

    def _dataset(self):
        import pyarrow as pa
        from pyarrow import dataset
        from pyarrow import json as arrow

        options = dataset.JsonFileFormat(read_options=arrow.ReadOptions(block_size=BLOCK))
        try:
            first = dataset.dataset(str(self.source), format=options)
        except _ERRORS as err:
            self._leave_out(err)
            first = self._parsed(itertools.islice(self._good(), BATCH))
        fields = [field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field for field in first.schema]
        return dataset.dataset(str(self.source), format=options, schema=pa.schema(fields))

    def _leave_out(self, err):
        """Leave out from now on the lines that are no objects; refuse the file where they are refused, or are all."""
        if not self.lenient or next(self._good(), None) is None:
            raise _refusal(self.source, err) from err
        object.__setattr__(self, "is_broken", True)

    def _good(self):
        return (text for _, text, problem in _lines(self.source) if not problem)

    def _parsed(self, lines, schema=None):
        """Return good lines as a table."""
        from pyarrow import json as arrow

        settings = {"explicit_schema": schema, "unexpected_field_behavior": "ignore" if schema else "infer"}
        rows = io.BytesIO(b"".join(line.rstrip() + b"\n" for line in lines))
        with foreign("is not a readable file of JSON lines", self.source):
            return arrow.read_json(rows, arrow.ReadOptions(block_size=BLOCK), arrow.ParseOptions(**settings))


def _lines(path):
    """Yield (number, bytes, what is wrong with it) of every line that is not blank."""
    with files.open_input(path) as handle:
        for number, text in enumerate(handle, 1):
            if text.strip():
                try:
                    problem = "" if isinstance(json.loads(text), dict) else "holds something else than a JSON object"
                except (ValueError, RecursionError) as err:  # also text that is not UTF-8
                    problem = f"is not JSON: {str(err).splitlines()[0]}"
                yield number, text, problem


def _refusal(path, err):
    """Return what is wrong with a file that Arrow does not read: its first line that is no object, or Arrow's reason."""
    number = None
    for number, _, problem in _lines(path):
        if problem:
            return DataError(problem, source=path, line=number)
    if number is None:
        return DataError("has no rows", source=path)
    reason = str(err).splitlines()[0].rpartition("Invalid: ")[2].partition(" in row ")[0]  # the row is one of a block
    return DataError(f"is not a readable file of JSON lines: {reason[:200]}", source=path)
