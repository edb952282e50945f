"""Kind: the same reports count once, or are refused with a sentence that says how to add them all the same.

Doors: read, scan, collection files, files of summaries, sums of scans, the command line. Siblings: the same name twice and a
symbolic link (one file), a copy, a hard link, a retry of a summary under another name, one from another machine, partly the
same files; few rows that agree by chance under other keys, empty days, and equal small counts are added. So are sorted rows,
tables of small counts, rows that are numbered, small files of one name, and sums that every report gives the same part of.
"""

import contextlib
import itertools
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run

import ldpbayes as lb
from ldpbayes import GRR
from ldpbayes.protocols import LocalHashing, SubsetSelection, UnaryEncoding
from ldpbayes.scanning import Scan

GRR4, OUE = GRR(4, 1.0), UnaryEncoding.optimized(32, 1.0)


@pytest.fixture
def folder(tmp_path):
    """A folder with 500 reports in one file."""
    (tmp_path / "reports").mkdir()
    rng = np.random.default_rng(1)
    lb.write(OUE.privatize(rng.integers(32, size=500), rng), tmp_path / "reports" / "a.parquet", OUE)
    return tmp_path / "reports"


@pytest.mark.parametrize("door", [lambda *a, **k: lb.read(*a, **k).n_reports, lambda *a, **k: lb.scan(*a, **k).n_reports])
def test_files_of_reports(folder, door):
    first, second = folder / "a.parquet", folder / "b.parquet"
    assert door([first, first]) == 500
    second.symlink_to(first)
    assert door(folder) == 500
    second.unlink()
    for make, words in ((shutil.copy, "has the same bytes as"), (os.link, "is a hard link to")):
        make(first, second)
        with pytest.raises(lb.errors.DataError, match=rf'b.parquet: {words}.*a.parquet.*copies="add"$'):
            door(folder)
        assert door(folder, copies="add") == 1000
        second.unlink()
    with pytest.raises(lb.errors.ArgumentError, match="copies must"):
        door(folder, copies="twice")


def test_channels_that_have_the_same_rows_and_rows_that_no_channel_has(tmp_path):
    """By what the file states: no condition and one, overlapping lists; a list of values is one channel."""
    table = "day,report\n" + "".join(f"{k % 5 + 1},{'no' if k % 3 else 'yes'}\n" for k in range(100))
    (tmp_path / "r.csv").write_text(table)
    channel = '[[channels]]\nprotocol = "grr"\nparameters = {{ epsilon = 1 }}\nfile = "r.csv"\nreport = "report"\n{}\n'

    def found(*conditions, **settings):
        text = 'categories = ["no", "yes"]\n' + "".join(channel.format(one) for one in conditions)
        (tmp_path / "c.toml").write_text(text)
        return lb.read(tmp_path / "c.toml", **settings)

    one = "where = { day = 1 }"
    for twice in (("", ""), (one, ""), (one, 'where = { day = ["1", 2] }'), (one, "where = { day = 1.0 }")):
        with pytest.raises(lb.errors.DataError, match="two channels have the same rows"):
            found(*twice)
    assert found("", "", copies="add").n_reports == 200
    (tmp_path / "twin.csv").write_text(table)
    for other, words in (
        ("twin.csv", "the same bytes"),
        ("../" + tmp_path.name + "/r.csv", "two channels have the same rows"),
    ):
        (tmp_path / "d.toml").write_text((tmp_path / "c.toml").read_text().replace("r.csv", other, 1))
        with pytest.raises(lb.errors.DataError, match=words):
            lb.read(tmp_path / "d.toml")
    (tmp_path / "wide.csv").write_text("report,first,second\nno,30,40\nyes,20,10\n")
    columns = [channel.format(f'count = "{name}"').replace("r.csv", "wide.csv") for name in ("first", "second")]
    (tmp_path / "w.toml").write_text('categories = ["no", "yes"]\n' + "".join(columns))
    assert [tally.n_reports for tally in lb.read(tmp_path / "w.toml").tallies] == [50, 50]
    days = found('name = "a"\nwhere = { day = 1 }', 'name = "b"\nwhere = { day = [3, 4] }')
    assert [tally.n_reports for tally in days.tallies] == [20, 40]
    assert "day is 2, 5 belong to no channel" in days.notes
    assert "no channel" not in found("where = { day = [1, 2, 3, 4, 5] }").notes
    with pytest.raises(lb.errors.DataError, match="a list of values"):
        found("where = { day = [[1, 2], 3] }")


def test_conditions_are_compared_as_rows_are(tmp_path):
    """By the type of the column: 1.5 and "1.50" are one number and two texts, true and "TRUE" one truth value."""
    channel = '[[channels]]\nprotocol = "grr"\nparameters = {{ epsilon = 1 }}\nfile = "r.parquet"\nwhere = {{ w = {} }}\n'
    for column, first, second, same in (
        ([1.5, 2.5], "1.5", '"1.50"', True),
        (["1.5", "1.50"], '"1.5"', '"1.50"', False),
        (["1", "01"], "1", '"01"', False),
        ([True, False], "true", '"TRUE"', True),
        (["a", "A"], '"a"', '"A"', False),
        ([1, 2], "1", "[2, 1.0]", True),
        (["1", "1.0"], "1.0", '"1.0"', False),  # the number is written 1 in a column of texts
    ):
        pq.write_table(pa.table({"w": column * 4, "report": ["no", "yes"] * 4}), tmp_path / "r.parquet")
        text = 'categories = ["no", "yes"]\n' + channel.format(first) + channel.format(second)
        (tmp_path / "c.toml").write_text(text)
        with pytest.raises(lb.errors.DataError, match="the same rows") if same else contextlib.nullcontext():
            assert lb.read(tmp_path / "c.toml").n_reports == 8


def test_a_collection_file_and_the_command_line(folder, capsys):
    shutil.copy(folder / "a.parquet", folder / "b.parquet")
    toml = folder.parent / "c.toml"
    labels = ", ".join(f'"{i}"' for i in range(32))
    toml.write_text(f'categories = [{labels}]\n[[channels]]\nfile = "reports/*.parquet"\n')
    with pytest.raises(lb.errors.DataError, match="same bytes"):
        lb.read(toml)
    assert lb.read(toml, copies="add").n_reports == 1000
    for arguments in (("scan", folder), ("fit", toml, "--draws", 0)):
        status, _, err = run(capsys, *arguments)
        assert status == 2 and "--copies add" in " ".join(err.split())
    status, out, _ = run(capsys, "scan", folder, "--copies", "add")
    assert status == 0 and "1,000 reports" in out


def test_few_rows_that_agree_by_chance_are_added(tmp_path):
    """Days of three answers each, days without any, and tables of counts; twenty different rows do not agree by chance."""
    for day in range(30):
        path = tmp_path / f"day={day}" / "a.csv"
        path.parent.mkdir()
        path.write_text("report\n" + ("1\n1\n1\n" if day else ""))
    assert lb.read(tmp_path, GRR4, by="day").n_reports == 87
    counts = tmp_path / "counts"
    counts.mkdir()
    for name in "ab":
        (counts / f"{name}.csv").write_text("report,count\n0,60\n1,40\n")
    assert lb.read(counts, GRR(2, 1.0), count="count").n_reports == 200
    for name in "ab":
        (counts / f"{name}.csv").write_text("report,time\n" + "".join(f"{i % 2},{i}\n" for i in range(20)))
    with pytest.raises(lb.errors.DataError, match="same bytes"):
        lb.read(counts, GRR(2, 1.0))


@pytest.mark.parametrize(
    ("text", "protocol", "count", "n"),
    [
        ("report,count\n" + "".join(f"{i},{int(i == 3)}\n" for i in range(32)), GRR(32, 1.0), "count", 2),
        ("report\n" + "0\n" * 33 + "1\n" * 27, GRR(2, 1.0), None, 120),
        ("id,report\n" + "".join(f"{i},0\n" for i in range(1, 31)), GRR(2, 5.0), None, 60),
    ],
    ids=["table of counts", "sorted", "numbered"],
)
def test_days_that_are_alike_by_chance(tmp_path, text, protocol, count, n):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "a.csv").write_text(text)
    assert sum(cell.n_reports for cell in lb.read(tmp_path, protocol, count=count, by="day").values()) == n
    if count:  # of so many reports that they do not agree
        for day in (1, 2):
            (tmp_path / f"day={day}" / "a.csv").write_text(text.replace(",0", ",30"))
        with pytest.raises(lb.errors.DataError, match="same bytes"):
            lb.read(tmp_path, protocol, count=count, by="day")


def test_small_files_of_one_name_are_added(tmp_path):
    scans = []
    for town in "ab":
        (tmp_path / town).mkdir()
        (tmp_path / town / "part-0.csv").write_text("report\n0\n0\n0\n")
        scans.append(lb.scan(tmp_path / town, GRR4))
    assert sum(scans).n_reports == 6


def test_sums_that_do_not_tell_reports_apart(tmp_path):
    """At the uniform pilot every set of one size has the same likelihood; two answers of OLH have few different sums."""
    for protocol, n in ((SubsetSelection(32, 1.0), 500), (LocalHashing(2, epsilon=0.5, buckets=2), 100)):
        a, rng = protocol.n_categories, np.random.default_rng(5)
        days = np.arange(40 * n) // n
        table = lb.write(protocol.privatize(rng.integers(a, size=40 * n), rng), None, protocol, day=days, hour=days % 20)
        found = Scan(table, by="day").again(np.full(a, 1 / a))
        assert found.added().n_reports == 40 * n
        halves = [Scan(table.slice(i * 20 * n, 20 * n), by="hour").again(np.full(a, 1 / a)) for i in (0, 1)]
        assert sum(halves).n_reports == 40 * n
        with pytest.raises(lb.errors.ArgumentError, match="same reports"):
            found + found


def test_add_is_kept_by_a_scan(folder):
    """A scan with copies="add" adds its cells, and itself to others, by Python and by the command line."""
    for day in (1, 2):
        (folder / f"day={day}").mkdir()
        shutil.copy(folder / "a.parquet", folder / f"day={day}" / "a.parquet")
    (folder / "a.parquet").unlink()
    found = lb.scan(folder, by="day", pilot_by=(), copies="add")
    assert found.added().n_reports == 1000 and (found + found).n_reports == 2000
    lb.write(found, folder.parent / "sums.parquet")
    with pytest.raises(lb.errors.ArgumentError, match='copies="add"'):
        lb.read(folder.parent / "sums.parquet").added()
    assert lb.read(folder.parent / "sums.parquet", copies="add").added().n_reports == 1000


@pytest.mark.parametrize("protocol", [GRR4, OUE], ids=["counted", "sums"])
def test_summaries(tmp_path, protocol):
    rng = np.random.default_rng(2)
    for name in "abc":
        reports = protocol.privatize(rng.integers(4, size=1000), rng)
        (tmp_path / name).mkdir()
        lb.write(reports, tmp_path / name / f"{name}.parquet", protocol)
    scan, pilots = Scan(tmp_path / "a"), np.full(32, 1 / 32)

    def summary(*names, to):
        again = Scan([tmp_path / name / f"{name}.parquet" for name in names])
        found = again() if protocol is GRR4 else again.again(pilots)
        lb.write(found, tmp_path / f"{to}.parquet")
        return found

    one, other, both = summary("a", to="s1"), summary("b", to="s2"), summary("b", "c", to="s3")
    assert (one + other).n_reports == 2000 and lb.read([tmp_path / "s1.parquet", tmp_path / "s2.parquet"]).n_reports == 2000
    with pytest.raises(lb.errors.ArgumentError, match=r"same files.*b.parquet"):
        other + both
    shutil.copytree(tmp_path / "a", tmp_path / "machine" / "a")  # the same file on another machine
    elsewhere = Scan(tmp_path / "machine" / "a")
    with pytest.raises(lb.errors.ArgumentError, match="same files"):
        scan() + elsewhere()
    retry = tmp_path / "s1-retry.parquet"
    summary("a", to="s1-retry")
    parts = [tmp_path / "s1.parquet", tmp_path / "s2.parquet", retry]  # three: the sum of two is no copy of the third
    with pytest.raises(lb.errors.LDPBayesError, match='copies="add"'):
        lb.read(parts)
    assert lb.read(parts, copies="add").n_reports == 3000
    (tmp_path / "renamed").mkdir()
    shutil.copy(tmp_path / "a" / "a.parquet", tmp_path / "renamed" / "z.parquet")
    renamed = Scan(tmp_path / "renamed")
    renamed = renamed() if protocol is GRR4 else renamed.again(pilots)
    if protocol is OUE:  # counts of 1,000 answers to four may agree
        lb.write(renamed, tmp_path / "s4.parquet")
        sums = [one, other, renamed]
        for order in itertools.permutations(sums):  # a sum remembers what each of its scans held
            with pytest.raises(lb.errors.ArgumentError, match="same reports"):
                sum(order)
        with pytest.raises(lb.errors.LDPBayesError, match="same reports"):
            lb.read([tmp_path / f"{name}.parquet" for name in ("s1", "s2", "s4")])
        assert sum(sums[:2]).n_reports == 2000 and (other + renamed).n_reports == 2000


def test_an_epsilon_that_changes_is_a_channel_of_its_own(tmp_path):
    """Doors: scan by metadata, summaries read together."""
    rng = np.random.default_rng(3)
    for day, level in enumerate((1.0, 1.0, 1.2)):
        protocol = UnaryEncoding.optimized(32, level)
        lb.write(protocol.privatize(rng.integers(32, size=300), rng), tmp_path / f"{day}.parquet", protocol)
    scanned = lb.scan(tmp_path)
    assert sorted(protocol.epsilon for protocol in scanned.protocols) == [1.0, 1.2]
    assert len(lb.read(tmp_path).tallies) == 2
    (tmp_path / "sums").mkdir()
    for day in range(3):
        lb.write(lb.scan(tmp_path / f"{day}.parquet"), tmp_path / "sums" / f"{day}.parquet")
    with pytest.raises(lb.errors.ArgumentError, match=r"2\.parquet .*pilot"):
        lb.read([tmp_path / "sums" / "0.parquet", tmp_path / "sums" / "2.parquet"])
