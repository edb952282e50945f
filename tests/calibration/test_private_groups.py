"""Private groups through other protocols than randomized response: coverage of 95 % intervals over replications.

Ten thousand log-normal values in groups of .7 and .3, reports with ε = 1.5, ``method="auto"``. Before every report had its
own unbiased weights, unary encoding and local hashing covered 1 of 54 shares. What came out is in private_groups.csv beside
this file.
"""

import csv
import pathlib
import time
import warnings

import numpy as np
import pyarrow
import pytest
from recorded import record

import ldpbayes as lb
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.protocols import HadamardResponse, LocalHashing, PooledHashing, Rappor, UnaryEncoding

SUMMARY = pathlib.Path(__file__).with_name("private_groups.csv")
FIELDS = "protocol replications share mean_0 mean_1 median_0 median_1 smooth trusted seconds".split()
RECORDS, REPLICATIONS, LEVEL = 10_000, 200, 1.5
PROTOCOLS = {
    "oue": UnaryEncoding.optimized(2, LEVEL),
    "sue": UnaryEncoding.symmetric(2, LEVEL),
    "olh": LocalHashing(2, LEVEL),
    "olh, pool": PooledHashing(2, LEVEL, seeds=64),
    "hadamard": HadamardResponse(2, LEVEL),
    "rappor": Rappor.one_time(2, LEVEL, 6, 3, 2, candidates=("a", "b")),
}
#: Share of the second group, location and scale of the log values.
SHARE, LOCATION, SCALE = 0.3, np.array([0.0, 0.7]), 0.6


def replicated(name):
    """Return the row of a protocol: coverage of the second group's share, and of means and medians of both."""
    protocol, start = PROTOCOLS[name], time.process_time()
    truth = np.concatenate([[SHARE], np.exp(LOCATION + SCALE**2 / 2), np.exp(LOCATION)])
    covered, smooth, trusted = [], 0, 0
    for i in range(REPLICATIONS):
        rng = np.random.default_rng([i, len(name)])
        x = (rng.random(RECORDS) < SHARE).astype(int)
        fields = protocol.format_reports(protocol.privatize(x, rng), ["a", "b"])
        columns = dict(zip(protocol.report_fields, [list(map(str, one)) for one in fields], strict=True))
        frame = pyarrow.table({"z": rng.lognormal(LOCATION[x], SCALE), **columns})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiagnosticWarning)
            found = lb.by_private_group(frame, "z", protocol=protocol, categories=["a", "b"], draws=250, random_seed=i)
        held = [found.shares().isel(group=[1]), found.mean(), found.quantile(0.5).isel(quantile=0)]
        low, high = (np.concatenate([one[end].values for one in held]) for end in ("lower", "upper"))
        covered.append((low <= truth) & (truth <= high))
        smooth, trusted = smooth + (found.method == "smooth"), trusted + found.trusted
    shares = [f"{one:.3f}" for one in np.mean(covered, axis=0)]
    seconds = f"{(time.process_time() - start) / REPLICATIONS:.2f}"
    return [name, REPLICATIONS, *shares, smooth / REPLICATIONS, trusted / REPLICATIONS, seconds]


def judge(row):
    """Assert what a row has to show: an interval of 95 % misses 20 or more of 200 once in 500."""
    covered = [float(row[name]) for name in FIELDS[2:7]]
    assert min(covered) > 0.9 and np.mean(covered) >= 0.92
    assert float(row["trusted"]) == 1.0


@pytest.mark.calibrate
@pytest.mark.parametrize("name", PROTOCOLS)
def test_intervals_cover(name):
    row = dict(zip(FIELDS, map(str, replicated(name)), strict=True))
    record(SUMMARY, row, ("protocol",))
    judge(row)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_recorded_study_shows_it(name):
    with SUMMARY.open(newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["protocol"] == name]
    judge(row)
