"""Pilots: where the likelihood of each cell is expanded, from support counts or from a first expansion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from ldpbayes.arrays import FloatArray
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.base import AbstractProtocol

#: Rounds of the covariance of support counts at the mean that it gives, and steps of the tilt.
_ROUNDS, _STEPS = 6, 60


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

    def of(self, key: tuple) -> FloatArray:
        """Return the pilot of a cell, shape (a,)."""
        return self.points[self.places[key]]


def from_supports(protocol: AbstractProtocol, n, supports) -> FloatArray:
    """Return the posterior mean of each cell given its support counts alone, under a flat prior, shape (cells, a).

    C_x, how many reports support x, has mean n q_x with q_x = h + (g − h) p_x. Where the bits of a report are independent
    given its value, the covariance is n [diag(q(1 − q) + (g − h)² p²) − (g − h)² p pᵀ]: a Gaussian with exact mean and
    covariance. The mean over the simplex is that of independent normal distributions above zero, tilted to sum to one.

    Parameters
    ----------
    protocol : AbstractProtocol
        With hit rates (g, h).
    n : (cells,) array
        Numbers of reports.
    supports : (cells, a) array

    Returns
    -------
    (cells, a) array

    Raises
    ------
    ArgumentError
        Where the protocol has no hit rates.

    References
    ----------
    docs/theory/summaries.md.
    """
    if protocol.hit_rates is None:
        raise ArgumentError(f"support counts of {protocol.name} have no known law; give pilots.")
    g, h = protocol.hit_rates
    rates = protocol.pair_rates()
    neither, one = (h * h, g * h) if rates is None else (rates.neither, rates.one)
    n = np.asarray(n, dtype=float)[:, None]
    open_mean = (np.asarray(supports) / n - h) / (g - h)
    p = np.full(open_mean.shape, 1 / open_mean.shape[1])
    for _ in range(_ROUNDS):
        variance = (h + (g - h) * p - neither - 2 * (one - neither) * p) / (n * (g - h) ** 2)
        variance = np.maximum(variance, 1e-12 / n)
        # Σ⁻¹ of diag(v) − p pᵀ/n is diag(1/v) + c (p/v)(p/v)ᵀ; its second part moves the centre of the first.
        bent = np.maximum(1 - (p**2 / variance).sum(axis=1, keepdims=True) / n, 1e-3)
        shift = p * ((open_mean - p) * p / variance).sum(axis=1, keepdims=True) / (n * bent)
        p = simplex_mean(open_mean + shift, variance)
    return p


def from_expansion(linear, curvature) -> FloatArray:
    """Return the mean over the simplex of exp(Σ_x b_x p_x − ½ D_x p_x²), shape (cells, a).

    Parameters
    ----------
    linear, curvature : (cells, a) arrays
        b and D, D above zero.

    Returns
    -------
    (cells, a) array
    """
    return simplex_mean(linear / curvature, 1 / curvature)


def simplex_mean(mean, variance) -> FloatArray:
    """Return the mean of independent normal p_x ≥ 0 given that they sum to one, by the tilt that gives the means that sum.

    Parameters
    ----------
    mean, variance : (cells, a) arrays

    Returns
    -------
    (cells, a) array
        Above zero; each row sums to one.
    """
    sd = np.sqrt(variance)
    # Σ E[p_x] rises with the tilt λ: it is below one where every mean is below its share, above one where all are above.
    a = mean.shape[1]
    low = ((-mean - 40 * sd) / variance).min(axis=1, keepdims=True)
    high = ((1 / a - mean) / variance).max(axis=1, keepdims=True)
    low = np.minimum(low, high)
    tilt = (1 - mean.sum(axis=1, keepdims=True)) / variance.sum(axis=1, keepdims=True)
    tilt = np.clip(tilt, low, high)
    for _ in range(_STEPS):
        found, slope = _truncated(mean + tilt * variance, sd)
        excess = found.sum(axis=1, keepdims=True) - 1
        if (np.abs(excess) < 1e-12).all():
            break
        high = np.where(excess > 0, tilt, high)
        low = np.where(excess < 0, tilt, low)
        step = tilt - excess / (slope * variance).sum(axis=1, keepdims=True)
        tilt = np.where((step > low) & (step < high), step, (low + high) / 2)
    found = np.maximum(found, 1e-12)
    return found / found.sum(axis=1, keepdims=True)


def _truncated(mean, sd):
    """Return (E, dE/dmean) of a normal variable given that it is above zero."""
    t = mean / sd
    ratio = np.exp(-0.5 * t * t - 0.5 * np.log(2 * np.pi) - log_ndtr(t))
    # Far below zero E = sd/|t| (1 − 2/t² + …): the difference of two large numbers is not formed.
    far = t < -30
    inverse = np.divide(1.0, -t, out=np.zeros_like(t), where=far)
    value = np.where(far, sd * inverse * (1 - 2 * inverse**2), mean + sd * ratio)
    slope = np.where(far, inverse**2 * (1 - 6 * inverse**2), 1 - ratio * (ratio + t))
    return value, np.clip(slope, 1e-300, 1.0)
