"""The pointwise log-likelihood of a regression, from the reports and columns that its result holds."""

import numpy as np
import xarray as xr
from scipy.special import log_softmax

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError

#: A pointwise log-likelihood with more entries than this is not written out.
MAX_POINTWISE = 5 * 10**7
#: Numbers that a block of draws × reports × categories may hold.
BLOCK = 2**22


def of_regression(result: xr.DataTree, *, by: str | None = None) -> xr.DataTree:
    """Add the group ``log_likelihood`` to a result of regress.

    Parameters
    ----------
    result : DataTree
    by : {"report", "cell"}, optional
        What is one observation: a user's report, in the order of the rows of the data, so that models with other terms can
        be compared; or all reports of a distinct row of covariates.

    Returns
    -------
    DataTree
        The same tree, with the variable ``reports``.

    Raises
    ------
    ArgumentError
        For a weighted fit, whose likelihood is no product over users.
    InfeasibleError
        Where there are too many reports.
    """
    checks.choice(by, "by", (None, "report", "cell"))
    if result.attrs.get("weighted"):
        raise ArgumentError("result must be a fit without survey weights; a weighted likelihood is no product over users.")
    observed, constant, design = (result[name].to_dataset() for name in ("observed_data", "constant_data", "design"))
    table, log_constants = constant["likelihood_rows"].values, constant["log_constants"].values
    code, cell, count = (observed[name].values for name in ("code", "cell", "count"))
    informative = (np.ptp(table, axis=1) > 0)[code] & (count > 0)  # other reports say nothing about P, in any model
    pair, which = np.unique(np.stack([cell[informative], code[informative]]), axis=1, return_inverse=True)
    posterior = result["posterior"]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    users = int(count[informative].sum())
    if by != "cell" and users * chains * draws > MAX_POINTWISE:
        if by == "report":
            raise InfeasibleError(
                f"The log-likelihood of single reports has {users * chains * draws:.3g} entries (reports × draws), more "
                f"than {MAX_POINTWISE:.3g}; thin the draws, or compare cells."
            )
        by = "cell"
    found = _of_pairs(posterior, design, table, log_constants, pair)
    if by == "cell":
        weight = np.bincount(which.ravel(), count[informative])
        starts = np.flatnonzero(np.append(True, np.diff(pair[0]) > 0))
        array, dim = np.add.reduceat(found * weight, starts, axis=1), "cell"
        coords = {"cell": pair[0][starts]}
    else:
        each = np.repeat(which.ravel(), count[informative].astype(np.int64))
        array, dim, coords = found[:, each], "report", {"report": np.arange(each.size)}
    coords = {"chain": posterior["chain"].values, "draw": posterior["draw"].values} | coords
    array = array.reshape(chains, draws, -1)
    result["log_likelihood"] = xr.DataTree(xr.Dataset({"reports": (("chain", "draw", dim), array)}, coords))
    return result


def _of_pairs(posterior, design, table, log_constants, pair):
    """Return log P(report | draw) of pairs of a distinct row of covariates and a report, shape (S, pairs)."""
    coefficients = posterior["coefficients"].values
    coefficients = coefficients.reshape(-1, *coefficients.shape[2:])
    size, a = len(coefficients), coefficients.shape[-1]
    out, step = np.empty((size, pair.shape[1])), max(1, BLOCK // (size * a))
    with np.errstate(divide="ignore"):
        log_table = np.log(table)
    for start in range(0, pair.shape[1], step):
        cell, code = pair[:, start : start + step]
        eta = design["columns"].values[cell] @ coefficients
        for name in (str(name).removeprefix("index ") for name in design.data_vars if str(name).startswith("index ")):
            effects = posterior[name].values.reshape(size, -1, a)
            eta = eta + design[f"value {name}"].values[cell][:, None] * effects[:, design[f"index {name}"].values[cell]]
        joint = log_softmax(eta, axis=-1) + log_table[code]
        top = joint.max(axis=-1, keepdims=True)
        out[:, start : start + step] = top[..., 0] + np.log(np.exp(joint - top).sum(axis=-1)) + log_constants[code]
    return out
