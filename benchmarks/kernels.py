"""Kernels in memory against NumPy and BLAS, and against an older version of the package; CPU nanoseconds of one thread.

Run: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/kernels.py [--full] [--before FOLDER]

The NumPy rows run in the same process as ours. ``--before`` takes a checkout of an older version (``git worktree add FOLDER
COMMIT``) and runs the rows that it has too, in a second process. ``--full`` adds a million reports over 1,024 categories.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

import ldpbayes as lb
from ldpbayes import hashing
from ldpbayes.estimators.mle import maximize
from ldpbayes.methods.expanded import weighted_draws
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.unary import UnaryEncoding

GROUPS = 20


def cpu(function, repeats=3):
    """Return the least CPU seconds of a few calls, after one that compiles."""
    function()
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def passes_of(n, a):
    """Yield (what, ns a report, its limit, ns of NumPy) of the grouped passes."""
    try:
        from ldpbayes.scanning import passes
        from ldpbayes.scanning.passes import PackedSupports
    except ImportError:  # an older version
        return

    def counted(packed, group, pilots):
        return passes.support_counts(PackedSupports(packed, a), group, len(pilots))

    def second_order(packed, group, pilots):
        return passes.expansions(PackedSupports(packed, a), group, pilots, 1.7)

    def both(run, *arrays):
        """Return ns a report of the compiled kernel, and of NumPy on a twentieth of the reports."""
        fast = cpu(lambda: run(*arrays)) / n * 1e9
        passes.SMALL, before = 2**62, passes.SMALL
        try:
            return fast, cpu(lambda: run(*(array[: n // 20] for array in arrays)), 1) / (n // 20) * 1e9
        finally:
            passes.SMALL = before

    rng = np.random.default_rng(1)
    packed = rng.integers(256, size=(n, a // 8), dtype=np.uint8)
    for groups in (1, GROUPS):
        arrays = packed, rng.integers(groups, size=n), rng.dirichlet(np.ones(a), size=groups)
        for what, run, limit in (
            ("support counts", counted, 6.2 if groups == 1 else 8.5),
            ("likelihood pass with curvature", second_order, 42),
        ):
            ours, plain = both(run, *arrays)
            yield f"{what}, {groups} group{'s' * (groups > 1)}", ours, limit, plain


def hashed(n, a):
    """Return ns a report of local hashing's supports."""
    rng = np.random.default_rng(2)
    seeds, values = rng.integers(2**63, size=n), rng.integers(4, size=n)
    return cpu(lambda: hashing.supports("ldpbayes", seeds, values, a, 4)) / n * 1e9


def unary(n, a):
    """Return ns a bit of a unary client, and of plain NumPy."""
    rng = np.random.default_rng(3)
    protocol, values = UnaryEncoding.optimized(a, 1.0), rng.integers(a, size=n)

    def plain():
        for start in range(0, n, 10_000):
            part = values[start : start + 10_000]
            members = rng.random((part.size, a)) < protocol.lam
            members[np.arange(part.size), part] = rng.random(part.size) < protocol.kappa
            np.packbits(members, axis=1)

    return cpu(lambda: protocol.privatize(values, rng)) / n / a * 1e9, cpu(plain, 1) / n / a * 1e9


def collected(n, a, epsilon=1.0):
    """Return a collection of n unary reports over a categories."""
    rng = np.random.default_rng(4)
    protocol = UnaryEncoding.optimized(a, epsilon)
    values = rng.choice(a, n, p=rng.dirichlet(np.ones(a)))
    reports = np.concatenate([protocol.privatize(part, rng) for part in np.array_split(values, -(-n // 50_000))])
    return lb.Collection([f"c{x}" for x in range(a)], [lb.Tally(protocol, reports)])


def posterior(n, a, draws):
    """Return CPU seconds of a posterior with so many weighted draws."""
    flat, rng = np.ones(a), np.random.default_rng(1)
    weighted_draws(collected(2000, a).rows, flat, draws, rng)  # compiles
    collection = collected(n, a)
    start = time.process_time()
    weighted_draws(collection.rows, flat, draws, rng)
    return time.process_time() - start


def mle(n, a, epsilon):
    """Return CPU seconds of the maximum likelihood estimate."""
    maximize(collected(2000, a, epsilon).rows)
    rows = collected(n, a, epsilon).rows
    start = time.process_time()
    maximize(rows)
    return time.process_time() - start


def clients(n, a):
    """Yield (what, ns a report, None, ns of NumPy) of clients that draw one report a user."""
    rng = np.random.default_rng(5)
    values, grr, olh = rng.integers(a, size=n), GRR(a, 1.0), LocalHashing(a, 1.0)

    def plain_grr():
        other = rng.integers(a - 1, size=n)
        other += other >= values
        return np.where(rng.random(n) < grr.hit_rates[0], values, other)

    yield "GRR client", cpu(lambda: grr.privatize(values, rng)) / n * 1e9, None, cpu(plain_grr) / n * 1e9
    yield "OLH client", cpu(lambda: olh.privatize(values, rng)) / n * 1e9, None, None


def everything(full):
    """Yield (what, number, unit, limit or None, number of NumPy or None)."""
    for what, ours, limit, plain in passes_of(10**6, 128):
        yield f"{what}, a = 128", ours, "ns a report", limit, plain
    yield "local hashing supports, a = 128", hashed(200_000, 128), "ns a report", 66, None
    ours, plain = unary(20_000, 1024)
    yield "unary client, a = 1,024", ours, "ns a bit", 0.4, plain
    for what, ours, limit, plain in clients(200_000, 100):
        yield f"{what}, a = 100", ours, "ns a report", limit, plain
    yield "posterior, a = 1,024, n = 1e5, 2,000 weighted draws", posterior(10**5, 1024, 2000), "s", 3, None
    yield "MLE, a = 1,024, n = 1e5, epsilon 1", mle(10**5, 1024, 1.0), "s", None, None
    if full:
        yield "posterior, a = 1,024, n = 1e6, 2,000 weighted draws", posterior(10**6, 1024, 2000), "s", 35, None
        yield "posterior, a = 1,024, n = 1e6, 500 weighted draws", posterior(10**6, 1024, 500), "s", 15, None
        for epsilon, limit in ((1.0, 1.0), (2.0, 1.0), (4.0, 1.5)):
            yield f"MLE, a = 1,024, n = 1e6, epsilon {epsilon:g}", mle(10**6, 1024, epsilon), "s", limit, None


def older(folder, full):
    """Return {what: number} of an older version."""
    command = [sys.executable, __file__, "--json", *(["--full"] if full else [])]
    environment = {**os.environ, "PYTHONPATH": folder}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also a million reports over 1,024 categories (minutes)")
    parser.add_argument("--before", metavar="FOLDER", help="checkout of an older version to compare with")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.json:
        print(json.dumps({what: number for what, number, *_ in everything(options.full)}))
        return
    before = older(options.before, options.full) if options.before else {}
    print(f"{'':60} {'ours':>9} {'limit':>7} {'NumPy':>9} {'before':>9}")
    for what, ours, unit, limit, plain in everything(options.full):
        cells = [f"{ours:9.2f}", f"{limit:7g}" if limit else f"{'–':>7}"]
        cells += [f"{other:9.2f}" if other else f"{'–':>9}" for other in (plain, before.get(what))]
        print(f"{what:60} {' '.join(cells)}  {unit}", flush=True)


if __name__ == "__main__":
    main()
