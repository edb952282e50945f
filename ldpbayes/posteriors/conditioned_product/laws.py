"""Which law of its sum each set of factors goes with: transforms, polynomials, one integral, or the saddle point."""

import math
from functools import cached_property

import numpy as np

from ldpbayes.posteriors.conditioned_product.margins import Margin, Moments, margins_of
from ldpbayes.posteriors.conditioned_product.polynomial import PolynomialRoute
from ldpbayes.posteriors.conditioned_product.transform import Line, TransformRoute

#: Sets of at most so many counts are polynomials first, others only where their transforms do not die out.
SHORT = 2048
#: Means given the sum add up to one; where those of polynomials by transforms miss it by more, nodes were too few for a
#: window that small concentrations stretch.
OFF = 1e-8
#: … and where those of the polynomials themselves do, their transforms are noise.
NEAR = 1e-5
#: Complex numbers of the transforms of sets that are worked on together.
TOGETHER = 2**20
#: Nodes of a factor, by whose moments the saddle point's margins go.
NODES = 96


class Pairs:
    """Sets of two categories: the density of g is φ₁(g) φ₂(1 − g), on a grid in logit g.

    Parameters
    ----------
    factors : TiltedFactors
    """

    name, n_nodes = "pairs", 512

    def __init__(self, factors):
        self.factors = factors

    @cached_property
    def _margins(self):
        factors, g = self.factors, self.factors.multiplicity.size
        first = np.arange(factors.sets) * g
        second = first + g - 1
        mean, variance = factors.saddle_moments()
        out = []
        for x, y in ((first, second), (second, first)):

            def log_density(log_g, log_rest, x=x, y=y):
                density = factors.log_density(x, mean[x], log_g)
                return density + factors.log_density(y, mean[y], log_rest)

            alpha = factors.family.alpha
            out.append((x, *Margin.of_logit(mean[x], variance[x], alpha[x], alpha[y], log_density)))
        return out

    @cached_property
    def moments(self):
        """Moments of all factors given Σ g = 1."""
        factors = self.factors
        mean, variance = factors.saddle_moments()
        smooth = factors.family.log_smooth(mean) - factors.each(factors.tilt) * mean
        (x, first, log_mass), (y, second, _) = self._margins
        log_evidence = factors.tilt + smooth[x] + smooth[y] + log_mass
        mean, variance = np.empty((2, mean.size))
        for place, margin in ((x, first), (y, second)):
            mean[place], variance[place] = margin.moments
        return Moments(mean, variance, log_evidence)

    @property
    def products(self):
        """(Left, right), two (1, k·G) arrays: Cov(g_x, g_y) = (leftᵀ right)_xy of the two categories of a set."""
        return -self.moments.variance[None], np.ones((1, self.moments.variance.size))

    def margins(self):
        """Return [(factor indices, Margin)] of all factors, and none that would lose digits."""
        return [(x, margin) for x, margin, _ in self._margins], np.array([], dtype=int)


class Saddle:
    """Sets whose transforms do not die out: moments and evidence of second order in the saddle point.

    The density of g_x is its own times that of the others' sum at 1 − g. Its normal approximation is good where there are
    many categories, and one does not carry most of the spread.

    Parameters
    ----------
    factors : TiltedFactors
    """

    name = "saddle point"

    def __init__(self, factors):
        self.factors = factors

    @cached_property
    def moments(self):
        """Moments of all factors given Σ g = 1."""
        return Moments(*self.factors.saddle_moments(), self.factors.saddle_log_evidence()[0])

    @cached_property
    def products(self):
        """(Left, right), two (1, k·G) arrays: Cov(g_x, g_y) = (leftᵀ right)_xy of two normal factors of a set."""
        variance = self.factors.nodes(NODES).variance
        return (-variance / self.factors.each(self.factors.summed(variance)))[None], variance[None]

    def margins(self):
        """Return [(factor indices, Margin)] of all factors, and none that would lose digits."""
        return self._margins(np.arange(self.factors.centre.size)), np.array([], dtype=int)

    def margin_of(self, x):
        """Return the Margin of one factor of one set."""
        return self._margins(np.array([x]))[0][1]

    def _margins(self, index):
        factors, fine = self.factors, self.factors.nodes(NODES)
        mean, variance = fine.centre + fine.mean_offset, fine.variance
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
        short = left if route else left[counts <= SHORT]
        out += _polynomials(factors, short, counts)
        left = np.setdiff1d(left, short)
    if left.size:
        rough = _transforms(factors, left, out)
        if counts is not None and route is None:
            laws = [(sets, law, _good(law, NEAR).all()) for sets, law in _polynomials(factors, rough, counts)]
            out += [(sets, law) for sets, law, good in laws if good]
            rough = np.concatenate([np.array([], dtype=int), *(sets for sets, _, good in laws if not good)])
        if rough.size:
            out.append((rough, Saddle(factors.take(rough))))
    return out


def _good(law, off):
    """Return of which sets of a law the log-evidence is known and means add up to one but for ``off``, (k,) booleans."""
    moments = law.moments
    return np.isfinite(moments.log_evidence) & (np.abs(law.factors.summed(moments.mean) - 1) < off)


def _counts(factors):
    """Return how many counts the polynomials of each set have, None where its factors are no polynomials."""
    polynomials = factors.family.polynomials()
    return None if polynomials is None else factors.summed(polynomials[1].sum(axis=1))


def _polynomials(factors, sets, counts):
    """Return [(sets, PolynomialRoute)], sets of like size together."""
    size = 2 ** np.ceil(np.log2(np.minimum(counts, 40 * np.sqrt(counts) + 200) + 1))
    return [(group, PolynomialRoute(factors.take(group))) for group in _together(sets, size, factors.multiplicity.size)]


def _transforms(factors, sets, out):
    """Add (sets, TransformRoute) to ``out``, sets of like lines together; return the sets that do not go with them."""
    line = Line.of(factors.take(sets), factors.multiplicity)
    rough = [sets[line.count == 0]]
    order = {int(which): place for place, which in enumerate(sets)}
    size = np.zeros(factors.sets)
    size[sets] = 2.0 ** np.ceil(np.log2(np.maximum(line.count, 1)))
    for group in _together(sets[line.count > 0], size, factors.multiplicity.size):
        own_line = line.take([order[int(which)] for which in group])
        law = TransformRoute(factors.take(group), own_line)
        good = _good(law, OFF if factors.is_polynomial else np.inf)
        if good.all():
            out.append((group, law))
        elif good.any():
            out.append((group[good], TransformRoute(factors.take(group[good]), own_line.take(np.flatnonzero(good)))))
        rough.append(group[~good])
    return np.concatenate(rough)


def _together(sets, size, each):
    """Yield sets of equal size together, as many as keep ``each`` × size × sets at TOGETHER."""
    for value in np.unique(size[sets]):
        group = sets[size[sets] == value]
        most = max(1, math.floor(TOGETHER / (each * value)))
        yield from (group[start : start + most] for start in range(0, group.size, most))
