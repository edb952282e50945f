"""One set of reports through every door gives the same tally, and a bad entry is refused where it stands."""

import bz2
import datetime
import decimal
import gzip
import lzma
import pathlib

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from commands import run
from samples import from_sample
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import GRR, UnaryEncoding
from ldpbayes.scanning import Partial, Scan

LABELS = ["red", "green", "blue"]
FRAMES = {
    "arrow": lambda table, folder: table,
    "pandas": lambda table, folder: table.to_pandas(),
    "pandas of arrow": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table, folder: pl.from_arrow(table),
    "lazy polars": lambda table, folder: pl.from_arrow(table).lazy(),
    "duckdb": lambda table, folder: duckdb.from_arrow(table),
}
SCANNED = FRAMES | {
    "dataset": lambda table, folder: pa.dataset.dataset(parquet(table, folder)),
    "reader": lambda table, folder: table.to_reader(),
    "parquet": lambda table, folder: parquet(table, folder),
    "folder": lambda table, folder: parquet(table, folder).parent,
}


def parquet(table, folder, name="x.parquet"):
    path = folder / name
    pq.write_table(table, path, row_group_size=40)
    return path


def decimals(values):
    """Return whole numbers as warehouses have them."""
    return pa.array(values).cast(pa.decimal128(38, 0))


def columns():
    """Return {what a column holds: (protocol, column, arguments)}, all of the same reports as ``expected`` has."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, 100)
    text = [LABELS[i] for i in codes]
    named = {"categories": LABELS}
    found = {
        "labels": (GRR(3, 1.0), pa.array(text), named),
        "dictionary": (GRR(3, 1.0), pa.array(text).dictionary_encode(), named),
        "blanks": (GRR(3, 1.0), pa.array([f" {label} " for label in text]), named),
        "numbers": (GRR(3, 1.0), pa.array(codes), {}),
        "decimals": (GRR(3, 1.0), decimals(codes), {}),
        "numbers that are labels": (GRR(3, 1.0), pa.array(codes + 1), {"categories": ["1", "2", "3"]}),
        "decimals that are labels": (
            GRR(3, 1.0),
            decimals(codes + 1),
            {"categories": list("123")},
        ),
    }
    protocol = UnaryEncoding.optimized(10, 1.0)
    reports = protocol.privatize(rng.integers(0, 10, 100), rng)
    bits = np.unpackbits(reports, axis=1)[:, :10]
    found |= {
        "packed bits": (protocol, pa.array(list(map(bytes, reports)), pa.binary(2)), {}),
        "booleans": (protocol, pa.array(bits.astype(bool).tolist()), {}),
        "zeros and ones": (protocol, pa.array(bits.tolist()), {}),
        "members": (protocol, pa.array([np.flatnonzero(row).tolist() for row in bits]), {}),
        "text of bits": (protocol, pa.array(["".join(map(str, row)) for row in bits]), {}),
    }
    expected = {GRR(3, 1.0): Tally(GRR(3, 1.0), codes), protocol: Tally(protocol, reports)}
    return {name: (*case, expected[case[0]]) for name, case in found.items()}


COLUMNS = columns()


def same(tally, expected):
    return np.array_equal(tally.reports, expected.reports) and np.array_equal(tally.counts, expected.counts)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_door_gives_the_same_tally(name, tmp_path):
    protocol, column, arguments, expected = COLUMNS[name]
    table = pa.table({"report": column})
    for door, frame in FRAMES.items():
        assert same(lb.read(frame(table, tmp_path), protocol, **arguments), expected), door
    assert same(lb.read(parquet(table, tmp_path), protocol, **arguments), expected)
    for door, frame in SCANNED.items():
        found = lb.scan(frame(table, tmp_path), protocol, **arguments)
        assert same(found["all",].tallies[0], expected), door
    if not pa.types.is_nested(column.type) and not pa.types.is_fixed_size_binary(column.type):
        pl.from_arrow(table).write_csv(tmp_path / "x.csv")
        assert same(lb.read(tmp_path / "x.csv", protocol, **arguments), expected)


@pytest.mark.parametrize(
    "count", [pa.int64(), pa.uint8(), pa.decimal128(38, 0), pa.decimal128(22, 2), pa.float64()], ids=str
)
def test_every_door_takes_whole_numbers_as_counts(count, tmp_path):
    table = pa.table({"report": ["0", "1", "2"], "n": pa.array([3, 0, 5]).cast(count)})
    expected = Tally(GRR(3, 1.0), [0, 1, 2], [3, 0, 5])
    for door in ("arrow", "pandas of arrow", "polars", "lazy polars", "duckdb"):
        assert same(lb.read(FRAMES[door](table, tmp_path), GRR(3, 1.0), count="n"), expected), door
    assert same(lb.read(parquet(table, tmp_path), GRR(3, 1.0), count="n"), expected)
    summed = duckdb.sql("select r as report, sum(n) as n from (values (0, 1), (0, 2), (1, 0), (2, 5)) t(r, n) group by r")
    assert same(lb.read(summed, GRR(3, 1.0), count="n"), expected)


def test_a_missing_count_is_one_bad_row_of_a_pandas_frame():
    """One makes floats of all counts of its column."""
    frame = pd.DataFrame({"report": [0, 1, 2, 1], "n": [3, None, 5, 1.5]})
    with pytest.warns(match=r"2 rows.*report"):
        found = lb.read(frame, GRR(3, 1.0), count="n", bad_rows="skip")
    assert same(found.tallies[0], Tally(GRR(3, 1.0), [0, 2], [3, 5]))


def test_bad_reports_are_refused_with_their_file_and_row(tmp_path):
    protocol = GRR(3, 1.0)
    good, bad = [0, 1, 2] * 40, [0, 1, 2] * 40
    bad[100] = 7
    for name, values in (("a", good), ("b", bad)):
        parquet(pa.table({"report": values, "g": [1, 2] * 60}), tmp_path, f"{name}.parquet")
    where = r"b\.parquet, field 'report': row 101: report 7 is outside 0\.\.2"
    for read in (
        lambda: lb.read(tmp_path / "*.parquet", protocol),
        lambda: lb.read(tmp_path / "*.parquet", protocol, by="g"),
        lambda: lb.scan(tmp_path, protocol),
    ):
        with pytest.raises(DataError, match=where):
            read()
    for door in ("arrow", "pandas", "polars"):
        with pytest.raises(DataError, match=r"^field 'report'.*101:.*7"):
            lb.read(FRAMES[door](pa.table({"report": bad}), tmp_path), protocol)
    for door in ("duckdb", "lazy polars"):  # their rows have no order
        with pytest.raises(DataError, match=r"^field 'report'.*7"):
            lb.read(FRAMES[door](pa.table({"report": bad}), tmp_path), protocol)
    parquet(pa.table({"report": [0, 1, None], "g": [1, 1, 1]}), tmp_path, "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet.*'report'.*row 3:"):
        lb.read(tmp_path / "*.parquet", protocol)
    for key in (None, float("nan")):
        table = pa.table({"report": [0] * 9, "g": [1.0] * 7 + [key] + [1.0]})
        parquet(table, tmp_path, "b.parquet")
        with pytest.raises(DataError, match=r"b\.parquet.*'g'.*8:"):
            lb.read(tmp_path / "b.parquet", protocol, by="g")
    with pytest.raises(DataError, match=r"^field 'report'.*3:"):
        lb.read(pd.DataFrame({"report": ["0", "1", None]}), protocol)


def test_rows_of_a_condition_are_those_of_the_file(tmp_path):
    table = pa.table({"report": ["yes", "no", "no", "maybe"], "g": ["b", "a", "b", "a"]})
    parquet(table, tmp_path)
    (tmp_path / "c.toml").write_text(
        'categories = ["no", "yes"]\n[[channels]]\nprotocol = "warner"\nfile = "x.parquet"\nreport = "report"\n'
        'parameters = { p = 0.7 }\nwhere = { g = "a" }\n'
    )
    with pytest.raises(DataError, match=r"x\.parquet.*'report'.*4:.*'maybe'"):
        lb.read(tmp_path / "c.toml")


def test_a_row_in_a_message_is_not_contradicted_by_a_position():
    protocol = UnaryEncoding.optimized(10, 1.0)
    reports = [bytes(2)] * 150 + [bytes(3)]
    with pytest.raises(DataError, match=r"row 151:.*3 bytes.*10"):
        lb.scan(pa.table({"report": [b"\x80\x00", *reports]}).slice(1), protocol)


def test_a_missing_entry_in_a_dictionary_is_no_label():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["no", "None", None]))
    for read in (lb.read, lambda *args, **named: lb.scan(*args, **named)):
        with pytest.raises(DataError, match=r"row 3:.*missing"):
            read(pa.table({"report": column}), GRR(2, 1.0), categories=["no", "None"])


@each_row("name", SCANNED)
def test_an_empty_source_and_a_missing_column_are_refused_alike(name, tmp_path):
    empty = pa.table({"report": pa.array([], pa.int64())})
    with pytest.raises(DataError, match="no rows"):
        lb.scan(SCANNED[name](empty, tmp_path), GRR(3, 1.0))
    with pytest.raises(DataError, match=r"'answer'.*report"):
        lb.scan(SCANNED[name](empty, tmp_path), GRR(3, 1.0), report="answer")


def test_what_no_report_is_is_refused_in_one_sentence():
    for frame in (duckdb.sql("select {'a': 1} as report"), pa.table({"report": [{"a": 1}]})):
        with pytest.raises(DataError, match=r"'report'.*struct<a:"):
            lb.scan(frame, GRR(3, 1.0))
    frame = pd.DataFrame([[0, 1]], columns=["report", "report"])
    with pytest.raises(DataError, match="two columns"):
        lb.scan(frame, GRR(3, 1.0))
    objects = pd.DataFrame({"report": [decimal.Decimal(2), decimal.Decimal(0)]})
    assert lb.read(objects, GRR(3, 1.0)).reports.tolist() == [0, 2]
    for path in (None, 3, ["a.csv"]):
        with pytest.raises(lb.errors.LDPBayesError, match=r"data must|cannot.*read"):
            lb.read(path, GRR(3, 1.0))


@each_row(
    "content, sentence",
    [
        (gzip.compress(b"report\n0\n", mtime=0), r"x\.csv:.*compressed"),
        ("report\n0\n".encode("utf-16"), r"x\.csv:.*UTF-16.*UTF-8"),
        (b"PK\3\4 of a workbook", r"x\.csv:.*archive"),
        (b"PAR1 and so on", r"x\.csv:.*Parquet.*\.parquet"),
        (bz2.compress(b"report\n0\n"), r"x\.csv:.*compressed"),
        (lzma.compress(b"report\n0\n"), r"x\.csv:.*compressed"),
        (pa.Codec("zstd").compress(b"report\n0\n", asbytes=True), r"x\.csv:.*compressed"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"x\.csv:.*workbook"),
        (b"ARROW1\0\0", r"x\.csv:.*Arrow.*\.arrow"),
        (b'[{"report": 0}]', r"x\.csv:.*JSON.*\.jsonl"),
        (b"", "line 1:.*empty"),
        (b"\n\nreport\n0\n", "line 1:.*empty"),
        (b'"report";"g"\n0;"a"\n', r"x\.csv:.*semicolons"),
        (b"report\tg\n0\ta\n", r"x\.csv:.*tabs"),
    ],
)
def test_files_of_other_kinds_are_named(content, sentence, tmp_path):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        lb.read(tmp_path / "x.csv", GRR(3, 1.0))


def test_lines_may_end_in_cr_alone(tmp_path):
    (tmp_path / "x.csv").write_bytes(b'report,x\r0,1\r1,"2\r4"\r1,3')
    assert lb.read(tmp_path / "x.csv", GRR(3, 1.0)) == Tally(GRR(3, 1.0), [0, 1, 1])


@pytest.mark.parametrize("read", [lb.read, lb.scan], ids=lambda read: read.__name__)
def test_addresses_are_no_files(read):
    with pytest.raises(DataError, match=r"this machine.*pyarrow"):
        read("s3://bucket/x.parquet")


def test_a_missing_number_is_not_written_as_a_key(tmp_path):
    with pytest.raises(DataError, match=r"'country'.*missing"):
        lb.write([0, 1], tmp_path / "x.parquet", GRR(3, 1.0), country=[1.0, np.nan])
    assert not list(tmp_path.iterdir())


# ---- keys of cells ---------------------------------------------------------------------------------------------------
KEYS = {
    "numbers": pa.array([10.0, 2.0, 2.5, 2.0]),
    "decimals": pa.array(list(map(decimal.Decimal, ("10.00", "2.00", "2.50", "2.00")))),
    "texts with zeros": pa.array(["1", "01", "2", "01"]),
    "dates": pa.array([datetime.date(2020, 1, day) for day in (10, 2, 3, 2)]),
}


@pytest.mark.parametrize("name", KEYS)
def test_every_door_gives_the_same_cells_in_the_same_order(name, tmp_path):
    table, protocol = pa.table({"report": [0, 1, 2, 0], "g": KEYS[name]}), GRR(3, 1.0)
    keys = sorted(set(KEYS[name].to_pylist()), key=lambda key: (int(key), key) if isinstance(key, str) else key)
    for door, frame in FRAMES.items():
        assert list(lb.read(frame(table, tmp_path), protocol, by="g")) == [(key,) for key in keys], door
    for door, frame in SCANNED.items():
        assert list(lb.scan(frame(table, tmp_path), protocol, by="g")) == [(key,) for key in keys], door
    path = parquet(table, tmp_path)
    assert list(lb.read(path, protocol, by="g")) == [(key,) for key in keys]
    first = Scan(path, protocol, by="g").fold.partial(table)
    assert Partial.from_bytes(first.to_bytes()).keys == first.keys  # as a checkpoint holds it


@each_row("key", [datetime.time(12), datetime.timedelta(1), b"x", [1], {"a": 1}])
def test_other_keys_are_refused_by_every_door(key, tmp_path):
    table = pa.table({"report": [0], "g": [key]})
    for read in (
        lambda: lb.read(table, GRR(3, 1.0), by="g"),
        lambda: lb.scan(table, GRR(3, 1.0), by="g"),
        lambda: lb.scan(duckdb.from_arrow(table), GRR(3, 1.0), by="g"),
    ):
        with pytest.raises(DataError, match=r"field 'g':.*(texts|struct)"):
            read()


def test_a_column_is_not_report_and_key_at_once(tmp_path):
    table = pa.table({"report": [0, 1], "n": [1, 2]})
    for read in (lb.read, lambda frame, *args, **named: lb.read(parquet(frame, tmp_path), *args, **named)):
        for by in ("report", "n"):
            with pytest.raises(lb.errors.ArgumentError, match=rf"must not.*'{by}'"):
                read(table, GRR(3, 1.0), count="n", by=by)


def test_keys_that_a_csv_file_would_change_are_not_written(tmp_path):
    for key in ("", " NL"):
        cells = lb.read(pa.table({"report": [0, 1], "g": [key, "DE"]}), GRR(3, 1.0), by="g")
        with pytest.raises(lb.errors.ArgumentError, match=r"cells must.*blanks"):
            lb.write(cells, tmp_path / "x.toml")
    assert not list(tmp_path.iterdir())


def test_files_that_a_warehouse_and_a_program_wrote_are_scanned_together_and_scans_are_summed(tmp_path):
    for name, column in (("a", pa.array([0, 1, 2])), ("b", decimals([0, 1, 1]))):
        parquet(pa.table({"report": column, "g": ["x"] * 3}), tmp_path, f"{name}.parquet")
    both = lb.scan(tmp_path, GRR(3, 1.0), by="g")
    each = [lb.scan(tmp_path / f"{name}.parquet", GRR(3, 1.0), by="g") for name in "ab"]
    assert sum(each) == both and both["x",].tallies[0].counts.tolist() == [2, 3, 1]
    with pytest.raises(lb.errors.ArgumentError, match=r"categories must.*3"):
        lb.scan(tmp_path, GRR(3, 1.0), categories=3)


def test_an_empty_key_of_a_csv_file_is_missing(tmp_path):
    (tmp_path / "x.csv").write_text("report,g\n0,x\n1,\n")
    with pytest.raises(DataError, match=r"x\.csv, line 3,.*'g'"):
        lb.read(tmp_path / "x.csv", GRR(3, 1.0), by="g")


def test_levels_are_read_from_decimals_and_tables_of_several_protocols_joined():
    table = pa.table({"report": [0, 1, 2], "eps": list(map(decimal.Decimal, ("1.50", "2.00", "1.50")))})
    found = lb.read(table, GRR(3, 1.0), epsilon_column="eps")
    assert [(tally.protocol.epsilon, tally.n_reports) for tally in found.tallies] == [(1.5, 2), (2.0, 1)]
    written = [lb.write([0, 1], None, GRR(3, level)).replace_schema_metadata(None) for level in (1.0, 2.0)]
    assert [tally.protocol.epsilon for tally in lb.read(pa.concat_tables(written)).tallies] == [1.0, 2.0]
    scanned = lb.scan(pl.from_arrow(pa.concat_tables(written)))
    assert sorted(protocol.epsilon for protocol in scanned.protocols) == [1.0, 2.0]


# ---- folders ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def partitioned(tmp_path):
    """Return a folder of reports by country and day, as warehouses write it."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "report": rng.integers(0, 3, 60),
            "country": np.array(["NL", "Côte d'Ivoire"])[rng.integers(0, 2, 60)],
            "day": rng.integers(1, 4, 60),
        }
    )
    kinds = pa.schema([("country", pa.string()), ("day", pa.int64())])
    pa.dataset.write_dataset(
        table, tmp_path / "t", format="parquet", partitioning=pa.dataset.partitioning(kinds, flavor="hive")
    )
    return table, tmp_path / "t"


def test_names_of_folders_are_columns(partitioned):
    table, folder = partitioned
    protocol, by = GRR(3, 1.0), ["country", "day"]
    expected = lb.scan(table, protocol, by=by)
    (folder / "_temporary").mkdir()
    copied = next(folder.rglob("*.parquet"))
    for name in ("_temporary/x.parquet", ".x.parquet"):  # what a writer that was killed leaves
        (folder / name).write_bytes(copied.read_bytes())
    for found in (
        lb.scan(folder, protocol, by=by),
        lb.read(folder / "*" / "*" / "*.parquet", protocol, by=by),
        lb.read(folder, protocol, by=by),
    ):
        assert list(found) == list(expected)
        assert all(same(found[key].tallies[0], expected[key].tallies[0]) for key in expected)
    assert lb.scan(folder, protocol)["all",].n_reports == 60
    levels = lb.read(folder / "*" / "*" / "*.parquet", "grr", categories=list("012"), epsilon_column="day")
    assert [tally.protocol.epsilon for tally in levels.tallies] == [1.0, 2.0, 3.0]


def test_a_folder_is_fitted_from_the_command_line(tmp_path, capsys):
    (tmp_path / "reports.parquet" / "country=NL").mkdir(parents=True)
    path = tmp_path / "reports.parquet" / "country=NL" / "1.parquet"
    lb.write([0, 1, 2, 0], path, GRR(3, 1.0))
    status, out, err = run(capsys, "fit", str(tmp_path / "reports.parquet"), "--by", "country", "--json", "--seed", "1")
    assert not status and '"NL"' in out, err
    status, out, err = run(capsys, "fit", str(tmp_path))
    assert not status and "4 reports" in out
    path.unlink()
    status, out, err = run(capsys, "fit", str(tmp_path))
    assert status == 2 and "(.arrow, .csv" in " ".join(err.split())


def test_a_file_with_two_names_is_read_once(partitioned):
    _, folder = partitioned
    path = next(pathlib.Path(folder).rglob("*.parquet"))
    (path.parent / "link.parquet").symlink_to(path)
    n = lb.read(path, GRR(3, 1.0)).n_reports
    assert lb.read(path.parent / "*.parquet", GRR(3, 1.0)).n_reports == n
    alias = path.parent / ".." / path.parent.name / path.name
    assert lb.scan([path, alias, path.parent / "link.parquet"], GRR(3, 1.0))["all",].n_reports == n
    with pytest.raises(lb.errors.ArgumentError, match=r"path must.*empty"):
        lb.scan("", GRR(3, 1.0))


def test_a_folder_of_missing_entries_is_refused(tmp_path):
    (tmp_path / "day=__HIVE_DEFAULT_PARTITION__").mkdir()
    path = parquet(pa.table({"report": [0, 1]}), tmp_path / "day=__HIVE_DEFAULT_PARTITION__")
    for read in (lambda: lb.scan(path, GRR(3, 1.0), by="day"), lambda: lb.read(path, GRR(3, 1.0), by="day")):
        with pytest.raises(DataError, match=r"'day'.*row 1:"):
            read()


def test_a_folder_of_missing_entries_is_left_out_with_the_other_bad_rows(tmp_path):
    for day in ("1", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"day={day}").mkdir()
        parquet(pa.table({"report": [0, 1]}), tmp_path / f"day={day}")
    for read in (lb.read, lambda *arguments, **settings: lb.scan(*arguments, **settings)):
        with pytest.warns(match=r"2 rows.*report"):
            found = read(tmp_path, GRR(3, 1.0), by="day", bad_rows="skip")
        assert {key: cell.n_reports for key, cell in found.items()} == {(1,): 2}  # a whole number, as in the other folders


def test_a_file_whose_column_is_empty_may_have_another_type(tmp_path):
    """As pandas writes a day on which nobody answered, or without rows."""
    empty = {"a": pa.table({"report": pa.nulls(3)}), "b": pa.table({"report": pa.nulls(0)})}
    for name, table in {**empty, "c": pa.table({"report": ["0", "2"]})}.items():
        parquet(table, tmp_path, f"{name}.parquet")
    assert same(lb.read(tmp_path / "[bc].parquet", GRR(3, 1.0)), Tally(GRR(3, 1.0), [0, 2]))
    found = lb.read(tmp_path / "*.parquet", GRR(3, 1.0), missing="no answer")
    assert found.missing == 3 and same(found.tallies[0], Tally(GRR(3, 1.0), [0, 2]))
    assert lb.scan(tmp_path / "*.parquet", GRR(3, 1.0), missing="no answer")["all",].missing == 3


# ---- samples of a finite population --------------------------------------------------------------------------------------
def test_the_size_of_the_population_alone_is_read_by_every_door(tmp_path):
    from ldpbayes.protocols.designs import warner

    table = pa.table({"answer": ["yes", "no"], "n": [80, 100]})
    pl.from_arrow(table).write_csv(tmp_path / "x.csv")
    (tmp_path / "c.toml").write_text(
        'categories = ["no", "yes"]\npopulation_size = 200\n[[channels]]\nprotocol = "warner"\nfile = "x.csv"\n'
        'report = "answer"\ncount = "n"\nparameters = { p = 0.7 }\n'
    )
    arguments = {"count": "n", "categories": ["no", "yes"], "population_size": 200}
    expected = from_sample(["no", "yes"], warner(0.7), [1] * 80 + [0] * 100, population_size=200)
    for found in (
        lb.read(tmp_path / "c.toml"),
        lb.read(table, warner(0.7), report="answer", **arguments),
        lb.read(tmp_path / "x.csv", warner(0.7), report="answer", **arguments),
    ):
        assert found.survey.n == 180 and found.survey.population == 200
        assert np.allclose(found.rows.counts, expected.rows.counts)


def test_epsilon_beside_its_column_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("report,eps\n0,1\n1,2\n")
    (tmp_path / "c.toml").write_text(
        'categories = ["0", "1"]\n[[channels]]\nprotocol = "grr"\nfile = "x.csv"\nepsilon = "eps"\n'
        "parameters = { epsilon = 1 }\n"
    )
    with pytest.raises(DataError, match=r"epsilon must.*column"):
        lb.read(tmp_path / "c.toml")


# ---- one way in, one way out ---------------------------------------------------------------------------------------------
def test_what_a_source_states_itself_is_not_taken_twice(tmp_path):
    cells = lb.scan(pa.table({"report": [0, 1, 2, 1], "g": ["a", "a", "b", "b"]}), GRR(3, 1.0), by="g")
    lb.write(cells, tmp_path / "s.parquet")
    assert lb.read(tmp_path / "s.parquet").n_reports == 4 and list(lb.read(tmp_path / "s.parquet", by="g")) == list(cells)
    lb.write(Tally(GRR(3, 1.0), [0, 1]), tmp_path / "c.toml")
    assert lb.read(tmp_path / "c.toml").n_reports == 2
    for path, settings, name in (
        ("c.toml", {"report": "x"}, "report"),
        ("c.toml", {"protocol": GRR(3, 1.0)}, "protocol"),
        ("s.parquet", {"weights": "w"}, "weights"),
        ("s.parquet", {"population_size": 9}, "population_size"),
    ):
        with pytest.raises(lb.errors.ArgumentError, match=rf"^{name} must.*left"):
            lb.read(tmp_path / path, **settings)


@each_row(
    "thing, path, arguments, sentence",
    [
        ([0, 1], "x.parquet", (), "protocol must.*given"),
        (None, "x.parquet", (), "protocol must.*given"),
        (Tally(GRR(3, 1.0), [0, 1]), "x.toml", (GRR(3, 1.0),), "protocol must.*out"),
        (Tally(GRR(3, 1.0), [0, 1]), "x.parquet", (), r"path must.*\.toml"),
        (Tally(GRR(3, 1.0), [0, 1]), None, (), "path must.*file"),
    ],
)
def test_what_write_does_not_take_is_refused_in_one_sentence(thing, path, arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lb.errors.ArgumentError, match=sentence):
        lb.write(thing, path, *arguments)
    assert not list(tmp_path.iterdir())


def test_regressions_and_private_groups_read_reports_alike_from_every_type_of_column():
    rng, labels = np.random.default_rng(1), ["no", "yes"]
    device = GRR(2, 2.0)
    codes, x = rng.integers(0, 2, 200), rng.normal(size=200).round(1)
    texts = np.array(labels)[codes]
    columns = {"texts": texts, "categories": pd.Categorical(texts), "arrow": pa.array(texts).dictionary_encode()}
    columns |= {"blanks": [f" {text} " for text in texts], "whole": codes, "nullable": pd.array(codes, dtype="Int64")}
    found = []
    for name, values in columns.items():
        whole = {"categories": None if name in ("whole", "nullable") else labels}
        frame = pa.table({"x": x, "r": values}) if name == "arrow" else pd.DataFrame({"x": x, "r": values})
        fitted = lb.regress(frame, "y ~ x", device, report="r", method="mle", **whole)
        groups = lb.by_private_group(frame, "x", device, report="r", draws=25, method="recipe", random_seed=1, **whole)
        found.append(np.append(fitted.coefficients.values[:, 1], groups.mean()["mean"].values))
    np.testing.assert_allclose(found[1:], found[:-1], rtol=1e-9)
    for bad, said in (([0.5, *codes[1:]], "unknown report|whole"), ([None, *texts[1:]], "missing"), ([7, *codes[1:]], "7")):
        frame = pd.DataFrame({"x": x, "r": bad})
        with pytest.raises(lb.errors.DataError, match=said):
            lb.regress(frame, "y ~ x", device, report="r", method="mle")
        with pytest.raises(lb.errors.DataError, match=said):
            lb.by_private_group(frame, "x", device, report="r", draws=25)


class Own(pa.ExtensionType):
    """A type of the caller's own, which Arrow cannot hash."""

    def __init__(self):
        super().__init__(pa.string(), "ldpbayes.tests.own")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def test_a_type_of_the_callers_own_ends_in_a_sentence():
    table = pa.table({"report": pa.ExtensionArray.from_storage(Own(), pa.array(["no", "yes"]))})
    with pytest.raises(DataError, match="not read"):
        lb.read(table, lb.protocols.warner(0.7), categories=["no", "yes"])


def test_a_header_may_have_a_semicolon_in_its_quotes(tmp_path):
    (tmp_path / "x.csv").write_text('"smokes; drinks"\nno\nyes\n')
    assert (
        lb.read(tmp_path / "x.csv", lb.protocols.warner(0.7), report="smokes; drinks", categories=["no", "yes"]).n_reports
        == 2
    )


def test_errors_say_what_to_do(tmp_path):
    """Stumbles of new users: a result at the wrong door, answers that are missing, and a check of sums."""
    with pytest.raises(ArgumentError, match="saves itself"):
        lb.write(lb.fit(lb.load_example("nigeria"), "flat", draws=50, random_seed=1), tmp_path / "x.html")
    (tmp_path / "x.csv").write_text("report\nno\nNA\n")
    with pytest.raises(DataError, match=r"'NA'.*missing='NA'"):
        lb.read(tmp_path / "x.csv", lb.protocols.warner(0.7), categories=["no", "yes"])
    with pytest.raises(DataError, match=r"load_example\('nigeria'\)"):
        lb.fit("example:nigeria")
    protocol, rng = lb.protocols.UnaryEncoding.optimized(24, 1.0), np.random.default_rng(1)
    frame = {"report": [bytes(one) for one in protocol.privatize(rng.integers(24, size=30_000), rng)]}
    checked = lb.check(lb.scan(pa.table(frame), protocol, progressbar=False))
    assert checked.verdict.startswith("The reports of the only cell fit the design")
