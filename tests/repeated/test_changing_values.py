"""Users whose value changes: what a device keeps, what all of it costs, and what the server says of their reports."""

import itertools
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import entropy, hashing
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols import (
    GRR,
    LOLOHA,
    CohortRR,
    DBitFlip,
    LocalHashing,
    MemoizedGRR,
    MemoizedRappor,
    MemoizedUnary,
    Rappor,
    Repeated,
)
from ldpbayes.protocols.base import log_above
from ldpbayes.repeated.spending import spent

KEY = bytes(range(32))
FILTERS = Rappor(3, 0.25, 0.75, 0.5, 8, 4, 2, candidates=("a", "b", "c"))
DEVICES = [
    MemoizedGRR.from_levels(3, 2.0, 1.0),
    MemoizedUnary.from_levels(3, 2.0, 1.0),
    LOLOHA.from_levels(30, 2.0, 1.0),
    DBitFlip(30, 2.0, 5, 2, 0.1),
    MemoizedRappor(FILTERS),
]


def kept(protocol, value, key=KEY):
    return tuple(np.ravel(protocol.permanent_one(value, key)).tolist())


# ---- what a device keeps -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "protocol, answers",
    list(
        zip(
            DEVICES,
            [
                [(0,), (1,), (1,)],
                [(0, 1, 0), (0, 1, 1), (0, 0, 0)],
                [(1240298587991491283, 2), (1240298587991491283, 2), (1240298587991491283, 0)],
                [(1, 1, 0, 1, 0, 0)] * 3,
                [(0, 0, 0, 1, 25), (0, 0, 0, 1, 89), (0, 0, 0, 1, 101)],
            ],
            strict=True,
        )
    ),
    ids=lambda case: getattr(case, "name", ""),
)
def test_a_key_gives_the_same_permanent_answers_in_every_version(protocol, answers):
    """A device that is updated must not draw its noise anew."""
    assert [kept(protocol, value) for value in range(3)] == answers


@pytest.mark.parametrize("protocol", DEVICES, ids=lambda protocol: protocol.name)
def test_what_is_public_is_kept_and_answers_hang_on_the_bucket_alone(protocol):
    rng = np.random.default_rng(1)
    for _ in range(20):
        key = rng.bytes(32)
        answers = {value: kept(protocol, value, key) for value in range(protocol.n_categories)}
        if protocol.name == "loloha":
            (seed,) = {answer[0] for answer in answers.values()}
            buckets = hashing.buckets(protocol.family, np.array([seed]), np.arange(30), protocol.buckets)
            assert len({(bucket, answers[x]) for x, bucket in enumerate(buckets)}) == len(set(buckets.tolist()))
        elif protocol.name == "d_bit_flip":
            (sampled,) = {tuple(np.flatnonzero(answer[1:]).tolist()) for answer in answers.values()}
            states = Counter((b if b in sampled else None, answers[x]) for x, b in enumerate(protocol.bucket_of.tolist()))
            assert len(states) == 3
        elif protocol.name == "memoized_rappor":
            assert len({answer[:4] for answer in answers.values()}) == 1
            assert kept(protocol, 2, key) == tuple(protocol.protocol.permanent_label("c", key).tolist())


def test_different_keys_values_and_designs_have_independent_noise():
    """P-values of 8 x 8 tables of pairs: of two values under one key, and of one value under two designs."""
    one, other = MemoizedGRR.from_levels(8, 0.5, 0.2), MemoizedGRR.from_levels(8, 0.6, 0.2)
    keys = [bytes(row) for row in np.random.default_rng(2).integers(256, size=(6000, 32), dtype=np.uint8)]
    for first, second in [((one, 0), (one, 1)), ((one, 0), (other, 0))]:
        pairs = np.array([[p.permanent_one(x, key) for p, x in (first, second)] for key in keys])
        expected = len(keys) * np.outer(*(p.permanent.channel()[:, x] for p, x in (first, second)))
        observed = np.bincount(pairs @ [8, 1], minlength=64).reshape(8, 8)
        assert ((observed - expected) ** 2 / expected).sum() < 120  # of 63 degrees of freedom: p = 2e-5


@each_row("key", [None, "k" * 32, b"short", bytearray(32), 7])
def test_keys_that_are_none_are_refused_and_not_quoted(key):
    for protocol in (*DEVICES, FILTERS):
        with pytest.raises(ArgumentError, match=r"key must.*32.*shown"):
            protocol.permanent_one(0, key)


def test_private_labels_are_not_quoted():
    for call in (
        lambda x: FILTERS.permanent_label(x, KEY),
        CohortRR(3, 1.0, 3, 8, "label", ("a", "b", "c")).privatize_label,
    ):
        for label in (31337, b"31337", "31337\ud800"):
            with pytest.raises(ArgumentError, match=r"label must.*private") as caught:
                call(label)
            assert "31337" not in str(caught.value)


@pytest.mark.parametrize("protocol", DEVICES, ids=lambda protocol: protocol.name)
def test_the_draws_from_a_key_do_not_depend_on_the_value_or_the_outcome(protocol, monkeypatch):
    made = []
    draw = entropy.Keyed.randbits
    monkeypatch.setattr(
        entropy.Keyed, "randbits", lambda self, bits: made.append((len(self.message), bits)) or draw(self, bits)
    )
    seen = set()
    for number, value in itertools.product(range(20), range(protocol.n_categories)):
        made.clear()
        protocol.permanent_one(value, number.to_bytes(32, "big"))
        seen.add(tuple(made))
    assert len(seen) == 1 and seen.pop()


# ---- what all of it costs ----------------------------------------------------------------------------------------------
def law(protocol, values, monkeypatch):
    """Return P(permanent answers at all times) exactly, of keys that are ideal random functions."""

    def client():
        source, drawn = entropy._source.get(), {}

        class Ideal:
            def __init__(self, _, message):
                self.stream, self.made = drawn.setdefault(message, []), 0

            def randbits(self, bits):
                if self.made == len(self.stream):
                    self.stream.append(source.randbits(bits))
                self.made += 1
                return self.stream[self.made - 1]

        monkeypatch.setattr(entropy, "Keyed", Ideal)
        return tuple(kept(protocol, value) for value in values)

    return entropy.outcomes(client)


def pattern(values, states):
    """Return at which times the permanent answer is the same."""
    order = {}
    return tuple(order.setdefault(states[value], len(order)) for value in values)


BY_ENUMERATION = [  # protocol, state of every value, times
    (MemoizedGRR(3, 1.0, 0.5), (0, 1, 2), 3),
    (LOLOHA(3, 1.0, 0.5, 2), (0, 1, 1), 2),
    (MemoizedUnary.rappor(2, 0.25, 0.75, 0.5), (0, 1), 2),
    (MemoizedRappor(Rappor.direct(2, 0.25, 0.75, 0.5)), (0, 1), 2),
    (DBitFlip(3, 1.0, 3, 1), None, 2),
    (DBitFlip(3, 1.0, 2, 2), (0, 0, 1), 2),
    (DBitFlip(3, 1.0, 3, 2), None, 3),
]


@pytest.mark.parametrize("protocol, states, times", BY_ENUMERATION, ids=lambda case: getattr(case, "name", ""))
def test_a_whole_history_of_changing_values_keeps_its_level(protocol, states, times, monkeypatch):
    """Any number of reports says at most what the permanent answers are, of all pairs of users who change together.

    Fresh noise for a bucket that had an answer (the state of two values that share it) would exceed it.
    """
    monkeypatch.setattr(LOLOHA, "_hashed_one", lambda self, value: (5, states[value]))
    orders = itertools.product(range(protocol.n_categories), repeat=times)
    laws = {values: law(protocol, values, monkeypatch) for values in orders if times < 3 or len(set(values)) != 2}
    worst = Fraction(1)
    for (one, p), (other, q) in itertools.permutations(laws.items(), 2):
        places = [None] if states else itertools.combinations(range(3), protocol.sampled)
        for place in places:  # which buckets are sampled is public
            of = states or tuple(x if x in place else None for x in range(3))
            if pattern(one, of) != pattern(other, of):
                continue
            shown = [y for y in p if place is None or tuple(np.flatnonzero(y[0][1:])) == place]
            worst = max(worst, *(p[y] / q[y] for y in shown))
    assert log_above(worst) == pytest.approx(protocol.epsilon_changing, rel=1e-9)
    assert worst <= entropy.exp_below(protocol.epsilon_changing) * (1 + Fraction(1, 10**14))


def test_one_sampled_bucket_costs_half_however_many_reports():
    protocol = DBitFlip(4, 2.0, 4, 1, 0.25)
    assert protocol.epsilon == protocol.spent(5000) == 1.0 and 0.99 < protocol.spent(99) <= 1.0
    assert protocol.epsilon_changing == 2.0
    tally = lb.Tally(protocol, [[1, 1, 0, 0, 0]] * 2, user=["x", "x"])
    assert spent([tally])["epsilon_spent_bound"] == 1.0
    without = DBitFlip(3, 2.0, 3, 1, times=2)
    assert np.log(without.channel() / without.channel()[:, :1]).max() == pytest.approx(1.0, rel=1e-12)
    assert without.epsilon == pytest.approx(1.0, rel=1e-12) and without.epsilon <= 1.0


# ---- what the server says ----------------------------------------------------------------------------------------------
SERVERS = [
    MemoizedGRR.from_levels(4, 2.0, 1.0),
    MemoizedUnary.from_levels(4, 2.0, 1.0),
    LOLOHA.from_levels(4, 3.0, 1.5),
    DBitFlip(12, 4.0, 4, 2, 0.1),
    MemoizedRappor(Rappor(4, 0.25, 0.75, 0.25, 16, 4, 2, candidates=tuple("abcd"))),
    Repeated(GRR(4, 2.0)),
]


@pytest.mark.calibrated("memoized_unary", "d_bit_flip")
@pytest.mark.parametrize("protocol", SERVERS, ids=lambda protocol: protocol.name)
def test_users_whose_value_changed_do_not_pass_for_others(protocol, monkeypatch):
    """Their histories were fitted without a word: 1.0 of LOLOHA's users changed, and "the reports fit the design"."""
    source, rng, n = random.Random(3), np.random.default_rng(3), 250
    monkeypatch.setattr(entropy, "secrets", type("Seeded", (), {"randbits": source.getrandbits}))
    values = rng.choice(4, size=(n, 2), p=[0.4, 0.3, 0.2, 0.1]) * (protocol.n_categories // 4)

    def sent(first, second, key):
        if not protocol.memoized:
            return [protocol.protocol.privatize_one(value) for value in [first] * 3 + [second] * 3]
        return [protocol.instantaneous_one(protocol.permanent_one(x, key)) for x in [first] * 3 + [second] * 3]

    keys, user = [rng.bytes(32) for _ in range(n)], np.repeat(np.arange(n), 6)
    for column, verdict in ((0, False), (1, True)):
        reports = [y for pair, key in zip(values, keys, strict=True) for y in sent(pair[0], pair[column], key)]
        fitness = lb.check(lb.Tally(protocol, np.array(reports), user=user), random_seed=1)
        assert (fitness.p_value < 1e-3) == verdict
        if verdict:
            assert "user's reports" in fitness.verdict


def test_noise_that_nobody_saw_is_no_evidence():
    """300 equal reports of little noise are honest: the mean of a constant was infinitely far from its expectation."""
    rng = np.random.default_rng(5)
    for protocol in (MemoizedGRR(3, 2.0, 9.0, times=3), Repeated(GRR(3, 9.0), times=2), LocalHashing(2, 20.0, 1000)):
        tally = lb.Tally(protocol, protocol.privatize(rng.integers(2, size=300), rng))
        assert not lb.check(tally, random_seed=1).flagged


def test_a_constant_history_has_no_agreement_to_test():
    once = MemoizedGRR.from_levels(3, 2.0, 1.0, times=1)
    assert once.ancillaries()[0].values(np.eye(3, dtype=int)).tolist() == [0.0] * 3
