"""Sums over categories, which of them are the most frequent, and the entropy."""

import functools
from collections.abc import Iterable

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import entr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.collections import Collection, Tally


@base.asks
def category_sum(
    result: xr.DataTree,
    categories: str | Iterable[str],
    *,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
    collection: Collection | Tally | None = None,
) -> Answer:
    """Return mean, sd, interval and Monte Carlo errors of the share of several categories together.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse, lower_error, upper_error; with a collection confidence_lower and confidence_upper.

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
    answer = of(ci_prob, base.named(base.words(categories), result, cell), **sure)
    answer.attrs["sentence"] = (
        f"An estimated {float(answer['mean']):.3f} are in {answer.attrs['question']} ({base.interval_text(answer)})."
    )
    return answer


@base.asks
def entropy(
    result: xr.DataTree,
    *,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
) -> Answer:
    """Return mean, sd, interval and Monte Carlo error of the entropy −Σ p log p, in nats."""
    draws, _ = base.draws_of(result, target, cell)
    return base.described(result, entr(draws).sum(axis=1), {}, ci_prob, "Entropy, in nats")


@base.part
def total(
    result: xr.DataTree,
    categories: str | Iterable[str],
    *,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
) -> NDArray:
    """Return the draws of the share of one or several categories together, shape (draws,), chains in order.

    Returns
    -------
    (draws,) array
    """
    draws, labels = base.draws_of(result, target, cell)
    return draws[:, base.positions(categories, labels)].sum(axis=1)


@base.asks
def probability_in_top(
    result: xr.DataTree, k: int, *, target: str = "distribution", cell: str | tuple[str, ...] | None = None
) -> Answer:
    """Return the posterior probability that each category is among the k largest, with its Monte Carlo error.

    The probabilities add up to k. Where a draw has ties at the k-th place, as frequencies of few users often do, the
    places that are left are shared equally among the tied categories.

    Parameters
    ----------
    k : int
        From 1 to the number of categories.

    Returns
    -------
    Answer
        probability, mcse (category).
    """
    draws, category = base.draws_of(result, target, cell)
    k = checks.integer(k, "k", minimum=1, maximum=category.size)
    last = -np.partition(-draws, k - 1, axis=1)[:, k - 1 : k]
    above, tied = draws > last, draws == last
    inside = above + tied * ((k - above.sum(axis=1, keepdims=True)) / tied.sum(axis=1, keepdims=True))
    values = {"probability": inside.mean(axis=0), "mcse": base.mcse(result, inside)}
    return base.by_category(category, f"Among the {k} most frequent", values)
