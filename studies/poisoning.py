"""The study of poisoning: the maximal gain attack against estimates that do and do not allow for it."""

import functools

import numpy as np

from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.postprocess import ldp_recover, norm_sub
from ldpbayes.likelihoods import DenseRows
from ldpbayes.methods.exact import ExactMoments
from ldpbayes.priors import Dirichlet, as_prior
from ldpbayes.protocols.respondents import MaximalGain
from ldpbayes.robust import contamination_hull
from studies import common, evaluate
from studies.base import grid
from studies.priors import shares

#: Categories that the attack raises.
TARGETS = 5
#: Quantile of the normal distribution for intervals of the share of fakes.
WIDE = 1.96


def cells(setting):
    """Return the cells of a setting."""
    common.require_populations()
    paper = setting == "paper"
    out = []
    for name, a in (("zipf_1", 20), ("adult_age", common.census("adult_age").n_categories)):
        fixed = {"n_categories": [a], "epsilon": [1.0], "population": [name], "fakes": [0.01, 0.05, 0.1]}
        for n in (10_000, 100_000) if paper else (10_000,):
            for protocol in ("grr", "oue", "olh"):
                runs = 100 if protocol == "grr" else 40 if n == 10_000 else 10
                out += grid(protocol=[protocol], **fixed, n_reports=[n], replications=[runs if paper else 5])
    return out


@functools.lru_cache
def targets_of(name, n_categories):
    """Return the attacked categories of a population, the same every time."""
    return np.sort(np.random.default_rng(2021).choice(n_categories, TARGETS, replace=False))


def compare_defences(cell, rng):
    """Return the lines of a cell: errors of every estimator, what the targets gain, and what is learnt of the fakes.

    Metrics: "mse" is the sum of squared errors of the honest users' distribution, "gain" the sum of the targets' estimates
    less that of their shares; of the hull, "width" and "coverage" of the targets' sum; of the posterior with the known law,
    "share" and "coverage" of the share of fakes. Replications whose expansion has no finite mean are left out, and not
    counted.

    Parameters
    ----------
    cell : dict
    rng : Generator
    """
    found = {}
    for own in rng.spawn(cell["replications"]):
        for pair, value in replicate(cell, own).items():
            found.setdefault(pair, []).append(value)
    lines = []
    for (estimator, metric), values in found.items():
        kept = np.array(values, dtype=float)
        kept = kept[np.isfinite(kept)]
        value, error = evaluate.mean_and_error(kept)
        line = {"estimator": estimator, "target": "distribution", "metric": metric, "value": value}
        lines.append(line | {"standard_error": error, "replications": kept.size})
    return lines


def replicate(cell, rng):
    """Return {(estimator, metric): value} of one simulated attack.

    Parameters
    ----------
    cell : dict
    rng : Generator
    """
    a, n, eta = cell["n_categories"], cell["n_reports"], cell["fakes"]
    p, protocol, targets = shares(cell["population"], a), evaluate.protocol_of(cell), targets_of(cell["population"], a)
    law, m = MaximalGain(tuple(targets.tolist())), round(eta * n)
    honest = protocol.privatize(rng.choice(a, n - m, p=p), rng)
    tally = Tally(protocol, np.concatenate([honest, law.draw(protocol, m, rng)]))
    raw, rates = protocol.oracle(tally.rows), protocol.hit_rates
    size = 1.0 if protocol.n_outputs == a else rates[0] + (a - 1) * rates[1]
    estimates = {
        "oracle": raw,
        "norm_sub": norm_sub(raw),
        "recover": ldp_recover(raw, rates, eta, support=size),
        "recover_targets": ldp_recover(raw, rates, eta, targets=targets, support=max(size, _held(protocol, targets))),
    }
    prior, learnt = as_prior("jeffreys", a), {}
    collection = Collection(evaluate.labels(a), tally)
    if protocol.n_outputs == a:  # the share of fakes is not identified: one that is known stands in for it
        estimates["posterior"] = ExactMoments(tally.rows, prior).mean
        estimates["posterior_law"] = ExactMoments(mixed_rows(protocol, tally, law, eta), prior).mean
    else:
        estimates["posterior"] = common.expanded(collection, prior, rng)[0]
        extended = collection.with_noncompliers({"fake": law})
        mean, variance = common.expanded(extended, Dirichlet(np.append(prior.alpha, 1.0)), rng)
        estimates["posterior_law"] = mean[:-1] / (1 - mean[-1])
        learnt["posterior_law", "share"] = mean[-1]
        inside = abs(mean[-1] - m / n) < WIDE * np.sqrt(variance[-1])
        learnt["posterior_law", "coverage"] = inside if np.isfinite(mean[-1]) else np.nan
    out = {}
    for name, value in estimates.items():
        out[name, "mse"] = ((value - p) ** 2).sum()
        out[name, "gain"] = (value - p)[targets].sum()
    hull = contamination_hull(collection, [collection.categories[t] for t in targets], share=eta)
    ends = hull["confidence_low"].item(), hull["confidence_high"].item()
    out["hull", "width"] = ends[1] - ends[0]
    out["hull", "coverage"] = ends[0] <= p[targets].sum() <= ends[1]
    return out | learnt


def mixed_rows(protocol, tally, law, share):
    """Return the rows of GRR's reports where a known share follows a known law: (1 − η)(1 + β p_y)/(a + β) + η q_y.

    Parameters
    ----------
    protocol : GRR
    tally : Tally
    law : AbstractLaw
    share : float
        η.
    """
    own = (1 - share) / (protocol.n_categories + protocol.beta)
    base = own + share * np.exp(law.log_probabilities(protocol, tally.reports))
    named = tally.reports[:, None] == np.arange(protocol.n_categories)
    return DenseRows(base[:, None] + own * protocol.beta * named, tally.counts)


def _held(protocol, targets):
    """Return how many targets a report of the attack supports."""
    return float(protocol.crafted(targets).support[targets].sum())
