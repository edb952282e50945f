"""What a prior learns: kept apart from derived quantities, named on every page, with and without draws."""

import json

import numpy as np
import pytest

from ldpbayes import GRR, Cells, Collection, Tally, fit, load, save
from ldpbayes.collections import Derived
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.pages import show
from ldpbayes.protocols import UnaryEncoding
from ldpbayes.result.facts import facts_of

LABELS = tuple("abcde")
TALLY = Tally(GRR(5, 1.0), range(5), [80, 50, 30, 25, 15])


def collected(*names):
    return Collection(LABELS, TALLY, derived=[Derived(name, ["a", "b"]) for name in names])


@pytest.fixture(scope="module")
def learnt():
    return fit(collected("first two"), "learnt", random_seed=1, draws=250)


def test_a_hyperparameter_is_no_derived_quantity(learnt, tmp_path):
    """It used to stand among them: a page with both crashed, and the first sentence gave alpha in per cent."""
    save(learnt, tmp_path / "result.nc")
    for tree in (learnt, load(tmp_path / "result.nc")):
        page = show(tree, collection=collected("first two"))
        facts = json.loads(page.render("json"))
        assert list(facts["derived"]) == ["first two"] and list(facts["parameters"]) == ["alpha"]
        assert "alpha is" not in page.summary and "first two" in page.summary
        assert [table.title for table in page.tables] == ["Derived quantities", "Shares", "Hyperparameters of the prior"]
        known = facts["diagnostics"]
        for key in ("mean", "sd", "lower", "upper"):
            assert facts["parameters"]["alpha"][key] == known[f"alpha_{key}"]


def test_the_picture_has_the_derived_quantities_alone(learnt):
    from ldpbayes.plots import plot_forest

    names = [text.get_text() for text in plot_forest(learnt).axes[0].get_yticklabels()]
    assert "first two" in names and "alpha" not in names


def test_without_draws_the_same_is_said(learnt):
    tree = fit(collected("first two"), "learnt", draws=0)
    page = show(tree)
    assert [table.title for table in page.tables] == ["Derived quantities", "Shares", "Hyperparameters of the prior"]
    assert page.tables[2].rows[0][1] == pytest.approx(float(facts_of(learnt)["alpha_mean"]))
    assert "distribution" not in tree["posterior"] and "not kept" in tree.attrs["reason"]
    off = abs(tree["summary"]["derived_mean"] - learnt["summary"]["derived_mean"])
    assert (off < 5 * np.hypot(tree["summary"]["derived_mcse"], learnt["summary"]["derived_mcse"])).all()
    assert page.tables[0].rows and any(
        note.text.startswith("Log Bayes factors against the Jeffreys prior:") for note in page.notes
    )
    weak = fit(Collection(LABELS, Tally(GRR(5, 0.1), range(5), [8, 5, 3, 2, 1])), "learnt", draws=0)
    assert weak.attrs["prior_decides"] and "learnt" not in weak.attrs["decides"]


def test_cells_that_share_a_hyperparameter_have_it_once():
    cells = Cells({"x": collected("first two"), "y": collected("first two")})
    tree = fit(cells, "learnt", random_seed=1, draws=100)
    page = show(tree, collection=cells)
    assert [row[:2] for row in page.tables[2].rows] == [("alpha", facts_of(tree)["alpha_mean"])]
    assert list(json.loads(page.render("json"))["derived"]) == ["first two"]


@pytest.mark.parametrize("draws", [0, 100])
def test_a_derived_quantity_must_not_hide_a_hyperparameter(draws):
    with pytest.raises(ArgumentError, match=r"'alpha'.*hyperparameter"):
        fit(collected("alpha"), "learnt", draws=draws)
    assert fit(collected("alpha"), "jeffreys", draws=draws).attrs["prior"].startswith("Jeffreys")


def test_without_draws_methods_are_what_was_asked_for():
    unary = UnaryEncoding.optimized(4, 1.0)
    tally = Tally(unary, *unary.simulate(np.array([180, 60, 30, 30]), np.random.default_rng(1)))
    collection = Collection(LABELS[:4], tally)
    with pytest.raises(InfeasibleError, match="single out"):
        fit(collection, "jeffreys", "exact", draws=0)
    with pytest.raises(ArgumentError, match=r"exclude must.*0"):
        fit(collected(), draws=0, exclude=("exact",))
    assert fit(collected(), "learnt", "exact", draws=0).attrs["method"] == "exact"
    with pytest.raises(InfeasibleError, match="300 reports"):
        fit(collection, "jeffreys", "surrogate", draws=0)
    more = Collection(LABELS[:4], Tally(unary, *unary.simulate(np.array([36, 12, 6, 6]) * 1000, np.random.default_rng(1))))
    assert fit(more, "jeffreys", "surrogate", draws=0).attrs["method"] == "surrogate"
    exact = fit(collection, "jeffreys", draws=0)
    assert exact.attrs["method"] == "exact" and "No draws" in facts_of(exact)["checked"]
    drawn = fit(collection, "jeffreys", "quadrature", random_seed=1, draws=50, estimates=False)
    for key in ("mean", "lower", "upper"):
        np.testing.assert_allclose(exact["exact"][f"distribution_{key}"], drawn["exact"][f"distribution_{key}"])


def test_expansions_that_are_off_are_refused_without_draws():
    """At a high level a few reports are far from quadratic: an sd came out 2.5 times too small, without a word."""
    unary = UnaryEncoding.optimized(10, 8.0)
    tally = Tally(unary, *unary.simulate(np.array([15, 8, 1, 1, 1, 1, 1, 1, 1, 1]), np.random.default_rng(0)))
    with pytest.raises(InfeasibleError, match=r"accurate enough.*draws=0"):
        fit(Collection(tuple("abcdefghij"), tally), "learnt", "surrogate", draws=0)
