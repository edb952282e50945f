"""The figure of a study: a panel for each setting, a curve for each estimator or protocol, and the bounds."""

import numpy as np
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullLocator

from ldpbayes import checks
from ldpbayes.planning.figures import _words
from ldpbayes.plots.base import LETTER, SMALL, WIDTH, Canvas, _style, wrapped

#: Display: Width of a figure in inches: a notebook adds a margin, and the smallest text has 11 pixels on a phone even so.
NARROW = WIDTH - 0.1
#: Display: Height of a panel and of a line of title or legend in inches, and width of the axes of all columns together.
PANEL, LINE, AXES = 2.1, 0.19, 2.5


def plot_study(
    table,
    x,
    lines,
    panels,
    *,
    most_panels=24,
    most_columns=2,
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
        Panels side by side: a phone shows two of them legibly.
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
    rows = -(-len(shown) // columns)
    names = dict.fromkeys(_curve_name(line, lines) for line in data)
    size = NARROW, rows * PANEL + LINE * (len(names) + len(_BOUNDS) + 2)
    canvas = Canvas(ax, style, size, rows, columns)
    handles = {}
    styles = {label: _style(i, canvas.colors) for i, label in enumerate(names)}
    for i, (axes, (values, group)) in enumerate(zip(canvas.axes, shown.items(), strict=False)):
        for handle in _study_panel(axes, group, x, lines, styles, columns):
            handles.setdefault(handle.get_label(), handle)
        title = ", ".join(_value_label(key, value) for key, value in zip(panels, values, strict=True))
        title = wrapped(title.replace(" = ", "="), canvas.letters(0.68 / columns) - 2).replace("=", " = ")  # in one piece
        axes.set_title(title, fontsize=SMALL)
        if i + columns >= len(shown):
            axes.set_xlabel(_AXES.get(x, x.replace("_", " ")), fontsize=SMALL)
        if i % columns == 0 or "metric" in panels:
            axes.set_ylabel(_words(group[0]["metric"]), fontsize=SMALL)
    for axes in canvas.axes[len(shown) :]:
        axes.remove()
    more = f" ({len(shown)} of {len(groups)} panels)" if len(groups) > len(shown) else ""
    return canvas.finish("", handles.values(), more=more)


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


def write_out(axis):
    """Write powers of ten out on a logarithmic axis: their exponents would be too small to read.

    Parameters
    ----------
    axis : matplotlib Axis
    """
    if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
        axis.set_major_formatter("{x:g}")


def _study_panel(axes, group, x, lines, styles, columns):
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
    texts = {line[x]: f"{line[x]:,.10g}" for line in group}
    room = AXES / columns * 72 / (LETTER * SMALL * (max(map(len, texts.values())) + 0.5))
    ticks = _spread(texts, min(room, 5))
    axes.set_xticks(ticks, [texts[tick] for tick in ticks])
    axes.minorticks_off()
    if all(line["value"] > 0 for line in group) and not group[0]["metric"].startswith("coverage"):
        axes.set_yscale("log")
        _few_powers(axes)
    axes.grid(alpha=0.3, lw=0.5)


def _few_powers(axes):
    """Give a logarithmic vertical axis powers of ten, and 2 and 5 between them where there is one power or none."""
    low, high = np.log10(axes.get_ylim())
    factors = (1.0,) if np.floor(high) - np.ceil(low) >= 1 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=factors))
    axes.yaxis.set_minor_locator(NullLocator())
    write_out(axes.yaxis)


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
