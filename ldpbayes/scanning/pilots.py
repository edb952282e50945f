"""Pilots: where the likelihood of each cell is expanded, from support counts or from a first expansion."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes.arrays import FloatArray
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.base import AbstractProtocol

#: Rounds of the covariance of support counts at the mean that it gives, and steps of the tilt.
_ROUNDS, _STEPS = 6, 60
#: Standardized means within which moments come from a table.
_REACH = 40.0


@dataclass(frozen=True, eq=False)
class Pilots:
    """Where the second pass expands the likelihood of each cell.

    Attributes
    ----------
    places : mapping of tuple to int
        From the key of a cell to its row of ``points``; cells that share a pilot have one row.
    points : (k, a) array
        On the simplex.
    spread : (k, a) array or None
        Variances about the points; see ``Summary``.
    kept : frozenset of tuple
        Cells whose reports are kept whole.
    """

    places: Mapping[tuple, int]
    points: FloatArray
    spread: FloatArray | None = None
    kept: frozenset = frozenset()


def from_supports(protocol: AbstractProtocol, n: ArrayLike, supports: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and variance of each cell given its support counts alone, under Jeffreys' prior.

    C_x, how many reports support x, has mean n q_x with q_x = h + (g − h) p_x. Where the bits of a report are independent
    given its value, the covariance is n [diag(q(1 − q) + (g − h)² p²) − (g − h)² p pᵀ]: a Gaussian with exact mean and
    covariance. The mean over the simplex is that of independent distributions, tilted to sum to one.

    References
    ----------
    docs/theory/summaries.md.
    """
    if protocol.hit_rates is None:
        raise ArgumentError(f"support counts of {protocol.name} have no known law; give pilots.")
    g, h = protocol.hit_rates
    rates = protocol.pair_rates()
    neither, one = (h * h, g * h) if rates is None else (rates.neither, rates.one)
    size = np.asarray(n, dtype=float)[:, None]
    open_mean = (np.asarray(supports, dtype=float) / size - h) / (g - h)
    p = np.full(open_mean.shape, 1 / open_mean.shape[1])
    spread = p
    for _ in range(_ROUNDS):
        variance = (h + (g - h) * p - neither - 2 * (one - neither) * p) / (size * (g - h) ** 2)
        variance = np.maximum(variance, 1e-12 / size)
        # Σ⁻¹ of diag(v) − p pᵀ/n is diag(1/v) + c (p/v)(p/v)ᵀ; its second part moves the centre of the first.
        bent = np.maximum(1 - (p**2 / variance).sum(axis=1, keepdims=True) / size, 1e-3)
        shift = p * ((open_mean - p) * p / variance).sum(axis=1, keepdims=True) / (size * bent)
        p, spread = simplex_moments(open_mean + shift, variance)
    return p, spread


def simplex_moments(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance on the simplex of Π_x p_x^(−1/2) exp(−(p_x − m_x)²/(2 v_x)), by the saddle point.

    The factors are tilted by exp(λ p_x) with the λ at which their means sum to one; given that sum the variance of p_x is
    about V_x − V_x²/ΣV.
    """
    sd = np.sqrt(variance)
    a = mean.shape[1]
    # Σ E[p_x] rises with λ: with all t ≤ −T it is at most Σ sd/(2T), with all t ≥ 1 + 1/(a sd) at least one.
    least = np.maximum(_REACH, sd.sum(axis=1, keepdims=True))
    low = ((-mean - least * sd) / variance).min(axis=1, keepdims=True)
    high = ((1 / a + sd - mean) / variance).max(axis=1, keepdims=True)
    tilt = np.clip((1 - mean.sum(axis=1, keepdims=True)) / variance.sum(axis=1, keepdims=True), low, high)
    for _ in range(_STEPS):
        first, second = _moments((mean + tilt * variance) / sd)
        excess = (sd * first).sum(axis=1, keepdims=True) - 1
        if (np.abs(excess) < 1e-10).all():
            break
        high, low = np.where(excess > 0, tilt, high), np.where(excess < 0, tilt, low)
        step = tilt - excess / (variance * second).sum(axis=1, keepdims=True)
        tilt = np.where((step > low) & (step < high), step, (low + high) / 2)
    found, spread = np.maximum(sd * first, 1e-12), variance * second
    return found / found.sum(axis=1, keepdims=True), spread - spread**2 / spread.sum(axis=1, keepdims=True)


def _moments(t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the density ∝ x^(−1/2) exp(−(x − t)²/2) on x > 0: a table, and its limits outside."""
    grid, means, variances = _table()
    inverse = 1 / np.maximum(np.abs(t), 1.0)
    mean = np.where(t > _REACH, t - 0.5 * inverse, np.where(t < -_REACH, 0.5 * inverse, np.interp(t, grid, means)))
    variance = np.where(
        t > _REACH, 1 - 0.5 * inverse**2, np.where(t < -_REACH, 0.5 * inverse**2, np.interp(t, grid, variances))
    )
    return mean, variance


@functools.cache
def _table():
    """Return (t, mean, variance) on a grid from −_REACH to _REACH, by the trapezoid rule in u with x = u²."""
    t = np.linspace(-_REACH, _REACH, 2001)[:, None]
    top = np.sqrt(t + np.sqrt(t**2 + 90))
    bottom = np.sqrt(np.maximum(t - 9.5, 0.0))
    u = bottom + (top - bottom) * (np.arange(200) + 0.5) / 200
    x = u**2
    exponent = -0.5 * (x - t) ** 2
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    total = weight.sum(axis=1)
    mean = (weight * x).sum(axis=1) / total
    return t[:, 0], mean, (weight * (x - mean[:, None]) ** 2).sum(axis=1) / total
