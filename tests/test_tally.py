"""Tallies and collections: merging, addition, validation, and what the channels cannot tell apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.collections import Collection, Derived, Tally
from ldpbayes.errors import ArgumentError, DataError, RankDeficientWarning
from ldpbayes.protocols import GRR, AbstractProtocol, Channel, Rappor, UnaryEncoding, designs, kronecker
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.formats import split_cohorts

GRR4 = GRR(4, epsilon=1.0)
reports = st.lists(st.integers(0, 3), min_size=1, max_size=40)


@given(reports, reports)
def test_tally_of_a_concatenation_is_the_sum_of_tallies(left, right):
    together = Tally(GRR4, left + right)
    assert together == Tally(GRR4, left) + Tally(GRR4, right)
    assert together.n_reports == len(left) + len(right)


@given(reports)
def test_counts_equal_repeats(values):
    unique, counts = np.unique(values, return_counts=True)
    assert Tally(GRR4, values) == Tally(GRR4, unique, counts) == Tally(GRR4, unique[::-1], counts[::-1])


def test_tally_leaves_its_inputs_alone_and_is_read_only():
    values, counts = np.array([2, 0, 2]), np.array([5, 1, 2])
    tally = Tally(GRR4, values, counts)
    assert values.tolist() == [2, 0, 2] and counts.tolist() == [5, 1, 2]
    assert tally.counts.tolist() == [1, 7]
    with pytest.raises(ValueError, match="read-only"):
        tally.counts[0] = 3


def test_rows_skip_reports_that_never_came_in():
    tally = Tally(GRR4, [0, 1, 2], [3, 0, 4])
    assert tally.rows.n_rows == 2 and tally.n_reports == 7


@each_row(
    "values, counts, error, problem",
    [
        ([0, 4], None, DataError, "report 4 is outside 0..3"),
        ([-1], None, DataError, "report -1 is outside 0..3"),
        ([0.5], None, DataError, "array of integers"),
        ([[0, 1]], None, DataError, "one-dimensional"),
        ([0, 1], [1], ArgumentError, "counts must be of length 2"),
        ([0, 1], [1, -1], ArgumentError, "got -1 at position 1"),
        ([0, 1], [1, 0.5], ArgumentError, "got 0.5 at position 1"),
        ([0, 1], [0, 0], DataError, "channel 'all' has no reports"),
        (np.array([], dtype=int), None, DataError, "channel 'all' has no reports"),
        ([0, 1], [10**12, 10**12], DataError, "more than 10**12 reports"),
    ],
)
def test_tally_refuses(values, counts, error, problem):
    with pytest.raises(error) as caught:
        Tally(GRR4, values, counts)
    assert problem in str(caught.value)


def test_tally_needs_a_protocol_and_the_same_one_to_add():
    with pytest.raises(ArgumentError, match=r"protocol must.*str"):
        Tally("grr", [0])
    with pytest.raises(ArgumentError, match="same protocol"):
        Tally(GRR4, [0]) + Tally(GRR(4, epsilon=2.0), [0])
    with pytest.raises(TypeError):
        Tally(GRR4, [0]) + 1
    with pytest.raises(ArgumentError, match="same categories"):
        Tally(GRR4, [0], categories="abcd") + Tally(GRR4, [0], categories="abdc")
    assert (Tally(GRR4, [0]) + Tally(GRR4, [1], categories="abcd")).categories == tuple("abcd")


def one(name="all", size=4):
    return Tally(GRR(size, epsilon=1.0), [0, 1], name=name)


@each_row(
    "categories, tallies, problem",
    [
        (["a"], [one()], "at least two labels, got 1"),
        ([], [one()], "at least two labels, got 0"),
        (["a", "b", "c", "a"], [one()], "distinct, non-empty"),
        (["a", "b", "c", ""], [one()], "distinct, non-empty"),
        (["a", "b", "c", 4], [one()], "distinct, non-empty"),
        (["a", "b", "c", "d"], [], "at least one channel with reports"),
        (["a", "b", "c"], [one()], "channel 'all' has 4 categories, the collection 3"),
        (["a", "b", "c", "d"], [one("x"), one("x")], "distinct names, got x, x"),
        ("abcd", [Tally(GRR4, [0], categories="xbdc")], "'all' has the category 'd' elsewhere than the collection"),
    ],
)
def test_collection_refuses(categories, tallies, problem):
    with pytest.raises(DataError) as caught:
        Collection(categories, tallies)
    assert problem in str(caught.value)


def test_collection_refuses_derived_quantities_of_unknown_categories():
    with pytest.raises(DataError, match=r"'top'.*'z'"):
        Collection("abcd", one(), derived=(Derived("top", ("a", "z")),))


def test_collections_add_channel_by_channel():
    left, right = Collection("abcd", [one("x")]), Collection("abcd", [one("x"), one("y")])
    total = left + right
    assert [t.name for t in total.tallies] == ["x", "y"] and total.n_reports == 6
    assert left.n_reports == 2
    with pytest.raises(ArgumentError, match="same categories"):
        left + Collection("abce", [one()])


def test_stacked_likelihood_is_the_product_of_the_channels():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    tallies = [one("x"), Tally(GRR(4, epsilon=3.0), [2, 2, 3], name="y")]
    collection = Collection("abcd", tallies)
    separate = sum(np.log(t.protocol.channel()[t.reports] @ p) @ t.counts for t in tallies)
    assert collection.rows.log_likelihood(p) == pytest.approx(separate, abs=1e-12)


def test_derived_sums_and_shares():
    p = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    share = Derived("share", ("a",), ("a", "b"))
    assert Derived("sum", ("a", "b")).evaluate(p, ("a", "b", "c")) == pytest.approx([0.3, 0.6])
    assert share.evaluate(p, ("a", "b", "c")) == pytest.approx([1 / 3, 0.5])


# ---- identifiability ---------------------------------------------------------------------------------------------


def test_one_group_of_the_lie_detector_cannot_tell_its_three_categories_apart():
    tally = Tally(designs.stochastic_lie_detector(1 / 6), [0, 1], [191, 373])
    collection = Collection(("honest", "lying", "others"), (tally,))
    assert collection.unidentified() == [["honest", "lying", "others"]]
    with pytest.warns(RankDeficientWarning, match=r"honest,.*lying,.*others.*apart") as caught:
        collection.warn_if_unidentified()
    assert "posterior equals" in str(caught[0].message)


def test_a_second_group_identifies_them():
    tallies = [Tally(designs.stochastic_lie_detector(p), [0, 1], [9, 9], str(p)) for p in (1 / 6, 5 / 6)]
    collection = Collection(("honest", "lying", "others"), tallies)
    assert collection.unidentified() == [] and collection.identifiability() == ""
    collection.warn_if_unidentified()


def test_equal_columns_are_one_group_and_the_rest_is_identified():
    matrix = [[0.7, 0.2, 0.2, 0.1], [0.2, 0.6, 0.6, 0.2], [0.1, 0.2, 0.2, 0.7]]
    collection = Collection("abcd", Tally(Channel(matrix), [0, 1, 2]))
    assert collection.unidentified() == [["b", "c"]]


def test_two_separate_groups_are_named_apart():
    matrix = [[0.5, 0.5, 0.1, 0.1, 0.3], [0.2, 0.2, 0.6, 0.6, 0.1], [0.3, 0.3, 0.3, 0.3, 0.6]]
    collection = Collection("abcde", Tally(Channel(matrix), [0, 1, 2]))
    assert collection.unidentified() == [["a", "b"], ["c", "d"]]


def test_an_uninformative_item_links_only_the_categories_that_differ_in_it():
    blind = Channel([[0.5, 0.5], [0.5, 0.5]])
    joint = kronecker([designs.warner(0.8), blind])
    collection = Collection(("no,no", "no,yes", "yes,no", "yes,yes"), Tally(joint, [0, 3]))
    assert collection.unidentified() == [["no,no", "no,yes"], ["yes,no", "yes,yes"]]


def test_grr_is_identified_at_any_level():
    assert Collection("abcd", Tally(GRR(4, epsilon=1e-6), [0])).unidentified() == []


def test_a_channel_too_large_to_write_out_is_not_checked(monkeypatch):
    monkeypatch.setattr(Channel, "channel", AbstractProtocol.channel)
    monkeypatch.setattr("ldpbayes.protocols.base.MAX_CHANNEL_ENTRIES", 3)
    assert (
        Collection(("honest", "lying", "others"), Tally(designs.stochastic_lie_detector(1 / 6), [0, 1])).unidentified() == []
    )


def test_tallies_are_sorted_and_leave_the_callers_array_alone():
    rng = np.random.default_rng(1)
    protocol = UnaryEncoding.optimized(60, 1.0)
    reports = protocol.privatize(rng.integers(60, size=70_000), rng)
    tally, other = Tally(protocol, reports), Tally(protocol, reports[::-1])
    np.testing.assert_array_equal(tally.reports, np.unique(reports, axis=0))
    assert reports.flags.writeable and not tally.reports.flags.writeable
    assert other == tally and hash(other) == hash(tally)
    reports[-1] = reports[5]
    again = Tally(protocol, reports)
    assert again.n_reports == 70_000 and again.counts.max() == 2 and again != tally


@each_row("bad", [-1, 5, 2**40, -(2**62)])
@each_row("at", [0, 777, 9999])
def test_counting_integers_names_the_first_bad_one(bad, at):
    reports = np.arange(10_000) % 5
    np.testing.assert_array_equal(Tally(GRR(5, 1.0), reports).counts, np.full(5, 2000))
    reports[at] = bad
    with pytest.raises(DataError, match=rf"report {bad}.*0\.\.4"):
        Tally(GRR(5, 1.0), reports)
    pairs = np.stack([np.arange(10_000) % 6, np.arange(10_000) % 4], axis=1)
    protocol = CohortRR(10, 1.0, 4, 6)
    assert Tally(protocol, pairs) == Tally(protocol, *np.unique(pairs, axis=0, return_counts=True))
    pairs[at, 1] = bad
    with pytest.raises(DataError, match=rf"value {bad}.*0\.\.3"):
        Tally(protocol, pairs)


@pytest.mark.parametrize("as_lists", [False, True])
def test_cohorts_and_bits_are_reports_of_rappor(as_lists, tmp_path):
    """The kind: a form of reports that check_reports takes and a door refuses. Tally with counts, with users, and write."""
    rappor = Rappor(3, 0.2, 0.9, 0.5, 8, 4, 1, candidates=("a", "b", "c"))
    reports = rappor.privatize(np.array([0, 1, 2, 1, 0]), 1)
    cohorts, packed = split_cohorts(reports)
    for bits in (packed, np.unpackbits(packed, axis=1, count=8), np.unpackbits(packed, axis=1, count=8).astype(bool)):
        pair = (cohorts.tolist(), bits.tolist()) if as_lists and bits is not packed else (cohorts, bits)
        assert Tally(rappor, pair) == Tally(rappor, reports)
        assert Tally(rappor, pair, [1, 2, 3, 4, 5]) == Tally(rappor, reports, [1, 2, 3, 4, 5])
        assert Tally(rappor, pair, user=list("uuvvw")) == Tally(rappor, reports, user=list("uuvvw"))
        lb.write(pair, tmp_path / "r.parquet", rappor)
        assert lb.read(tmp_path / "r.parquet") == Tally(rappor, reports)
