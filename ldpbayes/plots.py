"""Pictures of results: intervals as a forest plot with the point estimates marked, and the curves of a study."""

import numpy as np

from ldpbayes import files
from ldpbayes.errors import ArgumentError

_STYLE = {"mle": ("D", "tab:orange", "MLE"), "oracle": ("x", "tab:red", "oracle")}


def plot_forest(tree, *, top=40):
    """Return a matplotlib figure: intervals of P and of F for each category, with MLE and oracle marked.

    Parameters
    ----------
    tree : DataTree
        From fit().
    top : int
        Categories shown: those with the largest posterior mean.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    summary = tree["summary"]
    mean = summary["mean"].sel(target="distribution").values
    shown = np.sort(np.argsort(-mean, kind="stable")[:top])
    y = np.arange(shown.size)[::-1]
    figure = Figure(figsize=(7.5, 1.6 + 0.36 * shown.size), layout="constrained")
    axes = figure.subplots()
    for target, shift, color, label in (
        ("distribution", 0.13, "tab:blue", "distribution P"),
        ("frequency", -0.13, "tab:green", "frequency F of these users"),
    ):
        centre, low, high = (summary[key].sel(target=target).values[shown] for key in ("mean", "lower", "upper"))
        axes.hlines(y + shift, low, high, color=color, lw=2)
        axes.plot(
            centre, y + shift, "o", color=color, ms=5, label=f"{label}: mean and {summary.attrs['ci_prob']:.0%} interval"
        )
    if "estimate" in tree.children:
        for name in tree["estimate"]["estimator"].values:
            marker, color, label = _STYLE.get(str(name), (".", "black", str(name)))
            axes.plot(tree["estimate"]["value"].sel(estimator=name).values[shown], y, marker, color=color, ms=5, label=label)
    axes.axvline(0, color="0.8", lw=0.8, zorder=0)
    axes.set_yticks(y, summary["category"].values[shown])
    axes.set_ylim(-0.7, shown.size - 0.3)
    axes.set_xlabel("share" + ("" if shown.size == mean.size else f" (the {shown.size} largest of {mean.size} categories)"))
    axes.set_title(tree.attrs["title"] or tree.attrs["collection"], fontsize=10, wrap=True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def plot_plan(along, values, curves, label, *, chosen=None):
    """Return a figure of planned errors: one curve per protocol, the bound and open answers dashed.

    Parameters
    ----------
    along : {"epsilon", "n"}
    values : (m,) array
    curves : dict of str to (m,) array
        From theory.planning.curves.
    label : str
        What the error is.
    chosen : (x, error), optional
        A planned setting to mark.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    for name, error in curves.items():
        dashed = name in ("bound", "open answers")
        axes.plot(
            values, error, "--" if dashed else "-", color={"bound": "black", "open answers": "0.6"}.get(name), label=name
        )
    if chosen is not None:
        axes.plot(*chosen, "o", color="tab:red", label="planned")
    axes.set(xscale="log", yscale="log", xlabel={"epsilon": "ε (nats)", "n": "reports"}[along], ylabel=label)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return figure


def plot_study(table, x, lines, panels, *, title="", most_panels=24):
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
    title : str
    most_panels : int
        Panels after these are left to the table, which the title then says.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    found = table.to_pylist()
    if "metric" not in panels:
        found = [line for line in found if line["metric"] == found[0]["metric"]]
    groups = {}
    for line in found:
        groups.setdefault(tuple(line[key] for key in panels), []).append(line)
    shown = dict(list(groups.items())[:most_panels])
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(max(3.6 * columns, 7.0), 2.9 * rows + 1.1), layout="constrained")
    handles = {}
    for axes, (values, group) in zip(figure.subplots(rows, columns, squeeze=False).flat, shown.items(), strict=False):
        for label, handle in _study_panel(axes, group, x, lines):
            handles.setdefault(label, handle)
        axes.set_title(", ".join(_value_label(key, value) for key, value in zip(panels, values, strict=True)), fontsize=8)
        axes.set_xlabel(x.replace("_", " "), fontsize=8)
        axes.set_ylabel(group[0]["metric"].replace("_", " ") if "metric" not in panels else "", fontsize=8)
        axes.tick_params(labelsize=7)
    for axes in figure.axes[len(shown) :]:
        axes.remove()
    left = f" ({len(shown)} of {len(groups)} panels)" if len(groups) > len(shown) else ""
    figure.suptitle(title + left, fontsize=10, wrap=True)
    ncols = 3 if columns < 3 else 5
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols, fontsize=8, frameon=False)
    return figure


_BOUNDS = (("bound", "floor, this protocol, large n"), ("bound_any", "floor, any protocol, large n"))
_BOUNDS += (("bound_finite", "floor, this protocol, this n"),)


def _study_panel(axes, group, x, lines):
    """Draw the curves of one panel and yield (label, handle) of each."""
    curves = {}
    for line in group:
        curve = curves.setdefault(" ".join(str(line[key]).replace("_", " ") for key in lines), {})
        if line[x] not in curve or line["value"] < curve[line[x]]["value"]:
            curve[line[x]] = line
    for i, (label, curve) in enumerate(curves.items()):
        at = sorted(curve)
        value, error = (np.array([curve[k][key] or 0.0 for k in at]) for key in ("value", "standard_error"))
        bars = 2 * np.nan_to_num(error)
        bars = np.stack([np.minimum(bars, 0.8 * np.abs(value)), bars])  # a bar to zero has no end on a logarithmic axis
        yield label, axes.errorbar(at, value, bars, marker="o", ms=3, lw=1.2, color=f"C{i % 10}", capsize=2)
    for (key, label), style in zip(_BOUNDS, ("--", ":", "-."), strict=True):
        floor = {line[x]: line[key] for line in group if line[key] is not None}
        if floor:
            yield label, axes.plot(sorted(floor), [floor[k] for k in sorted(floor)], style, color="0.4", lw=1)[0]
    axes.set_xscale("log")
    ticks = sorted({line[x] for line in group})
    axes.set_xticks(ticks[:: -(-len(ticks) // 6)], [f"{tick:g}" for tick in ticks[:: -(-len(ticks) // 6)]])
    axes.minorticks_off()
    if all(line["value"] > 0 for line in group):
        axes.set_yscale("log")
    axes.grid(alpha=0.3, lw=0.5)


def _value_label(key, value):
    known = {"n_categories": "a", "n_reports": "n"}
    if key == "epsilon":
        return f"ε = {value:g}"
    return f"{known[key]} = {value:,}" if key in known else str(value).replace("_", " ")


def save_figure(figure, path):
    """Write a figure as PNG, PDF or SVG (by its ending), whole or not at all."""
    known = figure.canvas.get_supported_filetypes()
    ending = str(path).rpartition(".")[2].lower()
    if ending not in known:
        raise ArgumentError(f"plot must end in one of .{', .'.join(sorted(known))}, got {path!r}.")
    with files.replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)
