"""Differences between shares, within one result or between two."""

from collections.abc import Iterable

import numpy as np
import xarray as xr

from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.answers.sums import total
from ldpbayes.collections import Collection
from ldpbayes.errors import ArgumentError


def contrast(
    result: xr.DataTree,
    first: str | Iterable[str],
    second: str | Iterable[str],
    *,
    other: xr.DataTree | None = None,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
    other_cell: str | tuple[str, ...] | None = None,
    collection: Collection | None = None,
) -> Answer:
    """Return the difference Δ = (share of first) − (share of second), its interval and P(Δ > 0).

    Parameters
    ----------
    result : DataTree
    first, second : str or sequence of str
        Category labels; several are summed.
    other : DataTree, optional
        Take ``second`` from this result of another, independent collection.
    ci_prob : float
    target : {"distribution", "frequency"}
    cell : str or tuple of str, optional
        Which cell of ``tree``, for a result with cells.
    other_cell : str or tuple of str, optional
        Which cell ``second`` is taken from; ``cell`` by default, unless ``other`` is given.
    collection : Collection, optional
        The reports that both shares come from: a confidence interval of P, from these alone, stands beside the credible one.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse, lower_error, upper_error, probability_positive, probability_mcse; with a collection
        confidence_lower and confidence_upper.

    Raises
    ------
    ArgumentError
        If a label is unknown or repeated, or ci_prob, target or a cell breaks its rule.

    Notes
    -----
    The posteriors of two independent collections are independent, so their draws can be paired in any order. They are
    shuffled first, because fits with the same seed share random numbers; the shorter run is recycled. Two cells of one
    result are compared draw by draw, since their prior may link them.
    """
    if other is not None:
        from ldpbayes.result.validation import need_result  # results load ArviZ

        need_result(other, "other")
    if other is None and other_cell is None:
        other_cell = cell
    left = total(result, first, target=target, cell=cell)
    right = total(result if other is None else other, second, target=target, cell=other_cell)
    if other is None:
        delta = left - right
        positive = (delta > 0).astype(float)
        errors = base.mcse(result, np.column_stack([delta, positive]))
    else:
        rng, size = np.random.default_rng(0), max(left.size, right.size)
        delta = np.resize(rng.permutation(left), size) - np.resize(rng.permutation(right), size)
        positive = (delta > 0).astype(float)
        parts = np.array([base.mcse(result, left), base.mcse(other, right)])
        spread = np.array([left.std(), right.std()])
        # Divided by its sd, a run's error is 1/√(effective draws); the pairs count for as many as the worse run.
        relative = np.divide(parts, spread, out=np.zeros(2), where=spread > 0).max()
        errors = np.array([np.hypot(*parts), positive.std() * relative])
    minuend, taken = base.words(first), base.words(second)
    if other is None and other_cell == cell:
        taken = base.named(taken, result, cell)
    else:
        minuend, taken = base.named(minuend, result, cell), base.named(taken, result if other is None else other, other_cell)
    question = f"{minuend} − ({taken})" if " + " in taken else f"{minuend} − {taken}"
    if collection is not None and (other is not None or other_cell != cell):
        raise ArgumentError("collection must be left out where the two shares are of different reports.")
    more = {"probability_positive": positive.mean(), "probability_mcse": errors[1]}
    more |= base.confidence_of(collection, first, second, ci_prob, target)
    found = base.described(result, delta, {}, ci_prob, question, mcse=errors[0], **more)
    probability, sign = positive.mean(), "larger" if found["mean"] >= 0 else "smaller"
    sure = base.probability_text(probability if sign == "larger" else 1 - probability, positive.size)
    found.attrs["sentence"] = (
        f"The share of {minuend} is {sign} than that of {taken} by {abs(float(found['mean'])):.3f} "
        f"({base.interval_text(found)} for the difference); the probability that it is {sign} is {sure}."
    )
    return found
