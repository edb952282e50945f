"""Collection files: the round trip, and one clear sentence with file, line and field for everything malformed."""

import math
import re

import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tabulated import each_row

from ldpbayes import checks, read, sources
from ldpbayes.collections import Collection, Derived, Tally
from ldpbayes.errors import ArgumentError, DataError, RankDeficientWarning
from ldpbayes.protocols import GRR, Channel, designs, kronecker
from ldpbayes.sources import read_collection, write_collection

TOML = """\
id = "small"
title = "A small survey"
categories = ["no", "yes"]

[[channels]]
name = "all"
protocol = "warner"
file = "small.csv"
report = "answer"
count = "count"
n = 100

[channels.parameters]
p = 0.7
"""
CSV = "answer,count\nno,60\nyes,40\n"


@pytest.fixture
def survey(tmp_path):
    """Write a survey, with changes, and return the path of its collection file."""

    def write(toml=TOML, csv=CSV, change=None):
        if change is not None:
            assert change[0] in toml
            toml = toml.replace(*change)
        (tmp_path / "small.toml").write_bytes(toml if isinstance(toml, bytes) else toml.encode())
        (tmp_path / "small.csv").unlink(missing_ok=True)
        if csv is not None:
            (tmp_path / "small.csv").write_bytes(csv if isinstance(csv, bytes) else csv.encode())
        return tmp_path / "small.toml"

    return write


def sentence(path):
    """Return the sentence of the DataError that reading raises; it names the file and no stack of causes."""
    with pytest.raises(DataError) as caught:
        read_collection(path)
    text = str(caught.value)
    assert str(path.parent) in text and "\n" not in text
    return text


# ---- what is read -------------------------------------------------------------------------------------------------


def test_reads_what_the_file_says(survey):
    collection = read_collection(survey())
    assert (collection.id, collection.title, collection.categories) == ("small", "A small survey", ("no", "yes"))
    (tally,) = collection.tallies
    assert tally.protocol == designs.warner(0.7) and tally.counts.tolist() == [60, 40]


def test_one_report_per_row_without_a_count_column(survey):
    rows = "person,answer\n" + "1,no\n2,yes\n3,no\n"
    toml = TOML.replace('count = "count"\n', "").replace("n = 100", "n = 3")
    assert read_collection(survey(toml, rows)).tallies[0].counts.tolist() == [2, 1]


@each_row(
    "csv",
    [
        b"\xef\xbb\xbf" + CSV.encode(),
        CSV.replace("\n", "\r\n"),
        CSV.replace("\n", "\r"),
        CSV.rstrip("\n"),
        "answer , count\n no , 60\n\nyes,  40\n\n",
        '"answer","count"\n"no","60"\n"yes","40"\n',
        "count,answer,remark\n60,no,\n40,yes,ü\n",
        "answer,count\nno,30\nyes,40\nno,30\nyes,0\n",
    ],
)
def test_harmless_forms_of_a_table(survey, csv):
    assert read_collection(survey(csv=csv)) == read_collection(survey())


def test_harmless_forms_of_a_description(survey):
    plain = read_collection(survey())
    assert read_collection(survey(toml=b"\xef\xbb\xbf" + TOML.encode())) == plain
    assert read_collection(survey(toml=TOML.replace("\n", "\r\n"))) == plain
    assert read_collection(survey(change=("p = 0.7", 'p = "7/10"'))) == plain


def test_where_selects_the_rows_of_a_channel(survey):
    toml = TOML.replace('count = "count"', 'count = "count"\nwhere = { group = 2 }')
    csv = "group,answer,count\n1,no,7\n2,no,60\n2,yes,40\n1,perhaps,3\n"
    assert read_collection(survey(toml, csv)).tallies[0].counts.tolist() == [60, 40]


def test_tables_longer_than_a_chunk(survey, monkeypatch):
    monkeypatch.setattr(sources.csv, "BLOCK", 40)
    rows = ["yes" if i % 3 else "no" for i in range(100)]
    toml = TOML.replace('count = "count"\n', "")
    assert read_collection(survey(toml, "answer\n" + "\n".join(rows))).tallies[0].counts.tolist() == [34, 66]
    rows[58] = "maybe"
    assert "report 'maybe'" in sentence(survey(toml, "answer\n" + "\n".join(rows)))


def test_rank_deficiency_is_a_warning(survey):
    toml = TOML.replace('["no", "yes"]', '["honest", "lying", "others"]').replace('"warner"', '"stochastic_lie_detector"')
    with pytest.warns(RankDeficientWarning, match=r"honest,.*lying,.*others.*apart"):
        assert read_collection(survey(toml)).n_reports == 100


# ---- malformed tables ---------------------------------------------------------------------------------------------


@each_row(
    "csv, problem",
    [
        (
            "answer,count\nno,60\nmaybe,40\n",
            "small.csv, line 3, field 'answer': unknown report 'maybe'; it must be one of no, yes",
        ),
        ("answer,count\nno,60\nyes\n", "small.csv, line 3: has 1 cells, the header 2"),
        ("answer,count\nno,60,1\nyes,40\n", "small.csv, line 2: has 3 cells, the header 2"),
        ("answer,count\nno,60\nyes,4.5\n", "small.csv, line 3, field 'count': count must be a whole number, got '4.5'"),
        ("answer,count\nno,60\nyes,\n", "small.csv, line 3, field 'count': count must be a whole number, got ''"),
        ("answer,count\nno,60\nyes,-1\n", "small.csv, line 3, field 'count': count must be from 0 to 10**12, got -1"),
        ("answer,count\nno,60\nyes,4_0\n", "count must be a whole number, got '4_0'"),
        ("answer,count\nno,60\nyes,9e9\n", "count must be a whole number, got '9e9'"),
        (f"answer,count\nno,60\nyes,{2**60}\n", "line 3, field 'count': count must be from 0 to 10**12"),
        (f"answer,count\nno,{10**12}\nyes,{10**12}\n", "small.csv: channel 'all' has more than 10**12 reports"),
        ("answer,n\nno,60\n", "small.csv, line 1: has no column 'count'; it has answer, n"),
        ("answer,count,count\nno,60,60\n", "small.csv, line 1: has two columns 'count'"),
        ("", "small.csv, line 1: is empty, and must name the columns"),
        ("answer,count\n", "small.csv: has no rows for channel 'all'"),
        ("answer,count\nno,0\nyes,0\n", "small.csv: channel 'all' has no reports"),
        ('answer,count\nno,60\n"yes,40\n', "small.csv, line 3: is not a valid CSV file: unexpected end of data"),
        (b"answer,count\nno,60\ny\xe9s,40\n", "small.csv: is not UTF-8 text"),
        (None, "small.csv: cannot be read (No such file or directory)"),
        ("answer,count\nno,61\nyes,40\n", "small.toml, field 'channels.all': counts add up to 101, but n says 100"),
    ],
)
def test_malformed_tables(survey, csv, problem):
    assert problem in sentence(survey(csv=csv))


def test_lines_count_as_an_editor_does(survey):
    csv = 'answer,count,remark\nno,60,"two\nlines"\n\nyes,x,\n'
    assert "5, field 'count'" in sentence(survey(csv=csv))


def test_where_without_a_match_says_what_it_looked_for(survey):
    toml = TOML.replace('count = "count"', 'count = "count"\nwhere = { answer = "never" }')
    assert "answer = 'never'" in sentence(survey(toml))


# ---- malformed descriptions ---------------------------------------------------------------------------------------


@each_row(
    "change, problem",
    [
        (("p = 0.7", "p = "), "small.toml: is not valid TOML: Invalid value (at line 14, column 5)"),
        (('id = "small"', 'id = "small"\nid = "again"'), "is not valid TOML: Cannot overwrite a value (at line 2"),
        (("title", "titel"), "unknown key 'titel'; known are by, categories, channels, citation"),
        (('report = "answer"', 'raport = "answer"'), "field 'channels.all': unknown key 'raport'"),
        (('"A small survey"', "3"), "field 'title': title must be text, got 3"),
        (('["no", "yes"]', '"no, yes"'), "field 'categories': must be a list of labels"),
        (('["no", "yes"]', "[0, 1]"), "field 'categories': must be a list of labels"),
        (('["no", "yes"]', '["no"]'), "field 'categories': must be at least two labels, got 1"),
        (('["no", "yes"]', '["no", "no"]'), "categories must be distinct"),
        (('categories = ["no", "yes"]\n', ""), "field 'categories': must be a list of labels"),
        (("[[channels]]", "[channels]"), "field 'channels': needs at least one [[channels]] table"),
        (('name = "all"', "name = 1"), "field 'channels': name must be text, got 1"),
        (('protocol = "warner"\n', ""), "field 'channels.all': needs 'protocol'"),
        (('file = "small.csv"\n', ""), "field 'channels.all': needs 'file'"),
        (('"warner"', '"warned"'), "field 'channels.all': protocol must be one of "),
        (('report = "answer"', 'report = ["answer", "count"]'), "report must name 1 column (report)"),
        (('report = "answer"', "report = 1"), "report must name 1 column (report)"),
        (('report = "answer"', "report = [1]"), "report must name 1 column (report)"),
        (('report = "answer"', 'report = "reply"'), "has no column 'reply'; it has answer, count"),
        (('count = "count"', 'count = ["count"]'), "count must be text, got ['count']"),
        (("n = 100", "n = 100.5"), "field 'channels.all': n must be a whole number, got 100.5"),
        (("n = 100", "n = true"), "field 'channels.all': n must be a whole number, got True"),
        (("n = 100", "n = 99"), "field 'channels.all': counts add up to 100, but n says 99"),
        (("n = 100", 'where = "answer"'), "field 'channels.all': where must be a table"),
        (
            ("[channels.parameters]\np = 0.7", "parameters = 0.7"),
            "field 'channels.all': parameters must be a table, got 0.7",
        ),
        (("p = 0.7", ""), "field 'channels.all': warner needs the parameter 'p'"),
        (("p = 0.7", "p = 0.7\nq = 1"), "field 'channels.all': warner has no parameter 'q'; it takes p"),
        (("p = 0.7", "p = 1.7"), "field 'channels.all': p must be a probability in [0, 1], got 1.7"),
        (("p = 0.7", "p = nan"), "field 'channels.all': p must be a probability in [0, 1], got nan"),
        (("p = 0.7", 'p = "1/0"'), "field 'channels.all': p must be a probability in [0, 1], got '1/0'"),
        (("p = 0.7", "p = 0.5"), "field 'channels.all': p must be different from 0.5"),
        (("p = 0.7", "p = 0.7\n[derived]\nx = 1"), "field 'derived.x': must have of = [categories]"),
        (("p = 0.7", 'p = 0.7\n[derived.x]\nof = "yes"'), "field 'derived.x': must have of = [categories]"),
        (("p = 0.7", 'p = 0.7\n[derived.x]\nof = ["maybe"]'), "'x' names the unknown category 'maybe'"),
        (("title", 'derived = "x"\ntitle'), "field 'derived': derived must be a table, got 'x'"),
        (("title", "published = 3\ntitle"), "field 'published': published must be a list, got 3"),
        (("title", "published = [3]\ntitle"), "field 'published': must be [[published]] tables"),
    ],
)
def test_malformed_descriptions(survey, change, problem):
    text = sentence(survey(change=change))
    assert problem in text and ("small.toml" in text or "small.csv" in text)


@each_row("epsilon", ["0", "-1", "-0.5", "nan", "inf", "800", '"one"', "true"])
def test_impossible_epsilon(survey, epsilon):
    text = sentence(survey(TOML.replace('"warner"', '"grr"').replace("p = 0.7", f"epsilon = {epsilon}")))
    assert "epsilon must" in text


@each_row(
    "matrix, problem",
    [
        ("[[0.7, 0.3], [0.2, 0.7]]", "matrix must have columns that sum to 1, got 0.9 in column 0"),
        ("[[0.7, 1.3], [0.3, -0.3]]", "matrix must hold probabilities: finite and not negative"),
        ("[[0.7, nan], [0.3, 0.7]]", "matrix must hold probabilities: finite and not negative"),
        ("[[0.7, 0.3], [0.3]]", "matrix must be rectangular and numeric"),
        ('[["a", "b"], ["c", "d"]]', "matrix must be rectangular and numeric"),
        ("[[0.7, 0.2, 0.1], [0.3, 0.8, 0.9]]", "matrix must have one column per category (2), got 3"),
        ('[[0.7, 0.3], [0.3, 0.7]]\nanswers = ["no"]', "answers must be 2 distinct labels"),
    ],
)
def test_impossible_channel(survey, matrix, problem):
    text = sentence(survey(TOML.replace('"warner"', '"channel"').replace("p = 0.7", f"matrix = {matrix}")))
    assert f"small.toml, field 'channels.all': {problem}" in text


def test_two_channels_of_one_name(survey):
    channel = TOML[TOML.index("[[channels]]") :]
    assert "got all, all" in sentence(survey(TOML + channel))


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read (No such file or directory)"), (b"id = '\xe9'", "is not UTF-8 text (byte 6)")],
)
def test_unreadable_description(tmp_path, content, problem):
    path = tmp_path / "other.toml"
    if content is not None:
        path.write_bytes(content)
    assert sentence(path) == f"{path}: {problem}"


def test_a_folder_is_not_a_collection(tmp_path):
    assert "a directory)" in sentence(tmp_path)


# ---- round trip ---------------------------------------------------------------------------------------------------

LABELS = ("no", " yes, certainly ", 'so "so"\n', "ünklar")
COLLECTIONS = {
    "grr": Collection(LABELS, Tally(GRR(4, epsilon=1 / 3), [0, 1, 3], [5, 0, 2])),
    "matrix": Collection(("a", "b"), Tally(Channel([[1 / 3, 0.1], [2 / 3, 0.9]], ("lo", "hi")), [0, 1], [3, 4])),
    "two channels": Collection(
        LABELS,
        [Tally(GRR(4, epsilon=1.0), [0, 1], name=" a"), Tally(designs.forced_response(0.5, [1, 2, 0, 1]), [2], name="b")],
        id="mixed",
        title="Mixed\ttitle",
        notes='First line.\nSecond "line" with \\ and """.',
        citation="One\r\ntwo",
        derived=(Derived("top", LABELS[:2]), Derived("share", LABELS[:1], LABELS[:2])),
        published=({"what": "x", "quantity": "no", "estimate": 1 / 3, "ci": [0.25, 0.5]}, {"what": "y"}),
    ),
    "joint": Collection(
        tuple(f"{x}/{y}" for x in "nj" for y in "nj"),
        Tally(kronecker([designs.unrelated_question(0.5, 1 / 12), designs.crosswise(0.2, ["-", "+"])], "/"), [0, 2, 3]),
    ),
    "lie detector": Collection(
        "abc", [Tally(designs.stochastic_lie_detector(p), [0, 1], name=f"p{p:.1f}") for p in (1 / 6, 5 / 6)]
    ),
}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_writing_and_reading_gives_the_same_collection_and_the_same_bytes(tmp_path, name):
    first, again = tmp_path / "first.toml", tmp_path / "again" / "first.toml"
    again.parent.mkdir()
    write_collection(COLLECTIONS[name], first)
    collection = read_collection(first)
    assert collection == COLLECTIONS[name]
    write_collection(collection, again)
    for suffix in (".toml", ".csv"):
        assert again.with_suffix(suffix).read_bytes() == first.with_suffix(suffix).read_bytes()


def test_every_probability_survives_the_text_form(tmp_path):
    rng = np.random.default_rng(5)
    for p in [1 / 3, 2 / 3, 1 / 12, 0.1, 1 / 7, math.pi / 4, *rng.random(20)]:
        collection = Collection(("no", "yes"), Tally(designs.warner(p), [0, 1]))
        write_collection(collection, tmp_path / "p.toml")
        assert read_collection(tmp_path / "p.toml").tallies[0].protocol.matrix.tolist() == designs.warner(p).matrix.tolist()


labels = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0/."), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(labels, min_size=2, max_size=4, unique=True), st.lists(names, min_size=2, max_size=2, unique=True), labels)
@example(["0", "\r"], ["0", "1"], "0")  # early releases of Python 3.12 write a carriage return without quotes
def test_any_label_survives_the_round_trip(tmp_path, categories, names, note):
    assume(checks.distinct(categories))
    a = len(categories)
    tallies = [Tally(GRR(a, epsilon=1.0), range(a), range(1, a + 1), name) for name in names if name.strip()]
    assume(len({tally.name.strip() for tally in tallies}) == 2)
    collection = Collection(categories, tallies, title=note, published=({"what": note},))
    write_collection(collection, tmp_path / "any.toml")
    assert read_collection(tmp_path / "any.toml") == collection


@pytest.mark.parametrize("categories", [["no", "no "], ["\r", "\f"], ["é", "e\u0301"]])
def test_labels_that_files_take_for_one_are_refused_before_they_are_written(categories):
    with pytest.raises(DataError, match="blanks around them"):
        Collection(categories, [Tally(GRR(2, epsilon=1.0), [0, 1], [3, 4])])


def test_answers_that_look_like_fractions_stay_labels(tmp_path):
    halves = designs.warner(1 / 3, answers=["1/2", "3/4"])
    joint = kronecker([halves, halves], separator="/")
    for n, protocol in enumerate([halves, Channel([[0.3, 0.6], [0.7, 0.4]], ("1/3", "2/3")), joint]):
        collection = Collection([f"{i}/7" for i in range(protocol.n_categories)], Tally(protocol, [0, 1]))
        write_collection(collection, tmp_path / f"{n}.toml")
        assert read_collection(tmp_path / f"{n}.toml") == collection


def test_writing_under_another_suffix(tmp_path):
    with pytest.raises(ArgumentError, match=r"path must.*\.toml.*x\.csv"):
        write_collection(COLLECTIONS["grr"], tmp_path / "x.csv")


def test_writing_where_there_is_no_folder(tmp_path):
    with pytest.raises(DataError, match=r"nowhere.*cannot.*No such"):
        write_collection(COLLECTIONS["grr"], tmp_path / "nowhere" / "x.toml")
    assert list(tmp_path.iterdir()) == []


# ---- data frames --------------------------------------------------------------------------------------------------

ANSWERS = ["yes", "no", "yes", "no", "no"]


def as_pandas(columns):
    return pandas.DataFrame(columns)


def as_pandas_categorical(columns):
    return pandas.DataFrame({k: pandas.Categorical(v) if isinstance(v[0], str) else v for k, v in columns.items()})


def as_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def as_polars_lazy(columns):
    return pytest.importorskip("polars").LazyFrame(columns)


FRAMES = [as_pandas, as_pandas_categorical, pyarrow.table, as_polars, as_polars_lazy]


@pytest.mark.parametrize("make", FRAMES)
def test_frames_of_labels(make):
    warner = designs.warner(0.7)
    expected = Tally(warner, [0, 1], [3, 2], "x")
    assert read(make({"answer": ANSWERS, "age": [1, 2, 3, 4, 5]}), warner, report="answer", name="x") == expected
    counted = make({"report": [*ANSWERS, "yes"], "times": [1, 1, 1, 2, 0, 0]})
    assert read(counted, warner, count="times", name="x") == expected


@pytest.mark.parametrize("make", FRAMES)
def test_frames_of_category_labels_and_of_numbers(make):
    grr = GRR(3, epsilon=1.0)
    expected = Tally(grr, [0, 1, 2], [1, 1, 3])
    assert read(make({"report": ["c", "a", "c", "b", "c"]}), grr, categories=["a", "b", "c"]) == expected
    assert read(make({"report": [2, 0, 2, 1, 2]}), grr) == expected
    assert read(make({"report": [30, 10, 30, 20, 30]}), grr, categories=["10", "20", "30"]) == expected


@each_row("make", FRAMES)
@each_row(
    "columns, settings, problem",
    [
        ({"reply": ANSWERS}, {}, "the frame has no column 'report'; it has reply"),
        ({"report": ANSWERS}, {"count": "n"}, "the frame has no column 'n'; it has report"),
        ({"report": ["yes", "maybe"]}, {}, "field 'report': unknown report 'maybe'; it must be one of no, yes"),
        ({"report": [0, 2]}, {}, "report 2 is outside 0..1"),
        ({"report": [0, -1]}, {}, "report -1 is outside 0..1"),
        ({"report": ["yes", None]}, {}, "field 'report': holds missing values"),
        ({"report": ANSWERS, "n": [1, 1, 1, 1, -1]}, {"count": "n"}, "field 'n': count must be from 0 to 10**12, got -1"),
        ({"report": ANSWERS, "n": [1, None, 1, 1, 1]}, {"count": "n"}, "field 'n': "),
        ({"report": ANSWERS, "n": [1.0, 1.5, 1, 1, 1]}, {"count": "n"}, "field 'n': count must be a whole number, got 1.5"),
        ({"report": ANSWERS, "n": [0, 0, 0, 0, 0]}, {"count": "n"}, "channel 'all' has no reports"),
    ],
)
def test_malformed_frames(make, columns, settings, problem):
    with pytest.raises(DataError) as caught:
        read(make(columns), designs.warner(0.7), **settings)
    assert problem in re.sub(r"row \d+: ", "", str(caught.value))  # frames whose rows have an order name the row


@each_row("make", FRAMES)
def test_frames_without_rows(make):
    frame = make({"report": ANSWERS, "n": [1] * 5})
    with pytest.raises(DataError, match="no rows"):
        read(frame.head(0) if hasattr(frame, "head") else frame.slice(0, 0), designs.warner(0.7), count="n")


def test_frames_that_are_none():
    with pytest.raises(ArgumentError, match=r"data must.*narwhals.*list"):
        read([0, 1], designs.warner(0.7))
    with pytest.raises(ArgumentError, match=r"report must.*2"):
        read(pandas.DataFrame({"a": [1], "b": [2]}), designs.warner(0.7), report=["a", "b"])
