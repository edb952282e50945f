"""Draws over the longer alphabet, with respondents who deny or ignore the device, from results about the answers."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from ldpbayes.collections import Collection
from ldpbayes.collections.noncompliance import denials


def extended_draws(result: xr.DataTree, collection: Collection, cell: int | None = None) -> np.ndarray:
    """Return the draws of p′, shape (S, a), of a result: ((1 − γ) P, γ s), or P with its deniers apart, or P itself.

    Of a device with uncertain probabilities those of its outcomes.

    Parameters
    ----------
    result : DataTree
    collection : Collection
        The one that the result was fitted to.
    cell : int, optional
        The place of the cell that the collection is, in a result with cells.
    """
    draws = result["posterior"] if cell is None else result["posterior"].isel(cell=cell)
    return extended({str(name): values.values for name, values in draws.data_vars.items()}, collection)


def extended(draws: Mapping[str, np.ndarray], collection: Collection) -> np.ndarray:
    """Return what ``extended_draws`` returns, of arrays by the names of their variables.

    Parameters
    ----------
    draws : mapping of str to array
    collection : Collection
    """
    values = draws["distribution"]
    flat = values.reshape(-1, values.shape[-1])
    if values.shape[-1] == collection.n_categories:
        return flat
    law, laws = collection.device_law, collection.laws
    if law is not None:
        return law.outcomes(flat, law.theta_of(lambda name: np.ravel(draws[name])))
    if collection.denied:
        places = list(collection.owners)
        delta = np.stack([draws[name].ravel() for name, *_ in denials(collection)], axis=1)
        out = np.concatenate([flat, delta * flat[:, places]], axis=1)
        out[:, places] *= 1 - delta
        return out
    names = ["noncompliance"] if len(laws) == 1 else [f"noncompliance, {law.replace('/', '∕')}" for law in laws]
    ignoring = np.stack([draws[name].ravel() for name in names], axis=1)
    return np.concatenate([(1 - ignoring.sum(axis=1, keepdims=True)) * flat, ignoring], axis=1)
