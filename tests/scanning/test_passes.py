"""Grouped passes over reports, against products of the reports' rows written out."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldpbayes import hashing
from ldpbayes.likelihoods import DenseRows, Summary
from ldpbayes.scanning import passes
from ldpbayes.scanning.passes import HashedSupports, PackedSupports

NAMES = ("value", "gradient", "square", "cross")


@st.composite
def batches(draw):
    """(members, group, number of groups, a, β, pilots, spread or None); some groups stay empty."""
    a = draw(st.sampled_from([2, 3, 7, 8, 9, 16, 21, 64, 70]))
    m, n_groups = draw(st.sampled_from([0, 1, 2, 9, 60, 300])), draw(st.sampled_from([1, 2, 5]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    group = rng.integers(n_groups, size=m) // 2 * 2 % n_groups
    pilots = rng.dirichlet(np.ones(a), size=n_groups)
    spread = draw(st.sampled_from([None, 0.1 * pilots**2, 0 * pilots]))
    beta = float(np.expm1(draw(st.sampled_from([0.01, 1.0, 4.0, 10.0]))))
    members = rng.random((m, a)) < draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    return members, group, n_groups, a, beta, pilots, spread


def check_sums(found, members, group, pilots, beta, spread):
    for g, pilot in enumerate(pilots):
        here = group == g
        if not here.any():
            assert not any(getattr(found, name)[g].any() for name in NAMES)
            continue
        rows = DenseRows(1 + beta * members[here], np.ones(here.sum()))
        expected = Summary.of(rows, pilot, None if spread is None else spread[g])
        for name in NAMES:
            scale = max(here.sum(), np.abs(getattr(expected, name)).max())
            np.testing.assert_allclose(getattr(found, name)[g], getattr(expected, name), rtol=1e-10, atol=1e-10 * scale)


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def versions(request, monkeypatch):
    """Both versions of every pass."""
    monkeypatch.setattr(passes, "SMALL", 2**40 if request.param == "numpy" else -1)
    monkeypatch.setattr(hashing, "SMALL", 2**40 if request.param == "numpy" else -1)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches())
def test_passes_are_the_summaries_of_each_group(batch):
    members, group, n_groups, a, beta, pilots, spread = batch
    supports = PackedSupports(np.packbits(members, axis=1).reshape(len(members), -(-a // 8)), a)
    found = passes.support_counts(supports, group, n_groups)
    expected = np.zeros((n_groups, a), dtype=np.int64)
    np.add.at(expected, group, members)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64
    check_sums(passes.expansions(supports, group, pilots, beta, spread), members, group, pilots, beta, spread)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches(), st.sampled_from([2, 3, 17, 1000]), st.sampled_from(hashing.FAMILIES))
def test_hashed_passes_are_those_of_their_supports(batch, n_buckets, family):
    _, group, n_groups, a, beta, pilots, spread = batch
    rng = np.random.default_rng(len(group))
    seeds, values = rng.integers(hashing.MAX_SEED, size=len(group)), rng.integers(n_buckets, size=len(group))
    packed = hashing.supports(family, seeds, values, a, n_buckets)
    members = np.unpackbits(packed, axis=1, count=a)
    supports = HashedSupports(seeds, values, a, n_buckets, family)
    expected = np.zeros((n_groups, a), dtype=np.int64)
    np.add.at(expected, group, members)
    np.testing.assert_array_equal(passes.support_counts(supports, group, n_groups), expected)
    check_sums(passes.expansions(supports, group, pilots, beta, spread), members, group, pilots, beta, spread)


@pytest.mark.parametrize("a", [5, 16, 130])
def test_passes_add_up_over_batches(a, monkeypatch):
    """Also where blocks end within a batch, and where carries of the popcount overflow a byte."""
    monkeypatch.setattr(passes, "MOST", 1024 * a)
    rng = np.random.default_rng(5)
    members, group = rng.random((9000, a)) < np.linspace(0.9, 0.1, a), rng.integers(3, size=9000) // 2 * 2
    packed, pilots = np.packbits(members, axis=1), rng.dirichlet(np.ones(a), size=3)
    supports = PackedSupports(packed, a)
    found = passes.support_counts(supports, group, 3)
    np.testing.assert_array_equal(found, [members[group == g].sum(axis=0) for g in range(3)])
    np.testing.assert_array_equal(passes.support_counts(supports, 0 * group, 1)[0], members.sum(axis=0))
    whole = passes.expansions(supports, group, pilots, 1.7)
    check_sums(whole, members, group, pilots, 1.7, None)
    halves = slice(0, 4000), slice(4000, None)
    parts = [passes.expansions(PackedSupports(packed[part], a), group[part], pilots, 1.7) for part in halves]
    for name in NAMES:
        np.testing.assert_allclose(sum(getattr(part, name) for part in parts), getattr(whole, name), rtol=1e-12)
