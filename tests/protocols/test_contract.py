"""What every protocol promises, over the table of tests/support/cases.py."""

import dataclasses
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from cases import CASES, full_rank, has_channel
from hypothesis import given, settings
from hypothesis import strategies as st
from products import assert_same_products
from scipy.stats import chi2
from tabulated import each_row

from ldpbayes import entropy
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.likelihoods import two_level
from ldpbayes.protocols import COMBINATORS, DESIGNS, PROTOCOLS, make_protocol
from ldpbayes.protocols.base import largest_ratio
from ldpbayes.sources import read_collection, write_collection

pytestmark = pytest.mark.long

LEVELS = (0.01, 0.7, 3.0)
every_case = each_row("case", CASES)
item_of_each_case = pytest.mark.parametrize("case", CASES, ids=str)  # what takes longer, or is sampled
# Cases whose reports can be listed: the client of the others is held to the oracle, by simulation.
LISTED = [case for case in CASES if has_channel(case.build(case.categories[-1], 1.3))]
listed_case = each_row("case", LISTED)
# Designs take probabilities: some of what breaks an ε is a fine probability.
with_epsilon = each_row("case", [case for case in CASES if case.takes_epsilon])


def sizes_and_levels(case):
    """Return every protocol of the case at its sizes and three levels."""
    return [case.build(a, epsilon) for a in case.categories for epsilon in LEVELS]


def labels(protocol):
    return tuple(f"c{x}" for x in range(protocol.n_categories))


def some_reports(protocol, n=200, seed=5):
    rng = np.random.default_rng(seed)
    return protocol.privatize(rng.integers(protocol.n_categories, size=n), rng)


@pytest.fixture
def seeded_entropy(monkeypatch):
    """Replace the operating system's entropy by a seeded source, so that a statistical test cannot fail by chance."""
    source = random.Random(20)

    class Seeded:
        randbits, randbelow = source.getrandbits, source.randrange

    monkeypatch.setattr(entropy, "secrets", Seeded)


def test_only_reports_with_a_fresh_hash_cannot_be_listed():
    """Else a channel would leave the tests of channels, and nobody would see it."""
    assert {str(case) for case in CASES} - {str(case) for case in LISTED} == {"olh", "blh", "olh-xxhash", "loloha"}


# ---- channel -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", LISTED, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_columns_sum_to_one_and_the_level_is_exact(case, data):
    largest = (
        10 if has_channel(case.build(case.categories[-1], 10)) else LEVELS[-1]
    )  # pooled hashes have buckets by the level
    protocol = case.build(data.draw(st.sampled_from(case.categories)), data.draw(st.floats(0.01, largest)))
    channel = protocol.channel()
    assert channel.shape == (protocol.n_outputs, protocol.n_categories)
    np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=0, atol=1e-12)
    if protocol.epsilon == math.inf:
        assert ((channel == 0).any(axis=1) & (channel > 0).any(axis=1)).any()
        return
    ratio = (channel.max(axis=1) / channel.min(axis=1)).max()
    assert ratio <= math.exp(protocol.epsilon) * (1 + 1e-9)
    if case.tight:
        assert math.log(ratio) == pytest.approx(protocol.epsilon, rel=1e-9)


@pytest.mark.sampled(2)
@item_of_each_case
def test_rational_channel_of_the_single_value_client(case):
    small = case.categories[0]
    for protocol in [case.build(case.categories[-1], 0.7), case.build(small, 0.01), case.build(small, 3.0)]:
        try:
            exact = protocol.rational_channel()
        except InfeasibleError:
            assert not has_channel(protocol)
            continue
        assert all(isinstance(q, Fraction) and q >= 0 for row in exact for q in row)
        assert all(sum(column) == 1 for column in zip(*exact, strict=True))
        if protocol.epsilon == math.inf:
            assert largest_ratio(exact) == math.inf
            continue
        # exp_below never exceeds e^ε: no rounding stands between this comparison and the promise.
        assert largest_ratio(exact) <= entropy.exp_below(protocol.epsilon)
        if has_channel(protocol):
            # What the client does, draw by draw, while channel() comes from the rows: two derivations of one matrix.
            np.testing.assert_allclose(np.array(exact, dtype=float), protocol.channel(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_exp_below_is_below_by_the_power_series(epsilon):
    x, term, below = Fraction(epsilon), Fraction(1), Fraction(0)
    for k in range(1, 400):
        below += term
        term *= x / k
    above = below + 2 * term  # the remaining terms fall by more than half each
    assert entropy.exp_below(epsilon) < below < above < entropy.exp_below(epsilon) * (1 + Fraction(1, 10**75))


# ---- rows --------------------------------------------------------------------------------------------------------
@pytest.mark.sampled(2)
@item_of_each_case
@pytest.mark.parametrize("small", [0, two_level.SMALL], ids=["kernels", "unpacked"])
def test_products_equal_those_of_the_dense_twin(case, small, monkeypatch):
    monkeypatch.setattr(two_level, "SMALL", small)
    protocol = case.build(case.categories[-1], 1.3)
    assert_same_products(Tally(protocol, some_reports(protocol)).rows)


@listed_case
def test_rows_of_every_report_are_the_channel(case):
    protocol = case.build(case.categories[0], 1.3)
    fast = protocol.rows(protocol.all_reports(), np.ones(protocol.n_outputs))
    p = np.random.default_rng(1).dirichlet(np.ones(protocol.n_categories))
    probabilities = np.exp(fast.log_constants) * fast.matvec(p)
    np.testing.assert_allclose(probabilities, protocol.channel() @ p, rtol=1e-12)
    assert probabilities.sum() == pytest.approx(1, rel=1e-12)


@item_of_each_case
@pytest.mark.parametrize("size", [150, pytest.param(2000, marks=pytest.mark.calibrate)])
def test_allocation_is_the_posterior_of_the_values(case, size):
    rng = np.random.default_rng(8)
    protocol = case.build(case.categories[-1], 1.3)
    likelihood = Tally(protocol, some_reports(protocol)).rows
    p = rng.dirichlet(np.full(protocol.n_categories, 3.0))
    share = likelihood.dense() * p
    share /= share.sum(axis=1, keepdims=True)
    mean = likelihood.counts @ share
    sd = np.sqrt(likelihood.counts @ (share * (1 - share)))
    draws = likelihood.sampler().allocate_each(np.tile(p, (size, 1)), rng)
    assert (draws.sum(axis=1) == likelihood.n_reports).all()
    assert (np.abs(draws.mean(axis=0) - mean) <= 4.5 * sd / np.sqrt(size)).all()
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=4 / np.sqrt(size))


# ---- clients -----------------------------------------------------------------------------------------------------
def assert_follows(protocol, reports, column):
    """Hold counts of reports to the probabilities of a column by a chi-square statistic with merged rare cells."""
    tally = Tally(protocol, reports)
    everything = protocol.all_reports()
    counts = np.zeros(len(everything))
    where = {np.asarray(report).tobytes(): i for i, report in enumerate(protocol.check_reports(everything))}
    for report, count in zip(tally.reports, tally.counts, strict=True):
        counts[where[np.asarray(report).tobytes()]] += count
    expected = column * counts.sum()
    order = np.argsort(expected)
    rare = np.cumsum(expected[order]) < 8
    observed, wanted = counts[order], expected[order]
    k = int(rare.sum()) + 1
    observed = np.append(observed[:k].sum(), observed[k:])
    wanted = np.append(wanted[:k].sum(), wanted[k:])
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    assert statistic <= chi2.isf(1e-6, max(len(wanted) - 1, 1)), (statistic, len(wanted))


@listed_case
def test_vectorized_client_follows_the_channel(case):
    protocol = case.build(case.categories[-1], 1.3)
    for x in range(protocol.n_categories):
        reports = protocol.privatize(np.full(20_000, x), np.random.default_rng(40 + x))
        assert_follows(protocol, reports, protocol.channel()[:, x])


@listed_case
def test_single_value_client_follows_the_channel(case, seeded_entropy):
    protocol = case.build(case.categories[-1], 1.3)
    x = protocol.n_categories - 1
    reports = np.array([protocol.privatize_one(x) for _ in range(1_000)])
    assert_follows(protocol, reports, protocol.channel()[:, x])


@listed_case
def test_simulated_tallies_follow_the_channel(case):
    protocol = case.build(case.categories[-1], 1.3)
    truth = np.zeros(protocol.n_categories, dtype=int)
    truth[-1] = 20_000
    reports, counts = protocol.simulate(truth, np.random.default_rng(6))
    assert counts.sum() == 20_000
    assert_follows(protocol, np.repeat(reports, counts, axis=0), protocol.channel()[:, -1])


@every_case
def test_nobody_makes_no_report(case):
    protocol = case.build(case.categories[0], 1.0)
    assert len(protocol.privatize(np.empty(0, int), np.random.default_rng(1))) == 0
    assert protocol.simulate(np.zeros(protocol.n_categories, int), np.random.default_rng(1))[1].sum() == 0


@every_case
def test_values_outside_the_alphabet_do_not_wrap_around(case):
    protocol = case.build(case.categories[0], 1.0)
    rng = np.random.default_rng(0)
    for value in (-1, protocol.n_categories):
        with pytest.raises(ArgumentError, match=f"got {value}"):
            protocol.privatize(np.array([0, value]), rng)
        for client in (protocol.privatize_one, protocol.randomize_one):
            with pytest.raises(ArgumentError, match=r"private.*not shown"):
                client(value)
            with pytest.raises(ArgumentError) as refused:
                client("cancer")
            assert "cancer" not in str(refused.value) and refused.value.__cause__ is None
    for values in (np.array([0.5]), np.array([True]), np.array([[0]])):
        for simulated in (protocol.privatize, protocol.randomize):
            with pytest.raises(ArgumentError):
                simulated(values, rng)


@every_case
def test_inputs_are_left_as_they_were_and_nothing_is_remembered(case):
    protocol = case.build(case.categories[-1], 1.0)
    values = np.random.default_rng(1).integers(protocol.n_categories, size=100)
    kept = values.copy()
    first = protocol.privatize(values, np.random.default_rng(2))
    reports, kept_reports = first.copy(), first.copy()
    tally = Tally(protocol, reports, np.ones(len(reports), dtype=int))
    likelihood = tally.rows
    before = likelihood.value_and_gradient(np.full(protocol.n_categories, 1 / protocol.n_categories))[0]
    protocol.privatize(values[::-1], np.random.default_rng(9))
    Tally(protocol, protocol.privatize(values, np.random.default_rng(3)))
    again = protocol.privatize(values, np.random.default_rng(2))
    np.testing.assert_array_equal(values, kept)
    np.testing.assert_array_equal(reports, kept_reports)
    np.testing.assert_array_equal(first, again)
    after = Tally(protocol, first).rows.value_and_gradient(np.full(protocol.n_categories, 1 / protocol.n_categories))[0]
    assert before == after
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.n_categories = 7


# ---- oracle ------------------------------------------------------------------------------------------------------
def oracle_scores(protocol):
    """Return the oracle of each single report, shape (b, a): the oracle of many is their mean."""
    decoder = protocol.decoder()
    return np.stack([decoder.oracle(protocol.rows(report[None], np.ones(1))) for report in protocol.all_reports()])


def enumerated_cases():
    """Return the cases with an oracle whose reports can be listed, at one number of categories at least."""
    built = [(case, [case.build(a, 1.3) for a in case.categories]) for case in CASES]
    return [case for case, protocols in built if any(has_channel(one) and full_rank(one) for one in protocols)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", enumerated_cases(), ids=str)
def test_oracle_is_unbiased_with_the_exact_variance_by_enumeration(case):
    checked = 0
    for protocol in sizes_and_levels(case):
        if not has_channel(protocol) or not full_rank(protocol):
            continue
        channel, scores = protocol.channel(), oracle_scores(protocol)
        scale = np.abs(scores).max()
        np.testing.assert_allclose(channel.T @ scores, np.eye(protocol.n_categories), rtol=0, atol=1e-11 * scale)
        p = np.random.default_rng(2).dirichlet(np.ones(protocol.n_categories))
        second, mean = channel.T @ scores**2, channel.T @ scores
        for target, expected in [
            ("frequency", p @ (second - mean**2)),
            ("distribution", p @ second - (p @ mean) ** 2),
        ]:
            np.testing.assert_allclose(protocol.decoder().variance(p, 17, target), expected / 17, rtol=1e-9, atol=1e-15)
        checked += 1
    assert checked


def simulated_cases():
    """Return the cases whose oracle is too large to enumerate, but has full rank."""
    built = [(case, case.build(case.categories[-1], 1.3)) for case in CASES]
    return [case for case, protocol in built if not has_channel(protocol) and full_rank(protocol)]


@pytest.mark.parametrize("case", simulated_cases(), ids=str)
@pytest.mark.parametrize("target", ["frequency", "distribution"])
def test_oracle_is_unbiased_within_its_standard_error_by_simulation(case, target):
    protocol = case.build(case.categories[-1], 1.3)
    rng = np.random.default_rng(12)
    n, repeats = 400, 60
    p = rng.dirichlet(np.full(protocol.n_categories, 2.0))
    truth = np.floor(p * n).astype(int)
    truth[0] += n - truth.sum()
    p = truth / n
    estimates = []
    for _ in range(repeats):
        counts = truth if target == "frequency" else rng.multinomial(n, p)
        estimates.append(protocol.oracle(Tally(protocol, *protocol.simulate(counts, rng)).rows))
    sd = np.sqrt(protocol.oracle_variance(p, n, target))
    assert (np.abs(np.mean(estimates, axis=0) - p) <= 4 * sd / math.sqrt(repeats)).all()
    spread = (np.std(estimates, axis=0, ddof=1) / sd) ** 2 * (repeats - 1)
    assert (spread <= chi2.isf(1e-5, repeats - 1)).all() and (spread >= chi2.isf(1 - 1e-5, repeats - 1)).all()


@every_case
def test_every_oracle_takes_rows(case):
    """The oracle of many reports is the mean of those of single ones: Channel.oracle(rows) raised a TypeError."""
    protocol = case.build(case.categories[-1], 1.3)
    if not full_rank(protocol):
        with pytest.raises(ArgumentError, match=f"rank {protocol.n_categories}"):
            protocol.oracle(Tally(protocol, some_reports(protocol)).rows)
        return
    tally = Tally(protocol, some_reports(protocol))
    single = np.stack([protocol.oracle(protocol.rows(report[None], np.ones(1))) for report in tally.reports])
    np.testing.assert_allclose(protocol.oracle(tally.rows), tally.counts @ single / tally.n_reports, rtol=0, atol=1e-9)


@pytest.mark.sampled(3)
@item_of_each_case
def test_report_law_expects_what_the_channel_sends(case):
    protocol, rng = case.build(case.categories[-1], 1.3), np.random.default_rng(3)
    law, p = protocol.report_law(), rng.dirichlet(np.ones(protocol.n_categories))
    if has_channel(protocol):
        every = protocol.all_reports()
        single = np.stack([law.tally(every[y : y + 1], np.ones(1)) for y in range(len(every))])
        np.testing.assert_allclose(law.expected(p), protocol.channel() @ p @ single, rtol=1e-9, atol=1e-12)
    fresh = np.stack([law.simulate(rng.multinomial(50, p), rng) for _ in range(200)])
    expected = 50 * law.expected(np.stack([p, p], axis=1))[:, 0]
    assert fresh.shape[1:] == expected.shape
    spread = np.maximum(fresh.std(axis=0, ddof=1), 0.2)  # rare reports of which no draw has one
    assert (np.abs(fresh.mean(axis=0) - expected) <= 5 * spread / math.sqrt(200)).all()


@every_case
def test_closed_form_risk_of_hit_rate_protocols(case):
    for protocol in sizes_and_levels(case):
        if protocol.hit_rates is None:
            continue
        (g, h), a, n = protocol.hit_rates, protocol.n_categories, 1000
        p = np.random.default_rng(4).dirichlet(np.ones(a))
        for_frequency = protocol.oracle_variance(p, n, "frequency").sum()
        assert for_frequency == pytest.approx((g * (1 - g) + (a - 1) * h * (1 - h)) / (n * (g - h) ** 2), rel=1e-12)
        for_distribution = protocol.oracle_variance(p, n, "distribution").sum()
        assert for_distribution - for_frequency == pytest.approx((1 - p @ p) / n, rel=1e-6)


# ---- reports, tallies, files -------------------------------------------------------------------------------------
@every_case
def test_reports_survive_writing_and_reading(case):
    for a in case.categories:
        protocol = case.build(a, 1.0)
        reports = protocol.check_reports(some_reports(protocol))
        columns = protocol.format_reports(reports, labels(protocol))
        assert len(columns) == len(protocol.report_fields)
        np.testing.assert_array_equal(protocol.parse_reports(columns, labels(protocol)), reports)
        np.testing.assert_array_equal(protocol.check_reports(reports), reports)


@every_case
def test_unreadable_reports_are_refused_with_their_line(case):
    protocol = case.build(case.categories[-1], 1.0)
    columns = protocol.format_reports(protocol.check_reports(some_reports(protocol, 3)), labels(protocol))
    for column in columns:
        broken = [list(c) for c in columns]
        broken[columns.index(column)][1] = "no such report"
        with pytest.raises(DataError) as caught:
            protocol.parse_reports(broken, labels(protocol))
        assert caught.value.line == 1


@every_case
def test_reports_of_the_wrong_kind_are_refused(case):
    protocol = case.build(case.categories[-1], 1.0)
    good = protocol.check_reports(some_reports(protocol, 3))
    wrong = [good.astype(float) + 0.5, good[0], np.stack([good, good]), good.astype(str), good.astype(np.int64) - 10**6]
    wrong += [good.astype(np.int64) + 2**40] if good.ndim == 1 or good.dtype == np.uint8 else []
    for reports in wrong:
        with pytest.raises(DataError):
            protocol.check_reports(reports)


@every_case
def test_tally_of_a_concatenation_is_the_sum_of_tallies(case):
    protocol = case.build(case.categories[-1], 1.0)
    first, second = some_reports(protocol, seed=1), some_reports(protocol, seed=2)
    together = Tally(protocol, np.concatenate([first, second]))
    assert together == Tally(protocol, first) + Tally(protocol, second)
    assert together.n_reports == 400


@every_case
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning", "ignore::ldpbayes.errors.CompositeWarning")
def test_collection_file_round_trip(case, tmp_path):
    protocol = case.build(case.categories[-1], 1.0)
    collection = Collection(labels(protocol), Tally(protocol, some_reports(protocol)), id="trip")
    write_collection(collection, tmp_path / "trip.toml")
    again = read_collection(tmp_path / "trip.toml")
    assert again == collection
    write_collection(again, tmp_path / "twice.toml")
    assert (tmp_path / "twice.csv").read_text() == (tmp_path / "trip.csv").read_text()


# ---- parameters --------------------------------------------------------------------------------------------------
@with_epsilon
@each_row("epsilon", [0, -1.0, math.nan, math.inf, 800, "1", True, None])
def test_impossible_levels_are_refused(case, epsilon):
    with pytest.raises(ArgumentError, match="epsilon"):
        case.build(case.categories[-1], epsilon)


@with_epsilon
def test_the_level_keeps_every_digit(case):
    protocol = case.build(case.categories[-1], 1.2345678901234567)
    assert protocol.epsilon == pytest.approx(1.2345678901234567, rel=1e-15)


@each_row("name", sorted(PROTOCOLS))
def test_client_and_server_have_no_defaults_to_differ_in(name):
    with pytest.raises(ArgumentError):
        make_protocol(name, ("a", "b", "c"), {})
    with pytest.raises(ArgumentError, match="shift"):
        make_protocol(name, ("a", "b", "c"), {"shift": 3})


@each_row("case", [case for case in CASES if len(case.categories) > 1])  # designs have a fixed size
@each_row("n_categories", [1, 0, -3, 2.5, "3", True])
def test_too_few_categories_are_refused(case, n_categories):
    with pytest.raises((ArgumentError, TypeError)):
        case.build(n_categories, 1.0)


def test_every_registered_protocol_stands_in_the_table():
    """A new protocol, design or combinator without a case fails here, and so escapes none of the tests above."""
    built = {case.build(a, 1.0).design for case in CASES for a in case.categories}
    built |= {"item_count"}  # a group alone identifies no category: tests/test_list_experiments.py has whole designs
    assert built == {*PROTOCOLS, *DESIGNS, *COMBINATORS}
