"""The study of priors: the posterior mean under several priors against the estimators without one, on many populations."""

import functools

import numpy as np
from scipy.special import betaincinv

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import InfeasibleError
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.estimators.postprocess import norm_cut, norm_sub, power_law
from ldpbayes.inference.ends import tails
from ldpbayes.methods.base import Watch
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.hmc import HMC
from ldpbayes.methods.nodes import Placement
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.servers import Floored
from ldpbayes.priors import as_prior
from ldpbayes.simulation import population
from studies import common, evaluate
from studies.base import grid

#: Populations whose categories are in an order, so that the smooth prior applies.
ORDERED = frozenset(
    {
        "adult_age",
        "adult_hours",
        "flights_air_time",
        "flights_dep_delay",
        "flights_dep_minute_of_day",
        "flights_distance",
        "flights_speed",
    }
)
#: Synthetic populations: exponent of Zipf's law, and the share of the categories that are empty.
ZIPF = {"zipf_1": (1.0, 0.0), "zipf_1.5": (1.5, 0.0), "zipf_1_sparse": (1.0, 0.75)}
#: Real populations, in data/populations.
CENSUSES = (
    "adult_workclass",
    "adult_education",
    "adult_age",
    "adult_hours",
    "adult_workclass_education",
    "adult_age_sex",
    "adult_education_marital_income",
    "flights_carrier",
    "flights_dest",
    "flights_origin_dest",
    "flights_air_time",
    "flights_dep_delay",
    "flights_dep_minute_of_day",
    "flights_distance",
    "flights_speed",
)
#: Priors whose posterior means are compared.
PRIORS = ("jeffreys", "flat", "learnt")
#: The share of the categories that are shown: those with the largest posterior means.
SHOWN = 0.05
#: Draws enough for a mean whose Monte Carlo error adds about 1/150 to its risk.
SMOOTH = HMC(draws=500, chains=1)
#: A share counts as large above this.
LARGE = 0.02


def cells(setting):
    """Return the cells of the study: every population, protocol and ε, and GRR also with many reports."""
    common.require_populations()
    paper = setting == "paper"
    rest = {"epsilon": [0.5, 1.0, 2.0, 4.0] if paper else [1.0, 4.0], "replications": [20 if paper else 3]}
    sizes = [(name, a) for a in ((205, 1000) if paper else (205,)) for name in ZIPF]
    sizes += [(name, common.census(name).n_categories) for name in (CENSUSES if paper else ("flights_dest",))]
    out = []
    for name, a in sorted(sizes, key=lambda size: size[1]):
        fixed = rest | {"n_categories": [a], "population": [name]}
        out += grid(protocol=["grr", "oue", "olh", "subset"] if paper else ["grr", "oue"], n_reports=[10_000], **fixed)
        if paper:
            out += grid(protocol=["grr"], n_reports=[1_000_000], **fixed)
    return out


@functools.lru_cache
def shares(name, n_categories):
    """Return the distribution of a population by its name, shape (a,)."""
    if name not in ZIPF:
        return common.census(name).distribution
    exponent, empty = ZIPF[name]
    present = n_categories - round(empty * n_categories)
    out = np.zeros(n_categories)
    out[:present] = population("zipf", present, exponent=exponent).distribution
    return out


def moments(collection, name, rng=0):
    """Return (mean, variance) of P under a prior by its name.

    Exact where every report singles out one category; elsewhere those of an expansion about its own mean, or of draws where
    that may be off. The smooth prior always needs draws.

    Parameters
    ----------
    collection : Collection
    name : str
        A name of PRIORS, "smooth" or "floor".
    rng : numpy.random.Generator or int
        Of the draws.
    """
    rng = np.random.default_rng(rng)
    if name == "learnt":
        return common.learnt(collection, rng)[:2]
    if name == "floor":
        problem = Problem.of(collection, name)
        server = Floored([problem])
        nodes = server.settle(problem.mixing, Placement())
        means, variances = server.moments(nodes.priors)
        mean = nodes.weights @ means
        return mean, nodes.weights @ (variances + (means - mean) ** 2)
    if name == "smooth":
        problem = Problem.of(collection, name)
        draws = SMOOTH.run(SMOOTH.plan(problem), rng, Watch()).distribution
        return draws.mean(axis=(0, 1)), draws.var(axis=(0, 1))
    prior = as_prior(name, collection.n_categories)
    try:
        found = Exact().moments(collection, prior)
    except InfeasibleError:
        return common.expanded(collection, prior, rng)
    return found.mean, found.variance


def matched_interval(mean, variance, ci_prob=0.95):
    """Return the ends of the equal-tailed intervals of Beta distributions with these means and variances."""
    weight = np.maximum(mean * (1 - mean) / variance - 1, 1e-6)
    tail = tails(ci_prob)[0]
    return betaincinv(mean * weight, (1 - mean) * weight, tail), betaincinv(mean * weight, (1 - mean) * weight, 1 - tail)


def covered(p, mean, variance, ci_prob=0.95):
    """Return how many shares are in their intervals: of all, of those above LARGE, and of the SHOWN with the largest means.

    A prior that gives every category a positive share never covers 0: an empty category counts by its upper end.
    """
    low, high = matched_interval(mean, variance, ci_prob)
    inside = (p <= high) & ((p >= low) | (p == 0))
    large, shown = p > LARGE, np.argsort(-mean, kind="stable")[: max(1, round(SHOWN * p.size))]
    some = {"coverage": inside.mean(), "coverage_shown": inside[shown].mean()}
    return some | ({"coverage_large": inside[large].mean()} if large.any() else {})


def compare_priors(cell, rng):
    """Return the lines of a cell: squared errors of every estimator, their ratios to Jeffreys', and coverage.

    All estimators see the same reports, so that differences and ratios have paired errors. Users are drawn from the
    population's distribution. Every replication has its own generator: the first ones of a longer run are the same.

    Parameters
    ----------
    cell : dict
    rng : Generator
    """
    return lines_of([replicate(cell, own) for own in rng.spawn(cell["replications"])])


def lines_of(found):
    """Return the lines of a cell from the answers of its replications."""
    losses, inside = {}, {}
    for loss, coverage in found:
        for estimator, value in loss.items():
            losses.setdefault(estimator, []).append(value)
        for pair, value in coverage.items():
            inside.setdefault(pair, []).append(value)
    return [*_errors(losses), *_coverage(inside)]


def simulated(cell, rng):
    """Return (distribution, Collection): one set of reports of users drawn from the cell's population."""
    name, n, a = cell["population"], cell["n_reports"], cell["n_categories"]
    p, protocol = shares(name, a), evaluate.protocol_of(cell)
    return p, Collection(evaluate.labels(a), Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng)))


def replicate(cell, rng):
    """Return ({estimator: squared error}, {(prior, metric): share covered}) of one simulated set of reports.

    Parameters
    ----------
    cell : dict
    rng : Generator
    """
    p, collection = simulated(cell, rng)
    found, inside = {}, {}
    for prior in (*PRIORS, *(["smooth"] if cell["population"] in ORDERED else [])):
        found[prior], variance = moments(collection, prior, rng)
        inside |= {(prior, metric): value for metric, value in covered(p, found[prior], variance).items()}
    oracle = Oracle()(collection)
    raw = oracle.distribution
    found |= {"mle": MLE(tolerance=1e-4)(collection).distribution, "norm_sub": norm_sub(raw), "norm_cut": norm_cut(raw)}
    found |= {"power_law": power_law(raw, oracle.standard_error, cell["n_reports"]), "oracle": raw}
    return {estimator: ((value - p) ** 2).sum() for estimator, value in found.items()}, inside


def _errors(losses):
    """Return the lines "mse" and "ratio" of every estimator, with paired errors against Jeffreys' posterior mean."""
    base, lines = np.array(losses["jeffreys"]), []
    for estimator, values in losses.items():
        values = np.array(values)
        line = {"estimator": estimator, "target": "distribution", "replications": values.size}
        value, error = evaluate.mean_and_error(values)
        more, more_error = evaluate.mean_and_error(values - base)
        lines.append(
            line | {"metric": "mse", "value": value, "standard_error": error, "excess": more, "excess_error": more_error}
        )
        ratio = value / base.mean()
        _, ratio_error = evaluate.mean_and_error((values - ratio * base) / base.mean())  # delta method
        lines.append(line | {"metric": "ratio", "value": ratio, "standard_error": ratio_error})
    return lines


def _coverage(inside):
    lines = []
    for (estimator, metric), values in inside.items():
        value, error = evaluate.mean_and_error(values)
        line = {"estimator": estimator, "target": "distribution", "metric": metric, "replications": len(values)}
        lines.append(line | {"value": value, "standard_error": error})
    return lines


def geometric_means(table, estimator="learnt"):
    """Return the geometric means of an estimator's squared error over Jeffreys', with errors, and the worst cell.

    Parameters
    ----------
    table : pyarrow.Table
        Results of the study of priors.
    estimator : str

    Returns
    -------
    dict
        ``{part: (geometric mean, its Monte Carlo error, number of cells, largest ratio)}`` for the parts "all", "zipf",
        "real" and "ordered" that the table holds.
    """
    lines = [line for line in table.to_pylist() if line["metric"] == "ratio" and line["estimator"] == estimator]
    parts = {
        "all": lines,
        "zipf": [line for line in lines if line["population"] in ZIPF],
        "real": [line for line in lines if line["population"] not in ZIPF],
        "ordered": [line for line in lines if line["population"] in ORDERED],
    }
    out = {}
    for part, held in parts.items():
        if held:
            ratio, error = (np.array([line[key] for line in held], dtype=float) for key in ("value", "standard_error"))
            mean = np.exp(np.log(ratio).mean())
            own = mean * np.sqrt(((error / ratio) ** 2).sum()) / ratio.size
            out[part] = (float(mean), float(own), ratio.size, float(ratio.max()))
    return out
