"""Whether chains have met and what their draws are worth: split R-hat and effective draws, of many quantities at once.

ArviZ computes the same for one quantity at a time, which took three quarters of a fit of twenty cells.

References
----------
Vehtari, Gelman, Simpson, Carpenter, Bürkner 2021, Bayesian Analysis 16; Geyer 1992, Statistical Science 7.
"""

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from ldpbayes.inference.constants import DIAGNOSED, LEAST_DRAWS, TAILS


def diagnosed(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Return mcse (of the mean), ess_bulk, ess_tail and r_hat of draws (chains, draws, k), each of shape (k,).

    R-hat is nan for a single chain, and everything is nan where there are fewer than four draws, or one is nan.
    """
    chains, length, size = draws.shape
    statistics = {name: np.full(size, np.nan) for name in ("mcse", "ess_bulk", "ess_tail", "r_hat")}
    if length < LEAST_DRAWS:
        return statistics
    step = max(DIAGNOSED // (chains * length), 1)
    for first in range(0, size, step):
        x = np.moveaxis(draws[..., first : first + step], -1, 0)
        flat, halves = x.reshape(len(x), -1), _split(x)
        ranked = _normal_scores(halves)
        cuts = np.quantile(flat, TAILS, axis=1)[..., None, None]
        block = {
            "mcse": flat.std(axis=1, ddof=1) / np.sqrt(_effective(halves)),
            "ess_bulk": _effective(ranked),
            "ess_tail": np.minimum(*(_effective(_split(x <= cut).astype(float)) for cut in cuts)),
        }
        if chains > 1:
            folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
            block["r_hat"] = np.maximum(_r_hat(ranked), _r_hat(_normal_scores(folded)))
        lost = np.isnan(flat).any(axis=1)
        for name, values in block.items():
            statistics[name][first : first + step] = np.where(lost, np.nan, values)
    return statistics


def error_of_mean(draws: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean of draws (chains, draws, k), shape (k,)."""
    if not draws.size:
        return np.zeros(draws.shape[2])
    return draws.std(axis=(0, 1), ddof=1) / np.sqrt(_effective(_split(np.moveaxis(draws, -1, 0))))


def _split(x):
    """Return chains (k, m, n) as twice as many halves; of an odd number of draws the middle one is left out."""
    half = x.shape[-1] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=1)


def _normal_scores(x):
    """Return the normal quantiles of the ranks of each quantity, ties averaged, in the shape of x (k, m, n)."""
    flat = x.reshape(len(x), -1)
    order, place = flat.argsort(axis=1), np.arange(flat.shape[1])
    ranked = np.take_along_axis(flat, order, axis=1)
    new = np.ones((len(flat), place.size + 1), bool)
    new[:, 1:-1] = ranked[:, 1:] != ranked[:, :-1]
    first = np.maximum.accumulate(np.where(new[:, :-1], place, 0), axis=1)
    last = np.minimum.accumulate(np.where(new[:, 1:], place, place.size)[:, ::-1], axis=1)[:, ::-1]
    quantiles = ndtri((0.5 * np.arange(2 * place.size - 1) + 5 / 8) / (place.size + 1 / 4))  # of halves of ranks
    out = np.empty(flat.shape)
    np.put_along_axis(out, order, quantiles[first + last], axis=1)
    return out.reshape(x.shape)


def _r_hat(x):
    within, n = x.var(axis=2, ddof=1).mean(axis=1), x.shape[2]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(x.mean(axis=2).var(axis=1, ddof=1) / within + (n - 1) / n)


def _effective(x):
    """Return the effective draws of chains (k, m, n) for their mean: sums of two correlations as long as these fall."""
    k, m, n = x.shape
    mean = x.mean(axis=2)
    length = next_fast_len(2 * n, real=True)
    power = np.abs(rfft(x - mean[..., None], length, axis=2)) ** 2
    covariance = irfft(power.mean(axis=1), length, axis=1)[:, :n] / n
    variance = covariance[:, 0] + (mean.var(axis=1, ddof=1) if m > 1 else 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1 - (covariance[:, :1] * n / (n - 1) - covariance) / variance[:, None]
    rho[:, 0] = 1.0
    pairs = rho[:, : n - n % 2].reshape(k, -1, 2).sum(axis=2)
    pairs = pairs[:, : max((n - 3) // 2, 0) + 1]
    falls = pairs <= 0
    falls[:, -1] = True  # it ends there at the latest
    last, columns = falls.argmax(axis=1), np.arange(k)
    inside = np.arange(pairs.shape[1]) < last[:, None]
    total = np.where(inside, np.minimum.accumulate(pairs, axis=1), 0.0).sum(axis=1)
    ending = rho[columns, 2 * last]
    time = -1 + 2 * total + np.where(pairs[columns, last] < 0, np.maximum(ending, 0.0), ending)
    still = np.ptp(x, axis=(1, 2)) < np.finfo(float).resolution
    return m * n / np.where(still, 1.0, np.maximum(time, 1 / math.log10(m * n)))
