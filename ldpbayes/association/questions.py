"""Association of the attributes of a joint table: margins, conditional shares, odds ratios, Cramér's V, independence."""

import json
import math
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import rel_entr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.arguments import explained
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.inference.ends import ends_of_equal_draws
from ldpbayes.result.facts import facts_of

#: Mathematics: Logarithms of odds ratios from here on stand for infinite ones.
BEYOND = 1e4
#: Display: Conditional shares are printed and drawn for at most so many pairs: those with the largest Cramér's V.
TOP = 6
#: Where a result of an earlier version does not know the evidence and does not say why.
NOT_STATED = "the engine gave no evidence"
_WORDS = base.WORDS | {
    "result": "result : Result\n    From ``associate``.",
    "attributes": "attributes : sequence of str, optional\n    All by default; one name gives a margin.",
    **dict.fromkeys(("first", "second"), "first, second : str\n    Attributes."),
}
asks, part = base.asking(_WORDS), explained(_WORDS)


@part
def attributes_of(result: xr.DataTree) -> dict[str, tuple[str, ...]]:
    """Return the attributes of a joint table with their levels, in the order of the cells.

    Raises
    ------
    ArgumentError
        If the result is of no joint table.
    """
    if not isinstance(result, xr.DataTree) or "attributes" not in facts_of(result):
        raise ArgumentError("result must be the result of associate(), which names its attributes.")
    return {name: tuple(levels) for name, levels in json.loads(facts_of(result)["attributes"])}


@part
def joint_draws(
    result: xr.DataTree, attributes: Sequence[str] | None = None, *, target: str = "distribution"
) -> tuple[NDArray, dict[str, list[str]]]:
    """Return draws of the joint table of some attributes, summed over all others, and the levels of these attributes.

    Returns
    -------
    tuple
        (draws, \\*levels) array, chains in order; attribute → levels.
    """
    levels_of = attributes_of(result)
    given = [attributes] if isinstance(attributes, str) else attributes
    chosen = list(levels_of) if given is None else list(checks.entries(given, "attributes", "names of attributes"))
    for name in chosen:
        checks.choice(name, "attribute", tuple(levels_of))
    if len(set(chosen)) != len(chosen) or not chosen:
        raise ArgumentError(f"attributes must be different and at least one, got {shown(chosen)}.")
    draws, _ = base.draws_of(result, target)
    table = draws.reshape(len(draws), *(len(levels) for levels in levels_of.values()))
    names = list(levels_of)
    table = table.sum(axis=tuple(1 + k for k, name in enumerate(names) if name not in chosen))
    left = [name for name in names if name in chosen]
    order = [1 + left.index(name) for name in chosen]
    return table.transpose(0, *order), {name: list(levels_of[name]) for name in chosen}


@asks
def joint_table(
    result: xr.DataTree, attributes: Sequence[str] | None = None, *, target: str = "distribution", ci_prob: float = 0.95
) -> Answer:
    """Return shares of the combinations of levels of some attributes, with one dim for each attribute.

    Margins of the same table agree with each other: they are sums of the same draws.
    """
    draws, levels = joint_draws(result, attributes, target=target)
    return base.described(result, draws, levels, ci_prob, f"Shares of {listed(levels)}")


@asks
def conditional(
    result: xr.DataTree, of: str, given: str | Sequence[str], *, target: str = "distribution", ci_prob: float = 0.95
) -> Answer:
    """Return the conditional shares P(of | given), with one dim for each attribute; they add up to one over ``of``.

    Draws of F in which nobody has the levels that are given say nothing of these shares, and are left out.

    Parameters
    ----------
    of : str
    given : str or sequence of str
    """
    names = [given] if isinstance(given, str) else checks.entries(given, "given", "names of attributes")
    draws, levels = joint_draws(result, [*names, of], target=target)
    with np.errstate(invalid="ignore"):
        shares = draws / draws.sum(axis=-1, keepdims=True)
    known = np.isfinite(shares).mean(axis=0)
    shares = _defined(shares)
    error = base.mcse(result, shares) / np.sqrt(np.maximum(known, 1 / len(shares)))
    return base.described(result, shares, levels, ci_prob, f"Shares of {of} given {listed(names)}", mcse=error)


def odds_ratio(
    result: xr.DataTree, first: str | None, second: str | None, *, kind: str, target: str, ci_prob: float
) -> Answer:
    """Return odds ratios of two attributes, as ``answers.odds_ratio`` does."""
    if first is None or second is None:
        raise ArgumentError(f"first and second must name two attributes ({listed(attributes_of(result))}).")
    checks.choice(kind, "kind", ("local", "reference", "all"))
    ci_prob = checks.level(ci_prob)
    draws, levels = joint_draws(result, [first, second], target=target)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(draws)
        for axis in (1, 2):
            pairs = _pairs(logs.shape[axis], kind)
            logs = logs.take([j for _, j in pairs], axis=axis) - logs.take([i for i, _ in pairs], axis=axis)
    logs = np.clip(_defined(logs), -BEYOND, BEYOND)  # numbers between which quantiles can be taken
    with np.errstate(over="ignore"):
        median, (lower, upper) = np.exp(np.median(logs, axis=0)), np.exp(ends_of_equal_draws(logs, ci_prob))
    moments = {"log_mean": logs.mean(axis=0), "log_sd": logs.std(axis=0), "log_mcse": base.mcse(result, logs)}
    finite = np.abs(logs).max(axis=0) < BEYOND
    found = {"median": median, "lower": lower, "upper": upper}
    found |= {name: np.where(finite, value, np.nan) for name, value in moments.items()}
    found["probability_above_one"] = (logs > 0).mean(axis=0)
    labels = {
        name: [f"{labels[j]} / {labels[i]}" for i, j in _pairs(len(labels), kind)] for name, labels in levels.items()
    }  # fmt: skip
    dims = tuple(levels)
    attrs = {"question": f"Odds ratios of {first} and {second}", "ci_prob": ci_prob, "kind": kind}
    return Answer({key: (dims, values) for key, values in found.items()}, labels, attrs)


@asks
def cramers_v(
    result: xr.DataTree, first: str, second: str, *, target: str = "distribution", ci_prob: float = 0.95
) -> Answer:
    """Return Cramér's ``V = √(φ² / (min(k, l) − 1))``, ``φ² = Σ_ij (p_ij − p_i· p_·j)² / (p_i· p_·j)``, of two attributes.

    0 is independence and 1 that one attribute follows from the other. It cannot be negative, so that its interval never
    holds 0: ``independence`` says whether 0 is plausible.
    """
    draws, _ = joint_draws(result, [first, second], target=target)
    product = draws.sum(axis=2, keepdims=True) * draws.sum(axis=1, keepdims=True)
    squared = ((draws - product) ** 2 / np.maximum(product, 1e-300)).sum(axis=(1, 2))
    v = np.sqrt(squared / (min(draws.shape[1:]) - 1))
    return base.described(result, v, {}, ci_prob, f"Cramér's V of {first} and {second}")


@asks
def mutual_information(
    result: xr.DataTree, first: str, second: str, *, target: str = "distribution", ci_prob: float = 0.95
) -> Answer:
    """Return the mutual information ``Σ_ij p_ij log [p_ij / (p_i· p_·j)]`` of two attributes, in nats."""
    draws, _ = joint_draws(result, [first, second], target=target)
    product = draws.sum(axis=2, keepdims=True) * draws.sum(axis=1, keepdims=True)
    terms = rel_entr(draws, product).sum(axis=(1, 2))
    return base.described(result, terms, {}, ci_prob, f"Mutual information of {first} and {second}, in nats")


@asks
def independence(result: xr.DataTree, first: str | None = None, second: str | None = None) -> Answer:
    """Return the Bayes factor of independence, and its probability where it was as likely as not before the reports.

    Parameters
    ----------
    first, second : str, optional
        Two attributes; by default mutual independence of all.

    Returns
    -------
    Answer
        log_bayes_factor (independence over association), its Monte Carlo error, and probability. They are nan where the
        evidence is not known; attrs ``reason`` then says why, and is empty elsewhere.
    """
    names = list(attributes_of(result))
    if first is None and second is None:
        log_factor = facts_of(result).get("log_bayes_factor_independence", math.nan)
        error = facts_of(result).get("log_bayes_factor_independence_error", math.nan)
        why = facts_of(result).get("independence_reason", "")
    else:
        for name in (first, second):
            checks.choice(name, "attribute", tuple(names))
        if first == second:
            raise ArgumentError(f"attributes must be different, got {shown(first)} twice.")
        of_pairs = {frozenset(pair): rest for *pair, rest in json.loads(facts_of(result).get("independence_of_pairs", "[]"))}
        if len(names) == 2:
            return independence(result)
        log_factor, error = of_pairs.get(frozenset((first, second)), (math.nan, math.nan))
        why = facts_of(result).get("independence_of_pairs_reason", "")
    if math.isfinite(log_factor):
        why = ""
    probability = 1 / (1 + math.exp(min(-log_factor, 700.0)))  # nan stays nan
    question = f"Independence of {listed(names if first is None else (first, second))}"
    reason = why or ("" if math.isfinite(log_factor) else NOT_STATED)
    data = {"log_bayes_factor": float(log_factor), "error": float(error), "probability": float(probability)}
    return Answer(data, None, {"question": question, "reason": reason})


def pairs_of(result: xr.DataTree) -> list[tuple[str, str]]:
    """Return all pairs of attributes."""
    return list(combinations(attributes_of(result), 2))


def _defined(draws: np.ndarray) -> np.ndarray:
    """Return draws (S, …) of ratios with others, in turn, in the places of those that are 0/0; where all are, they stay."""
    for place in np.argwhere(np.isnan(draws).any(axis=0)):
        column = draws[:, *place]
        blank = np.isnan(column)
        column[blank] = np.resize(column[~blank], blank.sum()) if not blank.all() else np.nan
    return draws


def _pairs(size: int, kind: str) -> list[tuple[int, int]]:
    if kind == "local":
        return list(pairwise(range(size)))
    return [(0, j) for j in range(1, size)] if kind == "reference" else list(combinations(range(size), 2))
