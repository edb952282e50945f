"""Tests that do not depend on the distribution P: support sizes, seeds and cohorts."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from ldpbayes.arrays import log_choose
from ldpbayes.collections import Tally
from ldpbayes.fitness.base import RARE, Check
from ldpbayes.fitness.supports import chosen
from ldpbayes.protocols.base import Ancillary

#: Cells are pooled until each has this expected count.
LEAST_EXPECTED = 5.0
#: Uniform values of a large range are compared in at most so many equal parts.
MAX_PARTS = 64
#: A mean is compared with its expectation from this many reports on.
LEAST_REPORTS = 100
#: … and on so many reports times categories at most.
MAX_ENTRIES = 2**24


def structural_checks(tally: Tally) -> Iterator[Check]:
    """Yield the tests of one channel that hold for every P.

    Parameters
    ----------
    tally : Tally

    Yields
    ------
    Check
    """
    for ancillary in tally.protocol.ancillaries():
        # A mean is tested on some of the reports where all of them would take long.
        most = MAX_ENTRIES // tally.protocol.n_categories if ancillary.mean is not None else len(tally.reports)
        reports, counts = chosen(tally, max(most, 1))
        yield from _of_values(ancillary, ancillary.values(reports), counts, tally.name)


def _of_values(part: Ancillary, values: NDArray, counts: NDArray, channel: str) -> Iterator[Check]:
    n = float(counts.sum())
    if part.mean is not None:
        if n >= LEAST_REPORTS:
            mean = values @ counts / n
            spread = math.sqrt(((values - mean) ** 2 @ counts) / (n - 1) / n)
            z = (mean - part.mean) / spread if spread > 0 else math.copysign(math.inf, mean - part.mean)
            yield Check(f"mean of the {part.name}", channel, z, math.nan, float(2 * ndtr(-abs(z))), "normal")
        return
    if part.law is None and part.size > n:
        _, index = np.unique(values, return_inverse=True)
        most = int(np.bincount(index.reshape(-1), counts).max())
        bound = float(log_choose(n, most)) - (most - 1) * math.log(part.size)
        yield Check(f"repeated {part.name}", channel, most, math.nan, math.exp(min(bound, 0.0)), "upper bound", RARE)
        n_parts = min(MAX_PARTS, 2 ** int(math.log2(max(n / LEAST_EXPECTED, 1))))
        if n_parts < 2:
            return
        values, size, law = (values // -(-part.size // n_parts)).astype(np.int64), n_parts, None
    else:
        size, law = part.size, part.law
    expected = n * (np.full(size, 1 / size) if law is None else law)
    observed, expected = _pooled(np.bincount(values, counts, size), expected)
    if expected.size > 1:
        statistic, df = float(((observed - expected) ** 2 / expected).sum()), expected.size - 1
        yield Check(part.name, channel, statistic, df, float(chdtrc(df, statistic)), "chi-squared")


def _pooled(observed: NDArray, expected: NDArray) -> tuple[NDArray, NDArray]:
    """Return counts with neighbours pooled until every cell expects LEAST_EXPECTED; what is left joins the last cell."""
    starts, total = [0], 0.0
    for i, value in enumerate(expected):
        total += value
        if total >= LEAST_EXPECTED and expected[i + 1 :].sum() >= LEAST_EXPECTED:
            starts.append(i + 1)
            total = 0.0
    return np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
