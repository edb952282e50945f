"""Designs whose honest reports the check of fit must leave alone, with collections simulated from them."""

import numpy as np

from ldpbayes import Collection, Tally
from ldpbayes.fitness import check
from ldpbayes.protocols import GRR, designs
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding


def zipf(a):
    return 1 / np.arange(1, a + 1) / (1 / np.arange(1, a + 1)).sum()


def collection_of(*tallies):
    return Collection([f"c{x}" for x in range(tallies[0].protocol.n_categories)], tallies)


def honest(protocols, p, n, rng):
    """Return a collection of n simulated reports through every protocol."""
    tallies = []
    for i, protocol in enumerate(protocols):
        reports, counts = protocol.simulate(rng.multinomial(n, p), rng)
        tallies.append(Tally(protocol, reports, counts, name=f"channel {i}"))
    return collection_of(*tallies)


#: Name -> (protocols, P, reports a channel).
DESIGNS = {
    "oue": ([UnaryEncoding.optimized(4, 1.0)], zipf(4), 2000),
    "sue, sparse": ([UnaryEncoding.symmetric(8, 1.0)], zipf(8), 1000),
    "oue, frequent reports": ([UnaryEncoding.optimized(12, 3.0)], zipf(12), 10_000),
    "oue, not listed": ([UnaryEncoding.optimized(20, 1.0)], zipf(20), 10_000),
    "oue, wide": ([UnaryEncoding.optimized(100, 2.0)], zipf(100), 500),
    "subset": ([SubsetSelection(6, 1.0)], zipf(6), 1000),
    "subset, 220 reports": ([SubsetSelection(12, 1.0)], zipf(12), 2000),
    "hadamard": ([HadamardResponse(6, 1.0)], zipf(6), 1000),
    "hadamard, sparse": ([HadamardResponse(20, 1.0)], zipf(20), 300),
    "olh": ([LocalHashing(20, 1.0)], zipf(20), 2000),
    "cohorts": ([CohortRR(10, 1.0, buckets=4, cohorts=8)], zipf(10), 2000),
    "three epsilons": ([GRR(5, 0.5), GRR(5, 1.0), GRR(5, 2.0)], zipf(5), 1000),
    "two epsilons, corner": ([GRR(20, 1.0), GRR(20, 2.0)], np.append(0.97, np.full(19, 0.03 / 19)), 1000),
    "crosswise pair": ([designs.warner(0.2), designs.warner(0.8)], np.array([0.9, 0.1]), 1500),
    "rappor": ([Rappor.one_time(5, 2.0, 6, 4, 1, candidates=tuple("abcde"))], zipf(5), 2000),
    "subset, not listed": ([SubsetSelection(20, 1.0)], zipf(20), 2000),
    "subset, sparse": ([SubsetSelection(8, 1.0, 3)], zipf(8), 100),
    "hadamard, many small": ([HadamardResponse(50, 1.0)], zipf(50) ** 1.5 / (zipf(50) ** 1.5).sum(), 400),
    "oue, uniform": ([UnaryEncoding.optimized(6, 0.5)], np.full(6, 1 / 6), 500),
    "oue, sparse": ([UnaryEncoding.optimized(11, 1.0)], zipf(11), 300),
    "cohorts, sparse": ([CohortRR(20, 1.0, buckets=4, cohorts=16)], zipf(20), 300),
    "two forced responses": (
        [designs.forced_response(0.5, [1, 1, 1]), designs.forced_response(0.7, [1, 1, 1])],
        np.array([0.9, 0.08, 0.02]),
        400,
    ),
    "two epsilons, not listed": ([UnaryEncoding.optimized(20, 1.0), UnaryEncoding.optimized(20, 3.0)], zipf(20), 1000),
    "olh, few": ([LocalHashing(20, 1.0)], zipf(20), 200),
}


def flagged_share(name, size, seed):
    """Return the share of so many honest collections that check() flags at its level, 5 %."""
    rng = np.random.default_rng(seed)
    return np.mean([check(honest(*DESIGNS[name], rng), random_seed=i, replications=199).flagged for i in range(size)])
