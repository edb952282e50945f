"""The model of respondents who ignore the device: simulation-based calibration and coverage, ``make calibrate``.

Ranks: γ and P from the prior, reports through the device and the law, then the posterior by the method that ``auto`` takes
short of NUTS; the ranks of γ, of a share of P and of the same share of F among the draws are uniform. Coverage: the same at
one truth, γ = 0.1, where the 90 % intervals hold it in nine of ten samples. The numbers go to compliance.csv beside this
file.
"""

import pathlib
import time
import warnings

import numpy as np
import pytest
from calibration.test_sbc import RANKED, covered, p_value, rank
from recorded import record
from scipy import stats

from ldpbayes import GRR, Collection, Tally, fit
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.priors import Compliance
from ldpbayes.protocols import HadamardResponse, UnaryEncoding, designs

SUMMARY = pathlib.Path(__file__).with_name("compliance.csv")
FIELDS = "design kind replications reports flagged p_gamma p_share p_frequency coverage_gamma coverage_share seconds".split()
#: Protocols, the law, reports, and the share P_x that is ranked.
DESIGNS = {
    "crosswise pair": (lambda: [designs.crosswise(0.2), designs.crosswise(0.8)], 1, 2000),
    "grr": (lambda: [GRR(4, 0.7), GRR(4, 2.0)], 0, 2000),
    "oue": (lambda: [UnaryEncoding.optimized(4, 1.5)], "no bits", 1000),
    "hadamard": (lambda: [HadamardResponse(5, 1.5)], "uniform", 2000),
    "cheater detection": (lambda: [designs.triangular(0.2), designs.triangular(0.6)], 0, 2000),
}
REPLICATIONS, LEVEL, INTERVAL = 200, 0.01, 0.9


def simulated(design, p, gamma, rng):
    """Return (collection with noncompliers, true frequencies of the compliers)."""
    make, law, n = DESIGNS[design]
    protocols = make()
    labels = ["no", "yes"] if len(p) == 2 else [f"c{x}" for x in range(len(p))]
    empty = [Tally(q, *q.simulate(np.ones(len(p), dtype=int), rng), f"c{i}") for i, q in enumerate(protocols)]
    wrapped = [t.protocol for t in Collection(labels, empty).with_noncompliers({"other": law}).tallies]
    tallies, totals = [], np.zeros(len(p) + 1, dtype=int)
    for i, protocol in enumerate(wrapped):
        counts = rng.multinomial(n // len(wrapped), np.append((1 - gamma) * p, gamma))
        totals += counts
        tallies.append(Tally(protocol, *protocol.simulate(counts, rng), f"c{i}"))
    return Collection([*labels, "other"], tallies), totals[:-1] / totals[:-1].sum()


def draws_of(collection, rng):
    """Return draws of γ, P and F, and whether the method flags them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        seed = int(rng.integers(2**31))
        tree = fit(collection, Compliance("jeffreys"), draws=500, random_seed=seed, estimates=False, exclude=("nuts",))
    posterior = tree["posterior"]
    a = posterior.sizes["category"]
    parts = (
        posterior["noncompliance"].values.ravel(),
        *(posterior[v].values.reshape(-1, a) for v in ("distribution", "frequency")),
    )
    return parts, not tree.attrs["converged"]


def categories_of(design):
    return DESIGNS[design][0]()[0].n_categories


def recorded(design, kind, replications, flagged, start, **numbers):
    line = {"design": design, "kind": kind, "replications": replications, "reports": DESIGNS[design][2], "flagged": flagged}
    line |= {name: f"{value:.4f}" for name, value in numbers.items()}
    line = {field: "" for field in FIELDS} | line | {"seconds": f"{time.process_time() - start:.1f}"}
    record(SUMMARY, line, ("design", "kind"), replaces=("design", "kind"))


def ranks_of(design, replications, seed):
    start, rng, a = time.process_time(), np.random.default_rng(seed), categories_of(design)
    ranks, flagged = np.empty((replications, 3), dtype=int), 0
    for r in range(replications):
        p, gamma = rng.dirichlet(np.full(a, 0.5)), rng.beta(1, 9)
        collection, frequency = simulated(design, p, gamma, rng)
        (own, shares, frequencies), bad = draws_of(collection, rng)
        flagged += bad
        kept = rng.choice(own.size, RANKED, replace=False)
        x = r % a
        pairs = ((gamma, own[kept]), (p[x], shares[kept, x]), (frequency[x], frequencies[kept, x]))
        ranks[r] = [rank(value, values, rng) for value, values in pairs]
    tests = {f"p_{name}": p_value(ranks[:, k]) for k, name in enumerate(("gamma", "share", "frequency"))}
    inside = {f"coverage_{name}": covered(ranks[:, k]).mean() for k, name in enumerate(("gamma", "share"))}
    recorded(design, f"ranks {seed}", replications, flagged, start, **tests, **inside)
    return tests


@pytest.mark.calibrate
def test_the_designs_identify_their_law():
    """The small sibling: one sample of each, whose draws are distributions about the truth."""
    rng = np.random.default_rng(0)
    for design in DESIGNS:
        a = categories_of(design)
        p = np.arange(1, a + 1) / (a * (a + 1) / 2)
        collection, _ = simulated(design, p, 0.1, rng)
        assert collection.noncompliance().identified
        (gamma, shares, _), flagged = draws_of(collection, rng)
        assert (
            not flagged and abs(gamma.mean() - 0.1) < 5 * gamma.std() and (abs(shares.mean(0) - p) < 5 * shares.std(0)).all()
        )


@pytest.mark.calibrate
@pytest.mark.parametrize("design", DESIGNS)
def test_ranks_are_uniform(design):
    bad = [name for name, p in ranks_of(design, REPLICATIONS, 0).items() if p < LEVEL]
    if bad:
        again = ranks_of(design, 4 * REPLICATIONS, 1)
        assert not [name for name in bad if again[name] < LEVEL], again


@pytest.mark.calibrate
@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_at_one_truth_cover(design):
    start, rng, a = time.process_time(), np.random.default_rng(7), categories_of(design)
    p = np.array([0.7, 0.3]) if a == 2 else np.arange(1, a + 1)[::-1] / (a * (a + 1) / 2)
    hits, flagged = np.zeros((REPLICATIONS, 2)), 0
    for r in range(REPLICATIONS):
        (gamma, shares, _), bad = draws_of(simulated(design, p, 0.1, rng)[0], rng)
        flagged += bad
        for k, (draws, truth) in enumerate(((gamma, 0.1), (shares[:, 1], p[1]))):
            low, high = np.quantile(draws, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
            hits[r, k] = low <= truth <= high
    found = hits.mean(axis=0)
    recorded(design, "coverage", REPLICATIONS, flagged, start, coverage_gamma=found[0], coverage_share=found[1])
    # Below nominal by chance with probability 0.001; a prior that is right about γ covers more than nominal.
    assert (hits.sum(axis=0) >= stats.binom.ppf(0.001, REPLICATIONS, INTERVAL)).all()
