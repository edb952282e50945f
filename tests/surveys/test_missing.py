"""Answers that are missing: counted by cell beside what the answers say, at every door that reads."""

import json

import numpy as np
import pandas
import pyarrow
import pytest
from commands import run
from tabulated import each_row

from ldpbayes import fit, plots, read, regress, write
from ldpbayes.answers import category_sum, missing_answers
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import GRR, UnaryEncoding, warner
from ldpbayes.scanning import Partial, Scan, scan

ABC = ("a", "b", "c")
ROWS = [("a", "x"), ("b", "y"), ("no answer", "x"), ("c", "x"), (None, "y"), ("", "y"), ("a", "y"), (" no answer ", "z")]
GOOD = [row for row in ROWS if row[0] in ABC]
#: Missing answers of each cell; nobody of z gave one.
COUNTS = {("x",): 1, ("y",): 2}
STATED = {"report": "report", "categories": ABC, "by": "g"}
SAID = "4 of 8 who were asked (50 %) gave no answer and are left out: 2 in y, 1 in x, 1 in z."


def frame(rows=ROWS):
    return pandas.DataFrame(rows, columns=["report", "g"])


def as_csv(folder):
    frame().to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_arrow(folder):
    return pyarrow.Table.from_pandas(frame())


def as_dictionary(folder):
    return pyarrow.table({"report": as_arrow(folder)["report"].dictionary_encode(), "g": as_arrow(folder)["g"]})


def as_duckdb(folder):
    return __import__("duckdb").from_arrow(as_arrow(folder))


def summed(*args, **settings):
    return scan(*args, **settings)


def counts_of(cells):
    return {key: cell.missing for key, cell in cells.items()}


@each_row("make", [as_csv, as_arrow, as_dictionary, as_duckdb, lambda folder: frame()])
def test_the_answers_are_those_of_the_others_and_missing_ones_are_counted_by_cell(make, tmp_path):
    good = read(frame(GOOD), GRR(3, 1.0), **STATED)
    for door in (read, summed):
        with pytest.raises(DataError):  # without a word they are bad rows
            door(make(tmp_path), GRR(3, 1.0), **STATED)
        cells = door(make(tmp_path), GRR(3, 1.0), **STATED, missing="no answer")
        assert counts_of(cells) == COUNTS
        assert [one.tallies[0].counts.tolist() for one in cells.values()] == [
            one.tallies[0].counts.tolist() for one in good.values()
        ]
        assert cells["x",].notes == SAID
        assert fit(cells, draws=0).constant_data["missing"].values.tolist() == [1, 2]


def test_counts_weights_and_conditions_count_people(tmp_path):
    table = pandas.DataFrame(
        {"report": ["a", "b", "-", "-", "x"], "n": [5, 6, 3, 4, 9], "w": [1.0, 2.0, None, None, 1.0], "wave": list("11112")}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    text = (
        'categories = ["a", "b"]\nmissing = ["-", "refused"]\n[[channels]]\nprotocol = "grr"\nfile = "t.csv"\ncount = "n"\n'
    )
    (tmp_path / "c.toml").write_text(text + 'n = 11\nwhere = { wave = "1" }\nparameters = { epsilon = 1.0 }\n')
    for sample in ({}, {"weights": "w"}):
        found = read(tmp_path / "c.toml", **sample)
        assert found.missing == 7 and found.n_reports == 11 and "7 of 18 who" in found.notes
        write(found, tmp_path / "again.toml")
        again = read(tmp_path / "again.toml")
        assert again.missing == 7 and again.tallies == found.tallies and again.survey == found.survey
    with pytest.raises(DataError, match=r"t\.csv"):
        read(tmp_path / "c.toml", missing="refused")


def test_cells_come_back_from_files(tmp_path):
    cells = read(frame(), GRR(3, 1.0), **STATED, missing="no answer")
    write(cells, tmp_path / "c.toml")
    assert counts_of(read(tmp_path / "c.toml")) == COUNTS
    write(summed(frame(), GRR(3, 1.0), **STATED, missing="no answer"), tmp_path / "s.parquet")
    found = read(tmp_path / "s.parquet")
    assert counts_of(found) == COUNTS and counts_of(found.added()) == {("all",): 3} and found.notes == SAID
    assert cells.pooled().missing == 3
    sets = read(pandas.DataFrame({"report": ["", "0;1", "NA"]}), UnaryEncoding.symmetric(3, 1.0), missing="NA")
    write(sets, tmp_path / "sets.toml")
    again = read(tmp_path / "sets.toml")
    assert again.missing == 1 and again.tallies == sets.tallies


def test_numbers_nan_and_bytes_have_missing_answers_too():
    coded = pandas.DataFrame({"report": [0, 1, -9, 1]})
    for missing in ("-9", ["-9", "-8"]):
        found = read(coded, GRR(2, 1.0), missing=missing)
        assert isinstance(found, Collection) and (found.missing, found.n_reports) == (1, 3)
    for values in ([0, 1, 99, 1], [0, 1, 99, float("nan")], ["0", "1", "99", "1"]):
        for missing in (99, 99.0, [98, 99], np.int64(99), "99"):
            assert read(pandas.DataFrame({"report": values}), GRR(2, 1.0), missing=missing).missing >= 1
    with pytest.raises(ArgumentError, match=r"missing must.*True"):
        read(coded, GRR(2, 1.0), missing=True)
    for values in (pandas.array([0, None, 1], dtype="Int64"), [0, float("nan"), 1]):  # the second are floats
        for door in (read, summed):
            found = door(pandas.DataFrame({"report": values}), GRR(2, 1.0), missing="", categories=["0", "1"])
            assert found.n_reports == 2 and "1 of 3" in (found if door is read else found["all",]).notes
    protocol, rng = UnaryEncoding.optimized(40, 1.0), np.random.default_rng(1)
    bits = [bytes(one) for one in protocol.privatize(rng.integers(40, size=60), rng)]
    sets = read(pyarrow.table({"report": ["", "1;2", None, "NA"]}), protocol, missing="NA")
    assert (sets.n_reports, sets.missing) == (2, 2)  # the empty text is the set without members
    beside = pyarrow.table({"report": ["001", "", "110", " "]})  # but beside bits it may be an answer that is missing
    with pytest.raises(DataError, match=r"row 2:.*empty"):
        read(beside, UnaryEncoding.optimized(3, 1.0))
    with pytest.warns(match=r"2 rows.*report"):
        assert read(beside, UnaryEncoding.optimized(3, 1.0), bad_rows="skip").n_reports == 2
    table = pyarrow.table({"report": [None, *bits[:30], None, *bits[30:]], "g": ["x"] * 31 + ["y"] * 31})
    first = scan(pyarrow.table({"report": bits, "g": ["x"] * 30 + ["y"] * 30}), protocol, by="g", sample=10)
    prepared = Scan(table, protocol, by="g", missing="", sample=10)
    assert counts_of(prepared()) == {("x",): 1, ("y",): 1}
    np.testing.assert_allclose(prepared()["x",].gradient, first["x",].gradient, rtol=1e-9)
    partials = [Partial.from_bytes(prepared.fold.partial(part).to_bytes()) for part in table.to_batches(20)]
    assert sum(partials).missing == {("x",): 1, ("y",): 1}


def test_bad_rows_are_another_matter(tmp_path):
    rows = pandas.DataFrame([*ROWS, ("purple", "x"), (None, None)], columns=["report", "g"])
    for door in (read, summed):
        with pytest.raises(DataError, match=r"purple|missing values"):
            door(rows, GRR(3, 1.0), **STATED, missing="no answer")
        with pytest.warns(match=r"2 rows.*report"):
            cells = door(rows, GRR(3, 1.0), **STATED, missing="no answer", bad_rows="skip")
        assert counts_of(cells) == COUNTS and SAID in cells["x",].notes and "2 rows" in cells["x",].notes
        with pytest.raises(ArgumentError, match=r"missing must.*'a'"):
            door(rows, GRR(3, 1.0), **STATED, missing="a")
        with pytest.raises(DataError, match="are missing"):
            door(frame([(None, "x")]), GRR(3, 1.0), **STATED, missing="")
        with pytest.raises(ArgumentError, match="missing must"):
            door(rows, GRR(3, 1.0), **STATED, missing=b"a")
    with pytest.raises(ArgumentError, match=r"missing must.*by_user"):
        read(rows, GRR(3, 1.0), report="report", categories=ABC, missing="no answer", by_user="g")
    assert (Collection(ABC, Tally(GRR(3, 1.0), [0], [2]), missing=2) + Collection(ABC, Tally(GRR(3, 1.0), [1]))).missing == 2


def test_the_command_line_says_how_many(tmp_path, capsys):
    as_csv(tmp_path)
    (tmp_path / "c.toml").write_text(
        'categories = ["a", "b", "c"]\n[[channels]]\nprotocol = "grr"\nfile = "t.csv"\nparameters = { epsilon = 1.0 }\n'
    )
    state = ["--set", "missing=no answer"]
    status, out, _ = run(capsys, "fit", tmp_path / "c.toml", "--by", "g", "--draws", "0", *state, "--json")
    assert status == 0 and SAID in json.dumps(json.loads(out))
    stated = "--protocol grr -p epsilon=1 --categories a,b,c --by g".split()
    status, out, _ = run(capsys, "scan", tmp_path / "t.csv", *stated, *state)
    assert status == 0 and SAID in " ".join(out.split())
    assert run(capsys, "fit", tmp_path / "c.toml", "--draws", "0")[0] == 2


def test_several_labels_on_the_command_line_and_in_a_regression(tmp_path, capsys):
    """Each --set missing= is one more label, with whatever it holds; a regression says how many it leaves out, too."""
    answers = ["no"] * 40 + ["yes"] * 30 + ["-9"] * 3 + ["refused, at the door"] * 2
    table = pandas.DataFrame({"y": answers, "g": ["a", "b", "c"] * 25})
    table.to_csv(tmp_path / "t.csv", index=False)
    state = ["--set", "missing=-9", "--set", "missing=refused, at the door"]
    stated = "--protocol warner -p p=0.8 --categories no,yes --report y".split()
    said = "5 of 75 people who were asked (6.67 %) gave no answer"
    for command in (("fit", "--draws", "0"), ("check",), ("scan", "--by", "g")):
        status, out, _ = run(capsys, command[0], tmp_path / "t.csv", *command[1:], *stated, *state)
        assert status == 0 and (said.replace(" people", "") in " ".join(out.split()) or command[0] != "scan")
        assert said in " ".join(out.split()) or command[0] != "fit"
    assert run(capsys, "fit", tmp_path / "t.csv", *stated, *state[:2])[0] == 2
    labels = ["-9", "refused, at the door"]
    cells = read(tmp_path / "t.csv", warner(0.8), report="y", categories=["no", "yes"], by="g", missing=labels)
    found = regress(cells, "y ~ 1", draws=100, random_seed=1)
    assert said in str(found.page()) and missing_answers(found, "yes").attrs["missing"] == 5


# ---- what those who gave no answer may change ----------------------------------------------------------------------------
def answered(missing=300, **more):
    return fit(Collection(("no", "yes"), [Tally(GRR(2, 2.0), [0, 1], [400, 300])], missing=missing, **more), random_seed=1)


def test_bounds_and_the_curve_are_those_of_their_formulas():
    """At ω = 1 the share of those who answered; 0 and inf the bounds; between them (1 − m) p + m ω p/(1 − p + ω p), whose
    mean over 4,000 draws is that of 200,000 to 5 errors."""
    result = answered()
    found = missing_answers(result, "yes")
    p = result["posterior"]["distribution"].sel(category="yes").values.ravel()
    rng = np.random.default_rng(9)
    m, q = rng.beta(300.5, 700.5, 200_000), rng.choice(p, 200_000)
    for ratio, mean in zip(found["odds_ratio"].values, found["mean"].values, strict=True):
        v = 1.0 if np.isinf(ratio) else ratio * q / (1 - q + ratio * q)
        expected = (1 - m) * q + m * v
        assert abs(mean - expected.mean()) < 5 * expected.std() / np.sqrt(4000)
    assert found["mean"].sel(odds_ratio=1.0) == pytest.approx(p.mean(), abs=1e-12)
    low, high = np.quantile((1 - m) * q, 0.025), np.quantile((1 - m) * q + m, 0.975)
    assert abs(found.attrs["low"] - low) < 0.006 and abs(found.attrs["high"] - high) < 0.006
    assert "300 of 1,000 who" in found.attrs["sentence"]
    assert found.attrs["sentence"].partition(". ")[2] in " ".join(str(found.page()).split())
    assert float(found["mean"].max() - found["mean"].min()) == pytest.approx(0.3, abs=0.01)  # the missing share


def test_conclusions_cells_frequencies_and_what_cannot_be_asked():
    found = missing_answers(answered(), "yes > 0.5", odds_ratio=[0.5, 1, 10])
    alone = missing_answers(answered(), "yes > 0.5", odds_ratio=10)
    assert float(alone["mean"][0]) == pytest.approx(float(found["mean"].sel(odds_ratio=10.0)), rel=1e-9)
    assert (np.diff(found["probability"].values) >= 0).all() and found["probability"].values[-1] > 0.9
    both = fit(Cells({"a": collection(3), "b": collection(0)}, by="g"), random_seed=1)
    assert missing_answers(both, "yes", cell="a").attrs["missing"] == 3
    own = missing_answers(answered(), "yes", target="frequency")
    assert float(own["sd"].sel(odds_ratio=0.0)) < float(missing_answers(answered(), "yes")["sd"].sel(odds_ratio=0.0))
    for wrong in (
        lambda: missing_answers(both, "yes", cell="b"),
        lambda: missing_answers(answered(0), "yes"),
        lambda: missing_answers(answered(), "yes", odds_ratio=[-1.0]),
        lambda: missing_answers(answered(), "yes > no"),
        lambda: plots.plot_missing(category_sum(answered(), "yes")),
    ):
        with pytest.raises(ArgumentError):
            wrong()
    assert plots.plot_missing(found).axes[0].get_lines()


def test_of_a_sample_with_weights_the_missing_share_is_weighted(tmp_path):
    """Those for whom a respondent stands for twenty refuse: half of the population where 12 % of the sample do. The error
    of the share is linearized over the clusters, the written file says the same, and rows without weights say so."""
    rng, n = np.random.default_rng(1), 2000
    heavy, village = rng.random(n) < 0.2, rng.integers(0, 50, n)
    said = rng.choice(["no", "yes"], n)
    said[heavy & (rng.random(n) < 0.6)] = "99"
    table = pandas.DataFrame({"y": said, "w": np.where(heavy, 20.0, 1.0), "v": village, "g": rng.choice(["é", "f"], n)})
    lost, share = said == "99", float(np.average(said == "99", weights=table.w))
    stated = {"report": "y", "categories": ["no", "yes"], "missing": "99", "weights": "w", "cluster": "v"}
    sample = read(table, GRR(2, 2.0), **stated)
    result = fit(sample, random_seed=1)
    known = result["constant_data"].to_dataset()
    assert float(known["missing_share"]) == pytest.approx(share) and share > 4 * lost.mean()
    off = pandas.Series(table.w * (lost - share)).groupby(village).sum() / table.w.sum()
    error = np.sqrt(share * (1 - share) / known["missing_respondents"].item())
    assert error == pytest.approx(np.sqrt(50 / 49 * (off**2).sum()), rel=0.05)  # wider by the quantiles of t
    found = missing_answers(result, "yes")
    assert f"({100 * share:.3g} % by weight) gave no answer" in found.attrs["sentence"]
    assert float(found["mean"].max() - found["mean"].min()) == pytest.approx(share, abs=0.01)
    write(sample, tmp_path / "c.toml")
    again = fit(tmp_path / "c.toml", random_seed=1)["constant_data"].to_dataset()
    assert float(again["missing_share"]) == pytest.approx(share)
    by_group = fit(read(table, GRR(2, 2.0), **stated, by="g"), random_seed=1)["constant_data"]["missing_share"]
    expected = [np.average(lost[table.g == g], weights=table.w[table.g == g]) for g in ("f", "é")]
    assert by_group.values == pytest.approx(expected)
    unknown = fit(read(table.assign(w=table.w.where(~lost)), GRR(2, 2.0), **stated), random_seed=1)
    assert "not known" in missing_answers(unknown, "yes").attrs["sentence"]
    assert (
        "not known"
        in missing_answers(fit(read(table.assign(w=table.w.where(~lost, 0)), GRR(2, 2.0), **stated)), "yes").sentence
    )
    alone = table.assign(g=np.where(table.index == np.flatnonzero(lost)[0], "alone", "é"))  # the only one of a stratum
    kish = fit(read(alone, GRR(2, 2.0), **stated, strata="g"), random_seed=1)["constant_data"].to_dataset()
    assert kish["missing_respondents"].item() == pytest.approx(table.w.sum() ** 2 / (table.w**2).sum())
    assert float(kish["missing_share"]) == pytest.approx(share)


def collection(missing):
    return Collection(("no", "yes"), [Tally(GRR(2, 2.0), [0, 1], [40, 30])], missing=missing)
