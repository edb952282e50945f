"""Figures of results: intervals as a forest plot with the point estimates and planned errors.

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


_WORDS = {"mle": "MLE", "norm_sub": "Norm-Sub", "mse": "mean squared error", "distribution": "P", "frequency": "F"}
_WORDS |= {"grr": "GRR", "oue": "OUE", "sue": "SUE", "olh": "OLH", "subset": "subset selection", "hadamard": "Hadamard"}


def _words(value):
    """Return a value of a study's table as people read it."""
    return _WORDS.get(value, str(value).replace("_", " "))


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
