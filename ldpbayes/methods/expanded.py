"""Likelihoods expanded to the third order, as conditioned products of one factor a category, and draws of these.

On the simplex's tangent space the log-likelihood's derivatives are nearly diagonal plus terms that vanish there, so the
posterior is close to independent factors of the categories conditioned on Σ g = 1; weights on the likelihood correct the
draws, and Pareto smoothing says whether they can.

Round: weights h_j = w_j/u_j² with u_j = (Lp)_j at the mean; gradient Lᵀ(w/u), D = diag H − 2f,
f = (H1 − diag H − F)/(a−2), F = Σ f, H = Lᵀ diag(h) L: then H = diag D + f1ᵀ + 1fᵀ in its row sums, and the last two
vanish on the tangent space. Factors have the third derivatives too: they are exact where every report names one category,
and nearly so at large ε. Only a few passes over the rows are needed, no a × a matrix.
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, softmax

from ldpbayes.inference.importance import enough, weigh
from ldpbayes.likelihoods.expansion import least_curvature, tangent_curvature
from ldpbayes.methods.conditioned_product import TiltedFactors, log_growth
from ldpbayes.methods.conditioned_product.factors import grouped, log1p_minus, positive_roots
from ldpbayes.methods.constants import (
    BLOCK,
    MOST_WEIGHTED,
    NEVER_ZERO,
    RADII,
    RADIUS_STEPS,
    STRAIGHT,
    TOGETHER,
)


@dataclass(frozen=True, eq=False)
class ExpandedFactors:
    """Factors g^{α−1} exp(b g + D/s² [log(1 + s d) − s d]), d = g − c, for the conditioned product.

    The bracket is −D d²/2 + s D d³/3 − …: as s goes to 0 the factor is a Gaussian times a power. With s = 1/c it is the
    factor of a category whose reports name no other.

    Attributes
    ----------
    alpha, linear, curvature : (a,) arrays
        α > 0, b, and D > 0.
    centre, skew : (a,) arrays or 0
        c, and s ≥ 0 with s c < 1. Derived: from the third derivative of the log-likelihood; without one s is 0, and the
        factor is a Gaussian times a power.
    """

    alpha: np.ndarray
    linear: np.ndarray
    curvature: np.ndarray
    centre: Any = 0.0
    skew: Any = 0.0

    def __post_init__(self):
        for name in ("centre", "skew"):
            object.__setattr__(self, name, np.broadcast_to(getattr(self, name), np.shape(self.curvature)))

    @property
    def lowest_tilt(self):
        """The tilts that the factors must exceed for their right tails to die out, shape (a,)."""
        with np.errstate(divide="ignore"):
            return self.linear - self.curvature / self.skew

    def take(self, index):
        """Return the family of these factors only."""
        return type(self)(*(getattr(self, field.name)[index] for field in fields(self)))

    def polynomials(self):
        """Return None: the factors are no polynomials."""
        return None

    def log_smooth(self, g):
        """Return log φ(g) − (α − 1) log g for g of shape (a,)."""
        return self.linear * g + _bent(g - self.centre, self.curvature, self.skew)

    def log_remainder(self, g, delta):
        """Return log_smooth(g + delta) − log_smooth(g) − delta·slope(g); g (a,), delta (a, N)."""
        grown = 1 + self.skew * (g - self.centre)
        return _bent(delta, (self.curvature / grown**2)[:, None], (self.skew / grown)[:, None])

    def slope(self, g):
        """Return the derivative of log_smooth at g, shape (a,)."""
        offset = g - self.centre
        return self.linear - self.curvature * offset / (1 + self.skew * offset)

    def modes(self, tilt):
        """Return the modes of g φ(g) e^{−tg}: α + g (b − t) − D g d/(1 + s d) has one positive root, shape (a,)."""
        alpha, linear, base = self.alpha, self.linear - tilt, 1 - self.skew * self.centre
        middle = alpha * self.skew + linear * base + self.curvature * self.centre
        return positive_roots(self.curvature - self.skew * linear, middle, alpha * base)


def _bent(offset, curvature, skew):
    """Return D/s² [log(1 + s d) − s d], which is −D d²/2 where s is 0."""
    if not np.any(skew):
        return -0.5 * curvature * offset**2
    safe = np.where(skew > 0, skew, 1.0)
    bent = curvature / safe**2 * log1p_minus(np.maximum(safe * offset, -1 + 1e-16))
    return np.where(skew > 0, bent, -0.5 * curvature * offset**2)


class TiltedProposal(TiltedFactors):
    """The surrogate's factors, tilted so that their sum is 1 on average, before they are conditioned on it.

    Parameters
    ----------
    family : ExpandedFactors
        One factor per category.
    start : float, optional
        A tilt near the one wanted.

    Attributes
    ----------
    whole : ExpandedFactors
        The factors of all categories; the attributes of the base class hold the distinct ones.
    group : (a,) int array
        Which of the distinct factors each category has.
    """

    def __init__(self, family, start=None):
        distinct, self.group = grouped(family)
        self.whole = family
        super().__init__(distinct, np.bincount(self.group).astype(float), start)

    @cached_property
    def _fine(self):
        return self.nodes(512)

    @property
    def factor_variance(self):
        """Variances of the tilted factors, shape (a,)."""
        return self.coarse.variance[self.group]

    @property
    def factor_log_mass(self):
        """log ∫ φ_x(g) e^{−tg} dg, shape (a,)."""
        return self._fine.log_mass[self.group]

    def saddle_moments(self):
        return tuple(values[self.group] for values in super().saddle_moments())

    def saddle_log_evidence(self):
        return float(super().saddle_log_evidence()[0][0])

    def independent_log_draws(self, size, rng):
        """Return the logs of draws of the tilted factors, shape (size, a), by their inverse cdf on a fine grid.

        Within a cell the density of u is linear, of slope s: a place t, were it uniform, moves to t + s t(1 − t)/2.
        """
        nodes, low = self._fine, self.window[0]
        cumulative = np.concatenate([np.zeros((low.size, 1)), nodes.weight.cumsum(axis=1)], axis=1)
        edges = np.arange(cumulative.shape[1])
        slope = np.gradient(nodes.weight, axis=1) / np.maximum(nodes.weight, 1e-300)
        out = np.empty((size, self.group.size))
        for x, k in enumerate(self.group):
            place = np.interp(rng.random(size), cumulative[k], edges)
            cell = np.minimum(place.astype(int), edges[-2])
            t = place - cell
            u = low[k] + nodes.step[k] * (place + np.clip(slope[k, cell], -1, 1) * t * (1 - t) / 2)
            out[:, x] = math.log(self.centre[k]) + log_growth(u)
        return out


@dataclass(frozen=True)
class Expansion:
    """Rounds of expanding a likelihood at the mean of its own factors, and what they cost.

    Attributes
    ----------
    first : int
        Those for a point that only has to be near the mean. Bank: half and double change no number of five.
    settled : float
        Posterior sds, all categories together, by which the mean may move in the last round. Derived: draws from
        there lose nothing in weight. Answers without draws expand there too, and state a move of five times this.
    logarithm, entry, factor : float
        Operations of a logarithm of a report, of an entry of the rows in all rounds, and of a category's factor. The unit
        is the work of an entry in one likelihood. Measured: on one core.
    """

    first: int = 3
    settled: float = 0.01
    logarithm: float = 4
    entry: float = 20
    factor: float = 4e5

    def weighing(self, rows, size):
        """Return the operations of the likelihoods of ``size`` draws."""
        return size * rows.n_rows * (self.logarithm + rows.n_categories * rows.entry_work)

    def work(self, rows, nodes):
        """Return the operations of expansions, and of the factors at all nodes."""
        return self.entry * rows.n_rows * rows.n_categories + self.factor * nodes * rows.n_categories


def expand(rows, alpha, rounds=None, *, watch=None, start=None):
    """Return (TiltedProposal, rounds): the surrogate posterior, expanded at its own mean until that settles.

    Parameters
    ----------
    rows : Rows
    alpha : (a,) array
    rounds : int, optional
        Most rounds.
    watch : Watch, optional
    start : (a,) array, optional
        Where the first expansion is; the prior's mean by default.
    """
    limits = Expansion()
    mean = alpha / alpha.sum() if start is None else start
    tilt = None
    every = range(1, (rounds or 12) + 1)
    for made in every if watch is None else watch.track(every, "Expansions of the likelihood"):
        engine = TiltedProposal(expanded(rows, alpha, mean), tilt)
        tilt = engine.tilt
        before, (mean, variance) = mean, engine.saddle_moments()
        if made > 1 and ((mean - before) ** 2 / variance).sum() < limits.settled**2:
            break
    return engine, made


def weighted_draws(rows, alpha, size, rng, *, rounds=None, watch=None):
    """Return (draws under Dirichlet(α) with weights on the true likelihood, trusted or not; the mean of the surrogate).

    Parameters
    ----------
    rows : Rows
    alpha : (a,) array
    size : int
    rng : numpy.random.Generator
    rounds, watch
        As for expand.
    """
    engine = expand(rows, alpha, rounds, watch=watch)[0]
    p, log_surrogate = proposals(engine, size, rng)
    log_likelihood = rows.log_likelihood(np.ascontiguousarray(p.T)) if watch is None else log_likelihood_of(rows, p, watch)
    made = log_likelihood.size  # fewer after an interruption
    return weigh(p[:made], log_likelihood - log_surrogate[:made]), engine.saddle_moments()[0]


def pilot(rows, alpha):
    """Return (mean, variances) of the surrogate posterior, at which others expand the likelihood, two (a,) arrays."""
    engine, _ = expand(rows, alpha)
    return engine.saddle_moments()[0], engine.factor_variance


def expanded(rows, alpha, pilot):
    """Return the ExpandedFactors with the log-likelihood's gradient, curvature and skewness at a pilot.

    The skewness of category x is the skewness of Σ w log(m_j + M_jx p_x), m_j the mean of row j elsewhere and M_jx =
    L_jx − m_j: a third derivative of 2 Σ w M³/u³, where D/s² log(1 + s d) has 2 s D.

    Parameters
    ----------
    rows : Rows
    alpha, pilot : (a,) arrays
    """
    a, u = pilot.size, rows.matvec(pilot)
    total = rows.matvec(np.ones(a))
    shared, scale = total / (a - 1), a / (a - 1)
    first, second, third = rows.counts / u, rows.counts / u**2, rows.counts / u**3
    gradient, cross, mixed = rows.rmatvec(np.column_stack([first, second * total, third * shared**2])).T
    curvature = tangent_curvature(rows.rmatvec(second, 2), cross)
    cubes = scale**3 * rows.rmatvec(third, 3) - 3 * scale**2 * rows.rmatvec(third * shared, 2)
    cubes += 3 * scale * mixed - third @ shared**3
    skew = np.clip(cubes / curvature, np.sqrt(curvature / STRAIGHT), NEVER_ZERO / pilot)
    # Where nothing is left of a category's curvature the derivatives are not nearly diagonal, least of all the third.
    trusted = (cubes > 0) & (curvature > least_curvature(curvature)).all()
    return ExpandedFactors(alpha, gradient, curvature, pilot, np.where(trusted, skew, 0.0))


def anchored(rows, alpha, pilot):
    """Return (ExpandedFactors at a pilot, log of what they leave out of the likelihood)."""
    family = expanded(rows, alpha, pilot)
    return family, float(rows.log_likelihood(pilot) - family.log_smooth(pilot).sum())


def joined(families):
    """Return the ExpandedFactors of several families, one after the other."""
    return ExpandedFactors(
        *(np.concatenate([getattr(family, name.name) for family in families]) for name in fields(ExpandedFactors))
    )


def proposals(engine, size, rng):
    """Return (draws of p, log of proposal over prior density), for weights on the true likelihood.

    p = g/Σg has the density Π_x p^{α_x−1}/Z_x times ∫ r^{Σα−1} Π_x exp(log_smooth(r p_x) − t r p_x) dr, over the radius; the
    powers of p are the prior's.

    Parameters
    ----------
    engine : TiltedProposal
    size : int
    rng : numpy.random.Generator
    """
    alpha = engine.whole.alpha
    p = softmax(engine.independent_log_draws(size, rng), axis=1)  # under small concentrations all of g may underflow
    step = max(1, TOGETHER // (RADII * p.shape[1]))
    log_radius = np.concatenate([_log_radius(engine, p[start : start + step]) for start in range(0, size, step)])
    return p, log_radius - (gammaln(alpha.sum()) - gammaln(alpha).sum() + engine.factor_log_mass.sum())


def _log_radius(engine, p):
    """Return the log of the integral over the radius of draws p (S, a), shape (S,).

    In log r the integrand has one mode and no singularity, however small Σα is; its left tail dies out like r^{Σα}, so that
    the steps grow exponentially on both sides.
    """
    family = engine.whole
    total, bent = family.alpha.sum(), family.skew > 0
    # Σ log_smooth = constant + r·B − r²C/2 + Σ w log(1 + s (r p − c)) over the categories with a skewness.
    power, skew, centre = (values[bent] for values in (family.curvature, family.skew, family.centre))
    power = power / skew**2
    straight = np.where(bent, 0.0, family.curvature)
    tangent = family.linear - engine.tilt + straight * family.centre
    tangent[bent] -= power * skew
    constant = -0.5 * straight @ family.centre**2 + power @ (skew * centre)
    linear, square, base, leaning = p @ tangent, p**2 @ straight, 1 - skew * centre, skew * p[:, bent]
    # The derivative by log r is concave in r and Σα > 0 at 0: from the right Newton's steps to its root are monotone.
    r = np.ones(len(p))
    for _ in range(RADIUS_STEPS):
        ratio = leaning * r[:, None]
        ratio /= base + ratio
        slope = total + r * linear - r**2 * square + ratio @ power
        bend = r * linear - 2 * r**2 * square + (ratio * (1 - ratio)) @ power
        move = np.where(bend < 0, np.maximum(-slope / np.minimum(bend, -1e-300), -0.9), 1.0)
        r *= 1 + np.minimum(move, 1.0)
        if (np.abs(move) < 1e-3).all():
            break
    scale = 1 / np.sqrt(-bend)
    # Both ends reach 14 nats down: on the left at the slower of the two rates, on the right as a Gaussian in r.
    size = RADII if total >= 1 else 3 * RADII
    s = np.linspace(-1.0, 1.0, size) * np.arcsinh(6 + 14 / (total * scale))[:, None]
    log_growth_of_r = np.minimum(scale[:, None] * np.sinh(s), 20.0)
    radius = r[:, None] * np.exp(log_growth_of_r)
    log_density = total * np.log(r)[:, None] + total * log_growth_of_r + linear[:, None] * radius
    log_density -= 0.5 * square[:, None] * radius**2
    log_density += np.log(base + radius[:, :, None] * leaning[:, None]) @ power
    top = log_density.max(axis=1)
    step = (s[:, -1] - s[:, 0]) / (size - 1)
    inside = (np.exp(log_density - top[:, None]) * np.cosh(s)).sum(axis=1)
    return constant + top + np.log(inside * scale * step)


def weighed(draw, log_mass, counts, likelihood, rng, watch):
    """Return (draws from the proposals of nodes, WeightedDraws on the true likelihood, the node of each, Verdict).

    Parameters
    ----------
    draw : callable
        (node, number) → (draws of P, log of proposal density over the density of the node's prior).
    log_mass : (k,) array
        Log of the mass of each node, up to a constant; the likelihood multiplies the mass.
    counts : (k,) int array
        Draws of each; multiples of these where weights ask for more.
    likelihood : likelihood of one cell
    rng : numpy.random.Generator
    watch : Watch
    """
    size, used, made = int(counts.sum()), np.flatnonzero(counts), []
    offset = log_mass[used] - np.log(counts[used] / size)

    def make(total):
        counts_each = counts[used] * (total // size)
        batches = [draw(i, int(count)) for i, count in zip(used, counts_each, strict=True)]
        order = rng.permutation(total)  # so that an interruption leaves draws of every node
        node = np.repeat(np.arange(used.size), counts_each)[order]
        p, log_surrogate = (np.concatenate(arrays)[order] for arrays in zip(*batches, strict=True))
        log_likelihood = log_likelihood_of(likelihood, p, watch)
        finished = log_likelihood.size
        made[:] = [used[node[:finished]]]
        return weigh(p[:finished], log_likelihood + (offset[node] - log_surrogate)[:finished])

    weights, verdict = enough(make, size, MOST_WEIGHTED // likelihood.n_categories)
    if verdict.problem and watch.interrupted:
        raise KeyboardInterrupt(f"the draws weighted so far cannot be trusted: {verdict.problem}")
    return weights, made[0], verdict


def log_likelihood_of(rows, distribution, watch):
    """Return the log-likelihood of each draw; after Ctrl-C of the first of them, in whole blocks."""
    starts = watch.track(range(0, len(distribution), BLOCK), "Likelihood of the draws")
    blocks = (rows.log_likelihood(np.ascontiguousarray(distribution[start : start + BLOCK].T)) for start in starts)
    return np.concatenate(watch.finished(blocks))
