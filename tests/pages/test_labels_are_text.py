"""A label that is broken mathtext ended a page in a ValueError. Labels are text, in every plot and page."""

import numpy as np
import pandas as pd
import pytest

import ldpbayes as lb
from ldpbayes import plots
from ldpbayes.pages.renderers.csv import CSV

#: Broken formulas, a good one, a single dollar, what TeX would obey, and letters that turn or clear a screen.
LABELS = ["a$_{$", "$\\frac{$", "$x^2$", "5 $", "\\input{x}", "_hidden", "=cmd|' /C calc'!A0", "@SUM(1+1)"]


@pytest.fixture(scope="module")
def survey():
    protocol = lb.GRR(len(LABELS), 1.0)
    counts = protocol.simulate(np.full(len(LABELS), 50), np.random.default_rng(1))
    tally = lb.Tally(protocol, *counts, name="$_{$")
    shares = [lb.collections.Derived("share $_{$", LABELS[:1], LABELS[:3])]
    return lb.Collection(LABELS, tally, derived=shares, title="$\\sum$ of $_{$", notes="$_{$")


@pytest.fixture(scope="module")
def fitted(survey):
    return lb.fit(survey, draws=100, random_seed=1, prior="jeffreys")


def drawn(figure):
    """Return the texts of a figure after it was drawn, in the words of matplotlib."""
    from matplotlib.text import Text

    svg = plots.base.to_svg(figure)
    assert svg
    return {text.get_text().replace(r"\$", "$") for text in figure.findobj(Text)}


def test_figures_of_a_fit(fitted, survey):
    texts = drawn(plots.plot_forest(fitted))
    assert set(LABELS) <= texts and "share $_{$" in texts
    for figure in (
        plots.plot_contamination(lb.robust.contamination_hull(survey, LABELS[0])),
        plots.plot_predictive(fitted, survey),
    ):
        drawn(figure)


def test_pages_of_every_format(fitted, tmp_path):
    for suffix in (".html", ".md", ".tex", ".csv", ".json"):
        lb.save(fitted, tmp_path / f"page{suffix}")
        assert (tmp_path / f"page{suffix}").stat().st_size


def test_cells_groups_and_regressions(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"report": np.array(LABELS)[rng.integers(8, size=800)], "key $_{$": ["$_{$", "$\\frac{$"] * 400})
    protocol = lb.GRR(8, 2.0)
    cells = lb.read(frame, protocol, report="report", by="key $_{$", categories=LABELS)
    fitted = lb.fit(cells, draws=100, random_seed=1, prior="jeffreys")
    assert set(LABELS) <= drawn(plots.plot_forest(fitted))
    drawn(plots.plot_groups(fitted))
    lb.save(fitted, tmp_path / "cells.html")


def test_tables_for_spreadsheets_hold_no_formulas(fitted):
    """Spreadsheets compute what begins with =, +, - or @."""
    text = CSV().render(lb.show(fitted))
    assert "'=cmd|" in text and "'@SUM(" in text
    assert not any(line.startswith(("=", "@", "+", '"=', '"@')) for line in text.splitlines())
