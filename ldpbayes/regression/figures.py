"""Figures of regressions: coefficients as a forest, and predicted shares for each row of a table."""

import re
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.errors import ArgumentError, shown
from ldpbayes.plots.base import LABEL, WIDTH, Canvas, Drawn, asked, checked, forest, one_of, pitch, plain, wrapped
from ldpbayes.plots.groups import in_words, spaced
from ldpbayes.priors.links import scale_of
from ldpbayes.regression.maximum import Maximum
from ldpbayes.result.facts import facts_of


def _regression(value, name):
    if not isinstance(value, Maximum) and not (isinstance(value, xr.DataTree) and "regression" in facts_of(value)):
        raise ArgumentError(f"{name} must be what regress returned, got {shown(value)}.")


#: What the argument of these figures must be, and what it is.
REGRESSION = {"result": _regression}, {"result": "result : DataTree or Maximum\n    From regress()."}
#: Display: Rows of a figure; the first of them are drawn.
ROWS = 40
#: Display: Columns with more numbers than this are curves, or predicted at three quantiles.
LEVELS = 4
#: Display: Categories that have a colour; the largest of them are drawn.
CATEGORIES = 6


@checked(*REGRESSION)
def plot_coefficients(result: Any, *, intercept: Any = False, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure of the coefficients, and of changes over levels and curves, with intervals.

    Both are log odds against the reference category, or what the link has in their place.

    Parameters
    ----------
    intercept : bool
        Whether to draw the intercept, which often lies far from the others.
    """
    mean, lower, upper, reference, title, level = _coefficients(result)
    terms = [str(name) for name in mean["term"].values]
    places = [k for k, name in enumerate(terms) if intercept or name != "Intercept"] or list(range(len(terms)))
    shown = places[:ROWS]
    categories = [str(name) for name in mean["category"].values]
    order = np.argsort(-np.abs(mean.values[shown]).max(axis=0), kind="stable")[:CATEGORIES]
    labels = [term_in_words(terms[k]) for k in shown]
    canvas = _forest(ax, style, labels, categories, order, [part.values[shown] for part in (mean, lower, upper)])
    (axes,) = canvas.axes
    axes.axvline(0, color="0.5", lw=0.8, zorder=0)
    axes.set_xlabel(
        plain(f"{scale_of(facts_of(result).get('link', 'logit'))} against {reference}, {level} interval"), fontsize=LABEL
    )
    more = f" (the first {len(shown)} of {len(places)} terms)" if len(shown) < len(places) else ""
    return canvas.finish(title, most=3, legend=len(categories) > 1, more=more)


@checked({"result": one_of("xarray", "Dataset", "what predictions returned")})
def plot_predictions(result: Any, *, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure of predictions(), comparisons() or poststratify(): shares with intervals, a line a row.

    Rows along which one number alone varies are drawn as a curve.

    Parameters
    ----------
    result : Dataset
    """
    if not is_predicted(result):
        raise ArgumentError("result must be what predictions, comparisons, slopes or poststratify returned.")
    names = result["mean"].dims
    of_outcome = names == ("comparison",) or "share_mean" in result.data_vars
    if names == ("comparison",):
        result, names = result.expand_dims(category=["the outcome"]), ("comparison", "category")
    dims = [dim for dim in names if dim != "category"]
    rows = result.sizes[dims[0]] if dims else 1
    labels = _labels(result, dims[0]) if dims else ["all"]
    categories = [str(name) for name in result["category"].values]
    values = [np.atleast_2d(result[key].transpose(*dims, "category").values) for key in ("mean", "lower", "upper")]
    yes = None if of_outcome else asked(categories)
    order = [yes] if yes is not None else list(np.argsort(-np.abs(values[0]).mean(axis=0), kind="stable")[:CATEGORIES])
    if (along := _along(result)) is not None and not of_outcome:
        return _curve(result, along, [(categories[x], *(part[:, x] for part in values)) for x in order], ax, style)
    canvas = _forest(ax, style, labels[:ROWS], categories, order, [part[:ROWS] for part in values])
    (axes,) = canvas.axes
    level = f"{result.attrs['ci_prob'] * 100:g} % interval"
    what = f"of {categories[order[0]]}, " if len(order) == 1 else ""
    kind = (
        ("difference" if dims == ["comparison"] else "mean outcome,")
        if of_outcome
        else "difference of shares"
        if dims == ["comparison"]
        else "slope of the share"
        if "variable" in result.coords
        else "share"
    )
    axes.set_xlabel(plain(f"{kind} {what}{level}"), fontsize=LABEL)
    if kind not in ("share", "mean outcome,"):
        axes.axvline(0, color="0.5", lw=0.8, zorder=0)
    elif dims == ["group"] and len(order) == 1:
        axes.axvline(values[0][0, order[0]], color="0.5", lw=0.8, zorder=0)  # the first group is the population
    more = f" (the first {ROWS} of {rows:,} rows)" if ROWS < rows else ""
    title = result.attrs.get("question") if dims == ["group"] else ""
    title = title or (result.attrs.get("question") if of_outcome else "Predicted shares")
    return canvas.finish(title, most=3, legend=len(order) > 1, more=more)


def _along(predicted):
    """Return the one covariate that varies along the rows, a number of more than LEVELS values; else None."""
    names = [name for name, x in predicted.coords.items() if x.dims == ("row",) and name not in ("row", "n_reports")]
    varying = [name for name in names if len(np.unique(predicted[name].values.astype(str))) > 1]
    numbers = predicted[varying[0]].values if len(varying) == 1 else np.array("")
    return varying[0] if numbers.dtype.kind in "iuf" and len(np.unique(numbers)) > LEVELS else None


def _curve(predicted, along, series, ax, style):
    """Return a figure of shares over a number: (category, means, lower and upper ends along the rows) of each series."""
    canvas, x = Canvas(ax, style, (WIDTH, 2.8)), predicted[along].values
    (axes,), order = canvas.axes, np.argsort(x, kind="stable")
    for color, (category, mean, lower, upper) in zip(canvas.colors, series, strict=False):
        axes.plot(x[order], mean[order], color=color, lw=2, label=wrapped(category, 32))
        axes.fill_between(x[order], lower[order], upper[order], color=color, alpha=0.2, lw=0)
    what = f"of {series[0][0]}, " if len(series) == 1 else ""
    axes.set_xlabel(plain(str(along)), fontsize=LABEL)
    axes.set_ylabel(plain(f"share {what}{predicted.attrs['ci_prob'] * 100:g} % interval"), fontsize=LABEL)
    return canvas.finish("Predicted shares", most=3, legend=len(series) > 1)


def is_predicted(answer: xr.Dataset) -> bool:
    """Return whether plot_predictions draws an answer: intervals of categories, or of an outcome, along one dim at most."""
    names = answer["mean"].dims if {"mean", "lower", "upper"} <= set(answer.data_vars) else ()
    return names == ("comparison",) or ("category" in names and len(names) <= 2)


def drawn_forest(
    terms: list[str], what: str, values: list[Any], level: str, *, ax: Drawn | None = None, **style: Any
) -> Drawn:
    """Return a figure of coefficients: means, lower and upper ends of shape (terms, 1)."""
    labels = [term_in_words(name) for name in terms[:ROWS]]
    canvas = _forest(ax, style, labels, [what], [0], [part[:ROWS] for part in values])
    canvas.axes[0].axvline(0, color="0.5", lw=0.8, zorder=0)
    canvas.axes[0].set_xlabel(wrapped(plain(f"coefficient of {what}, {level}"), 34), fontsize=LABEL)
    return canvas.finish("", most=3, legend=False, more="")


def _forest(ax, style, labels, categories, order, values):
    """Return the canvas of a forest of some categories: means, lower and upper ends of shape (labels, categories)."""
    canvas = Canvas(ax, style, (WIDTH, 1.0 + max(pitch(labels), 0.15 * len(order)) * len(labels)))
    series = [(categories[x], *(part[:, x] for part in values)) for x in order]
    forest(canvas.axes[0], labels, series, width=canvas.beside, palette=canvas.colors)
    return canvas


def _coefficients(fitted):
    """Return (mean, lower, upper) without the reference category, its name, a title and the level of the intervals."""
    if isinstance(fitted, Maximum):
        summary, start, reference, title = fitted.summary(), "", fitted.reference, fitted.formula
    else:
        reference, start = fitted.attrs["reference"], "coefficients_"
        title, summary = fitted.attrs.get("formula", fitted.attrs["title"]), with_changes(fitted)[0]
    series = [summary[f"{start}{key}"] for key in ("mean", "lower", "upper")]
    return *series, reference, title, f"{summary.attrs['ci_prob'] * 100:g} %"


def changes(tree: Any) -> dict[str, str]:
    """Return the changes over the levels of monotone effects, walks and curves, as {name of the variable: term}."""
    ends = {str(name): draws.attrs for name, draws in tree["posterior"].data_vars.items() if "first" in draws.attrs}
    return {name: f"{name.removesuffix('_change')} from {of['first']} to {of['last']}" for name, of in ends.items()}


def with_changes(tree: Any) -> tuple[xr.Dataset, xr.DataArray]:
    """Return (summary, draws) of the coefficients and, as further terms, of the changes over levels."""
    summary, posterior = (tree[group].to_dataset() for group in ("summary", "posterior"))
    names = {f"coefficients_{key}": key for key in ("mean", "sd", "lower", "upper")}
    terms, draws = [summary[list(names)]], [posterior["coefficients"]]
    for name, term in changes(tree).items():
        terms.append(summary[[f"{name}_{key}" for key in names.values()]])
        terms[-1] = terms[-1].rename({f"{name}_{key}": whole for whole, key in names.items()}).expand_dims(term=[term])
        draws.append(posterior[name].expand_dims(term=[term]))
    whole, reference = xr.concat(terms, "term"), tree.attrs["reference"]
    return whole.drop_sel(category=reference), xr.concat(draws, "term").drop_sel(category=reference)


def _labels(predicted, dim):
    """Return a label for each row: its name, or the values of the covariates."""
    if dim != "row":
        return [str(value) for value in predicted[dim].values]
    names = [n for n, values in predicted.coords.items() if values.dims == (dim,) and n not in (dim, "n_reports")]

    def text(value):
        return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)

    columns = [in_words(name, [text(value) for value in predicted[name].values]) for name in names]
    return [", ".join(row) for row in zip(*columns, strict=True)] or list(map(str, range(predicted.sizes[dim])))


def term_in_words(name: str) -> str:
    """Return "region: South" for the term region[South]."""
    return spaced(re.sub(r"\[(.*?)\]", r": \1", name))
