"""Generalized (k-ary) randomized response; two categories are Warner's design."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import entropy
from ldpbayes.likelihoods import IdentityRows
from ldpbayes.protocols.base import AbstractListed
from ldpbayes.protocols.constants import FEW_USERS, ONE_DRAW, USERS_IN_CACHE
from ldpbayes.protocols.formats import Labels


@dataclass(frozen=True)
class GRR(AbstractListed):
    """Few categories, or ε above the logarithm of their number: the label, or by chance another (k-ary randomized response).

    Q[y, x] = (1 + β[x = y]) / (a + β), β = e^ε − 1.

    The true value is reported with probability e^ε/(e^ε + a − 1), each other value with probability 1/(e^ε + a − 1).

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon : float
        LDP level in nats, in [1e-9, 50].

    References
    ----------
    Kairouz, Bonawitz, Ramage (2016), §3 and §4.1; Warner (1965) for a = 2.

    Examples
    --------
    >>> GRR(3, epsilon=math.log(2)).channel().round(2)
    array([[0.5 , 0.25, 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]])
    """

    n_categories: int
    epsilon: float
    name: ClassVar[str] = "grr"

    @property
    def hit_rates(self):
        total = self.n_categories + self.beta
        return (1 + self.beta) / total, 1 / total

    @property
    def support_sizes(self):
        return np.eye(1, self.n_categories + 1, 1)[0]

    @property
    def n_outputs(self):
        return self.n_categories

    @property
    def report_format(self):
        return Labels(self.n_categories, categories=True)

    def rows(self, reports, counts):
        return IdentityRows(reports, self.beta, counts, self.n_categories, -math.log(self.n_categories + self.beta))

    def randomize(self, values, rng):
        # Truth w.p. β/(a+β), else uniform over all categories: the same channel without a second lookup.
        a, total = self.n_categories, self.n_categories + self.beta
        if total > ONE_DRAW or values.size < FEW_USERS:
            noise = np.flatnonzero(rng.random(values.size) >= self.beta / total)
            values[noise] = rng.integers(a, size=noise.size)
            return values
        # One number u settles both: u (a + β) − β is below 0 for truth, and uniform from 0 to a otherwise.
        for start in range(0, values.size, USERS_IN_CACHE):
            block = values[start : start + USERS_IN_CACHE]
            u = rng.random(block.size)
            u *= total
            u -= self.beta
            noise = np.minimum(u.astype(np.int64), a - 1)  # rounding could reach a
            np.copyto(block, noise, where=u >= 0)
        return values

    def randomize_one(self, value):
        units, inverse = self._other_units, self._other_inverse
        # One draw settles everything: the first a − 1 groups of so many draws stand for the categories after the value,
        # cyclically, all further draws for the value.
        draw = entropy.word(entropy.BITS)
        other = 1 - entropy.passed(draw, (self.n_categories - 1) * units, entropy.BITS)
        group = (draw * inverse + (1 << 2 * entropy.BITS)) >> 2 * entropy.BITS  # 1 + draw // units, by a multiplication
        return (self.n_categories + value + other * group) % self.n_categories  # never 0 % a, which is a shortcut

    @property
    def exact_rates(self):
        """Exact chances (of the value, of any other category) of privatize_one, as Fractions."""
        other = Fraction(self._other_units, 2**entropy.BITS)
        return 1 - (self.n_categories - 1) * other, other

    def draw_reports(self, true_counts, rng):
        """Return (every report, counts): Binomial truthful answers plus one multinomial of uniform ones, O(a) in all."""
        truthful = rng.binomial(true_counts, self.beta / (self.n_categories + self.beta))
        uniform = rng.multinomial(true_counts.sum() - truthful.sum(), np.full(self.n_categories, 1 / self.n_categories))
        return self.all_reports(), truthful + uniform

    @cached_property
    def _other_units(self):
        # N/2^128 ≥ 1/(e^ε + a − 1) with e^ε rounded down, so (2^128 − (a − 1)N)/N ≤ e^ε exactly.
        return math.ceil(2**entropy.BITS / (entropy.exp_below(self.epsilon) + self.n_categories - 1))

    @cached_property
    def _other_inverse(self):
        # ⌈2^256/N⌉ exceeds 2^256/N by less than one, so that ⌊draw·⌈2^256/N⌉ / 2^256⌋ is ⌊draw/N⌋ for draws below 2^128.
        return -(-(1 << 2 * entropy.BITS) // self._other_units)
