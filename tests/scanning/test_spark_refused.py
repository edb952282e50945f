"""What a scan by Spark refuses before Spark is started; none of these tests needs pyspark or Java."""

import socket
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.protocols import GRR
from ldpbayes.scanning import spark as scanning


@pytest.fixture
def file(tmp_path):
    """A file of reports."""
    pq.write_table(pa.table({"report": [1, 2]}), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


@pytest.fixture
def no_session(monkeypatch):
    """A pyspark in name only, without a session."""

    class Sessions:
        @staticmethod
        def getActiveSession():
            return None

    monkeypatch.setattr(scanning, "optional", lambda *args: type("sql", (), {"SparkSession": Sessions}))


@each_row(
    "settings, sentence",
    [
        ({"spark": 3}, "spark must be a Spark session or a master's URL such as local[2], got 3."),
        ({"spark": "nowhere"}, "spark must be the URL of a master such as local[2] or spark://host:7077, got 'nowhere'."),
        ({"spark": "local", "jobs": 2}, "checkpoint and jobs are for scans of one machine; leave them out with spark."),
        ({"spark": "local", "checkpoint": "state"}, "checkpoint and jobs are for scans of one machine; leave them out"),
    ],
)
def test_bad_arguments_are_one_sentence(file, settings, sentence):
    with pytest.raises(lb.errors.ArgumentError) as caught:
        lb.scan(file, GRR(5, 1.0), **settings)
    assert str(caught.value).startswith(sentence)


def test_without_pyspark(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(lb.errors.ArgumentError, match=r"pyspark.*ldpbayes\[spark\]"):
        lb.scan(file, GRR(5, 1.0), spark="local[2]")


def test_without_java(file, monkeypatch, tmp_path, no_session, capsys):
    for setting in ({"PATH": str(tmp_path)}, {"JAVA_HOME": str(tmp_path)}):
        monkeypatch.delenv("JAVA_HOME", raising=False)
        for name, value in setting.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(lb.errors.ArgumentError, match=r"^Spark.*Java 17.*openjdk-17-jre-headless"):
            lb.scan(file, GRR(5, 1.0), spark="local[2]")
    out = tmp_path / "s.parquet"
    arguments = "--protocol grr -p epsilon=1 --n-categories 5 --spark local[2] --output"
    status, printed, err = run(capsys, "scan", file, *arguments.split(), out)
    assert status == 2 and not printed and err.startswith("ldpbayes: Spark needs Java 17") and not out.exists()


@pytest.mark.parametrize(
    "url", ["spark://127.0.0.1:{}", "spark://127.0.0.1:{0},127.0.0.1:{0}", "sc://127.0.0.1:{}/;user_id=x"]
)
def test_a_master_that_does_not_answer(file, monkeypatch, no_session, url):
    monkeypatch.setattr(scanning.shutil, "which", lambda *args, **settings: "java")
    with socket.socket() as held:  # bound, but nobody listens
        held.bind(("127.0.0.1", 0))
        url = url.format(held.getsockname()[1])
        with pytest.raises(lb.errors.ArgumentError, match=r"^Spark.*Connection refused\.$"):
            lb.scan(file, GRR(5, 1.0), spark=url)
    for url in ("spark://", "spark://host:port", "spark://:7077"):
        with pytest.raises(lb.errors.ArgumentError, match=r"(answer|URL)"):
            lb.scan(file, GRR(5, 1.0), spark=url)


def test_the_line_of_an_error_that_says_what_is_wrong():
    worker = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File\nx.Error: bad row\n"
    )
    java = "An error occurred while calling o9.x.\n: java.lang.Exception: no disk\n\tat java"
    for text, reason in {worker: "x.Error: bad row", java: "java.lang.Exception: no disk", "a\nb": "a"}.items():
        assert scanning._reason(RuntimeError(text)) == reason
    assert scanning._reason(RuntimeError()) == "RuntimeError"
