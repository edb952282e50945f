"""From any data to the source that reads it."""

from __future__ import annotations

from typing import Any

from ldpbayes.errors import ArgumentError
from ldpbayes.sources.paths import FileSource
from ldpbayes.sources.stream import AbstractSource, load


def open_source(data: Any) -> AbstractSource:
    """Return the source of data, by the classes of this package.

    Parameters
    ----------
    data : path, list of paths, Arrow table, dataset or reader, DuckDB relation or data frame

    Raises
    ------
    ArgumentError
        Where none of them reads it.
    """
    source = FileSource.opened(data)
    if source is not None:
        return source
    load()
    for cls in sorted(AbstractSource.__subclasses__(), key=lambda cls: cls.asked_last):
        source = cls.opened(data)
        if source is not None:
            return source
    raise ArgumentError(
        "the data must be files (a path, a pattern or a list), an Arrow table, dataset or reader, a DuckDB relation, a "
        f"data frame of Spark or any other that narwhals reads, got {type(data).__name__}."
    )
