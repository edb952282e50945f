"""Small files and short commands that took gigabytes, or never ended. Memory is the peak of a child process."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpbayes as lb
from ldpbayes import read
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.sources import parquet as parquet_batches
from studies.runner import find_study, run_study

#: Bytes above those after the imports: six times a column's limit, which is 2^27; the files below took up to 4 GB.
MEMORY = 6 * parquet_batches.MOST_BYTES
#: Begins a child: its own peak, in bytes. That of ``resource`` begins with the peak of the process that started the child.
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
"""

CHILD = f"""{PEAK}
import resource, sys, warnings
import pyarrow.parquet
import ldpbayes as lb
from ldpbayes.scanning import scan
warnings.simplefilter("ignore")
protocol = lb.protocols.warner(0.7)
sets = lb.protocols.UnaryEncoding.optimized(32, 1.0)
def refused(*args, **settings):
    try:
        read(*args, **settings)
    except lb.LDPBayesError as err:
        assert len(str(err)) < 2500
    else:
        raise AssertionError(args)
before = peak()
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
for path in sys.argv[1:]:
    for read in (lb.read, lambda *args, **settings: scan(*args, **settings)):
        refused(path, protocol, report="report", categories=["no", "yes"])
        refused(path, sets, report="report")
print(peak() - before)
"""


def bombs(folder):
    """Write files of at most 70 kB that hold, or say that they hold, gigabytes; return their paths."""
    zeros = np.zeros(2**27, dtype=bool)
    one = pa.DictionaryArray.from_arrays(np.zeros(2**21, dtype=np.int32), pa.array(["x" * 20_000]))
    differences = {"use_dictionary": False, "column_encoding": {"report": "DELTA_BYTE_ARRAY"}}
    tables = {
        "list": (pa.ListArray.from_arrays([0, zeros.size], pa.array(zeros)), {}),
        "dictionary": (one, {}),
        "delta": (pa.array(["x" * 100_000] * 5000), differences),
        "text": (pa.array(["x" * (parquet_batches.MOST_BYTES + 1)]), {"use_dictionary": False}),
    }
    for name, (column, settings) in tables.items():
        pq.write_table(pa.table({"report": column}), folder / f"{name}.parquet", compression="zstd", **settings)
    return [str(folder / f"{name}.parquet") for name in tables]


#: Files that ``bombs`` wrote: to write them takes the time and the memory that reading them must not take.
STORED = [
    str(pathlib.Path(__file__).parents[1] / "data" / "bombs" / f"{name}.parquet")
    for name in ("list", "dictionary", "delta", "text")
]


@pytest.mark.parametrize("stored", [True, pytest.param(False, marks=pytest.mark.calibrate)], ids=["stored", "written"])
def test_parquet_files_are_refused_before_their_bytes_are_made(stored, tmp_path):
    paths = STORED if stored else bombs(tmp_path)
    assert max(os.path.getsize(path) for path in paths) < 70_000
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MEMORY


def test_rows_without_bytes_are_no_reports(tmp_path, monkeypatch):
    path = tmp_path / "reports.parquet"
    pq.write_table(pa.table({"report": pa.array(["no", "yes"] * 50)}), path)
    monkeypatch.setattr(parquet_batches, "ITEMS", 10)
    monkeypatch.setattr(parquet_batches, "ROWS_A_BYTE", 0)
    with pytest.raises(lb.errors.DataError, match="holds 100"):
        list(parquet_batches.read_batches(path, ["report"]))


def test_lists_of_long_labels_are_not_written_out(tmp_path):
    """One row of a list that names a long label two million times: a dictionary of one entry, and codes."""
    texts = pa.DictionaryArray.from_arrays(np.zeros(2**21, dtype=np.int32), pa.array(["x" * 20_000]))
    pq.write_table(pa.table({"report": pa.ListArray.from_arrays([0, 2**21], texts)}), tmp_path / "t.parquet")
    for door in (read, lambda *args, **settings: lb.scan(*args, **settings)):
        with pytest.raises(lb.errors.DataError, match=r"t\.parquet.*'report'.*row"):
            door(tmp_path / "t.parquet", lb.protocols.UnaryEncoding.optimized(32, 1.0), report="report")


def test_arrow_files_are_not_decoded_beyond_what_reports_take(tmp_path):
    """Compressed buffers of zeros, dictionaries of long texts, and long entries of dictionaries that many rows name."""
    many = pa.DictionaryArray.from_arrays(np.zeros(2**21, dtype=np.int32), pa.array([b"x" * 20_000]))
    long = pa.DictionaryArray.from_arrays(np.zeros(10, dtype=np.int32), pa.array(["x" * 2**28]))
    said = {"zeros": "says that it holds 268,", "many": "a report has 20000 bytes", "long": "says that it holds 268,"}
    for (name, sentence), column in zip(said.items(), (pa.array(np.zeros(2**28, dtype=np.uint8)), many, long), strict=True):
        path, table = tmp_path / f"{name}.arrow", pa.table({"report": column})
        with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        assert path.stat().st_size < 10**5
        for door in (read, lambda *args, **settings: lb.scan(*args, **settings)):
            with pytest.raises(lb.errors.DataError, match=sentence):
                door(path, lb.protocols.UnaryEncoding.optimized(32, 1.0), report="report")
    # In a child: Arrow's own peak is that of the process, and other tests of it have taken more.
    paths = [tmp_path / f"{name}.arrow" for name in said]
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MEMORY


def test_batches_hold_every_row_in_order(tmp_path, monkeypatch):
    """Limits that split every row group give the table of Arrow itself."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "text": [f"{'x' * int(k)}" for k in rng.integers(50, size=3000)],
            "bytes": [bytes(int(k)) for k in rng.integers(50, size=3000)],
            "list": [[True] * int(k) for k in rng.integers(5, size=3000)],
            "number": np.arange(3000),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=700, data_page_size=512)
    monkeypatch.setattr(parquet_batches, "MOST_BYTES", 6000)
    monkeypatch.setattr(parquet_batches, "ITEMS", 500)
    parts = list(parquet_batches.read_batches(tmp_path / "t.parquet", table.column_names))
    assert len(parts) > 10
    whole = [row for part in parts for row in part.to_pylist()]
    assert whole == table.to_pylist()


def test_lists_of_long_texts_are_read_in_parts(tmp_path):
    """An entry of the dictionary that many lists name is written once, and takes its length in each of them."""
    texts = pa.array(["x" * 20_000] * 2**14)
    table = pa.table({"report": pa.ListArray.from_arrays(np.arange(2**14 + 1, dtype=np.int32), texts)})
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", row_group_size=2**14)
    sizes = [(part.num_rows, part.nbytes) for part in parquet_batches.read_batches(tmp_path / "t.parquet", ["report"])]
    assert sum(rows for rows, _ in sizes) == 2**14
    assert max(size for _, size in sizes) < 1.1 * parquet_batches.MOST_BYTES


def test_encodings_that_arrow_makes_no_codes_of(tmp_path):
    """Texts that a writer has stored as differences, as Spark does in version 2 of the format, are read and scanned."""
    table = pa.table({"report": ["no", "yes"] * 50})
    pq.write_table(table, tmp_path / "t.parquet", use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    settings = {"report": "report", "categories": ["no", "yes"]}
    assert read(tmp_path / "t.parquet", lb.GRR(2, 1.0), **settings).counts.tolist() == [50, 50]
    assert lb.scan(str(tmp_path / "t.parquet"), lb.GRR(2, 1.0), **settings)["all",].n_reports == 100


def test_cohorts_with_more_buckets_than_categories():
    """Empty buckets add nothing: a million cohorts of a million buckets are fitted in seconds."""
    dense = CohortRR(5, 1.0, 40, 30, seed=3)
    p = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    h = np.concatenate([np.arange(40)[:, None] == buckets for buckets in dense.table]).astype(float)
    channel = (1 + dense.beta * h) / (30 * (40 + dense.beta))
    inverse = 30 * (40 + dense.beta) / dense.beta * np.linalg.pinv(h)
    shift = inverse @ channel
    expected = (inverse**2 @ (channel @ p) - (shift @ p) ** 2) / 100
    assert np.allclose(dense.decoder().variance(p, 100, "distribution"), expected, rtol=1e-8)
    assert np.array_equal(dense.meetings, h.T @ h)
    large = CohortRR(3, 1.0, 2**20, 2**20)
    started = time.process_time()
    tree = lb.fit(lb.Tally(large, [[1, 2], [5, 100]], [30, 20]), random_seed=1, draws=100)
    assert np.isfinite(tree["posterior"]["distribution"]).all()
    assert time.process_time() - started < 30


def test_draws_of_many_categories_are_fewer():
    from ldpbayes.road.request import Request

    assert [Request().sizes(a)["draws"] for a in (2, 4000, 10_000, 50_000)] == [1000, 1000, 419, 250]


def test_a_study_without_end_is_refused():
    with pytest.raises(ArgumentError, match=r"replications must.*1000000000000"):
        run_study(find_study("risk"), replications=10**12)


def test_ctrl_c_of_a_module_and_of_a_library():
    """``python -m ldpbayes`` as well; a program that imports the library keeps its own handler."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ldpbayes", "fit", "example:nigeria"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    handled = pathlib.Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and "numpy" not in handled.read_text():  # the package's first import after the handler
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert said == "ldpbayes: interrupted; no file was left incomplete.\n"
    code = "import signal, ldpbayes; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


@pytest.mark.calibrate
def test_draws_of_many_categories_are_held_a_few_times():
    """GRR with 10,000 categories took 2 GB, 16 times its draws of P; 2,000 take 6.3 times theirs."""
    code = f"""{PEAK}
import numpy as np, ldpbayes as lb, arviz_stats
def fitted(a, draws):
    survey = lb.simulate(np.full(a, 1 / a), lb.GRR(a, 3.0), 20_000, random_seed=1)
    return lb.fit(survey, "jeffreys", draws=draws, random_seed=1, estimates=False)
fitted(30, 10)
before = peak()
tree = fitted(2000, 400)
assert tree.attrs["method"] == "exact"
print((peak() - before) / tree["posterior"]["distribution"].nbytes)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert float(found.stdout) < 7
