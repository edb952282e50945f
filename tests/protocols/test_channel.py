"""Explicit channels and survey designs: asymmetry, identifiability, the oracle's covariance."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tabulated import each_row

from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols import GRR, Channel, designs, kronecker, make_protocol

ASYMMETRIC = np.array([[0.7, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.1, 0.7]])


@settings(max_examples=30, deadline=None)
@given(a=st.integers(2, 5), b=st.integers(5, 8), seed=st.integers(0, 999))
def test_oracle_covariance_by_enumeration(a, b, seed):
    rng = np.random.default_rng(seed)
    channel = Channel(rng.dirichlet(np.ones(b), a).T)
    inverse, p = channel.decoder().inverse, rng.dirichlet(np.ones(a))
    np.testing.assert_allclose(inverse @ channel.matrix, np.eye(a), atol=1e-8)
    reports = np.eye(b)
    mean = channel.matrix @ p
    distribution = sum(m * np.outer(inverse @ y, inverse @ y) for m, y in zip(mean, reports, strict=True)) - np.outer(p, p)
    covariance = channel.decoder().covariance(p, 10, "distribution")
    np.testing.assert_allclose(covariance, distribution / 10, rtol=1e-6, atol=1e-8 * np.abs(covariance).max())
    frequency = channel.decoder().covariance(p, 10, "frequency")
    users = np.diag(p) - np.outer(p, p)
    np.testing.assert_allclose(covariance - frequency, users / 10, atol=1e-8 * np.abs(covariance).max())


def test_likelihood_and_em_step_of_an_asymmetric_channel_read_reports_by_row():
    # One EM step by hand, looping over users; the transposed channel gives another answer.
    channel = Channel(ASYMMETRIC)
    rows, p = Tally(channel, [0, 1, 2], [3, 5, 2]).rows, np.array([0.5, 0.3, 0.2])
    users = [0] * 3 + [1] * 5 + [2] * 2
    by_hand, transposed = np.zeros(3), np.zeros(3)
    for y in users:
        by_hand += ASYMMETRIC[y] * p / (ASYMMETRIC[y] @ p) / 10
        transposed += ASYMMETRIC[:, y] * p / (ASYMMETRIC[:, y] @ p) / 10
    step = p * rows.value_and_gradient(p)[1] / 10
    np.testing.assert_allclose(step, by_hand, rtol=1e-14)
    assert np.abs(step - transposed).max() > 0.01
    assert rows.log_likelihood(p) == pytest.approx(sum(math.log(ASYMMETRIC[y] @ p) for y in users), rel=1e-14)


def test_epsilon_of_a_channel_is_the_exact_largest_ratio():
    assert Channel(ASYMMETRIC).epsilon == pytest.approx(math.log(8), rel=1e-14)
    assert Channel(GRR(4, 1.7).channel()).epsilon == pytest.approx(1.7, rel=1e-14)
    assert designs.triangular(0.3).epsilon == math.inf
    assert Channel(np.full((2, 3), 0.5)).epsilon == 0.0


def test_rational_channel_of_a_float_matrix_is_the_matrix():
    exact = Channel(ASYMMETRIC).rational_channel()
    assert all(sum(column) == 1 for column in zip(*exact, strict=True))
    np.testing.assert_allclose(np.array(exact, dtype=float), ASYMMETRIC, rtol=1e-15)
    assert isinstance(exact[0][0], Fraction)


@each_row(
    "matrix, problem",
    [
        ([[0.5, 0.5], [0.4, 0.5]], "column 0"),
        ([[1.5, 0.5], [-0.5, 0.5]], "not negative"),
        ([[math.nan, 0.5], [0.5, 0.5]], "finite"),
        ([[1.0], [0.0]], "two categories"),
        ([[0.5, 0.5], [0.5]], "rectangular"),
    ],
)
def test_malformed_matrices_are_refused(matrix, problem):
    with pytest.raises(ArgumentError, match=problem):
        Channel(matrix)


def test_oracle_of_a_deficient_channel_is_refused():
    with pytest.raises(ArgumentError, match="rank 3"):
        _ = designs.stochastic_lie_detector(0.3).decoder().inverse


def test_the_matrix_is_copied_and_read_only():
    matrix = ASYMMETRIC.copy()
    channel = Channel(matrix)
    matrix[0, 0] = 0
    assert channel.matrix[0, 0] == pytest.approx(0.7)
    with pytest.raises(ValueError, match="read-only"):
        channel.matrix[0, 0] = 1


def test_kronecker_is_the_product_of_two_answers():
    joint = kronecker([designs.warner(0.8), designs.triangular(0.4)])
    assert joint.n_categories == joint.n_outputs == 4
    first, second = designs.warner(0.8).matrix, designs.triangular(0.4).matrix
    for y, answer in enumerate(joint.answers):
        left, right = answer.split("/")
        i, j = ("no", "yes").index(left), ("neither", "at least one").index(right)
        for x in range(4):
            assert joint.matrix[y, x] == pytest.approx(first[i, x // 2] * second[j, x % 2])
    assert make_protocol("kronecker", list("abcd"), joint.parameters()) == joint


@pytest.mark.parametrize("answer_count", [1, 3])
def test_answers_must_label_the_rows(answer_count):
    with pytest.raises(ArgumentError, match="2 distinct labels"):
        Channel([[0.6, 0.4], [0.4, 0.6]], ["a", "b", "c"][:answer_count])


def test_christofides_carriers_turn_the_cards_round():
    protocol = designs.christofides([0.5, 0.3, 0.2])
    np.testing.assert_allclose(protocol.matrix, [[0.5, 0.2], [0.3, 0.3], [0.2, 0.5]], rtol=1e-14)
    assert protocol.answers == ("1", "2", "3") and protocol.epsilon == pytest.approx(math.log(2.5))
    # The published estimator: (mean answer - E j) / (L + 1 - 2 E j), unbiased for the share of carriers.
    share, expected = 0.3, 0.5 + 2 * 0.3 + 3 * 0.2
    mean = np.array([1, 2, 3]) @ protocol.matrix @ [1 - share, share]
    assert (mean - expected) / (4 - 2 * expected) == pytest.approx(share, rel=1e-12)
    for weights in ([0.5, 0.5], [0.25, 0.5, 0.25]):
        with pytest.raises(ArgumentError, match="be symmetric"):
            designs.christofides(weights)


@pytest.mark.parametrize("cards", [1, 2, 7])
def test_kuk_with_several_cards_is_binomial(cards):
    protocol = designs.kuk(0.8, 0.3, cards)
    expected = [[binom.pmf(r, cards, share) for share in (0.3, 0.8)] for r in range(cards + 1)]
    np.testing.assert_allclose(protocol.matrix, expected, rtol=1e-12)
    again = make_protocol("kuk", ["no", "yes"], protocol.parameters())
    assert again == protocol and ("cards" in protocol.parameters()) == (cards > 1)


@each_row("cards", [0, 101, 1.5, True])
def test_impossible_numbers_of_cards_are_refused(cards):
    with pytest.raises(ArgumentError, match="cards must"):
        designs.kuk(0.8, 0.3, cards)


def test_the_left_inverse_keeps_its_digits_in_noisy_joint_channels():
    """The normal equations lost nine digits here: the condition number is 1.6e5."""
    noisy = kronecker([GRR(2, 0.005), GRR(2, 0.005)])
    np.testing.assert_allclose(noisy.decoder().inverse @ noisy.matrix, np.eye(4), rtol=0, atol=1e-9)
