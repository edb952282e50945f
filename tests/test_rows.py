"""Likelihood rows: fast products against the dense twin, draws against their law, bounds on memory and imports."""

import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from products import assert_same_products, twin
from scipy.linalg import hadamard
from tabulated import each_row

from ldpbayes.errors import InfeasibleError
from ldpbayes.likelihoods import (
    AbstractLikelihood,
    AbstractSampler,
    CyclicRows,
    DenseRows,
    ExtendedRows,
    HadamardRows,
    IdentityRows,
    LevelRows,
    Rows,
    StackedRows,
    SupportRows,
    require_sampler,
    two_level,
    walsh_hadamard,
)
from ldpbayes.likelihoods.extended import RepeatedRows
from ldpbayes.likelihoods.tensor import AdditiveRows, KroneckerRows
from ldpbayes.protocols.subset import SubsetSelection


def support_rows(n_rows, n_categories, beta=1.7, seed=0, top=5):
    rng = np.random.default_rng(seed)
    members = rng.random((n_rows, n_categories)) < rng.random()
    counts = rng.integers(1, top + 1, size=n_rows)
    return SupportRows(np.packbits(members, axis=1), beta, counts, n_categories, rng.normal(size=n_rows)), members


@pytest.mark.parametrize("small", [0, two_level.SMALL], ids=["kernels", "unpacked"])
@settings(max_examples=40, deadline=None)
@given(n_rows=st.integers(1, 600), n_categories=st.integers(2, 70), seed=st.integers(0, 99), beta=st.floats(0.01, 1e6))
def test_support_rows_equal_the_dense_twin(small, n_rows, n_categories, seed, beta):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_level, "SMALL", small)
        fast, members = support_rows(n_rows, n_categories, beta, seed)
        np.testing.assert_array_equal(fast.dense(), 1 + beta * members)
        np.testing.assert_allclose(fast.support_counts(), members.T @ fast.counts)
        assert_same_products(fast, seed)


@settings(max_examples=30, deadline=None)
@given(n_categories=st.integers(2, 40), seed=st.integers(0, 99))
def test_hadamard_rows_equal_the_dense_twin(n_categories, seed):
    rng = np.random.default_rng(seed)
    order = 2 ** n_categories.bit_length()
    index = rng.integers(order, size=30)
    fast = HadamardRows(index, 2.5, rng.integers(1, 9, size=30), n_categories, -1.0)
    expected = 1 + 2.5 * (hadamard(order)[1 : n_categories + 1, index].T > 0)
    np.testing.assert_array_equal(fast.dense(), expected)
    assert_same_products(fast, seed)


@settings(max_examples=15, deadline=None)
@given(n_categories=st.integers(2, 40), extra=st.integers(0, 9), seed=st.integers(0, 99))
def test_cyclic_rows_equal_the_dense_twin(n_categories, extra, seed):
    rng, length = np.random.default_rng(seed), n_categories + extra
    chosen = rng.choice(length, rng.integers(1, length + 1), replace=False)
    index, counts = rng.integers(length, size=30), rng.integers(1, 9, size=30)
    fast = CyclicRows(index, chosen, length, 2.5, counts, n_categories, -1.0)
    members = np.isin((index[:, None] + np.arange(n_categories)) % length, chosen)
    np.testing.assert_array_equal(fast.dense(), 1 + 2.5 * members)
    assert fast.support_counts().tolist() == (counts @ members).tolist()
    assert_same_products(fast, seed)


@pytest.mark.parametrize("sparse", [0, 10**9], ids=["lists", "byte tables"])
@settings(max_examples=25, deadline=None)
@given(n_rows=st.integers(1, 300), n_categories=st.integers(2, 70), seed=st.integers(0, 99))
def test_listed_members_and_byte_tables_equal_the_dense_twin(sparse, n_rows, n_categories, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_level, "SMALL", 0)
        patch.setattr(two_level, "SPARSE", sparse)
        fast, _ = support_rows(n_rows, n_categories, 2.0, seed)
        assert (fast.listed is None) == (sparse > 0 and fast.bits.any())
        assert_same_products(fast, seed)


@each_row("columns", [0, 1, two_level.FEW_COLUMNS, two_level.FEW_COLUMNS + 1])
@each_row("density", [0.4, 0.01])
def test_sums_of_any_number_of_columns_equal_the_dense_twin(density, columns):
    """Few columns go through byte tables or lists one by one, many through the unpacked supports."""
    rng = np.random.default_rng(columns)
    members = rng.random((300, 700)) < density
    fast = SupportRows(np.packbits(members, axis=1), 1.3, np.ones(300), 700)
    assert not fast.is_small and (fast.listed is not None) == (density < 0.1)
    for order in "CF":
        p, r = (np.array(rng.random((size, columns)), order=order) for size in (700, 300))
        np.testing.assert_allclose(fast.support_sums(p), members @ p, rtol=1e-12)
        np.testing.assert_allclose(fast.support_totals(r), members.T @ r, rtol=1e-12)


def test_walsh_hadamard_is_the_sylvester_matrix():
    x = np.random.default_rng(0).normal(size=(64, 3))
    np.testing.assert_allclose(walsh_hadamard(x), hadamard(64) @ x, atol=1e-12)
    np.testing.assert_allclose(walsh_hadamard(walsh_hadamard(x)), 64 * x, atol=1e-12)
    np.testing.assert_array_equal(walsh_hadamard([3.0]), [3.0])


def one_off(index, base, slope, a):
    """Return rows that are the same for all categories but one each."""
    return np.array(base)[:, None] + np.array(slope)[:, None] * np.eye(a)[index]


def test_identity_separable_and_stacked_rows_equal_the_dense_twin():
    rng = np.random.default_rng(4)
    identity = IdentityRows([2, 0, 5], 3.0, [4, 1, 9], 6, -0.3)
    separable = DenseRows(one_off([1, 1, 4], [0.3, 0.7, 0.0], [0.5, -0.5, 2.0], 6), [7, 2, 5])
    supports, _ = support_rows(40, 6)
    for fast in (identity, separable, StackedRows([identity, supports, twin(supports)])):
        assert_same_products(fast)
    for fast in (identity, separable):
        form, p = fast.separable(), rng.dirichlet(np.ones(6))
        np.testing.assert_allclose(form.base + form.slope * p[form.index], fast.matvec(p), rtol=1e-14)
    assert supports.separable() is None


def test_weighted_rows_have_no_users_to_allocate():
    with pytest.raises(InfeasibleError, match="not users"):
        require_sampler(DenseRows([[0.8, 0.3], [0.7, 0.2]], [7, 2]).weighing())


@pytest.mark.parametrize("top", [1, 4, 400], ids=["single", "few", "crowded"])
@pytest.mark.parametrize("beta", [0.2, 3.0, 1e7])
@pytest.mark.parametrize("sparse", [0, 10**9], ids=["lists", "rejection"])
def test_signal_users_follow_their_law(top, beta, sparse, monkeypatch):
    # With β = 10^7 and rare supports, rejection runs out of patience and the scan takes over.
    monkeypatch.setattr(two_level, "SMALL", 0)
    monkeypatch.setattr(two_level, "SPARSE", sparse)
    rng = np.random.default_rng(9)
    members = rng.random((300, 40)) < 0.1
    members[0], members[1] = False, True
    fast = SupportRows(np.packbits(members, axis=1), beta, rng.integers(1, top + 1, size=300), 40)
    p = rng.dirichlet(np.full(40, 0.2))
    share = beta * members * p
    share /= 1 + share.sum(axis=1, keepdims=True)
    mean, sd = fast.counts @ share, np.sqrt(fast.counts @ (share * (1 - share)))
    draws = fast.sampler().signals(np.tile(p, (300, 1)), rng)
    assert (np.abs(draws.mean(axis=0) - mean) <= 4.5 * sd / math.sqrt(300) + 0.01).all()
    common = mean > 5
    np.testing.assert_allclose(draws.std(axis=0)[common], sd[common], rtol=0.25, atol=1e-6)
    assert (fast.sampler().allocate_each(p[None], rng).sum(), draws.shape) == (fast.n_reports, (300, 40))


def test_signal_of_dense_rows_subtracts_the_least_entry():
    rng = np.random.default_rng(2)
    matrix = np.array([[0.5, 0.5, 0.5], [0.2, 0.7, 0.3]])
    counts, p = np.array([1000, 2000]), np.array([0.5, 0.2, 0.3])
    draws = DenseRows(matrix, counts).sampler().signals(np.tile(p, (200, 1)), rng)
    mean = 2000 * np.array([0, 0.5, 0.1]) * p / (matrix[1] @ p)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=4 * math.sqrt(500 / 200))


def test_alias_table_gives_back_the_distribution():
    from ldpbayes.likelihoods.kernels import alias_table

    for p in (np.array([0.2, 0.0, 0.5, 0.3]), np.ones(7) / 7, np.random.default_rng(0).dirichlet(np.full(500, 0.1))):
        accept, alias = alias_table(p)
        implied = accept.copy()
        np.add.at(implied, alias, 1 - accept)
        np.testing.assert_allclose(implied / p.size, p, rtol=0, atol=1e-15 * p.size)
        assert (accept >= -1e-12).all()


def test_read_only_tables_serve_the_kernels(monkeypatch):
    monkeypatch.setattr(two_level, "SMALL", 0)
    fast, members = support_rows(300, 33)
    fast.bits.setflags(write=False)
    p = np.random.default_rng(0).dirichlet(np.ones(33))
    p.setflags(write=False)
    np.testing.assert_allclose(fast.matvec(p), 1 + 1.7 * members @ p, rtol=1e-13)
    np.testing.assert_allclose(fast.rmatvec(fast.matvec(p)), twin(fast).rmatvec(fast.matvec(p)), rtol=1e-12)
    assert fast.sampler().signals(p[None], np.random.default_rng(1)).shape == (1, 33)


def test_two_hundred_thousand_reports_stay_packed_in_memory():
    n, a = 200_000, 1024
    bits = np.random.default_rng(0).integers(0, 256, (n, a // 8), dtype=np.uint8)
    fast = SupportRows(bits, 1.7, np.ones(n), a)
    p = np.full(a, 1 / a)
    fast.value_and_gradient(p)  # load and compile first
    tracemalloc.start()
    fast = SupportRows(bits, 1.7, np.ones(n), a)
    _, gradient = fast.value_and_gradient(p)
    fast.support_sums(p)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The issue allows 300 MB for a million reports; here the bits (26 MB) are shared, and a few vectors come on top.
    assert peak < 8e6
    assert gradient @ p == pytest.approx(n, rel=1e-12)


def test_small_rows_and_grr_load_no_compiler():
    code = (
        "import sys, numpy as np\n"
        "from ldpbayes.likelihoods import IdentityRows, SupportRows\n"
        "p = np.full(16, 1 / 16)\n"
        "IdentityRows([0, 1], 1.0, [2, 3], 16).value_and_gradient(p)\n"
        "SupportRows(np.ones((9, 2), np.uint8), 1.0, np.ones(9), 16).sampler().signals(p[None], np.random.default_rng(0))\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: Rows over a table of two attributes.
TENSORS = (KroneckerRows, AdditiveRows)


def kinds():
    """Return rows of every kind over six categories."""
    rng = np.random.default_rng(5)
    supports, _ = support_rows(40, 6)
    identity = IdentityRows([2, 0, 5], 3.0, [4, 1, 9], 6, -0.3)
    levels = LevelRows(rng.integers(0, 3, (20, 6)), [0.4, 1.0, 2.5], rng.integers(1, 5, 20), [0.0, 1.0, 2.0])
    return [
        identity,
        supports,
        levels,
        DenseRows(rng.random((7, 6)), rng.integers(1, 9, 7)),
        RepeatedRows(DenseRows(rng.random((7, 4)), rng.integers(1, 9, 7)), np.array([0, 1, 2, 3, 1, 3])),
        HadamardRows(rng.integers(8, size=9), 2.5, rng.integers(1, 9, size=9), 6, -1.0),
        CyclicRows(rng.integers(7, size=9), [1, 2, 4], 7, 2.5, rng.integers(1, 9, size=9), 6, -1.0),
        DenseRows(one_off([1, 1, 4], [0.3, 0.7, 0.1], [0.5, -0.5, 2.0], 6), [7, 2, 5]),
        StackedRows([identity, supports]),
        ExtendedRows(IdentityRows([2, 0, 4], 3.0, [4, 1, 9], 5, -0.3), np.log([[0.2], [0.7], [0.1]])),
        DenseRows(rng.random((7, 6)), rng.uniform(0.5, 9, 7)).weighing(),
        *(
            kind([rng.random((3, 2)), rng.random((4, 3))], rng.integers(3, size=(8, 2)), rng.integers(1, 9, 8))
            for kind in TENSORS
        ),
    ]


@pytest.mark.parametrize("fast", kinds(), ids=lambda fast: type(fast).__name__)
def test_every_kind_is_a_likelihood(fast):
    p = np.random.default_rng(1).dirichlet(np.ones(6))
    step = 1e-5
    around = p + step * np.concatenate([np.zeros((1, 6)), np.eye(6), -np.eye(6)])
    values = np.array([fast.value_and_gradient(q)[0] for q in around])
    gradient = (values[1:7] - values[7:]) / (2 * step)
    np.testing.assert_allclose(fast.value_and_gradient(p)[1], gradient, rtol=1e-6)
    second = (values[1:7] + values[7:] - 2 * values[0]) / step**2
    np.testing.assert_allclose(fast.curvature(p), -second, rtol=1e-3)
    np.testing.assert_allclose(fast.log_likelihood(around.T)[0], values[0] + fast.log_constant)
    np.testing.assert_allclose(fast.matvec(p, 2), fast.dense() ** 2 @ p)
    assert fast.support_counts().shape == (6,)
    assert fast.rows() is fast
    half, (value, slope) = fast.weighing(0.5), fast.value_and_gradient(p)
    assert half.sampler() is None and type(half) is type(fast) and half.n_reports == fast.n_reports / 2
    np.testing.assert_allclose(half.value_and_gradient(p)[1], slope / 2)
    np.testing.assert_allclose(half.log_likelihood(p), fast.log_likelihood(p) / 2)
    np.testing.assert_allclose(half.support_counts(), fast.support_counts() / 2)
    assert (half.separable() is None) == (fast.separable() is None) and half.value_and_gradient(p)[0] == pytest.approx(
        value / 2
    )
    for one, other in zip(half.expansion(p), fast.expansion(p), strict=True):
        np.testing.assert_allclose(one, other / 2)


def test_kinds_are_complete_and_override_nothing_that_is_final():
    assert {type(fast) for fast in kinds()} == {
        kind for kind in all_subclasses(Rows) if not getattr(kind, "__abstractmethods__", None)
    }
    for base in (AbstractLikelihood, AbstractSampler, *all_subclasses(AbstractLikelihood), *all_subclasses(AbstractSampler)):
        for kind in all_subclasses(base):
            for name in set(vars(kind)) & set(vars(base)):
                assert not getattr(vars(base)[name], "__final__", False), f"{kind.__name__}.{name} overrides {base.__name__}"


def all_subclasses(base):
    found = set(base.__subclasses__())
    return found.union(*(all_subclasses(kind) for kind in found))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sparse", [0, 10**9], ids=["lists", "tables"])
@pytest.mark.parametrize("repeated", [False, True])
@settings(max_examples=15, deadline=None)
@given(n_categories=st.integers(2, 140), n_rows=st.sampled_from([1, 300, 1500]), seed=st.integers(0, 99))
def test_many_draws_around_their_mean(sparse, repeated, n_categories, n_rows, seed):
    """An error e of z in single precision costs w z e; draws far from the mean are taken in double precision."""
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_level, "SMALL", 0)
        patch.setattr(two_level, "SPARSE", sparse)
        members = rng.random((n_rows, n_categories)) < 0.25
        counts = rng.integers(1, 9, n_rows) if repeated else np.ones(n_rows)
        rows = SupportRows(np.packbits(members, axis=1), 1.7, counts, n_categories, rng.normal(size=n_rows))
        draws = rng.dirichlet(np.ones(n_categories))[:, None] * np.exp(0.1 * rng.normal(size=(n_categories, 37)))
        draws /= draws.sum(axis=0)
        centre = rows.matvec(draws.mean(axis=1))[:, None]
        tolerance = 1e-7 * max(1.0, (counts @ (rows.matvec(draws) / centre - 1) ** 2).max())
        expected = twin(rows).log_likelihood(draws)
        np.testing.assert_allclose(rows.log_likelihood(draws), expected, rtol=1e-12, atol=tolerance)
        far = rng.dirichlet(np.full(n_categories, 0.1), 20).T
        steep = SupportRows(rows.bits, 1e6, counts, n_categories)
        # Single precision up to z = 7: of 1,200 such cases the largest error was half of this.
        tolerance = 3e-6 * np.sqrt(counts @ counts)
        np.testing.assert_allclose(steep.log_likelihood(far), twin(steep).log_likelihood(far), rtol=1e-7, atol=tolerance)


def test_rough_expansions_are_exact_where_supports_have_one_size(monkeypatch):
    monkeypatch.setattr(two_level, "SMALL", 0)
    protocol, rng = SubsetSelection(40, 1.0), np.random.default_rng(4)
    reports = protocol.privatize(rng.integers(40, size=500), rng)
    even = np.full(40, 1 / 40)
    for counts in (np.ones(500), rng.integers(1, 4, 500)):
        rows = protocol.rows(reports, counts)
        rough, exact = rows.rough_expansion(), rows.expansion(even)
        np.testing.assert_allclose(rough[1:], exact[1:], rtol=1e-12)
        np.testing.assert_allclose(StackedRows([rows, rows]).rough_expansion()[1:], 2 * np.array(exact[1:]), rtol=1e-12)
