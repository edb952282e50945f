"""Rows over a table of several attributes: products over the attributes, and sums over them.

Categories are the cells of a table with sizes a_1 × … × a_d, the last attribute fastest.
"""

import math

import numpy as np

from ldpbayes.likelihoods.base import Rows, scatter
from ldpbayes.likelihoods.constants import MAX_TABLE
from ldpbayes.likelihoods.kinds import DenseRows, DenseSampler

#: Memory: Or at most so many times the number of rows.
PER_ROW = 4


class AbstractTableRows(Rows):
    """Rows over the cells of a table, made of rows of its attributes.

    Parameters
    ----------
    factors : sequence of (m_k, a_k) arrays
        The distinct rows of each attribute.
    index : (m, d) int array
        Which row of each attribute report j has.
    counts : (m,) array
    log_constants : (m,) array or float
    """

    def __init__(self, factors, index, counts, log_constants=0.0):
        self.factors = tuple(np.ascontiguousarray(factor, dtype=float) for factor in factors)
        self.index = np.asarray(index, dtype=np.int64)
        self.sizes = tuple(factor.shape[1] for factor in self.factors)
        super().__init__(counts, math.prod(self.sizes), log_constants)

    def find_sampler(self):
        return DenseSampler(self)

    def find_separable(self):
        """Return the separable form of a table with one attribute, which is any rows; other tables have none."""
        one = len(self.sizes) == 1
        return DenseRows(self.dense(), self.counts, self.log_constants).find_separable() if one else None


class KroneckerRows(AbstractTableRows):
    """L_jx = Π_k factors[k][index_jk, x_k]: every attribute has its own row, and a report is a tuple of them.

    Products go through the table axis by axis, so that L is never written out: O(Σ_k m_k Π a) instead of O(m Π a).
    """

    def __init__(self, factors, index, counts, log_constants=0.0):
        super().__init__(factors, index, counts, log_constants)
        self._spans = tuple(len(factor) for factor in self.factors)
        entries = math.prod(self._spans)
        self._whole = entries <= max(MAX_TABLE, PER_ROW * len(self.counts))
        self._flat = np.ravel_multi_index(tuple(self.index.T), self._spans) if self._whole else None

    def matvec(self, p, power=1):
        return self.forward(self._powers(power), p)

    def rmatvec(self, r, power=1):
        return self.backward(self._powers(power), r)

    def _powers(self, power):
        return self.factors if power == 1 else [factor**power for factor in self.factors]

    def written(self, part):
        return _outer(self.factors, self.index[part])

    def forward(self, factors, p):
        """Return L @ p with other numbers in the rows of the attributes."""
        columns = np.ascontiguousarray(p.T if p.ndim == 2 else p[None])
        if self._whole:
            out = along_axes(factors, columns)[:, self._flat]
        else:
            out = self._row_by_row(columns, factors)
        return out.T if p.ndim == 2 else out[0]

    def backward(self, factors, r):
        """Return L.T @ r with other numbers in the rows of the attributes."""
        columns = r.T if r.ndim == 2 else r[None]
        if self._whole:
            table = np.stack([np.bincount(self._flat, column, math.prod(self._spans)) for column in columns])
            out = along_axes([factor.T for factor in factors], table)
        else:
            out = np.stack([self._back_row_by_row(column, factors) for column in columns])
        return out.T if r.ndim == 2 else out[0]

    def _row_by_row(self, columns, factors):
        """Return the products where few of the many tuples of rows occur: the first attribute once, the others by report."""
        out = []
        for column in columns:
            first = factors[0] @ column.reshape(self.sizes[0], -1)
            left = first[self.index[:, 0]]
            for factor, size, index in zip(factors[1:], self.sizes[1:], self.index.T[1:], strict=True):
                left = np.einsum("jxr,jx->jr", left.reshape(len(left), size, -1), factor[index])
            out.append(left[:, 0])
        return np.stack(out)

    def _back_row_by_row(self, r, factors):
        spread = _outer(factors[1:], self.index[:, 1:])
        summed = np.zeros((self._spans[0], spread.shape[1]))
        order = np.argsort(self.index[:, 0], kind="stable")
        first = self.index[order, 0]
        starts = np.flatnonzero(np.append(True, first[1:] != first[:-1]))
        summed[first[starts]] = np.add.reduceat((r[:, None] * spread)[order], starts, axis=0)
        return (factors[0].T @ summed).ravel()


class AdditiveRows(AbstractTableRows):
    """L_jx = Σ_k factors[k][index_jk, x_k]: reports that depend on one attribute at a time, whichever it is.

    (L p)_j is a function of the margins of p alone.
    """

    def matvec(self, p, power=1):
        if power > 2:
            return np.concatenate([self.written(part) ** power @ p for part in self.parts()])
        table = p.reshape(*self.sizes, -1)
        out = sum((factor**power @ self._margin(table, (k,)))[i] for k, factor, i in self._axes())
        for k, factor, i in self._axes() if power == 2 else ():
            for j, other, second in self._axes(k):
                out[:, 0] += 2 * (other @ self._margin(table, (j, k))[:, :, 0] @ factor.T)[second, i]
        return out if p.ndim == 2 else out[:, 0]

    def rmatvec(self, r, power=1):
        if power > 2:
            return sum(r[part] @ self.written(part) ** power for part in self.parts())
        out = 0.0
        for k, factor, index in self._axes():
            out = out + self._placed((factor**power).T @ scatter(index, r, len(factor)), (k,), r.shape[1:])
            for j, other, second in self._axes(k) if power == 2 else ():
                together = np.bincount(second * len(factor) + index, r, len(other) * len(factor))
                out = out + 2 * self._placed(other.T @ together.reshape(len(other), -1) @ factor, (j, k))
        return out.reshape(self.n_categories, *r.shape[1:])

    def written(self, part):
        index = self.index[part]
        out = 0.0
        for k, (factor, i) in enumerate(zip(self.factors, index.T, strict=True)):
            shape = [1] * len(self.sizes)
            shape[k] = self.sizes[k]
            out = out + factor[i].reshape(len(index), *shape)
        return np.ascontiguousarray(out).reshape(len(index), -1)

    def _axes(self, below=None):
        """Return (k, factor, index) of the attributes, or of those before one of them."""
        return list(zip(range(len(self.sizes)), self.factors, self.index.T, strict=True))[:below]

    def _margin(self, table, axes):
        return table.sum(axis=tuple(k for k in range(len(self.sizes)) if k not in axes))

    def _placed(self, values, axes, further=()):
        """Return a margin of values spread over the whole table."""
        shape = [size if k in axes else 1 for k, size in enumerate(self.sizes)]
        return np.broadcast_to(values.reshape(*shape, *further), (*self.sizes, *further))


def along_axes(matrices, tables):
    """Return flat tables (k, Π columns) multiplied by a matrix along every axis, (k, Π rows): Kronecker products."""
    for matrix in matrices:
        rest = tables.shape[1] // matrix.shape[1]
        tables = tables.reshape(len(tables), matrix.shape[1], rest).transpose(0, 2, 1) @ matrix.T
        tables = tables.reshape(len(tables), -1)
    return tables


def _outer(factors, index):
    """Return the products of a row of every attribute, (m, Π a_k)."""
    out = np.ones((len(index), 1))
    for factor, which in zip(factors, index.T, strict=True):
        out = (out[:, :, None] * factor[which][:, None, :]).reshape(len(out), -1)
    return out
