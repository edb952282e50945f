"""Answers about a population that is divided into cells."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.errors import ArgumentError, DiagnosticWarning, shown, warn
from ldpbayes.inference.ends import ends_of_sums, tails
from ldpbayes.regression.maximum import Maximum
from ldpbayes.regression.questions import poststratify_table
from ldpbayes.result.facts import facts_of
from ldpbayes.result.validation import TARGETS

POPULATION = "Shares in a population made of the cells"
#: Rule: A pull of the priors above this many standard deviations of the sum is warned of: a 95 % interval that is off by so
#: much covers 92.1 %. It covers 94.3 % at half, which no survey tells from 95, and 83 % at double.
MAX_PULL = 0.5
#: Rule: Where a prior leaves the data less than this share of the information, its pull is taken as if it left this much: at
#: most nine times what the prior moved, where the formula divides by what is left, which the posterior's variance tells to
#: some hundredths. With half it is 19 times, mostly error; with double four times, so that a cell of few reports seems
#: pulled half as far.
LEAST_DATA = 0.1


@base.asks
def poststratify(
    result: xr.DataTree,
    population: Mapping | ArrayLike | Any,
    *,
    ci_prob: float = 0.95,
    target: str = "distribution",
    count: str | None = None,
    by: str | Sequence[str] | None = None,
) -> Answer:
    """Return shares in a population of known composition: cells weighted by their sizes, or a regression over a census.

    Parameters
    ----------
    result : DataTree
        A result with cells, or one of regress.
    population : mapping of cell to number, (cells,) array, or data frame
        Sizes of the cells in the population, in any unit; an array is in the order of the result's cells. A mapping names
        every cell by its label or by its key. For a regression, a table with its covariates and a column of counts; or a
        list of tables that are margins of it: the sample's cells are raked to them.
    count : str, optional
        Of a regression only: the column of the table that holds the numbers of people.
    by : str or sequence of str, optional
        Of a regression only: columns of the table; each combination of their values gets a distribution.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse and ``pull`` (category): the estimated displacement of the mean by independent
        Dirichlet priors of the cells, in units of sd (nan for other priors). Of a regression: without ``pull``, with
        ``draws``; with ``by`` over the dim ``group``, whose first entry is the population, and with ``population_share``.
        ``contrast(answer, "yes", "yes", cell="north", other_cell="south")`` compares groups. Groups that the sample lacks
        have draws of a new group, and ``attrs["unseen"]`` names them.

    Raises
    ------
    ArgumentError
        If the result has no cells, or population does not fit them.
    DataError
        If the table lacks a covariate, or margins disagree in total or count people whom the sample lacks.
    InfeasibleError
        If the sample's cells cannot have these margins.

    Warns
    -----
    DiagnosticWarning
        If the pull is above half an sd for some category, or cells of a sample have clusters in common.

    Notes
    -----
    Each cell's prior pulls the cell a little towards the prior mean. The errors of independent cells average out in the
    sum, the pulls add up. A Dirichlet prior of concentration A has the share λ = A/(A + m) in the mean of a cell whose
    posterior is as wide as after m direct answers, so it has moved that mean by λ/(1 − λ)·(prior mean − posterior
    mean); ``pull`` is the weighted sum of these over the cells. m is that of ``worth``.

    Without draws the cells are independent, and the ends are those of a beta distribution with the sum's first four moments
    (docs/theory/posteriors.md). Cells whose prior learns what they share need draws.
    """
    if isinstance(result, Maximum) or (isinstance(result, xr.DataTree) and "regression" in facts_of(result)):
        return poststratify_table(result, population, count, by=by, ci_prob=ci_prob)
    if count is not None or by is not None:
        raise ArgumentError("count and by must be left out: the result is not one of regress.")
    ci_prob, undrawn = checks.level(ci_prob), base.without_draws(result)
    sizes = base.as_result(result)["posterior"].sizes if undrawn else base.values_of(result, target).sizes
    if "cell" not in sizes:
        raise ArgumentError("poststratify needs a result with cells, got the result of a single collection.")
    share = _shares(result, population, sizes["cell"])
    shares = (_of_moments if undrawn else _of_draws)(result, share, target, ci_prob)
    shares.attrs |= base.warn_of_clusters(result)
    pull = _pull(result, share, shares["sd"].values)
    if np.nanmax(np.abs(pull), initial=0.0) > MAX_PULL:
        warn(
            f"The independent priors of {share.size} cells displace this sum by about {np.nanmax(np.abs(pull)):.1f} of its "
            "standard deviations: every prior pulls its cell a little, and the pulls add up. Fit the cells with a shared "
            "prior, or merge small cells.",
            DiagnosticWarning,
        )
    return shares.assign(pull=(("category",), pull))


def _of_draws(result: xr.DataTree, share: NDArray, target: str, ci_prob: float) -> Answer:
    """Return the answer from draws of all cells."""
    values = base.values_of(result, target).transpose("chain", "draw", "cell", "category")
    draws = np.einsum("c,mdcx->mdx", share, values.values).reshape(-1, values.sizes["category"])
    return base.described(result, draws, {"category": values["category"].values}, ci_prob, POPULATION)


def _of_moments(result: xr.DataTree, share: NDArray, target: str, ci_prob: float) -> Answer:
    """Return the answer without draws: cells are independent, and have nearly beta laws."""
    checks.choice(target, "target", TARGETS)
    summary = base.as_result(result)["summary"].to_dataset()
    base.need_apart(result)
    moments = summary.sel(target=target).transpose("cell", "category", ...)
    if np.isnan(moments["mean"]).any():
        raise ArgumentError("target must be 'distribution': this result has no frequencies.")
    mean, sd = share @ moments["mean"].values, np.sqrt(share**2 @ moments["sd"].values ** 2)
    off = base.beta_errors(moments, summary.attrs["ci_prob"]).max(axis=0)
    values = base.of_beta(mean, sd, off, ci_prob)
    ends = ends_of_sums(share, moments["mean"].values, moments["sd"].values, tails(ci_prob))
    for name, end in zip(("lower", "upper"), ends, strict=True):
        values[f"{name}_error"] = values[f"{name}_error"] + np.abs(end - values[name])
        values[name] = end
    return base.by_category(moments["category"].values, POPULATION, values, ci_prob=ci_prob)


def _shares(tree: xr.DataTree, population: Mapping | ArrayLike, size: int) -> NDArray:
    """Return the sizes in the order of the cells, divided by their sum."""
    if isinstance(population, Mapping):
        shares = np.full(size, np.nan)
        for cell, people in population.items():
            shares[base.cell_position(tree, cell)] = checks.real(people, f"population of {shown(cell)}")
        if np.isnan(shares).any():
            label = tree.children["posterior"].dataset["cell"].values[int(np.flatnonzero(np.isnan(shares))[0])]
            raise ArgumentError(f"population must name every cell, got none for {str(label)!r}.")
    else:
        shares = checks.reals(population, "population", "numbers, one for each cell", ndim=None, finite=False)
        if shares.shape != (size,):
            raise ArgumentError(f"population must be {size} numbers, one for each cell, got shape {shares.shape}.")
    if not np.isfinite(shares).all() or (shares < 0).any() or not shares.sum() > 0:
        raise ArgumentError("population must be finite, not negative and not all zero.")
    return shares / shares.sum()


def _pull(tree: xr.DataTree, share: NDArray, sd: NDArray) -> NDArray:
    """Return the displacement of each share by the cells' priors in units of sd; nan where they are not Dirichlet."""
    if "alpha" not in tree["constant_data"]:
        return np.full(sd.size, np.nan)
    alpha = np.broadcast_to(tree.children["constant_data"].dataset["alpha"].values, (share.size, sd.size))
    total = alpha.sum(axis=1, keepdims=True)
    summary = tree["summary"].to_dataset().sel(target="distribution").transpose("cell", "category", ...)
    mean, variance = summary["mean"].values, summary["sd"].values ** 2
    # Σ Var = (1 − Σ mean²)/(concentration + 1) for a Dirichlet.
    concentration = (1 - (mean**2).sum(axis=1, keepdims=True)) / variance.sum(axis=1, keepdims=True) - 1
    weight = np.clip(total / concentration, 0.0, 1 - LEAST_DATA)
    moved = share @ (weight / (1 - weight) * (alpha / total - mean))
    return np.divide(moved, sd, out=np.zeros_like(sd), where=sd > 0)
