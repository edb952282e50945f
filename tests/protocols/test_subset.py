"""Subset selection: both choices of size, the randomizer, report formats."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from tabulated import each_row

from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import GRR, make_protocol
from ldpbayes.protocols.subset import SubsetSelection, mutual_information_size, variance_optimal_size


@settings(max_examples=60, deadline=None)
@given(a=st.integers(2, 60), epsilon=st.floats(0.01, 8))
def test_default_size_is_the_best_of_all_sizes(a, epsilon):
    p = np.full(a, 1 / a)
    risks = [SubsetSelection(a, epsilon, w).oracle_variance(p, 1).sum() for w in range(1, a)]
    assert risks[variance_optimal_size(a, epsilon) - 1] == pytest.approx(min(risks), rel=1e-9)
    assert SubsetSelection(a, epsilon).size == variance_optimal_size(a, epsilon)


@settings(max_examples=60, deadline=None)
@given(a=st.integers(2, 60), epsilon=st.floats(0.01, 8))
def test_mutual_information_size_is_the_best_of_all_sizes(a, epsilon):
    e = math.exp(epsilon)

    def information(w):  # Theorem 2.1 as printed, with k = w and d = a
        z = w * e + a - w
        return (w * e * math.log(a * e / z) + (a - w) * math.log(a / z)) / z

    best = max(information(w) for w in range(1, a))
    assert information(mutual_information_size(a, epsilon)) == pytest.approx(best, rel=1e-9, abs=1e-15)


def test_mutual_information_size_at_tiny_levels_is_half_the_alphabet():
    assert [mutual_information_size(100, epsilon) for epsilon in (1e-9, 1e-5, 9e-5, 1.1e-4)] == [50] * 4


def test_size_one_is_grr():
    subset, grr = SubsetSelection(4, 1.2, size=1), GRR(4, 1.2)
    # Sets sort as their bits: {3} first, {0} last.
    np.testing.assert_allclose(subset.channel(), grr.channel()[::-1], rtol=1e-13)
    np.testing.assert_allclose(subset.hit_rates, grr.hit_rates, rtol=1e-13)


@pytest.mark.parametrize(("a", "size"), [(4, 2), (7, 3), (6, 5)])
def test_hit_rates_by_enumeration(a, size):
    protocol = SubsetSelection(a, 0.9, size)
    members = np.unpackbits(protocol.all_reports(), axis=1, count=a).astype(float)
    assert len(members) == math.comb(a, size) and (members.sum(axis=1) == size).all()
    hits = members.T @ protocol.channel()
    g, h = protocol.hit_rates
    np.testing.assert_allclose(hits, np.where(np.eye(a) == 1, g, h), rtol=1e-12)


@pytest.mark.parametrize(("a", "size"), [(9, 1), (9, 8), (100, 7), (100, 40), (100, 90)])
def test_client_draws_uniform_sets_of_the_exact_size(a, size):
    protocol, n, x = SubsetSelection(a, 1.0, size), 20_000, 4
    members = np.unpackbits(protocol.privatize(np.full(n, x), np.random.default_rng(size)), axis=1, count=a)
    assert (members.sum(axis=1) == size).all()
    g, h = protocol.hit_rates
    assert abs(members[:, x].mean() - g) < 4.5 * math.sqrt(g * (1 - g) / n)
    # Given their number, the other members are exchangeable: totals over positions vary as sampling without replacement.
    others = np.delete(members, x, axis=1).sum(axis=0)
    statistic = ((others - n * h) ** 2).sum() / (n * h * (1 - h)) * (a - 2) / (a - 1)
    assert statistic < chi2.isf(1e-6, a - 2)


def test_pairs_of_members_are_uniform():
    protocol = SubsetSelection(6, 1.0, 3)
    members = np.unpackbits(protocol.privatize(np.zeros(60_000, dtype=int), np.random.default_rng(1)), axis=1, count=6)
    pairs = members.T.astype(float) @ members
    others = pairs[1:, 1:][~np.eye(5, dtype=bool)]
    assert np.abs(others - others.mean()).max() < 5 * math.sqrt(others.mean())


@each_row("size", [0, 5, -1, 2.5, True, "2"])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(ArgumentError, match="size must"):
        SubsetSelection(5, 1.0, size)


@each_row(
    "reports, problem",
    [
        (np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]), "3 members.*2"),
        (np.array([[0, 0, 0, 0, 0]]), "0 members"),
        (np.array([[0b11000001]], dtype=np.uint8), "beyond its 5"),
        (np.array([[1, 1, 0, 0]]), "shape"),
    ],
)
def test_malformed_reports_are_refused(reports, problem):
    with pytest.raises(DataError, match=problem):
        SubsetSelection(5, 1.0, size=2).check_reports(reports)


def test_texts_of_the_wrong_size_name_their_row():
    with pytest.raises(DataError, match=r"3 members.*2") as caught:
        SubsetSelection(5, 1.0, size=2).parse_reports([["11000", "00011", "0;1;4"]], list("abcde"))
    assert caught.value.line == 2


def test_the_size_is_written_with_the_parameters():
    protocol = SubsetSelection(20, 0.5)
    assert protocol.parameters() == {"epsilon": 0.5, "size": protocol.size}
    assert make_protocol("subset", [str(x) for x in range(20)], protocol.parameters()) == protocol
    assert make_protocol("subset", [str(x) for x in range(20)], {"epsilon": 0.5}) == protocol
