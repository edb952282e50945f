"""Post-processing: where each map lands, and each against a second way of computing it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm
from tabulated import each_row

from ldpbayes.errors import ArgumentError
from ldpbayes.estimators import base, postprocess

estimates = st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=2, max_size=30).map(np.array)
TO_SIMPLEX = [postprocess.truncate_and_renormalize, postprocess.project_to_simplex, postprocess.norm_sub]
ALL = [*TO_SIMPLEX, postprocess.norm_cut]


@pytest.mark.parametrize("function", TO_SIMPLEX)
@given(estimate=estimates)
def test_lands_on_the_simplex(function, estimate):
    before = estimate.copy()
    point = function(estimate)
    assert (point >= 0).all() and point.sum() == pytest.approx(1, abs=1e-12)
    assert np.array_equal(estimate, before)


@given(estimate=estimates)
def test_projection_meets_its_optimality_conditions(estimate):
    point = base.project(estimate)
    shift = estimate - point
    # F̂ − q is the same number where q > 0, and no larger elsewhere.
    tau = shift[point > 0].mean()
    assert np.allclose(shift[point > 0], tau, atol=1e-12)
    assert (shift[point == 0] <= tau + 1e-12).all()


@given(estimate=estimates)
def test_norm_sub_is_the_projection(estimate):
    """By its definition: clip, spread what is missing or too much evenly over the positive entries, and repeat."""
    point = np.maximum(estimate - estimate.max(), -1.0)
    point += (1 - point.sum()) / point.size
    while (point < 0).any():
        positive = point > 0
        point[~positive] = 0.0
        point[positive] += (1 - point.sum()) / positive.sum()
    assert np.allclose(postprocess.norm_sub(estimate), point / point.sum(), atol=1e-12)


@given(estimate=estimates, seed=st.integers(0, 1000))
@settings(max_examples=50)
def test_weighted_projection_beats_every_other_point(estimate, seed):
    rng = np.random.default_rng(seed)
    weights = np.exp(rng.normal(0, 2, estimate.size))
    best = base.project(estimate, weights)
    others = rng.dirichlet(np.full(estimate.size, 0.3), size=50)
    assert (weights * (best - estimate) ** 2).sum() <= (weights * (others - estimate) ** 2).sum(axis=1).min() + 1e-9


@each_row("function", ALL)
@each_row("estimate", [[-0.5, -0.1, -0.4], [0.0, 0.0], [-1e300, -2.0], [-0.2, 0.0, -0.8]])
def test_nothing_positive_does_not_become_zeros(function, estimate):
    point = function(estimate)
    assert point.sum() == pytest.approx(1, abs=1e-12)
    assert point[np.argmax(estimate)] == point.max()


def test_truncation_divides_by_the_positive_sum():
    assert postprocess.truncate_and_renormalize([0.6, 0.9, -0.5]).tolist() == pytest.approx([0.4, 0.6, 0])


def test_norm_cut_keeps_the_largest_up_to_one():
    assert postprocess.norm_cut([0.5, 0.1, 0.4, 0.3, -0.3]).tolist() == [0.5, 0, 0.4, 0, 0]
    assert postprocess.norm_cut([0.5, 0.2, -0.1]).tolist() == [0.5, 0.2, 0]
    assert postprocess.norm_cut([1.4, 0.1, -0.5]).tolist() == [1, 0, 0]


def test_power_law_is_the_posterior_mean_of_its_prior():
    estimate, error, n = np.array([0.5, 0.02, -0.01, 0.3]), 0.02, 1000
    grid = np.linspace(1 / n, 1, 200_001)
    weights = norm.pdf(estimate[:, None], grid, error) * grid**-1.5
    mean = (weights * grid).sum(axis=1) / weights.sum(axis=1)
    found = postprocess.power_law(estimate, error, n, exponent=1.5, nodes=20_000)
    assert found == pytest.approx(postprocess.norm_sub(mean), abs=2e-5)


def test_power_law_fits_the_exponent_by_marginal_likelihood():
    rng = np.random.default_rng(5)
    truth = 1 / np.arange(1, 101) ** 1.2
    truth /= truth.sum()
    noisy = truth + rng.normal(0, 0.01, 100)
    grid = np.geomspace(1e-4, 1, 512)

    def surprise(s):
        prior = grid ** (1 - s) / (grid ** (1 - s)).sum()
        return -np.log(norm.pdf(noisy[:, None], grid, 0.01) @ prior).sum()

    best = minimize(lambda s: surprise(s[0]), [1.0], method="Nelder-Mead", options={"xatol": 1e-7}).x[0]
    found = postprocess.power_law(noisy, 0.01, 10_000)
    assert found == pytest.approx(postprocess.power_law(noisy, 0.01, 10_000, exponent=best), abs=1e-5)
    assert ((found - truth) ** 2).sum() < ((postprocess.norm_sub(noisy) - truth) ** 2).sum()


@each_row("bad", [[0.5, np.nan], [np.inf, 0.1], [0.5], [[0.5, 0.5]]])
@each_row("function", ALL)
def test_refuses_what_is_not_an_estimate(function, bad):
    with pytest.raises(ArgumentError, match="estimate must"):
        function(bad)


def test_power_law_refuses_impossible_errors():
    with pytest.raises(ArgumentError, match="standard_error must"):
        postprocess.power_law([0.5, 0.5], 0.0, 10)
    with pytest.raises(ArgumentError, match="n_reports must"):
        postprocess.power_law([0.5, 0.5], 0.1, 0)
