"""From any data to the source that reads it."""

import sys
from typing import Any

from ldpbayes import rooms
from ldpbayes.errors import ArgumentError
from ldpbayes.sources.paths import FileSource
from ldpbayes.sources.stream import Source


def open_source(data: Any) -> Source:
    """Return the source of data.

    Parameters
    ----------
    data : path, list of paths, Arrow table, dataset or reader, DuckDB relation or data frame

    Raises
    ------
    ArgumentError
        Where it is none of these.
    """
    source = FileSource.opened(data)
    if source is None:
        from ldpbayes.sources import arrow, frames

        source = arrow.opened(data) or _of_a_room(data) or frames.opened(data)
    if source is None:
        raise ArgumentError(
            "the data must be files (a path, a pattern or a list), an Arrow table, dataset or reader, a DuckDB relation, a "
            f"data frame of Spark or any other that narwhals reads, got {type(data).__name__}."
        )
    return source


def _of_a_room(data):
    """Return the source of data of a library that a room reads, or None."""
    openers = [rooms.function(name) for library, name in rooms.brought("SOURCES").items() if library in sys.modules]
    return next((source for source in (opened(data) for opened in openers) if source is not None), None)
