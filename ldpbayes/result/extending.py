"""Groups that ArviZ reads beside a posterior: the prior, predictions and the likelihood of each report."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection, as_data
from ldpbayes.collections.data import designs_of, mechanisms
from ldpbayes.collections.devices import over_reports, with_outcomes
from ldpbayes.collections.noncompliance import collapse
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, MissingGroupError, listed, shown
from ldpbayes.inference.importance import left_out, left_out_of_counts
from ldpbayes.priors.parts import log_density_of_shares
from ldpbayes.protocols.formats import places
from ldpbayes.result.compliers import extended_draws
from ldpbayes.result.constants import DRAWS_TOGETHER, FLAT, MAX_POINTWISE
from ldpbayes.result.facts import facts_of
from ldpbayes.result.regressions import of_regression, too_many
from ldpbayes.result.validation import in_one_order, need_draws, need_result

#: Groups that a result gets when they are asked for.
GROUPS = ("prior", "log_prior", "log_likelihood", "posterior_predictive", "prior_predictive")
#: Marks variables of the group ``observed_data`` that stand beside predictions: the data are there without them.
BESIDE_PREDICTIONS = {"of": "predictions"}
#: Dims of predicted counts, by the kind of what is counted.
_COUNTED = {"list": "possible_report", "supports": "category", "bits": "bit"}


def checked_groups(groups: Iterable[str], name: str = "groups") -> tuple[str, ...]:
    """Return names of groups, each one of GROUPS.

    Parameters
    ----------
    groups : str or iterable of str
    name : str
        Of the argument, for errors.
    """
    several = (groups,) if isinstance(groups, str) else checks.labels(groups, name, "names of groups")
    return tuple(checks.choice(group, name, GROUPS) for group in several)


def missing(name: str) -> MissingGroupError:
    """Return the error about a group that a result can have and lacks."""
    return MissingGroupError(f"This result has no group {name!r}: result.extend({name!r}) adds it.")


def extend(result: Any, groups: tuple[str, ...], collection: Any = None, by: str | None = None) -> None:
    """Add groups to a result; ``Result.extend`` says what they hold, and what the arguments are."""
    need_result(result)
    groups = checked_groups(groups[0] if len(groups) == 1 else groups)  # a list too, as fit takes it
    if "regression" in facts_of(result):
        if refused := [group for group in groups if group != "log_likelihood"]:
            raise ArgumentError(f"groups must be 'log_likelihood' alone for a regression, got {refused[0]!r}.")
        if groups:
            array, dim, coords = of_regression(result, by)
            _add(result, "log_likelihood", {"reports": ((dim,), array)}, coords)
        return
    need_draws(result)
    data = _data(result, collection)
    seeds = np.random.SeedSequence(int(facts_of(result)["random_seed"])).spawn(len(GROUPS))
    rngs = {name: np.random.default_rng(seed) for name, seed in zip(GROUPS, seeds, strict=True)}
    believed: Any = None
    others: Mapping[str, tuple] = {}
    if {"prior", "prior_predictive"} & set(groups):  # the same draws, whichever is asked for
        believed, others = _prior_draws(result, data, rngs["prior"])
    for group in groups:
        if group == "prior":
            _add(result, group, _of_prior(result, data, believed, others, rngs["log_prior"]))
        elif group == "log_prior":
            _add(result, group, _log_prior(result, data))
        elif group == "log_likelihood":
            array, dim, coords = _log_likelihood(result, data, by)
            _add(result, group, {"reports": ((dim,), array)}, coords)
        else:
            _predict(result, group, data, believed if group == "prior_predictive" else _draws(result, data), rngs[group])


def _data(result: Any, collection: Any) -> Any:
    """Return what a result was fitted to: what is given, or else what the fit was given."""
    data = result.fitted[0] if collection is None else collection
    if data is None:
        raise ArgumentError("collection must be what the result was fitted to: one that was loaded or selected lacks it.")
    data, shape = as_data(data, "collection"), result["posterior"]["distribution"].shape[2:]
    attached = collection is not None and result.attrs["method"] == "attached"
    channel = json.loads(result.attrs["settings"]).get("channel") if attached else None
    if channel is None:
        data = with_outcomes(data)
    elif shape == data.shape:  # the device was random in the model, and its draws are kept
        draws = result["posterior"]["distribution"].values
        data = over_reports(data, draws, device_of(result, channel, data.n_categories))[0]
    if shape not in (data.shape, (*data.shape[:-1], len(data.answers))) or data.n_reports != result.attrs["n_reports"]:
        raise ArgumentError(
            f"collection must be what the result was fitted to, {result.attrs['n_reports']:,} reports and P of shape "
            f"{shape}, got {data.n_reports:,} and {data.shape}."
        )
    if collection is not None:
        _refuse_other(result, data)
    made, stated = mechanisms(data.channels()), facts_of(result).get("mechanisms", "")
    known = set(designs_of(stated))  # of a selected cell, those of all cells
    if collection is not None and channel is None and known and not known.issuperset(designs_of(made)):
        raise ArgumentError(f"collection must be what the result was fitted to, {stated}; got {made}.")
    return data


def _refuse_other(result: Any, data: Any) -> None:
    """Refuse data with other categories, cells or reports than a result, as far as it holds these."""
    posterior, observed = result["posterior"].to_dataset(), data.observed()
    labels = [("category", (data.categories, data.answers)), ("cell", (data.labels,) if data.by else ())]
    for dim, allowed in labels:
        given = tuple(map(str, posterior[dim].values)) if dim in posterior.coords else None
        if given is not None and allowed and given not in [tuple(map(str, known)) for known in allowed]:
            raise ArgumentError(f"collection must be what the result was fitted to, with the {dim} labels {listed(given)}.")
    held = result["observed_data"].to_dataset() if "observed_data" in result.children else {}
    for name, (_, values, *_) in observed.items():
        if name in held and not np.array_equal(held[name].values, values):
            raise ArgumentError(f"collection must be what the result was fitted to; its {name} differ.")


def device_of(trace: xr.DataTree, name: str, categories: int) -> np.ndarray:
    """Return the draws of a device in the group ``posterior``, (chains, draws, reports, a), columns that add up to one.

    Parameters
    ----------
    trace : DataTree
        A trace, or the result that has its variables.
    name : str
    categories : int

    Raises
    ------
    ArgumentError, DataError
    """
    values = trace["posterior"].data_vars.get(name)
    if values is None or values.dims[:2] != ("chain", "draw") or values.ndim != 4 or values.shape[-1] != categories:
        raise ArgumentError(
            f"channel must name a variable of the trace of shape (chains, draws, reports, {categories}), got {shown(name)}."
        )
    draws = np.array(values.values, dtype=float)
    if not np.isfinite(draws).all() or draws.min() < -1e-9 or np.abs(draws.sum(axis=-2) - 1).max() > 1e-5:
        raise DataError(f"the draws of {name!r} must be channels: not negative, with columns that add up to 1")
    draws = np.maximum(draws, 0.0)
    return draws / draws.sum(axis=-2, keepdims=True)


def _prior(result: Any) -> Any:
    """Return the prior of a result, of one cell or of all cells."""
    prior = result.fitted[1]
    if prior is None:
        own = "of a model of the caller's own (pymc.stats.compute_log_prior adds log_prior to a trace)"
        without = f"that was loaded or selected, or is {own}"
        raise ArgumentError(f"result must be what fit returned for groups of the prior; one {without}, does not hold it.")
    return prior


def _add(result: Any, group: str, variables: Mapping[str, tuple], coords: Any = None, every: int = 1) -> None:
    """Add a group of variables (dims after chain and draw, draws in the order of the chains) to a result, of every k-th."""
    posterior = result["posterior"].to_dataset().isel(draw=slice(None, None, every))
    size = tuple(posterior.sizes[name] for name in ("chain", "draw"))
    used = {dim for dims, *_ in variables.values() for dim in dims} | {"chain", "draw"}
    labels = {name: x for name, x in posterior.coords.items() if set(x.dims) <= used and x.dims} | dict(coords or {})
    arrays = {name: (("chain", "draw", *dims), x.reshape(*size, *x.shape[1:])) for name, (dims, x) in variables.items()}
    fresh = xr.Dataset(arrays, labels)
    if group in result.children:  # of a trace that was attached: what the model has of other outcomes
        others = result[group].to_dataset().drop_vars(list(arrays), errors="ignore")
        others = others.drop_vars(set(others.coords) - {dim for x in others.data_vars.values() for dim in x.dims})
        try:
            fresh = fresh.merge(others, join="exact")
        except ValueError:
            raise ArgumentError(
                f"{group} has {listed(others.data_vars)} of other draws, which this would replace; del the group first."
            ) from None
    result[group] = xr.DataTree(in_one_order(fresh))


def _draws(result: Any, data: Any) -> np.ndarray:
    """Return the draws of P, or of p′ where some deny or ignore the device, shape (S, cells, a); one cell by itself too."""
    posterior = result["posterior"]
    size = posterior.sizes["chain"] * posterior.sizes["draw"]
    return extended_draws(result, data).reshape(size, -1, data.n_categories)


# ---- the prior -----------------------------------------------------------------------------------------------------------
def _prior_draws(result: Any, data: Any, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, tuple]]:
    """Return (draws of P as ``_draws`` returns them, what else the prior has as name → (dims, draws)), from the prior."""
    prior, posterior = _prior(result), result["posterior"]
    size, cells = posterior.sizes["chain"] * posterior.sizes["draw"], len(data.likelihoods)
    shared = bool(data.by) and len(prior.shape) == 1 and any(x.attrs.get("of") == "prior" for x in posterior.values())
    if shared:  # one hyperparameter of all cells, each of which has its own P
        mixing = prior.nodes()
        values = mixing.values(rng.standard_normal((size, mixing.size)))
        p = np.stack([one.sample(cells, rng) for one in mixing.priors(values, size)])
        return p, {name: ((), x) for name, x in values.items()}
    if len(prior.shape) < len(data.shape):
        return prior.sample(size * cells, rng).reshape(size, cells, -1), {}
    z = prior.unknowns(size, rng)
    if z is None:
        return prior.sample(size, rng).reshape(size, cells, -1), {}
    return prior.to_simplex(z).reshape(size, cells, -1), prior.variables(z)


def _of_prior(
    result: Any, data: Any, draws: np.ndarray, others: Mapping[str, tuple], rng: np.random.Generator
) -> dict[str, tuple]:
    """Return the variables of the posterior that follow from draws of P from the prior."""
    draws = draws.reshape(len(draws), *data.shape)
    users = np.reshape([cell.n_reports for cell in data.collections()], data.shape[:-1]).astype(np.int64)
    variables = {"distribution": (data.dims, collapse(draws, data.owners))}
    variables |= {item.name: (data.dims[:-1], item.evaluate(draws, data.categories)) for item in data.derived}
    variables |= others
    posterior = result["posterior"]
    if "frequency" in posterior:
        tallies = rng.multinomial(users, draws / draws.sum(axis=-1, keepdims=True))
        variables["frequency"] = data.dims, collapse(tallies / users[..., None], data.owners)
    return {str(name): variables[name] for name in posterior.data_vars if name in variables}


def _log_prior(result: Any, data: Any) -> dict[str, tuple]:
    """Return the log-density of what power-scaling scales, at the draws of the posterior, up to a constant."""
    prior, posterior = _prior(result), result["posterior"]
    size = posterior.sizes["chain"] * posterior.sizes["draw"]
    values = prior.log_hyperprior({str(name): x.values.reshape(size, *x.shape[2:]) for name, x in posterior.items()})
    if values is not None:
        return {"hyperparameters": ((), np.asarray(values))}
    density = log_density_of_shares(prior, _draws(result, data)) if len(prior.shape) == 1 else None
    if density is None:
        raise InfeasibleError(f"The prior {prior.describe()} has neither concentrations nor hyperparameters to scale.")
    return {"distribution": (("cell",), density) if data.by else ((), density[:, 0])}


# ---- predictions ---------------------------------------------------------------------------------------------------------
def _predict(result: Any, group: str, data: Any, draws: np.ndarray, rng: np.random.Generator) -> None:
    """Add a group of predictions, and beside it, in ``observed_data``, what came in."""
    laws = []
    for c, cell in enumerate(data.collections()):
        for tally in cell.tallies:
            law = tally.protocol.report_law()
            if law is None:
                raise InfeasibleError(
                    f"Reports through {tally.protocol.design} can be neither listed nor counted by support."
                )
            laws.append((c, tally, law))
    if not laws or not data.keeps_reports or data.weighted:
        raise InfeasibleError("Reports are predicted where all of them were kept, and count alike.")
    single = all(law.kind == "list" for *_, law in laws) and len(draws) * data.n_reports <= MAX_POINTWISE
    every, simulated = 1, sum(tally.n_reports for _, tally, law in laws if law.kind != "list")
    if simulated and not single:  # one by one: as many draws as single reports would be
        chains, length = (result["posterior"].sizes[name] for name in ("chain", "draw"))
        every = min(-(-len(draws) * simulated // MAX_POINTWISE), length)
        draws = draws.reshape(chains, length, *draws.shape[1:])[:, ::every].reshape(-1, *draws.shape[1:])
    variables, seen, coords = (_reports if single else _counts)(data, draws, laws, rng)
    _add(result, group, variables, coords, every)
    observed = {name: (dims, values, BESIDE_PREDICTIONS) for name, (dims, values) in seen.items()}
    before = result["observed_data"].to_dataset() if "observed_data" in result.children else xr.Dataset()
    before = before.drop_vars([name for name, x in before.items() if x.attrs == BESIDE_PREDICTIONS])
    labels = {name: x for name, x in coords.items() if name not in before.variables}
    result["observed_data"] = xr.DataTree(before.assign(observed).assign_coords(labels))


def _reports(data: Any, draws: np.ndarray, laws: list, rng: np.random.Generator) -> tuple[dict, dict, dict]:
    """Return (predicted reports of every user, those that came in, labels), as places in the list of possible reports."""
    sizes = [tally.n_reports for _, tally, _ in laws]
    out, seen, last = np.empty((len(draws), sum(sizes)), dtype=np.int32), [], 0
    for (c, tally, law), size in zip(laws, sizes, strict=True):
        reports, counts = tally.reports[tally.counts > 0], tally.counts[tally.counts > 0]
        seen.append(np.repeat(places(tally.protocol.all_reports(), reports), counts))
        chances = np.cumsum(law.expected(np.ascontiguousarray(draws[:, c].T)), axis=0).T
        for row, ladder in zip(out[:, last : last + size], chances, strict=True):
            row[:] = np.searchsorted(ladder[:-1], rng.random(size) * ladder[-1], side="right")
        last += size
    dims = ("report",)
    return {"reports": (dims, out)}, {"reports": (dims, np.concatenate(seen).astype(np.int32))}, _about(data, laws, sizes)


def _counts(data: Any, draws: np.ndarray, laws: list, rng: np.random.Generator) -> tuple[dict, dict, dict]:
    """Return (predicted counts of reports, supports or bits by channel, those that came in, labels)."""
    channels: dict[str, list] = {}
    for c, tally, law in laws:
        channels.setdefault(tally.name, []).append((c, tally, law))
    variables: dict[str, tuple] = {}
    seen: dict[str, tuple] = {}
    coords: dict[str, Any] = {}
    for channel, parts in channels.items():
        law = parts[0][2]
        name = f"{law.kind.removesuffix('s')}_counts" + (f"_{channel}" if len(channels) > 1 else "")
        dim = _COUNTED[law.kind] + ("" if law.kind == "supports" or len(channels) == 1 else f"_{channel}")
        dims = (dim,)
        predicted = [_counted(tally, law, draws[:, c], rng) for c, tally, law in parts]
        came = [law.tally(tally.reports, tally.counts) for _, tally, law in parts]
        if data.by:
            if len({len(array) for array in came}) > 1:
                raise InfeasibleError(f"The channel {channel!r} has other reports in some cells than in others.")
            cell = "cell" if len(parts) == len(data.likelihoods) else f"cell_{channel}"
            coords |= {cell: np.array([data.labels[c] for c, *_ in parts], dtype=object)}
            dims = (cell, dim)
        variables[name] = dims, np.stack(predicted, axis=1) if data.by else predicted[0]
        seen[name] = dims, np.stack(came) if data.by else came[0]
        coords |= {"category": list(data.categories[: seen[name][1].shape[-1]])} if dim == "category" else {}
    return variables, seen, coords


def _counted(tally: Any, law: Any, draws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the counts of a fresh population at each draw (S, a) of P, shape (S, m)."""
    p = draws / draws.sum(axis=1, keepdims=True)
    if law.kind == "list":
        share = law.expected(np.ascontiguousarray(p.T)).T
        return rng.multinomial(tally.n_reports, share / share.sum(axis=1, keepdims=True))
    return np.stack([law.simulate(rng.multinomial(tally.n_reports, row), rng) for row in p])


def _about(data: Any, laws: list, sizes: list[int]) -> dict[str, Any]:
    """Return number, cell and channel of single reports as coordinates."""
    coords: dict[str, Any] = {"report": np.arange(sum(sizes))}
    if data.by:
        labels = np.array([data.labels[c] for c, *_ in laws], dtype=object)
        coords["report_cell"] = (("report",), np.repeat(labels, sizes))
    names = np.array([tally.name for _, tally, *_ in laws], dtype=object)
    return coords | ({"report_channel": (("report",), np.repeat(names, sizes))} if len(set(names)) > 1 else {})


# ---- the likelihood of each report ---------------------------------------------------------------------------------------
def _log_likelihood(result: Any, data: Collection | Cells, by: str | None) -> tuple[np.ndarray, str, dict]:
    """Return (log-likelihoods (S, ·), their dim, its labels) of a result and what it was fitted to."""
    apart = data.dims[:-1]
    checks.choice(by, "by", (None, "report", *apart))
    flat = _draws(result, data)
    refused = _refused(data) or too_many(len(flat) * data.n_reports)
    if refused and (by == "report" or not apart):
        raise InfeasibleError(refused)
    if by == "cell" or refused:
        parts = [_of_all(one, flat[:, c]) for c, one in enumerate(data.likelihoods)]
        return np.stack(parts, axis=1), "cell", data.cell_coords()
    values, counts, laws = _of_distinct(data, flat)
    sizes = [int(count.sum()) for count in counts]
    each = np.repeat(np.arange(values.shape[1]), np.concatenate(counts))
    return values[:, each], "report", _about(data, laws, sizes)


def _refused(data: Any) -> str:
    """Return why single reports have no log-likelihood, or an empty string."""
    if data.weighted:
        return "Single reports have no log-likelihood where they are weighted."
    return "" if data.keeps_reports else "Single reports have no log-likelihood: a summary keeps sums only."


def _of_distinct(data: Any, draws: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list]:
    """Return (log P(report | P) of the distinct reports that depend on P (S, m), their counts and channels in turn)."""
    values, counts, laws = [], [], []
    for c, cell in enumerate(data.collections()):
        for tally in cell.tallies:
            rows = tally.rows
            single = np.log(rows.matvec(np.ascontiguousarray(draws[:, c].T))).T + rows.log_constants
            depends = np.ptp(single, axis=0) > FLAT
            values.append(single[:, depends])
            counts.append(rows.counts[depends].astype(np.int64))
            laws.append((c, tally))
    if not sum(map(len, counts)):
        raise InfeasibleError("No report depends on P, so that none has a log-likelihood to compare.")
    return np.concatenate(values, axis=1), counts, laws


def _of_all(likelihood: Any, draws: np.ndarray) -> np.ndarray:
    """Return log P(Y | p) of each draw, a block of draws at a time."""
    starts = range(0, len(draws), DRAWS_TOGETHER)
    blocks = [likelihood.log_likelihood(np.ascontiguousarray(draws[start : start + DRAWS_TOGETHER].T)) for start in starts]
    return np.concatenate(blocks)


def leave_one_out(result: Any, collection: Any = None) -> Any:
    """Return what ``arviz.loo`` says of all reports, from the distinct ones; see ``Result.loo``."""
    need_draws(result)
    if "regression" in facts_of(result):
        raise InfeasibleError(
            "loo takes the distinct reports of a fit; of a regression arviz.loo takes extend('log_likelihood')."
        )
    if collection is None and result.fitted[0] is None and "log_likelihood" in result.children:
        return left_out(result)
    data = _data(result, collection)
    distinct = sum(one.rows().n_rows for one in data.likelihoods) if data.keeps_reports else 0
    posterior = result["posterior"]
    if refused := _refused(data) or too_many(distinct * posterior.sizes["chain"] * posterior.sizes["draw"]):
        raise InfeasibleError(refused)
    values, counts, laws = _of_distinct(data, _draws(result, data))
    coords = _about(data, laws, [int(count.sum()) for count in counts])
    return left_out_of_counts(posterior.to_dataset(), values, np.concatenate(counts), coords)
