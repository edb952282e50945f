"""Differences between shares, within one result or between two."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.answers.shares import total
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.result.validation import need_result


@base.asks
def contrast(
    result: Any,
    first: str | Iterable[str],
    second: str | Iterable[str],
    *,
    other: xr.DataTree | None = None,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
    other_cell: str | tuple[str, ...] | None = None,
    collection: Collection | Tally | None = None,
) -> Answer:
    """Return Δ = (share of first) − (share of second) in one result, or between two results or cells: interval, P(Δ > 0).

    Parameters
    ----------
    first, second : str or sequence of str
        Category labels; several are summed.
    other : DataTree, optional
        Take ``second`` from this result of another, independent collection.
    other_cell : str or tuple of str, optional
        Which cell ``second`` is taken from; ``cell`` by default, unless ``other`` is given.

    Returns
    -------
    Answer
        mean, sd, lower, upper, mcse, lower_error, upper_error, probability_positive, probability_mcse; with a collection
        confidence_lower and confidence_upper.

    Warns
    -----
    DiagnosticWarning
        If the shares are of two cells of a sample that have clusters in common.

    Notes
    -----
    The posteriors of two independent collections are independent, so their draws can be paired in any order. They are
    shuffled first, because fits with the same seed share random numbers; the shorter run is recycled. Two cells of one
    result are compared draw by draw, since their prior may link them. Without draws: exact mean and sd of Δ, in the shape of
    a difference of two beta distributions; the errors of its ends say how far that may be off. Two cells whose prior learns
    what they share need draws.
    """
    if other is not None:
        need_result(other, "other")
    if other is None and other_cell is None:
        other_cell = cell
    source = result if other is None else other
    same = base.cell_position(result, cell) == base.cell_position(source, other_cell) and other is None
    sides = (result, first, cell), (source, second, other_cell)
    moments, delta, n = None, np.empty(0), base.LATTICE
    if base.without_draws(result) or base.without_draws(source):
        if same:
            moments = base.moments_of(result, first, second, target, cell)
        else:  # of different reports, whose prior links them where it learns what they share
            if other is None:
                base.need_apart(result)
            moments_each = [base.moments_of(tree, labels, None, target, place) for tree, labels, place in sides]
            mean, variance, off = (np.array(array) for array in zip(*moments_each, strict=True))
            moments = mean.ravel(), np.diag(variance.ravel()), float(off.max())
    else:
        left, right = (total(tree, labels, target=target, cell=place) for tree, labels, place in sides)
        delta, errors = _paired(result, left, right, other)
        n = delta.size
    minuend, subtrahend = base.words(first), base.words(second)
    if same:
        subtrahend = base.named(subtrahend, result, cell)
    else:
        minuend, subtrahend = base.named(minuend, result, cell), base.named(subtrahend, source, other_cell)
    if other is not None:
        minuend, subtrahend = base.of_each((minuend, subtrahend), (result, other))
    question = f"{minuend} − ({subtrahend})" if " + " in subtrahend else f"{minuend} − {subtrahend}"
    if collection is not None and not same:
        raise ArgumentError("collection must be left out where the two shares are of different reports.")
    sure: dict[str, Any] = dict(base.confidence_of(collection, first, second, ci_prob, target))
    if moments is not None:
        answer = base.of_moments(*moments, ci_prob, question, **sure)
    else:
        sure |= {"mcse": errors[0], "probability_positive": (delta > 0).mean(), "probability_mcse": errors[1]}
        answer = base.described(result, delta, {}, ci_prob, question, **sure)
    probability, sign = float(answer["probability_positive"]), "larger" if answer["mean"] >= 0 else "smaller"
    text = base.probability_text(probability if sign == "larger" else 1 - probability, n)
    answer.attrs |= {} if same or other is not None else base.warn_of_clusters(result)
    answer.attrs["sentence"] = (
        f"The share of {minuend} is {sign} than that of {subtrahend} by {abs(float(answer['mean'])):.3f} "
        f"({base.interval_text(answer, turned=sign == 'smaller')}); the probability that it is {sign} is {text}."
    )
    return answer


def _paired(result: xr.DataTree, left: NDArray, right: NDArray, other: xr.DataTree | None) -> tuple[NDArray, NDArray]:
    """Return draws of a difference, and the Monte Carlo errors of its mean and of the probability that it is positive."""
    if other is None:
        delta = left - right
        return delta, base.mcse(result, np.column_stack([delta, (delta > 0).astype(float)]))
    rng, size = np.random.default_rng(0), max(left.size, right.size)
    delta = np.resize(rng.permutation(left), size) - np.resize(rng.permutation(right), size)
    errors = np.array([base.mcse(result, left), base.mcse(other, right)])
    spread = np.array([left.std(), right.std()])
    # Divided by its sd, a run's error is 1/√(effective draws); the pairs count for as many as the worse run.
    relative = np.divide(errors, spread, out=np.zeros(2), where=spread > 0).max()
    return delta, np.array([np.hypot(*errors), (delta > 0).std() * relative])
