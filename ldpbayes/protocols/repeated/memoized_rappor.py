"""RAPPOR with both stages: a user's permanent Bloom filter, and any number of instantaneous reports on it."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import entropy
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.attributes import listed_decoder
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.formats import split_cohorts
from ldpbayes.protocols.rappor import Rappor, filters
from ldpbayes.protocols.repeated import memoized_bits
from ldpbayes.protocols.repeated.histories import Rates, check_times, constant, every_history


@dataclass(frozen=True)
class MemoizedRappor(memoized_bits.AbstractMemoizedBits):
    """RAPPOR(p, q, f) over Bloom filters, with all reports of a user: one cohort, one permanent filter, T reports on it.

    Given the cohort c the bits are independent, so that L_x ∝ Π_{j ∈ B_c(x)} ρ(c_j) with c_j the ones of bit j among T
    reports and ρ as for ``MemoizedUnary`` with κ = 1 − f/2, λ = f/2, r = q, s = p.

    Parameters
    ----------
    protocol : Rappor
        The filters and p, q, f.
    times : int, or pairs (int, int), optional
        How many reports a user sends, or the law of that number; see ``AbstractHistories``.

    Notes
    -----
    A history is the cohort, T and the ones of every bit: in a file the columns "cohort", "times" and "ones". In long data a
    report is that of ``Rappor``, and a user keeps one cohort. A file's parameters are those of rappor, and times.

    References
    ----------
    Erlingsson, Pihur, Korolova (2014), §3 and Theorem 1; docs/theory/repeated.md for the rows.

    Examples
    --------
    >>> protocol = MemoizedRappor(Rappor.direct(3, p=0.25, q=0.75, f=0.5), times=4)
    >>> round(protocol.spent(1), 3), round(protocol.spent(4), 3), round(protocol.epsilon_infinity, 3)
    (1.022, 2.133, 2.197)
    """

    protocol: Rappor
    times: tuple[tuple[int, int], ...] | None = None
    name: ClassVar[str] = "memoized_rappor"
    report_fields: ClassVar[tuple[str, ...]] = ("cohort", "times", "ones")
    file_parameters: ClassVar[str] = "those of rappor; times"
    n_leading: ClassVar[int] = 2

    def __post_init__(self):
        if not isinstance(self.protocol, AbstractProtocol) or self.protocol.name != Rappor.name:
            raise ArgumentError(f"protocol must be a Rappor, got {type(self.protocol).__name__}.")
        object.__setattr__(self, "times", check_times(self.times))

    @property
    def n_categories(self):
        return self.protocol.n_categories

    # ---- levels --------------------------------------------------------------------------------------------------------
    @property
    def epsilon_infinity(self):
        return self.protocol.epsilon_longitudinal

    @property
    def epsilon_one(self):
        return self.protocol.epsilon_one_time

    def level_ratio(self, times):
        ratio = super().level_ratio(times)
        return None if ratio is None else ratio**self.protocol.hashes

    def rates(self):
        return Rates(*self.stages) if self.protocol.assignment == "direct" else None

    # ---- reports -------------------------------------------------------------------------------------------------------
    @property
    def n_bits(self):
        return self.protocol.n_bits

    @property
    def leading_fields(self):
        return (("cohort", self.protocol.cohorts), *super().leading_fields)

    @property
    def single(self):
        return self.protocol

    def gather(self, reports, user, names):
        cohorts, packed = split_cohorts(reports)
        cohorts = constant(
            cohorts,
            user,
            names,
            lambda name, one, other: f"user {name!r} has reports in two cohorts, {other} and {one}; a user keeps one cohort",
        )
        ones = memoized_bits.sums_by_user(packed, user, len(names), self.protocol.n_bits)
        return np.column_stack([cohorts, np.bincount(user, minlength=len(names)), ones])

    def list_histories(self, times):
        ones = every_history([times + 1] * self.protocol.n_bits)
        if ones is None or len(ones) * self.protocol.cohorts > 2**16:
            return None
        cohorts = np.repeat(np.arange(self.protocol.cohorts), len(ones))
        return np.column_stack([cohorts, np.full(len(cohorts), times), np.tile(ones, (self.protocol.cohorts, 1))])

    # ---- server --------------------------------------------------------------------------------------------------------
    @property
    def stages(self):
        half = self.protocol.f / 2
        return 1 - half, half, self.protocol.q, self.protocol.p

    @property
    def log_public(self):
        return -math.log(self.protocol.cohorts)

    def sums(self, histories, values):
        out = np.zeros((len(histories), self.n_categories), dtype=values.dtype)
        values = np.column_stack([values, np.zeros(len(values), dtype=values.dtype)])  # position −1, of a repeated bit
        for c, users in filters.by_cohort(histories[:, 0]):
            for positions in self.protocol.table[c]:
                out[users] += values[np.ix_(users, positions)]
        return out

    def has_full_rank(self):
        return self.protocol.has_full_rank()

    def identifying_matrix(self):
        return self.protocol.identifying_matrix()

    def decoder(self):
        if self.rates() is not None or self.times is None:
            return super().decoder()
        return listed_decoder(self)

    # ---- client --------------------------------------------------------------------------------------------------------
    def permanent(self, values, rng):
        rappor = self.protocol
        cohorts = rng.integers(rappor.cohorts, size=values.size)
        members = np.zeros((values.size, rappor.n_bits + 1), dtype=bool)
        for j in range(rappor.hashes):
            members[np.arange(values.size), rappor.table[cohorts, j, values]] = True
        return [cohorts], members[:, :-1] ^ (rng.random((values.size, rappor.n_bits)) < rappor.f / 2), None

    def draw_one(self, value, times):
        cohorts, packed = split_cohorts(self.protocol.permanent_one(value)[None])
        members = np.unpackbits(packed[0], count=self.protocol.n_bits).tolist()
        *_, on, off = self._exact
        on, off = (int(rate * 2**entropy.BITS) for rate in (on, off))
        return np.concatenate([cohorts, [times], memoized_bits.count_ones(members, times, on, off)])

    @property
    def _exact(self):
        flip, p, q = self.protocol.realized_stages
        return 1 - flip, flip, q, p

    # ---- parameters ----------------------------------------------------------------------------------------------------
    def parameters(self):
        out = super().parameters()
        del out["protocol"]
        return self.protocol.parameters() | out

    @classmethod
    def from_parameters(cls, categories, parameters):
        parameters = dict(parameters)
        times = parameters.pop("times", None)
        try:
            return cls(Rappor.from_parameters(categories, parameters), times)
        except ArgumentError as err:
            raise ArgumentError(str(err).replace("rappor ", f"{cls.name} ", 1)) from None
