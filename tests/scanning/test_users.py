"""Scans by user: partitions on disk give the histories that ``read`` makes of the same rows in memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.collections import Summary
from ldpbayes.protocols import GRR, UnaryEncoding, make_protocol
from ldpbayes.scanning import users
from ldpbayes.sources.parameters import protocol_text

MEMOIZED = make_protocol("memoized_grr", ["a", "b", "c"], {"epsilon_infinity": 2.0, "epsilon_one": 1.0})
PROTOCOLS = {"grr": GRR(5, 1.0), "oue": UnaryEncoding.optimized(20, 1.0), "memoized_grr": MEMOIZED}


def reports(protocol, n=1500, n_users=200, seed=0, names=str):
    """Return a table of single reports with the columns user and country; a user stays in a country."""
    rng = np.random.default_rng(seed)
    user = rng.integers(n_users, size=n)
    single = protocol if protocol.repeats() is None else protocol.repeats().single
    made = single.privatize(user % protocol.n_categories, rng)
    table = lb.write(made, None, single, user=[names(i) for i in user], country=np.array(["NL", "BE"])[user % 2])
    return table.drop_columns(["protocol"]).replace_schema_metadata(None)


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch):
    """Let a few hundred rows take several partitions."""
    monkeypatch.setattr(users, "ROWS_A_PARTITION", 400)


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("names", [int, "user {}".format], ids=["numbers", "texts"])
def test_histories_are_those_that_read_makes(name, names, tmp_path):
    protocol = PROTOCOLS[name]
    table = reports(protocol, names=names)
    expected = lb.read(table, protocol, by="country", by_user="user")
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=200)
    for source in (table, tmp_path / "a.parquet"):
        kept = lb.scan(source, protocol, by="country", by_user="user", keep=10**6)
        assert list(kept) == list(expected)
        for key, cell in kept.items():
            assert cell.tallies[0] == expected[key].tallies[0]
            assert cell.tallies[0].protocol.times == expected[key].tallies[0].protocol.times
    summed = lb.scan(table, protocol, by="country", by_user="user", keep=0)
    for key, cell in summed.items():
        rows = Summary.of(expected[key].likelihood, cell.pilot, cell.spread)
        np.testing.assert_allclose(cell.gradient, rows.gradient, rtol=1e-10)
        np.testing.assert_allclose(cell.square, rows.square, rtol=1e-10)
    again = lb.scan(table, protocol, by="country", by_user="user", keep=0)
    assert again == summed and again.samples == summed.samples
    lb.write(summed, tmp_path / "s.parquet")
    assert lb.read(tmp_path / "s.parquet") == summed


def test_a_user_in_two_cells(tmp_path):
    """Fresh reports of a user are a history in each cell; a permanent answer ties them together."""
    table = pa.table({"report": [0, 1, 2, 2], "user": ["ann", "ann", "bo", "bo"], "country": ["NL", "BE", "BE", "BE"]})
    found = lb.scan(table, GRR(3, 1.0), by="country", by_user="user", keep=10)
    assert found == lb.read(table, GRR(3, 1.0), by="country", by_user="user", categories=found.categories)
    with pytest.raises(lb.errors.DataError) as caught:
        lb.scan(table, MEMOIZED, by="country", by_user="user")
    assert all(word in str(caught.value) for word in ("ann", "NL", "BE", "permanent"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_file_of_write_states_single_reports(name, tmp_path):
    """The metadata state the protocol of a report, and the scan's reports are histories."""
    rng, path = np.random.default_rng(0), tmp_path / "m.parquet"
    single = PROTOCOLS[name] if PROTOCOLS[name].repeats() is None else PROTOCOLS[name].repeats().single
    lb.write(single.privatize(np.arange(300) // 2 % 3, rng), path, single, user=np.arange(300) // 2)
    found = lb.scan(path, by_user="user", keep=10**6)
    assert found.n_reports == 150 and found["all",].tallies[0] == lb.read(path, by_user="user")


def test_a_protocol_of_each_cell():
    """A user has one protocol in a cell, and another in the next; a permanent answer has one cell."""
    columns = {"report": [0, 1, 2, 2], "user": ["ann", "ann", "bo", "ann"], "day": [1, 1, 2, 2], "eps": [1.0, 1.0, 2.0, 2.0]}
    settings = {"by_user": "user", "epsilon_column": "eps"}
    found = lb.scan(pa.table(columns), GRR(3, 1.0), by="day", keep=10, **settings)
    expected = lb.read(pa.table(columns), GRR(3, 1.0), by="day", **settings)
    for day, n in ((1, 1), (2, 2)):
        (mine,), (other,) = found[day,].tallies, expected[day,].tallies
        assert (mine.protocol, mine.n_reports) == (other.protocol, n) and (mine.reports == other.reports).all()
    for reader in (lb.read, lb.scan):
        with pytest.raises(lb.errors.DataError) as caught:
            reader(pa.table(columns), GRR(3, 1.0), **settings)
        assert all(word in str(caught.value) for word in ("ann", "two protocols", "group by"))
    texts = [
        protocol_text(make_protocol("memoized_grr", 3, {"epsilon_infinity": top, "epsilon_one": 1.0})) for top in (2, 3)
    ]
    for first, second in (texts, [texts[0], protocol_text(GRR(3, 1.0))], [protocol_text(GRR(3, 1.0)), texts[0]]):
        tied = pa.table({**columns, "protocol": [first, first, second, second]})
        for reader in (lb.read, lb.scan):
            with pytest.raises(lb.errors.DataError, match=r"ann.*permanent"):
                reader(tied, by="day", by_user="user")


@each_row(
    "change, settings, words",
    [
        ({"user": ["ann", None, "bo"]}, {}, ["row 2", "user"]),
        ({"user": ["ann", " ", "bo"]}, {}, ["row 2", "user"]),
        ({"report": [0, 1, 7]}, {}, ["row 3", "report"]),
        ({}, {"by_user": "who"}, ["no column", "who"]),
        ({}, {"missing": "x"}, ["missing", "by_user"]),
        ({}, {"epsilon_column": "eps"}, ["ann", "two protocols"]),
    ],
)
def test_bad_rows_and_settings_are_one_sentence(change, settings, words):
    columns = {"report": [0, 1, 2], "user": ["ann", "ann", "bo"], "eps": [1.0, 2.0, 1.0]} | change
    with pytest.raises(lb.LDPBayesError) as caught:
        lb.scan(pa.table(columns), GRR(3, 1.0), **{"by_user": "user"} | settings)
    assert all(word in str(caught.value) for word in words)


def test_levels_and_bad_rows_by_user():
    columns = {"report": [0, 1, 2, 9], "user": ["ann", "ann", "bo", "bo"], "eps": [1.0, 1.0, 2.0, 2.0]}
    with pytest.warns(lb.errors.LDPBayesWarning):
        found = lb.scan(pa.table(columns), GRR(3, 1.0), by_user="user", epsilon_column="eps", bad_rows="skip", keep=10)
    assert found.n_reports == 2 and "1 row" in found.notes
    assert [tally.protocol.times for tally in found["all",].tallies] == [((2, 1),), ((1, 1),)]


def test_no_files_are_left_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    pq.write_table(reports(PROTOCOLS["grr"]), "r.parquet")
    options = ["--protocol", "grr", "-p", "epsilon=1", "--n-categories", "5", "--set", "by_user=user"]
    assert run(capsys, "scan", "r.parquet", *options, "--output", "s.parquet")[0] == 0
    assert lb.read("s.parquet").n_reports == 200
    assert not list((tmp_path / "temporary").iterdir())


def test_the_page_counts_histories():
    """Who is in two cells has a history in each; columns and sentences about summaries are there where one is."""
    table = pa.table({"report": [0, 1, 2, 2] * 50, "user": np.arange(200) // 4, "day": [1, 1, 2, 2] * 50})
    settings = {"by": "day", "by_user": "user"}
    kept, summed = (lb.scan(table, GRR(3, 1.0), keep=keep, **settings).page() for keep in (1000, 0))
    assert "100 histories of users in 2 cells" in kept.summary
    assert [column.key for column in kept.tables[0].columns] == ["day", "users", "kept"]
    assert {"sample", "category"} <= {column.key for column in summed.tables[0].columns}
    assert "numbers a cell" in str(summed) and "numbers a cell" not in str(kept)
    assert all("earlier version" not in str(note.text) for page in (kept, summed) for note in page.notes)
    alone = lb.scan(table, GRR(3, 1.0), by_user="user").page()
    counted = lb.scan(table, GRR(3, 1.0), by="day").page()
    assert "50 users in 1 cell" in alone.summary and "200 reports in 2 cells" in counted.summary
    assert [column.key for column in counted.tables[0].columns] == ["day", "reports", "kept"]
