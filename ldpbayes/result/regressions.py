"""The pointwise log-likelihood of a regression, from the reports and columns that its result holds."""

import functools

import numpy as np
import xarray as xr
from scipy.special import expit, log_softmax, logsumexp

from ldpbayes import checks, rooms
from ldpbayes.arrays import blocks
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.priors.links import logits_of
from ldpbayes.result.constants import BLOCK, MAX_POINTWISE
from ldpbayes.result.facts import facts_of


def of_regression(result: xr.DataTree, by: str | None) -> tuple[np.ndarray, str, dict]:
    """Return (log-likelihoods (S, ·), their dim, its labels) of a result of regress, as ``extend`` adds them.

    Parameters
    ----------
    result : DataTree
    by : {"report", "cell"} or None
        A user's report, with its outcome where there is one, in the order of the rows of the data, so that models with other
        terms can be compared; or all reports of a distinct row of covariates.
    """
    checks.choice(by, "by", (None, "report", "cell"))
    if facts_of(result).get("weighted"):
        raise ArgumentError("result must be a fit without survey weights; a weighted likelihood is no product over users.")
    observed, constant, design = (result[name].to_dataset() for name in ("observed_data", "constant_data", "design"))
    table, log_constants = constant["likelihood_rows"].values, constant["log_constants"].values
    code, cell, count = (observed[name].values for name in ("code", "cell", "count"))
    beside = next((of for fact, of in rooms.brought("DENSITIES").items() if fact in facts_of(result)), "")
    if beside and "pattern" not in observed:
        raise ArgumentError(
            "result must be a fit of this version, which keeps the row of covariates of each outcome; fit again."
        )
    informative = (np.ptp(table.reshape(len(table), -1), axis=1) > 0)[code] | bool(beside)
    informative &= count > 0  # other reports say nothing about P, in any model
    keys = [cell, code, *((observed[name].values for name in ("pattern", "outcome")) if beside else ())]
    pair, which = np.unique(np.stack(keys)[:, informative], axis=1, return_inverse=True)
    posterior, users = result["posterior"], int(count[informative].sum())
    refused = too_many(users * posterior.sizes["chain"] * posterior.sizes["draw"])
    if refused and by == "report":
        raise InfeasibleError(refused)
    denied = constant["denied_rows"].values if "denied_rows" in constant else None
    posterior = posterior.to_dataset()
    link = facts_of(result).get("link", "logit"), list(posterior["category"].values).index(result.attrs["reference"])
    device = constant if "outcome_category" in constant else None
    density = functools.partial(rooms.function(beside), result) if beside else None
    logs = _of_pairs(posterior, design, table, log_constants, pair, denied, device, link, density)
    if by == "cell" or refused:
        weight = np.bincount(which.ravel(), count[informative])
        starts = np.flatnonzero(np.append(True, np.diff(pair[0]) > 0))
        return np.add.reduceat(logs * weight, starts, axis=1), "cell", {"cell": pair[0][starts].astype(np.int64)}
    rows = np.repeat(which.ravel(), count[informative].astype(np.int64))
    return logs[:, rows], "report", {"report": np.arange(rows.size)}


def too_many(entries: float) -> str:
    """Return why a log-likelihood of single reports with so many entries cannot be written out; empty where it can."""
    if entries <= MAX_POINTWISE:
        return ""
    return (
        f"The log-likelihood of single reports has {entries:.3g} entries (reports × draws), more than "
        f"{MAX_POINTWISE:.3g}; result.loo() takes those that differ, fewer draws take less, and by='cell' compares cells."
    )


def _of_pairs(posterior, design, table, log_constants, pair, denied, device, link, density):
    """Return log P(report | draw) of pairs of a distinct row of covariates and a report, shape (S, pairs).

    With a ``density`` of outcomes, pairs have the row of their covariates and the outcome, whose density is a factor.
    """
    pair, (pattern, outcome) = pair[:2].astype(np.int64), (None, None) if density is None else pair[2:]
    coefficients = _flat(posterior["coefficients"], "term", "category")
    size, a = len(coefficients), coefficients.shape[-1]
    out = np.empty((size, pair.shape[1]))
    if device is not None:
        table = _of_device(posterior, table, device)
    for block in blocks(pair.shape[1], size * a, BLOCK):
        cell, code = pair[:, block]
        eta = design["columns"].values[cell] @ coefficients
        for name in (str(name).removeprefix("index ") for name in design.data_vars if str(name).startswith("index ")):
            effects = _flat(posterior[name], f"{name}_level", "category")
            eta = eta + design[f"value {name}"].values[cell][:, None] * effects[:, design[f"index {name}"].values[cell]]
        for name in (str(name) for name in design.data_vars if str(name).startswith("basis ")):  # of smooths
            effects = _flat(posterior[name.removeprefix("basis ")], ..., "category")
            eta = eta + design[name].values[cell] @ effects
        shares = log_softmax(logits_of(eta, *link), axis=-1)
        rows = table[code] if device is None else table[:, code]
        if denied is not None:  # rows that depend on δ
            of_denial = _flat(posterior["denial_coefficients"], "denial_term", "denied")
            delta = expit(design["denial_columns"].values[cell] @ of_denial)
            places = [list(posterior["category"].values).index(label) for label in posterior["denied"].values]
            denied_rows = np.array(np.broadcast_to(rows, shares.shape))
            denied_rows[..., places] = rows[:, places] * (1 - delta) + denied[code] * delta
            rows = denied_rows
        elif device is None and rows.ndim > 2:  # that depend on how many items of a list apply
            slopes = _flat(posterior["item_coefficients"]) if "item_coefficients" in posterior else np.zeros((size, 0))
            moved = slopes @ design["columns"].values[cell, 1:].T
            # Of several lists a label joins the numbers of each, such as 1/3.
            applying = [sum(map(int, str(label).split("/"))) for label in posterior["items_applying"].values]
            odds = _flat(posterior["item_odds"], "category", "items_applying")
            logits = odds[:, None] + moved[..., None, None] * np.array(applying)
            rows = (np.exp(log_softmax(logits, axis=-1)) * rows).sum(axis=-1)
        with np.errstate(divide="ignore"):
            terms = shares + np.log(rows)
            if density is not None:
                terms += density(pattern[block].astype(np.int64), outcome[block])
            out[:, block] = logsumexp(terms, axis=-1) + log_constants[code]
    return out


def _of_device(posterior, table, device):
    """Return P(report | category) of each draw of the probabilities of a device, shape (S, codes, a)."""
    shares = np.stack([_flat(posterior[str(name)]) for name in device["device_share"].values], axis=-1)
    slopes = np.moveaxis(device["outcome_slope"].values, -1, 0)
    parts = (device["outcome_offset"].values + np.tensordot(shares, slopes, 1)).prod(axis=1)
    category = device["outcome_category"].values
    of_each = (category == x for x in range(category.max() + 1))
    return np.stack([parts[:, at] @ table[:, at].T for at in of_each], axis=-1)


def _flat(draws, *dims):
    """Return draws of all chains along one axis, and the other dimensions in the order that is asked for."""
    draws = draws.transpose("chain", "draw", *dims or (...,))
    return draws.values.reshape(-1, *draws.shape[2:])
