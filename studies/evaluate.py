"""One cell of a study: repeated simulation, comparison of the estimators with the truth, risks and bounds."""

import functools
import math

import numpy as np

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import InfeasibleError
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.estimators.postprocess import norm_sub, project_to_simplex, truncate_and_renormalize
from ldpbayes.fitting import fit
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.expanded import weighted_draws
from ldpbayes.methods.frequency import frequency_moments
from ldpbayes.planning import risk
from ldpbayes.priors import as_prior
from ldpbayes.protocols import make_protocol
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection, mutual_information_size
from ldpbayes.simulation import population
from ldpbayes.theory import base, bounds

PRIORS = ("jeffreys", "flat")
TARGETS = ("distribution", "frequency")
#: Weighted draws of the surrogate: the Monte Carlo error adds about 1/1,000 to the posterior mean's risk.
DRAWN = 1000
#: Post-processing of the oracle, by the word that the tables use.
DECODERS = {"norm_sub": norm_sub, "projected": project_to_simplex, "normalized": truncate_and_renormalize}
#: Protocols that take more than ε, and one that studies alone name.
_PROTOCOLS = {
    "subset_information": lambda a, e: SubsetSelection(a, e, mutual_information_size(a, e)),
    "cohort_rr": lambda a, e: make_protocol("cohort_rr", labels(a), {"epsilon": e, "buckets": 4, "cohorts": 8}),
    "rappor": lambda a, e: Rappor.one_time(a, e, n_bits=16, cohorts=4, hashes=2, candidates=labels(a)),
}


def labels(a):
    """Return the category labels "c0", "c1", …"""
    return tuple(f"c{x}" for x in range(a))


def protocol_of(cell):
    """Return the protocol of a cell."""
    name, a, epsilon = cell["protocol"], cell["n_categories"], cell["epsilon"]
    return _PROTOCOLS[name](a, epsilon) if name in _PROTOCOLS else make_protocol(name, labels(a), {"epsilon": epsilon})


def truth(cell, rng):
    """Return (distribution, true counts) of one replication: P drawn from the prior, or a fixed law."""
    a, name = cell["n_categories"], cell["population"]
    if name in PRIORS:
        (p,) = base.draw_distributions(as_prior(name, a), 1, rng)
    else:
        p = population(name, a).distribution
    return p, rng.multinomial(cell["n_reports"], p)


def posterior_moments(collection, prior, rng):
    """Return (mean, variance) of P, shape (a,) each: those of quick_moments, else of the next method that a fit takes."""
    quick = quick_moments(collection, prior, rng)
    if quick is not None:
        return quick
    tree = fit(collection, prior, exclude=("surrogate",), estimates=False, random_seed=int(rng.integers(2**31)))
    summary = tree["summary"].sel(target="distribution")
    return summary["mean"].values, summary["sd"].values ** 2


def quick_moments(collection, prior, rng):
    """Return (mean, variance) of P: exact, else the surrogate's where its weights are good, else None."""
    try:
        found = Exact().moments(collection, prior)
        return found.mean, found.variance
    except InfeasibleError:
        pass
    if collection.n_categories > 2:
        with np.errstate(over="ignore"):  # weights too uneven to use overflow in their own diagnostic
            found = weighted_draws(collection.rows, prior.alpha, DRAWN, rng)[0]
        if found.verdict.accepted:
            mean = found.weight @ found.distribution
            return mean, found.weight @ (found.distribution - mean) ** 2
    return None


def estimate_all(collection, names, prior, rng):
    """Return {(estimator, target): estimate} and {target: Σ posterior variance} for the estimators named.

    Point estimates are used for both targets, as in the papers; the posterior has a mean for each.

    Parameters
    ----------
    collection : Collection
    names : sequence of str
        Names of estimators.
    prior : Dirichlet
    rng : numpy.random.Generator

    Returns
    -------
    dict, dict

    Raises
    ------
    ArgumentError
        If an estimator does not apply to the collection.
    """
    found, spread = {}, {}
    oracle = Oracle()(collection).distribution if {"oracle", *DECODERS} & set(names) else None
    for name in names:
        if name == "posterior_mean":
            mean, variance = posterior_moments(collection, prior, rng)
            given_p = collection.likelihood.tally_moments
            frequency, sd = frequency_moments(mean, variance, prior.alpha, collection.n_reports, given_p)
            found |= {(name, "distribution"): mean, (name, "frequency"): frequency}
            spread = {"distribution": variance.sum(), "frequency": (sd**2).sum()}
            continue
        point = oracle if name == "oracle" else MLE()(collection).distribution if name == "mle" else DECODERS[name](oracle)
        found |= {(name, target): point for target in TARGETS}
    return found, spread


def simulate_risks(cell, rng, *, estimators, targets=TARGETS, metrics=("mse",), with_bounds=False, draw=truth):
    """Return the lines of a cell: Monte Carlo risks of the estimators, with their formulas and the bounds.

    Parameters
    ----------
    cell : dict
    rng : Generator
    estimators : tuple of str
    targets, metrics : tuple of str
        "distribution", "frequency"; "mse" (Σ squared errors), "l1" (Σ absolute errors).
    with_bounds : bool
        Add the floors, for populations drawn from a prior.
    draw : callable
        (cell, rng) -> (distribution or None, true counts) of one replication.
    """
    protocol, categories = protocol_of(cell), labels(cell["n_categories"])
    prior = as_prior(cell["population"] if cell["population"] in PRIORS else "jeffreys", protocol.n_categories)
    losses, spreads = {}, {target: [] for target in targets}
    for _ in range(cell["replications"]):
        p, true_counts = draw(cell, rng)
        collection = Collection(categories, Tally(protocol, *protocol.simulate(true_counts, rng)))
        found, spread = estimate_all(collection, estimators, prior, rng)
        aims = {"distribution": p, "frequency": true_counts / true_counts.sum()}
        for (name, target), value in found.items():
            if target in targets and aims[target] is not None:
                error = value - aims[target]
                losses.setdefault((name, target, "mse"), []).append(error @ error)
                losses.setdefault((name, target, "l1"), []).append(np.abs(error).sum())
        for target in targets if spread else ():
            spreads[target].append(spread[target])
    found = summarize_losses(losses)
    lines = [line for metric in metrics for line in found if line["metric"] == metric]  # the figure shows the first
    floors = {target: _bounds(cell, protocol, prior, target) for target in targets} if with_bounds else {}
    for line in lines:
        if line["metric"] == "mse":
            line |= _expected(cell, protocol, prior, line, spreads[line["target"]], draw)
            line |= floors.get(line["target"], {})
    return lines


def summarize_losses(losses):
    """Return one line for each (estimator, target, metric): the mean loss and what it exceeds the posterior mean's by."""
    lines = []
    for (name, target, metric), values in losses.items():
        values = np.array(values)
        line = {"estimator": name, "target": target, "metric": metric, "replications": values.size}
        line |= dict(zip(("value", "standard_error"), mean_and_error(values), strict=True))
        best = losses.get(("posterior_mean", target, metric))
        if best is not None and name != "posterior_mean":
            line |= dict(zip(("excess", "excess_error"), mean_and_error(values - np.array(best)), strict=True))
        lines.append(line)
    return lines


def mean_and_error(values):
    """Return the mean and its standard error."""
    values = np.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan


def _expected(cell, protocol, prior, line, spread, draw):
    """Return the mean squared error by formula: exact for the oracle, the mean posterior variance, the MLE's limit."""
    n, target = cell["n_reports"], line["target"]
    if line["estimator"] == "posterior_mean":
        value, error = mean_and_error(spread)
        return {"expected": value, "expected_error": error}
    if line["estimator"] not in ("oracle", "mle") or protocol.hit_rates is None:
        return {}
    if cell["population"] in PRIORS:
        found = risk.average_risk(protocol, prior, n, target, estimator=line["estimator"], draws=30)
    else:
        # The oracle's risk is linear in F, whose mean is P; a census is its own F.
        p, true_counts = draw(cell, np.random.default_rng(0))
        p = true_counts / n if p is None else p
        if line["estimator"] == "oracle":
            found = risk.oracle_risk(protocol, p, n, target)
        elif protocol.n_categories <= 10:
            found = risk.mle_risk(protocol, p, n, target)
        else:
            return {}
    return {"expected": found.value, "expected_error": found.standard_error}


def _bounds(cell, protocol, prior, target):
    """Return the floors under the risk: for this protocol and for every ε-LDP one at large n, and at this n where known."""
    a, epsilon, n = cell["n_categories"], cell["epsilon"], cell["n_reports"]
    out = {"bound": _floor(protocol, prior, target) / n, "bound_any": bounds.theorem_4_5(a, epsilon, target).value / n}
    if target == "distribution" and cell["protocol"] == "grr":
        out["bound_finite"] = bounds.theorem_4_1(protocol, prior, n, draws=4).value
    return out


@functools.lru_cache
def _floor(protocol, prior, target):
    # The determinant hardly moves with P where categories are many, and each one costs O(a³).
    draws = 400 if protocol.n_categories <= 64 else 2
    return bounds.corollary_4_3(protocol, prior, target, draws=draws).value
