"""Cells: keys, covariates, what they refuse, and what all cells have in common."""

from dataclasses import replace

import numpy as np
import pytest
from tabulated import each_row

from ldpbayes import GRR, Cells, Collection, Tally, fit
from ldpbayes.collections import Derived
from ldpbayes.collections.cells import RESERVED
from ldpbayes.errors import ArgumentError, DataError, RankDeficientWarning
from ldpbayes.likelihoods import Summary
from ldpbayes.protocols import Channel
from ldpbayes.protocols.unary import UnaryEncoding

LABELS = ["a", "b", "c"]


def survey(counts, protocol=None, **facts):
    return Collection(LABELS, [Tally(protocol or GRR(3, 1.0), [0, 1, 2], counts)], **facts)


@pytest.fixture
def regions():
    return Cells({"north": survey([40, 30, 30]), "south": survey([8, 7, 5])}, by="region")


def test_keys_are_tuples_and_scalars_stand_for_them(regions):
    assert list(regions) == [("north",), ("south",)] and regions.by == ("region",)
    assert regions["south"] is regions[("south",)]
    assert "north" in regions and "east" not in regions
    assert regions.labels == ("north", "south") and len(regions) == 2
    assert regions.n_reports == 120 and regions.sizes.tolist() == [100, 20] and regions.n_categories == 3
    assert repr(regions) == "<Cells by region: 2 cells, 3 categories, 120 reports>"


def test_several_columns_make_one_key():
    cells = Cells({("north", np.int64(2024)): survey([4, 3, 3]), ("north", 2025): survey([8, 7, 5])})
    assert cells.by == ("key_1", "key_2") and cells.labels == ("north, 2024", "north, 2025")
    columns = cells.key_columns()
    assert columns["key_1"].tolist() == ["north", "north"] and columns["key_2"].tolist() == [2024, 2025]
    assert columns["key_2"].dtype == np.int64


def test_channels_and_derived_quantities_of_cells():
    protocol, derived = GRR(3, 1.0), (Derived("ab", ("a", "b")),)
    groups = {"x": (Tally(protocol, [0, 1]),), "y": (Tally(protocol, [2, 2]), Tally(protocol, [1], name="web"))}
    cells = Cells({key: Collection(LABELS, tallies, derived=derived) for key, tallies in groups.items()}, by="kind")
    assert [item.name for item in cells.derived] == ["ab"]
    assert {name: [c for c, _ in held] for name, held in cells.channels().items()} == {"all": [0, 1], "web": [1]}


def test_covariates_are_aligned_by_key_or_by_order(regions):
    cells = dict(regions)
    by_order = Cells(cells, "region", {"income": [3.0, 2.0]})
    by_key = Cells(cells, "region", {"region": ["south", "east", "north"], "income": [2.0, 9.0, 3.0]})
    for found in (by_order, by_key):
        assert list(found.covariates) == ["income"] and found.covariates["income"].tolist() == [3.0, 2.0]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"region": ["south", "north"], "income": [2.0, 3.0]})
    assert Cells(cells, "region", frame).covariates["income"].tolist() == [3.0, 2.0]


def test_pooled_cells_are_one_collection(regions):
    assert regions.pooled().tallies[0].counts.tolist() == [48, 37, 35]
    mixed = Cells({"a": survey([4, 3, 3]), "b": survey([8, 7, 5], GRR(3, 2.0))}).pooled()
    assert [tally.name for tally in mixed.tallies] == ["all 1", "all 2"] and mixed.n_reports == 30


def test_cells_add_up_by_key(regions):
    other = Cells({"south": survey([1, 1, 1]), "east": survey([2, 0, 0])}, "region")
    total = regions + other
    assert total.labels == ("north", "south", "east") and total.sizes.tolist() == [100, 23, 2]
    assert sum(total.pooled().tallies[0].counts) == 125
    with pytest.raises(ArgumentError, match="grouping columns"):
        regions + Cells({"south": survey([1, 1, 1])}, "town")


def test_summaries_stand_in_for_reports(regions):
    pilot = np.array([0.4, 0.3, 0.3])
    cells = regions.summaries(pilot)
    assert cells.categories == regions.categories and cells.sizes.tolist() == [100, 20]
    for likelihood, found in zip(regions.likelihoods, cells.likelihoods, strict=True):
        assert replace(found, excess=None) == Summary.of(likelihood, pilot)
    added = (cells + cells)["north"]
    assert added.n_reports == 200
    with pytest.raises(ArgumentError, match=r"cannot.*pooled"):
        cells.pooled()
    with pytest.raises(ArgumentError, match="categories must"):
        Cells(dict(cells))


def test_equal_cells_are_equal(regions):
    assert regions == Cells(dict(regions), "region") and regions != Cells(dict(regions), "town")
    assert regions != Cells({"north": regions["north"]}, "region")


def test_one_sentence_for_all_cells():
    blind = Channel([[0.6, 0.6, 0.2], [0.1, 0.1, 0.5], [0.3, 0.3, 0.3]])
    with pytest.warns(RankDeficientWarning) as caught:
        Cells({k: survey([5, 3, 2], blind) for k in range(20)}).warn_if_unidentified()
    assert len(caught) == 1 and str(caught[0].message).startswith("The channels do not have full rank: a, b")
    some = Cells({"x": survey([5, 3, 2], blind), "y": survey([5, 3, 2])}).identifiability()
    assert some.startswith("Cells x: The channels")


def test_derived_quantities_that_only_some_cells_have_are_left_out():
    both, one = Derived("ab", ("a", "b")), Derived("c", ("c",))
    cells = Cells({"x": survey([1, 1, 1], derived=(both, one)), "y": survey([1, 1, 1], derived=(both,))})
    assert cells.derived == (both,)


@each_row(
    "build, words",
    [
        (lambda: Cells([survey([1, 1, 1])]), "a mapping"),
        (lambda: Cells({}), "one cell"),
        (lambda: Cells({"x": [1, 2]}), "Summaries.*list"),
        (lambda: Cells({"x": survey([1, 1, 1]), ("x",): survey([1, 1, 1])}), "distinct keys"),
        (lambda: Cells({"x": survey([1, 1, 1]), ("x", 1): survey([1, 1, 1])}), "per grouping"),
        (lambda: Cells({1: survey([1, 1, 1]), "1": survey([1, 1, 1])}), "their text"),
        (lambda: Cells({"x": survey([1, 1, 1])}, by=["a", "b"]), "1 distinct"),
        (lambda: Cells({"x": survey([1, 1, 1])}, by="draw"), "contain 'draw'"),
        (lambda: Cells({"x": survey([1, 1, 1])}, by="method"), "contain 'method'"),
        (lambda: Cells({"x": survey([1, 1, 1])}, by="a/b"), "slashes separate"),
        (lambda: Cells({"x": survey([1, 1, 1], derived=(Derived("ab", ("a", "b")),))}, by="ab"), "a derived quantity"),
        (lambda: Cells({"x": survey([1, 1, 1]), "y": survey([1, 1, 1])}).take(["x", "x"]), "keys must"),
        (lambda: Cells({"x": survey([1, 1, 1])}).take("x"), "several keys.*'x'"),
        (lambda: Cells({"x": survey([1, 1, 1])}, covariates={"z": [1, 2]}), "per cell"),
        (lambda: Cells({"x": survey([1, 1, 1])}, covariates=[1]), "column names"),
        (lambda: Cells({"x": survey([1, 1, 1])}, "g", {"g": ["y"], "z": [1]}), "no row"),
        (lambda: Cells({"x": survey([1, 1, 1])}, "g", {"g": ["x", "x"], "z": [1, 2]}), "two rows"),
        (
            lambda: Cells({"x": survey([1, 1, 1]), "y": Collection(["a", "b"], [Tally(GRR(2, 1.0), [0, 1])])}),
            "other categories",
        ),
    ],
)
def test_cells_that_make_no_sense_are_refused(build, words):
    with pytest.raises((ArgumentError, DataError), match=words):
        build()


@pytest.mark.parametrize(
    ("prior", "settings"), [("jeffreys", {}), ("learnt", {}), ("hierarchical", {}), ("jeffreys", {"draws": 0})]
)
def test_no_grouping_column_can_have_the_name_of_a_variable_of_a_result(prior, settings):
    cells = Cells({"x": survey([40, 30, 30]), "y": survey([8, 7, 5])}, by="g")
    tree = fit(cells, prior, **({"draws": 25} | settings), random_seed=1)
    settled = ("observed_data", "constant_data")  # their names start with cell_, or give way
    held = {str(name) for group, node in tree.children.items() if group not in settled for name in node.variables}
    prefixes = ("effect_", "pooled_", "scale_", "parameter_", "derived_")  # made from other names by the summary
    assert {name for name in held - {"g", "cell"} if not name.startswith(prefixes)} <= RESERVED


@pytest.mark.parametrize("prior", ["learnt", "hierarchical"])
def test_settings_of_the_prior_give_way_to_grouping_columns(prior):
    cells = Cells({("x", 1): survey([40, 30, 30]), ("y", 2): survey([8, 7, 5])}, by=("centre", "median"))
    constants = fit(cells, prior, draws=25, random_seed=1, estimates=False)["constant_data"]
    assert constants["centre"].values.tolist() == ["x", "y"] and constants["median"].values.tolist() == [1, 2]
    assert ("prior_centre" if prior == "hierarchical" else "prior_median") in constants.data_vars


def test_times_of_numpy_stay_times():
    keys = np.array(["2024-03-31", "2024-04-01"], "datetime64[ns]")
    assert Cells({key: survey([1, 1, 1]) for key in keys}).labels == ("2024-03-31 00:00:00", "2024-04-01 00:00:00")
    days = keys.astype("datetime64[D]")
    assert Cells({key: survey([1, 1, 1]) for key in days}).labels == ("2024-03-31", "2024-04-01")


def test_whole_reports_have_channels_too():
    protocol = UnaryEncoding.symmetric(3, 1.0)
    reports, counts = protocol.simulate(np.array([3, 4, 5]), np.random.default_rng(0))
    cells = Cells({"x": Collection(LABELS, [Tally(protocol, reports, counts)])})
    assert cells.likelihoods[0] is cells["x"].rows is cells["x"].likelihood
