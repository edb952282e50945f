"""What the routes hand to the engine: the moments of all factors, and the distribution of one of them or of a sum."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import fft

from ldpbayes.methods.conditioned_product.constants import DROP, LAST_DIGIT, LAST_STEP, MARGIN_NODES, TOGETHER


class Moments(NamedTuple):
    """Moments of the distinct factors of k sets given Σ g = 1 in each.

    Attributes
    ----------
    mean, variance : (k·G,) arrays
        E[g_x] and Var(g_x).
    log_evidence : (k,) array
        log ∫ Π φ over the simplex; nan where the route fails.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_evidence: np.ndarray


class Margin:
    """Densities on uniform grids of u, logit g = centre + scale·sinh(u); both ends have died out: Fourier series are exact.

    Parameters
    ----------
    low, step : (m,) arrays
        Grid: low + step·(i + ½).
    log_density : (m, N) array
        In u, but for the scale.
    centre, scale : (m,) arrays

    Attributes
    ----------
    density : (m, N) array
        With sum one.
    log_mass : (m,) array
        log ∫ density dg.
    """

    def __init__(self, low, step, log_density, centre, scale):
        self.low, self.step, self.centre, self.scale = low, step, centre, scale
        self.size, top = log_density.shape[1], log_density.max(axis=1)
        density = np.exp(log_density - top[:, None])
        total = density.sum(axis=1)
        self.density, self.log_mass = density / total[:, None], top + np.log(total * step * scale)

    @cached_property
    def moments(self):
        """(Mean, variance) of g, two (m,) arrays."""
        g = self.to_value((self.low[:, None] + self.step[:, None] * (np.arange(self.size) + 0.5)).T).T
        mean = (self.density * g).sum(axis=1)
        return mean, (self.density * (g - mean[:, None]) ** 2).sum(axis=1)

    def to_value(self, u):
        """Return g at u, shape (…, m)."""
        return np.exp(-np.logaddexp(0, -(self.centre + self.scale * np.sinh(u))))

    def to_grid(self, value):
        """Return u at g, shape (m,): the inverse of to_value."""
        value = np.broadcast_to(np.asarray(value, dtype=float), self.low.shape)
        with np.errstate(divide="ignore"):
            return np.arcsinh((np.log(value) - np.log1p(-value) - self.centre) / self.scale)

    def cdf(self, value):
        """Return P(g ≤ value), shape (m,)."""
        position = np.clip((self.to_grid(value) - self.low) / self.step - 0.5, -0.5, self.size - 0.5)
        return np.clip(self._cumulative(position[None])[0][0], 0, 1)

    def _cumulative(self, position, rows=slice(None)):
        """Return (cdf, density per grid step) at positions (L, m) counted in grid steps from the first point."""
        angle, waves, constant = self._waves
        waves = waves[rows]
        turn = np.empty((angle.size, *position.T.shape), dtype=complex)
        turn[0], done = np.exp(1j * angle[0] * position.T), 1
        while done < angle.size:  # powers up to the k-th one make those up to the 2k-th
            more = min(done, angle.size - done)
            np.multiply(turn[:more], turn[done - 1], out=turn[done : done + more])
            done += more
        slope, value = ((wave[:, None] @ turn.swapaxes(0, 1))[:, 0].T for wave in (waves, waves / angle))
        slope, value = slope.real, value.imag - constant[rows]
        return (position + 0.5) / self.size + value, 1 / self.size + slope

    @cached_property
    def _waves(self):
        """(Angles (K,), coefficients (m, K) of the Fourier series, the cdf's constant (m,))."""
        series = fft.rfft(self.density)
        k = np.arange(1, series.shape[1])
        weight = np.where((self.size % 2 == 0) & (k == self.size // 2), 1.0, 2.0) / self.size
        angle = 2 * np.pi / self.size * k
        waves = weight * series[:, 1:]
        return angle, waves, (waves * np.exp(-0.5j * angle) / angle).imag.sum(axis=-1)

    def quantile(self, levels):
        """Return the quantiles at one level, shape (m,), or at several, shape (L, m)."""
        every, m = np.atleast_1d(np.asarray(levels, dtype=float))[:, None], self.low.size
        reached = self.density.cumsum(axis=1)
        right = np.stack([(reached < level).sum(axis=1) for level in every])
        # Where the cdf were linear between the grid's points.
        place = np.minimum(right, self.size - 1), np.arange(m)
        start = right + np.clip(0.5 + (every - reached.T[place]) / np.maximum(self.density.T[place], 1e-300), -0.5, 0.5)
        out, size = np.empty((len(every), m)), max(1, TOGETHER // (len(every) * self.size))
        for first in range(0, m, size):
            block = slice(first, first + size)
            out[:, block] = self._positions(every, right[:, block], start[:, block], block)
        out = self.to_value(self.low + self.step * (out + 0.5))
        return out if np.ndim(levels) else out[0]

    def _positions(self, levels, right, position, rows):
        """Return where the cdf reaches levels (L, 1): bracketed on the grid, then Newton on the Fourier series."""
        low, high = right - 1.5, right + 1.5
        for _ in range(40):
            value, slope = self._cumulative(position, rows)
            low, high = np.where(value < levels, position, low), np.where(value < levels, high, position)
            newton = position - (value - levels) / np.where(slope > 0, slope, np.inf)
            new = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
            new = np.where(np.abs(value - levels) < LAST_DIGIT, position, new)
            # Newton's next step would be of the square of this one: beyond rounding.
            done = np.abs(new - position).max() < LAST_STEP
            position = new
            if done:
                break
        return position


def margins_of(factors, index, moments, log_others, together=TOGETHER // MARGIN_NODES):
    """Return [(factor indices, Margin)] of some factors: the density of each times the density of the others' sum in its
    set.

    Grids are narrow in the middle and long at the ends.

    Parameters
    ----------
    factors : TiltedFactors
    index : int array
    moments : Moments
        Moments of all factors.
    log_others : callable
        (indices, log g, log(1 − g)) → log-density of the sum of the others at 1 − g, up to a constant.
    together : int
        Factors that are worked on at once.
    """
    total, out = factors.each(factors.alpha_total), []
    for start in range(0, index.size, together):
        x = index[start : start + together]
        alpha, mean = factors.family.alpha[x], np.clip(moments.mean[x], 1e-12, 1 - 1e-12)
        rest, centre = total[x] - alpha, np.log(mean) - np.log1p(-mean)
        scale = np.minimum(np.sqrt(moments.variance[x]) / (mean * (1 - mean)), 3.0)
        low, high = -np.arcsinh((DROP / alpha + 20) / scale), np.arcsinh((DROP / rest + 20) / scale)
        step = (high - low) / MARGIN_NODES
        u = low[:, None] + step[:, None] * (np.arange(MARGIN_NODES) + 0.5)
        y = centre[:, None] + scale[:, None] * np.sinh(u)
        log_g, log_rest = -np.logaddexp(0, -y), -np.logaddexp(0, y)
        log_density = factors.log_density(x, moments.mean[x], log_g) + log_others(x, log_g, log_rest)
        out.append((x, Margin(low, step, log_density + log_g + log_rest + np.log(np.cosh(u)), centre, scale)))
    return out
