"""Coefficients of Π_j (1 + c_j g)^{w_j} where they carry mass, without overflow at counts of 1e8."""

import math

import numpy as np
from scipy.special import gammaln, xlogy

from ldpbayes.methods.conditioned_product.constants import DROP
from ldpbayes.methods.conditioned_product.factors import bisect


def coefficients(slopes, powers, low, high):
    """Yield (index, first, log of its coefficient, log-ratios of successive ones) of the polynomials Π_j (1 + c_j g)^{w_j}.

    Only the powers of g that carry mass while g lies between low and high. Factors of like length come together: index,
    first and log (f,), ratios (f, W), −inf after the last.

    Parameters
    ----------
    slopes, powers : (F, m) arrays
    low, high : (F,) arrays
    """
    slopes = np.where(powers > 0, slopes, 0.0)
    powers = np.where(slopes > 0, powers, 0.0)
    first, last = _binomial_window(powers, *(slopes * g[:, None] / (1 + slopes * g[:, None]) for g in (low, high)))
    bucket = np.ceil(np.log2(last - first + 1)).astype(int)
    several, column = (powers > 0).sum(axis=1) > 1, powers.argmax(axis=1)
    cached: dict[tuple, tuple] = {}
    for length in np.unique(bucket):
        index = np.flatnonzero(bucket == length)
        n, c = powers[index, column[index]], slopes[index, column[index]]
        start, left = first[index], last[index] - first[index]
        k = start[:, None] + np.arange(left.max())
        inside = k < last[index, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(inside, np.log((n[:, None] - k) / (k + 1) * c[:, None]), -np.inf)
            log_first = gammaln(n + 1) - gammaln(start + 1) - gammaln(n - start + 1) + xlogy(start, c)
        for place in np.flatnonzero(several[index]):
            x = index[place]
            positive = powers[x] > 0
            arguments = slopes[x, positive], powers[x, positive], int(start[place]), int(last[x])
            key = tuple(np.concatenate(arguments[:2]).tolist()) + arguments[2:]
            if key not in cached:  # under other concentrations the polynomials are the same
                cached[key] = _product_polynomial(*arguments)
            log_first[place], ratio[place, : left[place]] = cached[key]
        yield index, start, log_first, ratio


def _product_polynomial(slopes, powers, first, last):
    """Return (log of the first coefficient, log-ratios), from convolutions of binomials tilted piece by piece.

    A tilt at g makes Π_j (1 + c_j g)^{w_j} the law of Σ_j Binomial(w_j, q_j); all terms are positive, so that the
    convolution is accurate wherever it is above the parts' truncation.
    """
    ratios, log_first, now = np.empty(last - first), 0.0, first
    while True:
        tilt = _tilt_of(slopes, powers, min(now + 8 * math.sqrt(now + 1) + 4, (now + powers.sum()) / 2, last + 0.5))
        low, log_total = 0, np.zeros(1)
        for n, odds in zip(powers, slopes * tilt, strict=True):
            start, log_pmf = _binomial_log_pmf(int(n), odds)
            top = log_total.max()
            with np.errstate(divide="ignore"):
                log_total = np.log(np.convolve(np.exp(log_total - top), np.exp(log_pmf))) + top
            low += start
        useful = np.flatnonzero(log_total > -250)
        end = min(low + int(useful[-1]), last)
        if now == first:
            log_first = log_total[first - low] + powers @ np.log1p(slopes * tilt) - first * math.log(tilt)
        ratios[now - first : end - first] = np.diff(log_total[now - low : end - low + 1]) - math.log(tilt)
        if end >= last:
            return float(log_first), ratios
        now = end


def _tilt_of(slopes, powers, mean):
    """Return g with Σ_j w_j c_j g/(1 + c_j g) = mean, to 1e-7: any tilt near it serves."""

    def below(log_g):
        g = np.exp(log_g)
        return powers @ (slopes * g / (1 + slopes * g)) < mean

    return math.exp(float(bisect(below, -90.0, 90.0, 32)))


def _binomial_log_pmf(n, odds):
    """Return (first, log-pmf) of Binomial(n, odds/(1 + odds)) where it is above e^{−500}."""
    mean = n * odds / (1 + odds)
    slack = 170 + math.sqrt(170**2 + 1000 * min(mean, n - mean))
    first, last = max(0, math.floor(mean - slack)), min(n, math.ceil(mean + slack))
    k = np.arange(first, last)
    log_pmf = np.concatenate([[0.0], np.cumsum(np.log((n - k) / (k + 1) * odds))])
    log_pmf -= log_pmf.max()
    return first, log_pmf - math.log(np.exp(log_pmf).sum())


def _binomial_window(powers, chances_low, chances_high):
    """Return the ranges of Σ_j Binomial(w_j, q_j) over q between two levels, by Bernstein's bound on either side."""

    def slack(mean):
        return 15 + np.sqrt(225 + 2 * DROP * mean)

    n = powers.sum(axis=1)
    hits, misses = (powers * chances_low).sum(axis=1), (powers * (1 - chances_low)).sum(axis=1)
    low = hits - np.minimum(slack(hits), slack(misses))
    hits, misses = (powers * chances_high).sum(axis=1), (powers * (1 - chances_high)).sum(axis=1)
    high = hits + np.minimum(slack(hits), slack(misses))
    return np.maximum(0, np.floor(low)).astype(np.int64), np.minimum(n, np.ceil(high)).astype(np.int64)
