"""Likelihood rows: the one abstraction that estimators see.

A collection of reports is a matrix L (one row a distinct report, one column a category) with counts w; the
log-likelihood is Σ_j w_j [log_constant_j + log (L p)_j]. Kinds differ only in how they store and multiply L.
"""

import abc
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldpbayes.errors import InfeasibleError


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

    counts: np.ndarray
    log_constants: np.ndarray
    n_categories: int

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

    @abc.abstractmethod
    def dense(self):
        """Return L as an (n_rows, a) array; the twin that tests hold the fast kernels to."""

    def allocate(self, p, rng):
        """Return one draw of the true tallies T given p: Σ_j Multinomial(w_j, L_j∘p / (L p)_j), shape (a,)."""
        weights = self.dense() * p
        weights /= weights.sum(axis=1, keepdims=True)
        return rng.multinomial(self.counts.astype(np.int64), weights).sum(axis=0)

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


class DenseRows(Rows):
    """Any L, stored as it is.

    Parameters
    ----------
    matrix : (m, a) array
    counts : (m,) array
    log_constants : (m,) array or float
    """

    def __init__(self, matrix, counts, log_constants=0.0):
        self.matrix = np.ascontiguousarray(matrix, dtype=float)
        self.counts = np.asarray(counts, dtype=float)
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)
        self.n_categories = self.matrix.shape[1]

    def matvec(self, p):
        return self.matrix @ p

    def rmatvec(self, r):
        return self.matrix.T @ r

    def gram(self, v):
        return self.matrix.T @ (v[:, None] * self.matrix)

    def gram_diagonal(self, v):
        return np.einsum("jx,j,jx->x", self.matrix, v, self.matrix, optimize=True)

    def dense(self):
        return self.matrix

    def separable(self):
        """Detect rows with at most one coordinate that differs from the others (two categories: always)."""
        low, high = self.matrix.min(axis=1), self.matrix.max(axis=1)
        tolerance = 4 * np.finfo(float).eps * high
        at_low = (self.matrix - low[:, None] <= tolerance[:, None]).sum(axis=1)
        at_high = (high[:, None] - self.matrix <= tolerance[:, None]).sum(axis=1)
        up = at_low >= self.n_categories - 1
        down = ~up & (at_high >= self.n_categories - 1)
        if not (up | down).all():
            return None
        index = np.where(up, self.matrix.argmax(axis=1), self.matrix.argmin(axis=1))
        flat = at_low == self.n_categories
        base, slope = np.where(up, low, high), np.where(flat, 0.0, np.where(up, high - low, low - high))
        return Separable(index, base, slope, self.counts, self.log_constants)


class IdentityRows(Rows):
    """GRR: row j is 1 + β[x = index_j], times exp(log_constant). Every product is O(a).

    Parameters
    ----------
    index : (m,) int array
        The category that report j names.
    beta : float
        e^ε − 1.
    counts, log_constants : (m,) arrays or float
    n_categories : int
    """

    def __init__(self, index, beta, counts, n_categories, log_constants=0.0):
        self.index = np.asarray(index, dtype=np.int64)
        self.beta = float(beta)
        self.counts = np.asarray(counts, dtype=float)
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)
        self.n_categories = int(n_categories)

    def matvec(self, p):
        return p.sum(axis=0) + self.beta * p[self.index]

    def rmatvec(self, r):
        out = np.zeros((self.n_categories, *r.shape[1:]))
        np.add.at(out, self.index, r)
        return r.sum(axis=0) + self.beta * out

    def gram(self, v):
        hit = np.bincount(self.index, v, self.n_categories)
        cross = self.beta * hit
        return v.sum() + cross[:, None] + cross[None, :] + np.diag(self.beta**2 * hit)

    def gram_diagonal(self, v):
        return v.sum() + self.beta * (2 + self.beta) * np.bincount(self.index, v, self.n_categories)

    def dense(self):
        out = np.ones((self.n_rows, self.n_categories))
        out[np.arange(self.n_rows), self.index] += self.beta
        return out

    def allocate(self, p, rng):
        counts, named = self.counts.astype(np.int64), self.beta * p[self.index]
        truthful = rng.binomial(counts, named / (p.sum() + named))
        out = rng.multinomial(counts.sum() - truthful.sum(), p / p.sum())
        np.add.at(out, self.index, truthful)
        return out

    def support_counts(self):
        """Return C_x = Σ_j w_j [x in the support of report j], shape (a,)."""
        return np.bincount(self.index, self.counts, self.n_categories)

    def separable(self):
        ones = np.ones(self.n_rows)
        return Separable(self.index, ones, self.beta * ones, self.counts, self.log_constants)


class SupportRows(Rows):
    """Two-level rows: row j is 1 + β[x ∈ S_j], times exp(log_constant_j), with the supports S_j as packed bits.

    Unary encoding, subset selection, local hashing and Hadamard response are of this form (spec 1.1).

    Parameters
    ----------
    bits : (m, ⌈a/8⌉) uint8 array
        Supports as ``np.packbits(member, axis=1)`` gives them: category x is bit 7 − x mod 8 of byte ⌊x/8⌋, padding zero.
    beta : float
        e^ε − 1.
    counts : (m,) array
    n_categories : int
    log_constants : (m,) array or float
    """

    def __init__(self, bits, beta, counts, n_categories, log_constants=0.0):
        self.n_categories = int(n_categories)
        self.beta = float(beta)
        self.counts = np.asarray(counts, dtype=float)
        self.bits = np.ascontiguousarray(bits, dtype=np.uint8).reshape(len(self.counts), -(-self.n_categories // 8))
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)

    def matvec(self, p):
        hit = np.empty((self.n_rows, *p.shape[1:]))
        for part, members in self._blocks():
            hit[part] = members @ p
        return p.sum(axis=0) + self.beta * hit

    def rmatvec(self, r):
        return r.sum(axis=0) + self.beta * self._totals(r)

    def gram(self, v):
        pairs = np.zeros((self.n_categories, self.n_categories))
        for part, members in self._blocks():
            pairs += members.T @ (v[part, None] * members)
        cross = self.beta * pairs.diagonal()
        return v.sum() + cross[:, None] + cross[None, :] + self.beta**2 * pairs

    def gram_diagonal(self, v):
        return v.sum() + self.beta * (2 + self.beta) * self._totals(v)

    def dense(self):
        return 1 + self.beta * self.members(slice(None))

    def allocate(self, p, rng):
        out = np.zeros(self.n_categories, dtype=np.int64)
        for part, members in self._blocks():
            weights = (1 + self.beta * members) * p
            weights /= weights.sum(axis=1, keepdims=True)
            out += rng.multinomial(self.counts[part].astype(np.int64), weights).sum(axis=0)
        return out

    def support_counts(self):
        """Return C_x = Σ_j w_j [x in the support of report j], shape (a,)."""
        return self._totals(self.counts)

    def members(self, part):
        """Return the 0/1 membership matrix of the rows in the slice, float64, shape (rows, a)."""
        return np.unpackbits(self.bits[part], axis=1, count=self.n_categories).astype(float)

    def _totals(self, r):
        out = np.zeros((self.n_categories, *r.shape[1:]))
        for part, members in self._blocks():
            out += members.T @ r[part]
        return out

    def _blocks(self):
        size = max(1, 2**21 // self.n_categories)
        for start in range(0, self.n_rows, size):
            part = slice(start, start + size)
            yield part, self.members(part)


class StackedRows(Rows):
    """Rows of several channels over the same categories, one under the other.

    Parameters
    ----------
    parts : sequence of Rows
    """

    def __init__(self, parts):
        self.parts = tuple(parts)
        self.counts = np.concatenate([part.counts for part in self.parts])
        self.log_constants = np.concatenate([part.log_constants for part in self.parts])
        self.n_categories = self.parts[0].n_categories
        self._splits = np.cumsum([part.n_rows for part in self.parts])[:-1]

    def matvec(self, p):
        return np.concatenate([part.matvec(p) for part in self.parts])

    def rmatvec(self, r):
        return sum(part.rmatvec(piece) for part, piece in self._pieces(r))

    def gram(self, v):
        return sum(part.gram(piece) for part, piece in self._pieces(v))

    def gram_diagonal(self, v):
        return sum(part.gram_diagonal(piece) for part, piece in self._pieces(v))

    def dense(self):
        return np.concatenate([part.dense() for part in self.parts])

    def allocate(self, p, rng):
        return sum(part.allocate(p, rng) for part in self.parts)

    def separable(self):
        forms = [part.separable() for part in self.parts]
        if any(form is None for form in forms):
            return None
        fields = ("index", "base", "slope", "counts", "log_constants")
        return Separable(*(np.concatenate([getattr(form, name) for form in forms]) for name in fields))

    def _pieces(self, r):
        return zip(self.parts, np.split(r, self._splits), strict=True)


def require_separable(rows):
    """Return rows.separable(), or refuse with the reason."""
    form = rows.separable()
    if form is None:
        raise InfeasibleError(
            "The separable exact posterior needs reports that each single out one category (GRR, forced response, any "
            "two-category design); these reports weigh several categories differently. Use another method."
        )
    return form
