"""Fits whose moments and intervals are known without draws, or were taken from draws that are not kept."""

from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes.collections.data import LEFT_OUT, MOMENTS_ONLY
from ldpbayes.inference.diagnostics import TARGETS, Diagnostics, Statistics
from ldpbayes.inference.ends import ACCURACY, numerical_error
from ldpbayes.methods.frequency import frequency_intervals
from ldpbayes.result.constants import MAX_OBSERVED
from ldpbayes.result.fits import Fit
from ldpbayes.result.validation import NO_DRAWS


def of_moments(
    data: Any, prior: Any, *, method: str, settings: dict, exact: dict, ci_prob: float, attrs: dict, facts: dict
) -> Fit:
    """Return the Fit of a posterior whose moments, intervals and evidence are known, without draws.

    Parameters
    ----------
    data : Cells, Collection or Summarized
    prior : AbstractPrior
    method : str
    settings : dict
    exact : dict
        distribution_mean, distribution_sd, distribution_lower, distribution_upper, frequency_mean, frequency_sd of shape
        ([cells,] a) and log_evidence of shape ([cells]).
    ci_prob : float
    attrs : dict
        Further facts, the diagnostics among them.
    facts : dict of (cells,) arrays
        Of each cell.
    """
    sizes = np.reshape([cell.n_reports for cell in data.collections()], (*data.shape[:-1], 1))
    attrs_of = {"draws": NO_DRAWS, "frequency_draws": LEFT_OUT}
    if "frequency_mean" in exact:
        exact = exact | frequency_intervals(exact, sizes, ci_prob)
        how = "those of P moved to the mean and sd of F; of a beta distribution where F is much narrower"
        attrs_of |= {"frequency_draws": MOMENTS_ONLY, "frequency_intervals": how}
    keeps, said = len(data.likelihoods) <= MAX_OBSERVED, attrs_of | attrs
    summary = _statistics(exact, prior, ci_prob, attrs)
    return Fit(data, prior, method, settings, exact=exact, cells=facts, facts=said, observed=keeps, summary=summary)


def _statistics(exact, prior, ci_prob, attrs):
    """Return the Statistics of moments without draws; of F none under weights."""
    blank, off = {"mcse": 0.0} | dict.fromkeys(("ess_bulk", "ess_tail", "r_hat"), np.nan), numerical_error(attrs, ci_prob)
    entries, ends = {}, ("mean", "sd", "lower", "upper")
    for target in TARGETS:
        if f"{target}_mean" not in exact:
            continue
        entries[target] = {key: exact[f"{target}_{key}"] for key in ends}
        sd = entries[target]["sd"]
        for key in ("lower_error", "upper_error"):
            entries[target][key] = off * sd if target == "distribution" else exact.get(f"{target}_{key}", sd * np.nan)
        entries[target] |= {key: np.full_like(sd, value) for key, value in blank.items()}
    if learnt := tuple(name for name in prior.hyperparameter_names if f"{name}_mean" in attrs):
        keys = entries["distribution"].keys()
        known = {key: [attrs.get(f"{name}_{key}", blank.get(key, np.nan)) for name in learnt] for key in keys}
        solved = [ACCURACY.solved * attrs[f"{name}_sd"] for name in learnt]
        known |= {"lower_error": solved, "upper_error": solved}
        entries["parameter"] = {key: np.array(values) for key, values in known.items()}
    return Statistics(entries, (), learnt, ci_prob, Diagnostics.from_attrs(attrs))


def summary_alone(fit: Fit) -> Fit:
    """Return a Fit without its draws: their summary stays, with its Monte Carlo errors, and their covariance of P.

    Parameters
    ----------
    fit : Fit
        Summarized.
    """
    shares, exact = fit.flat()["distribution"], fit.exact
    if shares.ndim == 2 and not exact:
        exact = {"distribution_cov": np.atleast_2d(np.cov(shares.T))}
    why = f"The moments and ends that are no integrals come from {len(shares):,} draws, which are not kept."
    why = f"{fit.facts['reason']} {why}"
    facts, dims = fit.facts | {"draws": NO_DRAWS, "reason": why}, {name: dims for name, (dims, *_) in fit.draws.items()}
    return replace(fit, draws={}, stats={}, exact=exact, facts=facts, dims=dims)
