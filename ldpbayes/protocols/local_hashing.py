"""Local hashing: each user draws a public seed, hashes the value with it and randomizes the bucket."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy, hashing
from ldpbayes.likelihoods import SupportRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import AbstractProtocol, Ancillary, Supports, independent_sizes
from ldpbayes.protocols.cohort_rr import MAX_MEETINGS, CohortRR, MeetingLaw
from ldpbayes.protocols.crafting import PairCrafting
from ldpbayes.protocols.formats import Numbers
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
    seeds : int, optional
        K, from 1 to 2^20: seeds are drawn from a pool of the public seeds 0 … K − 1. A collection is then a table of at
        most K g counts, for any number of users, at a loss of about (a − 1)/(K (g − 1)) of the reports, which
        ``seeds_for`` inverts. By default seeds are drawn from 2^63.

    Notes
    -----
    Reports are (m, 2) integers (seed, value), seeds below 2^63. pure-ldp and multi-freq-ldpy give (value, seed): reverse
    the columns.
    Without a pool the row constants and the log-evidence are those given the seeds, which say nothing about the value;
    hit rates are those over a uniform seed, P(hash(x) = hash(x')) = 1/g, true to a relative (g/2^32)² for our family. A
    tally of pairs then has no law simpler than its users, so ``simulate`` draws every user, vectorised.
    With a pool the chance that two categories share a bucket depends on the pair. There are no hit rates, and the oracle
    that assumes 1/g would be biased; the oracle here solves the least squares with the pool's own meetings, as
    ``CohortRR`` does, which this is with one cohort for each seed.

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
    seeds: int | None = None
    name: ClassVar[str] = "local_hashing"
    report_fields: ClassVar[tuple[str, ...]] = ("seed", "value")

    def __post_init__(self):
        super().__post_init__()
        best = min(round(math.exp(self.epsilon)) + 1, hashing.MAX_BUCKETS)
        object.__setattr__(self, "buckets", hashing.check_buckets(best if self.buckets is None else self.buckets))
        checks.choice(self.family, "family", hashing.FAMILIES)
        if self.seeds is not None:
            object.__setattr__(self, "seeds", checks.integer(self.seeds, "seeds", 1, hashing.MAX_BUCKETS))

    @property
    def hit_rates(self):
        """g and h over a uniform seed; None with a pool, where h depends on the pair of categories."""
        return (self._bucket_protocol.hit_rates[0], 1 / self.buckets) if self.seeds is None else None

    @property
    def support_sizes(self):
        return independent_sizes(self.n_categories, self.hit_rates) if self.seeds is None else None

    @property
    def n_outputs(self):
        return None if self._cohorts is None else self._cohorts.n_outputs

    def countable(self):
        return self.seeds is not None

    def all_reports(self):
        return super().all_reports() if self._cohorts is None else self._cohorts.all_reports()

    def identifying_matrix(self):
        return super().identifying_matrix() if self._cohorts is None else self._cohorts.identifying_matrix()

    def ancillaries(self):
        if self.seeds is not None:
            return (Ancillary("seeds", lambda reports: reports[:, 0], self.seeds),) if self.seeds > 1 else ()

        def sizes(reports):
            return bits.sizes(hashing.supports(self.family, *reports.T, self.n_categories, self.buckets))

        g, h = self.hit_rates
        return (
            Ancillary("seeds", lambda reports: reports[:, 0], hashing.MAX_SEED),
            Ancillary("values", lambda reports: reports[:, 1], self.buckets),
            Ancillary("support sizes", sizes, self.n_categories + 1, mean=g + (self.n_categories - 1) * h),
        )

    def decoder(self):
        """Return the decoder of the hit rates; with a pool, least squares with its meetings, where these are few."""
        if self._cohorts is None:
            return super().decoder()
        return self._cohorts.decoder() if self._few_meetings else None

    def report_law(self):
        if self._cohorts is None:
            return super().report_law()
        return self._cohorts.report_law() or (MeetingLaw(self._cohorts) if self._few_meetings else None)

    def log_public_share(self):
        return -math.log(hashing.MAX_SEED) if self.seeds is None else 0.0

    @property
    def report_format(self):
        return Numbers(self.report_fields, (self._n_seeds, self.buckets))

    def crafted(self, targets):
        if self._cohorts is not None:
            return self._cohorts.crafted(targets)
        return None if self.seeds is not None else PairCrafting(self.family, self.n_categories, self.buckets, targets)

    def supports(self):
        return Supports(self.beta, self._log_constant, hashed=(self.family, self.buckets))

    def rows(self, reports, counts):
        support = hashing.supports(self.family, reports[:, 0], reports[:, 1], self.n_categories, self.buckets)
        return SupportRows(support, self.beta, counts, self.n_categories, self._log_constant)

    def seed_channel(self, seed):
        """Return the dense channel given the seed, shape (g, a)."""
        values = np.arange(self.buckets)
        seed = checks.integer(seed, "seed", 0, self._n_seeds - 1)
        pairs = np.stack([np.full_like(values, seed), values], axis=1)
        rows = self.rows(pairs, np.ones(self.buckets))
        return np.exp(-math.log(self.buckets + self.beta)) * rows.dense()

    def privatize(self, values, rng) -> np.ndarray:
        values = checks.values(values, self.n_categories)
        rng = checks.generator(rng)
        pool = self.seeds is not None
        seeds = rng.integers(self._n_seeds, size=values.size) if pool else hashing.draw_seeds(values.size, rng)
        hashed = hashing.buckets(self.family, seeds, values, self.buckets)
        return np.stack([seeds, self._bucket_protocol.randomize(hashed, rng)], axis=1)

    def privatize_one(self, value):
        value = entropy.one_value(value, self.n_categories)
        seed = entropy.word(hashing.MAX_SEED.bit_length() - 1) if self.seeds is None else entropy.below(self.seeds)
        return np.array([seed, self._bucket_protocol.privatize_one(self._hash(seed, value))])

    def simulate(self, true_counts, rng):
        """Return (distinct reports, counts); with a pool in O(K (a + g)) for any number of users."""
        return super().simulate(true_counts, rng) if self._cohorts is None else self._cohorts.simulate(true_counts, rng)

    def rational_channel(self, seed=None):
        """Return the exact channel of privatize_one given its seed, as nested lists of Fraction, [value][category].

        With a pool and without a seed, the whole channel, [report][category]; otherwise the seed is 0 by default.

        The seed is drawn uniformly from 2^63, independently of the value. The realized ε is therefore the largest ε of
        this channel over seeds, which is that of the inner randomized response on buckets. Every seed that sends two
        categories to different buckets reaches it.
        """
        if seed is None and self._cohorts is not None:
            return self._cohorts.rational_channel()
        inner, seed = self._bucket_protocol.rational_channel(), seed or 0
        return [[row[self._hash(seed, x)] for x in range(self.n_categories)] for row in inner]

    @cached_property
    def _bucket_protocol(self):
        return GRR(self.buckets, self.epsilon)

    @cached_property
    def _cohorts(self):
        """The same channel with a cohort for each seed of the pool; None without a pool, or where its table is too large."""
        if self.seeds is None or self.seeds * self.n_categories > hashing.MAX_TABLE:
            return None
        return CohortRR(self.n_categories, self.epsilon, self.buckets, self.seeds, self.family)

    @property
    def _few_meetings(self):
        return self.seeds * self.n_categories**2 <= MAX_MEETINGS

    @property
    def _n_seeds(self):
        return hashing.MAX_SEED if self.seeds is None else self.seeds

    @property
    def _log_constant(self):
        """Logarithm of the least entry of a row, given the seed; with a pool the seed is part of the report."""
        return -math.log(self.buckets + self.beta) - (0.0 if self.seeds is None else math.log(self.seeds))

    def _hash(self, seed, value):
        # xxHash reads the decimal digits of a category: one category of every length is hashed besides, so that the work
        # does not depend on how many the value has.
        others = 10 ** np.arange(len(str(self.n_categories - 1)))
        return int(hashing.buckets(self.family, np.array([seed]), np.append(value, others), self.buckets)[0])


def pool_loss(n_categories, buckets, seeds):
    """Return by how much a pool of seeds raises the summed variance, relative to fresh seeds: γ/(1 − γ), roughly.

    γ = (a − 1)/(K (g − 1)) is how many numbers are asked for each one that the K seeds determine. This is the mean of the
    inverse eigenvalues of a random Gram matrix (Marchenko, Pastur 1967), within a few per cent of it at ε = 1 and a third
    at ε = 4; ``theory.risk.mle_risk`` gives the exact loss of a pool.

    Parameters
    ----------
    n_categories, buckets, seeds : int
        a, g and K.

    Returns
    -------
    float
        Infinite where the seeds cannot determine all shares.

    Examples
    --------
    >>> round(pool_loss(128, 4, 4096), 4)
    0.0104
    """
    ratio = (n_categories - 1) / (seeds * (buckets - 1))
    return ratio / (1 - ratio) if ratio < 1 else math.inf


def seeds_for(n_categories, buckets, loss=0.01):
    """Return the least power of two of seeds whose loss, by ``pool_loss``, is at most the one given.

    Parameters
    ----------
    n_categories, buckets : int
        a and g.
    loss : float
        Relative increase of the summed variance.

    Returns
    -------
    int

    Examples
    --------
    >>> seeds_for(128, 4, 0.02), seeds_for(128, 4, 0.002)
    (4096, 32768)
    """
    least = (n_categories - 1) * (1 + 1 / checks.positive(loss, "loss")) / (buckets - 1)
    return 2 ** math.ceil(math.log2(max(least, 1)))
