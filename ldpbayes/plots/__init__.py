"""Figures of results: intervals as a forest plot with the point estimates, planned errors, and the curves of a study.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; line styles and markers repeat them.
"""

from typing import Any

import numpy as np

from ldpbayes import checks, files
from ldpbayes.answers.deciding import who_decides
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.estimators.confidence import intervals_at
from ldpbayes.inference.ends import level_of_largest, tails
from ldpbayes.plots.association import plot_association
from ldpbayes.plots.base import (
    BLACK,
    ESTIMATES,
    LABEL,
    PALETTE,
    SMALL,
    WIDTH,
    Canvas,
    _new_figure,
    _plain_ticks,
    _style,
    asked,
    checked,
    forest,
    largest,
    share_label,
    title_of,
    to_pdf,
    to_svg,
    wrapped,
)
from ldpbayes.plots.crosschecking import plot_crosscheck
from ldpbayes.plots.groups import plot_groups
from ldpbayes.plots.outcomes import plot_private_differences, plot_private_functions, plot_private_quantiles
from ldpbayes.plots.predictive import plot_expected, plot_predictive, plot_predictive_cells
from ldpbayes.plots.regression import plot_coefficients, plot_predictions
from ldpbayes.plots.robust import plot_contamination, plot_missing, plot_sensitivity

__all__ = [
    "PALETTE",
    "plot_association",
    "plot_coefficients",
    "plot_contamination",
    "plot_crosscheck",
    "plot_expected",
    "plot_forest",
    "plot_groups",
    "plot_missing",
    "plot_plan",
    "plot_predictions",
    "plot_predictive",
    "plot_predictive_cells",
    "plot_private_differences",
    "plot_private_functions",
    "plot_private_quantiles",
    "plot_sensitivity",
    "plot_study",
    "save_figure",
    "to_pdf",
    "to_svg",
]


def __dir__() -> list[str]:
    return [*__all__]


#: Categories of cells that a forest draws, a panel each.
PANELS = 12


@checked()
def plot_forest(result: Any, *, target: Any = "distribution", top: Any = 40, ax: Any = None, **style: Any) -> Any:
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
    canvas = Canvas(ax, style, (WIDTH, 1.5 + 0.22 * len(labels)))  # legend and title take 1.4 inches
    (axes,), below, level = canvas.axes, len(labels) - shown.size, f"{ci_prob * 100:g} %"
    name = f"{'P' if is_p else 'F of these people'}: mean, {level} interval"
    handles = forest(axes, labels, [(name, *series)], palette=canvas.colors)
    y = np.arange(len(labels))[::-1]
    if is_p and "estimate" in result.children:
        handles += _estimates(canvas, result["estimate"].to_dataset(), shown, labels[shown.size :])
    if "confidence" in result.children:
        # Of those drawn, whichever they are.
        level_of = level_of_largest(ci_prob, shown.size, total) if yes is None else ci_prob
        ends = [end[shown] for end in intervals_at(result["confidence"].to_dataset(), level_of, target)]
        if np.isfinite(ends).any():
            label = f"{level} confidence" + (f" for the {shown.size} largest" if level_of != ci_prob else "")
            handles.append(axes.hlines(y[: shown.size] - 0.22, *ends, color="0.35", lw=0.9, zorder=1, label=label))
    prior = _prior_ends(result, ci_prob) if is_p else None
    if prior is not None:
        ends = axes.get_xlim()  # the prior often reaches from 0 to 1: the axis shows what the posterior needs
        handles.append(
            axes.hlines(y[: shown.size], *prior[:, shown], color="0.9", lw=9, zorder=-1, label=f"{level} of the prior")
        )
        axes.set_xlim(ends)
    if below:
        axes.axhline(below - 0.5, color="0.7", lw=0.8)
    axes.axvline(0, color="0.8", lw=0.8, zorder=0)
    axes.locator_params(axis="x", nbins=6)  # so that labels of long numbers have room
    decided, left_out = who_decides(result), ""
    if yes is not None:
        left_out = f" who are {labels[0]}" if labels[0] != "yes" else " in the category yes"
    elif shown.size < total:
        left_out = f" ({shown.size} largest of {total:,})"
    axes.set_xlabel(share_label(left_out, decided), fontsize=LABEL)
    return canvas.finish(title_of(result), handles)


def _estimates(canvas, estimate, shown, quantities):
    """Mark the MLE of categories and, below them, of derived quantities; return the legend's handles."""
    if "mle" not in estimate["estimator"].values:
        return []
    mle = estimate.sel(estimator="mle")
    value = mle["value"].values[shown]
    if quantities:  # nan for what a prior learns
        extra = mle["derived"].reindex(quantity=quantities).values if "derived" in mle else np.full(len(quantities), np.nan)
        value = np.append(value, extra)
    marker, place, label = ESTIMATES["mle"]
    settings = {"color": canvas.colors[place], "ms": 5, "mec": "white", "label": label}
    return canvas.axes[0].plot(value, np.arange(value.size)[::-1], marker, **settings)


def _prior_ends(tree, ci_prob):
    """Return the ends of the prior intervals, shape (2, a), where the prior is one Dirichlet; else None."""
    data = tree["constant_data"] if "constant_data" in tree.children else {}
    if "alpha" not in data or data["alpha"].dims != ("category",):
        return None
    from scipy.special import betaincinv

    alpha = data["alpha"].values
    return np.stack([betaincinv(alpha, alpha.sum() - alpha, level) for level in tails(ci_prob)])


@checked()
def plot_plan(
    curves: Any, values: Any, label: Any, *, along: Any = "epsilon", chosen: Any = None, ax: Any = None, **style: Any
) -> Any:
    """Return a figure of planned errors: one curve per protocol, the bound and open answers in grey.

    Parameters
    ----------
    curves : dict of str to (m,) array
        From theory.planning.curves.
    values : (m,) array
        Of ε or n, at which the curves are.
    label : str
        What the error is.
    along : {"epsilon", "n"}
    chosen : (x, error, protocol), optional
        A planned setting to mark, in the colour of its protocol.
    """
    values = checks.reals(values, "values")
    if not (values > 0).all():
        raise ArgumentError("values must be above 0: the axes are logarithmic.")
    curves = {name: checks.reals(error, f"curves of {shown(name)}", finite=False) for name, error in curves.items()}
    for name, error in curves.items():
        if error.shape != values.shape:
            raise ArgumentError(f"curves must have {values.size} numbers each, got {error.size} for {shown(name)}.")
    if chosen is not None:
        chosen = checks.entries(chosen, "chosen", "a triple (x, error, protocol)")
        if len(chosen) != 3:
            raise ArgumentError(f"chosen must be a triple (x, error, protocol), got {shown(chosen)}.")
        chosen = checks.positive(chosen[0], "chosen"), checks.positive(chosen[1], "chosen"), checks.text(chosen[2], "chosen")
    canvas = Canvas(ax, style, (WIDTH, 2.0 + 0.22 * len(curves)))
    (axes,) = canvas.axes
    floors = {"bound": ("0.2", "-", "least possible error"), "open answers": ("0.5", ":", "open answers (no privacy)")}
    marked, places = None, max(6, sum(name not in floors for name in curves))
    for i, (name, error) in enumerate(curves.items()):
        if name in floors:
            if np.isfinite(error).any():
                color, dashes, words = floors[name]
                axes.plot(values, error, dashes, color=color, lw=1.2, label=words)
            continue
        look = _style(i, canvas.colors)
        # Markers of different curves stand at different places: curves that coincide still show theirs.
        axes.plot(values, error, **look, ms=5, markevery=(i % places, places), label=_words(name))
        if chosen is not None and chosen[2] == name:
            marked = look["color"]
    if chosen is not None:
        words = f"planned: {_words(chosen[2])}"
        axes.plot(*chosen[:2], "*", color=marked or BLACK, ms=15, mec="black", mew=0.8, ls="", zorder=5, label=words)
    axes.set(xscale="log", yscale="log", xlabel={"epsilon": "privacy level ε (nats)", "n": "number of reports n"}[along])
    axes.set_ylabel(wrapped(label, 28), fontsize=SMALL)
    _plain_ticks(axes.xaxis, values)
    _plain_ticks(axes.yaxis, axes.get_ylim())
    axes.grid(alpha=0.3, lw=0.5)
    return canvas.finish("Planned error", most=3, width=46)


@checked()
def plot_study(
    table: Any,
    x: Any,
    lines: Any,
    panels: Any,
    *,
    most_panels: Any = 24,
    most_columns: Any = 4,
    ax: Any = None,
    **style: Any,
) -> Any:
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
    groups: dict[Any, Any] = {}
    for line in data:
        groups.setdefault(tuple(line[key] for key in panels), []).append(line)
    shown = dict(list(groups.items())[:most_panels])
    columns = min(most_columns, len(shown))
    small, tiny = (SMALL, SMALL) if columns == 1 else (8, 7)
    rows = -(-len(shown) // columns)
    size = WIDTH if columns == 1 else max(3.6 * columns, 7.0), 2.9 * rows + 1.1
    canvas = Canvas(ax, style, size, rows, columns)
    handles: dict[str, Any] = {}
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
    most, width = {1: 2, 2: 3}.get(columns, 5), 42 if columns == 1 else 30 * columns + 30
    return canvas.finish("", handles.values(), most=most, width=width, more=more)


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


_WORDS = {"mle": "MLE", "norm_sub": "Norm-Sub", "mse": "mean squared error", "distribution": "P", "frequency": "F"}
_WORDS |= {"grr": "GRR", "oue": "OUE", "sue": "SUE", "olh": "OLH", "subset": "subset selection", "hadamard": "Hadamard"}


def _words(value):
    """Return a value of a study's table as people read it."""
    return _WORDS.get(value, str(value).replace("_", " "))


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


@checked()
def save_figure(figure: Any, path: Any) -> Any:
    """Write a figure as PNG, PDF or SVG (by its ending), whole or not at all.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    ArgumentError
        On another ending.
    DataError
        Where the file cannot be written.
    """
    check_ending(path)
    with files.replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)


def check_ending(path):
    """Raise an ArgumentError unless a figure can be written in the format that the path's ending names."""
    endings, path = _new_figure().canvas.get_supported_filetypes(), files.as_path(path)
    if str(path).rpartition(".")[2].lower() not in endings:
        raise ArgumentError(f"plot must end in one of .{', .'.join(sorted(endings))}, got {shown(str(path))}.")
