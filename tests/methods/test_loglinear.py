"""Log-linear tables: by enumeration of the effects, particles against plain weights, and what the prior does."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

import ldpbayes as lb
from ldpbayes.errors import InfeasibleError, LDPBayesWarning
from ldpbayes.inference import nested
from ldpbayes.methods import loglinear
from ldpbayes.methods.base import Problem, Watch
from ldpbayes.methods.weighted import Weighted
from ldpbayes.priors import LogLinear
from ldpbayes.protocols import GRR, Attributes, UnaryEncoding
from ldpbayes.protocols.designs import warner
from ldpbayes.result.facts import facts_of

PAIR = Attributes((warner(0.8), warner(0.75)))


def surveyed(protocol, p, n, seed=3):
    rng = np.random.default_rng(seed)
    reports = protocol.privatize(rng.choice(protocol.n_categories, n, p=np.ravel(p)), rng)
    return lb.Collection([str(x) for x in range(protocol.n_categories)], lb.Tally(protocol, reports))


@pytest.fixture(scope="module")
def pair():
    return surveyed(PAIR, [[0.5, 0.1], [0.1, 0.3]], 400)


@pytest.fixture(scope="module")
def fitted(pair):
    return lb.fit(pair, prior=LogLinear((2, 2)), random_seed=1, estimates=False)


def enumerated(prior, rows, points=71, width=4.5):
    """Return (log-evidence, mean of P) of a 2 × 2 table by the trapezoid rule over a grid of the three effects."""
    main = np.linspace(-width, width, points)
    both = main + 0.5 * (main[1] - main[0])  # the density of a single interaction has a pole at 0, which no point may touch
    step = main[1] - main[0]
    fine = both[:, None] + step * (np.arange(-50, 50) + 0.5) / 100  # its average over a cell
    zeros = np.zeros((fine.size, 2))
    at_zero = prior.log_prior(np.concatenate([zeros, fine.reshape(-1, 1)], axis=1)) - prior.log_prior_mains(zeros)
    cell = logsumexp(at_zero.reshape(fine.shape), axis=1) - np.log(100)
    grid = np.stack(np.meshgrid(main, main, both, indexing="ij"), axis=-1).reshape(-1, 3)
    p = loglinear.softmax(prior.predictor(grid))
    log = prior.log_prior_mains(grid[:, :2]) + np.tile(cell, points**2)
    log = log + rows.log_likelihood(np.ascontiguousarray(p.T))
    return logsumexp(log) + 3 * np.log(step), np.exp(log - logsumexp(log)) @ p


def test_weights_and_evidence_are_those_of_enumeration(pair, fitted):
    evidence, mean = enumerated(LogLinear((2, 2)), pair.rows)
    assert fitted.attrs["method"] == "weighted" and facts_of(fitted)["sampling"] == "independent"
    assert facts_of(fitted)["log_evidence"] == pytest.approx(evidence, abs=0.02 + 4 * facts_of(fitted)["log_evidence_error"])
    summary = fitted["summary"].to_dataset().sel(target="distribution")
    assert (np.abs(summary["mean"] - mean) < 4.5 * summary["mcse"] + 2e-4).all()


def test_evidence_of_independence_is_the_product_of_the_margins(pair, fitted):
    """Given independence the reports of the attributes are independent: their evidences multiply."""
    total = 0.0
    table = np.zeros((2, 2))
    tally = pair.tallies[0]
    np.add.at(table, tuple(tally.reports.T), tally.counts)
    for axis, design in enumerate(PAIR.factors):
        rows = lb.Tally(design, [0, 1], table.sum(axis=1 - axis).astype(int)).rows
        theta = np.linspace(-6, 6, 4001)[:, None]
        prior = LogLinear((2,))
        p = loglinear.softmax(prior.predictor(theta))
        total += logsumexp(prior.log_prior(theta) + rows.log_likelihood(np.ascontiguousarray(p.T))) + np.log(0.003)
    found = facts_of(fitted)["log_evidence_independence"]
    assert found == pytest.approx(total, abs=0.01 + 4 * facts_of(fitted)["log_evidence_independence_error"])


def test_scales_given_the_effects_are_drawn_from_their_conditional():
    prior, rng = LogLinear((3, 4)), np.random.default_rng(4)
    effects = np.tile(np.concatenate([np.zeros(5), np.full(6, 0.4)]), (6_000, 1))
    draws = prior.draw_scales(effects, rng)["sigma_2"]
    sigma = np.linspace(0.05, 12, 60_000)
    density = np.exp(-6 * np.log(sigma) - 0.5 * 6 * 0.16 / sigma**2 - sigma / prior.scale)
    expected = (density * sigma).sum() / density.sum()
    assert draws.mean() == pytest.approx(expected, abs=4.5 * draws.std() / 6_000**0.5)


def test_information_is_minus_the_hessian():
    protocol = Attributes((GRR(2, 1.0), GRR(3, 1.5)))
    collection = surveyed(protocol, np.full(6, 1 / 6), 200)
    table = loglinear.EffectsPosterior(LogLinear((2, 3)), collection.rows)
    theta, h = 0.3 * np.random.default_rng(1).standard_normal(5), 1e-5
    ends = theta + h * np.stack([np.eye(5), -np.eye(5)])
    value, slope = (one.reshape(2, 5, *one.shape[1:]) for one in table.log_density_and_gradient(ends.reshape(10, 5), 0.0))
    numeric = (slope[1] - slope[0]) / (2 * h) - np.diag(table.prior.deviations(np.zeros(1)) ** -2.0)
    gradient = table.log_density_and_gradient(theta[None], 0.0)[1][0]
    np.testing.assert_allclose(gradient, (value[0] - value[1]) / (2 * h), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(table.information(theta[None]), numeric, rtol=1e-5, atol=1e-5)


def test_information_is_block_diagonal_in_the_interactions():
    """At a product distribution, with contrasts centred under its margins, different sets of attributes are orthogonal."""
    factors = (GRR(2, 1.0), GRR(3, 0.8), warner(0.7))
    margins = ([0.3, 0.7], [0.2, 0.5, 0.3], [0.6, 0.4])
    p, channel = np.ones(1), Attributes(factors).channel()
    for one in margins:
        p = np.kron(p, one)
    single, canonical = [], []
    for factor, share in zip(factors, margins, strict=True):
        # The canonical functions of (X_k, Y_k), uncorrelated and centred under the margin.
        share, q = np.array(share), factor.channel()
        joint = q * share / np.sqrt(np.outer(q @ share, share))
        _, rho, vectors = np.linalg.svd(joint)
        single.append(vectors.T / np.sqrt(share)[:, None] * np.sign(vectors[0, 0]))
        canonical.append(rho)
    basis, squared = np.ones((1, 1)), np.ones(1)
    for functions, rho in zip(single, canonical, strict=True):
        basis, squared = np.kron(basis, functions), np.kron(squared, rho**2)
    score = (channel * p) @ basis / (channel @ p)[:, None] - p @ basis
    information = score.T @ ((channel @ p)[:, None] * score)
    np.testing.assert_allclose(information[1:, 1:], np.diag(squared[1:]), atol=1e-12)


def test_particles_go_on_from_weights_that_are_not_enough(pair, fitted, monkeypatch):
    monkeypatch.setattr(loglinear, "WAYS", nested.WAYS[1:2])
    problem = Problem.of(pair, LogLinear((2, 2)))
    method = Weighted(draws=150, chains=2)
    with pytest.warns(LDPBayesWarning, match="Annealed importance sampling takes about"):  # told from the first node
        sample = method.run(method.prepare(problem), np.random.default_rng(1), Watch(long=1e-9))
    assert sample.verdict.accepted
    mean = fitted["summary"]["mean"].sel(target="distribution").values
    sd = fitted["summary"]["sd"].sel(target="distribution").values
    assert (np.abs(sample.distribution.mean(axis=(0, 1)) - mean) < 0.35 * sd).all()
    found, error = sample.facts["log_evidence"], sample.facts["log_evidence_error"]
    assert 0 < error < 0.5 and found == pytest.approx(facts_of(fitted)["log_evidence"], abs=0.02 + 5 * error)


def test_many_distinct_reports_are_expanded_and_weighed_once(monkeypatch):
    """Moves visit an expansion, with the same information as differences show; weights make it the reports' posterior."""
    prior = LogLinear((3, 4))
    collection = surveyed(UnaryEncoding.optimized(12, 2.0), np.full(12, 1 / 12), 400)
    table = loglinear.EffectsPosterior(prior, collection.rows)
    expanded, h = table.expanded(), 1e-5
    theta = 0.3 * np.random.default_rng(2).standard_normal(11)
    ends = theta + h * np.stack([np.eye(11), -np.eye(11)]).reshape(22, 11)
    slope = expanded.log_density_and_gradient(ends, 0.0)[1].reshape(2, 11, 11)
    numeric = (slope[1] - slope[0]) / (2 * h) - np.diag(prior.deviations(np.zeros(1)) ** -2.0)
    np.testing.assert_allclose(expanded.information(theta[None]), numeric, rtol=1e-5, atol=1e-4)

    visits, plain = [], loglinear.ReportLikelihood.value_and_gradient
    monkeypatch.setattr(
        loglinear.ReportLikelihood, "value_and_gradient", lambda self, p: visits.append(len(p)) or plain(self, p)
    )
    quick = table.drawn(600, np.random.default_rng(3))
    assert quick.verdict.accepted and sum(visits) < 100
    slow = replace(table, many=collection.n_reports).drawn(600, np.random.default_rng(4))
    assert sum(visits) > 600
    (one,), (other,) = quick.weights, slow.weights
    error = np.hypot(one.log_evidence_error, other.log_evidence_error)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=4 * error)
    means = [found.weight @ found.distribution for found in (one, other)]
    sd = np.sqrt(one.weight @ (one.distribution - means[0]) ** 2)
    assert (np.abs(means[0] - means[1]) < 4.5 * sd * np.sqrt(1 / one.effective_sample + 1 / other.effective_sample)).all()


def test_few_reports_shrink_to_the_product_of_the_margins():
    """200 reports at ε = ½ each: the posterior mean is nearer the product of its margins than the MLE is, by far."""
    protocol = Attributes.split((3, 4), 1.0, "grr")
    collection = surveyed(protocol, np.outer([0.5, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1]), 200)
    mean = lb.fit(collection, prior=LogLinear((3, 4)), draws=500, random_seed=1, estimates=False)
    table = mean["summary"]["mean"].sel(target="distribution").values.reshape(3, 4)
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    raw = lb.estimators.MLE()(collection).distribution.reshape(3, 4)
    apart = np.abs(raw - np.outer(raw.sum(axis=1), raw.sum(axis=0))).max()
    assert np.abs(table - product).max() < 0.25 * apart


def test_refusals_are_sentences(pair):
    method = Weighted()
    assert "not Dirichlet" in method.feasibility(pair, "jeffreys").reason
    with pytest.raises(InfeasibleError, match="lower order"):
        LogLinear((8, 8, 8, 8, 8)).basis  # noqa: B018
