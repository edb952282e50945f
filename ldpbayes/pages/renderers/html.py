"""Pages as HTML: one file that needs no other and no network, readable on a phone, on paper and by a screen reader."""

import html
import itertools
import re
from dataclasses import dataclass, replace
from typing import ClassVar

from ldpbayes.errors import printable
from ldpbayes.pages.page import Kind, Page
from ldpbayes.pages.renderers.csv import CSV
from ldpbayes.pages.rendering import AbstractRenderer

#: Groups with more rows than this are folded, one group at a time, where a table has several of them.
OPEN_ROWS = 3
#: Tables of groups with few rows each are shown whole up to so many rows.
GROUP_ROWS = 200
#: Longer tables than this have no copy as CSV beside them; ``--page out.csv`` writes it.
COPIED_ROWS = 5000
#: Longer words are broken anywhere.
LONGEST_WORD = 20
#: Texts up to this length stay on one line.
SHORT = 14
#: Colours have a contrast of at least 4.5 to 1 with their background, by day and by night.
_STYLE = """
.ldp { --paper: #fff; --ink: #1a1a1a; --soft: #555; --line: #8a8a8a; --pale: #f3f5f7; --warn: #a3211a; --warn-back: #fdeceb;
  --link: #00518a;
  line-height: 1.5; overflow-wrap: anywhere; }
.ldp .scroll { overflow-x: auto; margin: .75rem 0; }
.ldp table { border-collapse: collapse; font-size: .94rem; font-variant-numeric: tabular-nums; }
.ldp caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
.ldp th, .ldp td { padding: .3rem .45rem; border-bottom: 1px solid var(--line); text-align: right; overflow-wrap: normal; }
.ldp td { white-space: nowrap; }
.ldp .text { text-align: left; }
.ldp td.text, .ldp th.text { white-space: normal; max-width: 24rem; overflow-wrap: break-word; }
.ldp td.text { min-width: 8rem; }
.ldp td.short, .ldp th.short { white-space: nowrap; min-width: 0; overflow-wrap: normal; }
.ldp td.long, .ldp th.long { min-width: 7rem; overflow-wrap: anywhere; }
.ldp thead th { border-bottom: 2px solid; vertical-align: bottom; }
.ldp tbody th { font-weight: 400; }
.ldp .warning { color: var(--warn); font-weight: 600; }
.ldp .note { font-size: .9rem; color: var(--soft); }
.ldp summary { cursor: pointer; }
@media (max-width: 30rem) { .ldp table { font-size: .88rem; } .ldp th, .ldp td { padding: .3rem .4rem; } }
"""
_NIGHT = """--paper: #16181c; --ink: #ececec; --soft: #b5b5b5; --line: #6f6f6f; --pale: #23262c; --warn: #ffb3a7;
  --warn-back: #3a2220; --link: #8cc8ff;"""
_WHOLE = f"""
:root {{ color-scheme: light dark; }}
body.ldp {{ margin: 0 auto; padding: 1rem; max-width: 72rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }}
.ldp h1 {{ font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }}
.ldp h2 {{ font-size: 1.25rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }}
.ldp a {{ color: var(--link); }}
.ldp p, .ldp li, .ldp dd {{ max-width: 44rem; }}
.ldp .lead {{ font-size: 1.12rem; background: var(--pale); border-left: 4px solid var(--link); padding: .8rem 1rem;
  margin: 0; }}
.ldp .alerts {{ list-style: none; margin: 1rem 0; padding: .6rem 1rem; background: var(--warn-back);
  border-left: 4px solid var(--warn); }}
.ldp .alerts li + li {{ margin-top: .5rem; }}
.ldp nav ul {{ list-style: none; padding: 0; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }}
.ldp nav a {{ display: inline-block; padding: .3rem 0; }}
.ldp dt {{ font-weight: 600; margin-top: .7rem; }}
.ldp dd {{ margin: 0; }}
.ldp pre, .ldp code {{ font: .85rem/1.45 ui-monospace, monospace; }}
.ldp pre {{ background: var(--pale); padding: .7rem; overflow-x: auto; margin: .4rem 0; user-select: all; }}
.ldp pre.wrap {{ white-space: pre-wrap; }}
.ldp pre.copy {{ max-height: 20rem; overflow: auto; }}
.ldp .figures {{ display: flex; flex-wrap: wrap; align-items: flex-start; gap: 0 2rem; }}
.ldp figure {{ margin: 1.2rem 0; flex: 0 1 28rem; min-width: 0; }}
.ldp tbody th {{ position: sticky; left: 0; background: var(--paper); max-width: 40vw; }}
.ldp figure svg {{ display: block; max-width: 100%; height: auto; background: #fff; }}
.ldp figcaption {{ font-size: .95rem; color: var(--soft); max-width: 44rem; margin-top: .4rem; }}
.ldp details {{ margin: .3rem 0; }}
.ldp summary {{ padding: .35rem 0; }}
.ldp ul {{ padding-left: 1.2rem; }}
@media (prefers-color-scheme: dark) {{ body.ldp {{ {_NIGHT} }}
  .ldp figure svg {{ padding: .3rem; box-sizing: border-box; }} }}
@media print {{ body.ldp {{ max-width: none; padding: 0; font-size: 10pt; color: #000; background: #fff; }}
  .ldp nav, .ldp .copied {{ display: none; }} .ldp .scroll {{ overflow: visible; }}
  .ldp figure, .ldp tr {{ break-inside: avoid; }} .ldp h2 {{ break-after: avoid; }}
  .ldp thead {{ display: table-header-group; }} .ldp details::details-content {{ content-visibility: visible; }}
  .ldp th, .ldp td {{ padding: .15rem .35rem; white-space: normal; }} }}
"""
#: Headings of the notes by what they are about; warnings and verdicts stand at the top.
_SECTIONS = (
    ("Data", (Kind.DATA, Kind.WORTH)),
    ("Method", (Kind.METHOD, Kind.EVIDENCE)),
    ("Diagnostics", (Kind.DIAGNOSTIC,)),
    ("Point estimates", (Kind.ESTIMATE,)),
)


@dataclass(frozen=True)
class HTML(AbstractRenderer):
    """One self-contained file: summary, figures as SVG with titles and descriptions, tables, notes. No script.

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
            return f'<style>{_STYLE}</style><div class="ldp">{_fragment(page)}</div>'
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,">\n<title>{escape(page.title)}</title>\n<style>{_STYLE}{_WHOLE}</style>\n'
            f'</head>\n<body class="ldp">\n<main>\n{_document(page)}</main>\n</body>\n</html>\n'
        )


def escape(text: str) -> str:
    """Return text without any meaning to HTML, and without what turns the direction of a text or steers a terminal."""
    return html.escape(printable(text, keep="\n\t"))


def _fragment(page):
    parts = [f"<h4>{escape(page.title)}</h4>"]
    parts += [f"<p>{_text(page.summary)}</p>"] if page.summary else []
    parts += [_table(table, page.title) + _note_of(table) for table in page.tables]
    if page.notes:
        parts.append(f"<ul>\n{''.join(map(_item, page.notes))}</ul>")
    return "\n".join(parts) + "\n"


# ---- a whole document ------------------------------------------------------------------------------------------------
def _document(page):
    sections = [
        ("about", "Question and design", _definitions(page.about)),
        ("figures", "Figures", _figures(page.figures)),
        *((f"table-{i}", _heading(table, page), _section(table, page)) for i, table in enumerate(page.tables, 1)),
        ("method", "Data, method and diagnostics", _method(page.notes)),
        ("again", "Compute it again", _again(page.again)),
    ]
    sections = [section for section in sections if section[2]]
    parts = [f"<h1>{_text(page.title)}</h1>"]
    if page.summary:
        parts.append(f'<p class="lead">{_text(page.summary)}</p>')
    urgent = [note for note in page.notes if note.kind == Kind.WARNING]
    if urgent:
        parts.append(f'<ul class="alerts">\n{"".join(map(_item, urgent))}</ul>')
    parts += [f"<p><strong>{_text(note.text)}</strong></p>" for note in page.notes if note.kind == Kind.VERDICT]
    if len(sections) > 2:
        links = "".join(f'<li><a href="#{name}">{escape(heading)}</a></li>' for name, heading, _ in sections)
        parts.append(f'<nav aria-label="Contents"><ul>{links}</ul></nav>')
    parts += [
        f'<section id="{name}" aria-labelledby="{name}-heading">'
        f'<h2 id="{name}-heading">{escape(heading)}</h2>\n{body}</section>'
        for name, heading, body in sections
    ]
    return "\n".join(parts) + "\n"


def _heading(table, page):
    return table.title if table.title and table.title != page.title else "Results in numbers"


def _definitions(texts):
    items = "".join(f"<dt>{escape(name)}</dt><dd>{_paragraphs(text)}</dd>\n" for name, text in texts.items())
    return f"<dl>\n{items}</dl>\n" if items else ""


def _paragraphs(text):
    return "<br>".join(_text(line) for line in text.splitlines() if line.strip())


def _again(texts):
    items = []
    for name, text in texts.items():
        shown = f'<pre class="wrap">{escape(text)}</pre>' if name in ("Command", "Settings") else _paragraphs(text)
        items.append(f"<dt>{escape(name)}</dt><dd>{shown}</dd>\n")
    return f"<dl>\n{''.join(items)}</dl>\n" if items else ""


def _method(notes):
    parts = []
    for heading, kinds in _SECTIONS:
        held = [note for note in notes if note.kind in kinds]
        if held:
            parts.append(f"<dt>{heading}</dt><dd>{'<br>'.join(_text(note.text) for note in held)}</dd>\n")
    return f"<dl>\n{''.join(parts)}</dl>\n" if parts else ""


def _section(table, page):
    """Return a table as a section shows it: what is long is folded, and a copy as CSV can be selected."""
    every = table.complete()
    groups = _groups(every)
    if groups:
        start = f'<p class="note">{len(groups):,} groups; open one to see its rows.</p>'
        body = start + "".join(_folded(name, _table(one, f"{page.title}: {name}")) for name, one in groups)
    else:
        if table.keys and len(every.rows) <= GROUP_ROWS:
            table = every
        body = _table(table, page.title, caption=False) + _note_of(table)
        if len(every.rows) > len(table.rows):
            body += _folded(f"All {len(every.rows):,} rows", _table(every, page.title, caption=False))
    if every.meanings():
        body += _folded("What the columns are", _definitions(every.meanings()))
    if 0 < len(every.rows) <= COPIED_ROWS:
        plain = CSV().render(Page("", (every,)))
        label = "The table as CSV, with every digit, to copy (one click selects all of it)"
        text = f'<pre class="copy" tabindex="0" aria-label="{escape(_heading(table, page))} as CSV">{escape(plain)}</pre>'
        body += f'<div class="copied">{_folded(label, text)}</div>'
    return body + "\n"


def _groups(table):
    """Return (name, table without the key columns) of each group of rows; none if there is one group or few rows."""
    if not table.keys:
        return []
    texts = table.texts()
    runs = itertools.groupby(range(len(texts)), key=lambda i: tuple(texts[i][: table.keys]))
    found = [(", ".join(key), list(places)) for key, places in runs]
    if len(found) < 2 or max(len(places) for _, places in found) <= OPEN_ROWS:
        return []
    rest = table.only(range(table.keys, len(table.columns)))
    return [(name, _rows_of(rest, places)) for name, places in found]


def _rows_of(table, places):
    return replace(table, rows=tuple(table.rows[i] for i in places), title="", note="", whole=None)


def _folded(label, body):
    return f"<details><summary>{_text(label)}</summary>\n{body}</details>\n"


# ---- parts -----------------------------------------------------------------------------------------------------------
def _item(note):
    if note.kind == Kind.WARNING:
        return f'<li class="warning">Warning: {_text(note.text)}</li>\n'
    return f"<li>{_text(note.text)}</li>\n"


def _note_of(table):
    return f'<p class="note">{escape(table.note)}</p>' if table.note else ""


def _table(table, title, caption=True):
    name = table.title if table.title != title and caption else ""
    heads = "".join(f'<th scope="col"{_class(column)}>{_text(column.full_heading)}</th>' for column in table.columns)
    rows = []
    for row in table.texts():
        cells = [
            f'<th scope="row"{_class(column, text)}>{_text(text)}</th>'
            if i == 0
            else f"<td{_class(column, text)}>{_text(text)}</td>"
            for i, (column, text) in enumerate(zip(table.columns, row, strict=True))
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    said = f"<caption>{escape(name)}</caption>" if name else ""
    # A region that scrolls must be reachable by the keyboard, and have a name.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.title or title)}, table">'
        f"<table>{said}<thead><tr>{heads}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
    )


def _class(column, text=""):
    if not column.is_left:
        return ""
    if 0 < len(text) <= SHORT:
        return ' class="text short"'
    longest = max((len(word) for word in re.split(r"[\s_]", text)), default=0)
    return ' class="text long"' if longest > LONGEST_WORD else ' class="text"'


def _text(text):
    """Return text for HTML: no line ends before a per-cent sign, and names may be broken after underscores."""
    return escape(text).replace(" %", "&nbsp;%").replace("_", "_<wbr>")


_SVG_START = re.compile(r"<svg\b[^>]*>", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_NAMES = re.compile(r'(\bid="|\bhref="#|url\(#)')


def _figures(figures):
    drawn = "".join(_figure(figure, i) for i, figure in enumerate(figures, 1))
    return f'<div class="figures">\n{drawn}</div>\n' if drawn else ""


def _figure(figure, number):
    """Return a figure as SVG in the page; its ids get the figure's number, so that two figures share none."""
    from ldpbayes.plots import to_svg

    text = to_svg(figure.draw())
    start = _SVG_START.search(text)
    box = re.search(r'viewBox="[^"]*"', start[0])[0]
    width = re.search(r'\bwidth="([\d.]+)pt"', start[0])[1]
    body = _METADATA.sub("", text[start.end() :])
    body = _NAMES.sub(rf"\g<1>f{number}-", body)
    named = f'role="img" aria-labelledby="figure-{number}-title figure-{number}-words"'
    # Points of print are a third larger than those of a screen.
    size = f'width="{float(width) * 4 / 3:.0f}"'
    return (
        f'<figure id="figure-{number}"><svg xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" {box} {size} {named}>'
        f'<title id="figure-{number}-title">{escape(figure.caption)}</title>'
        f'<desc id="figure-{number}-words">{escape(figure.alt)}</desc>{body}'
        f"<figcaption>{_text(figure.caption)}</figcaption></figure>\n"
    )
