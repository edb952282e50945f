"""Report laws: the counts by which reports of a protocol are compared with what a distribution predicts."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ldpbayes.protocols.formats import places


class AbstractReportLaw(abc.ABC):
    """A vector of counts that summarizes reports, its expectation at a distribution, and fresh draws of it.

    Attributes
    ----------
    kind : {"list", "supports", "bits"}
        What is counted: every possible report, the reports whose support holds a category, or set bits.
    """

    kind: ClassVar[str]

    @abc.abstractmethod
    def tally(self, reports, counts) -> np.ndarray:
        """Return the counts of distinct reports, shape (m,)."""

    @abc.abstractmethod
    def expected(self, p) -> np.ndarray:
        """Return the expectation per user at a distribution (a,) or at several (a, k), shape (m,) or (m, k)."""

    @abc.abstractmethod
    def simulate(self, true_counts, rng) -> np.ndarray:
        """Return the counts of a fresh population with these true counts, shape (m,)."""


@dataclass(frozen=True)
class ListLaw(AbstractReportLaw):
    """Counts of every possible report, in the order of ``all_reports``: a multinomial at Q p."""

    protocol: object
    kind: ClassVar[str] = "list"

    def tally(self, reports, counts):
        every = self.protocol.all_reports()
        return np.bincount(places(every, reports), counts, len(every))

    def expected(self, p):
        every = self.protocol.all_reports()
        rows = self.protocol.rows(every, np.ones(len(every)))
        chances = rows.matvec(p)
        scale = np.broadcast_to(np.exp(rows.log_constants), len(every))
        return chances * (scale[:, None] if chances.ndim == 2 else scale)

    def simulate(self, true_counts, rng):
        return self.tally(*self.protocol.simulate(true_counts, rng))


@dataclass(frozen=True)
class SupportLaw(AbstractReportLaw):
    """Counts of the reports whose support holds each category.

    Attributes
    ----------
    protocol : AbstractProtocol
    expectation : callable
        Distribution (a,) or distributions (a, k) -> the expectation per user: h + (g − h) p where there are hit rates.
    """

    protocol: Any
    expectation: Callable[[np.ndarray], np.ndarray]
    kind: ClassVar[str] = "supports"

    @classmethod
    def of_rates(cls, protocol, hit, miss):
        """Return the law of a protocol with hit rates."""
        return cls(protocol, lambda p: miss + (hit - miss) * p)

    def tally(self, reports, counts):
        seen = counts > 0
        return self.protocol.rows(reports[seen], counts[seen]).support_counts()

    def expected(self, p):
        return self.expectation(np.asarray(p))

    def simulate(self, true_counts, rng):
        return self.protocol.simulate_support_counts(true_counts, rng)


@dataclass(frozen=True)
class BitLaw(AbstractReportLaw):
    """Counts of set bits of Bloom filters, cohort by cohort: expectation (p* + (q* − p*) X p)/C per user.

    Attributes
    ----------
    protocol : Rappor
    unlisted : bool
        Whether one more category has filters of h bits drawn at random for each of its people.
    """

    protocol: Any
    unlisted: bool = False
    kind: ClassVar[str] = "bits"

    def incidences(self):
        """Yield how likely each category sets each bit, (k, a), of every cohort."""
        for filters in self.protocol.incidences():
            yield np.column_stack([filters, np.full(len(filters), 1 - self._missed(1))]) if self.unlisted else filters

    def _missed(self, number):
        """Return the chance that h bits drawn with replacement are none of so many."""
        return (1 - number / self.protocol.n_bits) ** self.protocol.hashes

    def tally(self, reports, counts):
        return self.protocol.bit_counts(reports, counts)[0].ravel()

    def expected(self, p):
        on, off = self.protocol.rates
        return (off + (on - off) * (np.concatenate(list(self.incidences())) @ np.asarray(p))) / self.protocol.cohorts

    def simulate(self, true_counts, rng):
        protocol, a = self.protocol, self.protocol.n_categories
        counts = protocol.simulate_bit_counts(true_counts[:a], rng)[0].ravel()
        if self.unlisted:
            reports = protocol.unlisted().draw(protocol, int(true_counts[a]), rng)
            counts = counts + self.tally(reports, np.ones(len(reports), dtype=np.int64))
        return counts

    def residuals(self, reports, counts, p):
        """Return the shares of set bits less those at p, and the filters (q* − p*) X, both with unit covariance at p.

        Bits are independent given the value: Cov = diag(E Var) + (q* − p*)² X (diag p − p pᵀ) Xᵀ in a cohort.
        """
        (totals, sizes), (on, off) = self.protocol.bit_counts(reports, counts), self.protocol.rates
        out = []
        for filters, ones, n in zip(self.incidences(), totals, sizes, strict=True):
            moved, held = (on - off) * filters, filters @ p
            covariance = np.diag(off * (1 - off) * (1 - held) + on * (1 - on) * held)
            covariance += (moved * p) @ moved.T - np.outer(moved @ p, moved @ p)
            if self.unlisted:  # two bits of one filter are dependent: P(both) is not the square of P(one)
                one, k = 1 - self._missed(1), len(filters)
                both = np.full((k, k), 1 - 2 * self._missed(1) + self._missed(2))
                np.fill_diagonal(both, one)
                covariance += (on - off) ** 2 * p[-1] * (both - one**2)
            shares = np.column_stack([ones / n - off - moved @ p, moved])
            out.append(np.linalg.solve(np.linalg.cholesky(covariance / n), shares))
        stacked = np.concatenate(out)
        return stacked[:, 0], stacked[:, 1:]
