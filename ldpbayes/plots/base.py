"""What all figures share: colours, sizes that a phone shows legibly, and a new figure."""

import importlib
import io
import re
import textwrap

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError, printable, shown

#: Colours of Okabe & Ito (2008), yellow left out: it is too pale on white.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
GREY = "0.62"
#: Colours of curves, in order.
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, BLACK)
_DASHES = ("-", (0, (6, 2)), (0, (3, 1.5)), (0, (6, 2, 1, 2)), (0, (1, 1.2)), (0, (8, 2, 2, 2, 2, 2)), (0, (4, 3)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Width of a figure in inches, and sizes of text in points: on a screen of 360 pixels the text is still legible.
WIDTH, TITLE, LABEL, SMALL = 4.7, 11, 10, 9


def _result(value, name):
    from ldpbayes.result.validation import need_result

    need_result(value, name)
    if "summary" not in value.children:
        raise ArgumentError(f"{name} must be a result of fit, with its group summary.")


def _one_of(module, cls, words):
    """Return the rule for objects of a class that is imported where it is first asked for."""

    def rule(value, name):
        checks.instance(value, name, getattr(importlib.import_module(module), cls), words)

    return rule


def _regression(value, name):
    import xarray as xr

    from ldpbayes.regression.maximum import Maximum

    if not isinstance(value, Maximum) and not (isinstance(value, xr.DataTree) and "regression" in value.attrs):
        raise ArgumentError(f"{name} must be what regress returned, got {shown(value)}.")


def _at_least_one(value, name):
    checks.integer(value, name, 1, 10**6)


#: What the arguments of figures must be, by name.
_RULES = {
    "tree": _result,
    "fitted": _regression,
    "hull": _one_of("ldpbayes.answers.contamination", "ContaminationHull", "what contamination_hull returned"),
    "curve": _one_of("ldpbayes.fitness.noncompliance", "Sensitivity", "what sensitivity returned"),
    "check": _one_of("ldpbayes.fitness.crosschecking", "CrossCheck", "what crosscheck returned"),
    "table": _one_of("pyarrow", "Table", "what run_study returned"),
    "found": _one_of("ldpbayes.outcomes", "PrivateGroups", "what by_private_group returned"),
    "figure": _one_of("matplotlib.figure", "Figure", "a figure of matplotlib"),
    "predicted": _one_of("xarray", "Dataset", "what predictions returned"),
    "collection": _one_of("ldpbayes.collections", "Collection", "a Collection"),
    "cells": _one_of("ldpbayes.collections", "Cells", "Cells"),
    "curves": checks.mapping,
    "along": lambda value, name: checks.choice(value, name, ("epsilon", "n")),
    "intercept": checks.flag,
    "random_seed": checks.generator,
    **dict.fromkeys(("top", "draws", "most", "most_panels", "most_columns"), _at_least_one),
    **dict.fromkeys(("title", "unit", "label", "x"), checks.text),
    **dict.fromkeys(("lines", "panels"), checks.labels),
}

#: Decorates the figures: their arguments are checked by name.
checked = checks.by_name(_RULES)


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


def plain(text):
    """Return a label as matplotlib shows it letter by letter: between two dollar signs it would read a formula."""
    return re.sub(r"(?<!\\)\$", r"\\$", printable(str(text), keep="\n"))


def wrapped(text, width):
    """Return a label with line breaks, so that no line is longer than width characters; see ``plain``."""
    return plain("\n".join(textwrap.wrap(str(text), width)) or text)


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
    texts = list(map(plain, (handle.get_label() for handle in handles) if labels is None else labels))
    # A letter is about 0.56 of the size wide; the sample of a curve and the gaps take 4.8 sizes in each column.
    widths = [max((len(line) for line in text.splitlines()), default=0) * 0.56 * size + 4.8 * size for text in texts]
    columns = min(most, len(texts))
    while columns > 1 and sum(part.max() for part in np.array_split(widths, columns)) > 72 * figure.get_figwidth():
        columns -= 1
    figure.legend(list(handles), texts, loc="outside lower center", ncols=max(columns, 1), fontsize=size, frameon=False)


def largest(mean, top):
    """Return the positions of the largest means in their order, at most ``top`` of them."""
    return np.sort(np.argsort(-np.asarray(mean), kind="stable")[:top])


def _plain_ticks(axis, values):
    """Set ticks of a logarithmic axis at 1, 2 and 5 times powers of ten inside the values, written out in plain numbers."""
    low, high = min(values), max(values)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [k * 10.0**e for e in powers for k in steps if low <= k * 10.0**e <= high]
        if len(ticks) <= 6:
            break
    if len(ticks) >= 2:
        axis.set_ticks(ticks, [f"{tick:,.10g}" for tick in ticks])
        axis.set_minor_locator(_no_ticks())


def _no_ticks():
    from matplotlib.ticker import NullLocator

    return NullLocator()


@checked
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


@checked
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
