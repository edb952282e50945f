"""The cross-check as a picture: how far each answer lies from the reference, in posterior sd."""

import numpy as np

from ldpbayes.plots.base import BLACK, BLUE, ESTIMATES, LABEL, WIDTH, checked, finish, largest, stage, wrapped


@checked
def plot_crosscheck(check, *, top=40, title="", ax=None):
    """Return a matplotlib figure: NUTS, MLE and oracle minus the mean of the reference posterior, in its sd.

    Parameters
    ----------
    check : CrossCheck
    top : int
        Number of categories: those with the largest means.
    title : str
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Figure, or the Axes that were given
    """
    shown = largest(check.mean, top)
    y = np.arange(shown.size)[::-1]
    figure, (axes,) = stage(ax, (WIDTH, 2.0 + 0.3 * shown.size))
    handles = [axes.axvspan(-1, 1, color=BLUE, alpha=0.15, lw=0, label=f"one posterior sd of {check.reference}")]
    handles += axes.plot(check.difference_sd[shown], y, "o", color=BLUE, ms=6, label=f"mean by {check.sampler}")
    for name, away in check.estimates.items():
        mark, color, label = ESTIMATES.get(name, (".", BLACK, name))
        handles += axes.plot(away[shown], y, mark, color=color, ms=6, label=label)
    axes.axvline(0, color="0.4", lw=0.8)
    axes.set_yticks(y, [wrapped(check.categories[x], 28) for x in shown])
    axes.set_ylim(-0.7, shown.size - 0.3)
    left_out = "" if shown.size == check.mean.size else f" (the {shown.size} largest of {check.mean.size:,} categories)"
    words = f"difference from the mean by {check.reference}, in posterior sd{left_out}"
    axes.set_xlabel(wrapped(words, 40), fontsize=LABEL)
    axes.locator_params(axis="x", nbins=6)
    return finish(ax, figure, title or "The same posterior by other means", handles)
