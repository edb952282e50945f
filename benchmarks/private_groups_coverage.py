"""Private groups where curves are hard: untrusted answers and coverage; a study that goes on from its stored table.

``python benchmarks/private_groups_coverage.py [replications] [records] [design …]`` adds replications, ten at a time over
all designs, until each has as many, to data/studies/private_groups_coverage.csv. A row is a design at a number of records:
how many answers each method gave, how many were not trusted, in how many the means were left out because they hang on a
handful of records, and how many of the 95 % intervals held the truth, for share, mean and quantiles of both groups and their
differences. Means that are left out hold nothing: their coverage is that of the others. Seconds are those of the processor
for all replications together.
"""

import csv
import pathlib
import sys
import time
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "calibration")]

import test_outcomes as designs  # noqa: E402

from ldpbayes.private_groups.fitting import Arguments, analyse  # noqa: E402

OUTPUT = ROOT / "data" / "studies" / "private_groups_coverage.csv"
NAMES = ("two modes", "modes aside", "spike", "heavy tails", "rounded alike", "own habits", "own habits, coarse", "own grid")
NAMES += ("spike at zero", "no variance", "no mean")
METHODS = ("smooth", "rounding", "recipe")
HELD = [f"{quantity}_{group}" for quantity in designs.QUANTITIES for group in ("0", "1", "difference")]
COUNTS = ["replications", "untrusted", *METHODS, "means_left_out", *HELD]
MEANS = np.array([name.startswith("mean") for name in HELD])
TOGETHER = 10
#: Exponents of Pareto laws: with and without a third moment, and without a second one.
SHAPES = {"heavy tails": (3.5, 2.5), "no variance": (3.0, 1.5)}


def simulated(design, n, rng):
    """Return (groups, values)."""
    x = (rng.random(n) < 0.3).astype(int)
    if design == "modes aside":  # the second group lies on both sides of the first
        return x, np.where(x, np.where(rng.random(n) < 0.5, -2.0, 2.0), 0.0) + 0.4 * rng.standard_normal(n)
    if design in SHAPES:
        return x, 1 + rng.pareto(np.where(x, *SHAPES[design][::-1]), n)
    if design == "spike at zero":  # in 30 and 60 %
        return x, np.where(rng.random(n) < np.where(x, 0.6, 0.3), 0.0, rng.lognormal(np.where(x, 0.5, 0.0), 0.6))
    if design == "no mean":
        return x, np.exp(np.where(x, 0.7, 0.0) + 0.5 * rng.standard_t(3, n))
    return designs.simulated(design, n, rng)


def truth_of(design):
    """Return the true QUANTITIES, shape (5, 2)."""
    if design in SHAPES:
        shape = np.array(SHAPES[design])
        quantiles = (1 - np.array(designs.LEVELS)[:, None]) ** (-1 / shape)
        return np.vstack([[0.7, 0.3], shape / (shape - 1), quantiles])
    x, z = simulated(design, 4_000_000, np.random.default_rng(99))
    quantiles = np.stack([np.quantile(z[x == g], designs.LEVELS, method="inverted_cdf") for g in (0, 1)], axis=1)
    return np.vstack([[0.7, 0.3], [z[x == g].mean() for g in (0, 1)], quantiles])


def replicate(design, n, i, truth):
    """Return the counts of one replication."""
    rng = np.random.default_rng([i, n, NAMES.index(design)])
    x, z = simulated(design, n, rng)
    found = analyse(designs.records_of(x, z, rng), Arguments(levels=designs.LEVELS, draws=1000, random_seed=i))
    draws = designs.answers_of(found.measures[0])
    draws, truth = (np.concatenate([one, np.diff(one, axis=-1)], axis=-1) for one in (draws, truth))
    lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
    inside = ((lower <= truth) & (truth <= upper)).ravel()
    ways = [int(found.method == way) for way in METHODS]
    left_out = any(found.hanging)
    return np.array([1, int(not found.trusted), *ways, int(left_out), *(inside & ~(MEANS & left_out))], dtype=int)


def read():
    """Return (counts, CPU seconds) of the rows that are stored, by design and records."""
    if not OUTPUT.exists():
        return {}
    with OUTPUT.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["design"], int(row["records"])): (np.array([int(row[name]) for name in COUNTS]), float(row["seconds"]))
        for row in rows
    }


def write(known):
    """Store the rows."""
    with OUTPUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["design", "records", *COUNTS, "seconds"])
        for (design, n), (counts, seconds) in sorted(known.items()):
            writer.writerow([design, n, *counts, f"{seconds:.1f}"])


def main(replications=400, records=10_000, *chosen):
    warnings.simplefilter("ignore")
    known, truths = read(), {}
    for last in range(TOGETHER, replications + TOGETHER, TOGETHER):
        for design in chosen or NAMES:
            counts, seconds = known.get((design, records), (np.zeros(len(COUNTS), dtype=int), 0.0))
            if counts[0] >= min(last, replications):
                continue
            truth = truths.setdefault(design, truth_of(design))
            start = time.process_time()
            for i in range(counts[0], min(last, replications)):
                counts = counts + replicate(design, records, i, truth)
            known[design, records] = counts, seconds + time.process_time() - start
            write(known)
            given = np.maximum(counts[0] - MEANS * counts[COUNTS.index("means_left_out")], 1)
            cover = dict(zip(HELD, (counts[-len(HELD) :] / given).round(3).tolist(), strict=True))
            print(design, records, counts[: len(COUNTS) - len(HELD)].tolist(), cover, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
