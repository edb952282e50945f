"""Pilots: where the likelihood of each cell is expanded, from support counts or from a first expansion."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes.arrays import FloatArray
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning.constants import KEPT_BYTES, KEPT_MOST

#: Mathematics: Rounds of the covariance of support counts at the mean that it gives, and steps of the tilt.
_ROUNDS, _STEPS = 6, 60
#: Mathematics: Standardized means within which moments come from a table.
_REACH = 40.0


#: From shares (cells, a) to the linear terms and precisions of a normal distribution of them, for each cell.
Normal = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Keeping:
    """When the summary of a cell is accurate, by ε, the largest of its channels; see docs/theory/summaries.md.

    Attributes
    ----------
    plain : float
        Up to this ε no sample is kept: the expansion at a point was within a tenth of a posterior sd.
    sampled : int
        Beyond, cells keep a sample of so many reports for the check of their summary.
    kept_to : float
        Up to this ε ``sampled`` reports make a summary accurate; beyond, ``kept_each`` a category.
    kept_each : int
        Reports a category.
    """

    plain: float = 1.5
    sampled: int = 10_000
    kept_to: float = 2.0
    kept_each: int = 2000

    def sample(self, protocols: Iterable[AbstractProtocol]) -> int:
        """Return how many reports of a cell and channel are kept for the check of its summary."""
        return 0 if self.is_plain(protocols) else self.sampled

    def is_plain(self, protocols: Iterable[AbstractProtocol]) -> bool:
        """Return whether the likelihood is expanded at a point, not over the variances about it."""
        return max(protocol.epsilon for protocol in protocols) <= self.plain

    def kept_below(self, protocols: Iterable[AbstractProtocol]) -> int:
        """Return below how many reports a cell keeps them whole: its summary might be off by a tenth of a sd."""
        strongest = max(protocols, key=lambda protocol: protocol.epsilon)
        if strongest.epsilon <= self.plain:
            return 0
        if strongest.epsilon <= self.kept_to:
            return self.sampled
        return min(self.kept_each * strongest.n_categories, KEPT_MOST, KEPT_BYTES * 8 // strongest.n_categories)


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
    sample : int
        Most reports of a cell and channel that are kept in its sample.
    """

    places: Mapping[tuple, int]
    points: FloatArray
    spread: FloatArray | None = None
    kept: frozenset = frozenset()
    sample: int = 0


def of_supports(protocol: AbstractProtocol, n: ArrayLike, supports: ArrayLike) -> Normal:
    """Return the normal distribution of the shares given the support counts of each cell, as a function of the shares.

    C_x, how many reports support x, has mean n q_x with q_x = h + (g − h) p_x. Where the bits of a report are independent
    given its value, the covariance is n [diag(q(1 − q) + (g − h)² p²) − (g − h)² p pᵀ]: a Gaussian with exact mean and
    covariance.

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
    open_mean = (np.asarray(supports, dtype=float) / np.maximum(size, 1) - h) / (g - h)

    def normal(p: FloatArray) -> tuple[FloatArray, FloatArray]:
        each = np.maximum((h + (g - h) * p - neither - 2 * (one - neither) * p) / (g - h) ** 2, 1e-12)
        precision = size / each
        # Σ⁻¹ of diag(v) − p pᵀ/n is diag(1/v) + c (p/v)(p/v)ᵀ; its second part moves the centre of the first.
        bent = np.maximum(1 - (p**2 / each).sum(axis=1, keepdims=True), 1e-3)
        shift = p * ((open_mean - p) * p / each).sum(axis=1, keepdims=True) / bent
        return precision * (open_mean + shift), precision

    return normal


def posterior_moments(channels: Sequence[Normal], shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and variance of the shares of each cell, given all channels, under Jeffreys' prior.

    Precisions of channels add up, and so do their linear terms. The mean over the simplex is that of independent
    distributions, tilted to sum to one.

    Parameters
    ----------
    channels : sequence of Normal
    shape : (int, int)
        Numbers of cells and of categories.
    """
    p = spread = np.full(shape, 1 / shape[1])
    for _ in range(_ROUNDS):
        linear, precision = (np.sum(terms, axis=0) for terms in zip(*(normal(p) for normal in channels), strict=True))
        p, spread = simplex_moments(linear / precision, 1 / precision)
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
