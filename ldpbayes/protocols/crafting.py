"""Reports made by hand: the maximal gain attack on each kind of protocol. See docs/theory/contamination.md."""

import abc
import math

import numpy as np

from ldpbayes import entropy, hashing
from ldpbayes.arrays import blocks, log_choose
from ldpbayes.protocols import bits
from ldpbayes.protocols.constants import CRAFTED_TOGETHER, MAX_CHANNEL_ENTRIES
from ldpbayes.protocols.formats import keys

#: Rule: How many public seeds an attacker is taken to try for one report: some milliseconds of hashing. The targets that a
#: pair supports depend on it by little: of 10 targets in 4 buckets 7, of 20 in 8 buckets 8, of 50 in 16 buckets 9. Half
#: gives 7, 7 and 9, double 7, 8 and 10, ten times as many 8, 9 and 11.
TRIES = 1000


class AbstractCrafting(abc.ABC):
    """A set of reports that are equally good for an attack, each sent with the same probability."""

    @abc.abstractmethod
    def log_probabilities(self, reports) -> np.ndarray:
        """Return log P(report), shape (m,), of canonical reports."""

    @abc.abstractmethod
    def draw(self, size, rng) -> np.ndarray:
        """Return reports drawn with a numpy Generator."""

    @abc.abstractmethod
    def draw_one(self):
        """Return one report drawn from the operating system's entropy."""

    @property
    @abc.abstractmethod
    def support(self) -> np.ndarray | None:
        """The probability that a report supports each category, shape (a,); None where it is not known."""


class ListedCrafting(AbstractCrafting):
    """Some of the reports that a protocol can list.

    Parameters
    ----------
    every : array
        All reports of the protocol.
    chosen : int array
        Positions of those that are sent.
    protocol : AbstractProtocol
    """

    def __init__(self, every, chosen, protocol):
        self.every, self.chosen, self.protocol = every, chosen, protocol

    @classmethod
    def among(cls, protocol, targets):
        """Return the reports with the largest sum of scores of the targets, or None where they cannot be listed."""
        decoder = protocol.decoder()
        if protocol.n_outputs is None or protocol.n_outputs > MAX_CHANNEL_ENTRIES or decoder is None:
            return None
        every = protocol.all_reports()
        if not len(targets):
            return cls(every, np.arange(len(every)), protocol)
        weights = np.zeros(protocol.n_categories)
        weights[targets] = 1.0
        scores = decoder.scores(protocol.rows(every, np.ones(len(every))), weights)
        if scores is None:
            return None
        best = scores.max()
        return cls(every, np.flatnonzero(scores >= best - 1e-9 * np.abs(scores).max()), protocol)

    def log_probabilities(self, reports):
        if self.chosen.size == len(self.every):
            return np.full(len(reports), -math.log(self.chosen.size))
        inside = np.isin(*keys(reports, self.every[self.chosen]))
        return np.where(inside, -math.log(self.chosen.size), -math.inf)

    def draw(self, size, rng):
        return self.every[self.chosen[rng.integers(self.chosen.size, size=size)]]

    def draw_one(self):
        return self.every[self.chosen[entropy.below(self.chosen.size)]]

    @property
    def support(self):
        reports = self.every[self.chosen]
        rows = self.protocol.rows(reports, np.ones(len(reports)))
        unit = np.ones(self.protocol.n_categories)
        return None if rows.support_sums(unit) is None else rows.support_counts() / len(reports)


class SetCrafting(AbstractCrafting):
    """Sets of a given size that hold all targets, or only targets where these are more.

    Parameters
    ----------
    n_categories : int
    targets : int array
    size : int
    """

    def __init__(self, n_categories, targets, size):
        self.n_categories, self.size = n_categories, size
        self.targets = np.asarray(targets, dtype=np.int64)
        self.others = np.setdiff1d(np.arange(n_categories), self.targets)
        self.held = min(size, self.targets.size)
        self.pools = (self.targets, self.held), (self.others, size - self.held)  # so many members of each

    def log_probabilities(self, reports):
        wanted = np.zeros(self.n_categories, dtype=bool)
        wanted[self.targets] = True
        hits = bits.sizes(reports & np.packbits(wanted))
        fitting = (bits.sizes(reports) == self.size) & (hits == self.held)
        return np.where(fitting, -sum(log_choose(pool.size, number) for pool, number in self.pools), -math.inf)

    def draw(self, size, rng):
        out = np.empty((size, bits.width(self.n_categories)), dtype=np.uint8)
        for part in blocks(size, self.n_categories, bits.BLOCK):
            members = np.zeros((part.stop - part.start, self.n_categories), dtype=bool)
            for pool, number in self.pools:
                if number:
                    order = rng.random((len(members), pool.size)).argpartition(number - 1, axis=1)[:, :number]
                    np.put_along_axis(members, pool[order], True, axis=1)
            out[part] = np.packbits(members, axis=1)
        return out

    def draw_one(self):
        members = np.zeros(self.n_categories, dtype=bool)
        for pool, number in self.pools:
            members[pool[entropy.some_of(number, len(pool))]] = True
        return np.packbits(members)

    @property
    def support(self):
        out = np.zeros(self.n_categories)
        for pool, number in self.pools:
            if pool.size:
                out[pool] = number / pool.size
        return out


class PairCrafting(AbstractCrafting):
    """Pairs (seed, value) that support at least so many targets as one of a thousand seeds allows.

    r targets fall into g buckets; a pair supports k or more of them with probability P(Binomial(r, 1/g) ≥ k). k is the
    largest number that some pair of one among TRIES seeds reaches on average, so that a search as long as that finds one.

    Parameters
    ----------
    family : str
        Of hash functions.
    n_categories, buckets : int
    targets : int array
    """

    def __init__(self, family, n_categories, buckets, targets):
        from scipy.stats import binom

        self.family, self.n_categories, self.buckets = family, n_categories, buckets
        self.targets = np.asarray(targets, dtype=np.int64)
        tails = binom.sf(np.arange(-1, self.targets.size), self.targets.size, 1 / buckets)  # P(≥ k), k = 0 … r
        self.held = int(np.flatnonzero(buckets * tails * TRIES >= 1)[-1])
        self.chance = float(tails[self.held])  # that a uniform pair qualifies
        inside = binom.pmf(np.arange(self.targets.size + 1), self.targets.size, 1 / buckets)[self.held :] / self.chance
        self.mean_held = float(inside @ np.arange(self.held, self.targets.size + 1))

    def _hits(self, seeds, values):
        """Return how many targets each pair supports."""
        met = hashing.buckets(self.family, seeds[:, None], self.targets[None, :], self.buckets)
        return (met == values[:, None]).sum(axis=1)

    def log_probabilities(self, reports):
        chance = -math.log(hashing.MAX_SEED) - math.log(self.buckets) - math.log(self.chance)
        if not self.held:
            return np.full(len(reports), chance)
        return np.where(self._hits(reports[:, 0], reports[:, 1]) >= self.held, chance, -math.inf)

    def draw(self, size, rng):
        if not self.held:
            return np.stack([rng.integers(hashing.MAX_SEED, size=size), rng.integers(self.buckets, size=size)], axis=1)
        pairs, number = [np.empty((0, 2), dtype=np.int64)], 0
        while number < size:
            block = int(min(max((size - number) / (self.buckets * self.chance) * 1.1, 64), CRAFTED_TOGETHER))
            seeds = rng.integers(hashing.MAX_SEED, size=block)
            met = hashing.buckets(self.family, seeds[:, None], self.targets[None, :], self.buckets)
            codes, counts = np.unique((met + np.arange(block)[:, None] * self.buckets).ravel(), return_counts=True)
            rows, values = np.divmod(codes[counts >= self.held], self.buckets)
            pairs.append(np.stack([seeds[rows], values], axis=1))
            number += rows.size
        return np.concatenate(pairs)[:size]

    def draw_one(self):
        while True:
            seed = entropy.word(hashing.MAX_SEED.bit_length() - 1)
            report = np.array([[seed, entropy.below(self.buckets)]], dtype=np.int64)
            if not self.held or self._hits(report[:, 0], report[:, 1])[0] >= self.held:
                return report[0]

    @property
    def support(self):
        out = np.full(self.n_categories, 1 / self.buckets)
        if self.targets.size:
            out[self.targets] = self.mean_held / self.targets.size
        return out
