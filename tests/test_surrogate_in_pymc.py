"""The surrogate as a likelihood in PyMC models."""

import numpy as np
import pymc as pm
import pytest
from conditioned import weighted

from ldpbayes import Collection, Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.methods import NUTS, nuts
from ldpbayes.model import build_model
from ldpbayes.protocols import GRR
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.pymc import observe

pytestmark = pytest.mark.together("models")

SIZE = 20  # one number of categories, so one compilation


def collected(protocol, n, seed, name="all"):
    """Return a collection of n users with a Zipf distribution."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, protocol.n_categories + 1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng), name=name)
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [tally])


def log_probability(collection, p):
    """Return the surrogate's log-probability at p, summed over the channels, through a PyMC model."""
    with pm.Model() as model:
        observe("reports", pm.Data("p", p), collection, likelihood="surrogate")
    compiled = model.compile_fn(model.observedlogp, inputs=[], point_fn=False)
    return float(compiled())


@pytest.fixture(scope="module")
def unary():
    return collected(UnaryEncoding.optimized(SIZE, 1.0), 2000, seed=1)


@pytest.fixture(scope="module")
def two_channels(unary):
    return unary + collected(GRR(SIZE, 1.5), 1500, seed=2, name="grr")


def test_log_probability_is_that_of_the_reports_near_the_posterior(two_channels):
    draws = weighted(two_channels, "jeffreys", 1).distribution[:3]
    found = [log_probability(two_channels, p) for p in draws]
    np.testing.assert_allclose(found, two_channels.rows.log_likelihood(draws.T), atol=0.6)


def test_observed_variables_and_their_predictions(two_channels):
    model = build_model(two_channels, likelihood="surrogate")
    assert [variable.name for variable in model.observed_RVs] == ["reports_all", "reports_grr"]
    p = np.full(SIZE, 1 / SIZE)
    with pm.Model() as model:
        observed = observe("reports", pm.Data("p", p), two_channels, likelihood="surrogate", prior="flat")
    with pytest.warns(UserWarning, match="object mode"):
        counts = pm.draw(observed[1], draws=20, random_seed=1)
    assert counts.shape == (20, SIZE) and (counts.sum(axis=1) == 1500).all()


def test_refusals(unary):
    small = Collection(["no", "yes"], Tally(GRR(2, 1.0), [0, 1], [30, 20]))
    with pytest.raises(InfeasibleError, match="three categories"):
        build_model(small, likelihood="surrogate")
    with pytest.raises(ArgumentError, match="likelihood must"):
        build_model(unary, likelihood="quadratic")


def test_the_surrogate_is_never_too_large_for_a_model(unary, monkeypatch):
    monkeypatch.setattr("ldpbayes.collections.tensor.MAX_ENTRIES", 10)
    monkeypatch.setattr(nuts, "MAX_ENTRIES", 10)
    assert not NUTS().feasibility(unary, "flat").feasible
    with pytest.raises(InfeasibleError, match='likelihood="surrogate"'):
        build_model(unary)
    assert build_model(unary, likelihood="surrogate").observed_RVs
