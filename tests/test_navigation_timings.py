"""Navigation timings: lines and tables are read alike, faults name their line, and what is left out is counted."""

import gzip
import json
import math
import pathlib
import tempfile

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import GRR
from ldpbayes.sources import navigation_timings
from ldpbayes.sources.navigation_timings import epsilon_of, read_navigation_timings

RATE = 0.4994798


def entry(duration=812.5, value="high", rate=RATE, **more):
    return {
        "entryType": "navigation",
        "duration": duration,
        "confidence": {"value": value, "randomizedTriggerRate": rate},
        **more,
    }


GOOD = [entry(), entry(2301, "low"), entry(640.25)]


def written(tmp_path, lines, name="timings.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def same(one, other):
    assert list(one) == list(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    assert one.sentences() == other.sentences()


def sentence(call, *arguments, kind=DataError, **settings):
    with pytest.raises(kind) as caught:
        call(*arguments, **settings)
    return str(caught.value)


# ---- the channel -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.1, 3.0])
def test_the_rate_is_that_of_randomised_response(epsilon):
    """With probability r a fair coin replaces the value: the channel of GRR over two categories at log((1 − r/2)/(r/2))."""
    rate = 2 / (1 + math.exp(epsilon))
    coin = (1 - rate) * np.eye(2) + rate * np.full((2, 2), 0.5)
    assert epsilon_of(rate) == pytest.approx(epsilon, abs=1e-12)
    if epsilon:
        rows = GRR(2, epsilon).rows(np.arange(2), np.ones(2))
        np.testing.assert_allclose(np.exp(rows.log_constants)[:, None] * rows.dense(), coin, atol=1e-12)


def test_the_rate_of_browsers_is_an_epsilon_of_about_one_point_one():
    assert epsilon_of(0.4995) == pytest.approx(1.1, abs=1e-4)
    assert epsilon_of(RATE) == pytest.approx(1.1, abs=1e-6)
    assert epsilon_of(0.0) == math.inf and epsilon_of(1.0) == 0.0


# ---- shapes of the file ----------------------------------------------------------------------------------------------
FLAT = [
    {"duration": e["duration"], "confidence_value": e["confidence"]["value"], "randomizedTriggerRate": RATE} for e in GOOD
]
DOTTED = [
    {"duration": e["duration"], "confidence.value": e["confidence"]["value"], "confidence.randomizedTriggerRate": RATE}
    for e in GOOD
]
PLAIN = [{"duration": e["duration"], "confidence": e["confidence"]["value"], "randomizedTriggerRate": RATE} for e in GOOD]


@pytest.mark.parametrize(
    "lines", [GOOD, FLAT, DOTTED, PLAIN, [GOOD[0], *FLAT[1:]], [PLAIN[0], *GOOD[1:]], [GOOD], [GOOD[:1], GOOD[1:]]]
)
def test_every_shape_of_line_says_the_same(tmp_path, lines):
    path = written(tmp_path, lines)
    expected = read_navigation_timings(written(tmp_path, GOOD, "good.jsonl"))
    assert expected["duration"].tolist() == [812.5, 2301.0, 640.25]
    assert expected["confidence"].tolist() == ["high", "low", "high"]
    assert expected["rate"].tolist() == [RATE] * 3
    same(read_navigation_timings(path), expected)


@pytest.mark.parametrize("lines", [GOOD, FLAT, DOTTED, PLAIN])
@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.Table.from_pylist])
def test_frames_and_parquet_say_the_same(tmp_path, lines, make):
    expected = read_navigation_timings(written(tmp_path, GOOD))
    same(read_navigation_timings(make(lines)), expected)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(lines), tmp_path / "timings.parquet")
    same(read_navigation_timings(str(tmp_path / "*.parquet")), expected)


def test_other_columns_weights_and_times(tmp_path):
    lines = [
        entry(country="SE", weight=1, cached=True, timing={"loadEventEnd": 5}),
        entry(1, "low", country="NO", weight=2.5, cached=False, timing={"loadEventEnd": 6}),
    ]
    path = written(tmp_path, lines)
    for source in (path, pyarrow.Table.from_pylist(lines)):
        found = read_navigation_timings(source, columns=["country", "weight", "cached"])
        assert list(found) == ["duration", "confidence", "rate", "country", "weight", "cached"]
        assert found["country"].tolist() == ["SE", "NO"] and found["weight"].tolist() == [1.0, 2.5]
        assert found["cached"].tolist() == [True, False]
        assert found.frame().column_names == list(found) and found.frame().num_rows == 2
    assert read_navigation_timings(path, value="timing.loadEventEnd")["timing.loadEventEnd"].tolist() == [5.0, 6.0]
    frame = pyarrow.Table.from_pylist(lines)
    assert read_navigation_timings(frame, value="timing.loadEventEnd")["timing.loadEventEnd"].tolist() == [5.0, 6.0]


def test_compressed_marked_and_blank_lines(tmp_path):
    text = "\ufeff" + "\r\n\r\n".join(map(json.dumps, GOOD)) + "\r\n"
    (tmp_path / "a.jsonl").write_bytes(text.encode())
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.jsonl", "a.jsonl.gz"):
        assert read_navigation_timings(tmp_path / name).n_records == 3
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text.encode())[:-12])
    assert "cannot be read" in sentence(read_navigation_timings, tmp_path / "b.jsonl.gz")


def test_blocks_join_lines_and_keep_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(navigation_timings, "_BLOCK", 100)
    lines = GOOD * 20
    path = written(tmp_path, lines)
    assert read_navigation_timings(path).n_records == 60
    path = written(tmp_path, [*lines, entry(rate=1.5)])
    assert "line 61," in sentence(read_navigation_timings, path)
    monkeypatch.setattr(navigation_timings, "MAX_LINE", 300)
    assert "has a line of more than 300 bytes" in sentence(read_navigation_timings, written(tmp_path, ['"' + "x" * 900]))


# ---- what is left out ------------------------------------------------------------------------------------------------
def test_what_is_left_out_is_counted(tmp_path):
    lines = [
        *GOOD,
        {"duration": 10},
        {"duration": 10, "confidence": None},
        {"duration": 10, "confidence": {}},
        entry(0),
        {"confidence": {"value": "high", "randomizedTriggerRate": RATE}},
        {"entryType": "resource", "duration": 3},
    ]
    path = written(tmp_path, lines)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(lines), tmp_path / "timings.parquet")
    for found in map(read_navigation_timings, (path, tmp_path / "timings.parquet")):
        assert (found.n_entries, found.n_missing, found.n_empty, found.n_unfinished, found.n_other) == (8, 2, 1, 2, 1)
        assert found.sentences()[:3] == [
            "3 of 8 navigation entries were used.",
            "2 entries have no confidence and were left out.",
            "1 entry has an empty confidence and was left out.",
        ]
    assert read_navigation_timings(path, keep_unfinished=True).n_records == 4


def test_rates_by_record(tmp_path):
    found = read_navigation_timings(written(tmp_path, [entry(rate=0), entry(rate=0.5), entry(rate=RATE)]))
    assert found.epsilons()[0.0] == (math.inf, 1) and found.epsilons()[0.5] == (math.log(3), 1)
    assert found.sentences()[-1] == "The confidence was randomized at 3 rates from 0 to 0.5."
    lines = [{"duration": 3, "confidence": {"value": "low"}}]
    assert read_navigation_timings(written(tmp_path, lines), rate=0.25)["rate"].tolist() == [0.25]


def test_coin_tosses_are_left_out_and_counted(tmp_path):
    path = written(tmp_path, [*GOOD, entry(rate=1), entry(rate=1)])
    for found in (read_navigation_timings(path), read_navigation_timings(pyarrow.Table.from_pylist([*GOOD, entry(rate=1)]))):
        assert found.n_records == 3 and found.n_tossed in (1, 2)
    assert "2 entries have a confidence that is a coin toss (rate 1) and were left out." in (
        read_navigation_timings(path).sentences()
    )
    assert "every confidence is a coin toss" in sentence(read_navigation_timings, written(tmp_path, [entry(rate=1)]))


# ---- faults ----------------------------------------------------------------------------------------------------------
FAULTS = {
    "rate above one": (entry(rate=1.5), "must be from 0 to 1, got 1.5"),
    "rate below zero": (entry(rate=-0.1), "must be from 0 to 1, got -0.1"),
    "rate a text": (entry(rate="half"), "must be from 0 to 1, got 'half'"),
    "rate missing": ({"duration": 3, "confidence": {"value": "low"}}, "is missing though there is a value"),
    "unknown value": (entry(value="medium"), 'must be "high" or "low", got \'medium\''),
    "value a number": (entry(value=1), 'must be "high" or "low", got 1'),
    "confidence a number": ({"duration": 3, "confidence": 1}, "must be an object with value"),
    "time negative": (entry(-3), "must be finite and not negative, got -3.0"),
    "time a text": (entry("3 s"), "must be a number of milliseconds, got '3 s'"),
    "time too large": ('{"duration": 1e999}', "must be finite and not negative, got inf"),
    "two values": (entry(confidence_value="low"), "is stated twice and differs: 'high', 'low'"),
    "two rates": (entry(randomizedTriggerRate=0.25), "is stated twice and differs: 0.4994798, 0.25"),
    "half a line": ('{"duration": 812.5, "confidence": {"va', "is not valid JSON"),
    "two entries": (json.dumps(GOOD[0]) * 2, "is not valid JSON"),
    "not an entry": ("812.5", "must hold an entry"),
    "nothing": ("null", "must hold an entry"),
    "nothing between": ("{}null{}", "is not valid JSON"),
    "an array over lines": ("[", "write one entry a line"),
    "deep": ("[" * 100_000, "is nested too deeply"),
    "long number": ('{"duration": ' + "9" * 5000 + "}", "holds a number that is too long"),
}


@pytest.mark.parametrize("line, words", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_sentence_that_names_the_line(tmp_path, line, words):
    path = written(tmp_path, [*GOOD, "", line, *GOOD])
    found = sentence(read_navigation_timings, path)
    assert words in found and "line 5" in found and "\n" not in found


@pytest.mark.parametrize("name", ["rate above one", "unknown value", "time negative", "rate missing"])
def test_a_fault_of_a_frame_names_the_row(tmp_path, name):
    line, words = FAULTS[name]
    table = pyarrow.Table.from_pylist([*GOOD, line])
    assert words in sentence(read_navigation_timings, table) and "row 4:" in sentence(read_navigation_timings, table)
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    found = sentence(read_navigation_timings, tmp_path / "t.parquet")
    assert words in found and "row 4:" in found and "t.parquet" in found


def test_files_without_anything_to_compare(tmp_path):
    assert "holds no navigation entry" in sentence(read_navigation_timings, written(tmp_path, []))
    assert "no entry has a confidence" in sentence(read_navigation_timings, written(tmp_path, [{"duration": 1}]))
    assert "holds no entry with this time" in sentence(read_navigation_timings, written(tmp_path, GOOD), "durration")
    assert "is missing" in sentence(read_navigation_timings, written(tmp_path, GOOD), columns="country")
    assert "mixes texts and numbers" in sentence(
        read_navigation_timings, written(tmp_path, [entry(c="a"), entry(c=1)]), columns="c"
    )
    assert "cannot be read" in sentence(read_navigation_timings, tmp_path / "nothing.jsonl")
    assert "matches no file" in sentence(read_navigation_timings, tmp_path / "no*.parquet")
    (tmp_path / "bad.parquet").write_text("PAR?")
    assert "is not a readable Parquet file" in sentence(read_navigation_timings, tmp_path / "bad.parquet")
    (tmp_path / "bad.jsonl").write_bytes(b'{"x": "\xff"}\n')
    assert "is not UTF-8 text" in sentence(read_navigation_timings, tmp_path / "bad.jsonl")


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"value": ""}, "value must be"),
        ({"value": "confidence"}, "value must be a time"),
        ({"columns": "rate"}, "columns must not name"),
        ({"columns": [3]}, "columns must be the name of a column or a list of names"),
        ({"rate": 1.5}, "rate must be"),
    ],
)
def test_arguments(tmp_path, settings, words):
    assert words in sentence(read_navigation_timings, written(tmp_path, GOOD), kind=ArgumentError, **settings)


def test_other_sources_are_refused(tmp_path):
    assert "must be a file of JSON lines" in sentence(read_navigation_timings, "timings.csv", kind=ArgumentError)
    assert "must be a data frame" in sentence(read_navigation_timings, 3, kind=ArgumentError)


# ---- any lines -------------------------------------------------------------------------------------------------------
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(-1, 2),
    st.integers(-1, 3000),
    st.sampled_from(["high", "low", "medium", "", "\x1b[31m"]),
)
confidences = st.one_of(
    leaves,
    st.just({}),
    st.fixed_dictionaries({}, optional={"value": leaves, "randomizedTriggerRate": leaves}),
    st.fixed_dictionaries({"value": st.sampled_from(["high", "low"]), "randomizedTriggerRate": st.floats(0, 1)}),
)
rare = st.fixed_dictionaries(
    {},
    optional={
        "duration": leaves,
        "confidence": confidences,
        "entryType": st.sampled_from(["navigation", "resource", None, 3]),
        "confidence_value": leaves,
        "randomizedTriggerRate": leaves,
        "country": leaves,
        "x": st.lists(leaves, max_size=2),
    },
)
usual = st.builds(entry, st.integers(0, 9), st.sampled_from(["high", "low"]), st.floats(0, 1), country=st.just("SE"))
junk = st.sampled_from(["", "{", "]", "null", "3", '"high"', "[]", "{}", "[{}]", "NaN", '{"duration": NaN}', "\x00"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(usual, usual, rare, junk), min_size=1, max_size=6), st.booleans())
def test_any_lines_are_read_or_refused_in_one_sentence(lines, with_country):
    with tempfile.TemporaryDirectory() as folder:
        path = written(pathlib.Path(folder), lines)
        try:
            found = read_navigation_timings(path, columns="country" if with_country else ())
        except lb.LDPBayesError as err:
            assert "\n" not in str(err) and "\x1b" not in str(err)
            return
    left = found.n_missing + found.n_empty + found.n_unfinished + found.n_tossed
    assert found.n_records + left == found.n_entries
    assert ((found["rate"] >= 0) & (found["rate"] < 1)).all() and np.isfinite(found["duration"]).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(usual, min_size=1, max_size=6))
def test_lines_and_tables_are_read_alike(lines):
    with tempfile.TemporaryDirectory() as folder:
        outcomes = []
        for source in (written(pathlib.Path(folder), lines), pyarrow.Table.from_pylist(lines)):
            try:
                outcomes.append(read_navigation_timings(source, columns="country"))
            except DataError as err:
                outcomes.append(err.message)
    if isinstance(outcomes[0], str):
        assert outcomes[0] == outcomes[1]
    else:
        same(*outcomes)
