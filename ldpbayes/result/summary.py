"""The group ``summary`` of a result: what is printed."""

import numpy as np
import xarray as xr

from ldpbayes.inference.diagnostics import TARGETS, Summary


def write_summary(result: xr.DataTree, summary: Summary) -> None:
    """Add the group ``summary`` to a result.

    Variables have dims (target, [cell,] category) with targets distribution and frequency: the entries of a Summary, nan
    where nothing is known of F. Derived quantities have the same variables under ``derived_…``, dims [cell,] quantity;
    hyperparameters of the prior, and of cells every number per draw, under ``parameter_…``; each array of unknowns of the
    prior under its name: ``effect_mean``, dims cell, category.

    Parameters
    ----------
    result : DataTree
        With draws.
    summary : Summary
    """
    posterior, entries = result["posterior"], dict(summary.entries)
    first = posterior["distribution"]
    dims, shape = first.dims[2:], first.shape[2:]
    targets = [entries.pop(name, None) for name in TARGETS]
    blank = np.full(shape, np.nan)
    keys = targets[0] or {}  # of P
    data = {key: (("target", *dims), np.stack([blank if x is None else x[key] for x in targets])) for key in keys}
    coords = {"target": list(TARGETS)} | {
        name: values for name, values in first.coords.items() if values.dims and set(values.dims) <= set(dims)
    }
    dims_of = {"derived": (*dims[:-1], "quantity"), "parameter": ("parameter",)}
    for name, own in entries.items():
        if name not in dims_of:
            dims_of[name] = posterior[name].dims[2:]
            coords |= {dim: posterior[name].coords[dim] for dim in dims_of[name] if dim in posterior[name].coords}
        data |= {f"{name}_{key}": (dims_of[name], value) for key, value in own.items()}
    coords |= {
        dim: list(names) for dim, names in (("quantity", summary.quantities), ("parameter", summary.parameters)) if names
    }
    result["summary"] = xr.DataTree(xr.Dataset(data, coords, {"ci_prob": summary.ci_prob, "ci_kind": "eti"}))


def unknown_arrays(posterior: xr.DataTree) -> list[str]:
    """Return the names of unknowns of the prior, or of a caller's model, that are arrays in a group ``posterior``.

    Parameters
    ----------
    posterior : DataTree
    """
    arrays = {str(name): values for name, values in posterior.data_vars.items() if values.ndim > 2}
    return [name for name, values in arrays.items() if values.attrs.get("of") in ("prior", "model")]
