"""Local hashing: each user draws a public seed, hashes the value with it and randomizes the bucket."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.likelihoods import SupportRows
from ldpbayes.protocols import bits, hashing
from ldpbayes.protocols.base import AbstractProtocol, Ancillary, Supports, independent_sizes
from ldpbayes.protocols.grr import GRR


@dataclass(frozen=True)
class LocalHashing(AbstractProtocol):
    """Local hashing LH(g): the report is (seed, value), value = GRR_g(hash_seed(x)) with a uniform public seed.

    P(value | seed, x) = (1 + β[hash_seed(x) = value]) / (g + β), β = e^ε − 1. Given its seed every report is exactly
    ε-private for any hash function; the hash only affects how well categories are distinguished.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon : float
        LDP level in nats, in [1e-9, 50].
    buckets : int, optional
        g, from 2 to 2^20; 2 is binary local hashing (BLH), the default round(e^ε) + 1 is optimized (OLH).
    family : {"ldpbayes", "xxhash"}
        Hash family, part of the protocol. "ldpbayes" is multiply-shift (see ``hashing.key_buckets``); "xxhash" is
        xxh32(str(category), seed) mod g, with which pure-ldp and multi-freq-ldpy collect.

    Notes
    -----
    Reports are (m, 2) integers (seed, value), seeds below 2^63. pure-ldp and multi-freq-ldpy give (value, seed): reverse
    the columns. Fast local hashing, with few seeds that many users share, is ``CohortRR`` with hashing "xxhash".
    The seed says nothing about the value, so row constants and the log-evidence are those given the seeds.
    Hit rates are those over a uniform seed, P(hash(x) = hash(x')) = 1/g, true to a relative (g/2^32)² for our family.
    A tally of pairs has no law simpler than its users, so ``simulate`` draws every user, vectorised.

    References
    ----------
    Wang et al. (2017), BLH and OLH; Lopuhaä-Zwakenberg et al. (2019), Example 7.4.

    Examples
    --------
    >>> protocol = LocalHashing(4, epsilon=1.0)
    >>> protocol.buckets
    4
    >>> protocol.rows(np.array([[7, 2]]), np.ones(1)).dense().round(3)
    array([[1., 1., 1., 1.]])
    """

    n_categories: int
    epsilon: float
    buckets: int | None = None
    family: str = "ldpbayes"
    name: ClassVar[str] = "local_hashing"
    report_fields: ClassVar[tuple[str, ...]] = ("seed", "value")

    def __post_init__(self):
        super().__post_init__()
        best = min(round(math.exp(self.epsilon)) + 1, hashing.MAX_BUCKETS)
        object.__setattr__(self, "buckets", hashing.check_buckets(best if self.buckets is None else self.buckets))
        checks.choice(self.family, "family", hashing.FAMILIES)

    @property
    def hit_rates(self):
        return self._bucket_protocol.hit_rates[0], 1 / self.buckets

    @property
    def support_sizes(self):
        return independent_sizes(self.n_categories, self.hit_rates)

    def ancillaries(self):
        def sizes(reports):
            return bits.sizes(hashing.supports(self.family, *reports.T, self.n_categories, self.buckets))

        g, h = self.hit_rates
        return (
            Ancillary("seeds", lambda reports: reports[:, 0], hashing.MAX_SEED),
            Ancillary("values", lambda reports: reports[:, 1], self.buckets),
            Ancillary("support sizes", sizes, self.n_categories + 1, mean=g + (self.n_categories - 1) * h),
        )

    def log_public_share(self):
        return -math.log(hashing.MAX_SEED)

    def check_reports(self, reports):
        return hashing.check_pairs(reports, "seed", hashing.MAX_SEED, self.buckets)

    def parse_reports(self, columns, categories):
        return hashing.parse_pairs(columns, "seed", hashing.MAX_SEED, self.buckets)

    def format_reports(self, reports, categories):
        return [[str(number) for number in column] for column in reports.T.tolist()]

    def supports(self):
        return Supports(self.beta, -math.log(self.buckets + self.beta), hashed=(self.family, self.buckets))

    def rows(self, reports, counts):
        support = hashing.supports(self.family, reports[:, 0], reports[:, 1], self.n_categories, self.buckets)
        return SupportRows(support, self.beta, counts, self.n_categories, -math.log(self.buckets + self.beta))

    def seed_channel(self, seed):
        """Return the dense channel given the seed, shape (g, a)."""
        values = np.arange(self.buckets)
        seed = checks.integer(seed, "seed", 0, hashing.MAX_SEED - 1)
        pairs = np.stack([np.full_like(values, seed), values], axis=1)
        rows = self.rows(pairs, np.ones(self.buckets))
        return np.exp(rows.log_constants)[:, None] * rows.dense()

    def privatize(self, values, rng):
        values = checks.values(values, self.n_categories)
        seeds = rng.integers(hashing.MAX_SEED, size=values.size)
        hashed = hashing.buckets(self.family, seeds, values, self.buckets)
        return np.stack([seeds, self._bucket_protocol.privatize(hashed, rng)], axis=1)

    def privatize_one(self, value):
        value = entropy.one_value(value, self.n_categories)
        seed = entropy.word(hashing.MAX_SEED.bit_length() - 1)
        return np.array([seed, self._bucket_protocol.privatize_one(self._hash(seed, value))])

    def rational_channel(self, seed=0):
        """Return the exact channel of privatize_one given its seed, as nested lists of Fraction, [value][category].

        The seed is drawn uniformly from 2^63, independently of the value. The realized ε is therefore the largest ε of
        this channel over seeds, which is that of the inner randomized response on buckets. Every seed that sends two
        categories to different buckets reaches it.
        """
        inner = self._bucket_protocol.rational_channel()
        return [[row[self._hash(seed, x)] for x in range(self.n_categories)] for row in inner]

    @cached_property
    def _bucket_protocol(self):
        return GRR(self.buckets, self.epsilon)

    def _hash(self, seed, value):
        # xxHash reads the decimal digits of a category: one category of every length is hashed besides, so that the work
        # does not depend on how many the value has.
        others = 10 ** np.arange(len(str(self.n_categories - 1)))
        return int(hashing.buckets(self.family, np.array([seed]), np.append(value, others), self.buckets)[0])
