"""Tests of one channel: support sizes, seeds, cohorts; of reports too many to list, pairs of bits, supports and bits."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtrc, ndtr, rel_entr

from ldpbayes.arrays import FloatArray, blocks, log_choose
from ldpbayes.collections import Collection, Tally
from ldpbayes.fitness.base import RARE, Check
from ldpbayes.fitness.constants import ROW_ENTRIES, SMALLEST, THIRDS, TINY
from ldpbayes.fitness.goodness import LEAST_EXPECTED
from ldpbayes.likelihoods.summary import LEAST_REPORTS
from ldpbayes.protocols.base import Ancillary, Binomials, PairRates

#: Rule: Uniform values of a large range are compared in at most so many equal parts.
MAX_PARTS = 64
#: Rule: A mean is compared where its error does not depend on fewer reports than these: those that differ, where most are
#: equal …
LEAST_DIFFERENT = 20.0
#: Time: Pairs of bits are counted in at most so many multiplications, on reports chosen at random where there are more.
MAX_WORK = 2**30
#: Time: Reports of which the dependence of pairs is estimated, where bits are dependent.
SAMPLED = 400
#: Rule: Share of the level of the support counts, whose p-value is an upper bound.
BOUND = 0.25


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
        most = ROW_ENTRIES // tally.protocol.n_categories if ancillary.mean is not None else len(tally.reports)
        reports, counts = chosen(tally, max(most, 1))
        yield from _of_values(ancillary, ancillary.values(reports), counts, tally.name)


def _of_values(part: Ancillary, values: NDArray, counts: NDArray, channel: str) -> Iterator[Check]:
    n = float(counts.sum())
    if part.mean is not None:
        if n >= LEAST_REPORTS:
            mean = values @ counts / n
            squares = (values - mean) ** 2
            equal = np.ptp(values) <= 1e-9 * np.abs(values).max()
            if equal or (squares @ counts) ** 2 < LEAST_DIFFERENT * (squares**2 @ counts):
                return
            z = (mean - part.mean) / math.sqrt((squares @ counts) / (n - 1) / n)
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


def support_checks(tally: Tally) -> Iterator[Check]:
    """Yield the tests of the pairs of bits, of the support counts and of the bits of filters, where the protocol has them.

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
    law = tally.protocol.report_law()
    if law is not None and law.kind == "bits":
        yield from _set_bits(tally, law)


def channels_agree(collection: Collection) -> Iterator[Check]:
    """Yield the test that channels have the same shares, where two or more have supports with binomial counts.

    Each channel is compared with the most informative one, category by category. At the true share the tail probabilities of
    both counts are independent and no smaller than uniform, so that P(their product ≤ t) ≤ t (1 − log t). The largest
    product that any share allows gives a p-value thus, whatever the shares and however few the reports. It counts for both
    sides, all categories and all channels but one.

    Parameters
    ----------
    collection : Collection

    Yields
    ------
    Check
    """
    plain = [tally for tally in collection.tallies if not tally.protocol.caveat]
    forms = {
        tally.name: form for tally in plain if (form := tally.protocol.binomials(tally.reports, tally.counts)) is not None
    }
    if len(forms) < 2:
        return
    first = max(forms, key=lambda name: _information(forms[name]))
    times, least = 2 * (len(forms) - 1) * collection.n_categories, (1.0, first, 0, 0.0)
    for name in (other for other in forms if other != first):
        log, category = _least_tails(forms[first], forms[name], times)
        least = min(least, (times * math.exp(log) * (1 - log), name, category, log))
    p_value, name, category, log = least
    said = " and ".join(f"{_estimates(forms[one])[category]:.3g} in {one!r}" for one in (first, name))
    detail = f"share of {collection.categories[category]!r}: {said}" if name != first else ""
    yield Check("difference of the channels' shares", "", log, math.nan, p_value, "upper bound", BOUND, detail)


def _estimates(form: Binomials) -> FloatArray:
    """Return the unbiased estimates of all shares from counts of supports."""
    return (form.counts / form.n - form.other) / (form.hit - form.other)


def _information(form: Binomials) -> float:
    """Return the sum over categories of the information on its share, where all shares are equal."""
    rate = form.other + (form.hit - form.other) / form.counts.size
    return float((form.n * (form.hit - form.other) ** 2 / np.maximum(rate * (1 - rate), TINY)).sum())


def _least_tails(one: Binomials, two: Binomials, times: int) -> tuple[float, int]:
    """Return (the log of the largest product, over shares, of the tails of two counts; the category where it is least).

    The tail of the larger estimate is upwards, the other downwards. Both are log-concave in the share: thirds find the top,
    where the product at the estimate of both does not say already that ``times`` the p-value is one.
    """
    above = _estimates(one) >= _estimates(two)

    def product(p: FloatArray, at: np.ndarray) -> FloatArray:
        return _log_tail(one, p, at, above[at]) + _log_tail(two, p, at, ~above[at])

    weights = np.array([_information(form) for form in (one, two)])
    at = np.arange(above.size)
    logs = product(np.clip(weights @ [_estimates(one), _estimates(two)] / weights.sum(), 0.0, 1.0), at)
    at = np.flatnonzero(times * np.exp(logs) * (1 - logs) < 1)
    low, high = np.zeros(at.size), np.ones(at.size)
    for _ in range(THIRDS if at.size else 0):
        left, right = (2 * low + high) / 3, (low + 2 * high) / 3
        rises = product(left, at) < product(right, at)
        low, high = np.where(rises, left, low), np.where(rises, high, right)
    logs[at] = np.maximum(product((low + high) / 2, at), logs[at])
    return float(logs.min()), int(logs.argmin())


def _log_tail(form: Binomials, p: FloatArray, at: np.ndarray, upwards: NDArray) -> FloatArray:
    """Return the log probability of counts at least, or at most, those of some categories, at shares p of them.

    Those that floats do not hold are bounded by exp(−n KL) (Chernoff).
    """
    counts, other, n = form.counts[at], form.other[at], np.broadcast_to(form.n, form.counts.shape)[at]
    rate, share = np.clip(other + (form.hit[at] - other) * p, 0.0, 1.0), counts / n
    up = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), n, rate), 1.0)
    tail = np.where(upwards, up, bdtr(counts, n, rate))
    bound = -n * (rel_entr(share, rate) + rel_entr(1 - share, 1 - rate))
    return np.where(tail > SMALLEST, np.log(np.maximum(tail, SMALLEST)), bound)


def _set_bits(tally: Tally, law: Any) -> Iterator[Check]:
    """Yield the test that some distribution of the candidates explains how often each bit is set in each cohort.

    The whitened residuals less their projection on the filters, whose shares add up to one and may be negative, are χ². What
    people report who hold none of the candidates sets bits that no distribution of the candidates does.
    """
    protocol = law.protocol
    (on, off), (totals, sizes) = protocol.rates, protocol.bit_counts(tally.reports, tally.counts)
    if (
        totals.size * max(protocol.n_categories, protocol.n_bits) ** 2 > MAX_WORK
        or sizes.min() * min(off, 1 - on) < LEAST_EXPECTED
    ):
        return
    shares = (totals / sizes[:, None] - off).ravel() / (on - off)
    p = np.maximum(np.linalg.lstsq(np.concatenate(list(law.incidences())), shares)[0], 1e-9)
    residuals, filters = law.residuals(tally.reports, tally.counts, p / p.sum())
    moved = filters[:, 1:] - filters[:, :1]
    shift, _, rank, _ = np.linalg.lstsq(moved, residuals)
    statistic, df = float(((residuals - moved @ shift) ** 2).sum()), float(totals.size - rank)
    if df:
        yield Check("bits of the filters", tally.name, statistic, df, float(chdtrc(df, statistic)), "chi-squared")


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
