"""A scan lost reports where two keys are equal in Python and not in Arrow. Reports in are reports out."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import read
from ldpbayes.errors import DataError, LDPBayesError
from ldpbayes.protocols import UnaryEncoding, designs
from ldpbayes.scanning import Scan, partials, scan, spark
from ldpbayes.sources import tally

AUTUMN = pd.Timestamp("2024-10-27 00:30", tz="UTC").value  # half past two in Amsterdam, and an hour later again
HALVES = [0] * 300 + [1] * 100


def column(first, second, kind=None):
    return pa.array([(first, second)[i] for i in HALVES], kind)


def dictionary(*values):
    return pa.DictionaryArray.from_arrays(pa.array(HALVES, pa.int32()), pa.array(values))


#: Columns of 300 and 100 rows, and the numbers of reports of their cells.
COLUMNS = {
    "zeros": (column(0.0, -0.0), [400]),
    "halves of zero": (pa.array(np.array([0.0, -0.0], dtype=np.float16)[HALVES]), [400]),
    "a dictionary with a value twice": (dictionary("a", "a"), [400]),
    "a dictionary with an unused nan": (pa.DictionaryArray.from_arrays([0] * 400, pa.array([1.5, np.nan])), [400]),
    "one day in two numbers": (column(86_400_000, 86_400_001, pa.int64()).view(pa.date64()), [400]),
    "two hours of one name": (column(AUTUMN, AUTUMN + 3600 * 10**9, pa.timestamp("ns", "Europe/Amsterdam")), [100, 300]),
    "microseconds": (column(AUTUMN, AUTUMN + 1000, pa.timestamp("ns")), [100, 300]),
    "two normal forms": (column("\u00e9", "e\u0301"), [100, 300]),
    "decimals": (column("1.50", "2").cast(pa.decimal128(5, 2)), [100, 300]),
    "booleans": (column(False, True), [100, 300]),
    "large numbers": (column(2**63, 2**63 + 1, pa.uint64()), [100, 300]),
}
DOORS = {
    "scan": scan,
    "scan of a file": lambda table, *args, **settings: scan(written(table), *args, **settings),
    "scan of pandas": lambda table, *args, **settings: scan(table.to_pandas(), *args, **settings),
    "scan of polars": lambda table, *args, **settings: scan(pl.from_arrow(table).lazy(), *args, **settings),
    "scan in parts": lambda table, *args, **settings: by_hand(table, *args, **settings),
    "read": read,
    "read of pandas": lambda table, *args, **settings: read(table.to_pandas(), *args, **settings),
    "read of polars": lambda table, *args, **settings: read(pl.from_arrow(table), *args, **settings),
    "read of a file": lambda table, *args, **settings: read(written(table), *args, **settings),
}
#: What pandas and Polars do not hold, or not group.
NEITHER = {"a dictionary with a value twice", "a dictionary with an unused nan"}
NOT_IN = {"pandas": NEITHER | {"halves of zero"}, "polars": NEITHER | {"one day in two numbers"}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(table):
    pq.write_table(table, "reports.parquet", row_group_size=350)
    return "reports.parquet"


def by_hand(table, *args, **settings):
    """Run a scan as an engine would: pieces sent one by one, partial results as bytes."""
    found = Scan(table, *args, **settings)
    pieces = [table.slice(start, 90) for start in range(0, 400, 90)]

    def total(*at):
        return sum(partials.Partial.from_bytes(found.fold.partial(piece, *at).to_bytes()) for piece in pieces)

    first = total()
    if found.fold.countable:
        return found.fold.finish(first)
    at = found.fold.pilots(first)
    return found.fold.finish(first, total(at), at)


def reports_of(countable):
    """Return (protocol, column of 400 reports, other settings)."""
    rng = np.random.default_rng(1)
    if countable:
        protocol = designs.warner(0.7)
        return protocol, pa.array(np.array(["no", "yes"])[protocol.privatize(np.arange(400) % 2, rng)]), ["no", "yes"]
    protocol = UnaryEncoding.optimized(32, 1.0)
    return protocol, pa.array(list(map(bytes, protocol.privatize(np.arange(400) % 32, rng)))), None


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:The column 'key' holds 'e:ldpbayes.errors.LDPBayesWarning")
@pytest.mark.parametrize("countable", [True, False])
@pytest.mark.parametrize("name", COLUMNS)
def test_every_door_gives_every_report_back(name, countable):
    keys, expected = COLUMNS[name]
    protocol, reports, categories = reports_of(countable)
    table = pa.table({"report": reports, "key": keys})
    for door, run in DOORS.items():
        if name not in NOT_IN.get(door.split()[-1], ()):
            cells = run(table, protocol, report="report", by="key", categories=categories)
            assert sorted(round(cell.n_reports) for cell in cells.values()) == expected, (door, list(cells))
            assert len({str(key) for key in cells}) == len(cells)


def test_two_columns_of_keys():
    protocol, reports, categories = reports_of(True)
    table = pa.table({"report": reports, "key": COLUMNS["zeros"][0], "other": dictionary("a", "a")})
    for door, run in DOORS.items():
        if door.split()[-1] not in NOT_IN:
            cells = run(table, protocol, report="report", by=["key", "other"], categories=categories)
            assert list(cells) == [(0.0, "a")] and cells[0.0, "a"].n_reports == 400, door


@each_row("first, second", list(itertools.permutations([True, 1, 1.0, "1"], 2)))
def test_equal_keys_of_two_kinds_are_refused(first, second):
    """True, 1 and 1.0 are equal in Python: pieces, and scans, that hold two of them do not add up to one cell."""
    protocol, reports, categories = reports_of(True)
    found = [
        Scan(pa.table({"report": reports, "key": [key] * 400}), protocol, report="report", by="key", categories=categories)
        for key in (first, second)
    ]
    tables = [pa.table({"report": reports, "key": [key] * 400}) for key in (first, second)]
    with pytest.raises(DataError, match=r"'key': holds.*others"):
        found[0].fold.finish(sum(found[0].fold.partial(table) for table in tables))
    with pytest.raises(LDPBayesError, match=r"'key': holds.*others"):
        found[0]() + found[1]()
    mixed = pd.DataFrame({"report": reports.to_pandas(), "key": pd.Series([first] * 300 + [second] * 100, dtype=object)})
    with pytest.raises(LDPBayesError):
        read(mixed, protocol, report="report", by="key", categories=categories)


def test_times_that_python_does_not_hold_are_refused():
    """Two of them would be one cell."""
    protocol, reports, categories = reports_of(True)
    table = pa.table({"report": reports, "key": column(AUTUMN, AUTUMN + 1, pa.timestamp("ns"))})
    for data in (table, table.to_pandas()):
        with pytest.raises(DataError, match=r"'key'.*microsecond.*001"):
            read(data, protocol, report="report", by="key", categories=categories)
        with pytest.raises(DataError, match="microsecond"):
            scan(data, protocol, report="report", by="key", categories=categories)


def test_a_lost_report_is_an_error(monkeypatch):
    """Whatever loses a report on the way, the numbers at both ends are compared."""
    protocol, reports, categories = reports_of(True)
    table = pa.table({"report": reports, "key": COLUMNS["microseconds"][0]})
    merge = partials.merge
    monkeypatch.setattr(partials, "merge", lambda group, reports, counts: merge(group[1:], reports[1:], counts[1:]))
    with pytest.raises(DataError, match=r"^400 reports.*\d+ came"):
        scan(table, protocol, report="report", by="key", categories=categories)
    monkeypatch.setattr(tally, "groups_of", lambda group: [(0, np.arange(1))])
    with pytest.raises(DataError, match=r"400 reports.*\d+ came"):
        read(table, protocol, report="report", by="key", categories=categories)


def test_a_file_with_fewer_rows_than_its_footer_says(tmp_path):
    """Pages that end early: the reader of Arrow says nothing."""
    protocol, reports, categories = reports_of(True)
    found = Scan(written(pa.table({"report": reports})), protocol, report="report", categories=categories)
    (piece,) = found.pieces()
    object.__setattr__(piece, "n_rows", 500)
    with pytest.raises(DataError, match=r"500 reports.*400 came"):
        found.fold.partial(piece)


@pytest.mark.filterwarnings("ignore:The column .key. holds .e:ldpbayes.errors.LDPBayesWarning")
def test_what_spark_sends():
    """The lines of tasks hold every row; keys that JSON does not know come back as they were."""
    protocol, reports, categories = reports_of(True)
    for name, (keys, expected) in COLUMNS.items():
        table = pa.table({"report": reports, "key": keys})
        found = Scan(table, protocol, report="report", by="key", categories=categories)
        lines = [
            spark._result(i, [found.fold.partial(table.slice(start, 100))]) for i, start in enumerate(range(0, 400, 100))
        ]
        total = sum(partials.Partial.from_bytes(line.column("partial")[0].as_py()) for line in lines)
        assert total.n_rows == 400
        assert sorted(round(cell.n_reports) for cell in found.fold.finish(total).values()) == expected, name


#: pandas before 3.1 takes these for one name.
OF_TEXTS = (["a", "a\0"] if pd.__version__ >= "3.1" else ["a", "b"], False)


def test_users_of_two_kinds_are_not_one():
    """NumPy makes the text "1" of the number 1 beside texts, and leaves out a NUL at the end of a text."""
    protocol = lb.GRR(2, 1.0)
    for users, error in (([1, "1"], True), ([True, 1], True), OF_TEXTS, ([2**63 + 1, -1, 2**63 + 2], False)):
        frame = pd.DataFrame({"report": [0] * len(users), "user": pd.Series(users, dtype=object)})
        if error:
            with pytest.raises(LDPBayesError):
                read(frame, protocol, report="report", by_user="user")
            with pytest.raises(LDPBayesError, match="one kind"):
                lb.Tally(protocol, [0] * len(users), user=users)
        elif max(map(str, users), key=len).isdecimal():  # Arrow holds no such numbers beside negative ones
            assert lb.Tally(protocol, [0] * len(users), user=users).n_reports == len(users)
            with pytest.raises(DataError, match=r"'user'.*64 bits"):
                read(frame, protocol, report="report", by_user="user")
        else:
            assert lb.Tally(protocol, [0] * len(users), user=users).n_reports == len(users)
            assert read(frame, protocol, report="report", by_user="user").n_reports == len(users)
