"""Simulation-based calibration of hierarchical priors, and what pooling is worth: ``make calibrate``.

Unknowns from the prior, reports through the protocol, posterior draws by the joint engines: the ranks of a share, the
scale, the pooled mean, an effect and the log-likelihood among their draws are uniform where prior, likelihood, sampler and
weights belong together. The numbers go to hierarchical.csv beside this file.
"""

import pathlib
import time

import numpy as np
import pytest
from ranks import LEVEL, RANKED, binomial_p, covered, p_value, rank
from recorded import record

from ldpbayes import GRR, Cells, Collection, Tally
from ldpbayes.methods.base import Watch
from ldpbayes.methods.constants import MAX_ENTRIES
from ldpbayes.methods.expanded import expand
from ldpbayes.methods.hmc import HMC
from ldpbayes.methods.nuts import NUTS
from ldpbayes.methods.problem import Joint
from ldpbayes.methods.sampler import Sampler, pooled_mean
from ldpbayes.priors import Hierarchical
from ldpbayes.protocols.unary import UnaryEncoding

A, CELLS = 3, 5
TABLE = pathlib.Path(__file__).with_name("hierarchical.csv")
RING = np.roll(np.eye(CELLS), 1, axis=0) + np.roll(np.eye(CELLS), -1, axis=0)
#: name → (prior, protocol, reports a cell, form), by NUTS; with "hmc, " before the name by the method hmc.
CASES = {
    "groups, separable": (Hierarchical(), GRR(A, 1.5), 40, Sampler.written),
    "groups, rows": (Hierarchical(), UnaryEncoding.optimized(A, 1.5), 40, MAX_ENTRIES),
    "groups, summaries": (Hierarchical(), UnaryEncoding.optimized(A, 1.0), 400, 0),
    "by category": (Hierarchical(by_category=True), GRR(A, 1.5), 40, Sampler.written),
    "days": (Hierarchical("days", scale=0.5), GRR(A, 1.5), 40, Sampler.written),
    "neighbours": (Hierarchical(RING), GRR(A, 1.5), 40, Sampler.written),
}
CASES |= {f"nuts, {name}": case for name, case in CASES.items() if case[-1]}
NAMES = ("share", "scale", "pooled", "effect", "log_likelihood")
#: Half as many by NUTS, which takes 5 to 20 times as long.
REPLICATIONS = 200


def truth(prior, rng):
    """Return (P, variables) drawn from the prior."""
    z = rng.standard_normal(prior.n_unknowns)
    part = slice(prior._width, prior._width + prior._scales)
    z[part] = np.log(np.abs(z[part]))
    return prior.to_simplex(z), {name: values[0] for name, (_, values) in prior.variables(z[None]).items()}


def replicate(name, replications, stage):
    """Return (ranks (replications, names), how often NUTS on rows answered instead of summaries or of hmc)."""
    family, protocol, n, written = CASES[name]
    settings = {} if name.startswith("nuts") else {"written": written}
    prior = family.sized(A, CELLS)
    rng = np.random.default_rng([list(CASES).index(name), stage])
    ranks, handed = np.empty((replications, len(NAMES)), dtype=int), 0
    for r in range(replications):
        p, known = truth(prior, rng)
        found = {}
        for c in range(CELLS):
            reports = protocol.simulate(rng.multinomial(n, p[c]), rng)
            found[c] = Collection("abc"[:A], [Tally(protocol, *reports)])
        problem = Joint(Cells(found), prior)
        engine = (HMC if settings else NUTS)(draws=5 * RANKED, chains=1, **settings)
        sample = engine.run(engine.plan(problem), rng, Watch())
        if sample.rejected:
            handed += 1
            engine = NUTS(draws=5 * RANKED, chains=1)
            sample = engine.run(engine.plan(problem), rng, Watch())
        draws = sample.distribution[0, ::5]
        values = {key: values[0, ::5] for key, (_, values) in sample.variables.items()}
        c, x = r % CELLS, r % A
        likelihood = [
            sum(one.log_likelihood(q) for one, q in zip(problem.likelihoods, some, strict=True)) for some in (p, *draws)
        ]
        scale, scales = known["scale"], values["scale"] if known["scale"].ndim == 0 else values["scale"][:, x]
        pairs = (
            (p[c, x], draws[:, c, x]),
            (scale if scale.ndim == 0 else scale[x], scales),
            (known["pooled"][x], values["pooled"][:, x]),
            (known["effect"][c, x], values["effect"][:, c, x]),
            (likelihood[0], np.array(likelihood[1:])),
        )
        ranks[r] = [rank(one, among, rng) for one, among in pairs]
    return ranks, handed


def calibrate(name, replications, stage):
    """Return every p-value of one run by name, and record its line."""
    start = time.process_time()
    ranks, handed = replicate(name, replications, stage)
    tests = {key: p_value(ranks[:, k]) for k, key in enumerate(NAMES)}
    inside = covered(ranks)
    line = {"case": name, "stage": stage, "replications": replications, "handed_over": handed}
    line |= {f"p_{key}": f"{p:.4f}" for key, p in tests.items()}
    line |= {f"coverage_{key}": f"{inside[:, k].mean():.3f}" for k, key in enumerate(NAMES)}
    tests |= {f"coverage of {key}": binomial_p(inside[:, k]) for k, key in enumerate(NAMES[:4])}
    line["seconds"] = f"{time.process_time() - start:.1f}"
    # A first run also takes the place of the second one that an earlier calibration may have needed.
    record(TABLE, line, ("case", "stage"), replaces=("case", "stage")[: 1 + stage])
    return tests


@pytest.mark.calibrate
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_uniform(name):
    replications = REPLICATIONS // (2 if name.startswith("nuts") else 1)
    tests = calibrate(name, replications, 0)
    outside = [key for key, p in tests.items() if p < LEVEL]
    if outside:
        again = calibrate(name, 4 * replications, 1)
        assert not [f"{key}: p = {again[key]:.2g}" for key in outside if again[key] < LEVEL]


@pytest.mark.calibrate
@pytest.mark.parametrize("structure", ["groups", "days"])
def test_partial_pooling_beats_none_and_all(structure):
    """Squared error summed over categories, averaged over 50 cells of 385 reports; and the scale is found again."""
    a, cells, n, rng = 10, 50, 385, np.random.default_rng(11)
    protocol, centre = UnaryEncoding.optimized(a, 1.0), rng.normal(size=a)
    sd = 0.5 if structure == "groups" else 0.2
    effects = sd * rng.normal(size=(cells, a))
    effects = effects if structure == "groups" else effects.cumsum(axis=0) - effects.cumsum(axis=0).mean(axis=0)
    p = np.exp(centre + effects)
    p /= p.sum(axis=1, keepdims=True)
    held = {
        c: Collection([f"c{x}" for x in range(a)], [Tally(protocol, *protocol.simulate(rng.multinomial(n, p[c]), rng))])
        for c in range(cells)
    }
    data = Cells(held)
    problem, engine = Joint(data, Hierarchical(structure).on(data)), HMC()
    sample = engine.run(engine.plan(problem), rng, Watch())
    alone = np.stack([expand(one.rows(), np.full(a, 0.5))[0].saddle_moments()[0] for one in data.likelihoods])
    together = np.broadcast_to(pooled_mean(data.likelihoods), p.shape)
    partial = sample.known["distribution"]["mean"] if sample.known else sample.distribution.mean(axis=(0, 1))
    error = {
        name: ((q - p) ** 2).sum(axis=1).mean() for name, q in (("none", alone), ("all", together), ("partial", partial))
    }
    assert error["partial"] < 0.9 * min(error["none"], error["all"]), error
    scale = sample.variables["scale"][1]
    assert abs(scale.mean() - sd) < 3 * scale.std()
