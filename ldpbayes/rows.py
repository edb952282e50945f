"""Likelihood rows: the one abstraction that estimators see.

A collection of reports is a matrix L (one row a distinct report, one column a category) with counts w; the
log-likelihood is Σ_j w_j [log_constant_j + log (L p)_j]. Kinds differ only in how they store and multiply L.
"""

import abc
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldpbayes.errors import InfeasibleError

#: Entries up to which packed supports are kept unpacked: below, products are faster than loading the compiled kernels.
SMALL = 2**16
#: Members are listed where fewer than one category in this many is in a support: then a list is shorter than the bits,
#: and a pass over it takes 10–40 ms for a million reports over 1,024 categories, where byte tables take 130.
SPARSE = 20
#: Members of every byte value: _BYTES[b, k] = bit 7 − k of b.
_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(float)


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


class TwoLevelRows(Rows):
    """Rows 1 + β[x ∈ S_j], times exp(log_constant_j): kinds differ in how they hold the supports S_j (spec 1.1).

    Attributes
    ----------
    beta : float
        e^ε − 1.
    """

    def __init__(self, beta, counts, n_categories, log_constants):
        self.beta = float(beta)
        self.counts = np.asarray(counts, dtype=float)
        self.n_categories = int(n_categories)
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)

    @abc.abstractmethod
    def support_sums(self, p):
        """Return p(S_j) = Σ_{x ∈ S_j} p_x for p of shape (a,) or (a, k)."""

    @abc.abstractmethod
    def support_totals(self, r):
        """Return Σ_j r_j [x ∈ S_j] for r of shape (n_rows,) or (n_rows, k): the transpose of support_sums."""

    def support_counts(self):
        """Return C_x = Σ_j w_j [x ∈ S_j], shape (a,)."""
        return self.support_totals(self.counts)

    def noise_floor(self):
        return np.ones(self.n_rows)

    def matvec(self, p):
        return p.sum(axis=0) + self.beta * self.support_sums(p)

    def rmatvec(self, r):
        return r.sum(axis=0) + self.beta * self.support_totals(r)

    def gram_diagonal(self, v):
        return v.sum() + self.beta * (2 + self.beta) * self.support_totals(v)

    def square_matvec(self, p):
        return p.sum() + self.beta * (2 + self.beta) * self.support_sums(p)


class IdentityRows(TwoLevelRows):
    """GRR: S_j = {index_j}. Every product is O(a).

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
        super().__init__(beta, counts, n_categories, log_constants)
        self.index = np.asarray(index, dtype=np.int64)

    def support_sums(self, p):
        return p[self.index]

    def support_totals(self, r):
        return _scatter(self.index, r, self.n_categories)

    def gram(self, v):
        hit = np.bincount(self.index, v, self.n_categories)
        cross = self.beta * hit
        return v.sum() + cross[:, None] + cross[None, :] + np.diag(self.beta**2 * hit)

    def dense(self):
        out = np.ones((self.n_rows, self.n_categories))
        out[np.arange(self.n_rows), self.index] += self.beta
        return out

    @property
    def allocation_seconds(self):
        return 1e-7 * self.n_categories

    def signal(self, p, rng):
        named = self.beta * p[self.index]
        truthful = rng.binomial(self.counts.astype(np.int64), named / (p.sum() + named))
        out = np.zeros(self.n_categories, dtype=np.int64)
        np.add.at(out, self.index, truthful)
        return out

    def separable(self):
        ones = np.ones(self.n_rows)
        return Separable(self.index, ones, self.beta * ones, self.counts, self.log_constants)


class SupportRows(TwoLevelRows):
    """Supports as packed bits: unary encoding, subset selection, local hashing.

    Sums over supports are byte tables: 256 partial sums for each byte column, looked up (kernels.py); sparse supports list
    their members beside the bits. Small matrices are unpacked and multiplied instead, so that they load no compiler;
    matrices of several columns go through BLAS in blocks.

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
        super().__init__(beta, counts, n_categories, log_constants)
        self.bits = np.ascontiguousarray(bits, dtype=np.uint8).reshape(self.n_rows, -(-self.n_categories // 8))

    @property
    def _is_small(self):
        return self.n_rows * self.n_categories <= SMALL

    def support_sums(self, p):
        if p.ndim == 1 and not self._is_small:
            if self._listed:
                return _kernels().sparse_sums(*self._listed, p)
            return _kernels().look_up(self.bits, self._tables(p))
        out = np.empty((self.n_rows, *p.shape[1:]))
        for part, members in self._blocks(p.size // self.n_categories):
            np.matmul(members, p, out=out[part])
        return out

    def support_totals(self, r):
        if r.ndim == 1 and not self._is_small:
            r = np.ascontiguousarray(r, dtype=float)
            if self._listed:
                return _kernels().sparse_totals(*self._listed, r, self.n_categories)
            return self._fold(_kernels().add_up(self.bits, r))
        out = np.zeros((self.n_categories, *r.shape[1:]))
        for part, members in self._blocks():
            out += members.T @ r[part]
        return out

    def gram(self, v):
        """Return L.T @ diag(v) @ L; m a² multiplications in BLAS, halved where v ≥ 0, memory bounded."""
        pairs = np.zeros((self.n_categories, self.n_categories))
        for part, members in self._blocks():
            if v.min() >= 0:
                scaled = np.sqrt(v[part])[:, None] * members
                pairs += scaled.T @ scaled
            else:
                pairs += members.T @ (v[part, None] * members)
        cross = self.beta * pairs.diagonal()
        return v.sum() + cross[:, None] + cross[None, :] + self.beta**2 * pairs

    def dense(self):
        return 1 + self.beta * self._members(slice(None))

    def value_and_gradient(self, p):
        """Return Σ w log(L p) (without constants) and its gradient L.T (w / L p), reading the bits once."""
        if self._is_small:
            return super().value_and_gradient(p)
        if self._listed:
            value, ratio_sum, totals = _kernels().sparse_value_and_totals(*self._listed, p, self.beta, self.counts)
            return value, ratio_sum + self.beta * totals
        value, ratio_sum, histograms = _kernels().value_and_histograms(
            self.bits, self._tables(p), p.sum(), self.beta, self.counts
        )
        return value, ratio_sum + self.beta * self._fold(histograms)

    def log_likelihood(self, p):
        """Return log P(Y | p) for p of shape (a,) or (a, k); k draws in blocks of rows, without an (m, k) array."""
        if p.ndim == 1 or self._is_small:
            return super().log_likelihood(p)
        out = np.full(p.shape[1], self.log_constant)
        total = p.sum(axis=0)
        for part, members in self._blocks(p.shape[1]):
            u = members @ p
            u *= self.beta
            u += total
            out += _log_sum(u, self.counts[part])
        return out

    @property
    def allocation_seconds(self):
        return 4e-8 * self.n_reports

    def signal(self, p, rng):
        if self._is_small:
            return super().signal(p, rng)
        kernels = _kernels()
        p = p / p.sum()
        # Few rows can stand for many users each: those are one multinomial a row.
        repeats = self.counts.astype(np.int64)
        crowded = repeats > self.n_categories
        out = np.zeros(self.n_categories, dtype=np.int64)
        if crowded.any():
            part = SupportRows(self.bits[crowded], self.beta, self.counts[crowded], self.n_categories)
            out += Rows.signal(part, p, rng)
            repeats[crowded] = 0
        if self._listed:
            return out + kernels.sparse_signal(*self._listed, repeats, self.beta, p, rng)
        return out + kernels.signal(self.bits, repeats, self.beta, p, *kernels.alias_table(p), rng)

    def _members(self, part):
        """Return the 0/1 membership matrix of a slice of rows, float64."""
        return np.unpackbits(self.bits[part], axis=1, count=self.n_categories).astype(float)

    @cached_property
    def _listed(self):
        """(starts, members) where the supports are sparse, else None; decided on rows spread over the whole."""
        sample = self.bits[:: -(-self.n_rows // 4096)]
        if np.bitwise_count(sample).sum(dtype=np.int64) * SPARSE > sample.shape[0] * self.n_categories:
            return None
        return _kernels().list_members(self.bits, np.empty(0, np.uint16 if self.n_categories <= 2**16 else np.uint32))

    @cached_property
    def _all_members(self):
        return self._members(slice(None))

    def _blocks(self, n_columns=1):
        """Yield (slice of rows, their membership matrix); with n_columns numbers a row beside it, 16 MB at a time."""
        if self._is_small:
            yield slice(None), self._all_members
            return
        size = max(1, 2**21 // max(self.n_categories, n_columns))
        for start in range(0, self.n_rows, size):
            part = slice(start, start + size)
            yield part, self._members(part)

    def _tables(self, p):
        """Return the sum of p over the members of every byte value at every byte column, shape (⌈a/8⌉, 256)."""
        padded = np.zeros(8 * self.bits.shape[1])
        padded[: self.n_categories] = p
        return padded.reshape(-1, 8) @ _BYTES.T

    def _fold(self, histograms):
        """Return the totals by category of totals by byte value, the transpose of _tables."""
        return (histograms @ _BYTES).ravel()[: self.n_categories]


class HadamardRows(TwoLevelRows):
    """Hadamard response: S_j = {x : H_K[x + 1, index_j] = +1}. Every product is a fast Walsh–Hadamard transform.

    Parameters
    ----------
    index : (m,) int array
        The Hadamard column that report j names, 0..K−1 with K the least power of two above a.
    beta : float
        e^ε − 1.
    counts, log_constants : (m,) arrays or float
    n_categories : int
    """

    def __init__(self, index, beta, counts, n_categories, log_constants=0.0):
        super().__init__(beta, counts, n_categories, log_constants)
        self.index = np.asarray(index, dtype=np.int64)
        self.order = 2 ** self.n_categories.bit_length()

    def support_sums(self, p):
        padded = np.zeros((self.order, *p.shape[1:]))
        padded[1 : self.n_categories + 1] = p
        return (p.sum(axis=0) + walsh_hadamard(padded)[self.index]) / 2

    def support_totals(self, r):
        return (r.sum(axis=0) + self._transform(r)[1 : self.n_categories + 1]) / 2

    def gram(self, v):
        """Return L.T @ diag(v) @ L in O(K log K + a²): H[x, y] H[x', y] = H[x ⊕ x', y]."""
        transform, middle, half = self._transform(v), 1 + self.beta / 2, self.beta / 2
        place = np.arange(1, self.n_categories + 1)
        single = middle * half * transform[place]
        pairs = half**2 * transform[place[:, None] ^ place[None, :]]
        return middle**2 * transform[0] + single[:, None] + single[None, :] + pairs

    def dense(self):
        return self._packed.dense()

    def signal(self, p, rng):
        return self._packed.signal(p, rng)

    def _transform(self, r):
        """Return Σ_j r_j H[·, index_j], shape (K, …)."""
        return walsh_hadamard(_scatter(self.index, r, self.order))

    @cached_property
    def _packed(self):
        common = self.index[:, None] & np.arange(1, self.n_categories + 1)
        bits = np.packbits(np.bitwise_count(common) % 2 == 0, axis=1)
        return SupportRows(bits, self.beta, self.counts, self.n_categories, self.log_constants)


class SeparableRows(Rows):
    """Rows base_j Σp + slope_j p[index_j] of a composite likelihood: no row is a user, so none can be allocated.

    Parameters
    ----------
    index : (m,) int array
    base, slope : (m,) arrays
        base ≥ 0 and base + slope ≥ 0; slope may be negative.
    counts, log_constants : (m,) arrays or float
    n_categories : int
    """

    def __init__(self, index, base, slope, counts, n_categories, log_constants=0.0):
        self.index = np.asarray(index, dtype=np.int64)
        self.base, self.slope = np.asarray(base, dtype=float), np.asarray(slope, dtype=float)
        self.counts = np.asarray(counts, dtype=float)
        self.n_categories = int(n_categories)
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)

    def matvec(self, p):
        column = (slice(None), *(None,) * (p.ndim - 1))
        return self.base[column] * p.sum(axis=0) + self.slope[column] * p[self.index]

    def rmatvec(self, r):
        column = (slice(None), *(None,) * (r.ndim - 1))
        return (self.base[column] * r).sum(axis=0) + _scatter(self.index, self.slope[column] * r, self.n_categories)

    def gram(self, v):
        cross = _scatter(self.index, v * self.base * self.slope, self.n_categories)
        diagonal = _scatter(self.index, v * self.slope**2, self.n_categories)
        return v @ self.base**2 + cross[:, None] + cross[None, :] + np.diag(diagonal)

    def gram_diagonal(self, v):
        return v @ self.base**2 + _scatter(self.index, v * self.slope * (2 * self.base + self.slope), self.n_categories)

    def dense(self):
        out = np.repeat(self.base[:, None], self.n_categories, axis=1)
        out[np.arange(self.n_rows), self.index] += self.slope
        return out

    @property
    def allocation_seconds(self):
        return 1e-7 * (self.n_rows + self.n_categories)

    def signal(self, p, rng):
        raise InfeasibleError("A composite likelihood counts bits, not users: it has no true tallies to draw.")

    def separable(self):
        return Separable(self.index, self.base, self.slope, self.counts, self.log_constants)


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

    def square_matvec(self, p):
        return np.concatenate([part.square_matvec(p) for part in self.parts])

    def gram_diagonal(self, v):
        return sum(part.gram_diagonal(piece) for part, piece in self._pieces(v))

    def dense(self):
        return np.concatenate([part.dense() for part in self.parts])

    @property
    def allocation_seconds(self):
        return sum(part.allocation_seconds for part in self.parts)

    def signal(self, p, rng):
        return sum(part.signal(p, rng) for part in self.parts)

    def log_likelihood(self, p):
        return sum(part.log_likelihood(p) for part in self.parts)

    def value_and_gradient(self, p):
        values, gradients = zip(*(part.value_and_gradient(p) for part in self.parts), strict=True)
        return sum(values), sum(gradients)

    def separable(self):
        forms = [part.separable() for part in self.parts]
        if any(form is None for form in forms):
            return None
        fields = ("index", "base", "slope", "counts", "log_constants")
        return Separable(*(np.concatenate([getattr(form, name) for form in forms]) for name in fields))

    def _pieces(self, r):
        return zip(self.parts, np.split(r, self._splits), strict=True)


class LevelRows(Rows):
    """Rows that take few values: L_jx = values[levels_jx]; Bloom-filter reports, one byte an entry.

    Parameters
    ----------
    levels : (m, a) uint8 array
    values : (k,) array
        Above zero.
    counts : (m,) array
    hits : (k,) array
        How many bits of a category a report of that level holds, for support_counts.
    log_constants : (m,) array or float
    """

    def __init__(self, levels, values, counts, hits, log_constants=0.0):
        self.levels = np.ascontiguousarray(levels, dtype=np.uint8)
        self.values, self.hits = np.asarray(values, dtype=float), np.asarray(hits, dtype=float)
        self.counts = np.asarray(counts, dtype=float)
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)
        self.n_categories = self.levels.shape[1]

    def matvec(self, p):
        return self._matvec(self.values, p)

    def square_matvec(self, p):
        return self._matvec(self.values**2, p)

    def rmatvec(self, r):
        return self._rmatvec(self.values, r)

    def gram(self, v):
        return sum(block.T @ (v[part, None] * block) for part, block in self._blocks(self.values))

    def gram_diagonal(self, v):
        return self._rmatvec(self.values**2, v)

    def dense(self):
        return self.values[self.levels]

    def signal(self, p, rng):
        return sum(
            DenseRows(block, self.counts[part]).signal(p, rng).astype(np.int64) for part, block in self._blocks(self.values)
        )

    def support_counts(self):
        """Return Σ_j w_j hits[levels_jx], shape (a,): how many bits of category x all reports hold."""
        return self._rmatvec(self.hits, self.counts)

    def _matvec(self, values, p):
        return np.concatenate([block @ p for _, block in self._blocks(values)])

    def _rmatvec(self, values, r):
        return sum(block.T @ r[part] for part, block in self._blocks(values))

    def _blocks(self, values):
        size = max(1, 2**20 // self.n_categories)
        for start in range(0, self.n_rows, size):
            part = slice(start, start + size)
            yield part, values[self.levels[part]]


def require_separable(rows):
    """Return rows.separable(), or refuse with the reason."""
    form = rows.separable()
    if form is None:
        raise InfeasibleError(
            "The separable exact posterior needs reports that each single out one category (GRR, forced response, any "
            "two-category design); these reports weigh several categories differently. Use another method."
        )
    return form


def walsh_hadamard(x):
    """Return H_K @ x for x of shape (K, …), K a power of two, H_K[i, j] = (−1)^{popcount(i & j)}; O(K log K)."""
    out = np.array(x, dtype=float)
    span = 1
    while span < len(out):
        pairs = out.reshape(-1, 2, span, *out.shape[1:])
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(out.shape)
        span *= 2
    return out


def _kernels():
    """Return the compiled kernels, loaded by the first large product."""
    from ldpbayes import kernels

    return kernels


def _scatter(index, r, size):
    """Return Σ_j r_j [index_j = x] for r of shape (m,) or (m, k), shape (size, …)."""
    if r.ndim == 1:
        return np.bincount(index, r, size)
    out = np.zeros((size, *r.shape[1:]))
    np.add.at(out, index, r)
    return out


def _log_sum(u, counts):
    """Return counts @ log(u); where every count is one, the logarithms are of products of eight rows."""
    with np.errstate(divide="ignore"):
        if (counts == 1).all():
            # A row is at most 1 + β ≤ e^50 and at least about 1: eight of them stay within range.
            whole = len(u) - len(u) % 8
            products = np.multiply.reduce(u[:whole].reshape(-1, 8, u.shape[1]), axis=1)
            return np.log(products).sum(axis=0) + np.log(u[whole:]).sum(axis=0)
        return counts @ np.log(u)
