"""The surrogate against exact posteriors: means, evidence, the density of its draws, and what it must refuse."""

import warnings

import numpy as np
import pytest
from cases import CASES
from conditioned import weighted
from references.enumeration import enumerated
from scipy import integrate, stats

from ldpbayes import Collection, Tally
from ldpbayes.errors import ConvergenceError, InfeasibleError, RankDeficientWarning
from ldpbayes.fitting import fit
from ldpbayes.inference.importance import weigh
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.expanded import ExpandedFactors, TiltedProposal, _log_radius, expand, proposals
from ldpbayes.methods.surrogate import Surrogate
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, SampledAttribute
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of


def collected(protocol, n, seed):
    """Return a collection of n users with a Zipf distribution."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, protocol.n_categories + 1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [tally])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("a, n, epsilon", [(4, 500, 1.0), (10, 2000, 0.5), (40, 20_000, 2.0), (200, 50_000, 1.0)])
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_means_and_evidence_against_the_exact_posterior(a, n, epsilon, alpha):
    collection, prior = collected(GRR(a, epsilon), n, seed=a), Dirichlet(np.full(a, alpha))
    exact = Exact().moments(collection, prior)
    found = weighted(collection, prior, 1000)
    assert not found.verdict.problem
    error = (found.weight @ found.distribution - exact.mean) / exact.sd * np.sqrt(found.effective_sample)
    assert np.abs(error).max() < 5
    assert np.sqrt((error**2).mean()) < 1 + 3 / np.sqrt(a)  # of a correlated, near-standard-normal errors
    assert abs(found.log_evidence - exact.log_evidence) < 4 * found.log_evidence_error + 1e-3


def test_unequal_alpha():
    prior = Dirichlet(np.linspace(0.3, 3, 12))
    collection = collected(GRR(12, 1.0), 3000, seed=2)
    exact = Exact().moments(collection, prior)
    found = weighted(collection, prior)
    error = (found.weight @ found.distribution - exact.mean) / exact.sd * np.sqrt(found.effective_sample)
    assert np.abs(error).max() < 5


def test_density_of_the_proposals_integrates_to_one():
    """E_q[f/q] = ∫ f over the simplex for a known f: the Dirichlet density, in three categories."""
    rng = np.random.default_rng(4)
    alpha = np.array([0.5, 1.0, 2.0])
    family = ExpandedFactors(alpha, np.array([3.0, 40.0, 10.0]), np.array([10.0, 60.0, 25.0]))
    engine = TiltedProposal(family)
    p, log_ratio = proposals(engine, 40_000, rng)
    log_q = stats.dirichlet(alpha).logpdf(p.T) + log_ratio
    weight = np.exp(stats.dirichlet(alpha + 1).logpdf(p.T) - log_q)
    assert abs(weight.mean() - 1) < 4 * weight.std() / np.sqrt(weight.size)


def test_mean_of_the_independent_draws():
    """Draws by the inverse cdf on a grid have the factors' moments by adaptive quadrature."""
    family = ExpandedFactors(np.array([0.5, 0.5, 2.0]), np.array([0.0, 30.0, 5.0]), np.array([4.0, 90.0, 9.0]))
    engine = TiltedProposal(family)
    g = np.exp(engine.independent_log_draws(50_000, np.random.default_rng(1)))
    for x in range(3):

        def density(v, x=x):  # in v = g^α, which takes the singularity at zero away
            y = v ** (1 / family.alpha[x])
            return np.exp((family.linear[x] - engine.tilt[0]) * y - family.curvature[x] * y**2 / 2)

        mass = integrate.quad(density, 0, 60, limit=400)[0]
        mean = integrate.quad(lambda v, x=x: v ** (1 / family.alpha[x]) * density(v), 0, 60, limit=400)[0] / mass
        assert abs(g[:, x].mean() - mean) < 4 * g[:, x].std() / np.sqrt(len(g))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", [case for case in CASES if max(case.categories) > 2 and case.name != "direct"], ids=str)
def test_every_protocol_against_an_exact_method(case):
    """Small collections of every protocol, on which no weights are rejected."""
    a = max(case.categories)
    collection = collected(case.build(a, 1.0), 40, seed=7)
    prior = Dirichlet.jeffreys(a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = enumerated(collection, prior)  # of all kinds of respondents
    found = weighted(collection, prior, 1500)
    assert not found.verdict.problem
    error = (found.weight @ found.distribution - exact["distribution_mean"]) / exact["distribution_sd"]
    assert np.abs(error).max() < 0.1
    assert abs(found.log_evidence - float(exact["log_evidence"])) < 5 * found.log_evidence_error + 5e-3


def test_rejected_weights_raise_with_the_result_and_auto_hands_over():
    collection = collected(SampledAttribute(8, 0.5, [2, 4], "grr"), 20_000, seed=1)  # joint shares are not identified
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficientWarning)
        with pytest.raises(ConvergenceError, match=r"k-hat.*effective") as caught:
            fit(collection, "jeffreys", Surrogate(draws=250), random_seed=1, estimates=False)
        assert facts_of(caught.value.result)["problem"]
        tree = fit(collection, "jeffreys", random_seed=1, estimates=False)
    assert tree.attrs["method"] == "pair_slice"
    assert "surrogate ran" in tree.attrs["reason"]


def test_expansion_settles():
    collection = collected(UnaryEncoding.optimized(30, 1.0), 5000, seed=3)
    _, rounds = expand(collection.rows, np.full(30, 0.5))
    assert rounds < 12


def test_two_categories_are_refused():
    with pytest.raises(InfeasibleError, match="three categories"):
        fit(collected(GRR(2, 1.0), 50, seed=1), "flat", Surrogate())


def test_seed_reproduces():
    collection = collected(UnaryEncoding.optimized(8, 1.0), 300, seed=1)
    first, second = (fit(collection, "flat", Surrogate(draws=100), random_seed=5, estimates=False) for _ in range(2))
    assert np.array_equal(first["posterior"]["distribution"], second["posterior"]["distribution"])
    assert np.array_equal(first["posterior"]["frequency"], second["posterior"]["frequency"])


@pytest.mark.parametrize("scale", [0.0, 1e-16, 1e-12])
def test_equal_weights_are_trusted(scale):
    """Where the surrogate is the posterior, as in a cell with next to no reports, rounding alone moves the weights."""
    rng = np.random.default_rng(0)
    found = weigh(rng.dirichlet(np.ones(4), 2000), scale * rng.standard_normal(2000))
    assert found.k_hat == 0 and not found.verdict.problem and found.effective_sample == pytest.approx(2000)


@pytest.mark.parametrize("scale", [10.0, 1e3, 1e6])
def test_weights_beyond_hope_are_rejected_in_silence(scale):
    """Weights with no tail to fit, or that overflow in its fit, make neither a warning nor a nan."""
    rng = np.random.default_rng(0)
    found = weigh(rng.dirichlet(np.ones(4), 2000), scale * rng.standard_cauchy(2000))
    assert found.k_hat == np.inf and "k-hat inf" in found.verdict.problem
    assert found.weight.sum() == pytest.approx(1) and not np.isnan([found.shift, found.effective_sample]).any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1, 0.5])
def test_evidence_where_the_prior_weighs_little(alpha):
    """The density of a proposal integrates r^(Σα−1) over the radius r, singular at 0 where Σα < 1."""
    rng = np.random.default_rng(5)
    protocol = UnaryEncoding.optimized(3, 1.0)
    reports, counts = protocol.simulate(np.array([40, 30, 10]), rng)
    rows = protocol.rows(reports[counts > 0], counts[counts > 0].astype(float))
    engine, _ = expand(rows, np.full(3, alpha))
    p, _ = proposals(engine, 8, rng)
    log_radius = _log_radius(engine, p)
    total, family = 3 * alpha, engine.whole
    for draw, found in zip(p, log_radius, strict=True):
        u = np.concatenate([-np.geomspace(60 / total + 20, 1e-7, 100_001), np.geomspace(1e-7, 5, 100_001)])
        values = total * u - engine.tilt[0] * np.exp(u)
        for x in range(3):
            offset, s = np.exp(u) * draw[x] - family.centre[x], family.skew[x]
            values += family.linear[x] * (offset + family.centre[x])
            bent = (np.log1p(s * offset) - s * offset) / s**2 if s else -0.5 * offset**2
            values += family.curvature[x] * bent
        top = values.max()
        assert found == pytest.approx(np.log(integrate.simpson(np.exp(values - top), x=u)) + top, abs=1e-5)
