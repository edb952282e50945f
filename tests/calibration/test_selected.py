"""Confidence intervals of the largest shares shown: how many of them cover, over populations, designs, sizes."""

import csv
import itertools
import pathlib

import numpy as np
import pytest

from ldpbayes import GRR, Tally
from ldpbayes.estimators.confidence import combined_interval, distribution_interval
from ldpbayes.inference.ends import level_of_largest
from ldpbayes.protocols import HadamardResponse, SubsetSelection, UnaryEncoding
from ldpbayes.protocols.base import Binomials

#: Flights to the 50 commonest of 105 destinations, of 336,776 from New York in 2013 (nycflights13).
# fmt: off
FLIGHTS = (
    17283, 17215, 16174, 15508, 14082, 14064, 13331, 12055, 11728, 9705, 9384, 8738, 8163, 7466, 7266, 7198, 7185, 6554,
    6333, 5997, 5819, 5700, 4681, 4656, 4573, 4339, 4113, 3941, 3923, 3799, 3537, 3524, 2884, 2875, 2802, 2737, 2720,
    2589, 2467, 2454, 2439, 2416, 2352, 2115, 2077, 2008, 1789, 1781, 1761, 1632,
)
# fmt: on
FITS = 200
#: Where the coverage of every cell of the grid goes.
STORED = pathlib.Path(__file__).with_name("selected.csv")
COLUMNS = (
    *("categories", "population", "protocol", "epsilon", "reports", "collections"),
    *("coverage", "coverage_error", "uncorrected", "uncorrected_error"),
)


def populations(a):
    x = np.arange(1, a + 1)
    head = np.where(x <= max(a // 25, 1), 10.0, 10.0 / a)
    sparse = np.where(x <= max(a // 10, 1), 1.0 / x, 0.0)
    real = np.interp(np.linspace(0, 49, a), np.arange(50), FLIGHTS)
    found = {"zipf": 1.0 / x, "real": real, "head and even tail": head, "nine tenths empty": sparse}
    return {name: p / p.sum() for name, p in found.items()}


def counts_of(protocol, p, n, rng):
    """Return support counts of FITS collections, (FITS, a), with their rates."""
    value = rng.multinomial(n, p, size=FITS)
    g, h = protocol.hit_rates
    if isinstance(protocol, GRR):
        moved = rng.binomial(n, 1 - (g - h), size=FITS)
        stay = np.stack([rng.multinomial(n - m, p) for m in moved])
        return stay + np.stack([rng.multinomial(m, np.full(p.size, 1 / p.size)) for m in moved]), g, h
    return rng.binomial(value, g) + rng.binomial(n - value, h), g, h


def covered(protocol, p, n, rng):
    """Return the share covered among the largest 5 % shown, at the level for these and uncorrected, (2, FITS)."""
    counts, g, h = counts_of(protocol, p, n, rng)
    k = max(p.size // 20, 1)
    chosen = np.argsort(-counts, axis=1, kind="stable")[:, :k]
    picked, truth = np.take_along_axis(counts, chosen, axis=1).ravel(), p[chosen]
    rates = np.full(picked.size, g), np.full(picked.size, h), np.full(picked.size, n)
    shares = []
    for level in (level_of_largest(0.95, k, p.size), 0.95):
        low, high = (end.reshape(truth.shape) for end in distribution_interval(Binomials(picked, *rates), level))
        shares.append(((low <= truth + 1e-12) & (truth <= high + 1e-12)).mean(axis=1))
    return shares


def stored(a, rows):
    """Write the cells of one number of categories into selected.csv, beside those of the others."""
    held = list(csv.DictReader(STORED.read_text().splitlines())) if STORED.exists() else []
    held = [row for row in held if int(row["categories"]) != a]
    for mean, plain, error, plain_error, name, epsilon, n, protocol in rows:
        numbers = (f"{x:.4f}" for x in (mean, error, plain, plain_error))
        held.append(dict(zip(COLUMNS, (a, name, protocol, epsilon, n, FITS, *numbers), strict=True)))
    with STORED.open("w", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(sorted(held, key=lambda row: int(row["categories"])))


@pytest.mark.calibrate
@pytest.mark.parametrize("a", [50, 200, 1000])
def test_the_largest_shown_are_covered(a):
    """95 % on average over those shown, in every cell: 4 populations, 4 ε, 4 sizes, 2 protocols; 200 collections each."""
    rng, rows = np.random.default_rng(a), []
    grid = itertools.product(populations(a).items(), (0.5, 1.0, 2.0, 3.0), (10**3, 10**4, 10**5, 10**6))
    for (name, p), epsilon, n in grid:
        for protocol in (GRR(a, epsilon), UnaryEncoding.optimized(a, epsilon)):
            shares = np.array(covered(protocol, p, n, rng))
            mean, error = shares.mean(axis=1), shares.std(axis=1, ddof=1) / np.sqrt(FITS)
            rows.append((*mean, error[0], error[1], name, epsilon, n, protocol.name))
    stored(a, rows)
    least, plain = min(rows), min(row[1] for row in rows)
    print(f"a = {a}: least {least}, uncorrected {plain:.3f}, mean {np.mean([row[0] for row in rows]):.4f}")
    assert least[0] >= 0.93
    assert plain < 0.8  # which is why


@pytest.mark.calibrate
@pytest.mark.parametrize("design", [GRR, UnaryEncoding.optimized, SubsetSelection, HadamardResponse])
def test_sums_and_differences_are_covered(design):
    """1,000 collections of three sizes: within four standard errors of 95 % from below (.922)."""
    rng = np.random.default_rng(1)
    for a, n, epsilon in ((6, 60, 1.0), (10, 300, 2.0), (20, 2000, 3.0)):
        p, protocol = populations(a)["zipf"], design(a, epsilon)
        asked = (([0, 1], []), ([a - 1, a - 2], []), ([0], [1]), ([1, 2], [a - 1]))
        hits = np.zeros(len(asked))
        for _ in range(1000):
            one = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
            for i, (first, second) in enumerate(asked):
                found = combined_interval(one, first, second)
                hits[i] += found.lower - 1e-12 <= p[first].sum() - p[second].sum() <= found.upper + 1e-12
        print(a, n, epsilon, hits / 1000)
        assert (hits / 1000 > 0.922).all(), (a, n, epsilon, hits)
