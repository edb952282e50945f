"""Draws of the users' own frequencies: which kind is used, and that neither lies about its width."""

import numpy as np
import pytest
from conditioned import weighted

from ldpbayes import Collection, Tally
from ldpbayes.inference.importance import resample
from ldpbayes.methods.frequency import Allocation, frequency_draws, frequency_draws_within, frequency_moments
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols.unary import UnaryEncoding


@pytest.mark.parametrize("epsilon, kind", [(1.0, "moment-matched"), (12.0, "allocated")])
def test_width_of_frequencies_at_a_large_n(epsilon, kind, monkeypatch):
    """Moments of F from sampled moments of P are used only where F is not much narrower than P."""
    monkeypatch.setattr("ldpbayes.methods.frequency.ALLOCATION", Allocation(most=0.0))
    rng, n = np.random.default_rng(1), 50_000
    protocol = UnaryEncoding.symmetric(8, epsilon)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, np.arange(1, 9) / 36), rng))
    collection = Collection(list("abcdefgh"), [tally])
    rows, prior = collection.rows, Dirichlet.jeffreys(8)
    found = weighted(collection, prior, 500)
    mean = found.weight @ found.distribution
    moments = frequency_moments(mean, found.weight @ (found.distribution - mean) ** 2, prior.alpha, n)
    flat = found.distribution[resample(found.weight, rng)]
    drawn, how = frequency_draws_within(rows, flat, rng, lambda: moments)
    assert how == kind
    exact = frequency_draws(rows, flat, rng)
    np.testing.assert_allclose(drawn.std(axis=0), exact.std(axis=0), rtol=0.12)
    assert (np.abs(drawn.mean(axis=0) - exact.mean(axis=0)) < 0.2 * exact.std(axis=0)).all()


def test_repeated_reports_are_allocated_at_once():
    protocol = UnaryEncoding.symmetric(200, 8.0)
    bits = np.eye(200, dtype=np.int64)
    few, many = (Tally(protocol, bits, np.full(200, count)).rows for count in (100, 10**7))
    assert many.sampler().work < 3 * few.sampler().work
