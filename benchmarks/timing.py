"""What the running time of one client call gives away: how often a classifier of times guesses "the truth was kept".

``python benchmarks/timing.py`` times CALLS calls of every protocol's privatize_one on one value and learns, on every other
call, which times go with a kept truth; on the remaining calls it guesses. Calls that kept the truth and calls that did not
weigh the same, so that a constant guess is right half the time and cannot hide what the time says. Printed is by how many
points the share of right guesses exceeds a half; the exit status is 1 where that is more than LIMIT.

The truth counts as kept where the report supports the value, that is where its likelihood is largest.
"""

import gc
import pathlib
import sys
import time

import numpy as np

CALLS = 20_000
#: Level at which the calls are timed: low, so that about as many calls keep the truth as do not.
EPSILON = 0.3
#: Points by which the classifier may beat the constant guess: four standard errors of a share among CALLS/2 guesses.
LIMIT = 0.02
#: Times are cut into this many groups of equal size, each with a guess; more would learn noise.
BINS = 40


def measured(protocol, value, calls):
    """Return (nanoseconds of every call, whether the report supports the value)."""
    for _ in range(200):
        protocol.privatize_one(value)
    took, reports = np.empty(calls, dtype=np.int64), []
    gc.disable()
    try:
        for i in range(calls):
            start = time.perf_counter_ns()
            report = protocol.privatize_one(value)
            took[i] = time.perf_counter_ns() - start
            reports.append(report)
    finally:
        gc.enable()
    rows = protocol.rows(protocol.check_reports(np.array(reports)), np.ones(calls)).dense()
    return took, rows[:, value] >= rows.max(axis=1)


def advantage(protocol, value=0, calls=CALLS):
    """Return by how much times beat a constant guess of whether the truth was kept, on calls not learnt from."""
    took, kept = measured(protocol, value, calls)
    edges = np.quantile(took[::2], np.linspace(0, 1, BINS + 1)[1:-1])
    learnt, tried = np.searchsorted(edges, took[::2]), np.searchsorted(edges, took[1::2])
    votes = np.bincount(learnt, kept[::2] / kept[::2].mean() - ~kept[::2] / (~kept[::2]).mean(), BINS)
    guess, truth = votes[tried] > 0, kept[1::2]
    return float((guess[truth].mean() + (~guess[~truth]).mean()) / 2 - 0.5)


def main():
    """Print the advantage of every protocol of the tests' table and return the exit status."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
    from cases import CASES

    worst = -1.0
    for case in CASES:
        protocol = case.build(case.categories[0], EPSILON)
        points = advantage(protocol)
        worst = max(worst, points)
        print(f"{case.name:25s} {protocol.n_categories:3d} categories   {100 * points:+6.2f} points")
    print(f"worst {100 * worst:+.2f} points, allowed {100 * LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
