"""Hadamard response: orders, the fast oracle, simulation by multinomials."""

import math

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.stats import chi2
from tabulated import each_row

from ldpbayes.collections import Tally
from ldpbayes.errors import DataError
from ldpbayes.likelihoods import SupportRows
from ldpbayes.protocols.hadamard import HadamardResponse


@each_row("a, order", [(2, 4), (3, 4), (4, 8), (7, 8), (8, 16), (1023, 1024), (1024, 2048)])
def test_order_is_the_least_power_of_two_above_the_alphabet(a, order):
    assert HadamardResponse(a, 1.0).n_outputs == order


@pytest.mark.parametrize("a", [2, 5, 8, 30])
def test_channel_is_the_definition(a):
    protocol, k, e = HadamardResponse(a, 0.8), 2 ** math.ceil(math.log2(a + 1)), math.exp(0.8)
    inside = hadamard(k)[1 : a + 1].T > 0
    np.testing.assert_allclose(protocol.channel(), np.where(inside, e, 1) * 2 / (k * (1 + e)), rtol=1e-13)


def test_fast_oracle_equals_counting_supports():
    protocol, rng = HadamardResponse(100, 1.0), np.random.default_rng(0)
    tally = Tally(protocol, protocol.privatize(rng.integers(100, size=5000), rng))
    members = hadamard(128)[1:101, tally.reports].T > 0
    shares = members.T @ tally.counts / 5000
    g, h = protocol.hit_rates
    np.testing.assert_allclose(protocol.oracle(tally.rows), (shares - h) / (g - h), rtol=1e-10, atol=1e-12)
    packed = SupportRows(np.packbits(members, axis=1), protocol.beta, tally.counts, 100)
    np.testing.assert_allclose(tally.rows.support_counts(), packed.support_counts(), rtol=1e-12)


@pytest.mark.parametrize("n", [300, 300_000], ids=["users", "multinomials"])
def test_both_ways_of_simulating_follow_the_channel(n):
    protocol = HadamardResponse(6, 1.5)
    truth = np.array([n // 2, 0, n // 4, 0, 0, n - n // 2 - n // 4])
    totals = sum(protocol.simulate(truth, np.random.default_rng(seed))[1] for seed in range(20))
    expected = 20 * protocol.channel() @ truth
    variance = 20 * (protocol.channel() * (1 - protocol.channel())) @ truth
    statistic = ((totals - expected) ** 2 / variance).sum()
    assert totals.sum() == 20 * n and statistic < chi2.isf(1e-6, 8) * 8 / 7


@pytest.mark.parametrize("report", [-1, 8, 2**40])
def test_reports_outside_the_order_are_refused(report):
    with pytest.raises(DataError, match=r"outside 0\.\.7"):
        HadamardResponse(5, 1.0).check_reports(np.array([0, report]))
    with pytest.raises(DataError, match="unknown report"):
        HadamardResponse(5, 1.0).parse_reports([["0", str(report)]], tuple("abcde"))


@pytest.mark.parametrize("a", [2, 11])
def test_many_users_report_by_the_channel(a):
    """From 8,192 users on one word draws both the report and whether its support holds the value."""
    protocol, rng, n = HadamardResponse(a, 1.0), np.random.default_rng(4), 40_000
    for x in (0, a - 1):
        found = np.bincount(protocol.privatize(np.full(n, x), rng), minlength=protocol.n_outputs)
        expected = n * protocol.channel()[:, x]
        assert ((found - expected) ** 2 / expected).sum() < chi2.isf(1e-6, protocol.n_outputs - 1)
