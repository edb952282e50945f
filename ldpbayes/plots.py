"""Pictures of results: intervals as a forest plot with the point estimates marked."""

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


def save_figure(figure, path):
    """Write a figure as PNG, PDF or SVG (by its ending), whole or not at all."""
    known = figure.canvas.get_supported_filetypes()
    ending = str(path).rpartition(".")[2].lower()
    if ending not in known:
        raise ArgumentError(f"plot must end in one of .{', .'.join(sorted(known))}, got {path!r}.")
    with files.replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)
