"""What conclusions withstand, as pictures: fake reports, respondents who ignore the device, and other methods."""

from typing import Any

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.plots.base import (
    ESTIMATES,
    LABEL,
    SMALL,
    WIDTH,
    Canvas,
    Drawn,
    brief,
    checked,
    largest,
    lines,
    one_of,
    wrapped,
)

#: Display: Categories of the table and the figure of a hull, the largest estimates first.
CATEGORIES = 20
#: What the arguments of these figures must be.
HULL = {"result": one_of("ldpbayes.robust.contamination", "ContaminationHull", "what contamination_hull returned")}
CHECK = {"result": one_of("ldpbayes.robust.crosschecking", "CrossCheck", "what crosscheck returned")}
CURVE = {"result": one_of("ldpbayes.robust.ignoring", "Sensitivity", "what sensitivity returned")}


@checked(HULL, {"result": "result : ContaminationHull\n    From ``ldpbayes.robust.contamination_hull``."})
def plot_contamination(result: Any, *, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure of the range of an estimate if some reports are fake.

    For a question: the range against the largest share of fakes, and where a conclusion turns. For every category: the
    ranges at the largest share.
    """
    return (_curve if len(result.curve) else _categories)(result, ax, style)


@checked(CHECK)
def plot_crosscheck(result: Any, *, top: Any = 40, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure: NUTS, MLE and oracle minus the mean of the reference posterior, in its sd.

    Parameters
    ----------
    result : CrossCheck
        Of one collection.
    top : int
        Number of categories: those with the largest means.
    """
    if "cell" in result.dims:
        raise ArgumentError("result must be of one collection, got one of cells.")
    shown, reference, total = largest(result["mean"].values, top), result["reference"].item(), result.sizes["category"]
    canvas = Canvas(ax, style, (WIDTH, 2.0 + 0.4 * shown.size))
    (axes,), colors = canvas.axes, canvas.colors
    y = lines(axes, result["category"].values[shown])
    handles = [axes.axvspan(-1, 1, color=colors[0], alpha=0.15, lw=0, label=f"one posterior sd of {reference}")]
    series = [(result["difference_sd"].values, "o", 0, f"mean by {result['sampler'].item()}")]
    for name, away in zip(map(str, result["estimator"].values), result["away"].values, strict=True):
        series.append((away, *ESTIMATES.get(name, (".", 6, name))))
    # Each at a height of its own: where all agree, none hides another.
    for height, (away, mark, color, label) in zip(np.linspace(0.3, -0.3, len(series)), series, strict=True):
        handles += axes.plot(away[shown], y + height, mark, color=colors[color], ms=5, label=label)
    axes.axvline(0, color="0.4", lw=0.8)
    left_out = "" if shown.size == total else f" (the {shown.size} largest of {total:,} categories)"
    words = f"difference from the mean by {reference}, in posterior sd{left_out}"
    axes.set_xlabel(wrapped(words, 34), fontsize=LABEL)
    axes.locator_params(axis="x", nbins=6)
    return canvas.finish("The same posterior by other means", handles)


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
    handles += _turning(canvas, hull.threshold, hull.turning, "η")
    axes.set_xlim(0, curve["share"][-1])
    axes.set_xlabel("η, the largest share of fake reports", fontsize=LABEL)
    axes.set_ylabel(wrapped(f"estimate of {hull['quantity'].item()}", 32), fontsize=LABEL)
    return canvas.finish(f"{hull.question}, if some reports are fake", handles)


def _categories(hull, ax, style):
    order, share = largest(hull["estimate"].values, CATEGORIES), float(hull["share"].max())
    shown = hull.isel(quantity=order, share=int(hull["share"].values.argmax()))
    canvas = Canvas(ax, style, (WIDTH, 1.6 + 0.28 * order.size))
    (axes,), colors, y = canvas.axes, canvas.colors, np.arange(order.size)[::-1]
    sure, ends = ((shown[f"{name}low"], shown[f"{name}high"]) for name in ("confidence_", ""))
    axes.hlines(y, *sure, color=colors[4], lw=2, label="with sampling error")
    axes.hlines(y, *ends, color=colors[0], lw=5, label="estimates that the honest may have")
    axes.plot(shown["estimate"].clip(0, 1), y, "o", color=colors[5], ms=4, label="estimate from all reports")
    axes.set_yticks(y, [brief(label) for label in shown["quantity"].values], fontsize=SMALL)
    axes.set_xlabel("share", fontsize=LABEL)
    return canvas.finish(f"If at most {100 * share:.3g} % of the reports are fake")


@checked(CURVE, {"result": "result : Sensitivity\n    From ``ldpbayes.robust.sensitivity``."})
def plot_sensitivity(result: Any, *, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure of an answer for every γ that the reports allow, and the γ at which a conclusion turns."""
    canvas = Canvas(ax, style, (WIDTH, 4.0))
    (axes,), color = canvas.axes, canvas.colors[0]
    symbol = result.attrs.get("symbol", "γ")
    gamma, answer, error = (result[name].values for name in ("gamma", "answer", "error"))
    low, high = answer - 1.96 * error, answer + 1.96 * error
    words = f"95 % interval at each {symbol}"
    band = axes.fill_between(gamma, low.clip(0, 1), high.clip(0, 1), color=color, alpha=0.2, lw=0, label=words)
    handles = [*axes.plot(gamma, answer, color=color, lw=2, label="MLE"), band]
    handles += _turning(canvas, result.threshold, result.turning, symbol)
    which = f"all {symbol} that the reports allow" if result.allowed else "two standard deviations about the estimate"
    who = "deny" if symbol == "δ" else "ignore the device"
    axes.set_xlabel(f"{symbol}, the share who {who}\n({which})", fontsize=LABEL)
    axes.set_ylabel("share among those who\nfollow the device", fontsize=LABEL)
    return canvas.finish(result.question, handles)


def _turning(canvas, threshold, at, symbol):
    """Draw the threshold of a conclusion and the point at which it turns; return the legend's handles."""
    (axes,), color = canvas.axes, canvas.colors[5]
    if threshold is not None and not np.isnan(threshold):
        axes.axhline(threshold, color="0.5", lw=1, ls="--")
    if not np.isfinite(at):
        return []
    axes.axvline(at, color=color, lw=1, ls=":")
    return axes.plot([at], [threshold], "o", color=color, label=f"turns at {symbol} = {at:.3g}")
