"""Confidence intervals that hold for every P, beside the posterior's credible intervals. See docs/theory/fitness.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv, chdtri, ndtr, xlog1py, xlogy

from ldpbayes import checks
from ldpbayes.arrays import FloatArray, log_choose
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.base import observed_information, tangent_covariance
from ldpbayes.estimators.mle import maximize
from ldpbayes.inference.ends import normal_reach, tails
from ldpbayes.likelihoods import DenseRows, Rows
from ldpbayes.protocols.base import Binomials, PairRates

#: Mathematics: Terms further from the mean than so many of the largest standard deviations have less than 1e-14 of all.
REACH = 8
#: Mathematics: Others are expanded at their saddle point, whose tails are right to a relative half per cent: so much is
#: given away.
SLACK = 0.99
#: Mathematics: Sums of two binomials of a smaller variance are added up term by term.
SUMMED_VARIANCE = 25.0
#: Time: The profile likelihood is maximized anew at every end where there are at most so many categories and entries of
#: rows.
PROFILED, PROFILED_ENTRIES = 5, 2**13
#: Time: Multiplications of an information matrix and its inverse above which there are no intervals of the profile
#: likelihood. The bank's 317 problems never cross it.
MAX_WORK = 2**30
#: Mathematics: Deviance in nats to which profile likelihoods are maximized.
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Confidence:
    """Confidence intervals of every category, one by one.

    Attributes
    ----------
    lower, upper : (2, a) arrays
        For the distribution P and the users' own frequencies F; nan for F where no interval is known.
    ci_prob : float
    method : str
        "exact", "profile likelihood" or "profile likelihood, second order".
    form : Binomials or None
        The support counts that exact intervals come from.
    """

    lower: FloatArray
    upper: FloatArray
    ci_prob: float
    method: str
    form: Binomials | None = None


def confidence_intervals(collections: Sequence[Collection | Tally], ci_prob: float = 0.95) -> list[Confidence | None]:
    """Return intervals of each collection that contain each share with at least this probability, for every distribution.

    One channel whose support counts are binomial: C_x ~ Binomial(n, h + (g − h) p_x) gives the interval of Clopper and
    Pearson for its success probability, and thereby for p_x. Given F, C_x is the sum of Binomial(nF_x, g) and
    Binomial(n(1 − F_x), h), which is inverted over whole numbers. Where the count lies below what p_x = 0 lets expect, the
    upper end is that of the likelihood ratio: no interval is [0, 0].

    Cohorts, several channels and other designs: the p_x at which the likelihood, maximized over the other shares, is not
    below its maximum by more than half a χ²₁ quantile. These hold for many reports, and for P only.

    Parameters
    ----------
    collections : sequence of Collection or Tally
        Without sampling weights. Those with exact intervals are computed all at once.
    ci_prob : float
        Probability of each interval; they are not simultaneous.

    Returns
    -------
    list of Confidence or None
        None where the profile likelihood would take too long: more than some 2^30 multiplications.

    Raises
    ------
    ArgumentError
        If ci_prob is not between 0 and 1.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26; Feldman and Cousins (1998), Physical Review D 57, on counts below the
    background; Daniels (1987), International Statistical Review 55, on saddle points of sums.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import warner
    >>> (found,) = confidence_intervals([Tally(warner(0.7), [0, 1], [60, 40])])
    >>> found.method, found.lower[0].round(3).tolist(), found.upper[0].round(3).tolist()
    ('exact', [0.493, 0.008], [0.992, 0.507])
    """
    ci_prob = checks.level(ci_prob)
    intervals: list[Confidence | None] = [None] * len(collections)
    exact = []
    for place, collection in enumerate(map(as_collection, collections)):
        tally = collection.tallies[0]
        form = tally.protocol.binomials(tally.reports, tally.counts) if len(collection.tallies) == 1 else None
        if form is None:
            intervals[place] = likelihood_intervals(collection.rows, ci_prob)
        else:
            exact.append((place, form))
    if exact:
        forms = [form for _, form in exact]
        names = "counts", "hit", "other", "n"
        arrays = ([np.broadcast_to(getattr(form, name), form.counts.shape) for form in forms] for name in names)
        # Categories and cells with the same count have the same interval.
        distinct, place_of = np.unique(np.stack([*map(np.concatenate, arrays)]), axis=1, return_inverse=True)
        every = Binomials(*distinct)
        both = distribution_interval(every, ci_prob), frequency_interval(every, ci_prob)
        splits = np.cumsum([form.counts.size for form in forms])[:-1]
        ends = (np.split(np.stack(side)[:, place_of], splits, axis=1) for side in zip(*both, strict=True))
        for (place, form), lower, upper in zip(exact, *ends, strict=True):
            intervals[place] = Confidence(lower, upper, ci_prob, "exact", form)
    return intervals


def likelihood_intervals(rows: Rows, ci_prob: float) -> Confidence | None:
    """Return the intervals of P by the profile likelihood of rows, whose counts may be sampling weights; None if too long.

    With weights that add up to about n / deff they hold approximately, for large n: the design effect divides the deviance.

    Parameters
    ----------
    rows : Rows
    ci_prob : float

    Returns
    -------
    Confidence or None
        None above some 2^30 multiplications.
    """
    if rows.n_rows * rows.n_categories**2 + 10 * rows.n_categories**3 > MAX_WORK:
        return None
    fall, method = float(chdtri(1, 1 - ci_prob)) / 2, "profile likelihood, second order"
    p = maximize(rows, tolerance=TOLERANCE).p
    lower, upper = _second_order(rows, p, fall)
    if p.size <= PROFILED and rows.n_rows * p.size <= PROFILED_ENTRIES:
        method, (lower, upper) = "profile likelihood", _profiled(rows, p, fall, lower, upper)
    unknown = np.full(lower.size, np.nan)
    return Confidence(np.stack([lower, unknown]), np.stack([upper, unknown]), ci_prob, method)


def clopper_pearson(least: FloatArray, most: FloatArray, n: int | np.ndarray, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of exact intervals of a binomial probability: the lower of the least count, the upper of the most.

    Parameters
    ----------
    least, most, n : arrays
        Counts between which the number of successes lies, both the same where it is known, and the number of trials.
    tail : float
        Probability beyond each end.
    """
    low = np.where(least > 0, betaincinv(np.maximum(least, 1), n - least + 1, tail), 0.0)
    high = np.where(most < n, betaincinv(most + 1, np.maximum(n - most, 1), 1 - tail), 1.0)
    return low, high


def distribution_interval(form: Binomials, ci_prob: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the exact intervals of P, shape (a,) each.

    Parameters
    ----------
    form : Binomials
        ``counts`` may have any length that goes with the rates.
    ci_prob : float
    """
    c = form.counts
    low, high = clopper_pearson(c, c, form.n, tails(ci_prob)[0])
    at_zero, at_one = _edge_bounds(form, ci_prob)
    slope = form.hit - form.other
    return (
        np.minimum(np.clip((low - form.other) / slope, 0.0, 1.0), at_one),
        np.maximum(np.clip((high - form.other) / slope, 0.0, 1.0), at_zero),
    )


def frequency_interval(form: Binomials, ci_prob: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the exact intervals of the users' own frequencies F, shape (a,) each.

    The least number T of users whose chance of so many supports is above half of 1 − ci_prob, and the largest whose chance
    of so few is.
    """
    c, n, tail = form.counts, form.n, tails(ci_prob)[0]
    level = tail * SLACK
    low = _first(lambda t: _at_least(c, t, form) > level, n, c.size)
    high = n - _first(lambda t: 1 - _at_least(c + 1, n - t, form) > level, n, c.size)
    at_zero, at_one = _edge_bounds(form, ci_prob)
    certain = (form.hit == 1) & (form.other == 0)
    lower = np.where(certain, c / n, np.minimum(low / n, np.floor(at_one * n) / n))
    upper = np.where(certain, c / n, np.maximum(high / n, np.ceil(at_zero * n) / n))
    return lower, upper


def _first(holds, n: int | FloatArray, size: int) -> FloatArray:
    """Return for each entry the least whole number from 0 to n at which a condition that stays true once it is holds."""
    low, high = np.zeros(size), np.broadcast_to(np.asarray(n, dtype=float), size).copy()
    while (low < high).any():
        middle = np.floor((low + high) / 2)
        true = holds(middle)
        low, high = np.where(true, low, np.minimum(middle + 1, high)), np.where(true, middle, high)
    return high


def _at_least(c: FloatArray, t: FloatArray, form: Binomials) -> FloatArray:
    """Return P(Binomial(t, g) + Binomial(n − t, h) ≥ c), summed where the variance is small."""
    out = _saddle_point(c, t, form)
    g, h = form.hit, form.other
    small = t * g * (1 - g) + (form.n - t) * h * (1 - h) < SUMMED_VARIANCE
    if small.any():
        forms = Binomials(form.counts[small], g[small], h[small], np.broadcast_to(form.n, small.shape)[small])
        out[small] = _summed(c[small], t[small], forms)
    return out


def _summed(c: FloatArray, t: FloatArray, form: Binomials) -> FloatArray:
    """Return the tail by adding up the first binomial's chances times the second one's tails.

    Terms further from the mean of the first than REACH standard deviations are left out.
    """
    g, reach = form.hit, math.ceil(REACH * math.sqrt(SUMMED_VARIANCE))
    k = np.floor(t * g) + np.arange(-reach, reach + 1)[:, None]
    possible = (k >= 0) & (k <= t)
    k = np.where(possible, k, 0.0)
    chance = np.exp(log_choose(t, k) + xlogy(k, g) + xlog1py(t - k, -g)) * possible
    rest, left = c - k, form.n - t
    inside = (rest > 0) & (rest <= left)
    at_least = betainc(np.where(inside, rest, 1), np.where(inside, left - rest + 1, 1), form.other)
    return (chance * np.where(inside, at_least, rest <= 0)).sum(axis=0)


def _saddle_point(c: FloatArray, t: FloatArray, form: Binomials) -> FloatArray:
    """Return the tail by the formula of Lugannani and Rice with Daniels' second correction for whole numbers.

    K(s) = t log(1 − g + g eˢ) + (n − t) log(1 − h + h eˢ); K′(s) = c − ½ is a quadratic equation for eˢ.
    """
    g, h, n = form.hit, form.other, form.n
    least, most = np.where(g == 1, t, 0.0), np.where(h == 0, t, n)
    inside = (c > least) & (c <= most)
    x = np.where(inside, c - 0.5, 0.5)
    a = g * h * (n - x)
    b = g * (1 - h) * (t - x) + h * (1 - g) * (n - t - x)
    constant = -x * (1 - g) * (1 - h)
    root = np.sqrt(b * b - 4 * a * constant)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u = np.where(b > 0, -2 * constant / (b + root), (root - b) / (2 * a))
        s = np.log(u)
        shares = g * u / (1 - g + g * u), h * u / (1 - h + h * u)
        value = t * np.log1p(g * np.expm1(s)) + (n - t) * np.log1p(h * np.expm1(s))
        curvature = t * shares[0] * (1 - shares[0]) + (n - t) * shares[1] * (1 - shares[1])
        w = np.sign(s) * np.sqrt(np.maximum(2 * (s * x - value), 0.0))
        scale = 2 * np.sinh(s / 2) * np.sqrt(curvature)
        tail = ndtr(-w) + np.exp(-w * w / 2) / math.sqrt(2 * math.pi) * (1 / scale - 1 / w)
    tail = np.where(np.abs(w) < 1e-4, 0.5, tail)
    return np.where(inside, np.clip(tail, 0.0, 1.0), np.where(c <= least, 1.0, 0.0))


def _edge_bounds(form: Binomials, ci_prob: float) -> tuple[FloatArray, FloatArray]:
    """Return (upper ends where the count is below n h, lower ends where it is above n g) by the likelihood ratio.

    Where the share that fits best is 0, the ratio of its likelihood to that of p is above exp(−χ²/2) up to the upper end;
    elsewhere 0 (and 1 for lower ends), which leaves the exact interval as it is.
    """
    c, n = form.counts, form.n
    fall = float(chdtri(1, 1 - ci_prob)) / 2

    def bound(best):
        # Walk from the best rate to the other one.
        start, end = np.broadcast_to(best, c.shape), np.broadcast_to(form.hit + form.other - best, c.shape)
        near, far = start.astype(float), end.astype(float)
        peak = xlogy(c, start) + xlog1py(n - c, -start)
        for _ in range(50):
            middle = (near + far) / 2
            inside = peak - xlogy(c, middle) - xlog1py(n - c, -middle) <= fall
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        # What rounds to 1 + 1e-16 would end at (n + 1)/n, because ends of F are rounded outward.
        return np.clip((far - form.other) / (form.hit - form.other), 0.0, 1.0)

    below, above = c <= n * form.other, c >= n * form.hit
    at_zero = bound(form.other) if below.any() else 0.0
    at_one = bound(form.hit) if above.any() else 1.0
    return np.where(below, at_zero, 0.0), np.where(above, at_one, 1.0)


def _profiled(rows: Rows, p: FloatArray, fall: float, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends at which the likelihood, maximized anew at each, has fallen so far, near those of second order."""
    a, lower, upper = p.size, low.copy(), high.copy()
    matrix = rows.dense()
    reference = float(rows.log_likelihood(p)) - float(np.sum(rows.counts * rows.log_constants))
    for x in range(a):
        others = np.delete(matrix, x, axis=1)

        def excess(t, x=x, others=others):
            """Return by how much the best likelihood with p_x = t falls short, less what is allowed."""
            mixed = (1 - t) * others + t * matrix[:, [x]]
            impossible = not mixed.any(axis=1).all()  # reports that no other share makes, at the edge t = 0
            if a == 2 or t == 1 or impossible:
                value = float(rows.counts @ np.log(np.maximum(mixed[:, 0], 1e-300)))
            else:
                rows_mixed = DenseRows(mixed, rows.counts)
                value = float(rows_mixed.log_likelihood(maximize(rows_mixed, tolerance=TOLERANCE).p))
            return reference - value - fall

        lower[x] = _end(excess, p[x], 0.0, lower[x], fall)
        upper[x] = _end(excess, p[x], 1.0, upper[x], fall)
    return lower, upper


def _end(excess, start: float, edge: float, guess: float, fall: float) -> float:
    """Return where a deficit that starts at −fall and grows reaches zero between the start and the edge, or the edge.

    The root of the deficit is nearly linear in the distance, and a second-order guess is near its end: both keep the number
    of evaluations small.
    """
    if start == edge:
        return edge
    from scipy.optimize import brentq  # loads slowly

    def signed(t):
        return math.sqrt(max(excess(t) + fall, 0.0)) - math.sqrt(fall)

    reach = abs(guess - start) or abs(edge - start) / 2
    near = start
    while True:
        far = start + math.copysign(min(reach, abs(edge - start)), edge - start)
        if signed(far) > 0:
            return float(brentq(signed, near, far, xtol=1e-3 * reach, rtol=1e-12))
        if far == edge:
            return edge
        near, reach = far, 1.3 * reach


def _second_order(rows: Rows, p: FloatArray, fall: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends by the expansion of the profile at its maximum, (a,) each: 0 and 1 where P is not identified.

    With H = Lᵀ diag(w/(Lp)²) L, the log-likelihood falls by d_x t + J_x t²/2 where p_x moves by t: 1/J_x is the variance of
    the estimate over the categories above zero and x, and d_x = n − (Lᵀ(w/Lp))_x for a share at zero, else zero.
    """
    information, gradient = observed_information(rows, p), rows.rmatvec(rows.counts / rows.matvec(p))
    free, covariance, unknown, scale = tangent_covariance(information, p)
    slack = np.where(p > 0, 0.0, np.maximum(rows.n_reports - gradient, 0.0))
    # A share at zero takes what it gains from the others, in their shares: Hp is the gradient, and pᵀHp is n.
    away = information[free] - gradient[free, None]
    curvature = np.diag(information) - 2 * gradient + rows.n_reports - ((covariance @ away) * away).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        curvature[free] = 1 / np.diag(covariance)
        reach = 2 * fall / (slack + np.sqrt(slack**2 + 2 * fall * np.maximum(curvature, 0.0)))
    if free.size == 1:  # one category has everything: it loses what the others gain
        reach[free] = reach[p == 0].max(initial=0.0)
    reach[free[(np.abs(unknown) > 1e-6 * scale[:, None]).any(axis=1)]] = 1.0
    reach[~np.isfinite(reach)] = 1.0
    return np.clip(p - reach, 0.0, 1.0), np.clip(p + reach, 0.0, 1.0)


@dataclass(frozen=True)
class Combined:
    """A confidence interval for the share of several categories together, or for the difference of two such shares.

    Attributes
    ----------
    lower, upper : float
    estimate : float
        Unbiased: may lie outside what is possible.
    method : str
        "exact", "profile likelihood", "score" (the variance of the estimate is known as a function of what is estimated) or
        "estimated variance".
    """

    lower: float
    upper: float
    estimate: float
    method: str


def combined_interval(
    collection: Collection | Tally, categories: Sequence[int], minus: Sequence[int] = (), ci_prob: float = 0.95
) -> Combined | None:
    """Return the confidence interval of a sum of shares, or of the difference of two.

    Where every report supports one category, those that support one of k categories are Binomial(n, kh + (g − h) P_A), which
    is inverted exactly. Elsewhere the interval holds the θ whose distance from the unbiased estimate is at most z √(V(θ)/n):
    the mean square of a report's support, S_A − S_B, depends on whether the value is in A, in B or in neither, and where the
    chances of two supports are known V is a quadratic function of θ = P_A − P_B (and of P_A + P_B, which is estimated).
    Other designs: of up to five categories, one against all others has the ends of that one (``confidence_intervals``);
    else the variance of what the reports add to the estimate, at the maximum of the likelihood where all reports can be
    listed and of the sample where not, and several channels are weighted by theirs.

    Parameters
    ----------
    collection : Collection or Tally
    categories, minus : sequence of int
        Positions; P_A − P_B with A the first and B the second, which share none.
    ci_prob : float

    Returns
    -------
    Combined or None
        None where a channel has no unbiased estimate.

    Raises
    ------
    ArgumentError
        With sampling weights, which have standard errors instead, or on a ci_prob outside (0, 1).
    """
    collection = as_collection(collection)
    z = normal_reach(checks.level(ci_prob))
    if collection.weighted:
        raise ArgumentError("collection must have no sampling weights; the MLE has standard errors that know the design.")
    weights = np.zeros(collection.n_categories)
    weights[list(categories)], weights[list(minus)] = 1.0, -1.0
    low = -1.0 if len(minus) else 0.0
    if weights.min() == weights.max():
        return Combined(1.0, 1.0, 1.0, "exact")
    if len(collection.tallies) == 1 and (pure := _pure(collection.tallies[0])) is not None:
        form, rates = pure
        g, h, n = form.hit[0], form.other[0], float(np.ravel(form.n)[0])
        size = weights.sum()
        estimate = float((form.counts @ weights / n - size * h) / (g - h))
        if rates is None and not len(minus):
            form_of_sum = np.array([form.counts @ weights]), np.array([size * h + g - h]), np.array([size * h])
            lower, upper = distribution_interval(Binomials(*form_of_sum, form.n), ci_prob)
            return Combined(float(lower[0]), float(upper[0]), estimate, "exact")
        both = float((form.counts @ np.abs(weights) / n - np.abs(weights).sum() * h) / (g - h))
        return _by_score(estimate, n, _spread(weights, form, rates, both), z, low)
    outputs = [tally.protocol.n_outputs for tally in collection.tallies]
    small = all(n_outputs is not None and n_outputs * weights.size <= PROFILED_ENTRIES for n_outputs in outputs)
    p = maximize(collection.rows, tolerance=TOLERANCE).p if small else None
    scores = [_scored(tally, weights, p) for tally in collection.tallies]
    if any(score is None for score in scores):
        return None
    values, variances = np.array(scores, dtype=float).T
    precision = 1 / np.maximum(variances, 1e-300)
    estimate, variance = float(precision @ values / precision.sum()), 1 / float(precision.sum())
    values, places, counts = np.unique(weights, return_index=True, return_counts=True)
    one = weights.size <= PROFILED and values.size == 2 and counts.min() == 1  # θ = rest + (own − rest) p_x, as yes less no
    if one and (known := confidence_intervals([collection], ci_prob)[0]) is not None:
        x = int(places[counts.argmin()])
        own, rest = float(weights[x]), float(weights[x - 1])
        ends = sorted(rest + (own - rest) * float(end[0, x]) for end in (known.lower, known.upper))
        return Combined(ends[0], ends[1], estimate, known.method)
    interval = _by_score(estimate, 1.0, (variance, 0.0, 0.0), z, low)
    return replace(interval, method="estimated variance")


def _pure(tally: Tally) -> tuple[Binomials, PairRates | None] | None:
    """Return the support counts of a tally with one pair of rates, and those of two supports; None where one is not known.

    The rates of two supports are None where every report supports one category.
    """
    form, rates = tally.protocol.binomials(tally.reports, tally.counts), tally.protocol.pair_rates()
    if form is None or np.ptp(form.hit) > 0 or np.ptp(form.other) > 0 or np.ptp(form.n) > 0:
        return None
    single = abs(form.hit[0] + (form.counts.size - 1) * form.other[0] - 1) < 1e-9
    return (form, None) if single else None if rates is None else (form, rates)


def _spread(weights: FloatArray, form: Binomials, rates: PairRates | None, both: float) -> tuple[float, float, float]:
    """Return (a, b, c) of the variance a + bθ + cθ² of what one report adds to the estimate of θ = P_A − P_B.

    ``both`` estimates P_A + P_B; without B that is θ.
    """
    g, h = form.hit[0], form.other[0]
    one, neither = (0.0, 0.0) if rates is None else (rates.one, rates.neither)
    k, m = (float((weights == sign).sum()) for sign in (1, -1))

    def outside(size: float) -> float:
        return size * h + size * (size - 1) * neither

    def inside(own: float, other: float) -> float:
        """Return the mean square of S_own − S_other where the value is one of its own."""
        square = g + (own - 1) * h + 2 * (own - 1) * one + (own - 1) * (own - 2) * neither
        return square + outside(other) - 2 * other * (one + (own - 1) * neither)

    rest, first = outside(k) + outside(m) - 2 * k * m * neither, inside(k, m)
    offset, slope = (k - m) * h, g - h
    if m:
        second, total = inside(m, k), min(max(both, 0.0), 1.0)
        constant, linear = total * ((first + second) / 2 - rest) + rest, (first - second) / 2
    else:
        constant, linear = rest, first - rest
    return (constant - offset**2) / slope**2, (linear - 2 * offset * slope) / slope**2, -1.0


def _scored(tally: Tally, weights: FloatArray, p: FloatArray | None) -> tuple[float, float] | None:
    """Return the unbiased estimate of Σ w_x P_x by one channel and its variance, at p or of the sample; or None without one.

    The variance of the sample is 0 where all reports are alike, which says nothing of the device.
    """
    decoder, rows = tally.protocol.decoder(), tally.rows
    scores = None if decoder is None else decoder.scores(rows, weights)
    if decoder is None or scores is None:
        return None
    n = rows.counts.sum()
    mean = float(rows.counts @ scores / n)
    if p is None:
        return mean, float(rows.counts @ (scores - mean) ** 2 / max(n - 1, 1) / n)
    chance, reports = tally.protocol.channel() @ p, tally.protocol.all_reports()
    every = np.asarray(decoder.scores(tally.protocol.rows(reports, np.ones(len(reports))), weights))
    return mean, float(chance @ (every - chance @ every) ** 2 / n)


def _by_score(estimate: float, n: float, spread: tuple[float, float, float], z: float, low: float) -> Combined:
    """Return the θ from low to 1 with n (θ̂ − θ)² ≤ z² (a + bθ + cθ²).

    An estimate beyond what is possible is compared with the possible θ nearest to it, so that no interval is a point.
    """
    a, b, c = spread
    square, middle = n - z**2 * c, 2 * n * estimate + z**2 * b
    root = math.sqrt(max(middle**2 - 4 * square * (n * estimate**2 - z**2 * a), 0.0))
    lower, upper = (middle - root) / (2 * square), (middle + root) / (2 * square)
    for edge, way in ((low, 1.0), (1.0, -1.0)):
        over = (edge - estimate) * way
        if over > 0:
            end = estimate + way * math.sqrt(over**2 + z**2 * max(a + b * edge + c * edge**2, 0.0) / n)
            lower, upper = (lower, max(upper, end)) if way > 0 else (min(lower, end), upper)
    return Combined(min(max(lower, low), 1.0), max(min(upper, 1.0), low), estimate, "score")


def intervals_at(found: Any, level: float, target: str = "distribution") -> tuple[FloatArray, FloatArray]:
    """Return the ends of confidence intervals at another level, from the group ``confidence`` of a result.

    From the support counts where these are known; else the intervals are widened about their middle as normal ones are, or,
    where they begin at 0, as the square of that.

    Parameters
    ----------
    found : Dataset
    level : float
    target : {"distribution", "frequency"}
    """
    lower, upper = (found[name].sel(target=target).values for name in ("lower", "upper"))
    if {"support_count", "n_reports"} <= set(found):
        counts, hit, other = (found[name].values.ravel() for name in ("support_count", "rate_of_value", "rate_of_others"))
        n = np.broadcast_to(found["n_reports"].values[..., None], lower.shape).ravel()
        interval = distribution_interval if target == "distribution" else frequency_interval
        low, high = interval(Binomials(counts, hit, other, n), level)
        return low.reshape(lower.shape), high.reshape(lower.shape)
    ratio = normal_reach(level) / normal_reach(float(found.attrs["ci_prob"]))
    wider = np.where(lower > 0, ratio, ratio**2)
    middle = np.where(lower > 0, np.where(upper < 1, (lower + upper) / 2, upper), lower)
    return np.clip(middle - ratio * (middle - lower), 0, 1), np.clip(middle + wider * (upper - middle), 0, 1)
