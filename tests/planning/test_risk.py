"""Risks against the papers' closed forms, brute-force linear algebra, enumeration and simulation."""

import itertools
import math

import numpy as np
import pytest
from cases import CASES, full_rank
from mixtures import enumerated_moments
from scipy.linalg import helmert
from tabulated import each_row

from ldpbayes.collections import Tally, as_collection
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators.mle import MLE
from ldpbayes.planning import risk
from ldpbayes.priors import Dirichlet, as_prior
from ldpbayes.protocols import GRR, designs
from ldpbayes.protocols.channel import Channel
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.theory import base, bounds, information

pytestmark = pytest.mark.long

P4 = np.array([0.5, 0.3, 0.15, 0.05])
SMALL = [
    GRR(4, 1.0),
    UnaryEncoding.symmetric(4, 1.0),
    UnaryEncoding.optimized(4, 2.5),
    SubsetSelection(4, 0.7, 2),
    HadamardResponse(4, 1.0),
    Channel(
        [[0.6, 0.1, 0.2, 0.2], [0.2, 0.5, 0.1, 0.3], [0.1, 0.2, 0.6, 0.1], [0.05, 0.1, 0.05, 0.3], [0.05, 0.1, 0.05, 0.1]]
    ),
]


#: Protocols that cannot tell all categories apart have no unbiased oracle.
IDENTIFIED = [case for case in CASES if full_rank(case.build(case.categories[-1], 1.0))]


def brute_covariance(channel, p):
    """D⁻¹ − ppᵀ, the textbook form of the MLE's covariance."""
    mixed = channel @ p
    return np.linalg.inv(channel.T @ (channel / mixed[:, None])) - np.outer(p, p)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_oracle_risk_is_kairouz(epsilon):
    n, a, square = 700, 4, P4 @ P4
    beta, half = math.expm1(epsilon), math.expm1(epsilon / 2)
    grr = (1 - square) / n + (a - 1) / n * (a + 2 * beta) / beta**2
    sue = (1 - square) / n + a * math.exp(epsilon / 2) / (n * half**2)
    assert risk.oracle_risk(GRR(a, epsilon), P4, n).value == pytest.approx(grr, rel=1e-12)
    assert risk.oracle_risk(UnaryEncoding.symmetric(a, epsilon), P4, n).value == pytest.approx(sue, rel=1e-12)
    grr_l1 = np.sqrt(2 * (beta * P4 + 1) * (beta * (1 - P4) + a - 1) / (np.pi * n * beta**2)).sum()
    sue_l1 = np.sqrt(2 * (half * P4 + 1) * (half * (1 - P4) + 1) / (np.pi * n * half**2)).sum()
    assert risk.oracle_risk(GRR(a, epsilon), P4, n, norm="l1").value == pytest.approx(grr_l1, rel=1e-12)
    assert risk.oracle_risk(UnaryEncoding.symmetric(a, epsilon), P4, n, norm="l1").value == pytest.approx(sue_l1, rel=1e-12)


@each_row("case", IDENTIFIED)
def test_oracle_risk_of_hit_rates(case):
    """Spec 3.1: one formula for every (g, h) protocol; P adds (1 − Σp²)/n to F."""
    a, n = case.categories[-1], 50
    protocol = case.build(a, 1.0)
    p = np.arange(1, a + 1) / (a * (a + 1) / 2)
    frequency = risk.oracle_risk(protocol, p, n, "frequency").value
    assert risk.oracle_risk(protocol, p, n).value == pytest.approx(frequency + (1 - p @ p) / n, rel=1e-9)
    if protocol.hit_rates is not None:
        g, h = protocol.hit_rates
        assert frequency == pytest.approx((g * (1 - g) + (a - 1) * h * (1 - h)) / (n * (g - h) ** 2), rel=1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", IDENTIFIED, ids=str)
@pytest.mark.parametrize("target", risk.TARGETS)
@pytest.mark.parametrize("repetitions", [60, pytest.param(600, marks=pytest.mark.calibrate)])
def test_simulated_oracle_risk(case, target, repetitions):
    """The simulated squared error falls on the formula within 4 standard errors."""
    rng, a, n = np.random.default_rng(5), case.categories[-1], 300
    protocol = case.build(a, 1.5)
    p = np.arange(1, a + 1) / (a * (a + 1) / 2)
    true = np.round(p * n).astype(int)
    true[0] += n - true.sum()
    truth = p if target == "distribution" else true / n
    errors = []
    for _ in range(repetitions):
        reports, counts = protocol.simulate(rng.multinomial(n, p) if target == "distribution" else true, rng)
        rows = protocol.rows(reports[counts > 0], counts[counts > 0])
        errors.append(((protocol.oracle(rows) - truth) ** 2).sum())
    error = np.std(errors, ddof=1) / math.sqrt(repetitions)
    assert abs(np.mean(errors) - risk.oracle_risk(protocol, truth, n, target).value) < 4 * error + 1e-15


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", IDENTIFIED, ids=str)
@pytest.mark.parametrize("repetitions", [40, pytest.param(400, marks=pytest.mark.calibrate)])
def test_simulated_mle_risk(case, repetitions):
    """The library's MLE attains the formula within 4 standard errors, for P and for F, from the same reports."""
    rng, a, n = np.random.default_rng(2), case.categories[-1], 6000
    protocol = case.build(a, 1.5)
    p = np.linspace(1, 1.8, a) / np.linspace(1, 1.8, a).sum()
    errors = {"distribution": [], "frequency": []}
    for _ in range(repetitions):
        true = rng.multinomial(n, p)
        reports, counts = protocol.simulate(true, rng)
        estimate = MLE()(Tally(protocol, reports[counts > 0], counts[counts > 0])).distribution
        errors["distribution"].append(((estimate - p) ** 2).sum())
        errors["frequency"].append(((estimate - true / n) ** 2).sum())
    for target, sample in errors.items():
        expected = risk.mle_risk(protocol, p, n, target).value
        assert abs(np.mean(sample) - expected) < 4 * np.std(sample, ddof=1) / math.sqrt(repetitions) + 1e-15


@pytest.mark.parametrize("protocol", SMALL, ids=lambda p: p.name)
def test_mle_risk_is_that_of_the_textbook_covariance(protocol):
    expected = brute_covariance(protocol.channel(), P4)
    of_f = np.trace(expected) - (1 - P4 @ P4)
    assert risk.mle_risk(protocol, P4, 10, "frequency").value == pytest.approx(of_f / 10, rel=1e-8)
    for norm, value in {
        "l2": np.trace(expected),
        "l1": math.sqrt(2 / math.pi) * np.sqrt(np.diag(expected)).sum(),
        "max": math.sqrt(np.diag(expected).max()),
    }.items():
        assert risk.mle_risk(protocol, P4, 1, norm=norm).value == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("protocol", SMALL[:4], ids=lambda p: p.name)
def test_uniform_closed_form(protocol):
    """The curvature of the support law is the whole information at uniform p."""
    uniform = np.full(4, 0.25)
    expected = np.trace(brute_covariance(protocol.channel(), uniform))
    found = risk.mle_risk(protocol, uniform, 1)
    assert found.method == "closed form"
    assert found.value == pytest.approx(expected, rel=1e-10)
    assert risk.mle_risk(protocol, uniform, 1, "frequency").value == pytest.approx(expected - 0.75, rel=1e-10)


def test_hadamard_is_scalar_at_uniform_where_complete():
    """a = K − 1: the design is doubly transitive, so the information is a multiple of I; trace gives it."""
    batches, _ = information.informations(HadamardResponse(7, 1.0), np.full(7, 1 / 7))
    np.testing.assert_allclose(batches[0], batches[0][0, 0] * np.eye(6), atol=1e-14)


@pytest.mark.parametrize(
    "protocol", [UnaryEncoding.optimized(6, 0.05), UnaryEncoding.symmetric(6, 6.0), SubsetSelection(6, 1.0, 2)], ids=str
)
def test_quadrature_over_supports_is_the_sum_over_reports(protocol):
    p = np.array([0.6, 0.2, 0.1, 0.07, 0.03, 0.0])
    law, basis = information.support_law(protocol), helmert(6).T
    found = law.beta**2 * basis.T @ information._inclusions(law, p) @ basis
    expected = information.dense_informations(protocol.channel(), p[None])[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_large_unary_is_quadrature_and_agrees_with_simulation():
    protocol, p = UnaryEncoding.optimized(30, 2.0), np.arange(1, 31) / 465
    found = risk.mle_risk(protocol, p, 1)
    assert found.method == "quadrature" and found.standard_error == 0
    batches = information._simulated(protocol, p, 40_000, np.random.default_rng(3))
    drawn = base.jackknife(lambda t: float(np.trace(np.linalg.inv(t))), batches, "Monte Carlo")
    assert 0 < drawn.standard_error < 0.02 * drawn.value
    assert abs(drawn.value - found.value) < 4 * drawn.standard_error


@pytest.mark.parametrize("family", ["ldpbayes", "xxhash"])
def test_local_hashing_supports_are_as_good_as_independent(family):
    """The closed form takes the hash as ideal; reports of the real families carry the same information."""
    protocol, p = LocalHashing(8, 1.5, family=family), np.arange(1, 9) / 36
    found = risk.mle_risk(protocol, p, 1)
    batches = information._simulated(protocol, p, 40_000, np.random.default_rng(3))
    drawn = base.jackknife(lambda t: float(np.trace(np.linalg.inv(t))), batches, "Monte Carlo")
    assert found.method == "quadrature"
    assert abs(drawn.value - found.value) < 4 * drawn.standard_error < 0.02 * found.value


def test_optimised_hashing_is_optimised_unary_encoding():
    """LH(g) with an ideal hash has the likelihood of UE(e^ε/(e^ε + g − 1), 1/g): OLH with g = e^ε + 1 is OUE."""
    epsilon, p = math.log(3), np.array([0.4, 0.3, 0.2, 0.05, 0.05])
    hashed, unary = LocalHashing(5, epsilon, buckets=4), UnaryEncoding.optimized(5, epsilon)
    assert risk.mle_risk(hashed, p, 1).value == pytest.approx(risk.mle_risk(unary, p, 1).value, rel=1e-10)


def test_mle_never_loses_to_the_oracle():
    rng = np.random.default_rng(1)
    for protocol in SMALL:
        p = rng.dirichlet(np.ones(4))
        assert risk.mle_risk(protocol, p, 1).value <= risk.oracle_risk(protocol, p, 1).value * (1 + 1e-9)


def test_rank_deficient_channel_has_infinite_risk():
    flat = Channel([[0.5, 0.5, 0.5], [0.2, 0.3, 0.5], [0.3, 0.2, 0.0]])
    short = Channel([[0.5, 0.2, 0.4], [0.5, 0.8, 0.6]])
    p = np.full(3, 1 / 3)
    assert risk.mle_risk(flat, p, 10).value == math.inf  # its last row is ½ − the second: rank 2
    assert risk.mle_risk(short, p, 10).value == math.inf


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", risk.TARGETS)
def test_bayes_risk_by_enumeration(target):
    """The sum over tallies is the sum over report vectors, and Monte Carlo falls on it."""
    protocol, prior, n = GRR(3, 1.0), Dirichlet.jeffreys(3), 4
    exact = risk.bayes_risk(protocol, prior, n, target)
    total = 0.0
    for reports in itertools.product(range(3), repeat=n):
        collection = as_collection(Tally(protocol, np.array(reports)))
        found = enumerated_moments(collection, prior)
        if target == "distribution":
            spread = found.variance.sum()
        else:
            spread = (base_frequency_variance(found, prior, n)).sum()
        total += math.exp(found.log_evidence) * spread
    assert exact.method == "sum over reports"
    assert exact.value == pytest.approx(total, rel=1e-10)
    drawn = base.over_reports(
        protocol,
        prior,
        n,
        lambda c, m, p: float(m.variance.sum() if target == "distribution" else base_frequency_variance(m, prior, n).sum()),
        draws=60,
        random_seed=2,
        limit=0,
    )
    assert drawn.method == "Monte Carlo"
    assert abs(drawn.value - exact.value) < 4 * drawn.standard_error


def base_frequency_variance(found, prior, n):
    total = prior.total + n
    return total * ((total + 1) * found.variance - found.mean * (1 - found.mean)) / n**2


def test_bayes_risk_beats_the_others():
    """Π_opt is optimal: its MSE is below the prior's spread and below the truncated alternatives' floor."""
    protocol, prior = GRR(2, 1.0), Dirichlet.flat(2)
    found = risk.bayes_risk(protocol, prior, 20)
    assert found.value < 2 / 12  # the prior's variance of both coordinates
    assert found.value < risk.average_risk(protocol, prior, 20, estimator="oracle").value


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_binary_randomized_response_proposition_4_6(epsilon):
    """(2/n)(e^ε/(e^ε−1)² + E[P1 P2]) and 2e^ε/(n(e^ε−1)²), against the formulas and a simulation."""
    protocol, prior, n = GRR(2, epsilon), Dirichlet.jeffreys(2), 500
    core = math.exp(epsilon) / math.expm1(epsilon) ** 2
    distribution = 2 / n * (core + 0.125)  # E[P1 P2] = α²/(Σα(Σα+1)) = 1/8
    assert risk.average_risk(protocol, prior, n, estimator="oracle").value == pytest.approx(distribution, rel=1e-12)
    assert risk.average_risk(protocol, prior, n, "frequency", estimator="oracle").value == pytest.approx(2 * core / n)
    rng, errors = np.random.default_rng(11), []
    for p in prior_draws(prior, rng, 1500):
        reports, counts = protocol.simulate(rng.multinomial(n, p), rng)
        errors.append(((protocol.oracle(protocol.rows(reports, counts)) - p) ** 2).sum())
    assert abs(np.mean(errors) - distribution) < 4 * np.std(errors) / math.sqrt(len(errors))


def prior_draws(prior, rng, size):
    return rng.dirichlet(prior.alpha, size)


def test_average_risk_is_the_mean_over_the_prior():
    prior, protocol = as_prior([2.0, 3.0], 2), UnaryEncoding.symmetric(2, 1.0)
    points = np.random.default_rng(0).dirichlet(prior.alpha, 3000)
    for estimator, function in (("oracle", risk.oracle_risk), ("mle", risk.mle_risk)):
        sample = np.array([function(protocol, p, 10).value for p in points[: 3000 if estimator == "oracle" else 400]])
        found = risk.average_risk(protocol, prior, 10, estimator=estimator)
        assert abs(found.value - sample.mean()) < 4 * sample.std() / math.sqrt(sample.size) + found.standard_error


def test_direct_answers():
    direct = designs.direct(4)
    assert risk.mle_risk(direct, P4, 10).value == pytest.approx((1 - P4 @ P4) / 10, rel=1e-10)
    assert risk.mle_risk(direct, P4, 10, "frequency").value == pytest.approx(0, abs=1e-12)
    spread = risk.mle_risk(GRR(4, 1.0), P4, 1000).value
    assert spread > (1 - P4 @ P4) / 1000


def test_arguments_are_refused():
    with pytest.raises(ArgumentError, match="target"):
        risk.mle_risk(GRR(4, 1.0), P4, 10, "both")
    with pytest.raises(ArgumentError, match="norm"):
        risk.mle_risk(GRR(4, 1.0), P4, 10, norm="linf")
    with pytest.raises(ArgumentError, match="n must be"):
        risk.oracle_risk(GRR(4, 1.0), P4, 0)


GENERAL = Channel([[0.6, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.7]])


def test_a_general_channel_is_served(monkeypatch):
    """3 × 3 without a separable form, n = 3: the library's own moments against the enumeration of the tests."""
    prior = Dirichlet.jeffreys(3)
    functions, own = (risk.bayes_risk, bounds.theorem_4_1, information.reports_information), []
    for function in functions:
        own.append(function(GENERAL, prior, 3))
    own.append(risk.bayes_risk(GENERAL, prior, 3, "frequency"))
    assert {value.method for value in own} == {"sum over reports"}
    monkeypatch.setattr(base, "exact_moments", enumerated_moments)
    listed = [function(GENERAL, prior, 3) for function in functions]
    listed.append(risk.bayes_risk(GENERAL, prior, 3, "frequency"))
    assert [value.value for value in own] == pytest.approx([value.value for value in listed], rel=1e-9)


def test_too_many_tallies_are_refused_with_both_reasons():
    wide = Channel(np.random.default_rng(0).dirichlet(np.ones(30), 30).T)
    with pytest.raises(InfeasibleError, match=r"single out.*tallies"):
        risk.bayes_risk(wide, Dirichlet.flat(30), 500, draws=2)


@pytest.mark.parametrize("p, q", [(0.001, 300.0), (0.5, 2000.0), (2.0, 3.0)])
def test_beta_rule_is_exact_for_moments(p, q):
    """E B and E B² to rounding, also where SciPy's rule loses digits or overflows."""
    nodes, weights = base.beta_rule(p, q, 40)
    assert weights.sum() == pytest.approx(1, rel=1e-13)
    assert weights @ nodes == pytest.approx(p / (p + q), rel=1e-11)
    assert weights @ nodes**2 == pytest.approx(p * (p + 1) / ((p + q) * (p + q + 1)), rel=1e-11)
