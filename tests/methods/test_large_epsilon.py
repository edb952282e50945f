"""Default fits at large ε: the first method's answer is accepted, because its factors have the likelihood's skewness."""

import numpy as np
import pytest
from conditioned import weighted

import ldpbayes as lb
from ldpbayes.protocols.local_hashing import PooledHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.unary import UnaryEncoding


def zipf(protocol, n):
    weights = 1 / np.arange(1, protocol.n_categories + 1)
    return lb.simulate(weights / weights.sum(), protocol, n, random_seed=1)


def test_the_first_method_answers_at_large_epsilon():
    tree = lb.fit(zipf(UnaryEncoding.optimized(100, 8.0), 10_000), draws=100, random_seed=1, estimates=False)
    assert tree.attrs["method"] == "surrogate" and tree.attrs["converged"] and "ran first" not in tree.attrs["reason"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "protocol",
    [
        UnaryEncoding.optimized(100, 8.0),
        PooledHashing(48, 6.0, seeds=4096),
        Rappor.one_time(50, 3.6, 32, 16, 2, candidates=tuple(f"word {x}" for x in range(50))),
    ],
    ids=["oue", "olh", "rappor"],
)
@pytest.mark.parametrize("alpha", [0.5, 0.05])
def test_weights_at_large_epsilon_are_nearly_equal(protocol, alpha):
    found = weighted(zipf(protocol, 1000), alpha, 250)
    assert found.effective_sample > 0.35 * 1000 and found.verdict.accepted


def test_draws_are_those_of_the_exact_posterior():
    """At ε = 12 a bit that is set names its user's category: P is nearly Dirichlet(α + the users of whom a bit is set)."""
    protocol = UnaryEncoding.optimized(20, 12.0)
    collection = zipf(protocol, 400)
    counts = collection.likelihood.support_counts()
    total = 0.5 * 20 + counts.sum()
    mean = (0.5 + counts) / total
    sd = np.sqrt(mean * (1 - mean) / (total + 1))
    found = weighted(collection, "jeffreys", 1000)
    assert found.effective_sample > 0.9 * 4000
    assert (np.abs(found.weight @ found.distribution - mean) < 0.1 * sd).all()
    np.testing.assert_allclose(np.sqrt(found.weight @ (found.distribution - mean) ** 2), sd, rtol=0.1)
