"""Maximum likelihood against cvxpy, at a million reports, and over a stress set; CPU seconds of one thread.

Run: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/mle.py [cvxpy] [million] [reads] [stress]

"reads" counts a maximization of OUE in reads of the reports: one read is one compiled pass that sums the same packed bits by
column, which is their tally.
"""

import pathlib
import sys
import time

import numpy as np

from ldpbayes.collections import Tally
from ldpbayes.estimators.mle import maximize
from ldpbayes.likelihoods import pass_kernels
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))
from conic import conic

#: Reads of the bits that a maximization may take.
READS = 25
PROTOCOLS = {"SUE": UnaryEncoding.symmetric, "subset": SubsetSelection, "local hashing": LocalHashing}


def simulate(name, size, n, epsilon, p=None, seed=1):
    """Return the rows of n reports of values drawn from p (from the flat Dirichlet by default)."""
    rng = np.random.default_rng(seed)
    protocol = {**PROTOCOLS, "OUE": UnaryEncoding.optimized}[name](size, epsilon)
    values = rng.choice(size, n, p=rng.dirichlet(np.ones(size)) if p is None else p)
    parts = [protocol.privatize(part, rng) for part in np.array_split(values, -(-n // 50_000))]
    return Tally(protocol, np.concatenate(parts)).rows


def timed(call, repeats=1):
    """Return (last result, median CPU seconds)."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
    return result, float(np.median(seconds))


def against_cvxpy(size=256, n=10_000, epsilon=1.0):
    """Print the difference in log-likelihood and the ratio of CPU times."""
    print(f"\nagainst cvxpy (Clarabel), a = {size}, n = {n:,}, epsilon = {epsilon:g}")
    for name in PROTOCOLS:
        rows = simulate(name, size, n, epsilon)
        found, fast = timed(lambda rows=rows: maximize(rows), 5)
        reference, slow = timed(lambda rows=rows: conic(rows))
        difference = rows.log_likelihood(found.p) - rows.log_likelihood(reference.p)
        print(
            f"  {name:14} ours {fast:.4f} s, gap {found.gap:.1e}, {found.passes:.1f} passes; cvxpy {slow:.1f} s, "
            f"gap {reference.gap:.1e}; log-likelihood ours − cvxpy {difference:+.1e}; {slow / fast:,.0f} times faster"
        )


def million(size=1024, n=1_000_000, levels=(0.5, 1.0, 2.0, 4.0)):
    """Print passes, CPU seconds and gap at a million reports."""
    print(f"\na = {size:,}, n = {n:,}")
    for name in PROTOCOLS:
        for epsilon in levels:
            rows = simulate(name, size, n, epsilon)
            maximize(simulate(name, size, 3000, epsilon), method="quasi-newton")  # compiles the kernels
            found, seconds = timed(lambda rows=rows: maximize(rows))
            print(
                f"  {name:14} epsilon {epsilon:3g}: {seconds:.2f} s, {found.passes:.1f} passes, "
                f"{found.iterations} iterations, gap {found.gap:.1e}",
                flush=True,
            )


def reads(size=1024, n=1_000_000, levels=(1.0, 2.0, 4.0)):
    """Print the CPU seconds of a maximization over those of one read of the same packed bits."""
    print(f"\nOUE, a = {size:,}, n = {n:,}: in reads of the packed bits, at most {READS} asked")
    for epsilon in levels:
        rows = simulate("OUE", size, n, epsilon)
        words, starts, out = rows.words, np.array([0, n]), np.zeros((1, size), dtype=np.int64)
        pass_kernels.grouped_bits(words, starts, out)
        _, read = timed(lambda words=words, starts=starts, out=out: pass_kernels.grouped_bits(words, starts, out), 5)
        maximize(simulate("OUE", size, 3000, epsilon))  # compiles the kernels
        found, first = timed(lambda rows=rows: maximize(rows))
        _, again = timed(lambda rows=rows: maximize(rows), 3)
        print(
            f"  epsilon {epsilon:3g}: one read {read:.4f} s; {first:.2f} s, {first / read:.1f} reads; again "
            f"{again:.2f} s, {again / read:.1f} reads; {found.passes:.1f} passes, gap {found.gap:.1e}",
            flush=True,
        )


def stress(sizes=(3, 64, 256), numbers=(1, 50, 10_000)):
    """Print the worst certificate over levels, sizes, numbers and a distribution with 99 % in one category."""
    print("\nstress set: largest gap over epsilon 0.01 … 20")
    for name in PROTOCOLS:
        for size in sizes:
            for n in numbers:
                for point in (False, True):
                    p = np.append(np.full(size - 1, 0.01 / (size - 1)), 0.99) if point else None
                    gaps, cpu = [], 0.0
                    for epsilon in (0.01, 0.1, 1.0, 4.0, 8.0, 20.0):
                        rows = simulate(name, size, n, epsilon, p)
                        found, seconds = timed(lambda rows=rows: maximize(rows))
                        gaps.append(found.gap)
                        cpu = max(cpu, seconds)
                    shape = "99 % in one" if point else "Dirichlet  "
                    print(f"  {name:14} a {size:4} n {n:6} {shape}: gap ≤ {max(gaps):.1e}, slowest {cpu:.3f} s", flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["cvxpy", "million", "reads", "stress"]
    for part in chosen:
        {"cvxpy": against_cvxpy, "million": million, "reads": reads, "stress": stress}[part]()
