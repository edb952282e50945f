"""Pages as LaTeX: tables with rules of the package booktabs, to be included in a paper."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.errors import printable
from ldpbayes.pages.page import Page
from ldpbayes.pages.rendering import AbstractRenderer

_GREEK = "alpha beta gamma delta kappa lambda mu pi rho sigma phi chi Gamma Delta Sigma Phi"
_SPECIAL = (
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "−": "$-$",
        "±": r"$\pm$",
        "²": r"\textsuperscript{2}",
        "ε": r"$\varepsilon$",
        "×": r"$\times$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "→": r"$\to$",
        "√": r"$\surd$",
        "∞": r"$\infty$",
        "…": r"\dots{}",
        "∕": "/",
    }
    | {letter: f"$\\{name}$" for letter, name in zip("αβγδκλμπρσφχΓΔΣΦ", _GREEK.split(), strict=True)}
)
_PATTERN = re.compile("|".join(map(re.escape, _SPECIAL)))
#: A hyphen before a number that follows no letter, digit or hyphen: a minus sign, and no range or date.
_MINUS = re.compile(r"(?<![\w.)-])-(?=\.?\d|inf)")
#: A number with an exponent.
_POWER = re.compile(r"(?<![\w.])([−\d.]+)e([+-])0*(\d+)\b")
#: Display: Columns of a table at most: those that a narrow display leaves out first are left to other formats.
COLUMNS = 8


@dataclass(frozen=True)
class LaTeX(AbstractRenderer):
    """One table environment for each table, of at most COLUMNS columns, and the notes as paragraphs below.

    The document needs ``\\usepackage{booktabs, graphicx}``.

    Parameters
    ----------
    links : tuple of str
        Path of the picture of each figure, relative to the page; figures without one are left out.
    """

    name: ClassVar[str] = "latex"
    suffixes: ClassVar[tuple[str, ...]] = (".tex",)
    picture: ClassVar[str] = "pdf"

    links: tuple[str, ...] = ()

    def render(self, page: Page) -> str:
        """Return the page as LaTeX."""
        blocks = [_said(page.summary)] if page.summary else []
        blocks += [_paragraph(name, text) for name, text in page.about.items()]
        blocks += [_figure(f, link) for f, link in zip(page.figures, self.links, strict=False) if link]
        blocks += [_table(table, table.title or page.title, i) for i, table in enumerate(page.tables, 1)]
        blocks += [_said(note.text) for note in page.notes]
        blocks += [_paragraph(name, text) for name, text in page.again.items()]
        return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Return text without any meaning to LaTeX."""
    return _PATTERN.sub(lambda match: _SPECIAL[match[0]], printable(" ".join(text.split())))


def _said(text):
    """Return a sentence or a number: hyphens that are minus signs become such, and exponents powers of ten."""
    return _POWER.sub(_power, escape(_MINUS.sub("−", text)).replace("$-$", "−")).replace("−", "$-$")


def _power(match):
    sign = "-" if match[2] == "-" else ""
    return f"${match[1].replace('−', '-')}\\times10^{{{sign}{match[3]}}}$"


def _paragraph(name, text):
    return f"\\paragraph{{{escape(name)}.}} {escape(text)}"


def _figure(figure, link):
    return "\n".join(
        [
            r"\begin{figure}",
            r"  \centering",
            f"  \\includegraphics[width=\\linewidth]{{{link}}}",
            f"  \\caption{{{_said(figure.caption)}}}",
            f"  \\label{{fig:{figure.name}}}",
            r"\end{figure}",
        ]
    )


def _narrow(table):
    """Return a table with its first columns by priority, and what the others are."""
    order = sorted(range(len(table.columns)), key=lambda i: table.columns[i].priority)
    left_out = ", ".join(table.columns[i].full_heading for i in sorted(order[COLUMNS:]))
    note = f"Not shown: {left_out}. Pages in CSV have all columns." if left_out else ""
    return table.only(sorted(order[:COLUMNS])), note


def _cell(column, text):
    return escape(text) if column.kind == "text" else _said(text)


def _table(table, title, number):
    table, more = _narrow(table)
    sides = "".join("l" if column.is_left else "r" for column in table.columns)
    lines = [" & ".join(escape(column.full_heading) for column in table.columns)]
    rows = [" & ".join(map(_cell, table.columns, row)) for row in table.texts()]
    below = [table.note, " ".join(f"{name}: {text}" for name, text in table.meanings().items()), more]
    note = [rf"\par\vspace{{2pt}}{{\small {escape(text)}}}" for text in below if text]
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{escape(title)}}}",
            f"  \\label{{tab:{number}-{name}}}",
            r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            f"  \\begin{{tabular}}{{{sides}}}",
            r"    \toprule",
            *(f"    {line} \\\\" for line in lines),
            r"    \midrule",
            *(f"    {row} \\\\" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}}",
            *note,
            r"\end{table}",
        ]
    )
