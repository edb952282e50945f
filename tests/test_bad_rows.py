"""Rows that hold no report: refused by default, or left out, counted by reason and written to a quarantine file."""

import contextlib
import csv
import json
import pathlib

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from commands import run

from ldpbayes import fit, read, write
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, LDPBayesWarning
from ldpbayes.protocols import GRR, LocalHashing, UnaryEncoding
from ldpbayes.scanning import Partial, Scan, scan

ABC = ("a", "b", "c")
#: Good rows but for those at the places of BAD, a label that is none, a missing one and a missing key.
ROWS = [("a", "x"), ("b", "y"), ("purple", "x"), ("c", "x"), (None, "y"), ("purple", "y"), ("b", None), ("a", "y")]
BAD = (2, 4, 5, 6)
GOOD = [row for i, row in enumerate(ROWS) if i not in BAD]


def as_csv(folder):
    lines = ["report,g", *(",".join(text or "" for text in row) for row in ROWS)]
    (folder / "t.csv").write_text("\n".join([*lines[:4], "", "a,x,1", *lines[4:], "b"]) + "\n")
    return folder / "t.csv"


def as_parquet(folder):
    pyarrow.parquet.write_table(as_arrow(folder), folder / "t.parquet", row_group_size=3)
    return folder / "t.parquet"


def as_arrow(folder):
    return pyarrow.table({"report": [row[0] for row in ROWS], "g": [row[1] for row in ROWS]})


def as_duckdb(folder):
    return __import__("duckdb").from_arrow(as_arrow(folder))


def as_pandas(folder):
    return pandas.DataFrame(ROWS, columns=["report", "g"])


SOURCES = [as_csv, as_parquet, as_arrow, as_duckdb, as_pandas]
STATED = {"report": "report", "categories": ABC}


def counts_of(cells):
    return {key: cell.tallies[0].counts.tolist() for key, cell in cells.items()}


@pytest.mark.parametrize("make", SOURCES)
def test_what_is_left_is_what_good_rows_give_and_the_rest_is_counted(make, tmp_path):
    good = read(pandas.DataFrame(GOOD, columns=["report", "g"]), GRR(3, 1.0), **STATED, by="g")
    with pytest.raises(DataError):
        read(make(tmp_path), GRR(3, 1.0), **STATED, by="g")
    lines = 2 if make is as_csv else 0
    for door in (read, lambda *args, **settings: scan(*args, **settings)):
        with pytest.warns(LDPBayesWarning, match=rf"{4 + lines} rows.*purple"):
            found = door(make(tmp_path), GRR(3, 1.0), **STATED, by="g", bad_rows="skip", quarantine=tmp_path / "bad.csv")
        assert isinstance(found, Cells) and found.n_reports == 4
        assert counts_of(found) == counts_of(good)
        assert f"{4 + lines} rows that hold no report were left out" in next(iter(found.values())).notes
        with open(tmp_path / "bad.csv", newline="") as handle:
            rows = list(csv.DictReader(handle))
        assert len(rows) == 4 + lines and all(row["reason"] for row in rows)
        assert {json.loads(row["text"])["report"] for row in rows if "{" in row["text"]} >= {"purple", "b"}
        if make is as_parquet:
            assert {pathlib.Path(row["file"]).name for row in rows} == {"t.parquet"}
            assert sorted(int(row["row"]) for row in rows) == [3, 5, 6, 7]
        if make is as_csv:
            assert sorted(int(row["line"]) for row in rows) == [4, 6, 8, 9, 10, 12]
            assert {row["text"] for row in rows if not row["row"]} == {'"a,x,1"', '"b"'}


def test_reports_that_are_expanded(tmp_path):
    """Two passes leave out the same rows; a sample of the others is that of their places in the file."""
    protocol, rng = UnaryEncoding.optimized(40, 3.0), np.random.default_rng(1)
    reports = [bytes(one) for one in protocol.privatize(rng.integers(40, size=600), rng)]
    bad = [*reports[:300], b"odd", *reports[300:], None, b"odd"]
    settings = {"keep": 0, "sample": 50}
    good = scan(pyarrow.table({"report": reports[:300]}), protocol, **settings)["all",]
    with pytest.warns(LDPBayesWarning, match="3 rows"):
        found = scan(pyarrow.table({"report": bad}), protocol, **settings, bad_rows="skip")
    both = scan(pyarrow.table({"report": reports}), protocol, **settings)["all",]
    assert found["all",].n_reports == 600 and good.n_reports == 300
    np.testing.assert_allclose(found["all",].gradient, both.gradient, rtol=1e-9, atol=1e-9 * abs(both.gradient).max())
    write(found, tmp_path / "s.parquet")
    assert "3 rows that" in read(tmp_path / "s.parquet").notes


def test_partials_carry_what_was_left_out_between_machines():
    prepared = Scan(as_arrow(None), GRR(3, 1.0), **STATED, by="g", bad_rows="skip")
    partials = [Partial.from_bytes(prepared.fold.partial(part).to_bytes()) for part in as_arrow(None).to_batches(3)]
    assert sum(partials).skipped.total == 4
    assert prepared.fold.finish(sum(partials)).n_reports == 4


def test_rates_counts_and_channels(tmp_path):
    frame = pandas.DataFrame(
        {"r": ["a", "b", "c", "a", "b"], "eps": ["1", "x", "2", "", "1"], "n": ["1", "2", "3", "4", "-1"]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    settings = {"report": "r", "epsilon_column": "eps", "categories": ABC, "count": "n"}
    with pytest.warns(LDPBayesWarning, match="3 rows"):
        found = read(tmp_path / "t.csv", "grr", **settings, bad_rows="skip")
    assert isinstance(found, Collection)
    assert {tally.protocol.epsilon: tally.counts.tolist() for tally in found.tallies} == {1.0: [1], 2.0: [3]}


@pytest.mark.calibrated("unary")
@pytest.mark.parametrize(
    "protocol", [GRR(3, 1.0), UnaryEncoding.optimized(3, 1.0), LocalHashing(3, 1.0)], ids=lambda p: p.name
)
def test_what_is_published_does_not_hold_what_somebody_wrote(protocol, tmp_path):
    """A client that fails to privatize writes a raw value: it may reach whoever reads the file, and no page."""
    reports = protocol.privatize(np.arange(30) % 3, np.random.default_rng(1))
    table = dict(zip(protocol.report_fields, map(list, protocol.format_reports(reports, ABC)), strict=True))
    words = ['I\'ve zoster, got "it"; help', "7" * 9, "x" * 300 + "; zoster", "zoster; a", "zoster"]
    table[protocol.report_fields[-1]][:5] = words
    pandas.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(LDPBayesWarning, match="5 rows"):
        found = read(tmp_path / "t.csv", protocol, categories=ABC, bad_rows="skip", quarantine=tmp_path / "q.csv")
    assert "5 × field" in found.notes
    result = fit(found, "jeffreys", random_seed=1)
    for suffix in ("nc", "html", "json"):
        result.save(tmp_path / f"r.{suffix}")
        told = (tmp_path / f"r.{suffix}").read_bytes()
        assert not any(word in told for word in (b"zoster", b"help", b"7777777", b"xxxx"))
    assert all(word in (tmp_path / "q.csv").read_text() for word in ("I've zoster", "777777777"))


def test_many_different_bad_rows_take_no_pass_each():
    labels = np.array([f"bad {i}" if i % 50 == 0 else "abc"[i % 3] for i in range(50_000)])
    with pytest.warns(LDPBayesWarning, match=r"1,000 rows.*other"):
        found = read(
            {"report": labels} if False else pandas.DataFrame({"report": labels}), GRR(3, 1.0), **STATED, bad_rows="skip"
        )
    assert found.n_reports == 49_000


def test_what_is_wrong_with_a_source_is_refused_all_the_same(tmp_path):
    skip = {"bad_rows": "skip"}
    with pytest.raises(DataError, match="column 'report'"):
        read(pandas.DataFrame({"x": ["a"]}), GRR(3, 1.0), **STATED, **skip)
    with pytest.warns(LDPBayesWarning), pytest.raises(DataError, match="good row: 1"):
        read(pandas.DataFrame({"report": ["x"]}), GRR(3, 1.0), **STATED, **skip)
    with pytest.raises(DataError, match="good row"), pytest.warns(LDPBayesWarning):
        scan(pandas.DataFrame({"report": ["x"]}), GRR(3, 1.0), **STATED, **skip)
    with pytest.raises(ArgumentError, match=r"quarantine.*left out"):
        read(as_csv(tmp_path), GRR(3, 1.0), **STATED, quarantine=tmp_path / "q.csv")
    with pytest.raises(ArgumentError, match="bad_rows must"):
        read(as_csv(tmp_path), GRR(3, 1.0), **STATED, bad_rows="drop")
    (tmp_path / "header.csv").write_text("report,g")  # without a line of reports
    for door in (read, lambda *args, **settings: scan(*args, **settings)):
        with pytest.raises(DataError, match="no rows"):
            door(tmp_path / "header.csv", GRR(3, 1.0), **STATED, by="g")


def test_collection_files_and_the_command_line(tmp_path, capsys):
    as_csv(tmp_path)
    (tmp_path / "c.toml").write_text(
        'categories = ["a", "b", "c"]\nnotes = "A survey."\n[[channels]]\nprotocol = "grr"\nfile = "t.csv"\n'
        "parameters = { epsilon = 1.0 }\n"
    )
    with pytest.warns(LDPBayesWarning):
        found = read(tmp_path / "c.toml", bad_rows="skip")
    assert found.n_reports == 5 and found.notes.startswith("A survey.\n5 rows that hold no report were left out: 3 × ")
    fit = ["fit", tmp_path / "c.toml", "--draws", "0", "--bad-rows", "skip", "--quarantine", tmp_path / "q.csv"]
    status, out, err = run(capsys, *fit, "--page", tmp_path / "page.md")
    assert status == 0 and "5 rows that" in " ".join((out + err).split())
    assert "5 rows that" in (tmp_path / "page.md").read_text()
    assert len((tmp_path / "q.csv").read_text().splitlines()) == 6
    stated = "--protocol grr -p epsilon=1 --categories a,b,c --bad-rows skip".split()
    status, out, err = run(capsys, "scan", tmp_path / "t.csv", "--by", "g", *stated)
    assert status == 0 and "6 rows that" in " ".join(out.split())
    assert run(capsys, *fit[:4])[0] == 2
    status, out, err = run(capsys, "check", tmp_path / "c.toml", "--seed", "1", "--bad-rows", "skip")
    assert status == 0 and "5 rows that" in " ".join((out + err).split())


def test_channels_of_one_file_count_each_row_and_each_line_once(tmp_path):
    rows = "d,yes,1 d,same,1 c,same,1 c,same,1 c,yes,1 d,no,x c,different,x d,no,1 one,two,many,cells"
    (tmp_path / "t.csv").write_text("\n".join(["mode,rep,w", *rows.split()]) + "\n")
    channel = '[[channels]]\nname = "{0}"\n{1}\nfile = "t.csv"\nreport = "rep"\nwhere = {{ mode = "{0}" }}\n'
    device = 'protocol = "crosswise"\nparameters = { p = 0.2 }'
    both = channel.format("d", 'protocol = "direct"') + channel.format("c", device)
    (tmp_path / "t.toml").write_text('categories = ["no", "yes"]\n' + both)
    with pytest.warns(LDPBayesWarning, match=r"^5 rows"):
        data = read(tmp_path / "t.toml", weights="w", bad_rows="skip", quarantine=tmp_path / "q.csv")
    assert [tally.n_reports for tally in data.tallies] == [2, 2]
    with open(tmp_path / "q.csv", newline="") as file:
        assert [row[1] for row in csv.reader(file)] == ["line", "3", "6", "7", "8", "10"]


def test_a_column_of_counts_that_is_not_named_is_no_secret():
    frame = pandas.DataFrame({"report": ["a", "b", "c"], "count": [50, 30, 20]})
    with pytest.warns(LDPBayesWarning, match=r"'count'.*not read"):
        assert read(frame, GRR(3, 1.0), **STATED).n_reports == 3
    assert read(frame, GRR(3, 1.0), count="count", **STATED).n_reports == 100
    assert len(read(frame, GRR(3, 1.0), by="count", **STATED)) == 3


def test_a_line_that_is_no_utf_8_and_has_too_few_cells_ends_in_our_sentence_alone(tmp_path, capfd):
    (tmp_path / "x.csv").write_bytes(b"report,g\na,1\nb\xff\nc,3\n")
    with pytest.raises(DataError, match=r"x\.csv:.*UTF-8"):
        read(tmp_path / "x.csv", GRR(3, 1.0), **STATED, bad_rows="skip")
    assert capfd.readouterr().err == ""


def test_a_file_without_rows_is_no_obstacle_to_a_scan_of_two_passes(tmp_path):
    (tmp_path / "a.csv").write_text("report\n")
    (tmp_path / "b.csv").write_text("report\n" + f"{'01' * 10}\n" * 3)
    assert scan(str(tmp_path), UnaryEncoding.optimized(20, 1.0)).n_reports == 3


def test_cells_know_what_was_left_out(tmp_path):
    with pytest.warns(LDPBayesWarning):
        cells = read(as_arrow(tmp_path), GRR(3, epsilon=1.0), report="report", categories=list(ABC), by="g", bad_rows="skip")
    assert "1 × field 'g'" in cells.notes and "fill them in" not in cells.notes
    with pytest.raises(DataError, match=r"field 'g'.*bad_rows"):
        read(as_arrow(tmp_path).take([0, 6]), GRR(3, epsilon=1.0), report="report", categories=list(ABC), by="g")


def test_no_door_overwrites_the_reports(tmp_path):
    """Neither with the rows that were left out, nor with the table of a collection file beside them."""
    path, text = tmp_path / "x.csv", "report\n0\n1\n9\n"
    path.write_text(text)
    channel = '[[channels]]\nprotocol = "grr"\nfile = "x.csv"\nparameters = { epsilon = 1 }\n'
    (tmp_path / "c.toml").write_text('categories = ["a", "b", "c"]\n' + channel)
    for door, source in ((read, path), (scan, path), (read, tmp_path / "c.toml")):
        protocol = None if source.suffix == ".toml" else GRR(3, 1.0)
        with pytest.raises(DataError, match=r"x\.csv: cannot.*read"):
            door(source, protocol, bad_rows="skip", quarantine=path)
    with pytest.raises(DataError, match=r"x\.csv:.*x\.toml"):
        write(Tally(GRR(3, 1.0), [0, 1]), tmp_path / "x.toml")
    assert path.read_text() == text and not (tmp_path / "x.toml").exists()
    for count in (3, 4):  # a collection file is replaced with its table
        write(Tally(GRR(3, 1.0), [0, 1], [1, count]), tmp_path / "y.toml")
        assert read(tmp_path / "y.toml").n_reports == 1 + count


OBJECTS = [json.dumps({"report": label, "g": i}) for i, label in enumerate(["a", "b", "c", "a", "b"])]


@pytest.mark.parametrize(
    "lines, broken",
    [
        ([*OBJECTS, '{"report": "a'], [6]),
        (["nothing", *OBJECTS[:2], "", '["a"]', *OBJECTS[2:], '{"rep'], [1, 5, 9]),
        ([*OBJECTS, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")], [6]),
    ],
)
def test_lines_that_are_no_json_are_left_out(tmp_path, monkeypatch, lines, broken):
    path = tmp_path / "x.jsonl"
    path.write_bytes("\r\n".join(lines).encode())
    monkeypatch.setattr("ldpbayes.sources.jsonlines.BLOCK", 16)
    with pytest.raises(DataError, match=rf"line {broken[0]}:.*JSON"):
        read(path, GRR(3, 1.0), categories=["a", "b", "c"])
    quarantine = tmp_path / "q.csv"
    with pytest.warns(LDPBayesWarning, match=rf"{len(broken)} ×.*line {broken[0]}"):
        found = read(path, GRR(3, 1.0), categories=["a", "b", "c"], bad_rows="skip", quarantine=quarantine)
    assert found.tallies[0].counts.tolist() == [2, 2, 1]
    rows = list(csv.DictReader(quarantine.read_text().splitlines()))
    assert [int(row["line"]) for row in rows] == broken
    assert json.loads(rows[-1]["text"]) == lines[-1]


def test_a_broken_line_far_down_a_file_and_a_bad_report_behind_it(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpbayes.sources.jsonlines.BLOCK", 2**12)
    good = [json.dumps({"report": "abc"[i % 3], "text": "x" * 50}) for i in range(3000)]
    lines = [*good[:2000], '{"report"', *good[2000:], '{"report": "z"}', "{"]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    with pytest.warns(LDPBayesWarning, match=r"2 ×.*1 ×.*line 2,001.*3,002.*3,003"):
        found = read(path, GRR(3, 1.0), categories=["a", "b", "c"], bad_rows="skip")
    assert found.tallies[0].counts.tolist() == [1000, 1000, 1000]


def test_a_file_of_nothing_but_broken_lines_is_refused(tmp_path):
    (tmp_path / "x.jsonl").write_text("{\n[]\n")
    with pytest.raises(DataError, match=r"line 1:.*JSON"):
        read(tmp_path / "x.jsonl", GRR(3, 1.0), bad_rows="skip")


def test_flipped_bits_of_written_reports_are_seen(tmp_path):
    """Kind: what ``write`` writes is checked where it is read. Siblings: summaries, which had checksums already."""
    protocol, rng = UnaryEncoding.optimized(32, 1.0), np.random.default_rng(1)
    path = tmp_path / "a.parquet"
    write(protocol.privatize(rng.integers(32, size=2000), rng), path, protocol)
    whole, data = read(path), path.read_bytes()
    silent = 0
    for place in rng.integers(8, 8 * 8000, size=60).tolist():
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        path.write_bytes(broken)
        with contextlib.suppress(LDPBayesError):
            silent += read(path) != whole
    assert silent == 0
