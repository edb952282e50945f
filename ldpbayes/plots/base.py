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
