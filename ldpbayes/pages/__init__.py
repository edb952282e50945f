"""What readers see: a Page of each kind of result (one builder a file), and one renderer a file."""

from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.showing import frame, save, show

__all__ = ["Column", "Figure", "Kind", "Note", "Page", "Table", "frame", "save", "show"]


def __dir__() -> list[str]:
    return [*__all__]
