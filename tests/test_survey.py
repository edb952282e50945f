"""Weights, strata and clusters: the design effect."""

import numpy as np
import pytest

from ldpbayes import ArgumentError, DataError
from ldpbayes.collections.survey import design_effect


def test_simple_random_samples_have_no_design_effect():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(400, 3))
    found = design_effect(scores)
    assert found.value == pytest.approx(1.0) and found.kish == 1.0 and found.degrees == 399
    np.testing.assert_allclose(found.effects, 1.0)
    assert found.scaled(np.full(400, 7.0)).sum() == pytest.approx(400)


def test_effect_of_a_mean_is_that_of_the_textbook_formulas():
    """Linearized variances of a weighted mean: Σ_h n_h/(n_h−1) Σ_c (z_hc − z̄_h)², written out with loops."""
    rng = np.random.default_rng(2)
    n = 300
    y, w = rng.random(n), rng.uniform(0.5, 3, n)
    strata, clusters = rng.integers(3, size=n), rng.integers(12, size=n)
    mean = w @ y / w.sum()
    scores = y - mean
    expected = 0.0
    for h in range(3):
        totals = [float((w * scores)[(strata == h) & (clusters == c)].sum()) for c in set(clusters[strata == h].tolist())]
        z = np.array(totals) / w.sum()
        expected += (1 - z.size / 40) * z.size / (z.size - 1) * ((z - z.mean()) ** 2).sum()
    found = design_effect(scores, w, [f"s{h}" for h in strata], clusters, {f"s{h}": 40 for h in range(3)})
    random = n / (n - 1) * (w / w.sum()) @ scores**2 / n
    assert found.value == pytest.approx(expected / random)
    assert found.kish == pytest.approx(n * (w**2).sum() / w.sum() ** 2)
    # One row for several respondents who are alike, and any basis of the scores.
    wide = np.column_stack([scores, y**2 - w @ y**2 / w.sum()])
    counts = rng.integers(1, 4, n)
    grouped = design_effect(wide, w, strata, counts=counts)
    every = np.repeat(np.arange(n), counts)
    apart = design_effect(wide[every] @ np.array([[1.0, 2.0], [0.5, -1.0]]), w[every], strata[every])
    np.testing.assert_allclose(grouped.effects, apart.effects)


def test_rows_of_one_cluster_in_every_stratum_and_other_designs_without_variance_are_refused():
    y = np.arange(6.0)
    for arguments, error, match in (
        (({"strata": list("aaabbc")}), DataError, "'c' has a single respondent"),
        (({"strata": list("aaabbb"), "clusters": list("xyyzzz")}), DataError, "'b' has a single cluster"),
        (({"weights": [1, 1, 0, 1, 1, 1]}), DataError, "above 0, got 0"),
        (({"weights": [1, 1, -2, 1, 1, 1]}), DataError, "above 0, got -2"),
        (({"weights": [1, 1, np.nan, 1, 1, 1]}), DataError, "a missing one"),
        (({"strata": ["a", "a", None, "a", "a", "a"]}), DataError, "strata must not be missing"),
        (({"population": 5}), DataError, "must not be below the 6 sampled units"),
        (({"population": "many"}), ArgumentError, "positive number"),
        (({"strata": list("aaabbb"), "population": {"a": 9}}), ArgumentError, "that of 'b' is missing"),
        (({"weights": [1, 2]}), ArgumentError, "one entry per row"),
    ):
        with pytest.raises(error, match=match):
            design_effect(y, **arguments)
    assert design_effect(y, strata=list("aaaaab"), population={"a": 90, "b": 1}).value > 0  # b was asked whole


def test_the_noise_of_the_device_stays_when_everybody_was_asked():
    """A census through Warner's design: what is left is the variance of the device, not zero."""
    y = np.array([1.0, -1.0] * 50)
    census = design_effect(y, population=100, device=[[0.75]])
    assert census.variance == pytest.approx(100 * 0.75)
    assert design_effect(y, population=1e12, device=[[0.75]]).value == pytest.approx(1.0, abs=1e-6)
