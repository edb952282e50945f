"""Accepted summaries against the full likelihood on populations that no constant was fitted to, at random.

python benchmarks/summary_check.py OUTPUT.csv [--minutes 10] [--seed 1]

A case is a protocol, a population, ε from 0.5 to 4, 8 to 256 categories and 10³ to 10⁵ reports, all drawn by chance. The
reports become summaries as a scan makes them: the pilot is the posterior mean given the support counts, beyond ε = 1.5 with
the spread of that posterior and a sample of reports. Each is checked with its sample, without it, and, as ``fit`` does with
reports that were kept, expanded at the posterior mean itself. Errors are measured as in ``summary_boundary.py``; the sd of a
category is compared relative to the full posterior's. ``surely`` is the larger error less three Monte Carlo errors.
"""

import argparse
import csv
import time
from dataclasses import replace

import numpy as np
from summary_boundary import measured

from ldpbayes.collections import Tally
from ldpbayes.likelihoods import Summary
from ldpbayes.methods.expansion import of_rows, trusted
from ldpbayes.protocols import LocalHashing, SubsetSelection, UnaryEncoding
from ldpbayes.scanning import pilots
from ldpbayes.scanning.pilots import Keeping

PROTOCOLS = {
    "oue": UnaryEncoding.optimized,
    "sue": UnaryEncoding.symmetric,
    "dual": UnaryEncoding.dual,
    "olh": LocalHashing,
    "subset": SubsetSelection,
}
SIZES, REPORTS = (8, 12, 24, 48, 100, 160, 256), (1000, 3000, 10_000, 30_000, 100_000)
LEVELS = (0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
HEADINGS = (
    "protocol population categories reports epsilon seed form kept predicted accepted error noise least_sd most_sd "
    "surely efficiency distance pairs gap seconds"
).split()


def population(name, a, rng):
    """Return a distribution over a categories."""
    if name == "one":  # nearly everybody in one category
        p = np.full(a, 0.1 / (a - 1))
        p[rng.integers(a)] = 0.9
    elif name == "two":  # two categories, the others empty
        p = np.zeros(a)
        p[rng.choice(a, 2, replace=False)] = 0.6, 0.4
    elif name == "geometric":
        p = 0.8 ** np.arange(a)
    elif name == "sparse":
        p = rng.dirichlet(np.full(a, 0.1))
    elif name == "even":
        p = np.ones(a)
    else:
        p = rng.dirichlet(np.ones(a))
    return p / p.sum()


POPULATIONS = ("one", "two", "geometric", "sparse", "even", "flat")


def forms(protocol, tally, alpha, rng):
    """Yield (name, summary, its Accuracy) of the same reports."""
    rows, n = tally.rows, tally.n_reports
    spread = protocol.epsilon > Keeping.plain
    points, variances = pilots.posterior_moments(
        [pilots.of_supports(protocol, [n], rows.support_counts()[None])], (1, rows.n_categories)
    )
    summary = Summary.of(rows, points[0], variances[0] if spread else None)
    yield "sums", summary, trusted(summary, alpha)
    rate = min(1.0, 2.0 ** np.floor(np.log2(Keeping.sampled / n)))
    held = np.flatnonzero(rng.random(n) < rate)
    reports = np.repeat(tally.reports, tally.counts, axis=0)[held]
    sampled = replace(summary, sample=protocol.rows(reports, np.ones(len(held))), rate=rate)
    yield "sampled", sampled, trusted(sampled, alpha)
    own, found = of_rows(rows, alpha)
    yield "kept", own, found


def case(rng, seed):
    """Yield the rows of one case."""
    kind, name = rng.choice(list(PROTOCOLS)), rng.choice(POPULATIONS)
    a, n, eps = int(rng.choice(SIZES)), int(rng.choice(REPORTS)), float(rng.choice(LEVELS))
    protocol, alpha = PROTOCOLS[kind](a, eps), np.full(a, 0.5)
    truth = rng.multinomial(n, population(name, a, rng))
    tally = Tally(protocol, protocol.privatize(np.repeat(np.arange(a), truth), rng))
    done = None
    for form, summary, found in forms(protocol, tally, alpha, rng):
        began = time.process_time()
        # The sample changes the prediction only.
        error = done if form == "sampled" else measured(tally.rows, summary, alpha, 2000 if n * a < 3e6 else 1000, rng)
        done = error
        shift, noise, ratio, ratio_noise, efficiency = error
        worst = np.abs(shift).argmax()
        surely = max((np.abs(shift) - 3 * noise).max(), (np.abs(ratio - 1) - 3 * ratio_noise).max(), 0.0)
        yield [
            *(kind, name, a, n, eps, seed, form, int(n < Keeping().kept_below([protocol])), round(found.error, 4)),
            int(not found.problem),
            *(
                round(float(x), 4)
                for x in (np.abs(shift[worst]), noise[worst], ratio.min(), ratio.max(), surely, efficiency)
            ),
            *(round(found.distance, 3), round(found.pairs, 4), round(found.gap, 3), round(time.process_time() - began, 2)),
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--minutes", type=float, default=10, help="CPU minutes")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with open(given.output, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(HEADINGS)
        seed = 10**6 * given.seed
        while time.process_time() < 60 * given.minutes:
            seed += 1
            writer.writerows(case(np.random.default_rng(seed), seed))
            out.flush()


if __name__ == "__main__":
    main()
