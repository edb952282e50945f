"""The figure of a study: a panel for each setting, a curve for each estimator or protocol, and the bounds."""

import numpy as np

from ldpbayes import checks
from ldpbayes.planning.figures import _words
from ldpbayes.plots.base import SMALL, WIDTH, Canvas, _style


def plot_study(
    table,
    x,
    lines,
    panels,
    *,
    most_panels=24,
    most_columns=4,
    ax=None,
    **style,
):
    """Return a matplotlib figure of a study: a panel for each value of some columns, a curve for each of others.

    Bars are two Monte Carlo standard errors. Where several cells of a panel share a curve and an x, the least is shown:
    the best setting of the columns that the figure leaves out. Of several metrics outside the panels, the first is shown.

    Parameters
    ----------
    table : pyarrow.Table
        From run_study.
    x : str
        Column on the horizontal axis, logarithmic.
    lines, panels : tuple of str
        Columns whose values make a curve, and a panel.
    most_panels : int
        Panels after these are left to the table, which the title then says.
    most_columns : int
        Panels side by side; one of them for a figure that a phone shows legibly.
    """
    for column in (x, *lines, *panels):
        checks.choice(column, "columns of the figure", tuple(table.column_names))
    data = table.to_pylist()
    if "metric" not in panels:
        data = [line for line in data if line["metric"] == data[0]["metric"]]
    groups = {}
    for line in data:
        groups.setdefault(tuple(line[key] for key in panels), []).append(line)
    shown = dict(list(groups.items())[:most_panels])
    columns = min(most_columns, len(shown))
    small, tiny = (SMALL, SMALL) if columns == 1 else (8, 7)
    rows = -(-len(shown) // columns)
    size = WIDTH if columns == 1 else max(3.6 * columns, 7.0), 2.9 * rows + 1.1
    canvas = Canvas(ax, style, size, rows, columns)
    handles = {}
    names = dict.fromkeys(_curve_name(line, lines) for line in data)
    styles = {label: _style(i, canvas.colors) for i, label in enumerate(names)}
    for axes, (values, group) in zip(canvas.axes, shown.items(), strict=False):
        for handle in _study_panel(axes, group, x, lines, styles):
            handles.setdefault(handle.get_label(), handle)
        axes.set_title(
            ", ".join(_value_label(key, value) for key, value in zip(panels, values, strict=True)), fontsize=small
        )
        axes.set_xlabel(_AXES.get(x, x.replace("_", " ")), fontsize=small)
        axes.set_ylabel(_words(group[0]["metric"]), fontsize=small)
        axes.tick_params(labelsize=tiny)
    for axes in canvas.axes[len(shown) :]:
        axes.remove()
    more = f" ({len(shown)} of {len(groups)} panels)" if len(groups) > len(shown) else ""
    return canvas.finish("", handles.values(), most={1: 2, 2: 3}.get(columns, 5), more=more)


_AXES = {
    "epsilon": "ε (nats)",
    "n_reports": "reports n",
    "n_categories": "categories a",
    "fakes": "share of fakes",
    "times": "reports a user",
}
_BOUNDS = (
    ("bound", "bound for many reports, this protocol"),
    ("bound_any", "bound for many reports, any protocol"),
    ("bound_finite", "bound at this n, this protocol"),
)


def _study_panel(axes, group, x, lines, styles):
    """Draw the curves of one panel and yield the legend's handles."""
    curves = {}
    for line in group:
        curve = curves.setdefault(_curve_name(line, lines), {})
        if line[x] not in curve or line["value"] < curve[line[x]]["value"]:
            curve[line[x]] = line
    for label, curve in curves.items():
        at = sorted(curve)
        value, error = (np.array([curve[k][key] or 0.0 for k in at]) for key in ("value", "standard_error"))
        bars = 2 * np.nan_to_num(error)
        bars = np.stack([np.minimum(bars, 0.8 * np.abs(value)), bars])  # a bar to zero has no end on a logarithmic axis
        yield axes.errorbar(at, value, bars, **styles[label], ms=4, elinewidth=1, capsize=2, label=label)
    for (key, label), style in zip(_BOUNDS, ("--", ":", "-."), strict=True):
        floor = {line[x]: line[key] for line in group if line[key] is not None}
        if floor:
            yield from axes.plot(sorted(floor), [floor[k] for k in sorted(floor)], style, color="0.4", lw=1, label=label)
    axes.set_xscale("log")
    ticks = _spread({line[x] for line in group})
    axes.set_xticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    axes.minorticks_off()
    if all(line["value"] > 0 for line in group) and not group[0]["metric"].startswith("coverage"):
        axes.set_yscale("log")
    axes.grid(alpha=0.3, lw=0.5)


def _curve_name(line, lines):
    return " ".join(_words(line[key]) for key in lines)


def _spread(values, most=5):
    """Return some of the values, far enough apart on a logarithmic axis for their labels."""
    ordered = sorted(values)
    apart = np.log(ordered[-1] / ordered[0]) / most
    chosen = ordered[:1]
    for value in ordered[1:]:
        if np.log(value / chosen[-1]) >= apart * (1 - 1e-9):
            chosen.append(value)
    return chosen


def _value_label(key, value):
    labels = {"n_categories": "a", "n_reports": "n"}
    if key == "epsilon":
        return f"ε = {value:g}"
    return f"{labels[key]} = {value:,}" if key in labels else _words(value)
