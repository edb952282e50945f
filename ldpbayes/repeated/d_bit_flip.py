"""dBitFlipPM: memoized noisy bits of d sampled buckets of a value."""

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.arrays import log_choose
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.repeated import memoized_bits
from ldpbayes.repeated.histories import Rates, check_times, every_history

#: What is wrong with reports that cannot be of one user.
CHANGED = "a memoized bit that changes, which it cannot where flip is 0"


@dataclass(frozen=True)
class DBitFlip(memoized_bits.AbstractMemoizedBits):
    """Numbers or categories that a client reports again and again: a few memoized bits of their bucket (dBitFlipPM).

    A user samples d of b buckets once, and memoizes for each whether the value is in it, flipped with noise.

    The bit of a sampled bucket is one with probability κ = e^{ε/2}/(e^{ε/2} + 1) where the value is in the bucket and 1 − κ
    where it is not. Every report sends the same bits, each flipped anew with probability ``flip``. With c_v ones of bucket v
    among T reports, L_x ∝ ρ(c_v) where the bucket v of x was sampled and 1 where it was not; see ``MemoizedUnary`` for ρ.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two. Category x falls into bucket ⌊x b/a⌋.
    epsilon_infinity : float
        ε, the level of all reports on one value (half of it is reached where d = 1).
    buckets : int
        b, from 2 to a. Categories that share a bucket cannot be told apart.
    sampled : int
        d, from 1 to b.
    flip : float
        Probability from 0, without which further reports add nothing, to below 1/2 (output perturbation).
    times : int, or pairs (int, int), optional
        How many reports a user sends, or the law of that number; see ``AbstractHistories``.

    Notes
    -----
    A history is T and, for every bucket, 0 where it was not sampled and else one more than its ones. In a file these are two
    columns, "4" and "3 - 0 -"; a single report is a history of one. A user whose value changes has a set of memoized bits
    for each sampled bucket and one for all others, which cost d ε in all in the sense of ``epsilon_changing``.

    References
    ----------
    Ding, Kulkarni, Yekhanin (2017), §3 (dBitFlip) and §4 (memoization, output perturbation); docs/theory/repeated.md.

    Examples
    --------
    >>> protocol = DBitFlip(3, epsilon_infinity=2 * math.log(3), buckets=3, sampled=1, times=4)
    >>> protocol.rows(np.array([[4, 5, 0, 0]]), np.ones(1)).dense().round(3)
    array([[1.   , 0.333, 0.333]])
    """

    n_categories: int
    epsilon_infinity: float
    buckets: int
    sampled: int
    flip: float = 0.0
    times: Any = None  # a Times comes in
    name: ClassVar[str] = "d_bit_flip"
    report_fields: ClassVar[tuple[str, ...]] = ("times", "ones")
    gaps: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))
        object.__setattr__(self, "epsilon_infinity", checks.epsilon(self.epsilon_infinity, "epsilon_infinity"))
        object.__setattr__(self, "buckets", checks.integer(self.buckets, "buckets", 2, self.n_categories))
        object.__setattr__(self, "sampled", checks.integer(self.sampled, "sampled", 1, self.buckets))
        object.__setattr__(self, "flip", checks.probability(self.flip, "flip"))
        if self.flip >= 0.5:
            raise ArgumentError(f"flip must be below 1/2, got {self.flip!r}; at 1/2 reports carry no information.")
        object.__setattr__(self, "times", check_times(self.times))

    @property
    def kappa(self) -> float:
        """κ = e^{ε/2}/(e^{ε/2} + 1)."""
        return self.stages[0]

    @cached_property
    def bucket_of(self):
        """The bucket of every category, shape (a,)."""
        return np.arange(self.n_categories) * self.buckets // self.n_categories

    @property
    def table(self):
        return self.bucket_of[None, None, :]

    # ---- levels --------------------------------------------------------------------------------------------------------
    @property
    def epsilon_changing(self) -> float:
        """d ε: sets of bits of two sampled buckets differ in two bits, those of one and of none in one."""
        return self.sampled * self.epsilon_infinity

    @property
    def _limit(self):
        return self.epsilon_infinity * min(self.sampled, 2) / 2

    def spent(self, times: int) -> float:
        return min(super().spent(times), self._limit)

    def level_ratio(self, times):
        """Return the ratio of two bits, or with one its root: κ = 1 − λ and r = 1 − s, so all ones say as much as none."""
        if self.sampled > 1:
            return super().level_ratio(times)
        kappa, lam, on, off = self._thresholds
        return Fraction(kappa * on**times + lam * off**times, lam * on**times + kappa * off**times)

    def rates(self):
        if self.buckets < self.n_categories:
            return None
        return Rates(*self.stages, self.sampled / self.buckets)

    # ---- reports -------------------------------------------------------------------------------------------------------
    @property
    def n_bits(self):
        return self.buckets

    @property
    def single(self):
        return replace(self, times=1)

    def check_histories(self, histories):
        codes, times = histories[:, 1:], histories[:, :1]
        bad = np.flatnonzero(((codes > 0).sum(axis=1) != self.sampled) | (codes > times + 1).any(axis=1))
        if bad.size:
            i = int(bad[0])
            raise DataError(
                f"history {i} must have {self.sampled} sampled buckets, each with ones in at most all of its reports", line=i
            )
        changed = self._changed(codes, times)
        if changed is not None:
            raise DataError(f"history {changed} has {CHANGED}", line=changed)

    def _changed(self, codes, times):
        """Return the first history with a memoized bit that changes where none can, or None."""
        bad = np.flatnonzero(((codes > 1) & (codes <= times)).any(axis=1) & (self.flip == 0))
        return int(bad[0]) if bad.size else None

    def gather(self, reports, user, names):
        codes, n = reports[:, 1:], len(names)
        sampled = np.zeros((n, self.buckets), dtype=bool)
        sampled[user] = codes > 0
        bad = np.flatnonzero((sampled[user] != (codes > 0)).any(axis=1))
        if bad.size:
            name = names[user[bad[0]]]
            raise DataError(f"user {name!r} has reports on different buckets; a user samples them once")
        ones = np.stack([np.bincount(user, column == 2, n) for column in codes.T], axis=1).astype(np.int64)
        times = np.bincount(user, minlength=n)
        out = np.where(sampled, 1 + ones, 0)
        changed = self._changed(out, times[:, None])
        if changed is not None:
            raise DataError(f"user {names[changed]!r} has {CHANGED}")
        return np.column_stack([times, out])

    def list_histories(self, times):
        inner = every_history([times + 1 if self.flip else 2] * self.sampled)
        if inner is None or math.comb(self.buckets, self.sampled) * len(inner) > 2**16:
            return None
        tables = []
        for subset in itertools.combinations(range(self.buckets), self.sampled):
            codes = np.zeros((len(inner), self.buckets), dtype=np.int64)
            codes[:, list(subset)] = 1 + (inner if self.flip else times * inner)
            tables.append(codes)
        every = np.concatenate(tables)
        return np.column_stack([np.full(len(every), times), every])

    # ---- server --------------------------------------------------------------------------------------------------------
    @property
    def _log_public(self):
        return -log_choose(self.buckets, self.sampled)

    def shown(self, histories):
        return histories[:, 1:] > 0

    def ones(self, histories):
        return np.maximum(histories[:, 1:] - 1, 0)

    def has_full_rank(self):
        return self.buckets == self.n_categories

    def identifying_matrix(self):
        """Return which bucket each category is in: all that reports depend on."""
        return (np.arange(self.buckets)[:, None] == self.bucket_of).astype(float)

    # ---- client --------------------------------------------------------------------------------------------------------
    def draw(self, values, times, rng):
        ones = super().draw(values, times, rng)[:, 1:]
        rank = rng.random(ones.shape).argsort(axis=1).argsort(axis=1)
        return np.column_stack([times, np.where(rank < self.sampled, 1 + ones, 0)])

    def permanent_one(self, value, key):
        """Return the permanent bits of one value, a function of its bucket and of the device's key.

        They are a history of one report that shows them as they are. All values outside the sampled buckets share theirs.
        """
        return self.draw_permanent_one(entropy.one_value(value, self.n_categories), entropy.secret_key(key))

    def instantaneous_one(self, permanent):
        """Return one report on permanent bits: a history of one, from the operating system's entropy."""
        kept = self.single.check_reports(checks.array_of(permanent, "permanent", "one report")[None])
        return self.draw_reports_one(kept[0], 1)

    def draw_permanent_one(self, value, key=None):
        public = (self.name, self.buckets, self.sampled, self._thresholds[0])
        with entropy.keyed(key, public):
            places = entropy.some_of(self.sampled, self.buckets)  # which buckets are sampled is public
        kappa, lam, *_ = self._thresholds
        bucket, codes = int(self.bucket_of[value]), np.zeros(self.buckets, dtype=np.int64)
        members = bytes(place == bucket for place in places)
        with entropy.keyed(key, public, members):
            codes[places] = [1 + entropy.bernoulli((lam, kappa)[member]) for member in members]
        return np.append(1, codes)

    @cached_property
    def _thresholds(self):
        # 1 − κ rounded up, so that κ/(1 − κ) ≤ e^{ε/2} exactly.
        unit = 2**entropy.BITS
        lam = math.ceil(unit / (1 + entropy.exp_below(self.epsilon_infinity / 2)))
        flip = math.ceil(Fraction(self.flip) * unit)
        return unit - lam, lam, unit - flip, flip
