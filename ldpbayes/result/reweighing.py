"""Draws made on summaries of many cells: expand again where the draws lie, and weigh them by the reports themselves."""

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.collections import Cells
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.inference.importance import resample, weigh
from ldpbayes.result.attaching import _draws

#: The log of a joint weight varies more with every cell: beyond so many, each cell has its own weights.
MAX_CELLS = 600


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
    _check(cells, "cells")
    draws = _draws(trace, cells, var_name)
    return cells.summaries(draws.mean(axis=(0, 1)), draws.var(axis=(0, 1)))


def reweigh(
    trace: xr.DataTree, summaries: Cells, cells: Cells, *, var_name: str = "p", random_seed: int | None = None
) -> xr.DataTree:
    """Return draws made on summaries as draws under the full likelihood, resampled with Pareto-smoothed weights.

    The log weight of a draw is Σ_c (ℓ_c(p_c) − s_c(p_c)), ℓ_c the log-likelihood of the reports of cell c and s_c that of
    its summary. All unknowns of a draw are kept together. Beyond MAX_CELLS cells the sum varies too much: then the draws of
    P in each cell are resampled by the weights of that cell alone, and all other unknowns stay as they were drawn.

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
        Where the weights cannot be trusted: of all cells, or beyond MAX_CELLS those of a cell.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling.
    """
    _check(summaries, "summaries")
    _check(cells, "cells")
    if list(summaries) != list(cells):
        raise ArgumentError("summaries must have the same cells as the reports, in the same order.")
    rng = checks.generator(random_seed, "random_seed")
    draws = _draws(trace, cells, var_name)
    flat = draws.reshape(-1, *draws.shape[2:])
    log_ratios = np.empty((len(flat), len(cells)))
    for c, (full, short) in enumerate(zip(cells.likelihoods, summaries.likelihoods, strict=True)):
        p = np.ascontiguousarray(flat[:, c].T)
        log_ratios[:, c] = full.log_likelihood(p) - np.array([short.log_likelihood(q) for q in p.T])
    if len(cells) > MAX_CELLS:
        return _cell_by_cell(trace, cells, draws, log_ratios, var_name, rng)
    log_ratio = log_ratios.sum(axis=1)
    found = weigh(flat.reshape(len(flat), -1), log_ratio)
    if not found.verdict.accepted:
        raise InfeasibleError(
            f"The weights of these draws cannot be trusted: {found.verdict.problem}. Expand again with repilot and sample "
            "again, or observe the reports themselves."
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


def _cell_by_cell(trace, cells, draws, log_ratios, var_name, rng):
    """Return the draws with those of each cell resampled by its own weights."""
    chains, length = draws.shape[:2]
    flat = draws.reshape(chains * length, *draws.shape[2:])
    mended, every = np.empty_like(flat), []
    for c, label in enumerate(cells.labels):
        found = weigh(flat[:, c], log_ratios[:, c])
        if not found.verdict.accepted:
            raise InfeasibleError(
                f"The weights of the draws of cell {label} cannot be trusted: {found.verdict.problem}. Expand again with "
                "repilot and sample again, or observe the reports themselves."
            )
        mended[:, c] = flat[rng.permutation(resample(found.weight, rng)), c]
        every.append(found)
    names = [name for name, values in trace["posterior"].data_vars.items() if values.dims[:2] == ("chain", "draw")]
    data = {name: trace["posterior"][name] for name in names}
    data[var_name] = data[var_name].copy(data=mended.reshape(draws.shape))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(data)})
    worst = max(every, key=lambda found: found.k_hat)
    tree.attrs |= {
        "k_hat": worst.k_hat,
        "effective_draws": min(found.effective_sample for found in every),
        "shift_by_weights": max(found.shift for found in every),
        "checked": f"Each cell has its own weights; the worst of all cells: {worst.verdict.checked}",
    }
    return tree


def _check(cells, name):
    if not isinstance(cells, Cells):
        raise ArgumentError(f"{name} must be Cells, got {type(cells).__name__}.")
