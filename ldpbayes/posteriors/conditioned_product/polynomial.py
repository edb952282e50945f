"""The polynomial route: factors that are polynomials are mixtures of gammas, whose sums are products at roots of unity.

φ(g) e^{−tg} with φ(g) = g^{α−1} Σ_k b_k g^k mixes Gamma(α + k, t) with probabilities ∝ b_k Γ(α + k)/t^{α+k}: k is the
number of truthful reports, and given all k the conditioned factors are Dirichlet(α + k).
"""

import math
from functools import cached_property

import numpy as np
from scipy import fft
from scipy.special import gammaln

from ldpbayes.posteriors.conditioned_product.coefficients import coefficient_ratios
from ldpbayes.posteriors.conditioned_product.factors import DROP, TABLE, single_powers
from ldpbayes.posteriors.conditioned_product.margins import Moments

#: Counts proposed together: five arrays of this size are held at a time.
BATCH = 10**6
#: Entries of tables from which the counts of all factors, and those of one of them, are drawn.
ENTRIES = 4e6


class PolynomialRoute:
    """The law of Σ k by roots of unity, and of g by mixing Dirichlets over it.

    Parameters
    ----------
    factors : TiltedFactors
        Of a family with ``polynomials``.
    """

    name = "polynomial"

    def __init__(self, factors):
        self.factors = factors

    # -- numbers of truthful reports -------------------------------------------------------------------------------

    @cached_property
    def tables(self):
        """([(lowest k, pmf of k)] per factor, log ∫ φ(g) e^{−tg} dg of each)."""
        family, tilt = self.factors.family, self.factors.tilt
        tables, log_mass = [], np.empty(family.alpha.size)
        parts = zip(family.alpha, *family.polynomials(), *self.factors.window_values, strict=True)
        for x, (alpha, slopes, powers, low, high) in enumerate(parts):
            first, log_first, ratio = coefficient_ratios(slopes, powers, low, high)
            k = first + np.arange(ratio.size)
            # One cumulative sum of ratios near one: sums of log-gammas would lose the digits of a large count.
            log_pmf = np.concatenate([[0.0], np.cumsum(ratio + np.log((alpha + k) / tilt))])
            top = log_pmf.max()
            pmf = np.exp(log_pmf - top)
            used = np.flatnonzero(pmf > 1e-23)
            log_mass[x] = log_first + top + math.log(pmf.sum()) + gammaln(alpha + first)
            log_mass[x] -= (alpha + first) * math.log(tilt)
            pmf = pmf[used[0] : used[-1] + 1]
            tables.append((first + int(used[0]), pmf / pmf.sum()))
        return tables, log_mass

    @cached_property
    def _firsts(self):
        return np.array([first for first, _ in self.tables[0]])

    @cached_property
    def _sum_ends(self):
        """Lowest and highest Σ k outside which there is less than exp(−DROP)."""
        return _sum_window(self.tables[0], self.factors.multiplicity)

    @cached_property
    def _roots(self):
        """Return (size, Π_x H_x, H): transforms of the tables at the roots of unity."""
        low, high = self._sum_ends
        size = fft.next_fast_len(high - low + 1, real=True)
        h = self._inserted(size, lambda x, k: 1.0)
        h = np.where(np.abs(h) < 1e-30, 1e-30, h)
        return size, np.exp(self.factors.multiplicity @ np.log(h)), h

    def _inserted(self, size, value):
        """Return the transforms of the tables times value(factor, k), shape (G, size // 2 + 1)."""
        out = np.zeros((len(self.tables[0]), size // 2 + 1), dtype=complex)
        for x, (first, pmf) in enumerate(self.tables[0]):
            out[x] = fft.rfft(_wrapped(pmf * value(x, first + np.arange(pmf.size)), size), size)
        return out

    def _functional(self, weight):
        """Return u (K, J) with Σ_m weight_m [z^m] Π H R = Re Σ_j u_j R_j for weights (K, M) on the sums of _sum_ends."""
        size, product, _ = self._roots
        low, high = self._sum_ends
        offset = int(self.factors.multiplicity @ self._firsts)
        padded = np.zeros((len(weight), size))
        padded[:, (np.arange(low, high + 1) - offset) % size] = weight
        out = np.conj(fft.rfft(padded)) / size
        out[:, 1:] *= 2
        if size % 2 == 0:
            out[:, -1] *= 0.5
        return out * product

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def n_nodes(self):
        """Number of roots of unity."""
        return self._roots[0]

    @cached_property
    def moments(self):
        """Moments of all factors given Σ g = 1, by the law of total covariance over k.

        P | k is Dirichlet(K), K = α + k, T = Σ K, so that with K and T centred first
        Cov = E[(K_x/T − μ_x)(K_y/T − μ_y)] + E[(δ_xy K_x/T − K_x K_y/T²)/(T + 1)].
        """
        size, _, h = self._roots
        alpha = self.factors.family.alpha
        total, weight, log_evidence = self._sum_weights()
        typical = (weight @ total) / weight.sum()
        away = total - typical
        rows = [weight / total, weight / total**2, weight * away / total**2, weight * (away / total) ** 2]
        rows += [weight / total / (total + 1), weight / total**2 / (total + 1)]
        # E[·/T], E[·/T²], E[· (T − T₀)/T²], E[(T − T₀)²/T²] and, within the Dirichlets, E[·/T(T+1)], E[·/T²(T+1)].
        u1, u2, cross, spread, inner1, inner2 = self._functional(np.array(rows))
        r = (self._inserted(size, lambda x, k: alpha[x] + k) / h).T
        mean = (u1 @ r).real
        centred = r - mean * typical
        squares = (self._inserted(size, lambda x, k: (alpha[x] + k - mean[x] * typical) ** 2) / h).T
        shared = (cross @ centred).real
        raw = squares + 2 * mean * typical * centred + (mean * typical) ** 2
        variance = (u2 @ squares).real - 2 * mean * shared + spread.real.sum() * mean**2
        variance += (inner1 @ r - inner2 @ raw).real
        # With C = K − μT₀ the product of two categories is C_x C_y − (T − T₀)(μ_x C_y + μ_y C_x) + (T − T₀)² μ_x μ_y.
        left, right = [], []
        for u, ratios in ((u2, centred), (-inner2, r)):
            weighted = u[:, None] * ratios
            left += [weighted.real, -weighted.imag]
            right += [ratios.real, ratios.imag]
        left = np.concatenate([*left, -mean[None], -shared[None], spread.real.sum() * mean[None]])
        right = np.concatenate([*right, shared[None], mean[None], mean[None]])
        return Moments(mean, variance, left, right, log_evidence)

    def _sum_weights(self):
        """Return (T = Σ(α + k), weights, log evidence): E[f(T)] = Σ weight f [z^{Σk}] ΠH, weights ∝ W(T) = t^T/Γ(T)."""
        low, high = self._sum_ends
        tilt, alpha_total = self.factors.tilt, self.factors.alpha_total
        total = alpha_total + np.arange(low, high + 1)
        # By ratios, so that no digit is lost at large T.
        log_weight = np.concatenate([[0.0], np.cumsum(np.log(tilt / total[:-1]))])
        top = log_weight.max()
        weight = np.exp(log_weight - top)
        evidence = self._functional(weight[None]).real.sum()
        log_evidence = self.factors.multiplicity @ self.tables[1] + math.log(evidence) + top
        log_evidence += (low + alpha_total) * math.log(tilt) - gammaln(alpha_total + low)
        return total, weight / evidence, log_evidence

    def part_log_density(self, part, log_value):
        """Return the log-density, up to a constant, of the tilted sum Σ part_x g_x at exp(log_value), shape (N,).

        A mixture over Σ part k of Gamma(Σα + Σk, t) densities.
        """
        sums, pmf = self._part_table(part)
        kept = np.flatnonzero(pmf > 1e-17 * pmf.max())
        sums, pmf = sums[kept[0] : kept[-1] + 1], pmf[kept[0] : kept[-1] + 1]
        shape = sums + part @ self.factors.family.alpha
        with np.errstate(divide="ignore"):
            log_weight = np.log(pmf) + shape * math.log(self.factors.tilt) - gammaln(shape)
        value = self.factors.tilt * np.exp(log_value)
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
        size, product, h = self._roots
        # The window of the whole sum, moved by the mean of the rest: at the mode it would drift with every skewed factor.
        typical = np.array([first + pmf @ np.arange(pmf.size) for first, pmf in self.tables[0]])
        rest = self.factors.multiplicity - part
        if np.count_nonzero(part) <= np.count_nonzero(rest):
            product = np.prod(h[part > 0] ** part[part > 0, None], axis=0)
        else:
            product = product / np.prod(h[rest > 0] ** rest[rest > 0, None], axis=0)
        lowest = int(part @ self._firsts)
        sums = max(self._sum_ends[0] - round(rest @ typical), lowest) + np.arange(size)
        return sums, np.maximum(fft.irfft(product, size)[(sums - lowest) % size], 0)

    def draws(self, group, size, rng):
        """Return (g, k, acceptance) of ConditionedProduct.draws for categories with the factors ``group``.

        k_x from its table for each category, accepted with probability ∝ t^m/Γ(Σα + m), m = Σ k; then g given k.
        """
        tilt, alpha_total = self.factors.tilt, self.factors.alpha_total
        alpha = self.factors.family.alpha[group]
        best = max(tilt - alpha_total, 0.0)

        def log_weight(m):
            return (m - best) * math.log(tilt) - gammaln(alpha_total + m)

        peak = math.floor(best)
        top = max(log_weight(m) for m in (max(peak, 0), peak + 1))
        out, counts, have = np.empty((size, group.size)), np.empty((size, group.size), dtype=np.int64), 0
        share = 0.25
        while have < size:
            batch = int(min(max(1.2 * (size - have) / share, 64), BATCH // group.size + 64))
            k = self._independent_counts(group, batch, rng)
            kept = np.flatnonzero(np.log(rng.random(batch)) < log_weight(k.sum(axis=0)) - top)
            share = max(kept.size / batch, 1e-3)
            kept = kept[: size - have]
            k = k[:, kept]
            out[have : have + kept.size], counts[have : have + kept.size] = dirichlet(alpha[:, None] + k, rng), k.T
            have += kept.size
        return out, counts, share

    def _independent_counts(self, group, size, rng):
        """Return draws of k before they are conditioned, shape (a, size)."""
        k = np.empty((group.size, size), dtype=np.int64)
        for x, g in enumerate(group):
            first, pmf = self.tables[0][g]
            k[x] = np.repeat(np.arange(first, first + pmf.size), rng.multinomial(size, pmf))
        return rng.permuted(k, axis=1)


def drawn(family, size, rng):
    """Return draws of (g, k) of factors given Σ g = 1, two (size, a) arrays, or None where tables would be too long.

    k from its law given its sum, category by category; then g | k ~ Dirichlet(α + k): exact, because φ(g) e^{−tg} is a
    mixture of Gamma(α + k, t) and only the sum couples them.

    Parameters
    ----------
    family : PowerFactors or another family
        With a factor for each category.
    size : int
    rng : numpy.random.Generator
    """
    from ldpbayes.posteriors.conditioned_product import _batched

    form, a = single_powers(family, 1), family.alpha.size
    if form is None or a * min(form[2].sum() + 1, TABLE) > ENTRIES:
        return None
    most, counts = int(min(form[2].sum() + 1, TABLE)), np.empty((size, a), dtype=np.int64)
    if not _batched.draw_counts(*(one[0] for one in form), most, ENTRIES, rng.random((size, a + 1)), counts):
        return None
    return dirichlet((family.alpha + counts).T, rng), counts


def dirichlet(shape, rng):
    """Return Dirichlet draws for shapes (a, S), as (S, a); in logs where gammas of small shape would underflow to zero."""
    if shape.size and shape.min() < 0.1:
        log_gamma = np.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential(shape.shape) / shape
        gamma = np.exp(log_gamma - log_gamma.max(axis=0))
    else:
        gamma = rng.standard_gamma(shape)
    return (gamma / gamma.sum(axis=0)).T


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


def _log_mgf(shift, first, pmf):
    """Return log E[e^{shift·(first + k)}] for k with the given pmf."""
    with np.errstate(divide="ignore"):
        exponent = shift * (first + np.arange(pmf.size)) + np.log(pmf)
    top = exponent.max()
    return top + math.log(np.exp(exponent - top).sum())


def _wrapped(values, size):
    """Return values summed modulo size (a table can be wider than the window of the sum)."""
    if values.size <= size:
        return values
    padded = np.zeros(-(-values.size // size) * size)
    padded[: values.size] = values
    return padded.reshape(-1, size).sum(axis=0)
