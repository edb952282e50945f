"""Pages as HTML: one file that needs no other and no network, readable on a phone, on paper and by a screen reader.

The markup is in ``page.html`` (a template of jinja2), colours and sizes in ``page.css``, sorting in ``page.js``.
"""

import functools
import html
import importlib.resources
import re
from dataclasses import dataclass, replace
from typing import ClassVar

from ldpbayes.errors import printable
from ldpbayes.pages.page import Kind, Page
from ldpbayes.pages.prose import split
from ldpbayes.pages.renderers.csv import CSV
from ldpbayes.pages.rendering import AbstractRenderer

#: Display: Longer tables show half as many rows; the rest is folded.
OPEN_ROWS = 20
#: Display: Tables show so many columns, up to this priority, those that leave a display last; the others are folded.
OPEN_COLUMNS = 5
#: Display: Longer tables than this have no copy as CSV beside them; ``--page out.csv`` writes it.
COPIED_ROWS = 5000
#: Display: Longer words are broken anywhere.
LONGEST_WORD = 20
#: Display: Texts up to this length stay on one line.
SHORT = 14
#: What notes are about, by the heading in the folded part.
_SECTIONS = {
    "Data": (Kind.DATA, Kind.WORTH),
    "Method": (Kind.METHOD, Kind.EVIDENCE),
    "Diagnostics": (Kind.DIAGNOSTIC,),
    "Point estimates": (Kind.ESTIMATE,),
}


@dataclass(frozen=True)
class HTML(AbstractRenderer):
    """One self-contained file: the answer, figures as SVG with titles and descriptions, tables, and the rest folded.

    Parameters
    ----------
    whole : bool
        A whole document with figures; False gives a fragment for a notebook, with tables and notes only.
    """

    name: ClassVar[str] = "html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm")

    whole: bool = True

    def render(self, page: Page) -> str:
        """Return the page as HTML."""
        parts = [_part(table, page) for table in page.tables]
        folded = {"Question and design": page.about, "Data, method and diagnostics": _method(page.notes)}
        folded["Compute it again"] = page.again
        style = _source("page.css")
        return _template().render(
            page=page,
            whole=self.whole,
            style=style if self.whole else style.partition("/*")[0],
            script=_source("page.js"),
            parts=parts,
            sorting=any(part["folded"] and len(part["every"].rows) > OPEN_ROWS for part in parts),
            figures=[_figure(figure, i) for i, figure in enumerate(page.figures, 1)] if self.whole else [],
            cautions=_opened(page.notes, Kind.WARNING),
            verdicts=_opened(page.notes, Kind.VERDICT),
            folded=folded,
        )


def _source(name):
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _template():
    from jinja2 import Environment

    world = Environment(
        autoescape=True, finalize=lambda value: value if isinstance(value, int) else printable(value, keep="\n\t")
    )
    world.filters |= {
        # No line ends before a per-cent sign, and names may be broken after underscores.
        "words": lambda text: escape(text).replace(" %", "&nbsp;%").replace("_", "_<wbr>"),
        "lines": lambda table: zip(table.texts(), table.rows, strict=True),
        "classes": lambda cell: _classes(*cell),
    }
    return world.from_string(_source("page.html"))


def escape(text: str) -> str:
    """Return text without any meaning to HTML, and without what turns the direction of a text or steers a terminal."""
    return html.escape(printable(text, keep="\n\t"))


def _opened(notes, kind):
    """Return (first sentence, the rest) of the notes of a kind."""
    return [split(note.text) for note in notes if note.kind == kind]


def _method(notes):
    """Return the notes that are no warnings and no verdicts, by heading."""
    texts = {name: "\n".join(note.text for note in notes if note.kind in kinds) for name, kinds in _SECTIONS.items()}
    return {name: text for name, text in texts.items() if text}


def _part(table, page):
    """Return what a page shows of a table: its first rows and main columns, and all of it folded."""
    every = table.complete()
    order = sorted(range(len(table.columns)), key=lambda i: table.columns[i].priority)
    least = [i for i in order[:OPEN_COLUMNS] if table.columns[i].priority <= OPEN_COLUMNS]
    shown = sorted({*least, *(i for i in order if not table.columns[i].priority)})
    first = table
    if len(table.rows) > OPEN_ROWS:
        first = table.first(OPEN_ROWS) if table.brief else replace(table, rows=table.rows[: OPEN_ROWS // 2], note="")
    keys = {table.columns[i].key for i in shown}
    first = first.only([i for i, column in enumerate(first.columns) if column.key in keys])
    more = [f"all {len(every.rows):,} rows"] if len(every.rows) > len(first.rows) else []
    more += ["all columns"] if len(shown) < len(table.columns) else []
    words = " and ".join(more)
    return {
        "name": table.title or page.title,
        "heading": table.title if table.title != page.title else "",
        "first": first,
        "every": every,
        "note": first.note,
        "folded": f"{words[:1].upper()}{words[1:]}" or ("All columns" if any(x.priority for x in first.columns) else ""),
        "narrow": not words,  # on a phone columns that others outrank are hidden
        "csv": CSV().render(Page("", (every,))) if 0 < len(every.rows) <= COPIED_ROWS else "",
    }


def _classes(column, text, value):
    """Return the attributes of a cell: how its text may be broken, and the length of its bar."""
    if column.bar and value is not None and 0 <= value <= 1:
        return f' class="bar" style="--share: {100 * value:.1f}%"'
    if not column.is_left:
        return ' class="more"' if column.priority else ""
    longest = max((len(word) for word in re.split(r"[\s_]", text)), default=0)
    size = " short" if 0 < len(text) <= SHORT else " long" if longest > LONGEST_WORD else ""
    return f' class="text{size}{" more" * bool(column.priority)}"'


_SVG_START = re.compile(r"<svg\b[^>]*>", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_NAMES = re.compile(r'(\bid="|\bhref="#|url\(#)')


def _figure(figure, number):
    """Return a figure as SVG for the page; its ids get the figure's number, so that two figures share none."""
    from ldpbayes.plots import to_svg

    text = to_svg(figure.draw())
    start = _SVG_START.search(text)
    box = re.search(r'viewBox="[^"]*"', start[0])[0]
    body = _NAMES.sub(rf"\g<1>f{number}-", _METADATA.sub("", text[start.end() :]))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box} role="img" '
        f'aria-labelledby="figure-{number}-title figure-{number}-words">'
        f'<title id="figure-{number}-title">{escape(figure.caption)}</title>'
        f'<desc id="figure-{number}-words">{escape(figure.alt)}</desc>{body}'
    )
    return {"number": number, "svg": svg, "caption": figure.caption}
