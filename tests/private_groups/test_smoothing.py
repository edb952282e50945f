"""Curves over bins: the algebra beside dense algebra, and draws beside a posterior that is summed over a grid."""

import numpy as np
import pytest
from scipy.special import logsumexp

from ldpbayes.private_groups import smoothing
from ldpbayes.private_groups.binning import default_bins, normal_score_bins
from ldpbayes.private_groups.recipe import weighed
from ldpbayes.private_groups.rounding import rounding_classes
from ldpbayes.private_groups.smoothing import WAYS, Curve, Exchange, Walk, approximated, draw_curves
from ldpbayes.protocols import GRR
from ldpbayes.sources.records import Entries


def entries(counts, k=2, epsilon=1.1):
    """Return the Entries of counts (m, k) of GRR's reports."""
    table = GRR(k, epsilon).channel()
    bins, rows = np.nonzero(counts)
    return Entries(bins, rows, np.asarray(counts)[bins, rows].astype(float), table / table.max(), len(counts))


def precision(prior, scale):
    """Return the precision of one contrast as a dense matrix."""
    return np.stack([prior.times(one[:, None], scale)[:, 0] for one in np.eye(prior.size)], axis=1)


@pytest.mark.parametrize("prior", [Walk(7, 0.4, 3), Walk(3, 1.0, 0), Exchange(5)], ids=["walk", "short", "exchange"])
@pytest.mark.parametrize("K", [1, 2])
def test_the_algebra_is_that_of_dense_matrices(prior, K):
    rng, scale, m = np.random.default_rng(1), 0.7, prior.size
    dense = precision(prior, scale)
    np.testing.assert_allclose(dense, dense.T, atol=1e-9)
    assert prior.log_det(scale) == pytest.approx(np.linalg.slogdet(dense)[1])
    g = rng.normal(size=(4, m, K))
    np.testing.assert_allclose(prior.quadratic(g, scale), np.einsum("smc,mn,snc->s", g, dense, g), rtol=1e-9)
    root = rng.normal(size=(m, K, K))
    information = np.einsum("mcd,med->mce", root, root)
    whole = np.kron(dense, np.eye(K))
    for b in range(m):
        own = slice(b * K, (b + 1) * K)
        whole[own, own] += information[b]
    factor = prior.factor(information, scale)
    assert 2 * factor.half_log_det == pytest.approx(np.linalg.slogdet(whole)[1])
    v = rng.normal(size=(m, K))
    np.testing.assert_allclose(factor.solve(v).ravel(), np.linalg.solve(whole, v.ravel()), rtol=1e-7, atol=1e-10)
    # g = spread(z) has covariance inverse to the matrix, and pull is its transpose
    spread = factor.spread(np.eye(m * K)).reshape(m * K, m * K).T
    np.testing.assert_allclose(spread @ spread.T, np.linalg.inv(whole), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(factor.pull(g), g.reshape(4, -1) @ spread, rtol=1e-7, atol=1e-9)


def test_the_walk_is_free_of_level_and_slope_only():
    walk = Walk(9, 0.5, 4)
    line = np.stack([np.ones(9), np.arange(9.0) - 4], axis=1)[:, :, None].transpose(1, 0, 2)
    for scale in (0.01, 10.0):
        assert walk.quadratic(line, scale)[0] == pytest.approx(1 / smoothing.LEVEL**2)
        assert walk.quadratic(line, scale)[1] == pytest.approx(1 / (smoothing.SLOPE * 0.5) ** 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("k", [2, 3])
def test_slopes_are_those_of_differences(k):
    rng = np.random.default_rng(2)
    counts = rng.poisson(4, (5, k))
    curve = Curve(entries(counts, k), Walk(5, 0.5, 2))
    g = rng.normal(size=(5, k - 1))
    (gradient,), observed = curve.log_likelihood_and_gradient(g[None])[1], curve.information(g[None])
    _, slope = curve.log_density_and_gradient(g[None], 1e8)  # next to no prior but level and slope
    step, size = 1e-5, g.size
    moved = np.repeat(g[None], 2 * size, axis=0).reshape(2 * size, -1)
    moved[np.arange(size), np.arange(size)] += step
    moved[size + np.arange(size), np.arange(size)] -= step
    moved = moved.reshape(-1, *g.shape)
    chance = np.log(curve.shares(moved) @ curve.entries.table.T)
    value = np.einsum("smj,mj->s", chance, counts)
    np.testing.assert_allclose(gradient.ravel(), (value[:size] - value[size:]) / (2 * step), rtol=1e-5, atol=1e-6)
    whole = curve.log_density_and_gradient(moved, 1e8)[0]
    np.testing.assert_allclose(slope.ravel(), (whole[:size] - whole[size:]) / (2 * step), rtol=1e-5, atol=1e-6)
    for j in range(size):
        up, down = (curve.log_likelihood_and_gradient(one[None])[1].ravel() for one in (moved[j], moved[size + j]))
        own = np.zeros((5, k - 1, 5, k - 1))
        own[np.arange(5), :, np.arange(5), :] = observed
        np.testing.assert_allclose(-own.reshape(size, size)[j], (up - down) / (2 * step), rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("counts", [[[30, 6], [25, 15], [9, 21]], [[60, 14], [25, 25], [12, 63]]], ids=["mild", "empty"])
@pytest.mark.parametrize("sampling", ["weighted", "annealed"])
def test_draws_agree_with_the_posterior_summed_over_a_grid(sampling, counts, monkeypatch):
    """Three bins, two groups, three scales: the posterior of g is summed over 61 × 61 × 61 points for each.

    In the second case a group is nearly empty at either end, and the reports bound its logit on one side.
    """
    monkeypatch.setattr(Walk, "scales", np.array([0.3, 1.0, 3.0]))
    counts = np.array(counts)
    curve = Curve(entries(counts), Walk(3, 0.8, 1))
    axis = np.linspace(-9.0, 9.0, 61)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3, 1)
    shares = curve.shares(grid)[:, :, 1]
    log_mass = np.stack([curve.log_density_and_gradient(grid, s)[0] + curve.prior.log_prior(s) for s in Walk.scales])
    mass = np.exp(log_mass - logsumexp(log_mass))
    pooled = mass.sum(axis=0)
    mean = pooled @ shares
    sd = np.sqrt(pooled @ (shares - mean) ** 2)
    found = draw_curves(approximated([curve]), 4000, np.random.default_rng(5), WAYS[sampling == "annealed" :][:1])
    assert found.drawn.way == sampling
    worth = min(found.drawn.effective, 4000)
    own = found.shares[0][:, :, 1]
    assert (np.abs(own.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(worth)).all()
    np.testing.assert_allclose(own.std(axis=0), sd, rtol=4.5 / np.sqrt(worth))
    expected = mass.sum(axis=1)
    for scale, share in zip(Walk.scales, expected, strict=True):
        assert abs((found.scale == scale).mean() - share) < 4.5 * np.sqrt(share * (1 - share) / worth) + 0.005


def test_curves_that_share_a_scale_agree_with_the_grid(monkeypatch):
    """Two curves: the probability of each scale is that of the product of their evidences."""
    monkeypatch.setattr(Walk, "scales", np.array([0.2, 2.0]))
    made = [
        Curve(entries(np.array(c)), Walk(3, 0.8, 1)) for c in ([[40, 2], [20, 20], [40, 3]], [[9, 30], [20, 9], [4, 33]])
    ]
    axis = np.linspace(-6.5, 6.5, 45)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3, 1)
    evidence = np.array(
        [
            sum(logsumexp(c.log_density_and_gradient(grid, s)[0]) for c in made) + made[0].prior.log_prior(s)
            for s in (0.2, 2.0)
        ]
    )
    share = np.exp(evidence - logsumexp(evidence))
    for way in WAYS[:2]:
        found = draw_curves(approximated(made), 3000, np.random.default_rng(6), [way])
        assert (
            abs((found.scale == 2.0).mean() - share[1]) < 4.5 * np.sqrt(share[1] * share[0] / found.drawn.effective) + 0.01
        )


def test_bins_keep_ties_together_and_have_one_width_in_scores():
    value = np.random.default_rng(7).lognormal(size=5000).round(1)
    bins = normal_score_bins(value, np.ones(5000), 60)
    for one in np.unique(value):
        assert len(np.unique(bins.index[value == one])) == 1
    order = np.argsort(value, kind="stable")
    assert (np.diff(bins.index[order]) >= 0).all() and bins.index.min() == 0 and bins.index.max() == bins.size - 1
    assert [default_bins(n) for n in (1e4, 1e5, 1e6)] == [100, 140, 200]


def test_gaps_between_modes_have_room_and_tails_have_none():
    """A gap moves the values behind it by at least one score; tails, spikes and rounding have the bins of a single mode."""
    rng, one, n = np.random.default_rng(4), np.ones(3000), 3000
    apart = np.where(rng.random(n) < 0.4, 2.5, 0.0) + 0.35 * rng.standard_normal(n)
    for value in (apart, np.exp(apart)):
        bins = normal_score_bins(value, one, 80)
        assert (bins.size - 80) * bins.width > 1.0
        split = np.exp(1.25) if value.min() > 0 else 1.25
        assert (bins.mode == (value > split)).mean() > 0.995  # the widest spacing parts the modes
        assert bins.size == bins.index.max() + 1 and (np.diff(bins.index[np.argsort(value)]) >= 0).all()
    tails, plain = rng.standard_t(2, n), rng.lognormal(size=n)
    for value in (tails, rng.pareto(1.5, n), plain, np.where(rng.random(n) < 0.15, 2.0, plain), (10 * plain).round()):
        bins = normal_score_bins(value, one, 80)
        assert bins.size == 80 and not bins.mode.any()


def test_the_recipe_is_the_weighted_sum_of_its_records():
    value = np.array([3.0, 1.0, 2.0, 2.0])
    weights = np.array([[1.5, -0.5], [1.5, -0.5], [-0.5, 1.5], [1.5, -0.5]])
    shares, means, quantiles = weighed(value, weights, (0.5,))
    assert shares.tolist() == [1.0, 0.0] and means[0] == pytest.approx((4.5 + 1.5 - 1 + 3) / 4)
    assert quantiles[0, 0] == 2.0 and np.isnan(quantiles[0, 1])


def test_classes_of_rounding():
    rng = np.random.default_rng(8)
    z = np.maximum(1, np.round(rng.lognormal(4, 0.6, 20_000)))
    assert rounding_classes(rng.lognormal(size=1000)) == [] and rounding_classes(z) == []
    habit = rng.random(20_000)
    every = np.where(habit < 0.4, 7 * np.maximum(1, np.round(z / 7)), z)
    (found,) = rounding_classes(every)
    assert found.names == ("multiples of 7", "other values") and ((found.index == 0) == (every % 7 == 0)).all()


@pytest.mark.parametrize("prior", [Walk(3, 0.8, 1), Exchange(3)], ids=["walk", "exchange"])
def test_the_evidence_is_that_of_a_grid(prior, monkeypatch):
    """Three bins, two groups: Laplace's sum over scales beside the sum over 61 × 61 × 61 points for each."""
    monkeypatch.setattr(type(prior), "scales", np.array([0.3, 1.0]))
    curve = Curve(entries(np.array([[300, 175], [250, 250], [150, 325]])), prior)
    axis = np.linspace(-7.0, 7.0, 61)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3, 1)
    log_mass = np.concatenate([curve.log_density_and_gradient(grid, s)[0] + prior.log_prior(s) for s in prior.scales])
    exact = logsumexp(log_mass) + 3 * np.log(axis[1] - axis[0]) - 1.5 * np.log(2 * np.pi)
    assert approximated([curve]).log_evidence == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("k", [2, 3])
def test_classes_have_the_larger_evidence_where_their_groups_differ(k):
    rng, bins, n = np.random.default_rng(9), 20, 6000
    where, own = rng.integers(bins, size=n), rng.random(n) < 0.4
    rising = np.stack([np.ones(bins), *[np.exp(0.05 * c * np.arange(bins)) for c in range(1, k)]], axis=1)
    for factor, differ in ((1.0, False), (4.0, True)):
        odds = rising[where] * np.where(own[:, None] & (np.arange(k) == 1), factor, 1.0)
        x = (rng.random(n)[:, None] > np.cumsum(odds, axis=1) / odds.sum(axis=1, keepdims=True)).sum(axis=1)
        report = GRR(k, 1.1).privatize(x, rng)
        counts = [np.bincount(where[mine] * k + report[mine], minlength=bins * k) for mine in (own, ~own)]
        one, each = (
            [Curve(entries(c.reshape(bins, k), k), Walk(bins, 0.2, 10)) for c in held] for held in ([sum(counts)], counts)
        )
        assert (approximated(each).log_evidence > approximated(one).log_evidence) == differ
