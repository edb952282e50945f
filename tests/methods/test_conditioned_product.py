from dataclasses import dataclass

import numpy as np
import pytest
from conditioned import Alone
from scipy import integrate, stats
from scipy.special import logsumexp

from ldpbayes.methods.conditioned_product import ConditionedProduct, PowerFactors
from ldpbayes.methods.conditioned_product.factors import log1p_minus
from ldpbayes.methods.conditioned_product.polynomial import _log_polynomial
from ldpbayes.methods.conditioned_product.transform import period


@dataclass(frozen=True, eq=False)
class QuadraticFactors:
    """φ_x(g) = g^{α_x−1} exp(b_x g − D_x g²/2): a family that the engine has never heard of."""

    alpha: np.ndarray
    linear: np.ndarray
    curvature: np.ndarray
    lowest_tilt = -np.inf

    def take(self, index):
        return QuadraticFactors(self.alpha[index], self.linear[index], self.curvature[index])

    def polynomials(self):
        return None

    def log_smooth(self, g):
        return self.linear * g - self.curvature * g**2 / 2

    def slope(self, g):
        return self.linear - self.curvature * g

    def log_remainder(self, g, delta):
        return -self.curvature[:, None] * delta**2 / 2

    def modes(self, tilt):
        b = self.linear - tilt
        return 2 * self.alpha / (np.sqrt(b**2 + 4 * self.curvature * self.alpha) - b)


def powers(alpha, slopes, counts):
    return PowerFactors(np.asarray(alpha, float), np.asarray(slopes, float), np.asarray(counts, float))


def test_log1p_minus_keeps_its_digits():
    x = np.array([-0.9, -0.2, -1e-3, -1e-9, 1e-12, 1e-4, 0.1, 0.24, 0.26, 3.0])
    series = np.array([sum((-1) ** (k + 1) * v**k / k for k in range(60, 1, -1)) if abs(v) < 0.3 else np.nan for v in x])
    near = np.abs(x) < 0.3
    np.testing.assert_allclose(log1p_minus(x)[near], series[near], rtol=1e-14)
    np.testing.assert_allclose(log1p_minus(x)[~near], (np.log1p(x) - x)[~near], rtol=1e-15)


def test_a_dirichlet_by_the_transform_route():
    alpha = np.tile([0.5, 2.0], 30)
    engine = Alone(powers(alpha, np.zeros((60, 1)), np.zeros((60, 1))), np.arange(60), route="transform")
    total = alpha.sum()
    np.testing.assert_allclose(engine.mean, alpha / total, rtol=1e-12)
    np.testing.assert_allclose(engine.variance, alpha * (total - alpha) / total**2 / (total + 1), rtol=1e-11)
    covariance = -np.outer(alpha, alpha) / total**2 / (total + 1)
    off = ~np.eye(60, dtype=bool)
    np.testing.assert_allclose(engine.covariance()[off], covariance[off], rtol=1e-10)
    from scipy.special import gammaln

    assert engine.log_evidence == pytest.approx(gammaln(alpha).sum() - gammaln(total), rel=1e-12)
    for x in (0, 1):
        marginal = stats.beta(alpha[x], total - alpha[x])
        assert marginal.cdf(engine.quantile([0.001, 0.4, 0.999])[:, x]) == pytest.approx([0.001, 0.4, 0.999], abs=1e-9)


@pytest.mark.parametrize(("a", "n", "slope"), [(40, 2000, 1.7), (25, 30000, 20.0), (60, 300, 0.3)])
def test_the_two_routes_agree(a, n, slope):
    rng = np.random.default_rng(a)
    counts = np.stack([rng.multinomial(n, rng.dirichlet(np.ones(a))), rng.multinomial(n // 4, np.full(a, 1 / a))], axis=1)
    family = powers(rng.uniform(0.4, 2, a), np.broadcast_to([slope, 3 * slope], (a, 2)), counts)
    one, two = (Alone(family, np.arange(a), route=route) for route in ("transform", "polynomial"))
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-11)
    np.testing.assert_allclose(one.variance, two.variance, rtol=1e-9)
    sd = np.sqrt(one.variance)
    assert (np.abs(one.covariance() - two.covariance()) < 1e-10 * np.outer(sd, sd)).all()
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-9)
    levels = [1e-4, 0.025, 0.5, 0.99]
    assert (np.abs(one.quantile(levels) - two.quantile(levels)) < 1e-7 * sd).all()


def test_grouped_factors_equal_separate_ones():
    counts = np.array([5, 5, 0, 0, 0, 90, 40, 40])
    alpha = np.full(8, 0.5)
    separate = Alone(powers(alpha, np.full((8, 1), 4.0), counts[:, None]), np.arange(8))
    value, group = np.unique(counts, return_inverse=True)
    grouped = Alone(powers(alpha[: value.size], np.full((value.size, 1), 4.0), value[:, None]), group)
    np.testing.assert_allclose(grouped.mean, separate.mean, rtol=1e-12)
    np.testing.assert_allclose(grouped.covariance(), separate.covariance(), rtol=1e-9)
    assert grouped.log_evidence == pytest.approx(separate.log_evidence, abs=1e-11)
    np.testing.assert_allclose(grouped.quantile(0.9), separate.quantile(0.9), rtol=1e-9)
    assert separate.row_sum_error() < 1e-12 and grouped.row_sum_error() < 1e-12


def test_a_dominating_category_has_exact_margins():
    counts = np.array([990_000, 6_000, 3_000, 500, 500])
    family = powers(np.full(5, 0.5), np.full((5, 1), 50.0), counts[:, None])
    one, two = (Alone(family, np.arange(5), route=route) for route in ("transform", "polynomial"))
    levels = [0.001, 0.025, 0.5, 0.975]
    sd = np.sqrt(one.variance)
    assert (np.abs(one.quantile(levels) - two.quantile(levels)) < 1e-6 * sd).all()
    # The first mean is .99 and its variance 3e-12: rounding of the mean's 16 digits leaves it seven.
    np.testing.assert_allclose(one.variance, two.variance, rtol=1e-6)


def test_transforms_that_are_zero_do_not_spoil_the_law_of_the_others():
    """A share of .99998, whose transform is zero at many roots of unity. Ends against draws, whatever the tilt."""
    counts = np.array([[88321, 959], [11292, 3187], [387, 45854]])
    family = powers(np.full(3, 0.3), np.tile([3.9, 0.064], (3, 1)), counts)
    levels, start = np.array([0.025, 0.5, 0.975]), Alone(family, np.arange(3)).tilt
    draws = Alone(family, np.arange(3)).draws(20_000, np.random.default_rng(1))[0]
    for tilt in (start, start + 20, start - 20):
        ends = Alone(family, np.arange(3), start=tilt).quantile(levels)
        for level, row in zip(levels, ends, strict=True):
            below = (draws <= row).mean(axis=0)
            assert (np.abs(below - level) < 5 * np.sqrt(level * (1 - level) / len(draws))).all()


def test_another_family_by_nested_quadrature():
    family = QuadraticFactors(np.array([1.0, 1.5, 1.0]), np.array([400.0, 1200, 1000]), np.array([4000.0, 8000, 2800]))
    engine = Alone(family, np.arange(3))

    def density(y, x):
        g = np.array([x, y, max(1 - x - y, 1e-300)])
        return float(np.exp(((family.alpha - 1) * np.log(g) + family.log_smooth(g)).sum() - engine.log_evidence))

    def integral(f):
        sd = np.sqrt(engine.variance)
        low, high = np.clip(engine.mean - 9 * sd, 1e-12, 1), np.clip(engine.mean + 9 * sd, 0, 1)
        inner = lambda x: integrate.quad(lambda y: f(x, y) * density(y, x), low[1], min(high[1], 1 - x), epsabs=1e-9)[0]  # noqa: E731
        return integrate.quad(inner, low[0], high[0], epsabs=1e-9)[0]

    assert integral(lambda x, y: 1.0) == pytest.approx(1, abs=1e-7)
    assert integral(lambda x, y: x) == pytest.approx(engine.mean[0], abs=1e-8)
    assert integral(lambda x, y: x * y) - engine.mean[0] * engine.mean[1] == pytest.approx(
        engine.covariance()[0, 1], abs=1e-8
    )
    assert engine.mean.sum() == pytest.approx(1, abs=1e-13)


def test_transforms_that_do_not_die_out_are_of_second_order_in_the_saddle_point():
    weak = QuadraticFactors(np.full(3, 0.5), np.zeros(3), np.full(3, 0.1))
    assert ConditionedProduct(weak, np.arange(3)).rough.all()


def test_polynomials_of_any_length_keep_their_logarithms():
    """Blocks without a coefficient count for nothing, however small the coefficients of the others are."""
    rng = np.random.default_rng(1)
    coefficient = np.full((3, 150), -np.inf)
    coefficient[0, :20], coefficient[1, 70:150] = -2000 + rng.normal(size=20), 900 + 30 * rng.normal(size=80)
    coefficient[2, ::40] = rng.normal(size=4)
    value = np.array([np.linspace(-15, 15, 31)] * 3)
    found = _log_polynomial(coefficient, value)
    known = logsumexp(coefficient[:, None] + value[:, :, None] * np.arange(150), axis=2)
    np.testing.assert_allclose(found, known, rtol=1e-13)


def test_two_categories_are_one_integral():
    """However weak their factors are; three sets at once, and one of them alone."""
    b, d = np.array([0.0, 0.0, 90.0, 40.0, 0.0, 3.0]), np.array([0.1, 0.1, 120.0, 60.0, 5.0, 5.0])
    alpha = np.array([0.5, 0.5, 0.5, 2.0, 0.02, 0.3])
    every = ConditionedProduct(QuadraticFactors(alpha, b, d), np.arange(2), sets=3)
    for i in range(3):
        part = slice(2 * i, 2 * i + 2)
        one = Alone(QuadraticFactors(alpha[part], b[part], d[part]), np.arange(2))
        # In y = logit p, whose density falls like e^{α y}.
        y = np.linspace(-2500, 2500, 2_000_001)
        log_p, log_q = -np.logaddexp(0, -y), -np.logaddexp(0, y)
        p, q = np.exp(log_p), np.exp(log_q)
        smooth = b[part] @ [p, q] - d[part] @ [p**2, q**2] / 2
        density = np.exp(alpha[part] @ [log_p, log_q] + smooth)
        total, step = density.sum(), y[1] - y[0]
        mean = density @ p / total
        assert one.log_evidence == pytest.approx(np.log(total * step), abs=1e-9)
        assert one.mean == pytest.approx([mean, 1 - mean], rel=1e-9)
        assert one.variance == pytest.approx(density @ (p - mean) ** 2 / total, rel=1e-9)
        assert one.cdf(one.quantile(0.3)) == pytest.approx(0.3, abs=1e-9)
        assert one.covariance()[0, 1] == pytest.approx(-one.variance[0], rel=1e-9) and one.row_sum_error() < 1e-12
        assert every.mean[i] == pytest.approx(one.mean, rel=1e-9)
        assert every.quantile([0.1, 0.9])[:, i] == pytest.approx(one.quantile([0.1, 0.9]), rel=1e-9)


def test_nodes_without_weight_do_not_shorten_the_period():
    """A node far out, whose weight is zero, has the largest exponent; the bound on the tail is that of all others."""
    offset = np.tile(np.linspace(-1e-3, 4e-3, 65), (1, 2, 1))
    weight = np.exp(-3e3 * (offset + 1e-3))
    weight /= weight.sum(axis=2, keepdims=True)
    m = np.array([1.0, 3.0])
    sd = np.sqrt(((weight * offset**2).sum(axis=2) - (weight * offset).sum(axis=2) ** 2) @ m)
    beyond = np.full((1, 2, 1), 5.0)
    wider = np.concatenate([offset, beyond], axis=2), np.concatenate([weight, 0 * beyond], axis=2)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(period(*wider, m, sd), period(offset, weight, m, sd), rtol=1e-12)
