"""The one result: an xarray DataTree with a fixed schema; build, validate, save and load it.

Groups: ``posterior`` (distribution, frequency, derived quantities and hyperparameters; dims chain, draw, [cell,] category;
what a prior learns has the attribute ``of`` "prior" and stands in the summary under ``parameter_…``), ``exact``
(moments, interval ends and log-evidence known without draws), ``estimate`` (point estimates and standard errors),
``confidence`` (confidence intervals, which hold for every distribution),
``summary`` (what is printed), ``observed_data``, ``constant_data`` and ``sample_stats``.
"""

import numpy as np
import xarray as xr

from ldpbayes.result.attaching import add_log_likelihood, attach
from ldpbayes.result.building import EXACT, build
from ldpbayes.result.cells import add_confidence_of_cells, add_estimates_of_cells, select, share, stack
from ldpbayes.result.compliers import among_compliers, extended_draws
from ldpbayes.result.frame import Result, load
from ldpbayes.result.reweighing import repilot, reweigh
from ldpbayes.result.saving import save
from ldpbayes.result.validation import validate

__all__ = [
    "EXACT",
    "Result",
    "add_confidence",
    "add_confidence_of_cells",
    "add_estimates",
    "add_estimates_of_cells",
    "add_log_likelihood",
    "among_compliers",
    "attach",
    "build",
    "extended_draws",
    "into_chains",
    "load",
    "repilot",
    "reweigh",
    "save",
    "select",
    "share",
    "stack",
    "validate",
]


def into_chains(chains, *runs):
    """Return runs of draws, each (≤ S, …), as (chains, draws, …) arrays, cut to the shortest and to whole chains."""
    draws = min(len(run) for run in runs) // chains
    return [run[: chains * draws].reshape(chains, draws, *run.shape[1:]) for run in runs]


def add_estimates(tree, estimates):
    """Add the group ``estimate``: value and standard_error (estimator, category), log_likelihood, gap and outcome.

    Where the collection has derived quantities also derived and derived_standard_error (estimator, quantity).
    """
    category = tree["posterior"]["category"].values
    blank = np.full(category.size, np.nan)
    errors = [blank if e.standard_error is None else e.standard_error for e in estimates]
    tree["estimate"] = xr.DataTree(
        xr.Dataset(
            {
                "value": (("estimator", "category"), np.stack([e.distribution for e in estimates])),
                "standard_error": (("estimator", "category"), np.stack(errors)),
                "log_likelihood": (("estimator",), [e.log_likelihood for e in estimates]),
                "gap": (("estimator",), [e.gap for e in estimates]),
                "outcome": (("estimator",), [e.outcome for e in estimates]),
            },
            {"estimator": [e.name for e in estimates], "category": category},
        )
    )
    if all(e.derived is not None for e in estimates):
        names = [name for name in tree["posterior"].data_vars if name not in ("distribution", "frequency")]
        names = names[: len(estimates[0].derived)]  # what a prior learns comes after the derived quantities
        both = (("derived", "derived"), ("derived_standard_error", "derived_error"))
        found = {key: (("estimator", "quantity"), np.stack([getattr(e, field) for e in estimates])) for key, field in both}
        tree["estimate"] = xr.DataTree(tree["estimate"].to_dataset().assign(found).assign_coords(quantity=names))
    return tree


def add_confidence(tree, found):
    """Add the group ``confidence``: lower and upper (target, category), and the support counts that they come from.

    Parameters
    ----------
    tree : DataTree
    found : Confidence
        From estimators.confidence.confidence_intervals.

    Returns
    -------
    DataTree
    """
    data = {name: (("target", "category"), getattr(found, name)) for name in ("lower", "upper")}
    if found.form is not None:
        parts = {"support_count": "counts", "rate_of_value": "hit", "rate_of_others": "other"}
        data |= {name: (("category",), np.asarray(getattr(found.form, part))) for name, part in parts.items()}
    coords = {"target": ["distribution", "frequency"], "category": tree["posterior"]["category"].values}
    tree["confidence"] = xr.DataTree(xr.Dataset(data, coords, {"method": found.method, "ci_prob": found.ci_prob}))
    return tree
