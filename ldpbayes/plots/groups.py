"""Groups side by side: one panel per category or derived quantity, one line per group."""

import math
import re
from typing import Any

import numpy as np

from ldpbayes.answers.base import keys_of
from ldpbayes.answers.deciding import who_decides
from ldpbayes.errors import ArgumentError
from ldpbayes.plots.base import (
    BESIDE,
    LABEL,
    SMALL,
    WIDTH,
    Canvas,
    Drawn,
    asked,
    checked,
    pitch,
    plain,
    share_label,
    shortened,
    title_of,
    wrapped,
)

#: Display: Panels of categories, and of derived quantities.
CATEGORIES, QUANTITIES = 6, 4
#: Display: Tallest figure in inches, and the distance of groups from which on a label has two lines, before it is shortened.
TALLEST, TWO = 28.0, 0.33
#: Display: How far an estimate stands below its posterior in inches, at most in lines; how much of it is above the middle.
APART, AT_MOST, ABOVE = 0.09, 0.42, 0.4
#: Values of a grouping column that mean no and yes.
_BINARY = ("0", "1"), ("False", "True")


@checked()
def plot_groups(result: Any, *, top: Any = CATEGORIES, most: Any = None, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure of a result with cells: mean and interval of each group, a panel per category.

    Of two categories only one is drawn, such as yes, since the other is its complement. Where the result has a point
    estimate of every group, it is marked: under a prior that joins the groups, the distance from it is the shrinkage.

    Parameters
    ----------
    result : DataTree
        From fit() of Cells.
    top : int
        Number of categories drawn: those with the largest mean over the groups.
    most : int, optional
        Groups drawn at most: those with the least and the largest means in the first panel. All by default.

    Raises
    ------
    ArgumentError
        Where the result has no cells.
    """
    summary = result["summary"].to_dataset()
    if "cell" not in summary.dims:
        raise ArgumentError("result must be a result with cells; this one is of a single collection.")
    panels = list(_panels(result, summary, top))
    if most is not None:
        panels = panels[:top]
    shown, names = _extremes(panels[0][1], most), group_names(summary)
    pooled = None
    if "pooled_mean" in summary:
        pooled = dict(zip(map(str, summary["category"].values), summary["pooled_mean"].values, strict=True))
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    room = TALLEST / rows / shown.size
    names = [shortened(names[c], 2 * BESIDE - 6 if room > TWO else BESIDE) for c in shown]
    least = pitch(names, 0)
    line = min(max(room, 0.05), least + 0.03)
    canvas = Canvas(ax, style, (WIDTH, rows * (line * shown.size + 0.5) + 1.5), rows, columns, sharey=True)
    y = np.arange(shown.size)[::-1]
    every, size, handles = max(1, math.ceil(least / line)), 4 if line > 0.1 else 2.5, []
    apart = min(APART / line, AT_MOST) if any(marked is not None for *_, marked in panels) else 0.0
    higher, lower = y + ABOVE * apart, y - (1 - ABOVE) * apart
    for axes, (name, mean, low, high, marked) in zip(canvas.axes, panels, strict=False):
        level = f"{summary.attrs['ci_prob'] * 100:g} %"
        axes.hlines(higher, low[shown], high[shown], color=canvas.colors[0], lw=1.6)
        handles = axes.plot(mean[shown], higher, "o", color=canvas.colors[0], ms=size, label=f"mean and {level} interval")
        if marked is not None:
            look = {"mfc": "none", "mec": canvas.colors[1], "mew": 1.2, "clip_on": False, "label": "MLE of the group alone"}
            handles += axes.plot(marked[shown], lower, "D", ms=size, zorder=1.9, **look)
        at = np.mean(mean) if pooled is None or name not in pooled else pooled[name]
        label = "mean of the groups" if pooled is None else "pooled mean"
        handles.append(axes.axvline(at, color="0.45", ls="--", lw=1, label=label, zorder=0))
        if len(panels) > 1:
            axes.set_title(wrapped(name, 20), fontsize=LABEL)
        axes.set_xlim(max(axes.get_xlim()[0], 0 if np.min(low) >= 0 else -np.inf), None)
        axes.set_ylim(-0.8, shown.size - 0.2)
        axes.set_yticks(y[::every], [wrapped(name, canvas.beside) for name in names[::every]], fontsize=SMALL)
    for axes in canvas.axes[len(panels) :]:
        axes.remove()
    del canvas.axes[len(panels) :]
    decided, of = who_decides(result), f" with {plain(panels[0][0])}" if len(panels) == 1 else ""
    for axes in canvas.axes[-columns:]:  # a label of the whole figure would lie under its legend
        axes.set_xlabel(share_label(of, decided, 32 // columns), fontsize=LABEL)
        axes.locator_params(axis="x", nbins=5 if columns == 1 else 3)
    return canvas.finish(title_of(result), handles, most=2)


def _extremes(mean, most):
    """Return the positions of the groups with the least and the largest means, at most so many, in their order."""
    if most is None or mean.size <= most:
        return np.arange(mean.size)
    order = np.argsort(mean, kind="stable")
    return np.sort(np.concatenate([order[: most // 2], order[-(most - most // 2) :]]))


def group_names(summary) -> list[str]:
    """Return the groups in words: "female: yes, 45–54, year 2020" where their labels are 1, 45-54 and 2020.

    Parameters
    ----------
    summary : Dataset
        Of a result with cells.
    """
    columns = [in_words(name, list(map(str, summary[name].values.tolist()))) for name in keys_of(summary)]
    return [", ".join(row) for row in zip(*columns, strict=True)] or list(map(str, summary["cell"].values))


def spaced(name):
    """Return the name of a column or a term as people write it: spaces, and ranges of numbers with a dash."""
    return re.sub(r"(?<![\d-])(\d+)-(\d+)(?![\d-])", r"\1–\2", name.replace("_", " "))  # a date stays as it is


def words_of(values) -> dict[str, str]:
    """Return how people write values of a grouping column: no and yes in a column of 0 and 1, ranges of ages with a dash."""
    for pair in _BINARY:
        if set(values) == set(pair):
            return dict(zip(pair, ("no", "yes"), strict=True))
    return {value: spaced(value) for value in values if re.fullmatch(r"\d+-\d+", value)}


def in_words(name, values):
    """Return the values of a grouping column in words: numbers, and the values of a column of 0 and 1, with its name."""
    name, words = spaced(name), words_of(values)
    texts = [words.get(value, value) for value in values]
    if words and set(texts) <= {"no", "yes"}:
        return [f"{name}: {text}" for text in texts]
    return [f"{name} {text}" if re.fullmatch(r"[-+]?[.\d]+", text) else text for text in texts]


def drawn(result, top=CATEGORIES) -> list[str]:
    """Return the names of the panels that plot_groups draws."""
    return [name for name, *_ in _panels(result, result["summary"].to_dataset(), top)]


def _panels(tree, summary, top):
    """Yield (name, mean, lower, upper, point estimates or None), each of shape (cells,)."""
    p = summary.sel(target="distribution")
    estimate = tree["estimate"].to_dataset() if "estimate" in tree.children else None
    has_mle = estimate is not None and "mle" in estimate["estimator"].values and "cell" in estimate["value"].dims
    mle = estimate.sel(estimator="mle") if has_mle else None
    labels = p["category"].values
    order = np.argsort(-p["mean"].mean("cell").values, kind="stable")[:top]
    yes = asked(labels)
    for x in np.sort(order) if yes is None else [yes]:
        share = p.isel(category=int(x)).transpose("cell", ...)
        marked = mle["value"].isel(category=int(x)).values if has_mle else None
        yield str(labels[x]), share["mean"].values, share["lower"].values, share["upper"].values, marked
    for q, name in enumerate(summary["quantity"].values[:QUANTITIES] if "quantity" in summary.coords else ()):
        stats = (summary[f"derived_{key}"].transpose("cell", "quantity").values[:, q] for key in ("mean", "lower", "upper"))
        marked = None
        if has_mle and "derived" in mle and name in mle["quantity"].values:  # no estimate of what a prior learns
            marked = mle["derived"].sel(quantity=name).values
        yield str(name), *stats, marked
