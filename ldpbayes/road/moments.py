"""The result without draws: moments, intervals and evidence of one collection, or of all cells in vectorized calls."""

import numpy as np

from ldpbayes.inference.ends import tails
from ldpbayes.inference.scaling import POWERS, Scaled
from ldpbayes.methods.many import undrawn
from ldpbayes.methods.watch import Watch
from ldpbayes.priors import Dirichlet
from ldpbayes.priors.dirichlet import evidence_error
from ldpbayes.result.cells import facts_of_cells
from ldpbayes.result.fits import Fit
from ldpbayes.result.moments import of_moments

#: Why a result has no draws.
ASKED = "Moments, intervals and evidence were asked for, and no draws."
MANY_CATEGORIES = "So many categories have moments, intervals and evidence, and no draws."
MANY_CELLS = "So many cells have moments, intervals and evidence in vectorized calls, and no draws."


def moments_of(data, problems, run: dict, settings: dict, method: str = "auto") -> tuple[Fit, Scaled | None, float]:
    """Return the Fit of a collection or of all cells, without draws.

    Parameters
    ----------
    data : Collection, Summarized or Cells
    problems : list of Problem
        Of the collection or of each cell, all under a Dirichlet prior, or a mixture whose hyperparameter cells share.
    run : dict
        random_seed, ci_prob and progressbar.
    settings : dict
        What was asked for, to be recorded.
    method : str
        "auto", or the method that was asked for.

    Returns
    -------
    Fit, what scaling the prior does to the shares (a Scaled or None), and the predicted error of means and sds, in sds

    Raises
    ------
    InfeasibleError
        As for ``undrawn``.
    """
    labels, prior, ci_prob, facts = data.labels, problems[0].prior, run["ci_prob"], {}
    watch = Watch(run["progressbar"])
    entries, general, checked, servers, _ = undrawn(problems, tails(ci_prob), method, labels, watch)
    under = entries.pop("under", None)
    names = np.array([server.name for server in servers for _ in server.places], dtype=object)
    names = names[np.argsort(np.concatenate([server.places for server in servers]))]
    if data.weighted:  # the evidence and the users' own frequencies have no meaning
        entries = {name: values for name, values in entries.items() if name.startswith("distribution")}
        general |= dict(problems[0].stated)
    if labels:
        facts = {"method": names, "log_evidence": entries["log_evidence"], "outcome": checked}
        facts["log_evidence_error"] = entries.pop("log_evidence_error", np.nan)
        facts = facts_of_cells(len(labels), **facts, converged=1, frequency_draws="moments only")
        if problems[0].alpha is None:
            general["prior"] = f"{prior.describe()}, one {problems[0].mixing.names[0]} for all cells"
    else:
        entries = {name: values[0] for name, values in entries.items()}
    rough = (
        f" {general['rough_cells']} have moments of second order in the saddle point." if "rough_cells" in general else ""
    )
    attrs = {
        "reason": (ASKED if settings.get("draws") == 0 else MANY_CELLS if labels else MANY_CATEGORIES) + rough,
        "sampling": "independent",
        "converged": 1,
        "interrupted": 0,
        "checked": checked,
        "problems": "",
        "outcome": checked,
        "random_seed": run["random_seed"],
    }
    recorded = {key: value for key, value in (settings | run).items() if key != "progressbar" and value is not None}
    if problems[0].alpha is not None:
        if "log_evidence" in entries and not labels:
            error = evidence_error(problems[0].alpha)
            general["log_evidence_error"] = max(general.get("log_evidence_error", 0.0), error)
        under = _under(servers, problems[0].alpha, entries["distribution_mean"].shape)
    elif under is not None:
        under = np.moveaxis(under, 0, 2) if labels else under[0]
    mean, sd = (entries[f"distribution_{name}"] for name in ("mean", "sd"))
    scaled = None if under is None else Scaled.of(mean, sd, under, shares=True, ci_prob=ci_prob)
    several = "several" if len(set(names)) > 1 else names[0]
    fit = of_moments(
        data,
        prior,
        method=several,
        settings=recorded,
        exact=entries,
        ci_prob=ci_prob,
        attrs=attrs | general,
        facts=facts,
    )
    if scaled is not None:
        fit.scaled = [scaled.at(k) for k in range(len(data))] if labels else [scaled]
    return fit, scaled, _error(general, entries, problems[0])


def _under(servers, alpha, shape):
    """Return means and sds of P, two arrays (2, …), under Dirichlet(α) to both POWERS, by the likelihoods of the servers."""
    out = np.empty((2, 2, sum(len(server.places) for server in servers), alpha.size))
    for i, power in enumerate(POWERS):
        for server in servers:
            engine = server.engine(Dirichlet(power * alpha))
            out[:, i, server.places] = engine.mean, np.sqrt(engine.variance)
    return out.reshape(2, 2, *shape)


def _error(facts, entries, problem):
    """Return the predicted error of means and sds of P, and of F, which has it A/n times as large; 0 of integrals."""
    error = float(facts.get("predicted_error", 0.0))
    if not error or problem.alpha is None or "frequency_sd" not in entries:
        return error
    spread, users = (np.asarray(entries[f"{name}_sd"]) for name in ("distribution", "frequency"))
    ratio = (1 + problem.alpha.sum() / problem.n_users) * spread / np.maximum(users, 1e-300)
    return error * max(1.0, float(ratio.max()) ** 2)
