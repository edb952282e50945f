"""Tests of which categories reports support, for reports that are too many to list: pairs of bits, and support counts."""

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import bdtr, bdtrc, chdtrc

from ldpbayes.arrays import FloatArray, blocks
from ldpbayes.collections import Tally
from ldpbayes.fitness.base import Check
from ldpbayes.protocols.base import PairRates

#: Pairs of bits are counted in at most so many multiplications, on reports chosen at random where there are more.
MAX_WORK = 2**30
#: Pairs are compared from so many reports on.
LEAST_REPORTS = 100
#: Reports of which the dependence of pairs is estimated, where bits are dependent.
SAMPLED = 400
#: Share of the level of the support counts, whose p-value is an upper bound.
BOUND = 0.25


def support_checks(tally: Tally) -> Iterator[Check]:
    """Yield the test of the pairs of bits and that of the support counts, where the protocol has them.

    Parameters
    ----------
    tally : Tally

    Yields
    ------
    Check
    """
    rates = tally.protocol.pair_rates()
    if rates is not None and tally.n_reports >= LEAST_REPORTS:
        yield pairs_of_bits(tally, rates)
    form = tally.protocol.binomials(tally.reports, tally.counts)
    if form is not None:
        low = float(bdtr(form.counts, form.n, form.other).min())
        high = float(bdtrc(form.counts - 1, form.n, form.hit)[form.counts > 0].min(initial=1.0))
        p_value = min(1.0, 2 * form.counts.size * min(low, high))
        statistic = float(((form.counts - form.n * form.other) / np.sqrt(form.n * form.other * (1 - form.other))).min())
        yield Check("support counts", tally.name, statistic, math.nan, p_value, "upper bound", BOUND)


def pairs_of_bits(tally: Tally, rates: PairRates) -> Check:
    """Return the test that no two bits of a report are more often set together than the design lets them.

    With P(both | value) = c₁ where the value is one of the two and c₀ elsewhere, t_xy = B_x B_y − α (B_x + B_y) − γ with
    α = (c₁ − c₀)/(g − h) and γ = c₀ − 2hα has mean zero for every P. The statistic adds up (Σ_i t_i)² − Σ_i t_i² over the
    pairs, each over its variance: the products of two different reports, whose mean is zero and whose variance is known.

    Parameters
    ----------
    tally : Tally
        Reports are packed bits.
    rates : PairRates

    Returns
    -------
    Check
    """
    a, (g, h) = tally.protocol.n_categories, tally.protocol.hit_rates  # type: ignore[misc]
    reports, counts = chosen(tally, max(MAX_WORK // a**2, 2 * LEAST_REPORTS))
    n = float(counts.sum())
    together, single = np.zeros((a, a)), np.zeros(a)
    for block in blocks(len(reports), a, 2**22):
        bits = np.unpackbits(reports[block], axis=1, count=a).astype(np.float32)
        weighted = bits * np.sqrt(counts[block, None]).astype(np.float32)
        together += weighted.T @ weighted
        single += counts[block] @ bits
    slope = (rates.one - rates.neither) / (g - h)
    shift = rates.neither - 2 * h * slope
    upper = np.triu_indices(a, 1)
    both, x, y = together[upper], single[upper[0]], single[upper[1]]
    values = np.array([1 - 2 * slope - shift, -slope - shift, -shift])  # t of two, one and no bits
    numbers = np.stack([both, x + y - 2 * both, n - x - y + both])
    sums, squares = values @ numbers, values**2 @ numbers
    neither = values**2 @ _chances(rates.neither, h, h)
    variances = values**2 @ _chances(rates.one, g, h)
    if rates.independent:
        p = np.clip((single / n - h) / (g - h), 0.0, 1.0)
        variance = neither + (p[upper[0]] + p[upper[1]]) * (variances - neither)
        df, scale = float(rates.dimension), 1.0
        excess = float(((sums**2 - squares) / variance).sum())
    else:
        df, scale = _spectrum(reports, counts, a, slope, shift)
        excess = float((sums**2 - squares).sum())
    statistic = max(df + excess / scale / math.sqrt(n * (n - 1)), 0.0)
    return Check("pairs of bits", tally.name, statistic, df, float(chdtrc(df, statistic)), "chi-squared")


def _spectrum(reports: np.ndarray, counts: FloatArray, a: int, slope: float, shift: float) -> tuple[float, float]:
    """Return (df, scale) of the χ² with the variance and the skewness of Σ λ χ²₁, λ the eigenvalues of Cov(t).

    Σ_xy t_xy(i) t_xy(j) of two sets of one size depends on how many members they share; the means of its square and of
    its product around three reports are Σ λ² and Σ λ³.
    """
    rng = np.random.default_rng(0)
    users = rng.choice(int(counts.sum()), min(SAMPLED, int(counts.sum())), replace=False, shuffle=False)
    places = np.searchsorted(np.cumsum(counts), users, side="right")
    bits = np.unpackbits(reports[places], axis=1, count=a).astype(np.float32)
    shared, size = (bits @ bits.T).astype(float), float(bits[0].sum())
    kernel = shared * (shared - 1) / 2 - 2 * slope * shared * (size - 1) - shift * size * (size - 1)
    kernel += slope**2 * ((a - 2) * shared + size**2) + 2 * slope * shift * (a - 1) * size + shift**2 * a * (a - 1) / 2
    np.fill_diagonal(kernel, 0.0)
    m = len(places)
    squares = (kernel**2).sum() / (m * (m - 1))
    cubes = ((kernel @ kernel) * kernel).sum() / (m * (m - 1) * (m - 2))
    df = squares**3 / cubes**2 if cubes > 0 else a * (a - 3) / 2
    return float(df), float(math.sqrt(squares / df))


def chosen(tally: Tally, most: int) -> tuple[np.ndarray, FloatArray]:
    """Return the distinct reports of a tally with their counts, or of some of its users chosen at random."""
    seen = tally.counts > 0
    reports, counts = tally.reports[seen], tally.counts[seen]
    if len(reports) > most:
        # The same ones every time: a verdict must not depend on when it is asked for.
        places = np.sort(np.random.default_rng(0).choice(len(reports), most, replace=False))
        reports, counts = reports[places], counts[places]
    return reports, counts.astype(float)


def _chances(both: float, x: float, y: float) -> FloatArray:
    """Return P(two, one, no bits set) from P(both) and the chances of each."""
    return np.array([both, x + y - 2 * both, 1 - x - y + both])
