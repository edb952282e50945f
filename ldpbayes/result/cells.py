"""Results of many cells: one tree made of a tree per cell, and one cell's tree taken out again."""

import numbers
from collections import Counter
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.collections import Cells
from ldpbayes.collections.cells import FACTS
from ldpbayes.collections.data import LEFT_OUT
from ldpbayes.collections.noncompliance import words_of
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.inference.diagnostics import Diagnostics, entries_of, summarize
from ldpbayes.inference.diagnostics import of_cells as of_cells_together
from ldpbayes.inference.ends import numerical_error
from ldpbayes.methods.answer import MethodAnswer
from ldpbayes.result.building import build
from ldpbayes.result.constants import MAX_COVARIANCES
from ldpbayes.result.facts import DETAILS, facts_of, state
from ldpbayes.result.frame import Result
from ldpbayes.result.validation import NO_DRAWS, TARGETS, need_result


def facts_of_cells(count: int, **known) -> dict[str, np.ndarray]:
    """Return the FACTS of so many cells, blank where they are not known; a scalar is that of every cell."""
    return {
        name: np.array(np.broadcast_to(np.asarray(known.get(name, blank), _kind(blank)), count))
        for name, blank in FACTS.items()
    }


def of_cells(
    cells: Cells,
    prior: Any,
    facts: dict[str, np.ndarray],
    settings: dict,
    *,
    draws: dict,
    exact: dict,
    attrs: dict,
    **more: Any,
) -> Result:
    """Return the result of cells with posteriors of their own.

    Parameters
    ----------
    cells : Cells
    prior : AbstractPrior
        Of each cell.
    facts : dict of (cells,) arrays
        From facts_of_cells: what they say of the cells is said of the result.
    settings : dict
        How all cells were fitted.
    draws, exact, attrs, **more
        As in build.
    """
    methods = Counter(facts["method"].tolist())
    how = set(facts["frequency_draws"].tolist())
    shared = {
        "n_cells": len(cells),
        "by": ", ".join(cells.by),
        "prior": f"{prior.describe()}, independent in every cell",
        "random_seed": settings["random_seed"],
        "frequency_draws": how.pop() if len(how) == 1 else "several",
    }
    if draws and "frequency" not in draws:
        shared["frequency_draws"] = LEFT_OUT  # draws that some cell lacks are those of none
    if cells.laws:
        shared |= words_of(cells).of_each()
    method = next(iter(methods)) if len(methods) == 1 else "several"
    arguments = {"settings": settings, "draws": draws, "exact": exact, "facts": facts, "attrs": shared | attrs}
    return build(cells, prior, method=method, **arguments, **more)


def of_answers(
    cells: Cells,
    prior: Any,
    answers: list[tuple[MethodAnswer, str]],
    settings: dict,
    attrs: dict | None = None,
) -> Result:
    """Return the result of cells whose draws are independent.

    Parameters
    ----------
    cells : Cells
    prior : AbstractPrior
        Of each cell.
    answers : list of (MethodAnswer, str)
        Of each cell, and why its method. Emptied: with those of all cells beside them, the draws would take memory twice.
    settings : dict
        How all cells were fitted.
    attrs : dict, optional
        Further facts, which all cells share, as they do the unknowns of the prior.
    """
    each, ci_prob = [answer.posterior for answer, _ in answers], settings["ci_prob"]
    said = [answer.facts | {"reason": reason} for answer, reason in answers]
    diagnostics = of_cells_together(cells.labels, [answer.diagnostics for answer, _ in answers])
    answers.clear()
    first, count, attrs = each[0], len(each), attrs or {}
    cut = [slice(min(one.length[axis] for one in each)) for axis in (0, 1)]
    unknown = [name for name, (_, _, *about) in first.draws.items() if about]
    names = [name for name in first.draws if name not in unknown and all(name in one.draws for one in each)]
    effective = {name: _stacked([_worth(one, name) for one in each]) for name in names}
    summaries = {}
    if any(one.exact.keys() != first.exact.keys() for one in each):
        summaries = {name: _entries([_summary(one, name, ci_prob) for one in each]) for name in names if name in TARGETS}
    exact = {name: _stacked([one.exact[name] for one in each]) for name in first.exact if _alike(each, name)}
    facts = facts_of_cells(count, **{name: [one.get(name, blank) for one in said] for name, blank in FACTS.items()})
    facts["log_evidence"] = np.array([one.exact.get("log_evidence", facts["log_evidence"][k]) for k, one in enumerate(each)])
    draws: dict[str, tuple] = {}
    for name in names:
        dims = ("cell", "category") if name in TARGETS else ("cell",)
        draws[name] = dims, _side_by_side([one.draws.pop(name)[1][*cut] for one in each])
    draws |= {name: ((), first.draws[name][1][*cut], {"of": "prior"}) for name in unknown}
    about = {"reason": _kinds(facts), **cells.stated, **attrs}
    worth = diagnostics.effective_draws
    whole = Diagnostics("independent", worth)
    summary = summarize(draws, whole, ci_prob, exact=exact, facts=attrs, effective=effective, known=summaries)
    summary = replace(summary, diagnostics=diagnostics)
    return of_cells(cells, prior, facts, settings, draws=draws, exact=exact, attrs=about, summary=summary)


def _worth(posterior, name):
    """Return how many independent draws those of a variable of one cell are worth, of the shape of one draw."""
    values = posterior.draws[name][1]
    drawn = posterior.diagnostics.effective_draws
    worth = (posterior.effective or {}).get(name, values.shape[0] * values.shape[1] if drawn is None else drawn)
    worth = np.asarray(worth, dtype=float)
    return np.broadcast_to(worth if worth.size > 1 else worth.reshape(()), values.shape[2:])


def _summary(posterior, name, ci_prob):
    """Return the summary entries of P or F of one cell."""
    off = numerical_error(posterior.facts, ci_prob)
    worth = _worth(posterior, name)
    return entries_of(posterior.draws[name][1], posterior.exact, name, ci_prob, True, worth, off=off)


def _entries(summaries):
    """Return summary entries with the axis of cells from those of each."""
    return {key: _stacked([summary[key] for summary in summaries]) for key in summaries[0]}


def _stacked(arrays):
    return np.stack([np.asarray(array) for array in arrays])


def _alike(each, name):
    """Return whether all cells have an entry of ``exact``, of one size, and it is not too large."""
    sizes = {np.shape(one.exact[name]) if name in one.exact else None for one in each}
    return len(sizes) == 1 and not (name == "distribution_cov" and len(each) * np.prod(sizes.pop()) > MAX_COVARIANCES)


def _side_by_side(arrays):
    """Return the draws of all cells, (chains, draws, cells, …): those of one quantity lie side by side in memory."""
    out = np.empty((len(arrays), *arrays[0].shape[2:], *arrays[0].shape[:2]))
    for k, array in enumerate(arrays):
        out[k], arrays[k] = np.moveaxis(array, (0, 1), (-2, -1)), None
    return np.moveaxis(out, (-2, -1), (0, 1))


def _kinds(facts):
    """Return the sentence on the methods of all cells."""
    kinds = ", ".join(f"{name} ({count} cells)" for name, count in Counter(facts["method"]).most_common())
    return f"Cells without a shared prior have posteriors of their own: {kinds}."


def stack(cells: Cells, prior: Any, trees: list[xr.DataTree], settings: dict) -> Result:
    """Return one result of the results of all cells, with the dim ``cell``.

    Parameters
    ----------
    cells : Cells
    prior : AbstractPrior
        Of each cell.
    trees : list of DataTree
        The summarized result of each cell, in the order of the cells.
    settings : dict
        How all cells were fitted.

    Returns
    -------
    Result
        Groups as for one collection, each with the dim cell; the group ``cells`` says for each cell which method was
        used, why, and what its diagnostics say. Chains and draws are cut to the shortest of all cells.
    """
    alike = [name for name in ("chain", "draw") if name in trees[0]["posterior"].dims]  # none, of moments alone
    cut = {name: slice(min(tree["posterior"].sizes[name] for tree in trees)) for name in alike}
    posterior, exact = _joined(trees, "posterior", cut), _joined(trees, "exact")
    labels = {str(name): values.values for name, values in trees[0]["posterior"].coords.items() if name not in cut}
    if len(cells) * len(labels["category"]) ** 2 > MAX_COVARIANCES:
        exact.pop("distribution_cov", None)
    facts = facts_of_cells(
        len(trees), **{name: [_fact(tree, name, blank) for tree in trees] for name, blank in FACTS.items()}
    )
    diagnostics = of_cells_together(cells.labels, [Diagnostics.from_attrs(facts_of(tree)) for tree in trees])
    attrs = {
        "prior_weight": facts_of(trees[0]).get("prior_weight", np.nan),
        "reason": _kinds(facts),
        **diagnostics.to_attrs(),
        **cells.stated,
    }
    if not cut:
        attrs["draws"] = NO_DRAWS
    draws = {name: (dims[2:], values) for name, (dims, values) in posterior.items()}
    values_of = {name: values for name, (_, values) in exact.items()}
    tree = of_cells(cells, prior, facts, settings, draws=draws, exact=values_of, attrs=attrs, coords=labels)
    for group, at in (("sample_stats", cut), ("summary", {}), ("sensitivity", {})):
        if variables := _joined(trees, group, at):
            first = trees[0][group]
            tree[group] = xr.DataTree(xr.Dataset(variables, dict(first.isel(at).coords) | cells.cell_coords(), first.attrs))
    return tree


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
    for node in (out, out.children.get(DETAILS, out)):
        node.attrs.pop("clusters", None)
    if "cells" in result.children:
        facts = {str(name): values.values[position] for name, values in result["cells"].data_vars.items()}
        state(out, {name: value.item() if isinstance(value, np.generic) else value for name, value in facts.items()})
    elif result.attrs.get("decides"):  # a sentence about all cells, not about this one
        state(out, {"decides": "", "prior_decides": 0, "decides_note": result.attrs["decides"]})
    return out


def _observed(data, position):
    """Return the observed data of one cell under the names that a collection's have."""
    start = f"cell_{position}_"
    columns = data[[name for name in data.data_vars if str(name).startswith(start)]]
    return columns.rename({name: str(name).removeprefix(start) for name in (*columns.data_vars, *columns.dims)})


def _joined(trees, group, at=None):
    """Return the variables of a group that all cells have, of one size, as {name: (dims, array)} with the dim cell."""
    if not all(group in tree.children for tree in trees):
        return {}
    first, *others = groups = [tree[group].to_dataset().isel(at or {}) for tree in trees]
    alike = [name for name in first if all(name in ds and ds[name].sizes == first[name].sizes for ds in others)]
    out = {}
    for name in alike:  # the cells come after chain, draw and target
        dims = first[name].dims
        place = sum(dim in ("chain", "draw", "target") for dim in dims)
        out[str(name)] = (*dims[:place], "cell", *dims[place:]), np.stack([ds[name].values for ds in groups], axis=place)
    return out


def _fact(tree, name, blank):
    if name == "log_evidence" and "exact" in tree.children and name in tree["exact"].data_vars:
        return float(tree["exact"][name])
    return facts_of(tree).get(name, blank)


def _kind(blank):
    return {str: object, int: np.int64, float: float}[type(blank)]
