"""The coverage study: how often credible and other intervals hold the true share, and how wide they are."""

import functools
import math
from dataclasses import fields

import numpy as np
from scipy.special import gammaln

from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.confidence import distribution_interval
from ldpbayes.fitting import fit
from ldpbayes.methods.conditioned_product import PowerFactors
from ldpbayes.methods.expanded import ExpandedFactors, expand
from ldpbayes.priors import as_prior
from ldpbayes.priors.learnt import Learnt
from ldpbayes.protocols.base import Binomials
from ldpbayes.simulation import population
from studies import binary, evaluate
from studies.base import grid
from studies.batches import batch

CI_PROB = 0.95
TAILS = ((1 - CI_PROB) / 2, (1 + CI_PROB) / 2)
#: True shares of the binary part.
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
#: Points of the integral over all binary shares, and the range within which the least coverage is looked for.
SWEEP, INSIDE = 2000, (0.01, 0.99)
#: Probability below the shortest interval: values that are tried.
BELOW = (1 - CI_PROB) * np.linspace(0, 1, 9)
#: Replications, the first ones, with intervals under the learnt prior: each takes as long as ten under a Dirichlet.
LEARNT = 30
#: From this number of categories on they are those of fits one by one, which place their nodes by the saddle point.
MANY = 50
#: Repetitions of the bootstrap.
REPETITIONS = 200
#: Values of the learnt prior's t = (log α − log median)/sd where all replications' evidence is found, and nodes of each.
EVIDENCE_AT, NODES = np.linspace(-3.5, 6.3, 15), 5


def cells(setting):
    """Return the cells of a setting: binary designs, exact; then several categories, simulated."""
    paper = setting == "paper"
    out = grid(
        protocol=list(binary.DESIGNS),
        n_categories=[2],
        n_reports=[50, 100, 300, 1_000, 10_000] if paper else [100, 1_000],
        epsilon=[0.5, 1.0, 2.0, 3.0] if paper else [1.0, 3.0],
    )
    shapes = {"population": ["even", "zipf", "spiked"], "replications": [200 if paper else 20]}
    if not paper:
        return out + grid(protocol=["grr", "oue"], n_categories=[5], n_reports=[3_000], epsilon=[1.0, 3.0], **shapes)
    rest = {"epsilon": [1.0, 4.0]} | shapes
    out += grid(protocol=["grr"], n_categories=[5, 20], n_reports=[1_000, 10_000, 100_000], **rest)
    out += grid(protocol=["grr"], n_categories=[100], n_reports=[10_000, 100_000], **rest)
    rows = {"n_reports": [10_000]} | rest | {"replications": [40]}
    pairs = (("oue", 20), ("olh", 20), ("subset", 20), ("oue", 100))
    return out + [one for name, a in pairs for one in grid(protocol=[name], n_categories=[a], **rows)]


def simulate_coverage(cell, rng):
    """Return the lines of a cell: coverage and width of every method's intervals.

    Parameters
    ----------
    cell : dict
    rng : Generator
    """
    return _binary(cell) if cell["protocol"] in binary.DESIGNS else _several(cell, rng)


# ---- binary designs: exact -----------------------------------------------------------------------------------------------
def _binary(cell):
    """Return exact lines: a population is one true share, or "uniform": shares spread evenly from 0 to 1."""
    hit, other = rates_of(cell["protocol"], cell["epsilon"])
    n = cell["n_reports"]
    counts = binary.likely_counts(n, other, hit)
    p, weight = sweep()
    inside = (p >= INSIDE[0]) & (p <= INSIDE[1])
    lines = []
    for name, (lower, upper) in binary.all_intervals(counts, n, hit, other, CI_PROB).items():
        at = {"estimator": name, "target": "distribution", "standard_error": 0.0}
        for share, held, width in zip(SHARES, *binary.expected(lower, upper, counts, n, hit, other, SHARES), strict=True):
            own = at | {"population": f"{share:g}"}
            lines += [own | {"metric": "coverage", "value": held}, own | {"metric": "width", "value": width}]
        held, width = binary.expected(lower, upper, counts, n, hit, other, p)
        own = at | {"population": "uniform"}
        lines.append(own | {"metric": "coverage", "value": weight @ held})
        lines.append(own | {"metric": "coverage_least", "value": held[inside].min()})
        lines.append(own | {"metric": "width", "value": weight @ width})
    order = {"coverage": 0, "width": 1, "coverage_least": 2}
    return sorted(lines, key=lambda line: order[line["metric"]])


def rates_of(design, epsilon):
    """Return (P(yes | carrier), P(yes | other)) of a binary design by its name."""
    matrix = binary.DESIGNS[design](epsilon).matrix
    return float(matrix[1, 1]), float(matrix[1, 0])


def sweep():
    """Return (shares, weights): the midpoint rule in arccos(1 − 2p) for the mean over p from 0 to 1, dense at both ends."""
    angle = (np.arange(SWEEP) + 0.5) * np.pi / SWEEP
    weight = np.sin(angle)
    return (1 - np.cos(angle)) / 2, weight / weight.sum()


# ---- several categories: simulated ---------------------------------------------------------------------------------------
@functools.lru_cache
def shares_of(name, a):
    """Return a true distribution by its name: "even", "zipf", or "spiked" (one share of a half, a quarter of them empty)."""
    if name == "even":
        return np.full(a, 1 / a)
    if name == "zipf":
        return population("zipf", a).distribution
    empty = max(1, a // 4)
    out = np.zeros(a)
    out[0], out[1 : a - empty] = 0.5, 0.5 / (a - empty - 1)
    return out


def _several(cell, rng):
    p, protocol = shares_of(cell["population"], cell["n_categories"]), evaluate.protocol_of(cell)
    n, size = cell["n_reports"], cell["replications"]
    if cell["protocol"] == "grr":
        hit, other = protocol.hit_rates
        counts = rng.multinomial(n, other + (hit - other) * p, size=size).astype(float)
        found = grr_intervals(counts, hit, other, learnt=p.size < MANY)
        if p.size >= MANY:
            some = [Collection(evaluate.labels(p.size), Tally(protocol, np.arange(p.size), row)) for row in counts[:LEARNT]]
            found["learnt"] = learnt_by_fits(some)
        found["bootstrap"] = grr_bootstrap(counts, hit, other, rng)
    else:
        found, counts, (hit, other) = _of_rows(cell, protocol, p, rng)
    form = Binomials(counts.ravel(), np.full(counts.size, hit), np.full(counts.size, other), n)
    for name, method in (("confidence", distribution_interval), ("wilson", binary.wilson), ("wald", binary.wald)):
        found[name] = tuple(end.reshape(counts.shape) for end in method(form, CI_PROB))
    return [line for metric in _METRICS for name, ends in found.items() for line in _line(name, metric, p, *ends)]


def _line(name, metric, p, lower, upper):
    """Yield the line of one metric, unless no share is of its kind."""
    held, width = (lower <= p) & (p <= upper), upper - lower
    present, largest = p > 0, p == p.max()
    values = {
        "coverage": held[:, present],
        "width": width,
        "coverage_largest": held[:, largest],
        "width_largest": width[:, largest],
        "coverage_empty": held[:, ~present],
        "coverage_least": held[:, present],
    }[metric]
    if not values.shape[1]:
        return
    if metric == "coverage_least":
        value = float(values.mean(axis=0).min())
        error = math.sqrt(value * (1 - value) / len(values))
    else:
        value, error = evaluate.mean_and_error(values.mean(axis=1))
    line = {"estimator": name, "target": "distribution", "metric": metric, "replications": len(values)}
    yield line | {"value": value, "standard_error": error}


_METRICS = ("coverage", "width", "coverage_largest", "width_largest", "coverage_empty", "coverage_least")


def grr_intervals(counts, hit, other, learnt=True):
    """Return {prior: (lower, upper)} of GRR from counts of shape (replications, a): exact posteriors, all at once.

    Parameters
    ----------
    counts : (r, a) array
    hit, other : float
        g and h of GRR.
    learnt : bool
        The learnt prior too.
    """
    size, a = counts.shape
    beta, first = hit / other - 1, min(size, LEARNT)

    def under(alpha, levels, counts=counts):
        """Return the Batch of sets with one concentration each; ``alpha`` has a multiple of the counts' length."""
        powers = np.tile(counts, (len(alpha) // len(counts), 1)).reshape(-1, 1)
        family = PowerFactors(np.repeat(alpha, a), np.full((powers.size, 1), beta), powers)
        return batch(family, len(alpha), levels)

    out = {}
    for name, alpha in (("jeffreys", 0.5), ("flat", 1.0)):
        quantiles = under(np.full(size, alpha), _levels()).quantiles
        out |= {name: (quantiles[0], quantiles[1]), f"{name}_hdi": _shortest(quantiles)}
    return out | ({"learnt": _learnt(functools.partial(under, counts=counts[:first]), first, a)} if learnt else {})


def learnt_by_fits(collections):
    """Return (lower, upper) under the learnt prior as fits without draws state them, shape (collections, a) each."""
    ends = []
    for collection in collections:
        summary = fit(collection, "learnt", draws=0, estimates=False, ci_prob=CI_PROB)["summary"].sel(target="distribution")
        ends.append((summary["lower"].values, summary["upper"].values))
    lower, upper = map(np.array, zip(*ends, strict=True))
    return lower, upper


def _levels():
    """Return the probabilities of the quantiles that both kinds of intervals need."""
    return np.concatenate([TAILS, BELOW[1:-1], BELOW[1:-1] + CI_PROB, [CI_PROB, 1 - CI_PROB]])


def _shortest(quantiles):
    """Return the ends of the shortest of some intervals, with those that begin at 0 or end at 1 among them."""
    inner = len(BELOW) - 2
    lower = np.concatenate([np.zeros_like(quantiles[:1]), quantiles[2 : 2 + inner], quantiles[-1:]])
    upper = np.concatenate([quantiles[-2:-1], quantiles[2 + inner : 2 + 2 * inner], np.ones_like(quantiles[:1])])
    best = (upper - lower).argmin(axis=0)[None]
    return np.take_along_axis(lower, best, 0)[0], np.take_along_axis(upper, best, 0)[0]


def _learnt(under, size, a):
    """Return (lower, upper) under the learnt prior, as a fit without draws states them.

    The ends of the nodes are averaged, and moved so that the interval is as much wider than theirs as the sd is.
    """
    prior = Learnt()

    def log_evidence(found, alpha):
        return found.log_evidence + gammaln(a * alpha) - a * gammaln(alpha)

    curve = []
    for t in EVIDENCE_AT:
        alpha = np.full(size, prior.alpha(t))
        curve.append(log_evidence(under(alpha, ()), alpha) - 0.5 * t**2)
    mean, sd = _peak(np.array(curve))
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    t = mean + sd * x[:, None]  # (nodes, size)
    alpha = prior.alpha(t).ravel()
    found = under(alpha, TAILS)
    logs = log_evidence(found, alpha).reshape(NODES, size) - 0.5 * t**2 + (np.log(w) + 0.5 * x**2)[:, None]
    weight = np.exp(logs - logs.max(axis=0))
    weight = (weight / weight.sum(axis=0))[:, :, None]
    means, variances = (value.reshape(NODES, size, a) for value in (found.mean, found.variance))
    centre, inside = (weight * means).sum(axis=0), (weight * variances).sum(axis=0)
    wider = np.sqrt(1 + (weight * (means - centre) ** 2).sum(axis=0) / inside)
    ends = (weight * found.quantiles.reshape(2, NODES, size, a)).sum(axis=1)
    lower, upper = np.clip(centre + wider * (ends - centre), 0.0, 1.0)
    return lower, upper


def _peak(curve):
    """Return (mean, sd) of t in each column of log-densities at EVIDENCE_AT, splines between them."""
    from scipy.interpolate import CubicSpline

    t = np.linspace(EVIDENCE_AT[0], EVIDENCE_AT[-1], 1401)[:, None]
    logs = CubicSpline(EVIDENCE_AT, curve)(t[:, 0])
    density = np.exp(logs - logs.max(axis=0))
    density /= density.sum(axis=0)
    mean = (density * t).sum(axis=0)
    return mean, np.maximum(np.sqrt((density * (t - mean) ** 2).sum(axis=0)), 0.02)


def grr_mle(counts, hit, other):
    """Return the maximum-likelihood shares of GRR, shape (…, a): p = (max(h, C/λ) − h)/(g − h) with λ such that Σp = 1.

    Parameters
    ----------
    counts : (…, a) array
    hit, other : float
    """
    descending = -np.sort(-counts, axis=-1)
    a = counts.shape[-1]
    kept = np.arange(1, a + 1)
    # With the k largest above h: Σ C/λ = 1 − (a − k) h. The MLE has the most categories that stay above.
    multiplier = descending.cumsum(axis=-1) / (1 - (a - kept) * other)
    above = (descending > multiplier * other).sum(axis=-1, keepdims=True)
    chosen = np.take_along_axis(multiplier, np.maximum(above - 1, 0), -1)
    return np.maximum(counts / chosen - other, 0) / (hit - other)


def grr_bootstrap(counts, hit, other, rng):
    """Return the percentile intervals of the parametric bootstrap of GRR's MLE, (lower, upper) of shape (r, a)."""
    n = int(counts[0].sum())
    lower, upper = np.empty(counts.shape), np.empty(counts.shape)
    for i, p in enumerate(grr_mle(counts, hit, other)):
        law = other + (hit - other) * p
        again = rng.multinomial(n, law / law.sum(), size=REPETITIONS)
        lower[i], upper[i] = np.quantile(grr_mle(again, hit, other), TAILS, axis=0)
    return lower, upper


def _of_rows(cell, protocol, p, rng):
    """Return ({prior: ends}, support counts (r, a), (g, h)) of a protocol whose reports weigh several categories.

    The likelihood is expanded about the posterior mean, as in fits without draws.
    """
    a, n = p.size, cell["n_reports"]
    forms, parts, collections = [], {"jeffreys": [], "flat": []}, []
    for _ in range(cell["replications"]):
        tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
        collection = Collection(evaluate.labels(a), tally)
        forms.append(protocol.binomials(tally.reports, tally.counts))
        for name, held in parts.items():
            held.append(expand(collection.rows, as_prior(name, a).alpha)[0].whole)
        collections.append(collection)
    found = {"learnt": learnt_by_fits(collections)}
    for name, held in parts.items():
        family = ExpandedFactors(*(np.concatenate([getattr(one, key.name) for one in held]) for key in fields(held[0])))
        quantiles = batch(family, len(held), _levels()).quantiles
        found |= {name: (quantiles[0], quantiles[1]), f"{name}_hdi": _shortest(quantiles)}
    rates = forms[0].hit, forms[0].other
    return found, np.array([form.counts for form in forms]), tuple(float(np.ravel(rate)[0]) for rate in rates)
