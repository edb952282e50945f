"""Malformed arguments by name; tests/test_malformed.py generates them from the signatures of every public callable."""

import pickle

import numpy as np
import pandas as pd
import pytest
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import planning, plots
from ldpbayes.protocols import UnaryEncoding
from ldpbayes.simulation import simulate

SURVEY = lb.Collection("abc", [lb.Tally(UnaryEncoding.optimized(3, 1.0), [[1, 0, 0], [0, 1, 0], [0, 1, 1]], [50, 40, 30])])


WRONG = [[5, -3, -1], [1, 0, 0], [0.2, 0.3], "word", {}, np.nan, pd.NA, [np.nan] * 3, np.ones((3, 3)) / 3]


@each_row("estimate", WRONG)
def test_an_estimate_is_believed_only_if_it_is_the_maximum(estimate):
    with pytest.raises(lb.errors.ArgumentError, match=r"^estimate must"):
        lb.check(SURVEY, estimate=estimate)


def test_the_maximum_is_believed():
    maximum = lb.estimators.MLE()(SURVEY).distribution
    found, own = lb.check(SURVEY, estimate=list(maximum)), lb.check(SURVEY)
    assert found.p_value == pytest.approx(own.p_value, rel=1e-3) and found.verdict == own.verdict


@each_row("protocols", [3, [1], [None], {"grr": 3}, {1: lb.GRR}, pd.NA, "", ["grr", "gr"]])
def test_protocols_of_a_plan_are_names_or_makers(protocols):
    with pytest.raises(lb.errors.ArgumentError, match=r"^protocols? must"):
        planning.plan(n_categories=3, epsilon=1.0, error=0.1, protocols=protocols)


@each_row("categories", [3, [1, 2, 3], "ab", pd.NA, {"a": 1, "b": 2, "c": 3}, {"a", "b", "c"}])
def test_categories_of_a_simulation_are_labels(categories):
    with pytest.raises((lb.errors.ArgumentError, lb.errors.DataError), match=r"categories"):
        simulate([3, 2, 1], lb.GRR(3, 1.0), categories=categories)


@pytest.fixture(scope="module")
def page():
    tree = lb.fit(
        lb.Collection("ab", [lb.Tally(lb.GRR(2, 1.0), [0, 1], [60, 40])], title="T"), "flat", draws=50, random_seed=1
    )
    return lb.show(tree)


def test_a_page_can_be_pickled(page):
    again = pickle.loads(pickle.dumps(page))
    for renderer in ("terminal", "markdown", "json", "latex"):
        assert again.render(renderer) == page.render(renderer)
    assert [table.complete() == whole.complete() for table, whole in zip(again.tables, page.tables, strict=True)]
    assert page.figures and [figure.name for figure in again.figures] == [figure.name for figure in page.figures]
    assert plots.to_svg(again.figures[0].draw()).startswith("<")
    assert pickle.loads(pickle.dumps(again)).title == page.title
