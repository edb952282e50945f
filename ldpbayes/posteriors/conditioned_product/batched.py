"""Many sets of factors at once, each set conditioned on its own sum: what ConditionedProduct finds for one set."""

from dataclasses import dataclass

import numpy as np
from scipy import fft, special

from ldpbayes.errors import ConvergenceError
from ldpbayes.posteriors.conditioned_product import factors
from ldpbayes.posteriors.conditioned_product.engine import FEW_MARGIN_NODES, MARGIN_NODES, SMALL, ConditionedProduct
from ldpbayes.posteriors.conditioned_product.factors import DROP, TABLE, TiltedFactors

#: Factors that are worked on together: their nodes stay in the processor's cache.
BLOCK = 2048
#: Nodes of a factor, and most steps of a line of ω.
NODES, LINE = 96, 400
#: Sets of at most so many categories are worked on by counts first, larger ones only where their transforms die out slowly;
#: a set may take so many multiplications.
FEW, WORK = 20, 1e8
#: Multiplications a distinct factor up to which masses come from counts: more take longer than the saddle point.
COUNTED = 1e5
#: Nodes of a pair of factors.
PAIR_NODES = 512
#: Nodes of a factor while the tilt is searched for.
ROUGH = 24
#: A tilt works where the means add up to one within so many sds of the sum.
NEAR = 0.3
#: Means given the sum add up to one; where they miss it by more, NODES were too few for a window that small concentrations
#: stretch, and the set is worked on alone.
OFF = 1e-8
#: Error of the log of the integrals of factors at large α; see tests/mend/test_20_stated_errors.py.
INTEGRALS = 5e-5
#: Error of log-masses by counts, which leave out less than 1e-24 of the largest and round.
ROUNDING = 1e-8
#: exp(−REACH) is the relative mass that may alias.
REACH = 36.0


@dataclass(frozen=True, eq=False)
class Batch:
    """Moments and quantiles of all factors of all sets, given that each set sums to one.

    Attributes
    ----------
    mean, variance : (k, a) arrays
    log_evidence : (k,) array
        log ∫ Π φ over the simplex.
    quantiles : (L, k, a) array
    alone : (k,) bool array
        Sets that were worked on one by one, because their transforms die out slowly.
    rough : (k,) bool array
        Those among them whose transforms do not die out: moments and evidence are of second order in the saddle point, and
        quantiles those of saddle_quantiles.
    sharp : (k,) bool array
        Sets whose quantiles hold at any level; those of the others hold between the levels of .1 % and 99.9 %.
    tilt : (k,) array
        Near the tilt of each set, for ConditionedProduct's ``start``; nan where none was searched for.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_evidence: np.ndarray
    quantiles: np.ndarray
    alone: np.ndarray
    rough: np.ndarray
    sharp: np.ndarray
    tilt: np.ndarray


def batch(family, k, levels=(), *, watch=None):
    """Return the Batch of k sets of factors that stand one after the other in a family.

    Parameters
    ----------
    family : PowerFactors or another family
        k · a factors.
    k : int
    levels : sequence of float
        Probabilities of the quantiles.
    watch : Watch, optional
        Shows progress.
    """
    a, levels = family.alpha.size // k, np.asarray(levels, dtype=float)
    mean, variance, log_evidence = np.empty((k, a)), np.empty((k, a)), np.empty(k)
    quantiles, (alone, rough, sharp) = np.empty((levels.size, k, a)), np.zeros((3, k), dtype=bool)
    tilt = np.full(k, np.nan)
    size = max(1, BLOCK // a)
    starts = range(0, k, size)
    for start in starts if watch is None else watch.track(starts, "Posteriors of the cells"):
        part = slice(start, min(start + size, k))
        found = _block(family.take(slice(part.start * a, part.stop * a)), part.stop - part.start, levels)
        (
            mean[part],
            variance[part],
            log_evidence[part],
            quantiles[:, part],
            alone[part],
            rough[part],
            sharp[part],
            tilt[part],
        ) = found
    return Batch(mean, variance, log_evidence, quantiles, alone, rough, sharp, tilt)


def _block(family, k, levels):
    a = family.alpha.size // k
    if a == 2:
        return _pairs(family, k, levels)
    tilted = _tilted(family, k)
    mean, variance, log_evidence = np.empty((k, a)), np.empty((k, a)), np.full(k, np.nan)
    quantiles, sharp = np.empty((levels.size, k, a)), np.zeros(k, dtype=bool)
    for way in (_by_counts, _by_transforms) if a <= FEW else (_by_transforms, _by_counts):
        left = np.flatnonzero(np.isnan(log_evidence))
        if left.size:
            each = (left[:, None] * a + np.arange(a)).ravel()
            found = way(family.take(each), left.size, levels, tilted.take(left, each))
            mean[left], variance[left], log_evidence[left], quantiles[:, left] = found
            sharp[left] = way is _by_counts
    alone, rough = np.isnan(log_evidence), np.zeros(k, dtype=bool)
    sharp |= alone
    for i in np.flatnonzero(alone):
        own = family.take(slice(i * a, (i + 1) * a))
        try:
            one = ConditionedProduct(own, np.arange(a), start=float(tilted.tilt[i]))
            mean[i], variance[i], log_evidence[i] = one.mean, one.variance, one.log_evidence
            if levels.size:
                quantiles[:, i] = one.quantile(levels)
        except ConvergenceError:
            rough[i], sharp[i] = True, False
            saddle = TiltedFactors(own, np.ones(a), float(tilted.tilt[i]))
            (mean[i], variance[i]), log_evidence[i] = saddle.saddle_moments(), saddle.saddle_log_evidence()
            if levels.size:
                quantiles[:, i] = saddle_quantiles(saddle, levels)
    return mean, variance, log_evidence, quantiles, alone, rough, sharp, tilted.tilt


def log_masses(family, multiplicity, k, counted=True):
    """Return (log ∫ Π_x φ_x(g_x) over Σ g = 1, its error) for k sets of factors that stand one after the other, two (k,).

    Exact, by the counts of short polynomials, or else to second order in the saddle point: the law of Σ g under the tilted
    factors has mean 1 and cumulants κ₂, κ₃, κ₄. Its density at 1 is that of the Gamma law with the same mean and variance,
    shape A = 1/κ₂, times 1 + λ₄/8 − 5λ₃²/24 + 1/(12 A) with λ₃ = κ₃/κ₂^{3/2} and λ₄ = κ₄/κ₂²: the saddle point relative to a
    Gamma law instead of a normal one, so that it is exact for factors g^{α−1}. Its error is twice the sum of the terms'
    sizes, times how far they are from those of a Gamma law, λ₄ = 6 κ₂ and λ₃² = 4 κ₂, and that of the factors' integrals.

    Parameters
    ----------
    family : PowerFactors or another family
        k × G factors.
    multiplicity : (G,) array
        How many categories have each factor of a set.
    k : int
    counted : bool
        Whether counts, which take compiled functions, may be used.
    """
    g, form = multiplicity.size, factors.single_powers(family, k)
    found, error = np.full(k, np.nan), np.full(k, ROUNDING)
    if form is not None and counted:
        from ldpbayes.posteriors.conditioned_product import _batched

        _batched.masses_by_counts(*form, multiplicity.astype(np.int64), TABLE, COUNTED * g, found)
    left = np.flatnonzero(np.isnan(found))
    for start in range(0, left.size, max(1, BLOCK // g)):
        sets = left[start : start + max(1, BLOCK // g)]
        some = family.take((sets[:, None] * g + np.arange(g)).ravel())
        tilt, nodes, _ = factors.tilted_many(some, multiplicity, sets.size)
        offset = nodes.offset - nodes.mean_offset[:, None]
        second, third, fourth = ((nodes.weight * offset**power).sum(axis=1) for power in (2, 3, 4))
        cumulants = (second, third, fourth - 3 * second**2)
        k2, k3, k4 = (part.reshape(sets.size, g) @ multiplicity for part in cumulants)
        shape, skew, kurtosis = 1 / k2, k3**2 / k2**3, k4 / k2**2
        correction = kurtosis / 8 - 5 * skew / 24 + k2 / 12
        density = shape * np.log(shape) - shape - special.gammaln(shape) + np.log1p(np.clip(correction, -0.5, 0.5))
        found[sets] = tilt + nodes.log_mass.reshape(sets.size, g) @ multiplicity + density
        size = np.abs(kurtosis) / 8 + 5 * skew / 24 + k2 / 12
        apart = np.abs(kurtosis - 6 * k2) / 8 + 5 * np.abs(skew - 4 * k2) / 24
        least = some.alpha.reshape(sets.size, g).min(axis=1)
        error[sets] = 2 * size * apart + INTEGRALS * (1 + 0.1 / least**2)
    return found, error


def _by_counts(family, k, levels, tilted):
    """Return (means, variances, log-evidence, quantiles) of the sets whose factors are short polynomials, nan for others."""
    from ldpbayes.posteriors.conditioned_product import _batched

    a = family.alpha.size // k
    mean, variance, log_evidence = np.full((k, a), np.nan), np.full((k, a), np.nan), np.full(k, np.nan)
    quantiles, form = np.full((levels.size, k, a), np.nan), factors.single_powers(family, k)
    if form is None:
        return mean, variance, log_evidence, quantiles
    alpha, slope, power = form
    rest = alpha.sum(axis=1, keepdims=True) - alpha
    size = MARGIN_NODES if min(alpha.min(), rest.min()) < SMALL else FEW_MARGIN_NODES
    share = np.clip(tilted.mean / tilted.mean.sum(axis=1, keepdims=True), 1e-12, 1 - 1e-12)
    given = np.maximum(tilted.variance * (1 - tilted.variance / tilted.variance.sum(axis=1, keepdims=True)), 1e-300)
    scale = np.minimum(np.sqrt(given) / (share * (1 - share)), 3.0)
    low, high = -np.arcsinh((DROP / alpha + 20) / scale), np.arcsinh((DROP / rest + 20) / scale)
    step, density = (high - low) / size, np.empty((k, a, size))
    middle = special.logit(share)
    _batched.by_counts(
        alpha,
        slope,
        power,
        tilted.tilt,
        middle,
        scale,
        low,
        step,
        TABLE,
        WORK,
        mean,
        variance,
        log_evidence,
        density,
    )
    log_evidence[~(np.abs(mean.sum(axis=1) - 1) < OFF)] = np.nan
    done = np.flatnonzero(np.isfinite(log_evidence))
    if levels.size and done.size:
        flat = density[done].reshape(-1, size)
        series, place = fft.rfft(flat), np.empty((len(flat), levels.size))
        _batched.positions(flat, np.ascontiguousarray(series.real), np.ascontiguousarray(series.imag), levels, place)
        u = low[done, :, None] + step[done, :, None] * (place.reshape(done.size, a, -1) + 0.5)
        quantiles[:, done] = np.moveaxis(special.expit(middle[done, :, None] + scale[done, :, None] * np.sinh(u)), -1, 0)
    return mean, variance, log_evidence, quantiles


def _by_transforms(family, k, levels, tilted):
    """Return what _by_counts does, by transforms of the factors; nan where these die out slowly."""
    from ldpbayes.posteriors.conditioned_product import _batched

    a = family.alpha.size // k
    each, low = np.repeat(tilted.tilt, a), tilted.window[0]
    nodes = factors._trapezoid(family, each, family.modes(each), *tilted.window, NODES)
    shape = (k, a, NODES)
    offset, weight = nodes.offset.reshape(shape), nodes.weight.reshape(shape)
    mean, variance, lost = np.zeros((k, a)), np.zeros((k, a)), np.zeros((k, a))
    log_total, density = np.empty(k), np.zeros(shape if levels.size else (k, a, 0))
    step = 2 * np.pi / _periods(offset, weight, nodes.variance.reshape(k, a).sum(axis=1))
    centre = np.ascontiguousarray(nodes.centre.reshape(k, a))
    _batched.given_the_sum(offset, weight, centre, step, LINE, levels.size > 0, mean, variance, log_total, density, lost)
    log_evidence = log_total + nodes.log_mass.reshape(k, a).sum(axis=1) + tilted.tilt
    sums = np.abs(mean.sum(axis=1) - 1) < OFF
    alone = ~(np.isfinite(log_evidence) & sums & (variance > 0).all(axis=1) & (lost <= 1).all(axis=1))
    quantiles = np.empty((levels.size, k, a))
    if levels.size:
        flat = density.reshape(k * a, NODES)
        flat /= np.maximum(flat.sum(axis=1, keepdims=True), 1e-300)
        series = fft.rfft(flat)
        place = np.empty((k * a, levels.size))
        _batched.positions(flat, np.ascontiguousarray(series.real), np.ascontiguousarray(series.imag), levels, place)
        u = low[:, None] + nodes.step[:, None] * (place + 0.5)
        quantiles[:] = (nodes.centre[:, None] * np.exp(factors.log_growth(u))).T.reshape(levels.size, k, a)
    log_evidence[alone] = np.nan
    return mean, variance, log_evidence, quantiles


def saddle_quantiles(tilted, levels):
    """Return quantiles of every distinct g_x given Σ g = 1, the sum of the others being normal: shape (L, G).

    The density of g_x is its own times that of the others' sum at 1 − g. Its normal approximation is good where there are
    many categories, and one does not carry most of the spread.

    Parameters
    ----------
    tilted : TiltedFactors
    levels : sequence of float
    """
    from ldpbayes.posteriors.conditioned_product import _batched

    levels, nodes = np.asarray(levels, dtype=float), tilted.coarse
    total, variance = tilted.multiplicity @ (nodes.centre + nodes.mean_offset), nodes.variance
    rest = np.maximum(tilted.multiplicity @ variance - variance, 1e-12 * variance)
    out = np.empty((levels.size, variance.size))
    for start in range(0, variance.size, BLOCK):
        part = np.arange(start, min(start + BLOCK, variance.size))
        fine = tilted.nodes(NODES, part)
        mean = fine.centre + fine.mean_offset
        away = 1 - (total - mean)[:, None] - (fine.centre[:, None] + fine.offset)
        log_density = np.log(np.maximum(fine.weight, 1e-300)) - 0.5 * away**2 / rest[part, None]
        density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        density /= density.sum(axis=1, keepdims=True)
        series, place = fft.rfft(density), np.empty((part.size, levels.size))
        _batched.positions(density, np.ascontiguousarray(series.real), np.ascontiguousarray(series.imag), levels, place)
        u = tilted.window[0][part][:, None] + fine.step[:, None] * (place + 0.5)
        out[:, part] = (fine.centre[:, None] * np.exp(factors.log_growth(u))).T
    return out


def _pairs(family, k, levels):
    """Return what _block does for sets of two factors: the density of p is φ₁(p) φ₂(1 − p), on a grid in y = logit p."""
    first, second = (family.take(slice(start, None, 2)) for start in (0, 1))

    def density(y):
        p, rest = special.expit(y), special.expit(-y)
        # A factor takes one value a time.
        logs = [
            np.stack([one.log_smooth(g) for g in np.moveaxis(value, 1, 0)], axis=1)
            for one, value in ((first, p), (second, rest))
        ]
        return sum(logs) + first.alpha[:, None] * special.log_expit(y) + second.alpha[:, None] * special.log_expit(-y)

    def rising(y):
        p, rest = special.expit(y), special.expit(-y)
        return first.alpha * rest - second.alpha * p + p * rest * (first.slope(p) - second.slope(rest)) > 0

    mode = factors.bisect(rising, np.full(k, -700.0), np.full(k, 700.0), 70)
    top = density(mode[:, None])[:, 0]

    def reach(sign, fall):
        """Return how far from the mode the log-density has fallen by so much."""
        low, high = np.zeros(k), np.full(k, 1e-8)
        for _ in range(60):
            inside = density((mode + sign * high)[:, None])[:, 0] > top - fall
            if not inside.any():
                break
            low, high = np.where(inside, high, low), np.where(inside, 2 * high, high)
        return factors.bisect(lambda u: density((mode + sign * u)[:, None])[:, 0] > top - fall, low, high, 12)

    # As for sums of factors, y = mode + scale·sinh(u): small concentrations leave tails much longer than the peak is wide.
    scale = np.minimum(0.5 * (reach(-1.0, 0.5) + reach(1.0, 0.5)), 3.0)
    ends = [np.arcsinh(reach(sign, REACH) / scale) for sign in (-1.0, 1.0)]
    step = (ends[0] + ends[1]) / PAIR_NODES

    def at(place):
        return mode[:, None] + scale[:, None] * np.sinh(step[:, None] * (place + 0.5) - ends[0][:, None])

    nodes = np.arange(PAIR_NODES)
    y = at(nodes)
    growth = scale[:, None] * np.cosh(step[:, None] * (nodes + 0.5) - ends[0][:, None])
    weight = np.exp(density(y) - top[:, None]) * growth
    total = weight.sum(axis=1)
    weight /= total[:, None]
    p = special.expit(y)
    mean = np.stack([(weight * p).sum(axis=1), (weight * special.expit(-y)).sum(axis=1)], axis=1)
    variance = np.repeat((weight * (p - mean[:, :1]) ** 2).sum(axis=1)[:, None], 2, axis=1)
    quantiles = np.empty((levels.size, k, 2))
    if levels.size:
        from ldpbayes.posteriors.conditioned_product import _batched

        series, place = fft.rfft(weight), np.empty((k, levels.size))
        for x, (sign, each) in enumerate(((1.0, levels), (-1.0, 1 - levels))):
            _batched.positions(weight, np.ascontiguousarray(series.real), np.ascontiguousarray(series.imag), each, place)
            quantiles[:, :, x] = special.expit(sign * at(place)).T
    none = np.zeros(k, dtype=bool)
    return mean, variance, top + np.log(total * step), quantiles, none, none, ~none, np.full(k, np.nan)


@dataclass(frozen=True, eq=False)
class _Tilted:
    """Tilts (k,) of sets whose means (k, a) nearly add up to one, their variances, and the windows of all factors."""

    tilt: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    window: tuple

    def take(self, sets, each):
        """Return the same of some sets, whose factors are ``each``."""
        return _Tilted(self.tilt[sets], self.mean[sets], self.variance[sets], tuple(end[each] for end in self.window))


def _tilted(family, k):
    """Return the _Tilted of k sets."""
    size = family.alpha.size // k
    tilt, nodes, window = factors.tilted_many(family, np.ones(size), k, ROUGH, NEAR)
    return _Tilted(tilt, (nodes.centre + nodes.mean_offset).reshape(k, size), nodes.variance.reshape(k, size), window)


def _periods(offset, weight, variance):
    """Return for each set a length within which the sum stays but for exp(−REACH), by Chernoff bounds."""
    offset, weight = offset[:, :, ::3], weight[:, :, ::3]
    weight = weight / weight.sum(axis=2, keepdims=True)
    sd = np.sqrt(variance)
    mean = np.einsum("kan,kan->k", weight, offset)
    out = np.zeros(len(sd))
    for sign in (1.0, -1.0):
        ends = np.full(len(sd), np.inf)
        for factor in (2.0, 5.0, 8.5, 14.0):
            shift = sign * factor / sd
            exponent = shift[:, None, None] * offset
            top = exponent.max(axis=2)
            total = (weight * np.exp(exponent - top[:, :, None])).sum(axis=2)
            cumulant = (top + np.log(total)).sum(axis=1)
            ends = np.minimum(ends, (cumulant + REACH) / np.abs(shift) - sign * mean)
        out = np.maximum(out, ends)
    return 1.1 * out
