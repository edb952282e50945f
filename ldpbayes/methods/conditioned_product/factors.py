"""Factors φ_x(g), tilted by e^{−tg} until their means sum to one, as discrete nodes: what all routes start from."""

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from ldpbayes.inference.ends import ACCURACY
from ldpbayes.methods.conditioned_product.constants import (
    BLOCK,
    DROP,
    LONGEST,
    MODE_ERROR,
    NEWTON_STEPS,
    SMALL,
    UNKNOWN,
)


@dataclass(frozen=True, eq=False)
class PowerFactors:
    """Factors φ_x(g) = g^{α_x−1} Π_j (1 + c_xj g)^{w_xj}, the separable likelihoods.

    A family of factors supplies ``alpha``, ``log_smooth``, ``slope``, ``log_remainder``, ``modes``, ``take``,
    ``lowest_tilt`` and ``polynomials``; all else is the engine's.

    Attributes
    ----------
    alpha : (G,) array
    slopes, powers : (G, m) arrays
        c ≥ 0 and w ≥ 0 (whole numbers); columns with w = 0 are padding.
    """

    alpha: np.ndarray
    slopes: np.ndarray
    powers: np.ndarray
    lowest_tilt = 0.0

    def take(self, index):
        """Return the family of these factors only."""
        return PowerFactors(self.alpha[index], self.slopes[index], self.powers[index])

    def polynomials(self):
        """Return (slopes, powers), by which every factor is a power times a polynomial; other families return None."""
        return None if (self.powers % 1).any() else (self.slopes, self.powers)

    def log_smooth(self, g):
        """Return log φ(g) − (α − 1) log g for g of shape (G,)."""
        return (self.powers * np.log1p(self.slopes * g[:, None])).sum(axis=1)

    def log_remainder(self, g, delta):
        """Return log_smooth(g + delta) − log_smooth(g) − slope(g)·delta without cancellation; g (G,), delta (G, N)."""
        total = np.zeros_like(delta)
        for c, w in zip((self.slopes / (1 + self.slopes * g[:, None])).T, self.powers.T, strict=True):
            total += w[:, None] * log1p_minus(np.maximum(c[:, None] * delta, -1 + 1e-16))
        return total

    def slope(self, g):
        """Return the derivative of log_smooth at g, shape (G,)."""
        return (self.powers * self.slopes / (1 + self.slopes * g[:, None])).sum(axis=1)

    def modes(self, tilt):
        """Return the modes of g φ(g) e^{−tg} for tilts t > 0: the roots of α + g (log_smooth' − t), shape (G,).

        A root of a quadratic where each factor has one power; else Newton's method from the right, where it falls
        monotonically, because α + Σ_j w_j c_j g/(1 + c_j g) − t g is concave in g.
        """
        alpha, c, w = self.alpha, self.slopes, self.powers
        if c.shape[1] == 1:
            return positive_roots(tilt * c[:, 0], (alpha + w[:, 0]) * c[:, 0] - tilt, alpha)
        g = (alpha + w.sum(axis=1)) / tilt
        for _ in range(NEWTON_STEPS):
            share = 1 / (1 + c * g[:, None])
            value = alpha + (w * (1 - share)).sum(axis=1) - tilt * g
            step = value / ((w * c * share**2).sum(axis=1) - tilt)
            g = g - step
            if (np.abs(step) <= MODE_ERROR * g).all():
                break
        return g


@dataclass(frozen=True, eq=False)
class FactorNodes:
    """Discrete tilted factors.

    Attributes
    ----------
    centre : (G,) array
    offset, weight : (G, N) arrays
        Factor x takes centre_x + offset_xi with probability weight_xi.
    log_mass : (G,) array
        log ∫ φ(g) e^{−tg} dg.
    step : (G,) array
        Distance of the nodes in u.
    """

    centre: np.ndarray
    offset: np.ndarray
    weight: np.ndarray
    log_mass: np.ndarray
    step: np.ndarray

    @property
    def mean_offset(self):
        """E[g] − centre, shape (G,)."""
        return (self.weight * self.offset).sum(axis=1)

    @property
    def variance(self):
        """Var(g), shape (G,)."""
        return (self.weight * (self.offset - self.mean_offset[:, None]) ** 2).sum(axis=1)


class TiltedFactors:
    """Sets of independent factors with densities ∝ φ_x(g) e^{−tg}, t of each set such that Σ_x E[g_x] = 1: the saddle point.

    Parameters
    ----------
    family : PowerFactors or another family
        The distinct factors of all sets, one set after the other: G of each of k sets.
    multiplicity : (G,) array
        How many categories of a set have each factor.
    start : float or (k,) array, optional
        Tilts near t, from factors that differ little: without them t is searched for from both sides.
    sets : int
        k.

    Attributes
    ----------
    tilt : (k,) array
        t.
    centre : (k·G,) array
        Modes of g φ(g) e^{−tg}.
    window : pair of (k·G,) arrays
        Ends in u of what has not died out, g = centre·exp(log_growth(u)).
    """

    def __init__(self, family, multiplicity, start=None, sets=1):
        self.family, self.multiplicity, self.sets = family, multiplicity, sets
        self.tilt, nodes, self.window = self._tilted(start)
        self.centre = nodes.centre

    @property
    def _lowest(self):
        """The lowest tilts of the sets, (k,): below it a factor has no mode."""
        lowest = np.broadcast_to(self.family.lowest_tilt, self.family.alpha.shape)
        return lowest.reshape(self.sets, -1).max(axis=1)

    def _mode_tilts(self):
        """Return tilts (k,) of modes that sum to one, by bisection over all sets at once: Newton's method goes on."""
        family = self.family
        even = np.full(family.alpha.shape, 1 / self.multiplicity.sum())
        bounds = (family.alpha / even + family.slope(even)).reshape(self.sets, -1)

        def above(t):
            return self.summed(family.modes(self.each(t))) > 1

        return bisect(above, np.maximum(bounds.min(axis=1), self._lowest), bounds.max(axis=1), 24)

    def _tilted(self, start):
        """Return (tilts (k,), FactorNodes, windows) of the factors of each set, tilted to mean one.

        The tilt of modes that sum to one comes first, then Newton's method on the means, which halves the interval that it
        has found where a step leaves it. Where it does not arrive from ``start``, that comes first after all.
        """
        family, lowest = self.family, self._lowest
        if start is None or (start <= lowest).any():
            start, tilt = None, self._mode_tilts()
        else:
            tilt = np.broadcast_to(start, self.sets).astype(float)
        low, high = np.full(self.sets, -np.inf), np.full(self.sets, np.inf)
        for _ in range(NEWTON_STEPS // 2):
            each = self.each(tilt)
            centre = family.modes(each)
            window = _window(family, each, centre)
            nodes = _trapezoid(family, each, centre, *window, 64)
            excess, spread = self.summed(centre + nodes.mean_offset) - 1, self.summed(nodes.variance)
            if (np.abs(excess) < 0.02 * np.sqrt(spread)).all():  # laws are exact at any tilt, and quick near this one
                return tilt, nodes, window
            low, high = np.where(excess > 0, tilt, low), np.where(excess > 0, high, tilt)
            # On 1/Σ E[g], which is linear in t for gamma factors; halves where factors of two peaks lead to and fro.
            moved = tilt + np.maximum(excess * (1 + excess) / spread, -0.5 * (tilt - lowest))
            tilt = np.where(np.isfinite(high - low) & ((moved <= low) | (moved >= high)), 0.5 * (low + high), moved)
        return (tilt, nodes, window) if start is None else self._tilted(None)

    def members(self, sets):
        """Return the places of the factors of some of the sets."""
        size = self.multiplicity.size
        return (np.asarray(sets)[:, None] * size + np.arange(size)).ravel()

    def take(self, sets):
        """Return the factors of some of the sets."""
        members = self.members(sets)
        out = object.__new__(TiltedFactors)
        out.family, out.multiplicity, out.sets = self.family.take(members), self.multiplicity, len(sets)
        out.tilt, out.centre, out.window = self.tilt[sets], self.centre[members], tuple(end[members] for end in self.window)
        return out

    def each(self, values):
        """Return values of the sets (k,) for each of their factors, shape (k·G,)."""
        return np.repeat(values, self.multiplicity.size)

    def summed(self, values, multiplicity=None):
        """Return the sums over the categories of each set, (…, k), of values (…, k·G)."""
        m = self.multiplicity if multiplicity is None else multiplicity
        return values.reshape(*values.shape[:-1], self.sets, m.size) @ m

    @cached_property
    def coarse(self):
        """128 nodes of every factor, for moments of the single factors."""
        return self.nodes(128)

    @property
    def is_polynomial(self):
        """Whether the factors are powers times polynomials, so that the polynomial route applies."""
        return self.family.polynomials() is not None

    @property
    def alpha_total(self):
        """Σα over all categories, shape (k,)."""
        return self.summed(self.family.alpha)

    @property
    def window_values(self):
        """The ends of the window as values of g, two arrays of shape (k·G,)."""
        return tuple(self.centre * np.exp(log_growth(end)) for end in self.window)

    def nodes(self, size, index=slice(None)):
        """Return FactorNodes, size of them for every factor of index: the trapezoidal rule on the window.

        It converges exponentially, as both ends have died out.
        """
        family, centre, (low, high) = self.family.take(index), self.centre[index], (end[index] for end in self.window)
        return _trapezoid(family, self.each(self.tilt)[index], centre, low, high, size)

    def log_density(self, index, typical, log_value):
        """Return the log-densities, up to constants, of the factors ``index`` (F,) at exp(log_value), (F, N) or (N,).

        The smooth part is relative to its value at ``typical`` (F,).
        """
        factor, delta = self.family.take(index), np.exp(log_value) - typical[:, None]
        slope = factor.slope(typical) - self.each(self.tilt)[index]
        return (factor.alpha[:, None] - 1) * log_value + factor.log_remainder(typical, delta) + slope[:, None] * delta

    @cached_property
    def _central(self):
        """Central moments of order 2, 3 and 4 of the single factors, three (k·G,) arrays."""
        offset = self.coarse.offset - self.coarse.mean_offset[:, None]
        square = offset * offset
        return tuple(
            np.einsum("gn,gn->g", self.coarse.weight, power) for power in (square, square * offset, square * square)
        )

    def saddle_moments(self):
        """Return (mean, variance) of every g_x given Σ g = 1 to second order in the saddle point: no line to integrate.

        With variances V, third cumulants K and their sums over x: E[g_x | Σg = 1] ≈ E g_x + (V_x ΣK/ΣV − K_x)/(2 ΣV), and
        Var ≈ V_x − V_x²/ΣV.
        """
        nodes, (v, third, _) = self.coarse, self._central
        total, skew = self.each(self.summed(v)), self.each(self.summed(third))
        mean = nodes.centre + nodes.mean_offset + (v * skew / total - third) / (2 * total)
        mean = np.maximum(mean, 1e-3 * nodes.centre)
        return mean / self.each(self.summed(mean)), v * (1 - v / total)

    def saddle_log_evidence(self):
        """Return (log ∫ Π φ_x(g_x) over Σ g = 1, its error) to second order in the saddle point, two (k,) arrays.

        The law of Σ g under the tilted factors has cumulants κ. Its density at 1 is the density of the Gamma law with
        the same mean and variance, times 1 + (λ₃ − λ)(δ³ − 3δ)/6 + λ₄/8 − 5 λ₃²/24 + λ²/48 with δ = (1 − κ₁)/√κ₂, λ₃ =
        κ₃/κ₂^{3/2}, λ₄ = κ₄/κ₂² and λ = 2 √κ₂/κ₁ the Gamma law's own skewness: the saddle point relative to a Gamma law
        instead of a normal one, so that it is exact for factors g^{α−1}. Its error, set by convolutions,
        is the distance of the terms from a Gamma law's, λ₄ = 3λ²/2 and λ₃ = λ, times a multiple of the sum of their sizes s,
        2s + min(20s, 1). The error of the factors' integrals is added. Where the factors could not be tilted, the log is -∞.
        """
        nodes, (second, third, fourth) = self.coarse, self._central
        k2, k3, k4 = map(self.summed, (second, third, fourth - 3 * second**2))
        k1 = self.summed(nodes.centre + nodes.mean_offset)
        # Under concentrations near zero no tilt may have been found: nothing is known there.
        lost = ~(np.abs(1 - k1) < np.sqrt(np.maximum(k2, 0.0)))
        k1, k2 = np.where(lost, 1.0, k1), np.where(lost, 1.0, k2)
        delta, skew, kurtosis, gamma_skew = (1 - k1) / np.sqrt(k2), k3 / k2**1.5, k4 / k2**2, 2 * np.sqrt(k2) / k1
        shape, rate = k1**2 / k2, k1 / k2
        correction = (skew - gamma_skew) * (delta**3 - 3 * delta) / 6 + kurtosis / 8 - 5 * skew**2 / 24 + gamma_skew**2 / 48
        density = shape * np.log(rate) - rate - gammaln(shape) + np.log1p(np.clip(correction, -0.5, 0.5))
        size = np.abs(kurtosis) / 8 + 5 * skew**2 / 24 + gamma_skew**2 / 48
        apart = np.abs(kurtosis - 1.5 * gamma_skew**2) / 8 + 5 * np.abs(skew**2 - gamma_skew**2) / 24
        least = self.family.alpha.reshape(self.sets, -1).min(axis=1)
        error = (2 * size + np.minimum(20 * size, 1.0)) * apart + ACCURACY.integral * (1 + 0.1 / least**2)
        return np.where(lost, -np.inf, self.tilt + self.summed(nodes.log_mass) + density), np.where(lost, UNKNOWN, error)


def grouped(family):
    """Return (the distinct factors, the group of each category).

    Factors that are equal to twelve digits count as equal: sums over the same reports can differ in the last ones.

    Parameters
    ----------
    family : PowerFactors or another family whose fields are arrays (a, …)
    """
    digits, power = np.frexp(np.column_stack([getattr(family, field.name) for field in fields(family)]))
    _, first, group = np.unique(np.ldexp(np.round(digits * 2**40), power), axis=0, return_index=True, return_inverse=True)
    return family.take(first), group.reshape(-1)


def positive_roots(square, linear, constant):
    """Return the positive roots of constant + linear·g − square·g², with constant > 0 and square ≥ 0."""
    root = np.sqrt(linear**2 + 4 * square * constant)
    # Of the two forms of a root the one without cancellation.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(linear > 0, (linear + root) / (2 * square), 2 * constant / (root - linear))


def log_growth(u):
    """Return log(g/centre) = u + 1 − e^{−u}, the map from the grids' u to g.

    It makes the left tail g^α double exponential, as the right one e^{−tg} is.
    """
    return u - np.expm1(-u)


def log1p_minus(x, log1p=None):
    """Return log(1 + x) − x, to fourteen digits also near zero: there it is −x r + 2r³(1/3 + r²/5 + …) with r = x/(2 + x).

    Parameters
    ----------
    x : array
    log1p : array, optional
        log(1 + x), where it is known.
    """
    out = (np.log1p(x) if log1p is None else log1p) - x
    small = np.abs(x) < SMALL
    near = x[small]
    r = near / (2 + near)
    square = r * r
    series = np.full_like(r, 1 / 11)
    for odd in (9, 7, 5, 3):
        series *= square
        series += 1 / odd
    series *= 2 * square
    series -= near
    series *= r
    out[small] = series
    return out


def bisect(above, low, high, steps):
    """Return where the vectorized predicate ``above`` turns from true (at low) to false (at high)."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        yes = above(middle)
        low, high = np.where(yes, middle, low), np.where(yes, high, middle)
    return 0.5 * (low + high)


def _log_density(family, tilt, centre, u):
    """Return the log-density of the tilted factors in u, relative to u = 0, and the offset of g, for u (G, N)."""
    out, rows = np.empty((2, *u.shape)), max(1, BLOCK // u.shape[1])
    for start in range(0, len(u), rows):
        part = slice(start, start + rows)
        out[:, part] = _block(family.take(part), tilt[part], centre[part], u[part])
    return out


def _block(family, tilt, centre, u):
    """Return what _log_density returns, of factors so few that all arrays stay in a processor's cache."""
    log_step = log_growth(u)
    growth = np.expm1(log_step)
    offset = centre[:, None] * growth
    # The centre is the mode, so the linear terms cancel: taking them out first keeps the digits of counts of 1e8.
    excess = family.alpha / centre + family.slope(centre) - tilt
    power = log1p_minus(growth, log_step)
    log_density = family.alpha[:, None] * power + family.log_remainder(centre, offset) + excess[:, None] * offset
    return log_density + np.log1p(np.exp(-u)) - math.log(2), offset


def _window(family, tilt, centre):
    """Return the ends in u beyond which the tilted factors have dropped by DROP."""
    # Both ends of every factor at once.
    size = centre.size
    sign, both = np.repeat([-1.0, 1.0], size), np.tile(np.arange(size), 2)
    family, tilt, centre = family.take(both), tilt[both], centre[both]

    def inside(log_u):
        return _log_density(family, tilt, centre, sign[:, None] * np.exp(log_u)[:, None])[0][:, 0] > -DROP

    # Ends want no more than a few per cent: the tail beyond is negligible, and quadrature converges for any window.
    end = np.exp(bisect(inside, np.full(sign.size, -20.0), np.log(np.repeat(LONGEST, size)), 10))
    return -end[:size], end[size:]


def _trapezoid(family, tilt, centre, low, high, size):
    """Return the nodes at the middles of size equal cells in u between low and high."""
    step = (high - low) / size
    u = low[:, None] + step[:, None] * (np.arange(size) + 0.5)
    log_density, offset = _log_density(family, tilt, centre, u)
    top = log_density.max(axis=1)
    weight = np.exp(log_density - top[:, None])
    total = weight.sum(axis=1)
    log_mass = family.alpha * np.log(centre) + family.log_smooth(centre) - tilt * centre + top + np.log(2 * total * step)
    return FactorNodes(centre, offset, weight / total[:, None], log_mass, step)
