"""Scans by a real local Spark: the cells of one machine, from files and data frames; failures are one sentence."""

import importlib.util
import os
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run

import ldpbayes as lb
from ldpbayes.protocols import GRR, LocalHashing, Rappor, UnaryEncoding
from ldpbayes.scanning import Scan
from ldpbayes.scanning import spark as scanning

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("pyspark is not installed (make scale-env)", allow_module_level=True)
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("Java is not installed (apt-get install openjdk-17-jre-headless)", allow_module_level=True)

pytestmark = pytest.mark.together("models")

PROTOCOLS = {
    "grr": GRR(5, 1.0),
    "bits that are counted": UnaryEncoding.optimized(11, 1.0),
    "oue": UnaryEncoding.optimized(20, 1.0),
    "olh": LocalHashing(20, 1.0),
    "rappor": Rappor.one_time(20, 1.0, 16, 3, 2, candidates=tuple(f"c{i}" for i in range(20))),
    "kept": UnaryEncoding.optimized(20, 3.0),
}


@pytest.fixture(scope="session")
def session():
    """One local Spark for all tests."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # these jobs are short
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def written(folder, protocol, files=3, n=400):
    """Write files of n reports each with the columns country and day, in row groups of 100, and return the folder."""
    folder.mkdir(exist_ok=True)
    for i in range(files):
        rng = np.random.default_rng(i)
        reports = protocol.privatize(rng.integers(protocol.n_categories, size=n), rng)
        columns = {"country": rng.choice(["NL", "BE", "FR"], size=n), "day": rng.integers(8, 11, size=n)}
        table = lb.write(reports, None, protocol, **columns)
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=100)
    return folder


def agree(found, expected):
    """Check cells against others whose sums were added in another order."""
    assert list(found) == list(expected) and found.by == expected.by
    for key, cell in found.items():
        other = expected[key]
        if cell == other:
            continue
        assert cell.n_reports == other.n_reports
        np.testing.assert_array_equal(cell.supports, other.supports)
        for name in ("pilot", "value", "gradient", "square", "cross", "log_constant"):
            np.testing.assert_allclose(getattr(cell, name), getattr(other, name), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    "name", ["grr", "oue", *(pytest.param(name, marks=pytest.mark.calibrate) for name in ("rappor", "kept"))]
)
def test_files_give_exactly_the_cells_of_one_machine(name, tmp_path, session, monkeypatch):
    monkeypatch.setattr("ldpbayes.sources.parquet.PIECE", 200)  # two row groups in a piece
    folder = written(tmp_path / "reports", PROTOCOLS[name])
    settings = {"by": ["country", "day"], "pilot_by": "country", "sample": 40}
    scan = Scan(folder, spark=session, **settings)
    assert len(scan.pieces()) == 6
    found, expected = scan(), lb.scan(folder, **settings)
    assert found == expected and found.samples == expected.samples


@pytest.mark.parametrize(
    "name", ["olh", *(pytest.param(name, marks=pytest.mark.calibrate) for name in ("grr", "bits that are counted", "oue"))]
)
def test_data_frames_give_the_cells_of_one_machine(name, tmp_path, session):
    folder = written(tmp_path / "reports", PROTOCOLS[name])
    frame = session.read.parquet(str(folder))
    found = lb.scan(frame, by=["country", "day"], pilot_by="country", sample=40)
    agree(found, lb.scan(folder, by=["country", "day"], pilot_by="country"))
    assert set(found.samples) == (set(found) if name in ("olh", "oue") else set())  # the others' reports are counted
    if found.samples:
        kept = np.concatenate([sample.keys for sample in found.samples.values()])
        assert len(np.unique(kept)) == len(kept) > 0


def test_lists_are_counted_and_frames_computed_on_the_way(session):
    protocol = PROTOCOLS["bits that are counted"]
    rng = np.random.default_rng(3)
    reports = protocol.privatize(rng.integers(11, size=300), rng)
    bits = np.unpackbits(reports, axis=1, count=11).astype(bool)
    table = pa.table({"bits of it": list(bits), "country": ["NL", "BE", "FR"] * 100})
    frame = session.createDataFrame(table).filter("country != 'FR'")
    rows = np.arange(300) % 3 != 2
    found = lb.scan(frame, protocol, report="bits of it", by="country")
    expected = lb.scan(table.filter(pa.array(rows)), protocol, report="bits of it", by="country")
    assert found == expected
    again = Scan(frame, protocol, report="bits of it")
    with pytest.raises(lb.errors.ArgumentError, match="its workers"):
        again.pieces()


def test_summaries_are_expanded_again(tmp_path, session):
    folder = written(tmp_path / "reports", PROTOCOLS["oue"], files=2)
    pilot = np.full(20, 0.05)
    found = Scan(folder, by="day", spark=session).again(pilot)
    assert found == Scan(folder, by="day").again(pilot)


def test_a_bad_report_in_a_worker_is_one_sentence(tmp_path, session, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reports = np.arange(500) % 5
    for i, bad in enumerate((None, 437, 12)):
        values = reports.copy()
        if bad is not None:
            values[bad] = 7
        pq.write_table(pa.table({"report": values, "country": ["NL"] * 500}), f"{i}.parquet")
    found = {}
    for name, settings in {"one machine": {}, "spark": {"spark": session}}.items():
        with pytest.raises(lb.errors.DataError, match=r"1.parquet.*'report'.*438:.*7") as caught:
            lb.scan(str(tmp_path / "*.parquet"), GRR(5, 1.0), by="country", **settings)
        found[name] = str(caught.value)
    assert found["spark"] == found["one machine"]
    capfd.readouterr()
    command = "scan *.parquet --protocol grr -p epsilon=1 --n-categories 5 --by country --spark local[2] --output s.parquet"
    status, out, err = run(capfd, *command.split())
    assert status == 2 and not out and not (tmp_path / "s.parquet").exists()
    assert err.strip().startswith("ldpbayes: ") and "row 438" in err and "Traceback" not in err


def test_a_bad_row_of_a_frame_is_one_sentence(session):
    protocol = PROTOCOLS["oue"]
    table = pa.table({"report": [bytes(3)] * 5 + [bytes(2)], "country": ["NL"] * 6})
    frame = session.createDataFrame(table).coalesce(1)
    with pytest.raises(lb.errors.DataError, match=r"partition 0.*'report'.*6:"):
        lb.scan(frame, protocol)
    with pytest.raises(lb.errors.DataError, match=r"^field 'report'.*0\.\.4"):
        lb.scan(session.createDataFrame(pa.table({"report": [1, 2, 9]})), GRR(5, 1.0))
    with pytest.raises(lb.errors.DataError, match=r"'county'.*report, country"):
        lb.scan(frame, protocol, by="county")
    with pytest.raises(lb.errors.DataError, match=r"^Spark could.*[Dd]ivi") as caught:
        lb.scan(session.createDataFrame(pa.table({"report": [1, 0]})).selectExpr("1 div report as report"), GRR(5, 1.0))
    assert "\n" not in str(caught.value)
    with pytest.raises(lb.errors.DataError, match="no rows"):
        lb.scan(frame.filter("country = 'BE'"), protocol)


def test_an_error_in_a_worker_is_one_sentence(session):
    def fails(piece):
        raise ZeroDivisionError("by nothing")

    table = scanning.SparkSource(session.createDataFrame(pa.table({"report": [1]})))
    with pytest.raises(lb.errors.DataError, match=r"^Spark.*ZeroDivisionError:.*nothing$"):
        table.total(fails, ["report"])


def test_the_command(tmp_path, session, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "reports", PROTOCOLS["oue"], files=2)
    status, out, err = run(capsys, "scan", "reports", "--by", "country", "--spark", "local[2]", "--output", "s.parquet")
    assert status == 0 and "800 reports in 3" in out, err
    assert lb.read("s.parquet") == lb.scan("reports", by="country")


def test_spark_reads_files_only(session):
    table = pa.table({"report": [1]})
    with pytest.raises(lb.errors.ArgumentError, match="spark reads"):
        lb.scan(table, GRR(5, 1.0), spark=session)
