"""Results over a longer alphabet, with respondents who deny or ignore the device, as results about the answers."""

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.collections import Collection
from ldpbayes.collections.noncompliance import collapse, denials
from ldpbayes.errors import ArgumentError
from ldpbayes.result.building import LATENT
from ldpbayes.result.frame import Result
from ldpbayes.result.validation import TARGETS, need_result


def among_compliers(result: xr.DataTree, collection: Collection) -> Result:
    """Return a result whose P and F are those of the respondents who follow the device, or of all where some deny.

    P = p′_{1…a}/(1 − γ), and F is the distribution of the true values of the compliers among these respondents. The variable
    ``noncompliance`` is γ; with several laws each has a variable of its name. Where some deny, their shares are added to
    those of the categories that they deny, and ``denial`` is δ.

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
    from ldpbayes.inference.diagnostics import summarize

    need_result(result)
    checks.instance(collection, "collection", Collection, "a Collection made by with_noncompliers")
    if not collection.laws or collection.n_categories != result["posterior"].sizes["category"]:
        raise ArgumentError("collection must be the one made by with_noncompliers that the result was fitted to.")
    size, owners = len(collection.answers), collection.owners
    held = {name: group.to_dataset() for name, group in result.children.items()}
    extended = held["posterior"]
    posterior = extended.isel(category=slice(size))
    shares = {name: collapse(extended[name].values, owners) for name in TARGETS if name in extended}
    posterior = posterior.assign({name: posterior[name].copy(data=values) for name, values in shares.items()})
    out = Result(children={"posterior": xr.DataTree(posterior)})
    for group in ("sample_stats", "observed_data"):
        if group in held:
            out[group] = xr.DataTree(held[group])
    if "exact" in held:
        kept = [name for name in held["exact"].data_vars if str(name).startswith(("answers_", "derived_", "log_evidence"))]
        known = held["exact"][kept].drop_vars("category", errors="ignore")
        renamed = {
            name: str(name).replace("answers", "distribution").replace("answer", "category") for name in known.variables
        }
        out["exact"] = xr.DataTree(known.rename(renamed))
    constant = held["constant_data"]
    if "category" in constant.dims:
        constant = constant.rename({"category": LATENT}).assign_coords({LATENT: list(collection.categories)})
    out["constant_data"] = xr.DataTree(constant)
    out.attrs |= result.attrs
    return summarize(out, result["summary"].attrs["ci_prob"])


def extended_draws(result: xr.DataTree, collection: Collection, cell: int | None = None) -> np.ndarray:
    """Return the draws of p′, shape (S, a), of a result: ((1 − γ) P, γ s), or P with its deniers apart, or P itself.

    Parameters
    ----------
    result : DataTree
    collection : Collection
        The one that the result was fitted to.
    cell : int, optional
        The place of the cell that the collection is, in a result with cells.
    """
    draws = result["posterior"] if cell is None else result["posterior"].isel(cell=cell)
    values = draws["distribution"].values
    flat = values.reshape(-1, values.shape[-1])
    if values.shape[-1] == collection.n_categories:
        return flat
    laws = collection.laws
    if collection.denied:
        places = list(collection.owners)
        delta = np.stack([draws[name].values.ravel() for name, *_ in denials(collection)], axis=1)
        out = np.concatenate([flat, delta * flat[:, places]], axis=1)
        out[:, places] *= 1 - delta
        return out
    names = ["noncompliance"] if len(laws) == 1 else [f"noncompliance, {law.replace('/', '∕')}" for law in laws]
    ignoring = np.stack([draws[name].values.ravel() for name in names], axis=1)
    return np.concatenate([(1 - ignoring.sum(axis=1, keepdims=True)) * flat, ignoring], axis=1)
