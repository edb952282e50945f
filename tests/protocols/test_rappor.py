"""RAPPOR: both privacy levels, filters, rows, clients, least squares, the composite likelihood and the demo's map."""

import itertools
import math
import pathlib
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats
from tabulated import each_row

from ldpbayes import entropy
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, CompositeWarning, DataError
from ldpbayes.estimators.base import information_covariance
from ldpbayes.estimators.mle import MLE, maximize
from ldpbayes.fitness import check
from ldpbayes.likelihoods import LevelRows, SupportRows
from ldpbayes.protocols import GRR, make_protocol
from ldpbayes.protocols.base import largest_ratio
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.formats import places
from ldpbayes.protocols.noncompliance import as_law
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.protocols.respondents import Uniform
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.sources import read_collection, write_collection

WORDS = ("ant", "bee", "cat", "Ü")
#: Category 2 sets one bit only in cohort 0: what a map with coinciding hashes looks like.
POSITIONS = [[[0, 1], [2, 3]], [[1, 2], [0, 3]], [[3], [1, 0]]]
PROTOCOLS = {
    "one-time-h1": Rappor.one_time(4, 1.0, n_bits=5, cohorts=3, candidates=WORDS, seed=2),
    "one-time-h2": Rappor.one_time(4, 1.0, n_bits=6, cohorts=3, hashes=2, candidates=WORDS, seed=5),
    "full": Rappor(3, 0.3, 0.8, 0.25, 4, 2, 2, "positions", positions=POSITIONS),
    "fresh": Rappor(3, 0.2, 0.7, 0.0, 4, 2, 2, "positions", positions=POSITIONS),
    "direct": Rappor.direct(3, 0.25, 0.75, 0.5),
}
by_name = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


def formula(protocol):
    """The channel by its definition: a product over bits, report by report."""
    on, off = protocol.rates
    out = []
    for c in range(protocol.cohorts):
        filters = protocol.filters(c)
        for report in itertools.product((0, 1), repeat=protocol.n_bits):
            rate = np.where(filters == 1, on, off)
            out.append(np.prod(np.where(np.array(report)[:, None] == 1, rate, 1 - rate), axis=0) / protocol.cohorts)
    return np.array(out)


# ---- privacy ---------------------------------------------------------------------------------------------------------
def test_both_levels_are_those_of_the_paper():
    """Theorems 1 and 2 of Erlingsson et al., typed as printed."""
    p, q, f, h = 0.5, 0.75, 0.5, 2
    protocol = Rappor(2, p, q, f, 128, 8, h, candidates=("a", "b"))
    q_star, p_star = f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p
    assert protocol.epsilon_one_time == pytest.approx(h * math.log(q_star * (1 - p_star) / (p_star * (1 - q_star))))
    assert protocol.epsilon_longitudinal == pytest.approx(2 * h * math.log((1 - f / 2) / (f / 2)))
    assert protocol.epsilon == protocol.epsilon_one_time < protocol.epsilon_longitudinal
    assert Rappor(2, p, q, 0.0, 128, 8, h, candidates=("a", "b")).epsilon_longitudinal == math.inf


@each_row("epsilon", [0.01, 0.3, 1.0, math.log(3), 10.0, 49.0])
@each_row("hashes", [1, 2, 3])
def test_one_time_level_is_the_one_asked_and_never_above(epsilon, hashes):
    protocol = Rappor.one_time(4, epsilon, 6, 3, hashes, candidates=WORDS)
    assert protocol.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert protocol._ratio**hashes <= entropy.exp_below(epsilon)
    assert protocol.epsilon_longitudinal == protocol.epsilon_one_time
    odds = math.exp(epsilon / (2 * hashes))
    np.testing.assert_allclose(protocol.rates, (odds / (1 + odds), 1 / (1 + odds)), rtol=1e-9)


@by_name
def test_rational_channel_is_the_channel_within_epsilon(protocol):
    exact = protocol.rational_channel()
    assert all(sum(column) == 1 for column in zip(*exact, strict=True))
    assert Fraction(1) < largest_ratio(exact) <= entropy.exp_below(protocol.epsilon)
    np.testing.assert_allclose(np.array(exact, dtype=float), protocol.channel(), rtol=1e-12)


@pytest.mark.parametrize(("p", "q"), [(1e-61, 1e-60), (0.0, 1e-50), (1e-39, 5e-39)])
def test_rates_below_the_resolution_of_the_client_do_not_change_places(p, q):
    protocol = Rappor(2, p, q, 0.5, 4, 1, 1, "positions", positions=[[[0]], [[2]]])
    _, clear, held = protocol.thresholds
    assert held >= clear
    assert largest_ratio(protocol.rational_channel()) <= entropy.exp_below(protocol.epsilon)


def test_the_level_is_reached_by_disjoint_filters():
    protocol = Rappor(2, 0.3, 0.8, 0.25, 4, 1, 2, "positions", positions=[[[0, 1]], [[2, 3]]])
    ratio = largest_ratio(protocol.rational_channel())
    assert math.log(ratio) == pytest.approx(protocol.epsilon, rel=1e-14)


# ---- filters and rows ------------------------------------------------------------------------------------------------
@by_name
def test_channel_is_the_definition(protocol):
    np.testing.assert_allclose(protocol.channel(), formula(protocol), rtol=1e-12)
    np.testing.assert_allclose(protocol.channel().sum(axis=0), 1, rtol=1e-12)


def test_kinds_of_rows():
    counts = np.ones(1)
    kind = {name: type(protocol.rows(protocol.all_reports()[:1], counts)) for name, protocol in PROTOCOLS.items()}
    assert kind == {"one-time-h1": SupportRows, "one-time-h2": LevelRows, "full": LevelRows} | {
        "fresh": LevelRows,
        "direct": SupportRows,
    }


def test_level_rows_multiply_as_their_dense_twin():
    protocol, rng = PROTOCOLS["full"], np.random.default_rng(0)
    rows = protocol.rows(protocol.all_reports(), rng.integers(1, 9, size=protocol.n_outputs))
    dense, p, r = rows.dense(), rng.random(3), rng.random(rows.n_rows)
    np.testing.assert_allclose(rows.matvec(p), dense @ p)
    np.testing.assert_allclose(rows.matvec(np.stack([p, p], axis=1)), (dense @ p)[:, None] * [1, 1])
    np.testing.assert_allclose(rows.matvec(p, 2), dense**2 @ p)
    np.testing.assert_allclose(rows.rmatvec(r), dense.T @ r)
    np.testing.assert_allclose(rows.gram(r), dense.T @ np.diag(r) @ dense)
    np.testing.assert_allclose(rows.rmatvec(r, 2), np.diag(dense.T @ np.diag(r) @ dense))
    assert rows.sampler().allocate_each(p[None], rng).sum() == rows.n_reports


def test_direct_is_unary_encoding():
    protocol = PROTOCOLS["direct"]
    unary = UnaryEncoding.from_rates(3, *protocol.rates)
    np.testing.assert_allclose(protocol.channel(), unary.channel(), rtol=1e-12)
    assert protocol.hit_rates == pytest.approx(unary.hit_rates)
    rows = protocol.rows(protocol.all_reports(), np.arange(1, 9))
    np.testing.assert_allclose(protocol.oracle(rows), unary.oracle(rows), rtol=1e-9)
    np.testing.assert_allclose(protocol.oracle_variance([0.5, 0.3, 0.2], 9), unary.oracle_variance([0.5, 0.3, 0.2], 9))


def test_large_filters_stay_in_range():
    """1,000 bits underflow as a product of probabilities; the log domain keeps them."""
    protocol = Rappor.one_time(4, 2.0, 1000, 2, 3, candidates=WORDS)
    reports = protocol.privatize(np.arange(4), np.random.default_rng(0))
    rows = protocol.rows(reports, np.ones(4))
    assert np.isfinite(rows.log_likelihood(np.full(4, 0.25))) and rows.log_constants.max() < -400
    assert (rows.dense() > 0).all() and rows.dense().max() < 1e3


def test_identifying_matrix_has_the_null_space_of_the_channel():
    """Two candidates with the same filter in every cohort cannot be told apart; those that share some bits can."""
    same = Rappor(3, 0.3, 0.8, 0.2, 4, 2, 2, "positions", positions=[[[0, 1], [2]], [[1, 0], [2]], [[0, 3], [2, 1]]])
    assert np.linalg.matrix_rank(same.identifying_matrix()) == np.linalg.matrix_rank(same.channel()) == 2
    reports = same.privatize([0, 1, 2], np.random.default_rng(0))
    assert Collection(["a", "b", "c"], Tally(same, reports)).unidentified() == [["a", "b"]]
    for protocol in PROTOCOLS.values():
        expected = np.linalg.matrix_rank(protocol.channel())
        assert np.linalg.matrix_rank(protocol.identifying_matrix()) == expected == protocol.n_categories


# ---- oracle ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["one-time-h1", "one-time-h2", "full", "direct"])
def test_oracle_is_exactly_unbiased_with_its_exact_variance(name):
    """Mean and variance over the channel itself, one user at a time: no simulation."""
    protocol = PROTOCOLS[name]
    a = protocol.n_categories
    p = np.arange(1, a + 1) / (a * (a + 1) / 2)
    channel = formula(protocol)
    single = np.stack([protocol.oracle(protocol.rows(report[None], np.ones(1))) for report in protocol.all_reports()])
    conditional = channel.T @ single
    np.testing.assert_allclose(conditional, np.eye(a), atol=1e-9)
    second = channel.T @ single**2
    np.testing.assert_allclose(protocol.oracle_variance(p, 5), p @ (second - conditional**2) / 5, rtol=1e-9)
    expected = (p @ second - (p @ conditional) ** 2) / 5
    np.testing.assert_allclose(protocol.oracle_variance(p, 5, "distribution"), expected, rtol=1e-9)


def test_rank_deficient_filters_have_no_oracle():
    protocol = Rappor.direct(3, 0.2, 0.7, 0.1)
    crowded = Rappor(3, 0.2, 0.7, 0.1, 2, 1, 1, "positions", positions=[[[0]], [[1]], [[0]]])
    rows = crowded.rows(crowded.all_reports(), np.ones(4))
    with pytest.raises(ArgumentError, match=r"rank 3.*2 bits"):
        crowded.oracle(rows)
    estimate = crowded.decoder().least_squares(rows)
    assert estimate[0] == pytest.approx(estimate[2])
    assert protocol.decoder().least_squares(protocol.rows(protocol.all_reports(), np.ones(8))).shape == (3,)


# ---- composite likelihood --------------------------------------------------------------------------------------------
def test_composite_is_not_the_likelihood():
    protocol, rng = PROTOCOLS["full"], np.random.default_rng(4)
    reports = protocol.privatize(rng.integers(3, size=300), rng)
    counts_of_bits = RapporBits.tally_arrays(*protocol.bit_counts(reports, np.ones(300, dtype=int)))
    whole, parts = protocol.rows(reports, np.ones(300)), Tally(RapporBits(protocol), *counts_of_bits).rows
    uniform, corner = np.full(3, 1 / 3), np.array([0.8, 0.1, 0.1])
    difference = [rows.log_likelihood(corner) - rows.log_likelihood(uniform) for rows in (whole, parts)]
    assert abs(difference[0] - difference[1]) > 0.1


# ---- clients ---------------------------------------------------------------------------------------------------------
@by_name
@pytest.mark.parametrize("client", ["privatize", "privatize_one"])
def test_clients_follow_the_channel(protocol, client):
    """Chi-square of the bit counts of every cohort for the last category; the bound is a p-value of 1e-6."""
    x, n = protocol.n_categories - 1, 40_000 if client == "privatize" else 1500
    if client == "privatize":
        reports = protocol.privatize(np.full(n, x), np.random.default_rng(6))
    else:
        reports = np.stack([protocol.privatize_one(x) for _ in range(n)])
    order = {report.tobytes(): i for i, report in enumerate(protocol.all_reports())}
    tally = np.bincount([order[report.tobytes()] for report in reports], minlength=protocol.n_outputs)
    expected = n * protocol.channel()[:, x]
    z = (tally - expected) / np.sqrt(expected)
    assert (z**2).sum() < stats.chi2.ppf(1 - 1e-6, tally.size) * (1.3 if expected.min() < 5 else 1)


def test_simulated_bit_counts_have_their_law():
    protocol, rng = PROTOCOLS["full"], np.random.default_rng(8)
    truth = np.array([30_000, 20_000, 10_000])
    totals, sizes = protocol.simulate_bit_counts(truth, rng)
    on, off = protocol.rates
    assert sizes.sum() == 60_000
    for c in range(2):
        rate = off + (on - off) * protocol.filters(c) @ truth / 60_000
        assert np.abs(totals[c] - sizes[c] * rate).max() < 6 * math.sqrt(30_000 / 4)


def test_permanent_report_is_memoised():
    """q = 1, p = 0: every report repeats the permanent one; f = 0: the permanent one is the filter itself."""
    protocol = PROTOCOLS["one-time-h2"]
    permanent = protocol.permanent_one(1, bytes(32))
    assert all(np.array_equal(protocol.instantaneous_one(permanent), permanent) for _ in range(5))
    fresh = PROTOCOLS["fresh"].permanent_one(0, bytes(32))
    cohort = int.from_bytes(fresh[:4].tobytes(), "big")
    assert np.array_equal(np.unpackbits(fresh[4:], count=4), PROTOCOLS["fresh"].filters(cohort)[:, 0])
    assert protocol.permanent_label("not a candidate", bytes(32)).shape == permanent.shape
    with pytest.raises(ArgumentError, match="permanent_label"):
        PROTOCOLS["direct"].permanent_label("x", bytes(32))


@pytest.mark.parametrize("bad", [-1, 4])
def test_values_out_of_range_do_not_wrap_around(bad):
    protocol = PROTOCOLS["one-time-h1"]
    with pytest.raises(ArgumentError, match="from 0 to 3"):
        protocol.privatize([bad], np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="from 0 to 3"):
        protocol.privatize_one(bad)


# ---- parameters and reports ------------------------------------------------------------------------------------------
@by_name
def test_parameters_round_trip(protocol):
    labels = [f"category {x}" for x in range(protocol.n_categories)]
    again = make_protocol("rappor", labels, protocol.parameters())
    assert again == protocol and hash(again) == hash(protocol)


def test_epsilon_and_labels_in_a_file():
    parameters = {"epsilon": 1.0, "n_bits": 16, "cohorts": 4, "hashes": 2}
    assert make_protocol("rappor", WORDS, parameters) == Rappor.one_time(4, 1.0, 16, 4, 2, candidates=WORDS)
    with pytest.raises(ArgumentError, match="epsilon or p, q"):
        make_protocol("rappor", WORDS, parameters | {"p": 0.5})
    direct = make_protocol("rappor", WORDS, {"p": 0.5, "q": 0.75, "f": 0.5, "assignment": "direct"})
    assert direct == Rappor.direct(4, 0.5, 0.75, 0.5)


@each_row(
    "changes, message",
    [
        ({"p": -0.1}, "p must be"),
        ({"p": math.nan}, "p must be"),
        ({"p": 0.9}, "q must"),
        ({"f": 1.0}, "f must be"),
        ({"p": 0.0, "f": 0.0}, "50 nats"),
        ({"q": 1.0, "f": 0.0}, "50 nats"),
        ({"p": 0.0, "q": 1.0, "f": 1e-12}, "50 nats"),
        ({"hashes": 16}, "hashes must"),
        ({"n_bits": 0}, "n_bits must"),
        ({"cohorts": 0}, "cohorts must"),
        ({"positions": None}, "positions must"),
        ({"positions": [[[0], [0]]] * 2}, "positions must"),
        ({"positions": [[[0], [4]]] * 3}, r"got \[4\].*cohort 1"),
        ({"positions": [[[0], []]] * 3}, "1 to 2 bits"),
        ({"positions": ["0 1;x"] * 3}, "whole numbers"),
        ({"positions": ["0 1"] * 3}, "positions must"),
        ({"positions": 5}, "positions must"),
        ({"positions": [1, 2, 3]}, "positions must"),
        ({"candidates": WORDS[:3]}, "candidates must.*left"),
        ({"assignment": "direct", "positions": None}, "n_bits must"),
        ({"assignment": "label", "positions": None}, "candidates must.*3"),
        ({"assignment": "bloom"}, "assignment must"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    good = {"p": 0.3, "q": 0.8, "f": 0.25, "n_bits": 4, "cohorts": 2, "hashes": 2}
    with pytest.raises(ArgumentError, match=message):
        Rappor(3, **(good | {"assignment": "positions", "positions": POSITIONS} | changes))


@by_name
def test_text_round_trip(protocol):
    labels = [f"category {x}" for x in range(protocol.n_categories)]
    reports = protocol.all_reports()
    assert np.array_equal(protocol.parse_reports(protocol.format_reports(reports, labels), labels), reports)
    assert np.array_equal(protocol.check_reports(reports), reports)


def test_pairs_and_bit_strings_are_read():
    protocol = PROTOCOLS["full"]
    expected = np.array([[0, 0, 0, 1, 0b1010_0000]], dtype=np.uint8)
    assert np.array_equal(protocol.check_reports(([1], [[1, 0, 1, 0]])), expected)
    assert np.array_equal(protocol.parse_reports([["1"], ["1010"]], []), expected)
    assert np.array_equal(protocol.parse_reports([["1"], ["0xa0"]], []), expected)


@each_row(
    "reports, message",
    [
        (([2], [[1, 0, 1, 0]]), r"cohort 2.*0\.\.1"),
        (([-1], [[1, 0, 1, 0]]), "cohort -1"),
        (([0], [[1, 0, 1]]), "reports must"),
        (([0], [[1, 0, 1, 2]]), "neither 0 nor 1"),
        (([0, 1], [[1, 0, 1, 1]]), "cohorts must.*1"),
        (np.zeros((1, 4), dtype=np.uint8), r"\(m, 5\) bytes"),
        (np.zeros((1, 5)), r"\(m, 5\) bytes"),
        (np.array([[0, 0, 0, 1, 8]], dtype=np.uint8), "beyond its 4"),
        (np.array([[1, 0, 0, 0, 0]], dtype=np.uint8), "cohort 16777216"),
    ],
)
def test_malformed_reports_are_refused(reports, message):
    with pytest.raises(DataError, match=message):
        PROTOCOLS["full"].check_reports(reports)


def test_malformed_text_names_row_and_field():
    for columns, field in (([["0", "2"], ["1010", "1010"]], "cohort"), ([["0", "1"], ["1010", "10102"]], "bits")):
        with pytest.raises(DataError) as caught:
            PROTOCOLS["full"].parse_reports(columns, [])
        assert (caught.value.line, caught.value.field) == (1, field)


def test_tally_of_a_concatenation_is_the_sum():
    protocol, rng = PROTOCOLS["full"], np.random.default_rng(0)
    first, second = (protocol.privatize(rng.integers(3, size=60), rng) for _ in range(2))
    assert Tally(protocol, np.concatenate([first, second])) == Tally(protocol, first) + Tally(protocol, second)


# ---- bit counts as a collection --------------------------------------------------------------------------------------
@pytest.mark.sampled(3)
@by_name
def test_one_bit_at_a_time_is_a_channel_with_an_exact_level(protocol):
    bit = RapporBits(protocol)
    exact = bit.rational_channel()
    assert all(sum(column) == 1 for column in zip(*exact, strict=True))
    assert largest_ratio(exact) <= entropy.exp_below(bit.epsilon)
    assert math.log(largest_ratio(exact)) == pytest.approx(bit.epsilon, rel=1e-12)
    np.testing.assert_allclose(np.array(exact, dtype=float), bit.channel(), rtol=1e-12)
    assert bit.epsilon < protocol.epsilon
    on, off = protocol.rates
    rate = [off + (on - off) * protocol.filters(c) for c in range(protocol.cohorts)]
    expected = np.stack([1 - np.concatenate(rate), np.concatenate(rate)], axis=1).reshape(bit.n_outputs, -1)
    np.testing.assert_allclose(bit.channel(), expected / (protocol.cohorts * protocol.n_bits), rtol=1e-12)


@by_name
def test_counts_of_bits_have_the_composite_likelihood(protocol):
    rng = np.random.default_rng(1)
    reports = protocol.privatize(rng.integers(protocol.n_categories, size=400), rng)
    totals, sizes = protocol.bit_counts(reports, np.ones(400, dtype=int))
    tally = Tally(RapporBits(protocol), *RapporBits.tally_arrays(totals, sizes))
    assert tally.n_reports == 400 * protocol.n_bits
    p, q = rng.dirichlet(np.ones(protocol.n_categories)), np.full(protocol.n_categories, 1 / protocol.n_categories)
    (on, off), expected = protocol.rates, 0.0
    for c in range(protocol.cohorts):
        here, there = (off + (on - off) * protocol.filters(c) @ shares for shares in (p, q))
        expected += totals[c] @ np.log(here / there) + (sizes[c] - totals[c]) @ np.log((1 - here) / (1 - there))
    assert tally.rows.log_likelihood(p) - tally.rows.log_likelihood(q) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["one-time-h1", "one-time-h2", "full", "direct"])
def test_oracle_of_bits_is_exactly_unbiased_with_its_exact_variance(name):
    bit = RapporBits(PROTOCOLS[name])
    a, channel = bit.n_categories, bit.channel()
    p = np.arange(1, a + 1) / (a * (a + 1) / 2)
    single = np.stack([bit.oracle(bit.rows(report[None], np.ones(1))) for report in bit.all_reports()])
    conditional, second = channel.T @ single, channel.T @ single**2
    np.testing.assert_allclose(conditional, np.eye(a), atol=1e-9)
    np.testing.assert_allclose(bit.oracle_variance(p, 5), p @ (second - conditional**2) / 5, rtol=1e-9)
    expected = (p @ second - (p @ conditional) ** 2) / 5
    np.testing.assert_allclose(bit.oracle_variance(p, 5, "distribution"), expected, rtol=1e-9)


@by_name
def test_clients_of_one_bit_follow_its_channel(protocol):
    bit, n = RapporBits(protocol), 30_000
    codes = np.ravel_multi_index(bit.privatize(np.ones(n, dtype=int), np.random.default_rng(3)).T, bit._limits)
    singles = np.ravel_multi_index(np.stack([bit.privatize_one(1) for _ in range(1500)]).T, bit._limits)
    for drawn in (codes, singles):
        expected = drawn.size * bit.channel()[:, 1]
        assert stats.chisquare(np.bincount(drawn, minlength=bit.n_outputs), expected).pvalue > 1e-6


def test_a_collection_of_bit_counts_says_that_it_is_composite(tmp_path):
    protocol = PROTOCOLS["full"]
    totals, sizes = protocol.simulate_bit_counts(np.array([600, 300, 100]), np.random.default_rng(2))
    collection = Collection(
        ["a", "b", "c"], Tally(RapporBits(protocol), *RapporBits.tally_arrays(totals, sizes), name="bits")
    )
    write_collection(collection, tmp_path / "bits.toml")
    with pytest.warns(CompositeWarning, match=r"'bits'.*composite"):
        assert read_collection(tmp_path / "bits.toml") == collection
    with pytest.warns(CompositeWarning):
        collection.warn_if_unidentified()


@each_row(
    "reports, message",
    [
        ([[2, 0, 0]], "cohort 2"),
        ([[0, 4, 0]], "bit 4"),
        ([[0, 0, 2]], "value 2"),
        ([[0, 0, -1]], "value -1"),
        ([[0, 0]], "array"),
    ],
)
def test_malformed_bits_are_refused(reports, message):
    with pytest.raises(DataError, match=message):
        RapporBits(PROTOCOLS["full"]).check_reports(reports)


def test_impossible_bit_counts_are_refused():
    with pytest.raises(ArgumentError, match=r"cohort's.*5, got 6"):
        RapporBits.tally_arrays([[1, 2, 3], [4, 5, 6]], [7, 5])
    with pytest.raises(ArgumentError, match=r"per cohort \(2\)"):
        RapporBits.tally_arrays([[1, 2, 3]], [7, 5])
    with pytest.raises(ArgumentError, match="Rappor protocol"):
        RapporBits(UnaryEncoding.symmetric(3, 1.0))


def test_the_rappor_demo_gives_its_published_shares():
    """10,000,000 simulated reports, 300 candidates: composite MLE and non-negative least squares against the demo's own."""
    path = pathlib.Path(__file__).parents[2] / "data" / "rappor" / "rappor_demo.toml"
    with pytest.warns(CompositeWarning):
        collection = read_collection(path)
    (tally,) = collection.tallies
    protocol = tally.protocol.rappor
    assert tally.n_reports == 10_000_000 * 128
    assert protocol.epsilon_one_time == pytest.approx(2 * math.log(3)) and protocol.epsilon_longitudinal == math.inf
    published = {entry["category"]: entry["share"] for entry in collection.published}
    mle = MLE()(collection).distribution
    counts = tally.counts.reshape(8, 128, 2)
    on, off = protocol.rates
    shares = (counts[..., 1] / counts.sum(axis=2) - off) / (on - off)
    least_squares, _ = optimize.nnls(np.concatenate([protocol.filters(c) for c in range(8)]), shares.ravel())
    assert least_squares.sum() == pytest.approx(1.0072, abs=5e-5)
    for estimate, tolerance in ((least_squares, 5.01e-5), (mle, 2e-4)):
        largest = [collection.categories[x] for x in np.argsort(-estimate)[:10]]
        assert largest == list(published)
        np.testing.assert_allclose(np.sort(estimate)[::-1][:10], list(published.values()), atol=tolerance)


def test_maps_of_rappors_own_tools_are_read_cohort_by_cohort():
    """Indices count from one through the cohorts: here five bits each, so 6 is bit 0 of the second cohort."""
    lines = [("yes", [1, 5, 6, 8]), ("no", [2, 3, 10, 9])]
    protocol = Rappor.from_map(lines, 0.25, 0.75, 0.5, n_bits=5, cohorts=2, hashes=2)
    assert protocol.positions == (((0, 4), (0, 2)), ((1, 2), (4, 3)))
    np.testing.assert_array_equal(protocol.filters(0).T, [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]])
    np.testing.assert_array_equal(protocol.filters(1).T, [[1, 0, 1, 0, 0], [0, 0, 0, 1, 1]])
    for index in (0, 11):
        with pytest.raises(DataError, match=rf"index {index}.*'no'.*1..10"):
            Rappor.from_map([("yes", [1, 6]), ("no", [index])], 0.25, 0.75, 0.5, 5, 2, 1)
    with pytest.raises(ArgumentError, match=r"positions must.*1"):
        Rappor.from_map([("yes", [1, 2, 6]), ("no", [3, 7])], 0.25, 0.75, 0.5, 5, 2, 1)


# ---- words that are no candidates --------------------------------------------------------------------------------------
@pytest.mark.parametrize("k, h, cohorts", [(5, 2, 2), (4, 3, 1), (6, 1, 2), (2, 2, 2)])
def test_rows_and_draws_of_unlisted_words_are_means_over_all_filters(k, h, cohorts):
    protocol = Rappor(3, 0.2, 0.7, 0.3, k, cohorts, h, candidates=("a", "b", "c"))
    reports, law, (on, off) = protocol.all_reports(), protocol.unlisted(), protocol.rates
    members, mean = np.unpackbits(reports[:, 4:], axis=1, count=k), np.zeros(len(reports))
    for bits_set in itertools.product(range(k), repeat=h):
        rate = np.where(np.isin(np.arange(k), bits_set), on, off)
        mean += np.where(members, rate, 1 - rate).prod(axis=1) / k**h / cohorts
    np.testing.assert_allclose(np.exp(law.log_probabilities(protocol, reports)), mean, rtol=1e-12)
    drawn = np.bincount(places(reports, law.draw(protocol, 50_000, np.random.default_rng(2))), minlength=len(reports))
    assert ((drawn - 50_000 * mean) ** 2 / (50_000 * mean)).sum() < len(reports) + 4 * math.sqrt(2 * len(reports))
    if k == 2:
        exact = entropy.outcomes(lambda: law.draw_one(protocol).tobytes())
        np.testing.assert_allclose([float(exact[report.tobytes()]) for report in reports], mean, rtol=1e-12)


@pytest.mark.parametrize("number, honest", [(1000, True), (1, False)])
def test_unlisted_words_are_a_category_where_each_has_few_people_and_are_tested(number, honest):
    """Shares among the candidates were eight sd too large; of one word, whose people share a filter, the bits are not."""
    words, others, n = tuple("abcdef"), tuple(f"other {i}" for i in range(max(number, 2))), 30_000
    share = np.array([0.3, 0.2, 0.1, 0.05, 0.03, 0.02])
    rng = np.random.default_rng(7)
    every = Rappor(6 + len(others), 0.25, 0.75, 0.25, 64, 8, 2, candidates=words + others)
    values = np.append(rng.choice(6, size=7 * n // 10, p=share / 0.7), 6 + rng.integers(number, size=3 * n // 10))
    tally = Tally(Rappor(6, 0.25, 0.75, 0.25, 64, 8, 2, candidates=words), every.privatize(values, rng))
    assert check(Collection(words, tally), random_seed=1).p_value < 1e-6
    collection = Collection(words, tally).with_noncompliers({"unlisted": "unlisted"})
    bits_of_filters = next(c for c in check(collection, random_seed=1).checks if c.name == "bits of the filters")
    assert (bits_of_filters.p_value > 0.001) == honest
    if honest:
        found = maximize(collection.rows).p
        error = np.sqrt(np.diag(information_covariance(collection.rows, found)))
        assert (np.abs(found - np.append(share, 0.3)) < 3.5 * error).all() and error.max() < 0.02
        law = tally.protocol.report_law()
        longer = collection.tallies[0].protocol.report_law()
        assert law.expected(share / 0.7).shape == longer.expected(found).shape
        drawn = longer.simulate(np.array([0] * 6 + [4000]), rng) / 4000
        assert np.abs(drawn - longer.expected(np.eye(7)[6])).max() < 6 * math.sqrt(1 / 4000 / 8)


def test_the_law_of_unlisted_words_needs_hashed_words():
    for protocol in (Rappor.direct(3, 0.2, 0.7, 0.3), GRR(3, 1.0)):
        with pytest.raises(ArgumentError, match=r"'unlisted'.*hashed"):
            as_law("unlisted", protocol, tuple("abc"))
    assert as_law("unlisted", CohortRR(3, 1.0, 4, 8, "label", tuple("abc")), tuple("abc")) == Uniform()
