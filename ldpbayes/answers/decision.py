"""Who decides: the reports or the prior? One sentence, and what would let the reports decide."""

import math
from typing import TypedDict

import numpy as np
import xarray as xr

from ldpbayes.answers import base
from ldpbayes.collections import Collection
from ldpbayes.errors import ArgumentError, InfeasibleError

#: A credible interval less than this share as wide as the confidence interval owes its width to the prior.
NARROW = 0.5
#: Log Bayes factor of the learnt prior against the prior used above which the latter does not fit the population.
LARGEST_FACTOR = 3.0
#: Room given to the advice, for intervals cut at zero are no normal ones.
MARGIN = 2.0


class Decision(TypedDict):
    """What ``decision`` returns.

    Attributes
    ----------
    prior_decides : int
        1 where the prior decides, else 0.
    narrow_share : float
        Share of the categories whose credible interval is less than half as wide as the confidence interval.
    decides : str
        The sentence; empty where the reports decide.
    """

    prior_decides: int
    narrow_share: float
    decides: str


def decision(tree: xr.DataTree, collection: Collection, log_bayes_factor: float = math.nan) -> Decision:
    """Return whether the prior decides the answer, and what would let the reports decide.

    The prior decides where most credible intervals are less than half as wide as the confidence intervals, which hold for
    every population; where it weighs more answers than the reports are worth; or where the reports favour a learnt prior
    by a log Bayes factor above 3. Credible intervals of variance 1/(1/s² + 1/v), s² the prior's and v the reports' variance,
    are half as wide at v = 3s²: with ρ the median ratio of the widths, n (1/ρ² − 1)/3 reports would be enough.

    Parameters
    ----------
    tree : DataTree
        A result of fit(), with the group ``confidence``.
    collection : Collection
        The one that the result was fitted to.
    log_bayes_factor : float
        log P(Y | learnt prior) − log P(Y | prior used).

    Returns
    -------
    dict
        prior_decides, narrow_share and ``decides``, the sentence.
    """
    summary = base.summary(tree).sel(target="distribution")
    width = np.asarray(summary["upper"].values - summary["lower"].values, dtype=float)
    reasons, share, ratio = [], math.nan, math.nan
    if "confidence" in tree.children:
        found = tree["confidence"].to_dataset().sel(target="distribution")
        other = (found["upper"] - found["lower"]).values
        known = np.isfinite(other) & (other > 0)
        if known.any():
            ratios = width[known] / other[known]
            narrow = int((ratios < NARROW).sum())
            share, ratio = narrow / known.sum(), float(np.median(ratios))
            if 2 * narrow > known.sum():
                reasons.append(
                    f"the credible intervals of {narrow:,} of {int(known.sum()):,} categories are less than half as wide as "
                    "their confidence intervals, which hold for every population"
                )
    weight, worth = tree.attrs.get("prior_weight", math.nan), tree.attrs.get("effective_open_answers", math.nan)
    if weight > max(worth, 1.0):
        reasons.append(f"it carries as much weight as {weight:,.0f} answers, the reports as much as {worth:,.0f}")
    weak = bool(reasons)
    if log_bayes_factor > LARGEST_FACTOR:
        reasons.append(f"the reports favour a learnt prior (log Bayes factor {log_bayes_factor:.1f})")
    if not reasons:
        return {"prior_decides": 0, "narrow_share": share, "decides": ""}
    sentence = f"Here the prior decides: {'; '.join(reasons)}."
    if log_bayes_factor > LARGEST_FACTOR:
        sentence += " Refit with the learnt prior."
    if weak:
        sentence += _advice(collection, ratio, weight / max(worth, 0.1)) or " Refit with another prior and compare."
    return {"prior_decides": 1, "narrow_share": share, "decides": sentence}


def _advice(collection: Collection, ratio: float, outweighed: float) -> str:
    """Return which number of reports, or which ε, would let the reports decide; empty where that is not known."""
    by_width = MARGIN * (1 / ratio**2 - 1) / (1 / NARROW**2 - 1) if 0 < ratio < 1 else 0.0
    times = max(by_width, outweighed if math.isfinite(outweighed) else 0.0)
    if not 1 < times < 1e9:
        return ""
    users = times * collection.n_reports
    digits = 10 ** max(math.floor(math.log10(users)) - 1, 0)
    more = f" With about {math.ceil(users / digits) * digits:,} reports"
    epsilon = _epsilon_for(collection, times)
    if math.isfinite(epsilon):
        more += f", or with ε = {epsilon:.2g} and as many reports as now,"
    return f"{more} the reports would decide."


def _epsilon_for(collection: Collection, times: float) -> float:
    """Return the ε at which so many reports vary so many times less; nan where the protocol has no free ε."""
    from ldpbayes.theory import planning

    protocol, a, n = collection.tallies[0].protocol, collection.n_categories, collection.n_reports
    kept = {key: value for key, value in protocol.parameters().items() if key == "variant"}
    try:
        if len(collection.tallies) > 1 or not planning.has_free_epsilon(protocol.design, kept):
            return math.nan
        makers = planning.named_makers([protocol.design], kept)
        goal = planning.expected_error(protocol, n, estimator="oracle") / times
        found = planning.plan(n_categories=a, n=n, error=goal, estimator="oracle", protocols=makers)[0]
    except (ArgumentError, InfeasibleError):
        return math.nan
    return math.ceil(found.epsilon * 10) / 10 if found.feasible else math.nan
