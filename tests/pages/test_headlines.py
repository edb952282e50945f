"""Every page leads with a sentence that has number, n, design and model, and what it states computes it again."""

import dataclasses
import json

import numpy as np
import pyarrow
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from test_figure_sizes import LEAST, sizes
from test_latex import read

import ldpbayes as lb
from ldpbayes.presenting import AbstractResult
from ldpbayes.protocols import MemoizedGRR, crosswise
from ldpbayes.protocols.designs import warner
from ldpbayes.robust import crosschecking

pytestmark = pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
NO_YES = ["no", "yes"]


def three():
    return lb.Collection(["a", "b", "c"], [lb.Tally(lb.GRR(3, 1.5), [0, 1, 2], [120, 100, 80])])


def cells():
    two = {"u": [120, 100, 80], "v": [60, 40, 50]}
    return lb.Cells({key: lb.Collection("abc", [lb.Tally(lb.GRR(3, 1.5), [0, 1, 2], n)]) for key, n in two.items()}, by="g")


def answered():
    """Return a frame of private answers beside a covariate, by counts."""
    return pyarrow.table({"answer": NO_YES * 2, "old": [0, 0, 1, 1], "n": [300, 150, 200, 240]})


def regressed():
    given = {"protocol": warner(0.8), "count": "n", "draws": 100, "random_seed": 1}
    return lb.regress(answered(), "answer ~ old", **given)


def unanswered():
    return dataclasses.replace(three(), missing=30)


def questions():
    return pyarrow.table({"q1": ["no", "no", "yes", "yes"], "q2": NO_YES * 2, "n": [400, 90, 110, 150]})


def timed():
    """Return records of a duration beside a private group."""
    rng = np.random.default_rng(1)
    cold = rng.random(500) < 0.3
    duration = np.exp(rng.normal(np.where(cold, 1.0, 0.0), 0.5))
    return pyarrow.table({"duration": duration, "report": lb.GRR(2, epsilon=1.1).privatize(cold.astype(int), rng)})


def ignoring():
    survey = lb.Collection(NO_YES, [lb.Tally(crosswise(0.25), [0, 1], [210, 190])])
    return survey.with_noncompliers({"random": "uniform"})


def histories():
    return lb.Tally(
        MemoizedGRR.from_levels(3, 2.0, 1.0), [0, 1, 0, 2, 1], user=["x", "x", "y", "z", "x"], categories=tuple("abc")
    )


def first(name):
    """Return what reads a column of the first row of the first table."""
    return lambda page: next(iter(page.tables[0].lines()))[name]


def largest(name):
    """Return what reads a column of that row of the first table whose number is largest."""
    return lambda page: max((line[name] for line in page.tables[0].lines()), key=abs)


def share(page, name="distribution_mean"):
    return 100 * first(name)(page)


#: Function, objects that no text holds, other arguments, the number (a table's, as the sentence prints it), parts.
KINDS = {
    "fit": (
        lb.fit,
        {"collection": three},
        {"prior": "flat", "draws": 100},
        share,
        ".1f",
        ("300 reports", "grr (epsilon = 1.5)", "prior flat"),
    ),
    "cells": (
        lb.fit,
        {"collection": cells},
        {"prior": "learnt", "draws": 100},
        None,
        "",
        ("450 reports", "2 groups", "grr (epsilon = 1.5)", "learnt"),
    ),
    "histories": (
        lb.fit,
        {"collection": histories},
        {"draws": 100},
        share,
        ".0f",
        ("5 reports of 3 users", "memoized grr", "Jeffreys"),
    ),
    "regress": (
        lb.regress,
        {"data": answered},
        {"formula": "answer ~ old", "protocol": warner(0.8), "count": "n", "draws": 100},
        lambda page: 100 * page.facts["distribution"]["mean"][1],
        ".1f",
        ("890 reports", "warner (p = 0.8)", "answer ~ old"),
    ),
    "maximum": (
        lb.regress,
        {"data": answered},
        {"formula": "answer ~ old", "protocol": warner(0.8), "count": "n", "method": "mle"},
        lambda page: page.facts["coefficients"].ravel()[-1],
        ".3f",
        ("890 reports", "warner (p = 0.8)", "maximum likelihood of answer ~ old"),
    ),
    "check": (
        lb.check,
        {"collection": lambda: two_channels()},
        {},
        first("p_value"),
        ".3g",
        ("1,000 reports through warner", "crosswise"),
    ),
    "check of cells": (lb.check, {"collection": cells}, {}, None, "", ("450 reports", "grr (epsilon = 1.5)")),
    "crosscheck": (
        lb.crosscheck,
        {"collection": three},
        {"prior": "flat"},
        lambda page: max(abs(row[3]) for row in page.tables[0].rows),
        ".3f",
        ("300 reports", "grr (epsilon = 1.5)", "prior flat", "exact"),
    ),
    "plan": (
        lb.plan,
        {},
        {"n_categories": 10, "epsilon": 1.0, "n": 10_000},
        first("error"),
        "#.3g",
        ("10,000 users", "ε = 1", "subset", "uniform"),
    ),
    "scan": (
        lb.scan,
        {"data": questions},
        {"protocol": warner(0.7), "report": "q1", "by": "q2", "categories": NO_YES},
        lambda page: sum(row["reports"] for row in page.tables[0].lines()),
        ".0f",
        ("4 reports", "warner", "2 cells"),
    ),
    "associate": (
        lb.associate,
        {"data": questions},
        {
            "reports": {"x": "q1", "y": "q2"},
            "protocols": {"x": warner(0.8), "y": warner(0.8)},
            "categories": {"x": NO_YES, "y": NO_YES},
            "count": "n",
            "draws": 100,
        },
        first("cramers_v"),
        ".2f",
        ("750 reports", "attributes", "log-linear"),
    ),
    "private groups": (
        lb.by_private_group,
        {"data": timed},
        {"value": "duration", "protocol": lb.GRR(2, 1.1), "method": "recipe", "random_seed": 1},
        lambda page: page.facts["answers"][-3]["mean"],
        ".4g",
        ("500 records", "grr (epsilon = 1.1)", "recipe"),
    ),
    "hull": (
        lb.robust.contamination_hull,
        {"collection": three},
        {"categories": "a > 0.4", "share": 0.05},
        lambda page: page.facts["estimate"][0],
        ".3f",
        ("300 reports", "grr (epsilon = 1.5)", "unbiased estimate"),
    ),
    "sensitivity": (
        lb.robust.sensitivity,
        {"collection": ignoring},
        {"categories": "yes"},
        first("answer"),
        "#.3g",
        ("400 reports", "crosswise (p = 0.25)", "maximum likelihood"),
    ),
    "fakes": (
        lb.robust.fakes,
        {"collection": three},
        {"category": "c", "overtake": "a"},
        first("added"),
        ".0f",
        ("300 reports", "grr (epsilon = 1.5)", "unbiased estimate"),
    ),
    "choice": (lb.select_method, {"collection": three}, {"prior": "flat"}, None, "", ("Exact",)),
    "answer": (
        lb.answers.category_sum,
        {"result": lambda: lb.fit(three(), "flat", random_seed=3, draws=100)},
        {"categories": ["a", "b"]},
        first("mean"),
        ".3f",
        ("300 reports", "grr (epsilon = 1.5)", "prior flat"),
    ),
    "predictions": (
        lb.predictions,
        {"result": regressed},
        {"data": {"old": [0, 1]}},
        largest("mean"),
        ".3f",
        ("890 reports",),
    ),
    "comparisons": (lb.comparisons, {"result": regressed}, {"variable": "old"}, largest("mean"), ".4f", ("890 reports",)),
    "missing": (
        lb.answers.missing_answers,
        {"result": lambda: lb.fit(unanswered(), "flat", random_seed=3, draws=100)},
        {"categories": "b"},
        None,
        "",
        ("300 reports", "prior flat"),
    ),
    "maximum likelihood": (
        lambda collection, **fields: lb.estimators.MLE(**fields)(collection),
        {"collection": three},
        {"prior": 1.5},
        None,
        "",
        ("300 reports", "grr (epsilon = 1.5)"),
    ),
    "unbiased": (
        lambda collection: lb.estimators.Oracle()(collection),
        {"collection": three},
        {},
        None,
        "",
        ("300 reports", "grr (epsilon = 1.5)"),
    ),
    "lists": (
        lb.estimators.difference_in_means,
        {"collection": lambda: lb.load_example("race")},
        {},
        None,
        "",
        ("0.068", "0.050"),
    ),
    "prospects": (
        lb.planning.with_prospects,
        {"plans": lambda: lb.plan(n_categories=5, epsilon=1.0, n=2000, protocols=["grr", "oue"])},
        {"groups": 2, "delta": 0.1},
        first("error"),
        "#.3g",
        ("2,000 users", "ε = 1", "grr", "uniform"),
    ),
    "validation": (
        lb.planning.validation,
        {"device": lambda: lb.protocols.Channel(validated=[[399, 19], [2, 103]])},
        {"n": 3330},
        first("sd"),
        ".2g",
        ("10 times the trials",),
    ),
    "compliance": (
        lb.robust.compliance_test,
        {"collection": lambda: two_channels().with_noncompliers({"sayer": 0})},
        {},
        first("p_value"),
        ".3g",
        ("1,000 reports through warner", "crosswise"),
    ),
}

#: Kinds whose page has no figure: plot refuses them.
WITHOUT_PICTURE = {
    "answer",
    "check of cells",
    "choice",
    "compliance",
    "fakes",
    "lists",
    "maximum likelihood",
    "scan",
    "unbiased",
}


def two_channels():
    tallies = [lb.Tally(warner(0.8), [0, 1], [600, 400], "one"), lb.Tally(crosswise(0.25), [0, 1], [450, 550], "two")]
    return lb.Collection(NO_YES, tallies)


@pytest.fixture(autouse=True)
def without_chains(monkeypatch):
    """The second posterior of a cross-check by a chain of our own, which needs no model to be compiled."""
    fit = crosschecking.fit

    def quick(cell, *, method="auto", **given):
        return fit(cell, method="pair_slice" if method == "nuts" else method, **given)

    monkeypatch.setattr(crosschecking, "fit", quick)


@pytest.mark.calibrated("histories", "comparisons", "prospects", "check of cells")
@pytest.mark.parametrize("kind", list(KINDS))
def test_headline_and_settings(kind, tmp_path):
    function, objects, arguments, number, spec, parts = KINDS[kind]
    made = {name: make() for name, make in objects.items()}
    result = function(**made, **arguments)
    page = result.page()
    assert (result.headline == page.summary and str(page).startswith(page.summary[:30])) or kind == "choice"
    for part in parts:
        assert part in page.summary, (part, page.summary)
    if number is not None:
        assert format(number(page), spec) in page.summary, (number(page), page.summary)
    stated = json.loads(page.again["Settings"])
    assert stated == result.settings and stated["version"] == lb.__version__
    given = {name: x for name, x in stated["arguments"].items() if name not in objects}
    again = function(**made, **{name: revived(x) for name, x in given.items()})
    assert again.table().equals(result.table())
    assert isinstance(result, AbstractResult) and not result.table().empty
    if kind != "scan":  # data, with their own short text
        lines = repr(result).splitlines()
        assert lines[0] == page.summary and page.tables[0].columns[0].text(page.tables[0].rows[0][0]) in repr(result)
    drawn_and_kept(kind, result, page, tmp_path)


def drawn_and_kept(kind, result, page, folder):
    """Hold a result to its picture, the one of its page, on new or given Axes, and to its files."""
    result.save(folder / "page.json")
    assert json.loads((folder / "page.json").read_text())["summary"] == page.summary
    page.render("html", whole=False)
    assert len(read(page.render("latex"))) == len(page.tables) > 0
    assert (kind in WITHOUT_PICTURE) == (not page.figures)
    if kind in WITHOUT_PICTURE:
        with pytest.raises(lb.errors.ArgumentError, match=type(result).__name__):
            result.plot()
        return
    axes = result.plot()
    assert isinstance(axes, Axes) and pyplot.gcf() is axes.figure
    figure, svgs = page.figures[0], [lb.plots.to_svg(figure.draw()) for figure in page.figures]
    assert lb.plots.to_svg(axes.figure) == (lb.plots.to_svg(figure.alone()) if figure.alone else svgs[0])
    texts, drawn = sizes("".join(svgs))  # on a phone
    assert drawn == len(svgs) and min(texts) >= LEAST and max(texts) < 1.5 * LEAST
    pyplot.close("all")
    if len(axes.figure.axes) == 1:
        given = Figure().subplots()
        assert result.plot(given, title="A title") is given and given.get_title() == "A title"


def test_point_estimates_are_answers():
    for estimator, name in ((lb.estimators.MLE(), "MLE"), (lb.estimators.Oracle(), "oracle")):
        estimate = estimator(three())
        assert isinstance(estimate, AbstractResult) and repr(estimate).startswith(estimate.headline)
        assert name in estimate.headline and "300 reports through grr" in estimate.headline
        assert estimate.table()["estimate"].tolist() == estimate.distribution.tolist()


def test_completion_offers_what_results_have_of_their_own():
    result = lb.fit(three(), "flat", draws=100, random_seed=1)
    own = {"extend", "headline", "loo", "notes", "page", "plot", "posterior", "save", "settings", "summary", "table"}
    names = {name for name in dir(result) if not name.startswith("_")}
    assert own <= names and not {"argsort", "cumprod", "pipe", "prune"} & names
    assert result["posterior"].sizes["draw"] == 100 and "posterior" in result.children
    answer = lb.answers.category_sum(result, ["a", "b"])
    assert {"plot", "table", "sd"} <= set(dir(answer)) and "cumprod" not in dir(answer)


def revived(value):
    """Return an argument from its JSON: a protocol by its name and parameters."""
    if isinstance(value, dict) and set(value) == {"name", "parameters"}:
        parameters = value["parameters"]
        labels = [str(x) for x in range(2)]
        return lb.make_protocol(value["name"], labels, parameters)
    return {key: revived(part) for key, part in value.items()} if isinstance(value, dict) else value


def test_settings_are_saved(tmp_path):
    result = lb.fit(three(), 2.0, draws=100)
    result.save(tmp_path / "fit.nc")
    again = lb.load(tmp_path / "fit.nc")
    assert again.settings == result.settings
    arguments = again.settings["arguments"] | {"collection": three()}
    found = lb.fit(**arguments)
    np.testing.assert_array_equal(found["posterior"]["distribution"], result["posterior"]["distribution"])
    groups = lb.by_private_group(timed(), "duration", protocol=lb.GRR(2, 1.1), method="recipe")
    groups.save(tmp_path / "groups.nc")
    kept = lb.load(tmp_path / "groups.nc")
    assert kept.settings == groups.settings and kept.headline == groups.headline


def test_a_file_and_objects_are_named(tmp_path):
    lb.write(three(), tmp_path / "survey.toml")
    result = lb.fit(tmp_path / "survey.toml", lb.priors.Learnt(0.4), "exact", draws=100, random_seed=1)
    arguments = result.settings["arguments"]
    assert arguments["collection"] == str(tmp_path / "survey.toml")
    assert arguments["method"] == "exact" and "0.4" in arguments["prior"] and arguments["random_seed"] == 1
    of_answer = lb.answers.contrast(result, "a", "b").settings
    assert of_answer["function"] == "contrast" and of_answer["arguments"]["result"] == result.settings
