"""Pages of results and of data, which ``show`` returns: for terminals, HTML, Markdown, LaTeX, JSON, tables."""

from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.showing import save, show

__all__ = ["Column", "Figure", "Kind", "Note", "Page", "Table", "save", "show"]


def __dir__() -> list[str]:
    return [*__all__]
