"""The one builder of results: whatever has been fitted, by whatever method, with draws or with moments alone."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.collections.data import mechanisms
from ldpbayes.errors import ArgumentError
from ldpbayes.inference.ends import LEVELS
from ldpbayes.methods.answer import MethodAnswer
from ldpbayes.result.beside import sensitivity_of
from ldpbayes.result.facts import DETAILS, state
from ldpbayes.result.fits import Fit
from ldpbayes.result.frame import Result
from ldpbayes.result.summary import summary_of
from ldpbayes.result.validation import in_one_order, validate

#: The dimension of a prior's settings that are over the longer alphabet, with respondents who ignore the device.
LATENT = "latent_category"
#: Variables of the group ``exact`` and their dims for one collection; of cells, the dim ``cell`` comes first.
EXACT = {
    "distribution_mean": ("category",),
    "distribution_sd": ("category",),
    "distribution_cov": ("category", "category_bis"),
    "distribution_lower": ("category",),
    "distribution_upper": ("category",),
    "distribution_quantile": ("level", "category"),
    "frequency_mean": ("category",),
    "frequency_sd": ("category",),
    "frequency_lower": ("category",),
    "frequency_upper": ("category",),
    "frequency_lower_error": ("category",),
    "frequency_upper_error": ("category",),
    "log_evidence": (),
    **{f"derived_{key}": ("quantity",) for key in ("mean", "sd", "lower", "upper")},
}


def write(fit: Fit) -> Result:
    """Return the Result of a fit: its arrays in groups, and its facts, each in its place.

    Parameters
    ----------
    fit : Fit
    """
    data, prior, labels = fit.data, fit.prior, fit.labels
    shape = next((np.shape(values)[:2] for _, values, *_ in fit.draws.values()), None)
    chained = {} if shape is None else {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
    groups = {}
    variables = {name: (("chain", "draw", *dims), *values) for name, (dims, *values) in fit.draws.items()}
    posterior = _group(variables, chained | labels, whole=True).to_dataset()
    groups["posterior"] = xr.DataTree(in_one_order(posterior))
    if fit.stats:
        sampled = {name: (("chain", "draw", "cell")[: np.ndim(values)], values) for name, values in fit.stats.items()}
        groups["sample_stats"] = _group(sampled, chained | labels)
    if fit.exact:
        if unknown := next((name for name in fit.exact if name not in EXACT), None):
            raise ArgumentError(f"exact must hold only {', '.join(EXACT)}, got {unknown!r}.")
        more = {"category_bis": labels["category"], "level": LEVELS, "quantity": [item.name for item in data.derived]}
        entries = {name: ((*data.dims[:-1], *EXACT[name]), np.asarray(value)) for name, value in fit.exact.items()}
        groups["exact"] = _group(entries, labels | more)
    groups["observed_data"] = _group(data.observed() if fit.observed else {}, labels)
    given, latent = constants(data, prior), data.coords()["category"]
    if len(labels["category"]) < len(latent):  # P is the distribution of people who follow the device
        labels[LATENT] = latent
        given = {name: (tuple(LATENT if dim == "category" else dim for dim in dims), x) for name, (dims, x) in given.items()}
    groups["constant_data"] = _group(given, labels, whole=len(data.dims) > 1)
    if fit.cells:
        groups["cells"] = _group({name: (("cell",), values) for name, values in fit.cells.items()}, labels)
    if fit.summary is not None:
        groups["summary"] = xr.DataTree(summary_of(fit, posterior))
    if fit.scaled is not None:
        groups["sensitivity"] = xr.DataTree(sensitivity_of(data, fit.scaled, fit.hyper, labels["category"]))
    groups |= {name: xr.DataTree(group) for name, group in fit.groups.items()}
    groups[DETAILS] = xr.DataTree(xr.Dataset())
    tree = Result(children=groups)  # at once: every group that is added later has all of them checked again
    tree._problem = data, None if isinstance(prior, str) else prior
    said = {
        "collection": data.id,
        "title": data.title,
        "n_reports": data.n_reports,
        "prior": prior if isinstance(prior, str) else prior.describe(),
        "prior_weight": fit.prior_weight,
        "settings": json.dumps(fit.settings, sort_keys=True, default=float),
        "identifiability": data.identifiability(),
        "caveat": data.caveat(),
        "device": data.device(),
        "mechanisms": mechanisms(data.channels()),
        **fit.said,
    }
    state(tree, said)
    validate(tree)
    return tree


def of_answer(answer: MethodAnswer, **facts: Any) -> Fit:
    """Return the Fit of a finished run.

    Parameters
    ----------
    answer : MethodAnswer
    **facts
        What else is said of it, such as the reason for its method.
    """
    posterior = answer.posterior
    return Fit(
        answer.problem.data,
        answer.problem.prior,
        answer.method.name,
        answer.settings,
        posterior.draws,
        posterior.coords,
        posterior.exact,
        posterior.stats,
        facts=answer.facts | facts,
        summary=answer.summary,
    )


def constants(data: Any, prior: Any) -> dict[str, tuple]:
    """Return what does not change: sizes, covariates and the settings of the prior, as {name: (dims, array)}.

    Parameters
    ----------
    data : Collection, Summarized or Cells
    prior : AbstractPrior or str
        Arrays of P's shape have P's dimensions.
    """
    entries, coords = dict(data.constants()), data.coords()
    for name, value in ({} if isinstance(prior, str) else prior.to_dict()).items():
        array = np.asarray(value)
        dims = prior.dims if array.shape == prior.shape else tuple(f"{name}_{i}" for i in range(array.ndim))
        entries[f"prior_{name}" if name in entries or name in coords else name] = (dims, array)
    return entries


def _group(variables: Mapping[str, tuple], labels: Mapping[str, Any], whole: bool = False) -> xr.DataTree:
    """Return a group with the labels of the dims that its variables have, or with all of them."""
    used = {dim for dims, *_ in variables.values() for dim in dims}
    coords = {name: values for name, values in labels.items() if whole or _dim(name, values) in used}
    return xr.DataTree(xr.Dataset(dict(variables), coords))


def _dim(name: str, values: Any) -> str:
    """Return the dim that a coordinate stands along."""
    return values[0][0] if isinstance(values, tuple) and isinstance(values[0], tuple) else name
