"""The transform route: integrals over ω of products of E_x(ω) = E_t[exp(−iω g_x)], each factor by quadrature; flat in n."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldpbayes.errors import ConvergenceError
from ldpbayes.methods.conditioned_product.constants import DROP, LOST, LOUD, NEGLIGIBLE, ROUGHLY_LOST, TOLERANCE
from ldpbayes.methods.conditioned_product.factors import log_growth
from ldpbayes.methods.conditioned_product.margins import Moments, margins_of


@dataclass(frozen=True, eq=False)
class Line:
    """Where the transforms of k sets are computed.

    Attributes
    ----------
    step : (k,) array
        Step of ω.
    count : (k,) int array
        Number of nodes; 0 where the line does not die out, or where that takes too long.
    size : (k·G,) int array
        Quadrature size of each factor; 0 for those that are left out.
    """

    step: np.ndarray
    count: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, factors, m):
        """Return the Line for Σ m_x g_x of each set; factors with m = 0 get no quadrature."""
        sd = np.sqrt(factors.summed(factors.coarse.variance, m))
        shape = factors.sets, m.size, -1
        offset, weight = factors.coarse.offset.reshape(shape), factors.coarse.weight.reshape(shape)
        omega = _last_frequency(offset, weight, m, sd)
        step = 2 * np.pi / period(offset, weight, m, sd)
        dies = np.isfinite(omega)
        omega = np.where(dies, omega, 1.0)
        count = (1.6 * omega / step).astype(int) + 4
        # Nodes enough to follow the phase ω g where g changes fastest with u, and the density itself.
        low, high = factors.window
        u = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 24)
        g = factors.centre[:, None] * np.exp(log_growth(u))
        rate = (g * (1 + np.exp(-u))).max(axis=1)
        need = np.maximum((high - low) * rate * factors.each(omega) / 3.0, 64 + 8 * np.minimum(high - low, 12))
        size = 2 ** np.ceil(np.log2(np.minimum(need, 2.0**20))).astype(int)
        size = np.where(np.tile(m > 0, factors.sets), size, 0)
        work = count.astype(float) * size.reshape(factors.sets, -1).sum(axis=1)
        return cls(step, np.where(dies & (work <= 6e7), count, 0), size)  # a second or two; then polynomials

    def take(self, sets):
        """Return the Line of some of the sets."""
        return Line(self.step[sets], self.count[sets], self.size.reshape(self.count.size, -1)[sets].ravel())


def _last_frequency(offset, weight, m, sd):
    """Return ω beyond which Π|E|^m is negligible, from the coarse nodes, shape (k,); inf where it does not die out."""
    out, left, omega = np.full(len(sd), math.inf), np.arange(len(sd)), 6 / sd
    while left.size and (omega[left] < 2e4 / sd[left]).all():
        phase = -1j * omega[left, None, None] * offset[left]
        transform = np.abs((weight[left] * np.exp(phase)).sum(axis=2))
        dead = np.log(np.maximum(transform, 1e-18)) @ m < math.log(TOLERANCE)
        out[left[dead]] = omega[left[dead]]
        left = left[~dead]
        omega = 1.25 * omega
    return out


def period(offset, weight, m, sd):
    """Return T so that Σ m g is within T of its mean but for exp(−DROP), shape (k,): Chernoff bounds over a grid of shifts.

    Parameters
    ----------
    offset, weight : (k, G, N) arrays
        Nodes of the factors of each set.
    m : (G,) array
        How many categories have each of them.
    sd : (k,) array
        Standard deviations of the sums.
    """
    mean = (weight * offset).sum(axis=2) @ m
    with np.errstate(divide="ignore"):  # nodes far out have no weight, and may have the largest exponents
        log_weight = np.log(weight)
    out = np.zeros(len(sd))
    for sign in (1.0, -1.0):
        bound = np.full(len(sd), math.inf)
        for place in np.geomspace(0.05, 60, 14):
            shift = place / sd
            exponent = (sign * shift)[:, None, None] * offset + log_weight
            top = exponent.max(axis=2)
            cumulant = top + np.log(np.exp(exponent - top[:, :, None]).sum(axis=2))
            bound = np.minimum(bound, (cumulant @ m + DROP) / shift - sign * mean)
        out = np.maximum(out, bound)
    return 1.05 * out


class TransformRoute:
    """The laws of Σ g of k sets by inverting the products of the factors' transforms along lines of ω.

    Parameters
    ----------
    factors : TiltedFactors
    line : Line
        With nodes in all sets.
    """

    name = "transform"

    def __init__(self, factors, line):
        self.factors, self.line = factors, line

    @cached_property
    def _blocks(self):
        return _nodes(self.factors, self.line.size)

    @cached_property
    def _transforms(self):
        """The transforms with 1, Δ, Δ² inserted, Δ = g − centre: three arrays (J, k·G)."""
        step, count = self.factors.each(self.line.step), int(self.line.count.max())
        e0, e1, e2 = _transform(self._blocks, step, count, self.line.size.size, 3)
        return np.where(np.abs(e0) < 1e-30, 1e-30, e0), e1, e2

    @cached_property
    def _weights(self):
        """(Weights v (J, k), R1, R2, log evidence (k,)): a functional that turns E_x into E_x R_x is Re Σ_j v_j R_j.

        R1 and R2 (J, k·G) insert Δ and Δ². The evidence is nan where the product of the transforms does not die out.
        """
        (e0, e1, e2), factors, step = self._transforms, self.factors, self.line.step
        log_product = factors.summed(np.log(e0))
        size = np.exp(log_product.real)
        shift = 1 - factors.summed(factors.centre)
        omega = step * np.arange(len(e0))[:, None]
        density = (step / math.pi) * np.exp(log_product + 1j * omega * shift)
        density[0] *= 0.5
        total = density.real.sum(axis=0)
        log_mass = np.empty(factors.centre.size)
        for index, nodes in self._blocks:
            log_mass[index] = nodes.log_mass
        keep = slice(0, int(np.flatnonzero((size > NEGLIGIBLE).any(axis=1))[-1]) + 1)
        good = (size[-1] <= LOUD) & (total > 0)
        log_evidence = factors.summed(log_mass) + factors.tilt + np.log(np.where(good, total, math.nan))
        return density[keep] / total, (e1 / e0)[keep], (e2 / e0)[keep], log_evidence

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def n_nodes(self):
        """Number of frequencies."""
        return len(self._weights[0])

    @cached_property
    def moments(self):
        """Moments of all factors given Σ g = 1."""
        v, r1, r2, log_evidence = self._weights
        shift, square = (np.einsum("jk,jkg->kg", v, r.reshape(*v.shape, -1)).real.ravel() for r in (r1, r2))
        return Moments(self.factors.centre + shift, square - shift**2, log_evidence)

    @property
    def products(self):
        """(Left, right), two (K, k·G) arrays: Cov(g_x, g_y) = (leftᵀ right)_xy of two categories of a set."""
        v, r1, _, _ = self._weights
        centred = r1 - (self.moments.mean - self.factors.centre)
        weighted = np.repeat(v, self.factors.multiplicity.size, axis=1) * centred
        return np.concatenate([weighted.real, -weighted.imag]), np.concatenate([centred.real, centred.imag])

    def take(self, sets):
        """Return the route of some of the sets."""
        return TransformRoute(self.factors.take(sets), self.line.take(sets))

    @property
    def lost(self):
        """The factors whose margins would lose digits: they divide by their transforms."""
        sizes, limit = np.abs(self._transforms[0]), LOST if self.factors.is_polynomial else ROUGHLY_LOST
        others = np.repeat(np.exp(self.factors.summed(np.log(sizes))), self.factors.multiplicity.size, axis=1) / sizes
        return np.flatnonzero(np.maximum((others * np.minimum(1e-16 / sizes, 1)).max(axis=0), others[-1]) > limit)

    def margins(self, index):
        """Return [(factor indices, Margin)] of some factors.

        The density of factor x is its own times the density of the others' sum, from the product of all transforms over E_x.
        """
        v, factors = self._weights[0], self.factors
        ratio = np.repeat(v, factors.multiplicity.size, axis=1) / self._transforms[0][: len(v)]
        step = factors.each(self.line.step)

        def log_others(x, log_g, log_rest):
            turn = np.exp(-1j * step[x, None] * (np.exp(log_g) - factors.centre[x, None]))
            now, density = np.ones_like(turn), np.zeros_like(log_g)
            for ratios in ratio[:, x, None]:
                density += now.real * ratios.real - now.imag * ratios.imag
                now *= turn
            return np.log(np.maximum(density, 1e-300))

        return margins_of(factors, index, self.moments, log_others)

    def margin_of(self, x):
        """Return the Margin of one factor of one set, its own density times the density of the others' sum.

        Raises
        ------
        ConvergenceError
            Where the transforms of the others do not die out.
        """
        others = self.factors.multiplicity.copy()
        others[x] -= 1

        def log_others(x, log_g, log_rest):
            return self._part_log_density(others, log_rest[0])

        return margins_of(self.factors, np.array([x]), self.moments, log_others)[0][1]

    def _part_log_density(self, part, log_value):
        """Return the log-density, up to a constant, of the tilted sum Σ part_x g_x of one set at exp(log_value), (N,)."""
        line = Line.of(self.factors, part)
        if not line.count.all():
            raise ConvergenceError("The transforms of a part of the sum must die out, but they do not; use its draws.")
        # The sum over ω repeats with period 2π/step: halve the step and leave out what is further away than that.
        step, count = 0.5 * line.step[0], 2 * line.count[0]
        transform = _transform(_nodes(self.factors, line.size), np.full(part.size, step), count, part.size, 1)[0]
        transform = np.where((np.abs(transform) < 1e-30) | (part == 0), 1e-30, transform)
        log_product = np.log(transform)[:, part > 0] @ part[part > 0]
        log_product[0] -= math.log(2)
        shift = np.exp(log_value) - part @ self.factors.centre
        density = np.exp(log_product[:, None] + 1j * step * np.arange(count)[:, None] * shift).real.sum(axis=0)
        far = np.abs(shift - part @ self.factors.coarse.mean_offset) > math.pi / step
        return np.log(np.where(far, 1e-300, np.maximum(density, 1e-300)))


def _nodes(factors, size):
    """Return [(factor indices, Nodes)], factors with equal quadrature size together; size 0 is left out."""
    groups = [(value, np.flatnonzero(size == value)) for value in np.unique(size[size > 0])]
    return [(index, factors.nodes(value, index)) for value, index in groups]


def _transform(blocks, step, count, n_factors, moments):
    """Return E[Δ^i e^{−iω_j Δ}] for i < moments and ω_j = j·step of each factor, shape (moments, count, n_factors)."""
    out = np.zeros((moments, count, n_factors), dtype=complex)
    for index, nodes in blocks:
        turn = np.exp(-1j * step[index, None] * nodes.offset)
        now = nodes.weight.astype(complex)
        powers = np.stack([nodes.offset**power for power in range(moments)], axis=1)
        parts = now.view(float).reshape(*now.shape, 2)  # a product with real powers is of real and imaginary parts
        for j in range(count):
            product = np.matmul(powers, parts)
            out[:, j, index] = (product[..., 0] + 1j * product[..., 1]).T
            now *= turn
    return out
