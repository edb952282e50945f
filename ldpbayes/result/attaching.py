"""From the trace of any PyMC model that used observe() to a result: F, summary, data."""

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection, as_data
from ldpbayes.collections.devices import over_reports, with_outcomes
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.inference.diagnostics import Diagnostics, summarize
from ldpbayes.methods.completion import of_draws
from ldpbayes.presenting import recorded
from ldpbayes.result.building import write
from ldpbayes.result.extending import device_of
from ldpbayes.result.fits import Fit
from ldpbayes.result.frame import Result
from ldpbayes.result.validation import TARGETS, in_one_order, validate

#: What models call P.
_USUAL = ("p", "P", "distribution")


@recorded
def attach(
    trace: xr.DataTree,
    collection: Collection | Cells,
    *,
    var_name: str | None = None,
    channel: str | None = None,
    prior_label: str = "that of the model",
    random_seed: int | None = None,
    ci_prob: float = 0.95,
) -> Result:
    """Return the result of your own PyMC model that used ``observe``.

    Parameters
    ----------
    trace : DataTree
        What ``pm.sample`` returned.
    collection : Collection, Tally, Summary or Cells
        What ``observe`` was given.
    var_name : str, optional
        The variable of the trace that holds P, with dims chain, draw, [cell,] category; by default ``p``, ``P`` or
        ``distribution``, the first of them that the trace has.
    channel : str, optional
        The variable of the trace that holds the device, shape (reports, categories), where it was random in the model:
        the ``channel`` that ``observe`` was given, kept by ``pm.Deterministic``. F and the log-likelihood of the reports
        then take the device of each draw. Without it they take the collection's own: a trace does not tell that a model had
        another.
    prior_label : str
        How to describe the model's prior.
    random_seed : int, optional
        Of the draws of F.
    ci_prob : float
        Probability of the intervals in the group ``summary``.

    Returns
    -------
    Result
        A result as ``fit`` returns it: answers, plots, ``save`` and ``extend("log_likelihood", "posterior_predictive")``
        take it. Where some deny or ignore the device, P is that of the answers, and their shares stand beside it. All other
        variables of the trace are kept and summarized as well. Its groups ``prior``, ``log_prior`` and those of predictions
        are kept, with the observed values beside them; ``log_likelihood`` and ``constant_data`` are not, so that ArviZ's
        functions for another outcome take the trace. Observed values of the result that are called as one of the
        model's get ``data_`` before their name. A dimension of the trace that is called as one of the result's but has
        other labels is renamed to ``{variable}_{dimension}``; one that is called as the grouping column of the cells is
        their dimension ``cell``.

    Raises
    ------
    ArgumentError
        Where the trace has no such variable, it does not fit the data, or another one has the name of a result's.
    DataError
        Where its draws are no distributions.
    InfeasibleError
        On a ``channel`` with summaries, several protocols, or reports that are not answers.

    Notes
    -----
    Given P, the users behind report j split over the categories as Multinomial(w_j, L_j∘P/(L P)_j): one draw of F for each
    draw of P. Where the reports were not kept (summaries), or such draws would take too long, only E[T | P] = P∘∇ℓ(P),
    averaged over the draws, is known: the summary then has the mean of F alone, and the posterior no variable ``frequency``.
    """
    checks.text(prior_label, "prior_label")
    random_seed, ci_prob, plain = checks.seed(random_seed), checks.level(ci_prob), as_data(collection)
    collection = with_outcomes(plain) if channel is None else plain
    draws, var_name = _draws(trace, collection, var_name, plain.shape)
    others, coords = _others(trace, collection, var_name)
    if channel is not None:
        collection, draws, device = over_reports(plain, draws, device_of(trace, channel, plain.n_categories))
        others |= {name: ((), values, {"of": "model"}) for name, values in device.items()}
    made = {} if channel is None else {"mechanisms": f"{plain.n_reports:,} reports through the model's device {channel!r}"}
    made |= {} if channel is None else {"device": ""}  # that of the collection is not the model's
    settings = {"var_name": var_name, "channel": channel, "random_seed": random_seed, "ci_prob": ci_prob}
    reason = "Sampled with a model of the caller's own."
    drawn, labels, mean, how = of_draws(collection, draws, others, np.random.default_rng(random_seed))
    diagnostics, stats = Diagnostics(), _statistics(trace)
    exact = {} if mean is None else {"frequency_mean": mean}
    fit = Fit(
        collection,
        prior_label,
        "attached",
        settings,
        drawn,
        coords=coords | labels,
        stats=stats,
        facts={"random_seed": random_seed, "reason": reason, "frequency_draws": how} | collection.explained() | made,
        summary=summarize(drawn, diagnostics, ci_prob, exact=exact, stats=stats),
    )
    tree = write(fit)
    _copy_groups(trace, tree, var_name, drawn)
    validate(tree)
    return tree


def _others(trace, data, var_name):
    """Return the variables of a trace but P as {name: (dims, array, attrs)}, and the labels of their dims."""
    coords, values = data.coords() | {"category": list(data.answers)}, trace["posterior"].data_vars
    found = {
        name: ((), one.values, {"of": "model"} | one.attrs) for name, one in values.items() if one.dims == ("chain", "draw")
    }
    arrays = [_array(one, coords) for name, one in values.items() if _is_array(name, one, var_name)]
    labels = {name: labels for one in arrays for name, labels in one.coords.items() if name in one.dims}
    return found | {one.name: (one.dims[2:], one.values, {"of": "model"} | one.attrs) for one in arrays}, labels


def _draws(trace, data, var_name, answers):
    """Return the draws of P, (chains, draws, [cells,] a), checked against the data, and their name."""
    if not isinstance(trace, xr.DataTree):
        raise ArgumentError("trace must have a group 'posterior', as pm.sample returns it.")
    try:
        posterior = trace["posterior"]
        names = list(posterior.data_vars)
    except (KeyError, TypeError, AttributeError):
        raise ArgumentError("trace must have a group 'posterior', as pm.sample returns it.") from None
    var_name = next((name for name in _USUAL if name in names), None) if var_name is None else var_name
    if not isinstance(var_name, str) or var_name not in names:
        raise ArgumentError(f"var_name must be a variable of the trace ({listed(names)}), got {shown(var_name)}.")
    values = posterior[var_name]
    size, coords = data.shape, data.coords()
    if size != answers == values.shape[2:]:
        raise ArgumentError(
            f"{var_name} is the distribution of {answers[-1]} categories, and the device of the collection is uncertain: "
            "name the variable of the trace that holds the device, channel='NAME'."
        )
    if values.dims[:2] != ("chain", "draw") or values.shape[2:] != size:
        raise ArgumentError(f"{var_name} must have shape (chains, draws, {', '.join(map(str, size))}), got {values.shape}.")
    for dim, name in zip(values.dims[2:], data.dims, strict=True):
        given, labels = [str(label) for label in values[dim].values] if dim in values.coords else [], list(coords[name])
        if given != labels and sorted(given) == sorted(labels):
            raise ArgumentError(f"{var_name} must have the order of the data along {dim!r}, got {listed(given)}.")
    draws = np.array(values.values, dtype=float)
    if not np.isfinite(draws).all() or draws.min() < -1e-9 or np.abs(draws.sum(axis=-1) - 1).max() > 1e-5:
        raise DataError(f"the draws of {var_name!r} must be distributions: not negative, with sum 1")
    draws = np.maximum(draws, 0.0)
    return draws / draws.sum(axis=-1, keepdims=True), var_name


def _is_array(name, values, var_name):
    """Return whether a variable of a trace is an array of unknowns of the caller's own."""
    if name == var_name or not values.dims[2:]:
        return False
    if name in TARGETS:
        raise ArgumentError(
            f"The trace has a variable {name!r} beside {var_name!r}; results call P or F so: rename it in the model."
        )
    return True


def _array(values, coords):
    """Return an array of unknowns with dims that do not clash with those of the result."""
    renamed: dict = {}
    for dim in values.dims[2:]:
        if dim in coords:
            same = list(map(str, _labels(values, dim))) == list(map(str, _labels(coords, dim)))
            along = coords[dim][0][0] if isinstance(coords[dim], tuple) else dim  # the cells, by their grouping column
            renamed[dim] = along if same and along not in (set(values.dims) - {dim}) else f"{values.name}_{dim}"
    values = values.rename({dim: name for dim, name in renamed.items() if name != dim})
    return values.drop_vars([dim for dim in values.coords if dim in coords or dim in ("chain", "draw")])


def _labels(named, dim):
    """Return the labels of a dim of an array, or of the coordinates of a result."""
    if isinstance(named, dict):
        return np.asarray(named[dim][1] if isinstance(named[dim], tuple) else named[dim]).tolist()
    return named[dim].values.tolist()


def _copy_groups(trace, tree, var_name, drawn):
    """Copy the trace's predictions, with the observed values that they stand beside, and what it says of the prior."""
    predicted = [name for name in ("posterior_predictive", "prior_predictive") if name in trace.children]
    for name in [*predicted, *({"log_prior"} & set(trace.children))]:
        tree[name] = xr.DataTree(in_one_order(trace[name].to_dataset()))
    if "prior" in trace.children:
        posterior, prior = tree["posterior"].to_dataset(), trace["prior"].to_dataset()
        prior = {"distribution" if name == var_name else name: x.values for name, x in prior.items()}
        same = [name for name in posterior if name in prior and prior[name].shape[2:] == drawn[name][1].shape[2:]]
        variables = {name: (("chain", "draw", *drawn[name][0]), prior[name]) for name in same}
        coords = posterior[same].drop_vars(("chain", "draw")).coords
        tree["prior"] = xr.DataTree(in_one_order(xr.Dataset(variables, coords)))
    if predicted and "observed_data" in trace.children:
        names = {name for group in predicted for name in trace[group].data_vars}
        more = trace["observed_data"].to_dataset()
        more = more[[name for name in more.data_vars if name in names]]
        kept = tree["observed_data"].to_dataset()
        kept = kept.rename({name: f"data_{name}" for name in more.variables if name in kept.variables})
        tree["observed_data"] = xr.DataTree(kept.merge(more))


def _statistics(trace):
    """Return what the sampler says about each draw, by name."""
    if "sample_stats" not in trace.children:
        return {}
    return {
        name: values.values
        for name, values in trace["sample_stats"].data_vars.items()
        if values.dims == ("chain", "draw") and values.dtype.kind in "iufb"
    }
