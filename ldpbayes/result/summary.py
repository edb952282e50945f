"""The group ``summary`` of a result: what is printed."""

import numpy as np
import xarray as xr

from ldpbayes.inference.diagnostics import TARGETS
from ldpbayes.result.fits import Fit


def summary_of(fit: Fit, posterior: xr.Dataset) -> xr.Dataset:
    """Return the group ``summary`` of a result.

    Variables have dims (target, [cell,] category) with targets distribution and frequency: the entries of a Statistics, nan
    where nothing is known of F. Derived quantities have the same variables under ``derived_…``, dims [cell,] quantity;
    hyperparameters of the prior, and of cells every number per draw, under ``parameter_…``; each array of unknowns of the
    prior under its name: ``effect_mean``, dims cell, category.

    Parameters
    ----------
    fit : Fit
        With its summary.
    posterior : Dataset
        The group of that name.
    """
    assert fit.summary is not None
    summary, dims = fit.summary, fit.data.dims
    entries = dict(summary.entries)
    targets = [entries.pop(name, None) for name in TARGETS]
    keys = targets[0] or {}  # of P
    blank = {key: np.full_like(value, np.nan) for key, value in keys.items()}
    data = {key: (("target", *dims), np.stack([(x or blank)[key] for x in targets])) for key in keys}
    coords = {"target": list(TARGETS)} | {
        name: values for name, values in posterior.coords.items() if values.dims and set(values.dims) <= set(dims)
    }
    for name, own in entries.items():
        ndim = np.ndim(own["mean"])
        if name in ("derived", "parameter"):
            dims_of = (*dims[: ndim - 1], "quantity" if name == "derived" else "parameter")
        else:
            dims_of = fit.dims[name] if name in fit.dims else fit.draws[name][0]
            coords |= {dim: posterior.coords[dim] for dim in dims_of if dim in posterior.coords}
        data |= {f"{name}_{key}": (dims_of, value) for key, value in own.items()}
    coords |= {
        dim: list(names) for dim, names in (("quantity", summary.quantities), ("parameter", summary.parameters)) if names
    }
    return xr.Dataset(data, coords, {"ci_prob": summary.ci_prob, "ci_kind": "eti"})


def unknown_arrays(posterior: xr.DataTree) -> list[str]:
    """Return the names of unknowns of the prior, or of a caller's model, that are arrays in a group ``posterior``.

    Parameters
    ----------
    posterior : DataTree
    """
    arrays = {str(name): values for name, values in posterior.data_vars.items() if values.ndim > 2}
    return [name for name, values in arrays.items() if values.attrs.get("of") in ("prior", "model")]
