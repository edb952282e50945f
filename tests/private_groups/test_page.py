"""The command private-groups, its page and its figures, and one sentence for what it cannot read."""

import csv
import json
import re

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import plots
from ldpbayes.errors import ArgumentError
from ldpbayes.pages import show
from ldpbayes.private_groups.figures import quantity_name
from ldpbayes.private_groups.page import long_rows

RATE = 0.4994798
SHORT = ("--draws", 100, "--seed", 1)
FAST = (*SHORT, "--method", "recipe")
BY_RATE = ("--report", "confidence", "--rate-column", "rate")


def table(n=1500, seed=1):
    rng = np.random.default_rng(seed)
    x = (rng.random(n) < 0.3).astype(int)
    y = np.where(rng.random(n) < RATE, rng.integers(2, size=n), x)
    z = rng.lognormal(np.where(x, 7.6, 6.7), 0.7).round(1)
    columns = {"duration": z, "confidence": np.array(["high", "low"])[y], "rate": np.full(n, RATE)}
    columns |= {"country": np.array(["SE", "NO"])[rng.integers(2, size=n)], "w": rng.uniform(0.5, 2, n)}
    columns |= {"speed": np.where(z > 1500, "slow", "fast"), "eps": np.full(n, 1.1)}
    return pyarrow.table(columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same records as CSV and Parquet."""
    where, records = tmp_path_factory.mktemp("groups"), table()
    pyarrow.csv.write_csv(records, where / "t.csv")
    pyarrow.parquet.write_table(records, where / "t.parquet")
    return where


@pytest.fixture(scope="module")
def found():
    settings = {"rate_column": "rate", "by": "country", "method": "recipe", "draws": 50, "random_seed": 1}
    return lb.by_private_group(table(), "duration", report="confidence", **settings)


@pytest.fixture(scope="module")
def outcomes():
    return lb.by_private_group(table(), "speed", report="confidence", rate_column="rate", random_seed=1)


# ---- the command -----------------------------------------------------------------------------------------------------
def test_tables_of_both_formats_give_the_same_answers(capsys, folder):
    facts = {}
    for name in ("t.csv", "t.parquet"):
        status, out, err = run(
            capsys, "private-groups", folder / name, *BY_RATE, "--categories", "high,low", *FAST, "--json"
        )
        assert status == 0 and err == "", (name, err)
        facts[name] = json.loads(out)
    assert facts["t.csv"]["answers"] == facts["t.parquet"]["answers"]
    assert facts["t.csv"]["n_records"] == 1500 and facts["t.csv"]["groups"] == ["high", "low"]


def test_what_is_left_out_and_what_is_not_trusted_is_in_the_exit_status(capsys, tmp_path):
    rng = np.random.default_rng(3)
    columns = {"duration": rng.pareto(0.6, 400), "confidence": np.array(["high", "low"])[rng.integers(2, size=400)]}
    pyarrow.csv.write_csv(pyarrow.table(columns), tmp_path / "long.csv")
    columns |= {"duration": rng.normal(size=400), "confidence": np.repeat(["high", "low"], [385, 15])}
    pyarrow.csv.write_csv(pyarrow.table(columns), tmp_path / "rare.csv")
    reports = ("--report", "confidence", "--protocol", "grr", "-p", "epsilon=2", "--categories", "high,low", *FAST, "--json")
    status, out, err = run(capsys, "private-groups", tmp_path / "long.csv", *reports)
    facts = json.loads(out)
    assert status == 3 and "of duration" in err and facts["left_out"] in err and facts["trusted"]
    answers = {(one["quantity"], one["versus"]): one["lower"] for one in facts["answers"]}
    assert answers["mean", ""] is answers["mean", "high"] is None and answers["q50", ""] is not None
    status, out, err = run(capsys, "private-groups", tmp_path / "rare.csv", *reports)
    assert status == 1 and "not trust" in err and not json.loads(out)["trusted"]


def test_what_is_printed_and_written(capsys, folder, tmp_path):
    by_epsilon = ("--report", "confidence", "--protocol", "grr", "-p", "epsilon=1.1", "--categories", "high,low")
    outputs = ("--page", tmp_path / "page.html", "--output", tmp_path / "long.csv", "--plot", tmp_path / "plot.png")
    status, out, err = run(capsys, "private-groups", folder / "t.csv", *by_epsilon, *SHORT, *outputs, "--unit", "ms")
    assert status == 0, err
    for words in (
        "Shares of the groups",
        "Duration (ms)",
        "median",
        "95 % quantile",
        "differences from high",
        "recipe",
        "seed 1",
    ):
        assert words in out
    with open(tmp_path / "long.csv") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["quantity"] for row in rows} == {"share", "mean", "q50", "q75", "q95"}
    assert [row["versus"] for row in rows] == [""] * 10 + ["high"] * 5
    assert all(float(row["lower"]) <= float(row["mean"]) <= float(row["upper"]) for row in rows)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 3 and "larger in low" in page and "ldpbayes private-groups" in page
    assert (tmp_path / "plot.png").stat().st_size > 1000


CASES = {
    "no design": (["t.csv", "--report", "confidence"], "must be given: the data have no column"),
    "two designs": (
        ["t.csv", "--report", "confidence", "--rate-column", "rate", "--epsilon-column", "eps"],
        "must not both be given",
    ),
    "no categories": (
        ["t.csv", "--report", "confidence", "--protocol", "grr", "-p", "epsilon=1"],
        "categories must be",
    ),
    "no such column": (
        ["t.csv", "--value", "time", "--report", "confidence", "--rate-column", "rate"],
        "has no column 'time'",
    ),
    "no such rate": (["t.parquet", "--report", "confidence", "--rate-column", "r"], "has no column 'r'"),
    "no such file": (["nothing.csv", "--report", "confidence", "--rate-column", "rate"], "cannot be read"),
    "levels": (["t.csv", *BY_RATE, "--quantiles", ".5,high"], "quantiles must be levels"),
    "level above one": (["t.csv", *BY_RATE, "--quantiles", "50"], "quantiles must be"),
    "target": (["t.csv", *BY_RATE, "--target", "both"], "target must be"),
    "output": (["t.csv", *BY_RATE, "--output", "long.txt"], "output must end in .csv or .parquet"),
    "page": (["t.csv", *BY_RATE, "--page", "page.doc"], "page must end in"),
    "epsilon alone": (
        ["t.csv", "--report", "confidence", "--epsilon-column", "eps"],
        "protocol must be given with epsilon_column",
    ),
    "not Parquet": (["bad.parquet", "--report", "confidence", "--rate-column", "rate"], "is not a readable Parquet file"),
    "ragged": (
        ["ragged.csv", "--report", "confidence", "--rate-column", "rate"],
        "ragged.csv, line 3: has 2 cells, the header 3",
    ),
    "half a number": (
        ["half.csv", "--report", "confidence", "--rate-column", "rate"],
        "line 4, field 'duration': must be a number",
    ),
    "rate above one": (["rates.csv", "--report", "confidence", "--rate-column", "rate"], "rate must be"),
    "unknown report": (
        [
            "half.csv",
            "--value",
            "rate",
            "--report",
            "confidence",
            "--protocol",
            "grr",
            "-p",
            "epsilon=1",
            "--categories",
            "a,b",
        ],
        "'high'",
    ),
}


@pytest.fixture(scope="module")
def bad(folder):
    """Files that cannot be used, beside the good ones."""
    (folder / "bad.parquet").write_text("PAR?")
    (folder / "ragged.csv").write_text("duration,confidence,rate\n1,high,.5\n2,low\n")
    (folder / "half.csv").write_text("duration,confidence,rate\n1,high,.5\n2,low,.5\nfast,low,.5\n4,high,.5\n")
    (folder / "rates.csv").write_text("duration,confidence,rate\n1,high,.5\n2,low,1.5\n3,low,.5\n")
    return folder


@each_row("arguments, words", CASES.values())
def test_bad_input_is_one_sentence_and_status_two(capsys, bad, monkeypatch, arguments, words):
    monkeypatch.chdir(bad)
    status, out, err = run(capsys, "private-groups", *arguments)
    assert status == 2 and out == "", (status, out)
    assert words in " ".join(err.split()) and "Traceback" not in err


# ---- the page and its figures ----------------------------------------------------------------------------------------
def test_the_page_of_several_combinations(found):
    page = show(found, unit="ms", design="Randomized response.")
    values, shares, apart = page.tables
    assert [column.key for column in values.columns][:3] == ["country", "group", "quantity"]
    assert len(shares.rows) == 4 and len(values.rows) == 16 and len(apart.rows) == 8
    one = dict(zip([column.key for column in values.columns], values.rows[1], strict=True))
    assert (one["country"], one["group"], one["quantity"]) == ("NO", "high", "median")
    assert one["value_mean"] == pytest.approx(float(found.quantile(0.5)["mean"].sel(cell="NO", group="high").item()))
    assert one["value_interval"][0] < one["value_mean"] < one["value_interval"][1] and one["value_recipe"] > 0
    assert page.about["Design"] == "Randomized response."
    assert [figure.name for figure in page.figures] == ["functions", "quantiles", "differences"]
    few = show(found, top=8).tables[0]
    assert len(few.rows) == 8 and "1 of 2 combinations" in few.note and len(few.complete().rows) == 16


def test_every_answer_is_a_row(found, outcomes):
    rows = long_rows(found)
    assert len(rows) == 2 * (10 + 5) and {row["country"] for row in rows} == {"SE", "NO"}
    for row in rows:
        assert (row["probability_positive"] is None) == (row["versus"] == "")
        assert (row["recipe"] is None) == bool(row["versus"])
    assert {row["quantity"] for row in long_rows(outcomes)} == {"share", "fast", "slow"}


def test_the_page_of_an_open_category(outcomes):
    page = show(outcomes)
    assert "percentage points" in page.summary and [figure.name for figure in page.figures] == ["quantiles"]
    assert sum(row[2] for row in page.tables[0].rows if row[0] == "low") == pytest.approx(1)
    assert page.render("markdown") and page.render("latex") and page.render("csv")
    with pytest.raises(ArgumentError, match="open category"):
        plots.plot_private_functions(outcomes)


def test_figures_show_what_the_result_holds(found, outcomes):
    figure = plots.plot_private_functions(found, unit="ms")
    first = figure.axes[0]
    assert first.get_title() == "NO" and figure.axes[-1].get_xlabel() == "duration (ms)" and first.get_xscale() == "log"
    at, curve = first.lines[0].get_data()
    np.testing.assert_allclose(curve, found.cdf(at)["mean"].sel(cell="NO", group="high"))
    assert (np.diff(curve) >= 0).all() and first.lines[0].get_linestyle() != first.lines[1].get_linestyle()
    figure = plots.plot_private_differences(found, unit="ms")
    assert "high" in figure.get_suptitle() and figure.axes[0].get_ylabel() == "difference (ms)"
    figure = plots.plot_private_quantiles(outcomes)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["fast", "slow"]


def test_names_of_quantities():
    assert [quantity_name(name) for name in ("q50", "q75", "q99.9", "mean", "quick")] == [
        "median",
        "75 % quantile",
        "99.9 % quantile",
        "mean",
        "quick",
    ]


def test_a_mean_far_out_in_a_tail_leaves_quantiles_their_digits():
    """They were printed as 1 and 20 beside a mean of ninety digits, and the difference of medians as 0."""
    rng = np.random.default_rng(0)
    x, warner = (rng.random(600) < 0.4).astype(int), lb.protocols.warner(0.8)
    table = pyarrow.table({"v": np.exp(3 * rng.standard_t(2, 600)), "r": np.ravel(warner.privatize(x, rng))})
    of = dict(value="v", report="r", protocol=warner, categories=["no", "yes"], target="frequency", random_seed=1)
    text = lb.show(lb.by_private_group(table, **of)).render("markdown")
    medians = [row.split("|")[3].strip() for row in text.splitlines() if re.match(r"\| \w+ +\| median", row)]
    assert medians and all(0.001 < float(entry) < 10 and len(entry) > 3 for entry in medians)
    assert "being 0 (" not in text
