"""How the exact GRR posterior's cost grows with n and a, compared with convolution by FFT in the same run."""

import argparse
import math
import statistics
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.signal import fftconvolve
from scipy.special import gammaln

from ldpbayes.collections import Collection, Tally
from ldpbayes.methods.exact import Exact
from ldpbayes.protocols import GRR


def survey(a, n, epsilon, seed=1):
    """Return GRR tallies of a Zipf population."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, a + 1)
    protocol = GRR(a, epsilon)
    reports, counts = protocol.simulate(rng.multinomial(n, weights / weights.sum()), rng)
    return Collection([str(x) for x in range(a)], [Tally(protocol, reports, counts)])


def convolution_evidence(collection, epsilon):
    """Return Σ_k Π h_x(k_x) W(|k|) by convolving whole polynomials in pairs: O(n log² n) with FFTs."""
    a, beta = collection.n_categories, math.expm1(epsilon)
    tally = collection.tallies[0]
    counts = np.bincount(tally.reports, tally.counts, a).astype(int)
    tilt = a / 2 + counts.sum() * beta / (a + beta)
    parts = []
    for s in counts:
        k = np.arange(s + 1)
        log_h = gammaln(s + 1) - gammaln(k + 1) - gammaln(s - k + 1) + k * math.log(beta / tilt) + gammaln(0.5 + k)
        h = np.exp(log_h - log_h.max())
        parts.append(h / h.sum())
    while len(parts) > 1:
        parts = [fftconvolve(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    m = np.arange(parts[0].size)
    log_w = m * math.log(tilt) - gammaln(a / 2 + m)
    return float(np.exp(log_w - log_w.max()) @ parts[0])


def seconds(function, repeats=3):
    """Return the median CPU time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main():
    """Print one line per (a, ε, n)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--categories", type=int, nargs="+", default=[100, 1024])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 4.0])
    parser.add_argument("--log10-n", type=int, nargs="+", default=[4, 6, 8])
    arguments = parser.parse_args()
    table = Table(title="Exact GRR, CPU seconds of one thread")
    columns = ("a", "ε", "n", "moments + evidence", "× smallest n", "covariance", "all quantiles", "draws/s", "accepted")
    for column in (*columns, "FFT evidence", "FFT / ours"):
        table.add_column(column, justify="right")
    for a in arguments.categories:
        for epsilon in arguments.epsilon:
            first = None
            for n in (10**k for k in sorted(arguments.log10_n)):
                collection = survey(a, n, epsilon)
                _ = collection.rows
                base = seconds(lambda c=collection: Exact().moments(c, "jeffreys"), repeats=5)
                first = first or base
                moments = Exact().moments(collection, "jeffreys")
                covariance, quantiles = seconds(moments.covariance), seconds(moments.interval, repeats=1)
                moments.engine.draws(1, np.random.default_rng(0))
                *_, accepted = moments.engine.draws(100, np.random.default_rng(0))
                rate = 2000 / seconds(lambda m=moments: m.engine.draws(2000, np.random.default_rng(1)), repeats=1)
                peer = seconds(lambda c=collection, e=epsilon: convolution_evidence(c, e), 1) if n <= 10**6 else math.nan
                row = [f"{a}", f"{epsilon:g}", f"{n:.0e}", f"{base:.4f}", f"{base / first:.1f}", f"{covariance:.4f}"]
                row += [f"{quantiles:.4f}", f"{rate:,.0f}", f"{accepted:.2f}", f"{peer:.3f}", f"{peer / base:.0f}"]
                table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
