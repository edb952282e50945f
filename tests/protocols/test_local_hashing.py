"""Local hashing: the hash families, decoding of other packages' reports, rows, clients, oracle, malformed reports."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import xxhash
from scipy import stats
from tabulated import each_row

from ldpbayes import entropy, hashing
from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.planning import plan
from ldpbayes.planning.risk import mle_risk
from ldpbayes.protocols import make_protocol
from ldpbayes.protocols.base import largest_ratio
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.local_hashing import LocalHashing, PooledHashing, pool_loss, seeds_for
from ldpbayes.protocols.registry import parse_name

BITS64 = 2**64 - 1


def seed_channel(protocol, seed):
    """Return the dense channel given the seed, shape (g, a)."""
    categories = np.arange(protocol.n_categories)
    hashed = hashing.buckets(protocol.family, np.full(categories.size, seed), categories, protocol.buckets)
    return GRR(protocol.buckets, protocol.epsilon).channel()[:, hashed]


def python_mix(word):
    """SplitMix64's finaliser in Python's own integers."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & BITS64
    word = (word ^ word >> 27) * 0x94D049BB133111EB & BITS64
    return word ^ word >> 31


def python_bucket(seed, key, g):
    """The documented formula in Python's own integers."""
    golden = 0x9E3779B97F4A7C15
    state = python_mix(seed ^ golden)
    a, b, c = (python_mix(state + i * golden & BITS64) for i in (1, 2, 3))
    return (((a * (key & 0xFFFFFFFF) + b * (key >> 32) + c) & BITS64) >> 32) * g >> 32


def python_key(x):
    x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def other_packages(x, seed, g):
    """The hash of pure-ldp and multi-freq-ldpy, as they compute it."""
    return xxhash.xxh32(str(x).encode(), seed=int(seed)).intdigest() % g


# ---- hash families ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("g", [2, 3, 5, 64, hashing.MAX_BUCKETS])
def test_our_family_is_the_documented_formula(g):
    seeds = [0, 1, 2**32, 2**63 - 1, 123456789123456789]
    for seed, x in itertools.product(seeds, (0, 1, 2, 1023, 99_999)):
        assert hashing.buckets("ldpbayes", np.array([seed]), np.array([x]), g)[0] == python_bucket(seed, python_key(x), g)


def test_our_family_never_changes():
    """Frozen values: stored reports must decode for ever."""
    seeds = np.array([0, 1, 2**63 - 1])[:, None]
    assert hashing.buckets("ldpbayes", seeds, np.arange(8)[None, :], 10).tolist() == [
        [3, 2, 2, 5, 3, 2, 7, 0],
        [5, 1, 1, 3, 2, 6, 8, 2],
        [9, 6, 8, 1, 5, 5, 0, 6],
    ]
    assert hashing.label_keys(["", "Ü", "www.example.org"]).tolist() == [
        13020603013274838756,
        1870656727519825937,
        3772013724502832223,
    ]


def test_category_keys_are_distinct():
    assert np.unique(hashing.category_keys(np.arange(200_000))).size == 200_000


@each_row("length", range(1, 9))
def test_xxhash_family_equals_the_xxhash_package(length):
    rng = np.random.default_rng(length)
    seeds = np.concatenate([[0, 1, 2**32 - 1, 2**32, 2**63 - 1], rng.integers(2**63, size=20)])
    x = rng.integers(10 ** (length - 1) if length > 1 else 0, 10**length, size=seeds.size)
    ours = hashing.buckets("xxhash", seeds, x, 1000)
    assert ours.tolist() == [other_packages(v, s, 1000) for v, s in zip(x, seeds, strict=True)]


@each_row("family", hashing.FAMILIES)
@each_row("a, g", [(2, 2), (7, 3), (8, 2), (1203, 5)])
def test_supports_equal_direct_hashing(family, a, g):
    rng = np.random.default_rng(a + g)
    seeds, values = rng.integers(2**63, size=70), rng.integers(g, size=70)
    packed = hashing.supports(family, seeds, values, a, g)
    table = hashing.buckets(family, seeds[:, None], np.arange(a)[None, :], g)
    assert packed.shape == (70, -(-a // 8))
    assert np.array_equal(packed, np.packbits(table == values[:, None], axis=1))


@pytest.mark.parametrize("family", hashing.FAMILIES)
@pytest.mark.parametrize("g", [2, 3, 7])
def test_hashes_are_uniform_and_independent_in_pairs_and_triples(family, g):
    """Chi-square over all cells of pairs and triples of neighbouring categories; the bound is a p-value of 1e-6."""
    seeds = np.random.default_rng(5).integers(2**63, size=200_000)
    table = hashing.buckets(family, seeds[:, None], np.arange(6)[None, :], g)
    for chosen in [*itertools.combinations(range(6), 2), (0, 1, 2), (1, 2, 3), (0, 2, 4), (3, 4, 5)]:
        cells = np.ravel_multi_index([table[:, x] for x in chosen], (g,) * len(chosen))
        observed = np.bincount(cells, minlength=g ** len(chosen))
        assert stats.chisquare(observed).pvalue > 1e-6, chosen


def test_sequential_seeds_are_as_good():
    table = hashing.buckets("ldpbayes", np.arange(100_000)[:, None], np.arange(3)[None, :], 4)
    observed = np.bincount(np.ravel_multi_index(table.T, (4, 4, 4)), minlength=64)
    assert stats.chisquare(observed).pvalue > 1e-6


# ---- parameters ------------------------------------------------------------------------------------------------------
def test_defaults_are_olh_and_two_buckets_blh():
    assert LocalHashing(10, 1.0).buckets == round(math.e) + 1
    assert LocalHashing(10, 0.01).buckets == 2
    assert LocalHashing(10, 50.0).buckets == hashing.MAX_BUCKETS
    g, h = LocalHashing(10, 1.0, buckets=2).hit_rates
    assert (g, h) == (pytest.approx(math.e / (math.e + 1)), 0.5)


@each_row("epsilon", [0, -1.0, math.nan, math.inf, 800, "1", None, True])
def test_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(ArgumentError, match="epsilon must"):
        LocalHashing(4, epsilon)


@each_row("buckets", [1, 0, -2, 2.5, 2**20 + 1, True])
def test_buckets_out_of_range_are_refused(buckets):
    with pytest.raises(ArgumentError, match="buckets must"):
        LocalHashing(4, 1.0, buckets)


def test_unknown_family_is_refused():
    with pytest.raises(ArgumentError, match="family must"):
        LocalHashing(4, 1.0, family="md5")


def test_parameters_round_trip():
    protocol = LocalHashing(3, 1.2345678901234567, 5, "xxhash")
    assert make_protocol("local_hashing", ["a", "b", "c"], protocol.parameters()) == protocol


# ---- rows and decoding -----------------------------------------------------------------------------------------------
@each_row("family", hashing.FAMILIES)
@each_row("epsilon", [0.01, 1.0, 4.0, 20.0])
def test_rows_are_the_channel_given_the_seed(family, epsilon):
    protocol = LocalHashing(9, epsilon, 4, family)
    for seed in (0, 17, 2**63 - 1):
        channel = seed_channel(protocol, seed)
        hashed = hashing.buckets(family, np.full(9, seed), np.arange(9), 4)
        expected = np.where(hashed == np.arange(4)[:, None], np.exp(epsilon), 1.0) / (np.exp(epsilon) + 3)
        np.testing.assert_allclose(channel, expected, rtol=1e-13)
        np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=1e-13)
        assert np.log(channel.max(axis=1) / channel.min(axis=1)).max() <= epsilon * (1 + 1e-12)


def test_reports_of_pure_ldp_and_multi_freq_ldpy_decode():
    """Reports made by the packages' own recipe, pairs (value, seed), give the support counts their servers would."""
    rng = np.random.default_rng(11)
    a, epsilon = 12, 1.5
    g = round(math.exp(epsilon)) + 1
    keep = math.exp(epsilon) / (math.exp(epsilon) + g - 1) - 1 / (math.exp(epsilon) + g - 1)
    reports = []
    for x in rng.choice(a, size=300, p=np.arange(1, a + 1) / (a * (a + 1) / 2)):
        seed = int(rng.integers(2**63))
        y = other_packages(x, seed, g) if rng.random() <= keep else int(rng.integers(g))
        reports.append((y, seed))
    protocol = LocalHashing(a, epsilon, family="xxhash")
    assert protocol.buckets == g
    pairs = protocol.check_reports(np.array(reports)[:, ::-1])
    counts = protocol.rows(pairs, np.ones(300)).support_counts()
    expected = [sum(y == other_packages(x, seed, g) for y, seed in reports) for x in range(a)]
    assert counts.tolist() == expected
    p = math.exp(epsilon) / (math.exp(epsilon) + g - 1)
    np.testing.assert_allclose(
        protocol.oracle(protocol.rows(pairs, np.ones(300))), (np.array(expected) * g / (p * g - 1) - 300 / (p * g - 1)) / 300
    )


def test_literal_pairs_of_the_xxhash_family():
    """(value, seed) literals with their support by xxh32: nothing here depends on our code."""
    protocol = LocalHashing(10, 1.0, family="xxhash")
    pairs = np.array([[1234567890123456789, 2], [0, 0], [4294967296, 0]])
    dense = protocol.rows(pairs, np.ones(3)).dense() > 1
    expected = [[other_packages(x, seed, 4) == value for x in range(10)] for seed, value in pairs]
    assert dense.tolist() == expected
    assert dense[1].tolist() == dense[2].tolist()  # xxHash reads the 32 low bits of the seed


# ---- client ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("family", hashing.FAMILIES)
def test_oracle_is_unbiased_with_its_exact_variance(family):
    """4 standard errors on the mean, and the spread of the oracle over replications against the formula."""
    protocol = LocalHashing(5, 1.0, family=family)
    truth, repeats = np.array([400, 300, 200, 100, 0]), 300
    rng = np.random.default_rng(3)
    estimates = []
    for _ in range(repeats):
        reports, counts = protocol.simulate(truth, rng)
        estimates.append(protocol.oracle(protocol.rows(reports, counts)))
    variance = protocol.oracle_variance(truth / 1000, 1000)
    z = (np.mean(estimates, axis=0) - truth / 1000) / np.sqrt(variance / repeats)
    assert np.abs(z).max() < 4
    ratio = np.var(estimates, axis=0, ddof=1) / variance
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / repeats)


def test_privatize_one_follows_the_channel():
    protocol = LocalHashing(3, 1.0)
    reports = np.array([protocol.privatize_one(1) for _ in range(2000)])
    protocol.check_reports(reports)
    hit = protocol.rows(reports, np.ones(2000)).support_counts() / 2000
    g, h = protocol.hit_rates
    assert abs(hit[1] - g) < 5 * math.sqrt(g * (1 - g) / 2000)
    assert abs(hit[0] - h) < 5 * math.sqrt(h * (1 - h) / 2000)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 7.3, 50.0])
def test_realised_epsilon_is_not_above_the_one_asked(epsilon):
    protocol = LocalHashing(3, epsilon, 3)
    seed = next(s for s in range(100) if len({protocol.bucket(s, x) for x in range(3)}) > 1)
    channel = protocol.rational_channel(seed)
    assert all(sum(column) == 1 for column in zip(*channel, strict=True))
    ratio = largest_ratio(channel)
    assert Fraction(1) < ratio <= entropy.exp_below(epsilon)
    np.testing.assert_allclose(np.array(channel, dtype=float), seed_channel(protocol, seed), rtol=1e-12)


def test_exact_channels_of_a_million_buckets_are_refused_and_the_client_still_reports():
    protocol = LocalHashing(3, 20.0)
    with pytest.raises(InfeasibleError, match="too many"):
        protocol.rational_channel()
    protocol.check_reports(protocol.privatize_one(1)[None])


def test_values_out_of_range_do_not_wrap_around():
    protocol = LocalHashing(3, 1.0)
    for bad in (-1, 3):
        with pytest.raises(ArgumentError, match="from 0 to 2"):
            protocol.privatize([0, bad], np.random.default_rng(0))
        with pytest.raises(ArgumentError, match="from 0 to 2"):
            protocol.privatize_one(bad)


def test_inputs_are_left_alone():
    protocol = LocalHashing(3, 1.0)
    values, pairs = np.array([0, 1, 2]), np.array([[3, 1], [9, 0]])
    before = values.copy(), pairs.copy()
    protocol.privatize(values, np.random.default_rng(0))
    protocol.rows(protocol.check_reports(pairs), np.ones(2)).dense()
    assert np.array_equal(values, before[0]) and np.array_equal(pairs, before[1])


# ---- malformed reports -----------------------------------------------------------------------------------------------
@each_row(
    "reports, message",
    [
        ([[0, 4]], r"value 4.*0\.\.3"),
        ([[0, 1], [0, -1]], "line 1.*value -1"),
        ([[-1, 0]], "seed -1"),
        (np.array([[2**63, 0]], dtype=np.uint64), "seed 9223372036854775808"),
        ([[0, 1, 2]], r"\(m, 2\) array"),
        ([0, 1], r"\(m, 2\) array"),
        ([[0.0, 1.0]], r"\(m, 2\) array"),
        ([[True, False]], r"\(m, 2\) array"),
    ],
)
def test_malformed_reports_are_refused(reports, message):
    with pytest.raises(DataError, match=message):
        LocalHashing(3, 1.0, 4).check_reports(reports)


def test_text_round_trip():
    protocol = LocalHashing(3, 1.0, 4)
    pairs = np.array([[2**63 - 1, 3], [0, 0]])
    columns = protocol.format_reports(pairs, ["a", "b", "c"])
    assert columns == [["9223372036854775807", "0"], ["3", "0"]]
    assert np.array_equal(protocol.parse_reports(columns, ["a", "b", "c"]), pairs)


@each_row(
    "seed, value",
    [("1", "4"), ("-1", "0"), ("1.0", "0"), ("1_0", "0"), ("", "0"), ("x", "0"), ("²", "0"), ("9" * 5000, "0")],
)
def test_malformed_texts_name_their_row(seed, value):
    with pytest.raises(DataError) as caught:
        LocalHashing(3, 1.0, 4).parse_reports([["5", seed], ["0", value]], ["a", "b", "c"])
    assert caught.value.line == 1 and caught.value.field in ("seed", "value")


# ---- pools of seeds ------------------------------------------------------------------------------------------------
def test_a_pool_is_the_mixture_of_its_seeds():
    for family in hashing.FAMILIES:
        pool = PooledHashing(5, 1.2, 3, family, seeds=7)
        fresh = LocalHashing(5, 1.2, 3, family)
        expected = np.concatenate([seed_channel(fresh, seed) / 7 for seed in range(7)])
        np.testing.assert_allclose(pool.channel(), expected, rtol=1e-14)
        exact = pool.rational_channel()
        assert all(sum(column) == 1 for column in zip(*exact, strict=True))
        ratio = largest_ratio(exact)
        assert float(ratio) == pytest.approx(math.exp(1.2), rel=1e-12)
        assert ratio <= entropy.exp_below(1.2) * (1 + Fraction(1, 10**75))


def test_a_tally_of_a_pool_is_short_and_its_oracle_is_unbiased():
    pool, rng = PooledHashing(20, 1.0, seeds=64), np.random.default_rng(1)
    truth = rng.multinomial(200_000, rng.dirichlet(np.ones(20)))
    tally = Tally(pool, *pool.simulate(truth, rng))
    assert tally.n_reports == 200_000 and len(tally.reports) == pool.n_outputs == 64 * pool.buckets
    channel, every = pool.channel(), pool.all_reports()
    p = truth / truth.sum()
    found = pool.oracle(pool.rows(every, channel @ p))
    np.testing.assert_allclose(found, p, atol=1e-12)
    errors = (pool.oracle(tally.rows) - p) / np.sqrt(pool.oracle_variance(p, 200_000))
    assert np.abs(errors).max() < 4


def test_the_oracle_of_fresh_seeds_is_biased_on_a_pool():
    """At a million reports by several standard errors, though no count is wrong by more than a few per cent."""
    pool, fresh = PooledHashing(128, 1.0, seeds=4096), LocalHashing(128, 1.0)
    p = 1 / np.arange(1, 129) / (1 / np.arange(1, 129)).sum()
    supported = pool.report_law().expected(p)
    g, h = fresh.hit_rates
    bias = (supported - h) / (g - h) - p
    assert 3 < np.abs(bias / np.sqrt(fresh.oracle_variance(p, 1_000_000))).max() < 6
    law = PooledHashing(6, 1.0, seeds=5).report_law()  # few reports are listed
    assert law.kind == "list" and pool.report_law().kind == "supports"


@pytest.mark.parametrize(
    "epsilon, seeds, loss",
    [
        (1.0, 256, 0.199),
        pytest.param(1.0, 1024, 0.0425, marks=pytest.mark.calibrate),
        pytest.param(1.0, 4096, 0.01027, marks=pytest.mark.calibrate),
        pytest.param(1.0, 16384, 0.00255, marks=pytest.mark.calibrate),
        (4.0, 64, 0.0284),
    ],
)
def test_the_loss_of_a_pool_is_the_predicted_one(epsilon, seeds, loss):
    """Of 128 categories, in total asymptotic variance at uniform p, summed over every report."""
    fresh, pool = LocalHashing(128, epsilon), PooledHashing(128, epsilon, seeds=seeds)
    p = np.full(128, 1 / 128)
    exact = mle_risk(pool, p, 1)
    found = exact.value / mle_risk(fresh, p, 1).value - 1
    assert exact.method == "sum over reports" and found == pytest.approx(loss, rel=0.06)
    assert pool_loss(128, fresh.buckets, seeds) == pytest.approx(found, rel=0.35)


def test_the_advice_on_seeds():
    for a, g, loss in [(2, 2, 0.5), (128, 4, 0.01), (1000, 2, 0.001)]:
        seeds = seeds_for(a, g, loss)
        assert pool_loss(a, g, seeds) <= loss < pool_loss(a, g, seeds // 2)
    assert pool_loss(128, 2, 127) == math.inf


def test_binomial_intervals_are_not_used_on_a_pool():
    pool, rng = PooledHashing(4, 1.0, seeds=16), np.random.default_rng(2)
    tally = Tally(pool, *pool.simulate([400, 300, 200, 100], rng))
    assert pool.hit_rates is None and pool.binomials(tally.reports, tally.counts) is None
    assert confidence_intervals([tally])[0].method == "profile likelihood"
    assert confidence_intervals([Tally(LocalHashing(4, 1.0), tally.reports, tally.counts)])[0].method == "exact"


@each_row("seeds", [0, 2.5, "many", hashing.MAX_BUCKETS + 1, True])
def test_impossible_pools(seeds):
    with pytest.raises(ArgumentError, match=r"seeds must.*1"):
        PooledHashing(4, 1.0, seeds=seeds)


def test_pools_are_named_in_files_and_plans():
    pool = make_protocol("olh", list("abcd"), {"epsilon": 1.0, "seeds": 64})
    assert pool == PooledHashing(4, 1.0, seeds=64) and pool.parameters()["seeds"] == 64
    assert "seeds" not in LocalHashing(4, 1.0).parameters()
    with pytest.raises(DataError, match=r"seed 64.*0\.\.63"):
        pool.check_reports([[64, 0]])
    fresh, pooled = plan(n_categories=32, epsilon=1.0, n=1e5, protocols=["olh", "olh:seeds=256"])
    assert (fresh.protocol, pooled.protocol) == ("olh", "olh:seeds=256") and pooled.bytes_per_report == 2
    assert pooled.error / fresh.error - 1 == pytest.approx(pool_loss(32, 4, 256), rel=0.2)
    for text, expected in {
        "olh": ("olh", {}),
        "olh: buckets=4, family=xxhash": ("olh", {"buckets": 4, "family": "xxhash"}),
    }.items():
        assert parse_name(text) == expected
    with pytest.raises(ArgumentError, match="name:parameter=value"):
        parse_name("olh:seeds")


def test_a_large_pool_has_a_likelihood_but_no_oracle():
    pool = PooledHashing(5000, 1.0, seeds=4096)
    rng = np.random.default_rng(3)
    reports = pool.privatize(rng.integers(5000, size=50), rng)
    assert pool.decoder() is None and pool.report_law() is None and len(Tally(pool, reports).rows.counts) == 50


def test_buckets_of_many_users_are_those_of_each():
    rng = np.random.default_rng(3)
    seeds, categories = rng.integers(hashing.MAX_SEED, size=20_000), rng.integers(700, size=20_000)
    found = hashing.buckets("ldpbayes", seeds, categories, 5)
    np.testing.assert_array_equal(found, hashing.key_buckets(seeds, hashing.category_keys(categories), 5))
    np.testing.assert_array_equal(hashing.buckets("ldpbayes", seeds[:0], categories[:0], 5), [])
