"""Protocols with respondents who ignore them; the contract tests cover what every protocol promises."""

import math

import numpy as np
import pytest
from products import assert_same_products
from tabulated import each_row

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.mle import maximize
from ldpbayes.protocols import (
    GRR,
    HadamardResponse,
    LocalHashing,
    Noncompliance,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
    designs,
)
from ldpbayes.protocols.noncompliance import as_law


@each_row(
    "protocol, law, column",
    [
        (GRR(3, 1.0), "always 1", [0, 1, 0]),
        (GRR(3, 1.0), "2", [0, 0, 1]),
        (GRR(3, 1.0), "uniform", [1 / 3] * 3),
        (UnaryEncoding.optimized(2, 1.0), "no bits", [1, 0, 0, 0]),
        (UnaryEncoding.optimized(2, 1.0), "all bits", [0, 0, 0, 1]),
        (UnaryEncoding.optimized(2, 1.0), "fair coins", [0.25] * 4),
        (UnaryEncoding.optimized(2, 1.0), "always 0", [0, 0, 1, 0]),
        (SubsetSelection(3, 1.0, 1), "always 0", [0, 0, 1]),
        (HadamardResponse(3, 1.0), "uniform", [1 / 4] * 4),
    ],
)
def test_laws_are_what_their_words_say(protocol, law, column):
    wrapped = Noncompliance(protocol, (law,))
    np.testing.assert_allclose(wrapped.channel()[:, -1], column, rtol=1e-12)
    np.testing.assert_allclose(wrapped.channel()[:, :-1], protocol.channel(), rtol=1e-12)
    drawn = Tally(wrapped, wrapped.privatize(np.full(4000, wrapped.n_categories - 1), np.random.default_rng(1)))
    one = Tally(wrapped, np.stack([wrapped.privatize_one(wrapped.n_categories - 1) for _ in range(20)]))
    possible = {tuple(np.atleast_1d(y)) for y, q in zip(wrapped.all_reports(), column, strict=True) if q}
    for tally in (drawn, one):
        assert {tuple(np.atleast_1d(y)) for y in tally.reports} <= possible
    assert drawn.counts.min() > 4000 / len(possible) - 5 * math.sqrt(4000)


def test_the_infinite_level_is_not_that_of_the_compliers():
    wrapped = Noncompliance(GRR(3, 0.7), ("uniform",))
    assert wrapped.epsilon == math.inf and wrapped.compliers.epsilon == 0.7


def test_two_laws_at_once_have_the_products_of_their_dense_twin():
    protocol = Noncompliance(UnaryEncoding.optimized(70, 3.0), ("no bits", "fair coins"))
    reports = protocol.privatize(np.random.default_rng(2).integers(72, size=300), np.random.default_rng(3))
    assert_same_products(Tally(protocol, reports).rows)


def test_probabilities_of_a_thousand_bits_do_not_overflow():
    """P(no bits) is e^-1350 among the compliers and 1 among the others: no ratio of the two is a double."""
    protocol = Noncompliance(UnaryEncoding(1000, 1.0, lam=0.74), ("no bits",))
    rows = protocol.rows(np.zeros((1, 125), dtype=np.uint8), np.ones(1))
    p = np.full(1001, 1 / 1001)
    assert rows.log_likelihood(p) == pytest.approx(-math.log(1001), rel=1e-12)
    assert np.isfinite(rows.value_and_gradient(p)[1]).all() and np.isfinite(rows.curvature(p)).all()


@each_row(
    "protocol, law, words",
    [
        (GRR(3, 1.0), "fair coins", "free bits"),
        (GRR(3, 1.0), "always 7", "one of.*uniform"),
        (GRR(3, 1.0), 7, "text.*report"),
        (GRR(3, 1.0), True, "text.*report"),
        (Rappor.one_time(3, 1.0, 64, 4, candidates=tuple("abc")), "uniform", "be listed"),
        (LocalHashing(3, 1.0), "1", "one of.*uniform"),
        (SubsetSelection(5, 1.0, 2), "no bits", "free bits"),
    ],
)
def test_laws_that_cannot_be_are_refused(protocol, law, words):
    with pytest.raises(ArgumentError, match=words):
        Noncompliance(protocol, (law,))


def test_a_word_that_is_a_label_too_is_refused():
    with pytest.raises(ArgumentError, match="always uniform"):
        as_law("uniform", GRR(2, 1.0), ["uniform", "other"])
    assert as_law("always uniform", GRR(2, 1.0), ["uniform", "other"]).report == 0


def test_no_protocol_is_wrapped_twice_and_no_law_stands_twice():
    with pytest.raises(ArgumentError, match="compliers must"):
        Noncompliance(Noncompliance(GRR(3, 1.0), ("uniform",)), ("always 0",))
    with pytest.raises(ArgumentError, match="laws must"):
        Noncompliance(GRR(3, 1.0), ("always 0", 0))


def test_the_stochastic_lie_detector_is_one():
    """Carriers answer openly, and those who deny always say no: the three categories of the named design."""
    for p in (1 / 6, 5 / 6):
        named = designs.stochastic_lie_detector(p)
        plain = designs.Channel(named.matrix[:, [0, 2]])
        wrapped = Noncompliance(plain, ("always 0",))
        np.testing.assert_allclose(wrapped.channel()[:, [0, 2, 1]], named.matrix, rtol=1e-12)


@pytest.mark.parametrize("design", [designs.stochastic_lie_detector, designs.cheater_detection])
def test_published_estimators_in_closed_form(design):
    """Two groups are saturated: inside the simplex the maximum of the likelihood is the papers' moment estimator."""
    yes, n, p = np.array([340, 520]), 1000, np.array([1 / 6, 2 / 3])
    if design is designs.stochastic_lie_detector:
        yes = yes[::-1]
    share = yes / n
    slope = (share[0] - share[1]) / (p[0] - p[1])
    if design is designs.stochastic_lie_detector:  # λ = π t + (1 − π)(1 − p)
        expected = [share[0] + slope * (1 - p[0]), 1 + slope - share[0] - slope * (1 - p[0]), -slope]
    else:  # λ = π + β p
        expected = [share[0] - p[0] * slope, slope, 1 - slope - share[0] + p[0] * slope]
    tallies = [Tally(design(q), [0, 1], [n - k, k], f"g{i}") for i, (q, k) in enumerate(zip(p, yes, strict=True))]
    found = maximize(Collection("abc", tallies).rows, tolerance=1e-10).p
    assert min(expected) > 0
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_cheater_detection_is_a_law():
    """The same as a forced response whose "no" comes from people who ignore the die."""
    counts = ((0.2, [660, 340]), (0.7, [480, 520]))
    kinds = (designs.triangular, designs.cheater_detection)
    tallies, named = ([Tally(make(q), [0, 1], c, f"{q}") for q, c in counts] for make in kinds)
    wrapped = Collection(["no", "yes"], tallies).with_noncompliers({"cheater": 0})
    found, expected = (maximize(one.rows, tolerance=1e-10).p for one in (wrapped, Collection("abc", named)))
    np.testing.assert_allclose(found[[1, 0, 2]], expected, atol=1e-5)
    assert wrapped.noncompliance().identified
