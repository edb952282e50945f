"""Rows of no particular structure, of few values, of single coordinates, and stacks of others."""

import itertools
from functools import cached_property

import numpy as np

from ldpbayes.arrays import blocks
from ldpbayes.likelihoods.base import AbstractSampler, Rows, Separable
from ldpbayes.likelihoods.constants import KEPT, MAX_BLOCK
from ldpbayes.likelihoods.expansion import Sums


class DenseRows(Rows):
    """Any L, stored as it is.

    Parameters
    ----------
    matrix : (m, a) array
    counts : (m,) array
    log_constants : (m,) array or float
    supports : (m, a) array, optional
        How much a report counts for each category in support_counts; by default its share L_jx / Σ_x' L_jx'.
    """

    def __init__(self, matrix, counts, log_constants=0.0, supports=None):
        self.matrix = np.ascontiguousarray(matrix, dtype=float)
        self.supports = supports
        super().__init__(counts, self.matrix.shape[1], log_constants)

    def matvec(self, p, power=1):
        return self._power(power) @ p

    def rmatvec(self, r, power=1):
        return self._power(power).T @ r

    def _power(self, power):
        if power < 3:
            return self.matrix if power == 1 else self._square
        return self._square * self._power(power - 2)  # ** with a number for its exponent takes ten times as long

    @cached_property
    def _square(self):
        return self.matrix * self.matrix

    def written(self, part):
        return self.matrix[part]

    def support_sums(self, p):
        return None if self.supports is None else self.supports @ p

    def support_counts(self):
        return super().support_counts() if self.supports is None else self.counts @ self.supports

    def find_sampler(self):
        return DenseSampler(self)

    def find_separable(self):
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
        super().__init__(counts, self.levels.shape[1], log_constants)

    def matvec(self, p, power=1):
        return self._matvec(self.values if power == 1 else self.values**power, p)

    def rmatvec(self, r, power=1):
        return self._rmatvec(self.values if power == 1 else self.values**power, r)

    def written(self, part):
        return self.values[self.levels[part]]

    def find_sampler(self):
        return LevelSampler(self)

    def support_counts(self):
        """Return Σ_j w_j hits[levels_jx], shape (a,): how many bits of category x all reports hold."""
        return self._rmatvec(self.hits, self.counts)

    def hit_sums(self, p):
        """Return Σ_x p_x hits[levels_jx] of every row, shape (m,)."""
        return self._matvec(self.hits, p)

    def _matvec(self, values, p):
        return np.concatenate([block @ p for _, block in self.blocks(values)])

    def _rmatvec(self, values, r):
        return sum(block.T @ r[part] for part, block in self.blocks(values))

    def blocks(self, values):
        """Return pairs (slice of rows, those rows written out with these values), some 2^20 entries at a time."""
        if values is self.values and self.levels.size <= KEPT:
            return [(slice(0, self.n_rows), self._written)]
        return ((part, values[self.levels[part]]) for part in self.parts())

    @cached_property
    def _written(self):
        return self.values[self.levels]


class StackedRows(Rows):
    """Rows of several channels over the same categories, one under the other.

    Parameters
    ----------
    parts : sequence of Rows
    """

    def __init__(self, parts):
        self.stacked = tuple(parts)
        counts = np.concatenate([part.counts for part in self.stacked])
        log_constants = np.concatenate([part.log_constants for part in self.stacked])
        super().__init__(counts, self.stacked[0].n_categories, log_constants)
        self.entry_work = max(part.entry_work for part in self.stacked)
        self.sizes = self.stacked[0].sizes if len({part.sizes for part in self.stacked}) == 1 else ()
        self._splits = np.cumsum([part.n_rows for part in self.stacked])[:-1]

    def matvec(self, p, power=1):
        return np.concatenate([part.matvec(p, power) for part in self.stacked])

    def rmatvec(self, r, power=1):
        return sum(part.rmatvec(piece, power) for part, piece in self._pieces(r))

    def gram(self, v):
        return sum(part.gram(piece) for part, piece in self._pieces(v))

    def written(self, part):
        return np.concatenate([rows.dense() for rows in self.stacked])[part]

    def support_counts(self):
        return sum(part.support_counts() for part in self.stacked)

    def find_sampler(self):
        samplers = [part.sampler() for part in self.stacked]
        return None if None in samplers else StackedSampler(samplers)

    def weighing(self, share=1.0):
        return StackedRows([part.weighing(share) for part in self.stacked])

    def expansion(self, pilot, spread=None):
        sums = [part.expansion(pilot, spread) for part in self.stacked]
        return Sums(*(sum(pieces) for pieces in zip(*sums, strict=True)))

    def rough_expansion(self):
        sums = [part.rough_expansion() for part in self.stacked]
        return None if None in sums else Sums(*(sum(pieces) for pieces in zip(*sums, strict=True)))

    def log_likelihood(self, p):
        return sum(part.log_likelihood(p) for part in self.stacked)

    def find_separable(self):
        forms = [part.separable() for part in self.stacked]
        if any(form is None for form in forms):
            return None
        fields = ("index", "base", "slope", "counts", "log_constants")
        return Separable(*(np.concatenate([getattr(form, name) for form in forms]) for name in fields))

    def _pieces(self, r):
        return zip(self.stacked, np.split(r, self._splits), strict=True)


#: Time: Draws of a call × entries of the rows above the floor from which users are drawn one by one, compiled, where they
#: are few.
COMPILED = 5e4
#: Time: Users for each category of a row up to which they are few.
FEW = 4


class DenseSampler(AbstractSampler):
    """One multinomial a row over its written-out weights; rows with few users, user by user once that is much work.

    Parameters
    ----------
    rows : Rows
    floor : float, optional
        Part of every row that all categories share; by default the least entry of each row.
    """

    def __init__(self, rows, floor=None):
        self._rows, self._floor, self.n_reports = rows, floor, rows.n_reports

    def signals(self, draws, rng):
        excess, floor, counts, size, few = self._above
        out = np.zeros(draws.shape, dtype=np.int64)
        by_users = len(draws) * size[few].sum() > COMPILED
        if by_users:
            from ldpbayes.likelihoods import kernels  # loads numba

            shares = np.ascontiguousarray(draws, dtype=float)
            kernels.dense_signals(excess, floor, counts, np.flatnonzero(few), shares, rng, out)
        for place, weight, shared, users, of_few in self._tables:
            if of_few and by_users:
                continue
            for part in blocks(len(draws), place.size, MAX_BLOCK):
                p = draws[part]
                weights = np.concatenate([weight * p[:, place], shared * p.sum(axis=1)[:, None, None]], axis=-1)
                weights /= weights.sum(axis=-1, keepdims=True)
                drawn = rng.multinomial(users, weights)[:, :, :-1].reshape(len(p), -1)
                category = place.ravel() + draws.shape[1] * np.arange(len(p))[:, None]
                summed = np.bincount(category.ravel(), drawn.ravel(), out[part].size)
                out[part] += np.rint(summed).astype(np.int64).reshape(len(p), -1)
        return out

    @cached_property
    def _above(self):
        """(excess over the floor (m, a), floor, users, categories above it, whether users are few, of each row)."""
        dense, counts = self._rows.dense(), self._rows.counts.astype(np.int64)
        floor = dense.min(axis=1) if self._floor is None else np.full(len(dense), self._floor)
        excess = dense - floor[:, None]
        size = (excess > 0).sum(axis=1)
        return excess, floor, counts, size, counts <= FEW * size

    @cached_property
    def _tables(self):
        """[(categories, excess, floor, users, whether few)] of rows with about as many categories above the floor."""
        excess, floor, counts, size, few = self._above
        power, tables = np.frexp(np.maximum(size - 1, 0))[1], []
        for level, users_are_few in itertools.product(np.unique(power), (False, True)):
            some = (power == level) & (few == users_are_few) & (size > 0)
            if some.any():
                place = np.argsort(-excess[some], axis=1, kind="stable")[:, : int(size[some].max())]
                weight = np.take_along_axis(excess[some], place, 1)
                tables.append((place, weight, floor[some, None], counts[some], users_are_few))
        return tables

    @property
    def work(self):
        counts, a = self._rows.counts, self._rows.n_categories
        few = counts <= FEW * a
        return 0.6 * a * int(few.sum()) + 20 * float(counts[few].sum()) + 50 * a * int((~few).sum())


class LevelSampler(AbstractSampler):
    """The dense draw, a block of rows at a time.

    Parameters
    ----------
    rows : LevelRows
    """

    def __init__(self, rows):
        self._rows, self.n_reports = rows, rows.n_reports

    def signals(self, draws, rng):
        blocks = self._rows.blocks(self._rows.values)
        return sum(DenseSampler(DenseRows(block, self._rows.counts[part])).signals(draws, rng) for part, block in blocks)

    @property
    def work(self):
        return DenseSampler(self._rows).work


class StackedSampler(AbstractSampler):
    """The draws of several channels, added up.

    Parameters
    ----------
    parts : sequence of AbstractSampler
    """

    def __init__(self, parts):
        self._parts, self.n_reports = tuple(parts), sum(part.n_reports for part in parts)

    def signals(self, draws, rng):
        return sum(part.signals(draws, rng) for part in self._parts)

    @property
    def work(self):
        return sum(part.work for part in self._parts)
