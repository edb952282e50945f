"""Block designs from projective geometry: one of as many reports as points, at the least possible risk."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods import CyclicRows
from ldpbayes.protocols import projective
from ldpbayes.protocols.base import AbstractListed
from ldpbayes.protocols.constants import MAX_POINTS

#: Orders that are looked at where none is given.
ORDERS = tuple(q for q in range(2, projective.MAX_ORDER + 1) if projective.prime_power(q))


@dataclass(frozen=True)
class BlockDesign(AbstractListed):
    """Many categories at middle ε: short reports with nearly the error of subset selection (projective geometry response).

    The report is a hyperplane, e^ε times as likely where it holds the value.

    The N = (q^t − 1)/(q − 1) points of a geometry over the field of q elements stand for values, and its N hyperplanes are
    the reports. Q[y, x] = (1 + β[x ∈ S_y]) / (N + βk), β = e^ε − 1, where every hyperplane has k = (q^(t−1) − 1)/(q − 1)
    points, and every two points share λ = (q^(t−2) − 1)/(q − 1) hyperplanes.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, from two to 2^20. The first a points are categories.
    epsilon : float
        LDP level in nats, in [1e-9, 50].
    order : int, optional
        q, a prime power up to 512; by default the one with the least risk of the oracle at uniform p, near e^ε + 1. The
        dimension t is the least with N ≥ a.

    Notes
    -----
    Reports are integers 0..N−1: y stands for S_y = {x : x + y mod N in D} with D the difference set of Singer (1938), see
    ``projective.difference_set``. A collection is a table of N counts at most.
    Where a = N and e^ε = q − 1 no ε-LDP protocol has less risk at uniform p, nor has its MLE; see
    ``theory.bounds.exact_bound``. Where a < N the supports of categories vary in size, and the risk is a few per cent above
    that floor. Support counts are binomial in any case.

    References
    ----------
    Feldman, Nelson, Nguyen, Talwar (2022), Private frequency estimation via projective geometry; Singer (1938).

    Examples
    --------
    >>> protocol = BlockDesign(7, epsilon=0.5)
    >>> protocol.order, protocol.n_outputs
    (2, 7)
    >>> BlockDesign(3, epsilon=math.log(2), order=2).channel().round(2)[:2]
    array([[0.25, 0.5 , 0.25],
           [0.5 , 0.25, 0.25]])
    """

    n_categories: int
    epsilon: float
    order: int | None = None
    name: ClassVar[str] = "block_design"

    def __post_init__(self):
        super().__post_init__()
        if self.n_categories > MAX_POINTS:
            raise ArgumentError(f"n_categories must be at most {MAX_POINTS} for {self.name}, got {self.n_categories}.")
        order = best_order(self.n_categories, self.epsilon) if self.order is None else self.order
        object.__setattr__(self, "order", checks.integer(order, "order", 2, projective.MAX_ORDER))
        if self.order not in ORDERS:
            raise ArgumentError(f"order must be a prime power from 2 to {projective.MAX_ORDER}, got {self.order}.")

    @property
    def dimension(self):
        """Length t of the vectors whose lines are the points."""
        return _dimension(self.n_categories, self.order)

    @property
    def block_size(self):
        """k, how many points a hyperplane has."""
        return projective.n_points(self.order, self.dimension - 1)

    @property
    def hit_rates(self):
        return _hit_rates(self.epsilon, self.order, self.dimension)

    @property
    def n_outputs(self):
        """N, the number of points and of hyperplanes."""
        return projective.n_points(self.order, self.dimension)

    def rows(self, reports, counts):
        log_constant = -math.log(self.n_outputs + self.beta * self.block_size)
        return CyclicRows(reports, self._difference_set, self.n_outputs, self.beta, counts, self.n_categories, log_constant)

    def randomize(self, values, rng):
        return self._block(values, rng.random(values.size) < self.hit_rates[0], rng)

    def randomize_one(self, value):
        inside, outside = self._shifts
        hit = entropy.bernoulli(self._hit_threshold)
        first, second = entropy.below(len(inside)), entropy.below(len(outside))
        # The selected shift minus the value, modulo N: a dividend of the same number of digits for every value.
        shift = (outside[second], inside[first])[hit]
        return (self._minus[value] + shift) % self.n_outputs

    @cached_property
    def _minus(self):
        """For every value a large number that is minus the value modulo N."""
        return [(2**40 // self.n_outputs) * self.n_outputs - x for x in range(self.n_categories)]

    def draw_reports(self, true_counts, rng):
        """Return (every report, counts): one multinomial of noise, and the reports of all other users.

        A user is noise (uniform over all N reports) with probability N/(N + βk), else uniform over the hyperplanes of the
        value; of categories with more such users than hyperplanes the reports are one multinomial.
        """
        n, blocks = self.n_outputs, self._difference_set
        signal = rng.binomial(true_counts, self.beta * self.block_size / (n + self.beta * self.block_size))
        out = rng.multinomial(true_counts.sum() - signal.sum(), np.full(n, 1 / n))
        many = np.flatnonzero(signal > len(blocks))
        for x in many:
            out[(blocks - x) % n] += rng.multinomial(signal[x], np.full(len(blocks), 1 / len(blocks)))
        signal[many] = 0
        values = np.repeat(np.arange(self.n_categories), signal)
        reports = self._block(values, np.ones(values.size, dtype=bool), rng)
        return self.all_reports(), out + np.bincount(reports, minlength=n)

    def _block(self, values, hits, rng):
        """Return a report per value, uniform over the hyperplanes that hold it, or over the others."""
        n, blocks = self.n_outputs, self._difference_set
        shift = np.where(hits, blocks[rng.integers(len(blocks), size=values.size)], 0)
        away = np.flatnonzero(~hits)
        shift[away] = self._complement[rng.integers(n - len(blocks), size=away.size)]
        return (shift - values) % n

    @property
    def _difference_set(self):
        return projective.difference_set(self.order, self.dimension)

    @cached_property
    def _complement(self):
        return np.setdiff1d(np.arange(self.n_outputs), self._difference_set, assume_unique=True)

    @cached_property
    def _shifts(self):
        """The difference set and its complement, as lists of Python integers."""
        return self._difference_set.tolist(), self._complement.tolist()

    @cached_property
    def _hit_threshold(self):
        # N'/2^128 ≤ k r/(k r + N − k) with r ≤ e^ε, so that the exact ratio is at most e^ε were the hyperplanes exactly
        # uniform. Their shares are so to a relative N/2^128, up or down.
        k, n = self.block_size, self.n_outputs
        lower = k * entropy.exp_below(self.epsilon) * (1 - Fraction(4 * n, 2**entropy.BITS))
        return entropy.threshold_below(lower / (lower + n - k))


def best_order(n_categories, epsilon):
    """Return the order q whose design has the least risk of the oracle for P at uniform p; the least such q.

    Parameters
    ----------
    n_categories : int
    epsilon : float

    Returns
    -------
    int

    Examples
    --------
    >>> best_order(100, 1.0), best_order(100, 2.0)
    (4, 11)
    """

    def risk(order):
        g, h = _hit_rates(epsilon, order, _dimension(n_categories, order))
        mean = h + (g - h) / n_categories
        return mean * (1 - mean) / (g - h) ** 2

    return min(ORDERS, key=risk)


def _dimension(n_categories, order):
    """Return the least t ≥ 2 whose geometry has at least a points."""
    t = 2
    while projective.n_points(order, t) < n_categories:
        t += 1
    return t


def _hit_rates(epsilon, order, dimension):
    n, k = projective.n_points(order, dimension), projective.n_points(order, dimension - 1)
    shared = projective.n_points(order, dimension - 2) if dimension > 2 else 0
    g = k / (k + (n - k) * math.exp(-epsilon))
    return g, g * shared / k + (1 - g) * (k - shared) / (n - k)
