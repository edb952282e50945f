"""Figures of groups, of predictions and of cross-checks, and the words of a page."""

import io
import itertools
import re
import sys

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from test_browser import dashboard

import ldpbayes as lb
from ldpbayes import planning, plots
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.pages import about, renderers, show, summary
from ldpbayes.plots import base
from ldpbayes.robust.crosschecking import concluded

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def regions():
    return dashboard()


def test_groups_have_the_numbers_of_the_summary(regions):
    cells, tree = regions
    figure = plots.plot_groups(tree)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [*cells.categories, "satisfied at all"] == plots.groups.drawn(tree)
    found = tree["summary"].to_dataset().sel(target="distribution")
    for axes, label in zip(figure.axes, cells.categories, strict=False):
        means = next(line for line in axes.lines if "mean and" in str(line.get_label())).get_xdata()
        np.testing.assert_array_equal(means, found["mean"].sel(category=label).values)
        ends = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
        np.testing.assert_array_equal(ends[:, 1], found["upper"].sel(category=label).values)
    assert len(figure.axes[0].get_yticklabels()) == 60
    with pytest.raises(ArgumentError, match="with cells"):
        plots.plot_groups(lb.fit(lb.load_example("nigeria"), random_seed=1, draws=50, estimates=False))


def test_every_group_has_its_label_apart_from_the_next(regions):
    figure = plots.plot_groups(regions[1])
    assert outside(figure) < 0.03
    boxes = [text.get_window_extent() for text in figure.axes[0].get_yticklabels()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(above[0] >= below[1] - 1 for below, above in itertools.pairwise(heights))
    assert all(box.x0 >= 0 for box in boxes)


def test_long_names_are_shortened_so_that_they_differ_and_fit():
    name = "https://a-very-long-name-of-a-site.example.org/path/to/a/page/number-{}"
    labels = [name.format(place) for place in range(3)]
    cells = lb.Cells(
        {key: lb.Collection(labels, lb.Tally(lb.GRR(3, 2.0), [0, 1, 2], [60, 30, 10])) for key in labels}, "site"
    )
    figure = plots.plot_groups(lb.fit(cells, "jeffreys", draws=0), top=1)
    ticks = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert len(set(ticks)) == 3 and all(len(tick) <= 40 and "…" in tick for tick in ticks)
    assert outside(figure) < 0.03
    assert base.shortened("Science (incl. Mathematics)", 27) == "Science (incl. Mathematics)"


def test_confidence_intervals_of_the_largest_are_not_called_those_of_the_table():
    protocol = lb.GRR(12, 2.0)
    reports = protocol.simulate(np.arange(12) * 20, np.random.default_rng(1))
    tree = lb.fit(lb.Collection(list("abcdefghijkl"), lb.Tally(protocol, *reports)), "jeffreys", draws=50, random_seed=1)
    for top, label in ((3, "95 % confidence for the 3 largest"), (12, "95 % confidence")):
        (legend,) = plots.plot_forest(tree, top=top).legends
        assert label in [text.get_text() for text in legend.get_texts()]


def outside(figure):
    """Return how far, in inches, anything that is drawn reaches beyond an edge of a figure."""
    figure.savefig(io.BytesIO(), format="png", dpi=figure.dpi)
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)


def test_no_text_is_cut_at_the_edge_of_a_figure():
    cheating = lb.load_example("cheating")
    tree = lb.fit(cheating, random_seed=1, draws=50)
    values = np.geomspace(500, 50_000, 5)
    curves = planning.curves("n", values, n_categories=16, epsilon=1.0, kind="half_width")
    figures = [
        plots.plot_forest(tree),
        plots.plot_forest(tree, top=3),
        plots.plot_predictive(tree, cheating),
        plots.plot_crosscheck(
            crosschecked(), title="A survey with a rather long title that needs two lines or three of them"
        ),
        plots.plot_plan(
            curves, values, planning.KINDS["half_width"], along="n", chosen=(5000, 0.05, "subset"), title="A plan"
        ),
    ]
    for figure in figures:
        assert outside(figure) < 0.03


def crosschecked():
    """Return the outcome of a cross-check of two shares."""
    numbers = {"mean": [0.6, 0.4], "sd": [0.1, 0.1], "difference_sd": [0.01, -0.02], "difference_mcse": [0.3, -0.6]}
    numbers |= {"end_sd": [0.01, -0.02], "end_errors": [0.2, -0.4]}
    data = {name: ("category", values) for name, values in numbers.items()} | {"verdict": ("category", ["agrees"] * 2)}
    data |= {"away": (("estimator", "category"), [[0.5, -0.5]]), "predictive_p": ("channel", []), "sampler_converged": 1}
    data |= {"convex_astray": 0, "convex_gap": 1e-9, "convex_excess": 0.0, "convex_verdict": "The maxima agree."} | {
        "enumeration_apart": 0
    }
    coords = {"category": ["a", "b"], "estimator": ["mle"], "channel": []}
    found = xr.Dataset(data | {"reference": "quadrature", "sampler": "nuts", "outcome": "Good."}, coords)
    return concluded(found, lb.check(lb.load_example("nigeria")), 1)


def test_colours_are_those_of_okabe_and_ito(regions):
    allowed = {color.lower() for color in (*base.PALETTE, "#f0e442")}
    for axes in plots.plot_groups(regions[1]).axes:
        for line in axes.lines:
            color = to_hex(line.get_markeredgecolor() if line.get_linestyle() == "None" else line.get_color())
            assert color in allowed or len({color[1:3], color[3:5], color[5:]}) == 1  # or a grey


def test_predictions_hold_honest_reports_and_show_wrong_ones():
    grr = lb.GRR(6, 2.0)
    reports = grr.simulate(np.array([300, 200, 100, 100, 50, 50]), np.random.default_rng(4))
    collection = lb.Collection(list("abcdef"), lb.Tally(grr, *reports))
    tree = lb.fit(collection, random_seed=1, draws=200, estimates=False)
    (axes,) = plots.plot_predictive(tree, collection).axes
    observed = axes.lines[0].get_xdata()
    np.testing.assert_allclose(observed, reports[1] / 800)
    ends = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
    assert ((ends[:, 0] <= observed) & (observed <= ends[:, 1])).all()
    (wrong,) = plots.plot_expected(collection, np.full(6, 1 / 6)).axes
    ends = np.array([segment[:, 0] for segment in wrong.collections[0].get_segments()])
    assert ends[0, 1] < observed[0] and [text.get_text() for text in wrong.get_yticklabels()] == list("abcdef")


def test_many_reports_are_drawn_as_distances():
    grr = lb.GRR(60, 3.0)
    reports = grr.simulate(np.full(60, 50), np.random.default_rng(1))
    collection = lb.Collection([str(x) for x in range(60)], lb.Tally(grr, *reports))
    (axes,) = plots.plot_expected(collection, np.full(60, 1 / 60)).axes
    away = axes.lines[0].get_ydata()
    assert away.size == 60 and np.abs(away).max() < 4.5 and 0.6 < away.std() < 1.4 and "sd" in axes.get_ylabel()
    with pytest.raises(ArgumentError, match="p must"):
        plots.plot_expected(collection, [0.5, 0.6])


def test_a_crosscheck_has_a_figure_and_a_summary():
    page = show(crosschecked(), title="A survey")
    (axes,) = page.figures[0].draw().axes
    assert sorted(axes.lines[0].get_xdata()) == [-0.02, 0.01] and "posterior sd" in axes.get_xlabel()
    assert "0.02 posterior standard" in page.notes[0].text and page.summary


# ---- words -------------------------------------------------------------------------------------------------------------
def test_summaries_say_the_numbers_of_the_table():
    tree = lb.fit(lb.load_example("nigeria"), "flat", random_seed=1)
    text = summary.summary_of_fit(tree)
    assert text.startswith("From 2,435 reports, an estimated 26.2 % of people are in the category yes (95 % interval 23.4 %")
    assert text.count(". ") == 0  # one sentence: the rest stands in notes
    for mean, sd, words in (
        (0.12345, 0.1, "12 %"),
        (0.12345, 0.01, "12.3 %"),
        (0.0012345, 0.0001, "0.123 %"),
        (1, 0, "100 %"),
    ):
        assert summary.shares([mean], [0], [1], [sd], "95 % interval")[0].startswith(f"{words} (95 % interval 0")
    both = summary.shares([0.028, 0.5], [0.0, 0.003], [0.129, 0.997], [0.035, 0.35], "95 % interval")  # equal digits
    assert both == ["2.8 % (95 % interval 0.0 % to 12.9 %)", "50.0 % (0.3 % to 99.7 %)"]


def test_summaries_of_groups_name_the_ends(regions):
    cells, tree = regions
    mean = tree["summary"]["derived_mean"].sel(quantity="satisfied at all").values  # what the data declare, as of one group
    text = summary.summary_of_fit(tree)
    assert text.startswith("From 24,000 reports in 60 groups, the share of satisfied at all is estimated between")
    least, largest = (cells.labels[int(found)].replace(", ", ", year ") for found in (mean.argmin(), mean.argmax()))
    assert f"in {least} (95 % interval" in text and f"in {largest} (" in text


def test_summaries_of_groups_of_a_list_say_the_share_of_the_trait():
    """Not that of some number of items, which was the largest of the shares."""
    design = lb.protocols.ListExperiment(items=2)
    north = lb.Collection.from_lists(design, [20, 50, 30], [15, 45, 33, 7], trait="angry")
    south = lb.Collection.from_lists(design, [25, 50, 25], [25, 40, 25, 10], trait="angry")
    tree = lb.fit(lb.Cells({"north": north, "south": south}, by="region"), random_seed=1)
    first, second = tree["summary"]["derived_mean"].sel(quantity="angry").values
    said = f"the share of angry is estimated between {100 * first:.0f} % in north (95 % interval"
    assert said in summary.summary_of_fit(tree) and f"and {100 * second:.0f} % in south (" in summary.summary_of_fit(tree)


def test_pages_say_question_design_and_how_to_compute_them_again(regions):
    survey = lb.load_example("nigeria")
    words = about.about(survey)
    assert words["Question"] == survey.question and words["Source"] == survey.citation
    assert words["Answers"] == "2 categories: no, yes."
    assert "(truth = 0.6667" in words["Design"]
    assert "5 times" in words["Design"]
    assert about.about(regions[0])["Groups"] == "60 groups by region and year, with 400 reports each."
    tree = lb.fit(survey, random_seed=7, draws=50, estimates=False)
    again = show(tree, collection=survey, command="ldpbayes fit x.toml").again
    assert again["Command"] == "ldpbayes fit x.toml" and again["Random seed"] == "7"
    assert f"ldpbayes {lb.__version__}" in again["Versions"]
    assert again["Data (SHA-256)"] == about.fingerprint(survey) and len(about.fingerprint(survey)) == 64


def test_the_hash_of_the_data_is_that_of_the_data(tmp_path, regions):
    survey = lb.load_example("nigeria")
    assert about.fingerprint(survey) == about.fingerprint(lb.load_example("nigeria"))
    lb.write(survey, tmp_path / "copy.toml")
    assert about.fingerprint(lb.read(tmp_path / "copy.toml")) == about.fingerprint(survey)
    tally = survey.tallies[0]
    other = lb.Collection(
        survey.categories, lb.Tally(tally.protocol, tally.reports, tally.counts + np.array([1, 0]), tally.name)
    )
    assert about.fingerprint(other) != about.fingerprint(survey)
    cells, tree = regions
    assert show(tree).again["Data (SHA-256)"] == about.fingerprint(cells)


def test_the_predictive_check_of_groups(regions):
    """One line of dots per group at (observed − predicted)/sd: most within two, and a group that was changed far outside."""
    cells, tree = regions
    figure = plots.plot_predictive_cells(tree, cells)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()][:2] == [base.wrapped(c, 24) for c in cells.labels[:2]]
    away = np.concatenate([line.get_xdata() for line in axes.lines])
    assert away.size >= 60 * 2 and (np.abs(away) < 2).mean() > 0.9 and outside(figure) < 0.03
    first = dict(cells)
    key = next(iter(first))
    tally = first[key].tallies[0]
    counts = np.where(np.arange(tally.counts.size) == 0, 20 * tally.counts, tally.counts)
    first[key] = lb.Collection(cells.categories, [lb.Tally(tally.protocol, tally.reports, counts)])
    changed = plots.plot_predictive_cells(tree, lb.Cells(first), most=5)
    assert "(5 of 60 groups)" in changed.get_suptitle().replace("\n", " ")
    assert max(np.abs(line.get_xdata()).max() for line in changed.axes[0].lines) > 5
    page = show(tree, collection=cells)
    assert [one.name for one in page.figures] == ["groups", "predictive"] and "by group" in page.figures[1].alt


def test_groups_without_draws_have_a_page_without_a_predictive_check(regions):
    """Moments alone predict no reports: the page leaves the figure out where it was a KeyError."""
    cells, _ = regions
    page = show(lb.fit(cells, draws=0), collection=cells)
    assert [one.name for one in page.figures] == ["groups"] and "<svg" in page.render("html")


@pytest.fixture(scope="module")
def nigeria():
    collection = lb.load_example("nigeria")
    return show(lb.fit(collection, random_seed=1, draws=50, estimates=False), collection=collection)


def test_pages_in_markdown_and_latex_link_their_figures(tmp_path, nigeria):
    """Every link leads to a picture beside the page, the same each time; without a file there are no links."""
    page = nigeria
    page.save(tmp_path / "a b.md")
    text = (tmp_path / "a b.md").read_text()
    links = re.findall(r"^!\[(.+)\]\((.+)\)$", text, re.MULTILINE)
    assert [link for _, link in links] == ["a-b-figures/1-forest.svg", "a-b-figures/2-predictive.svg"]
    for (alt, link), figure in zip(links, page.figures, strict=True):
        assert (tmp_path / link).read_text().lstrip().startswith("<?xml") and alt.startswith(figure.alt[:10])
    assert text.index("![") < text.index("| ---" if "| ---" in text else "|")
    before = (tmp_path / links[0][1]).read_bytes()
    page.save(tmp_path / "a b.md")
    assert (tmp_path / links[0][1]).read_bytes() == before
    page.save(tmp_path / "report.tex")
    found = re.findall(r"\\includegraphics\[width=\\linewidth\]\{(.+)\}", (tmp_path / "report.tex").read_text())
    assert [(tmp_path / link).read_bytes()[:5] for link in found] == [b"%PDF-"] * 2
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]
    assert "![" not in page.render("markdown")


def test_a_place_for_the_figures_is_checked_first(tmp_path, nigeria):
    (tmp_path / "out-figures").write_text("a file")
    for check in (renderers.check_page, lambda path: nigeria.save(path)):
        with pytest.raises(DataError, match="that name"):
            check(tmp_path / "out.md")
    assert not (tmp_path / "out.md").exists()
    renderers.check_page(tmp_path / "out.html")


def test_without_matplotlib_a_markdown_page_says_that_its_figures_were_not_drawn(tmp_path, monkeypatch, nigeria):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    nigeria.save(tmp_path / "out.md")
    text = (tmp_path / "out.md").read_text()
    assert "drawn, because" in text and not (tmp_path / "out-figures").exists()
