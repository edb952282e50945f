"""What all figures share: colours, sizes that a phone shows legibly, and a new figure."""

import io
import textwrap

import numpy as np

from ldpbayes.errors import InfeasibleError

#: Colours of Okabe & Ito (2008), yellow left out: it is too pale on white.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
GREY = "0.62"
#: Colours of curves, in order.
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, BLACK)
_DASHES = ("-", (0, (6, 2)), (0, (3, 1.5)), (0, (6, 2, 1, 2)), (0, (1, 1.2)), (0, (8, 2, 2, 2, 2, 2)), (0, (4, 3)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Width of a figure in inches, and sizes of text in points: on a screen of 360 pixels the text is still legible.
WIDTH, TITLE, LABEL, SMALL = 4.7, 11, 10, 9


def _new_figure(**settings):
    """Return a matplotlib Figure, or name the extra that brings matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise InfeasibleError('Figures need matplotlib, which is not installed: pip install "ldpbayes[plots]".') from err
    return Figure(layout="constrained", **settings)


def _style(i):
    """Return colour, line style, marker and width of the i-th curve.

    Later curves are drawn thinner, so that a curve below another one shows on both sides of it.
    """
    k = i % len(PALETTE)
    return {"color": PALETTE[k], "ls": _DASHES[k], "marker": _MARKERS[k], "lw": max(3.0 - 0.4 * i, 1.0)}


def wrapped(text, width):
    """Return text with line breaks, so that no line is longer than width characters."""
    return "\n".join(textwrap.wrap(str(text), width)) or str(text)


def legend_below(figure, handles=None, labels=None, *, most=3, size=SMALL):
    """Put one legend below all axes, in as many columns as fit the width of the figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    handles : sequence of artists, optional
        Without it, everything in the axes that has a label.
    labels : sequence of str, optional
    most : int
        Most columns.
    size : float
        Size of the text in points.
    """
    if handles is None:
        pairs = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
        handles, labels = [handle for handle, _ in pairs], [label for _, label in pairs]
    texts = [handle.get_label() for handle in handles] if labels is None else list(labels)
    # A letter is about 0.56 of the size wide; the sample of a curve and the gaps take 4.8 sizes in each column.
    widths = [max((len(line) for line in text.splitlines()), default=0) * 0.56 * size + 4.8 * size for text in texts]
    columns = min(most, len(texts))
    while columns > 1 and sum(part.max() for part in np.array_split(widths, columns)) > 72 * figure.get_figwidth():
        columns -= 1
    figure.legend(list(handles), texts, loc="outside lower center", ncols=max(columns, 1), fontsize=size, frameon=False)


def largest(mean, top):
    """Return the positions of the largest means in their order, at most ``top`` of them."""
    return np.sort(np.argsort(-np.asarray(mean), kind="stable")[:top])


def to_svg(figure) -> str:
    """Return a figure as SVG text, the same each time; letters are outlines, so that no font has to be there.

    Parameters
    ----------
    figure : matplotlib.figure.Figure

    Returns
    -------
    str
    """
    from matplotlib import rc_context

    picture = io.StringIO()
    with rc_context({"svg.hashsalt": "ldpbayes", "svg.fonttype": "path"}):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def to_pdf(figure) -> bytes:
    """Return a figure as the bytes of a PDF file, the same each time.

    Parameters
    ----------
    figure : matplotlib.figure.Figure

    Returns
    -------
    bytes
    """
    picture = io.BytesIO()
    figure.savefig(picture, format="pdf", metadata={"CreationDate": None})
    return picture.getvalue()
