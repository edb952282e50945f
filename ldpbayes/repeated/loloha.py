"""LOLOHA: the value is hashed to few buckets once, and the bucket is reported by memoized randomized response."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks, entropy, hashing
from ldpbayes.arrays import blocks
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.repeated.fresh import TOGETHER
from ldpbayes.repeated.histories import Rates, Times, constant, counts_of
from ldpbayes.repeated.memoized_grr import AbstractMemoizedSymbols, instant_level, with_instant


@dataclass(frozen=True)
class LOLOHA(AbstractMemoizedSymbols):
    """Many categories reported again and again: a memoized hash value, and fresh noise on it each time (LOLOHA).

    h = hash_seed(x) under a public seed per user, b = GRR_g(h) at ε_∞ once, then every report is GRR_g(b) at ε_2.

    With p, q the chances of the permanent answer and m_v the number of reports equal to bucket v,
    P(m | seed, x) = T!/Π m_v! · (e^{ε_2} + g − 1)^{−T} [q Σ_v e^{ε_2 m_v} + (p − q) e^{ε_2 m_h(x)}].

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon_infinity : float
        Level of the permanent answer of one bucket.
    epsilon_instant : float
        ε_2, the level of a report about the permanent answer; ``from_levels`` takes the level ε_1 of one report instead.
    buckets : int
        g, from 2 to 2^20; ``optimal_buckets`` gives the best number for one report.
    family : {"ldpbayes", "xxhash"}
        Hash family, as for ``LocalHashing``.
    times : int, or pairs (int, int), optional
        How many reports a user sends, or the law of that number; see ``AbstractHistories``.

    Notes
    -----
    A history is the seed and the counts of the buckets; in a file the columns "seed" and "counts" ("3 0"), in long data
    (seed, value), and a user keeps one seed. Rows are those given the seed, which does not depend on the value. A user whose
    value changes has at most g permanent answers, so that all reports stay below g ε_∞ in the sense of ``epsilon_changing``.

    References
    ----------
    Arcolezi, Pinzón, Palamidessi, Gambs (2023), EDBT, Algorithms 1 and 2; docs/theory/repeated.md for the rows.

    Examples
    --------
    >>> protocol = LOLOHA.from_levels(100, epsilon_infinity=3.0, epsilon_one=1.5, times=7)
    >>> protocol.buckets, round(protocol.epsilon_infinity, 3), round(protocol.epsilon_changing, 3)
    (4, 3.0, 12.0)
    """

    n_categories: int
    epsilon_infinity: float
    epsilon_instant: float
    buckets: int
    family: str = "ldpbayes"
    times: Any = None  # a Times comes in
    name: ClassVar[str] = "loloha"
    report_fields: ClassVar[tuple[str, ...]] = ("seed", "counts")
    file_parameters: ClassVar[str] = "epsilon_infinity, epsilon_one or epsilon_instant, buckets, family='ldpbayes', times"

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "buckets", hashing.check_buckets(self.buckets))
        checks.choice(self.family, "family", hashing.FAMILIES)

    @property
    def size(self):
        return self.buckets

    @classmethod
    def from_levels(
        cls,
        n_categories: int,
        epsilon_infinity: float,
        epsilon_one: float,
        buckets: int | None = None,
        times: Times = None,
        family: str = "ldpbayes",
        rule: str = "published",
    ) -> "LOLOHA":
        """Return the protocol one report of which costs ε_1.

        Parameters
        ----------
        n_categories : int
        epsilon_infinity, epsilon_one : float
            ε_1 is below ε_∞.
        buckets : int, optional
            g; ``optimal_buckets`` by default, and 2 is BiLOLOHA.
        times, family : optional
            As for the class.
        rule : {"published", "exact"}
            As for ``MemoizedGRR.from_levels``: the paper's ε_2, under which one report costs at most ε_1, or the one under
            which it costs ε_1 exactly.

        Returns
        -------
        LOLOHA
        """
        buckets = optimal_buckets(epsilon_infinity, epsilon_one) if buckets is None else hashing.check_buckets(buckets)
        instant = instant_level(buckets, epsilon_infinity, epsilon_one, rule)
        return cls(n_categories, epsilon_infinity, instant, buckets, family, times)

    def rates(self):
        return Rates(self.permanent.hit_rates[0], 1 / self.buckets, *self.instantaneous.hit_rates)

    def log_public_share(self):
        return -math.log(hashing.MAX_SEED)

    # ---- reports -------------------------------------------------------------------------------------------------------
    @property
    def leading_fields(self):
        return (("seed", hashing.MAX_SEED),)

    @property
    def single(self):
        return LocalHashing(self.n_categories, self.epsilon_one, self.buckets, self.family)

    def gather(self, reports, user, names):
        seeds = constant(reports[:, 0], user, names, "under two seeds", "seed")
        return np.column_stack([seeds, counts_of(reports[:, 1], user, len(names), self.buckets)])

    # ---- server --------------------------------------------------------------------------------------------------------
    def likelihoods(self, histories):
        matrix, log_constants = super().likelihoods(histories[:, 1:])
        return self._of_categories(histories[:, 0], matrix), log_constants

    def supported(self, histories):
        return self._of_categories(histories[:, 0], histories[:, 1:])

    def _of_categories(self, seeds, by_symbol):
        """Return the entries (m, g) of each category's bucket, shape (m, a)."""
        out = np.empty((len(seeds), self.n_categories), dtype=by_symbol.dtype)
        categories = np.arange(self.n_categories)[None, :]
        for part in blocks(len(seeds), self.n_categories, TOGETHER):
            hashed = hashing.buckets(self.family, seeds[part, None], categories, self.buckets)
            out[part] = np.take_along_axis(by_symbol[part], hashed, axis=1)
        return out

    # ---- client --------------------------------------------------------------------------------------------------------
    def draw(self, values, times, rng):
        seeds = hashing.draw_seeds(values.size, rng)
        return np.column_stack([seeds, super().draw(hashing.buckets(self.family, seeds, values, self.buckets), times, rng)])

    def permanent_one(self, value, key):
        value, key = entropy.one_value(value, self.n_categories), entropy.secret_key(key)
        with self._keyed(key):
            seed, bucket = self._hashed_one(value)
        return np.array([seed, self._answer_one(bucket, key)])

    def instantaneous_one(self, permanent):
        kept = self.single.check_reports(checks.array_of(permanent, "permanent", "one report")[None])[0]
        return np.array([kept[0], super().instantaneous_one(int(kept[1]))])

    def draw_one(self, value, times):
        seed, bucket = self._hashed_one(value)
        return np.append(seed, super().draw_one(bucket, times))

    def _hashed_one(self, value):
        seed = entropy.word(hashing.MAX_SEED.bit_length() - 1)
        return seed, hashing.bucket_of_one(self.family, seed, value, self.n_categories, self.buckets)

    @classmethod
    def from_parameters(cls, categories, parameters):
        parameters = dict(parameters)
        if "buckets" not in parameters and {"epsilon_infinity", "epsilon_one"} <= set(parameters):
            parameters["buckets"] = optimal_buckets(parameters["epsilon_infinity"], parameters["epsilon_one"])
        if "buckets" in parameters:
            size = hashing.check_buckets(parameters["buckets"])
            parameters = with_instant(parameters, size, "published")
        return super().from_parameters(categories, parameters)


def optimal_buckets(epsilon_infinity, epsilon_one):
    """Return the g of least oracle variance for one report of a rare category, at the paper's ε_2.

    The variance is (A + u)² (B + u)² / (u (A − 1)² (B − 1)²) with u = g − 1, A = e^{ε_∞}, B = e^{ε_2}; its least is at the
    positive root of 3u² + (A + B) u − A B = 0, which is the formula of the paper. Any number of reports has its best g
    below that of the permanent answer alone, round(e^{ε_∞}) + 1.

    Parameters
    ----------
    epsilon_infinity, epsilon_one : float

    Returns
    -------
    int
        At least 2.

    References
    ----------
    Arcolezi, Pinzón, Palamidessi, Gambs (2023), EDBT, the optimal g of LOLOHA.

    Examples
    --------
    >>> optimal_buckets(1.0, 0.5), optimal_buckets(5.0, 3.0)
    (2, 17)
    """
    first = math.exp(checks.epsilon(epsilon_infinity, "epsilon_infinity"))
    second = math.exp(instant_level(2, epsilon_infinity, epsilon_one, "published"))
    root = (math.sqrt((first + second) ** 2 + 12 * first * second) - first - second) / 6
    return min(1 + max(1, round(root)), hashing.MAX_BUCKETS)
