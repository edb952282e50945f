"""The random-walk engine: against the prior's own draws weighted by the likelihood, and its two kinds of likelihood."""

from dataclasses import replace

import numpy as np
import pytest

from ldpbayes import GRR, Collection, Tally, fit, read, write
from ldpbayes.errors import DataError, InfeasibleError
from ldpbayes.methods import walk
from ldpbayes.methods.base import Watch
from ldpbayes.methods.forms import Forms
from ldpbayes.methods.hmc import HMC
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.walk import Filtered
from ldpbayes.priors.smooth import Smooth
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.together("kernels")


def collection_of(protocol, p, n, seed):
    rng = np.random.default_rng(seed)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, np.array(p) / sum(p)), rng))
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [tally])


def evidence(problem, seed):
    """Return (log-evidence, its error) from the reports as they are."""
    return walk.log_evidence(problem, Forms.of(problem.likelihoods), np.random.default_rng(seed))


@pytest.mark.parametrize("protocol", [GRR(3, 2.0), SubsetSelection(3, 1.0)], ids=["separable", "dense"])
def test_three_categories_agree_with_weighted_draws_of_the_prior(protocol):
    collection = collection_of(protocol, [5, 3, 2], 120, 1)
    prior = Smooth(n_categories=3)
    problem = Problem.of(collection, prior)
    rng = np.random.default_rng(2)
    scale = np.log(rng.standard_exponential((100_000, 2)))
    z = np.concatenate([scale, rng.standard_t(prior.degrees, (100_000, 2)), rng.standard_normal((100_000, 3))], axis=1)
    p = prior.to_simplex(z)
    log_likelihood = collection.rows.log_likelihood(np.ascontiguousarray(p.T))
    weight = np.exp(log_likelihood - log_likelihood.max())
    weight /= weight.sum()
    mean = weight @ p
    sd = np.sqrt(weight @ (p - mean) ** 2)
    method = HMC(draws=2000)
    sample = method.run(method.plan(problem), rng, Watch())
    draws, scales = sample.distribution, sample.hyperparameters
    assert not sample.rejected
    error = np.hypot(sd / np.sqrt(4000), np.sqrt((weight**2) @ (p - mean) ** 2))
    np.testing.assert_allclose(draws.mean(axis=(0, 1)), mean, atol=4 * error.max())
    np.testing.assert_allclose(draws.std(axis=(0, 1)), sd, rtol=0.06)
    for name, found in scales.items():
        truth = weight @ prior.hyperparameters(z)[name]
        assert abs(found.mean() - truth) < 0.08 * truth


@pytest.mark.calibrate
def test_the_expansion_with_weights_agrees_with_the_rows():
    collection = collection_of(UnaryEncoding.optimized(8, 1.0), [1, 2, 4, 7, 7, 4, 2, 9], 1500, 3)
    whole = fit(collection, "smooth", HMC(draws=800), random_seed=1, estimates=False)
    weighted = fit(collection, "smooth", HMC(draws=800, written=0), random_seed=2, estimates=False)
    assert "k_hat" not in facts_of(whole) and facts_of(weighted)["k_hat"] < 0.5 and weighted.attrs["converged"]
    one, other = (tree["summary"].sel(target="distribution") for tree in (whole, weighted))
    error = np.hypot(one["mcse"], other["mcse"])
    assert (np.abs(one["mean"] - other["mean"]) < 4.5 * error).all()
    assert weighted["summary"]["parameter"].values.tolist() == ["sigma", "tau"] if "parameter" in whole["summary"] else True


@pytest.mark.parametrize("degrees", [2.0, 7.0])
def test_coordinates_and_gradient_belong_together(degrees):
    collection = collection_of(GRR(6, 2.0), [5, 3, 2, 2, 1, 0], 500, 7)
    problem, rng = Problem.of(collection, Smooth(degrees=degrees, n_categories=6)), np.random.default_rng(8)
    first = Filtered.about(Forms.of(problem.likelihoods), problem.prior)
    standing = np.tile(rng.standard_normal(first.size), (20, 1))  # all trajectories were refused
    for density in (first, first.anew(rng.standard_normal((200, first.size))), first.anew(standing)):
        u = rng.standard_normal(density.size)
        np.testing.assert_allclose(density.back(density.of(u)), u, atol=1e-9)
        value_and_gradient = density.pair[0]
        ahead, behind = ([value_and_gradient(u + way * step)[0] for step in np.eye(u.size)] for way in (1e-5, -1e-5))
        gradient = value_and_gradient(u)[1]
        np.testing.assert_allclose((np.array(ahead) - behind) / 2e-5, gradient, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_a_spike_survives():
    p = np.full(40, 1.0)
    p[17] = 12.0
    collection = collection_of(GRR(40, 3.0), p, 6000, 5)
    tree = fit(collection, "smooth", HMC(draws=300, chains=2), random_seed=1, estimates=False)
    found = tree["summary"].sel(target="distribution")
    truth = 12 / 51
    assert found["lower"][17] < truth < found["upper"][17] and found["mean"][[16, 18]].max() < 0.04


def test_other_priors_are_refused():
    with pytest.raises(InfeasibleError, match="random walk"):
        fit(collection_of(GRR(3, 1.0), [1, 1, 1], 20, 1), "jeffreys", HMC(), estimates=False)


def test_the_evidence_agrees_with_the_priors_draws():
    collection = collection_of(GRR(3, 2.0), [5, 3, 2], 120, 1)
    prior = Smooth(n_categories=3)
    p = prior.sample(400_000, np.random.default_rng(3))
    log_likelihood = collection.rows.log_likelihood(np.ascontiguousarray(p.T))
    exact = log_likelihood.max() + np.log(np.exp(log_likelihood - log_likelihood.max()).mean())
    found, error = evidence(Problem.of(collection, prior), 4)
    assert error < 0.15 and abs(found - exact) < 4 * error + 0.01


@pytest.mark.calibrate
def test_the_error_of_the_evidence_is_that_of_repetitions():
    """Every fourth draw of a chain, in place of blocks, gave half the spread of repetitions."""
    problem = Problem.of(collection_of(UnaryEncoding.optimized(5, 1.0), [4, 3, 2, 1, 0], 200, 1), "smooth")
    found = np.array([evidence(problem, seed) for seed in range(12)])
    assert 0.65 < np.sqrt((found[:, 1] ** 2).mean()) / found[:, 0].std(ddof=1) < 2


def test_an_ordered_collection_says_what_smooth_is_worth(tmp_path):
    p = np.exp(-0.5 * ((np.arange(30) - 10) / 5.0) ** 2)
    collection = replace(collection_of(GRR(30, 2.0), p, 4000, 6), ordered=True)
    tree = fit(collection, "jeffreys", random_seed=1, draws=50)
    assert facts_of(tree)["log_bayes_factor_smooth"] > 10 and facts_of(tree)["log_bayes_factor_smooth_error"] < 1
    assert "neighbours share" in facts_of(tree)["order"] and "smooth +" in facts_of(tree)["bayes_factors"]
    write(collection, tmp_path / "ages.toml")
    assert read(tmp_path / "ages.toml") == collection
    assert (tmp_path / "ages.toml").read_text().count("ordered = true") == 1
    unordered = replace(collection, ordered=False)
    with_smooth = fit(unordered, "smooth", random_seed=1, estimates=False)
    assert "check it" in facts_of(with_smooth)["order"] and "order" not in facts_of(fit(unordered, random_seed=1, draws=50))
    (tmp_path / "wrong.toml").write_text((tmp_path / "ages.toml").read_text().replace("ordered = true", 'ordered = "yes"'))
    with pytest.raises(DataError, match="ordered must"):
        read(tmp_path / "wrong.toml")
