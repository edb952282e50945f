"""Pages as Markdown with pipe tables."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.errors import printable
from ldpbayes.pages.page import Kind, Page
from ldpbayes.pages.rendering import AbstractRenderer

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


@dataclass(frozen=True)
class Markdown(AbstractRenderer):
    """A heading, the summary, figures, pipe tables, and notes as a list; tables that are cut follow whole, folded.

    Parameters
    ----------
    links : tuple of str
        Path of the picture of each figure, relative to the page; empty for one that was not drawn.
    """

    name: ClassVar[str] = "markdown"
    suffixes: ClassVar[tuple[str, ...]] = (".md",)
    picture: ClassVar[str] = "svg"

    links: tuple[str, ...] = ()

    def render(self, page: Page) -> str:
        """Return the page as Markdown."""
        blocks = [f"# {escape(page.title)}"]
        blocks += [escape(page.summary)] if page.summary else []
        blocks += _list(page.about)
        for figure, link in zip(page.figures, self.links, strict=False):
            blocks += [f"![{escape(figure.alt)}]({link})"] if link else ["Not drawn, because matplotlib is not installed:"]
            blocks.append(f"*{escape(figure.caption)}*")
        for table in page.tables:
            if table.title and table.title != page.title:
                blocks.append(f"## {escape(table.title)}")
            blocks.append(_table(table))
            if table.note:
                blocks.append(escape(table.note))
            blocks += _list(table.meanings())
            every = table.complete()
            if len(every.rows) > len(table.rows):
                blocks.append(f"<details><summary>All {len(every.rows):,} rows</summary>")
                blocks += [_table(every), "</details>"]
        if page.notes:
            blocks.append("\n".join(f"- {'**Warning.** ' * (n.kind == Kind.WARNING)}{escape(n.text)}" for n in page.notes))
        if page.again:
            blocks += ["## Compute it again", *_list(page.again)]
        return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Return text without any meaning to Markdown or HTML, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split()))).replace("&", "&amp;")


def _list(texts):
    return ["\n".join(f"- **{escape(name)}:** {escape(text)}" for name, text in texts.items())] if texts else []


def _table(table):
    lines = [[escape(column.full_heading) for column in table.columns]]
    lines.append([":---" if column.is_left else "---:" for column in table.columns])
    lines += [[escape(cell) for cell in row] for row in table.texts()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
