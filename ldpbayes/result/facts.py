"""What a result says beside its arrays, by name: a few facts are attrs of the tree, the others of its group ``details``."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes import checks

#: The group of what a reader rarely asks for.
DETAILS = "details"
#: What a reader asks first: attrs of the tree itself, at most twenty of them on a result.
FIRST = frozenset(
    "collection title n_reports mechanisms formula reference prior prior_reason method reason settings random_seed "
    "converged problems outcome draws left_out pseudo decides decided_by prior_decides fitness_flagged".split()
)


def facts_of(result: xr.DataTree | xr.Dataset) -> dict[str, Any]:
    """Return every fact that a result states, by name, wherever it stands.

    Parameters
    ----------
    result : DataTree
        Of any version: those before 1.0 have all facts in the attrs of the tree. Of a Dataset, such as an Answer, its attrs.

    Returns
    -------
    dict

    Examples
    --------
    >>> import ldpbayes as lb
    >>> posterior = lb.fit(lb.load_example("nigeria"), "flat", random_seed=1)
    >>> sorted(set(facts_of(posterior)) - set(posterior.attrs))[:3]
    ['aic', 'bayes_factors', 'bic']
    """
    checks.instance(result, "result", (xr.DataTree, xr.Dataset), "a result or an answer")
    if isinstance(result, xr.DataTree) and DETAILS in result.children:
        group = result.children[DETAILS]
        arrays = {str(name): array.values for name, array in group.data_vars.items()}
        return {str(name): value for name, value in (group.attrs | arrays | result.attrs).items()}
    return {str(name): value for name, value in result.attrs.items()}


def state(result: xr.DataTree, facts: Mapping[str, Any]) -> None:
    """Write facts into a result, each in its place; arrays become variables of the group ``details``.

    Parameters
    ----------
    result : DataTree
    facts : mapping
        By name. An earlier value is replaced.
    """
    first = {name: value for name, value in facts.items() if name in FIRST or name in result.attrs}
    result.attrs.update(first)
    others = {name: value for name, value in facts.items() if name not in first}
    if not others:
        return
    if DETAILS not in result.children:
        result[DETAILS] = xr.DataTree(xr.Dataset())
    arrays = {name: np.asarray(value) for name, value in others.items() if np.ndim(value)}
    if arrays:
        dims = {name: tuple(f"{name}_{i}" for i in range(value.ndim)) for name, value in arrays.items()}
        group = result[DETAILS].to_dataset().assign({name: (dims[name], value) for name, value in arrays.items()})
        result[DETAILS] = xr.DataTree(group)
    result[DETAILS].attrs.update({name: value for name, value in others.items() if name not in arrays})


def log_evidence(tree: xr.DataTree) -> tuple[float, float] | None:
    """Return (log-evidence, its standard error) that a fit found; None where it has none, or where there are several cells.

    Parameters
    ----------
    tree : DataTree
        A result of fit().
    """
    facts = facts_of(tree)
    if "exact" in tree.children and "log_evidence" in tree["exact"]:
        evidence = tree["exact"]["log_evidence"]
        return (float(evidence), float(facts.get("log_evidence_error", 0.0))) if evidence.ndim == 0 else None
    value = facts.get("log_evidence")
    return None if value is None or np.ndim(value) else (float(value), float(facts.get("log_evidence_error", 0.0)))
