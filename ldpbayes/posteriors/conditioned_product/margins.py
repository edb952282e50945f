"""What the routes hand to the engine: the moments of all factors, and the distribution of one of them or of a sum."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft

from ldpbayes.posteriors.conditioned_product.factors import bisect, log_growth

#: Newton's search for a quantile ends with a step below so many grid steps.
SETTLED = 1e-9
#: A cdf is known to this error.
ROUNDING = 1e-15
#: Complex numbers that quantiles at several levels are found with at once.
TOGETHER = 2**20


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the distinct factors given Σ g = 1, the covariances in factored form.

    Attributes
    ----------
    mean, variance : (G,) arrays
        E[g_x] and Var(g_x).
    left, right : (K, G) arrays
        Cov(g_x, g_y) = (leftᵀ right)_xy for two categories, of the same factor or not.
    log_evidence : float
        log ∫ Π φ over the simplex.
    """

    mean: np.ndarray
    variance: np.ndarray
    left: np.ndarray
    right: np.ndarray
    log_evidence: float

    def covariance(self, group):
        """Return Cov(g_x, g_y) of categories with the factors ``group``, shape (a, a)."""
        blocks = self.left.T @ self.right
        full = 0.5 * (blocks + blocks.T)[np.ix_(group, group)]
        np.fill_diagonal(full, self.variance[group])
        return full

    def row_sum_error(self, multiplicity):
        """Return the largest |Σ_y Cov(g_x, g_y)| / Var(g_x), zero but for the error of the moments."""
        others = self.left.T @ (self.right @ multiplicity) - (self.left * self.right).sum(axis=0)
        return float(np.max(np.abs(self.variance + others) / self.variance))


class Margin:
    """Densities on uniform grids of u, with a monotone map to g; both ends have died out, so Fourier series are exact.

    Parameters
    ----------
    low, step : (m,) arrays
        Grid: low + step·(i + ½).
    density : (m, N) array
        Unnormalised density in u.
    centre : (m,) array
        With scale None, log g = log centre + log_growth(u); else logit g = centre + scale·sinh(u).
    scale : float, optional
    """

    def __init__(self, low, step, density, centre, scale=None):
        self.low, self.step, self.centre, self.scale = low, step, centre, scale
        self.size = density.shape[1]
        self.density = density / density.sum(axis=1, keepdims=True)
        self.series = fft.rfft(self.density)

    def to_value(self, u):
        """Return g at u, shape (m,)."""
        if self.scale is None:
            return self.centre * np.exp(log_growth(u))
        return np.exp(-np.logaddexp(0, -(self.centre + self.scale * np.sinh(u))))

    def to_grid(self, value):
        """Return u at g, shape (m,): the inverse of to_value."""
        value = np.broadcast_to(np.asarray(value, dtype=float), self.low.shape)
        if self.scale is None:
            return bisect(lambda u: self.to_value(u) < value, self.low, self.low + self.size * self.step, 60)
        with np.errstate(divide="ignore"):
            return np.arcsinh((np.log(value) - np.log1p(-value) - self.centre) / self.scale)

    def cdf(self, value):
        """Return P(g ≤ value), shape (m,)."""
        position = np.clip((self.to_grid(value) - self.low) / self.step - 0.5, -0.5, self.size - 0.5)
        return np.clip(self.cumulative(position)[0], 0, 1)

    def cumulative(self, position):
        """Return (cdf, density per grid step) at positions counted in grid steps from the first point, shape (…, m)."""
        angle, waves, start = self._waves
        now = waves * np.exp(1j * angle * position[..., None])
        value = (position + 0.5) / self.size + (((now - start) / angle).imag).sum(axis=-1)
        return value, 1 / self.size + now.real.sum(axis=-1)

    @cached_property
    def _waves(self):
        """Return (angles (K,), coefficients (m, K), the waves at the left end (m, K)) of the Fourier series."""
        k = np.arange(1, self.series.shape[1])
        weight = np.where((self.size % 2 == 0) & (k == self.size // 2), 1.0, 2.0) / self.size
        angle = 2 * np.pi / self.size * k
        waves = weight * self.series[:, 1:]
        return angle, waves, waves * np.exp(-0.5j * angle)

    def quantile(self, levels):
        """Return the quantiles at one level, shape (m,), or at several, shape (L, m)."""
        every, size = np.atleast_1d(np.asarray(levels, dtype=float)), max(1, TOGETHER // self.density.size)
        found = [self._quantiles(every[start : start + size, None]) for start in range(0, every.size, size)]
        return np.concatenate(found) if np.ndim(levels) else found[0][0]

    def _quantiles(self, levels):
        """Return the quantiles at levels (L, 1): bracketed on the grid, then Newton on the Fourier series."""
        right = (self.density.cumsum(axis=1) < levels[..., None]).sum(axis=-1)
        low, high = right - 1.5, right + 1.5
        position = right.astype(float)
        for _ in range(30):
            value, slope = self.cumulative(position)
            low, high = np.where(value < levels, position, low), np.where(value < levels, high, position)
            newton = position - (value - levels) / np.where(slope > 0, slope, np.inf)
            new = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
            new = np.where(np.abs(value - levels) < ROUNDING, position, new)
            # Newton's next step would be of the square of this one: beyond rounding.
            done = np.abs(new - position).max() < SETTLED
            position = new
            if done:
                break
        return self.to_value(self.low + self.step * (position + 0.5))
