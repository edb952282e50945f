"""Bounds against the papers' determinants, against what estimators attain, and over drawn channels."""

import math

import numpy as np
import pytest
from cases import CASES, full_rank
from hypothesis import example, given, settings
from scipy.linalg import helmert
from scipy.optimize import linprog
from strategies import channels

from ldpbayes.errors import ArgumentError
from ldpbayes.planning import risk
from ldpbayes.priors import Dirichlet, as_prior
from ldpbayes.protocols import GRR, designs
from ldpbayes.protocols.channel import Channel
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.theory import base, bounds, information, metrics

PROTOCOLS = [GRR(3, 1.0), UnaryEncoding.symmetric(3, 1.0), SubsetSelection(4, 0.5, 2), HadamardResponse(3, 2.0)]


def paper_delta(protocol, prior):
    """γ + ½ E log(det G_P/Π(QP)_y) with the (b−1)-dimensional determinant of the paper."""
    channel = protocol.channel()

    def log_ratio(points):
        out = []
        for p in points:
            w = channel[:-1]
            g = np.diag(w @ p) - (w * p) @ w.T
            d = channel.T @ (channel / (channel @ p)[:, None])
            out.append(np.linalg.slogdet(g)[1] - np.log(channel @ p).sum() - np.linalg.slogdet(d)[1])
        return np.array(out)

    free = protocol.n_categories - 1
    return free / 2 * math.log(2 * math.pi * math.e) + base.average(prior, log_ratio).value / 2


@pytest.mark.sampled(4)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
def test_gamma_and_delta(protocol):
    """Both against plain determinants of the written-out channel, averaged over other draws of P than theirs."""
    prior, a = Dirichlet.flat(protocol.n_categories), protocol.n_categories
    channel, half = protocol.channel(), (a - 1) / 2 * math.log(2 * math.pi * math.e)
    gammas, gaps = [], []
    for p in np.random.default_rng(8).dirichlet(prior.alpha, 4000):
        reports = channel @ p
        d = channel.T @ (channel / reports[:, None])
        w = channel[:-1]
        g = np.diag(w @ p) - (w * p) @ w.T
        gammas.append(half - np.linalg.slogdet(d)[1] / 2)
        gaps.append((np.linalg.slogdet(g)[1] - np.log(reports).sum()) / 2)
    gamma, delta = bounds.gamma(protocol, prior), bounds.delta(protocol, prior)
    for value, listed in ((gamma, gammas), (delta, np.add(gammas, gaps))):
        assert abs(value.value - np.mean(listed)) < 4 * np.hypot(value.standard_error, np.std(listed) / np.sqrt(4000))
    assert delta.value < gamma.value


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", PROTOCOLS[:2], ids=lambda p: p.name)
def test_delta_is_the_papers_determinant(protocol):
    """The a-dimensional form is the paper's (b−1)-dimensional determinant."""
    prior = as_prior([1.0, 2.0, 1.5], 3)
    assert bounds.delta(protocol, prior).value == pytest.approx(paper_delta(protocol, prior), abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(channels())
@example(Channel([[1 / 3, 1 / 3, 0.4], [1 / 3, 1 / 3, 0.4], [1 / 3, 1 / 3, 0.2]]))  # two values that no report tells apart
def test_theorem_4_4_over_channels(channel):
    prior, epsilon = Dirichlet.flat(3), metrics.ldp_level(channel).value
    if epsilon < 1e-3:
        return
    assert bounds.gamma(channel, prior).value >= bounds.theorem_4_4(3, epsilon).value - 1e-9
    p = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    fisher = information.dense_informations(channel.channel(), p)
    sharper = bounds.theorem_4_4(3, epsilon, "frequency").value
    paper = bounds.theorem_4_4(3, epsilon, "frequency", channel.n_outputs).value
    assert paper <= sharper
    # γ − δ is the mean of −½ log det(I − ST): below (a−1)ε/2 at every p.
    basis = helmert(3).T
    spread = [basis.T @ (np.diag(row) - np.outer(row, row)) @ basis for row in p]
    gaps = -np.linalg.slogdet(np.eye(2) - np.array(spread) @ fisher)[1] / 2
    assert (gaps >= -1e-9).all() and (gaps <= epsilon + 1e-9).all()
    # From log det(T⁻¹ − S), as δ is computed; both are infinite where T is singular.
    log_dets = information.log_dets(fisher)
    found = -(bounds._log_frequency_dets(fisher, p)[log_dets > -np.inf] + log_dets[log_dets > -np.inf]) / 2
    np.testing.assert_allclose(found, gaps[log_dets > -np.inf], atol=1e-8)
    assert (bounds._log_frequency_dets(fisher, p)[log_dets == -np.inf] == np.inf).all()


def test_tight_at_two_categories():
    """n·MSE of binary randomized response over the bound of Theorem 4.5 goes to one as ε → 0 (2020, Cor. 4.7)."""
    prior = Dirichlet.jeffreys(2)
    for target in risk.TARGETS:
        ratios = []
        for epsilon in (1.0, 0.1, 0.01):
            attained = risk.average_risk(GRR(2, epsilon), prior, 1, target).value
            ratios.append(attained / bounds.theorem_4_5(2, epsilon, target).value)
        assert ratios[0] > ratios[1] > ratios[2] >= 1 - 1e-9
        assert ratios[2] < 1.03
    # For F the attained 2e^ε/(e^ε − 1)² over 2e^{−ε}/(e^ε − 1)² is e^{2ε}.
    assert ratios[0] == pytest.approx(math.exp(2), rel=1e-6)


def three_or_two(case):
    """Return the protocol of a case over three categories, or over two where it has no three."""
    return case.build(3 if 3 in case.categories else 2, 1.0)


@pytest.mark.sampled(5)
@pytest.mark.calibrated("loloha")
@pytest.mark.parametrize("case", [case for case in CASES if full_rank(three_or_two(case))], ids=str)
def test_bound_attainable_oracle(case):
    """Theorem 4.5 ≤ Corollary 4.3 ≤ the efficient risk, for P and F, on every protocol that identifies P."""
    protocol = three_or_two(case)
    prior = Dirichlet.flat(protocol.n_categories)
    simulated = protocol.n_outputs is None and protocol.support_sizes is None  # each risk is then a simulation
    for target in risk.TARGETS:
        p = np.random.default_rng(1).dirichlet(prior.alpha, 100)[: 4 if simulated else 100]
        level = protocol.epsilon  # infinite for designs that keep no secret, which no theorem bounds
        universal = bounds.theorem_4_5(prior.n_categories, level, target).value if level < math.inf else 0.0
        bound = bounds.corollary_4_3(protocol, prior, target, simulations=2_000 if simulated else 20_000)
        attained = [risk.mle_risk(protocol, row, 1, target).value for row in p]
        assert universal <= bound.value * (1 + 1e-9)
        assert bound.value <= np.mean(attained) + 4 * np.std(attained) / math.sqrt(len(p))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 3, 8])
def test_theorem_4_1_is_below_the_optimum(n):
    for protocol in (GRR(3, 1.0), GRR(2, 3.0)):
        prior = Dirichlet.jeffreys(protocol.n_categories)
        bound = bounds.theorem_4_1(protocol, prior, n)
        optimum = risk.bayes_risk(protocol, prior, n)
        assert bound.method == "sum over reports" and bound.standard_error < 1e-12 * bound.value
        assert 0 < bound.value <= optimum.value * (1 + 1e-9)


def test_theorem_4_1_with_the_exact_posterior_at_large_n():
    """Monte Carlo over reports with the library's exact evidence: n × the bound is near its limit."""
    protocol, prior, n = GRR(4, 2.0), Dirichlet.flat(4), 5_000
    bound = bounds.theorem_4_1(protocol, prior, n, draws=60)
    assert bound.method == "Monte Carlo" and 0 < bound.standard_error < 0.15 * bound.value
    assert n * bound.value == pytest.approx(bounds.corollary_4_3(protocol, prior).value, rel=0.4)
    optimum = risk.bayes_risk(protocol, prior, n, draws=30)
    assert bound.value - 4 * bound.standard_error <= optimum.value + 4 * optimum.standard_error


@pytest.mark.parametrize("a, epsilon, floor", [(16, 1.0, 51.91), (100, 2.0, 70.97), (5, 0.5, 50.26)])
def test_exact_floor(a, epsilon, floor):
    """The floor's values, its attainment by subset selection, and the best size among all."""
    found = bounds.exact_bound(a, epsilon).value
    assert found == pytest.approx(floor, abs=0.006)
    uniform = np.full(a, 1 / a)
    attained = [risk.mle_risk(SubsetSelection(a, epsilon, k), uniform, 1).value for k in range(1, min(a, 40))]
    assert min(attained) == pytest.approx(found, rel=1e-12)
    of_f = min(risk.mle_risk(SubsetSelection(a, epsilon, k), uniform, 1, "frequency").value for k in range(1, min(a, 40)))
    assert of_f == pytest.approx(bounds.exact_bound(a, epsilon, "frequency").value, rel=1e-12)
    for protocol in (GRR(a, epsilon), UnaryEncoding.optimized(a, epsilon), UnaryEncoding.symmetric(a, epsilon)):
        assert risk.mle_risk(protocol, uniform, 1).value >= found * (1 - 1e-12)
    assert bounds.theorem_4_5(a, epsilon).value < found


@pytest.mark.calibrate
def test_exact_floor_by_the_information_of_listed_channels():
    """A second way: the tangent Fisher information of written-out channels, for subset selection and 60 extremal ones."""
    a, epsilon = 5, 0.5
    basis = np.linalg.svd(np.ones((1, a)))[2][1:].T

    def trace_of_inverse(channel):
        tangent = basis.T @ (channel.T / (channel @ np.full(a, 1 / a))) @ channel @ basis
        return np.trace(np.linalg.inv(tangent))

    floor = bounds.exact_bound(a, epsilon).value
    best = min(trace_of_inverse(SubsetSelection(a, epsilon, k).channel()) for k in (1, 2, 3, 4))
    assert best == pytest.approx(floor, rel=1e-12)
    rng, patterns = np.random.default_rng(2), (np.arange(1, 2**a - 1)[:, None] >> np.arange(a)) & 1
    least, listed = math.inf, 0
    rows = 1 + math.expm1(epsilon) * patterns
    while listed < 60:
        # Random mixtures of two-level rows whose columns sum to one: a random cost over the polytope of such channels.
        solved = linprog(rng.exponential(size=len(rows)), A_eq=rows.T, b_eq=np.ones(a))
        channel = rows[solved.x > 1e-12] * solved.x[solved.x > 1e-12, None]
        if np.linalg.matrix_rank(channel) == a:
            least, listed = min(least, trace_of_inverse(channel)), listed + 1
    assert floor * (1 - 1e-9) <= least


def test_degenerate_channels():
    short, prior = Channel([[0.5, 0.2, 0.4], [0.5, 0.8, 0.6]]), Dirichlet.flat(3)
    assert bounds.gamma(short, prior).value == math.inf
    assert bounds.corollary_4_3(short, prior).value == math.inf
    direct = designs.direct(3)
    assert bounds.delta(direct, prior).value == -math.inf
    assert bounds.corollary_4_3(direct, prior, "frequency").value == 0
    # Direct answers: n·MSE → E[1 − ΣP²] for P, above the bound.
    assert bounds.corollary_4_3(direct, prior).value <= 1 - 3 * 2 / (3 * 4)


def test_oue_at_small_levels():
    # OUE attains 4a/(nε²) as ε → 0.
    oracle = risk.oracle_risk(UnaryEncoding.optimized(50, 0.02), np.full(50, 0.02), 10**6, "frequency").value
    assert oracle == pytest.approx(4 * 50 / (10**6 * 0.02**2), rel=0.02)


def test_arguments_are_refused():
    with pytest.raises(ArgumentError, match="target"):
        bounds.theorem_4_4(3, 1.0, "P")
    with pytest.raises(ArgumentError, match="n_outputs"):
        bounds.theorem_4_4(3, 1.0, "frequency", 2)
