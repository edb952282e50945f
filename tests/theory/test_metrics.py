"""Metrics against the papers' anchored values, identities over drawn channels, and second computations."""

import math

import numpy as np
import pytest
from cases import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.linalg import helmert
from scipy.special import comb, digamma, xlogy
from scipy.stats import beta as beta_law
from scipy.stats import binom, dirichlet
from strategies import channels

from ldpbayes.errors import ArgumentError
from ldpbayes.priors import Dirichlet, as_prior
from ldpbayes.protocols import GRR, designs
from ldpbayes.protocols.channel import Channel
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.theory import base, information, metrics

REMARK = (
    np.array([[1, 0, 0], [0, 2 / 3, 1 / 3], [0, 1 / 3, 2 / 3]]),
    np.array([[2 / 3, 1 / 3, 0], [1 / 3, 2 / 3, 0], [0, 0, 1]]),
)


def mixture(weights, parts):
    return Channel(np.concatenate([w * part.channel() for w, part in zip(weights, parts, strict=True)]))


def product(first, second):
    return Channel((first.channel()[:, None, :] * second.channel()[None, :, :]).reshape(-1, first.n_categories))


def spread_privacy(protocol, prior, draws=40_000):
    """S_μ by plain Monte Carlo over P, and its standard error."""
    p, channel = np.random.default_rng(8).dirichlet(prior.alpha, draws), protocol.channel()
    mixed = p @ channel.T
    told = -xlogy(mixed, mixed).sum(axis=1) + p @ xlogy(channel, channel).sum(axis=0)
    entropy = -xlogy(p, p).sum(axis=1).mean()
    return 1 - told.mean() / entropy, (told.std() + 0.5 * entropy) / entropy / math.sqrt(draws)


# ---- anchored values -----------------------------------------------------------------------------------------------
def test_remark_7_9():
    """−0.987, −0.987, −0.691 in the paper; each matrix alone has E log det = 9/2 − 4 log 2 exactly."""
    prior = Dirichlet.flat(3)
    exact = -0.5 * math.log(2 * math.pi * math.e) + (4.5 - 4 * math.log(2)) / 4
    for matrix in REMARK:
        found = metrics.asymptotic_utility(Channel(matrix), prior)
        assert found.method == "quadrature" and found.standard_error < 1e-6
        assert found.value == pytest.approx(exact, abs=1e-7)
        assert round(found.value, 3) == -0.987
    both = metrics.asymptotic_utility(mixture([0.5, 0.5], [Channel(m) for m in REMARK]), prior)
    assert both.standard_error < 1e-6
    assert round(both.value, 3) == -0.691
    # The same mean by simulation, with determinants of the full matrix.
    matrix = np.concatenate(REMARK) / 2
    p = np.random.default_rng(0).dirichlet(prior.alpha, 50_000)
    logs = np.linalg.slogdet(np.einsum("ny,yx,yz->nxz", 1 / (p @ matrix.T), matrix, matrix, optimize=True))[1]
    drawn = -0.5 * math.log(2 * math.pi * math.e) + logs.mean() / 4
    assert abs(drawn - both.value) < 4 * logs.std() / 4 / math.sqrt(logs.size)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_example_4_3_parity(k):
    """x mod 2 on 2k values, Jeffreys: deterministic, so S^wc = 0, yet the average privacy is not."""
    parity = Channel(np.stack([np.arange(2 * k) % 2 == 0, np.arange(2 * k) % 2 == 1]).astype(float))
    expected = 1 - (digamma(k + 1) - digamma(k / 2 + 1)) / (digamma(k + 1) - digamma(1.5))
    stated = (digamma((k + 2) / 2) - digamma(1.5)) / (digamma(k + 1) - digamma(1.5))
    assert expected == pytest.approx(stated)
    assert metrics.average_privacy(parity, Dirichlet.jeffreys(2 * k)).value == pytest.approx(stated, abs=1e-12)
    assert metrics.worst_case_privacy(parity).value == 0
    assert metrics.ldp_level(parity).value == math.inf


def test_deterministic_and_rank_deficient_channels():
    parity = Channel([[1, 0, 1, 0], [0, 1, 0, 1]])
    prior = Dirichlet.jeffreys(4)
    assert metrics.asymptotic_utility(parity, prior).value == -math.inf
    assert metrics.participation_factor(parity, prior).value == 0


@pytest.mark.parametrize("a", [2, 3, 5, 30])
def test_identity_has_full_participation(a):
    for prior in (Dirichlet.jeffreys(a), as_prior(np.linspace(0.5, 2, a), a)):
        assert metrics.participation_factor(designs.direct(a), prior).value == pytest.approx(1, abs=1e-9)
        assert metrics.asymptotic_utility(designs.direct(a), prior).value == pytest.approx(
            metrics.direct_answers_utility(prior).value, abs=1e-9
        )
        assert metrics.average_privacy(designs.direct(a), prior).value == pytest.approx(0, abs=1e-9)


def test_jeffreys_closed_forms():
    a = 7
    prior = Dirichlet.jeffreys(a)
    stated = -0.5 * math.log(2 * math.pi * math.e) + a / (2 * a - 2) * (digamma(a / 2) - digamma(0.5))
    assert metrics.direct_answers_utility(prior).value == pytest.approx(stated, rel=1e-12)
    assert metrics.value_entropy(prior).value == pytest.approx(digamma((a + 2) / 2) - digamma(1.5), rel=1e-12)


# ---- closed forms against the generic computation ---------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0, 9.0, 20.0])
def test_grr_proposition_10_1(epsilon):
    """The paper's display by adaptive quadrature, the library's by Gauss–Jacobi."""
    a, beta = 5, math.expm1(epsilon)
    law = beta_law(0.5, (a - 1) / 2)
    moment = {
        name: integrate.quad(lambda u, f=f: 2 * u * f(u * u) * law.pdf(u * u), 0, 1, epsabs=1e-12, limit=400)[0]
        for name, f in (("xlogx", lambda b: (1 + beta * b) * np.log1p(beta * b)), ("log", lambda b: np.log1p(beta * b)))
    }
    prior, entropy = Dirichlet.jeffreys(a), digamma((a + 2) / 2) - digamma(1.5)
    assert metrics.average_privacy(GRR(a, epsilon), prior).standard_error < 1e-8
    privacy = 1 - (epsilon * math.exp(epsilon) - a * moment["xlogx"]) / ((a + beta) * entropy)
    utility = (
        -0.5 * math.log(2 * math.pi * math.e)
        + math.log(beta)
        - (a - 2) / (2 * a - 2) * math.log(a + beta)
        - a / (2 * a - 2) * moment["log"]
    )
    assert metrics.average_privacy(GRR(a, epsilon), prior).value == pytest.approx(privacy, abs=1e-8)
    assert metrics.asymptotic_utility(GRR(a, epsilon), prior).value == pytest.approx(utility, abs=1e-8)


@pytest.mark.parametrize("protocol", [UnaryEncoding.symmetric(5, 1.0), UnaryEncoding.optimized(4, 3.0)], ids=str)
def test_unary_proposition_10_3(protocol):
    a, kappa, lam = protocol.n_categories, protocol.kappa, protocol.lam
    entropy = lambda q: -xlogy(q, q) - xlogy(1 - q, 1 - q)  # noqa: E731
    mixed = 0.0
    for g in range(a + 1):
        scale = lam ** (g - 1) * (1 - lam) ** (a - g - 1)
        value = lambda b, s=scale: s * (lam * (1 - kappa) + (kappa - lam) * b)  # noqa: E731
        if g in (0, a):
            mean = xlogy(value(g / a), value(g / a))
        else:
            law = beta_law(g / 2, (a - g) / 2)

            def integrand(angle, v=value, pdf=law.pdf):
                b = math.sin(angle) ** 2
                return xlogy(v(b), v(b)) * pdf(b) * math.sin(2 * angle)

            mean = integrate.quad(integrand, 1e-9, math.pi / 2 - 1e-9, epsabs=1e-12)[0]
        mixed += comb(a, g) * mean
    told = -(a - 1) * entropy(lam) - entropy(kappa) - mixed
    prior = Dirichlet.jeffreys(a)
    stated = 1 - told / metrics.value_entropy(prior).value
    assert metrics.average_privacy(protocol, prior).value == pytest.approx(stated, abs=1e-7)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_average_privacy_is_the_generic_mean(case):
    protocol = case.build(case.categories[-1], 1.0)
    a = protocol.n_categories
    for prior in (Dirichlet.jeffreys(a), as_prior(np.arange(1, a + 1.0), a)):
        found = metrics.average_privacy(protocol, prior, random_seed=2)
        if information.dense_feasible(protocol):
            value, error = spread_privacy(protocol, prior)
        else:  # reports that cannot be listed: simulate them
            drawn, entropy = (
                information._simulated_information(protocol, prior, 400, 20_000, 1),
                metrics.value_entropy(prior),
            )
            value, error = 1 - drawn.value / entropy.value, drawn.standard_error / entropy.value
        assert abs(found.value - value) < 4 * math.hypot(error, found.standard_error)
        assert found.value >= metrics.worst_case_privacy(protocol).value - 1e-12


def test_grr_asymptotic_utility_is_the_generic_mean():
    prior, protocol = Dirichlet.jeffreys(3), GRR(3, 1.5)
    generic = base.average(prior, lambda p: information.log_det_informations(Channel(protocol.channel()), p))
    found = information.log_det_gram(protocol, prior)
    assert found.value == pytest.approx(generic.value + math.log(3), abs=1e-9)


def test_unary_asymptotic_utility_by_sum_and_by_quadrature_over_supports():
    """The same draws of P through the dense channel and through the support law."""
    protocol, p = UnaryEncoding.symmetric(6, 1.0), np.random.default_rng(4).dirichlet(np.full(6, 0.5), 5)
    dense = information.log_det_informations(protocol, p)
    law, basis = information.support_law(protocol), helmert(6).T
    other = [np.linalg.slogdet(law.beta**2 * basis.T @ information._inclusions(law, row) @ basis)[1] for row in p]
    np.testing.assert_allclose(dense, other, rtol=1e-10)


# ---- identities over drawn channels -------------------------------------------------------------------------------------
@settings(max_examples=6, deadline=None)
@given(channels(), channels(), st.floats(0.1, 0.9))
def test_mixtures_products_and_postprocessing(first, second, weight):
    prior = Dirichlet.jeffreys(3)
    both = mixture([weight, 1 - weight], [first, second])
    apart = product(first, second)
    coarser = Channel(np.vstack([first.channel()[:2].sum(axis=0), first.channel()[2:]]))
    one, two, mixed, joint, less = (metrics.average_privacy(q, prior).value for q in (first, second, both, apart, coarser))
    assert mixed == pytest.approx(weight * one + (1 - weight) * two, abs=1e-6)
    assert 1 - joint <= 2 - one - two + 1e-6
    assert metrics.ldp_level(apart).value <= sum(metrics.ldp_level(q).value for q in (first, second)) + 1e-9
    assert less >= one - 1e-6
    assert metrics.worst_case_privacy(coarser).value >= metrics.worst_case_privacy(first).value - 1e-12
    one, two = (metrics.asymptotic_utility(q, prior).value for q in (first, second))
    if min(one, two) > -12:  # faithful, and not only by rounding
        assert metrics.asymptotic_utility(both, prior).value >= weight * one + (1 - weight) * two - 1e-6
        assert metrics.asymptotic_utility(coarser, prior).value <= one + 1e-6


@settings(max_examples=8, deadline=None)
@given(channels())
def test_theorem_8_1_and_participation(channel):
    prior = Dirichlet.flat(3)
    utility = metrics.asymptotic_utility(channel, prior).value
    assert utility <= metrics.frontier(metrics.worst_case_privacy(channel).value).value + 1e-9
    assert utility <= metrics.direct_answers_utility(prior).value + 1e-9
    assert 0 <= metrics.participation_factor(channel, prior).value <= 1 + 1e-9
    privacy = metrics.average_privacy(channel, prior).value
    assert metrics.worst_case_privacy(channel).value - 1e-9 <= privacy <= 1 + 1e-12


# ---- one report ----------------------------------------------------------------------------------------------------------
# ---- many reports -----------------------------------------------------------------------------------------------------
@pytest.mark.calibrate
def test_information_by_sum_and_by_simulation():
    prior, protocol, n = Dirichlet.flat(2), GRR(2, 1.0), 6
    exact = information.reports_information(protocol, prior, n)
    # I(Y;P) = I(S;P) by quadrature over P of the binomial law of the tally.
    nodes, weights = base.beta_rule(1, 1, 60)
    g, h = protocol.hit_rates
    k = np.arange(n + 1)
    success = (h + (g - h) * nodes)[:, None]
    law = comb(n, k) * success**k * (1 - success) ** (n - k)
    mixed = weights @ law
    direct = weights @ (xlogy(law, law).sum(axis=1)) - xlogy(mixed, mixed).sum()
    assert exact.value == pytest.approx(direct, abs=1e-9)
    log_ratio = lambda c, m, p: float(c.rows.log_likelihood(p) - m.log_evidence)  # noqa: E731
    drawn = base.over_reports(protocol, prior, n, log_ratio, draws=300, random_seed=3, limit=0)
    assert abs(drawn.value - direct) < 4 * drawn.standard_error


@pytest.mark.calibrate
def test_asymptotic_utility_is_a_limit():
    """(I(Y;P) − h(P))/(a − 1) − ½ log n → U^as for binary GRR; the gap is O(n^−½), from the edge of the simplex."""
    protocol, prior, gaps = GRR(2, 2.0), Dirichlet.flat(2), []
    nodes, weights = base.beta_rule(1, 1, 400)
    g, h = protocol.hit_rates
    limit = metrics.asymptotic_utility(protocol, prior).value
    for n in (500, 2000, 8000):
        law = binom.pmf(np.arange(n + 1), n, (h + (g - h) * nodes)[:, None])
        mixed = weights @ law
        told = weights @ xlogy(law, law).sum(axis=1) - xlogy(mixed, mixed).sum()
        gaps.append(told - dirichlet(prior.alpha).entropy() - 0.5 * math.log(n) - limit)
    assert abs(gaps[-1]) < 0.01
    np.testing.assert_allclose(gaps[1:], np.array(gaps[:-1]) / 2, rtol=0.05)


def test_refusals():
    with pytest.raises(ArgumentError, match="worst_case"):
        metrics.frontier(0.0)
    assert metrics.frontier(1.0).value == -math.inf


@pytest.mark.parametrize("shape", [(0.5, 2.0), (0.5, 511.5), (100.0, 400.0), (1.0, 1.0)])
def test_both_one_dimensional_rules_agree(shape):
    """Gauss–Jacobi and the logit trapezoid on one integrand that both resolve."""
    nodes, weights = base.beta_rule(*shape, 80)
    others, masses = base._logit_rule(*shape, min(0.2, 0.5 / math.sqrt(sum(shape))))
    assert masses.sum() == pytest.approx(1, abs=1e-11)
    assert weights @ np.log1p(20 * nodes) == pytest.approx(masses @ np.log1p(20 * others), abs=1e-11)


def test_beta_rule_is_exact_for_polynomials_and_large_shapes():
    for p, q in ((0.5, 0.5), (1.0, 1.0), (0.5, 511.5), (300.0, 700.0), (0.5, 5000.0)):
        nodes, weights = base.beta_rule(p, q, 20)
        law = beta_law(p, q)
        assert weights.sum() == pytest.approx(1)
        for power in (1, 2, 5):
            assert weights @ nodes**power == pytest.approx(law.moment(power), rel=1e-10)
