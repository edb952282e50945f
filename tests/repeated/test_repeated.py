"""Histories: rows by enumeration over permanent answers and report sequences, levels, long data and what is refused."""

import decimal
import functools
import itertools
import math
import secrets

import numpy as np
import pytest
from tabulated import each_row

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.hashing import buckets
from ldpbayes.protocols import (
    GRR,
    LOLOHA,
    DBitFlip,
    LocalHashing,
    MemoizedGRR,
    MemoizedRappor,
    MemoizedUnary,
    Repeated,
    UnaryEncoding,
    make_protocol,
)
from ldpbayes.protocols.formats import join_cohorts
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.repeated.fresh import histories_of
from ldpbayes.repeated.loloha import optimal_buckets
from ldpbayes.repeated.memoized_grr import instant_level

A, T = 3, 4


def sequences(permanent, instant, times):
    """Return {sequence: P(sequence | x) for every x} by the sum over permanent answers, Q1[b, x] and Q2[y, b]."""
    found = {}
    for y in itertools.product(range(len(instant)), repeat=times):
        found[y] = np.prod([instant[one] for one in y], axis=0) @ permanent
    return found


def grr_matrix(size, epsilon):
    out = np.ones((size, size)) + math.expm1(epsilon) * np.eye(size)
    return out / out.sum(axis=0)


def bit_matrix(high, low):
    """Return P(bit | membership) with columns not held, held."""
    return np.array([[1 - low, 1 - high], [low, high]])


def assert_is(protocol, expected):
    """Hold the rows of every history to P by enumeration, {history as tuple: (a,)}, and their sum to one."""
    every = np.array(sorted(expected))
    rows = protocol.rows(every, np.ones(len(every)))
    found = np.exp(rows.log_constants)[:, None] * rows.dense()
    wanted = np.array([expected[tuple(row)] for row in every.tolist()])
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=0), 1, rtol=0, atol=1e-12)
    if protocol.n_outputs is not None:
        np.testing.assert_array_equal(np.unique(protocol.all_reports(), axis=0), np.unique(every, axis=0))


def add(table, key, value):
    table[key] = table.get(key, 0) + value


def test_memoized_grr_by_enumeration():
    protocol = MemoizedGRR.from_levels(A, 2.0, 1.0, times=T)
    expected = {}
    for y, chance in sequences(grr_matrix(A, 2.0), grr_matrix(A, protocol.epsilon_instant), T).items():
        add(expected, tuple(np.bincount(y, minlength=A).tolist()), chance)
    assert_is(protocol, expected)


@pytest.mark.parametrize("variant", ["l-sue", "l-osue", "l-oue", "l-soue"])
def test_memoized_unary_by_enumeration(variant):
    protocol = MemoizedUnary.from_levels(A, 2.0, 0.5, variant, T)
    sets = list(itertools.product((0, 1), repeat=A))
    permanent = np.ones((len(sets), A))
    instant = np.ones((len(sets), len(sets)))
    for i, one in enumerate(sets):
        for x, j in itertools.product(range(A), range(A)):
            permanent[i, x] *= bit_matrix(protocol.kappa, protocol.lam)[one[j], int(j == x)]
        for k, other in enumerate(sets):
            instant[i, k] = math.prod(bit_matrix(protocol.on, protocol.off)[one[j], other[j]] for j in range(A))
    expected = {}
    for y, chance in sequences(permanent, instant, T).items():
        add(expected, (T, *np.sum([sets[i] for i in y], axis=0).tolist()), chance)
    assert_is(protocol, expected)


@pytest.mark.parametrize("g", [2, 3])
def test_loloha_by_enumeration(g):
    protocol = LOLOHA.from_levels(A, 2.0, 1.0, g, T)
    table = sequences(grr_matrix(g, 2.0), grr_matrix(g, protocol.epsilon_instant), T)
    for seed in (3, 4, 5):
        hashed = buckets("ldpbayes", np.full(A, seed), np.arange(A), g)
        expected = {}
        for y, chance in table.items():
            add(expected, (seed, *np.bincount(y, minlength=g).tolist()), chance[hashed])
        assert_is(protocol, expected)


@pytest.mark.parametrize("a, b, d, flip", [(3, 3, 2, 0.2), (3, 3, 1, 0.0), (4, 2, 1, 0.1), (3, 3, 3, 0.0)])
def test_d_bit_flip_by_enumeration(a, b, d, flip):
    protocol = DBitFlip(a, 2.0, b, d, flip, T)
    kappa = math.exp(1) / (1 + math.exp(1))
    expected = {}
    for subset in itertools.combinations(range(b), d):
        for members in itertools.product((0, 1), repeat=d):
            for reports in itertools.product(itertools.product((0, 1), repeat=d), repeat=T):
                shown = math.prod(flip if y != z else 1 - flip for one in reports for y, z in zip(one, members, strict=True))
                if shown == 0:
                    continue
                chance = np.full(a, shown / math.comb(b, d))
                for v, z in zip(subset, members, strict=True):
                    held = np.arange(a) * b // a == v
                    chance = chance * np.where(held == bool(z), kappa, 1 - kappa)
                codes = np.zeros(b, dtype=int)
                codes[list(subset)] = 1 + np.sum(reports, axis=0)
                add(expected, (T, *codes.tolist()), chance)
    assert_is(protocol, expected)


@pytest.mark.parametrize("hashes", [1, 2])
def test_memoized_rappor_by_enumeration(hashes):
    rappor = Rappor(A, 0.2, 0.9, 0.4, 3, 2, hashes, candidates=("a", "b", "c"))
    protocol, sets = MemoizedRappor(rappor, T), list(itertools.product((0, 1), repeat=3))
    expected = {}
    instant = np.array(
        [[math.prod(bit_matrix(0.9, 0.2)[i, j] for i, j in zip(one, other, strict=True)) for other in sets] for one in sets]
    )
    for c in range(2):
        filters = rappor.filters(c).astype(int)
        permanent = np.array(
            [[math.prod(bit_matrix(0.8, 0.2)[one[j], filters[j, x]] for j in range(3)) for x in range(A)] for one in sets]
        )
        for y, chance in sequences(permanent, instant, T).items():
            add(expected, (c, T, *np.sum([sets[i] for i in y], axis=0).tolist()), chance / 2)
    assert_is(protocol, expected)


@pytest.mark.parametrize("base", [GRR(A, 1.0), UnaryEncoding.symmetric(A, 1.0)], ids=["grr", "sue"])
def test_fresh_repetitions_by_enumeration(base):
    protocol = Repeated(base, T)
    channel, every, expected = base.channel(), base.all_reports(), {}
    paths = np.array(list(itertools.product(range(len(every)), repeat=T)))
    _, histories = histories_of(base, every[paths.ravel()], np.repeat(np.arange(len(paths)), T))
    for history, chance in zip(histories.tolist(), channel[paths].prod(axis=1), strict=True):
        add(expected, tuple(history), chance)
    found = np.array(sorted(expected), dtype=np.uint8)
    rows = protocol.rows(found, np.ones(len(found)))
    chances = np.exp(rows.log_constants)[:, None] * rows.dense()
    np.testing.assert_allclose(chances, [expected[tuple(row)] for row in found.tolist()], rtol=1e-12)
    np.testing.assert_allclose(chances.sum(axis=0), 1, rtol=0, atol=1e-12)


def test_rappor_with_a_bit_for_each_category_is_memoized_unary():
    unary = MemoizedUnary.rappor(A, 0.2, 0.9, 0.4, T)
    rappor = MemoizedRappor(Rappor.direct(A, 0.2, 0.9, 0.4), T)
    one, other = (protocol.rows(protocol.all_reports(), np.ones(125)).dense() for protocol in (unary, rappor))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    assert unary.spent(3) == pytest.approx(rappor.spent(3), rel=1e-12)


def test_one_report_is_a_report_of_the_single_protocol():
    for protocol in (MemoizedGRR(A, 2.0, 1.5, 1), MemoizedUnary.from_levels(A, 2.0, 0.5, "l-sue", 1)):
        single = protocol.single
        reports = single.all_reports()
        histories = protocol.gather(reports, np.arange(len(reports)), range(len(reports)))
        rows = protocol.rows(histories, np.ones(len(reports)))
        np.testing.assert_allclose(np.exp(rows.log_constants)[:, None] * rows.dense(), single.channel(), rtol=1e-12)


def test_different_numbers_of_reports_are_one_channel():
    protocol = MemoizedGRR(A, 2.0, 1.5, ((1, 2), (2, 6)))
    channel = protocol.channel()
    np.testing.assert_allclose(channel.sum(axis=0), 1, atol=1e-12)
    lengths = protocol.lengths(protocol.all_reports())
    np.testing.assert_allclose(channel[lengths == 2].sum(axis=0), 0.75, rtol=1e-12)
    exact = np.array(protocol.rational_channel(), dtype=float)
    np.testing.assert_allclose(exact, channel, rtol=1e-12)
    every, decoder = protocol.all_reports(), protocol.decoder()
    scores = np.stack([decoder.oracle(protocol.rows(one[None], np.ones(1))) for one in every])
    np.testing.assert_allclose(channel.T @ scores, np.eye(A), atol=1e-12)
    p = np.array([0.5, 0.3, 0.2])
    second, mean = channel.T @ scores**2, channel.T @ scores
    np.testing.assert_allclose(decoder.variance(p, 9), p @ (second - mean**2) / 9, rtol=1e-10)
    np.testing.assert_allclose(decoder.variance(p, 9, "distribution"), (p @ second - (p @ mean) ** 2) / 9, rtol=1e-10)


@pytest.mark.parametrize("times", [1, 2, 7])
def test_spent_epsilon_is_the_level_of_the_histories_and_below_its_bounds(times):
    for protocol in (
        MemoizedGRR.from_levels(A, 2.0, 1.0),
        LOLOHA.from_levels(A, 2.0, 1.0, 3, rule="exact"),
        MemoizedUnary.from_levels(A, 2.0, 1.0, "l-osue"),
        DBitFlip(A, 2.0, 3, 2, 0.2),
    ):
        spent = protocol.spent(times)
        assert spent <= min(times * protocol.epsilon_one, protocol.epsilon_infinity) * (1 + 1e-12)
        assert protocol.epsilon == pytest.approx(2.0, rel=1e-12) and protocol.spent(10**6) == pytest.approx(2.0)
        assert protocol.spent(times + 1) > spent
    assert Repeated(GRR(A, 0.3)).spent(times) == pytest.approx(times * 0.3)


def test_published_levels_bound_those_of_one_report():
    """Arcolezi et al.: e^{ε_1} = (p1 p2 + q1 q2)/(p1 q2 + q1 p2), exact for two symbols only."""
    for size in (2, 3, 10):
        ratio = math.exp(instant_level(size, 2.0, 1.0, "published"))
        p1, q1 = (grr_matrix(size, 2.0)[0, k] for k in (0, 1))
        p2, q2 = (grr_matrix(size, math.log(ratio))[0, k] for k in (0, 1))
        assert (p1 * p2 + q1 * q2) / (p1 * q2 + q1 * p2) == pytest.approx(math.e, rel=1e-12)
        one = MemoizedGRR.from_levels(size, 2.0, 1.0, rule="published").epsilon_one
        assert one == pytest.approx(1.0, rel=1e-12) if size == 2 else one < 1
        assert MemoizedGRR.from_levels(size, 2.0, 1.0).epsilon_one == pytest.approx(1.0, rel=1e-12)


@each_row(
    "infinity, one",
    [(2.0, 1.0), (1.5, 0.4), (0.7, 0.69), (8.0, 3.3), (50.0, 20.0), (math.nextafter(50, 0), 45.0), (2.0, 1e-9)]
    + [(number / 7, number / 11) for number in range(1, 20)],
)
def test_no_report_of_a_permanent_answer_costs_more_than_was_asked_for(infinity, one):
    """The likelihood ratios are exact: ε_1 and ε_∞ bound them to the last digit, as floats are rounded."""
    made = [MemoizedGRR.from_levels(a, infinity, one, rule=rule) for a in (2, A) for rule in ("exact", "published")]
    made += [LOLOHA.from_levels(9, infinity, one), LOLOHA.from_levels(9, infinity, one, buckets=3, rule="exact")]
    made += [MemoizedUnary.from_levels(A, infinity, one, variant) for variant in ("l-sue", "l-osue")]
    with decimal.localcontext(prec=5):  # arithmetic that the caller has asked for elsewhere
        for protocol in made:
            assert protocol.spent(1) <= one and protocol.spent(40) <= infinity, protocol
            assert protocol.epsilon_infinity <= infinity, protocol
            if not isinstance(protocol, LOLOHA) and protocol != made[3]:
                assert protocol.spent(1) == pytest.approx(one, rel=1e-6)


def test_levels_that_almost_agree_are_served_or_refused():
    for rule in ("exact", "published"):
        near = MemoizedGRR.from_levels(A, 1.0000001e-9, 1e-9, rule=rule)
        assert 0 < near.spent(1) <= 1e-9
        with pytest.raises(ArgumentError, match="clearly below"):
            MemoizedGRR.from_levels(A, 50.0, math.nextafter(50, 0), rule=rule)
    assert MemoizedGRR(2, 50.0, 50.0).epsilon_one == pytest.approx(50 - math.log(2))


@pytest.mark.parametrize("infinity, one", [(1.0, 0.5), (3.0, 1.5), (5.0, 3.0), (5.0, 4.5)])
def test_optimal_buckets_are_those_of_the_paper_and_of_a_search(infinity, one):
    first, second = math.exp(infinity), math.exp(instant_level(2, infinity, one, "published"))
    best = min(range(2, 200), key=lambda g: ((first + g - 1) * (second + g - 1)) ** 2 / (g - 1))
    e, f = math.exp(infinity), math.exp(one)
    root = math.sqrt(e**4 - 14 * e**2 + 12 * e * f * (1 - e * f) + 12 * e**3 * f + 1)
    paper = 1 + max(1, round((1 - e**2 + root) / (6 * (e - f))))
    assert optimal_buckets(infinity, one) == paper and abs(best - paper) <= 1


# ---- long data ---------------------------------------------------------------------------------------------------------
def test_tally_of_users_has_a_history_each_and_the_law_of_their_lengths():
    tally = Tally(MemoizedGRR(A, 2.0, 1.5), [0, 0, 1, 2, 0], user=[7, 7, 3, 7, 3])
    assert tally.n_reports == 2 and tally.protocol.times == ((2, 1), (3, 1))
    assert tally.reports.tolist() == [[1, 1, 0], [2, 0, 1]]
    fresh = Tally(GRR(A, 1.0), [0, 0, 1], user=["b", "b", "a"])
    assert fresh.protocol == Repeated(GRR(A, 1.0), ((1, 1), (2, 1)))
    rows = fresh.rows.dense() / fresh.rows.dense().max(axis=1, keepdims=True)
    np.testing.assert_allclose(rows, [[math.exp(-1), 1, math.exp(-1)], [1, math.exp(-2), math.exp(-2)]])


WITH_BITS_OR_SEEDS = [
    MemoizedUnary.from_levels(A, 2.0, 0.5, "l-osue"),
    LOLOHA.from_levels(A, 2.0, 0.5),
    DBitFlip(A, 2.0, 3, 2, 0.1),
    MemoizedRappor(Rappor.direct(A, 0.2, 0.9, 0.4)),
]


@each_row("protocol", [*WITH_BITS_OR_SEEDS, MemoizedGRR.from_levels(A, 2.0, 0.5)])
def test_a_device_that_keeps_its_permanent_answer_sends_what_the_rows_say(protocol):
    """Only GRR and RAPPOR could report twice; the permanent stage of LOLOHA took a value for its bucket."""
    n, times = 800, 5
    permanent = [protocol.permanent_one(1, secrets.token_bytes(32)) for _ in range(n)]
    reports = np.array([protocol.instantaneous_one(answer) for answer in permanent for _ in range(times)])
    tally = Tally(protocol, reports, user=np.repeat(np.arange(n), times))
    supports = np.repeat(protocol.supported(tally.reports), tally.counts, axis=0) / times
    law = protocol.rates()
    for category, held in enumerate((law.other, law.true, law.other)):
        variance = law.noise(held, np.array([times]), np.ones(1))
        assert abs(supports[:, category].mean() - law.first(held)) < 5.5 * math.sqrt(variance / n)
        assert abs(supports[:, category].var() / variance - 1) < 0.35
    with pytest.raises(ArgumentError, match="is private"):
        protocol.permanent_one(A, bytes(32))


@pytest.mark.parametrize("protocol", WITH_BITS_OR_SEEDS, ids=lambda protocol: protocol.name)
def test_histories_gathered_from_single_reports_have_the_law_of_the_client(protocol):
    """The row of gathered reports is the product over t summed over the permanent answer, by the rows of one more report."""
    rng, n = np.random.default_rng(3), 30
    make = make_protocol(protocol.name, ("a", "b", "c"), {**protocol.parameters(), "times": 1})
    first = make.privatize(rng.integers(A, size=n), rng)
    if protocol.name == "loloha":
        single = np.column_stack([first[:, 0], first[:, 1:].argmax(axis=1)])
    elif protocol.name == "d_bit_flip":
        single = first
    else:
        single = np.packbits(first[:, -A:].astype(np.uint8), axis=1)
        single = join_cohorts(first[:, 0], single) if protocol.name == "memoized_rappor" else single
    tally = Tally(protocol, np.concatenate([single, single]), user=np.tile(np.arange(n), 2))
    twice = first.copy()
    twice[:, 1 if protocol.name == "loloha" else 0 :] *= 2
    if protocol.name == "memoized_rappor":
        twice[:, 0] = first[:, 0]
    if protocol.name == "d_bit_flip":
        twice[:, 1:] = np.where(first[:, 1:] == 2, 3, first[:, 1:])
    assert tally == Tally(tally.protocol, twice)


def test_tallies_of_users_add_up_with_their_lengths():
    one = Tally(GRR(A, 1.0), [0, 1], user=[1, 2])
    other = Tally(GRR(A, 1.0), [0, 0, 2], user=[1, 1, 1])
    both = one + other
    assert both.n_reports == 3 and sorted(both.protocol.lengths(both.reports).tolist()) == [1, 1, 3]


@each_row(
    "protocol, reports, user, message",
    [
        (
            MemoizedGRR(A, 2.0, 1.5, 2),
            [0, 1, 0],
            [5, 5, 5],
            r"user 5.*3 reports.*1\.\d+",
        ),
        (MemoizedGRR(A, 2.0, 1.5), [0, 3], ["x", "x"], r"report 3.*0\.\.2"),
        (MemoizedGRR(A, 2.0, 1.5), [0, 1], ["x", None], "no user"),
        (MemoizedGRR(A, 2.0, 1.5), [0, 1], [1.0, math.nan], "no user"),
        (MemoizedGRR(A, 2.0, 1.5), [0, 1], ["x", " "], "no user"),
        (MemoizedGRR(A, 2.0, 1.5), [0, 1], np.array(["2026-11-22", "NaT"], dtype="datetime64[D]"), "no user"),
        (LOLOHA(A, 2.0, 1.5, 2), [[4, 0], [5, 0]], ["x", "x"], "'x'.*two seeds.*5.*4"),
        (DBitFlip(A, 2.0, 3, 1), [[1, 1, 0, 0], [1, 0, 1, 0]], ["x", "x"], "'x'.*different buckets"),
        (DBitFlip(A, 2.0, 3, 1), [[1, 1, 0, 0], [1, 2, 0, 0]], ["x", "x"], "'x'.*memoized bit"),
    ],
)
def test_contradictory_users_are_refused_in_one_sentence(protocol, reports, user, message):
    with pytest.raises(DataError, match=message):
        Tally(protocol, np.array(reports), user=user)


def test_counts_and_users_do_not_go_together_and_users_match_reports():
    with pytest.raises(ArgumentError, match=r"counts must.*left"):
        Tally(GRR(A, 1.0), [0, 1], [1, 2], user=[1, 2])
    with pytest.raises(ArgumentError, match=r"user must.*2"):
        Tally(GRR(A, 1.0), [0, 1], user=[1, 2, 3])


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: MemoizedGRR.from_levels(A, 1.0, 1.0), "epsilon_one must"),
        (lambda: MemoizedUnary.from_levels(A, 2.0, 1.9, "l-oue"), "l-oue.*reach"),
        (lambda: MemoizedUnary.from_levels(A, 2.0, 1.0, "l-x"), "variant"),
        (lambda: DBitFlip(A, 2.0, 4, 1), "buckets"),
        (lambda: DBitFlip(A, 2.0, 3, 1, 0.5), "flip must.*1"),
        (lambda: Repeated(MemoizedGRR(A, 2.0, 1.0)), "histories already"),
        (lambda: MemoizedRappor(GRR(A, 1.0)), "a Rappor"),
        (lambda: MemoizedGRR(A, 2.0, 1.0, 0), "times"),
        (lambda: MemoizedGRR(A, 2.0, 1.0, [(1, 1), (1, 2)]), "every number.*once"),
        (lambda: MemoizedGRR(A, 2.0, 1.0).privatize([0], np.random.default_rng(0)), "times must"),
        (lambda: make_protocol("repeated", ("a", "b"), {"of": {"epsilon": 1.0}}), "table.*protocol"),
    ],
)
def test_impossible_parameters_are_refused(build, message):
    with pytest.raises(ArgumentError, match=message):
        build()


def test_files_may_state_levels():
    assert make_protocol("memoized_grr", ("a", "b", "c"), {"epsilon_infinity": 2.0, "epsilon_one": 1.0}) == (
        MemoizedGRR.from_levels(3, 2.0, 1.0)
    )
    stated = {"epsilon_infinity": 2.0, "epsilon_one": 0.5, "variant": "l-sue", "times": [[1, 4], [2, 5]]}
    assert make_protocol("memoized_unary", ("a", "b", "c"), stated).times == ((1, 4), (2, 5))
    assert make_protocol("loloha", ("a", "b", "c"), {"epsilon_infinity": 3.0, "epsilon_one": 1.5}).buckets == 4
    of = {"protocol": "oue", "epsilon": 1.0}
    assert make_protocol("repeated", ("a", "b", "c"), {"of": of, "times": 2}) == Repeated(UnaryEncoding.optimized(3, 1.0), 2)


def test_long_fresh_histories_of_hashes_equal_products_of_single_rows():
    rng, base = np.random.default_rng(2), LocalHashing(6, 1.0)
    user = rng.integers(40, size=300)
    reports = base.privatize(rng.integers(6, size=300), rng)
    protocol, histories = histories_of(base, reports, user)
    dense = protocol.rows(histories, np.ones(len(histories))).dense()
    for i, name in enumerate(np.unique(user)):
        product = base.rows(reports[user == name], np.ones((user == name).sum())).dense().prod(axis=0)
        np.testing.assert_allclose(dense[i], product / product.max(), rtol=1e-12)
    assert Collection([f"c{x}" for x in range(6)], Tally(base, reports, user=user)).n_reports == len(histories)


def test_a_changing_value_costs_what_is_stated_where_both_change_together_and_more_where_one_does():
    protocol = MemoizedGRR.from_levels(2, 1.0, 0.9)
    permanent, instant = protocol.permanent.channel(), protocol.instantaneous.channel()

    def law(values):
        """P(every sequence of reports) of a user with these values, a permanent answer for each."""
        out = 0.0
        for answers in itertools.product(range(2), repeat=2):
            reports = functools.reduce(np.multiply.outer, [instant[:, answers[x]] for x in values])
            out += permanent[answers[0], 0] * permanent[answers[1], 1] * reports
        return out

    laws = {values: law(values) for values in itertools.product(range(2), repeat=6)}
    together = max(np.log(laws[x] / laws[tuple(1 - y for y in x)]).max() for x in laws)
    assert 1.999 < together <= protocol.epsilon_changing
    assert np.log(laws[0, 0, 0, 1, 1, 1] / laws[0, 0, 0, 0, 0, 0]).max() == pytest.approx(8.644, abs=1e-3)
