"""The cross-check as a picture: how far each answer lies from the reference, in posterior sd."""

import numpy as np

from ldpbayes.plots.base import ESTIMATES, LABEL, WIDTH, Canvas, checked, largest, wrapped


@checked()
def plot_crosscheck(check, *, top=40, ax=None, **style):
    """Return a matplotlib figure: NUTS, MLE and oracle minus the mean of the reference posterior, in its sd.

    Parameters
    ----------
    check : CrossCheck
    top : int
        Number of categories: those with the largest means.
    """
    shown = largest(check.mean, top)
    y = np.arange(shown.size)[::-1]
    canvas = Canvas(ax, style, (WIDTH, 2.0 + 0.3 * shown.size))
    (axes,), colors = canvas.axes, canvas.colors
    handles = [axes.axvspan(-1, 1, color=colors[0], alpha=0.15, lw=0, label=f"one posterior sd of {check.reference}")]
    handles += axes.plot(check.difference_sd[shown], y, "o", color=colors[0], ms=6, label=f"mean by {check.sampler}")
    for name, away in check.estimates.items():
        mark, color, label = ESTIMATES.get(name, (".", 6, name))
        handles += axes.plot(away[shown], y, mark, color=colors[color], ms=6, label=label)
    axes.axvline(0, color="0.4", lw=0.8)
    axes.set_yticks(y, [wrapped(check.categories[x], 28) for x in shown])
    axes.set_ylim(-0.7, shown.size - 0.3)
    left_out = "" if shown.size == check.mean.size else f" (the {shown.size} largest of {check.mean.size:,} categories)"
    words = f"difference from the mean by {check.reference}, in posterior sd{left_out}"
    axes.set_xlabel(wrapped(words, 40), fontsize=LABEL)
    axes.locator_params(axis="x", nbins=6)
    return canvas.finish("The same posterior by other means", handles)
