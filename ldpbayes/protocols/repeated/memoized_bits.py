"""Memoized bits: a permanent bit, one with probability κ or λ, and reports on it; what unary encoding and RAPPOR share."""

import abc
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from ldpbayes import entropy
from ldpbayes.errors import DataError
from ldpbayes.protocols.repeated.histories import AbstractHistories


class AbstractMemoizedBits(AbstractHistories):
    """Histories of T reports and how many of them show each permanent bit as one.

    T is the last column before those of the bits. Subclasses state ``_exact``: κ, λ, r and s as fractions.
    """

    n_leading: ClassVar[int] = 1

    @property
    @abc.abstractmethod
    def n_bits(self) -> int:
        """Number of permanent bits."""

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
        times, ones = self.lengths(histories), histories[:, self.n_leading :]
        bad = np.flatnonzero((ones > times[:, None]).any(axis=1))
        if bad.size:
            i = int(bad[0])
            raise DataError(f"history {i} has {ones[i].max()} ones of a bit in {times[i]} reports", line=i)

    def supported(self, histories):
        return histories[:, self.n_leading :]


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


def exact_chance(ones: int, times: int, held: Fraction, on: Fraction, off: Fraction) -> Fraction:
    """Return P(c ones in T reports on one bit), exactly."""
    zeros = times - ones
    return math.comb(times, ones) * (held * on**ones * (1 - on) ** zeros + (1 - held) * off**ones * (1 - off) ** zeros)


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
