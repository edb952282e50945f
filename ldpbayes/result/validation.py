"""What a result must look like: groups, variables, dimensions, draws on the simplex. Every violation is one sentence."""

import json

import numpy as np
import xarray as xr

from ldpbayes.collections.data import LEFT_OUT, MOMENTS_ONLY
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.inference.diagnostics import TARGETS
from ldpbayes.result.constants import TOLERANCE
from ldpbayes.result.facts import facts_of

#: Attributes that every result has, also one written by version 0.1.0.
ATTRS = ("collection", "n_reports", "prior", "method", "settings")
#: Variables of the group summary.
SUMMARY = ("mean", "sd", "lower", "upper", "mcse", "ess_bulk", "ess_tail", "r_hat")
#: The attr ``draws`` of a result that holds moments and intervals alone.
NO_DRAWS = "none"


def need_result(result: xr.DataTree, name: str = "result") -> None:
    """Raise an ArgumentError where an argument is no result of fit or attach at all; see validate for damaged ones."""
    posterior = result.children.get("posterior") if isinstance(result, xr.DataTree) else None
    if posterior is None or "category" not in posterior.coords:
        rule = f"{name} must be a result, the DataTree that fit or attach returns"
        if posterior is not None:
            raise ArgumentError(f"{rule}; lb.pymc.attach(trace, data) turns a trace of PyMC into one.")
        raise ArgumentError(f"{rule}, got {shown(result)}.")


def need_draws(result: xr.DataTree, name: str = "result") -> None:
    """Raise an ArgumentError where an argument is no result, or one that holds moments and intervals alone."""
    need_result(result, name)
    if result.attrs.get("draws") == NO_DRAWS:
        raise ArgumentError(
            "This answer needs draws, and this result has moments and intervals alone: fit the cells that matter again, "
            "fit(cells.take([key, …]), prior), or fewer categories."
        )


def validate(result: xr.DataTree) -> None:
    """Raise a DataError unless the tree follows the schema of a result.

    Parameters
    ----------
    result : DataTree

    Raises
    ------
    DataError
        Naming the group and the variable that are missing or damaged.
    """
    if not isinstance(result, xr.DataTree):
        raise ArgumentError(f"result must be a result, got {type(result).__name__}; write is for data.")
    for group in ("posterior", "observed_data", "constant_data"):
        if group not in result.children:
            raise DataError(f"result has no group {group!r}")
    posterior = result["posterior"]
    drawn = result.attrs.get("draws") != NO_DRAWS
    if drawn and "distribution" not in posterior.data_vars:
        raise DataError("the group 'posterior' has no variable 'distribution'")
    if drawn:
        dims = _dims(posterior["distribution"])
    else:
        dims = ("chain", "draw", *(("cell",) if "cell" in posterior.coords else ()), "category")
    if "category" not in posterior.coords or posterior.sizes["category"] < 2:
        raise DataError("the group 'posterior' has no labels for at least two categories")
    labels = np.asarray(posterior["category"].values).astype(str).tolist()
    if len(set(labels)) != len(labels):
        raise DataError("the group 'posterior' has two categories with the same label")
    if "cell" in dims and "cell" not in posterior.coords:
        raise DataError("the group 'posterior' has no labels for its cells")
    only_mean = facts_of(result).get("frequency_draws") in ("mean only", MOMENTS_ONLY, LEFT_OUT)
    for name in TARGETS:
        if name in posterior.data_vars:
            _distributions(posterior[name], name, dims)
        elif not only_mean and drawn:
            raise DataError(f"the group 'posterior' has no variable {name!r}")
    _attrs(result)
    if "summary" in result.children:
        _summary(result, dims)
    for group in ("summary", "estimate", "exact", "constant_data"):
        if group in result.children and "category" in result[group].coords:
            found = np.asarray(result[group]["category"].values).astype(str).tolist()
            if found != labels:
                raise DataError(f"the group {group!r} has other categories than the group 'posterior'")


def _dims(values):
    """Return the dims of the draws, one of the two that a result may have."""
    allowed = (("chain", "draw", "category"), ("chain", "draw", "cell", "category"))
    if values.dims not in allowed:
        raise DataError(
            f"posterior distribution must have dims chain, draw, category or chain, draw, cell, category, got {values.dims}"
        )
    if not values.size:
        raise DataError("posterior distribution has no draws")
    return values.dims


def _distributions(values, name, dims):
    """Check that every draw is a distribution."""
    if values.dims != dims:
        raise DataError(f"posterior {name} must have dims {', '.join(dims)}, got {values.dims}")
    if not np.issubdtype(values.dtype, np.floating):
        raise DataError(f"posterior {name} must hold floating-point numbers, got {values.dtype}")
    least, total = values.values.min(), values.values.sum(axis=-1)
    if not (np.isfinite(least) and np.isfinite(total).all()):
        raise DataError(f"posterior {name} holds values that are not finite")
    if least < -TOLERANCE:
        raise DataError(f"posterior {name} holds negative shares, such as {least:.3g}")
    if np.abs(total - 1).max() > TOLERANCE:
        raise DataError(f"posterior {name} does not sum to one")


def _attrs(tree):
    for name in ATTRS:
        if name not in tree.attrs:
            raise DataError(f"result has no attribute {name!r}")
    try:
        settings = json.loads(tree.attrs["settings"])
        users = float(tree.attrs["n_reports"])
    except (TypeError, ValueError, RecursionError):
        raise DataError("the attributes 'settings' and 'n_reports' must be JSON and a number") from None
    if not isinstance(settings, dict) or not users > 0:
        raise DataError("the attributes 'settings' and 'n_reports' must be a JSON object and a number above 0")


def _summary(tree, dims):
    summary = tree["summary"]
    dims_wanted = ("target", *dims[2:])
    for name in SUMMARY:
        if name not in summary.data_vars:
            raise DataError(f"the group 'summary' has no variable {name!r}")
        values = summary[name]
        if set(values.dims) != set(dims_wanted):
            raise DataError(f"summary {name} must have dims {', '.join(dims_wanted)}, got {values.dims}")
    if "target" not in summary.coords or set(map(str, summary["target"].values)) != set(TARGETS):
        raise DataError("the group 'summary' must have the targets distribution and frequency")
    if summary.sizes["category"] != tree["posterior"].sizes["category"]:
        raise DataError("the group 'summary' has another number of categories than the group 'posterior'")
    mean = summary["mean"].sel(target="distribution").values
    if not np.isfinite(mean).all() or mean.min() < -1e-6 or mean.max() > 1 + 1e-6:
        raise DataError("summary mean of the distribution must be shares from 0 to 1")


def in_one_order(draws: xr.Dataset) -> xr.Dataset:
    """Return variables whose dimensions all stand in the order in which the data set first names them.

    ArviZ's ``summary`` takes the values of a variable in the order of the data set, and its labels in that of the variable.
    It takes no further coordinates, such as the grouping columns of cells, that only some of the variables have.

    Parameters
    ----------
    draws : Dataset
        The first variable keeps its order; of two orders that contradict each other the later one gives way.
    """
    variables = draws.data_vars.values()
    order = dict.fromkeys(dim for values in variables for dim in values.dims)
    further = [name for name, x in draws.coords.items() if name not in x.dims]
    partial = [name for name in further if not all(set(draws[name].dims) <= set(values.dims) for values in variables)]
    return draws.drop_vars(partial).transpose(*order, ...)
