"""The polynomial route: factors that are polynomials are mixtures of gammas, whose sums are products at roots of unity.

φ(g) e^{−tg} with φ(g) = g^{α−1} Σ_k b_k g^k mixes Gamma(α + k, t) with probabilities ∝ b_k Γ(α + k)/t^{α+k}: k is the
number of truthful reports, and given all k the conditioned factors are Dirichlet(α + k).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft
from scipy.special import gammaln

from ldpbayes.errors import ConvergenceError
from ldpbayes.methods.conditioned_product.coefficients import coefficients
from ldpbayes.methods.conditioned_product.constants import (
    DROP,
    FOLDS,
    MARGIN_NODES,
    MOST_TRIED,
    NOISE,
    POWERS,
    ROUNDING,
    TOGETHER,
)
from ldpbayes.methods.conditioned_product.margins import Moments, margins_of


@dataclass(frozen=True, eq=False)
class Tables:
    """Laws of the counts of some factors.

    Attributes
    ----------
    index : (f,) array
        Which factors.
    first : (f,) array
        Lowest count of each.
    pmf : (f, W) array
    """

    index: np.ndarray
    first: np.ndarray
    pmf: np.ndarray

    @property
    def counts(self):
        """The counts, shape (f, W)."""
        return self.first[:, None] + np.arange(self.pmf.shape[1])

    @property
    def mean(self):
        """Mean counts, shape (f,)."""
        return (self.pmf * self.counts).sum(axis=1)


class PolynomialRoute:
    """The laws of Σ k of sets of factors by roots of unity, and of g by mixing Dirichlets over it.

    Parameters
    ----------
    factors : TiltedFactors
        Factors of a family with ``polynomials``.
    """

    name, lost = "polynomial", np.array([], dtype=int)

    def __init__(self, factors):
        self.factors = factors

    # -- numbers of truthful reports -------------------------------------------------------------------------------

    @cached_property
    def tables(self):
        """(Tables of the factors, grouped by length, log ∫ φ(g) e^{−tg} dg of each)."""
        factors, tables = self.factors, []
        alpha, tilt, log_mass = factors.family.alpha, factors.each(factors.tilt), np.empty(factors.centre.size)
        for index, first, log_first, ratio in coefficients(*factors.family.polynomials(), *factors.window_values):
            k, alphas = first[:, None] + np.arange(ratio.shape[1]), alpha[index, None]
            # One cumulative sum of ratios near one: sums of log-gammas would lose the digits of a large count.
            log_pmf = np.zeros((index.size, ratio.shape[1] + 1))
            np.cumsum(ratio + np.log((alphas + k) / tilt[index, None]), axis=1, out=log_pmf[:, 1:])
            top = log_pmf.max(axis=1)
            pmf = np.exp(log_pmf - top[:, None])
            total, shape = pmf.sum(axis=1), alpha[index] + first
            log_mass[index] = log_first + top + np.log(total) + gammaln(shape) - shape * np.log(tilt[index])
            tables.append(Tables(index, first, pmf / total[:, None]))
        return tables, log_mass

    def _every(self, value):
        """Return value(Tables), one number a factor, of all factors, shape (k·G,)."""
        out = np.empty(self.factors.centre.size)
        for table in self.tables[0]:
            out[table.index] = value(table)
        return out

    @cached_property
    def _first(self):
        return self._every(lambda table: table.first).astype(np.int64)

    @cached_property
    def _window(self):
        """(Lowest Σ k (k,), number of sums) outside which there is less than exp(−DROP), by Chernoff."""
        summed = self.factors.summed
        last = self._first + self._every(lambda table: table.pmf.shape[1] - 1)
        ends = [summed(self._first.astype(float)), summed(last)]
        if (ends[1] - ends[0]).max() > MARGIN_NODES:  # fewer sums are all looked at
            ends = self._chernoff(ends)
        low = np.floor(ends[0]).astype(np.int64)
        return low, fft.next_fast_len(int((np.ceil(ends[1]) - low).max()) + 1, real=True)

    def _chernoff(self, ends):
        """Return the least and the largest Σ k, [(k,), (k,)], within given ones."""
        summed, mean = self.factors.summed, self._every(lambda table: table.mean)
        square = self._every(lambda table: (table.pmf * (table.counts - table.mean[:, None]) ** 2).sum(axis=1))
        sd, middle = np.sqrt(summed(square)) + 1e-3, summed(mean)
        for place in np.geomspace(0.02, 60, 16):
            shift = self.factors.each(place / sd)
            for side, sign in enumerate((-1, 1)):
                tilted = self._every(lambda table, tilt=sign * shift: _log_mgf(tilt[table.index], table))
                reach = (summed(tilted) + DROP) * sd / place
                ends[side] = np.maximum(ends[0], middle - reach) if sign < 0 else np.minimum(ends[1], middle + reach)
        return ends

    @cached_property
    def _transforms(self):
        """H (k, G, J): transforms of the tables at the roots of unity, away from zero, as others' are quotients by them."""
        h = self._inserted(lambda table: table.pmf)
        return np.where(h.real**2 + h.imag**2 < 1e-60, 1e-30, h)

    @cached_property
    def _product(self):
        """Π_x H_x (k, J)."""
        m, h = self.factors.multiplicity, self._transforms
        return h.prod(axis=1) if (m == 1).all() else (h ** m[:, None]).prod(axis=1)

    def _inserted(self, value):
        """Return the transforms of value(Tables) (f, W), shape (k, G, J)."""
        values = np.zeros((self.factors.centre.size, self._window[1]))
        for table in self.tables[0]:
            wrapped = _wrapped(value(table), values.shape[1])
            values[table.index, : wrapped.shape[1]] = wrapped
        out = fft.rfft(values)
        return out.reshape(self.factors.sets, -1, out.shape[1])

    def _functional(self, weight):
        """Return u (…, k, J) with Σ_m weight_m [z^m] Π H R = Re Σ_j u_j R_j for weights (…, k, size) on the sums."""
        low, size = self._window
        offset = self.factors.summed(self._first).astype(np.int64)
        place = np.broadcast_to((np.arange(size) - (low - offset)[:, None]) % size, weight.shape)
        out = np.conj(fft.rfft(np.take_along_axis(weight, place, axis=-1))) / size
        out[..., 1:] *= 2
        if size % 2 == 0:
            out[..., -1] *= 0.5
        return out * self._product

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def n_nodes(self):
        """Number of roots of unity."""
        return self._window[1]

    @cached_property
    def log_evidence(self):
        """log ∫ Π φ over the simplex, shape (k,)."""
        return self._sum_weights[2]

    @property
    def log_evidence_error(self):
        """Error of log_evidence, shape (k,): more where the tilt leaves the sums that matter in the transforms' noise."""
        return ROUNDING + NOISE * self._sum_weights[1].sum(axis=1)

    @cached_property
    def _sum_weights(self):
        """(T = Σ(α + k), weights (k, size), log evidence): E[f(T)] = Σ weight f [z^{Σk}] ΠH, weights ∝ W(T) = t^T/Γ(T)."""
        low, size = self._window
        tilt, start = self.factors.tilt, self.factors.alpha_total + low
        total = start[:, None] + np.arange(size)
        # By ratios, so that no digit is lost at large T.
        log_weight = np.zeros_like(total)
        np.cumsum(np.log(tilt[:, None] / total[:, :-1]), axis=1, out=log_weight[:, 1:])
        top = log_weight.max(axis=1)
        weight = np.exp(log_weight - top[:, None])
        evidence = self._functional(weight).real.sum(axis=1)
        with np.errstate(divide="ignore"):  # where no tilt was found nothing is left above the noise
            log_sum = np.log(np.maximum(evidence, 0.0))
        log_evidence = self.factors.summed(self.tables[1]) + log_sum + top + start * np.log(tilt) - gammaln(start)
        return total, weight / evidence[:, None], log_evidence

    @cached_property
    def _pieces(self):
        """Moments, and of one set its ``products``."""
        return self._worked_out(self.factors.sets == 1)

    def _worked_out(self, products):
        """Return (moments, what covariances are the product of or None), by the law of total covariance over k.

        P | k is Dirichlet(K), K = α + k, T = Σ K, so that with K and T centred first
        Cov = E[(K_x/T − μ_x)(K_y/T − μ_y)] + E[(δ_xy K_x/T − K_x K_y/T²)/(T + 1)].
        """
        alpha, h = self.factors.family.alpha, self._transforms
        total, weight, log_evidence = self._sum_weights
        typical = ((weight * total).sum(axis=1) / weight.sum(axis=1))[:, None]
        away = total - typical
        rows = [weight / total, weight / total**2, weight * away / total**2, weight * (away / total) ** 2]
        rows += [weight / total / (total + 1), weight / total**2 / (total + 1)]
        # E[·/T], E[·/T²], E[· (T − T₀)/T²], E[(T − T₀)²/T²] and, within the Dirichlets, E[·/T(T+1)], E[·/T²(T+1)].
        u1, u2, cross, spread, inner1, inner2 = self._functional(np.array(rows))

        def expected(u, r):
            return np.einsum("kj,kgj->kg", u, r).real

        r = self._inserted(lambda table: table.pmf * (alpha[table.index, None] + table.counts)) / h
        mean = expected(u1, r)
        middle = mean * typical
        centred, flat = r - middle[:, :, None], middle.ravel()
        apart = alpha - flat
        squares = self._inserted(lambda table: table.pmf * (table.counts + apart[table.index, None]) ** 2) / h
        shared, spread = expected(cross, centred), spread.real.sum(axis=1)[:, None]
        raw = squares + 2 * middle[:, :, None] * centred + middle[:, :, None] ** 2
        variance = expected(u2, squares) - 2 * mean * shared + spread * mean**2
        variance += expected(inner1, r) - expected(inner2, raw)
        moments = Moments(mean.ravel(), variance.ravel(), log_evidence)
        if not products:
            return moments, None
        # With C = K − μT₀ the product of two categories is C_x C_y − (T − T₀)(μ_x C_y + μ_y C_x) + (T − T₀)² μ_x μ_y.
        left, right = [-mean[None], -shared[None], (spread * mean)[None]], [shared[None], mean[None], mean[None]]
        for u, ratios in ((u2, np.moveaxis(centred, 2, 0)), (-inner2, np.moveaxis(r, 2, 0))):
            weighted = u.T[:, :, None] * ratios
            left += [weighted.real, -weighted.imag]
            right += [ratios.real, ratios.imag]
        return moments, tuple(np.concatenate(side).reshape(-1, mean.size) for side in (left, right))

    @property
    def moments(self):
        """Moments of all factors given Σ g = 1."""
        return self._pieces[0]

    @property
    def products(self):
        """(Left, right), two (K, k·G) arrays: Cov(g_x, g_y) = (leftᵀ right)_xy of two categories of a set."""
        return self._pieces[1] or self._worked_out(True)[1]

    def take(self, sets):
        """Return the route of some of the sets."""
        return PolynomialRoute(self.factors.take(sets))

    def margins(self, index):
        """Return [(factor indices, Margin)] of some factors.

        The density of g_x is its own times the density of the others' sum at 1 − g, a mixture over their Σ k of Gamma(A
        + Σ k, t). It is thereby a polynomial in 1 − g, whose terms are all positive.
        """
        factors, near = self.factors, np.log1p(-np.minimum(self.moments.mean, 1 - 1e-12))
        rest, tilt = factors.each(factors.alpha_total) - factors.family.alpha, factors.each(factors.tilt)

        def log_others(x, log_g, log_rest):
            pmf, low = self._others(x)
            shape = (low + rest[x])[:, None] + np.arange(pmf.shape[1])
            with np.errstate(divide="ignore"):
                log_weight = np.log(pmf) + shape * np.log(tilt[x])[:, None] - gammaln(shape)
            at = near[x, None]
            value = _log_polynomial(log_weight + at * np.arange(log_weight.shape[1]), log_rest - at)
            # e^{−tg} of the factor and of the others are e^{−t} in all.
            return tilt[x, None] * np.exp(log_g) + (shape[:, :1] - 1) * log_rest + value

        size = max(1, TOGETHER // (MARGIN_NODES * POWERS + 4 * self._window[1]))
        return margins_of(factors, index, self.moments, log_others, size)

    def _others(self, index):
        """Return (laws of the sum of all counts of a set but one of factor x, for x in index, lowest sum of each)."""
        factors, (low, size), h = self.factors, self._window, self._transforms
        where = index // factors.multiplicity.size
        law = np.maximum(fft.irfft(self._product[where] / h.reshape(len(self._first), -1)[index], size), 0)
        # The window of the whole sum, moved by the mean of the rest: at the mode it would drift with every skewed factor.
        offset = factors.summed(self._first).astype(np.int64)[where] - self._first[index]
        mean = self._every(lambda table: table.mean)[index]
        lowest = np.maximum(low[where] - np.rint(mean).astype(np.int64), offset)
        law = np.take_along_axis(law, (np.arange(size) + (lowest - offset)[:, None]) % size, axis=1)
        counts = law > NOISE * law.max(axis=1, keepdims=True)
        start = counts.argmax(axis=1)
        length = int((size - counts[:, ::-1].argmax(axis=1) - start).max())
        place = start[:, None] + np.arange(length)
        inside = place < size
        law = np.take_along_axis(law * counts, np.where(inside, place, 0), axis=1) * inside
        return law, lowest + start

    # -- draws -----------------------------------------------------------------------------------------------------

    @cached_property
    def _where(self):
        """Which table, and which row of it, each factor has, two (k·G,) int arrays."""
        places = np.empty((2, self.factors.centre.size), dtype=int)
        for table, one in enumerate(self.tables[0]):
            places[:, one.index] = np.full(one.index.size, table), np.arange(one.index.size)
        return places

    def draws(self, group, size, rng, of=0):
        """Return (g, k, acceptance) of ConditionedProduct.draws for categories with the factors ``group`` of the set ``of``.

        k_x from its table for each category, accepted with probability ∝ t^m/Γ(Σα + m), m = Σ k; then g given k.
        """
        tilt, alpha_total = float(self.factors.tilt[of]), float(self.factors.alpha_total[of])
        group = group + of * self.factors.multiplicity.size
        alpha = self.factors.family.alpha[group]
        best = max(tilt - alpha_total, 0.0)

        def log_weight(m):
            return (m - best) * math.log(tilt) - gammaln(alpha_total + m)

        peak = math.floor(best)
        top = max(log_weight(m) for m in (max(peak, 0), peak + 1))
        counts, done, tried, share = np.empty((group.size, size), dtype=np.int64), 0, 0, 0.9
        while done < size:
            if tried > MOST_TRIED * (done + 1):
                raise ConvergenceError(f"Of {tried:,} proposed numbers of truthful reports {done} were accepted.")
            batch = int(min(max(1.2 * (size - done) / share, 64), TOGETHER // group.size + 64))
            k = self._independent_counts(group, batch, rng)
            m = k.sum(axis=0)
            least, most = m.min(), m.max()
            chance = np.exp(log_weight(np.arange(least, most + 1)) - top)
            accepted = np.flatnonzero(rng.random(batch) < chance[m - least])
            tried, share = tried + batch, max(accepted.size / batch, 1e-3)
            accepted = accepted[: size - done]
            counts[:, done : done + accepted.size] = k[:, accepted]
            done += accepted.size
        return dirichlet(alpha[:, None] + counts, rng), counts.T, share

    def _independent_counts(self, group, size, rng):
        """Return draws of k before they are conditioned, shape (a, size)."""
        k = np.empty((group.size, size), dtype=np.int64)
        for x, (table, row) in enumerate(self._where[:, group].T):
            counted = self.tables[0][table]
            pmf = counted.pmf[row]
            k[x] = np.repeat(counted.first[row] + np.arange(pmf.size), rng.multinomial(size, pmf))
        return rng.permuted(k, axis=1, out=k)


def dirichlet(shape, rng):
    """Return Dirichlet draws for shapes (a, S), as (S, a); in logs where gammas of small shape would underflow to zero."""
    if shape.size and shape.min() < 0.1:
        log_gamma = np.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential(shape.shape) / shape
        gamma = np.exp(log_gamma - log_gamma.max(axis=0))
    else:
        gamma = rng.standard_gamma(shape)
    return (gamma / gamma.sum(axis=0)).T


def _log_mgf(shift, table):
    """Return log E[e^{shift·(k − E k)}] for counts with the given Tables and shifts (f,)."""
    exponent = shift[:, None] * (table.counts - table.mean[:, None])
    exponent = np.where(table.pmf > 0, exponent, -np.inf)
    top = exponent.max(axis=1)
    return top + np.log((table.pmf * np.exp(exponent - top[:, None])).sum(axis=1))


def _log_polynomial(log_coefficient, log_value):
    """Return the logs of Σ_r e^{log_coefficient_r + r·log_value}, (F, N), for log-coefficients (F, M) and values (F, N)."""
    f, m = log_coefficient.shape
    blocks = -(-m // POWERS)
    padded = np.full((f, blocks * POWERS), -np.inf)
    padded[:, :m] = log_coefficient
    padded = padded.reshape(f, blocks, POWERS)
    top = padded.max(axis=2, keepdims=True)  # −inf where a block has none
    powers = np.empty((f, POWERS, log_value.shape[1]))
    # What is further away than FOLDS has one power that counts.
    powers[:, 0], square, width = 1.0, np.exp(np.clip(log_value, -FOLDS, FOLDS)), 1
    while width < POWERS:
        np.multiply(powers[:, :width], square[:, None], out=powers[:, width : 2 * width])
        square, width = square * square, 2 * width
    scale = top + POWERS * np.arange(blocks)[:, None] * log_value[:, None]
    largest = scale.max(axis=1)
    scale -= largest[:, None]
    value = np.exp(padded - np.where(np.isfinite(top), top, 0.0)) @ powers
    value *= np.exp(scale, out=scale)
    with np.errstate(divide="ignore"):
        return largest + np.log(value.sum(axis=1))


def _wrapped(values, size):
    """Return values (f, W) summed modulo size (a table can be wider than the window of the sum)."""
    width = values.shape[1]
    if width <= size:
        return values
    padded = np.zeros((len(values), -(-width // size) * size))
    padded[:, :width] = values
    return padded.reshape(len(values), -1, size).sum(axis=1)
