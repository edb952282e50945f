"""Moments from an expansion are checked wherever they come from: a fit without draws, and the studies."""

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.errors import InfeasibleError
from ldpbayes.protocols import HadamardResponse, UnaryEncoding
from ldpbayes.result.facts import facts_of
from studies import common, evaluate, priors


def surveyed(protocol, n, shares, seed=1):
    rng = np.random.default_rng(seed)
    reports = protocol.simulate(rng.multinomial(n, shares), rng)
    return lb.Collection(list("abcdefg"[: protocol.n_categories]), [lb.Tally(protocol, *reports)])


SHARES = 0.5 ** np.arange(1, 8) / (1 - 0.5**7)


@pytest.fixture(scope="module")
def large():
    """A diagonal cannot describe the curvature of these reports; the expansion's intervals never held the truth."""
    return surveyed(HadamardResponse(7, 4.0), 1_000_000, SHARES)


def test_an_expansion_that_may_be_off_is_refused(large):
    with pytest.raises(InfeasibleError, match=r"accurate enough.*draws"):
        lb.fit(large, "learnt", "surrogate", draws=0)


def test_where_an_expansion_may_be_off_moments_come_from_draws(large):
    tree = lb.fit(large, "learnt", draws=0, random_seed=1, estimates=False)
    one, mle = tree["summary"].sel(target="distribution"), lb.estimators.MLE()(large).distribution
    assert tree.attrs["draws"] == "none" and "predicted_error" not in facts_of(tree) and tree.attrs["converged"]
    assert (np.abs(one["mean"] - mle) < 0.35 * one["sd"]).all()


@pytest.mark.calibrated("learnt")  # whose fit without draws is above
@pytest.mark.parametrize("name", ["learnt", "jeffreys"])
def test_studies_go_on_with_draws(large, name):
    """The moments agree with maximum likelihood, a million reports being many, and cover the truth."""
    mean, variance = priors.moments(large, name, 3)
    mle = lb.estimators.MLE()(large).distribution
    assert (np.abs(mean - mle) < 0.35 * np.sqrt(variance)).all()
    assert (np.abs(mean - SHARES) < 4 * np.sqrt(variance)).all()


def test_good_expansions_are_served_as_they_were():
    collection = surveyed(UnaryEncoding.optimized(6, 1.0), 20_000, np.full(6, 1 / 6))
    assert "predicted to" in facts_of(lb.fit(collection, "learnt", draws=0))["checked"]
    mean, variance = common.expanded(collection, lb.priors.as_prior("jeffreys", 6), np.random.default_rng(1))
    weighted, spread = evaluate.posterior_moments(collection, lb.priors.as_prior("jeffreys", 6), np.random.default_rng(1))
    assert (np.abs(mean - weighted) < 0.15 * np.sqrt(spread)).all()
    np.testing.assert_allclose(variance, spread, rtol=0.15)


def test_fakes_with_a_share_to_learn_have_checked_moments():
    """The study of poisoned reports extends the likelihood by a column, which has the same road."""
    from ldpbayes.protocols.respondents import MaximalGain

    collection = surveyed(UnaryEncoding.optimized(6, 5.0), 300, SHARES[:6] / SHARES[:6].sum())
    extended = collection.with_noncompliers({"fake": MaximalGain((0,))})
    prior = lb.priors.Dirichlet(np.append(np.full(6, 0.5), 1.0))
    mean, variance = common.expanded(extended, prior, np.random.default_rng(1))
    assert mean.shape == variance.shape == (7,) and np.isfinite(mean).all()
