"""GRR: its closed forms, its risk, and the mistakes of other implementations."""

import math

import numpy as np
import pytest
from tabulated import each_row

from ldpbayes import entropy
from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.protocols import GRR


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_oracle_is_the_closed_form(epsilon):
    protocol = GRR(7, epsilon)
    counts = np.array([5, 0, 12, 3, 9, 1, 70])
    beta = math.expm1(epsilon)
    oracle = protocol.oracle(Tally(protocol, np.arange(7), counts).rows)
    np.testing.assert_allclose(oracle, ((7 + beta) * counts / 100 - 1) / beta, rtol=1e-9)
    assert oracle.sum() == pytest.approx(1, abs=1e-9)


@each_row("a", [2, 10, 1000])
@each_row("epsilon", [0.1, 1.0, 5.0])
def test_risk_is_proposition_3_of_kairouz(a, epsilon):
    p, n, beta = np.random.default_rng(a).dirichlet(np.ones(a)), 1234, math.expm1(epsilon)
    expected = (1 - p @ p) / n + (a - 1) / n * (a + 2 * beta) / beta**2
    assert GRR(a, epsilon).oracle_variance(p, n, "distribution").sum() == pytest.approx(expected, rel=1e-11)


def test_binary_risk_is_proposition_4_6_of_lopuhaa():
    p, n, epsilon = np.array([0.3, 0.7]), 50, 0.8
    e, beta = math.exp(epsilon), math.expm1(epsilon)
    assert GRR(2, epsilon).oracle_variance(p, n).sum() == pytest.approx(2 * e / (n * beta**2), rel=1e-12)
    expected = 2 / n * (e / beta**2 + p.prod())
    assert GRR(2, epsilon).oracle_variance(p, n, "distribution").sum() == pytest.approx(expected, rel=1e-12)


def test_an_all_negative_oracle_would_stay_negative():
    # One report at a small level: every other coordinate is far below zero, and nothing is clipped away.
    protocol = GRR(5, 0.05)
    oracle = protocol.oracle(Tally(protocol, [2]).rows)
    assert (np.delete(oracle, 2) < -10).all() and oracle[2] > 50


def test_small_and_large_levels_keep_their_digits():
    assert GRR(3, 1e-9).beta == pytest.approx(1e-9 + 5e-19, rel=1e-12)
    g, h = GRR(3, 50.0).hit_rates
    assert g == pytest.approx(1, abs=1e-15) and h == pytest.approx(math.exp(-50), rel=1e-12)


def test_single_value_client_tells_the_truth_as_often_as_it_says():
    protocol = GRR(4, 1.0)
    truth = protocol.rational_channel()[0][0]
    exact = entropy.exp_below(1.0) / (entropy.exp_below(1.0) + 3)
    assert 0 <= exact - truth < 2.0**-127


@each_row(
    "reports, problem",
    [
        ([0, 3], "report 3"),
        ([-1], "report -1"),
        ([0.0], "integers"),
        ([[0]], "shape"),
        (["0"], "integers"),
        ([True], "bool"),
    ],
)
def test_malformed_reports_are_refused(reports, problem):
    with pytest.raises(DataError, match=problem):
        GRR(3, 1.0).check_reports(np.array(reports))


def test_unknown_label_names_the_known_ones():
    with pytest.raises(DataError, match="red, green"):
        GRR(2, 1.0).parse_reports([["red", "blue"]], ("red", "green"))


def test_large_exact_channels_are_refused_before_memory_runs_out():
    with pytest.raises(InfeasibleError, match="too many"):
        GRR(2**20, 1.0).rational_channel()


def test_simulation_needs_counts():
    for counts in ([1.5, 2], [-1, 3], [1, 2, 3]):
        with pytest.raises(ArgumentError):
            GRR(2, 1.0).simulate(counts, np.random.default_rng(0))
