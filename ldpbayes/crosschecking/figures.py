"""The cross-check as a picture: how far each answer lies from the reference, in posterior sd."""

from typing import Any

from ldpbayes.errors import ArgumentError
from ldpbayes.plots.base import ESTIMATES, LABEL, WIDTH, Canvas, checked, largest, lines, one_of, wrapped

#: What the argument of the figure must be.
CHECK = {"check": one_of("ldpbayes.crosschecking.compared", "CrossCheck", "what crosscheck returned")}


@checked(CHECK)
def plot_crosscheck(check: Any, *, top: Any = 40, ax: Any = None, **style: Any) -> Any:
    """Return a matplotlib figure: NUTS, MLE and oracle minus the mean of the reference posterior, in its sd.

    Parameters
    ----------
    check : CrossCheck
        Of one collection.
    top : int
        Number of categories: those with the largest means.
    """
    if "cell" in check.dims:
        raise ArgumentError("check must be of one collection, got one of cells.")
    shown, reference, total = largest(check["mean"].values, top), check["reference"].item(), check.sizes["category"]
    canvas = Canvas(ax, style, (WIDTH, 2.0 + 0.3 * shown.size))
    (axes,), colors = canvas.axes, canvas.colors
    y = lines(axes, check["category"].values[shown])
    handles = [axes.axvspan(-1, 1, color=colors[0], alpha=0.15, lw=0, label=f"one posterior sd of {reference}")]
    handles += axes.plot(
        check["difference_sd"].values[shown], y, "o", color=colors[0], ms=6, label=f"mean by {check['sampler'].item()}"
    )
    for name, away in zip(map(str, check["estimator"].values), check["away"].values, strict=True):
        mark, color, label = ESTIMATES.get(name, (".", 6, name))
        handles += axes.plot(away[shown], y, mark, color=colors[color], ms=6, label=label)
    axes.axvline(0, color="0.4", lw=0.8)
    left_out = "" if shown.size == total else f" (the {shown.size} largest of {total:,} categories)"
    words = f"difference from the mean by {reference}, in posterior sd{left_out}"
    axes.set_xlabel(wrapped(words, 40), fontsize=LABEL)
    axes.locator_params(axis="x", nbins=6)
    return canvas.finish("The same posterior by other means", handles)
