"""Groups side by side: one panel per category or derived quantity, one line per group."""

import math

import numpy as np

from ldpbayes.answers.deciding import who_decides
from ldpbayes.errors import ArgumentError
from ldpbayes.plots.base import BLUE, LABEL, ORANGE, SMALL, TITLE, WIDTH, checked, plain, stage, wrapped

#: Panels of categories, and of derived quantities.
CATEGORIES, QUANTITIES = 6, 4
#: Tallest figure, in inches, and the least distance of two labels.
TALLEST, LEAST = 26.0, 0.13
#: How the point estimate of a group on its own is drawn.
ALONE = {"mfc": "none", "mec": ORANGE, "mew": 1.2, "label": "MLE of the group alone"}


@checked
def plot_groups(tree, *, top=CATEGORIES, ax=None):
    """Return a matplotlib figure of a result with cells: mean and interval of each group, a panel per category.

    Of two categories only the second is drawn, since the first is its complement. Where the result has a point estimate
    of every group, it is marked: under a prior that joins the groups, the distance from it is the shrinkage.

    Parameters
    ----------
    tree : DataTree
        From fit() of Cells.
    top : int
        Number of categories drawn: those with the largest mean over the groups.
    ax : matplotlib Figure or SubFigure, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ArgumentError
        Where the result has no cells.
    """
    summary = tree["summary"].to_dataset()
    if "cell" not in summary.dims:
        raise ArgumentError("tree must be a result with cells; this one is of a single collection.")
    panels = list(_panels(tree, summary, top))
    pooled = None
    if "pooled_mean" in summary:
        pooled = dict(zip(map(str, summary["category"].values), summary["pooled_mean"].values, strict=True))
    cells = [str(label) for label in summary["cell"].values]
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    line = min(max(TALLEST / rows / len(cells), 0.05), 0.2)
    figure, grid = stage(ax, (WIDTH, rows * (line * len(cells) + 0.75) + 1.3), rows, columns, sharey=True)
    y = np.arange(len(cells))[::-1]
    every = max(1, math.ceil(LEAST / line))
    handles = []
    for axes, (name, mean, low, high, marked) in zip(grid, panels, strict=False):
        level = f"{summary.attrs['ci_prob'] * 100:g} %"
        axes.hlines(y, low, high, color=BLUE, lw=1.6)
        size = 4 if line > 0.1 else 2.5
        handles = axes.plot(mean, y, "o", color=BLUE, ms=size, label=f"mean and {level} interval")
        if marked is not None:
            handles += axes.plot(marked, y, "D", ms=size + 1.5, clip_on=False, **ALONE)
        at = np.mean(mean) if pooled is None or name not in pooled else pooled[name]
        label = "mean of the groups" if pooled is None else "pooled mean"
        handles.append(axes.axvline(at, color="0.45", ls="--", lw=1, label=label, zorder=0))
        axes.set_title(wrapped(name, 26), fontsize=LABEL)
        axes.tick_params(labelsize=SMALL if line > 0.16 else SMALL - 1)
        axes.set_xlim(max(axes.get_xlim()[0], 0 if np.min(low) >= 0 else -np.inf), None)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(-0.8, len(cells) - 0.2)
        axes.set_yticks(y[::every], [wrapped(label, 24) if line > 0.19 else plain(label[:24]) for label in cells[::every]])
    for axes in figure.axes[len(panels) :]:
        axes.remove()
    for axes in figure.axes[: len(panels) : columns]:
        axes.set_ylabel(wrapped(", ".join(keys_of(summary)), 40), fontsize=LABEL)
    decided = who_decides(tree)
    for axes in figure.axes[-columns:]:  # a label of the whole figure would lie under its legend
        axes.set_xlabel("share of people" + (f"\n({wrapped(decided, 26)})" if decided else ""), fontsize=LABEL)
    figure.suptitle(wrapped(tree.attrs["title"] or tree.attrs["collection"], 42), fontsize=TITLE)
    figure.legend(handles=handles, loc="outside lower center", ncols=1, fontsize=SMALL, frameon=False)
    return figure


def keys_of(summary) -> list[str]:
    """Return the names of the grouping columns, which the labels of groups list the values of."""
    return [str(name) for name, held in summary.coords.items() if name != "cell" and held.dims == ("cell",)]


def drawn(tree, top=CATEGORIES) -> list[str]:
    """Return the names of the panels that plot_groups draws."""
    return [name for name, *_ in _panels(tree, tree["summary"].to_dataset(), top)]


def _panels(tree, summary, top):
    """Yield (name, mean, lower, upper, point estimates or None), each of shape (cells,)."""
    p = summary.sel(target="distribution")
    estimate = tree["estimate"].to_dataset() if "estimate" in tree.children else None
    known = estimate is not None and "mle" in estimate["estimator"].values and "cell" in estimate["value"].dims
    mle = estimate.sel(estimator="mle") if known else None
    labels = p["category"].values
    order = np.argsort(-p["mean"].mean("cell").values, kind="stable")[:top]
    for x in [1] if labels.size == 2 else np.sort(order):
        one = p.isel(category=int(x)).transpose("cell", ...)
        marked = mle["value"].isel(category=int(x)).values if known else None
        yield str(labels[x]), one["mean"].values, one["lower"].values, one["upper"].values, marked
    for q, name in enumerate(summary["quantity"].values[:QUANTITIES] if "quantity" in summary.coords else ()):
        found = (summary[f"derived_{key}"].transpose("cell", "quantity").values[:, q] for key in ("mean", "lower", "upper"))
        marked = None
        if known and "derived" in mle and name in mle["quantity"].values:  # no estimate of what a prior learns
            marked = mle["derived"].sel(quantity=name).values
        yield str(name), *found, marked
