"""Hadamard response: one of K reports, whose support is a half of the categories given by a Hadamard row."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import entropy
from ldpbayes.likelihoods import HadamardRows
from ldpbayes.protocols.base import AbstractListed
from ldpbayes.protocols.constants import FEW_USERS, ONE_WORD, TOP, USERS_IN_CACHE


@dataclass(frozen=True)
class HadamardResponse(AbstractListed):
    """Many categories and short reports: the index of a row of a Hadamard matrix.

    Q[y, x] = (2/K)(1 + β[x ∈ S_y]) / (1 + e^ε), S_y = {x : H_K[x + 1, y] = +1}.

    K is the least power of two above a, H_K[i, y] = (−1)^{popcount(i & y)}, β = e^ε − 1.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon : float
        LDP level in nats, in [1e-9, 50].

    Notes
    -----
    Reports are integers 0..K−1, as they stand in files. The oracle is a fast Walsh–Hadamard transform of the report
    counts, O(n + K log K).

    References
    ----------
    Acharya, Sun, Zhang (2019).

    Examples
    --------
    >>> HadamardResponse(3, epsilon=math.log(3)).channel() * 8
    array([[3., 3., 3.],
           [1., 3., 1.],
           [3., 1., 1.],
           [1., 1., 3.]])
    """

    n_categories: int
    epsilon: float
    name: ClassVar[str] = "hadamard"

    @property
    def hit_rates(self):
        return 1 / (1 + math.exp(-self.epsilon)), 0.5

    @property
    def n_outputs(self):
        """K, the least power of two above a."""
        return 2 ** self.n_categories.bit_length()

    def rows(self, reports, counts):
        log_constant = math.log(2 / self.n_outputs) - math.log(2 + self.beta)
        return HadamardRows(reports, self.beta, counts, self.n_categories, log_constant)

    def randomize(self, values, rng):
        if values.size < FEW_USERS or self.n_outputs > ONE_WORD:
            return self._uniform_in_half(values, rng.random(values.size) < self.hit_rates[0], rng)
        # The low bits of a word are the report, and its 53 upper bits settle whether its support holds the value.
        hit = np.uint64(round(self.hit_rates[0] * 2.0**53))
        for start in range(0, values.size, USERS_IN_CACHE):
            block = values[start : start + USERS_IN_CACHE]
            words = rng.integers(2**64, size=block.size, dtype=np.uint64)
            report = (words & np.uint64(self.n_outputs - 1)).view(np.int64)
            words >>= np.uint64(11)
            block += 1
            odd = np.bitwise_count(block & report) & np.uint8(1)
            wrong = odd.view(bool) == (words < hit)
            block &= -block
            block *= wrong
            block ^= report
        return values

    def randomize_one(self, value):
        index, flip = self._words[value]
        inside = entropy.bernoulli(self._hit_threshold)
        report = entropy.word(self.n_categories.bit_length()) | TOP
        # Flipping the lowest bit of the index pairs the reports inside with those outside. The top bit is common.
        return report ^ (TOP, flip)[(index & report).bit_count() % 2 ^ inside]

    def draw_reports(self, true_counts, rng):
        """Return (every report, counts): one multinomial of noise, and per category one over its half, O(a K) at most.

        A user is noise (uniform over all K reports) with probability 2/(1 + e^ε), else uniform over the value's half;
        where there are fewer such users than a·K their reports are drawn one by one instead, vectorized.
        """
        k = self.n_outputs
        signal = rng.binomial(true_counts, self.beta / (2 + self.beta))
        out = rng.multinomial(true_counts.sum() - signal.sum(), np.full(k, 1 / k))
        if signal.sum() < self.n_categories * k:
            values = np.repeat(np.arange(self.n_categories), signal)
            reports = self._uniform_in_half(values, np.ones(values.size, dtype=bool), rng)
            return self.all_reports(), out + np.bincount(reports, minlength=k)
        for x, count in enumerate(signal):
            half = _is_inside(x + 1, self.all_reports())
            out[half] += rng.multinomial(count, np.full(k // 2, 2 / k))
        return self.all_reports(), out

    def _uniform_in_half(self, values, inside, rng):
        """Return a report per value, uniform over the half of the reports whose support holds it, or over the other."""
        index = values + 1
        report = rng.integers(self.n_outputs, size=values.size)
        return np.where(_is_inside(index, report) == inside, report, report ^ (index & -index))

    @cached_property
    def _words(self):
        """For every value its index and the lowest bit of that, both with the top bit."""
        return [(x | TOP, x & -x | TOP) for x in range(1, self.n_categories + 1)]

    @cached_property
    def _hit_threshold(self):
        # N/2^128 ≤ e^ε/(1 + e^ε) with e^ε rounded down, so the exact ratio is at most e^ε.
        lower = entropy.exp_below(self.epsilon)
        return entropy.threshold_below(lower / (1 + lower))


def _is_inside(index, report):
    """Return whether H[index, report] = +1: the number of common bits is even."""
    return np.bitwise_count(index & report) % 2 == 0
