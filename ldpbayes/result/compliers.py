"""Draws over the longer alphabet, with respondents who deny or ignore the device, from results about the answers."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from ldpbayes.collections import Collection


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
    if collection.wrapper is None or values.shape[-1] == collection.n_categories:
        return values.reshape(-1, values.shape[-1])
    return collection.wrapper.extended(draws, collection)
