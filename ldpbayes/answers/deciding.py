"""Who decides: the reports or the prior? One sentence, and what would let the reports decide."""

import bisect
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.collections import Collection
from ldpbayes.errors import ArgumentError, InfeasibleError, listed
from ldpbayes.inference.scaling import SENSITIVITY, VERDICTS, Scaled
from ldpbayes.protocols import AbstractProtocol
from ldpbayes.protocols.making import has_free_epsilon, named_makers

#: Rule: The prior decides a result, or is in conflict with the reports, where such categories hold more than this share of
#: the people: then an answer about a person chosen at random is more often the prior's than not. At half a quarter of the
#: people would speak for all; double is never exceeded.
MOST = 0.5
#: Rule: Log Bayes factor, in nats, of the learnt prior against the prior used, above which the latter does not fit the
#: population: e³ is 20 to one, from which on evidence is called strong (Kass and Raftery 1995, JASA 90). At half it is 4.5
#: to one, which chance gives a good prior often; at double 400 to one, below which a prior that is 20
#: times worse would go unmentioned.
LARGEST_FACTOR = 3.0
#: Rule: Times the number of reports with which the prior would just not decide if shares were normal, which those near
#: zero are not: sds are then 1/√2 of those at the limit. With 1 the advice lies on the limit, and chance decides whether it
#: helps; with 4 it asks for twice as many reports as serve. And the ε that it may name, in tenths: up to 12, where
#: e¹² = 160,000 to one leaves nothing private.
MARGIN, TENTHS = 2.0, range(1, 121)

START, CONFLICT = "Here the prior decides: ", "Here prior and reports disagree: "
UNKNOWN = "Whether the prior decides is not stated: this prior has too many unknowns to be scaled, and no hyperparameters."


def decision_given(
    collection: Collection | None, scaled: Scaled | None, log_bayes_factor: float = math.nan
) -> dict[str, Any]:
    """Return whether the prior decides the answer, and what would let the reports decide.

    The prior decides, or is in conflict with the reports, where the categories of which ``Scaled.verdict`` says so hold more
    than half of the population together; where the reports favour a learnt prior by a log Bayes factor above 3; and where
    they do not identify the share of those who ignore the device.

    Parameters
    ----------
    collection : Collection, optional
        For the advice.
    scaled : Scaled, optional
        What scaling the prior does to the shares.
    log_bayes_factor : float
        log P(Y | learnt prior) − log P(Y | prior used).

    Returns
    -------
    dict
        ``decided_by``, one of VERDICTS, or "" where nothing can be said; prior_decides, 0 where that is the reports and 1
        elsewhere; prior_share, the share of people in categories that depend on the prior; ``decides``, the sentence, empty
        where the reports decide; and ``decides_note``, why nothing is said.
    """
    by = "" if scaled is None else _of_population(scaled)
    share = math.nan if scaled is None else _held(scaled, 1, 2)
    reasons = []
    if scaled is not None and by != VERDICTS[0]:
        moving, total = int((scaled.verdict > 0).sum()), scaled.verdict.size
        many = "the share" if total == 2 else f"all {total:,} shares"
        if moving < total:
            many = f"{moving:,} of {total:,} shares, which hold {100 * share:.0f} % of people,"
        at = scaled.verdict > 0
        farthest = (scaled.moves[at] / scaled.sd[at]).max()
        uncertain = collection is not None and collection.device_law is not None  # whose law is a prior too
        moved = f"with twice {'the weight of the prior of P' if uncertain else 'its weight'} the mean or an end of "
        moved += f"{many} would move by up to {farthest:.1g} sd"
        moved += ", and the reports do not narrow them" if by == "prior" else ""
        held = f"the prior holds more than half of the information on {many.rstrip(',')}"  # ends stand at 0 and 1
        reasons.append(moved if farthest > SENSITIVITY.moved else held)
    if collection is not None and (undecided := collection.undecided()):
        reasons.append(undecided)
        return _decided("prior", share, f"{START}{'; '.join(reasons)}.")
    weak, outdone = bool(reasons), log_bayes_factor > LARGEST_FACTOR
    if outdone:
        reasons.append(f"the reports favour a learnt prior (log Bayes factor {log_bayes_factor:.1f})")
        by = "prior" if by == "prior" else "conflict"
    if not reasons:
        return _decided(by, share, note="" if by else UNKNOWN)
    sentence = f"{START if by == 'prior' else CONFLICT}{'; '.join(reasons)}."
    if outdone:
        sentence += " Refit with the learnt prior."
    elif weak:
        more = "" if scaled is None or collection is None or by == "conflict" else _advice(collection, scaled)
        sentence += more or " Refit with another prior and compare."
    return _decided(by, share, sentence)


def decision_of_cells(
    labels: Sequence[str], found: Mapping[str, np.ndarray] | None, scaled: Scaled | None = None
) -> dict[str, Any]:
    """Return in how many cells the prior decides the answer.

    Parameters
    ----------
    labels : sequence of str
    found : mapping of str to (cells,) array, optional
        What ``decision_given`` returns of each, where cells have an answer each.
    scaled : Scaled, optional
        Of the shares of all cells under a prior over all of them, (cells, categories).

    Returns
    -------
    dict
        As decision_given, of all cells: prior_decides is their number.
    """
    names = np.array(labels)
    if found is not None:
        chosen, each_share = found["prior_decides"] > 0, found["prior_share"]
        mean = float(np.nanmean(each_share)) if np.isfinite(each_share).any() else math.nan
        if not chosen.any():
            notes = found["decides_note"]
            return _decided("" if all(notes) else VERDICTS[0], mean, note=str(notes[0]) if all(notes) else "")
        by, first = (found[name][chosen][0] for name in ("decided_by", "decides"))
        start = CONFLICT if by == "conflict" else START
        sentence = f"{_in_cells(names, chosen, start)}In {names[chosen][0]}: {str(first).removeprefix(start)}"
        return _decided(by, mean, sentence, number=int(chosen.sum()))
    if scaled is None:
        return _decided("", math.nan, note=UNKNOWN)
    by_cell = [_of_population(scaled.at(k)) for k in range(len(names))]
    chosen = np.array([by != VERDICTS[0] for by in by_cell])
    share = float(np.mean([_held(scaled.at(k), 1, 2) for k in range(len(names))]))
    if not chosen.any():
        return _decided(VERDICTS[0], share)
    by = by_cell[int(np.argmax(chosen))]
    sentence = _in_cells(names, chosen, CONFLICT if by == "conflict" else START)
    sentence += "With twice the weight of the prior of what the cells share, most of their means or ends would move."
    return _decided(by, share, sentence, number=int(chosen.sum()))


def _of_population(scaled: Scaled) -> str:
    """Return who decides on the shares of one population."""
    if _held(scaled, 1, 2) <= MOST + 1e-9:  # a sum of shares, to rounding
        return VERDICTS[0]
    return VERDICTS[1 if _held(scaled, 1) >= _held(scaled, 2) else 2]


def _held(scaled: Scaled, *verdicts: int) -> float:
    return float(sum(scaled.mean[scaled.verdict == verdict].sum() for verdict in verdicts))


def _decided(by: str, share: float, sentence: str = "", note: str = "", number: int | None = None) -> dict[str, Any]:
    count = int(by not in ("", VERDICTS[0])) if number is None else number
    return {"decided_by": by, "prior_decides": count, "prior_share": share, "decides": sentence, "decides_note": note}


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
    words = "prior and reports disagree" if result.attrs.get("decided_by") == "conflict" else "the prior decides"
    if not cells:
        return f"here {words}"
    return f"{words} in {'all' if number == cells else f'{number:,} of {cells:,}'} groups"


def _in_cells(labels: np.ndarray, chosen: np.ndarray, start: str) -> str:
    number, start = int(chosen.sum()), start.rstrip(": ")
    if number == chosen.size:
        return f"{start} in all {number:,} cells. "
    return f"{start} in {number:,} of {chosen.size:,} cells ({listed(labels[chosen], most=8)}). "


def _advice(collection: Collection, scaled: Scaled) -> str:
    """Return with which number of reports, or which ε, the prior alone would not decide; empty where that is not known."""
    times = MARGIN * scaled.times
    if not 1 < times < 1e9:
        return ""
    users = times * collection.n_reports
    digits = 10 ** max(math.floor(math.log10(users)) - 1, 0)
    more = f" With about {math.ceil(users / digits) * digits:,} reports"
    epsilon = _epsilon_for(collection, times)
    if math.isfinite(epsilon):
        more += f", or with ε = {epsilon:.2g} and as many reports as now,"
    return f"{more} it would not."


def _epsilon_for(collection: Collection, times: float) -> float:
    """Return the least ε in tenths at which as many reports vary so many times less; nan where a protocol has no free ε."""
    protocol, a = collection.tallies[0].protocol, collection.n_categories
    variant = tuple((key, value) for key, value in protocol.parameters().items() if key == "variant")
    try:
        if len(collection.tallies) > 1 or not has_free_epsilon(protocol.design, dict(variant)):
            return math.nan
        goal = _error(protocol) / times
        place = bisect.bisect_left(TENTHS, True, key=lambda tenths: _error_at(protocol.design, variant, a, tenths) <= goal)
    except (ArgumentError, InfeasibleError):
        return math.nan
    return TENTHS[place] / 10 if place < len(TENTHS) else math.nan


@functools.lru_cache(maxsize=512)
def _error_at(design: str, variant: tuple, a: int, tenths: int) -> float:
    """Return the error of one report of a protocol at an ε: cells of one protocol ask for the same ones."""
    (make,) = named_makers([design], dict(variant)).values()
    return _error(make(a, tenths / 10))


def _error(protocol: AbstractProtocol) -> float:
    """Return the sum of the variances of one report's unbiased estimate at uniform P."""
    a = protocol.n_categories
    return float(np.sum(protocol.oracle_variance(np.full(a, 1 / a), 1, "distribution")))
