"""Regression on two continuous covariates: CPU seconds beside those of NumPy for as many draws of the posterior alone.

``python benchmarks/continuous.py [rows]``, by default 100,000. Every row is a cell of its own. The other side is the
log-likelihood of the 4,096 draws that are weighted, written in NumPy without blocks of draws that share a row, and measured
on a sixteenth of them.
"""

import sys
import time
import warnings

import numpy as np
import pandas as pd

import ldpbayes as lb

DRAWS, SHARE = 4096, 16


def survey(n, seed=1):
    """Return (frame, protocol) of n people."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, n))
    truth = (rng.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * x + 0.4 * y))).astype(int)
    protocol = lb.protocols.GRR(2, epsilon=1.0)
    return pd.DataFrame({"x": x, "y": y, "report": protocol.privatize(truth, rng)}), protocol


def main(n=100_000):
    """Print both times and their ratio."""
    warnings.simplefilter("ignore")
    frame, protocol = survey(2000)
    lb.regress(frame, "a ~ x + y", protocol, report="report", random_seed=1)  # compiles
    frame, protocol = survey(n)
    begin = time.process_time()
    found = lb.regress(frame, "a ~ x + y", protocol, report="report", random_seed=1)
    ours = time.process_time() - begin
    columns, law = np.column_stack([np.ones(n), frame["x"], frame["y"]]), protocol.channel()[frame["report"].values]
    draws = found["posterior"]["coefficients"].values[0, : DRAWS // SHARE, :, 1]
    begin = time.process_time()
    for beta in draws:
        share = 1 / (1 + np.exp(-columns @ beta))
        np.log(law[:, 0] + (law[:, 1] - law[:, 0]) * share).sum()
    other = SHARE * (time.process_time() - begin)
    print(
        f"{n:,} rows: {ours:.1f} CPU s with every diagnostic; {DRAWS:,} draws in NumPy {other:.1f} s; {other / ours:.1f} x."
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
