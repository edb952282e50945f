"""What all figures share: colours, sizes that a phone shows legibly, and a new figure."""

import importlib
import inspect
import io
import itertools
import os
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbayes import checks, files
from ldpbayes.answers.base import keys_of
from ldpbayes.arguments import REFUSES, by_name
from ldpbayes.errors import ArgumentError, InfeasibleError, printable, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from typing_extensions import TypeVar  # one with a default, as Python 3.13 has

    #: What was given as ax; a new Figure by default.
    Drawn = TypeVar("Drawn", bound=Axes | Figure | SubFigure, default=Figure)
else:
    Drawn = Any  # matplotlib loads with the first figure

#: Colours of Okabe & Ito (2008), yellow left out: it is too pale on white.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
#: Colours of curves, in order.
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, BLACK)
_DASHES = ("-", (0, (6, 2)), (0, (3, 1.5)), (0, (6, 2, 1, 2)), (0, (1, 1.2)), (0, (8, 2, 2, 2, 2, 2)), (0, (4, 3)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Marker, place in the palette and name of point estimates.
ESTIMATES = {"mle": ("D", 1, "MLE"), "oracle": ("x", 5, "oracle"), "convex": ("+", 2, "MLE by cvxpy")}
NAMES = {name: words for name, (_, _, words) in ESTIMATES.items()}
#: Display: Width of a figure in inches, and sizes of text in points: a page shows a figure 328 pixels wide on a screen of
#: 360 pixels, so that the smallest text has 328/(72 × 3.7) × 9 = 11 pixels.
WIDTH, TITLE, LABEL, SMALL = 3.7, 10, 9.5, 9
#: Display: Width of a letter, in sizes of the text: the mean of English text in matplotlib's own font.
LETTER = 0.56
#: Display: Height of a line, in sizes of the text, and of the lowest axes with their label, in inches.
LINE, LOWEST = 1.5, 1.3
#: Display: Letters on a line of a label beside axes: with less than half of the width for them.
BESIDE = 22


def _result(value, name):
    from ldpbayes.result.validation import need_result

    need_result(value, name)
    if "summary" not in value.children:
        raise ArgumentError(f"{name} must be a result of fit, with its group summary.")


def one_of(module, cls, words):
    """Return the rule for objects of a class that is imported where it is first asked for."""

    def rule(value, name):
        checks.instance(value, name, getattr(importlib.import_module(module), cls), words)

    return rule


def _drawable(value, name):
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    checks.instance(value, name, (Axes, FigureBase), "axes or a figure of matplotlib")


def _style_of(value, name):
    from matplotlib.colors import is_color_like

    for key, entry in value.items():
        checks.choice(key, "style", ("title", "figsize", "legend", "palette"))
        if key == "figsize" and entry is not None:
            checks.reals(entry, key, 2)
        elif key == "palette" and (len(checks.entries(entry, key, "colours")) < 7 or not all(map(is_color_like, entry))):
            raise ArgumentError(f"palette must have {len(PALETTE)} colours, got {shown(entry)}.")
        elif key in ("title", "legend") and entry is not None:
            (checks.text if key == "title" else checks.flag)(entry, key)


#: What the arguments of figures must be, by name.
_RULES = {
    "result": _result,
    "figure": one_of("matplotlib.figure", "Figure", "a figure of matplotlib"),
    "collection": one_of("ldpbayes.collections", "Collection", "a Collection"),
    "along": lambda value, name: checks.choice(value, name, ("epsilon", "n")),
    "intercept": checks.flag,
    "random_seed": checks.seed,
    "ax": _drawable,
    **dict.fromkeys(("top", "draws", "most"), lambda value, name: checks.integer(value, name, 1, 10**6)),
    "style": _style_of,
    "target": lambda value, name: checks.choice(value, name, ("distribution", "frequency")),
    **dict.fromkeys(("unit", "label", "x"), checks.text),
    **dict.fromkeys(("lines", "panels"), checks.labels),
}

#: What they are.
_WORDS = {
    "result": "result : DataTree\n    From fit().",
    "target": 'target : {"distribution", "frequency"}\n    P, or F of these people.',
    "collection": "collection : Collection",
    "figure": "figure : matplotlib.figure.Figure",
    "random_seed": "random_seed : int, optional\n    Of the replicated reports: the same each time by default.",
    "ax": """ax : matplotlib Axes, Figure or SubFigure, optional
    Where to draw; a new figure by default. Axes take a single panel.""",
    "style": """**style
    ``title``, ``figsize`` in inches, ``legend`` (whether there is one) and ``palette`` (colours, by default PALETTE).""",
}
_SECTIONS = {"Returns": "matplotlib Figure, or what was given as ax"} | REFUSES


def checked[F: Callable](
    rules: Mapping[str, Callable] | None = None, words: Mapping[str, str] | None = None
) -> Callable[[F], F]:
    """Return a decorator of figures: arguments are checked, and described, by name; what is stated here comes first."""

    def decorate(function: F) -> F:
        sections = _SECTIONS if "ax" in inspect.signature(function).parameters else REFUSES
        return by_name({**_RULES, **(rules or {})}, words={**_WORDS, **(words or {})}, sections=sections)(function)

    return decorate


def _new_figure(**settings):
    """Return a matplotlib Figure, or name the extra that brings matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise InfeasibleError('Figures need matplotlib, which is not installed: pip install "ldpbayes[plots]".') from err
    return Figure(layout="constrained", **settings)


def _style(i, palette=PALETTE):
    """Return colour, line style, marker and width of the i-th curve.

    Later curves are drawn thinner, so that a curve below another one shows on both sides of it.
    """
    k = i % len(_DASHES)
    return {"color": palette[i % len(palette)], "ls": _DASHES[k], "marker": _MARKERS[k], "lw": max(3.0 - 0.4 * i, 1.0)}


def on_axes(draw: Callable[..., Any], ax: Any, style: Mapping[str, Any]) -> "Axes":
    """Draw a figure, and return its first Axes; a new figure is one of pyplot, which shows it as the session does.

    Parameters
    ----------
    draw : callable
        A figure that takes ``ax`` and a style.
    ax : matplotlib Axes, Figure or SubFigure, optional
    style : mapping
    """
    if ax is not None:
        return first_axes(draw(ax=ax, **style))
    figure = draw(**style)
    from matplotlib import pyplot

    pyplot.figure(FigureClass=lambda **_: figure)  # type: ignore[arg-type]  # pyplot makes a figure by this call
    return first_axes(figure)


def first_axes(drawn: Any) -> "Axes":
    """Return the first Axes of what was drawn: a figure, or Axes themselves."""
    return drawn.axes[0] if hasattr(drawn, "subplots") else drawn


#: What every figure takes beside ``ax``: its title, size in inches, whether it has a legend, and the colours of its parts.
STYLE = {"title": None, "figsize": None, "legend": True, "palette": PALETTE}


class Canvas:
    """Axes to draw on, those of the caller or of a new figure, with the style that the caller wants.

    Parameters
    ----------
    ax : matplotlib Axes, Figure or SubFigure, optional
        Axes take one panel.
    style : mapping
        Entries of STYLE.
    size : (2,) tuple of float
        Width and height of a new figure in inches.
    rows, columns : int
        Of the panels.
    **shared
        Arguments of ``figure.subplots``.

    Raises
    ------
    ArgumentError
        Where several panels should go into one Axes.
    """

    def __init__(self, ax, style, size, rows=1, columns=1, **shared):
        self.title, figsize, self.has_legend, self.colors = (STYLE | style).values()
        #: Letters on a line of a label beside the axes: more of them in a wider figure.
        self.beside = int(BESIDE * figsize[0] / WIDTH) if figsize and ax is None else BESIDE
        #: Whether the height may follow the texts above and below the axes: the caller stated none.
        self.grows = ax is None and figsize is None
        self.figure = _new_figure(figsize=figsize or size) if ax is None else ax
        self.inside = None
        if ax is not None and not hasattr(ax, "subplots"):  # axes, and no figure
            if rows * columns > 1:
                raise ArgumentError(f"ax must be a figure or a subfigure for {rows * columns} panels, got one pair of axes.")
            self.figure, self.inside, self.axes = ax.figure, ax, [ax]
        else:
            self.axes = list(self.figure.subplots(rows, columns, squeeze=False, **shared).flat)

    def letters(self, share):
        """Return how many letters of the smallest size this share of the width holds, of the figure or the caller's axes."""
        return int(share * _points_wide(self.inside or self.figure) / (LETTER * SMALL))

    def finish(self, title, handles=None, *, most=2, legend=True, more=""):
        """Give a figure its title and legend and return it; axes of the caller get theirs inside and are returned.

        Parameters
        ----------
        title : str
            Where the caller has stated none.
        handles, most
            As for ``legend_below``.
        legend : bool
            Whether there is anything to explain.
        more : str
            What the figure leaves out, said after any title.
        """
        title = wrapped(f"{title if self.title is None else self.title}{more}".strip(), self.letters(0.85 * SMALL / TITLE))
        legend = legend and self.has_legend
        for axes in self.axes:
            axes.tick_params(labelsize=SMALL)
            axes.spines[["top", "right"]].set_visible(False)
        if self.inside is not None:
            self.inside.set_title(title, fontsize=LABEL)
            if legend:
                self.inside.legend(handles=None if handles is None else list(handles), fontsize=SMALL, frameon=False)
            return self.inside
        if title:
            self.figure.suptitle(title, fontsize=TITLE)
        rows = legend_below(self.figure, handles, most=most) if legend else 1
        if self.grows:
            words = (title.count("\n") + 1 + rows) * LINE * SMALL / 72
            self.figure.set_figheight(max(self.figure.get_figheight(), words + LOWEST))
        return self.figure


def forest(axes, labels, series, *, width=BESIDE, reach=0.28, above=0.0, palette=PALETTE):
    """Draw one line of intervals per label, with the points of all series beside each other.

    Parameters
    ----------
    axes : matplotlib Axes
    labels : sequence of str
    series : sequence of (name, means, lower ends, upper ends)
    width : int
        Letters on a line of a label.
    reach : float
        How far several series stand from the middle of a line.
    above : float
        How far a single one stands above it.
    palette : sequence of colours

    Returns
    -------
    list of artists
        One for each series, for a legend.
    """
    y = lines(axes, labels, width)
    shifts = np.linspace(reach, -reach, len(series)) if len(series) > 1 else [above]
    handles = []
    for i, (shift, (name, *numbers)) in enumerate(zip(shifts, series, strict=True)):
        style, (mean, lower, upper) = _style(i, palette), (np.asarray(part, dtype=float) for part in numbers)
        axes.hlines(y + shift, lower, upper, color=style["color"], lw=2)
        label = wrapped(name, 32)
        handles += axes.plot(mean, y + shift, style["marker"], color=style["color"], ms=5, label=label)
    return handles


def lines(axes, labels, width=BESIDE):
    """Give every label a line of its own, the first on top, and return the heights of the lines."""
    y = np.arange(len(labels))[::-1]
    axes.set_yticks(y, [brief(label, width) for label in labels], fontsize=SMALL)
    axes.set_ylim(-0.7, len(labels) - 0.3)
    return y


def pitch(labels, gap=0.08, width=BESIDE):
    """Return the distance of labels below each other in inches, so that between any two of them there is a gap."""
    heights = [brief(label, width).count("\n") + 1 for label in labels]
    return gap + 0.15 * max((sum(pair) / 2 for pair in itertools.pairwise(heights)), default=1)


def brief(label, width=BESIDE):
    """Return a label on two lines or so: of a longer one the beginning and the end."""
    return wrapped(shortened(str(label), 2 * width - 6), width)


def share_label(of, decided, width=38):
    """Return the label of an axis of shares, with what they are of and where the prior decides, on lines so wide."""
    return "\n".join(wrapped(text, width) for text in (f"share of people{of}", decided) if text)


def plain(text):
    """Return a label as matplotlib shows it letter by letter: between two dollar signs it would read a formula."""
    return re.sub(r"(?<!\\)\$", r"\\$", printable(str(text), keep="\n"))


def shortened(text, width):
    """Return a label of at most width characters: of a longer one the beginning and the end, which tell it from others."""
    return text if len(text) <= width else f"{text[: width - width // 2 - 1]}…{text[len(text) - width // 2 :]}"


def wrapped(text, width):
    """Return a label with line breaks, so that no line is longer than width characters; see ``plain``."""
    return plain("\n".join(_Wrapper(width).wrap(str(text))) or text)


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines after slashes and underscores too, which labels of joint answers are full of."""

    wordsep_re = re.compile(r"(\s+|(?<=[/_])(?=[^\s/_]))")


def legend_below(figure, handles=None, *, most=3):
    """Put one legend below all axes, in as many columns as fit the width of the figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    handles : sequence of artists, optional
        Without it, everything in the axes that has a label.
    most : int
        Most columns.

    Returns
    -------
    int
        Its rows.
    """
    if handles is None:
        handles = [handle for axes in figure.axes for handle in axes.get_legend_handles_labels()[0]]
    texts = [plain(handle.get_label()) for handle in handles]
    gaps = {"handlelength": 1.8, "handletextpad": 0.7, "columnspacing": 1.2}  # in sizes of the text
    beside = sum(gaps.values())
    widths = [(max((len(line) for line in text.splitlines()), default=0) * LETTER + beside) * SMALL for text in texts]
    columns = min(most, len(texts))
    while columns > 1 and sum(part.max() for part in np.array_split(widths, columns)) > _points_wide(figure):
        columns -= 1
    figure.legend(
        list(handles), texts, loc="outside lower center", ncols=max(columns, 1), fontsize=SMALL, frameon=False, **gaps
    )
    return max(-(-len(texts) // max(columns, 1)), 1)


def _points_wide(place):
    """Return the width of a figure, a part of one or of axes in points."""
    return 72 * place.bbox.width / place.figure.dpi


def title_of(result):
    """Return the title of a result of fit, or else the name of its data, or what its numbers are."""
    name = result.attrs["title"] or result.attrs["collection"]
    if name not in ("collection", "cells"):  # what data are called that have no name
        return name
    by = keys_of(result["summary"])
    return f"Shares by {' and '.join(by)}" if by else "Shares"


#: Words for the answer that a binary question is not about.
_NO = {"no", "false", "0", "never", "none"}


def asked(labels):
    """Return the position of the answer that a binary question is about, mostly its second one; None of other questions."""
    names = [str(label).casefold() for label in labels]
    return None if len(names) != 2 else int(names[1] not in _NO or names[0] in _NO)


def largest(mean, top):
    """Return the positions of the largest means in their order, at most ``top`` of them."""
    return np.sort(np.argsort(-np.asarray(mean), kind="stable")[:top])


def _plain_ticks(axis, values):
    """Set ticks of a logarithmic axis at 1, 2 and 5 times powers of ten inside the values, written out in plain numbers."""
    low, high = min(values), max(values)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [k * 10.0**e for e in powers for k in steps if low <= k * 10.0**e <= high]
        texts = [f"{tick:,.10g}" for tick in ticks]
        if len(ticks) <= 6 and sum(map(len, texts)) <= BESIDE:
            break
    if len(ticks) >= 2:
        axis.set_ticks(ticks, texts)
        axis.set_ticks([], minor=True)


@checked()
def to_svg(figure: "Figure") -> str:
    """Return a figure as SVG text, the same each time; letters are outlines, so that no font has to be there."""
    from matplotlib import rc_context

    picture = io.StringIO()
    with rc_context({"svg.hashsalt": "ldpbayes", "svg.fonttype": "path"}):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


@checked()
def to_pdf(figure: "Figure") -> bytes:
    """Return a figure as the bytes of a PDF file, the same each time."""
    picture = io.BytesIO()
    figure.savefig(picture, format="pdf", metadata={"CreationDate": None})
    return picture.getvalue()


@checked()
def save_figure(figure: "Figure", path: str | os.PathLike) -> None:
    """Write a figure as PNG, PDF or SVG (by its ending), whole or not at all.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    ArgumentError
        On another ending.
    DataError
        Where the file cannot be written.
    """
    check_ending(path)
    with files.replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)


def check_ending(path):
    """Raise an ArgumentError unless a figure can be written in the format that the path's ending names."""
    endings, path = _new_figure().canvas.get_supported_filetypes(), files.as_path(path)
    if str(path).rpartition(".")[2].lower() not in endings:
        raise ArgumentError(f"plot must end in one of .{', .'.join(sorted(endings))}, got {shown(str(path))}.")
