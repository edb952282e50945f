"""Cohort randomized response: maps, channel, least squares, decodability, clients, simulation, malformed reports."""

import math
from fractions import Fraction

import numpy as np
import pytest
import xxhash
from scipy import stats
from tabulated import each_row

from ldpbayes import entropy, hashing
from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import make_protocol
from ldpbayes.protocols.base import largest_ratio
from ldpbayes.protocols.cohort_rr import CohortRR

WORDS = ("apple", "pear", "Übung", "", "a, b", "plum")
PROTOCOLS = [
    CohortRR(5, 1.0, buckets=2, cohorts=8),
    CohortRR(6, 0.5, buckets=3, cohorts=6, assignment="label", candidates=WORDS, seed=3),
    CohortRR(5, 2.0, buckets=4, cohorts=5, assignment="xxhash"),
    CohortRR(4, 1.0, buckets=7, cohorts=2),
]


def name(protocol):
    return f"{protocol.assignment}-{protocol.buckets}x{protocol.cohorts}"


# ---- maps ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [2, 5, 1000])
def test_permutations_are_permutations_and_differ(size):
    table = hashing.permutations(1, 50, size)
    assert np.array_equal(np.sort(table, axis=1), np.broadcast_to(np.arange(size), (50, size)))
    assert len({tuple(row) for row in table.tolist()}) == {2: 2, 5: 40, 1000: 50}[size]  # 50 of 120: 41 expected
    assert not np.array_equal(table, hashing.permutations(2, 50, size))


def test_permutations_are_uniform():
    codes = hashing.permutations(9, 60_000, 4) @ 4 ** np.arange(4)
    observed = np.unique(codes, return_counts=True)[1]
    assert observed.size == 24 and stats.chisquare(observed).pvalue > 1e-6


def test_maps_never_change():
    """Frozen values: stored reports must decode for ever."""
    assert CohortRR(5, 1.0, 3, 2, seed=1).table.tolist() == [[1, 0, 2, 1, 0], [1, 0, 1, 0, 2]]
    assert CohortRR(6, 1.0, 10, 2, "label", WORDS, seed=1).table.tolist() == [[5, 1, 1, 6, 3, 6], [7, 4, 3, 1, 2, 7]]


def test_buckets_of_a_permutation_are_even():
    table = CohortRR(10, 1.0, buckets=3, cohorts=20).table
    assert all(sorted(np.bincount(row, minlength=3).tolist()) == [3, 3, 4] for row in table)


def test_xxhash_maps_are_those_of_fast_local_hashing():
    table = CohortRR(30, 1.0, buckets=4, cohorts=6, assignment="xxhash").table
    expected = [[xxhash.xxh32(str(j).encode(), seed=i).intdigest() % 4 for j in range(30)] for i in range(6)]
    assert table.tolist() == expected


# ---- channel ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_channel_is_the_formula(protocol):
    k, c, e = protocol.buckets, protocol.cohorts, math.exp(protocol.epsilon)
    expected = [np.where(row == y, e, 1.0) / (c * (e + k - 1)) for row in protocol.table for y in range(k)]
    np.testing.assert_allclose(protocol.channel(), expected, rtol=1e-13)
    np.testing.assert_allclose(protocol.channel().sum(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_rational_channel_is_the_channel_within_epsilon(protocol):
    exact = protocol.rational_channel()
    assert all(sum(column) == 1 for column in zip(*exact, strict=True))
    assert Fraction(1) < largest_ratio(exact) <= entropy.exp_below(protocol.epsilon)
    np.testing.assert_allclose(np.array(exact, dtype=float), protocol.channel(), rtol=1e-12)


def design_of(protocol):
    """Return H[(c, y), x] = [map_c(x) = y]."""
    return np.concatenate([np.arange(protocol.buckets)[:, None] == buckets for buckets in protocol.table]).astype(float)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_design_and_channel_have_the_same_null_space(protocol):
    design, channel = design_of(protocol), protocol.channel()
    rank = np.linalg.matrix_rank(channel)
    assert (
        protocol.decoder().rank
        == rank
        == np.linalg.matrix_rank(design)
        == np.linalg.matrix_rank(np.concatenate([design, channel]))
    )
    assert rank <= protocol.cohorts * (protocol.buckets - 1) + 1
    assert np.all(design.sum(axis=0) == protocol.cohorts)


# ---- decoding --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_least_squares_is_equation_22(protocol):
    """Against lstsq on the paper's own system, cohort by cohort."""
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 50, size=protocol.n_outputs)
    rows = protocol.rows(protocol.all_reports(), counts)
    k, c, e = protocol.buckets, protocol.cohorts, math.exp(protocol.epsilon)
    right = (c * (e + k - 1) * counts / counts.sum() - 1) / (e - 1)
    expected = np.linalg.lstsq(design_of(protocol), right, rcond=1e-12)[0]
    np.testing.assert_allclose(protocol.decoder().least_squares(rows), expected, atol=1e-9)


@pytest.mark.parametrize("protocol", [q for q in PROTOCOLS if q.decoder().rank == q.n_categories], ids=name)
def test_oracle_is_exactly_unbiased_with_its_exact_variance(protocol):
    """Mean and variance over the channel itself, one user at a time: no simulation."""
    a = protocol.n_categories
    p = np.arange(1, a + 1) / (a * (a + 1) / 2)
    reports, channel = protocol.all_reports(), protocol.channel()
    single = np.stack([protocol.oracle(protocol.rows(report[None], np.ones(1))) for report in reports])
    conditional = channel.T @ single
    np.testing.assert_allclose(conditional, np.eye(a), atol=1e-9)
    second = channel.T @ single**2
    frequency = p @ (second - conditional**2)
    distribution = p @ second - (p @ conditional) ** 2
    np.testing.assert_allclose(protocol.oracle_variance(p, 7), frequency / 7, rtol=1e-9)
    np.testing.assert_allclose(protocol.oracle_variance(p, 7, "distribution"), distribution / 7, rtol=1e-9)


def test_one_cohort_of_as_many_buckets_is_grr():
    protocol = CohortRR(4, 1.3, buckets=4, cohorts=1)
    from ldpbayes.protocols import GRR

    counts = np.array([5, 9, 1, 7])
    by_category = counts[protocol.table[0]]
    expected = GRR(4, 1.3).oracle(GRR(4, 1.3).rows(np.arange(4), by_category))
    np.testing.assert_allclose(protocol.oracle(protocol.rows(protocol.all_reports(), counts)), expected, rtol=1e-9)


def test_rank_deficient_design_has_least_squares_but_no_oracle():
    protocol = CohortRR(9, 1.0, buckets=2, cohorts=3)
    assert protocol.decoder().rank <= 4  # C(k − 1) + 1
    rows = protocol.rows(protocol.all_reports(), np.arange(1, 7))
    with pytest.raises(ArgumentError, match=r"rank 9,.*cohorts"):
        protocol.oracle(rows)
    with pytest.raises(ArgumentError, match="rank"):
        protocol.oracle_variance(np.full(9, 1 / 9), 10)
    # What the reports determine is unbiased all the same: H p̂ has mean H p.
    p = np.arange(1, 10) / 45
    expected = protocol.decoder().least_squares(protocol.rows(protocol.all_reports(), protocol.channel() @ p))
    np.testing.assert_allclose(design_of(protocol) @ expected, design_of(protocol) @ p, atol=1e-9)


# ---- clients ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
@pytest.mark.parametrize("client", ["privatize", "simulate", "privatize_one"])
def test_clients_follow_the_channel(protocol, client):
    """Chi-square of the tally of one category against its column; the bound is a p-value of 1e-6."""
    rng, x = np.random.default_rng(2), 1
    n = 2000 if client == "privatize_one" else 50_000
    if client == "simulate":
        reports, counts = protocol.simulate(np.eye(protocol.n_categories, dtype=int)[x] * n, rng)
    elif client == "privatize":
        reports, counts = protocol.privatize(np.full(n, x), rng), np.ones(n, dtype=int)
    else:
        reports, counts = np.stack([protocol.privatize_one(x) for _ in range(n)]), np.ones(n, dtype=int)
    tally = np.bincount(reports @ [protocol.buckets, 1], counts, protocol.n_outputs)
    assert tally.sum() == n
    assert stats.chisquare(tally, n * protocol.channel()[:, x]).pvalue > 1e-6


def test_any_string_may_be_reported():
    protocol = PROTOCOLS[1]
    reports = np.stack([protocol.privatize_label("not a candidate") for _ in range(50)])
    assert protocol.check_reports(reports).shape == (50, 2)
    exact = CohortRR(6, 50.0, 3, 6, "label", WORDS, seed=3)
    for _ in range(20):
        cohort, value = exact.privatize_label("Übung")
        assert value == exact.table[cohort, 2]
    with pytest.raises(ArgumentError, match="privatize_label"):
        PROTOCOLS[0].privatize_label("x")


@pytest.mark.parametrize("bad", [-1, 5])
def test_values_out_of_range_do_not_wrap_around(bad):
    with pytest.raises(ArgumentError, match="from 0 to 4"):
        PROTOCOLS[0].privatize([bad], np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="from 0 to 4"):
        PROTOCOLS[0].privatize_one(bad)


def test_inputs_are_left_alone():
    values, counts = np.array([0, 4, 2]), np.array([3, 0, 1, 5, 2])
    before = values.copy(), counts.copy()
    PROTOCOLS[0].privatize(values, np.random.default_rng(0))
    PROTOCOLS[0].simulate(counts, np.random.default_rng(0))
    assert np.array_equal(values, before[0]) and np.array_equal(counts, before[1])


# ---- parameters and reports ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_parameters_round_trip(protocol):
    labels = [f"category {x}" for x in range(protocol.n_categories)]
    assert make_protocol("cohort_rr", labels, protocol.parameters()) == protocol
    assert hash(make_protocol("cohort_rr", labels, protocol.parameters())) == hash(protocol)


def test_candidates_default_to_the_category_labels():
    parameters = {"epsilon": 1.0, "buckets": 4, "cohorts": 2, "assignment": "label"}
    assert make_protocol("cohort_rr", WORDS[:3], parameters).candidates == WORDS[:3]


@each_row(
    "changes, message",
    [
        ({"epsilon": 0}, "epsilon must"),
        ({"epsilon": math.nan}, "epsilon must"),
        ({"epsilon": 800}, "epsilon must"),
        ({"buckets": 1}, "buckets must"),
        ({"cohorts": 0}, "cohorts must"),
        ({"seed": -1}, "seed must"),
        ({"assignment": "md5"}, "assignment must"),
        ({"assignment": "label"}, "candidates must.*3"),
        ({"assignment": "label", "candidates": ("a", "b")}, "candidates must.*3"),
        ({"assignment": "label", "candidates": ("a", "b", "b")}, "candidates must.*3"),
        ({"assignment": "label", "candidates": "abc"}, "candidates must.*3"),
        ({"candidates": ("a", "b", "c")}, "candidates must.*left"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(ArgumentError, match=message):
        CohortRR(3, **({"epsilon": 1.0, "buckets": 2, "cohorts": 2} | changes))


@each_row(
    "reports, message",
    [
        ([[8, 0]], r"cohort 8.*0\.\.7"),
        ([[0, 2]], "value 2"),
        ([[0, -1]], "value -1"),
        ([0, 1], "array"),
    ],
)
def test_malformed_reports_are_refused(reports, message):
    with pytest.raises(DataError, match=message):
        PROTOCOLS[0].check_reports(reports)


def test_text_round_trip_and_malformed_text():
    protocol = PROTOCOLS[0]
    columns = protocol.format_reports(protocol.all_reports(), list("abcde"))
    assert np.array_equal(protocol.parse_reports(columns, list("abcde")), protocol.all_reports())
    with pytest.raises(DataError, match=r"cohort must.*0"):
        protocol.parse_reports([["8"], ["0"]], list("abcde"))


def test_tally_of_a_concatenation_is_the_sum():
    protocol, rng = PROTOCOLS[1], np.random.default_rng(0)
    first, second = (protocol.privatize(rng.integers(6, size=40), rng) for _ in range(2))
    assert Tally(protocol, np.concatenate([first, second])) == Tally(protocol, first) + Tally(protocol, second)
