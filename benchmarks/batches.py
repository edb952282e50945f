"""Many cells and large alphabets: CPU seconds of one thread and peak memory, each row in a process of its own.

Run: python benchmarks/batches.py [--only TEXT]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
CELLS, CATEGORIES = 10_000, 32
ROWS = {}


def row(name, seconds, megabytes=None):
    """Register a row with the CPU seconds and the memory that it should stay below."""

    def add(run):
        ROWS[name] = run, seconds, megabytes
        return run

    return add


def shares(size):
    """Return Zipf's distribution."""
    p = 1 / np.arange(1.0, size + 1)
    return p / p.sum()


def zeros(size):
    return [str(x) for x in range(size)]


def cells_of(make):
    """Return Cells; make(rng, protocol) gives one cell."""
    from ldpbayes import Cells

    rng = np.random.default_rng(1)
    return Cells({i: make(rng) for i in range(CELLS)}, by="day", categories=zeros(CATEGORIES))


@row("10,000 cells, GRR", 20)
def cells_grr(clock):
    from ldpbayes import Collection, Tally, fit
    from ldpbayes.protocols import GRR

    protocol, labels = GRR(CATEGORIES, 1.0), zeros(CATEGORIES)

    def make(rng):
        truth = rng.multinomial(rng.integers(50, 5000), rng.dirichlet(np.ones(CATEGORIES)))
        return Collection(labels, [Tally(protocol, *protocol.simulate(truth, rng))])

    cells = cells_of(make)
    fit(cells.take([0, 1]), "jeffreys", draws=0)  # compilation
    clock()
    tree = fit(cells)
    return f"means, sds, intervals, evidence; {tree.attrs['prior']}"


def weak_cells(number, a):
    """Return cells with 300 reports of GRR at ε = 1 over few categories."""
    from ldpbayes import Cells, Collection, Tally
    from ldpbayes.protocols import GRR

    rng, protocol = np.random.default_rng(6), GRR(a, 1.0)

    def make():
        return Collection(
            zeros(a), [Tally(protocol, *protocol.simulate(rng.multinomial(300, rng.dirichlet(np.ones(a))), rng))]
        )

    return Cells({i: make() for i in range(number)}, by="day", categories=zeros(a))


@row("2,500 cells, 6 categories, weak reports", 15)
def cells_few(clock):
    from ldpbayes import fit

    cells = weak_cells(2500, 6)
    fit(cells.take([0, 1]), "jeffreys", draws=0)
    clock()
    return fit(cells, "jeffreys", draws=0).attrs["reason"]


@row("20 cells, 10 categories, with draws", 1)
def cells_drawn(clock):
    from ldpbayes import fit

    cells = weak_cells(20, 10)
    fit(cells.take([0, 1]), random_seed=1)
    clock()
    return fit(cells, random_seed=1).attrs["prior"]


@row("1,000 cells, 10 categories, with draws", 20)
def many_cells_drawn(clock):
    from ldpbayes import fit

    cells = weak_cells(1000, 10)
    fit(cells.take([0, 1]), random_seed=1)
    clock()
    return fit(cells, random_seed=1).attrs["prior"]


@row("10,000 cells, summaries", 20)
def cells_summaries(clock):
    from dataclasses import replace

    from ldpbayes import Tally, fit
    from ldpbayes.methods.expansion import at_mean
    from ldpbayes.protocols import UnaryEncoding

    protocol, rng = UnaryEncoding.optimized(CATEGORIES, 1.0), np.random.default_rng(2)
    kept = []
    for _ in range(20):
        truth = rng.multinomial(3000, rng.dirichlet(np.ones(CATEGORIES)))
        kept.append(replace(at_mean(Tally(protocol, *protocol.simulate(truth, rng)).rows)[0], sample=None))
    cells = cells_of(lambda rng: kept[rng.integers(len(kept))])
    fit(cells.take([0, 1]), "jeffreys", draws=0)
    clock()
    tree = fit(cells)
    return f"means, sds, intervals, evidence; {tree.attrs['prior']}"


@row("GRR, 10^6 categories, 10^7 reports", 60, 3000)
def large_grr(clock):
    from ldpbayes import Collection, Tally, fit
    from ldpbayes.pages import show
    from ldpbayes.protocols import GRR

    size, rng = 10**6, np.random.default_rng(3)
    protocol = GRR(size, 7.0)
    reports = protocol.simulate(rng.multinomial(10**7, shares(size)), rng)
    clock()
    collection = Collection(zeros(size), [Tally(protocol, *reports)])
    tree = fit(collection)
    show(tree, top=20)
    return f"from counts to the 20 largest; {tree.attrs['method']}"


@row("Hadamard, 10^5 categories, 10^6 reports", 150)
def large_hadamard(clock):
    from ldpbayes import Collection, Tally, fit
    from ldpbayes.protocols import HadamardResponse

    size, rng = 10**5, np.random.default_rng(4)
    protocol = HadamardResponse(size, 2.0)
    reports = protocol.simulate(rng.multinomial(10**6, shares(size)), rng)
    clock()
    tree = fit(Collection(zeros(size), [Tally(protocol, *reports)]))
    return tree.attrs["method"]


@row("OLH, 10^4 categories, 10^6 reports", 120)
def large_hashing(clock):
    from ldpbayes import Collection, Tally, fit
    from ldpbayes.estimators.mle import maximize
    from ldpbayes.protocols import LocalHashing

    size, rng = 10**4, np.random.default_rng(5)
    protocol = LocalHashing(size, 2.0)
    reports = protocol.privatize(rng.choice(size, 10**6, p=shares(size)), rng)
    clock()
    collection = Collection(zeros(size), [Tally(protocol, reports)])
    start = time.process_time()
    maximize(collection.rows)
    took = time.process_time() - start
    tree = fit(collection, draws=0)
    return f"MLE {took:.0f} s, means and sds; {tree.attrs['method']}"


def measured(name):
    """Return what a row prints, run in a process of its own."""
    env = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__, "--row", name], capture_output=True, text=True, env=env)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        began = []
        note = ROWS[given.row][0](lambda: began.append(time.process_time()))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"cpu": time.process_time() - began[0], "peak": peak, "note": note}))
        return
    print(f"{'':40s} {'CPU s':>8s} {'at most':>8s} {'peak MB':>8s}")
    for name, (_, seconds, megabytes) in ROWS.items():
        if given.only.lower() in name.lower():
            found = measured(name)
            if "failed" in found:
                print(f"{name:40s} {found['failed']}")
                continue
            limit = f" (at most {megabytes})" if megabytes else ""
            print(f"{name:40s} {found['cpu']:8.1f} {seconds:8d} {found['peak']:8.0f}{limit}   {found['note']}", flush=True)


if __name__ == "__main__":
    main()
