"""Memoized bits: a permanent bit, one with probability κ or λ, and reports on it; what unary encoding and RAPPOR share."""

import abc
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.special import xlog1py, xlogy

from ldpbayes import entropy
from ldpbayes.arrays import blocks, groups_of, log_choose
from ldpbayes.errors import DataError
from ldpbayes.repeated.histories import AbstractHistories, constant, every_history


class AbstractMemoizedBits(AbstractHistories):
    """Histories of T reports and how many of them show each permanent bit as one.

    A user belongs to a public cohort, in which every category sets some bits: L_x = Π ρ(c_j) over the bits j that x sets.
    Canonical histories have the cohort where there is a choice of it (n_leading is two), T, and the ones of every bit.

    Attributes
    ----------
    n_bits : int
        Number of permanent bits.
    table : (C, h, a) int array
        The bits that each category sets in each cohort; −1 for none.
    stages : tuple of float
        κ, λ, r and s: the chance that the permanent bit is one where the value sets it, and where it does not; and the
        chance that a report shows a one as one, and a zero.
    """

    # ---- what a subclass states ----------------------------------------------------------------------------------------
    @property
    @abc.abstractmethod
    def n_bits(self) -> int: ...

    @property
    @abc.abstractmethod
    def table(self) -> np.ndarray: ...

    @property
    @abc.abstractmethod
    def _thresholds(self) -> tuple[int, int, int, int]:
        """The stages as thresholds of ``entropy.bernoulli``."""

    @property
    def stages(self) -> tuple[float, ...]:
        return tuple(threshold / 2**entropy.BITS for threshold in self._thresholds)

    def shown(self, histories: np.ndarray) -> np.ndarray | None:
        """Return which bits are shown at all, shape (m, n_bits); None: all of them."""
        return None

    def ones(self, histories: np.ndarray) -> np.ndarray:
        """Return how many reports show each bit as one, shape (m, n_bits)."""
        return histories[:, self.n_leading :]

    # ---- levels and reports --------------------------------------------------------------------------------------------
    @property
    def epsilon_one(self) -> float:  # type: ignore[override]
        return self.spent(1)

    def level_ratio(self, times):
        """Return [ρ(T)/ρ(0)]^h: all ones of the bits of a category against no ones."""
        kappa, lam, on, off = (Fraction(threshold, 2**entropy.BITS) for threshold in self._thresholds)

        def chance(share, r, s):
            return share * r**times + (1 - share) * s**times

        upper = chance(kappa, on, off) * chance(lam, 1 - on, 1 - off)
        lower = chance(lam, on, off) * chance(kappa, 1 - on, 1 - off)
        return None if lower == 0 else (upper / lower) ** self.table.shape[1]

    n_listed = property(lambda self: self.n_bits)

    @property
    def leading_fields(self):
        return (("times", 2**62),)

    def lengths(self, histories):
        return histories[:, self.n_leading - 1]

    def check_histories(self, histories):
        times, ones = self.lengths(histories), self.ones(histories)
        bad = np.flatnonzero((ones > times[:, None]).any(axis=1))
        if bad.size:
            i = int(bad[0])
            raise DataError(f"history {i} has {ones[i].max()} ones of a bit in {times[i]} reports", line=i)

    def single_bits(self, reports: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return (cohorts or None, packed bits) of single reports."""
        return None, reports

    def gather(self, reports, user, names):
        cohorts, packed = self.single_bits(reports)
        columns = [] if cohorts is None else [constant(cohorts, user, names, "in two cohorts", "cohort")]
        ones = sums_by_user(packed, user, len(names), self.n_bits)
        return np.column_stack([*columns, np.bincount(user, minlength=len(names)), ones])

    def list_histories(self, times):
        ones = every_history([*([len(self.table)] * (self.n_leading - 1)), *([times + 1] * self.n_bits)])
        return None if ones is None else np.insert(ones, self.n_leading - 1, times, axis=1)

    # ---- server --------------------------------------------------------------------------------------------------------
    def likelihoods(self, histories):
        times, ones, (kappa, lam, *reported) = self.lengths(histories), self.ones(histories), self.stages
        # log P where the value does not set the bit, and the log ratio of setting it to not, are looked up by (T, c).
        unset, ratio = np.empty(ones.shape), np.empty(ones.shape)
        for number in np.unique(times):
            here = np.flatnonzero(times == number)
            base, lifted = (log_chances(np.arange(number + 1), number, rate, *reported) for rate in (lam, kappa))
            with np.errstate(invalid="ignore"):
                gain = np.where(np.isneginf(base) & np.isneginf(lifted), 0.0, lifted - base)
            unset[here], ratio[here] = base[ones[here]], gain[ones[here]]
        shown = self.shown(histories)
        if shown is not None:
            unset, ratio = np.where(shown, unset, 0.0), np.where(shown, ratio, 0.0)
        logs = self.sums(histories, ratio)
        top = logs.max(axis=1)
        log_constants = unset.sum(axis=1) + top + log_choose(times[:, None], ones).sum(axis=1) + self._log_public
        return np.exp(logs - top[:, None]), log_constants

    #: Logarithm of the chance of what is public.
    _log_public = property(lambda self: -np.log(len(self.table)))

    def ancillaries(self):
        return self._agreement(self.ones, *self.stages[2:], self.shown)

    def supported(self, histories):
        return self.sums(histories, self.ones(histories))

    def sums(self, histories: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return Σ of values, (m, n_bits), over the bits that each category sets, shape (m, a)."""
        if self.table.shape[:2] == (1, 1):
            return values[:, self.table[0, 0]]
        out = np.zeros((len(histories), self.n_categories), dtype=values.dtype)
        values = np.column_stack([values, np.zeros(len(values), dtype=values.dtype)])  # position −1, of no bit
        cohorts = histories[:, 0] if self.n_leading == 2 else np.zeros(len(histories), dtype=np.int64)
        for c, users in groups_of(cohorts):
            for positions in self.table[c]:
                out[users] += values[np.ix_(users, positions)]
        return out

    # ---- client --------------------------------------------------------------------------------------------------------
    def draw(self, values, times, rng):
        kappa, lam, on, off = self.stages
        cohorts = rng.integers(len(self.table), size=values.size) if self.n_leading == 2 else np.zeros_like(values)
        members = np.zeros((values.size, self.n_bits + 1), dtype=bool)
        members[np.arange(values.size)[:, None], self.table[cohorts, :, values]] = True
        members = rng.random((values.size, self.n_bits)) < np.where(members[:, :-1], kappa, lam)
        ones = rng.binomial(times[:, None], np.where(members, on, off))
        return np.column_stack([*[cohorts] * (self.n_leading - 1), times, ones])

    def draw_permanent_one(self, value: int) -> np.ndarray:
        """Return a history of one report that shows the permanent bits as they are, from the operating system's entropy."""
        kappa, lam, *_ = self._thresholds
        cohort = entropy.below(len(self.table)) if self.n_leading == 2 else 0
        chances = [lam] * (self.n_bits + 1)
        for position in self.table[cohort, :, value].tolist():
            chances[position] = kappa
        return np.array([*[cohort] * (self.n_leading - 1), 1, *(entropy.bernoulli(chance) for chance in chances[:-1])])

    def draw_reports_one(self, permanent: np.ndarray, times: int) -> np.ndarray:
        """Return the history of T reports on permanent bits, which a history of one report shows as they are."""
        out, bits, shown = permanent.copy(), self.ones(permanent[None])[0], self.shown(permanent[None])
        places = np.arange(self.n_bits) if shown is None else np.flatnonzero(shown[0])
        out[self.n_leading - 1] = times
        out[self.n_leading + places] = self.gaps + count_ones(bits[places].tolist(), times, *self._thresholds[2:])
        return out

    def draw_one(self, value, times):
        return self.draw_reports_one(self.draw_permanent_one(value), times)


def log_chances(ones: np.ndarray, times: np.ndarray, held: float, on: float, off: float) -> np.ndarray:
    """Return log P(c ones in T reports on one bit), without the binomial coefficient.

    log[κ r^c (1 − r)^{T−c} + (1 − κ) s^c (1 − s)^{T−c}] with κ = ``held`` the chance that the permanent bit is one, and r, s
    = ``on``, ``off`` the chances that a report on a one, and on a zero, is one.

    Parameters
    ----------
    ones, times : int arrays
        c and T, which broadcast.
    held, on, off : float

    Returns
    -------
    float array
    """
    zeros = times - ones
    with np.errstate(divide="ignore"):
        from_one = np.log(held) + xlogy(ones, on) + xlog1py(zeros, -on)
        from_zero = np.log1p(-held) + xlogy(ones, off) + xlog1py(zeros, -off)
        return np.logaddexp(from_one, from_zero)


def count_ones(members: Sequence[int], times: int, on: int, off: int) -> np.ndarray:
    """Return how many of T reports on each permanent bit are ones; on and off are thresholds of ``entropy.bernoulli``."""
    out = np.zeros(len(members), dtype=np.int64)
    for _ in range(times):
        out += [entropy.bernoulli((off, on)[bit]) for bit in members]
    return out


def sums_by_user(packed, user, n_users, n_bits):
    """Return the ones of every bit over the reports of each user, (n_users, n_bits)."""
    from scipy.sparse import csc_array

    out = np.zeros((n_users, n_bits), dtype=np.int64)
    for part in blocks(len(user), n_bits, 2**24):
        members, ones = np.unpackbits(packed[part], axis=1, count=n_bits), np.ones(len(user[part]), dtype=np.int64)
        out += csc_array((ones, user[part], np.arange(ones.size + 1)), shape=(n_users, ones.size)) @ members
    return out
