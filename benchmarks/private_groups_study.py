"""Private groups beside the reweighting recipe: error, coverage and monotonicity; writes data/studies/private_groups.csv.

``python benchmarks/private_groups_study.py [replications at 1e4] [at 1e6]`` draws records with labels randomized at the rate
that browsers use (0.49948, ε = 1.1) from two populations:

- pages: log-normal page loads, 30 % with low confidence, which are slower and vary more;
- flights: minutes in the air of 327,346 flights from New York in 2013, drawn with replacement and spread over each minute;
  the longer a flight, the more likely it has the private label "low". Routes make the distribution bumpy.

Each replication asks for the share, mean, median, 75 % and 95 % quantile of both groups, by by_private_group and by the
recipe; at 1e4 records the recipe also gets the percentile bootstrap that a careful user would add.
"""

import csv
import os
import pathlib
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import special, stats

ROOT = pathlib.Path(__file__).parents[1]
OUTPUT = ROOT / "data" / "studies" / "private_groups.csv"
RATE = 2 / (1 + np.exp(1.1))
LEVELS = (0.5, 0.75, 0.95)
QUANTITIES = ("share", "mean", "q50", "q75", "q95")
RESAMPLES = 200


class Pages:
    """Log-normal durations in ms."""

    name, share, centre, spread = "pages", 0.3, np.array([6.8, 7.4]), np.array([0.6, 0.8])

    def draw(self, n, rng):
        x = (rng.random(n) < self.share).astype(int)
        return rng.lognormal(self.centre[x], self.spread[x]), x

    def truth(self):
        quantiles = np.exp(self.centre + self.spread * stats.norm.ppf(LEVELS)[:, None])
        return np.vstack([[1 - self.share, self.share], np.exp(self.centre + self.spread**2 / 2), quantiles])


class Flights:
    """Minutes in the air; P(low | minutes) rises with the logarithm of the minutes. Seconds are uniform."""

    name = "flights"

    def __init__(self):
        with open(ROOT / "data" / "populations" / "flights_air_time.csv") as handle:
            rows = [(int(row["value"]), int(row["count"])) for row in csv.DictReader(handle)]
        self.value, count = np.array([row for row in rows if row[1]]).T
        self.p = count / count.sum()
        self.low = special.expit(2.0 * (np.log(self.value) - np.log(200)))

    def draw(self, n, rng):
        at = rng.choice(len(self.p), n, p=self.p)
        return self.value[at] + rng.random(n), (rng.random(n) < self.low[at]).astype(int)

    def truth(self):
        groups = np.stack([self.p * (1 - self.low), self.p * self.low], axis=1)
        share = groups.sum(axis=0)
        groups /= share
        running = np.cumsum(groups, axis=0)
        at = np.array([[np.argmax(running[:, x] >= level) for x in (0, 1)] for level in LEVELS])
        inside = (np.array(LEVELS)[:, None] - running[at, [0, 1]]) / groups[at, [0, 1]] + 1
        return np.vstack([share, (self.value + 0.5) @ groups, self.value[at] + inside])


def recipe(value, order, reported, weight):
    """Return ((5, 2) answers, (2,) largest decrease of the weighted distribution function) by negative weights."""
    answers, falls = np.empty((5, 2)), np.empty(2)
    ends = np.append(np.flatnonzero(np.diff(value[order])), len(order) - 1)
    for x in (0, 1):
        own = ((reported == x) - RATE / 2) / (1 - RATE) * weight
        total = own.sum()
        running = np.cumsum(own[order])[ends] / total
        answers[:2, x] = total / weight.sum(), own @ value / total
        answers[2:, x] = [value[order[ends[np.argmax(running >= level)]]] for level in LEVELS]
        falls[x] = max(0.0, float((np.maximum.accumulate(running) - running).max()))
    return answers, falls


def replicate(population, n, seed, bootstrapped):
    """Return rows of one replication: (quantity, group, way, estimate, lower, upper)."""
    import pyarrow

    import ldpbayes as lb

    rng = np.random.default_rng([seed, n])
    value, x = population.draw(n, rng)
    reported = np.where(rng.random(n) < RATE, rng.integers(2, size=n), x)
    frame = pyarrow.table({"z": value, "y": reported, "r": np.full(n, RATE)})
    start = time.process_time()
    found = lb.by_private_group(
        frame, "z", report="y", categories=["0", "1"], rate_column="r", quantiles=LEVELS, draws=250, random_seed=seed
    )
    table = found.summary()
    took = time.process_time() - start
    ours = np.stack([table[key].transpose("quantity", "group").values for key in ("mean", "lower", "upper")])
    order = np.argsort(value, kind="stable")
    simple, falls = recipe(value, order, reported, np.ones(n))
    ends = np.full((2, 5, 2), np.nan)
    if bootstrapped:
        again = np.stack(
            [recipe(value, order, reported, rng.multinomial(n, np.full(n, 1 / n)))[0] for _ in range(RESAMPLES)]
        )
        ends = np.quantile(again, [0.025, 0.975], axis=0)
    rows = []
    for i, quantity in enumerate(QUANTITIES):
        for g in (0, 1):
            rows.append((quantity, g, "groups", *ours[:, i, g], found.method, took, 0.0))
            rows.append((quantity, g, "recipe", simple[i, g], *ends[:, i, g], "recipe", 0.0, falls[g]))
    return rows


def main(many=200, few=30):
    warnings.simplefilter("ignore")
    start, lines = time.process_time(), []
    for population in (Pages(), Flights()):
        truth = population.truth()
        for n, replications in ((10_000, many), (1_000_000, few)):
            held = []
            for seed in range(replications):
                held += replicate(population, n, seed, n <= 10_000)
            for i, quantity in enumerate(QUANTITIES):
                for g, group in enumerate(("high", "low")):
                    for way in ("groups", "recipe"):
                        own = [row for row in held if row[:3] == (quantity, g, way)]
                        estimate, lower, upper = (np.array([row[k] for row in own]) for k in (3, 4, 5))
                        squares = (estimate - truth[i, g]) ** 2
                        inside = (lower <= truth[i, g]) & (truth[i, g] <= upper)
                        known = np.isfinite(lower).all()
                        lines.append(
                            {
                                "population": population.name,
                                "records": n,
                                "replications": replications,
                                "quantity": quantity,
                                "group": group,
                                "way": way,
                                "truth": truth[i, g],
                                "mean_squared_error": squares.mean(),
                                "standard_error": squares.std(ddof=1) / np.sqrt(replications),
                                "coverage": inside.mean() if known else "",
                                "width": (upper - lower).mean() if known else "",
                                "not_monotone": np.mean([row[8] > 1e-9 for row in own]),
                                "largest_fall": np.mean([row[8] for row in own]),
                                "not_smooth": np.mean([row[6] != "smooth" for row in own]) if way == "groups" else "",
                                "cpu_seconds": np.mean([row[7] for row in own]),
                            }
                        )
            print(f"{population.name} {n:,}: {time.process_time() - start:.0f} CPU s so far", flush=True)
    OUTPUT.parent.mkdir(exist_ok=True)
    with open(OUTPUT, "w", newline="") as handle:
        writer = csv.DictWriter(handle, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{cell:.8g}" if isinstance(cell, float) else cell for key, cell in line.items()} for line in lines
        )


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
