import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from ldpbayes import fit
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.likelihoods import DenseRows
from ldpbayes.methods.exact import Exact, ExactMoments
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Channel, designs
from ldpbayes.result.facts import facts_of


def survey(*tallies):
    size = tallies[0].protocol.n_categories
    return Collection([f"c{x}" for x in range(size)], tallies)


def simulated(a, n, epsilon, seed, weights=None):
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, a + 1) if weights is None else np.asarray(weights, dtype=float)
    protocol = GRR(a, epsilon)
    return survey(Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng)))


def rising(x, k):
    return math.prod((x + i for i in range(k)), start=Fraction(1))


def by_values(collection, alpha):
    """Evidence, mean and covariance by summing over all private values x in A^n in exact fractions."""
    alpha = [Fraction(float(x)) for x in alpha]
    a, total = len(alpha), sum(alpha)
    rows = []
    for tally in collection.tallies:
        channel = [[Fraction(float(q)) for q in row] for row in tally.protocol.channel()]
        for report, count in zip(tally.reports, tally.counts, strict=True):
            rows += [channel[report]] * int(count)
    n = len(rows)
    evidence, first, second = Fraction(0), [Fraction(0)] * a, [[Fraction(0)] * a for _ in range(a)]
    for values in itertools.product(range(a), repeat=n):
        t = [values.count(x) for x in range(a)]
        weight = math.prod(row[x] for row, x in zip(rows, values, strict=True))
        weight *= math.prod(rising(alpha[x], t[x]) for x in range(a)) / rising(total, n)
        evidence += weight
        for x in range(a):
            first[x] += weight * (alpha[x] + t[x]) / (total + n)
            for y in range(a):
                pair = (alpha[x] + t[x]) * (alpha[y] + t[y] + (x == y))
                second[x][y] += weight * pair / ((total + n) * (total + n + 1))
    mean = [m / evidence for m in first]
    cov = [[float(second[x][y] / evidence - mean[x] * mean[y]) for y in range(a)] for x in range(a)]
    log_evidence = math.log(evidence.numerator) - math.log(evidence.denominator)
    return log_evidence, np.array([float(m) for m in mean]), np.array(cov)


ERIKSSON = designs.forced_response(0.75, [0, 2, 1])
SMALL = {
    "grr": (survey(Tally(GRR(3, 1.0), [0, 1, 2], [3, 0, 2])), [0.5, 0.5, 0.5]),
    "grr, unequal alpha": (survey(Tally(GRR(3, 0.1), [0, 1, 2], [1, 4, 1])), [0.3, 2.0, 1.0]),
    "grr, large epsilon": (survey(Tally(GRR(4, 20.0), [0, 1, 2, 3], [2, 1, 1, 0])), [0.5, 0.5, 0.5, 0.5]),
    "one report": (survey(Tally(GRR(5, 0.01), [3])), [0.5] * 5),
    "two epsilons": (
        survey(Tally(GRR(3, 1.0), [0, 1], [2, 1]), Tally(GRR(3, 2.5), [0, 1, 2], [2, 1, 1], name="b")),
        [0.5, 1.0, 0.5],
    ),
    "zero base": (survey(Tally(ERIKSSON, [0, 1, 2], [3, 2, 2])), [0.5, 0.5, 1.5]),
    "identity": (survey(Tally(designs.direct(3), [0, 1, 2], [3, 2, 0])), [0.5, 0.5, 0.5]),
    "two channels": (
        survey(Tally(designs.kuk(0.8, 0.2), [0, 1], [4, 3]), Tally(designs.triangular(0.4), [0, 1], [2, 4], name="b")),
        [0.5, 0.7],
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SMALL)
def test_equals_enumeration(name):
    collection, alpha = SMALL[name]
    log_evidence, mean, cov = by_values(collection, alpha)
    moments = ExactMoments(collection.rows, Dirichlet(alpha))
    assert moments.log_evidence == pytest.approx(log_evidence, rel=1e-11)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(moments.covariance(), cov, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(np.diag(moments.covariance()), moments.variance, rtol=1e-12)


def by_convolution(counts, beta, alpha):
    """log Σ_k Π C(s,k) β^k Γ(α+k) / Γ(Σα + |k|) and E[P], by convolving in the number of truthful reports."""
    tilt = sum(alpha) + sum(counts) * beta / (beta + len(counts))
    polynomials, scale = [], 0.0
    for s, x in zip(counts, alpha, strict=True):
        log_h = [
            math.lgamma(s + 1) - math.lgamma(k + 1) - math.lgamma(s - k + 1) + k * math.log(beta / tilt) + math.lgamma(x + k)
            for k in range(s + 1)
        ]
        scale += max(log_h)
        polynomials.append(np.exp(np.array(log_h) - max(log_h)))
    total = np.ones(1)
    for h in polynomials:
        total = np.convolve(total, h)
    m = np.arange(total.size)
    log_w = m * math.log(tilt) - np.array([math.lgamma(sum(alpha) + i) for i in m])
    top = log_w.max()
    weight = np.exp(log_w - top)
    evidence = weight @ total
    mean = []
    for x in range(len(alpha)):
        part = np.ones(1)
        for y, h in enumerate(polynomials):
            part = np.convolve(part, h * (alpha[x] + np.arange(h.size)) if y == x else h)
        mean.append((weight / (sum(alpha) + m)) @ part / evidence)
    return math.log(evidence) + top + scale, np.array(mean)


@pytest.mark.parametrize(("a", "n", "epsilon"), [(3, 300, 0.5), (6, 1000, 2.0), (12, 500, 0.1), (30, 800, 4.0)])
def test_equals_convolution_at_medium_n(a, n, epsilon):
    collection = simulated(a, n, epsilon, seed=a)
    alpha = np.linspace(0.4, 1.6, a)
    counts = np.bincount(collection.tallies[0].reports, collection.tallies[0].counts, a).astype(int)
    log_z, mean = by_convolution(counts.tolist(), math.expm1(epsilon), alpha.tolist())
    moments = ExactMoments(collection.rows, Dirichlet(alpha))
    log_evidence = log_z - n * math.log(a + math.expm1(epsilon)) + math.lgamma(alpha.sum()) - sum(map(math.lgamma, alpha))
    assert moments.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("alpha", [[0.5, 0.5], [1.0, 1.0], [3.0, 0.2]])
@pytest.mark.parametrize(
    ("protocol", "counts"),
    [
        (designs.warner(0.7), [60, 40]),
        (designs.warner(0.3), [5, 0]),
        (designs.triangular(0.5), [40, 160]),
        (designs.triangular(0.5), [3, 0]),
        (designs.kuk(0.9, 0.4), [300, 5]),
        (designs.forced_response(0.8, [0, 1]), [0, 7]),
    ],
)
def test_two_categories_by_adaptive_quadrature(protocol, counts, alpha):
    collection = survey(Tally(protocol, [0, 1], counts))
    channel = protocol.channel()
    peak = max(counts @ np.log(channel @ [1 - p, p] + 1e-300) for p in np.linspace(1e-6, 1 - 1e-6, 4001))

    def kernel(p):
        terms = [(float(q @ [1 - p, p]), c) for q, c in zip(channel, counts, strict=True) if c]
        return math.exp(sum(c * math.log(u) for u, c in terms) - peak) if all(u > 0 for u, _ in terms) else 0.0

    def integral(power, upper=1.0):
        middle, total = min(0.5, upper), 0.0
        for low, high, weight in ((0, middle, (alpha[1] - 1 + power, 0)), (middle, upper, (0, alpha[0] - 1))):
            if high <= low:
                continue
            other = (lambda p: (1 - p) ** (alpha[0] - 1)) if low == 0 else (lambda p: p ** (alpha[1] - 1 + power))
            if high < 1 and low > 0:
                weight, other = (0, 0), lambda p: p ** (alpha[1] - 1 + power) * (1 - p) ** (alpha[0] - 1)
            value, _ = integrate.quad(
                lambda p, f=other: f(p) * kernel(p), low, high, weight="alg", wvar=weight, epsabs=0, epsrel=1e-11, limit=400
            )
            total += value
        return total

    moments = ExactMoments(collection.rows, Dirichlet(alpha))
    z, first = integral(0), integral(1)
    log_evidence = math.log(z) + peak - (math.lgamma(alpha[0]) + math.lgamma(alpha[1]) - math.lgamma(sum(alpha)))
    assert moments.log_evidence == pytest.approx(log_evidence, rel=1e-9)
    assert moments.mean[1] == pytest.approx(first / z, rel=1e-9)
    for level in (0.025, 0.5, 0.9):
        q = moments.quantile(level)[1]
        assert integral(0, q) / z == pytest.approx(level, abs=1e-7)


def test_nigeria():
    collection = survey(Tally(designs.forced_response(2 / 3, [1, 1]), [0, 1], [1604, 831]))
    moments = ExactMoments(collection.rows, Dirichlet.flat(2))
    assert round(moments.mean[1], 5) == 0.26211
    assert round(moments.sd[1], 5) == 0.01441
    assert moments.quantile([0.025, 0.5, 0.975])[:, 1].round(5).tolist() == [0.23406, 0.26204, 0.29052]


def test_pure_powers_are_a_dirichlet():
    collection = survey(Tally(designs.direct(4), [0, 1, 2, 3], [5, 0, 100, 2]))
    alpha = np.array([5.5, 0.1, 102.0, 3.0])
    moments = ExactMoments(collection.rows, Dirichlet([0.5, 0.1, 2.0, 1.0]))
    np.testing.assert_allclose(moments.mean, alpha / alpha.sum(), rtol=1e-13)
    for x in range(4):
        marginal = stats.beta(alpha[x], alpha.sum() - alpha[x])
        assert marginal.cdf(moments.quantile([0.01, 0.5, 0.975])[:, x]) == pytest.approx([0.01, 0.5, 0.975], abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_large_n_means_sum_to_one(epsilon):
    moments = Exact().moments(simulated(1024, 10**6, epsilon, seed=3), "jeffreys")
    assert abs(moments.mean.sum() - 1) <= 1e-12
    assert np.abs(moments.covariance().sum(axis=1) / moments.variance).max() < 1e-9
    assert moments.diagnostics()["covariance_row_sum_error"] < 1e-9


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("a", "n", "epsilon", "weights"),
    [
        (2, 10**8, 4.0, [0.999999, 1e-6]),
        (50, 10**7, 1.0, [0.99] + [0.01 / 49] * 49),
        (1024, 50, 20.0, None),
        (1024, 1, 0.01, None),
        (10000, 3000, 0.5, None),
        (20, 10**8, 0.01, None),
    ],
)
def test_extremes_are_finite_and_consistent(a, n, epsilon, weights):
    collection = simulated(a, n, epsilon, seed=a, weights=weights)
    moments = Exact().moments(collection, "jeffreys")
    assert abs(moments.mean.sum() - 1) < 1e-11
    assert moments.diagnostics()["covariance_row_sum_error"] < 1e-8
    low, middle, high = moments.quantile([0.025, 0.5, 0.975])
    assert ((0 < low) & (low < middle) & (middle < high) & (high < 1)).all()
    flat, _, acceptance = moments.engine.draws(400, np.random.default_rng(1))
    assert 0 < acceptance <= 1
    inside = ((flat > low) & (flat < high)).mean()
    assert inside == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 400))


def test_draws_have_the_exact_mean_covariance_and_margins():
    collection = survey(
        Tally(GRR(4, 1.0), [0, 1, 2, 3], [50, 30, 20, 21]), Tally(GRR(4, 3.0), [0, 1, 2, 3], [9, 1, 2, 0], name="b")
    )
    moments = ExactMoments(collection.rows, Dirichlet([0.5, 0.5, 1.0, 0.5]))
    size = 20_000
    draws, _, _ = moments.engine.draws(size, np.random.default_rng(5))
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    assert (np.abs(draws.mean(axis=0) - moments.mean) < 4 * moments.sd / math.sqrt(size)).all()
    centred = draws - moments.mean
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(axis=0) / math.sqrt(size)
    assert (np.abs(products.mean(axis=0) - moments.covariance()) < 4 * error).all()
    for index, margin in moments.engine._margins:
        for x in np.flatnonzero(np.isin(moments.engine.group, index)):
            place = np.flatnonzero(index == moments.engine.group[x])[0]
            pit = np.array([margin.cdf(value)[place] for value in draws[:500, x]])
            assert stats.kstest(pit, "uniform").pvalue > 1e-3


def test_frequencies_agree_with_their_draws():
    collection = simulated(5, 400, 1.0, seed=9)
    tree = fit(collection, Dirichlet.jeffreys(5), Exact(draws=4000, chains=1), random_seed=2, estimates=False)
    draws = tree["posterior"]["frequency"].values[0]
    exact = tree["exact"]
    error = exact["frequency_sd"].values / math.sqrt(4000)
    assert (np.abs(draws.mean(axis=0) - exact["frequency_mean"].values) < 4 * error).all()
    np.testing.assert_allclose(draws.std(axis=0), exact["frequency_sd"].values, rtol=0.06)


def test_posterior_tree():
    collection = simulated(6, 200, 1.0, seed=1)
    method = Exact(draws=50, chains=2)
    tree = fit(collection, Dirichlet.jeffreys(6), method, random_seed=3, ci_prob=0.9, estimates=False)
    again = fit(collection, Dirichlet.jeffreys(6), method, random_seed=3, ci_prob=0.9, estimates=False)
    np.testing.assert_array_equal(tree["posterior"]["distribution"], again["posterior"]["distribution"])
    moments = method.moments(collection, "jeffreys")
    np.testing.assert_allclose(tree["exact"]["distribution_lower"], moments.quantile(0.05))
    np.testing.assert_allclose(tree["exact"]["distribution_cov"], moments.covariance())
    assert float(tree["exact"]["log_evidence"]) == moments.log_evidence
    assert tree.attrs["method"] == "exact" and facts_of(tree)["exact_mean_sum_error"] < 1e-12


def test_refusals():
    rows = DenseRows(np.array([[0.5, 0.3, 0.2], [0.5, 0.7, 0.8]]), [3, 4])
    down = Channel([[0.1, 0.4, 0.4], [0.9, 0.6, 0.6]])
    with pytest.raises(InfeasibleError, match="single out"):
        ExactMoments(rows, Dirichlet.flat(3))
    collection = survey(Tally(down, [0, 1], [3, 4]))
    with pytest.raises(InfeasibleError, match="less likely"):
        Exact().moments(collection, "flat")
    verdict = Exact().feasibility(collection, "flat")
    assert not verdict.feasible and "less likely" in verdict.reason
    assert Exact().feasibility(simulated(5, 100, 1.0, 1), "flat").feasible
    with pytest.raises(ArgumentError, match="draws"):
        Exact(draws=0)


def test_draws_that_need_tables_beyond_memory_are_refused():
    protocol = GRR(1024, 1.0)
    collection = survey(Tally(protocol, np.arange(1024), np.full(1024, 9 * 10**8)))
    verdict = Exact().feasibility(collection, "jeffreys")
    assert not verdict.feasible and "1e+08 numbers" in verdict.reason
    with pytest.raises(InfeasibleError, match="without draws"):
        fit(collection, "jeffreys", Exact(), random_seed=1, estimates=False)
    moments = Exact().moments(collection, "jeffreys")
    np.testing.assert_allclose(moments.mean, 1 / 1024)
    assert Exact().feasibility(survey(Tally(protocol, np.arange(1024), np.full(1024, 10**6))), "jeffreys").feasible
