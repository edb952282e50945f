"""Results over a longer alphabet, with respondents who ignore the device, as results about those who follow it."""

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.collections import Collection
from ldpbayes.collections.noncompliance import collapse
from ldpbayes.errors import ArgumentError
from ldpbayes.result.building import LATENT
from ldpbayes.result.frame import Result
from ldpbayes.result.validation import TARGETS, need_result


def among_compliers(result: xr.DataTree, collection: Collection) -> xr.DataTree:
    """Return a result whose P and F are those of the respondents who follow the device.

    P = p′_{1…a}/(1 − γ), and F is the distribution of the true values of the compliers among these respondents. The variable
    ``noncompliance`` is γ; with several laws each has a variable of its name.

    Parameters
    ----------
    result : DataTree
        The result of an engine for a collection made by ``with_noncompliers``.
    collection : Collection

    Returns
    -------
    DataTree
        Of the interval's ends and moments that an engine knows exactly only the log-evidence is kept: they are those of p′.
    """
    from ldpbayes.inference.diagnostics import summarise

    need_result(result)
    checks.instance(collection, "collection", Collection, "a Collection made by with_noncompliers")
    if not collection.laws or collection.n_categories != result["posterior"].sizes["category"]:
        raise ArgumentError("collection must be the one made by with_noncompliers that the result was fitted to.")
    size, held = len(collection.answers), {name: group.to_dataset() for name, group in result.children.items()}
    extended = held["posterior"]
    posterior = extended.isel(category=slice(size))
    shares = {name: collapse(extended[name].values, size) for name in TARGETS if name in extended}
    posterior = posterior.assign({name: posterior[name].copy(data=values) for name, values in shares.items()})
    out = Result(children={"posterior": xr.DataTree(posterior)})
    for group in ("sample_stats", "observed_data"):
        if group in held:
            out[group] = xr.DataTree(held[group])
    if "exact" in held and "log_evidence" in held["exact"]:
        out["exact"] = xr.DataTree(held["exact"][["log_evidence"]])
    constant = held["constant_data"]
    if "category" in constant.dims:
        constant = constant.rename({"category": LATENT}).assign_coords({LATENT: list(collection.categories)})
    out["constant_data"] = xr.DataTree(constant)
    out.attrs |= result.attrs
    return summarise(out, result["summary"].attrs["ci_prob"])


def extended_draws(result: xr.DataTree, collection: Collection) -> np.ndarray:
    """Return the draws of p′ = ((1 − γ) P, γ s), shape (S, a), of a result; P itself where everybody follows the device.

    Parameters
    ----------
    result : DataTree
    collection : Collection
        The one that the result was fitted to.
    """
    values = result["posterior"]["distribution"].values
    flat = values.reshape(-1, values.shape[-1])
    if values.shape[-1] == collection.n_categories:
        return flat
    laws = collection.laws
    names = ["noncompliance"] if len(laws) == 1 else [f"noncompliance, {law.replace('/', '∕')}" for law in laws]
    ignoring = np.stack([result["posterior"][name].values.ravel() for name in names], axis=1)
    return np.concatenate([(1 - ignoring.sum(axis=1, keepdims=True)) * flat, ignoring], axis=1)
