"""Fits of many cells: one made of those of each cell; and one cell's result taken out again."""

import numbers
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.collections import Cells
from ldpbayes.collections.cells import FACTS
from ldpbayes.collections.data import LEFT_OUT, designs_of
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.inference.diagnostics import Diagnostics, entries_of, summarize
from ldpbayes.inference.diagnostics import of_cells as of_cells_together
from ldpbayes.inference.ends import numerical_error
from ldpbayes.methods.answer import MethodAnswer
from ldpbayes.result.constants import MAX_COVARIANCES
from ldpbayes.result.facts import DETAILS, facts_of, state
from ldpbayes.result.fits import Fit
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
) -> Fit:
    """Return the Fit of cells with posteriors of their own.

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
        Of a Fit, attrs being its facts.
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
    shared |= cells.explained()
    method = next(iter(methods)) if len(methods) == 1 else "several"
    return Fit(cells, prior, method, settings, draws, exact=exact, cells=facts, facts=shared | attrs, **more)


def of_answers(
    cells: Cells,
    prior: Any,
    answers: list[tuple[MethodAnswer, str]],
    settings: dict,
    attrs: dict | None = None,
) -> Fit:
    """Return the Fit of cells whose draws are independent.

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


def stack(cells: Cells, prior: Any, fits: Sequence[Fit], settings: dict) -> Fit:
    """Return one Fit of those of all cells, with the dim ``cell``.

    Parameters
    ----------
    cells : Cells
    prior : AbstractPrior
        Of each cell.
    fits : sequence of Fit
        Of each cell, in the order of the cells.
    settings : dict
        How all cells were fitted.

    Returns
    -------
    Fit
        With what all cells have: its facts ``cells`` say for each which method was used, why, and what its diagnostics
        say. Chains and draws are cut to the shortest of all cells.
    """
    first, said = fits[0], [fit.said for fit in fits]
    lengths = [np.shape(fit.draws["distribution"][1])[:2] for fit in fits if fit.draws]
    cut = [slice(min(sizes)) for sizes in zip(*lengths, strict=True)]
    arrays = _joined([{name: values[*cut] for name, (_, values, *_) in fit.draws.items()} for fit in fits], 2)
    exact = _joined([fit.exact for fit in fits])
    if len(cells) * len(first.categories) ** 2 > MAX_COVARIANCES:
        exact.pop("distribution_cov", None)
    facts = facts_of_cells(len(fits), **{name: [one.get(name, blank) for one in said] for name, blank in FACTS.items()})
    facts["log_evidence"] = exact.get("log_evidence", facts["log_evidence"])
    diagnostics = of_cells_together(cells.labels, [Diagnostics.from_attrs(one) for one in said])
    attrs = {"prior_weight": first.prior_weight, "reason": _kinds(facts), **diagnostics.to_attrs(), **cells.stated}
    if not cut:
        attrs["draws"] = NO_DRAWS
    scaled = [fit.scaled for fit in fits]
    dims = dict(first.dims) | {name: dims for name, (dims, *_) in first.draws.items()}
    return of_cells(
        cells,
        prior,
        facts,
        settings,
        draws={name: (("cell", *dims[name]), values) for name, values in arrays.items()},
        exact=exact,
        attrs=attrs,
        coords=first.labels,
        stats=_joined([{name: np.asarray(values)[*cut] for name, values in fit.stats.items()} for fit in fits], 2),
        summary=_statistics([fit.summary for fit in fits], diagnostics),
        dims={name: ("cell", *of) for name, of in dims.items()},
        scaled=[one for each in scaled for one in each or ()] if all(scaled) else None,
    )


def _joined(each, axis=0):
    """Return the arrays that all cells have, of one size, with the axis of cells."""
    first, *others = each
    alike = [name for name in first if all(name in one and np.shape(one[name]) == np.shape(first[name]) for one in others)]
    return {name: np.stack([np.asarray(one[name]) for one in each], axis=axis) for name in alike}


def _statistics(each, diagnostics):
    """Return the Statistics of all cells, of what all of them have; F is nan in those that know nothing of it."""
    first, entries = each[0], [dict(one.entries) for one in each]
    for one in entries if any("frequency" in one for one in entries) else ():
        one.setdefault("frequency", {key: np.full_like(value, np.nan) for key, value in one["distribution"].items()})
    together = {name: _joined([one.get(name, {}) for one in entries]) for name in entries[0]}
    alike = {"derived": {one.quantities for one in each}, "parameter": {one.parameters for one in each}}
    together = {name: values for name, values in together.items() if values and len(alike.get(name, ())) < 2}
    return replace(first, entries=together, diagnostics=diagnostics)


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
    if (
        len(designs_of(said := facts_of(result).get("mechanisms", ""))) == 1
    ):  # of several it is not known how many were whose
        out.attrs["mechanisms"] = f"{users:,} {said.partition(' ')[2]}"
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


def _kind(blank):
    return {str: object, int: np.int64, float: float}[type(blank)]
