"""Deniers: coverage of P and δ with both drawn from their priors, and what a direct half is worth, ``make calibrate``.

A 95 % interval of the mixture over nodes of δ holds the truth where the posterior probability below the truth is between
.025 and .975: one value of the distribution function, which is quicker than two quantiles. The numbers go to denial.csv
beside this file.
"""

import pathlib

import numpy as np
import pytest
from recorded import record

from ldpbayes import Collection, Tally, fit
from ldpbayes.methods import Exact, Quadrature
from ldpbayes.methods.base import Watch
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.quadrature.rules import ProductRule
from ldpbayes.protocols import crosswise, direct

SUMMARY = pathlib.Path(__file__).with_name("denial.csv")
DEVICE, ASKED = crosswise(0.25), direct()
#: People in each half, and surveys.
SIZES, REPLICATIONS = (100, 400, 1600), 1000
#: Its ends differ by less than 1e-5 in probability from those of the engine's own rule: 2e-6, where 12 nodes leave 4e-5.
RULE = ProductRule(15)


def simulated(p, delta, n, rng):
    """Return a survey of n people through a device and n asked directly."""
    same, yes = rng.binomial(n, 0.75 - 0.5 * p), rng.binomial(n, p * (1 - delta))
    tallies = [Tally(DEVICE, [0, 1], [n - same, same], "device"), Tally(ASKED, [0, 1], [n - yes, yes], "direct")]
    return Collection(["no", "yes"], tallies).with_deniers("yes", "no", "direct")


def posterior(collection):
    """Return the mixture over nodes of δ."""
    plan = Quadrature(draws=2, chains=1).plan(Problem.of(collection, "jeffreys"))
    return plan.state.integrated(RULE, Watch())


def covered(found, p, delta):
    """Return whether the 95 % intervals of P and δ hold the truth."""
    return [0.025 <= found.below(which, truth) <= 0.975 for which, truth in ((1, p), (2, delta))]


def coverage(n, replications, seed, delta=None):
    """Return the coverage of P and δ, with P ~ Beta(½, ½) and δ uniform, or fixed."""
    rng, hits = np.random.default_rng(seed), np.zeros(2)
    for _ in range(replications):
        p, own = rng.beta(0.5, 0.5), rng.random() if delta is None else delta
        hits += covered(posterior(simulated(p, own, n, rng)), p, own)
    return hits / replications


def squared_errors(p, delta, n, replications, seed):
    """Return the mean squared error of P by a device and as many asked directly, over that of the device alone."""
    rng, errors = np.random.default_rng(seed), np.zeros(2)
    for _ in range(replications):
        collection = simulated(p, delta, n, rng)
        alone = Collection(["no", "yes"], Tally(DEVICE, [0, 1], collection.tallies[0].counts))
        means = posterior(collection).mean[1], Exact().moments(alone, "jeffreys").mean[1]
        errors += (np.array(means) - p) ** 2
    return errors[0] / errors[1]


@pytest.mark.calibrate
def test_few_nodes_give_the_same_probabilities():
    """The small sibling: the ends of the engine's own rules have .025 and .975 below them by the rule of these tests."""
    collection = simulated(0.3, 0.4, 400, np.random.default_rng(1))
    summary = fit(collection, draws=50, random_seed=0, estimates=False, method="quadrature")["summary"]
    found = posterior(collection)
    for key, level in (("lower", 0.025), ("upper", 0.975)):
        assert found.below(1, float(summary[key][0, 1])) == pytest.approx(level, abs=1e-5)
        assert found.below(2, float(summary[f"derived_{key}"][0])) == pytest.approx(level, abs=1e-5)


@pytest.mark.calibrate
@pytest.mark.parametrize("n", SIZES)
def test_intervals_cover_where_both_are_drawn_from_their_priors(n):
    found = coverage(n, REPLICATIONS, n)
    line = {"kind": "priors", "n": n, "p": "", "delta": "", "replications": REPLICATIONS}
    record(SUMMARY, line | {"coverage_p": found[0], "coverage_delta": found[1], "ratio": ""}, ("kind", "n", "p", "delta"))
    assert (abs(found - 0.95) <= 0.02).all()


@pytest.mark.calibrate
@pytest.mark.parametrize("delta", [0.0, 0.1, 0.3, 0.5])
def test_coverage_at_a_fixed_share(delta):
    """Reported: at δ = 0 an equal-tailed interval never holds the boundary, and P's covers less; inside both cover."""
    found = coverage(400, 400, 7, delta)
    line = {"kind": "fixed", "n": 400, "p": "", "delta": delta, "replications": 400}
    record(SUMMARY, line | {"coverage_p": found[0], "coverage_delta": found[1], "ratio": ""}, ("kind", "n", "p", "delta"))
    assert delta == 0 or (found >= 0.9).all()


@pytest.mark.calibrate
def test_what_a_direct_half_is_worth():
    """Nothing inside, and a third or more of the squared error near δ = 0."""
    for delta, low, high in ((0.05, 0.45, 0.85), (0.5, 0.85, 1.15)):
        ratio = squared_errors(0.3, delta, 400, 400, 9)
        line = {
            "kind": "worth",
            "n": 400,
            "p": 0.3,
            "delta": delta,
            "replications": 400,
            "coverage_p": "",
            "coverage_delta": "",
        }
        record(SUMMARY, line | {"ratio": ratio}, ("kind", "n", "p", "delta"))
        assert low < ratio < high
