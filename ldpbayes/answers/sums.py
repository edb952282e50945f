"""Sums over categories, and the entropy."""

import functools
from collections.abc import Iterable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.collections import Collection


def category_sum(
    result: xr.DataTree,
    categories: str | Iterable[str],
    *,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
    collection: Collection | None = None,
) -> Answer:
    """Return mean, sd, interval and Monte Carlo errors of the share of several categories together.

    Parameters
    ----------
    result : DataTree
    categories : str or sequence of str
        Distinct labels.
    ci_prob : float
        Of the equal-tailed interval.
    target : {"distribution", "frequency"}
    cell : str or tuple of str, optional
        Which cell, for a result with cells.
    collection : Collection, optional
        The reports: a confidence interval of P, from these alone, stands beside the credible one.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse, lower_error, upper_error; with a collection confidence_lower and confidence_upper.

    Raises
    ------
    ArgumentError
        If a label is unknown or repeated, or target or cell breaks its rule.

    Notes
    -----
    Without draws: exact mean and sd of P, and the ends of the beta distribution that has them. Their errors are how far such
    ends are off for the shares that are added up, in sds.
    """
    if base.without_draws(result):
        of = functools.partial(base.of_moments, *base.moments_of(result, categories, None, target, cell))
    else:
        of = functools.partial(base.described, result, total(result, categories, target=target, cell=cell), {})
    sure = base.confidence_of(collection, categories, (), ci_prob, target)
    found = of(ci_prob, base.named(base.words(categories), result, cell), **sure)
    found.attrs["sentence"] = (
        f"An estimated {float(found['mean']):.3f} are in {found.attrs['question']} ({base.interval_text(found)})."
    )
    return found


def entropy(
    result: xr.DataTree,
    *,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
) -> Answer:
    """Return mean, sd, interval and Monte Carlo error of the entropy −Σ p log p, in nats.

    Parameters
    ----------
    result : DataTree
    ci_prob : float
        Of the equal-tailed interval.
    target : {"distribution", "frequency"}
    cell : str or tuple of str, optional
        Which cell, for a result with cells.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse.

    Raises
    ------
    ArgumentError
        If ci_prob, target or cell breaks its rule.
    """
    draws, _ = base.draws_of(result, target, cell)
    terms = np.where(draws > 0, draws * np.log(np.where(draws > 0, draws, 1.0)), 0.0)
    return base.described(result, -terms.sum(axis=1), {}, ci_prob, "Entropy, in nats")


def total(
    result: xr.DataTree,
    categories: str | Iterable[str],
    *,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
) -> NDArray:
    """Return the draws of the share of one or several categories together, shape (draws,), chains in order.

    Parameters
    ----------
    result : DataTree
    categories : str or sequence of str
        Distinct labels.
    target : {"distribution", "frequency"}
    cell : str or tuple of str, optional
        Which cell, for a result with cells.

    Returns
    -------
    (draws,) array

    Raises
    ------
    ArgumentError
        If a label is unknown or repeated, or target or cell breaks its rule.
    """
    draws, known = base.draws_of(result, target, cell)
    return draws[:, base.positions(categories, known)].sum(axis=1)
