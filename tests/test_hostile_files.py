"""Files that took the process, its memory or its time: depth and sizes are looked at before a library sees them.

Kinds: brackets within brackets, which Arrow follows by recursion; rows with keys of their own, of which Arrow makes a table
with rows times keys entries; encodings of Parquet that Arrow makes no codes of. Looked at: objects, lists, brackets in
strings, over lines and without an end, columns that nobody asked for, lenient reading; objects of objects; objects side by
side on one line; texts, lists of texts, bytes, keys of groups. Saved results: sizes that nobody has written, and links out
of the file, of every kind, under a right checksum too; checkpoints of scans that are compressed.
"""

import hashlib
import io
import subprocess
import sys
import tracemalloc

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tabulated import each_row

import ldpbayes as lb

PROTOCOL = lb.GRR(2, 1.0)
#: A child's own peak of memory above what the imports take, in bytes, after reading a file.
CHILD = """
import resource, sys, warnings
warnings.simplefilter('ignore')
import pyarrow.json, pyarrow.parquet
import ldpbayes as lb
lb.protocols.GRR, lb.read
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
before = peak()
try:
    print(lb.read(sys.argv[1], lb.GRR(2, 1.0), report="report", categories=["no", "yes"]).n_reports)
except lb.LDPBayesError as err:
    print(err)
print(peak() - before)
"""


def child(path):
    """Return (what a reader of a file says, bytes that it took) of a process of its own."""
    command = [sys.executable, "-c", CHILD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    said, size = done.stdout.splitlines()
    return said, int(size)


# ---- JSON lines ------------------------------------------------------------------------------------------------------
GOOD = '{"report": "no"}\n{"report": "yes"}\n'
DEEP = 20_000


@pytest.mark.parametrize(
    "row",
    [
        '{"report": "no", "x": ' + "[" * DEEP + "]" * DEEP + "}\n",
        '{"report": "no", "x": ' + '{"a":' * DEEP + "1" + "}" * DEEP + "}\r\n",
        '{"report": ' + "[" * DEEP,
        '{"report": "no", "x": ' + '["]]",' * DEEP + "1" + "]" * DEEP + "}\n",
    ],
    ids=["lists", "objects", "without an end", "brackets in strings"],
)
def test_deep_lines_are_refused_by_number(tmp_path, row):
    """20,000 brackets ended the process, 10,000 took minutes."""
    path = tmp_path / "x.jsonl"
    path.write_text(GOOD + row)
    said, _ = child(path)
    assert "64 levels" in said
    with pytest.warns(lb.errors.LDPBayesWarning, match="1 row"):
        assert lb.read(path, PROTOCOL, report="report", categories=["no", "yes"], bad_rows="skip").n_reports == 2


def test_objects_over_several_lines_are_no_way_around_the_limit(tmp_path):
    (tmp_path / "x.jsonl").write_text(GOOD + '{"report": "no", "x": ' + "[\n" * DEEP + "]\n" * DEEP + "}\n")
    assert "x.jsonl, line 3" in child(tmp_path / "x.jsonl")[0]


@pytest.mark.parametrize(
    "row",
    [
        '{"report": "no", "x": ' + "[" * 63 + "]" * 63 + "}\n",
        '{"report": "no", "x": "' + "[" * 1000 + '\\""}\n',
        '{"report": "no", "x": [' + ",".join(["[[1], [2]]"] * 1000) + "]}\r\n",
    ],
    ids=["at the limit", "brackets in a string", "many side by side"],
)
def test_lines_that_are_not_deep_are_read(tmp_path, row):
    (tmp_path / "x.jsonl").write_text(GOOD + row + GOOD)
    assert lb.read(tmp_path / "x.jsonl", PROTOCOL, report="report", categories=["no", "yes"]).n_reports == 5


@pytest.mark.calibrated("objects")
@pytest.mark.parametrize("row", ['{"report":"no","k%d":1}', '{"report":"no","x":{"k%d":1}}'], ids=["columns", "objects"])
def test_rows_with_keys_of_their_own_take_no_square_of_memory(tmp_path, row):
    """20,000 rows of half a megabyte took 5 GB, and 640,000 of 18 MB more than 60 CPU s: a child has 30."""
    (tmp_path / "x.jsonl").write_text("\n".join(row % i for i in range(640_000)))
    said, size = child(tmp_path / "x.jsonl")
    assert said == "640000"
    assert size < 3e8


def test_such_rows_on_one_line(tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(f'{{"report":"no","k{i}":1}}' for i in range(20_000)))
    said, size = child(tmp_path / "x.jsonl")
    assert "line 1" in said
    assert size < 3e8


def test_such_rows_in_the_column_that_is_read(tmp_path):
    (tmp_path / "x.jsonl").write_text("\n".join(f'{{"report":{{"k{i}":1}}}}' for i in range(20_000)))
    said, size = child(tmp_path / "x.jsonl")
    assert "struct<k0: int64" in said
    assert size < 3e8


def test_types_that_parts_of_a_file_do_not_share(tmp_path):
    """Whole numbers and numbers with decimals are numbers, missing ones are of any type, days are texts."""
    rows = ['{"report": "no", "day": null, "n": 1}'] * 2000 + ['{"report": "yes", "day": "2024-05-01", "n": 1.5}'] * 2000
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    cells = lb.read(tmp_path / "x.jsonl", PROTOCOL, report="report", categories=["no", "yes"], by="n")
    assert {key: cell.n_reports for key, cell in cells.items()} == {(1.0,): 2000, (1.5,): 2000}
    (tmp_path / "x.jsonl").write_text("\n".join([*rows, '{"report": "no", "n": "x"}']))
    with pytest.raises(lb.errors.DataError, match="JSON lines"):
        lb.read(tmp_path / "x.jsonl", PROTOCOL, report="report", categories=["no", "yes"])


# ---- CSV -------------------------------------------------------------------------------------------------------------
CUT = 2**24


@each_row("door", ["read", "scan"])
@each_row(
    "first, line",
    [(b"report,x\nno,1\nyes,", 3), (b'report,x\nno,1\nyes,"', 3), (b"", 1)],
)
def test_lines_without_an_end_are_refused_before_they_are_in_memory(tmp_path, first, line, door):
    """A line of 600 MB took 1.2 GB."""
    path = tmp_path / "x.csv"
    path.write_bytes(first + b"a" * (4 * CUT))
    settings = {"report": "report", "categories": ["no", "yes"]}
    tracemalloc.start()
    with pytest.raises(lb.errors.DataError, match=rf"x.csv.*{line}:.*16,777,216"):
        if door == "read":
            lb.read(path, PROTOCOL, **settings)
        else:
            lb.scan(str(path), PROTOCOL, **settings)
    assert tracemalloc.get_traced_memory()[1] < 6 * CUT
    tracemalloc.stop()


def test_headers_of_more_columns_than_rows_of_a_batch_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("report" + "," * 2**20 + "\nno" + "," * 2**20)
    with pytest.raises(lb.errors.DataError, match=r"x\.csv.*1:.*1,048,577"):
        lb.read(tmp_path / "x.csv", PROTOCOL, report="report", categories=["no", "yes"])


# ---- Parquet ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_in_every_encoding(tmp_path, encoding):
    """DuckDB writes the second of them where it is asked for version 2 of the format, beside lists of texts; so do sets."""
    path = tmp_path / "x.parquet"
    table = pa.table({"report": ["no", "yes"] * 50, "user": [f"user{i}" for i in range(100)]})
    columns = dict.fromkeys(table.column_names, encoding)
    parquet.write_table(table, path, use_dictionary=False, column_encoding=columns, row_group_size=40)
    settings = {"report": "report", "categories": ["no", "yes"]}
    assert lb.read(path, PROTOCOL, **settings).counts.tolist() == [50, 50]
    assert len(lb.read(path, PROTOCOL, **settings, by="user")) == 100
    assert lb.scan(str(path), PROTOCOL, **settings)["all",].n_reports == 100
    sets = pa.table({"report": pa.array([["a"], ["a", "c"]] * 50), "bytes": pa.array([b"\x80", b"\xa0"] * 50)})
    columns = {"report.list.element": encoding, "bytes": encoding}
    parquet.write_table(sets, path, use_dictionary=False, column_encoding=columns)
    for name in sets.column_names:
        found = lb.read(path, lb.protocols.UnaryEncoding.optimized(3, 1.0), report=name, categories=["a", "b", "c"])
        assert found.counts.tolist() == [50, 50]


@pytest.mark.calibrate
def test_long_texts_in_the_encoding_of_lengths_are_read_in_parts(tmp_path):
    """A page says how long its texts are, and batches of rows follow."""
    path = tmp_path / "x.parquet"
    lengths = np.full(3000, 100_000)
    table = pa.table({"report": pa.array(["x" * k for k in lengths])})
    columns = {"report": "DELTA_LENGTH_BYTE_ARRAY"}
    parquet.write_table(table, path, compression="zstd", use_dictionary=False, column_encoding=columns, row_group_size=3000)
    assert path.stat().st_size < 200_000
    said, size = child(path)
    assert "field 'report'" in said
    assert size < 8e8


# ---- saved results ---------------------------------------------------------------------------------------------------
def virtual(group, other):
    layout = h5py.VirtualLayout((10,), "f8")
    layout[:] = h5py.VirtualSource(str(other), "y", (10,))
    group.create_virtual_dataset("x", layout)


def outside(group, other):
    group.create_dataset("x", (10,), "f8", external=[(str(other), 0, 80)])


def one_text(group, other):
    """20,000 texts, all of them the first one, of 2**20 characters."""
    texts = group.create_dataset("x", (20_000,), h5py.string_dtype(), chunks=(20_000,))
    texts[0] = "a" * 2**20
    group.file.flush()
    stored = texts.id.read_direct_chunk((0,))[1]
    texts.id.write_direct_chunk((0,), stored[:16] * 20_000)


def many_texts(group, other):
    group.attrs.create("x", ["a" * 2**20] + ["b"] * 999, dtype=h5py.string_dtype())


ADDED = [
    (lambda group, other: group.create_dataset("x", (3 * 10**8,), "f8", chunks=(2**20,)), "holds 2,400,"),
    (outside, "stand in another file"),
    (virtual, "stand in another file"),
    (lambda group, other: group.update({"x": h5py.ExternalLink(str(other), "/y")}), "is a link"),
    (lambda group, other: group.update({"x": h5py.SoftLink("/summary")}), "is a link"),
    (lambda group, other: group.update({"x": group.file["summary"]}), "stands in it twice"),
    (lambda group, other: group.update({"x": group.file}), "twice"),
    (one_text, "holds [0-9,]* bytes in 1,4"),
    (many_texts, "holds [0-9,]* bytes in 1,"),
    (lambda group, other: group.create_dataset("x", (3,), h5py.vlen_dtype("i4")), "no texts"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a saved result, without its seal."""
    path = tmp_path_factory.mktemp("saved") / "x.nc"
    lb.fit(lb.Tally(PROTOCOL, [0, 1], [30, 20]), random_seed=1, draws=20).save(path)
    return path.read_bytes().rpartition(b"\nldpbayes sha256")[0]


def check_refused(whole, tmp_path, sealed, add, said):
    """Add to a saved result, and read it: under its seal, or without one, as another program writes it."""
    path, other = tmp_path / "x.nc", tmp_path / "other.h5"
    path.write_bytes(whole)
    with h5py.File(other, "w") as file:
        file["y"] = np.arange(10.0)
    with h5py.File(path, "r+") as file:
        add(file["posterior"], other)
    if sealed:
        data = path.read_bytes()
        path.write_bytes(data + b"\nldpbayes sha256" + hashlib.sha256(data).digest())
    tracemalloc.start()
    with pytest.raises(lb.errors.DataError, match=said):
        lb.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e7 + (2 * 2**8 * path.stat().st_size if add is one_text else 0)  # two times 256 texts, not 20,000


@pytest.mark.parametrize("add, said", ADDED)
def test_sealed_results_that_hold_what_they_do_not_say(whole, tmp_path, add, said):
    check_refused(whole, tmp_path, True, add, said)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("add, said", ADDED)
def test_results_without_a_seal_are_read_in_another_process(whole, tmp_path, add, said):
    check_refused(whole, tmp_path, False, add, said)


def test_partial_results_that_are_compressed_are_none():
    from ldpbayes.scanning.partials import NOTHING, Partial

    assert Partial.from_bytes(NOTHING.to_bytes()).keys == ()
    with np.load(io.BytesIO(NOTHING.to_bytes())) as arrays:
        out = io.BytesIO()
        np.savez_compressed(out, **arrays, zeros=np.zeros(10**6))
    assert len(out.getvalue()) < 10_000
    with pytest.raises(lb.errors.DataError, match="partial result"):
        Partial.from_bytes(out.getvalue())
