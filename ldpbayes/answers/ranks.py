"""Which categories are the most frequent."""

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base


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
