"""The engine of exact posteriors: independent factors φ_x(g_x) conditioned on Σ_x g_x = 1.

Every quantity is a one-dimensional integral of products of the tilted factors' transforms E_x(ω) = E_t[exp(−iω g_x)]:
by quadrature of each factor (flat in n), or for polynomial factors by roots of unity in the number of truthful reports.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft
from scipy.special import gammaln

from ldpbayes.errors import ArgumentError, ConvergenceError

#: exp(−DROP) is the relative mass that windows may leave out.
DROP = 45.0
#: Transforms whose product is below this are left out.
NEGLIGIBLE = 1e-19
#: Complex exponentials that the quadrature route may spend before the polynomial route is preferred.
WORK_LIMIT = 6e7


@dataclass(frozen=True, eq=False)
class PowerFactors:
    """Factors φ_x(g) = g^{α_x−1} Π_j (1 + c_xj g)^{w_xj}, the separable likelihoods.

    A family of factors supplies ``alpha``, ``log_smooth``, ``slope``, ``log_remainder``, ``take`` and ``lowest_tilt``;
    all else is the engine's.

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

    def log_smooth(self, g):
        """Return log φ(g) − (α − 1) log g for g of shape (G,)."""
        return (self.powers * np.log1p(self.slopes * g[:, None])).sum(axis=1)

    def log_remainder(self, g, delta):
        """Return log_smooth(g + delta) − log_smooth(g) − slope(g)·delta without cancellation; g (G,), delta (G, N)."""
        total = np.zeros_like(delta)
        for c, w in zip((self.slopes / (1 + self.slopes * g[:, None])).T, self.powers.T, strict=True):
            total += w[:, None] * _log1p_minus(np.maximum(c[:, None] * delta, -1 + 1e-16))
        return total

    def slope(self, g):
        """Return the derivative of log_smooth at g, shape (G,)."""
        return (self.powers * self.slopes / (1 + self.slopes * g[:, None])).sum(axis=1)


def _log1p_minus(x):
    """Return log(1 + x) − x to full relative precision: −x r + 2r³(1/3 + r²/5 + …) with r = x/(2 + x) near zero."""
    r = x / (2 + x)
    square = r * r
    series = np.zeros_like(x)
    for odd in (17, 15, 13, 11, 9, 7, 5, 3):
        series = series * square + 1 / odd
    return np.where(np.abs(x) < 0.25, -x * r + 2 * r * square * series, np.log1p(x) - x)


def _bisect(above, low, high, steps):
    """Return where the vectorised predicate ``above`` turns from true (at low) to false (at high)."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        yes = above(middle)
        low, high = np.where(yes, middle, low), np.where(yes, high, middle)
    return 0.5 * (low + high)


def _modes(family, tilt, steps=60):
    """Return the modes of g φ(g) e^{−tg}: the roots of α + g (r'(g) − t), unique because that over g decreases."""
    low = np.full(family.alpha.shape, -90.0)

    def rising(v):
        g = np.exp(v)
        return family.alpha + g * (family.slope(g) - tilt) > 0

    return np.exp(_bisect(rising, low, -low / 3, steps))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Discrete tilted factors: weights (G, N) at g = centre + offset, and log ∫ φ(g) e^{−tg} dg."""

    centre: np.ndarray
    offset: np.ndarray
    weight: np.ndarray
    log_mass: np.ndarray
    step: np.ndarray

    @property
    def mean_offset(self):
        return (self.weight * self.offset).sum(axis=1)

    @property
    def variance(self):
        return (self.weight * (self.offset - self.mean_offset[:, None]) ** 2).sum(axis=1)


def _log_density(family, tilt, centre, u):
    """Return the log-density of the tilted factor in u, relative to u = 0, and the offset of g.

    log g = log centre + u + 1 − e^{−u} makes the left tail g^α double exponential, as the right one e^{−tg} is.
    """
    log_step = u - np.expm1(-u)
    growth = np.expm1(log_step)
    offset = centre[:, None] * growth
    # The centre is the mode, so the linear terms cancel: taking them out first keeps the digits of counts of 1e8.
    excess = family.alpha / centre + family.slope(centre) - tilt
    power = np.where(np.abs(growth) < 0.25, _log1p_minus(np.maximum(growth, -0.5)), log_step - growth)
    log_density = family.alpha[:, None] * power + family.log_remainder(centre, offset) + excess[:, None] * offset
    return log_density + np.log1p(np.exp(-u)) - math.log(2), offset


def _window(family, tilt, centre):
    """Return the ends in u beyond which the tilted factors have dropped by DROP."""

    def inside(sign):
        return lambda u: _log_density(family, tilt, centre, sign * u[:, None])[0][:, 0] > -DROP

    zero = np.zeros_like(centre)
    return -_bisect(inside(-1), zero, zero + 20, 40), _bisect(inside(1), zero, zero + 60, 45)


def _quadrature(family, tilt, centre, window, size):
    """Return _Nodes: the trapezoidal rule on the window, exponentially convergent as both ends have died out."""
    low, high = window
    step = (high - low) / size
    u = low[:, None] + step[:, None] * (np.arange(size) + 0.5)
    log_density, offset = _log_density(family, tilt, centre, u)
    top = log_density.max(axis=1)
    weight = np.exp(log_density - top[:, None])
    total = weight.sum(axis=1)
    log_mass = family.alpha * np.log(centre) + family.log_smooth(centre) - tilt * centre + top + np.log(2 * total * step)
    return _Nodes(centre, offset, weight / total[:, None], log_mass, step)


class ConditionedProduct:
    """The density ∝ Π_x φ_x(g_x) on Σ_x g_x = 1, g ≥ 0.

    Parameters
    ----------
    family : PowerFactors or another family
        One entry per distinct factor (G of them).
    group : (a,) int array
        Which factor each category has.
    route : str, optional
        See below; by default the transforms where they die out, else the polynomials.
    tolerance : float
        Size of the product of transforms at which their line is cut. The default loses nothing; a family without
        polynomials and with weak data has transforms that die out only like ω^{−Σα}, and needs more.

    Attributes
    ----------
    tilt : float
        t with Σ_x E_t[g_x] = 1, the saddle point.
    route : str
        "transform" (quadrature of the factors) or "polynomial" (roots of unity).
    """

    def __init__(self, family, group, route=None, tolerance=4e-16):
        self.family = family
        self.tolerance = tolerance
        self.group = np.asarray(group)
        self.multiplicity = np.bincount(self.group, minlength=family.alpha.size).astype(float)
        self.n_categories = self.group.size
        self._find_tilt()
        self.route = route or self._choose_route()

    @property
    def _polynomial(self):
        return hasattr(self.family, "powers")

    # -- tilt ------------------------------------------------------------------------------------------------------

    def _find_tilt(self):
        """Set tilt, modes and a coarse quadrature: modes that sum to one first, then Newton on the means."""
        family, m = self.family, self.multiplicity
        even = np.full(family.alpha.shape, 1 / self.n_categories)
        bounds = family.alpha / even + family.slope(even)
        low, high = bounds.min(), bounds.max()
        tilt = float(_bisect(lambda t: m @ _modes(family, t, 30) > 1, low, high, 40)) if high > low else float(low)
        for _ in range(12):
            centre = _modes(family, tilt)
            window = _window(family, tilt, centre)
            nodes = _quadrature(family, tilt, centre, window, 64)
            excess = m @ (centre + nodes.mean_offset) - 1
            spread = m @ nodes.variance
            if abs(excess) < 0.02 * math.sqrt(spread):
                break
            tilt = self._newton(tilt, excess, spread)
        self.tilt, self._centre, self._window = tilt, centre, window
        self._coarse = _quadrature(family, tilt, centre, window, 128)

    def _newton(self, tilt, excess, spread):
        """Return the next tilt: Newton on 1/Σ E[g], which is linear in t for gamma factors."""
        step = excess * (1 + excess) / spread
        return tilt + max(step, -0.5 * (tilt - self.family.lowest_tilt))

    # -- transform route -------------------------------------------------------------------------------------------

    def _reach(self, m):
        """Return (ω beyond which Π|E|^m is negligible, T so that Σ m g is within T of its mean), from the coarse nodes."""
        nodes = self._coarse
        centre = -(m @ nodes.mean_offset)
        sd = math.sqrt(m @ nodes.variance)
        period = 0.0
        for sign in (1.0, -1.0):
            shifts = sign * np.geomspace(0.05, 60, 14) / sd
            bounds = []
            for shift in shifts:
                exponent = shift * nodes.offset
                top = exponent.max(axis=1)
                cumulant = m @ (top + np.log((nodes.weight * np.exp(exponent - top[:, None])).sum(axis=1)))
                bounds.append((cumulant + DROP) / abs(shift) + sign * centre)
            period = max(period, min(bounds))
        omega, limit = 6 / sd, 2e4 / sd
        while omega < limit:
            transform = np.abs((nodes.weight * np.exp(-1j * omega * nodes.offset)).sum(axis=1))
            if m @ np.log(np.maximum(transform, 1e-18)) < math.log(self.tolerance):
                break
            omega *= 1.25
        return (omega if omega < limit else math.inf), 1.05 * period

    def _plan(self, m):
        """Return (step of ω, number of nodes, quadrature size of each factor); None where the line does not die out."""
        omega, period = self._reach(m)
        if math.isinf(omega):
            return None
        step = 2 * math.pi / period
        count = int(1.6 * omega / step) + 4
        low, high = self._window
        u = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 24)
        g = self._centre[:, None] * np.exp(u - np.expm1(-u))
        rate = (g * (1 + np.exp(-u))).max(axis=1)
        need = np.maximum((high - low) * rate * omega / 3.0, 64 + 8 * np.minimum(high - low, 12))
        size = 2 ** np.ceil(np.log2(np.minimum(need, 2.0**20))).astype(int)
        if float(count) * size[m > 0].sum() > WORK_LIMIT:
            return None
        return step, count, np.where(m > 0, size, 0)

    def _choose_route(self):
        """Return "transform" where the transforms die out at a reasonable cost, else "polynomial" where that applies."""
        if not self._polynomial:
            return "transform"
        try:
            _ = self._line
        except ConvergenceError:
            return "polynomial"
        return "transform"

    @cached_property
    def _whole_plan(self):
        return self._plan(self.multiplicity)

    def _nodes(self, size):
        """Return [(factor indices, _Nodes)], factors with equal quadrature size together; size 0 is left out."""
        blocks = []
        for value in np.unique(size[size > 0]):
            index = np.flatnonzero(size == value)
            window = tuple(end[index] for end in self._window)
            blocks.append((index, _quadrature(self.family.take(index), self.tilt, self._centre[index], window, value)))
        return blocks

    @cached_property
    def _blocks(self):
        if self._whole_plan is None:
            raise ConvergenceError("The transforms must die out, but these factors are too rough; use another method.")
        return self._nodes(self._whole_plan[2])

    @cached_property
    def _transforms(self):
        """Return ω and the transforms with 1, Δ, Δ² inserted, Δ = g − centre: arrays (J,) and (3, J, G)."""
        blocks = self._blocks
        step, count, _ = self._whole_plan
        return step * np.arange(count), _transform(blocks, step, count, self.family.alpha.size, 3)

    @cached_property
    def _line(self):
        """Return (weights v_j, R1, R2, log evidence): a functional with ratios R is Re Σ_j v_j R_j."""
        omega, (e0, e1, e2) = self._transforms
        e0 = np.where(np.abs(e0) < 1e-30, 1e-30, e0)
        m = self.multiplicity
        log_product = np.log(e0) @ m
        size = np.exp(log_product.real)
        if size[-1] > max(1e-13, 10 * self.tolerance):
            raise ConvergenceError(f"The transform line must die out, but it ends at {size[-1]:.1e}; use another method.")
        shift = 1 - m @ self._centre
        density = (omega[1] / math.pi) * np.exp(log_product + 1j * omega * shift)
        density[0] *= 0.5
        total = density.real.sum()
        log_mass = sum(m[index] @ nodes.log_mass for index, nodes in self._blocks)
        keep = slice(0, int(np.flatnonzero(size > NEGLIGIBLE)[-1]) + 1)
        log_evidence = log_mass + self.tilt + math.log(total)
        return density[keep] / total, (e1 / e0)[keep], (e2 / e0)[keep], log_evidence

    def _line_moments(self):
        v, r1, r2, log_evidence = self._line
        shift = (v @ r1).real
        variance = (v @ r2).real - shift**2
        centred = r1 - shift
        left = np.concatenate([(v[:, None] * centred).real, -(v[:, None] * centred).imag])
        right = np.concatenate([centred.real, centred.imag])
        return self._centre + shift, variance, left, right, log_evidence

    # -- polynomial route ------------------------------------------------------------------------------------------

    @cached_property
    def _tables(self):
        """Return [(lowest k, pmf of k)] per factor: φ(g)e^{−tg} as a mixture of Gamma(α + k, t), and log ∫ φ e^{−tg}."""
        low, high = self._window
        ends = [self._centre * np.exp(u - np.expm1(-u)) for u in (low, high)]
        tables, log_mass = [], np.empty(self.family.alpha.size)
        parts = zip(self.family.alpha, self.family.slopes, self.family.powers, strict=True)
        for x, (alpha, slopes, powers) in enumerate(parts):
            first, log_first, ratio = _polynomial(slopes, powers, ends[0][x], ends[1][x])
            k = first + np.arange(ratio.size)
            # One cumulative sum of ratios near one: sums of log-gammas would lose the digits of a large count.
            log_pmf = np.concatenate([[0.0], np.cumsum(ratio + np.log((alpha + k) / self.tilt))])
            top = log_pmf.max()
            pmf = np.exp(log_pmf - top)
            used = np.flatnonzero(pmf > 1e-23)
            log_mass[x] = log_first + top + math.log(pmf.sum()) + gammaln(alpha + first)
            log_mass[x] -= (alpha + first) * math.log(self.tilt)
            pmf = pmf[used[0] : used[-1] + 1]
            tables.append((first + int(used[0]), pmf / pmf.sum()))
        return tables, log_mass

    @cached_property
    def _sum_ends(self):
        return _sum_window(self._tables[0], self.multiplicity)

    @cached_property
    def _roots(self):
        """Return (size, Π_x H_x, H, G): transforms of the tables at the roots of unity, in G with α + k inserted."""
        tables, _ = self._tables
        low, high = self._sum_ends
        size = fft.next_fast_len(high - low + 1, real=True)
        h, g = (np.zeros((len(tables), size // 2 + 1), dtype=complex) for _ in range(2))
        for x, (first, pmf) in enumerate(tables):
            h[x] = fft.rfft(_wrapped(pmf, size), size)
            g[x] = fft.rfft(_wrapped(pmf * (self.family.alpha[x] + first + np.arange(pmf.size)), size), size)
        h = np.where(np.abs(h) < 1e-30, 1e-30, h)
        return size, np.exp(self.multiplicity @ np.log(h)), h, g

    def _sum_functional(self, weight):
        """Return u with Σ_m weight_m [z^m] Π H R = Re Σ_j u_j R_j for weights (K, M) on the sums of _sum_ends."""
        size, product, _, _ = self._roots
        low, high = self._sum_ends
        offset = int(self.multiplicity @ np.array([first for first, _ in self._tables[0]]))
        padded = np.zeros((len(weight), size))
        padded[:, (np.arange(low, high + 1) - offset) % size] = weight
        out = np.conj(fft.rfft(padded)) / size
        out[:, 1:] *= 2
        if size % 2 == 0:
            out[:, -1] *= 0.5
        return out * product

    def _circle_moments(self):
        """Return _line_moments by the law of total covariance over k: P | k is Dirichlet(K), K = α + k, T = Σ K.

        Cov = E[(K_x/T − μ_x)(K_y/T − μ_y)] + E[(δ_xy K_x/T − K_x K_y/T²)/(T + 1)], with K and T centred first.
        """
        _, _, h, g = self._roots
        low, high = self._sum_ends
        total = self._alpha_total + np.arange(low, high + 1)
        # W(m) = t^m/Γ(Σα + m), by ratios so that no digit is lost at large m.
        log_weight = np.concatenate([[0.0], np.cumsum(np.log(self.tilt / total[:-1]))])
        top = log_weight.max()
        weight = np.exp(log_weight - top)
        evidence = self._sum_functional(weight[None]).real.sum()
        weight /= evidence
        typical = (weight @ total) / weight.sum()
        away = total - typical
        rows = [weight / total, weight / total**2, weight * away / total**2, weight * (away / total) ** 2]
        rows += [weight / total / (total + 1), weight / total**2 / (total + 1)]
        u1, u2, cross, spread, inner1, inner2 = self._sum_functional(np.array(rows))
        r = (g / h).T
        mean = (u1 @ r).real
        centred = r - mean * typical
        squares = self._centred_squares(mean * typical)
        shared = (cross @ centred).real
        raw = squares + 2 * mean * typical * centred + (mean * typical) ** 2
        variance = (u2 @ squares).real - 2 * mean * shared + spread.real.sum() * mean**2
        variance += (inner1 @ r - inner2 @ raw).real
        left, right = [], []
        for u, ratios in ((u2, centred), (-inner2, r)):
            weighted = u[:, None] * ratios
            left += [weighted.real, -weighted.imag]
            right += [ratios.real, ratios.imag]
        left = np.concatenate([*left, -mean[None], -shared[None], spread.real.sum() * mean[None]])
        right = np.concatenate([*right, shared[None], mean[None], mean[None]])
        log_evidence = self.multiplicity @ self._tables[1] + math.log(evidence) + top
        log_evidence += (low + self._alpha_total) * math.log(self.tilt) - gammaln(self._alpha_total + low)
        return mean, variance, left, right, log_evidence

    def _centred_squares(self, centre):
        """Return the transforms with (α + k − centre)² inserted, over those without, shape (J, G)."""
        size, _, h, _ = self._roots
        out = np.empty_like(h)
        for x, (first, pmf) in enumerate(self._tables[0]):
            k = self.family.alpha[x] + first + np.arange(pmf.size)
            out[x] = fft.rfft(_wrapped(pmf * (k - centre[x]) ** 2, size), size)
        return (out / h).T

    @cached_property
    def _alpha_total(self):
        return self.multiplicity @ self.family.alpha

    # -- results ---------------------------------------------------------------------------------------------------

    @cached_property
    def _moments(self):
        return self._line_moments() if self.route == "transform" else self._circle_moments()

    @property
    def mean(self):
        """E[g_x], shape (a,)."""
        return self._moments[0][self.group]

    @property
    def variance(self):
        """Var(g_x), shape (a,)."""
        return self._moments[1][self.group]

    @property
    def log_evidence(self):
        """log ∫ Π_x φ_x(g_x) over the simplex (Lebesgue measure of any a − 1 coordinates)."""
        return float(self._moments[4])

    def covariance(self):
        """Return Cov(g_x, g_y), shape (a, a)."""
        _, variance, left, right, _ = self._moments
        blocks = left.T @ right
        full = 0.5 * (blocks + blocks.T)[np.ix_(self.group, self.group)]
        np.fill_diagonal(full, variance[self.group])
        return full

    def row_sum_error(self):
        """Return the largest |Σ_y Cov(g_x, g_y)| / Var(g_x), zero but for the error of the moments."""
        _, variance, left, right, _ = self._moments
        others = left.T @ (right @ self.multiplicity) - (left * right).sum(axis=0)
        return float(np.max(np.abs(variance + others) / variance))

    def diagnostics(self):
        """Return the route, the number of complex nodes and the tilt."""
        nodes = self._line[0].size if self.route == "transform" else self._roots[0]
        return {"route": self.route, "nodes": int(nodes), "tilt": float(self.tilt)}

    def quantile(self, q):
        """Return the q-quantiles of every g_x: shape (a,), or (len(q), a) for several q."""
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        out = np.empty((levels.size, self.family.alpha.size))
        for index, margin in self._margins:
            for i, level in enumerate(levels):
                out[i, index] = margin.quantile(level)
        out = out[:, self.group]
        return out if np.ndim(q) else out[0]

    @cached_property
    def _margins(self):
        """Return [(factor indices, _Margin)] of all factors."""
        everything = np.arange(self.family.alpha.size)
        if self.route == "polynomial":
            return [(np.array([x]), self._sum_margin(everything == x)) for x in everything]
        v, _, _, _ = self._line
        omega, (e0, _, _) = self._transforms
        e0 = np.where(np.abs(e0) < 1e-30, 1e-30, e0)
        others = np.abs(np.exp(np.log(np.abs(e0)) @ self.multiplicity)[:, None] / e0)
        # Dividing a factor out of the product loses digits where that factor carries most of the spread.
        lost = np.maximum((others * np.minimum(1e-16 / np.abs(e0), 1)).max(axis=0), others[-1]) > max(
            1e-11, self.tolerance ** (0.25 if not self._polynomial else 1.0)
        )
        out = [(np.array([x]), self._sum_margin(everything == x)) for x in np.flatnonzero(lost)]
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
            out.append((index, _Margin(self._window[0][index], nodes.step[here], density, self._centre[index], None)))
        return out

    def subset(self, member):
        """Return the _Margin of Σ_{x in B} g_x for a boolean (a,) array with some, not all, true."""
        member = np.asarray(member, dtype=bool)
        if member.shape != (self.n_categories,) or member.all() or not member.any():
            raise ArgumentError("member must be a boolean vector over the categories with some, not all, entries true.")
        return self._sum_margin(np.bincount(self.group[member], minlength=self.family.alpha.size).astype(float))

    def _sum_margin(self, part):
        """Return the _Margin of Σ part_x g_x (counts per distinct factor): f_B(p) f_rest(1 − p), on a grid in logit p.

        logit p = centre + scale·sinh(u): narrow in the middle, long at the ends, both at once.
        """
        means, variances, left, right, _ = self._moments
        part, rest = np.asarray(part, dtype=float), self.multiplicity - part
        mean = part @ means
        spread = part @ variances + (left @ part) @ (right @ part) - part @ (left * right).sum(axis=0)
        centre, scale = math.log(mean / (1 - mean)), min(math.sqrt(spread) / (mean * (1 - mean)), 3.0)
        ends = [-math.asinh((DROP / (part @ self.family.alpha) + 20) / scale)]
        ends.append(math.asinh((DROP / (rest @ self.family.alpha) + 20) / scale))
        step = (ends[1] - ends[0]) / 512
        u = ends[0] + step * (np.arange(512) + 0.5)
        y = centre + scale * np.sinh(u)
        log_p, log_r = -np.logaddexp(0, -y), -np.logaddexp(0, y)
        log_density = self._part_log_density(part, log_p) + self._part_log_density(rest, log_r)
        log_density += log_p + log_r + np.log(np.cosh(u))
        density = np.exp(log_density - log_density.max())
        return _Margin(np.array([ends[0]]), np.array([step]), density[None], np.array([centre]), scale)

    def _part_log_density(self, part, log_value):
        """Return the log-density, up to a constant, of the tilted sum Σ part_x g_x at exp(log_value), shape (N,)."""
        value = np.exp(log_value)
        if part.sum() == 1:
            x = np.flatnonzero(part)
            typical = self._moments[0][x]
            delta = value - typical
            factor = self.family.take(x)
            smooth = factor.log_remainder(typical, delta[None])[0] + (factor.slope(typical) - self.tilt) * delta
            return (factor.alpha - 1) * log_value + smooth
        plan = self._plan(part) if self.route == "transform" else None
        if plan is None and self._polynomial:
            return self._mixture_log_density(part, log_value)
        if plan is None:
            raise ConvergenceError("The transforms of a part of the sum must die out, but they do not; use its draws.")
        # The sum over ω repeats with period 2π/step: halve the step and leave out what is further away than that.
        step, count, size = 0.5 * plan[0], 2 * plan[1], plan[2]
        blocks = self._nodes(size)
        transform = _transform(blocks, step, count, part.size, 1)[0]
        transform = np.where((np.abs(transform) < 1e-30) | (part == 0), 1e-30, transform)
        log_product = np.log(transform)[:, part > 0] @ part[part > 0]
        log_product[0] -= math.log(2)
        shift = value - part @ self._centre
        density = np.exp(log_product[:, None] + 1j * step * np.arange(count)[:, None] * shift).real.sum(axis=0)
        far = np.abs(shift - part @ self._coarse.mean_offset) > math.pi / step
        return np.log(np.where(far, 1e-300, np.maximum(density, 1e-300)))

    def _mixture_log_density(self, part, log_value):
        """Return _part_log_density from the mixture over Σ k of Gamma(Σα + Σk, t) densities."""
        sums, pmf = self._part_table(part)
        kept = np.flatnonzero(pmf > 1e-17 * pmf.max())
        sums, pmf = sums[kept[0] : kept[-1] + 1], pmf[kept[0] : kept[-1] + 1]
        shape = sums + part @ self.family.alpha
        with np.errstate(divide="ignore"):
            log_weight = np.log(pmf) + shape * math.log(self.tilt) - gammaln(shape)
        value = self.tilt * np.exp(log_value)
        # A Gamma density at r is negligible unless its shape is within some √(t r) of t r: leave the other sums out.
        reach = 14 * np.sqrt(value.max()) + 80
        width = int(min(2 * reach + 1, shape.size))
        start = np.clip(np.round(value - reach - shape[0]), 0, shape.size - width).astype(int)
        here = start[:, None] + np.arange(width)
        terms = log_weight[here] + (shape[here] - 1) * log_value[:, None] - value[:, None]
        top = terms.max(axis=1)
        return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))

    def _part_table(self, part):
        """Return (sums, pmf) of Σ part_x k_x, from the roots of unity of the whole sum."""
        size, product, h, _ = self._roots
        firsts = np.array([first for first, _ in self._tables[0]])
        # The window of the whole sum, moved by the mean of the rest: at the mode it would drift with every skewed factor.
        typical = np.array([first + pmf @ np.arange(pmf.size) for first, pmf in self._tables[0]])
        rest = self.multiplicity - part
        if np.count_nonzero(part) <= np.count_nonzero(rest):
            product = np.prod(h[part > 0] ** part[part > 0, None], axis=0)
        else:
            product = product / np.prod(h[rest > 0] ** rest[rest > 0, None], axis=0)
        sums = max(self._sum_ends[0] - round(rest @ typical), int(part @ firsts)) + np.arange(size)
        return sums, np.maximum(fft.irfft(product, size)[(sums - int(part @ firsts)) % size], 0)

    # -- draws -----------------------------------------------------------------------------------------------------

    def draws(self, size, rng):
        """Return (g, acceptance): ``size`` independent draws of g, shape (size, a), and the accepted share of proposals.

        k_x from its table for each category, accepted with probability ∝ t^m/Γ(Σα + m), m = Σ k; then g | k ~
        Dirichlet(α + k): exact, because φ(g) e^{−tg} is a mixture of Gamma(α + k, t) and only the sum couples them.
        """
        tables, _ = self._tables
        alpha = self.family.alpha[self.group]
        best = max(self.tilt - self._alpha_total, 0.0)
        out, have, tried = np.empty((size, self.n_categories)), 0, 0
        share = 0.25
        while have < size:
            batch = int(min(max(1.2 * (size - have) / share, 64), 4e6 // self.n_categories + 64))
            k = np.empty((self.n_categories, batch), dtype=np.int64)
            for x, g in enumerate(self.group):
                first, pmf = tables[g]
                k[x] = np.repeat(np.arange(first, first + pmf.size), rng.multinomial(batch, pmf))
            k = rng.permuted(k, axis=1)
            m = k.sum(axis=0)
            log_accept = (m - best) * math.log(self.tilt) - gammaln(self._alpha_total + m)
            peak = math.floor(best)
            top = max((i - best) * math.log(self.tilt) - gammaln(self._alpha_total + i) for i in (max(peak, 0), peak + 1))
            kept = np.flatnonzero(np.log(rng.random(batch)) < log_accept - top)
            tried, share = tried + batch, max(kept.size / batch, 1e-3)
            kept = kept[: size - have]
            out[have : have + kept.size] = _dirichlet(alpha[:, None] + k[:, kept], rng)
            have += kept.size
        return out, share


class _Margin:
    """Densities on uniform grids of u, with a monotone map to g; both ends have died out, so Fourier series are exact.

    Parameters
    ----------
    low, step : (m,) arrays
        Grid: low + step·(i + ½).
    density : (m, N) array
        Unnormalised density in u.
    centre : (m,) array
        With scale None, log g = log centre + u + 1 − e^{−u}; else logit g = centre + scale·sinh(u).
    scale : float or None
    """

    def __init__(self, low, step, density, centre, scale):
        self.low, self.step, self.centre, self.scale = low, step, centre, scale
        self.size = density.shape[1]
        self.density = density / density.sum(axis=1, keepdims=True)
        self.series = fft.rfft(self.density)

    def to_value(self, u):
        """Return g at u, shape (m,)."""
        if self.scale is None:
            return self.centre * np.exp(u - np.expm1(-u))
        return np.exp(-np.logaddexp(0, -(self.centre + self.scale * np.sinh(u))))

    def to_grid(self, value):
        """Return u at g, shape (m,): the inverse of to_value."""
        value = np.broadcast_to(np.asarray(value, dtype=float), self.low.shape)
        if self.scale is None:
            return _bisect(lambda u: self.to_value(u) < value, self.low, self.low + self.size * self.step, 60)
        with np.errstate(divide="ignore"):
            return np.arcsinh((np.log(value) - np.log1p(-value) - self.centre) / self.scale)

    def cdf(self, value):
        """Return P(g ≤ value), shape (m,)."""
        position = np.clip((self.to_grid(value) - self.low) / self.step - 0.5, -0.5, self.size - 0.5)
        return np.clip(self.cumulative(position)[0], 0, 1)

    def cumulative(self, position):
        """Return (cdf, density per grid step) at positions counted in grid steps from the first point, shape (m,)."""
        k = np.arange(1, self.series.shape[1])
        weight = np.where((self.size % 2 == 0) & (k == self.size // 2), 1.0, 2.0) / self.size
        angle = 2 * np.pi / self.size * k
        now = weight * self.series[:, 1:] * np.exp(1j * angle * position[:, None])
        start = weight * self.series[:, 1:] * np.exp(-0.5j * angle)
        value = (position + 0.5) / self.size + ((now - start) / (1j * angle)).real.sum(axis=1)
        return value, 1 / self.size + now.real.sum(axis=1)

    def quantile(self, level):
        """Return the quantiles at one level, shape (m,): bracketed on the grid, then Newton on the Fourier series."""
        cumulative = self.density.cumsum(axis=1)
        right = (cumulative < level).sum(axis=1)
        low, high = right - 1.5, right + 1.5
        position = right.astype(float)
        for _ in range(30):
            value, slope = self.cumulative(position)
            low, high = np.where(value < level, position, low), np.where(value < level, high, position)
            newton = position - (value - level) / np.where(slope > 0, slope, np.inf)
            new = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
            done = np.abs(new - position).max() < 1e-12
            position = new
            if done:
                break
        return self.to_value(self.low + self.step * (position + 0.5))


def _dirichlet(shape, rng):
    """Return Dirichlet draws for shapes (a, S), as (S, a); in logs where gammas of small shape would underflow to zero."""
    if shape.size and shape.min() < 0.1:
        log_gamma = np.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential(shape.shape) / shape
        gamma = np.exp(log_gamma - log_gamma.max(axis=0))
    else:
        gamma = rng.standard_gamma(shape)
    return (gamma / gamma.sum(axis=0)).T


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


def _sum_window(tables, multiplicity):
    """Return (lowest, highest) sum of k outside which the sum of the tables has less than exp(−DROP), by Chernoff."""
    means = np.array([first + pmf @ np.arange(pmf.size) for first, pmf in tables])
    squares = [pmf @ (first + np.arange(pmf.size) - mean) ** 2 for (first, pmf), mean in zip(tables, means, strict=True)]
    sd, mean = math.sqrt(multiplicity @ squares) + 1e-3, multiplicity @ means
    ends = []
    for sign in (-1, 1):
        bound = multiplicity @ np.array([first + (0 if sign < 0 else pmf.size - 1) for first, pmf in tables])
        for shift in np.geomspace(0.02, 60, 16) / sd:
            parts = zip(multiplicity, means, tables, strict=True)
            cumulant = sum(n * _log_mgf(sign * shift, first - centre, pmf) for n, centre, (first, pmf) in parts)
            tail = mean + sign * (cumulant + DROP) / shift
            bound = max(bound, tail) if sign < 0 else min(bound, tail)
        ends.append(bound)
    return math.floor(ends[0]), math.ceil(ends[1])


def _wrapped(values, size):
    """Return values summed modulo size (a table can be wider than the window of the sum)."""
    if values.size <= size:
        return values
    padded = np.zeros(-(-values.size // size) * size)
    padded[: values.size] = values
    return padded.reshape(-1, size).sum(axis=0)


def _log_mgf(shift, first, pmf):
    """Return log E[e^{shift·(first + k)}] for k with the given pmf."""
    with np.errstate(divide="ignore"):
        exponent = shift * (first + np.arange(pmf.size)) + np.log(pmf)
    top = exponent.max()
    return top + math.log(np.exp(exponent - top).sum())


def _binomial_window(powers, chances_low, chances_high):
    """Return the range of Σ_j Binomial(w_j, q_j) over q between two levels, by Bernstein's bound on either side."""

    def slack(mean):
        return 15 + np.sqrt(225 + 2 * DROP * mean)

    n = powers.sum()
    hits, misses = powers @ chances_low, powers @ (1 - chances_low)
    low = hits - min(slack(hits), slack(misses))
    hits, misses = powers @ chances_high, powers @ (1 - chances_high)
    high = hits + min(slack(hits), slack(misses))
    return int(max(0, math.floor(low))), int(min(n, math.ceil(high)))


def _polynomial(slopes, powers, low, high):
    """Return (first, log of its coefficient, log-ratios of successive coefficients) of Π_j (1 + c_j g)^{w_j}.

    Only the powers of g that carry mass while g lies between low and high.
    """
    active = (powers > 0) & (slopes > 0)
    slopes, powers = slopes[active], powers[active]
    if not slopes.size:
        return 0, 0.0, np.zeros(0)
    first, last = _binomial_window(powers, slopes * low / (1 + slopes * low), slopes * high / (1 + slopes * high))
    if slopes.size == 1:
        n, k = powers[0], first + np.arange(last - first)
        log_first = gammaln(n + 1) - gammaln(first + 1) - gammaln(n - first + 1) + first * math.log(slopes[0])
        return first, float(log_first), np.log((n - k) / (k + 1) * slopes[0])
    return _product_polynomial(slopes, powers, first, last)


def _product_polynomial(slopes, powers, first, last):
    """Return _polynomial for several slopes: ratios from convolutions of binomials, tilted along the range piece by piece.

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
            return first, float(log_first), ratios
        now = end


def _tilt_of(slopes, powers, mean):
    """Return g with Σ_j w_j c_j g/(1 + c_j g) = mean."""

    def below(log_g):
        g = np.exp(log_g)
        return powers @ (slopes * g / (1 + slopes * g)) < mean

    return math.exp(float(_bisect(below, -90.0, 90.0, 60)))


def _binomial_log_pmf(n, odds):
    """Return (first, log-pmf) of Binomial(n, odds/(1 + odds)) where it is above e^{−500}."""
    mean = n * odds / (1 + odds)
    slack = 170 + math.sqrt(170**2 + 1000 * min(mean, n - mean))
    first, last = max(0, math.floor(mean - slack)), min(n, math.ceil(mean + slack))
    k = np.arange(first, last)
    log_pmf = np.concatenate([[0.0], np.cumsum(np.log((n - k) / (k + 1) * odds))])
    log_pmf -= log_pmf.max()
    return first, log_pmf - math.log(np.exp(log_pmf).sum())
