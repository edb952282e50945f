"""The page: what a reader is shown of a fit, a cross-check or a plan, before any renderer writes it."""

import enum
import functools
import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ldpbayes import checks
from ldpbayes.constants import WRITTEN_OUT
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.pages.prose import as_sentences, first_sentence
from ldpbayes.pages.rendering import make_renderer

if TYPE_CHECKING:
    import pandas as pd

#: Display: Rows of a table in the short text of a result.
SHORT = 10
#: Display: Rows of a table that a terminal shows unless the caller wants another number; files with room have all of them.
TOP = 40
#: Display: Lines of the first figure, which leaves room for the first rows of the table below it.
DRAWN = 6
#: Display: Notes below the tables of a terminal, unless all are asked for.
LINES = 3


class Kind(enum.StrEnum):
    """What a note is about, in the order of their rank: where there is room for a few notes, the first kinds are told."""

    WARNING = "warning"
    VERDICT = "verdict"
    DATA = "data"
    WORTH = "worth"
    DIAGNOSTIC = "diagnostic"
    EVIDENCE = "evidence"
    METHOD = "method"
    ESTIMATE = "estimate"


@dataclass(frozen=True)
class Note:
    """One sentence or a few of them about the same thing.

    Parameters
    ----------
    kind : Kind
    text : str
    """

    kind: Kind
    text: str


def stated(attrs: Mapping[str, Any], *kinds: tuple) -> Iterator[Note]:
    """Yield the sentences that a result states, in order: a kind of notes with the names of its attributes."""
    for kind, *names in kinds:
        yield from (Note(kind, as_sentences(attrs[name])) for name in names if attrs.get(name))


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    key : str
        Name in data formats (CSV), such as ``distribution_mean``.
    heading : str
        What people read.
    kind : {"text", "number", "interval"}
        An interval is a pair (lower, upper).
    spec : str
        Format specification of a number, such as ``.4f``.
    priority : int
        Columns with the largest priority are left out first where a display is too narrow; 0 is never left out.
    align : {"left", "right"}, optional
        Text is aligned left, everything else right, unless stated.
    full : str, optional
        What people read where columns stand alone: "sd of P" where the heading is "sd".
    means : str, optional
        What the numbers are, for readers who do not know the heading. Documents list it below the table.
    bar : bool
        Whether a page with room draws shares as bars behind their numbers.
    words : dict
        What people read for a text, such as "yes" for "1"; data formats keep the text.
    """

    key: str
    heading: str
    kind: str = "number"
    spec: str = ".4f"
    priority: int = 0
    align: str = ""
    full: str = ""
    means: str = ""
    bar: bool = False
    words: Mapping[str, str] = field(default_factory=dict)

    def text(self, value: Any) -> str:
        """Return a value as people read it; missing values are empty."""
        if self.kind == "interval":
            if value is not None and len(value := checks.entries(value, "value", "a pair (lower, upper)")) != 2:
                raise ArgumentError(f"value must be a pair (lower, upper), got {shown(value)}.")
            ends = [] if value is None else [self._number(end) for end in value]
            return " to ".join(ends) if all(ends) else ""
        if self.kind == "text":
            return "" if value is None else self.words.get(str(value), str(value))
        return self._number(value)

    @property
    def full_heading(self) -> str:
        """The heading that is clear without its neighbours."""
        return self.full or self.heading

    @property
    def is_left(self) -> bool:
        """Whether the column is aligned left."""
        return (self.align or ("left" if self.kind == "text" else "right")) == "left"

    def _number(self, value):
        number = None if value is None else checks.real(value, "value")
        text = "" if number is None or math.isnan(number) else format(value, self.spec)
        return f"{number:,.0f}" if "e+" in text and abs(number) < WRITTEN_OUT else text.removesuffix(".")


@dataclass(frozen=True)
class Table:
    """Rows of raw values under columns that know how to print them.

    Parameters
    ----------
    title : str
    columns : tuple of Column
    rows : tuple of tuples
        One value per column: text, a number, a pair for an interval, or None.
    note : str
        One sentence below the table, such as how many rows were left out.
    whole : Table or callable, optional
        The table with all rows, or what returns it, where this one shows a part of them: what files with room write.
    brief : callable, optional
        Returns the table with at most so many rows, those that matter most; for where there is less room.
    detail : bool
        Whether a terminal shows it only to those who ask for more than the answer.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple, ...]
    note: str = ""
    whole: "Table | Callable[[], Table] | None" = None
    brief: "Callable[[int], Table] | None" = None
    detail: bool = False

    def __getstate__(self):
        """Return the fields with all rows in place of the function that would return them."""
        return self.__dict__ | {"brief": None, "whole": None if self.whole is None else self.complete()}

    def texts(self) -> list[list[str]]:
        """Return every cell as people read it."""
        return [[column.text(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def meanings(self) -> dict[str, str]:
        """Return what the columns are, by heading: those that explain themselves."""
        return {column.full_heading: column.means for column in self.columns if column.means}

    def only(self, columns) -> "Table":
        """Return the table with some of its columns, by position."""
        places = tuple(
            checks.integer(i, "columns", 0, len(self.columns) - 1)
            for i in checks.entries(columns, "columns", "positions of columns")
        )
        rows = tuple(tuple(row[i] for i in places) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in places), rows=rows)

    def first(self, top: int) -> "Table":
        """Return the table with its first rows, or with those that matter most; it knows all of them."""
        if len(self.rows) <= top:
            return self
        if self.brief is not None:
            return self.brief(top)
        note = f"{self.note} The first {top:,} of {len(self.rows):,} rows are shown.".lstrip()
        return replace(self, rows=self.rows[:top], note=note, whole=self.whole or self)

    def records(self) -> list[dict[str, Any]]:
        """Return every row as a dict by the keys of the columns."""
        return [dict(zip((column.key for column in self.columns), row, strict=True)) for row in self.rows]

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield every row as a dict; of an interval named x_interval or x the ends are x_lower and x_upper."""
        for row in self.rows:
            line: dict[str, Any] = {}
            for column, value in zip(self.columns, row, strict=True):
                if column.kind == "interval":
                    stem = column.key.removesuffix("interval").removesuffix("_")
                    ends = ("lower", "upper") if not stem else (f"{stem}_lower", f"{stem}_upper")
                    line |= dict(zip(ends, value or (None, None), strict=True))
                else:
                    line[column.key] = value
            yield line

    def frame(self) -> "pd.DataFrame":
        """Return all rows as a data frame, of an interval its two ends."""
        import pandas as pd

        return pd.DataFrame(list(self.complete().lines()))

    def complete(self) -> "Table":
        """Return the table with all its rows."""
        return self if self.whole is None else self.whole() if callable(self.whole) else self.whole


@dataclass(frozen=True)
class Figure:
    """A figure that is drawn only where it is shown.

    Parameters
    ----------
    name : str
        Short, fit for a file name.
    caption : str
    alt : str
        What the figure shows, in words, for readers who do not see it.
    draw : callable
        Returns a matplotlib Figure; one that can be pickled, with what it draws.
    alone : callable, optional
        Returns the figure for a file of its own, with its title and all that it has to show; as on the page by default.
    """

    name: str
    caption: str
    alt: str
    draw: Callable[[], Any]
    alone: Callable[[], Any] | None = None


def figure_of(name: str, caption: str, alt: str, plot: Callable, *data: Any, alone: Any = None, **settings: Any) -> Figure:
    """Return the figure that a function draws: on a page without a title and with its settings, else with ``alone``."""
    own = functools.partial(plot, *data, **(alone or {}))
    return Figure(name, caption, alt, functools.partial(plot, *data, **{"title": "", **settings}), own)


@dataclass(frozen=True)
class Page:
    """Everything that is said about a result, in the order in which it is read.

    A notebook shows the page as HTML; ``str(page)`` is the text of the command line.

    Parameters
    ----------
    title : str
    tables : tuple of Table
    notes : tuple of Note
    figures : tuple of Figure
    facts : mapping
        The same numbers for programs, in full: what the JSON renderer writes.
    summary : str
        The answer, in one sentence: what a reader needs who reads nothing else.
    about : mapping of str to str
        Question, design, source of the data: paragraphs by their heading.
    again : mapping of str to str
        What it takes to get the same numbers: command, seed, versions, hash of the data, and what to cite.
    """

    title: str
    tables: tuple[Table, ...] = ()
    notes: tuple[Note, ...] = ()
    figures: tuple[Figure, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    again: Mapping[str, str] = field(default_factory=dict)

    def without(self, texts) -> "Page":
        """Return the page without the notes whose text is among some texts (the reader has seen them)."""
        seen = set(checks.labels(texts, "texts"))
        return replace(self, notes=tuple(note for note in self.notes if note.text not in seen))

    def render(self, renderer: str = "terminal", **settings) -> str:
        """Return the page as text in the format of a renderer: terminal, json, markdown, html, …"""
        return make_renderer(renderer, **settings).render(self)

    def save(self, path) -> None:
        """Write the page to a file, in the format of its suffix; see ``ldpbayes.save``.

        Parameters
        ----------
        path : path-like
        """
        importlib.import_module("ldpbayes.pages.renderers").write(self, path)

    def frame(self) -> "pd.DataFrame":
        """Return the first table with all its rows as a data frame, of an interval its two ends; empty without a table."""
        import pandas as pd

        return self.tables[0].frame() if self.tables else pd.DataFrame()

    def ranked(self) -> tuple[Note, ...]:
        """Return the notes, warnings and verdicts first."""
        order = list(Kind)
        return tuple(sorted(self.notes, key=lambda note: order.index(note.kind)))

    def in_lines(self, more: str, details: bool = True) -> "Page":
        """Return the page with a few notes: the first sentences of those that rank first.

        Parameters
        ----------
        more : str
            Where the rest stands, such as "--explain": the last line says so if there is any.
        details : bool
            Whether tables of details are among the tables; the last line names those that are not.
        """
        checks.text(more, "more")
        checks.flag(details, "details")
        notes = self.ranked()
        told = tuple(replace(note, text=first_sentence(note.text)) for note in notes[:LINES])
        rest = notes[LINES:]
        warnings = sum(note.kind is Kind.WARNING for note in rest)
        left = [f"{len(rest)} more{f', {warnings} of them warnings' if warnings else ''}"] if rest else []
        hidden = [table.title for table in self.tables if table.detail and not details]
        left += [f"table{'s' * (len(hidden) > 1)} {listed(hidden, most=LINES)}"] if hidden else []
        if left or told != notes[:LINES]:
            text = f"… {'; '.join(left)}: {more}." if left else f"More: {more}."
            told = (*told, Note(Kind.ESTIMATE, text))
        tables = tuple(table for table in self.tables if details or not table.detail)
        return replace(self, notes=told, tables=tables)

    def brief(self) -> str:
        """Return the answer alone, as text: the summary first, the first rows of the first table, verdict and warnings."""
        first = (table.first(SHORT) for table in self.tables[:1])
        tables = tuple(replace(table, title="" if table.title == self.title else table.title) for table in first)
        verdict = tuple(note for note in self.notes if note.kind in (Kind.VERDICT, Kind.WARNING))
        page = Page(self.title, tables, verdict).in_lines(".notes and .page()")
        text = page.render("terminal").rstrip()
        title = "" if text.startswith(self.title) else self.title
        return "\n".join(filter(None, [self.summary, title, text]))

    def __str__(self):
        return self.render("terminal")

    __repr__ = __str__

    def _repr_html_(self):
        return make_renderer("html", whole=False).render(self)
