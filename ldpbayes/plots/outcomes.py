"""Figures of private groups: distribution functions with bands, a forest of means and quantiles, and differences."""

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.plots.base import (
    LABEL,
    SMALL,
    TITLE,
    WIDTH,
    _new_figure,
    _plain_ticks,
    _style,
    checked,
    legend_below,
    plain,
    wrapped,
)

#: Combinations of open covariates that have a panel, those with most records first, and rows of a forest.
PANELS, ROWS = 4, 36
#: Points of a curve, and the levels between which curves are drawn.
POINTS, EDGES = 160, (0.002, 0.995)
#: Values that reach over so many powers of ten are drawn on a logarithmic axis.
DECADES = 1.3


@checked
def plot_private_functions(found, *, unit="", top=PANELS):
    """Return a matplotlib figure of each private group's distribution function with a pointwise band.

    Parameters
    ----------
    found : PrivateGroups
        From ``by_private_group``, of a number.
    unit : str
        Of the open value, such as "ms".
    top : int
        Combinations of open covariates drawn: those with most records.

    Returns
    -------
    matplotlib.figure.Figure
    """
    _numbers(found)
    shown = _largest(found, top)
    grid, logarithmic = _grid(found, shown)
    curves = found.cdf(grid)
    figure = _new_figure(figsize=(WIDTH, 0.9 + 2.9 * len(shown)))
    for axes, cell in zip(figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0], shown, strict=True):
        own = curves if cell is None else curves.isel(cell=cell)
        for x, group in enumerate(found.groups):
            style = _style(x)
            one = own.isel(group=x)
            axes.fill_between(grid, one["lower"], one["upper"], color=style["color"], alpha=0.22, lw=0)
            axes.plot(grid, one["mean"], color=style["color"], ls=style["ls"], lw=1.8, label=wrapped(group, 24))
        if cell is not None:
            axes.set_title(wrapped(", ".join(map(str, found.cells[cell])), 40), fontsize=LABEL)
        if logarithmic:
            axes.set_xscale("log")
            _plain_axis(axes, grid)
        axes.set_ylim(0, 1)
        axes.set_ylabel("share at or below", fontsize=LABEL)
        _tidy(axes)
    axes.set_xlabel(_with_unit(found.value, unit), fontsize=LABEL)
    _finish(
        figure, f"Distribution of {found.value} by private group", f"{100 * found.ci_prob:g} % bands at each value", found
    )
    return figure


@checked
def plot_private_quantiles(found, *, unit="", top=PANELS):
    """Return a matplotlib figure of shares, means and quantiles of each private group with intervals.

    Of an open category the shares of its levels take the place of means and quantiles.

    Parameters
    ----------
    found : PrivateGroups
    unit : str
    top : int
        Combinations of open covariates drawn: those with most records.

    Returns
    -------
    matplotlib.figure.Figure
    """
    shown = _largest(found, top)
    table = found.summary()
    names = [str(name) for name in table["quantity"].values if str(name) != "share"][: ROWS // max(1, len(shown))]
    labels = [(cell, name) for cell in shown for name in names]
    series = []
    for x, group in enumerate(found.groups):
        parts = [table.isel(group=x).sel(quantity=name) for _, name in labels]
        parts = [part if cell is None else part.isel(cell=cell) for part, (cell, _) in zip(parts, labels, strict=True)]
        series.append((group, *(np.array([float(part[key]) for part in parts]) for key in ("mean", "lower", "upper"))))
    figure = _new_figure(figsize=(WIDTH, 1.5 + 0.2 * len(labels) * (1 + len(found.groups))))
    axes = figure.subplots()
    y = np.arange(len(labels))[::-1].astype(float)
    shifts = np.linspace(0.26, -0.26, len(series)) if len(series) > 1 else [0.0]
    for i, (shift, (group, mean, lower, upper)) in enumerate(zip(shifts, series, strict=True)):
        style = _style(i)
        axes.hlines(y + shift, lower, upper, color=style["color"], lw=2)
        axes.plot(mean, y + shift, style["marker"], color=style["color"], ms=5, label=wrapped(group, 24))
    texts = [
        quantity_name(name) + (f"\n{', '.join(map(str, found.cells[cell]))}" if cell is not None else "")
        for cell, name in labels
    ]
    axes.set_yticks(y, [wrapped(text, 24) if len(shown) == 1 else plain(text) for text in texts], fontsize=SMALL)
    axes.set_ylim(-0.7, len(labels) - 0.3)
    values = np.concatenate([np.concatenate(part[1:]) for part in series])
    values = values[np.isfinite(values)]
    if found.levels is None and values.size and values.min() > 0 and values.max() / values.min() > 10**DECADES:
        axes.set_xscale("log")
        _plain_axis(axes, values)
    elif found.levels is None:
        axes.xaxis.set_major_formatter(_thousands)
    axes.set_xlabel("share of the group" if found.levels is not None else _with_unit(found.value, unit), fontsize=LABEL)
    _tidy(axes)
    what = "Shares of" if found.levels is not None else "Mean and quantiles of"
    _finish(figure, f"{what} {found.value}", f"{100 * found.ci_prob:g} % intervals", found)
    return figure


@checked
def plot_private_differences(found, *, unit="", versus=None, top=PANELS):
    """Return a matplotlib figure of how much larger each quantile is in the other groups than in one of them.

    Parameters
    ----------
    found : PrivateGroups
        Of a number.
    unit : str
    versus : str, optional
        The group to compare with; the first by default.
    top : int
        Combinations of open covariates drawn: those with most records.

    Returns
    -------
    matplotlib.figure.Figure
    """
    _numbers(found)
    shown = _largest(found, top)
    levels = np.linspace(0.02, 0.98, 49)
    apart = found.difference("quantile", levels.round(6).tolist(), versus=versus)
    others = [str(name) for name in apart["group"].values]
    figure = _new_figure(figsize=(WIDTH, 0.9 + 2.7 * len(shown)))
    for axes, cell in zip(figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0], shown, strict=True):
        own = apart if cell is None else apart.isel(cell=cell)
        for i, group in enumerate(others):
            one, style = own.isel(group=i), _style(list(found.groups).index(group))
            axes.fill_between(100 * levels, one["lower"], one["upper"], color=style["color"], alpha=0.22, lw=0)
            axes.plot(100 * levels, one["mean"], color=style["color"], ls=style["ls"], lw=1.8, label=wrapped(group, 24))
        axes.axhline(0, color="0.4", lw=0.8)
        if cell is not None:
            axes.set_title(wrapped(", ".join(map(str, found.cells[cell])), 40), fontsize=LABEL)
        axes.set_ylabel(_with_unit("difference", unit), fontsize=LABEL)
        axes.yaxis.set_major_formatter(_thousands)
        _tidy(axes)
    axes.set_xlabel("quantile of the group (%)", fontsize=LABEL)
    title = f"Quantiles of {found.value} less those of {apart.attrs['versus']}"
    _finish(figure, title, f"{100 * found.ci_prob:g} % bands at each quantile", found)
    return figure


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


def largest_cells(found, top):
    """Return the positions of the combinations of open covariates with most records, in their order."""
    sizes = np.array([one.total.sum(axis=1).mean() for one in found.measures])
    return np.sort(np.argsort(-sizes, kind="stable")[:top]).tolist()


def _largest(found, top):
    return largest_cells(found, top) if found.by else [None]


def _numbers(found):
    if found.levels is not None:
        raise ArgumentError("found must be of a number; an open category has plot_private_quantiles.")


def _grid(found, shown):
    """Return the points of the curves, and whether their axis is logarithmic."""
    held = found.measures if shown == [None] else [found.measures[cell] for cell in shown]
    ends = np.array([np.nanmean(one.quantile(np.array(EDGES)), axis=0) for one in held])
    low, high = float(np.nanmin(ends[:, 0])), float(np.nanmax(ends[:, 1]))
    if not low < high:
        low, high = low - 0.5, high + 0.5
    if low > 0 and high / low > 10**DECADES:
        return np.geomspace(low, high, POINTS), True
    return np.linspace(low, high, POINTS), False


def _plain_axis(axes, values):
    """Label a logarithmic axis with plain numbers, few enough for a phone."""
    _plain_ticks(axes.xaxis, values)


def _thousands(value, position):
    return f"{value:,.10g}"


def _with_unit(name, unit):
    return f"{wrapped(name, 40)} ({plain(unit)})" if unit else wrapped(name, 40)


def _tidy(axes):
    axes.tick_params(labelsize=SMALL)
    axes.grid(alpha=0.3, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _finish(figure, title, second, found):
    left = f", {min(PANELS, len(found.cells))} of {len(found.cells)} combinations" if len(found.cells) > PANELS else ""
    figure.suptitle(f"{wrapped(title, 42)}\n{wrapped(second + left, 46)}", fontsize=TITLE)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    legend_below(figure, handles, labels, most=2 if len(labels) < 5 else 3)
