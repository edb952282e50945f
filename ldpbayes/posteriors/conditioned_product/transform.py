"""The transform route: integrals over ω of products of E_x(ω) = E_t[exp(−iω g_x)], each factor by quadrature; flat in n."""

import math
from functools import cached_property

import numpy as np

from ldpbayes.errors import ConvergenceError
from ldpbayes.posteriors.conditioned_product.factors import DROP, log_growth
from ldpbayes.posteriors.conditioned_product.margins import Margin, Moments

#: The line of ω is cut where the product of the transforms is below the first number, which loses nothing. It must end below
#: the second, and what is below the third is left out.
TOLERANCE, LOUD, NEGLIGIBLE = 4e-16, 1e-13, 1e-19
#: A margin is lost where an error of 1e-16 in its own transform grows above this; another way to it is there for polynomials
#: only.
LOST, ROUGHLY_LOST = 1e-11, TOLERANCE**0.25
#: Complex exponentials that this route may spend before the polynomial route is preferred.
WORK_LIMIT = 6e7


class TransformRoute:
    """The law of Σ g by inverting the product of the factors' transforms along a line of ω.

    Parameters
    ----------
    factors : TiltedFactors
    """

    name = "transform"

    def __init__(self, factors):
        self.factors = factors

    # -- the line --------------------------------------------------------------------------------------------------

    def _last_frequency(self, m, sd):
        """Return ω beyond which Π|E|^m is negligible, from the coarse nodes; inf where it does not die out."""
        nodes, omega, limit = self.factors.coarse, 6 / sd, 2e4 / sd
        while omega < limit:
            transform = np.abs((nodes.weight * np.exp(-1j * omega * nodes.offset)).sum(axis=1))
            if m @ np.log(np.maximum(transform, 1e-18)) < math.log(TOLERANCE):
                return omega
            omega *= 1.25
        return math.inf

    def _period(self, m, sd):
        """Return T so that Σ m g is within T of its mean but for exp(−DROP): Chernoff bounds over a grid of shifts."""
        nodes = self.factors.coarse
        centre = -(m @ nodes.mean_offset)
        period = 0.0
        for sign in (1.0, -1.0):
            bounds = []
            for shift in sign * np.geomspace(0.05, 60, 14) / sd:
                exponent = shift * nodes.offset
                top = exponent.max(axis=1)
                cumulant = m @ (top + np.log((nodes.weight * np.exp(exponent - top[:, None])).sum(axis=1)))
                bounds.append((cumulant + DROP) / abs(shift) + sign * centre)
            period = max(period, min(bounds))
        return 1.05 * period

    def _plan(self, m):
        """Return (step of ω, number of nodes, quadrature size of each factor); None where the line does not die out.

        For Σ m_x g_x; factors with m = 0 get no quadrature. None too above WORK_LIMIT.
        """
        sd = math.sqrt(m @ self.factors.coarse.variance)
        omega = self._last_frequency(m, sd)
        if math.isinf(omega):
            return None
        step = 2 * math.pi / self._period(m, sd)
        count = int(1.6 * omega / step) + 4
        # Nodes enough to follow the phase ω g where g changes fastest with u, and the density itself.
        low, high = self.factors.window
        u = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 24)
        g = self.factors.centre[:, None] * np.exp(log_growth(u))
        rate = (g * (1 + np.exp(-u))).max(axis=1)
        need = np.maximum((high - low) * rate * omega / 3.0, 64 + 8 * np.minimum(high - low, 12))
        size = 2 ** np.ceil(np.log2(np.minimum(need, 2.0**20))).astype(int)
        if float(count) * size[m > 0].sum() > WORK_LIMIT:
            return None
        return step, count, np.where(m > 0, size, 0)

    def _nodes(self, size):
        """Return [(factor indices, Nodes)], factors with equal quadrature size together; size 0 is left out."""
        groups = [(value, np.flatnonzero(size == value)) for value in np.unique(size[size > 0])]
        return [(index, self.factors.nodes(value, index)) for value, index in groups]

    @cached_property
    def _whole_plan(self):
        plan = self._plan(self.factors.multiplicity)
        if plan is None:
            raise ConvergenceError("The transforms must die out, but these factors are too rough; use another method.")
        return plan

    @cached_property
    def _blocks(self):
        return self._nodes(self._whole_plan[2])

    @cached_property
    def _transforms(self):
        """Return ω and the transforms with 1, Δ, Δ² inserted, Δ = g − centre: arrays (J,) and three of (J, G)."""
        step, count, size = self._whole_plan
        e0, e1, e2 = _transform(self._blocks, step, count, size.size, 3)
        return step * np.arange(count), np.where(np.abs(e0) < 1e-30, 1e-30, e0), e1, e2

    @cached_property
    def line(self):
        """(weights v_j, R1, R2, log evidence): a functional that turns E_x into E_x R_x is Re Σ_j v_j R_j.

        R1 and R2 (J, G) insert Δ and Δ².

        Raises
        ------
        ConvergenceError
            Where the product of the transforms does not die out.
        """
        omega, e0, e1, e2 = self._transforms
        m = self.factors.multiplicity
        log_product = np.log(e0) @ m
        size = np.exp(log_product.real)
        if size[-1] > LOUD:
            raise ConvergenceError(f"The transform line must die out, but it ends at {size[-1]:.1e}; use another method.")
        shift = 1 - m @ self.factors.centre
        density = (omega[1] / math.pi) * np.exp(log_product + 1j * omega * shift)
        density[0] *= 0.5
        total = density.real.sum()
        log_mass = sum(m[index] @ nodes.log_mass for index, nodes in self._blocks)
        keep = slice(0, int(np.flatnonzero(size > NEGLIGIBLE)[-1]) + 1)
        log_evidence = log_mass + self.factors.tilt + math.log(total)
        return density[keep] / total, (e1 / e0)[keep], (e2 / e0)[keep], log_evidence

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def n_nodes(self):
        """Number of frequencies."""
        return self.line[0].size

    @cached_property
    def moments(self):
        """Moments of all factors given Σ g = 1."""
        v, r1, r2, log_evidence = self.line
        shift = (v @ r1).real
        variance = (v @ r2).real - shift**2
        centred = r1 - shift
        left = np.concatenate([(v[:, None] * centred).real, -(v[:, None] * centred).imag])
        right = np.concatenate([centred.real, centred.imag])
        return Moments(self.factors.centre + shift, variance, left, right, log_evidence)

    def margins(self):
        """Return [(factor indices, Margin)] and the factors for which that would lose digits.

        The density of factor x is its own times that of the others' sum, from the product of all transforms over E_x:
        that division loses digits where the factor carries most of the spread.
        """
        v = self.line[0]
        omega, e0, _, _ = self._transforms
        others = np.abs(np.exp(np.log(np.abs(e0)) @ self.factors.multiplicity)[:, None] / e0)
        limit = LOST if self.factors.is_polynomial else ROUGHLY_LOST
        lost = np.maximum((others * np.minimum(1e-16 / np.abs(e0), 1)).max(axis=0), others[-1]) > limit
        out = []
        for index, nodes in self._blocks:
            here = np.flatnonzero(~lost[index])
            if not here.size:
                continue
            index, offset = index[here], nodes.offset[here]
            density = np.zeros_like(offset)
            turn = np.exp(-1j * omega[1] * offset)
            now = np.ones_like(turn)
            for j in range(v.size):
                density += (now * (v[j] / e0[j, index])[:, None]).real
                now *= turn
            density = np.maximum(nodes.weight[here] * density, 0)
            out.append((index, Margin(self.factors.window[0][index], nodes.step[here], density, nodes.centre[here])))
        return out, np.flatnonzero(lost)

    def part_log_density(self, part, log_value):
        """Return the log-density, up to a constant, of the tilted sum Σ part_x g_x at exp(log_value), shape (N,).

        None where the transforms of that part do not die out.
        """
        plan = self._plan(part)
        if plan is None:
            return None
        # The sum over ω repeats with period 2π/step: halve the step and leave out what is further away than that.
        step, count, size = 0.5 * plan[0], 2 * plan[1], plan[2]
        transform = _transform(self._nodes(size), step, count, part.size, 1)[0]
        transform = np.where((np.abs(transform) < 1e-30) | (part == 0), 1e-30, transform)
        log_product = np.log(transform)[:, part > 0] @ part[part > 0]
        log_product[0] -= math.log(2)
        shift = np.exp(log_value) - part @ self.factors.centre
        density = np.exp(log_product[:, None] + 1j * step * np.arange(count)[:, None] * shift).real.sum(axis=0)
        far = np.abs(shift - part @ self.factors.coarse.mean_offset) > math.pi / step
        return np.log(np.where(far, 1e-300, np.maximum(density, 1e-300)))


def _transform(blocks, step, count, n_factors, moments):
    """Return E[Δ^i e^{−iω_j Δ}] for i < moments and ω_j = j·step, shape (moments, count, n_factors)."""
    out = np.zeros((moments, count, n_factors), dtype=complex)
    for index, nodes in blocks:
        turn = np.exp(-1j * step * nodes.offset)
        now = nodes.weight.astype(complex)
        powers = (nodes.offset[:, :, None] ** np.arange(moments)).astype(complex)
        for j in range(count):
            out[:, j, index] = np.matmul(now[:, None, :], powers)[:, 0, :].T
            now *= turn
    return out
