"""Unary encoding: rates, likelihood, report formats."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tabulated import each_row

from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.protocols import bits, make_protocol
from ldpbayes.protocols.unary import UnaryEncoding

VARIANTS = ("symmetric", "optimized", "dual")


@given(epsilon=st.floats(0.01, 40))
def test_named_rates(epsilon):
    half, e = math.exp(epsilon / 2), math.exp(epsilon)
    for variant, kappa, lam in [
        ("symmetric", half / (half + 1), 1 / (half + 1)),
        ("optimized", 0.5, 1 / (e + 1)),
        ("dual", e / (e + 1), 0.5),
    ]:
        protocol = getattr(UnaryEncoding, variant)(4, epsilon)
        assert protocol.hit_rates == pytest.approx((kappa, lam), rel=1e-14)
        assert protocol.epsilon == epsilon
        assert protocol.variant == variant
        assert protocol == make_protocol("unary", "abcd", protocol.parameters())
        # The two-level rows carry the level exactly, whatever κ and λ round to.
        assert protocol.beta == math.expm1(epsilon)


@given(kappa=st.floats(0.02, 0.98), share=st.floats(0.02, 0.98))
def test_any_rates(kappa, share):
    lam = kappa * share
    protocol = UnaryEncoding.from_rates(3, kappa, lam)
    assert protocol.lam == pytest.approx(lam, rel=1e-12)
    assert protocol.epsilon == pytest.approx(math.log(kappa * (1 - lam) / (lam * (1 - kappa))), rel=1e-9)
    assert protocol == make_protocol("unary", "abc", {"kappa": kappa, "lam": lam})
    assert protocol == make_protocol("unary", "abc", protocol.parameters())


@each_row(
    "parameters, problem",
    [
        ({"epsilon": 1.0}, "epsilon.*variant"),
        ({"kappa": 0.7}, "kappa.*lam"),
        ({"epsilon": 1.0, "variant": "sue"}, "symmetric,.*dual"),
        ({"kappa": 0.3, "lam": 0.3}, "than kappa"),
        ({"kappa": 0.2, "lam": 0.3}, "than kappa"),
        ({"kappa": 1.0, "lam": 0.3}, "kappa must"),
        ({"kappa": 0.4, "lam": 0.0}, "lam must"),
        ({"epsilon": 1.0, "kappa": 0.5, "lam": 0.2}, "epsilon,.*kappa,.*lam"),
    ],
)
def test_parameters_that_do_not_fix_the_rates_are_refused(parameters, problem):
    with pytest.raises(ArgumentError, match=problem):
        make_protocol("unary", "abc", parameters)


@pytest.mark.parametrize("variant", VARIANTS)
def test_channel_is_the_product_over_bits(variant):
    protocol = getattr(UnaryEncoding, variant)(4, 1.3)
    kappa, lam = protocol.hit_rates
    expected = [
        [
            math.prod((r if bit else 1 - r) for bit, r in zip(y, [lam] * x + [kappa] + [lam] * (3 - x), strict=True))
            for x in range(4)
        ]
        for y in product((0, 1), repeat=4)
    ]
    np.testing.assert_allclose(protocol.channel(), expected, rtol=1e-13)


@each_row("a", [2, 10, 300])
@each_row("epsilon", [0.1, 1.0, 5.0])
def test_symmetric_risk_is_proposition_4_of_kairouz(a, epsilon):
    p, n, half = np.random.default_rng(a).dirichlet(np.ones(a)), 77, math.exp(epsilon / 2)
    expected = (1 - p @ p) / n + a * half / (n * (half - 1) ** 2)
    assert UnaryEncoding.symmetric(a, epsilon).oracle_variance(p, n, "distribution").sum() == pytest.approx(
        expected, rel=1e-11
    )


def test_an_empty_report_gives_an_all_negative_oracle_not_a_zero_vector():
    protocol = UnaryEncoding.symmetric(9, 0.5)
    oracle = protocol.oracle(Tally(protocol, np.zeros((1, 2), dtype=np.uint8)).rows)
    kappa, lam = protocol.hit_rates
    np.testing.assert_allclose(oracle, -lam / (kappa - lam), rtol=1e-12)
    assert np.isfinite(protocol.rows(np.zeros((1, 2), dtype=np.uint8), np.ones(1)).log_constants).all()


def test_simulated_bit_counts_have_the_moments_of_reports():
    protocol, truth, rng = UnaryEncoding.optimized(6, 1.0), np.array([0, 10, 20, 30, 40, 900]), np.random.default_rng(3)
    counts = np.stack([protocol.simulate_support_counts(truth, rng) for _ in range(2000)])
    kappa, lam = protocol.hit_rates
    mean = lam * 1000 + (kappa - lam) * truth
    variance = truth * kappa * (1 - kappa) + (1000 - truth) * lam * (1 - lam)
    assert (np.abs(counts.mean(axis=0) - mean) < 4.5 * np.sqrt(variance / 2000)).all()
    np.testing.assert_allclose(counts.var(axis=0), variance, rtol=0.15)
    np.testing.assert_allclose(np.corrcoef(counts.T), np.eye(6), atol=0.1)


@pytest.mark.parametrize("a", [3, 8, 11, 70])
def test_every_text_format_of_one_report(a):
    labels = [f"item {x}" for x in range(a)]
    protocol = UnaryEncoding.symmetric(a, 1.0)
    members = np.zeros(a, dtype=bool)
    members[[0, 2, a - 1]] = True
    held = sorted({0, 2, a - 1})
    texts = [
        "".join("01"[int(bit)] for bit in members),
        ";".join(labels[x] for x in held),
        " ; ".join(str(x) for x in reversed(held)),
        "0x" + np.packbits(members).tobytes().hex(),
    ]
    parsed = protocol.parse_reports([texts], labels)
    np.testing.assert_array_equal(parsed, np.tile(np.packbits(members), (4, 1)))
    np.testing.assert_array_equal(protocol.parse_reports([[texts[0]] * 3], labels), parsed[:3])
    np.testing.assert_array_equal(protocol.parse_reports([["", ";"]], labels), np.zeros((2, -(-a // 8))))


def test_labels_that_are_numbers_are_not_taken_for_positions():
    protocol = UnaryEncoding.symmetric(3, 1.0)
    np.testing.assert_array_equal(protocol.parse_reports([["2;3"]], ("1", "2", "3")), [[0b01100000]])
    with pytest.raises(DataError, match="unknown category '0'"):
        protocol.parse_reports([["0;2"]], ("1", "2", "3"))


@each_row(
    "text, problem",
    [
        ("0110", "unknown category"),
        ("01012", "unknown category"),
        ("a;a", "twice"),
        ("a;z", "unknown category 'z'"),
        ("5", "unknown category '5'"),
        ("-1", "unknown category"),
        ("0xf", "not hexadecimal"),
        ("0xzz", "not hexadecimal"),
        ("0xf0f0", "2 bytes"),
        ("0x01", "beyond its 5"),
    ],
)
def test_malformed_texts_are_refused(text, problem):
    with pytest.raises(DataError, match=problem) as caught:
        UnaryEncoding.symmetric(5, 1.0).parse_reports([["01010", text]], tuple("abcde"))
    assert caught.value.line == 1


@each_row(
    "reports, problem",
    [
        (np.zeros((2, 3), dtype=np.uint8), "shape"),
        (np.zeros(2, dtype=np.uint8), "shape"),
        (np.full((2, 2), 1, dtype=np.uint8), "beyond its 9"),
        (np.zeros((2, 2), dtype=np.int64), "uint8"),
        (np.full((1, 9), 2), "neither 0 nor 1"),
        (np.full((1, 9), -1), "neither 0 nor 1"),
        (np.full((1, 9), 0.5), "zeros.*ones"),
    ],
)
def test_malformed_reports_are_refused(reports, problem):
    with pytest.raises(DataError, match=problem):
        UnaryEncoding.symmetric(9, 1.0).check_reports(reports)


def test_zeros_and_ones_are_packed():
    members = np.random.default_rng(0).random((20, 13)) < 0.5
    protocol = UnaryEncoding.symmetric(13, 1.0)
    for reports in (members, members.astype(int), members.astype(np.uint8), np.packbits(members, axis=1)):
        np.testing.assert_array_equal(protocol.check_reports(reports), np.packbits(members, axis=1))


def test_bits_of_the_client_are_independent_with_the_stated_rates():
    protocol = UnaryEncoding.optimized(100, 2.0)
    members = np.unpackbits(protocol.privatize(np.full(40_000, 37), np.random.default_rng(5)), axis=1, count=100)
    share = members.mean(axis=0)
    expected = np.full(100, protocol.lam)
    expected[37] = protocol.kappa
    assert (np.abs(share - expected) < 4.5 * np.sqrt(expected * (1 - expected) / 40_000)).all()
    off = np.corrcoef(members.T) - np.eye(100)
    assert np.abs(off).max() < 5.5 / math.sqrt(40_000)


def test_lists_too_long_to_write_out_are_refused():
    protocol = UnaryEncoding.symmetric(40, 1.0)
    for method in (protocol.all_reports, protocol.channel, protocol.rational_channel):
        with pytest.raises(InfeasibleError, match="too many"):
            method()


@pytest.mark.parametrize("a", [5, 64, 70, 128])
def test_sizes_count_members(a):
    members = np.random.default_rng(a).random((50, a)) < 0.3
    packed = np.packbits(members, axis=1)
    np.testing.assert_array_equal(bits.sizes(packed), members.sum(axis=1))
    np.testing.assert_array_equal(bits.sizes(packed[::2]), members[::2].sum(axis=1))
    np.testing.assert_array_equal(bits.sizes(np.asfortranarray(packed)), members.sum(axis=1))
