"""Sources: what each kind of column means, counts that do not wrap, groups, readers by suffix, and round trips."""

import base64
import datetime
import json
import pathlib
import re
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from cases import CASES
from commands import run
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import read, sources, write
from ldpbayes.collections import Cells, Collection, Derived, Tally, as_collection
from ldpbayes.errors import ArgumentError, DataError, LDPBayesWarning, RankDeficientWarning
from ldpbayes.protocols import GRR, bits, designs, make_protocol
from ldpbayes.protocols.columns import Bytes, Integers, ListColumn
from ldpbayes.scanning import Scan, scan
from ldpbayes.simulation import population
from ldpbayes.sources import AbstractFile, open_source, read_collection, stream, write_collection
from ldpbayes.sources.numbers import number

pytestmark = pytest.mark.long

ABC = ("a", "b", "c")
MAKERS = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "polars lazy": polars.LazyFrame,
    "arrow": pyarrow.table,
    "duckdb": lambda columns: __import__("duckdb").from_arrow(pyarrow.table(columns)),
}
every_frame = each_row("make", MAKERS.values())


def oue(categories=ABC):
    return make_protocol("unary", categories, {"epsilon": 1.0, "variant": "optimised"})


def sentence(call, *arguments, kind=DataError, **settings):
    """Return the sentence that a call ends in."""
    with pytest.raises(kind) as caught:
        call(*arguments, **settings)
    return str(caught.value)


# ---- sets ---------------------------------------------------------------------------------------------------------

#: The sets {a}, {b, c} and {}, in every form that a column may have.
SETS = {
    "bit strings": ["100", "011", "000"],
    "bit strings with a prefix": ["0b100", "0b011", "0b000"],
    "hexadecimal": ["0x80", "0x60", "0x00"],
    "texts of labels": ["a", "b;c", ""],
    "bytes": [b"\x80", b"\x60", b"\x00"],
    "lists of booleans": [[True, False, False], [False, True, True], [False] * 3],
    "lists of zeros and ones": [[1, 0, 0], [0, 1, 1], [0, 0, 0]],
    "lists of positions": [[0], [2, 1], []],
    "lists of labels": [["a"], ["c", "b"], []],
}


@every_frame
@each_row("form", SETS)
def test_sets_in_frames(make, form):
    expected = Tally(oue(), [[1, 0, 0], [0, 1, 1], [0, 0, 0]], [2, 3, 4])
    column = [entry for entry, times in zip(SETS[form], (2, 3, 4), strict=True) for _ in range(times)]
    assert read(make({"report": column}), oue(), categories=ABC) == expected
    assert read(make({"report": SETS[form], "n": [2, 3, 4]}), oue(), count="n", categories=ABC) == expected


@each_row(
    "column",
    [
        pyarrow.array([b"\x80", b"\x60"], pyarrow.binary(1)),
        pyarrow.array([b"\x80", b"\x60"], pyarrow.large_binary()),
        pyarrow.array([b"\xff", b"\x80", b"\x60"])[1:],
        pyarrow.array([b"\x80", b"\x60"]).dictionary_encode(),
        pyarrow.array([[True, False, False], [False, True, True]], pyarrow.list_(pyarrow.bool_(), 3)),
        pyarrow.array([[1, 0, 0], [0, 1, 1]], pyarrow.large_list(pyarrow.uint8())),
        pyarrow.array([["a"], ["b", "c"]], pyarrow.list_(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))),
        pyarrow.array(["100", "011"]).dictionary_encode(),
    ],
)
def test_arrow_types_of_sets(tmp_path, column):
    expected = Tally(oue(), [[1, 0, 0], [0, 1, 1]])
    assert read(pyarrow.table({"report": column}), oue(), categories=ABC) == expected
    pyarrow.parquet.write_table(pyarrow.table({"report": column}), tmp_path / "x.parquet")
    assert read_collection(describe(tmp_path, "x.parquet", "unary", oue().parameters())).tallies[0] == expected


@every_frame
@each_row(
    "column, problem",
    [
        ([b"\x80", b"\x61"], "a report has bits set beyond its 3 categories"),
        ([b"\x80", b"\x60\x00"], "a report has 2 bytes, it must have 1 for 3 categories"),
        ([[True, False]], "a report has 2 booleans, it must have one per category, 3"),
        ([[0], [1, 1]], "a report names a category twice; zeros and ones must be 3 in every report"),
        ([[0], [3]], "unknown category '3' in a report; a list holds members"),
        ([["a"], ["b", "d"]], "unknown category 'd' in a report"),
        ([[1.0, 0.0, 0.0]], "holds lists of double"),
        ([[True, False, None]], "holds lists with missing items"),
        ([True, False], "holds booleans; a set is a text of 3 zeros and ones, a list of members, or packed bytes"),
        ([1, 0], "holds whole numbers; a set is a text of"),
        (["100", None], "holds missing values"),
        (["0b10"], "report '0b10' must have 3 zeros and ones"),
        (["0x6"], "report '0x6' is not hexadecimal"),
        (["0x6100"], "report '0x6100' has 2 bytes, it must have 1"),
        (["0x61"], "report '0x61' has bits set beyond its 3 categories"),
        (["a;a"], "category 'a' stands twice"),
        (["a;d"], "unknown category 'd' in report 'a;d'"),
    ],
)
def test_malformed_sets_in_frames(make, column, problem):
    said = sentence(read, make({"report": column}), oue(), categories=ABC)
    assert f"field 'report': {problem}" in re.sub(r"row \d+: ", "", said)


@every_frame
@each_row("column", [[[0, 1]], [[0, 1], [1, 0]]])
def test_lists_over_two_categories_that_could_be_bits_or_members_are_refused(make, column):
    text = sentence(read, make({"report": column}), oue("ab"))
    assert "of booleans" in text
    assert read(make({"report": [*column, []]}), oue("ab")).reports.tolist() == [[0], [192]]
    assert read(make({"report": [[0, 1], [1, 1]]}), oue("ab")).reports.tolist() == [[64], [192]]


def test_labels_of_zeros_and_ones_are_not_taken_for_bits():
    """What could be a label or a bit string is refused, and either can be written so that it is only one of them."""
    labels = ("01", "10")
    for text in labels:
        assert f"report '{text}' could be bits or the label; write '0b…' for bits, or '{text};'" in sentence(
            read, pandas.DataFrame({"report": [text]}), oue(labels), categories=labels
        )
    frame = pandas.DataFrame({"report": ["01;", "01;", "0b01", "01;10", "11", ""]})
    held = read(frame, oue(labels), categories=labels)
    assert np.unpackbits(held.reports, axis=1, count=2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert held.counts.tolist() == [1, 1, 2, 2]
    hexadecimal = ("0x40", "b", "c")
    assert "bits or" in sentence(bits.parse, ["0x40"], hexadecimal)
    assert bits.parse(["0x40;", "0x40"[:2] + "20"], hexadecimal).tolist() == [[128], [32]]
    semicolons = ("a;b", "a", "b")
    assert "or several" in sentence(bits.parse, ["a;b"], semicolons)
    assert bits.parse(["100", "a"], semicolons).tolist() == [[128], [64]]


def test_such_labels_survive_a_file(tmp_path):
    collection = Collection(("01", "10"), Tally(oue(("01", "10")), [[0, 1], [1, 0], [1, 1]], [3, 2, 1]))
    write_collection(collection, tmp_path / "x.toml")
    assert "0b01,3" in (tmp_path / "x.csv").read_text()
    assert read_collection(tmp_path / "x.toml") == collection


def test_hexadecimal_sets_are_read_without_a_look_at_each():
    """Eight seconds a million before; the time of bit strings of the same number is the yardstick."""
    rng = np.random.default_rng(1)
    packed = rng.integers(256, size=(50_000, 16), dtype=np.uint8)
    hexadecimal, strings = bits.format(packed, 128), bits.format(packed[:, :8], 64)

    def seconds(texts, a):
        took = []
        for _ in range(3):
            start = time.process_time()
            out = bits.parse(texts, [f"c{i}" for i in range(a)])
            took.append(time.process_time() - start)
        return min(took), out

    slow, out = seconds(hexadecimal, 128)
    assert np.array_equal(out, packed)
    assert np.array_equal(
        bits.parse([text.upper().replace("X", "x") for text in hexadecimal], ABC * 42 + ("y", "z")), packed
    )
    assert slow < 6 * seconds(strings, 64)[0]


# ---- labels and numbers --------------------------------------------------------------------------------------------


@every_frame
def test_integers_are_labels_where_categories_are_named_and_reports_otherwise(make):
    frame = make({"report": [1, 2, 2]})
    assert read(frame, GRR(3, 1.0)).reports.tolist() == [1, 2]
    assert read(frame, GRR(3, 1.0), categories=["1", "2", "3"]).reports.tolist() == [0, 1]
    cards = designs.christofides([0.2, 0.3, 0.5])
    assert "or positions" in sentence(read, frame, cards)
    assert read(frame, cards, categories=["no", "yes"]).reports.tolist() == [0, 1]


@every_frame
def test_columns_of_the_wrong_kind(make):
    for column, problem in [
        ([b"x"], "holds bytes; a report of this protocol is one label"),
        ([[1]], "holds lists; a report of this protocol is one label"),
        ([1.5], "unknown report '1.5'"),
    ]:
        assert problem in sentence(read, make({"report": column}), GRR(3, 1.0))
    assert "labels a, b, c" in sentence(read, make({"report": [True]}), GRR(3, 1.0), categories=ABC)
    olh = make_protocol("local_hashing", ABC, {"epsilon": 1.0})
    text = sentence(read, make({"seed": [b"x"], "value": [1]}), olh)
    assert "'seed': holds" in text


@every_frame
def test_whole_numbers_may_be_floats_as_beside_missing_entries(make):
    tally = read(make({"report": [1.0, 0.0, 1.0]}), GRR(3, 1.0), categories=ABC)
    assert (tally.reports.tolist(), tally.counts.tolist()) == ([0, 1], [1, 2])
    assert "unknown report 'b.0'" in sentence(read, make({"report": ["b.0"]}), GRR(3, 1.0), categories=ABC)
    answered = make({"report": [1.0, None, 1.0]})
    assert "missing=''" in sentence(read, answered, GRR(3, 1.0), categories=ABC)
    assert read(answered, GRR(3, 1.0), categories=ABC, missing="none").n_reports == 2


@every_frame
def test_a_bad_number_names_the_callers_column(make):
    olh = make_protocol("local_hashing", ABC, {"epsilon": 1.0})
    text = sentence(read, make({"s": [1, 2], "v": [0, 99]}), olh, report=["s", "v"])
    assert text.replace("row 2: ", "") == f"field 'v': value 99 is outside 0..{olh.buckets - 1}"


def test_dictionaries_enums_and_dates():
    grr, days = GRR(3, 1.0), [datetime.date(2020, 1, d) for d in (1, 2, 3)]
    expected = Tally(grr, [0, 1])
    for column in (pyarrow.array(["a", "b"]).dictionary_encode(), pyarrow.array(["a", "b"], pyarrow.large_string())):
        assert read(pyarrow.table({"report": column}), grr, categories=ABC) == expected
    assert read(pyarrow.table({"report": pyarrow.array([0, 1]).dictionary_encode()}), grr) == expected
    enum = polars.DataFrame({"report": ["a", "b"]}, schema={"report": polars.Enum(ABC)})
    assert read(enum, grr, categories=ABC) == expected
    for make in MAKERS.values():
        assert read(make({"report": days[:2]}), grr, categories=list(map(str, days))) == expected


# ---- counts -------------------------------------------------------------------------------------------------------


@every_frame
def test_counts_do_not_wrap(make):
    frame = make({"report": ["yes"] * 5, "n": [2**62] * 4 + [7]})
    text = sentence(read, frame, designs.warner(0.7), count="n")
    assert text.replace("row 1: ", "") == f"field 'n': count must be from 0 to 10**12, got {2**62}"


def test_many_rows_of_allowed_counts_do_not_wrap():
    """9.3 million counts of 10^12 add up to more than 2^63."""
    columns = {"report": np.zeros(9_300_000, dtype=np.int8), "n": np.full(9_300_000, 10**12)}
    for make in (pyarrow.table, polars.DataFrame):
        assert "channel 'all'" in sentence(read, make(columns), designs.warner(0.7), count="n")


def test_unsigned_and_nullable_counts():
    warner = designs.warner(0.7)
    frame = polars.DataFrame({"report": ["yes"], "n": [2**64 - 1]}, schema={"report": polars.String, "n": polars.UInt64})
    assert f"got {2**64 - 1}" in sentence(read, frame, warner, count="n")
    nullable = pandas.DataFrame({"report": ["yes", "no"], "n": pandas.array([1, 3], dtype="Int64")})
    assert read(nullable, warner, count="n").counts.tolist() == [3, 1]


@each_row("digits", ["٣", "３", "1٣", "²"])
def test_counts_in_other_digits_are_refused(tmp_path, digits):
    (tmp_path / "x.csv").write_text(f"report,n\nyes,{digits}\n")
    path = describe(tmp_path, "x.csv", "warner", {"p": 0.7}, ("no", "yes"), count="n")
    assert f"count must be a whole number, got '{digits}'" in sentence(read_collection, path)


@each_row("text", ["2.0", "2.", "+2", " 2 "])
def test_whole_numbers_with_a_point_are_counts_in_a_file_of_texts_too(tmp_path, text):
    (tmp_path / "x.csv").write_text(f"report,n\nyes,{text}\nno,3\n")
    assert read(tmp_path / "x.csv", designs.warner(0.7), count="n").counts.tolist() == [3, 2]
    (tmp_path / "x.csv").write_text("report,n\nyes,2.5\n")
    assert "got '2.5'" in sentence(read, tmp_path / "x.csv", designs.warner(0.7), count="n")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_text_of_another_encoding_says_which(tmp_path, encoding):
    (tmp_path / "x.csv").write_bytes("report,n\nyes,2\n".encode(encoding))
    assert "UTF-16 text" in sentence(read, tmp_path / "x.csv", designs.warner(0.7))


@each_row("block", [16, 24, 40, 2**24])
@each_row("n", [1, 2, 5])
@each_row("end", ["", "\n"])
def test_the_last_of_json_lines_needs_no_end(tmp_path, monkeypatch, block, n, end):
    monkeypatch.setattr("ldpbayes.sources.jsonlines.BLOCK", block)
    (tmp_path / "x.jsonl").write_text("\n".join(['{"report": "yes"}'] * n) + end)
    found = read(tmp_path / "x.jsonl", designs.warner(0.7), missing="")
    assert (found.n_reports, found.missing) == (n, 0)


@every_frame
def test_cells_that_look_the_same_are_no_secret(make):
    for one, other in (("x", " x"), ("\u00e9", "e\u0301")):
        frame = make({"report": ["yes", "no"], "g": [one, other]})
        for door in (read, lambda *args, **settings: scan(*args, **settings)):
            with pytest.warns(LDPBayesWarning, match=r"column 'g'.*blanks"):
                assert len(door(frame, designs.warner(0.7), by="g")) == 2
    warner = GRR(2, epsilon=1.0)
    frame = make({"report": ["e\u0301", "\u00e9"]})  # is one label, however it is written
    assert read(frame, warner, categories=["no", "\u00e9"]).counts.tolist() == [2]
    assert "distinct texts" in sentence(read, frame, warner, categories=["e\u0301", "\u00e9"], kind=ArgumentError)


def test_long_numbers_that_became_floats_are_no_keys(tmp_path):
    ids = ["99999999999999999998", "99999999999999999999"]  # one floating-point number
    (tmp_path / "x.jsonl").write_text("".join(f'{{"report": "yes", "id": {number}}}\n' for number in ids))
    for column in ("by", "by_user"):
        text = sentence(read, tmp_path / "x.jsonl", designs.warner(0.7), **{column: "id"})
        assert "1e+20 in floating" in text


def test_sets_that_lost_their_zeros_are_not_members(tmp_path):
    protocol = make_protocol("oue", list(map(str, range(12))), {"epsilon": 1.0})
    (tmp_path / "x.csv").write_text("report\n110000000000\n11\n")  # a spreadsheet wrote 000000000011
    assert "report '11'" in sentence(read, tmp_path / "x.csv", protocol)
    (tmp_path / "x.csv").write_text("report\n0b110000000000\n11;\n")
    assert read(tmp_path / "x.csv", protocol).n_reports == 2


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "x", ""])
def test_a_bad_weight_has_a_line_and_may_be_left_out(tmp_path, weight):
    (tmp_path / "x.csv").write_text(f"report,w\nyes,2\nno,{weight}\nyes,1\n")
    assert "line 3, field 'w'" in sentence(read, tmp_path / "x.csv", designs.warner(0.7), weights="w")
    with pytest.warns(match=r"1 row.*report"):
        assert read(tmp_path / "x.csv", designs.warner(0.7), weights="w", bad_rows="skip").n_reports == 2


# ---- frames that were foreign exceptions ----------------------------------------------------------------------------


def test_frames_end_in_sentences():
    warner = designs.warner(0.7)
    rows = [["yes", "a"], ["no", "b"]]
    nullable = pandas.array([0, None, 1], dtype="Int64")
    missing = "row 2: holds missing values"
    assert f"field 'report': {missing}" in sentence(read, pandas.DataFrame({"report": nullable}), warner)
    counted = pandas.DataFrame({"report": ["yes"] * 3, "n": nullable})
    assert f"field 'n': {missing}" in sentence(read, counted, warner, count="n")
    assert "two columns" in sentence(read, pandas.DataFrame(rows, columns=["report"] * 2), warner)
    assert "has 0, 1" in sentence(read, pandas.DataFrame(rows), warner)
    assert "report must" in sentence(read, pandas.DataFrame(rows), warner, report=0, kind=ArgumentError)
    assert "neither texts" in sentence(read, pandas.DataFrame({"report": ["yes", ["a"]]}), warner)
    broken = polars.LazyFrame({"report": ["x"]}).select(polars.col("report").cast(polars.Int64))
    assert "conversion from" in sentence(read, broken, warner)
    assert "frame cannot" in sentence(read, polars.scan_parquet("nowhere.parquet"), warner)


@every_frame
def test_columns_may_have_any_name(make):
    frame = make({"_rows": ["yes", "no"], "rows": [1, 2], "report 0": ["x", "y"], "count": [5, 6], "low": [7, 8]})
    expected = Tally(designs.warner(0.7), [0, 1], [2, 1])
    assert read(frame, designs.warner(0.7), report="_rows", count="rows") == expected
    with_numbers = pandas.DataFrame([["yes", 1], ["no", 2], ["no", 3]], columns=["report", 7])
    assert read(with_numbers, designs.warner(0.7)) == expected


@each_row("name", ["a.b", "a`b", 'a"b', "a'b", "a[0]"])
@every_frame
def test_names_of_columns_are_no_code(make, name):
    frame = make({name: ["yes", "no", "yes"], f"g{name}": ["x", "y", "x"]})
    try:
        cells = read(frame, designs.warner(0.7), report=name, by=f"g{name}")
    except DataError as err:  # DuckDB before 2 does not quote names, and refuses these
        import duckdb

        assert "duckdb" in type(frame).__module__ and duckdb.__version__ < "2" and "cannot be read" in str(err)
        return
    assert {key: cell.tallies[0].counts.tolist() for key, cell in cells.items()} == {("x",): [2], ("y",): [1]}


def test_a_class_instead_of_a_protocol():
    text = sentence(read, pandas.DataFrame({"report": [0]}), GRR, kind=ArgumentError)
    assert text == "protocol must be an object, such as GRR(4, epsilon=1.0), got the class GRR; call it with its parameters."


def test_fit_takes_the_tally_of_a_frame_with_its_labels():
    frame = pandas.DataFrame({"report": ["a", "b", "b"]})
    tally = read(frame, GRR(3, 1.0), categories=ABC)
    assert lb.fit(tally, random_seed=1)["posterior"]["category"].values.tolist() == list(ABC)
    assert as_collection(Tally(GRR(3, 1.0), [0, 1])).categories == ("0", "1", "2")
    assert Collection(ABC, tally).n_reports == 3
    assert "makes a Tally" in sentence(lb.fit, frame, kind=ArgumentError)
    assert lb.select_method(tally).method.name == lb.select_method(Collection(ABC, tally)).method.name
    for estimator in (lb.estimators.MLE(), lb.estimators.Oracle()):
        assert estimator(tally).distribution.tolist() == estimator(Collection(ABC, tally)).distribution.tolist()


@each_row(
    "categories, problem",
    [
        ("abc", "categories must be distinct texts"),
        (["a", "a", "b"], "categories must be distinct texts"),
        (["a", "b"], "categories must be the protocol's 3 labels, got 2"),
        ([0, 1, 2], "categories must be distinct texts"),
    ],
)
def test_wrong_categories(categories, problem):
    frame = pandas.DataFrame({"report": ["a"]})
    assert problem in sentence(read, frame, GRR(3, 1.0), categories=categories, kind=ArgumentError)


# ---- groups -------------------------------------------------------------------------------------------------------

GROUPED = {"wave": [10, 10, 2, 2, 10], "region": ["x", "y", "x", "x", "y"], "report": ["yes", "no", "no", "yes", "no"]}


@every_frame
def test_groups_of_a_frame(make):
    warner = designs.warner(0.7)
    cells = read(make(GROUPED), warner, by=["wave", "region"], categories=("no", "yes"))
    assert isinstance(cells, Cells) and list(cells) == [(2, "x"), (10, "x"), (10, "y")]
    assert [cell.tallies[0].counts.tolist() for cell in cells.values()] == [[1, 1], [1], [2]]
    assert cells.categories == ("no", "yes") and cells.by == ("wave", "region")
    assert sum(read(make(GROUPED), warner, by="region").values()).tallies[0] == read(make(GROUPED), warner)
    missing = GROUPED | {"region": ["x", None, "x", "x", "y"]}
    assert "missing values" in sentence(read, make(missing), warner, by="region")


@every_frame
def test_groups_of_packed_sets(make):
    columns = {"report": [b"\x80", b"\x60", b"\x80"], "day": [datetime.date(2020, 1, d) for d in (2, 1, 2)], "n": [3, 4, 5]}
    cells = read(make(columns), oue(), by="day", count="n")
    assert [(str(day), cell.tallies[0].counts.tolist()) for (day,), cell in cells.items()] == [
        ("2020-01-01", [4]),
        ("2020-01-02", [8]),
    ]


def describe(folder, file, protocol, parameters, categories=ABC, **settings):
    """Write a collection file of one channel and return its path."""
    import tomli_w

    by = settings.pop("by", None)
    channel = {"protocol": protocol, "file": file, "parameters": parameters, **settings}
    document = {"categories": list(categories), "channels": [channel]} | ({"by": by} if by else {})
    (folder / "x.toml").write_text(tomli_w.dumps(document))
    return folder / "x.toml"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_groups_of_a_collection_file(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(sources.csv, "BLOCK", 24)
    write_table(GROUPED, tmp_path / f"t{suffix}")
    for by in (["wave", "region"], "region"):
        path = describe(tmp_path, f"t{suffix}", "warner", {"p": 0.7}, ("no", "yes"), by=by, n=5)
        cells = read_collection(path)
        assert cells == read(pandas.DataFrame(GROUPED), designs.warner(0.7), by=by, categories=("no", "yes"))
        assert cells.id == "x"
    path = describe(tmp_path, f"t{suffix}", "warner", {"p": 0.7}, ("no", "yes"), by="planet")
    assert "column 'planet'" in sentence(read_collection, path)


def test_folders_hold_files_of_one_format(tmp_path):
    path = describe(tmp_path, "part", "warner", {"p": 0.7}, ("no", "yes"))
    (tmp_path / "part" / "wave=1").mkdir(parents=True)
    assert "part: holds" in sentence(read_collection, path)
    write_table({"report": ["no", "yes"]}, tmp_path / "part" / "wave=1" / "a.csv")
    assert read_collection(path).n_reports == 2
    assert list(read(tmp_path / "part", designs.warner(0.7), by="wave")) == [(1,)]
    (tmp_path / "part" / "b.jsonl").write_text('{"report": "no"}')
    problem = sentence(read_collection, path)
    assert "(b.jsonl, wave=1/a.csv)" in problem
    (tmp_path / "part" / "b.jsonl").unlink()
    write_table({"report": ["no", "yes", "no"]}, tmp_path / "part" / "b.parquet")
    for door in (read, scan):  # neither is read in silence alone
        assert "(b.parquet, wave=1/a.csv)" in sentence(door, tmp_path / "part", designs.warner(0.7))


@each_row("by", [3, [], [""], ["region", "region"], [1]])
def test_malformed_by(tmp_path, by):
    write_table(GROUPED, tmp_path / "t.csv")
    path = describe(tmp_path, "t.csv", "warner", {"p": 0.7}, ("no", "yes"))
    path.write_text(f"by = {by!r}\n".replace("'", '"') + path.read_text())
    if by == []:
        assert isinstance(read_collection(path), Collection)
    else:
        assert "field 'by'" in sentence(read_collection, path)


def test_channels_of_different_formats_share_their_cells(tmp_path):
    write_table(GROUPED, tmp_path / "t.csv")
    write_table(GROUPED, tmp_path / "t.parquet")
    channel = '[[channels]]\nname = "{0}"\nprotocol = "warner"\nfile = "t.{0}"\nparameters = {{ p = 0.7 }}\n'
    text = 'categories = ["no", "yes"]\nby = "wave"\n' + channel.format("csv") + channel.format("parquet")
    (tmp_path / "x.toml").write_text(text)
    cells = read_collection(tmp_path / "x.toml")
    assert list(cells) == [(2,), (10,)] and all(len(cell.tallies) == 2 for cell in cells.values())


def of_groups(groups, by, texts=None, **facts):
    """Return Cells as a reader names them."""
    parts = {key: ", ".join(map(str, key if isinstance(key, tuple) else (key,))) for key in groups}
    cells = {key: Collection(("no", "yes"), tallies, id=parts[key], **facts) for key, tallies in groups.items()}
    return Cells(cells, by, **(texts or {}))


def test_cells_survive_a_file(tmp_path):
    a, b = designs.warner(0.7), GRR(2, 1.0)
    groups = {
        (2, "x"): [Tally(a, [0, 1], [3, 4]), Tally(b, [0, 1], [5, 6], "second")],
        (10, "x"): [Tally(a, [1], [7])],
        (10, "y, z"): [Tally(b, [0], [8], "second")],
    }
    derived = (Derived("odds", ("yes",), ("no", "yes")),)
    facts = {"derived": derived, "question": "Really?", "published": ({"what": "x"},)}
    cells = of_groups(groups, ["wave", "region"], {"id": "waves", "title": "Waves"}, **facts)
    write_collection(cells, tmp_path / "x.toml")
    again = read_collection(tmp_path / "x.toml")
    assert again == cells and (again.id, again.title, again.derived) == ("waves", "Waves", derived)
    write_collection(cells[10, "x"].tallies[0], tmp_path / "tally.toml")
    assert read_collection(tmp_path / "tally.toml").categories == ("no", "yes")


def test_cells_that_no_file_can_hold(tmp_path):
    groups = {key: [Tally(designs.warner(p), [0, 1])] for key, p in (("a", 0.7), ("b", 0.8))}
    cells = of_groups(groups, "region")
    text = sentence(write_collection, cells, tmp_path / "x.toml", kind=ArgumentError)
    assert "channel 'all'" in text
    same = of_groups({"a": groups["a"]}, "count")
    assert "column 'count'" in sentence(write_collection, same, tmp_path / "x.toml", kind=ArgumentError)
    summaries = of_groups({"a": groups["a"]}, "region").summaries([0.5, 0.5])
    assert ".parquet" in sentence(write_collection, summaries, tmp_path / "x.toml", kind=ArgumentError)
    assert list(tmp_path.iterdir()) == []


# ---- readers ------------------------------------------------------------------------------------------------------


def write_table(columns, path):
    frame = pandas.DataFrame(columns)
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)


def test_a_reader_is_a_class_and_an_entry(tmp_path, monkeypatch):
    class Toy(AbstractFile):
        """A file that holds one report, read as many times as it has letters."""

        def schema(self):
            return pyarrow.schema([("report", pyarrow.string())])

        def rows(self, columns):
            text = pathlib.Path(self.source).read_text()
            yield pyarrow.table({"report": [text] * len(text)})

    monkeypatch.setitem(stream.formats(), ".toy", Toy)
    (tmp_path / "t.toy").write_text("yes")
    path = describe(tmp_path, "t.toy", "warner", {"p": 0.7}, ("no", "yes"), n=3)
    assert read_collection(path).tallies[0] == Tally(designs.warner(0.7), [1], [3])


def test_a_set_may_be_several_columns():
    """Zeros and ones for each category, or bytes: ``read`` takes what ``scan`` takes."""
    protocol = lb.protocols.UnaryEncoding.optimized(10, epsilon=1.0)
    reports = protocol.privatize(np.arange(200) % 10, np.random.default_rng(1))
    bits = np.unpackbits(reports, axis=1)[:, :10]
    whole = read(pyarrow.table({"report": [bytes(report) for report in reports]}), protocol)
    for parts in (bits, reports):
        table = pyarrow.table({f"b{i}": part for i, part in enumerate(parts.T)})
        assert read(table, protocol, report=table.column_names) == whole
    with pytest.raises(ArgumentError, match=r"report must.*10.*3"):
        read(table, protocol, report=["b0", "b1", "b2"])


def test_columns_of_bits_name_their_categories(tmp_path):
    """Without other labels those of the columns are the categories, in a read, by user, and in a scan."""
    protocol, labels = make_protocol("oue", ABC, {"epsilon": 1.0}), ("mail", "chat", "maps")
    bit = np.unpackbits(protocol.privatize(np.arange(60) % 3, np.random.default_rng(0)), axis=1)[:, :3].astype(bool)
    table = pyarrow.table({name: bit[:, i] for i, name in enumerate(labels)} | {"user": np.arange(60) // 2})
    for made in (read(table, protocol, report=labels, by="user")[0,], scan(table, protocol, report=labels)):
        assert made.categories == labels
    assert read(table, protocol, report=labels).categories == labels
    for by_user in (
        read(table, protocol, report=labels, by_user="user"),
        scan(table, protocol, report=labels, by_user="user"),
    ):
        assert by_user.categories == labels
    assert scan(table, protocol, report=labels, categories=ABC).categories == ABC


def test_selected_rows_are_compared_with_the_metadata(tmp_path):
    """The metadata of a file of which no row is selected say nothing of the rows; those of its own rows must agree."""
    rng = np.random.default_rng(0)
    for day, epsilon in ((1, 1.0), (2, 1.6)):
        protocol = GRR(3, epsilon)
        lb.write(
            protocol.privatize(np.arange(60) % 3, rng), tmp_path / f"{day}.parquet", protocol, day=day, user=np.arange(60)
        )
    text = (
        'id = "t"\ncategories = ["a", "b", "c"]\n[[channels]]\nfile = "*.parquet"\nwhere = {day = "2"}\nby_user = "user"\n'
    )
    (tmp_path / "t.toml").write_text(text)
    data = read(tmp_path / "t.toml")
    assert data.n_reports == 60 and data.tallies[0].protocol.protocol == GRR(3, 1.6)
    one, two = (pyarrow.parquet.read_table(tmp_path / f"{day}.parquet") for day in (1, 2))
    pyarrow.parquet.write_table(two.replace_schema_metadata(one.schema.metadata), tmp_path / "2.parquet")
    assert all(word in sentence(read, tmp_path / "t.toml") for word in ("metadata", "epsilon=1.0", "epsilon=1.6"))


def test_files_of_two_kinds_may_be_two_channels(tmp_path):
    for name, report in (("a", [0, 1]), ("b", [b"x", b"y"])):
        pyarrow.parquet.write_table(pyarrow.table({"report": report}), tmp_path / f"{name}.parquet")
    said = sentence(scan, str(tmp_path / "*.parquet"), GRR(3, 1.0))
    assert all(word in said for word in ("report", "bytes", "collection file", "channel"))


def test_every_reader_is_tested():
    assert set(stream.formats()) == {".csv", ".parquet", ".pq", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc"}


def test_parsing_sees_distinct_cells_only(tmp_path, monkeypatch):
    seen, parse = [], GRR.parse_reports

    def counting(self, columns, labels):
        seen.append(len(columns[0]))
        return parse(self, columns, labels)

    monkeypatch.setattr(GRR, "parse_reports", counting)
    columns = {"report": ["a", "b", "b", "c"] * 5000}
    for suffix in (".csv", ".parquet"):
        write_table(columns, tmp_path / f"t{suffix}")
        read_collection(describe(tmp_path, f"t{suffix}", "grr", {"epsilon": 1.0}))
    for make in MAKERS.values():
        read(make(columns), GRR(3, 1.0), categories=ABC)
    assert set(seen) == {3}


def test_a_parquet_file_in_a_collection_file(tmp_path):
    columns = {"group": [1, 1, 2], "report": ["no", "yes", "perhaps"], "n": [60, 40, 1]}
    write_table(columns, tmp_path / "t.parquet")
    path = describe(tmp_path, "t.parquet", "warner", {"p": 0.7}, ("no", "yes"), count="n", where={"group": 1}, n=100)
    assert read_collection(path).tallies[0].counts.tolist() == [60, 40]
    path = describe(tmp_path, "t.parquet", "warner", {"p": 0.7}, ("no", "yes"), count="n")
    assert "report 'perhaps'" in sentence(read_collection, path)
    for broken, problem in [
        ("none.parquet", "none.parquet: cannot be read (No such file or directory)"),
        ("*.none.parquet", "matches no file"),
        ("text.parquet", "text.parquet: is not a readable Parquet file: "),
    ]:
        (tmp_path / "text.parquet").write_text("report,n\nno,1\n")
        text = sentence(read_collection, describe(tmp_path, broken, "warner", {"p": 0.7}, ("no", "yes")))
        assert problem in text and "\n" not in text
    (tmp_path / "t.csv").write_bytes((tmp_path / "t.parquet").read_bytes())
    text = sentence(read_collection, describe(tmp_path, "t.csv", "warner", {"p": 0.7}, ("no", "yes")))
    assert "t.csv: is" in text and "line 0" not in text


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"group": 2}, [1]),
        ({"group": "2"}, [1]),
        ({"flag": True}, [2]),
        ({"text": "x", "group": 1}, [1]),
        ({"share": 0.5}, [2]),
    ],
)
def test_where_means_the_same_in_every_format(tmp_path, suffix, where, expected):
    columns = {"group": [1, 1, 2], "flag": [True, True, False], "text": ["x", "y", "x"], "share": [0.5, 0.5, 1.5]}
    write_table(columns | {"report": ["no", "no", "no"]}, tmp_path / f"t{suffix}")
    path = describe(tmp_path, f"t{suffix}", "warner", {"p": 0.7}, ("no", "yes"), where=where)
    assert read_collection(path).tallies[0].counts.tolist() == expected


def test_patterns_and_many_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpbayes.sources.parquet.BATCH", 100)
    labels = np.array(ABC)[np.random.default_rng(1).integers(3, size=1000)]
    for i, part in enumerate(np.split(labels, 2)):
        table = pyarrow.table({"report": pyarrow.array(part).dictionary_encode()})
        pyarrow.parquet.write_table(table, tmp_path / f"part{i}.parquet", row_group_size=70)
    held = read_collection(describe(tmp_path, "part*.parquet", "grr", {"epsilon": 1.0})).tallies[0]
    assert held.counts.tolist() == [int((labels == label).sum()) for label in ABC]


def test_missing_packages_name_the_extra():
    code = (
        "import sys; sys.modules['narwhals'] = None\n"
        "import ldpbayes as lb\n"
        "try: lb.read([], lb.GRR(3, 1.0))\n"
        "except lb.LDPBayesError as err: print(err)\n"
    )
    root = pathlib.Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    needed = "Reading a data frame needs the package narwhals, which is not installed: pip install 'ldpbayes[frames]'."
    assert done.stdout.strip() == needed


# ---- collection files -----------------------------------------------------------------------------------------------


@each_row(
    "text, value",
    [
        ("ln(3)", np.log(3)),
        (" ln( 3 ) / 2 ", np.log(3) / 2),
        ("2*ln(1.5)", 2 * np.log(1.5)),
        ("0.5 * ln(4/3) / 3", 0.5 * np.log(4 / 3) / 3),
        ("1/6", 1 / 6),
        ("-1/4", -0.25),
        ("1.5/2", 0.75),
        ("1/0", None),
        ("ln(0)", None),
        ("ln(1/0)", None),
        ("ln(3)/0", None),
        ("ln(-1)", None),
        ("log(3)", None),
        ("exp(1)", None),
        ("ln(ln(3))", None),
        ("1" * 4000 + "/3", None),
        ("0.5", None),
        ("1_0/3", None),
        ("٣/4", None),
        ("__import__('os')", None),
    ],
)
def test_numbers_as_texts(text, value):
    assert number(text) == (value if value is None else pytest.approx(value, rel=1e-15))


def test_epsilon_as_a_logarithm(tmp_path):
    write_table({"report": ["a", "b"]}, tmp_path / "t.csv")
    tally = read_collection(describe(tmp_path, "t.csv", "grr", {"epsilon": "ln(3)"})).tallies[0]
    assert tally.protocol.epsilon == pytest.approx(np.log(3), rel=1e-15)
    assert "epsilon must" in sentence(read_collection, describe(tmp_path, "t.csv", "grr", {"epsilon": "log(3)"}))


def test_dates_print_as_dates(tmp_path):
    write_table({"report": ["a", "b"]}, tmp_path / "t.csv")
    path = describe(tmp_path, "t.csv", "grr", {"epsilon": 1.0})
    path.write_text("title = 2024-05-01\n" + path.read_text())
    assert sentence(read_collection, path).endswith("title must be text, got 2024-05-01")
    path = describe(tmp_path, "t.csv", "grr", {"epsilon": datetime.date(2024, 5, 1)})
    assert "time 2024-05-01" in sentence(read_collection, path)


def test_a_population_with_repeated_values(tmp_path):
    (tmp_path / "p.csv").write_text("value,count\nA,3\nB,2\nA,1\n")
    assert "value 'A' twice" in sentence(population, tmp_path / "p.csv")


def test_the_rank_warning_comes_once(tmp_path):
    (tmp_path / "t.csv").write_text("report,n\nno,60\nyes,40\n")
    path = describe(tmp_path, "t.csv", "stochastic_lie_detector", {"p": 0.7}, count="n")

    def warned(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        return sum(issubclass(warning.category, RankDeficientWarning) for warning in caught)

    quick = {"random_seed": 1, "estimates": False, "draws": 20}
    assert warned(lambda: read_collection(path)) == 1
    assert warned(lambda: lb.fit(read_collection(path), **quick)) == 1
    assert warned(lambda: lb.fit(path, **quick)) == 1
    built = Collection(ABC, Tally(designs.stochastic_lie_detector(0.7), [0, 1], [60, 40]))
    assert [warned(lambda: lb.fit(built, **quick)) for _ in range(2)] == [1, 1]


# ---- round trips ----------------------------------------------------------------------------------------------------

LABELS = st.one_of(
    st.sampled_from(["01", "10", "0", "1", "100", "0x40", "0b1", "a;b", "a", " x", "ü", "-1", "1/2", "yes"]),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=5),
)
FIXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@st.composite
def collections(draw, case):
    """A collection of reports of one protocol, under labels of every kind."""
    a = draw(st.sampled_from(case.categories))
    categories = draw(st.lists(LABELS, min_size=a, max_size=a, unique=True))
    assume(len({label.strip() for label in categories}) == a and all(label.strip() for label in categories))
    protocol = case.build(a, draw(st.sampled_from([0.5, 1.0, 2.5])))
    try:
        protocol.check_categories(categories)
    except ArgumentError:  # a candidate or an answer under the place of another one
        assume(False)
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    reports = protocol.privatize(rng.integers(a, size=draw(st.integers(1, 30))), rng)
    return Collection(categories, Tally(protocol, reports, rng.integers(1, 10**6, size=len(reports))))


def typed(tally):
    """Return the columns of a tally as a program would keep them: numbers, and bytes for sets."""
    reports, fields = tally.reports, tally.protocol.report_fields
    if tally.protocol.repeats() is not None:
        labels = [str(x) for x in range(tally.protocol.n_categories)]
        return dict(zip(fields, tally.protocol.report_columns(reports, labels), strict=True))
    if reports.ndim == 1:
        return {fields[0]: reports}
    if reports.dtype != np.uint8:
        return dict(zip(fields, reports.T, strict=True))
    packed = [row.tobytes() for row in reports]
    if len(fields) == 1:
        return {fields[0]: packed}
    return {fields[0]: [int.from_bytes(row[:4], "big") for row in packed], fields[1]: [row[4:] for row in packed]}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("examples", [2, pytest.param(10, marks=pytest.mark.calibrate)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_written_is_what_is_read(case, examples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trip")

    @settings(max_examples=examples, **FIXED)
    @given(collections(case))
    def check(collection):
        (tally,) = collection.tallies
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_collection(collection, folder / "x.toml")
            assert read_collection(folder / "x.toml") == collection
            counts = {"count": tally.counts.tolist()}
            columns = tally.protocol.format_reports(tally.reports, collection.categories)
            texts = dict(zip(tally.protocol.report_fields, columns, strict=True))
            for make in MAKERS.values():
                frame = make(texts | counts)
                assert read(frame, tally.protocol, count="count", categories=collection.categories) == tally
            pyarrow.parquet.write_table(pyarrow.table(texts | counts), folder / "x.parquet")
            described = (folder / "x.toml").read_text().replace('file = "x.csv"', 'file = "x.parquet"')
            (folder / "y.toml").write_text(described)
            assert read_collection(folder / "y.toml").tallies == collection.tallies
            if case.name in ("christofides", "kuk-2"):
                return  # whole numbers among the answers: an integer column is refused, see above
            for make in MAKERS.values():
                assert read(make(typed(tally) | counts), tally.protocol, count="count") == tally

    check()


@each_row("case", CASES)
@each_row(
    "column",
    [
        Integers(np.array([0, -1, 2**62])),
        Integers(np.array([0, 1]), labelled=True),
        Integers(np.array([0, 1]), labelled=True, boolean=True),
        Bytes(np.array([1, 2]), np.array([0, 128, 128], dtype=np.uint8)),
        ListColumn(np.array([1, 1]), np.array([0, 1])),
        ListColumn(np.array([1, 1]), ["a", "b"]),
        ListColumn(np.array([0, 1]), np.array([True])),
    ],
)
def test_every_protocol_reads_or_refuses_every_kind_of_column(case, column):
    protocol = case.build(case.categories[0], 1.0)
    try:
        reports = protocol.parse_reports([column] * len(protocol.report_fields), list("abcdefgh"[: protocol.n_categories]))
    except DataError as err:
        assert "\n" not in str(err)
    else:
        assert np.array_equal(protocol.check_reports(reports), reports)


def test_parquet_in_batches_uses_bounded_memory(tmp_path):
    """Only the columns in use are read."""
    path = tmp_path / "t.parquet"
    n = 200_000
    table = pyarrow.table({"report": pyarrow.array(ABC).take(pyarrow.array(np.arange(n) % 3)), "waste": np.arange(n)})
    pyarrow.parquet.write_table(table, path, row_group_size=10_000)
    batches = list(open_source(path).batches(["report"]))
    assert sum(batch.table.num_rows for batch in batches) == n
    assert all(batch.table.column_names == ["report"] and batch.table.nbytes < 5 * n for batch in batches)


def test_mutated_parquet_files_are_read_or_refused_in_a_sentence(tmp_path):
    rng = np.random.default_rng(8)
    write_table({"report": list("abc") * 20, "n": range(60), "g": list("xyz") * 20}, tmp_path / "whole.parquet")
    whole = np.frombuffer((tmp_path / "whole.parquet").read_bytes(), dtype=np.uint8)
    path = describe(tmp_path, "t.parquet", "grr", {"epsilon": 1.0}, by="g", count="n")
    refused = 0
    for _ in range(200):
        mutated = whole.copy()
        mutated[rng.integers(mutated.size, size=rng.integers(1, 6))] = rng.integers(256)
        mutated = mutated[: rng.integers(mutated.size)] if rng.random() < 0.1 else mutated
        (tmp_path / "t.parquet").write_bytes(mutated.tobytes())
        try:
            read_collection(path)
        except DataError as err:
            assert "\n" not in str(err)
            refused += 1
    assert refused > 50


def test_a_footer_that_contradicts_itself_ends_in_a_sentence_at_every_door(tmp_path, capsys):
    """PyArrow's accessors of such a footer end the process: texts are said to be booleans, and to have a size in bytes."""
    write_table({"report": list("abc") * 20, "g": list("xyz") * 20, "y": range(60)}, tmp_path / "whole.parquet")
    write(
        scan(str(tmp_path / "whole.parquet"), GRR(3, 1.0), report="report", categories=ABC, by="g"), tmp_path / "s.parquet"
    )
    bad, summaries = tmp_path / "bad.parquet", tmp_path / "bad_summaries.parquet"
    for path, whole in ((bad, "whole.parquet"), (summaries, "s.parquet")):
        data = (tmp_path / whole).read_bytes()
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        path.write_bytes(data[:footer] + data[footer:].replace(b"\x15\x0c\x25", b"\x15\x00\x25"))  # BYTE_ARRAY, BOOLEAN
    stated = {"report": "report", "categories": ABC}
    for door in (read, lambda *args, **settings: scan(*args, **settings)):
        assert "readable Parquet" in sentence(door, str(bad), GRR(3, 1.0), **stated)
        opened = pyarrow.dataset.dataset(bad, schema=pyarrow.dataset.dataset(tmp_path / "whole.parquet").schema)
        assert "be read" in sentence(door, opened, GRR(3, 1.0), **stated)
    assert "readable Parquet" in sentence(read, summaries)
    assert "readable Parquet" in sentence(read_collection, describe(tmp_path, bad.name, "grr", {"epsilon": 1.0}))
    for command in (["regress", str(bad), "report ~ g"], ["private-groups", str(bad), "--value", "y"]):
        status, _, said = run(capsys, *command, *"--report report --protocol grr -p epsilon=1 --categories a,b,c".split())
        assert status == 2 and "readable Parquet" in " ".join(said.split())


def test_columns_that_are_encrypted_are_named_and_the_others_read(tmp_path):
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):
        def __init__(self, settings):
            super().__init__()

        def wrap_key(self, key, name):
            return base64.b64encode(key)

        unwrap_key = None

    asked = encryption.EncryptionConfiguration("footer", column_keys={"one": ["secret"]}, plaintext_footer=True)
    made = encryption.CryptoFactory(Keys).file_encryption_properties(encryption.KmsConnectionConfig(), asked)
    table = pyarrow.table({"secret": list("abc"), "plain": list("abc")})
    with pyarrow.parquet.ParquetWriter(tmp_path / "x.parquet", table.schema, encryption_properties=made) as writer:
        writer.write_table(table)
    assert "Cannot decrypt" in sentence(read, tmp_path / "x.parquet", GRR(3, 1.0), report="secret", categories=ABC)
    assert read(tmp_path / "x.parquet", GRR(3, 1.0), report="plain", categories=ABC).n_reports == 3


def test_mutated_arrow_files_are_read_or_refused_in_a_sentence(tmp_path):
    """Offsets that point beyond the end of a file are not followed."""
    table = pyarrow.table({"report": list("abc") * 20, "g": list("xyz") * 20, "n": list(range(60))})
    with pyarrow.ipc.new_file(tmp_path / "whole.arrow", table.schema) as writer:
        writer.write_table(table)
    whole = np.frombuffer((tmp_path / "whole.arrow").read_bytes(), dtype=np.uint8)
    path, rng, refused = tmp_path / "t.arrow", np.random.default_rng(8), 0
    for _ in range(150):
        mutated = whole.copy()
        mutated[rng.integers(mutated.size, size=rng.integers(1, 6))] = rng.integers(256)
        path.write_bytes(mutated[: rng.integers(mutated.size)].tobytes() if rng.random() < 0.1 else mutated.tobytes())
        try:
            read(path, GRR(3, 1.0), categories=ABC, by="g", count="n")
        except DataError as err:
            assert "\n" not in str(err)
            refused += 1
    assert refused > 40


@each_row(
    "text, problem",
    [
        ('{"report": 0}\n{"report": 0', "x.jsonl, line 2: is not JSON: Expecting ',' delimiter"),
        ('{"report": 0}\n\n[1]\n', "x.jsonl, line 3: holds something else than a JSON object"),
        ('{"report": 0}\n\n{"report": 7}\n', "x.jsonl, line 3, field 'report': report 7 is outside 0..2"),
        ('{"report": 0}\n{"g": 1}\n', "x.jsonl, line 2, field 'report': holds missing values"),
        ('{"report": 0}\n{"report": "a"}\n', "x.jsonl: is not a readable file of JSON lines: JSON parse error: Column"),
        ('{"report": {"a": 1}}\n', "x.jsonl, field 'report': holds struct<a: int64>, which is not read"),
        ("\n", "x.jsonl: has no rows"),
    ],
)
def test_malformed_json_lines(tmp_path, text, problem):
    (tmp_path / "x.jsonl").write_text(text)
    assert problem in sentence(read, tmp_path / "x.jsonl", GRR(3, 1.0))


def test_dates_in_json_lines_are_texts(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"report": 0, "day": "2024-05-01"}\n{"report": 1, "day": "2024-05-02"}\n')
    assert list(read(tmp_path / "x.jsonl", GRR(3, 1.0), by="day")) == [("2024-05-01",), ("2024-05-02",)]


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([(1, 2, 3)], pyarrow.month_day_nano_interval()),
        pyarrow.RunEndEncodedArray.from_arrays([1], [0]),
        pyarrow.array([1], pyarrow.time32("s")),
    ],
    ids=lambda column: str(column.type),
)
def test_other_types_of_arrow_are_refused(column):
    assert "field 'report'" in sentence(read, pyarrow.table({"report": column}), GRR(3, 1.0))


# ---- what a column says of itself ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "protocol, words, reports",
    [
        (designs.forced_response(0.75, [1, 1]), ("no", "yes"), "no yes yes"),
        (designs.warner(0.7, answers=["nej", "ja"]), ("nej", "ja"), "nej ja ja"),
        (designs.crosswise(0.3), ("no", "yes"), "different same same"),
        (designs.forced_response(0.75, [1, 1, 1], answers=[*"xyz"]), ("x", "y", "z"), "y y"),
        (designs.forced_response(0.75, [1, 1, 1]), ("0", "1", "2"), "0 2"),
        (designs.direct(answers=["", "yes"]), ("no", "yes"), "yes yes"),
        (designs.stochastic_lie_detector(0.2), ("0", "1", "2"), "no yes"),
    ],
)
def test_a_survey_design_has_words_for_its_categories(tmp_path, protocol, words, reports):
    (tmp_path / "x.csv").write_text("\n".join(["report", *reports.split()]) + "\n")
    tally = read(tmp_path / "x.csv", protocol)
    assert as_collection(tally).categories == words
    assert scan(tmp_path / "x.csv", protocol)["all",].categories == words
    found = sorted(protocol.answers[report] for report in np.repeat(tally.reports, tally.counts))
    assert found == sorted(reports.split())


def test_words_of_a_design_at_the_command_line(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("report\n" + "yes\nno\nno\n" * 30)
    _, out, _ = run(capsys, "fit", tmp_path / "x.csv", "--protocol", "warner", "-p", "p=0.7", "--draws", 0)
    assert "category yes" in out
    (tmp_path / "y.csv").write_text("report\nplum\n")
    status, _, problem = run(capsys, "fit", tmp_path / "y.csv", "--protocol", "grr", "-p", "epsilon=1", "--n-categories", 3)
    assert status == 2 and "categories (--categories)" in problem


@pytest.mark.parametrize(
    "column, keys",
    [
        ([10, 2, 10, -1], [-1, 2, 10]),
        (["007", "7", "07", "7"], ["007", "07", "7"]),
        ([1, 2, 10**19, 1], ["1", "2", str(10**19)]),
        (["1", "two", "1", "2"], ["1", "2", "two"]),
        ([1.5, 2.0, 2.0, 1.5], ["1.5", "2.0"]),
    ],
)
def test_keys_of_a_csv_file_are_those_of_files_with_types(tmp_path, column, keys):
    frame = pandas.DataFrame({"report": [0, 1, 1, 0], "g": column})
    frame.to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "x.toml").write_text(
        'categories = ["no", "yes"]\nby = "g"\n[[channels]]\nfile = "x.csv"\nprotocol = "warner"\nparameters = {p = 0.7}\n'
    )
    cells = read(tmp_path / "x.csv", designs.warner(0.7), by="g")
    assert sorted(cells, key=str) == sorted(((key,) for key in keys), key=str)
    assert cells == read(tmp_path / "x.toml")
    scanned = scan(tmp_path / "x.csv", designs.warner(0.7), by="g")
    assert list(scanned) == list(cells)
    if isinstance(keys[0], int):
        assert cells + read(frame, designs.warner(0.7), by="g") == cells + cells


def test_a_second_pass_finds_the_cells_of_a_csv_file(tmp_path):
    bits_of = lb.protocols.UnaryEncoding.optimized(20, 1.0)
    reports = bits_of.privatize(np.arange(400) % 20, np.random.default_rng(1))
    (texts,) = bits_of.format_reports(reports, list(map(str, range(20))))
    pandas.DataFrame({"report": texts, "g": np.arange(400) % 3}).to_csv(tmp_path / "x.csv", index=False)
    write(reports, tmp_path / "x.parquet", bits_of, g=np.arange(400) % 3)
    csv, parquet = Scan(tmp_path / "x.csv", bits_of, by="g"), Scan(tmp_path / "x.parquet", bits_of, by="g")
    first, again = csv(), parquet()
    assert list(first) == list(again) == [(0,), (1,), (2,)]
    moved = csv.again({key: again[key].pilot for key in again})
    assert all(np.allclose(moved[key].gradient, again[key].gradient) for key in again)


def test_a_cell_that_nobody_is_in_is_named(tmp_path):
    (tmp_path / "x.csv").write_text("report,n,g\nno,3,north\nyes,4,north\nno,0,south\n")
    found = sentence(read, tmp_path / "x.csv", designs.warner(0.7), by="g", count="n")
    assert "cell south" in found


@each_row("count", ["1.000", "12.000", " 2.000", "1.234", "+1.000"])
def test_a_count_whose_point_may_stand_before_thousands_is_refused(count, tmp_path, capsys):
    """The kind: a text of which it is unknown what count it writes. CSV, folders, populations, and the command line."""
    warner = designs.warner(0.7)
    table = tmp_path / "t.csv"
    table.write_text(f"r,n,x\nno,{count},0\nyes,7,1\n")
    device = ["--protocol", "warner", "-p", "p=0.7", "--report", "r", "--count", "n"]
    with pytest.raises(DataError, match=r"count must.*may"):
        read(table, warner, report="r", count="n")
    for command in (["fit", table], ["check", table], ["regress", table, "r ~ x", "--method", "mle"]):
        status, _, said = run(capsys, *command, *device)
        assert status == 2 and "may be" in said and "line 2" in said
    (tmp_path / "p.csv").write_text(f"value,count\na,{count}\nb,7\n")
    with pytest.raises(DataError, match="may be"):
        population(tmp_path / "p.csv")
    for command in (
        ["plan", "--n-categories", "3", "--epsilon", "1", "--users", count],
        ["simulate", "--truth", "zipf", "--users", count, "--protocol", "grr", "-p", "epsilon=1"],
        ["fit", table, *device, "--set", f"population_size={count}"],
        ["fit", table, *device, "--set", f"population_size.north={count}"],
    ):
        status, _, said = run(capsys, *command)
        assert status == 2 and "may be" in said, (command, said)
    for other in ("60.0", "60.", "60.00", "60.0000", " 60 "):
        table.write_text(f"r,n,x\nno,{other},0\nyes,7,1\n")
        assert read(table, warner, report="r", count="n").counts.tolist() == [60, 7]
    table.write_text("r,n,x\nno,0.000,0\nyes,7,1\n")
    assert read(table, warner, report="r", count="n").n_reports == 7
    # Numbers and texts of other formats are what their type says.
    pyarrow.parquet.write_table(pyarrow.table({"r": ["no"], "n": [count]}), tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text(json.dumps({"r": "no", "n": count}))
    for name in ("t.parquet", "t.jsonl"):
        with pytest.raises(DataError, match=r"counts must.*column"):
            read(tmp_path / name, warner, report="r", count="n")
    (tmp_path / "t.jsonl").write_text('{"r": "no", "n": 2.000}')
    assert read(tmp_path / "t.jsonl", warner, report="r", count="n").n_reports == 2


def test_one_number_of_the_command_line_has_no_comma(tmp_path, capsys):
    """The kind: of "500,000" the number before the comma was taken. Population sizes, δ and γ are one number each."""
    (tmp_path / "t.csv").write_text("report,count,s\nno,40,a\nyes,30,b\n")
    fit = ["fit", tmp_path / "t.csv", "--protocol", "warner", "-p", "p=0.7", "--count", "count", "--draws", 0]
    plan = ["plan", "--protocol", "crosswise", "-p", "p=0.25", "--users", 800]
    deniers = ["--set", "deniers.of=yes", "--set", "deniers.say=no"]
    for command in (
        [*fit, "--set", "population_size=500,000"],
        [*fit, "--set", "population_size=80,"],
        [*fit, "--set", "strata=s", "--set", "population_size.a=500,000", "--set", "population_size.b=500"],
        [*plan, *deniers, "--deniers-share", "0,5"],
        [*plan, "--set", "noncompliance.no-sayer=different", "--noncompliance-share", "0,1"],
    ):
        status, _, said = run(capsys, *command)
        assert status == 2 and "nothing before" in said, (command, said)
    assert run(capsys, *fit, "--set", "population_size=500000")[0] == 0


def test_numbers_of_people_are_no_texts(tmp_path):
    """Nor in populations, by stratum, of files, and in tables of a census: "1.000" was one person there."""
    frame = pandas.DataFrame({"report": [0, 1] * 2000, "s": ["a"] * 4000, "x": [0, 0, 1, 1] * 1000})
    warner = designs.warner(0.7)
    for population_size in ("5000.000", {"a": "5000.000"}):
        with pytest.raises(ArgumentError, match="positive number"):
            lb.fit(read(frame, warner, report="report", strata="s", population_size=population_size), draws=0)
    fitted = lb.regress(frame, "y ~ x", warner, report="report", draws=50, random_seed=1)
    for people in (["1.000", "300"], ["1000", "300"]):
        with pytest.raises(DataError, match=r"numbers.*people"):
            lb.poststratify(fitted, pandas.DataFrame({"x": [0, 1], "people": people}), count="people")
        with pytest.raises(DataError, match=r"numbers.*people"):
            lb.poststratify(fitted, [pandas.DataFrame({"x": [0, 1], "people": people})], count="people")
