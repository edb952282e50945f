"""The picture of a contamination hull: the range of an estimate against the share of fakes, or of every category."""

import math

import numpy as np

from ldpbayes.plots.base import (
    BLUE,
    LABEL,
    RED,
    SKY,
    SMALL,
    TITLE,
    WIDTH,
    _new_figure,
    checked,
    largest,
    legend_below,
    plain,
    wrapped,
)

#: Categories that are drawn.
TOP = 20


@checked
def plot_contamination(hull):
    """Return a matplotlib figure of the range of an estimate if some reports are fake.

    For a question: the range against the largest share of fakes, and where a conclusion turns. For every category: the
    ranges at the largest share.

    Parameters
    ----------
    hull : ContaminationHull
        From ``ldpbayes.contamination_hull``.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return _curve(hull) if hull.curve else _categories(hull)


def _curve(hull):
    figure = _new_figure(figsize=(WIDTH, 4.0))
    axes, curve = figure.subplots(), hull.curve
    outer = axes.fill_between(curve["share"], curve["confidence_low"], curve["confidence_high"], color=SKY, alpha=0.3, lw=0)
    outer.set_label(f"with sampling error ({100 * hull.ci_prob:g} %)")
    inner = axes.fill_between(curve["share"], curve["low"], curve["high"], color=BLUE, alpha=0.35, lw=0)
    inner.set_label("estimates that the honest may have")
    handles = [inner, outer]
    handles += axes.plot(curve["share"][[0, -1]], hull.estimate[[0, 0]], color=BLUE, lw=2, label="estimate from all reports")
    if hull.posterior is not None:
        ends = axes.vlines(hull.share, hull.posterior.low, hull.posterior.high, color="0.1", lw=2)
        ends.set_label("posterior means")
        handles.append(ends)
    if not math.isnan(hull.threshold):
        axes.axhline(hull.threshold, color="0.5", lw=1, ls="--")
    if math.isfinite(hull.turning):
        label = f"turns at η = {hull.turning:.3g}"
        handles += axes.plot([hull.turning], [hull.threshold], "o", color=RED, label=label)
        axes.axvline(hull.turning, color=RED, lw=1, ls=":")
    axes.set_xlim(0, curve["share"][-1])
    axes.set_xlabel("η, the largest share of fake reports", fontsize=LABEL)
    axes.set_ylabel(plain(hull.labels[0]), fontsize=LABEL)
    axes.tick_params(labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(wrapped(f"{hull.question}, if some reports are fake", 60), fontsize=TITLE)
    legend_below(figure, handles, most=2)
    return figure


def _categories(hull):
    shown = largest(hull.estimate, TOP)
    figure = _new_figure(figsize=(WIDTH, 1.6 + 0.28 * shown.size))
    axes, i, y = figure.subplots(), int(hull.share.argmax()), np.arange(shown.size)[::-1]
    axes.hlines(
        y, hull.confidence_low[i, shown], hull.confidence_high[i, shown], color=SKY, lw=2, label="with sampling error"
    )
    axes.hlines(y, hull.low[i, shown], hull.high[i, shown], color=BLUE, lw=5, label="estimates that the honest may have")
    axes.plot(hull.estimate[shown].clip(0, 1), y, "o", color=RED, ms=4, label="estimate from all reports")
    axes.set_yticks(y, [plain(hull.labels[x]) for x in shown], fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("share", fontsize=LABEL)
    figure.suptitle(f"If at most {100 * hull.share[i]:.3g} % of the reports are fake", fontsize=TITLE)
    legend_below(figure, most=2)
    return figure
