"""Pages as CSV: the tables with every digit, one line per row."""

import io
import re
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes import files
from ldpbayes.errors import printable
from ldpbayes.pages.page import Page
from ldpbayes.pages.rendering import AbstractRenderer

#: What a formula begins with in one spreadsheet or another, and numbers that begin likewise.
_FORMULA, _NUMBER = ("=", "+", "-", "@"), re.compile(r"[+-]?[0-9]+([.,][0-9]+)*")


@dataclass(frozen=True)
class CSV(AbstractRenderer):
    """One rectangular table: the columns of all tables under their keys, an interval as two, numbers in full.

    The first column names the table where there are several. Tables have all their rows; notes and figures are left out.
    """

    name: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    def render(self, page: Page) -> str:
        """Return the tables as CSV."""
        lines = list(lines_of(page))
        text = io.StringIO()
        columns = list(dict.fromkeys(key for line in lines for key in line))
        rows = [columns, *([line.get(column, "") for column in columns] for line in lines)]
        files.write_rows(text, (map(_cell, row) for row in rows))
        return text.getvalue()


def lines_of(page: Page):
    """Yield every row of every table as a dict; the entry "table" names the table where there are several."""
    tables = [table.complete() for table in page.tables]
    for table in tables:
        for line in table.lines():
            cells = {name: _value(value) for name, value in line.items()}
            yield {"table": table.title, **cells} if len(tables) > 1 else cells


def _value(value):
    """Return a value, or nothing for one that is missing."""
    return "" if value is None or value != value else value


def _cell(value):
    """Return a value as no spreadsheet takes it for a formula, and no terminal for a command.

    A text that begins as a formula does, and is no number, gets the apostrophe by which spreadsheets know a text.
    """
    if not isinstance(value, str):
        return value
    text = printable(value, keep="\n")
    return f"'{text}" if text.lstrip()[:1] in _FORMULA and not _NUMBER.fullmatch(text) else text
