"""A million page loads by their privatized confidence: the smooth model beside the recipe with a bootstrap and pandas.

``python benchmarks/private_groups.py [records]`` simulates durations of two groups with labels randomized at the rate that
browsers use, and prints CPU seconds of one thread for

- by_private_group: 200 bins, 2,000 draws, its check against the recipe included;
- the recipe: negative weights, and a weighted mean and quantiles that need one sort;
- the recipe with a bootstrap of RESAMPLES resamples of the records, which is what gives it an interval;
- pandas' group-by on the true labels, which nobody has: the cost of the answer without privacy.

All in one run, on the same records; ratios are to by_private_group.
"""

import os
import resource
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

RECORDS, BINS, DRAWS, RESAMPLES = 1_000_000, 200, 2000, 200
RATE = 2 / (1 + np.exp(1.1))
LEVELS = (0.5, 0.75, 0.95)
#: Most CPU seconds for by_private_group.
LIMIT = 10.0


def records(n, seed=1):
    """Return (durations in ms, true labels, reported labels); 0 is high confidence, 1 low."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.3).astype(np.int8)
    reported = np.where(rng.random(n) < RATE, rng.integers(2, size=n), truth).astype(np.int8)
    return rng.lognormal(np.where(truth, 7.4, 6.8), np.where(truth, 0.8, 0.6)).round(1), truth, reported


def recipe(order, value, reported, weight):
    """Return (shares, means, quantiles) of the recipe; ``weight`` is how often each record is there."""
    found = []
    for group in (0, 1):
        own = ((reported == group) - RATE / 2) / (1 - RATE) * weight
        total = own.sum()
        running = np.cumsum(own[order]) / total
        found += [total / weight.sum(), own @ value / total]
        found += [value[order[np.argmax(running >= level)]] for level in LEVELS]
    return np.array(found)


def seconds(call):
    """Return (CPU seconds, what a call returned)."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def main(n=RECORDS):
    import pandas
    import pyarrow

    import ldpbayes as lb

    value, truth, reported = records(n)
    labels = np.array(["high", "low"])
    frame = pyarrow.table({"duration": value, "confidence": labels[reported], "rate": np.full(n, RATE)})
    # The first call loads compiled code.
    lb.by_private_group(frame.slice(0, 5000), "duration", report="confidence", rate_column="rate", random_seed=1)
    took = {}
    settings = {"rate_column": "rate", "bins": BINS, "draws": DRAWS // 4, "random_seed": 1}
    took["by_private_group"], found = seconds(
        lambda: lb.by_private_group(frame, "duration", report="confidence", **settings).summary()
    )
    order = np.argsort(value, kind="stable")
    took["recipe, no interval"], _ = seconds(lambda: recipe(np.argsort(value, kind="stable"), value, reported, np.ones(n)))
    rng, some = np.random.default_rng(2), 5
    part, _ = seconds(lambda: [recipe(order, value, reported, rng.poisson(1.0, n)) for _ in range(some)])
    took[f"recipe, bootstrap of {RESAMPLES} (from {some})"] = part * RESAMPLES / some
    open_frame = pandas.DataFrame({"duration": value, "label": labels[truth]})

    def grouped():
        by = open_frame.groupby("label")["duration"]
        return by.mean(), by.quantile(list(LEVELS))

    took["pandas group-by, true labels"], _ = seconds(grouped)
    first = took["by_private_group"]
    print(f"{n:,} records, {BINS} bins, {DRAWS:,} draws; method {found.attrs['method']}, {found.attrs['sampling']}")
    for name, cpu in took.items():
        print(f"{name:45s} {cpu:9.2f} CPU s   {cpu / first:8.2f} of by_private_group")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB; limit {LIMIT:g} CPU s")
    return int(n == RECORDS and first > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
