"""JSON lines: one object a row."""

from __future__ import annotations

from typing import ClassVar

from ldpbayes import files
from ldpbayes.sources.base import foreign
from ldpbayes.sources.stream import BATCH, AbstractFile, FilePiece


class JsonFile(AbstractFile):
    """A file of JSON lines. Texts stay texts, also those of dates."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    def schema(self):
        return _dataset(self.path).schema

    def pieces(self):
        return [JsonPiece(self.path)]


class JsonPiece(FilePiece):
    """All rows of a file of JSON lines."""

    def rows(self, columns):
        import pyarrow as pa

        with foreign("is not a readable file of JSON lines", self.source):
            for batch in _dataset(self.source).to_batches(columns=list(columns), batch_size=BATCH, use_threads=False):
                yield pa.Table.from_batches([batch])


def _dataset(path):
    import pyarrow as pa
    from pyarrow import dataset

    files.open_input(path).close()
    with foreign("is not a readable file of JSON lines", path):
        found = dataset.dataset(str(path), format="json")
        fields = [field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field for field in found.schema]
        return found.replace_schema(pa.schema(fields))
