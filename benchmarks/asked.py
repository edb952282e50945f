"""Every number that reports at scale are asked to reach, beside what is reached.

Run: python benchmarks/asked.py [SECTION ...] [--full] [--folder FOLDER] [--results FILE]

Sections are countable, passes, faults, accuracy, accepted, spark, memory, cells and clients; by default all of them, some
twenty minutes. ``--full`` makes passes of 10^8 reports (10 GB on disk meanwhile). ``--folder`` keeps the files of reports
between runs, and ``--results`` appends the lines to a file as a table. Times are CPU seconds of one thread, and ratios are
of one run. Each section needs nothing of the others.
"""

import argparse
import math
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import scale  # noqa: E402

SECTIONS = {}
FEW, MANY, ALL = 10**6, 10**7, 10**8


@dataclass
class Line:
    """A number that is asked for.

    Attributes
    ----------
    what : str
    asked : str
        "≥ 0.9" or "≤ 250 ns"; "–" where a number is printed only.
    reached : float or str
        A text where nothing was measured.
    note : str
    """

    what: str
    asked: str
    reached: float | str
    note: str = ""

    @property
    def verdict(self):
        """Whether it is reached."""
        if isinstance(self.reached, str):
            return self.reached if self.reached in ("reached", "MISSED") else "skipped"
        if self.asked == "–":
            return ""
        sign, limit = self.asked.split()[:2]
        limit = float(limit.replace(",", ""))
        return "reached" if (self.reached >= limit if sign == "≥" else self.reached <= limit) else "MISSED"

    @property
    def shown(self):
        """The number, with its unit."""
        if isinstance(self.reached, str):
            return "" if self.verdict == self.reached else self.reached
        unit = " ".join(self.asked.split()[2:])
        digits = 0 if self.reached >= 100 else 2 if self.reached >= 0.1 else 4
        return f"{self.reached:,.{digits}f} {unit}".strip()


def section(run):
    """Register a section: (folder, full) → Lines."""
    SECTIONS[run.__name__] = run
    return run


def file_of(folder, data, n):
    """Return the path of a file of reports, made if it is not there."""
    path = folder / f"{data}-{n}.parquet"
    if not path.exists():
        scale.write(path, scale.DATA[data](), n)
    return path


def figures(name, folder, data, n, times=1):
    """Return the figures of a row of scale.py: cpu, wall, peak, note, or failed."""
    return scale.measured(name, file_of(folder, data, n), n, times if n <= MANY else 1)


@section
def countable(folder, full):
    """GROUP BY through scan against DuckDB's own, and its memory."""
    n = ALL if full else MANY
    theirs = figures("GRR: DuckDB's GROUP BY", folder, "grr", n, 2)
    for name in ("GRR: scan of a DuckDB relation", "GRR: scan of the file", "GRR: scan of a Polars frame"):
        ours, small = figures(name, folder, "grr", n, 2), figures(name, folder, "grr", FEW, 1)
        note = f"{ours['cpu'] / n * 1e9:.1f} ns a report, DuckDB {theirs['cpu'] / n * 1e9:.1f}"
        yield Line(f"{name}, {n:.0e} reports, 20 groups: times DuckDB's", "≥ 0.9", theirs["cpu"] / ours["cpu"], note)
        growth = ours["peak"] - small["peak"]
        yield Line(
            f"{name}: memory from 1e6 to {n:.0e} reports", "≤ 100 MB", max(growth, 0.0), f"peak {ours['peak']:.0f} MB"
        )


@section
def passes(folder, full):
    """Both passes over reports that are all distinct, against DuckDB's GROUP BY of them."""
    n = ALL if full else MANY
    for data in ("oue", "sue", "subset", "olh"):
        name = data.upper()
        theirs = figures(f"{name}: DuckDB's GROUP BY", folder, data, MANY)["cpu"] / MANY * 1e9
        both = 0.0
        for which in ("first", "second"):
            found = figures(f"{name}: {which} pass", folder, data, n)
            own = found["cpu"] / n * 1e9
            both += own
            note = f"{own:.0f} ns a report, DuckDB {theirs:.0f} (at 1e7)"
            yield Line(f"{name}, {which} pass, a = 128, {n:.0e} reports: times DuckDB's", "≥ 1", theirs / own, note)
        yield Line(f"{name}, both passes", "≤ 250 ns", both)
        small, one = (figures(f"{name}: scan, both passes", folder, data, size, 1) for size in (FEW, n))
        growth = max(one["peak"] - small["peak"], 0.0)
        yield Line(f"{name}, memory of a scan from 1e6 to {n:.0e}", "≤ 100 MB", growth, f"peak {one['peak']:.0f} MB")
        two = figures(f"{name}: scan, both passes, jobs=2", folder, data, n, 1)
        note = f"wall time, {one['wall']:.1f} s and {two['wall']:.1f} s; the machine may be busy"
        yield Line(f"{name}, jobs=2: times as fast", "–", one["wall"] / two["wall"], note)
        found = figures(f"{name}: posterior of the cells", folder, data, FEW, 1)
        if "failed" in found:
            yield Line(f"{name}, posterior of 20 groups", "≤ 2 s", found["failed"])
        else:
            yield Line(f"{name}, posterior of 20 groups", "≤ 2 s", float(found["note"].split()[0]), found["note"])


@section
def faults(folder, full):
    """A bad report far down a file: one sentence that names the row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import ldpbayes as lb

    n = ALL if full else MANY
    at = 9 * n // 10
    for data in ("grr", "olh"):
        path, column = folder / f"bad-{data}.parquet", "report" if data == "grr" else "value"
        source, place = pq.ParquetFile(file_of(folder, data, n)), 0
        writer = pq.ParquetWriter(path, source.schema_arrow, compression="lz4", use_dictionary=["country"])
        for i in range(source.num_row_groups):
            table = source.read_row_group(i)
            if place <= at < place + table.num_rows:
                values = table[column].to_numpy().copy()
                values[at - place] = 200
                place_of = table.schema.get_field_index(column)
                table = table.set_column(place_of, table.schema.field(column), pa.array(values))
            place += table.num_rows
            writer.write_table(table, row_group_size=table.num_rows)
        writer.close()
        start = time.process_time()
        try:
            lb.scan(path, scale.DATA[data](), by="country", progressbar=False)
            said = "it was not noticed"
        except lb.errors.DataError as err:
            said = str(err).replace(str(folder), "")
        found = "reached" if f"row {at + 1:,}" in said else "MISSED"
        yield Line(
            f"{data.upper()}, bad report in row {at + 1:,}: the row is named",
            "–",
            found,
            f"{said} ({time.process_time() - start:.1f} s)",
        )
        path.unlink()


def off(kind, a, n, epsilon, draws):
    """Return (largest error of a mean in sd, of a sd, Monte Carlo error) of a summary as a scan makes it."""
    import numpy as np
    import summary_check
    from summary_boundary import measured

    from ldpbayes.collections import Tally
    from ldpbayes.likelihoods import Summary
    from ldpbayes.scanning import pilots

    rng, protocol = np.random.default_rng([a, n]), summary_check.PROTOCOLS[kind](a, epsilon)
    truth = 1 / np.arange(1.0, a + 1)
    values = np.repeat(np.arange(a), rng.multinomial(n, truth / truth.sum()))
    rows = Tally(protocol, protocol.privatize(values, rng)).rows
    points, _ = pilots.posterior_moments(
        [pilots.of_supports(protocol, [n], rows.support_counts()[None])], (1, rows.n_categories)
    )
    shift, noise, ratio, ratio_noise, _ = measured(rows, Summary.of(rows, points[0]), np.full(a, 0.5), draws, rng)
    at, place = np.abs(shift).argmax(), np.abs(ratio - 1).argmax()
    return abs(shift[at]), abs(ratio[place] - 1), noise[at], ratio_noise[place]


@section
def accuracy(folder, full):
    """Summaries against the full likelihood at ε ≤ 1."""
    for epsilon in (0.5, 1.0):
        for kind in ("oue", "sue", "subset", "olh"):
            worst = {"mean": (0.0, ""), "sd": (0.0, "")}
            sizes = (10**3, 10**4, 10**5) + ((10**6,) if full or (epsilon == 1 and kind in ("oue", "sue")) else ())
            for a in (16, 64, 256):
                for n in sizes:
                    mean, sd, noise, sd_noise = off(kind, a, n, epsilon, 4000 if n < 10**6 else 1500)
                    here = f"a = {a}, n = {n:.0e}, Monte Carlo error"
                    worst["mean"] = max(worst["mean"], (mean, f"{here} {noise:.3f}"))
                    worst["sd"] = max(worst["sd"], (sd, f"{here} {sd_noise:.3f}"))
            size = f"a = 16, 64, 256, n = 1e3 to {sizes[-1]:.0e}"
            yield Line(f"{kind.upper()}, ε = {epsilon:g}, {size}: means off by", "≤ 0.03 sd", *worst["mean"])
            yield Line(f"{kind.upper()}, ε = {epsilon:g}, {size}: sds off by", "≤ 0.03", *worst["sd"])


@section
def accepted(folder, full):
    """Accepted summaries on other populations; the stored ones first."""
    import csv

    import numpy as np
    import summary_check

    rows = list(csv.DictReader(open(HERE.parent / "docs" / "theory" / "summary-check.csv")))
    fresh, start, seed = [], time.process_time(), 10**6 * 17
    while time.process_time() - start < (300 if full else 40):
        seed += 1
        for row in summary_check.case(np.random.default_rng(seed), seed):
            fresh.append(dict(zip(summary_check.HEADINGS, map(str, row), strict=True)))
    for name, found in (("stored", rows), ("fresh", fresh)):
        for form, text in (("sums", "without a sample"), ("sampled", "with a sample"), ("kept", "of kept reports")):
            taken = [row for row in found if row["form"] == form and row["accepted"] == "1"]
            worst = max(taken, key=lambda row: float(row["surely"]))
            note = "{protocol}, {population}, a = {categories}, n = {reports}, ε = {epsilon}".format(**worst)
            what = f"accepted {text}, {name}, {len(taken)} of {sum(row['form'] == form for row in found)} cases: off by"
            yield Line(what, "≤ 0.1 sd", float(worst["surely"]), f"mean or sd, less three Monte Carlo errors; {note}")


@section
def spark(folder, full):
    """Spark's workers on files against its own groupBy."""
    for data, rows in (("grr", ("scan",)), ("oue", ("first pass", "second pass"))):
        name = data.upper()
        theirs = figures(f"{name}: Spark's groupBy", folder, data, MANY, 1)
        for one in rows:
            ours = theirs if "failed" in theirs else figures(f"{name}: {one} by Spark", folder, data, MANY, 1)
            what = f"{name}, {one} by Spark, local[2], 1e7 reports: times its groupBy"
            if "failed" in ours:
                yield Line(what, "≥ 0.65", ours["failed"])
            else:
                note = f"CPU {ours['cpu'] / MANY * 1e9:.0f} ns a report, groupBy {theirs['cpu'] / MANY * 1e9:.0f}"
                yield Line(what, "≥ 0.65", theirs["cpu"] / ours["cpu"], note)
        same = (
            theirs if "failed" in theirs else figures(f"{name}: sums by Spark against one machine's", folder, data, FEW, 1)
        )
        found = (
            same["failed"]
            if "failed" in same and "differ" not in same["failed"]
            else "MISSED"
            if "failed" in same
            else "reached"
        )
        yield Line(f"{name}, sums by Spark equal to one machine's exactly", "–", found, same.get("note") or "")


@section
def memory(folder, full):
    """Weights of many draws and maximum likelihood in memory."""
    import kernels

    for n, draws, limit in ((10**5, 2000, 3), (10**6, 2000, 35), (10**6, 500, 15)):
        what = f"a = 1,024, n = {n:.0e}, posterior with {draws:,} weighted draws"
        yield Line(
            what,
            f"≤ {limit} s",
            kernels.posterior(n, 1024, draws),
            "500 are as many as k̂ needs here" if draws < 2000 else "",
        )
    for epsilon, limit in ((1.0, 1), (2.0, 1), (4.0, 1.5)):
        yield Line(f"a = 1,024, n = 1e6, MLE, ε = {epsilon:g}", f"≤ {limit} s", kernels.mle(10**6, 1024, epsilon))


@section
def cells(folder, full):
    """Many cells and large alphabets."""
    import batches
    import numpy as np

    import ldpbayes as lb

    for name, (_, seconds, megabytes) in batches.ROWS.items():
        found = batches.measured(name)
        if "failed" in found:
            yield Line(name, f"≤ {seconds} s", found["failed"])
            continue
        yield Line(name, f"≤ {seconds} s", found["cpu"], found["note"])
        if megabytes:
            yield Line(f"{name}: peak memory", f"≤ {megabytes} MB", found["peak"])
    protocol, rng = lb.protocols.UnaryEncoding.optimized(2**17, 1.0), np.random.default_rng(1)
    reports = protocol.privatize(rng.integers(2**17, size=10_000), rng)
    big = lb.Collection([str(i) for i in range(2**17)], [lb.Tally(protocol, reports)])
    from ldpbayes.methods import many

    many.LONGEST = 1.0  # as for a hundred times more reports, which would not fit here
    start = time.process_time()
    try:
        lb.fit(big, "jeffreys", draws=0)
        said = "it was tried"
    except lb.errors.InfeasibleError as err:
        said = str(err)
    yield Line("beyond what is feasible: the predicted time, after", "≤ 1 s", time.process_time() - start, said)


def fastest(functions, times):
    """Return the least CPU seconds of each function, called in turns."""
    best = [math.inf] * len(functions)
    for _ in range(times):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best


@section
def clients(folder, full):
    """Clients and servers against plain NumPy."""
    import numpy as np
    import throughput

    for a in (100, 1024):
        for label, protocol, kind in throughput.protocols(a):
            if kind is None:
                continue
            wide = label in ("SUE", "OUE", "SS")
            n = 10**5 if wide or label == "channel" or (label == "OLH" and a > 100) else 10**6
            rng, shares = np.random.default_rng(7), 1.0 / np.arange(1, a + 1)
            values, plain = rng.choice(a, size=n, p=shares / shares.sum()), kind(protocol)
            reports, theirs = protocol.privatize(values, rng), plain.client(values, rng)
            throughput.our_server(protocol, reports[:2000])
            plain.server(theirs[:2000])
            size, times = f"a = {a:,}, n = {n:.0e}", 3 if wide else 7
            pair = [lambda: protocol.privatize(values, rng), lambda: plain.client(values, rng)]  # noqa: B023
            ours, numpy = fastest(pair, times)
            note = f"{ours / n * 1e9:.1f} ns a report, NumPy {numpy / n * 1e9:.1f}"
            yield Line(f"{label} client, {size}: times NumPy's", "≥ 1", numpy / ours, note)
            if label in ("SUE", "OUE"):
                yield Line(f"{label} client, {size}", "≤ 0.4 ns a bit", ours / n / a * 1e9)
                few = 20_000
                own = fastest([lambda: protocol.privatize(values[:few], rng)], 5)[0]  # noqa: B023
                yield Line(f"{label} client, a = {a:,}, n = 2e4", "≤ 0.4 ns a bit", own / few / a * 1e9)
            pair = [lambda: throughput.our_server(protocol, reports), lambda: plain.server(theirs)]  # noqa: B023
            ours, numpy = fastest(pair, times)
            note = f"{ours / n * 1e9:.1f} ns a report, NumPy {numpy / n * 1e9:.1f}"
            asked = "≥ 1" if label in ("GRR", "HR", "O-RR") else "–"
            yield Line(f"{label} server, {size}: times NumPy's", asked, numpy / ours, note)


def main():
    """Print the lines of the sections."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--full", action="store_true", help="10^8 reports")
    parser.add_argument("--folder", default=None, help="keep the files of reports here between runs")
    parser.add_argument("--results", default=None, help="append the lines to this file")
    given = parser.parse_args()
    unknown = [name for name in given.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    if len(given.sections or SECTIONS) > 1:  # each in a process of its own
        command = [sys.executable, __file__, *(["--full"] if given.full else [])]
        command += ["--results", given.results] if given.results else []
        folder = given.folder or tempfile.mkdtemp(prefix="ldpbayes-scale-")
        try:
            env = os.environ | dict.fromkeys(scale.THREADS, "1")
            for name in given.sections or SECTIONS:
                subprocess.run([*command, "--folder", folder, name], env=env, check=False)
        finally:
            if given.folder is None:
                shutil.rmtree(folder, ignore_errors=True)
        return
    name = given.sections[0]
    folder = pathlib.Path(given.folder or tempfile.mkdtemp(prefix="ldpbayes-scale-"))
    folder.mkdir(exist_ok=True, parents=True)
    print(f"\n{name}: {SECTIONS[name].__doc__}", flush=True)
    lines = []
    try:
        for line in SECTIONS[name](folder, given.full):
            lines.append(line)
            print(f"  {line.verdict:8s} {line.what:78s} {line.asked:>15s} {line.shown:>14s}   {line.note}", flush=True)
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
        if given.results and lines:
            with open(given.results, "a") as out:
                for line in lines:
                    out.write(f"| {line.what} | {line.asked} | {line.shown} | {line.verdict} | {line.note} |\n")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"  ({sum(one.ru_utime + one.ru_stime for one in used):.0f} CPU seconds)", flush=True)


if __name__ == "__main__":
    main()
