"""Figures of private groups: distribution functions with bands, a forest of means and quantiles, and differences."""

from typing import Any

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.plots.base import LABEL, WIDTH, Canvas, Drawn, _plain_ticks, _style, checked, forest, one_of, plain, wrapped

#: What the arguments of these figures must be, and what they are.
PRIVATE = (
    {"result": one_of("ldpbayes.private_groups", "PrivateGroups", "what by_private_group returned")},
    {
        "result": "result : PrivateGroups\n    From ``by_private_group``.",
        "unit": 'unit : str\n    Of the open value, such as "ms".',
        "top": "top : int\n    Combinations of open covariates drawn: those with most records.",
    },
)
#: Display: Combinations of open covariates that have a panel, those with most records first, and rows of a forest.
PANELS, ROWS = 4, 36
#: Display: Points of a curve, and the levels between which curves are drawn.
POINTS, EDGES = 160, (0.002, 0.995)
#: Display: Values that reach over so many powers of ten are drawn on a logarithmic axis.
DECADES = 1.3


@checked(*PRIVATE)
def plot_private_functions(
    result: Any, *, unit: Any = "", top: Any = PANELS, ax: Drawn | None = None, **style: Any
) -> Drawn:
    """Return a matplotlib figure of each private group's distribution function with a pointwise band."""
    _numbers(result)
    shown = _largest(result, top)
    grid, logarithmic = _grid(result, shown)
    curves = result.cdf(grid)
    canvas = Canvas(ax, style, (WIDTH, 0.9 + 1.9 * len(shown)), len(shown), sharex=True)
    for axes, cell in zip(canvas.axes, shown, strict=True):
        _bands(canvas, axes, result, cell, grid, curves)
        if logarithmic:
            axes.set_xscale("log")
            _plain_ticks(axes.xaxis, grid)
        axes.set_ylim(0, 1)
        axes.set_ylabel("share at or below", fontsize=LABEL)
    axes.set_xlabel(_with_unit(result.value, unit), fontsize=LABEL)
    return _finish(canvas, f"Distribution of {result.value} by private group", "bands at each value", result)


@checked(*PRIVATE)
def plot_private_quantiles(
    result: Any, *, unit: Any = "", top: Any = PANELS, ax: Drawn | None = None, **style: Any
) -> Drawn:
    """Return a matplotlib figure of shares, means and quantiles of each private group with intervals.

    Of an open category the shares of its levels take the place of means and quantiles.
    """
    shown = _largest(result, top)
    table = result.summary()
    names = [str(name) for name in table["quantity"].values if str(name) != "share"][: ROWS // max(1, len(shown))]
    labels = [(cell, name) for cell in shown for name in names]
    series = []
    for x, group in enumerate(result.groups):
        answers = [table.isel(group=x).sel(quantity=name) for _, name in labels]
        answers = [part if cell is None else part.isel(cell=cell) for part, (cell, _) in zip(answers, labels, strict=True)]
        series.append((group, *(np.array([float(part[key]) for part in answers]) for key in ("mean", "lower", "upper"))))
    canvas = Canvas(ax, style, (WIDTH, 1.5 + 0.2 * len(labels) * (1 + len(result.groups))))
    (axes,) = canvas.axes
    texts = [
        quantity_name(name) + (f"\n{', '.join(map(str, result.cells[cell]))}" if cell is not None else "")
        for cell, name in labels
    ]
    forest(axes, texts, series, width=20 if len(shown) == 1 else 200, reach=0.26, palette=canvas.colors)
    values = np.concatenate([np.concatenate(part[1:]) for part in series])
    values = values[np.isfinite(values)]
    if result.levels is None and values.size and values.min() > 0 and values.max() / values.min() > 10**DECADES:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, values)
    elif result.levels is None:
        axes.xaxis.set_major_formatter(_thousands)
    axes.set_xlabel("share of the group" if result.levels is not None else _with_unit(result.value, unit), fontsize=LABEL)
    what = "Shares of" if result.levels is not None else "Mean and quantiles of"
    return _finish(canvas, f"{what} {result.value}", "intervals", result)


@checked(*PRIVATE)
def plot_private_differences(
    result: Any,
    *,
    unit: Any = "",
    versus: Any = None,
    top: Any = PANELS,
    ax: Drawn | None = None,
    **style: Any,
) -> Drawn:
    """Return a matplotlib figure of how much larger each quantile is in the other groups than in one of them.

    Parameters
    ----------
    versus : str, optional
        The group to compare with; the first by default.
    """
    _numbers(result)
    shown = _largest(result, top)
    levels = np.linspace(0.02, 0.98, 49)
    apart = result.difference("quantile", levels.round(6).tolist(), versus=versus)
    canvas = Canvas(ax, style, (WIDTH, 0.9 + 1.9 * len(shown)), len(shown), sharex=True)
    for axes, cell in zip(canvas.axes, shown, strict=True):
        _bands(canvas, axes, result, cell, 100 * levels, apart)
        axes.axhline(0, color="0.4", lw=0.8)
        axes.set_ylabel(_with_unit("difference", unit), fontsize=LABEL)
        axes.yaxis.set_major_formatter(_thousands)
    axes.set_xlabel("quantile of the group (%)", fontsize=LABEL)
    title = f"Quantiles of {result.value} less those of {apart.attrs['versus']}"
    return _finish(canvas, title, "bands at each quantile", result)


def quantity_name(name):
    """Return the name of a quantity of the summary as people read it: "q95" is the 95 % quantile.

    Examples
    --------
    >>> quantity_name("q50"), quantity_name("q99.9"), quantity_name("mean")
    ('median', '99.9 % quantile', 'mean')
    """
    level = name.removeprefix("q")
    if name == "q50":
        return "median"
    return f"{level} % quantile" if name.startswith("q") and level.replace(".", "", 1).isdecimal() else name


def largest_cells(result, top):
    """Return the positions of the combinations of open covariates with most records, in their order."""
    sizes = np.array([measure.total.sum(axis=1).mean() for measure in result.measures])
    return np.sort(np.argsort(-sizes, kind="stable")[:top]).tolist()


def _largest(result, top):
    return largest_cells(result, top) if result.by else [None]


def _numbers(result):
    if result.levels is not None:
        raise ArgumentError("result must be of a number; an open category has plot_private_quantiles.")


def _grid(result, shown):
    """Return the points of the curves, and whether their axis is logarithmic."""
    measures = result.measures if shown == [None] else [result.measures[cell] for cell in shown]
    ends = np.array([np.nanmean(measure.quantile(np.array(EDGES)), axis=0) for measure in measures])
    low, high = float(np.nanmin(ends[:, 0])), float(np.nanmax(ends[:, 1]))
    if not low < high:
        low, high = low - 0.5, high + 0.5
    if low > 0 and high / low > 10**DECADES:
        return np.geomspace(low, high, POINTS), True
    return np.linspace(low, high, POINTS), False


def _thousands(value, position):
    return f"{value:,.10g}"


def _with_unit(name, unit):
    return f"{wrapped(name, 32)} ({plain(unit)})" if unit else wrapped(name, 32)


def _bands(canvas, axes, result, cell, at, curves):
    """Draw the means and bands of the groups' curves in one panel."""
    answer = curves if cell is None else curves.isel(cell=cell)
    for group in map(str, curves["group"].values):
        band, style = answer.sel(group=group), _style(result.groups.index(group), canvas.colors)
        axes.fill_between(at, band["lower"], band["upper"], color=style["color"], alpha=0.22, lw=0)
        axes.plot(at, band["mean"], color=style["color"], ls=style["ls"], lw=1.8, label=wrapped(group, 24))
    if cell is not None:
        axes.set_title(wrapped(", ".join(map(str, result.cells[cell])), 34), fontsize=LABEL)


def _finish(canvas, title, second, result):
    left = f", {min(PANELS, len(result.cells))} of {len(result.cells)} combinations" if len(result.cells) > PANELS else ""
    for axes in canvas.axes:
        axes.grid(alpha=0.3, lw=0.5)
    handles, _ = canvas.axes[0].get_legend_handles_labels()
    text = f"{title}: {100 * result.ci_prob:g} % {second}{left}"
    return canvas.finish(text, handles, most=2 if len(handles) < 5 else 3)
