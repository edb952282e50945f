"""Pages and their renderers: nothing is cut, nothing is lost, and a renderer is one file."""

import csv
import functools
import io
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, listed
from ldpbayes.pages import Column, Kind, Note, Page, Table, show
from ldpbayes.pages.prose import as_sentences, first_sentence
from ldpbayes.pages.renderers import renderer_of
from ldpbayes.pages.renderers.terminal import layout, visible
from ldpbayes.pages.rendering import AbstractRenderer, make_renderer, renderers
from ldpbayes.result import attach

pytestmark = pytest.mark.long

#: Every renderer, and a text that its output must hold for the page below.
RENDERERS = {
    "terminal": "│ a label │    1.2500 │",
    "json": '"value": 1.25',
    "markdown": "| a label | 1.2500 |",
    "csv": "a label,1.25,0.5,2.0",
    "parquet": "a label,1.25,0.5,2.0",
    "latex": "a label & 1.2500 & 0.5000 to 2.0000",
    "html": ">1.2500</td>",
}
TABLE = Table(
    "A table",
    (Column("label", "label", "text"), Column("value", "the value", priority=1), Column("interval", "interval", "interval")),
    (("a label", 1.25, (0.5, 2.0)), ("missing", None, None)),
)
PAGE = Page("A title", (TABLE,), (Note(Kind.WARNING, "Mind the <gap> & 5 % of it."), Note(Kind.METHOD, "Made by hand.")))


@pytest.fixture(scope="module")
def minarets():
    return lb.fit(lb.load_example("minarets"), "flat", random_seed=1)


def test_every_renderer_is_in_the_table():
    assert set(renderers()) - {"toy"} == set(RENDERERS)


@pytest.mark.parametrize("name", RENDERERS)
def test_renderers_show_numbers_and_notes(name):
    text = PAGE.render(name)
    assert RENDERERS[name] in text and "None" not in text and "nan" not in text
    if name not in ("csv", "parquet"):
        assert "by hand" in text


def test_a_renderer_is_one_class(tmp_path):
    @dataclass(frozen=True)
    class Toy(AbstractRenderer):
        name: ClassVar[str] = "toy"
        suffixes: ClassVar[tuple[str, ...]] = (".toy",)

        def render(self, page):
            return page.title.upper()

    assert PAGE.render("toy") == "A TITLE"
    PAGE.save(tmp_path / "page.toy")
    assert (tmp_path / "page.toy").read_text() == "A TITLE"


def test_unknown_formats_are_refused_in_a_sentence():
    with pytest.raises(ArgumentError, match="renderer must"):
        make_renderer("word")
    with pytest.raises(ArgumentError, match="these settings"):
        make_renderer("terminal", size=3)
    with pytest.raises(ArgumentError, match=r"page must.*\.html"):
        renderer_of("page.docx")


# ---- what a narrow terminal shows -------------------------------------------------------------------------------------
@functools.cache
def page_of(name):
    return show(lb.fit(lb.load_example(name), random_seed=1), top=5)


@each_row("width", [40, 60, 80, 100, 140])
@each_row("name", ["nigeria", "minarets", "cheating"])
def test_numbers_are_never_cut(name, width):
    """Every number of a column that is shown stands whole in the text, at any width; the rest is named as left out."""
    page = page_of(name)
    text = make_renderer("terminal", width=width).render(page)
    assert "…" not in text
    for table in page.tables:
        kept, widths = layout(table, width)
        for x, column in enumerate(table.columns):
            if x not in kept:
                assert column.full_heading in " ".join(text.split())
            elif column.kind != "text":
                assert all(row[x] in text for row in table.texts())
        if width >= 60:
            assert sum(widths) + 3 * len(widths) + 1 <= width


def test_columns_leave_in_the_stated_order(minarets):
    table = show(minarets).tables[0]
    gone, seen = [], set()
    for width in range(160, 20, -1):
        left_out = set(range(len(table.columns))) - set(layout(table, width)[0])
        gone += [table.columns[x].full_heading for x in left_out - seen]
        seen |= left_out
    order = ["oracle", "sd of F", "95 % interval of F", "mean of F", "sd of P", "s.e. of the MLE", "MLE"]
    order.append("95 % confidence interval of P")
    assert gone == order


def test_labels_wrap_and_steer_nothing():
    label = "a rather long label of many words that goes on and on until it needs a second line"
    table = Table("t", (Column("c", "category", "text"), Column("v", "v")), ((label, 0.5), ("\x1b[31mred", 0.25)))
    text = make_renderer("terminal", width=50).render(Page("t", (table,)))
    assert max(map(len, text.splitlines())) <= 50 and "\x1b" not in text and "0.5000" in text
    assert all(word in text for word in label.split())
    assert visible("a\x1b[2Jb\n") == "a\\x1b[2Jb "


def test_command_in_eighty_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run(capsys, "fit", "example:minarets", "--prior", "flat", "--seed", 1)
    tables, _, notes = out.rpartition("└")
    assert status == 0 and "…" not in tables and "--explain" in notes and "0.5063 to 0.5999" in out
    assert "fit 80 characters" in out and max(map(len, out.splitlines())) <= 80


# ---- what is said -----------------------------------------------------------------------------------------------------
def test_mle_has_standard_errors(capsys):
    """In the table and in JSON, also of derived quantities: published for the minarets survey by Heck & Moshagen (2018)."""
    _, out, _ = run(capsys, "fit", "example:minarets", "--prior", "flat", "--seed", 1, "--json")
    found = json.loads(out)
    assert found["mle_standard_error"] == pytest.approx([0.02401, 0.02535, 0.04109], abs=5e-6)
    assert found["derived"]["pi"]["mle"] == pytest.approx(0.870695, abs=5e-6)
    assert found["derived"]["pi"]["mle_standard_error"] == pytest.approx(0.0411, abs=5e-5)
    assert found["derived"]["t"]["mle"] == pytest.approx(0.635806, abs=5e-6)
    assert found["derived"]["t"]["mle_standard_error"] == pytest.approx(0.0173, abs=5e-5)
    _, out, _ = run(capsys, "fit", "example:minarets", "--prior", "flat", "--seed", 1)
    assert all(text in out for text in ("s.e.", "0.0240", "0.8707", "0.0411", "0.6358", "0.0173"))


def test_derived_errors_agree_with_simulation():
    """The delta method against the spread of MLEs of fresh reports."""
    rng = np.random.default_rng(5)
    protocol, p = lb.GRR(4, 2.0), np.array([0.4, 0.3, 0.2, 0.1])
    derived = (lb.collections.Derived("two", ("a", "b")), lb.collections.Derived("share", ("a",), ("a", "b")))
    from ldpbayes.estimators.derived import with_derived

    values, errors = [], []
    for _ in range(400):
        reports, counts = protocol.simulate(rng.multinomial(2000, p), rng)
        collection = lb.Collection(list("abcd"), lb.Tally(protocol, reports, counts), derived=derived)
        found = with_derived(lb.estimators.MLE()(collection), collection)
        values.append(found.derived)
        errors.append(found.derived_error)
    spread = np.std(values, axis=0, ddof=1)
    assert np.abs(np.mean(errors, axis=0) / spread - 1).max() < 4 / np.sqrt(2 * 400)


def test_derived_errors_survive_a_maximum_on_the_boundary():
    from ldpbayes.estimators.derived import with_derived

    collection = lb.load_example("wada")
    found = with_derived(lb.estimators.MLE()(collection), collection)
    assert (found.distribution == 0).any()
    assert np.isfinite(found.derived_error).all() and (found.derived_error > 0).all()


def test_sentences_begin_with_capitals():
    assert as_sentences("too few. exact ran first.") == "Too few. Exact ran first."
    assert as_sentences("pair_slice ran first and was rejected: 3.5 of it.") == (
        "The method pair_slice ran first and was rejected: 3.5 of it."
    )
    assert as_sentences("R-hat 1.2 is high; see β.") == "R-hat 1.2 is high; see β."


def test_markup_eats_nothing(capsys):
    for command in ("fit", "check", "crosscheck", "plan", "simulate", "protocols"):
        _, out, _ = run(capsys, command, "--help")
        assert "Examples:" in out and " [] " not in out and "\\[" not in out
    _, out, _ = run(capsys, "simulate", "--help")
    assert "[[published]]" in out


def test_json_keeps_its_keys(capsys):
    _, out, _ = run(capsys, "fit", "example:minarets", "--seed", 1, "--json")
    found = json.loads(out)
    keys = {"collection", "method", "reason", "title", "n_reports", "prior", "random_seed", "identifiability", "caveat"}
    keys |= {"ci_prob", "categories", "distribution", "frequency", "derived", "mle", "oracle", "log_evidence", "diagnostics"}
    keys.add("confidence")
    assert keys | {"mle_standard_error", "oracle_standard_error", "notes", "summary", "about", "again"} == set(found)
    assert {note["kind"] for note in found["notes"]} >= {"data", "method", "estimate", "evidence"}


def test_every_renderer_has_the_same_sentences(minarets):
    page = show(minarets)
    for name in ("terminal", "markdown", "html", "latex", "json"):
        text = page.render(name)
        for note in page.notes:
            words = re.findall(r"[A-Za-z]{4,}", note.text)
            assert all(word in text for word in words), (name, note.text)


def test_csv_holds_every_digit(minarets):
    lines = list(csv.DictReader(io.StringIO(show(minarets).render("csv"))))
    mean = minarets["summary"]["mean"].sel(target="distribution").values
    upper = minarets["summary"]["upper"].sel(target="frequency").values
    assert [float(line["distribution_mean"]) for line in lines[:3]] == mean.tolist()
    assert [float(line["frequency_upper"]) for line in lines[:3]] == upper.tolist()
    assert [line["quantity"] for line in lines[3:]] == ["pi", "t"]


def test_an_interval_that_is_not_known_is_empty():
    column = Column("i", "i", "interval")
    assert column.text((float("nan"), float("nan"))) == "" and column.text((0.25, 0.5)) == "0.2500 to 0.5000"


def test_markdown_and_latex_escape():
    table = Table("", (Column("c", "a|b_c", "text"),), (("x|y & 5 % of {z}",),))
    page = Page("T", (table,))
    assert r"x\|y &amp; 5 % of \{z\}" in page.render("markdown")
    assert r"x|y \& 5 \% of \{z\}" in page.render("latex")


class Outline(HTMLParser):
    """Tags opened and closed, attributes that load something, and pictures."""

    VOID = {"meta", "link", "img", "br", "wbr"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.loads, self.images = [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.loads += [attrs[key] for key in ("src", "href", "xlink:href") if key in attrs]
        if tag == "svg":
            self.images.append(attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_self_contained_and_accessible(minarets, tmp_path):
    show(minarets, collection=lb.load_example("minarets")).save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    outline = Outline()
    outline.feed(text)
    assert not outline.open and text.startswith("<!DOCTYPE html>") and '<html lang="en">' in text
    assert all(load.startswith(("data:", "#")) for load in outline.loads) and "script" not in outline.tags
    assert len(outline.images) == 2 and all(image["role"] == "img" for image in outline.images)
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names)) and {load[1:] for load in outline.loads if load.startswith("#")} <= set(names)
    for image in outline.images:
        for label in image["aria-labelledby"].split():
            assert len(re.search(rf'id="{label}">([^<]+)<', text)[1]) > 30
    assert "viewport" in text and 'scope="row"' in text and 'scope="col"' in text


def test_html_escapes_labels():
    table = Table("<i>", (Column("c", "<b>", "text"),), (("<script>alert(1)</script>",),))
    for whole in (True, False):
        text = make_renderer("html", whole=whole).render(Page("<u>", (table,), (Note(Kind.DATA, "<s>"),)))
        assert not re.search("<(i|b|u|s|script)>", text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suffix", [".html", ".md", ".csv", ".tex", ".json", ".txt"])
def test_fit_writes_pages(capsys, tmp_path, suffix):
    path = tmp_path / f"page{suffix}"
    status, out, _ = run(capsys, "fit", "example:nigeria", "--seed", 1, "--page", path)
    assert status == 0 and "Wrote" in out and "0.2618" in path.read_text()


def test_parquet_has_the_numbers_with_their_types(tmp_path):
    from pyarrow import parquet

    PAGE.save(tmp_path / "page.parquet")
    table = parquet.read_table(tmp_path / "page.parquet").to_pydict()
    assert table == {
        "label": ["a label", "missing"], "value": [1.25, None], "lower": [0.5, None], "upper": [2.0, None]
    }  # fmt: skip


def test_pages_of_unknown_formats_are_refused_first(capsys, tmp_path):
    status, out, err = run(capsys, "fit", "example:nigeria", "--page", tmp_path / "page.docx")
    assert status == 2 and out == "" and "page must" in " ".join(err.split())


# ---- notebooks and examples --------------------------------------------------------------------------------------------
def test_show_displays_a_table_not_a_tree(minarets):
    page = lb.show(minarets, top=2)
    assert "carrier_honest" in repr(page) and "<table>" in page._repr_html_() and "<svg" not in page._repr_html_()
    assert "2 largest of 3" in str(page)


def test_notebooks_display_the_page_of_a_result(minarets):
    """A result shows its table with the arrays folded below; what is made of it has arrays alone."""
    text = minarets._repr_html_()
    assert text.index("<table>") < text.index("All arrays") < text.index("xr-header")
    assert f"{float(minarets['summary']['mean'].values[0, 0]):.4f}" in text
    assert "All arrays" in minarets.copy()._repr_html_() and "All arrays" not in minarets.tree._repr_html_()


def test_results_are_trees_with_a_table_a_page_and_a_file(minarets, tmp_path):
    """ArviZ takes the result itself and its tree; the text is the answer; files have the format of their suffix."""
    import arviz_stats

    assert isinstance(minarets, lb.result.Result) and type(minarets.tree) is not type(minarets)
    for tree in (minarets, minarets.tree):
        assert "distribution[carrier_honest]" in arviz_stats.summary(tree, var_names=["distribution"]).index
    table = minarets.table()
    expected = minarets["summary"]["mean"].sel(target="distribution")
    np.testing.assert_array_equal(table["distribution_mean"], expected.sel(category=table["category"].values))
    assert "carrier_honest" in str(minarets) and "mean of" in repr(minarets) and "Attributes" not in repr(minarets)
    minarets.save(tmp_path / "result.nc")
    again = lb.load(tmp_path / "result.nc")
    assert type(again) is type(minarets) and again.identical(minarets)
    minarets.save(tmp_path / "page.md")
    assert "lie detector" in (tmp_path / "page.md").read_text()
    with pytest.raises(ArgumentError, match="path must"):
        minarets.save(tmp_path / "result.doc")
    part = minarets.isel(category=0)  # no page, but arrays to look at
    assert "Group: /" in repr(part) and "xr-header" in part._repr_html_() and "All arrays" not in part._repr_html_()
    answer = lb.answers.category_sum(minarets, ["carrier_honest"]).assign_attrs(ci_prob="x")
    assert "Dimensions" in repr(answer) and "xr-header" in answer._repr_html_()


def test_show_knows_every_kind_of_result():
    from ldpbayes.planning import plan

    plans = plan(n_categories=4, epsilon=1, error=0.1, kind="max")
    assert show(list(plans)).tables[0].columns[0].key == "protocol" and "category exceeds" in repr(plans)


def test_answers_have_a_table_a_page_a_file_and_a_text(minarets, tmp_path):
    collection = lb.load_example("minarets")
    answers = {
        "check": lb.check(lb.load_example("wada")),
        "choice": lb.select_method(collection),
        "hull": lb.robust.contamination_hull(lb.load_example("nigeria"), share=0.05),
        "fakes": lb.robust.fakes(lb.load_example("nigeria"), "yes", lift=0.01),
    }
    for name, answer in answers.items():
        page = answer.page()
        rows = [row for table in page.tables[:1] for row in table.complete().rows]
        assert page.title in repr(answer) and len(answer.table()) == len(rows), name
        answer.save(tmp_path / f"{name}.csv")
        assert (tmp_path / f"{name}.csv").read_bytes().decode() == page.render("csv"), name
    assert any(text in repr(answers["check"]) for text in (note.text[:20] for note in answers["check"].page().notes))


def test_examples_are_those_of_data(request):
    from ldpbayes.examples import EXAMPLES, FOLDER

    assert set(lb.list_examples()) == set(EXAMPLES)
    for path in FOLDER.glob("rr_*.*"):
        if path.suffix in (".toml", ".csv"):
            data = request.config.rootpath / "data"
            data = data / "cells" if path.stem.endswith("_cells") else data
            assert path.read_bytes() == (data / path.name).read_bytes()
    with pytest.raises(ArgumentError, match="example must"):
        lb.load_example("atlantis")


def test_unknown_examples_are_refused_in_a_sentence(capsys):
    status, _, err = run(capsys, "fit", "example:atlantis")
    assert status == 2 and "example must" in err


def test_simulated_reports_of_a_nameless_population(capsys, tmp_path):
    """mend 24: "10,336 reports of  through unary"."""
    (tmp_path / "counts.csv").write_text("value,count\na,60\nb,40\n")
    status, out, _ = run(
        capsys, "simulate", tmp_path / "x.toml", "--truth", tmp_path / "counts.csv", "-p", "epsilon=1", "--seed", 1
    )
    assert status == 0 and "  " not in out and "100 reports" in out


def test_pages_print_nothing_of_their_own_in_a_notebook(monkeypatch, capsys):
    """Inside a notebook rich displays what it prints: a page must only return it."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as kernels do
    assert "by hand" in repr(PAGE) and "\x1b" not in repr(PAGE) and capsys.readouterr().out == ""
    assert "--top" not in repr(Page("t", (Table("t", TABLE.columns, TABLE.rows, "Some are left out."),)))


def test_protocols_are_described_in_plain_words(capsys):
    _, out, _ = run(capsys, "protocols", "--json")
    described = [entry["description"] for entry in json.loads(out)["protocols"]]
    assert len(described) > 15
    assert not [text for text in described if "designs.py" in text or "`" in text or text.startswith("Return")]


# ---- several cells -----------------------------------------------------------------------------------------------------
def in_cells(tree, cells):
    """Return a result as one with cells: the same summary and estimates in each of them."""
    import xarray as xr

    out = tree.copy()
    for group in ("summary", "estimate"):
        dataset = tree[group].to_dataset()
        wide = {k: v.expand_dims(cell=cells) for k, v in dataset.data_vars.items() if v.dtype.kind == "f"}
        out[group] = xr.DataTree(dataset.assign(wide))
    return out


def test_models_of_ones_own_have_pages():
    """A trace that was attached: cells, derived quantities, and a table of the model's other unknowns."""
    import arviz_base

    rng = np.random.default_rng(1)
    derived = (lb.collections.Derived("ab", ("a", "b")),)
    groups = {
        name: lb.Collection(["a", "b", "c"], lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], counts), derived=derived)
        for name, counts in {"north": [40, 30, 30], "south": [8, 7, 5]}.items()
    }
    draws = {"p": rng.dirichlet([3, 2, 1], size=(4, 500, 2)), "sigma": rng.normal(size=(4, 500)) ** 2}
    coords = {"cell": ["north", "south"], "category": ["a", "b", "c"]}
    trace = arviz_base.from_dict({"posterior": draws}, coords=coords, dims={"p": ["cell", "category"]})
    page = show(attach(trace, lb.Cells(groups), random_seed=1))
    assert [len(table.rows) for table in page.tables] == [6, 2, 1]
    assert page.tables[2].rows[0][:2] == ("sigma", pytest.approx(draws["sigma"].mean()))
    assert page.facts["parameters"]["sigma"]["mean"] == pytest.approx(draws["sigma"].mean())
    assert "sigma" in str(page)


def test_cells_are_rows_of_the_table_and_panels_of_the_figure(minarets):
    tree = in_cells(minarets, ["north", "south"])
    page = show(tree, top=6)
    first = page.tables[0]
    assert [column.key for column in first.columns][:3] == ["cell", "category", "distribution_mean"]
    categories = ("carrier_honest", "carrier_lying", "non_carrier")
    assert [row[:2] for row in first.rows] == [(cell, label) for cell in ("north", "south") for label in categories]
    assert first.rows[0][2:] == show(minarets).tables[0].rows[0][1:]
    assert [row[:2] for row in page.tables[1].rows] == [(c, q) for c in ("north", "south") for q in ("pi", "t")]
    facts = json.loads(page.render("json"))
    assert facts["cells"] == ["north", "south"] and np.shape(facts["distribution"]["mean"]) == (2, 3)
    assert np.shape(facts["derived"]["pi"]["mle"]) == (2,)
    (axes,) = page.figures[0].draw().axes
    assert "carrier_honest" in axes.get_xlabel().replace("\n", "") and [t.get_text() for t in axes.get_yticklabels()] == [
        "north",
        "south",
    ]
    forest = lb.plots.plot_forest(tree)
    assert [axes.get_title() for axes in forest.axes] == [*categories, "pi", "t"]


def test_a_fit_without_draws_says_that_the_design_was_not_tested():
    """Nobody reports a category that a fifth of all reports must name, and a fit with draws says so."""
    collection = lb.Collection("abcde", [lb.Tally(lb.GRR(5, 1.0), [0, 1, 2, 3], [500] * 4)])
    said = "Without draws a fit does not test whether the reports fit the design: check does."
    for draws, untested in ((0, True), (50, False)):
        texts = [note.text for note in show(lb.fit(collection, "jeffreys", draws=draws, random_seed=1)).notes]
        assert (said in texts) == untested and any("do not fit the design" in text for text in texts) != untested


def test_columns_of_groups_are_in_words_where_people_read_and_as_given_where_programs_do():
    tree = lb.fit(lb.load_example("nigeria_cells"), "jeffreys", draws=0)
    table = show(tree, top=12).tables[0]
    assert [column.heading for column in table.columns[:3]] == ["female", "married", "age group"]
    assert table.texts()[0][:3] == ["no", "no", "18–24"]  # also where a page shows rows of one sex alone
    assert table.rows[0][:3] == (0, 0, "18-24") and table.columns[2].key == "age_group"


def test_effects_of_groups_are_in_words_a_row_each_and_without_what_is_not_known():
    warner, key = lb.protocols.warner(0.8), ("female", "age")
    counts = {(0, "18-24"): [10, 8], (1, "18-24"): [3, 15]}
    cells = lb.Cells({at: lb.Collection(["no", "yes"], [lb.Tally(warner, [0, 1], n)]) for at, n in counts.items()}, by=key)
    result = lb.fit(cells, "hierarchical", draws=100, random_seed=1)
    effects = next(table for table in result.page().tables if table.title == "Effect")
    assert [row[:3] for row in effects.rows] == [(0, "18-24", "yes"), (1, "18-24", "yes")] and effects.whole is not None
    assert [column.words for column in effects.columns[:2]] == [{"0": "no", "1": "yes"}, {"18-24": "18–24"}]
    assert "R-hat" not in [column.heading for column in effects.columns]
    pooled, p = (result["posterior"][name].sel(category="yes").values for name in ("pooled", "distribution"))
    odds = np.log(p / (1 - p)) - np.log(pooled / (1 - pooled))[..., None]
    assert np.allclose(result["posterior"]["effect"].sel(category="yes"), odds / 2)  # as the note under it says


def test_what_a_prior_learns_has_no_estimate_beside_the_derived_quantities():
    """It has a table and a JSON key apart with the posterior alone, of one collection and of cells."""
    from ldpbayes import plots

    held = lb.collections.Derived("either", ("a", "b"))
    one = lb.Collection(("a", "b", "c"), (lb.Tally(lb.GRR(3, 2.0), [0, 1, 2], [50, 30, 20]),), derived=(held,))
    tree = lb.fit(one, "learnt", random_seed=1, draws=25)
    page = show(tree, collection=one)
    derived, learnt = ({row[0]: row for row in table.rows} for table in page.tables[1:3])
    assert np.isfinite(derived["either"][-1]) and derived.keys() == {"either"} and learnt.keys() == {"alpha"}
    assert "mle" in page.facts["derived"]["either"] and "mle" not in page.facts["parameters"]["alpha"]
    cells = lb.Cells({"x": one, "y": one}, by="half")
    every = lb.fit(cells, "learnt", random_seed=1, draws=25)
    facts = show(every, collection=cells).facts
    assert facts["derived"]["either"]["mean"].shape == (2,) and facts["parameters"]["alpha"]["mean"].shape == ()
    assert plots.plot_forest(tree) is not None and plots.plot_groups(every) is not None


def test_documents_say_what_their_columns_are():
    """Below each table, where a heading is not clear by itself; names of cells with commas are kept apart."""
    page = show(lb.fit(lb.load_example("nigeria"), random_seed=1))
    for renderer in ("html", "markdown"):
        assert "Unbiased estimate" in page.render(renderer), renderer
    assert "\\resizebox" in page.render("latex")
    assert listed(["0, a", "1, b", "2, c"], most=2) == "0, a; 1, b; … (3 in all)"


def test_one_rule_of_endings_keeps_everything(minarets, tmp_path):
    """save, .save and Page.save: .nc is the posterior, another known ending the page; the rest is a sentence."""
    table = pa.table({"answer": ["yes", "no", "yes"], "country": ["NL", "NL", "BE"]})
    scanned = lb.scan(table, lb.protocols.warner(0.7), report="answer", by="country", categories=["no", "yes"])
    hull = lb.robust.contamination_hull(lb.load_example("nigeria"))
    for i, thing in enumerate((minarets, minarets.tree, hull, scanned, lb.load_example("minarets"), show(minarets))):
        lb.save(thing, tmp_path / f"{i}.html")
        assert (tmp_path / f"{i}.html").read_text().startswith("<!DOCTYPE html>")
    for i, result in enumerate((minarets, hull, scanned)):
        result.save(tmp_path / f"own{i}.md")
        written, page = (tmp_path / f"own{i}.md").read_text(), result.page()
        assert set(page.render("markdown").splitlines()) <= set(written.splitlines())
        assert written.count("![") == len(page.figures)
        assert len(result.table()) == len(result.page().tables[0].complete().rows)
    lb.save(minarets, tmp_path / "m.nc")
    assert "summary" in lb.load(tmp_path / "m.nc").children
    for thing, name in ((hull, "h.nc"), (scanned, "s.nc"), (show(minarets), "p.nc"), (minarets, "m.netcdf"), (3, "a.html")):
        with pytest.raises(ArgumentError, match=r"(result|path) must|show"):
            lb.save(thing, tmp_path / name)
        assert not (tmp_path / name).exists()


def test_predictions_are_drawn_over_the_covariates_in_order():
    from ldpbayes.regression.page import _rows_to_predict

    rng, n = np.random.default_rng(5), 400
    columns = {"sex": np.array(["f", "m"], dtype=object)[rng.integers(2, size=n)], "age": rng.integers(18, 66, size=n)}
    table, which = _rows_to_predict(columns, np.ones(n))
    assert which == "at the 10 %, 50 % and 90 % quantiles of age" and table["sex"].tolist() == ["f"] * 3 + ["m"] * 3
    low, middle, high = table["age"][:3]
    assert [np.mean(columns["age"] <= x) >= share for x, share in ((low, 0.1), (middle, 0.5), (high, 0.9))] == [True] * 3
    assert [np.mean(columns["age"] < x) <= share for x, share in ((low, 0.1), (middle, 0.5), (high, 0.9))] == [True] * 3
    nested = {"sex": columns["sex"], "unit": np.where(columns["sex"] == "f", "x", "y"), "age": columns["age"]}
    table, _ = _rows_to_predict(nested, np.ones(n))
    assert set(zip(table["sex"], table["unit"], strict=True)) == {("f", "x"), ("m", "y")} and len(table["age"]) == 6
    many, which = _rows_to_predict({"county": (np.arange(30) % 10).astype(str), "age": np.arange(30)}, np.arange(30))
    assert which == "for the 12 most frequent rows of covariates"
    assert sorted(zip(*many.values(), strict=True)) == list(zip(*many.values(), strict=True)) and set(many["age"]) == set(
        range(18, 30)
    )


def test_full_stops_in_names_end_no_sentence():
    """Of levels and cells, such as "Science (incl. Mathematics)", which readers wrote themselves."""
    text = "The prior decides on faculty[Science (incl. Mathematics)], age. the interval is (0, 1]. Then more."
    assert first_sentence(text) == "The prior decides on faculty[Science (incl. Mathematics)], age. the interval is (0, 1]."
    assert as_sentences("cell law (incl. criminology). exact.") == "Cell law (incl. criminology). Exact."
    assert first_sentence("All at once.") == "All at once."


def test_a_table_that_is_cut_has_the_largest_shares():
    """Those that the first sentence and the figure name, wherever they stand in the order of the categories."""
    protocol, a = lb.GRR(24, 3.0), 24
    counts = np.full(a, 20)
    counts[[3, 17, 22]] = 300, 200, 100
    reports = protocol.simulate(counts, np.random.default_rng(1))
    tree = lb.fit(
        lb.Collection([f"c{i}" for i in range(a)], lb.Tally(protocol, *reports)), "jeffreys", draws=50, random_seed=1
    )
    text = str(tree)
    assert "10 largest of 24" in text
    assert all(f" {name} " in text for name in ("c3", "c17", "c22"))
    assert len(tree.page().tables[0].rows) == a
