"""JSON lines, one object a row: Arrow reads them, and Python's slower reader finds the line of what is wrong."""

import json
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.sources.stream import BATCH, AbstractFile

#: Bytes that are read in one go; a line must fit.
BLOCK = 2**24


class JsonFile(AbstractFile):
    """A file of JSON lines. Texts stay texts, also those of dates."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    def schema(self):
        return _dataset(self.source).schema

    def rows(self, columns):
        import pyarrow as pa

        try:
            for batch in _dataset(self.source).to_batches(columns=list(columns), batch_size=BATCH, use_threads=False):
                yield pa.Table.from_batches([batch])
        except (OSError, ValueError, NotImplementedError) as err:  # also those of Arrow
            raise _refusal(self.source, err) from err

    def every_line(self):
        with files.open_input(self.source) as handle:
            yield from (number for number, text in enumerate(handle, 1) if text.strip())


def _dataset(path):
    import pyarrow as pa
    from pyarrow import dataset
    from pyarrow import json as arrow

    options = dataset.JsonFileFormat(read_options=arrow.ReadOptions(block_size=BLOCK))
    try:
        table = dataset.dataset(str(path), format=options)
        fields = [field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field for field in table.schema]
        return dataset.dataset(str(path), format=options, schema=pa.schema(fields))
    except (OSError, ValueError, NotImplementedError) as err:
        raise _refusal(path, err) from err


def _refusal(path, err):
    """Return what is wrong with a file that Arrow does not read."""
    empty = True
    with files.open_input(path) as handle:
        for number, text in enumerate(handle, 1):
            empty = empty and not text.strip()
            try:
                if text.strip() and not isinstance(json.loads(text), dict):
                    return DataError("holds something else than a JSON object", source=path, line=number)
            except (ValueError, RecursionError) as problem:  # also text that is not UTF-8
                return DataError(f"is not JSON: {str(problem).splitlines()[0]}", source=path, line=number)
    if empty:
        return DataError("has no rows", source=path)
    reason = str(err).splitlines()[0].rpartition("Invalid: ")[2].partition(" in row ")[0]  # the row is one of a block
    return DataError(f"is not a readable file of JSON lines: {reason[:200]}", source=path)
