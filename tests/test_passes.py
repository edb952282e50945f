"""Grouped passes over reports, against the rows' own summaries."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldpbayes import ArgumentError, hashing
from ldpbayes.likelihoods import Summary, SupportRows, passes

NAMES = ("value", "gradient", "square", "cross")


@st.composite
def batches(draw):
    """(reports, group, number of groups, a, β, pilots, spread or None, counts or None); some groups stay empty."""
    a = draw(st.sampled_from([2, 3, 7, 8, 9, 16, 21, 64, 70]))
    m, n_groups = draw(st.sampled_from([0, 1, 2, 9, 60, 300])), draw(st.sampled_from([1, 2, 5]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    group = rng.integers(n_groups, size=m) // 2 * 2 % n_groups
    pilots = rng.dirichlet(np.ones(a), size=n_groups)
    spread = draw(st.sampled_from([None, 0.1 * pilots**2, 0.01 * pilots[0] ** 2, 0 * pilots]))
    counts = draw(st.sampled_from([None, rng.integers(1, 9, size=m)]))
    beta = float(np.expm1(draw(st.sampled_from([0.01, 1.0, 4.0, 10.0]))))
    members = rng.random((m, a)) < draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    return members, group, n_groups, a, beta, pilots, spread, counts


def check_sums(found, supports, group, pilots, beta, spread, counts):
    for g, pilot in enumerate(pilots):
        here = group == g
        weight = np.ones(here.sum()) if counts is None else counts[here]
        if not here.any():
            assert not any(getattr(found, name)[g].any() for name in NAMES)
            continue
        spreads = spread if spread is None or spread.ndim == 1 else spread[g]
        expected = Summary.of(SupportRows(supports[here], beta, weight, pilot.size), pilot, spreads)
        for name in NAMES:
            scale = max(weight.sum(), np.abs(getattr(expected, name)).max())
            np.testing.assert_allclose(getattr(found, name)[g], getattr(expected, name), rtol=1e-10, atol=1e-10 * scale)


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def versions(request, monkeypatch):
    """Both versions of every pass."""
    monkeypatch.setattr(passes, "SMALL", 2**40 if request.param == "numpy" else -1)
    monkeypatch.setattr(hashing, "SMALL", 2**40 if request.param == "numpy" else -1)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches())
def test_passes_are_the_summaries_of_each_group(batch):
    members, group, n_groups, a, beta, pilots, spread, counts = batch
    packed = np.packbits(members, axis=1).reshape(len(members), -(-a // 8))
    found = passes.support_counts(packed, group, n_groups, a, counts=counts)
    weighted = members * (np.ones(len(group), dtype=int) if counts is None else counts)[:, None]
    expected = np.zeros((n_groups, a), dtype=np.int64)
    np.add.at(expected, group, weighted)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64
    check_sums(
        passes.likelihood_pass(packed, group, pilots, beta, spread, counts=counts),
        packed,
        group,
        pilots,
        beta,
        spread,
        counts,
    )


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches(), st.sampled_from([2, 3, 17, 1000]), st.sampled_from(hashing.FAMILIES))
def test_hashed_passes_are_those_of_their_supports(batch, n_buckets, family):
    _, group, n_groups, a, beta, pilots, spread, counts = batch
    rng = np.random.default_rng(len(group))
    seeds, values = rng.integers(hashing.MAX_SEED, size=len(group)), rng.integers(n_buckets, size=len(group))
    packed = hashing.supports(family, seeds, values, a, n_buckets)
    found = passes.hashed_support_counts(seeds, values, group, n_groups, a, n_buckets, family, counts=counts)
    np.testing.assert_array_equal(found, passes.support_counts(packed, group, n_groups, a, counts=counts))
    check_sums(
        passes.hashed_likelihood_pass(seeds, values, group, pilots, beta, n_buckets, spread, family, counts=counts),
        packed,
        group,
        pilots,
        beta,
        spread,
        counts,
    )


@pytest.mark.parametrize("a", [5, 16, 130])
def test_passes_add_up_over_batches_and_threads(a, monkeypatch):
    """Also where blocks end within a batch, and where carries of the popcount overflow a byte."""
    monkeypatch.setattr(passes, "_CHUNK", 1024 * a)
    monkeypatch.setattr(passes, "_BLOCK", 1024 * a)
    rng = np.random.default_rng(5)
    members, group = rng.random((9000, a)) < np.linspace(0.9, 0.1, a), rng.integers(3, size=9000) // 2 * 2
    packed, pilots = np.packbits(members, axis=1), rng.dirichlet(np.ones(a), size=3)
    found = passes.support_counts(packed, group, 3, a, jobs=2)
    np.testing.assert_array_equal(found, [members[group == g].sum(axis=0) for g in range(3)])
    np.testing.assert_array_equal(passes.support_counts(packed, 0 * group, 1, a)[0], members.sum(axis=0))
    whole = passes.likelihood_pass(packed, group, pilots, 1.7)
    check_sums(whole, packed, group, pilots, 1.7, None, None)
    for other in (
        passes.likelihood_pass(packed, group, pilots, 1.7, jobs=3),
        passes.likelihood_pass(packed, group, pilots, 1.7, curvature=False),
    ):
        np.testing.assert_allclose(other.value, whole.value, rtol=1e-12)
        np.testing.assert_allclose(other.gradient, whole.gradient, rtol=1e-12)
    halves = slice(0, 4000), slice(4000, None)
    parts = [passes.likelihood_pass(packed[part], group[part], pilots, 1.7) for part in halves]
    for name in NAMES:
        np.testing.assert_allclose(sum(getattr(part, name) for part in parts), getattr(whole, name), rtol=1e-12)


def test_what_does_not_fit_is_refused():
    packed, group, pilots = np.zeros((4, 2), dtype=np.uint8), np.zeros(4, dtype=int), np.full((1, 16), 1 / 16)
    for call in (
        lambda: passes.support_counts(packed, group, 1, 17),
        lambda: passes.support_counts(packed.astype(int), group, 1, 16),
        lambda: passes.support_counts(packed, group[:3], 1, 16),
        lambda: passes.support_counts(packed, group + 1, 1, 16),
        lambda: passes.support_counts(packed, group - 1, 1, 16),
        lambda: passes.support_counts(packed, group, 1, 16, counts=np.ones(3)),
        lambda: passes.likelihood_pass(packed, group, pilots[0], 1.0),
        lambda: passes.likelihood_pass(packed, group, pilots, 1.0, spread=np.ones(15)),
        lambda: passes.hashed_support_counts(group, group[:2], group, 1, 16, 2),
    ):
        with pytest.raises(ArgumentError):
            call()
