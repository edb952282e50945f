"""Collection files with grouping columns on the command line: every table has the keys, every output works."""

import csv
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from commands import run

from ldpbayes import answers, fit, read, result, scan, show
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.methods.base import Refusal
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.protocols import UnaryEncoding
from ldpbayes.road.methods import METHODS

pytestmark = pytest.mark.long

SURVEY = """
title = "Regions"
categories = ["a", "b", "c", "d"]
{by}

[[channels]]
protocol = "grr"
file = "counts.csv"
report = "report"
count = "count"
parameters = {{ epsilon = 1.0 }}

[derived.ab]
of = ["a", "b"]
"""


@pytest.fixture
def survey(tmp_path):
    def write(n_cells, by="by = ['region', 'year']", n=400):
        rng = np.random.default_rng(1)
        lines = ["region,year,report,count"]
        for c in range(n_cells):
            counts = rng.multinomial(n, [0.37, 0.25, 0.21, 0.17])
            lines += [f"r{c:02d},{2020 + c % 2},{x},{k}" for x, k in zip("abcd", counts, strict=True)]
        (tmp_path / "counts.csv").write_text("\n".join(lines) + "\n")
        (tmp_path / "survey.toml").write_text(SURVEY.format(by=by))
        return tmp_path / "survey.toml"

    return write


def test_a_method_that_refuses_one_cell_serves_the_others_and_exits_with_3(capsys, tmp_path, survey, monkeypatch):
    class OfFew(Quadrature):
        def prepare(self, problem):
            return super().prepare(problem) if problem.n_users < 1000 else Refusal("Too many reports.")

    monkeypatch.setitem(METHODS, "quadrature", OfFew)
    file = survey(2, n=12)
    table = tmp_path / "counts.csv"
    table.write_text(table.read_text() + "r09,2021,a,60000\nr09,2021,b,40000\n")
    status, out, _ = run(capsys, "fit", file, "--method", "quadrature", "--seed", 1, "--draws", 50)
    assert status == 3 and "r09, 2021" in " ".join(out.split())


def test_every_output_of_a_file_with_groups_has_the_keys(capsys, tmp_path, survey):
    file, names = survey(3), ("p.md", "p.html", "p.csv", "f.png", "r.nc")
    paths = [tmp_path / name for name in names]
    options = ["--page", paths[0], "--plot", paths[3], "--output", paths[4]]
    status, out, err = run(capsys, "fit", file, "--seed", 1, "--draws", 100, *options)
    assert status == 0 and err == "" and out.count("│ r02    │ 2020 │") == 4 + 1
    assert "No test" in paths[0].read_text()
    show(result.load(paths[4])).save(paths[2])
    status, out, _ = run(capsys, "fit", file, "--seed", 1, "--draws", 100, "--json", "--page", paths[1])
    assert paths[0].read_text().count("| r01 ") == 5 and "r01, year 2021" in paths[1].read_text()
    rows = list(csv.DictReader(paths[2].read_text().splitlines()))
    rows_of_categories = [(row["region"], row["year"], row["category"]) for row in rows if row["category"]]
    assert rows_of_categories[3:5] == [("r00", "2020", "d"), ("r01", "2021", "a")]
    assert [row["year"] for row in rows if row["quantity"]] == ["2020", "2021", "2020"]
    assert paths[3].read_bytes()[1:4] == b"PNG"
    tree = result.load(paths[4])
    assert tree["posterior"]["year"].values.tolist() == [2020, 2021, 2020]
    found = json.loads(out)
    assert found["cells"] == ["r00, 2020", "r01, 2021", "r02, 2020"]
    assert found["by"] == {"region": ["r00", "r01", "r02"], "year": [2020, 2021, 2020]}
    assert found["distribution"]["mean"] == tree["summary"]["mean"].sel(target="distribution").values.tolist()
    assert np.shape(found["mle"]) == (3, 4) and np.shape(found["derived"]["ab"]["mean"]) == (3,)


def test_many_cells_fit_on_a_screen(capsys, monkeypatch, survey):
    monkeypatch.setenv("COLUMNS", "80")
    file = survey(11)
    status, out, _ = run(capsys, "fit", file, "--seed", 1, "--draws", 50)
    assert status == 0 and "first 10 of 11" in out
    assert max(len(line) for line in out.splitlines() if line.startswith(("│", "┃", "┏"))) <= 80
    status, out, _ = run(capsys, "fit", file, "--seed", 1, "--draws", 50, "--top", 44)
    assert status == 0 and "are shown" not in out and len(re.findall(r"^│ r\d\d ", out, re.M)) == 55
    status, out, _ = run(capsys, "fit", file, "--seed", 1, "--draws", 0, "--top", 2)
    assert "2 largest of 4" in out


def test_by_splits_a_file_on_the_command_line(capsys, survey):
    file = survey(4, by="")
    status, out, _ = run(capsys, "fit", file, "--by", "year", "--seed", 1, "--draws", 100, "--json")
    found = json.loads(out)
    assert status == 0 and found["by"] == {"year": [2020, 2021]} and found["n_reports"] == 1600
    assert next(iter(read(file, by=("year", "region")))) == (2020, "r00")
    for arguments, words in (
        ([file, "--by", "month"], "no column 'month'"),
        (["example:nigeria", "--by", "year"], "has no column 'year'"),
    ):
        status, out, err = run(capsys, "fit", *arguments)
        assert status == 2 and out == "" and words in " ".join(err.split())


def test_answers_on_a_file_with_groups(survey):
    tree = fit(read(survey(30, n=40)), random_seed=1, draws=100, estimates=False)
    share = answers.category_sum(tree, ["a", "b"], cell=("r01", 2021))
    assert float(share["mean"]) == pytest.approx(float(tree["summary"]["derived_mean"][1, 0]), abs=0.03)
    joint = answers.simultaneous_intervals(tree, cell="r01, 2021")
    means = tree["summary"]["mean"].sel(target="distribution").values[1]
    assert (joint["lower"].values <= means).all() and (means <= joint["upper"].values).all()
    with pytest.warns(DiagnosticWarning, match=r"priors.*30 cells"):
        pooled = answers.poststratify(tree, np.ones(30))
    assert float(pooled["mean"].sum()) == pytest.approx(1)


def test_of_many_categories_every_cell_shows_its_largest(capsys, tmp_path):
    rng, protocol = np.random.default_rng(2), UnaryEncoding.optimized(60, epsilon=2.0)
    names = tmp_path / "names.txt"
    names.write_text("".join(f"site {x}\n" for x in range(60)))
    for day in (1, 2):
        truth = rng.geometric(0.3, size=400).clip(max=60) - 1
        table = pa.table(
            {"bits": [bytes(x) for x in protocol.privatize(truth, rng)], "country": rng.choice(["NL", "SE"], size=400)}
        )
        pyarrow.parquet.write_table(table, tmp_path / f"day{day}.parquet")
    stated = [
        "--protocol",
        "oue",
        "-p",
        "epsilon=2",
        "--report",
        "bits",
        "--by",
        "country",
        "--seed",
        1,
        "--draws",
        100,
        "--prior",
        "flat",
    ]
    status, out, _ = run(capsys, "fit", tmp_path / "day*.parquet", *stated, "--categories", f"@{names}")
    assert status == 0 and "20 largest of 60" in out
    assert "\nShares by country" in out and len(re.findall(r"^│ NL +│ site \d+ ", out, re.M)) == 20
    status, out, _ = run(capsys, "fit", tmp_path / "day*.parquet", *stated, "--categories", f"@{names}", "--top", 5)
    assert status == 0 and "3 largest of 60" in out
    status, _, said = run(capsys, "fit", tmp_path / "day*.parquet", *stated, "--categories", names)
    assert status == 2 and "two labels" in said and "before a file's" in " ".join(said.split())


def test_a_column_without_a_number_is_left_out_of_the_table_not_of_the_file():
    rng, protocol = np.random.default_rng(3), UnaryEncoding.optimized(24, epsilon=1.0)
    reports = [bytes(x) for x in protocol.privatize(rng.integers(24, size=60_000), rng)]
    table = pa.table({"bits": reports, "day": ["Monday", "Tuesday"] * 30_000})
    fitted = fit(scan(table, protocol, report="bits", by="day", progressbar=False), random_seed=1)
    assert (fitted.table()["frequency_lower"] < fitted.table()["frequency_mean"]).all()  # as a scan's that has no groups
    for name in ("lower", "upper"):
        fitted.tree["summary"][name].loc[{"target": "frequency"}] = np.nan
    heading = next(line for line in str(fitted).splitlines() if "mean of P" in line)
    assert heading.count("95 % interval") == 1 and {"frequency_lower", "frequency_mean"} <= set(fitted.table())


def test_the_only_cell_of_a_scan_reads_as_one_collection():
    rng, protocol = np.random.default_rng(3), UnaryEncoding.optimized(60, epsilon=1.0)
    table = pa.table({"bits": [bytes(x) for x in protocol.privatize(rng.integers(60, size=30_000), rng)]})
    text = str(fit(scan(table, protocol, report="bits", progressbar=False), "jeffreys", random_seed=1))
    assert " cell " not in text.partition("━")[0] and "largest of 60" in text
    assert "┃ category ┃" in text and "groups" not in text and "1 cells" not in text
    assert "10 largest of 60" in text and "first 10" not in text
