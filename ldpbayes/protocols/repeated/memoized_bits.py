"""Memoized bits: a permanent bit, one with probability κ or λ, and reports on it; what unary encoding and RAPPOR share."""

import abc
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from ldpbayes import entropy
from ldpbayes.errors import DataError
from ldpbayes.protocols.repeated.histories import AbstractHistories


class AbstractMemoizedBits(AbstractHistories):
    """Histories of T reports and how many of them show each permanent bit as one.

    T is the last column before those of the bits. Which bits a category sets may depend on something public that a user
    draws once, such as a cohort: L_x = Π ρ(c_j) over the bits j that x sets.

    Attributes
    ----------
    stages : tuple of float
        κ, λ, r and s: the chance that the permanent bit is one where the value sets it, and where it does not; and the
        chance that a report shows a one as one, and a zero.
    """

    n_leading: ClassVar[int] = 1

    # ---- what a subclass states ----------------------------------------------------------------------------------------
    @property
    @abc.abstractmethod
    def n_bits(self) -> int:
        """Number of permanent bits."""

    @property
    @abc.abstractmethod
    def stages(self) -> tuple[float, float, float, float]: ...

    @property
    @abc.abstractmethod
    def _exact(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """The stages of ``draw_one``, as fractions."""

    @abc.abstractmethod
    def sums(self, histories: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return Σ of the bits' values over those that each category sets, shape (m, a).

        Parameters
        ----------
        histories : (m, k) int array
        values : (m, n_bits) array
        """

    @abc.abstractmethod
    def permanent(self, values: np.ndarray, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray, Any]:
        """Return (leading columns before T, permanent bits (n, n_bits), which of them are shown or None) of users."""

    def shown(self, histories: np.ndarray) -> np.ndarray | None:
        """Return which bits are shown at all, shape (m, n_bits); None: all of them."""
        return None

    def ones(self, histories: np.ndarray) -> np.ndarray:
        """Return how many reports show each bit as one, shape (m, n_bits)."""
        return histories[:, self.n_leading :]

    #: Logarithm of the chance of what is public.
    log_public: float = 0.0

    # ---- levels and reports --------------------------------------------------------------------------------------------
    @property
    def epsilon_one(self):
        return self.spent(1)

    def level_ratio(self, times):
        return largest_ratio(times, *self._exact)

    @property
    def width(self):
        return self.n_leading + self.n_bits

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

    # ---- server --------------------------------------------------------------------------------------------------------
    def likelihoods(self, histories):
        times, ones, (kappa, lam, *reported) = self.lengths(histories), self.ones(histories), self.stages
        unset, ratio = tabled(ones, times, (kappa, *reported), (lam, *reported))
        shown = self.shown(histories)
        if shown is not None:
            unset, ratio = np.where(shown, unset, 0.0), np.where(shown, ratio, 0.0)
        logs = self.sums(histories, ratio)
        top = logs.max(axis=1)
        log_constants = unset.sum(axis=1) + top + log_binomials(ones, times) + self.log_public
        return np.exp(logs - top[:, None]), log_constants

    def supported(self, histories):
        return self.sums(histories, self.ones(histories))

    # ---- client --------------------------------------------------------------------------------------------------------
    def draw(self, values, times, rng):
        leading, members, shown = self.permanent(values, rng)
        *_, on, off = self.stages
        codes = rng.binomial(times[:, None], np.where(members, on, off))
        return np.column_stack([*leading, times, codes if shown is None else np.where(shown, 1 + codes, 0)])


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


def tabled(ones, times, rates, other):
    """Return (log P where the value does not set the bit, log ratio of setting it to not), looked up by (T, c).

    Parameters
    ----------
    ones : (m, k) int array
    times : (m,) int array
    rates, other : (κ, r, s), (λ, r, s)

    Returns
    -------
    (m, k) array, (m, k) array
    """
    unset, ratio = np.empty(ones.shape), np.empty(ones.shape)
    for number in np.unique(times):
        here = np.flatnonzero(times == number)
        every = np.arange(number + 1)
        base, lifted = log_chances(every, number, *other), log_chances(every, number, *rates)
        with np.errstate(invalid="ignore"):
            gain = np.where(np.isneginf(base) & np.isneginf(lifted), 0.0, lifted - base)
        unset[here], ratio[here] = base[ones[here]], gain[ones[here]]
    return unset, ratio


def log_binomials(ones, times):
    """Return Σ over bits of log C(T, c), shape (m,)."""
    times = times[:, None]
    return (gammaln(times + 1) - gammaln(ones + 1) - gammaln(times - ones + 1)).sum(axis=1)


def largest_ratio(times: int, kappa: Fraction, lam: Fraction, on: Fraction, off: Fraction) -> Fraction | None:
    """Return ρ(T)/ρ(0), the largest ratio of two categories' likelihoods: all ones against no ones; None: infinite."""

    def chance(held, r, s):
        return held * r**times + (1 - held) * s**times

    upper = chance(kappa, on, off) * chance(lam, 1 - on, 1 - off)
    lower = chance(lam, on, off) * chance(kappa, 1 - on, 1 - off)
    return None if lower == 0 else upper / lower


def count_ones(members: Sequence[int], times: int, on: int, off: int) -> np.ndarray:
    """Return how many of T reports on each permanent bit are ones; on and off are thresholds of ``entropy.bernoulli``."""
    out = np.zeros(len(members), dtype=np.int64)
    for _ in range(times):
        out += [entropy.bernoulli((off, on)[bit]) for bit in members]
    return out


def sums_by_user(packed, user, n_users, n_bits):
    """Return the ones of every bit over the reports of each user, (n_users, n_bits)."""
    out = np.zeros((n_users, n_bits), dtype=np.int64)
    order = np.argsort(user, kind="stable")
    starts = np.flatnonzero(np.diff(user[order], prepend=-1))
    step = max(1, 2**24 // max(n_bits, 1))
    for first in range(0, len(starts), step):  # whole users at a time
        ends = starts[first + step] if first + step < len(starts) else len(order)
        here = order[starts[first] : ends]
        members = np.unpackbits(packed[here], axis=1, count=n_bits)
        own = starts[first : first + step]
        out[user[order[own]]] = np.add.reduceat(members.astype(np.int64), own - own[0], axis=0)
    return out
