"""Which law of its sum each set of factors goes with: transforms, polynomials, one integral, or the saddle point."""

import math
from functools import cached_property

import numpy as np

from ldpbayes.methods.conditioned_product.constants import MARGIN_NODES, NOISY, OFF, TOGETHER
from ldpbayes.methods.conditioned_product.margins import Moments, margins_of
from ldpbayes.methods.conditioned_product.polynomial import PolynomialRoute
from ldpbayes.methods.conditioned_product.transform import Line, TransformRoute

#: No sets, and no factors that a route loses.
NONE = np.array([], dtype=int)


class Pairs:
    """Sets of two categories: the density of g is φ₁(g) φ₂(1 − g), on a grid in logit g.

    Parameters
    ----------
    factors : TiltedFactors
    """

    name, n_nodes, lost = "pairs", MARGIN_NODES, NONE

    def __init__(self, factors):
        self.factors = factors

    def margins(self, index):
        """Return [(factor indices, Margin)] of some factors."""
        factors, start = self.factors, Moments(*self.factors.saddle_moments(), None)

        def log_others(x, log_g, log_rest):
            other = x ^ 1 if factors.multiplicity.size == 2 else x
            return factors.log_density(other, start.mean[other], log_rest)

        return margins_of(factors, index, start, log_others)

    @cached_property
    def moments(self):
        """Moments of all factors given Σ g = 1."""
        factors, start = self.factors, self.factors.saddle_moments()[0]
        smooth = factors.summed(factors.family.log_smooth(start) - factors.each(factors.tilt) * start)
        mean, variance, log_mass = np.empty((3, start.size))
        for x, margin in self.margins(np.arange(start.size)):
            (mean[x], variance[x]), log_mass[x] = margin.moments, margin.log_mass
        return Moments(mean, variance, factors.tilt + smooth + log_mass.reshape(factors.sets, -1)[:, 0])

    @property
    def products(self):
        """(Left, right), two (1, k·G) arrays: Cov(g_x, g_y) = (leftᵀ right)_xy of the two categories of a set."""
        return -self.moments.variance[None], np.ones((1, self.moments.variance.size))


class Saddle:
    """Sets whose transforms do not die out: moments and evidence of second order in the saddle point.

    The density of g_x is its own times the density of the others' sum at 1 − g. Its normal approximation is good where
    there are many categories, and one does not carry most of the spread.

    Parameters
    ----------
    factors : TiltedFactors
    """

    name, lost = "saddle point", NONE

    def __init__(self, factors):
        self.factors = factors

    @cached_property
    def moments(self):
        """Moments of all factors given Σ g = 1."""
        return Moments(*self.factors.saddle_moments(), self.factors.saddle_log_evidence()[0])

    @cached_property
    def products(self):
        """(Left, right), two (1, k·G) arrays: Cov(g_x, g_y) = (leftᵀ right)_xy of two normal factors of a set."""
        variance = self.factors.coarse.variance
        return (-variance / self.factors.each(self.factors.summed(variance)))[None], variance[None]

    def margins(self, index):
        """Return [(factor indices, Margin)] of some factors."""
        factors, single = self.factors, self.factors.coarse
        mean, variance = single.centre + single.mean_offset, single.variance
        left = 1 - factors.each(factors.summed(mean)) + mean
        rest = np.maximum(factors.each(factors.summed(variance)) - variance, 1e-12 * variance)

        def log_others(x, log_g, log_rest):
            return -0.5 * (left[x, None] - np.exp(log_g)) ** 2 / rest[x, None]

        return margins_of(factors, index, self.moments, log_others)


def laws_of(factors, route=None):
    """Return [(sets, law)] of TiltedFactors: which of the classes here each set goes with.

    Pairs are one integral; few counts go to polynomials, others to transforms where these die out, then to
    polynomials where their means add up to one, and last to the saddle point.

    Parameters
    ----------
    factors : TiltedFactors
    route : {"transform", "polynomial", "saddle point"}, optional
        That one for all sets.
    """
    left, a = np.arange(factors.sets), factors.multiplicity.sum()
    if a == 2 and route is None:
        return [(left, Pairs(factors))]
    if route == "saddle point":
        return [(left, Saddle(factors))]
    out, counts = [], _counts(factors)
    if counts is not None and route != "transform":
        short = left if route else left[counts <= 2048]  # transforms of longer ones are quicker, where they die out
        out += _polynomials(factors, short, counts)
        left = np.setdiff1d(left, short)
    if left.size:
        line = Line.of(factors.take(left), factors.multiplicity)
        off = np.inf if counts is None else OFF
        rough = np.concatenate([left[line.count == 0], _good(_transforms(factors, left, line), off, out)])
        if counts is not None and route is None:
            rough = _good(_polynomials(factors, rough, counts), NOISY, out)
        if rough.size:
            out.append((rough, Saddle(factors.take(rough))))
    return out


def _good(laws, off, out):
    """Add (sets, law) to ``out`` where evidences are known and means add up to one but for ``off``; return the others."""
    others = [NONE]
    for sets, law in laws:
        good = np.isfinite(law.moments.log_evidence) & (np.abs(law.factors.summed(law.moments.mean) - 1) < off)
        if good.any():
            out.append((sets[good], law if good.all() else law.take(np.flatnonzero(good))))
        others.append(sets[~good])
    return np.concatenate(others)


def _counts(factors):
    """Return how many counts the polynomials of each set have, None where its factors are no polynomials."""
    polynomials = factors.family.polynomials()
    return None if polynomials is None else factors.summed(polynomials[1].sum(axis=1))


def _polynomials(factors, sets, counts):
    """Return [(sets, PolynomialRoute)], sets of like size together."""
    size = 2 ** np.ceil(np.log2(np.minimum(counts, 40 * np.sqrt(counts) + 200) + 1))
    return [(group, PolynomialRoute(factors.take(group))) for group in _together(sets, size, factors.multiplicity.size)]


def _transforms(factors, sets, line):
    """Return [(sets, TransformRoute)] of those whose line dies out, sets of like lines together."""
    place, size = np.zeros((2, factors.sets))
    place[sets], size[sets] = np.arange(sets.size), 2.0 ** np.ceil(np.log2(np.maximum(line.count, 1)))
    groups = _together(sets[line.count > 0], size, factors.multiplicity.size)
    return [(group, TransformRoute(factors.take(group), line.take(place[group].astype(int)))) for group in groups]


def _together(sets, size, each):
    """Yield sets of equal size together, as many as keep ``each`` × size × sets at TOGETHER."""
    for value in np.unique(size[sets]):
        group = sets[size[sets] == value]
        most = max(1, math.floor(TOGETHER / (each * value)))
        yield from (group[start : start + most] for start in range(0, group.size, most))
