"""Pages as HTML: one file that needs no other and no network, readable on a phone, on paper and by a screen reader."""

import base64
import io
from dataclasses import dataclass
from html import escape
from typing import ClassVar

from ldpbayes.pages.page import Kind, Page
from ldpbayes.pages.renderers.base import AbstractRenderer

_STYLE = """
.ldp { --line: #999; --warn: #b3261e; line-height: 1.5; overflow-wrap: anywhere; }
.ldp .scroll { overflow-x: auto; margin: 1rem 0; }
.ldp table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.ldp caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
.ldp th, .ldp td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; overflow-wrap: normal; }
.ldp td { white-space: nowrap; }
.ldp .text { text-align: left; }
.ldp td.text, .ldp th.text { white-space: normal; min-width: 6rem; max-width: 24rem; }
.ldp thead th { border-bottom: 2px solid; vertical-align: bottom; }
.ldp tbody th { font-weight: 400; }
.ldp .warning { color: var(--warn); font-weight: 600; }
.ldp .note { font-size: .9rem; }
"""
_WHOLE = """
:root { color-scheme: light dark; }
body.ldp { margin: 0 auto; padding: 1rem; max-width: 62rem; font: 1rem/1.5 system-ui, sans-serif; color: #1a1a1a;
  background: #fff; }
.ldp figure { margin: 1.5rem 0; }
.ldp img { max-width: 100%; height: auto; background: #fff; }
.ldp figcaption { font-size: .9rem; }
.ldp ul { padding-left: 1.2rem; }
@media (prefers-color-scheme: dark) { body.ldp { color: #eee; background: #16181c; --line: #666; --warn: #ffb199; } }
@media print { body.ldp { max-width: none; } .ldp .scroll { overflow: visible; } .ldp figure { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class HTML(AbstractRenderer):
    """One self-contained file: tables, figures as embedded SVG with alternative texts, notes. No script.

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
        if not self.whole:
            return f'<style>{_STYLE}</style><div class="ldp">{_body(page, figures=False, level=4)}</div>'
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,">\n<title>{escape(page.title)}</title>\n<style>{_STYLE}{_WHOLE}</style>\n'
            f'</head>\n<body class="ldp">\n<main>\n{_body(page, figures=True, level=1)}</main>\n</body>\n</html>\n'
        )


def _body(page, figures, level):
    parts = [f"<h{level}>{escape(page.title)}</h{level}>"]
    parts += [_table(table, page.title) for table in page.tables]
    parts += [_figure(figure) for figure in page.figures] if figures else []
    if page.notes:
        parts.append(f"<h{level + 1}>What to know about these numbers</h{level + 1}>" if figures else "")
        parts.append(f"<ul>\n{''.join(map(_note, page.notes))}</ul>")
    return "\n".join(filter(None, parts)) + "\n"


def _note(note):
    if note.kind == Kind.WARNING:
        return f'<li class="warning">Warning: {escape(note.text)}</li>\n'
    return f"<li>{escape(note.text)}</li>\n"


def _table(table, title):
    name = table.title if table.title != title else ""
    heads = "".join(f'<th scope="col"{_class(column)}>{escape(column.full_heading)}</th>' for column in table.columns)
    rows = []
    for row in table.texts():
        cells = [
            f'<th scope="row"{_class(column)}>{escape(text)}</th>' if i == 0 else f"<td{_class(column)}>{escape(text)}</td>"
            for i, (column, text) in enumerate(zip(table.columns, row, strict=True))
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"<caption>{escape(name)}</caption>" if name else ""
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    # A region that scrolls must be reachable by the keyboard, and have a name.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.title or title)}, table">'
        f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>\n" + "\n".join(rows) + f"\n</tbody></table></div>{note}"
    )


def _class(column):
    return ' class="text"' if column.is_left else ""


def _figure(figure):
    picture = io.BytesIO()
    figure.draw().savefig(picture, format="svg", metadata={"Date": None})
    data = base64.b64encode(picture.getvalue()).decode()
    return (
        f'<figure><img alt="{escape(figure.alt)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )
