"""fit() of cells: each on its own, or together under a prior over all of them."""

import json
import warnings

import numpy as np
import pytest
from priorcases import CellsApart, LogisticNormal
from samples import from_sample

from ldpbayes import GRR, Cells, Collection, Tally, answers, fit, load, result, save
from ldpbayes.collections import Derived
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError, RankDeficientWarning
from ldpbayes.fitness.cells import verdict_of_cells
from ldpbayes.methods import NUTS
from ldpbayes.protocols import Channel
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.long

LABELS = ["a", "b", "c"]


def survey(counts, protocol=None, **facts):
    return Collection(LABELS, [Tally(protocol or GRR(3, 1.0), [0, 1, 2], counts)], **facts)


@pytest.fixture(scope="module")
def cells():
    derived = (Derived("ab", ("a", "b")),)
    keys = {("north", 2024): [400, 300, 300], ("north", 2025): [80, 70, 50], ("south", 2025): [5, 3, 2]}
    found = {key: survey(counts, derived=derived) for key, counts in keys.items()}
    return Cells(found, by=["region", "year"], covariates={"rural": [0.2, 0.3, 0.4]}, title="Three cells")


@pytest.fixture(scope="module")
def tree(cells):
    return fit(cells, "flat", random_seed=3)


def test_one_result_has_all_cells(cells, tree):
    for name in ("distribution", "frequency"):
        assert tree["posterior"][name].dims == ("chain", "draw", "cell", "category")
    assert tree["posterior"]["ab"].dims == ("chain", "draw", "cell")
    assert tree["posterior"]["cell"].values.tolist() == ["north, 2024", "north, 2025", "south, 2025"]
    assert tree["posterior"]["region"].values.tolist() == ["north", "north", "south"]
    assert tree["posterior"]["year"].values.tolist() == [2024, 2025, 2025]
    assert tree["summary"]["mean"].dims == ("target", "cell", "category")
    assert tree["summary"]["derived_mean"].dims == ("cell", "quantity")
    assert tree["estimate"]["value"].dims == ("estimator", "cell", "category")
    assert tree["constant_data"]["n_reports"].values.tolist() == [1000, 200, 10]
    assert tree["constant_data"]["rural"].values.tolist() == [0.2, 0.3, 0.4]
    assert tree["constant_data"]["alpha"].dims == ("category",)  # one prior of all cells
    assert tree["cells"]["method"].values.tolist() == ["exact"] * 3 and tree.attrs["method"] == "exact"
    assert facts_of(tree)["n_cells"] == 3 and tree.attrs["title"] == "Three cells" and tree.attrs["converged"] == 1
    assert json.loads(tree.attrs["settings"])["random_seed"] == 3


def test_each_cell_is_the_fit_of_its_collection(cells, tree):
    for key, cell in cells.items():
        seed = int(result.select(tree, key).attrs["random_seed"])
        alone, part = fit(cell, "flat", random_seed=seed), result.select(tree, key)
        for group in ("posterior", "summary", "exact", "estimate"):
            one, other = alone[group].to_dataset(), part[group].to_dataset()
            assert set(one.data_vars) - {"distribution_cov"} == set(other.data_vars), group
            for name in other.data_vars:
                if group == "posterior" and name == "frequency":  # given P drawn of all cells together
                    means = (x.mean(("chain", "draw")) for x in (one[name], other[name]))
                    np.testing.assert_allclose(*means, atol=0.01)
                    continue
                mine, theirs = (x.isel(target=0) if "target" in x.dims else x for x in (one[name], other[name]))
                if mine.dtype.kind == "f":
                    np.testing.assert_allclose(mine, theirs, rtol=1e-7, err_msg=name)
        np.testing.assert_array_equal(alone["observed_data"]["counts_all"], part["observed_data"]["counts_all"])
        assert part.attrs["n_reports"] == cell.n_reports and facts_of(part)["worth"] == facts_of(alone)["worth"]
        result.validate(part)


def test_cells_have_seeds_of_their_own(tree):
    same = survey([30, 20, 10])
    twins = fit(Cells({"x": same, "y": same}), "flat", random_seed=1)
    draws = twins["posterior"]["distribution"].values
    assert not np.array_equal(draws[:, :, 0], draws[:, :, 1])
    again = fit(Cells({"x": same, "y": same}), "flat", random_seed=1)
    np.testing.assert_array_equal(draws, again["posterior"]["distribution"].values)


def test_one_cell_has_the_dim_and_a_collection_never_has(cells):
    one = fit(Cells({"x": survey([30, 20, 10])}), "flat", random_seed=1)
    assert one["posterior"]["distribution"].sizes["cell"] == 1
    assert "cell" not in fit(survey([30, 20, 10]), "flat", random_seed=1)["posterior"].dims


def test_results_of_cells_are_saved_and_answer(cells, tree, tmp_path):
    save(tree, tmp_path / "cells.nc")
    again = load(tmp_path / "cells.nc")
    for group in tree.children:
        assert again[group].to_dataset().equals(tree[group].to_dataset()), group
    share = answers.category_sum(again, ["a", "b"], cell=("north", 2025))
    assert share["mean"] == pytest.approx(float(tree["summary"]["derived_mean"][1, 0]), abs=0.02)
    assert answers.poststratify(again, cells.sizes)["mean"].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "data, n_cells, words",
    [
        ("one", 3, "prior must.*3"),
        ("one", 1, "prior must.*1"),
        ("cells", 4, "prior must.*3"),
    ],
)
def test_a_prior_over_several_cells_needs_as_many(cells, data, n_cells, words):
    with pytest.raises(ArgumentError, match=words):
        fit(cells if data == "cells" else cells["north", 2024], CellsApart(LogisticNormal(3), n_cells))


@pytest.mark.parametrize("prior", ["flat", "together"])
def test_the_fit_of_the_reports_of_all_cells_is_said(prior):
    blind, counts = UnaryEncoding.optimized(3, 1.0), np.array([90, 60, 50])
    reports, weights = blind.simulate(counts, np.random.default_rng(0))
    good = Collection(LABELS, [Tally(blind, reports, weights)])
    full = Collection(LABELS, [Tally(blind, np.array([[True] * 3, [False] * 3]), [100, 100])])
    belief = prior if prior == "flat" else CellsApart(LogisticNormal(3), 2)
    tree = fit(Cells({"x": good, "y": good}), belief, random_seed=1, draws=100)
    assert facts_of(tree)["fitness"].startswith("The reports of all 2 cells fit the design")
    bad = fit(Cells({"x": good, "y": full}), belief, random_seed=1, draws=100)
    assert "design: y; nothing" in facts_of(bad)["fitness"] and bad.attrs["fitness_flagged"]
    assert facts_of(bad)["identifiability"] == "" and facts_of(bad)["caveat"] == ""
    unknown = fit(Cells({"x": survey([40, 35, 25])}), "flat", random_seed=1, draws=100)
    assert facts_of(unknown)["fitness"] == "No test of fit is possible in any cell."


def test_honest_cells_are_rarely_flagged_and_a_shared_fault_is_seen():
    rng = np.random.default_rng(2)
    honest = [verdict_of_cells([""] * 60, rng.random(60))[1] for _ in range(2000)]
    assert 0.03 < np.mean(honest) < 0.065
    sentence, flagged = verdict_of_cells([str(c) for c in range(60)], np.r_[np.full(59, 0.2), np.nan])
    assert flagged and "59 of 60 cells" in sentence and "least well" not in sentence


def test_sums_over_many_weakly_informed_cells_warn():
    rng, p = np.random.default_rng(5), np.array([0.9, 0.05, 0.05])
    protocol = GRR(3, 0.7)

    def many(n_cells, n):
        found = {}
        for i in range(n_cells):
            found[i] = Collection(LABELS, [Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))])
        return Cells(found)

    weak, strong = many(36, 30), many(3, 400_000)
    with pytest.warns(DiagnosticWarning, match=r"priors.*36 cells"):
        pulled = answers.poststratify(fit(weak, "flat", random_seed=1, draws=200, estimates=False), weak.sizes)
    assert abs(float(pulled["mean"][0]) - 0.9) > 3 * float(pulled["sd"][0])  # which is why it must be said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers.poststratify(fit(strong, "flat", random_seed=1, draws=200, estimates=False), strong.sizes)


def test_different_methods_stand_in_one_result():
    unary = UnaryEncoding.optimized(3, 1.0)
    reports = unary.simulate(np.array([30, 20, 10]), np.random.default_rng(0))
    mixed = Cells({"grr": survey([30, 20, 10]), "unary": Collection(LABELS, [Tally(unary, *reports)])})
    tree = fit(mixed, "flat", random_seed=1, draws=100)
    assert tree["cells"]["method"].values.tolist() == ["exact", "quadrature"] and tree.attrs["method"] == "several"
    assert "exact (1 cells), quadrature" in tree.attrs["reason"]
    result.validate(result.select(tree, "unary"))


def test_one_warning_for_all_cells():
    blind = Channel([[0.6, 0.6, 0.2], [0.1, 0.1, 0.5], [0.3, 0.3, 0.3]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(Cells({k: survey([5, 3, 2], blind) for k in range(4)}), "flat", random_seed=1, draws=50)
    assert [w.category for w in caught if issubclass(w.category, RankDeficientWarning)] == [RankDeficientWarning]


def test_a_cell_that_cannot_be_served_is_left_out_by_name_with_its_reason(cells, tmp_path):
    """Summaries about a pilot that is far off: what is left is each what it is alone, and all that is said is of it."""
    summaries = cells.summaries(np.ones(3) / 3)
    with pytest.warns(DiagnosticWarning, match=r"north, 2024:.*keep="):
        tree = fit(summaries, "flat", random_seed=1, draws=100)
    kept = tree["summary"]["cell"].values.tolist()
    assert 0 < len(kept) < len(cells) and "left out" in str(tree.page())
    result.validate(tree)
    save(tree, tmp_path / "r.nc")
    assert load(tmp_path / "r.nc").attrs["left_out"] == tree.attrs["left_out"]
    bad = summaries.take([key for key, label in zip(cells, cells.labels, strict=True) if label not in kept])
    with pytest.raises(InfeasibleError, match=r"north, 2024:.*keep="):
        fit(bad, "flat")


def test_a_prior_over_all_cells_serves_them_together(cells):
    prior = CellsApart(LogisticNormal(3), 3)
    tree = fit(cells, prior, random_seed=1)
    assert tree.attrs["method"] == "weighted" and tree.attrs["converged"] and facts_of(tree)["k_hat"] < 0.7
    assert tree["posterior"]["distribution"].dims == ("chain", "draw", "cell", "category")
    # With a prior under which the cells are independent, every cell is as if it were alone.
    for key in cells:
        alone = fit(cells[key], LogisticNormal(3), "weighted", random_seed=2)
        one, other = (part["summary"] for part in (result.select(tree, key), alone))
        for target in ("distribution", "frequency"):
            left, right = one.sel(target=target), other.sel(target=target)
            error = np.hypot(left["mcse"].values, right["mcse"].values)
            assert np.abs((left["mean"].values - right["mean"].values) / error).max() < 4.5, (key, target)
    with pytest.raises(InfeasibleError, match=r"weighted,.*hmc,.*nuts"):
        fit(cells, prior, "exact")


@pytest.mark.calibrate
def test_a_prior_over_all_cells_is_that_of_chains(cells):
    prior = CellsApart(LogisticNormal(3), 3)
    tree = fit(cells, prior, random_seed=1)
    sampled = fit(cells, prior, NUTS(draws=500, tune=500, chains=2), random_seed=1)
    assert sampled.attrs["method"] == "nuts"
    one, other = (part["summary"].sel(target="distribution") for part in (tree, sampled))
    error = np.hypot(one["mcse"].values, other["mcse"].values)
    assert np.abs((one["mean"].values - other["mean"].values) / error).max() < 4.5


def test_summaries_are_served_by_a_prior_over_all_cells(cells):
    prior = CellsApart(LogisticNormal(3), 3)
    full = fit(cells, prior, "weighted", random_seed=1)
    pilots = full["summary"]["mean"].sel(target="distribution").values
    tree = fit(cells.summaries(pilots), prior, "weighted", random_seed=1)
    one, other = (part["summary"].sel(target="distribution").isel(cell=[0, 1]) for part in (full, tree))
    assert (np.abs(one["mean"] - other["mean"]) < 0.2 * one["sd"]).all()
    assert facts_of(tree)["frequency_draws"] == "mean only"


def test_cells_of_which_only_some_have_weights():
    """A pseudo-posterior has no F; the F of the cells without weights is then left out of the result too, in words."""
    rng = np.random.default_rng(5)
    weighted = from_sample(LABELS, GRR(3, 1.0), rng.integers(0, 3, 300), weights=rng.uniform(0.5, 2, 300))
    both = fit(Cells({"w": weighted, "p": survey([120, 100, 80])}), random_seed=1)
    assert facts_of(both)["frequency_draws"] == "left out" and "frequency" not in both["posterior"]
    alone = fit(survey([120, 100, 80]), random_seed=1)
    mean = both["summary"]["mean"].sel(target="distribution", cell="p").values
    np.testing.assert_allclose(mean, alone["summary"]["mean"].sel(target="distribution").values, atol=0.002)
