"""Scans of many reports against the GROUP BY of DuckDB and Polars over the same files, in one run.

``python benchmarks/scale.py`` writes 10^6 and 10^7 reports into a temporary folder (10^8 with ``--full``: 2 GB on disk),
measures every row of the table below in a process of its own with one thread, prints CPU nanoseconds a report, the ratio to
DuckDB's GROUP BY of the same reports, and by how much peak memory grew from the smallest file, and removes the folder.

Up to 10^7 reports the fastest of three runs counts, for a busy machine only slows things down.

A row is a function with the decorator ``row``: it gets a file and the number of its reports, does its work once, and may
return a note. What it does before ``clock.start()`` (imports, compilation) is not timed.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
SIZES, FULL = (10**6, 10**7), (10**6, 10**7, 10**8)
GROUPS, EPSILON = 20, 1.0
#: Reports are made and written in parts of this size, one row group each.
PART = 2**17
#: GROUP BY of reports that are all distinct keeps every one of them: more than this do not fit.
DISTINCT_FIT = 10**7

ROWS = {}


@dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    run : callable (path, n, clock) -> str or None
        Does the work once and returns a note.
    data : str
        A name of DATA.
    against : str or None
        The row whose time is divided by this row's.
    most : int
        Largest number of reports.
    """

    run: object
    data: str
    against: str | None = None
    most: int = 10**9


class Clock:
    """CPU and wall time since ``start``."""

    def __init__(self):
        self.read = _cpu
        self.start()

    def start(self):
        """Begin again."""
        self.cpu, self.wall = self.read(), time.perf_counter()

    def stop(self):
        """Return (CPU seconds, wall seconds) since the start."""
        return self.read() - self.cpu, time.perf_counter() - self.wall


def row(name, data, against=None, most=10**9):
    """Register a row of the table under its name."""

    def add(run):
        ROWS[name] = Row(run, data, against, most)
        return run

    return add


def _cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_of_all():
    """Return the CPU seconds of this process and of those that it started."""
    import psutil

    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return _cpu() + sum(one.user + one.system + one.children_user + one.children_system for one in times)


# ---- reports ---------------------------------------------------------------------------------------------------------
def grr():
    """Return generalized randomized response over 32 categories."""
    from ldpbayes.protocols import GRR

    return GRR(32, EPSILON)


def oue():
    """Return optimized unary encoding over 128 categories."""
    from ldpbayes.protocols import UnaryEncoding

    return UnaryEncoding.optimized(128, EPSILON)


def sue():
    """Return symmetric unary encoding over 128 categories."""
    from ldpbayes.protocols import UnaryEncoding

    return UnaryEncoding.symmetric(128, EPSILON)


def subset():
    """Return subset selection over 128 categories."""
    from ldpbayes.protocols import SubsetSelection

    return SubsetSelection(128, EPSILON)


def olh():
    """Return optimized local hashing over 128 categories."""
    from ldpbayes.protocols import LocalHashing

    return LocalHashing(128, EPSILON)


#: Protocols by the name of their file.
DATA = {"grr": grr, "oue": oue, "sue": sue, "subset": subset, "olh": olh}


def write(path, protocol, n):
    """Write n reports with the column ``country`` in the layout that is read fastest."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.ones(protocol.n_categories))
    names = pa.array([f"c{i:02d}" for i in range(GROUPS)])
    writer = None
    for start in range(0, n, PART):
        m = min(PART, n - start)
        reports = protocol.privatize(rng.choice(protocol.n_categories, size=m, p=p), rng)
        columns = {"country": pa.DictionaryArray.from_arrays(rng.integers(GROUPS, size=m, dtype=np.int8), names)}
        if reports.dtype == np.uint8:
            data = pa.py_buffer(np.ascontiguousarray(reports))
            columns["report"] = pa.FixedSizeBinaryArray.from_buffers(pa.binary(reports.shape[1]), m, [None, data])
        elif reports.ndim == 2:
            columns |= {"seed": reports[:, 0], "value": reports[:, 1].astype(np.uint8)}
        else:
            columns["report"] = reports.astype(np.uint8)
        table = pa.table(columns)
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema, compression="lz4", use_dictionary=["country"])
        writer.write_table(table, row_group_size=PART)
    writer.close()


def key(data):
    """Return the columns of a report."""
    return "seed, value" if data == "olh" else "report"


# ---- yardsticks ------------------------------------------------------------------------------------------------------
@row("GRR: DuckDB's GROUP BY", "grr")
def _(path, n, clock):
    import duckdb

    con = duckdb.connect()
    con.execute("set threads = 1")
    con.execute(f"select country, count(*) from (from read_parquet('{path}') limit 1000) group by all").fetchall()
    clock.start()
    found = con.execute(f"select country, report, count(*) from read_parquet('{path}') group by all").fetchall()
    return f"{len(found)} rows"


@row("GRR: Polars' group_by", "grr", against="GRR: DuckDB's GROUP BY")
def _(path, n, clock):
    import polars

    polars.scan_parquet(path).head(1000).group_by("country", "report").len().collect(engine="streaming")
    clock.start()
    found = polars.scan_parquet(path).group_by("country", "report").len().collect(engine="streaming")
    return f"{len(found)} rows"


@row("GRR: scan of the file", "grr", against="GRR: DuckDB's GROUP BY")
def _(path, n, clock):
    scan = ready(path, grr())
    clock.start()
    return _checked(scan(), n)


@row("GRR: scan of a DuckDB relation", "grr", against="GRR: DuckDB's GROUP BY")
def _(path, n, clock):
    import duckdb

    import ldpbayes as lb
    from ldpbayes.scanning import Scan

    ready(path, grr())
    con = duckdb.connect()
    con.execute("set threads = 1")
    relation = con.sql(f"select * from read_parquet('{path}')")
    lb.scan(relation.limit(1000), grr(), by="country", progressbar=False)
    scan = Scan(relation, grr(), by="country", progressbar=False)
    clock.start()
    return _checked(scan(), n)


@row("GRR: scan of a Polars frame", "grr", against="GRR: DuckDB's GROUP BY")
def _(path, n, clock):
    import polars

    import ldpbayes as lb
    from ldpbayes.scanning import Scan

    lb.scan(polars.scan_parquet(path).head(1000), grr(), by="country", progressbar=False)
    scan = Scan(polars.scan_parquet(path), grr(), by="country", progressbar=False)
    clock.start()
    return _checked(scan(), n)


# ---- reports that are all distinct -----------------------------------------------------------------------------------
def distinct_rows(data, make):
    """Register the yardstick and both passes of a protocol whose reports are all distinct."""
    name = data.upper()

    @row(f"{name}: DuckDB's GROUP BY", data, most=DISTINCT_FIT)
    def _(path, n, clock):
        import duckdb

        con = duckdb.connect()
        con.execute("set threads = 1")
        clock.start()
        query = f"select country, {key(data)}, count(*) as n from read_parquet('{path}') group by all"
        (found,) = con.execute(f"select count(*) from ({query}) where n > 0").fetchone()
        return f"{found:,} rows"

    @row(f"{name}: first pass", data, against=f"{name}: DuckDB's GROUP BY")
    def _(path, n, clock):
        scan = ready(path, make())
        clock.start()
        first = total(scan)
        return f"{len(first.keys)} cells"

    @row(f"{name}: second pass", data, against=f"{name}: DuckDB's GROUP BY")
    def _(path, n, clock):
        import numpy as np

        scan = ready(path, make())
        points = np.random.default_rng(1).dirichlet(np.ones(make().n_categories), size=GROUPS)
        keys = [(f"c{i:02d}",) for i in range(GROUPS)]
        from ldpbayes.scanning import Pilots

        at = Pilots({key: i for i, key in enumerate(keys)}, points)
        clock.start()
        second = total(scan, at)
        return f"{len(second.keys)} cells"

    @row(f"{name}: scan, both passes", data)
    def _(path, n, clock):
        scan = ready(path, make())
        clock.start()
        return _checked(scan(), n)

    @row(f"{name}: scan, both passes, jobs=2", data)
    def _(path, n, clock):
        from ldpbayes.scanning import Scan

        ready(path, make())
        scan = Scan(path, make(), by="country", progressbar=False, jobs=2)
        clock.start()
        return _checked(scan(), n)

    @row(f"{name}: posterior of the cells", data, most=SIZES[0])
    def _(path, n, clock):
        import ldpbayes as lb

        found = ready(path, make())()
        lb.fit(found, "jeffreys", draws=0)
        clock.start()
        lb.fit(found, "jeffreys", draws=0)
        taken = clock.stop()[0]
        lb.fit(found, "learnt", draws=0)
        return f"{taken:.2f} s for {len(found)} cells; {clock.stop()[0] - taken:.2f} s under the learnt prior"

    @row(f"{name}: scan of a DuckDB relation", data, most=DISTINCT_FIT)
    def _(path, n, clock):
        import duckdb

        from ldpbayes.scanning import Scan

        ready(path, make())
        con = duckdb.connect()
        con.execute("set threads = 1")
        scan = Scan(con.sql(f"select * from read_parquet('{path}')"), make(), by="country", progressbar=False)
        clock.start()
        return _checked(scan(), n)


def ready(path, protocol):
    """Return the scan of a file, its kernels compiled by a scan of a few rows."""
    import pyarrow.parquet as pq

    import ldpbayes as lb
    from ldpbayes.scanning import Scan

    some = next(pq.ParquetFile(path).iter_batches(2000))
    lb.scan(some, protocol, by="country", progressbar=False)
    return Scan(path, protocol, by="country", progressbar=False)


def total(scan, at=None):
    """Return the total of one pass."""
    return sum(scan.fold.partial(piece, at) for piece in scan.pieces())


for _data in ("oue", "sue", "subset", "olh"):
    distinct_rows(_data, DATA[_data])


# ---- Spark, two tasks at once ----------------------------------------------------------------------------------------
def spark_session():
    """Return a local session of Spark, or end with a sentence."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SystemExit("needs pyspark and Java 17: make scale-env") from None
    if shutil.which("java") is None:
        raise SystemExit("needs Java 17: apt-get install openjdk-17-jre-headless")
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    settings = {"driver.host": "127.0.0.1", "sql.shuffle.partitions": "4", "driver.memory": "6g", "log.level": "ERROR"}
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", value)
    return builder.getOrCreate()


def spark_rows(data, passes):
    """Register Spark's own groupBy of a file and passes over it by its workers, each timed as it is done again."""
    yardstick = f"{data.upper()}: Spark's groupBy"

    @row(yardstick, data, most=DISTINCT_FIT)
    def _(path, n, clock):
        rows = spark_session().read.parquet(path)
        for _ in range(2):
            clock.read = _cpu_of_all
            clock.start()
            found = rows.groupBy("country", "report").count().filter("count > 0").count()
        return f"{found:,} rows, {clock.stop()[1]:.1f} s"

    def register(name, second):
        @row(f"{data.upper()}: {name} by Spark", data, against=yardstick, most=DISTINCT_FIT)
        def _(path, n, clock):
            import numpy as np

            from ldpbayes.scanning import Pilots, Scan

            protocol = DATA[data]()
            scan = Scan(path, protocol, by="country", spark=spark_session(), progressbar=False)
            points = np.random.default_rng(1).dirichlet(np.ones(protocol.n_categories), size=GROUPS)
            at = Pilots({(f"c{i:02d}",): i for i in range(GROUPS)}, points) if second else None
            for _ in range(2):
                clock.read = _cpu_of_all
                clock.start()
                found = scan._pass(at)
            reports = found.counts.sum() if scan.fold.countable else found.total("n").sum()
            if reports != n:
                raise SystemExit(f"{reports} of {n} reports came through")
            return f"{len(found.keys)} cells, {clock.stop()[1]:.1f} s"

    for name, second in passes.items():
        register(name, second)

    @row(f"{data.upper()}: sums by Spark against one machine's", data, most=DISTINCT_FIT)
    def _(path, n, clock):
        import numpy as np

        from ldpbayes.scanning import Scan

        protocol = DATA[data]()
        both = [Scan(path, protocol, by="country", spark=spark, progressbar=False) for spark in (spark_session(), None)]
        firsts = [scan._pass(None) for scan in both]
        passes = [firsts]
        if not both[0].fold.countable:
            passes.append([scan._pass(both[0].fold.pilots(firsts[0])) for scan in both])
        for one, other in passes:
            one, other = one.settle(), other.settle()
            order = [other.keys.index(key) for key in one.keys]
            same = all(np.array_equal(one.total(name), other.total(name)[order]) for name in one.sums)
            if not same or (one.counts is not None and sorted(one.counts) != sorted(other.counts)):
                raise SystemExit("the sums differ")
        return "equal to the last bit"


spark_rows("grr", {"scan": False})
spark_rows("oue", {"first pass": False, "second pass": True})


def _checked(found, n):
    if found.n_reports != n:
        raise SystemExit(f"{found.n_reports} of {n} reports came through")
    return f"{len(found)} cells"


# ---- the table -------------------------------------------------------------------------------------------------------
def measured(name, path, n, times=None):
    """Run a row in a process of its own, up to 10^7 reports thrice by default, and return the figures of the fastest."""
    found = [_once(name, path, n) for _ in range(times or (3 if n <= DISTINCT_FIT else 1))]
    return min(found, key=lambda one: one.get("cpu", 0.0))


def _once(name, path, n):
    env = os.environ | dict.fromkeys(THREADS, "1")
    command = [sys.executable, __file__, "--row", name, "--path", str(path), "--reports", str(n)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Print the table, or with --row the figures of one row as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also 10^8 reports")
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--folder", default=None, help="keep the files here between runs")
    for hidden in ("--row", "--path", "--reports"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
    if given.row:
        clock = Clock()
        note = ROWS[given.row].run(given.path, int(given.reports), clock)
        cpu, wall = clock.stop()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"cpu": cpu, "wall": wall, "peak": peak, "note": note}))
        return
    folder = pathlib.Path(given.folder or tempfile.mkdtemp(prefix="ldpbayes-scale-"))
    folder.mkdir(exist_ok=True)
    chosen = {name: one for name, one in ROWS.items() if given.only.lower() in name.lower()}
    try:
        for data in dict.fromkeys(one.data for one in chosen.values()):
            table(
                data, {name: one for name, one in chosen.items() if one.data == data}, folder, FULL if given.full else SIZES
            )
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def table(data, rows, folder, sizes):
    """Print the rows that read one kind of reports."""
    protocol = DATA[data]()
    print(f"\n{protocol.design}, {protocol.n_categories} categories, epsilon {protocol.epsilon:g}, {GROUPS} groups")
    print(f"{'':34s} {'reports':>9s} {'CPU ns a report':>16s} {'times as fast':>14s} {'peak MB':>8s} {'growth MB':>10s}")
    least, base = {}, {}
    for n in sizes:
        path = folder / f"{data}-{n}.parquet"
        if not path.exists():
            write(path, protocol, n)
        for name, one in rows.items():
            if n > one.most:
                continue
            found = measured(name, path, n)
            if "failed" in found:
                print(f"{name:34s} {n:9.0e} {found['failed']}")
                continue
            ns = found["cpu"] / n * 1e9
            base[name] = ns
            least.setdefault(name, found["peak"])
            ratio = f"{base[one.against] / ns:14.2f}" if one.against in base else " " * 14
            growth = found["peak"] - least[name]
            print(
                f"{name:34s} {n:9.0e} {ns:16.1f} {ratio} {found['peak']:8.0f} {growth:10.0f}   {found['note']}", flush=True
            )


if __name__ == "__main__":
    main()
