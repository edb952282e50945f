"""Cohort randomized response (O-RR): each user belongs to one of C cohorts, each with its own map to k buckets."""

import abc
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks, entropy, hashing
from ldpbayes.arrays import blocks
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.likelihoods import SupportRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import MAX_CHANNEL_ENTRIES, AbstractProtocol, Ancillary
from ldpbayes.protocols.constants import MAX_MEETINGS
from ldpbayes.protocols.decoding import DesignDecoder
from ldpbayes.protocols.formats import Numbers
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.labels import check_order
from ldpbayes.protocols.laws import SupportLaw
from ldpbayes.protocols.respondents import Uniform

ASSIGNMENTS = ("permutation", "label", "xxhash", "ldpbayes")
#: Time: Up to so many buckets a product of matrices counts meetings faster than comparisons do.
_FEW_BUCKETS = 16


class AbstractMapped(AbstractProtocol):
    """Reports (cohort, value): the cohort is public and uniform, and value = GRR_k(map_cohort(x)).

    Attributes
    ----------
    buckets, cohorts : int
        k and C.
    """

    buckets: Any
    cohorts: Any

    @property
    def report_format(self):
        return Numbers(self.report_fields, (self.cohorts, self.buckets))

    @abc.abstractmethod
    def mapped(self, cohorts, values):
        """Return the buckets of values, each in its cohort."""

    @abc.abstractmethod
    def bucket(self, cohort, value):
        """Return the bucket of one value in a cohort; the work is the same for every value."""

    def draw_cohorts(self, size, rng):
        """Return so many uniform cohorts, drawn with a numpy Generator."""
        return rng.integers(self.cohorts, size=size)

    def randomize(self, values, rng):
        cohorts = self.draw_cohorts(values.size, rng)
        return np.stack([cohorts, self._bucket_protocol.randomize(self.mapped(cohorts, values), rng)], axis=1)

    def randomize_one(self, value):
        cohort = entropy.below(self.cohorts)
        return np.array([cohort, self._bucket_protocol.privatize_one(self.bucket(cohort, value))])

    @cached_property
    def _bucket_protocol(self):
        return GRR(self.buckets, self.epsilon)


class AbstractCohorts(AbstractMapped):
    """Cohorts that are so few that their maps are a table.

    Attributes
    ----------
    table : (C, S) int array
        Buckets of every category in every cohort, map_c(x).
    """

    table: Any

    # ---- reports -----------------------------------------------------------------------------------------------------
    @property
    def n_outputs(self):
        n_pairs = self.cohorts * self.buckets
        return n_pairs if n_pairs <= hashing.MAX_TABLE else None

    def list_reports(self):
        pairs = np.indices((self.cohorts, self.buckets)).reshape(2, -1)
        return np.ascontiguousarray(pairs.T)

    def ancillaries(self):
        cohorts = Ancillary(f"{self.report_fields[0]}s", lambda reports: reports[:, 0], self.cohorts)
        return (cohorts,) if self.cohorts > 1 else ()

    # ---- server ------------------------------------------------------------------------------------------------------
    def rows(self, reports, counts):
        packed = np.empty((len(reports), bits.width(self.n_categories)), dtype=np.uint8)
        for part in blocks(len(reports), self.n_categories, bits.BLOCK):
            cohort, value = reports[part, 0], reports[part, 1]
            packed[part] = np.packbits(self.table[cohort] == value[:, None], axis=1)
        log_constant = -math.log(self.cohorts) - math.log(self.buckets + self.beta)
        return SupportRows(packed, self.beta, counts, self.n_categories, log_constant)

    def identifying_matrix(self):
        """Return H, or HᵀH where that is smaller: it has the same null space."""
        if self.cohorts * self.buckets <= self.n_categories:
            return np.concatenate([self._indicators(part).toarray() for part in self._blocks()])
        if self.n_categories**2 > MAX_CHANNEL_ENTRIES or self.cohorts * self.n_categories**2 > MAX_MEETINGS:
            raise InfeasibleError(f"{self.name} with {self.n_categories} categories is too large to check for rank.")
        return self.meetings

    def meeting_law(self):
        """Return the law of the support counts, expectation (1 + β M p)/(k + β): M_xx' is the share of cohorts that meet."""
        total = self.buckets + self.beta
        return SupportLaw(self, lambda p: (1 + self.beta * (self.meetings @ p / self.cohorts)) / total)

    # ---- client ------------------------------------------------------------------------------------------------------
    def mapped(self, cohorts, values):
        return self.table.ravel().take(cohorts * self.n_categories + values)

    def bucket(self, cohort, value):
        return int(self.table[cohort, value])

    def draw_reports(self, true_counts, rng):
        """Return (every report, counts): a multinomial over cohorts for each category, then a GRR tally for each cohort."""
        if self.n_outputs is None or self.cohorts * self.n_categories > hashing.MAX_TABLE:
            return super().draw_reports(true_counts, rng)
        spread = rng.multinomial(true_counts, np.full(self.cohorts, 1 / self.cohorts)).T
        hashed = np.zeros((self.cohorts, self.buckets), dtype=np.int64)
        np.add.at(hashed, (np.arange(self.cohorts)[:, None], self.table), spread)
        truthful = rng.binomial(hashed, self.beta / (self.buckets + self.beta))
        uniform = rng.multinomial((hashed - truthful).sum(axis=1), np.full(self.buckets, 1 / self.buckets))
        return self.all_reports(), (truthful + uniform).ravel()

    # ---- inside ------------------------------------------------------------------------------------------------------
    @cached_property
    def meetings(self):
        """HᵀH, shape (S, S): its entries count the cohorts where two maps meet."""
        meetings = np.zeros((self.n_categories, self.n_categories))
        few = min(self.buckets, self.n_categories) <= _FEW_BUCKETS
        for part in self._blocks():
            indicators = self._indicators(part).toarray() if few else self._indicators(part)
            meetings += indicators.T @ indicators  # sums of ones are exact in single precision below 2^24
        return meetings

    @cached_property
    def _places(self):
        """Buckets of every category, counting a cohort's buckets that have one, below min(k, S); shape (C, S)."""
        if self.buckets <= self.n_categories:
            return self.table
        from scipy.stats import rankdata

        return rankdata(self.table, method="dense", axis=1).astype(np.int64) - 1

    @cached_property
    def _decoder(self):
        return DesignDecoder(self, exclusive=True)

    rates = property(lambda self: self._bucket_protocol.hit_rates)
    set_bits = property(lambda self: np.full(self.n_categories, self.cohorts))
    design_words = property(lambda self: ("a design", f"{self.buckets} buckets"))

    def incidences(self):
        """Yield the rows of H of some cohorts, sparse; rows of buckets without a category may be left out."""
        yield from map(self._indicators, self._blocks())

    def _blocks(self):
        """Return slices of cohorts whose indicators fit in a block."""
        return blocks(self.cohorts, min(self.buckets, self.n_categories) * self.n_categories, bits.BLOCK)

    def _indicators(self, part):
        """Return the rows of H of some cohorts, sparse (cohorts min(k, S), S); rows of buckets without a category are 0."""
        import scipy.sparse

        places = self._places[part]
        size = min(self.buckets, self.n_categories)
        rows = (np.arange(len(places))[:, None] * size + places).ravel()
        columns = np.tile(np.arange(self.n_categories), len(places))
        shape = len(places) * size, self.n_categories
        return scipy.sparse.csr_array((np.ones(rows.size, dtype=np.float32), (rows, columns)), shape=shape)


@dataclass(frozen=True)
class CohortRR(AbstractCohorts):
    """Words of an open vocabulary: GRR of their hash values, in cohorts (O-RR).

    The report is (cohort, value), the cohort uniform and value = GRR_k(map_cohort(x)).

    Q[(c, y), x] = (1 + β[map_c(x) = y]) / (C (k + β)), β = e^ε − 1.

    Parameters
    ----------
    n_categories : int
        Size S of the alphabet or of the set of candidates, at least two.
    epsilon : float
        LDP level in nats, in [1e-9, 50].
    buckets, cohorts : int
        k ≥ 2 and C ≥ 1. All S categories can be identified only if C(k − 1) + 1 ≥ S; see ``decoder().rank``.
    assignment : {"permutation", "label", "xxhash", "ldpbayes"}
        How a cohort maps categories to buckets. "permutation" (closed alphabet): position in the cohort's own permutation,
        mod k, so that buckets are filled evenly. "label" (open alphabet): hash of the candidate string; anyone may report
        any string, and only candidates are estimated. "xxhash": xxh32(str(category), seed=cohort) mod k, which is fast
        local hashing as pure-ldp does it. "ldpbayes": our hash of the category, with the cohort as seed; see
        ``LocalHashing``.
    candidates : sequence of str, optional
        The strings of "label"; in a collection file, the categories' labels unless stated.
    seed : int
        Seed of the permutations or of the hash functions, from 0 to 2^63 − 1; part of the protocol.

    Notes
    -----
    Reports are (m, 2) integers (cohort, value), both counted from zero. The oracle is the least-squares decoder of the
    paper, unbiased when the design matrix H has full column rank; ``decoder().least_squares`` also answers when it has not.
    Tallies have a known law: users of a category spread over cohorts multinomially and each cohort is a GRR, so
    ``simulate`` costs O(C (S + k)) for any number of users.

    References
    ----------
    Kairouz, Bonawitz, Ramage (2016), §5.1 and (19)–(22), App. G.

    Examples
    --------
    >>> protocol = CohortRR(4, epsilon=1.0, buckets=2, cohorts=3)
    >>> protocol.n_outputs, protocol.decoder().rank
    (6, 4)
    """

    n_categories: int
    epsilon: float
    buckets: int
    cohorts: int
    assignment: str = "permutation"
    candidates: tuple[str, ...] | None = None
    seed: int = 0
    name: ClassVar[str] = "cohort_rr"
    report_fields: ClassVar[tuple[str, ...]] = ("cohort", "value")

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "buckets", hashing.check_buckets(self.buckets))
        object.__setattr__(self, "cohorts", hashing.check_cohorts(self.cohorts))
        hashing.check_table(self.cohorts, self.n_categories)
        checks.choice(self.assignment, "assignment", ASSIGNMENTS)
        object.__setattr__(self, "seed", checks.integer(self.seed, "seed", 0, hashing.MAX_SEED - 1))
        if self.assignment != "label" and self.candidates is not None:
            raise ArgumentError(f'candidates must be left out unless assignment is "label", got {self.assignment!r}.')
        if self.assignment == "label":
            object.__setattr__(self, "candidates", hashing.check_labels(self.candidates, self.n_categories))

    @cached_property
    def table(self):
        """Buckets of every category in every cohort, map_c(x), shape (C, S)."""
        if self.assignment == "permutation":
            table = hashing.permutations(self.seed, self.cohorts, self.n_categories) % self.buckets
        elif self.assignment == "label":
            table = self._label_buckets(self.candidates)
        else:
            cohorts, categories = np.arange(self.cohorts)[:, None], np.arange(self.n_categories)[None, :]
            table = hashing.buckets(self.assignment, cohorts, categories, self.buckets)
        table.setflags(write=False)
        return table

    @property
    def default_labels(self):
        return self.candidates or super().default_labels

    def check_categories(self, categories):
        check_order(categories, self.candidates or (), f"candidates of {self.name}")

    def unlisted(self):
        # A random word is in any bucket, so that its report is uniform.
        return Uniform() if self.assignment == "label" else None

    def privatize_label(self, label):
        """Return the report of any string, a candidate or not, from the operating system's entropy ("label" only)."""
        if self.assignment != "label":
            raise ArgumentError(f'privatize_label needs assignment "label", got {self.assignment!r}.')
        cohort = entropy.below(self.cohorts)
        bucket = int(self._label_buckets([entropy.one_label(label)])[cohort, 0])
        return np.array([cohort, self._bucket_protocol.privatize_one(bucket)])

    # ---- parameters --------------------------------------------------------------------------------------------------
    @classmethod
    def from_parameters(cls, categories, parameters):
        if parameters.get("assignment") == "label":
            parameters = {"candidates": tuple(categories)} | parameters
        return super().from_parameters(categories, parameters)

    def _label_buckets(self, labels):
        seeds = hashing.derive(self.seed, np.arange(self.cohorts))
        return hashing.key_buckets(seeds[:, None], hashing.label_keys(labels)[None, :], self.buckets)
