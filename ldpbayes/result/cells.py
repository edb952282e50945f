"""Results of many cells: one tree made of a tree per cell, and one cell's tree taken out again."""

import json
import numbers
from collections import Counter
from datetime import date

import numpy as np
import xarray as xr

from ldpbayes.collections import Cells
from ldpbayes.collections.nature import LEFT_OUT
from ldpbayes.collections.noncompliance import EXPLANATION
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.result.compliers import LATENT
from ldpbayes.result.frame import Result
from ldpbayes.result.validation import need_result

#: Covariance matrices of all cells with more entries than this are left out.
MAX_COVARIANCES = 10**7
#: What is said of all cells; the numbers of each stand in the group ``cells``.
SEVERAL = {
    "noncompliance": f"{EXPLANATION} Every cell has its own γ.",
    "pseudo": "Pseudo-posterior: every cell has weights that add up to n / deff. The respondents' own frequencies F and the "
    "evidence have no meaning under weights and are left out.",
}
#: Facts about the fit of each cell that stand in the group ``cells``.
FACTS = {
    "method": "",
    "reason": "",
    "outcome": "",
    "problems": "",
    "converged": 0,
    "interrupted": 0,
    "random_seed": 0,
    "worst_r_hat": np.nan,
    "least_ess": np.nan,
    "divergences": 0,
    "k_hat": np.nan,
    "effective_draws": np.nan,
    "frequency_draws": "",
    "log_evidence": np.nan,
    "log_evidence_error": np.nan,
    "effective_open_answers": np.nan,
    "total_sd": np.nan,
    "bound_sd": np.nan,
    "worth": "",
    "decides": "",
    "prior_decides": 0,
    "narrow_share": np.nan,
    "decides_note": "",
    "fitness": "",
    "fitness_flagged": 0,
    "fitness_p": np.nan,
    "design_effect": np.nan,
    "noncompliance_sd": np.nan,
    "compliance_statistic": np.nan,
    "compliance_p": np.nan,
    "log_bayes_factor_noncompliance": np.nan,
    "log_bayes_factor_flat": np.nan,
    "log_bayes_factor_learnt": np.nan,
    "log_bayes_factor_smooth": np.nan,
    "log_bayes_factor_own": np.nan,
    "bayes_factors": "",
}


def facts_of(count: int, **known) -> dict[str, np.ndarray]:
    """Return the FACTS of so many cells, blank where they are not known; a scalar is that of every cell."""
    return {
        name: np.array(np.broadcast_to(np.asarray(known.get(name, blank), _kind(blank)), count))
        for name, blank in FACTS.items()
    }


def stack(cells: Cells, trees: list[xr.DataTree], settings: dict) -> xr.DataTree:
    """Return one result of the results of all cells, with the dim ``cell``.

    Parameters
    ----------
    cells : Cells
    trees : list of DataTree
        The summarised result of each cell, in the order of the cells.
    settings : dict
        How all cells were fitted.

    Returns
    -------
    DataTree
        Groups as for one collection, each with the dim cell; the group ``cells`` says for each cell which method was
        used, why, and what its diagnostics say. Chains and draws are cut to the shortest of all cells.
    """
    coords = cells.cell_coords()
    chains, draws = (min(tree["posterior"].sizes[name] for tree in trees) for name in ("chain", "draw"))
    tree = Result()
    cut = {"chain": slice(chains), "draw": slice(draws)}
    for group in ("posterior", "sample_stats"):
        _join(tree, group, [part[group].isel(cut) if group in part.children else None for part in trees], coords)
    for values in tree["posterior"].data_vars.values():
        values.attrs.pop("of", None)  # hyperparameters of each cell, which the summaries of the cells have
    exact = [part["exact"].to_dataset() if "exact" in part.children else None for part in trees]
    size = trees[0]["posterior"].sizes["category"]
    if len(cells) * size**2 > MAX_COVARIANCES:
        exact = [None if part is None else part.drop_vars("distribution_cov", errors="ignore") for part in exact]
    _join(tree, "exact", exact, coords)
    _join(tree, "summary", [part["summary"] for part in trees], coords)
    tree["observed_data"] = xr.DataTree(xr.Dataset(cells.observed()))
    tree["constant_data"] = xr.DataTree(_constants(cells, [part["constant_data"].to_dataset() for part in trees], coords))
    facts = facts_of(len(trees), **{name: [_fact(part, name, blank) for part in trees] for name, blank in FACTS.items()})
    tree["cells"] = xr.DataTree(xr.Dataset({name: (("cell",), values) for name, values in facts.items()}, coords))
    tree.attrs |= _attrs(cells, trees, settings)
    return tree


def share(result: xr.DataTree, name: str, facts: dict) -> None:
    """Turn a hyperparameter of every cell, of which all have the same draws, into one of all cells.

    Parameters
    ----------
    result : DataTree
        From stack.
    name : str
        Of the hyperparameter.
    facts : dict
        With its ``{name}_mean``, ``_sd``, ``_lower`` and ``_upper``.
    """
    posterior = result["posterior"].to_dataset()
    posterior[name] = posterior[name].isel(cell=0, drop=True)
    result["posterior"] = xr.DataTree(posterior)
    summary = result["summary"].to_dataset()
    one = {key: values.isel(cell=0, drop=True) for key, values in summary.data_vars.items() if "parameter" in values.dims}
    for key in ("mean", "sd", "lower", "upper"):
        one[f"parameter_{key}"] = xr.full_like(one[f"parameter_{key}"], facts[f"{name}_{key}"])
    result["summary"] = xr.DataTree(summary.assign(one))


def select(result: xr.DataTree, cell) -> xr.DataTree:
    """Return the result of one cell, without the dim ``cell``.

    Parameters
    ----------
    result : DataTree
        A result with cells.
    cell : str, tuple or int
        Label of the cell, its key, or its position.

    Returns
    -------
    DataTree

    Raises
    ------
    ArgumentError
        Where the result has no cells, or none of that name.
    """
    need_result(result)
    if "cell" not in result["posterior"].dims:
        raise ArgumentError("result must be a result with cells; this one is of a single collection.")
    labels = [str(label) for label in result["posterior"]["cell"].values]
    key = cell if isinstance(cell, tuple) else (cell,)
    label = ", ".join(str(part) if isinstance(part, str | numbers.Number | date) else shown(part) for part in key)
    position = labels.index(label) if label in labels else cell
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(labels):
        raise ArgumentError(f"cell must be one of {listed(labels)}, got {shown(cell)}.")
    out = Result()
    for group, node in result.children.items():
        data = node.to_dataset()
        if group == "observed_data":
            out[group] = xr.DataTree(_observed(data, position))
        elif group != "cells":
            data = data.isel(cell=position, drop=True) if "cell" in data.dims else data
            out[group] = xr.DataTree(data.drop_vars([name for name in data.coords if not data[name].dims]))
    users = int(result["constant_data"]["n_reports"].values[position])
    out.attrs |= result.attrs | {"collection": labels[position], "n_reports": users}
    if "cells" in result.children:
        for name, values in result["cells"].data_vars.items():
            value = values.values[position]
            out.attrs[name] = value.item() if isinstance(value, np.generic) else value
    elif result.attrs.get("decides"):  # a sentence about all cells, not about this one
        out.attrs |= {"decides": "", "prior_decides": 0, "decides_note": result.attrs["decides"]}
    return out


def _observed(data, position):
    """Return the observed data of one cell under the names that a collection's have."""
    start = f"cell_{position}_"
    held = {name: data[name] for name in data.data_vars if str(name).startswith(start)}
    renamed = {dim: str(dim).replace(start, "") for values in held.values() for dim in values.dims}
    return xr.Dataset(
        {str(name).removeprefix(start): values.rename(_only(values, renamed)) for name, values in held.items()}
    )


def _only(values, renamed):
    return {dim: new for dim, new in renamed.items() if dim in values.dims}


def _join(tree, group, parts, coords):
    """Add a group with the variables that all cells have, along the dim cell."""
    if any(part is None for part in parts):
        return
    datasets = [part if isinstance(part, xr.Dataset) else part.to_dataset() for part in parts]
    shared = [name for name in datasets[0].data_vars if all(name in other.data_vars for other in datasets)]
    first = datasets[0]
    alike = [name for name in shared if all(other[name].sizes == first[name].sizes for other in datasets)]
    data = {name: _stacked([other[name] for other in datasets]) for name in alike}
    used = {dim for _, (dims, _) in data.items() for dim in dims}
    kept = {name: first.coords[name] for name in first.coords if set(first.coords[name].dims) <= used}
    if data:
        tree[group] = xr.DataTree(xr.Dataset(data, kept | coords, first.attrs))


def _stacked(values):
    """Return (dims, array) of one variable of all cells; the cells come after chain, draw and target."""
    dims = values[0].dims
    place = sum(dim in ("chain", "draw", "target") for dim in dims)
    return (*dims[:place], "cell", *dims[place:]), np.stack([one.values for one in values], axis=place)


def _constants(cells, parts, coords):
    """Return sizes, covariates and the settings of the prior, the same in every cell."""
    data = xr.Dataset(cells.constants(), cells.cell_coords())
    for name in parts[0].data_vars:
        if name not in data.data_vars:
            data[f"prior_{name}" if name in data.coords else name] = _stacked([part[name] for part in parts])
    if "category" in data.dims:
        data = data.assign_coords(category=parts[0]["category"].values)
    if LATENT in data.dims:
        data = data.assign_coords({LATENT: list(cells.categories)})
    return data.assign_coords(coords)


def _fact(part, name, blank):
    if name == "log_evidence" and "exact" in part.children and name in part["exact"].data_vars:
        return float(part["exact"][name])
    return part.attrs.get(name, blank)


def _kind(blank):
    return {str: object, int: np.int64, float: float}[type(blank)]


def _attrs(cells, trees, settings):
    methods = Counter(part.attrs["method"] for part in trees)
    bad = [label for label, part in zip(cells.labels, trees, strict=True) if not part.attrs.get("converged", 1)]
    independent = all(part.attrs.get("sampling") == "independent" for part in trees)
    if bad:
        first = trees[cells.labels.index(bad[0])].attrs.get("problems", "")
        outcome = f"Do not trust the cells {listed(bad)} yet: the first of them says {first}"
    else:
        outcome = f"All {len(cells)} cells were accepted by their own methods; see the group cells."
    kinds = ", ".join(f"{name} ({count} cells)" for name, count in methods.most_common())
    first = trees[0].attrs
    attrs = {
        "collection": cells.id,
        "title": cells.title,
        "n_reports": cells.n_reports,
        "n_cells": len(cells),
        "by": ", ".join(cells.by),
        "prior": f"{first['prior']}, independent in every cell",
        "prior_weight": first.get("prior_weight", np.nan),
        "method": next(iter(methods)) if len(methods) == 1 else "several",
        "reason": f"Cells without a shared prior are fitted one by one: {kinds}.",
        "settings": json.dumps(settings, sort_keys=True, default=float),
        "random_seed": settings["random_seed"],
        "sampling": "independent" if independent else "mcmc",
        "converged": int(not bad),
        "interrupted": int(any(part.attrs.get("interrupted") for part in trees)),
        "problems": "" if not bad else outcome,
        "outcome": outcome,
        "identifiability": cells.identifiability(),
        "caveat": cells.caveat(),
        "device": cells.device(),
    }
    kinds = {part.attrs.get("frequency_draws", "") for part in trees}
    attrs["frequency_draws"] = kinds.pop() if len(kinds) == 1 else "several"
    if any("frequency" not in part["posterior"].data_vars for part in trees):
        attrs["frequency_draws"] = LEFT_OUT  # draws that some cell lacks are those of none
    if cells.laws:
        attrs["noncompliance"] = SEVERAL["noncompliance"]
    if any(part.attrs.get("pseudo") for part in trees):
        attrs["pseudo"] = SEVERAL["pseudo"]
    effective = [part.attrs["effective_draws"] for part in trees if "effective_draws" in part.attrs]
    if effective:
        attrs["effective_draws"] = float(min(effective))
    for name, worst in (("worst_r_hat", max), ("least_ess", min), ("divergences", sum)):
        values = [part.attrs[name] for part in trees if name in part.attrs]
        if values:
            attrs[name] = worst(values)
    return attrs
