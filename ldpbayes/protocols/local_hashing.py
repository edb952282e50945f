"""Local hashing: each user draws a public seed, hashes the value with it and randomizes the bucket."""

import dataclasses
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks, hashing
from ldpbayes.likelihoods import SupportRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import Ancillary, Rated, RatedForm, Supports, independent_sizes
from ldpbayes.protocols.cohort_rr import MAX_MEETINGS, AbstractCohorts, AbstractMapped
from ldpbayes.protocols.crafting import PairCrafting


class AbstractHashing(AbstractMapped):
    """Cohorts whose maps are hash functions with the cohort for a seed.

    Attributes
    ----------
    family : {"ldpbayes", "xxhash"}
    """

    family: Any

    def __post_init__(self):
        super().__post_init__()
        best = min(round(math.exp(self.epsilon)) + 1, hashing.MAX_BUCKETS)
        object.__setattr__(self, "buckets", hashing.check_buckets(best if self.buckets is None else self.buckets))
        checks.choice(self.family, "family", hashing.FAMILIES)

    def rows(self, reports, counts):
        support = hashing.supports(self.family, *reports.T, self.n_categories, self.buckets)
        return SupportRows(support, self.beta, counts, self.n_categories, self.supports().per_report)

    def rated(self):
        return RatedForm(self._of_rates, lambda on, off: replace(self, epsilon=math.log(on / off)))

    def _of_rates(self, reports):
        hits = np.unpackbits(
            hashing.supports(self.family, *reports.T, self.n_categories, self.buckets), axis=1, count=self.n_categories
        )
        return Rated(hits, hits, np.ones(len(reports)), 1)

    def mapped(self, seeds, values):
        return hashing.buckets(self.family, seeds, values, self.buckets)

    def bucket(self, seed, value):
        return hashing.bucket_of_one(self.family, seed, value, self.n_categories, self.buckets)


@dataclass(frozen=True)
class LocalHashing(AbstractHashing):
    """Many categories and short reports: GRR of the value's hash under a public seed.

    The report is (seed, value), value = GRR_g(hash_seed(x)) with a uniform public seed.

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
    the columns. In a collection file the parameter seeds states a pool of them: ``PooledHashing``.
    The row constants and the log-evidence are those given the seeds, which say nothing about the value;
    hit rates are those over a uniform seed, P(hash(x) = hash(x')) = 1/g, true to a relative (g/2^32)² for our family. A
    tally of pairs then has no law simpler than its users, so ``simulate`` draws every user, vectorized.

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
    file_parameters: ClassVar[str] = "epsilon, buckets=None, family='ldpbayes', seeds=None"
    cohorts = hashing.MAX_SEED  # every seed is one

    def supports(self):
        return Supports(self.beta, -math.log(self.buckets + self.beta), hashed=(self.family, self.buckets))

    @property
    def hit_rates(self):
        """g and h over a uniform seed."""
        return self._bucket_protocol.hit_rates[0], 1 / self.buckets

    @property
    def support_sizes(self):
        return independent_sizes(self.n_categories, self.hit_rates)

    def ancillaries(self):
        def sizes(reports):
            return bits.sizes(hashing.supports(self.family, *reports.T, self.n_categories, self.buckets))

        g, h = self.hit_rates
        return (
            Ancillary("seeds", lambda reports: reports[:, 0], self.cohorts),
            Ancillary("values", lambda reports: reports[:, 1], self.buckets),
            Ancillary("support sizes", sizes, self.n_categories + 1, mean=g + (self.n_categories - 1) * h),
        )

    def log_public_share(self):
        return -math.log(self.cohorts)

    def crafted(self, targets):
        return PairCrafting(self.family, self.n_categories, self.buckets, targets)

    def draw_cohorts(self, size, rng):
        return hashing.draw_seeds(size, rng)

    def rational_channel(self, seed=0):
        """Return the exact channel of privatize_one given its seed, as nested lists of Fraction, [value][category].

        The seed is drawn uniformly from 2^63, independently of the value. The realized ε is therefore the largest ε of
        this channel over seeds, which is that of the inner randomized response on buckets. Every seed that sends two
        categories to different buckets reaches it.
        """
        inner = self._bucket_protocol.rational_channel()
        return [[row[self.bucket(seed, x)] for x in range(self.n_categories)] for row in inner]

    @classmethod
    def from_parameters(cls, categories, parameters):
        parameters = dict(parameters)
        if parameters.get("seeds") is not None:
            return PooledHashing.from_parameters(categories, parameters)
        parameters.pop("seeds", None)
        return super().from_parameters(categories, parameters)


@dataclass(frozen=True)
class PooledHashing(AbstractHashing, AbstractCohorts):
    """Local hashing whose seeds come from a pool of public ones, 0 … K − 1: ``CohortRR`` with a cohort for each seed.

    A collection is a table of at most K g counts, for any number of users, at a loss of about (a − 1)/(K (g − 1)) of the
    reports, which ``seeds_for`` inverts.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon : float
        LDP level in nats, in [1e-9, 50].
    buckets, family : optional
        As for ``LocalHashing``.
    seeds : int
        K, from 1 to 2^20.

    Notes
    -----
    The chance that two categories share a bucket depends on the pair. There are no hit rates, and the oracle that assumes
    1/g would be biased; the oracle here solves the least squares with the pool's own meetings.

    Examples
    --------
    >>> PooledHashing(4, epsilon=1.0, seeds=64).n_outputs
    256
    """

    n_categories: int
    epsilon: float
    buckets: int | None = None
    family: str = "ldpbayes"
    seeds: int = dataclasses.field(kw_only=True)
    name: ClassVar[str] = LocalHashing.name
    registered: ClassVar[bool] = False
    report_fields: ClassVar[tuple[str, ...]] = LocalHashing.report_fields

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "seeds", checks.integer(self.seeds, "seeds", 1, hashing.MAX_BUCKETS))

    @property
    def cohorts(self):
        """K: every seed is a cohort."""
        return self.seeds

    @cached_property
    def table(self):
        """Bucket of every category under every seed, shape (K, a)."""
        return hashing.buckets(self.family, np.arange(self.seeds)[:, None], np.arange(self.n_categories), self.buckets)

    @property
    def n_outputs(self):
        return super().n_outputs if self._has_table else None

    def countable(self):
        return True

    def supports(self):
        per_report = -math.log(self.seeds) - math.log(self.buckets + self.beta)
        return Supports(self.beta, per_report, hashed=(self.family, self.buckets))

    def identifying_matrix(self):
        return super().identifying_matrix() if self._has_table else self.channel()

    @cached_property
    def _decoder(self):
        return super()._decoder if self._few_meetings else None

    def report_law(self):
        return super().report_law() or (self.meeting_law() if self._few_meetings else None)

    def crafted(self, targets):
        return super().crafted(targets) if self._has_table else None

    @property
    def _has_table(self):
        return self.seeds * self.n_categories <= hashing.MAX_TABLE

    @property
    def _few_meetings(self):
        return self._has_table and self.seeds * self.n_categories**2 <= MAX_MEETINGS


def pool_loss(n_categories, buckets, seeds):
    """Return by how much a pool of seeds raises the summed variance, relative to fresh seeds: γ/(1 − γ), roughly.

    γ = (a − 1)/(K (g − 1)) is how many numbers are asked for each one that the K seeds determine. This is the mean of the
    inverse eigenvalues of a random Gram matrix (Marchenko, Pastur 1967), within a few per cent of it at ε = 1 and a third
    at ε = 4; ``planning.risk.mle_risk`` gives the exact loss of a pool.

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
