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


@dataclass(frozen=True)
class LaTeX(AbstractRenderer):
    """One table environment for each table, no wider than a line, and the notes as paragraphs below.

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
        blocks = [escape(page.summary)] if page.summary else []
        blocks += [_paragraph(name, text) for name, text in page.about.items()]
        blocks += [_figure(f, link) for f, link in zip(page.figures, self.links, strict=False) if link]
        blocks += [_table(table, table.title or page.title) for table in page.tables]
        blocks += [escape(note.text) for note in page.notes]
        blocks += [_paragraph(name, text) for name, text in page.again.items()]
        return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Return text without any meaning to LaTeX."""
    return _PATTERN.sub(lambda match: _SPECIAL[match[0]], printable(" ".join(text.split())))


def _paragraph(name, text):
    return f"\\paragraph{{{escape(name)}.}} {escape(text)}"


def _figure(figure, link):
    return "\n".join(
        [
            r"\begin{figure}",
            r"  \centering",
            f"  \\includegraphics[width=\\linewidth]{{{link}}}",
            f"  \\caption{{{escape(figure.caption)}}}",
            r"\end{figure}",
        ]
    )


def _table(table, title):
    sides = "".join("l" if column.is_left else "r" for column in table.columns)
    lines = [" & ".join(escape(column.full_heading) for column in table.columns)]
    rows = [" & ".join(map(escape, row)) for row in table.texts()]
    below = [table.note, " ".join(f"{name}: {text}" for name, text in table.meanings().items())]
    note = [rf"\par\vspace{{2pt}}{{\small {escape(text)}}}" for text in below if text]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{escape(title)}}}",
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
