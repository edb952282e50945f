"""Figures of pages are legible on a phone, by what their SVG says; marks of one line hide no other."""

import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import ldpbayes as lb
from ldpbayes import plots
from ldpbayes.pages import show
from ldpbayes.pages.renderers.html import _source
from studies import draw, draw_convergence, draw_coverage, draw_theory

#: Width of a phone in pixels, and the least height of text there.
PHONE, LEAST = 360, 11


def sizes(page):
    """Return the sizes of all text in a page's figures in pixels on a phone, and the number of figures.

    matplotlib draws letters as outlines of size 100, scaled in their group; a page leaves a rem of 16 pixels at either side.
    """
    (side,) = re.findall(r"body\.ldp \{[^}]*padding: \S+ ([\d.]+)rem", _source("page.css"))
    found, figures = [], re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    for svg in figures:
        width = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])
        texts = re.split(r'<g id="[^"]*text_\d+">', svg)[1:]
        scales = [re.findall(r"scale\(([\d.]+) -", text.partition("</g>\n  </g>")[0]) for text in texts]
        assert scales and all(scales)
        found += [100 * float(scale) * (PHONE - 32 * float(side)) / width for text in scales for scale in text]
    return found, len(figures)


@pytest.fixture(scope="module")
def survey():
    return lb.load_example("nigeria")


@pytest.fixture(scope="module")
def fitted(survey):
    return lb.fit(survey, random_seed=1, draws=50)


def test_text_of_figures_has_eleven_pixels_on_a_phone(survey, fitted):
    cells = lb.Cells({("north", "2020"): survey, ("south", "2020"): survey}, by=("region", "year"))
    pages = {
        "a fit, with its predictive check": (show(fitted, collection=survey), 2),
        "cells": (show(lb.fit(cells, random_seed=1, draws=50), collection=cells), 2),
        "fake reports": (show(lb.robust.contamination_hull(survey, "yes")), 1),
    }
    for name, (page, figures) in pages.items():
        texts, drawn = sizes(page.render("html"))
        assert drawn == figures and min(texts) >= LEAST and max(texts) < 1.5 * LEAST, name


def least(figure):
    """Return the size of the smallest text of a figure on a phone, in pixels; an exponent has 0.7 of its size."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    points = min(text.get_fontsize() * (0.7 if re.search(r"\$.*[\^_]", text.get_text()) else 1) for text in texts)
    return points / 72 * (PHONE - 32) / figure.get_figwidth()


@pytest.mark.calibrate  # eight seconds; these figures change with `make figures` alone
def test_text_of_figures_of_studies_has_eleven_pixels_on_a_phone(monkeypatch):
    """Drawn from the stored results; of the exact coverage one design."""
    found = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: found.update({path.stem: least(figure)}))
    monkeypatch.setattr(draw, "write_table", lambda *parts: None)
    monkeypatch.setattr(draw_coverage, "SHOWN", draw_coverage.SHOWN[:1])
    for name, write in {
        "privacy": draw.privacy,
        "convergence": draw_convergence.draw,
        "coverage": draw_coverage.draw_several,
    }.items():
        write(pq.read_table(draw.PLACE / f"{name}.parquet").to_pylist())
    draw_coverage.draw_binary()
    draw_theory.draw_all(pq.read_table(draw_theory.PLACE / "priors-study.parquet"))
    assert len(found) == 7
    assert {name: size for name, size in found.items() if size < LEAST} == {}


def heights(axes, words):
    return next(line for line in axes.lines if words in str(line.get_label())).get_ydata()


@pytest.mark.parametrize("of_groups", [False, True])
def test_the_mean_is_not_hidden_by_the_estimate(of_groups, survey, fitted):
    """Their marks stand apart by more than the size of one."""
    figure = plots.plot_forest(fitted)
    if of_groups:
        cells = lb.Cells({"north": survey, "south": survey}, by="region")
        figure = plots.plot_groups(lb.fit(cells, "jeffreys", random_seed=1, draws=50))
    figure.canvas.draw()
    (axes,) = figure.axes
    ends = [axes.transData.transform((0, heights(axes, words)[0]))[1] for words in ("95 %", "MLE")]
    size = next(line for line in axes.lines if "MLE" in str(line.get_label())).get_markersize()
    assert ends[0] - ends[1] > size * figure.dpi / 72


def test_a_prior_beyond_the_axis_says_so(fitted):
    """Jeffreys' interval is that of Beta(½, ½), far wider than the axis: two arrowheads, and its ends in the legend."""
    figure = plots.plot_forest(fitted)
    (axes,) = figure.axes
    arrows = {line.get_marker(): line.get_xdata()[0] for line in axes.lines if line.get_marker() in "<>"}
    np.testing.assert_allclose([arrows["<"], arrows[">"]], axes.get_xlim())
    low, high = np.sin(np.pi / 2 * np.array([0.025, 0.975])) ** 2  # quantiles of the arcsine law
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert f"95 % of the prior: {low:.3g} to {high:.3g}" in texts
