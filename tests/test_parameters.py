"""Protocols that travel with their reports: as text, in written files, and in every reader."""

import csv
import itertools

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from cases import CASES
from commands import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tabulated import each_row

from ldpbayes import read, scan, simulation
from ldpbayes.cli import options
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import GRR, make_protocol
from ldpbayes.sources import parameters, read_collection, writing
from ldpbayes.sources.door import collected
from ldpbayes.sources.parameters import parse_protocol, protocol_text, protocols_of
from ldpbayes.sources.writing import write_reports

ABC = ("a", "b", "c")
ONE, TWO = (protocol_text(GRR(3, epsilon)) for epsilon in (1.0, 2.0))


def sentence(call, *arguments, kind=DataError, **settings):
    """Return the sentence that a call ends in."""
    with pytest.raises(kind) as caught:
        call(*arguments, **settings)
    return str(caught.value)


@each_row("case", CASES)
def test_every_protocol_survives_as_text(case):
    for a in case.categories:
        protocol = case.build(a, 0.7)
        labels = [f"label {x}" for x in range(protocol.n_categories)]
        assert parse_protocol(protocol_text(protocol)).protocol == protocol
        found = parse_protocol(protocol_text(protocol, labels))
        assert (found.protocol, found.categories) == (protocol, tuple(labels))


@each_row(
    "text, problem",
    [
        ("grr", "must hold a protocol as JSON"),
        ("[" * 100_000, "must hold a protocol as JSON"),
        ("[1]", "must hold a JSON object"),
        ('{"protocol": "grr"}', "must state n_categories or categories"),
        ('{"protocol": "grr", "epsilon": 1}', "unknown key 'epsilon'"),
        ('{"protocol": "grr", "n_categories": 1e400}', "n_categories must be an integer"),
        ('{"protocol": "grr", "n_categories": 3, "parameters": {"epsilon": NaN}}', "epsilon must be a number"),
        ('{"protocol": "grr", "n_categories": 3, "parameters": 1}', "parameters must be a JSON object"),
        ('{"protocol": "grr", "categories": ["a", "a"]}', "categories must be distinct"),
        ('{"protocol": "grr", "n_categories": 3, "categories": ["a", "b"]}', "categories must be 3 labels, got 2"),
        ('{"protocol": "gr", "n_categories": 3}', "protocol must be one of"),
        ('{"protocol": "warner", "n_categories": 3, "parameters": {"p": 0.7}}', "warner"),
    ],
)
def test_malformed_texts_are_one_sentence(text, problem):
    said = sentence(parse_protocol, text)
    assert problem in said and said.startswith("field 'protocol': ")


def test_what_the_data_state_is_compared_with_what_the_caller_states():
    assert protocols_of([], given=GRR(3, 1.0)) == ({"": GRR(3, 1.0)}, None)
    assert protocols_of([ONE], [ONE], GRR(3, 1.0)) == ({ONE: GRR(3, 1.0)}, None)
    assert protocols_of([], [ONE]) == ({"": GRR(3, 1.0)}, None)
    assert protocols_of([ONE, TWO], [TWO])[0] == {ONE: GRR(3, 1.0), TWO: GRR(3, 2.0)}
    assert protocols_of([ONE, ONE.replace(",", ", ")], categories=ABC)[1] == ABC
    assert "protocol must" in sentence(protocols_of, [], kind=ArgumentError)
    assert "GRR(n_categories=3, epsilon=1.0)" in sentence(protocols_of, [ONE], [], GRR(3, 2.0))
    assert "metadata states" in sentence(protocols_of, [], [ONE], GRR(3, 2.0))
    assert "GRR(n_categories=3, epsilon=2.0)" in sentence(protocols_of, [ONE], [TWO])
    assert "another file" in sentence(protocols_of, [], [ONE, TWO])
    assert "categories (3, 4)" in sentence(protocols_of, [ONE, protocol_text(GRR(4, 1.0))])


def test_labels_of_entries_agree_with_each_other_and_with_the_caller():
    named, other = protocol_text(GRR(3, 1.0), ABC), protocol_text(GRR(3, 2.0), ("a", "b", "d"))
    assert protocols_of([named, TWO])[1] == ABC
    assert "'c' and 'd'" in sentence(protocols_of, [named, other])
    assert "'x' and 'a'" in sentence(protocols_of, [named], categories=("x", "b", "c"))
    assert "protocol's 3 labels" in sentence(protocols_of, [ONE], categories=("x", "y"), kind=ArgumentError)


def test_names_of_channels_are_distinct():
    protocols = [GRR(3, 1.0), GRR(3, 1.5), make_protocol("oue", ABC, {"epsilon": 1.0}), GRR(4, 1.0)]
    assert parameters.channel_names(protocols) == [
        "grr, epsilon 1",
        "grr, epsilon 1.5",
        "unary, epsilon 1",
        "grr, epsilon 1, 2",
    ]


# ---- files --------------------------------------------------------------------------------------------------------


def oue(epsilon=1.0, a=12):
    return make_protocol("oue", [str(x) for x in range(a)], {"epsilon": epsilon})


def privatized(protocol, m=60, seed=0):
    return protocol.privatize(np.arange(m) % protocol.n_categories, np.random.default_rng(seed))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_protocol_survives_a_file(case, tmp_path):
    """The file needs no argument to be read, whether it has labels or not; all reports come back, with their keys."""
    protocol = case.build(case.categories[-1], 1.0)
    reports, path = privatized(protocol), tmp_path / "x.parquet"
    labels = tuple(f"label {x}" for x in range(protocol.n_categories))
    for names in (None, labels):
        assert write_reports(path, reports, protocol, categories=names, country=["SE", "NO"] * 30) == 60
        found = read(path)
        assert found == Tally(protocol, reports) and found.categories == names
        cells = read(path, by="country")
        assert {key: cell.n_reports for key, cell in cells.items()} == {("NO",): 30, ("SE",): 30}
    assert read(pyarrow.parquet.read_table(path)) == found
    assert write_reports(None, reports, protocol).num_rows == 60


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    a=st.integers(2, 40),
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(["grr", "oue", "subset", "olh", "hadamard"]),
)
def test_batches_come_back_whole_and_in_order(tmp_path, a, sizes, seed, name):
    protocol = make_protocol(name, [str(x) for x in range(a)], {"epsilon": 1.0})
    rng = np.random.default_rng(seed)
    batches = [protocol.privatize(rng.integers(a, size=size), rng) for size in sizes]
    path = tmp_path / "x.parquet"
    if not sum(sizes):
        with pytest.raises(ArgumentError, match="one report"):
            write_reports(path, iter(batches), protocol)
        return
    days = iter(range(len(sizes)))
    assert write_reports(path, ((batch, {"day": np.full(len(batch), next(days))}) for batch in batches), protocol) == sum(
        sizes
    )
    table = pyarrow.parquet.read_table(path)
    assert table["day"].to_pylist() == [day for day, size in enumerate(sizes) for _ in range(size)]
    columns = zip(*(table[field].to_pylist() for field in protocol.report_fields), strict=True)
    expected = np.concatenate(batches)
    found = [row if len(row) > 1 else row[0] for row in columns]
    if expected.dtype == np.uint8:
        assert found == [row.tobytes() for row in expected]
    else:
        assert np.array_equal(np.array(found).reshape(expected.shape), expected)


def test_the_layout_is_the_recommended_one(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "ROW_GROUP", 100)
    protocol, path = oue(a=20), tmp_path / "x.parquet"
    reports = (privatized(protocol, 70, seed) for seed in range(4))
    write_reports(path, reports, protocol, country="SE", day=np.datetime64("2024-05-01", "ns"))
    file = pyarrow.parquet.ParquetFile(path)
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    assert [group.num_rows for group in groups] == [100, 100, 80]
    bits, country, _, stated = (groups[0].column(i) for i in range(4))
    assert {groups[0].column(i).compression for i in range(4)} == {"LZ4"}
    assert not bits.has_dictionary_page and country.has_dictionary_page and stated.has_dictionary_page
    assert bits.physical_type == "FIXED_LEN_BYTE_ARRAY" and file.schema_arrow.field("report").type.byte_width == 3
    assert str(file.schema_arrow.field("day").type) == "timestamp[us]"
    assert file.schema_arrow.metadata[b"ldpbayes.protocol"].decode() == protocol_text(protocol)
    olh = make_protocol("olh", ABC, {"epsilon": 1.0})
    write_reports(path, privatized(olh), olh)
    seed, value, _ = (pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(i) for i in range(3))
    assert value.has_dictionary_page and not seed.has_dictionary_page


def test_the_column_survives_what_metadata_do_not(tmp_path):
    """DuckDB and Polars drop the metadata and make the bits plain binary; the column stays and can be grouped by."""
    protocol, path = oue(), tmp_path / "x.parquet"
    expected = Tally(protocol, privatized(protocol))
    write_reports(path, privatized(protocol), protocol, country="SE")
    polars.scan_parquet(path).sink_parquet(tmp_path / "polars.parquet")
    duckdb.sql(f"COPY (SELECT * FROM '{path}') TO '{tmp_path / 'duckdb.parquet'}' (FORMAT parquet)")
    for name in ("polars", "duckdb"):
        again = tmp_path / f"{name}.parquet"
        assert b"ldpbayes.protocol" not in (pyarrow.parquet.read_schema(again).metadata or {})
        assert read(again) == expected
    assert read(tmp_path / "*.parquet") == expected + expected + expected
    assert read(duckdb.sql(f"SELECT * FROM '{path}'")) == expected
    assert read(polars.scan_parquet(path)) == expected
    table = pyarrow.parquet.read_table(path)
    assert read(table.drop_columns("protocol")) == expected  # the metadata alone
    assert "metadata states" in sentence(read, table.drop_columns("protocol"), oue(2.0))


def test_metadata_of_some_files_state_nothing_about_the_others(tmp_path):
    """Without the column a protocol must stand in the metadata of all files, and none of them may contradict the caller."""
    numbers, letters = ("1", "2", "0"), ABC
    tables = {
        "one": write_reports(None, [0, 1, 1], GRR(3, 1.0), categories=letters),
        "two": write_reports(None, [0, 1, 1], GRR(3, 2.0), categories=letters),
        "silent": write_reports(None, [0, 1, 1], GRR(3, 1.0)).replace_schema_metadata(None),
        "numbers": write_reports(None, [0, 1, 1], GRR(3, 1.0), categories=numbers),
    }
    for name, table in tables.items():
        pyarrow.parquet.write_table(table.drop_columns("protocol"), tmp_path / f"{name}.parquet")

    def scanned(source, protocol=None, **settings):
        return scan(source, protocol, **settings)[("all",)].tallies[0]

    for opened, reader in itertools.product((list, pyarrow.dataset.dataset), (read, scanned)):
        both, other, alone = (
            opened([str(tmp_path / f"{name}.parquet") for name in names])
            for names in (("one", "silent"), ("one", "two"), ("numbers",))
        )
        assert "1 of 2 files" in sentence(reader, both, kind=ArgumentError)
        assert reader(both, GRR(3, 1.0)).n_reports == 6
        assert "GRR(n_categories=3, epsilon=1.0)" in sentence(reader, both, GRR(3, 2.0))
        assert "GRR(n_categories=3, epsilon=2.0)" in sentence(reader, other)
        # What the data state are reports as the protocol makes them, never labels.
        assert reader(alone, categories=numbers) == Tally(GRR(3, 1.0), [0, 1, 1])


def test_several_protocols_are_several_channels(tmp_path):
    protocols = [oue(1.0), oue(2.0), GRR(12, 1.0)]
    for i, protocol in enumerate(protocols):
        write_reports(tmp_path / f"{i}.parquet", privatized(protocol), protocol, day=i % 2)
    both = read(tmp_path / "[01].parquet")
    assert isinstance(both, Collection) and [t.name for t in both.tallies] == ["unary, epsilon 1", "unary, epsilon 2"]
    assert list(both.tallies) == [
        Tally(p, privatized(p), name=t.name) for p, t in zip(protocols, both.tallies, strict=False)
    ]
    cells = read(tmp_path / "[01].parquet", by="day")
    assert [len(cell.tallies) for cell in cells.values()] == [1, 1]
    assert "'protocol' states" in sentence(read, tmp_path / "[01].parquet", oue(1.0))
    every = read(tmp_path / "[012].parquet")  # columns of two types
    assert [(t.protocol, t.n_reports) for t in every.tallies] == [(p, 60) for p in (protocols[2], *protocols[:2])]
    olh = make_protocol("olh", [str(x) for x in range(12)], {"epsilon": 1.0})
    seeds, values = privatized(olh, 3).T
    mixed = pyarrow.table(  # protocols with columns of their own, the others' empty
        {
            "report": [3, 4, None, None, None],
            "seed": [None, None, *seeds],
            "value": [None, None, *values],
            "protocol": [protocol_text(GRR(12, 1.0))] * 2 + [protocol_text(olh)] * 3,
        }
    )
    found = read(mixed)
    assert [(tally.protocol, tally.n_reports) for tally in found.tallies] == [(GRR(12, 1.0), 2), (olh, 3)]
    write_reports(tmp_path / "olh.parquet", privatized(olh), olh)
    several = read(tmp_path / "[2o]*.parquet")
    assert [(tally.protocol, tally.n_reports) for tally in several.tallies] == [(GRR(12, 1.0), 60), (olh, 60)]
    one = pyarrow.table({"report": [1, 2], "protocol": [ONE, ONE.replace(",", ", ")]})
    assert read(one) == Tally(GRR(3, 1.0), [1, 2])


def test_files_that_cannot_be_read_are_one_sentence(tmp_path):
    write_reports(tmp_path / "x.parquet", privatized(oue(a=90), 5000), oue(a=90))
    whole = (tmp_path / "x.parquet").read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.parquet").write_bytes(whole[:cut])
        assert "readable Parquet" in sentence(read, tmp_path / "cut.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"other": [1]}), tmp_path / "y.parquet")
    assert "y.parquet: has" in sentence(read, tmp_path / "[xy].parquet", oue(a=90))
    write_reports(tmp_path / "z.parquet", privatized(GRR(3, 1.0)), GRR(3, 1.0))
    assert "categories (3, 90)" in sentence(read, tmp_path / "[xz].parquet")


def test_readers_of_text_recognize_the_column(tmp_path):
    with open(tmp_path / "x.csv", "w", newline="") as handle:
        csv.writer(handle).writerows([["report", "protocol"], ["a", named := protocol_text(GRR(3, 1.0), ABC)], ["c", named]])
    assert read(tmp_path / "x.csv") == Tally(GRR(3, 1.0), [0, 2])
    (tmp_path / "x.toml").write_text('categories = ["a", "b", "c"]\n[[channels]]\nfile = "x.csv"\n')
    assert read_collection(tmp_path / "x.toml").tallies[0] == Tally(GRR(3, 1.0), [0, 2])
    text = (tmp_path / "x.toml").read_text()
    (tmp_path / "x.toml").write_text(text + 'protocol = "grr"\nparameters = { epsilon = 2 }\n')
    assert "states GRR" in sentence(read_collection, tmp_path / "x.toml")
    other = pandas.DataFrame({"report": ["a", "c"], "protocol": ["tcp", "udp"]})  # a column of the same name
    assert read(other, GRR(3, 1.0), categories=ABC) == Tally(GRR(3, 1.0), [0, 2])
    assert "got 'tcp'" in sentence(read, other, categories=ABC)
    numbers = pandas.DataFrame({"report": [0, 2], "protocol": protocol_text(GRR(3, 1.0), ("1", "2", "3"))})
    assert read(numbers).reports.tolist() == [0, 2]  # reports as the protocol makes them, never labels


def test_levels_from_a_column():
    frame = pandas.DataFrame({"report": [0, 1, 2, 2], "eps": [1.0, 2.5, 1.0, 1.0], "day": [1, 1, 1, 2]})
    found = read(frame, GRR(3, 1.0), epsilon_column="eps")
    assert [(t.protocol, t.counts.tolist()) for t in found.tallies] == [(GRR(3, 1.0), [1, 2]), (GRR(3, 2.5), [1])]
    assert read(frame, GRR(3, 7.0), epsilon_column="eps") == found
    assert read(frame, "grr", epsilon_column="eps", categories=("0", "1", "2")) == found
    cells = read(frame, "grr", epsilon_column="eps", categories=("0", "1", "2"), by="day")
    names = [[tally.name for tally in cell.tallies] for cell in cells.values()]
    assert names == [["grr, epsilon 1", "grr, epsilon 2.5"], ["grr, epsilon 1"]]
    packed = pyarrow.table({"report": [b"\x80", b"\x20", b"\x60"], "eps": [1, 2, 1]})
    sets = read(packed, oue(1.0, 3), epsilon_column="eps")
    assert [(t.protocol, t.n_reports) for t in sets.tallies] == [(oue(1.0, 3), 2), (oue(2.0, 3), 1)]
    assert "make_protocol('grr'" in sentence(read, frame, "grr", kind=ArgumentError)
    assert "epsilon_column" in sentence(read, frame, epsilon_column="eps", kind=ArgumentError)
    for bad, problem in ((["x"], "must hold numbers, got 'x'"), ([-1.0], "epsilon must be a number in (0, 50], got -1.0")):
        said = sentence(read, pandas.DataFrame({"report": [0], "eps": bad}), GRR(3, 1.0), epsilon_column="eps")
        assert problem in said and "field 'eps'" in said
    many = pandas.DataFrame({"report": 0, "eps": np.linspace(1, 2, 1001)})
    assert "1,000 different entries" in sentence(read, many, GRR(3, 1.0), epsilon_column="eps")


def test_levels_of_a_column_do_not_overrule_what_the_data_state(tmp_path):
    table = write_reports(None, [0, 1, 2, 2], GRR(3, 1.0), eps=[1.0, 1.0, 2.0, 2.0], rate=0.5)
    assert read(table, "grr", categories=ABC, epsilon_column="eps").n_reports == 4  # one of the levels is that
    for stated, where in ((table, "the column 'protocol'"), (table.drop_columns("protocol"), "the metadata")):
        said = sentence(read, stated.slice(2), "grr", categories=ABC, epsilon_column="eps")
        assert f"{where} states GRR(n_categories=3, epsilon=1.0), and the column 'eps' has no such level" in said
        assert "such level" in sentence(read, stated, categories=ABC, rate_column="rate")


def test_rates_from_a_column(tmp_path):
    """Every value was replaced by a uniform category with the rate of its record."""
    (tmp_path / "x.csv").write_text("report,rate\nb,0\na,1/2\na,0.25\nc,0.25\n")
    found = read(tmp_path / "x.csv", categories=ABC, rate_column="rate")
    for tally, rate, m in zip(found.tallies, (0.0, 0.25, 0.5), (1, 2, 1), strict=True):
        assert tally.n_reports == m
        np.testing.assert_allclose(tally.protocol.channel(), (1 - rate) * np.eye(3) + rate / 3, atol=1e-15)
    text = (tmp_path / "x.csv").read_text() + "a,1\n"
    (tmp_path / "x.csv").write_text(text)
    assert "rate 1 carry" in sentence(read, tmp_path / "x.csv", categories=ABC, rate_column="rate")
    assert "categories must" in sentence(read, tmp_path / "x.csv", rate_column="rate", kind=ArgumentError)
    settings = {"rate_column": "rate", "epsilon_column": "rate"}
    assert "not both" in sentence(read, tmp_path / "x.csv", kind=ArgumentError, **settings)


def test_levels_of_a_collection_file(tmp_path):
    (tmp_path / "x.csv").write_text("report,eps\na,1\nb,2\nb,2\n")
    channel = '[[channels]]\nname = "first"\nfile = "x.csv"\nprotocol = "grr"\nepsilon = "eps"\n'
    (tmp_path / "x.toml").write_text('categories = ["a", "b", "c"]\n' + channel)
    found = read_collection(tmp_path / "x.toml")
    assert [(t.name, t.protocol, t.n_reports) for t in found.tallies] == [
        ("first, grr, epsilon 1", GRR(3, 1.0), 1),
        ("first, grr, epsilon 2", GRR(3, 2.0), 2),
    ]


def test_a_broken_batch_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.parquet"
    write_reports(path, [0, 1], GRR(3, 1.0))
    before = path.read_bytes()

    def batches(last):
        yield [0] * 100
        if isinstance(last, BaseException):
            raise last
        yield last

    for last, kind in ((KeyboardInterrupt(), KeyboardInterrupt), ([0, 3], DataError), (([1], {"x": [1]}), ArgumentError)):
        with pytest.raises(kind):
            write_reports(path, batches(last), GRR(3, 1.0))
        assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


@each_row(
    "arguments, columns, problem",
    [
        (("x.csv", [0], GRR(3, 1.0)), {}, "path must end in .parquet"),
        (("x.parquet", [0], "grr"), {}, "protocol must be an object"),
        (("x.parquet", [0, 3], GRR(3, 1.0)), {}, "report 3 is outside 0..2 (row 1)"),
        (("x.parquet", [0], GRR(3, 1.0)), {"protocol": "x"}, "must not be named 'protocol'"),
        (("x.parquet", [0], GRR(3, 1.0)), {"report": "x"}, "must not be named 'report'"),
        (("x.parquet", [0], GRR(3, 1.0)), {"day": [1, 2]}, "must have one entry per report (1), got 2"),
        (("x.parquet", [0], GRR(3, 1.0)), {"day": [None]}, "field 'day': has missing entries"),
        (("x.parquet", [0, 1], GRR(3, 1.0)), {"day": [1, "a"]}, "the column 'day' cannot be stored"),
        (("x.parquet", [0], GRR(3, 1.0)), {"categories": ["a", "b"]}, "categories must be the protocol's 3 labels, got 2"),
        (("nowhere/x.parquet", [0], GRR(3, 1.0)), {}, "cannot be written (No such file or directory)"),
    ],
)
def test_what_cannot_be_written(tmp_path, arguments, columns, problem):
    path, *rest = arguments
    with pytest.raises((ArgumentError, DataError)) as caught:
        write_reports(tmp_path / path, *rest, **columns)
    assert problem in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("a, n", [(3, 500), (200, 300)])
def test_simulated_reports_keep_their_truth(tmp_path, monkeypatch, a, n):
    monkeypatch.setattr(simulation, "USERS_TOGETHER", 128)
    truth = simulation.population("zipf", a)
    protocol = make_protocol("oue", truth.categories, {"epsilon": 1.0})
    counts = simulation.simulate_reports(tmp_path / "x.parquet", protocol, truth, n, random_seed=1)
    found = collected(tmp_path / "x.parquet")
    assert found.id == "x" and found.categories == truth.categories and found.n_reports == counts.sum() == n
    known = {entry["what"]: entry["estimate"] for entry in found.published}
    assert known["true counts"] == counts.tolist() and np.allclose(known["true distribution"], truth.distribution)
    simulation.simulate_reports(tmp_path / "y.parquet", protocol, truth, n, random_seed=1)
    assert (tmp_path / "x.parquet").read_bytes() == (tmp_path / "y.parquet").read_bytes()


def test_the_command_line_needs_no_protocol(tmp_path, capsys):
    path = tmp_path / "x.parquet"
    wanted = ("--n-categories", 3, "--users", 2000, "-p", "epsilon=2", "--seed", 1)
    status, said, _ = run(capsys, "simulate", "--output", path, *wanted)
    assert status == 0 and "2,000 reports" in said
    status, said, _ = run(capsys, "fit", path, "--explain")
    assert status == 0 and "auto considers" in said
    (tmp_path / "x.csv").write_text("report\na\n")
    for arguments, problem in [
        (("fit", tmp_path / "x.csv"), "protocol must be given: the data have no column 'protocol' that states it"),
        (("fit", tmp_path / "no.parquet"), "cannot be read (No such file or directory)"),
        (("simulate",), "one file to write"),
    ]:
        status, _, failed = run(capsys, *arguments)
        assert status == 2 and problem in failed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("answers=a,b", ["a", "b"]),
        ("answers=[a, b]", ["a", "b"]),
        ('answers=["a, b", "c"]', ["a, b", "c"]),
        ("matrix=[[.7,.3],[.3,.7]]", [[0.7, 0.3], [0.3, 0.7]]),
        ("forced=[1/6,ln(3)]", [1 / 6, np.log(3)]),
        ("rule=exact", "exact"),
        ("rule=[[[[[a,b]]]]]", "[[[[[a,b]]]]]"),
        ("rule=" + "[" * 2000, "[" * 2000),
    ],
)
def test_lists_on_the_command_line(text, value):
    name, _, _ = text.partition("=")
    assert options.parameters([text]) == {name: value}
