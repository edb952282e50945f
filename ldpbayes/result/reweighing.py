"""Draws made on summaries of many cells: expand again where the draws lie, and weigh them by the reports themselves."""

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.collections import Cells
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.inference.importance import resample, weigh
from ldpbayes.result.attaching import _draws


def repilot(trace: xr.DataTree, cells: Cells, *, var_name: str = "p") -> Cells:
    """Return the likelihoods of all cells expanded at the mean and the variances of P in a trace.

    Parameters
    ----------
    trace : DataTree
        A short run, of 100 draws or so, on coarser summaries: those of ``observe(…, likelihood="surrogate")``.
    cells : Cells
        The reports.
    var_name : str
        The variable of the trace that holds P.

    Returns
    -------
    Cells
        Of summaries; ``observe`` takes them in the next run.

    Raises
    ------
    ArgumentError
        Where the trace has no such variable, it does not fit the cells, or a cell holds no reports.
    """
    checks.instance(cells, "cells", Cells, "Cells")
    draws = _draws(trace, cells, var_name)
    return cells.summaries(draws.mean(axis=(0, 1)), draws.var(axis=(0, 1)))


def reweigh(
    trace: xr.DataTree, summaries: Cells, cells: Cells, *, var_name: str = "p", random_seed: int | None = None
) -> xr.DataTree:
    """Return draws made on summaries as draws under the full likelihood, resampled with Pareto-smoothed weights.

    The log weight of a draw is Σ_c (ℓ_c(p_c) − s_c(p_c)), ℓ_c the log-likelihood of the reports of cell c and s_c that of
    its summary. All unknowns of a draw are kept together, so that what cells share, and how they hang together, is as the
    reports have it. With every cell the sum varies more: where it varies too much the draws are refused, and
    ``fit(cells, prior)`` samples on better summaries, or on the reports of the cells that need it.

    Parameters
    ----------
    trace : DataTree
        What ``pm.sample`` returned for a model that observed the summaries.
    summaries : Cells
        What it observed.
    cells : Cells
        The reports behind the summaries.
    var_name : str
        The variable of the trace that holds P.
    random_seed : int, optional
        Of the resampling.

    Returns
    -------
    DataTree
        With the group ``posterior``, in random order; attrs ``k_hat``, ``effective_draws``, ``shift_by_weights`` and
        ``checked``, which ``attach(…, attrs=…)`` takes.

    Raises
    ------
    ArgumentError
        Where the trace has no such variable, or it does not fit the cells.
    InfeasibleError
        Where the weights cannot be trusted.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling.
    """
    checks.instance(summaries, "summaries", Cells, "Cells")
    checks.instance(cells, "cells", Cells, "Cells")
    if list(summaries) != list(cells):
        raise ArgumentError("summaries must have the same cells as the reports, in the same order.")
    rng = checks.generator(random_seed, "random_seed")
    draws = _draws(trace, cells, var_name)
    flat = draws.reshape(-1, *draws.shape[2:])
    log_ratios = np.empty((len(flat), len(cells)))
    for c, (full, short) in enumerate(zip(cells.likelihoods, summaries.likelihoods, strict=True)):
        p = np.ascontiguousarray(flat[:, c].T)
        log_ratios[:, c] = full.log_likelihood(p) - short.log_likelihood(p)
    log_ratio = log_ratios.sum(axis=1)
    found = weigh(flat.reshape(len(flat), -1), log_ratio)
    if not found.verdict.accepted:
        raise InfeasibleError(
            f"The weights of these draws cannot be trusted: {found.verdict.problem}. Expand again with repilot and sample "
            "again, observe the reports themselves, or let fit sample all cells under a prior over them."
        )
    chosen = rng.permutation(resample(found.weight, rng))
    shape = draws.shape[:2]
    data = {}
    for name, values in trace["posterior"].data_vars.items():
        if values.dims[:2] == ("chain", "draw"):
            array = values.values.reshape(-1, *values.shape[2:])[chosen]
            data[name] = values.copy(data=array.reshape(*shape, *values.shape[2:]))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(data)})
    tree.attrs |= {
        "k_hat": found.k_hat,
        "effective_draws": found.effective_sample,
        "shift_by_weights": found.shift,
        "checked": found.verdict.checked,
    }
    return tree
