"""The interface of likelihood rows, and the separable form that the exact posterior asks for."""

import abc
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldpbayes.errors import InfeasibleError


class Rows(abc.ABC):
    """L (n_rows × n_categories, non-negative) with counts.

    Attributes
    ----------
    counts : (n_rows,) float array
        How many users sent the report of row j; above zero.
    log_constants : (n_rows,) float array
        Factors of the report's probability that do not depend on p: P(report j | p) = exp(log_constants_j) (L p)_j.
    n_categories : int
    """

    def __init__(self, counts, n_categories, log_constants):
        self.counts = np.asarray(counts, dtype=float)
        self.n_categories = int(n_categories)
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)

    @abc.abstractmethod
    def matvec(self, p):
        """Return L @ p for p of shape (a,) or (a, k)."""

    @abc.abstractmethod
    def rmatvec(self, r):
        """Return L.T @ r for r of shape (n_rows,) or (n_rows, k)."""

    @abc.abstractmethod
    def gram(self, v):
        """Return L.T @ diag(v) @ L, shape (a, a)."""

    @abc.abstractmethod
    def gram_diagonal(self, v):
        """Return the diagonal of L.T @ diag(v) @ L, shape (a,)."""

    def square_matvec(self, p):
        """Return (L∘L) @ p for p of shape (a,)."""
        return self.dense() ** 2 @ p

    @abc.abstractmethod
    def dense(self):
        """Return L as an (n_rows, a) array; the twin that tests hold the fast kernels to."""

    def signal(self, p, rng):
        """Return one draw of the signal tallies k given p, shape (a,): the users whose report says something about them.

        With f = noise_floor(), a user of report j is *noise* with weight f_j Σp and *signal* of category x with weight
        (L_jx − f_j) p_x. Given k, p ~ Dirichlet(α + k): noise users need no category (spec 2.4).
        """
        dense, floor = self.dense(), self.noise_floor()[:, None]
        weights = np.concatenate([(dense - floor) * p, floor * p.sum()], axis=1)
        weights /= weights.sum(axis=1, keepdims=True)
        return rng.multinomial(self.counts.astype(np.int64), weights).sum(axis=0)[:-1]

    def noise_floor(self):
        """Return the part of every row that is the same for all categories, shape (n_rows,)."""
        return self.dense().min(axis=1)

    def allocate(self, p, rng):
        """Return one draw of the true tallies T given p: Σ_j Multinomial(w_j, L_j∘p / (L p)_j), shape (a,).

        Signal users take their category, noise users any one by p.
        """
        signal = self.signal(p, rng)
        return signal + rng.multinomial(int(self.n_reports) - signal.sum(), p / p.sum())

    @property
    def allocation_seconds(self):
        """Predicted time of one call of allocate() on one core."""
        return 2e-8 * self.n_rows * self.n_categories + 4e-8 * float(np.minimum(self.counts, self.n_categories).sum())

    def separable(self):
        """Return the Separable form of these rows, or None where some row looks at several coordinates."""
        return None

    @property
    def n_rows(self):
        """Number of distinct reports."""
        return len(self.counts)

    @property
    def n_reports(self):
        """Number of users, Σ_j w_j."""
        return float(self.counts.sum())

    @cached_property
    def log_constant(self):
        """Σ_j w_j log_constants_j."""
        return float(self.counts @ self.log_constants)

    def log_likelihood(self, p):
        """Return log P(Y | p) (ordered reports: no multinomial coefficient) for p of shape (a,) or (a, k)."""
        with np.errstate(divide="ignore"):
            return self.log_constant + self.counts @ np.log(self.matvec(p))

    def value_and_gradient(self, p):
        """Return Σ w log(L p) (without constants) and its gradient L.T (w / L p)."""
        u = self.matvec(p)
        with np.errstate(divide="ignore"):
            return float(self.counts @ np.log(u)), self.rmatvec(self.counts / u)


@dataclass(frozen=True, eq=False)
class Separable:
    """Rows that each look at one coordinate: (L p)_j = base_j + slope_j p[index_j] for p on the simplex.

    Attributes
    ----------
    index : (m,) int array
        The coordinate of row j.
    base, slope : (m,) float arrays
        base ≥ 0 and base + slope ≥ 0; slope may be negative.
    counts, log_constants : (m,) float arrays
        Report counts and the row constants log c_j, so that log P(report j) = log c_j + log(base + slope p).
    """

    index: np.ndarray
    base: np.ndarray
    slope: np.ndarray
    counts: np.ndarray
    log_constants: np.ndarray


def require_separable(rows):
    """Return rows.separable(), or refuse with the reason."""
    form = rows.separable()
    if form is None:
        raise InfeasibleError(
            "The separable exact posterior needs reports that each single out one category (GRR, forced response, any "
            "two-category design); these reports weigh several categories differently. Use another method."
        )
    return form


def scatter(index, r, size):
    """Return Σ_j r_j [index_j = x] for r of shape (m,) or (m, k), shape (size, …)."""
    if r.ndim == 1:
        return np.bincount(index, r, size)
    out = np.zeros((size, *r.shape[1:]))
    np.add.at(out, index, r)
    return out
