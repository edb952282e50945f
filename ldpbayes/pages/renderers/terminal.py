"""Pages as text for a terminal: numbers are never cut, labels wrap, and columns drop in a stated order."""

import io
import os
import sys
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable

from ldpbayes.errors import printable
from ldpbayes.pages.page import Kind, Page, Table
from ldpbayes.pages.rendering import AbstractRenderer

#: Display: Width of tables that go to a file or a pipe, where COLUMNS does not set another.
PIPE_WIDTH = 140
#: Display: Columns of a table on a line of at most a hundred characters; more in proportion on a wider one.
COLUMNS = 8
#: Display: Text wraps at spaces; single words are kept whole up to this width: of 80 characters it leaves
#: 53, which four columns of eight and their borders take. Half breaks words of 13 letters and more; double leaves two.
LONGEST_WORD = 24
#: Display: Text columns are at least this wide (or as wide as their text).
NARROWEST_TEXT = 12
_STYLES = {Kind.WARNING: "red", Kind.VERDICT: "green"}

#: Labels may hold square brackets, so no markup.
out = Console(markup=False, highlight=False, soft_wrap=True, force_jupyter=False)
err = Console(stderr=True, markup=False, highlight=False, soft_wrap=True, force_jupyter=False)


@dataclass(frozen=True)
class Terminal(AbstractRenderer):
    """The summary, boxed tables and one line per note.

    Parameters
    ----------
    width : int, optional
        Characters a line; that of the terminal by default.
    hints : bool
        Name the options of the command line that show what a table leaves out.
    """

    name: ClassVar[str] = "terminal"
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)

    width: int | None = None
    hints: bool = False

    def render(self, page: Page) -> str:
        """Return the page as plain text."""
        text = io.StringIO()
        self._print(page, text, False)
        return text.getvalue().rstrip("\n") + "\n"

    def display(self, page: Page) -> None:
        """Print the page on standard output, with colours where it is a terminal."""
        self._print(page, sys.stdout, None)

    def _print(self, page, file, color):
        width = self.width or line_width()
        wrapped = self.width is not None or sys.stdout.isatty() or _stated_width() is not None
        if page.summary:
            _console(file, width, color).print(visible(page.summary), soft_wrap=not wrapped)
        for i, table in enumerate(page.tables):
            places, widths = layout(table, width)
            needed = sum(widths) + 3 * len(widths) + 1
            console = _console(file, max(width, needed), color)
            if i:
                console.print()
            console.print(_rich_table(table.only(places), widths))
            dropped = [column.full_heading for x, column in enumerate(table.columns) if x not in places]
            if table.note:
                more = " --top N shows more, --json all." if self.hints else ""
                console.print(visible(f"{table.note}{more}"), soft_wrap=not wrapped)
            if dropped:
                more = " A wider window or --json shows them." if self.hints else ""
                left_out = f"Left out to fit {width} characters: {', '.join(dropped)}.{more}"
                console.print(visible(left_out), soft_wrap=not wrapped)
        console = _console(file, width, color)
        for note in page.notes:
            console.print(visible(note.text), style=_STYLES.get(note.kind), soft_wrap=not wrapped)


def line_width() -> int:
    """Return the width of the terminal, or COLUMNS, or PIPE_WIDTH where output goes to a file or a pipe."""
    stated = _stated_width()
    if stated is not None:
        return stated
    return out.width if sys.stdout.isatty() else PIPE_WIDTH


def _stated_width():
    """Return the number of characters a line that COLUMNS states; None where it states none."""
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdigit() and int(stated) > 0 else None


def layout(table: Table, width: int) -> tuple[list[int], list[int]]:
    """Return (positions of the columns kept, their widths) for a line of some width.

    Columns of numbers are at least as wide as their longest number; headings and columns of text may wrap. Where even
    that is too wide, or there are more than COLUMNS for a hundred characters, the column with the largest priority goes
    first; columns of priority 0 stay, however narrow the line.
    """
    texts = table.texts()
    natural, least = [], []
    for i, column in enumerate(table.columns):
        lengths = [cell_len(visible(row[i])) for row in texts]
        heading = visible(column.heading)
        words = max((cell_len(word) for word in heading.split()), default=1)
        if column.kind == "text":
            longest = max((cell_len(word) for row in texts for word in visible(row[i]).split()), default=1)
            wanted = max([cell_len(heading), *lengths, 1])
            natural.append(wanted)
            least.append(max(min(wanted, NARROWEST_TEXT), min(longest, LONGEST_WORD), words))
        else:
            least.append(max([words, *lengths]))
            natural.append(max(least[-1], cell_len(heading)))
    places = list(range(len(natural)))
    most = COLUMNS * max(width, 100) // 100
    while sum(least[i] + 3 for i in places) + 1 > width or len(places) > most:
        droppable = [i for i in places if table.columns[i].priority > 0]
        if not droppable:
            break
        places.remove(max(droppable, key=lambda i: table.columns[i].priority))
    widths = {i: least[i] for i in places}
    spare = width - sum(w + 3 for w in widths.values()) - 1
    while spare > 0:
        growing = [i for i in places if widths[i] < natural[i]]
        if not growing:
            break
        widths[min(growing, key=lambda i: widths[i])] += 1
        spare -= 1
    return places, [widths[i] for i in places]


def visible(text: str) -> str:
    """Return text whose control characters are written out, so that no label steers the terminal."""
    return printable(text.replace("\n", " ").replace("\t", " "))


def _rich_table(table, widths):
    shown = RichTable(title=visible(table.title) or None, title_justify="left")
    for column, width in zip(table.columns, widths, strict=True):
        side = "left" if column.is_left else "right"
        shown.add_column(visible(column.heading), justify=side, width=width, overflow="fold")
    for row in table.texts():
        shown.add_row(*(visible(cell) for cell in row))
    return shown


def _console(file, width, color):
    # Inside a notebook rich would display what it should return, and colour it.
    settings = {"markup": False, "highlight": False, "force_terminal": color, "force_jupyter": False}
    return Console(file=file, width=width, **settings)
