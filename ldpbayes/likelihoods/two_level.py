"""Rows of two levels, 1 + β[x ∈ S_j]: single categories (GRR), packed supports, and halves from a Hadamard matrix."""

import abc
import math
from functools import cached_property

import numpy as np

from ldpbayes.arrays import as_words, blocks
from ldpbayes.likelihoods.base import SMALL, AbstractSampler, Rows, Separable, scatter
from ldpbayes.likelihoods.constants import FACTORS, PRODUCTS
from ldpbayes.likelihoods.expansion import FLOOR, Sums, gaussian_nodes
from ldpbayes.likelihoods.kinds import COMPILED, DenseSampler

#: Time: Members are listed where fewer than one category in this many is in a support: then a list is shorter than the
#: bits, and a pass over it takes 10–40 ms for a million reports over 1,024 categories, where byte tables take 130.
SPARSE = 20
#: Time: Columns up to which sums over packed supports are by byte tables, a pass each: unpacking them takes as long as
#: thirty.
FEW_COLUMNS = 24
#: Time: Draws from which the log-likelihood of all of them is taken around their mean, in products of single precision.
FEW_DRAWS = 12
#: Mathematics: Draws under which some report is less than this times as probable as under the mean of the draws, or one
#: over this times more, are taken one by one in double precision.
NEAR = 1 / 8


class TwoLevelRows(Rows):
    """Rows 1 + β[x ∈ S_j], times exp(log_constant_j): kinds differ in how they hold the supports S_j.

    Attributes
    ----------
    beta : float
        e^ε − 1.
    """

    entry_work = 0.05

    def __init__(self, beta, counts, n_categories, log_constants):
        super().__init__(counts, n_categories, log_constants)
        self.beta = float(beta)

    @abc.abstractmethod
    def support_totals(self, r):
        """Return Σ_j r_j [x ∈ S_j] for r of shape (n_rows,) or (n_rows, k): the transpose of support_sums."""

    def support_counts(self):
        return self.support_totals(self.counts)

    def matvec(self, p, power=1):
        out = self.support_sums(p)
        out *= self._excess(power)  # in place: pages of a new array take as long as the sums
        out += p.sum(axis=0)
        return out

    def rmatvec(self, r, power=1):
        return r.sum(axis=0) + self._excess(power) * self.support_totals(r)

    def _excess(self, power):
        """Return (1 + β)^power − 1: powers of such rows are such rows."""
        return self.beta if power == 1 else math.expm1(power * math.log1p(self.beta))


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
        return scatter(self.index, r, self.n_categories)

    def gram(self, v):
        hit = np.bincount(self.index, v, self.n_categories)
        cross = self.beta * hit
        return v.sum() + cross[:, None] + cross[None, :] + np.diag(self.beta**2 * hit)

    def written(self, part):
        return 1 + self.beta * (self.index[part, None] == np.arange(self.n_categories))

    def closed_form(self):
        """Return the MLE under GRR: p_x = max(0, (s_x/S_A)(|A|/β + 1) − 1/β), S_A the sum of the kept tallies.

        The kept set A holds the largest tallies. Lopuhaä-Zwakenberg et al. (2020), Algorithm 1, without the n − k and the
        mixed indices of its printed last loop; Kairouz et al. (2016), Prop. 6. See docs/theory/estimators.md.
        """
        tally = np.bincount(self.index, self.counts, self.n_categories)
        ordered = np.sort(tally)[::-1]
        sizes = np.arange(1, tally.size + 1)
        sums = np.cumsum(ordered)
        # With whole tallies k s − S is exact, so that small β costs no digits.
        positive = ordered + (sizes * ordered - sums) / self.beta > 0
        k = int(np.flatnonzero(positive)[-1]) + 1
        total = sums[k - 1]
        p = np.maximum(0.0, (tally + (k * tally - total) / self.beta) / total)
        return p / p.sum()

    def find_sampler(self):
        return IdentitySampler(self)

    def find_separable(self):
        ones = np.ones(self.n_rows)
        return Separable(self.index, ones, self.beta * ones, self.counts, self.log_constants)


class SupportRows(TwoLevelRows):
    """Supports as packed bits: unary encoding, subset selection, local hashing.

    Sums over supports are byte tables: 256 partial sums for each byte column, looked up (kernels.py); sparse supports also
    list their members. Small matrices are unpacked and multiplied instead, so that the compiler is not loaded; matrices of
    several columns go through BLAS in blocks.

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
    def is_small(self):
        """Whether the supports are unpacked and multiplied, without the compiled kernels."""
        return self.n_rows * self.n_categories <= SMALL

    def support_sums(self, p):
        if p.ndim == 1 and not self.is_small:
            if self.listed:
                return _kernels().sparse_sums(*self.listed, p)
            return pass_kernels().look_up(self.words, self.bits.shape[1], _padded(p, 8 * self.bits.shape[1]))
        if self._by_column(p):
            return np.column_stack([self.support_sums(np.ascontiguousarray(column)) for column in p.T])
        out = np.empty((self.n_rows, *p.shape[1:]))
        for part, members in self._blocks(p.size // self.n_categories):
            np.matmul(members, p, out=out[part])
        return out

    def support_totals(self, r):
        if r.ndim == 1 and not self.is_small:
            r = np.ascontiguousarray(r, dtype=float)
            if self.listed:
                return _kernels().sparse_totals(*self.listed, r, self.n_categories)
            return pass_kernels().add_up(self.words, self.bits.shape[1], r)[: self.n_categories]
        if self._by_column(r):
            return np.column_stack([self.support_totals(column) for column in r.T])
        out = np.zeros((self.n_categories, *r.shape[1:]))
        for part, members in self._blocks():
            out += members.T @ r[part]
        return out

    def _by_column(self, columns):
        """Return whether sums of a matrix are those of its columns."""
        return not self.is_small and columns.ndim == 2 and 0 < columns.shape[1] <= FEW_COLUMNS

    def written(self, part):
        return 1 + self.beta * self._members(part)

    def value_and_gradient(self, p):
        """Return Σ w log(L p) (without constants) and its gradient, reading the bits of many reports once."""
        if self.is_small or self.listed:
            return super().value_and_gradient(p)
        n_bytes = self.bits.shape[1]
        scaled = _padded(self.beta * p, 8 * n_bytes)
        value, ratios, totals = pass_kernels().value_and_totals(self.words, n_bytes, scaled, p.sum(), self.counts)
        return value, ratios + self.beta * totals[: self.n_categories]

    def expansion(self, pilot, spread=None):
        if self.is_small or self.listed:
            return super().expansion(pilot, spread)
        around, counts = None if spread is None else spread[None], None if self.is_distinct else self.counts
        passed = grouped_pass(self.words, np.array([0, self.n_rows]), pilot[None], self.beta, around, counts)
        return Sums(*(array[0] for array in expanded(*passed, self.beta)))

    def support_counts(self):
        if self.is_small or self.listed or not self.is_distinct:
            return super().support_counts()
        out = np.zeros((1, 64 * self.words.shape[1]), dtype=np.int64)
        pass_kernels().grouped_bits(self.words, np.array([0, self.n_rows]), out)
        return out[0, : self.n_categories].astype(float)

    def rough_expansion(self):
        """Return the expansion at the uniform distribution as if every support had the mean size: from C_x alone."""
        if self.is_small:
            return None
        counts, n, a, beta = self.support_counts(), self.n_reports, self.n_categories, self.beta
        u = 1 + beta * counts.sum() / (n * a)  # L 1 is a u
        totals = n + beta * counts
        return Sums(math.nan, totals / u, (n + beta * (2 + beta) * counts) / u**2, totals * (a / u))

    def find_separable(self):
        """Rows with one member at most, or with all, each look at one category: subset selection at a large ε, two bits."""
        for rows in (self.bits[:SPARSE], self.bits):  # the first ones hardly ever do
            sizes = np.bitwise_count(rows).sum(axis=1, dtype=np.int64)
            whole = sizes == self.n_categories
            if (~whole & (sizes > 1)).any():
                return None
        byte = self.bits.argmax(axis=1)
        value = np.maximum(self.bits[np.arange(self.n_rows), byte], 1)
        index = np.where(sizes == 1, 8 * byte + 7 - np.log2(value).astype(np.int64), 0)
        return Separable(index, 1 + self.beta * whole, self.beta * (sizes == 1), self.counts, self.log_constants)

    def log_likelihood(self, p):
        """Return log P(Y | p) for p of shape (a,) or (a, k); k draws without an (m, k) array.

        Many draws are taken around their mean p₀: Σ w log u = Σ w log u₀ + G·(p − p₀) + Σ w [log(1 + z) − z] with
        z = u/u₀ − 1 by products of single precision. An error e of z costs w z e only: some 1e-8 nats at a million
        reports, measured at most 2e-6 √(Σ w²).
        """
        if p.ndim == 1 or self.is_small:
            return super().log_likelihood(p)
        out, far = np.empty(p.shape[1]), np.ones(p.shape[1], dtype=bool)
        if p.shape[1] >= FEW_DRAWS:
            centre = p.mean(axis=1)
            value, gradient = self.value_and_gradient(centre)
            remainder, least, most = self._remainders(p - centre[:, None], centre)
            out = self.log_constant + value + gradient @ (p - centre[:, None]) + remainder
            far = ~((least >= NEAR) & (most <= 1 / NEAR))
        for draw in np.flatnonzero(far):
            out[draw] = super().log_likelihood(np.ascontiguousarray(p[:, draw]))
        return out

    def _remainders(self, moved, centre):
        """Return Σ w [log(1 + z) − z] of each draw and the least and greatest 1 + z, for moves (a, k) from the centre."""
        delta, total, inverse = np.float32(self.beta * moved), np.float32(moved.sum(axis=0)), 1 / self.matvec(centre)
        out, size = np.empty((3, moved.shape[1])), FACTORS * max(1, PRODUCTS // (FACTORS * moved.shape[1]))
        out[:] = np.array([[0.0], [np.inf], [-np.inf]])
        for start in range(0, len(inverse), size):
            rows = slice(start, start + size)
            z = (self._supports(rows) @ delta + total).astype(float)
            z *= inverse[rows, None]
            out[0] -= self.counts[rows] @ z
            z += 1.0
            np.minimum(out[1], z.min(axis=0), out=out[1])
            np.maximum(out[2], z.max(axis=0), out=out[2])
            if self.is_distinct:  # few logarithms; where products leave the range of floats, some ratio is far from one
                with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
                    out[0] += np.log(np.abs(np.multiply.reduceat(z, np.arange(0, len(z), FACTORS), axis=0))).sum(axis=0)
            else:
                out[0] += self.counts[rows] @ np.log(np.maximum(z, 1e-300))
        return out

    def _supports(self, rows):
        """Return the supports of some reports as a matrix of ones and zeros in single precision."""
        if self.listed:
            starts, members = self.listed
            bounds = starts[rows.start : rows.stop + 1]
            ones = np.ones(bounds[-1] - bounds[0], dtype=np.float32)
            shape = (len(bounds) - 1, self.n_categories)
            import scipy.sparse

            return scipy.sparse.csr_array((ones, members[bounds[0] : bounds[-1]], bounds - bounds[0]), shape=shape)
        return np.unpackbits(self.bits[rows], axis=1, count=self.n_categories).astype(np.float32)

    def find_sampler(self):
        return SupportSampler(self)

    @cached_property
    def is_distinct(self):
        """Whether every count is one."""
        return bool((self.counts == 1).all())

    @cached_property
    def words(self):
        """The supports as 64-bit words in the order of their bytes, padded with zeros, shape (m, ⌈a/64⌉)."""
        out = as_words(self.bits).view()
        out.setflags(write=False)  # always, so that the kernels are compiled for one kind of array
        return out

    def _members(self, part):
        """Return the 0/1 membership matrix of a slice of rows, float64."""
        return np.unpackbits(self.bits[part], axis=1, count=self.n_categories).astype(float)

    @cached_property
    def listed(self):
        """(starts, members) where the supports are sparse, else None; decided on rows spread over the whole."""
        sample = self.bits[:: -(-self.n_rows // 4096)]
        if np.bitwise_count(sample).sum(dtype=np.int64) * SPARSE > sample.shape[0] * self.n_categories:
            return None
        starts = np.zeros(self.n_rows + 1, dtype=np.int64)
        np.cumsum(np.bitwise_count(self.words).sum(axis=1, dtype=np.int64), out=starts[1:])
        members = np.empty(starts[-1], dtype=np.uint16 if self.n_categories <= 2**16 else np.uint32)
        _kernels().list_members(self.words, starts, members)
        return starts, members

    @cached_property
    def _all_members(self):
        return self._members(slice(None))

    def _blocks(self, n_columns=1):
        """Yield (slice of rows, their membership matrix), 16 MB at a time; n_columns numbers per row are allowed for."""
        if self.is_small:
            yield slice(None), self._all_members
            return
        for part in blocks(self.n_rows, max(self.n_categories, n_columns), 2**21):
            yield part, self._members(part)


class AbstractIndexedRows(TwoLevelRows):
    """Supports of which there are few, each with a number; products are transforms over the numbers.

    Attributes
    ----------
    index : (m,) int array
        Number of the support of report j.
    """

    def __init__(self, index, beta, counts, n_categories, log_constants):
        super().__init__(beta, counts, n_categories, log_constants)
        self.index = np.asarray(index, dtype=np.int64)

    def written(self, part):
        return self._packed.written(part)

    def find_sampler(self):
        return SupportSampler(self._packed)

    @property
    @abc.abstractmethod
    def packed_bits(self):
        """The supports as packed bits, shape (m, ⌈a/8⌉)."""

    @cached_property
    def _packed(self):
        return SupportRows(self.packed_bits, self.beta, self.counts, self.n_categories, self.log_constants)


class HadamardRows(AbstractIndexedRows):
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
        super().__init__(index, beta, counts, n_categories, log_constants)
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

    def _transform(self, r):
        """Return Σ_j r_j H[·, index_j], shape (K, …)."""
        return walsh_hadamard(scatter(self.index, r, self.order))

    @property
    def packed_bits(self):
        common = self.index[:, None] & np.arange(1, self.n_categories + 1)
        return np.packbits(np.bitwise_count(common) % 2 == 0, axis=1)


class CyclicRows(AbstractIndexedRows):
    """Cyclic block designs: S_j = {x : x + index_j mod N in D}.

    Every product is a cyclic correlation, by Fourier transforms of length N.

    Parameters
    ----------
    index : (m,) int array
        The block that report j names, 0..N−1.
    difference_set : (k,) int array
        D, from 0 to N − 1.
    length : int
        N.
    beta : float
        e^ε − 1.
    counts, log_constants : (m,) arrays or float
    n_categories : int
        At most N.
    """

    def __init__(self, index, difference_set, length, beta, counts, n_categories, log_constants=0.0):
        super().__init__(index, beta, counts, n_categories, log_constants)
        self.length = int(length)
        self.member = np.zeros(self.length)
        self.member[difference_set] = 1.0

    def support_sums(self, p):
        padded = np.zeros((self.length, *p.shape[1:]))
        padded[: self.n_categories] = p
        return self._correlate(padded)[self.index]

    def support_totals(self, r):
        return self._correlate(scatter(self.index, r, self.length))[: self.n_categories]

    def support_counts(self):
        counts = super().support_counts()
        return np.rint(counts) if (self.counts == np.rint(self.counts)).all() else counts

    def _correlate(self, x):
        """Return Σ_z x_z [z + y mod N in D] for every y; x and y may change their parts."""
        spectrum = np.fft.rfft(x, axis=0)
        shape = (-1, *([1] * (x.ndim - 1)))
        return np.fft.irfft(spectrum.conj() * self._spectrum.reshape(shape), n=self.length, axis=0)

    @cached_property
    def _spectrum(self):
        return np.fft.rfft(self.member)

    @property
    def packed_bits(self):
        twice = np.concatenate([self.member, self.member]).astype(bool)
        windows = np.lib.stride_tricks.sliding_window_view(twice, self.n_categories)
        bits = np.empty((self.n_rows, -(-self.n_categories // 8)), dtype=np.uint8)
        for part in blocks(self.n_rows, self.n_categories, 2**24):
            bits[part] = np.packbits(windows[self.index[part]], axis=1)
        return bits


class IdentitySampler(AbstractSampler):
    """GRR: the truthful users of report x are Binomial(w_x, βp_x / (1 + βp_x)).

    Parameters
    ----------
    rows : IdentityRows
    """

    def __init__(self, rows):
        self._rows, self.n_reports = rows, rows.n_reports

    def signals(self, draws, rng):
        rows = self._rows
        named = rows.beta * draws[:, rows.index]
        truthful = rng.binomial(rows.counts.astype(np.int64), named / (draws.sum(axis=1, keepdims=True) + named))
        out = np.zeros((rows.n_categories, len(draws)), dtype=np.int64)
        np.add.at(out, rows.index, truthful.T)
        return out.T

    @property
    def work(self):
        return 100 * self._rows.n_categories


class SupportSampler(AbstractSampler):
    """A signal user of report j takes a category of its support, by p: compiled, user by user.

    Parameters
    ----------
    rows : SupportRows
    """

    def __init__(self, rows):
        self._rows, self.n_reports = rows, rows.n_reports
        self._drawn = 0

    def signals(self, draws, rng):
        rows, (few, members) = self._rows, self._few
        self._drawn += len(draws)
        if rows.is_small and self._drawn * members <= COMPILED:
            return self._written.signals(draws, rng)
        out = np.zeros(draws.shape, dtype=np.int64)
        if not few.all():
            out += self._crowded.signals(draws, rng)
        if few.any():
            kernels, users = _kernels(), np.where(few, rows.counts, 0).astype(np.int64)
            shares = np.ascontiguousarray(draws / draws.sum(axis=1, keepdims=True))
            if rows.listed and rows.bits.shape[1] > kernels.TABLED:
                out += np.stack([kernels.sparse_signal(*rows.listed, users, rows.beta, p, rng) for p in shares])
            else:
                out += kernels.signals(rows.bits, users, rows.beta, shares, rng)
        return out

    @cached_property
    def _few(self):
        """(Whether each row stands for no more users than there are categories, the members of all rows that do)."""
        few = self._rows.counts <= self._rows.n_categories
        return few, float(np.bitwise_count(self._rows.bits[few]).sum(dtype=np.int64))

    @cached_property
    def _written(self):
        """The sampler of all rows where there is too little to draw to load a compiler."""
        return DenseSampler(self._rows, floor=1.0)

    @cached_property
    def _crowded(self):
        """The sampler of rows that stand for many users each: those are one multinomial a row."""
        rows, some = self._rows, ~self._few[0]
        return DenseSampler(SupportRows(rows.bits[some], rows.beta, rows.counts[some], rows.n_categories), floor=1.0)

    @property
    def work(self):
        counts, a = self._rows.counts, self._rows.n_categories
        crowded = counts > a
        return (15 + 0.4 * min(a, 200)) * float(counts[~crowded].sum()) + 100 * a * int(crowded.sum())


def walsh_hadamard(x):
    """Return H_K @ x for x of shape (K, …), K a power of two, H_K[i, j] = (−1)^{popcount(i & j)}; O(K log K)."""
    out = np.array(x, dtype=float)
    span = 1
    while span < len(out):
        pairs = out.reshape(-1, 2, span, *out.shape[1:])
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(out.shape)
        span *= 2
    return out


def grouped_pass(words, starts, pilots, beta, spread=None, counts=None):
    """Return (sums, totals) of reports by group, as ``pass_kernels.grouped_pass`` adds them up.

    Parameters
    ----------
    words : (m, ⌈a/64⌉) uint64 array
        Supports, sorted by group as starts says.
    pilots : (n_groups, a) array
    beta : float
    spread : (n_groups, a) array, optional
    counts : (m,) array, optional
        One each by default.

    Returns
    -------
    (n_groups, 4), (n_groups, 3, a) arrays
    """
    n_groups, a = pilots.shape
    width = 8 * -(-a // 8)
    around = np.zeros((0, 0)) if spread is None or not spread.any() else _padded(spread, width)
    weights, points = np.empty(0) if counts is None else counts, _padded(pilots, width)
    sums, totals = np.zeros((n_groups, 4)), np.zeros((n_groups, 3, width))
    settings = width // 8, a, points, beta, around, weights, *gaussian_nodes(), FLOOR
    pass_kernels().grouped_pass(words, starts, *settings, sums, totals)
    return sums, totals[:, :, :a]


def expanded(sums, totals, beta):
    """Return the Sums of a grouped pass, one row a group."""
    scales = beta, beta * (2 + beta), beta
    return Sums(sums[:, 0], *(sums[:, i + 1, None] + scales[i] * totals[:, i] for i in range(3)))


def _padded(values, width):
    """Return (…, a) values with zeros up to a width."""
    out = np.zeros((*values.shape[:-1], width))
    out[..., : values.shape[-1]] = values
    return out


def _kernels():
    """Return the compiled kernels, loaded by the first large product."""
    from ldpbayes.likelihoods import kernels

    return kernels


def pass_kernels():
    """Return the compiled kernels by byte tables, loaded by the first large product."""
    from ldpbayes.likelihoods import pass_kernels as compiled

    return compiled
