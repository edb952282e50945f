"""Memoized randomized response (L-GRR): a permanent answer by GRR, and reports on it by GRR."""

import abc
import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.arrays import blocks, log_multinomial
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.base import float_below
from ldpbayes.protocols.grr import GRR
from ldpbayes.repeated.histories import (
    AbstractHistories,
    Rates,
    Times,
    check_level_pair,
    check_times,
    count_vectors,
    counts_of,
)

#: Memory: Entries of the chances from which counts are drawn together.
COUNTED_TOGETHER = 2**20
RULES = ("exact", "published")
_EXACT = Context(prec=80)


class AbstractMemoizedSymbols(AbstractHistories):
    """Counts of reports y_t = GRR(b) at ε_2 about one permanent answer b = GRR at ε_∞, over ``size`` symbols.

    Attributes
    ----------
    epsilon_instant : float
        ε_2.
    size : int
        Number of symbols: categories, or the buckets that they fall into.
    """

    epsilon_instant: float

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of symbols."""

    def __post_init__(self):
        object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))
        object.__setattr__(self, "epsilon_infinity", checks.epsilon(self.epsilon_infinity, "epsilon_infinity"))
        object.__setattr__(self, "epsilon_instant", checks.epsilon(self.epsilon_instant, "epsilon_instant"))
        object.__setattr__(self, "times", check_times(self.times))

    # ---- levels --------------------------------------------------------------------------------------------------------
    @cached_property
    def permanent(self):
        """GRR at ε_∞: the permanent answer."""
        return GRR(self.size, self.epsilon_infinity)

    @cached_property
    def instantaneous(self):
        """GRR at ε_2: a report about the permanent answer."""
        return GRR(self.size, self.epsilon_instant)

    @property
    def epsilon_one(self) -> float:  # type: ignore[override]
        """Level of one report: with λ(ε) = β/(size + β), GRR after GRR has λ(ε_1) = λ(ε_∞) λ(ε_2)."""
        drawn = [self.size / (self.size + math.expm1(epsilon)) for epsilon in (self.epsilon_infinity, self.epsilon_instant)]
        uniform = sum(drawn) - math.prod(drawn)  # 1 − λ(ε_∞) λ(ε_2)
        return math.log1p(self.size * (1 - drawn[0]) * (1 - drawn[1]) / uniform)

    @property
    def epsilon_changing(self) -> float:
        return self.size * self.epsilon_infinity

    def level_ratio(self, times):
        """Return the largest likelihood ratio of T reports: that of T equal ones, for their value against another."""
        (truth, other), (hit, moved) = self.permanent.exact_rates, self.instantaneous.exact_rates
        odds, rest = (hit / moved) ** times, self.size - 2
        return (truth * odds + other * (1 + rest)) / (other * odds + truth + other * rest)

    # ---- reports -------------------------------------------------------------------------------------------------------
    n_listed = property(lambda self: self.size)

    def lengths(self, histories):
        return histories[:, self.n_leading :].sum(axis=1)

    # ---- server and client of symbols, in whose place categories stand where nothing public is between -------------------
    def likelihoods(self, histories):
        """Return L of the symbols: L_b ∝ q Σ_v e^{ε m_v} + (p − q) e^{ε m_b}."""
        truth, other = self.permanent.hit_rates
        top = self.epsilon_instant * histories.max(axis=1)
        weights = np.exp(self.epsilon_instant * histories - top[:, None])
        matrix = other * weights.sum(axis=1, keepdims=True) + (truth - other) * weights
        of_one = math.log(self.size + math.expm1(self.epsilon_instant))
        return matrix, log_multinomial(histories) + top - histories.sum(axis=1) * of_one

    def supported(self, histories):
        return histories

    def draw(self, values, times, rng):
        answers, (hit, moved) = self.permanent.privatize(values, rng), self.instantaneous.hit_rates
        out = np.empty((answers.size, self.size), dtype=np.int64)
        for part in blocks(answers.size, self.size, COUNTED_TOGETHER):
            chances = np.full((len(answers[part]), self.size), moved)
            chances[np.arange(len(chances)), answers[part]] = hit
            out[part] = rng.multinomial(times[part], chances / chances.sum(axis=1, keepdims=True))
        return out

    def permanent_one(self, value, key):
        """Return the permanent answer to one value, which a device has for good: a function of the value and of its key."""
        return self._answer_one(entropy.one_value(value, self.n_categories), entropy.secret_key(key))

    def _answer_one(self, symbol, key):
        """Return the permanent answer to a symbol: the same one whenever a value falls on it."""
        with self._keyed(key, symbol.to_bytes(8, "big")):
            return self.permanent.randomize_one(symbol)

    def _keyed(self, key, private=b""):
        """Make the draws of permanent answers inside from a key."""
        return entropy.keyed(key, (self.name, self.size, self.epsilon_infinity), private)

    def instantaneous_one(self, permanent):
        """Return one report on a permanent answer, from the operating system's entropy."""
        return self.instantaneous.privatize_one(permanent)

    def draw_one(self, value, times):
        answer, out = self.permanent.privatize_one(value), np.zeros(self.size, dtype=np.int64)
        for _ in range(times):
            out[self.instantaneous.privatize_one(answer)] += 1
        return out


@dataclass(frozen=True)
class MemoizedGRR(AbstractMemoizedSymbols):
    """Few categories reported again and again: one noisy label for good, and fresh noise on it each time (L-GRR).

    b = GRR(x) at ε_∞ once and for good, then every report is y_t = GRR(b) at ε_2.

    With p, q the two chances of the permanent answer and m_b the number of reports equal to b, a history of T reports has
    P(m | x) = T!/Π m_b! · (e^{ε_2} + a − 1)^{−T} [q Σ_b e^{ε_2 m_b} + (p − q) e^{ε_2 m_x}].

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon_infinity : float
        Level of the permanent answer, which bounds any number of reports on one value.
    epsilon_instant : float
        ε_2, the level of a report about the permanent answer; ``from_levels`` takes the level ε_1 of one report instead.
    times : int, or pairs (int, int), optional
        How many reports a user sends, or the law of that number; see ``AbstractHistories``.

    Notes
    -----
    A history is the (a,) counts of the reports. In a file it is a text such as "3 0 1"; in long data a report is a label.
    T reports on one value cost log[(p e^{Tε_2} + (a − 1) q)/(q e^{Tε_2} + p + (a − 2) q)], which rises to ε_∞.

    References
    ----------
    Arcolezi, Couchot, Al Bouna, Xiao (2021), arXiv:2111.04636, L-GRR; Erlingsson, Pihur, Korolova (2014) for the two
    stages; docs/theory/repeated.md for the rows.

    Examples
    --------
    >>> protocol = MemoizedGRR.from_levels(3, epsilon_infinity=2.0, epsilon_one=1.0, times=4)
    >>> round(protocol.epsilon_one, 6), round(protocol.spent(4), 3), round(protocol.epsilon_infinity, 3)
    (1.0, 1.98, 2.0)
    >>> protocol.rows(np.array([[4, 0, 0]]), np.ones(1)).dense().round(3)
    array([[0.788, 0.109, 0.109]])
    """

    n_categories: int
    epsilon_infinity: float
    epsilon_instant: float
    times: Any = None  # a Times comes in
    name: ClassVar[str] = "memoized_grr"
    report_fields: ClassVar[tuple[str, ...]] = ("counts",)
    file_parameters: ClassVar[str] = "epsilon_infinity, epsilon_one or epsilon_instant, rule='exact' or 'published', times"

    @property
    def size(self):
        return self.n_categories

    @classmethod
    def from_levels(
        cls, n_categories: int, epsilon_infinity: float, epsilon_one: float, times: Times = None, rule: str = "exact"
    ) -> "MemoizedGRR":
        """Return the protocol one report of which costs ε_1.

        Parameters
        ----------
        n_categories : int
        epsilon_infinity, epsilon_one : float
            ε_1 is below ε_∞.
        times : optional
            As for the class.
        rule : {"exact", "published"}
            "exact": one report is GRR at ε_1 exactly. "published": the formula of the paper, which bounds the level of one
            report by ε_1 and reaches it for two categories; data of its clients are analyzed with it.

        Returns
        -------
        MemoizedGRR

        Raises
        ------
        ArgumentError
            If an argument breaks its rule.
        """
        instant = instant_level(checks.categories_count(n_categories), epsilon_infinity, epsilon_one, rule)
        return cls(n_categories, epsilon_infinity, instant, times)

    def rates(self):
        return Rates(*self.permanent.hit_rates, *self.instantaneous.hit_rates)

    @property
    def single(self):
        return GRR(self.n_categories, self.epsilon_one)

    def gather(self, reports, user, names):
        return counts_of(reports, user, len(names), self.n_categories)

    def list_histories(self, times):
        return count_vectors(self.n_categories, times)

    @classmethod
    def from_parameters(cls, categories, parameters):
        return super().from_parameters(categories, with_instant(dict(parameters), len(categories), "exact"))


def instant_level(size, epsilon_infinity, epsilon_one, rule):
    """Return ε_2 from ε_∞ and ε_1, rounded down, so that the client's own chances keep ε_1.

    Exact: λ(ε_2) = λ(ε_1)/λ(ε_∞) with λ(ε) = (e^ε − 1)/(size + e^ε − 1), since GRR keeps the value with probability λ and
    draws uniformly otherwise. Published: e^{ε_2} = (e^{ε_∞ + ε_1} − 1)/(e^{ε_∞} − e^{ε_1}), which leaves out that two
    different wrong answers can lead to the same report, and so gives one report at most ε_1.
    """
    infinity, single = check_level_pair(epsilon_infinity, epsilon_one)
    first, second = (Fraction(_EXACT.exp(Decimal(epsilon))) for epsilon in (infinity, single))
    if checks.choice(rule, "rule", RULES) == "published":
        odds = (first * second - 1) / (first - second)
    else:
        share = (second - 1) * (size + first - 1) / ((size + second - 1) * (first - 1))
        odds = 1 + size * share / (1 - share)
    level = float_below(Fraction(_EXACT.ln(_EXACT.divide(Decimal(odds.numerator), Decimal(odds.denominator)))))
    if level > checks.MAX_EPSILON:
        raise ArgumentError(f"epsilon_one must be clearly below epsilon_infinity ({infinity!r}), got {single!r}.")
    return level


def with_instant(parameters, size, rule):
    """Return the parameters of a file with epsilon_instant in place of epsilon_one and rule."""
    if "epsilon_one" not in parameters:
        return parameters
    if "epsilon_instant" in parameters:
        raise ArgumentError("epsilon_instant must be left out where epsilon_one is given.")
    single, rule = parameters.pop("epsilon_one"), parameters.pop("rule", rule)
    if "epsilon_infinity" in parameters:
        parameters["epsilon_instant"] = instant_level(size, parameters["epsilon_infinity"], single, rule)
    return parameters
