"""The picture of a sensitivity curve: an answer against the share of respondents who ignore the device."""

import math

from ldpbayes.plots.base import BLUE, LABEL, RED, SMALL, TITLE, WIDTH, _new_figure, checked, legend_below, wrapped


@checked
def plot_sensitivity(curve):
    """Return a matplotlib figure of an answer for every γ that the reports allow, and the γ at which a conclusion turns.

    Parameters
    ----------
    curve : Sensitivity
        From ``ldpbayes.sensitivity``.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = _new_figure(figsize=(WIDTH, 4.0))
    axes = figure.subplots()
    low, high = curve.answer - 1.96 * curve.error, curve.answer + 1.96 * curve.error
    band = axes.fill_between(curve.gamma, low.clip(0, 1), high.clip(0, 1), color=BLUE, alpha=0.2, lw=0)
    band.set_label("95 % interval at each γ")
    handles = [*axes.plot(curve.gamma, curve.answer, color=BLUE, lw=2, label="MLE"), band]
    if curve.threshold is not None:
        axes.axhline(curve.threshold, color="0.5", lw=1, ls="--")
    if math.isfinite(curve.turning):
        label = f"turns at γ = {curve.turning:.3g}"
        handles += axes.plot([curve.turning], [curve.threshold], "o", color=RED, label=label)
        axes.axvline(curve.turning, color=RED, lw=1, ls=":")
    which = "all γ that the reports allow" if curve.allowed else "two standard deviations about the estimate"
    axes.set_xlabel(f"γ, the share who ignore the device\n({which})", fontsize=LABEL)
    axes.set_ylabel("share among those who follow it", fontsize=LABEL)
    axes.tick_params(labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(wrapped(curve.question, 60), fontsize=TITLE)
    legend_below(figure, handles, most=2)
    return figure
