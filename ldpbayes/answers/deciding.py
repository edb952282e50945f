"""Who decides: the reports or the prior? One sentence, and what would let the reports decide."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.answers import base
from ldpbayes.answers.sensitivity import PriorSensitivity
from ldpbayes.collections import Cells, Collection
from ldpbayes.errors import ArgumentError, InfeasibleError, listed
from ldpbayes.estimators.confidence import likelihood_intervals
from ldpbayes.inference.ends import normal_reach
from ldpbayes.posteriors.problem import scaled

#: A credible interval less than this share as wide as the confidence interval owes its width to the prior.
NARROW = 0.5
#: The prior decides a result where the categories that hang on it hold more than this share.
MOST = 0.5
#: Log Bayes factor of the learnt prior against the prior used above which the latter does not fit the population.
LARGEST_FACTOR = 3.0
#: Room given to the advice, for intervals cut at zero are no normal ones.
MARGIN = 2.0
#: Weighted likelihoods are compared where cells times categories are at most so many.
MAX_WEIGHTED = 2000


START = "Here the prior decides: "
UNKNOWN = (
    "Whether the prior decides is not stated: these reports have neither confidence intervals nor standard errors to "
    "compare the credible intervals with."
)
UNKNOWN_OF_CELLS = (
    "Whether the prior decides is not stated: credible intervals would be compared with those of the reports of each cell "
    "alone, which need whole reports, of at most 400 cells and 20,000 shares in all."
)


def decision_given(
    collection: Collection,
    compared: tuple[np.ndarray, Any, str],
    sensitivity: PriorSensitivity | None,
    weights: tuple[float, float],
    log_bayes_factor: float,
) -> dict[str, Any]:
    """Return whether the prior decides the answer, and what would let the reports decide.

    Under a Dirichlet or a learnt prior the answer is made again with the prior's weight doubled (``sensitivities``): the
    prior decides where the mean or an end moves by more than a tenth of an sd and by more than a practical floor, in
    categories that hold more than half of the population together. Elsewhere it decides where most credible intervals, and
    all of them together, are less than half as wide as those by the reports alone, or where it weighs more answers than the
    reports are worth. Either way it decides where the reports favour a learnt prior by a log Bayes factor above 3, and where
    they do not identify the share of those who ignore the device.

    For the advice: credible intervals of variance 1/(1/s² + 1/v), s² the prior's and v the reports' variance, are half as
    wide at v = 3s²: with ρ the median ratio of the widths, n (1/ρ² − 1)/3 reports would be enough.

    Parameters
    ----------
    collection : Collection
    compared : tuple
        Widths of the credible intervals over those by the reports alone, (a,); that of their sums; and what these are.
    sensitivity : PriorSensitivity, optional
    weights : pair of floats
        Answers that the prior, and that the reports, are worth.
    log_bayes_factor : float
        log P(Y | learnt prior) − log P(Y | prior used).

    Returns
    -------
    dict
        prior_decides, 1 or 0; narrow_share, the share of the categories whose credible interval is less than half as wide as
        the confidence interval; ``decides``, the sentence, empty where the reports decide; and ``decides_note``, why nothing
        is said where nothing can be said.
    """
    reasons, share, ratio = [], math.nan, math.nan
    (ratios, whole, words), (weight, worth) = compared, weights
    known = np.isfinite(ratios)
    if known.any():
        narrow = int((ratios[known] < NARROW).sum())
        share, ratio = narrow / known.sum(), float(np.median(ratios[known]))
    if sensitivity is not None and sensitivity.share > MOST + 1e-9:  # a sum of shares, to rounding
        many = f"{int(sensitivity.hangs.sum()):,} of {sensitivity.hangs.size:,} categories, {sensitivity.share:.0%} of all,"
        reasons.append(f"with twice its weight the mean or an end of {many} would move by more than a tenth of an sd")
    if sensitivity is None and known.any() and 2 * narrow > known.sum() and whole < NARROW:
        reasons.append(
            f"the credible intervals of {narrow:,} of {int(known.sum()):,} categories are less than half as wide as {words}"
        )
    if sensitivity is None and weight > max(worth, 1.0):
        reports = f"{worth:,.0f}" if worth >= 1 else "less than one"
        reasons.append(f"it carries as much weight as {weight:,.0f} answers, the reports as much as {reports}")
    if collection.laws and not collection.noncompliance().identified:
        reasons.append(
            "no number of reports identifies the share γ of respondents who ignore the device, so that γ, and P with it, "
            "follows the prior within what the reports allow"
        )
        return _decided(1, share, _joined(reasons))
    weak = bool(reasons)
    if log_bayes_factor > LARGEST_FACTOR:
        reasons.append(f"the reports favour a learnt prior (log Bayes factor {log_bayes_factor:.1f})")
    if not reasons:
        note = UNKNOWN if math.isnan(share) and sensitivity is None else ""
        return _decided(0, share, note=note)
    sentence = _joined(reasons)
    if log_bayes_factor > LARGEST_FACTOR:
        sentence += " Refit with the learnt prior."
    if weak:
        sentence += _advice(collection, ratio, weight / max(worth, 0.1)) or " Refit with another prior and compare."
    return _decided(1, share, sentence)


def decision_of_cells(result: xr.DataTree, cells: Cells) -> dict[str, Any]:
    """Return in how many cells the prior decides the answer.

    Cells fitted one by one have an answer each. Under a prior over all cells the credible intervals of a cell are compared
    with the intervals that its own reports give: they are narrower because cells share their reports through that prior.

    Parameters
    ----------
    result : DataTree
        A result of fit() with cells, with the group ``cells``, or ``confidence`` or ``estimate``.
    cells : Cells
        What it was fitted to.

    Returns
    -------
    dict
        prior_decides, the number of cells; narrow_share over all cells and categories; ``decides`` and ``decides_note``.
    """
    from ldpbayes.result.validation import need_result  # results load ArviZ

    need_result(result)
    checks.instance(cells, "cells", Cells, "Cells")
    if "cell" not in result["posterior"].coords:
        raise ArgumentError("result must be a result of fit with cells.")
    labels = np.array(cells.labels)
    if "cells" in result.children:
        found = result["cells"].to_dataset()
        chosen = found["prior_decides"].values > 0
        notes = found["decides_note"].values
        share = (
            float(np.nanmean(found["narrow_share"].values)) if np.isfinite(found["narrow_share"].values).any() else math.nan
        )
        if chosen.any():
            first = str(found["decides"].values[chosen][0]).removeprefix(START)
            sentence = f"{_in_cells(labels, chosen)}In {labels[chosen][0]}: {first}"
            return _decided(int(chosen.sum()), share, sentence)
        note = str(notes[0]) if notes.size and all(notes) else ""
        return _decided(0, share, note=note)
    ratios, whole, words = compared_widths(result, list(cells.values()))
    known = np.isfinite(ratios)
    if not known.any():
        return _decided(0, math.nan, note=UNKNOWN_OF_CELLS)
    narrow = (known & (ratios < NARROW)).sum(axis=1)
    chosen, share = (2 * narrow > known.sum(axis=1)) & (whole < NARROW), float((ratios[known] < NARROW).mean())
    if not chosen.any():
        return _decided(0, share)
    sentence = (
        f"{_in_cells(labels, chosen)}Most of their credible intervals are less than half as wide as "
        f"{words.replace('their', 'the')} of the cell's own reports: cells share their reports through the prior."
    )
    return _decided(int(chosen.sum()), share, sentence)


def _decided(number: int, share: float, sentence: str = "", note: str = "") -> dict[str, Any]:
    return {"prior_decides": number, "narrow_share": share, "decides": sentence, "decides_note": note}


def who_decides(result: xr.DataTree) -> str:
    """Return the words of an axis or a caption where the prior decides a result, or an empty string.

    Parameters
    ----------
    result : DataTree
        From fit().
    """
    if not result.attrs.get("decides"):
        return ""
    cells = result["summary"].sizes.get("cell", 0)
    number = int(result.attrs["prior_decides"])
    if not cells:
        return "here the prior decides"
    return f"the prior decides in {'all' if number == cells else f'{number:,} of {cells:,}'} groups"


def _in_cells(labels: np.ndarray, chosen: np.ndarray) -> str:
    number, start = int(chosen.sum()), START.rstrip(": ")
    if number == chosen.size:
        return f"{start} in all {number:,} cells. "
    return f"{start} in {number:,} of {chosen.size:,} cells ({listed(labels[chosen], most=8)}). "


def _joined(reasons: list[str]) -> str:
    return f"{START}{'; '.join(reasons)}."


def compared_widths(result: xr.DataTree, collections: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the widths of the credible intervals of P over those by the reports alone, and what these are.

    First those of shape ([cells,] categories), nan where unknown; then those of the sums over the categories where both are
    known, of shape ([cells]). ``collections`` are those of the cells.
    """
    summary = result["summary"].to_dataset().sel(target="distribution")
    dims = [name for name in ("cell", "category") if name in summary["mean"].dims]
    width = (summary["upper"] - summary["lower"]).transpose(*dims).values.astype(float)
    ci_prob = float(summary.attrs["ci_prob"])
    if "confidence" in result.children:
        found = result["confidence"].to_dataset().sel(target="distribution")
        other = (found["upper"] - found["lower"]).transpose(*dims).values
        words = "their confidence intervals, which hold for every population"
    elif result.attrs.get("pseudo") and width.size <= MAX_WEIGHTED and not any(one.laws for one in collections):
        intervals = [likelihood_intervals(scaled(one).rows, ci_prob) for one in collections]
        unknown = np.full(width.shape[-1], math.nan)
        alone = [unknown if one is None else one.upper[0] - one.lower[0] for one in intervals]
        other = np.stack(alone) if "cell" in dims else alone[0]
        words = "those of the weighted likelihood alone"
    elif "estimate" in result.children and "mle" in base.variable(result, "estimate", "estimator").values:
        found = result["estimate"].to_dataset().sel(estimator="mle")
        value, error = (found[name].transpose(*dims).values.astype(float) for name in ("value", "standard_error"))
        reach = normal_reach(ci_prob)
        other = np.clip(value + reach * error, 0, 1) - np.clip(value - reach * error, 0, 1)
        words = f"the maximum-likelihood estimate ± {reach:.3g} standard errors"
    else:
        return np.full(width.shape, math.nan), np.full(width.shape[:-1], math.nan), ""
    known = np.isfinite(other) & (other > 0)
    ratios = np.divide(width, other, out=np.full(width.shape, math.nan), where=known)
    held, total = (np.where(known, part, 0.0).sum(axis=-1) for part in (width, other))
    whole = np.divide(held, total, out=np.full(width.shape[:-1], math.nan), where=total > 0)
    return ratios, whole, words


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
