"""Intervals as a forest plot, with the point estimates."""

from typing import Any

import numpy as np

from ldpbayes.answers.deciding import who_decides
from ldpbayes.estimators.confidence import intervals_at
from ldpbayes.inference.ends import level_of_largest, tails
from ldpbayes.plots.base import (
    ESTIMATES,
    LABEL,
    WIDTH,
    Canvas,
    Drawn,
    asked,
    checked,
    forest,
    largest,
    pitch,
    share_label,
    title_of,
)
from ldpbayes.plots.groups import plot_groups

#: Display: Categories of cells that a forest draws, a panel each.
PANELS = 12
#: Display: How far posterior and estimate stand above and below the middle of a line: neither hides the other.
ABOVE, BELOW = 0.1, -0.24


@checked()
def plot_forest(result: Any, *, target: Any = "distribution", top: Any = 40, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure: the interval of each category's share beside MLE, confidence and prior interval.

    Derived quantities stand below the categories; cells are drawn by ``plot_groups``. The figure is our own and not
    arviz-plots' forest: exact methods know the ends of their intervals to many digits, which the draws do not, and figure
    and table must show the same numbers.

    Parameters
    ----------
    top : int
        Number of categories shown: those with the largest posterior means. Of two only one is drawn, such as yes.
    """
    summary = result["summary"].to_dataset()
    if "cell" in summary.dims:
        return plot_groups(result, top=min(top, PANELS), ax=ax, **style)
    shares, ci_prob = summary.sel(target=target), summary.attrs["ci_prob"]
    yes, total = asked(shares["category"].values), shares.sizes["category"]
    shown = largest(shares["mean"].values, top) if yes is None else np.array([yes])
    series = [shares[key].values[shown] for key in ("mean", "lower", "upper")]
    labels = list(shares["category"].values[shown])
    is_p = target == "distribution"
    if is_p and "quantity" in summary.coords:
        series = [
            np.append(part, summary[f"derived_{key}"]) for part, key in zip(series, ("mean", "lower", "upper"), strict=True)
        ]
        labels += list(summary["quantity"].values)
    canvas = Canvas(ax, style, (WIDTH, 1.5 + pitch(labels) * len(labels)))  # legend and title take 1.4 inches
    (axes,), below, level = canvas.axes, len(labels) - shown.size, f"{ci_prob * 100:g} %"
    name = f"{'P' if is_p else 'F of these people'}: mean, {level} interval"
    handles = forest(axes, labels, [(name, *series)], width=canvas.beside, above=ABOVE, palette=canvas.colors)
    y = np.arange(len(labels))[::-1]
    if is_p and "estimate" in result.children:
        handles += _estimates(canvas, result["estimate"].to_dataset(), shown, labels[shown.size :])
    if "confidence" in result.children:
        # Of those drawn, whichever they are.
        level_of = level_of_largest(ci_prob, shown.size, total) if yes is None else ci_prob
        ends = [end[shown] for end in intervals_at(result["confidence"].to_dataset(), level_of, target)]
        if np.isfinite(ends).any():
            label = f"{level} confidence" + (f" for the {shown.size} largest" if level_of != ci_prob else "")
            handles.append(axes.hlines(y[: shown.size] + BELOW, *ends, color="0.35", lw=0.9, zorder=1, label=label))
    prior = _prior_ends(result, ci_prob) if is_p else None
    if prior is not None:
        handles.append(_prior(axes, y[: shown.size], prior[:, shown], f"{level} of the prior"))
    if below:
        axes.axhline(below - 0.5, color="0.7", lw=0.8)
    axes.axvline(0, color="0.8", lw=0.8, zorder=0)
    axes.locator_params(axis="x", nbins=5)  # so that labels of long numbers have room
    decided, left_out = who_decides(result), ""
    if yes is not None:
        left_out = f" who are {labels[0]}" if labels[0] != "yes" else " in the category yes"
    elif shown.size < total:
        left_out = f" ({shown.size} largest of {total:,})"
    beside = "; below the line, as named" if below else ""
    axes.set_xlabel(share_label(left_out + beside, decided, 30 if below else 38), fontsize=LABEL)
    return canvas.finish(title_of(result), handles)


def _estimates(canvas, estimate, shown, quantities):
    """Mark the MLE of categories and, below them, of derived quantities, on the lines of confidence; return the handles."""
    if "mle" not in estimate["estimator"].values:
        return []
    mle = estimate.sel(estimator="mle")
    value = mle["value"].values[shown]
    if quantities:  # nan for what a prior learns
        extra = mle["derived"].reindex(quantity=quantities).values if "derived" in mle else np.full(len(quantities), np.nan)
        value = np.append(value, extra)
    marker, place, label = ESTIMATES["mle"]
    settings = {"color": canvas.colors[place], "ms": 5, "mec": "white", "label": label}
    return canvas.axes[0].plot(value, np.arange(value.size)[::-1] + BELOW, marker, **settings)


def _prior(axes, y, band, words):
    """Draw the prior's intervals as bands behind the others, and return the legend's handle.

    The axis shows what the posterior needs, though the prior often reaches from 0 to 1: an arrowhead says that a band goes
    on, and the legend says how far where all of them are alike.
    """
    ends, (low, high) = axes.get_xlim(), band
    for end, marker, beyond in zip(ends, "<>", (low < ends[0], high > ends[1]), strict=True):
        if beyond.any():
            axes.plot(np.full(beyond.sum(), end), y[beyond], marker, color="0.6", ms=6, clip_on=False, zorder=2)
        if beyond.any() and np.ptp(low) == np.ptp(high) == 0:
            words = f"{words.partition(':')[0]}: {low[0]:.3g} to {high[0]:.3g}"
    drawn = axes.hlines(y, low, high, color="0.9", lw=9, zorder=-1, label=words)
    axes.set_xlim(ends)
    return drawn


def _prior_ends(tree, ci_prob):
    """Return the ends of the prior intervals, shape (2, a), where the prior is one Dirichlet; else None."""
    data = tree["constant_data"] if "constant_data" in tree.children else {}
    if "alpha" not in data or data["alpha"].dims != ("category",):
        return None
    from scipy.special import betaincinv

    alpha = data["alpha"].values
    return np.stack([betaincinv(alpha, alpha.sum() - alpha, level) for level in tails(ci_prob)])
