"""``lb.show`` makes the page of whatever the package returns, and lists what it can show where it cannot."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import answers
from ldpbayes.protocols import UnaryEncoding

TALLY = lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [300, 200, 100])
SURVEY = lb.Collection("abc", [TALLY], title="A survey")
CELLS = lb.Cells({"x": SURVEY, "y": SURVEY}, by="region")


@pytest.fixture(scope="module")
def tree():
    return lb.fit(SURVEY, "jeffreys", draws=50, random_seed=1)


@pytest.fixture(scope="module")
def pages(tree):
    """Pages of the results that had none, by name."""
    scanned = lb.scan(pd.DataFrame({"report": [0, 1, 2, 1]}), lb.GRR(3, 1.0), progressbar=False)
    found = {
        "CellsFitness": lb.check(CELLS),
        "Dataset": answers.simultaneous_intervals(tree),
        "Dataset of one number": answers.contrast(tree, "a", "b"),
        "Choice": lb.select_method(SURVEY, "jeffreys"),
        "Fakes": lb.robust.fakes(SURVEY, "c", overtake="a"),
        "Collection": SURVEY,
        "Cells": CELLS,
        "Tally": TALLY,
        "Found": scanned,
    }
    return {name: lb.show(result) for name, result in found.items()}


def test_every_result_has_a_page_in_every_format(pages):
    for name, page in pages.items():
        assert page.title and (page.tables or page.notes), name
        for renderer in ("terminal", "markdown", "html", "latex", "json"):
            assert len(page.render(renderer)) > 20, name


def test_pages_hold_the_numbers(pages, tree):
    intervals = answers.simultaneous_intervals(tree)
    shown = {row[0]: row[-1] for row in pages["Dataset"].tables[0].rows}
    assert shown == {
        str(label): (float(low), float(high))
        for label, low, high in zip(intervals["category"].values, intervals["lower"], intervals["upper"], strict=True)
    }
    assert pages["Dataset"].tables[0].columns[-1].heading == "95 % interval"
    difference = answers.contrast(tree, "a", "b")
    table = pages["Dataset of one number"].tables[0]
    (row,) = (dict(zip((column.key for column in table.columns), row, strict=True)) for row in table.rows)
    assert row["mean"] == float(difference["mean"])
    assert row["interval"] == (float(difference["lower"]), float(difference["upper"]))
    assert [row[2] for row in pages["Collection"].tables[1].rows] == [300, 200, 100]
    assert [row[0] for row in pages["Cells"].tables[0].rows] == ["x", "y"]
    assert pages["Cells"].tables[0].rows[0][-1] == 600
    assert "fabricated reports" in pages["Fakes"].summary


def test_tables_that_are_cut_have_all_rows_in_files():
    protocol = UnaryEncoding.optimized(8, 1.0)
    reports = protocol.privatize(np.arange(400) % 8, np.random.default_rng(1))
    fitted = lb.fit(lb.Collection("abcdefgh", [lb.Tally(protocol, reports)]), "jeffreys", draws=50, random_seed=1)
    table = lb.show(answers.simultaneous_intervals(fitted), top=3).tables[0]
    assert len(table.rows) == 3 and len(table.complete().rows) == 8 and "3 of 8 rows" in table.note


@each_row("result", [None, 3, "a word", [], {}, object(), np.ones(3), lb.GRR(3, 1.0), [1, 2]])
def test_what_has_no_page_is_refused_in_one_sentence(result):
    with pytest.raises(lb.errors.ArgumentError, match=r"show takes.*CellsFitness.*Collection.*Plan"):
        lb.show(result)


def test_a_trace_of_pymc_is_told_how_to_become_a_result():
    trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"p": (("chain", "draw"), np.ones((1, 2)))})})
    for ask in (lb.show, lb.answers.simultaneous_intervals):
        with pytest.raises(lb.errors.ArgumentError, match=r"lb\.pymc\.attach\(trace"):
            ask(trace)


def test_settings_are_those_of_the_page(tree):
    with pytest.raises(lb.errors.ArgumentError, match=r"show.*top,.*collection,.*'topp'"):
        lb.show(tree, topp=3)
    with pytest.raises(lb.errors.ArgumentError, match=r"top must.*'x'"):
        lb.show(tree, top="x")


def test_no_module_shares_the_name_of_the_function():
    from ldpbayes import pages

    assert callable(pages.show) and pages.show is lb.show
