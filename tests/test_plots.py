"""Figures hold the numbers of the tables, and no curve hides another."""

import inspect

import numpy as np
import pytest
from commands import run

import ldpbayes as lb
from ldpbayes import planning, plots
from ldpbayes.planning.figures import _words


@pytest.fixture(scope="module")
def minarets():
    return lb.fit(lb.load_example("minarets"), random_seed=1)


def line(axes, words):
    return next(found for found in axes.lines if words in str(found.get_label()))


def ticks(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def test_forest_has_the_derived_quantities(minarets):
    (axes,) = plots.plot_forest(minarets).axes
    assert ticks(axes) == ["carrier_honest", "carrier_lying", "non_carrier", "pi", "t"]
    summary, estimate = minarets["summary"], minarets["estimate"]
    means = [*summary["mean"].sel(target="distribution").values, *summary["derived_mean"].values]
    np.testing.assert_array_equal(line(axes, "P: mean").get_xdata(), means)
    mle = [*estimate["value"].sel(estimator="mle").values, *estimate["derived"].sel(estimator="mle").values]
    np.testing.assert_array_equal(line(axes, "MLE").get_xdata(), mle)
    assert len(axes.collections[0].get_segments()) == 5 and len(axes.collections[1].get_segments()) == 3
    (axes,) = plots.plot_forest(minarets, target="frequency").axes
    np.testing.assert_array_equal(line(axes, "F of").get_xdata(), summary["mean"].sel(target="frequency").values)


def test_top_holds_for_the_plot(minarets, capsys, tmp_path, monkeypatch):
    (axes,) = plots.plot_forest(minarets, top=1).axes
    assert ticks(axes) == ["carrier_honest", "pi", "t"] and "1 largest of 3" in axes.get_xlabel().replace("\n", " ")
    seen = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: seen.append(figure))
    run(capsys, "fit", "example:cheating", "--seed", 1, "--top", 2, "--plot", tmp_path / "x.png")
    assert len(ticks(seen[0].axes[0])) == 2


def test_forest_has_a_title_and_a_legend(minarets):
    figure = plots.plot_forest(minarets)
    assert "minarets" in figure.get_suptitle()
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(words) == 4 and any("95 % interval" in word for word in words)


@pytest.fixture(scope="module")
def plan_axes():
    values = np.geomspace(500, 50_000, 25)
    curves = planning.curves("n", values, n_categories=16, epsilon=1.0)
    best = planning.plan(n_categories=16, epsilon=1, error=0.01)[0]
    label = planning.KINDS["half_width"]
    return plots.plot_plan(
        curves, values, label, along="n", chosen=(best.n, best.error, best.protocol), title="A plan"
    ).axes[0]


def test_no_curve_hides_another(plan_axes):
    """Curves differ in colour, dashes and marker places, and a later curve is thinner than those below it."""
    named = {_words(name) for name in planning.PROTOCOLS}
    curves = [found for found in plan_axes.lines if found.get_label() in named]
    assert len(curves) == len(planning.PROTOCOLS)
    for attribute in ("get_color", "get_marker", "get_markevery"):
        assert len({str(getattr(curve, attribute)()) for curve in curves}) == len(curves)
    widths = [curve.get_linewidth() for curve in curves]
    assert widths == sorted(widths, reverse=True) and widths[0] > widths[-1]


def test_the_planned_point_has_its_protocols_colour(plan_axes):
    planned = line(plan_axes, "planned: subset selection")
    assert planned.get_color() == line(plan_axes, "subset selection").get_color()
    assert planned.get_color() != line(plan_axes, "SUE").get_color()


def test_labels_fit_and_there_is_a_title(plan_axes):
    figure = plan_axes.figure
    figure.savefig(__import__("io").BytesIO(), format="png")
    assert figure.get_suptitle() == "A plan" and "reports" in plan_axes.get_xlabel()
    height = figure.bbox.height
    box = plan_axes.yaxis.label.get_window_extent()
    assert 0 <= box.y0 and box.y1 <= height


def test_missing_matplotlib_is_a_sentence(minarets, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(lb.errors.InfeasibleError, match=r"ldpbayes\[plots\]"):
        plots.plot_forest(minarets)


def test_a_legend_is_as_wide_as_its_figure():
    """Long labels take fewer columns: none is cut at the edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    curves = {"extended_crosswise": np.array([0.1, 0.01]), "bound": np.array([0.09, 0.009])}
    curves["direct answers"] = curves["bound"] / 2
    chosen = (300.0, 0.03, "extended_crosswise")
    figure = plots.plot_plan(curves, np.array([100.0, 1000.0]), label="error", along="n", chosen=chosen)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.legends[0].get_window_extent(canvas.get_renderer())
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width


def test_every_plot_takes_axes_or_a_part_of_a_figure(minarets):
    """A single panel goes into the caller's axes, several into a figure; what was drawn on comes back."""
    from matplotlib.figure import Figure

    names = [name for name in plots.__all__ if name.startswith("plot_")]
    assert names and all("ax" in inspect.signature(getattr(plots, name)).parameters for name in names)
    figure = Figure(figsize=(9, 4))
    left, right = figure.subplots(1, 2)
    assert plots.plot_forest(minarets, ax=left) is left and not right.lines
    assert "minarets" in left.get_title() and left.get_legend() is not None and not figure.legends
    part, other = Figure(figsize=(9, 4), layout="constrained").subfigures(1, 2)
    cells = lb.fit(lb.Cells({c: lb.load_example("nigeria") for c in "ab"}, "region"), draws=0)
    assert plots.plot_groups(cells, ax=part) is part and len(part.axes) == 1 and not other.axes
    assert len(part.legends) == 1
    three = lb.Collection(list("abc"), lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [5, 6, 7]))
    with pytest.raises(lb.errors.ArgumentError, match=r"ax must.*4"):
        plots.plot_groups(lb.fit(lb.Cells({"a": three, "b": three}, "region"), "flat", draws=0), ax=left)
    with pytest.raises(lb.errors.ArgumentError, match=r"ax must.*str"):
        plots.plot_forest(minarets, ax="left")


def test_every_plot_takes_a_style(minarets):
    names = [name for name in plots.__all__ if name.startswith("plot_")]
    kinds = [inspect.signature(getattr(plots, name)).parameters["style"].kind for name in names]
    assert set(kinds) == {inspect.Parameter.VAR_KEYWORD}
    red = ["#ff0000", *plots.PALETTE[1:]]
    figure = plots.plot_forest(minarets, title="Mine", figsize=(3, 2), legend=False, palette=red)
    assert figure.get_suptitle() == "Mine" and not figure.legends and figure.get_size_inches().tolist() == [3, 2]
    assert line(figure.axes[0], "P: mean").get_color() == "#ff0000"
    for wrong in ({"colour": "red"}, {"palette": ["red"]}, {"figsize": 3}, {"title": 3}, {"legend": "no"}):
        with pytest.raises(lb.errors.ArgumentError, match=next(iter({"colour": "style"}.get(k, k) for k in wrong))):
            plots.plot_forest(minarets, **wrong)
