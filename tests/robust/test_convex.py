"""cvxpy's maximum, from probabilities as papers state them: it agrees with the package's, which shares no code with it."""

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes import protocols
from ldpbayes.collections import as_collection
from ldpbayes.errors import InfeasibleError
from ldpbayes.estimators.mle import MLE
from ldpbayes.protocols import designs
from ldpbayes.robust.convex import convex_maximum
from ldpbayes.robust.described import probabilities

A = 8
NAMES = [f"c{i}" for i in range(A)]
PROTOCOLS = {
    "grr": lb.GRR(A, 1.0),
    "symmetric": protocols.UnaryEncoding.symmetric(A, epsilon=1.0),
    "optimized": protocols.UnaryEncoding.optimized(A, epsilon=1.0),
    "subset": protocols.SubsetSelection(A, 1.0),
    "hashing": protocols.LocalHashing(A, 1.0),
    "cohorts": protocols.CohortRR(A, 1.0, cohorts=16, buckets=4),
    "hadamard": protocols.HadamardResponse(A, 1.0),
    "bloom": protocols.Rappor(A, 0.25, 0.75, 0.5, 8, 4, 2, candidates=NAMES),
    "basic": protocols.Rappor.direct(A, 0.25, 0.75, 0.5),
    "matrix": protocols.Channel(np.full((A, A), 0.05) + 0.6 * np.eye(A)),
}


def collected(protocol, n, seed):
    rng = np.random.default_rng(seed)
    values = rng.choice(A, size=n, p=rng.dirichlet(np.ones(A)))
    return as_collection(lb.Tally(protocol, protocol.privatize(values, rng), name="all"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_descriptions_are_the_likelihoods_up_to_a_factor_of_each_report(name):
    collection = collected(PROTOCOLS[name], 300, 1)
    table, counts = probabilities(collection)
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(A), 50)
    described = np.log(p @ table.T) @ counts
    likelihood = np.array([float(collection.rows.log_likelihood(each)) for each in p])
    np.testing.assert_allclose(described - described[0], likelihood - likelihood[0], atol=1e-8)


@pytest.mark.parametrize("n", [1_000, 100_000])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_both_maxima_are_one(name, n):
    collection = collected(PROTOCOLS[name], n, 3)
    convex, estimate = convex_maximum(collection), MLE()(collection)
    assert convex.gap >= -1e-6
    assert abs(convex.excess(estimate.distribution)) <= convex.gap + estimate.gap + 1e-9
    assert convex.gap < 0.2 and abs(convex.excess(estimate.distribution)) < 1e-3  # nats
    np.testing.assert_allclose(convex.distribution, estimate.distribution, atol=2e-4)


def test_channels_add_up_and_surveys_are_described():
    survey = lb.Collection(
        ["no", "yes"],
        [
            lb.Tally(designs.warner(0.7), [0, 1], [60, 40], name="die"),
            lb.Tally(designs.crosswise(0.25), [0, 1], [70, 30], name="pair"),
        ],
    )
    convex, estimate = convex_maximum(survey), MLE()(survey)
    assert abs(convex.excess(estimate.distribution)) < 1e-6
    np.testing.assert_allclose(convex.distribution, estimate.distribution, atol=1e-4)


def test_what_is_not_described_or_too_large_says_so():
    rng = np.random.default_rng(1)
    wide, pair = protocols.UnaryEncoding.optimized(600, epsilon=1.0), protocols.Attributes([lb.GRR(2, 1.0), lb.GRR(3, 1.0)])
    for protocol, n, word in ((wide, 4_000, "2,400,000"), (pair, 50, "attributes")):
        collection = as_collection(lb.Tally(protocol, protocol.privatize(rng.integers(6, size=n), rng), name="all"))
        with pytest.raises(InfeasibleError, match=word):
            convex_maximum(collection)
