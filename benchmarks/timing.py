"""What the running time of one client call gives away: whether the truth was kept, and which value was reported.

``python benchmarks/timing.py`` times CALLS calls of every protocol's privatize_one, learns from every other call which times
go with which label, and guesses the labels of the remaining calls. Both labels weigh the same, so that a constant guess is
right half the time and cannot hide what the time says. Printed is by how many points the share of right guesses exceeds a
half, for two kinds of labels:

- *kept*: one value; did the report keep the truth, that is, is its likelihood largest at the value?
- *values*: two values in random order; which of them was it? The worst of three pairs, and as a control the same calls with
  labels drawn by chance.

``python benchmarks/timing.py hadamard grr`` times these only. The exit status is 1 where anything but a control is beyond
LIMIT.
"""

import gc
import pathlib
import sys
import time

import numpy as np

from ldpbayes.errors import LDPBayesError

CALLS = 20_000
#: Level at which the calls are timed: low, so that about as many calls keep the truth as do not.
EPSILON = 0.3
#: Numbers of categories at which values are timed: with few, Python's integers are all among those it keeps; not with many.
SIZES = (8, 300)
#: Points by which the classifier may beat the constant guess: four standard errors of a share among CALLS/2 guesses.
LIMIT = 0.02
#: Times are cut into this many groups of equal size, each with a guess; more would learn noise.
BINS = 40


def timed(protocol, values):
    """Return (nanoseconds of a call for each value, the reports)."""
    for value in values[:200]:
        protocol.privatize_one(value)
    took, reports = np.empty(len(values), dtype=np.int64), []
    gc.disable()
    try:
        for i, value in enumerate(values):
            start = time.perf_counter_ns()
            report = protocol.privatize_one(value)
            took[i] = time.perf_counter_ns() - start
            reports.append(report)
    finally:
        gc.enable()
    return took, reports


def guessed(took, label):
    """Return by how much times beat a constant guess of the label, on calls not learnt from."""
    edges = np.quantile(took[::2], np.linspace(0, 1, BINS + 1)[1:-1])
    learnt, tried = np.searchsorted(edges, took[::2]), np.searchsorted(edges, took[1::2])
    votes = np.bincount(learnt, label[::2] / label[::2].mean() - ~label[::2] / (~label[::2]).mean(), BINS)
    guess, truth = votes[tried] > 0, label[1::2]
    return float((guess[truth].mean() + (~guess[~truth]).mean()) / 2 - 0.5)


def of_outcomes(protocol, value=0, calls=CALLS):
    """Return what the time says about whether the truth was kept."""
    took, reports = timed(protocol, [value] * calls)
    rows = protocol.rows(protocol.check_reports(np.array(reports)), np.ones(calls)).dense()
    return guessed(took, rows[:, value] >= rows.max(axis=1))


def of_values(protocol, pair, calls=CALLS, rng=None):
    """Return (what the time says about which value of the pair was reported, and about labels that mean nothing)."""
    rng = np.random.default_rng() if rng is None else rng
    label, nothing = rng.random((2, calls)) < 0.5
    took, _ = timed(protocol, [pair[int(second)] for second in label])
    return guessed(took, label), guessed(took, nothing)


def pairs(a):
    """Return pairs of values that differ in size, parity and bits."""
    return sorted({(0, a - 1), (0, a // 2), (a - 2, a - 1)} - {(0, 0)})


def main(names):
    """Print what the times say about every protocol of the tests' table, or of those named, and return the exit status."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))
    from cases import CASES

    worst = -1.0
    for case in CASES:
        if names and case.name not in names:
            continue
        for a in sorted({case.categories[0], *SIZES} if case.takes_epsilon else {*case.categories}):
            try:
                protocol = case.build(a, EPSILON)
                protocol.privatize_one(0)
            except LDPBayesError:  # a design of other sizes
                continue
            outcome = of_outcomes(protocol) if a == case.categories[0] else float("nan")
            said = {pair: of_values(protocol, pair) for pair in pairs(a)}
            pair = max(said, key=lambda pair: said[pair][0])
            value, control = said[pair]
            worst = max([worst, value] + [outcome] * (outcome == outcome))
            print(
                f"{case.name:22s} {a:4d} categories   kept {100 * outcome:+6.2f}   values {pair[0]:3d}, {pair[1]:3d} "
                f"{100 * value:+6.2f}   control {100 * control:+6.2f} points",
                flush=True,
            )
    print(f"worst {100 * worst:+.2f} points, allowed {100 * LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
