"""True populations, and simulated collections whose reports follow the channel and whose truth travels along."""

import numpy as np
import pytest
from cases import CASES
from hypothesis import given
from hypothesis import strategies as st
from tabulated import each_row

from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import GRR, designs
from ldpbayes.simulation import Population, population, simulate
from ldpbayes.sources import read_collection, write_collection


def truth_in(collection):
    """Return (distribution or None, true counts) that a simulated collection states."""
    known = {entry["what"]: np.array(entry["estimate"]) for entry in collection.published if entry["source"] == "truth"}
    return known.get("true distribution"), known["true counts"]


# ---- populations --------------------------------------------------------------------------------------------------


def test_zipf_is_the_power_law():
    zipf = population("zipf", 50, exponent=1.5)
    assert np.diff(np.log(zipf.distribution)) / np.diff(np.log(np.arange(1, 51))) == pytest.approx(np.full(49, -1.5))
    assert population("zipf", 4, exponent=0).distribution == pytest.approx([0.25] * 4)
    assert population("zipf", 5000, exponent=300).distribution[0] == 1.0


def test_geometric_has_the_mean_of_the_papers_before_it_is_cut_off():
    ratio = population("geometric", 100).distribution
    assert ratio[1:] / ratio[:-1] == pytest.approx(np.full(99, 20 / 21))
    long = population("geometric", 5000, mean=20.0).distribution
    assert long @ np.arange(5000) == pytest.approx(20.0)


def test_dirichlet_draws_are_seeded():
    one, two, other = (population("dirichlet", 8, alpha=0.5, random_seed=seed) for seed in (1, 1, 2))
    assert (one.distribution == two.distribution).all() and (one.distribution != other.distribution).any()
    spread = np.stack([population("dirichlet", 4, alpha=2.0, random_seed=s).distribution for s in range(2000)])
    assert spread.mean(axis=0) == pytest.approx(np.full(4, 0.25), abs=4 * np.sqrt(3 / 16 / 9 / 2000))
    assert spread.var(axis=0) == pytest.approx(np.full(4, 3 / 16 / 9), rel=0.15)


def test_a_dirichlet_draw_does_not_share_random_numbers_with_a_simulation_of_the_same_seed():
    assert population("dirichlet", 4, random_seed=1).distribution != pytest.approx(
        np.random.default_rng(1).dirichlet(np.ones(4))
    )


@given(st.sampled_from(["zipf", "geometric", "dirichlet"]), st.integers(2, 300))
def test_every_family_is_a_distribution_over_distinct_sorted_labels(source, a):
    made = population(source, a, random_seed=a)
    assert made.distribution.sum() == pytest.approx(1, abs=1e-12) and (made.distribution >= 0).all()
    assert made.n_categories == len(set(made.categories)) == a
    assert list(made.categories) == sorted(made.categories) and made.counts is None


@each_row(
    "arguments, settings, problem",
    [
        (("zipf",), {}, "n_categories must be an integer >= 2 for the zipf population, got None"),
        (("zipf", 1), {}, "n_categories must be an integer >= 2 and <= 4194304, got 1"),
        (("zipf", 3), {"exponent": -1}, "exponent must be a finite number of at least 0, got -1"),
        (("geometric", 3), {"mean": 0}, "mean must be a finite number above 0, got 0"),
        (("dirichlet", 3), {"alpha": float("nan")}, "alpha must be a finite number above 0, got nan"),
        (("dirichlet", 3), {"random_seed": "x"}, "random_seed must be an integer >= 0"),
        (("adult.csv", 3), {}, "n_categories must be left out"),
    ],
)
def test_population_refuses(arguments, settings, problem):
    with pytest.raises(ArgumentError) as caught:
        population(*arguments, **settings)
    assert problem in str(caught.value)


def test_population_from_a_table_alone(tmp_path):
    (tmp_path / "towns.csv").write_text("value,count\nA,3\nB,0\nC,1\n")
    towns = population(tmp_path / "towns.csv")
    assert (towns.id, towns.categories, towns.counts.tolist()) == ("towns", ("A", "B", "C"), [3, 0, 1])
    assert towns.distribution.tolist() == [0.75, 0, 0.25]


@each_row(
    "csv, toml, problem",
    [
        ("value,count\nA,3\nA,1\n", None, "towns.csv, field 'value': has the value 'A' twice"),
        ("value,count\nA,3\n", None, "towns.csv, field 'value': must have at least two values"),
        ("value,count\n", None, "towns.csv, field 'value': must have at least two values"),
        ("value,count\nA,3\n,1\n", None, "towns.csv, field 'value': has a row without a value"),
        ("value,count\nA,0\nB,0\n", None, "towns.csv, field 'count': holds nobody"),
        ("value,count\nA,3\nB,x\n", None, "towns.csv, line 3, field 'count': count must be a whole number, got 'x'"),
        ("value,n\nA,3\nB,1\n", None, "towns.csv, line 1: has no column 'count'; it has value, n"),
        ("value,count\nA,3\nB,1\n", "n = 5", "towns.toml, field 'n': n is 4 in towns.csv, but 5 here"),
        ("value,count\nA,3\nB,1\n", "n_categories = 3", "towns.toml, field 'n_categories': n_categories is 2 in towns.csv"),
        ("value,count\nA,3\nB,1\n", "m = 3", "towns.toml: unknown key 'm'"),
        ("value,count\nA,3\nB,1\n", "m = ", "towns.toml: is not valid TOML"),
        (None, None, "towns.csv: cannot be read (No such file or directory)"),
    ],
)
def test_malformed_population_files(tmp_path, csv, toml, problem):
    for name in ("towns.csv", "towns.toml"):
        (tmp_path / name).unlink(missing_ok=True)
    if csv is not None:
        (tmp_path / "towns.csv").write_text(csv)
    if toml is not None:
        (tmp_path / "towns.toml").write_text(toml)
    with pytest.raises(DataError) as caught:
        population(tmp_path / "towns.csv")
    assert problem in str(caught.value)


# ---- simulated collections ----------------------------------------------------------------------------------------


def test_counts_are_these_users(tmp_path):
    collection = simulate([50, 30, 20], GRR(3, epsilon=1.0), random_seed=1)
    assert collection.n_reports == 100
    distribution, counts = truth_in(collection)
    assert distribution is None and counts.tolist() == [50, 30, 20]


def test_a_distribution_is_sampled_and_both_truths_survive_a_round_trip(tmp_path):
    zipf = population("zipf", 6)
    collection = simulate(zipf, GRR(6, epsilon=2.0), 1000, random_seed=7)
    write_collection(collection, tmp_path / "x.toml")
    again = read_collection(tmp_path / "x.toml")
    assert again == collection and again.categories == zipf.categories
    distribution, counts = truth_in(again)
    assert distribution == pytest.approx(zipf.distribution, rel=1e-15)
    assert counts.sum() == 1000 == collection.n_reports


def test_a_census_reports_as_it_is_or_is_sampled():
    census = Population(("a", "b"), np.array([0.75, 0.25]), np.array([30, 10]), "town", "A town", "Somebody (2020)", "CC0")
    whole = simulate(census, designs.warner(0.8), random_seed=1)
    assert truth_in(whole)[1].tolist() == [30, 10]
    assert (whole.id, whole.title, whole.citation, whole.licence) == (
        "town_channel",
        "Simulated: A town",
        "Somebody (2020)",
        "CC0",
    )
    sample = simulate(census, designs.warner(0.8), 8, random_seed=1, id="s", title="S", name="pilot")
    assert truth_in(sample)[1].sum() == 8 and (sample.id, sample.title, sample.tallies[0].name) == ("s", "S", "pilot")


def test_the_same_seed_gives_the_same_collection():
    def once(seed):
        return simulate(np.full(5, 0.2), GRR(5, epsilon=1.0), 500, random_seed=seed)

    assert once(3) == once(3) and once(3) != once(4)


@pytest.mark.parametrize(
    "protocol", [GRR(4, epsilon=1.0), designs.forced_response(0.6, [1, 2, 0, 1])], ids=["grr", "forced"]
)
def test_reports_follow_the_channel(protocol):
    true_counts = np.array([4000, 3000, 2000, 1000])
    tallies = np.zeros((300, 4))
    for seed in range(300):
        (tally,) = simulate(true_counts, protocol, random_seed=seed).tallies
        tallies[seed, tally.reports] = tally.counts
    q = protocol.channel()
    mean, cov = q @ true_counts, np.diag(q @ true_counts) - (q * true_counts) @ q.T
    assert (np.abs(tallies.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(cov) / 300)).all()
    assert tallies.var(axis=0) == pytest.approx(np.diag(cov), rel=4 * np.sqrt(2 / 300))


def test_sampled_values_follow_the_distribution():
    p = np.array([0.5, 0.3, 0.2])
    drawn = np.stack([truth_in(simulate(p, GRR(3, epsilon=1.0), 400, random_seed=s))[1] for s in range(400)])
    assert (np.abs(drawn.mean(axis=0) - 400 * p) < 4 * np.sqrt(400 * p * (1 - p) / 400)).all()
    assert drawn.var(axis=0) == pytest.approx(400 * p * (1 - p), rel=4 * np.sqrt(2 / 400))


@each_row(
    "truth, n, problem",
    [
        ([0.5, 0.5], None, "n must be given where p is a distribution"),
        ([0.5, 0.5, 0.0], 10, "p must be of length 2"),
        ([1, 2, 3], None, "p must be of length 2"),
        ([0, 0], None, "p must hold at least one user"),
        ([0, 0], 10, "p must be non-negative and sum to 1"),
        ([-0.5, 1.5], 10, "p must be non-negative and sum to 1"),
        ([float("nan"), 1.0], 10, "p must be non-negative and sum to 1"),
        ([0.5, 0.5], 0, "n must be an integer >= 1"),
        ([0.5, 0.5], 1.5, "n must be an integer >= 1"),
        (population("zipf", 2), None, "n must be an integer >= 1 for a population without counts, got None"),
        (population("zipf", 3), 10, "p must be of length 2"),
    ],
)
def test_simulation_refuses(truth, n, problem):
    with pytest.raises(ArgumentError) as caught:
        simulate(truth, designs.warner(0.7), n, random_seed=1)
    assert problem in str(caught.value)


def test_simulation_needs_a_protocol_and_matching_labels():
    with pytest.raises(ArgumentError, match=r"protocol must.*str"):
        simulate([1, 2], "grr")
    with pytest.raises(DataError, match=r"2 categories.*3"):
        simulate([1, 2], designs.warner(0.7), categories=["a", "b", "c"])


@each_row("case", CASES)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning", "ignore::ldpbayes.errors.CompositeWarning")
def test_every_protocol_simulates_and_survives_a_round_trip(tmp_path, case):
    size = case.categories[-1]
    collection = simulate(population("zipf", size), case.build(size, 1.0), 50, random_seed=1)
    write_collection(collection, tmp_path / "x.toml")
    assert read_collection(tmp_path / "x.toml") == collection
    assert collection.n_reports == truth_in(collection)[1].sum() == 50
