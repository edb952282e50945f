"""Rows without what they need: a covariate, the report of their design, the design itself, a weight, a count or a group.

The kind: what ``bad_rows=`` did with a column depended on whether ``design=`` was given, and an error named another row
or an argument of another function. Searched: designs as texts and as numbers, a direct question beside a device, list
experiments, weights, strata, clusters, counts, both values of ``bad_rows``, ``method="mle"`` and the posterior, the
command line.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import DataError, LDPBayesWarning
from ldpbayes.protocols import ListExperiment, designs

DEVICE = designs.warner(0.9)
N = 80


def frame(**more):
    """A direct question to one half and a device to the other, each in its own column; the last rows lack nothing."""
    rng = np.random.default_rng(3)
    answer = np.array(["no", "yes"])[rng.integers(0, 2, N)]
    half = np.arange(N) % 2 == 0
    columns = dict(
        y=answer,
        x=rng.normal(size=N),
        asked=np.where(half, "direct", "device"),
        w=rng.uniform(0.5, 2, N),
        n=np.ones(N),
        s=np.where(np.arange(N) < 40, "a", "b"),
        c=np.arange(N) // 4,
    )
    return pd.DataFrame(columns | more)


MIXED = {"direct": designs.direct(), "device": DEVICE}
STATED = dict(design="asked", weights="w", count="n", strata="s", cluster="c")


def regress(table, protocol=MIXED, formula="y ~ x", **settings):
    named = {"report": "y", "method": "mle", "categories": ["no", "yes"]} | settings
    return lb.regress(table, formula, protocol, **named)


@each_row("column", ["x", "y", "asked", "w", "n", "s", "c"])
@each_row("design", [True, False])
def test_rows_that_lack_a_column_are_left_out(column, design):
    table, gone = frame(), [0, 3, 41]
    table[column] = table[column].astype(object)
    table.loc[gone, column] = None
    table[column] = table[column].infer_objects()
    stated = dict(STATED) if design else {k: v for k, v in STATED.items() if k != "design"}
    if not design and column == "asked":
        return
    protocol = MIXED if design else DEVICE
    found = regress(table, protocol, bad_rows="skip", **stated)
    # Without the rows whose stratum or cluster is unknown the sample is that of the others.
    expected = regress(frame().drop(index=gone), protocol, **stated)
    np.testing.assert_allclose(found.coefficients, expected.coefficients)
    np.testing.assert_allclose(found.covariance, expected.covariance)
    assert "3 of 80 rows" in str(lb.show(found))
    with pytest.raises(DataError, match=rf"'{column}'.*3 of 80"):
        regress(table, protocol, **stated)


def test_a_row_needs_the_report_of_its_own_design():
    two = frame()
    two["said"] = two["y"].where(two["asked"] == "direct")
    two["y"] = two["y"].where(two["asked"] == "device")
    protocol = {"direct": designs.direct(), "device": DEVICE}
    both = two.assign(report=two["said"].fillna(two["y"]))
    assert not both["report"].isna().any()
    assert regress(both, protocol, report="report", design="asked").coefficients.size
    both.loc[[1, 2], "report"] = None
    with pytest.raises(DataError, match=r"missing.*2 of 80"):
        regress(both, protocol, report="report", design="asked")
    assert "2 of 80" in str(lb.show(regress(both, protocol, report="report", design="asked", bad_rows="skip")))


def test_designs_as_numbers_and_in_capitals():
    table = frame()
    numbers = table.assign(asked=(table["asked"] == "device").astype(float))
    numbers.loc[5, "asked"] = np.nan
    found = regress(numbers, {0: designs.direct(), 1: DEVICE}, design="asked", bad_rows="skip")
    expected = regress(table.drop(index=5), design="asked")
    np.testing.assert_allclose(found.coefficients, expected.coefficients)
    capitals = table.assign(asked=table["asked"].str.title())
    np.testing.assert_allclose(regress(capitals, design="asked").coefficients, regress(table, design="asked").coefficients)


def test_list_experiments_say_how_many_rows_lack_a_report_or_a_group():
    table = pd.DataFrame({"y": [0.0, 1.0, np.nan, 2.0] * 5, "g": [0.0, 1.0, 1.0, np.nan] * 5, "x": range(20)})
    for column in "yg":
        whole = table.dropna(subset=["g" if column == "y" else "y"])
        with pytest.raises(DataError, match=rf"'{column}'.*5 of 15"):
            lb.regress(whole, "y ~ x", ListExperiment(2), report="y", design="g")
    with pytest.raises(DataError, match="row 1: report 7"):
        lb.regress(table.assign(y=7), "y ~ x", ListExperiment(2), report="y", design="g", bad_rows="skip")


@each_row("row", [1, 7, 66])
@each_row("design", [True, False])
def test_errors_name_the_row_of_the_frame(row, design):
    stated, protocol = ({"design": "asked"}, MIXED) if design else ({}, DEVICE)
    for entry in ("perhaps", ""):
        table = frame()
        table.loc[row, "y"] = entry
        with pytest.raises(DataError, match=rf"row {row + 1}:.*'{entry}'" if entry else rf"row {row + 1}:.*bad_rows='skip'"):
            regress(table, protocol, **stated)
    table = frame()
    table.loc[row, "asked"] = "by post"
    with pytest.raises(DataError, match=rf"row {row + 1}:.*'by post'"):
        regress(table, design="asked")


@each_row("design", [True, False])
def test_rows_that_hold_no_report_are_left_out_as_read_does(design):
    # A column of designs may be called like that in which files state their protocol.
    stated, protocol = ({"design": "protocol", "count": "n"}, MIXED) if design else ({}, DEVICE)
    table, bad = frame().rename(columns={"asked": "protocol"}), [1, 7, 66]
    table.loc[bad, "y"] = ["perhaps", "", "perhaps"]
    table.loc[[0], "x"] = None
    if design:
        bad = [*bad, 9, 12]
        table.loc[9, "protocol"] = "by post"
        table.loc[12, "n"] = 0.5
    with pytest.warns(LDPBayesWarning, match=rf"{len(bad)} rows that hold no report.*'perhaps'.*row 2, row 8"):
        found = regress(table, protocol, bad_rows="skip", **stated)
    whole = regress(table.drop(index=[0, *bad]), protocol, **stated)
    np.testing.assert_array_equal(found.coefficients, whole.coefficients)
    assert "1 of 80 rows" in found.attrs["dropped"] and f"{len(bad)} rows that" in found.attrs["dropped"]
    assert "perhaps" not in str(lb.show(found))  # what somebody wrote into a row is not published


def test_advice_is_about_arguments_of_regress(tmp_path, capsys):
    table = frame()
    for column in ("asked", "w", "s", "c", "y", "x"):
        lacking = table.assign(**{column: table[column].astype(object)})
        lacking.loc[4, column] = None
        with pytest.raises(DataError) as caught:
            regress(lacking.infer_objects(), **STATED)
        said = str(caught.value)
        # It names no argument that read alone has, such as missing, and what it advises helps.
        assert "bad_rows='skip'" in said and re.findall(r"\w+(?==)", said) == ["bad_rows"]
        assert "1 of 80" in str(lb.show(regress(lacking.infer_objects(), **STATED, bad_rows="skip")))
    table.loc[4, "w"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ["regress", tmp_path / "t.csv", "y ~ x", "--protocol", "warner", "-p", "p=0.9", "--set", "weights=w"]
    status, _, said = run(capsys, *command, "--method", "mle")
    assert status == 2 and "with --bad-rows skip" in said and "bad_rows" not in said and said.count("--") == 1
    status, out, _ = run(capsys, *command, "--method", "mle", "--bad-rows", "skip")
    assert status == 0 and "1 of 80 rows" in out


def test_bad_rows_of_a_collection_file(tmp_path, capsys):
    toml = 'categories = ["no", "yes"]\n[[channels]]\nprotocol = "warner"\nparameters = {p = 0.9}\nfile = "t.csv"\n'
    (tmp_path / "t.toml").write_text(toml)
    table = frame().rename(columns={"y": "report"})[["report", "s"]]
    table.loc[4, "s"] = None
    table.loc[9, "report"] = "perhaps"
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ["regress", tmp_path / "t.toml", "y ~ s", "--method", "mle", "--json"]
    status, _, said = run(capsys, *command)
    assert status == 2 and "perhaps" in said
    status, out, said = run(capsys, *command, "--bad-rows", "skip")
    assert status == 0 and "2 rows that hold no report were left out" in said and json.loads(out)["n_reports"] == 78
