"""The picture of a contamination hull: the range of an estimate against the share of fakes, or of every category."""

from typing import Any

import numpy as np

from ldpbayes.plots.base import LABEL, SMALL, WIDTH, Canvas, checked, largest, plain, turning

#: Categories that are drawn.
TOP = 20


@checked()
def plot_contamination(hull: Any, *, ax: Any = None, **style: Any) -> Any:
    """Return a matplotlib figure of the range of an estimate if some reports are fake.

    For a question: the range against the largest share of fakes, and where a conclusion turns. For every category: the
    ranges at the largest share.
    """
    return (_curve if len(hull.curve) else _categories)(hull, ax, style)


def _curve(hull, ax, style):
    canvas = Canvas(ax, style, (WIDTH, 4.0))
    (axes,), main, pale, curve = canvas.axes, canvas.colors[0], canvas.colors[4], hull.curve
    outer = axes.fill_between(curve["share"], curve["confidence_low"], curve["confidence_high"], color=pale, alpha=0.3, lw=0)
    outer.set_label(f"with sampling error ({100 * hull.ci_prob:g} %)")
    inner = axes.fill_between(curve["share"], curve["low"], curve["high"], color=main, alpha=0.35, lw=0)
    inner.set_label("estimates that the honest may have")
    handles = [inner, outer]
    handles += axes.plot(
        curve["share"][[0, -1]], hull["estimate"][[0, 0]], color=main, lw=2, label="estimate from all reports"
    )
    if hull.posterior is not None:
        ends = hull["posterior_low"], hull["posterior_high"]
        handles.append(axes.vlines(hull["share"], *ends, color="0.1", lw=2, label="posterior means"))
    handles += turning(canvas, hull.threshold, hull.turning, "η")
    axes.set_xlim(0, curve["share"][-1])
    axes.set_xlabel("η, the largest share of fake reports", fontsize=LABEL)
    axes.set_ylabel(plain(hull["quantity"].item()), fontsize=LABEL)
    return canvas.finish(f"{hull.question}, if some reports are fake", handles, width=60)


def _categories(hull, ax, style):
    order, share = largest(hull["estimate"].values, TOP), float(hull["share"].max())
    shown = hull.isel(quantity=order, share=int(hull["share"].values.argmax()))
    canvas = Canvas(ax, style, (WIDTH, 1.6 + 0.28 * order.size))
    (axes,), colors, y = canvas.axes, canvas.colors, np.arange(order.size)[::-1]
    sure, ends = ((shown[f"{name}low"], shown[f"{name}high"]) for name in ("confidence_", ""))
    axes.hlines(y, *sure, color=colors[4], lw=2, label="with sampling error")
    axes.hlines(y, *ends, color=colors[0], lw=5, label="estimates that the honest may have")
    axes.plot(shown["estimate"].clip(0, 1), y, "o", color=colors[5], ms=4, label="estimate from all reports")
    axes.set_yticks(y, [plain(label) for label in shown["quantity"].values], fontsize=SMALL)
    axes.set_xlabel("share", fontsize=LABEL)
    return canvas.finish(f"If at most {100 * share:.3g} % of the reports are fake")
