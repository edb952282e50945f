"""Decoders: the unbiased estimate of the frequencies that a protocol's reports allow, with its exact variance."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.protocols.constants import MAX_PRODUCTS

#: What an estimate aims at: the frequencies F of these very users, or the distribution P that they were drawn from.
TARGETS = ("frequency", "distribution")


class AbstractDecoder(abc.ABC):
    """The unbiased affine estimate of F (and of P) from the likelihood rows of a protocol's reports.

    Attributes
    ----------
    n_categories : int
    rank : int
        How many independent numbers the estimate determines; the oracle exists where it is n_categories.
    """

    n_categories: int
    rank: int

    @abc.abstractmethod
    def oracle(self, rows) -> np.ndarray:
        """Return the unbiased estimate of F and of P, shape (a,); entries may be negative.

        Parameters
        ----------
        rows : Rows
            Likelihood rows of the protocol's reports, with their counts.

        Raises
        ------
        ArgumentError
            Where rank is below n_categories; the MLE and the posterior remain.
        """

    @abc.abstractmethod
    def variance(self, p, n, target="frequency") -> np.ndarray:
        """Return the exact variance of each coordinate of the oracle at n users, shape (a,).

        Parameters
        ----------
        p : (a,) array
            The true frequencies (target "frequency": reports vary, users fixed) or distribution (users vary too).
        n : int
        target : {"frequency", "distribution"}

        Raises
        ------
        ArgumentError
            Where rank is below n_categories, or p is not a distribution.
        """

    def scores(self, rows, weights) -> np.ndarray | None:
        """Return what the report of every row adds to the estimate of Σ_x w_x F_x, shape (m,); None where that is not known.

        The estimate is the mean of the scores over the users.

        Parameters
        ----------
        rows : Rows
        weights : (a,) array
            w.
        """
        return None

    def linear_system(self, reports, counts) -> tuple[np.ndarray, np.ndarray] | None:
        """Return (channel, shares of all its reports) where several tallies can be solved together, else None.

        The joint least-squares solution of several channels needs only their joint rank.
        """
        return None

    def _require_rank(self, design, has):
        """Raise the ArgumentError of ``oracle`` where the design lacks rank."""
        if self.rank < self.n_categories:
            raise ArgumentError(
                f"The oracle needs {design} of rank {self.n_categories}, {has} rank {self.rank}; use the MLE or a posterior."
            )

    def _checked(self, p, target):
        checks.choice(target, "target", TARGETS)
        return checks.distribution(p, "p", self.n_categories)


@dataclass(frozen=True)
class SupportDecoder(AbstractDecoder):
    """F̂_x = (C_x/n − h)/(g − h), with C_x the reports whose support holds x.

    The support of a report holds the true value with probability g and each other value with probability h. ``noise`` has
    the variances of one user's support for the value and for any other category, where a user's support is a mean.
    """

    n_categories: int
    hit: float
    miss: float
    noise: tuple[float, float] | None = None

    @property
    def rank(self):
        """All categories: g is above h."""
        return self.n_categories

    def oracle(self, rows):
        return (rows.support_counts() / rows.n_reports - self.miss) / (self.hit - self.miss)

    def scores(self, rows, weights):
        sums = rows.support_sums(weights)
        return None if sums is None else (sums - self.miss * weights.sum()) / (self.hit - self.miss)

    def variance(self, p, n, target="frequency"):
        """Return [p V_g + (1 − p) V_h] / (n (g − h)²) with V = g(1 − g) unless stated; for P, p(1 − p)/n more."""
        p, (g, h) = self._checked(p, target), (self.hit, self.miss)
        true, other = (g * (1 - g), h * (1 - h)) if self.noise is None else self.noise
        sampling = p * (1 - p) if target == "distribution" else 0.0
        return ((p * true + (1 - p) * other) / (g - h) ** 2 + sampling) / n


@dataclass(frozen=True, eq=False)
class MatrixDecoder(AbstractDecoder):
    """F̂ = M S/n with the weighted least-squares inverse M = (Qᵀ D⁻¹ Q)⁻¹ Qᵀ D⁻¹ of an explicit channel, D = diag(Q 1/a).

    The plain inverse where Q is square.

    Attributes
    ----------
    matrix : (b, a) array
        Q.
    tally : callable, optional
        Reports, counts -> counts of all b reports.
    """

    matrix: np.ndarray
    tally: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of columns of the matrix."""
        return self.matrix.shape[1]

    @cached_property
    def rank(self):
        """Numerical rank of the matrix."""
        return int(np.linalg.matrix_rank(self.matrix))

    @cached_property
    def inverse(self):
        """M, shape (a, b)."""
        scale, orthogonal, upper = self._factors
        return np.linalg.solve(upper, orthogonal.T * scale)

    def oracle(self, rows):
        # The rows alone suffice: report y adds M_y = (Qᵀ D⁻¹ Q)⁻¹ Q_y / mean(Q_y), in which a row's scale cancels.
        likelihoods = rows.dense()
        return self.solved((rows.counts / likelihoods.mean(axis=1)) @ likelihoods / rows.n_reports)

    def scores(self, rows, weights):
        if self.rank < self.n_categories:
            return None
        likelihoods = rows.dense()
        return likelihoods @ self.solved(weights) / likelihoods.mean(axis=1)

    def solved(self, right):
        """Return (Qᵀ D⁻¹ Q)⁻¹ times a vector, or the columns of a matrix."""
        _, _, upper = self._factors
        return np.linalg.solve(upper, np.linalg.solve(upper.T, right))

    def covariance(self, p, n, target="frequency"):
        """Return the exact covariance of the oracle, M C Mᵀ / n, shape (a, a).

        C = diag(q) − Q diag(p) Qᵀ for F, diag(q) − q qᵀ for P, q = Qp.
        """
        p = self._checked(p, target)
        mean = self.matrix @ p
        spread = np.outer(mean, mean) if target == "distribution" else (self.matrix * p) @ self.matrix.T
        return self.inverse @ (np.diag(mean) - spread) @ self.inverse.T / n

    def variance(self, p, n, target="frequency"):
        return np.diag(self.covariance(p, n, target))

    def linear_system(self, reports, counts):
        return None if self.tally is None else (self.matrix, self.tally(reports, counts) / np.sum(counts))

    @cached_property
    def _factors(self):
        """(diagonal of D^(−1/2), the QR decomposition of D^(−1/2) Q): normal equations would square its condition number."""
        self._require_rank("a channel", "this one has")
        mixed = self.matrix.mean(axis=1)
        scale = np.divide(1.0, np.sqrt(mixed), out=np.zeros_like(mixed), where=mixed > 0)
        return scale, *np.linalg.qr(scale[:, None] * self.matrix)


@dataclass(frozen=True, eq=False)
class DesignDecoder(AbstractDecoder):
    """Least squares of the bits of reports on a design: X p = (C N/n − off)/(on − off), unbiased where X has full rank.

    A user belongs to one of C cohorts, in each of which a category sets some bits; a report has every bit of its cohort,
    one with probability on where the value sets it and else off. X stacks the bits of all cohorts, N counts the ones. Bits
    are independent given the value, or a report has exactly one (``exclusive``). By the normal equations
    XᵀX p = (C XᵀN/n − off Xᵀ1)/(on − off).

    Attributes
    ----------
    protocol : AbstractProtocol
        It has ``cohorts``, ``rates`` (on, off), ``meetings`` XᵀX, ``set_bits`` Xᵀ1, ``incidences()``, which yields the rows
        of X, of independent bits one cohort after the other, and ``design_words`` for messages.
    exclusive : bool
    per_report : int
        Where a report is one of so many bits, each as likely; N is multiplied by their number.

    References
    ----------
    Kairouz, Bonawitz, Ramage (2016), (22), for cohorts of randomized response.
    """

    protocol: Any
    exclusive: bool = False
    per_report: int = 1

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of candidates."""
        return self.protocol.n_categories

    @property
    def rank(self):
        """Rank of the design."""
        return int(self._spectrum[2].sum())

    def least_squares(self, rows):
        """Return the least-squares solution, of least norm where the design lacks rank; it may be negative.

        Parameters
        ----------
        rows : Rows
        """
        values, vectors, nonzero = self._spectrum
        on, off = self.protocol.rates
        share = self._scale * rows.support_counts() / rows.n_reports
        right = (share - off * self.protocol.set_bits) / (on - off)
        return vectors[:, nonzero] @ (vectors[:, nonzero].T @ right / values[nonzero])

    def oracle(self, rows):
        self._require_small()
        return self.least_squares(rows)

    def scores(self, rows, weights):
        values, vectors, nonzero = self._spectrum
        if not nonzero.all():
            return None
        on, off = self.protocol.rates
        turned = vectors @ ((vectors.T @ weights) / values) / (on - off)
        sums = rows.support_sums(turned)
        sums = rows.hit_sums(turned) if sums is None else sums  # categories of several bits
        return self._scale * sums - off * (self.protocol.set_bits @ turned)

    def variance(self, p, n, target="frequency"):
        """Return the exact variance of each coordinate of the oracle at n reports, shape (a,).

        A report of cohort c with the bits y adds A_c y, A_c = C/(on − off) (XᵀX)⁻¹ X_cᵀ. Its mean square is that over the
        cohorts of Σ_b A_b² E y_b for one bit, and of Σ_b A_b² Var y_b + (A E y)² for independent ones; its mean given the
        value x is the unit vector of x and the same shift s = off (XᵀX)⁻¹ Xᵀ1/(on − off) for all.
        """
        p, protocol = self._checked(p, target), self.protocol
        self._require_small()
        (on, off), (values, vectors, _) = protocol.rates, self._spectrum
        inverse = (vectors / values) @ vectors.T / (on - off)
        square = np.zeros(self.n_categories)
        for bits in protocol.incidences():
            decoder = protocol.cohorts * (bits @ inverse)
            share = bits @ p
            if self.exclusive:
                square += self.per_report * ((off + (on - off) * share) @ decoder**2)
            else:
                square += (off * (1 - off) + (on * (1 - on) - off * (1 - off)) * share) @ decoder**2
                square += (decoder.T @ (off + (on - off) * bits)) ** 2 @ p
        shift = off * (inverse @ protocol.set_bits)
        squared_mean = p * (1 + 2 * shift) + shift**2 if target == "frequency" else (p + shift) ** 2
        return (square / protocol.cohorts - squared_mean) / n

    @property
    def _scale(self):
        return self.per_report * self.protocol.cohorts

    @cached_property
    def _spectrum(self):
        """(eigenvalues, eigenvectors, which are not zero) of XᵀX."""
        values, vectors = np.linalg.eigh(self.protocol.meetings)
        return values, vectors, values > values[-1] * self.n_categories * np.finfo(float).eps

    def _require_small(self):
        cohorts, a, (design, content) = self.protocol.cohorts, self.n_categories, self.protocol.design_words
        if cohorts * a**2 > MAX_PRODUCTS:
            raise InfeasibleError(
                f"The oracle of {cohorts:,} cohorts and {a:,} categories takes more than {MAX_PRODUCTS:,} multiplications; "
                "use the MLE or a posterior."
            )
        self._require_rank(design, f"these {cohorts} cohorts of {content} have")


def needed_decoder(protocol: Any) -> AbstractDecoder:
    """Return a protocol's decoder, or raise the ArgumentError that it has none."""
    decoder = protocol.decoder()
    if decoder is None:
        raise ArgumentError(f"The oracle is not defined for {protocol.name}; use the MLE or a posterior.")
    return decoder
