"""Rows with further columns: categories whose reports follow a known law beside those of a protocol."""

import numpy as np

from ldpbayes.likelihoods.base import Rows, scatter
from ldpbayes.likelihoods.kinds import DenseSampler


class ExtendedRows(Rows):
    """[s L, E]: the rows of a protocol with one more column per law of reports, scaled row by row so that none overflows.

    Parameters
    ----------
    inner : Rows
        L, with its counts and constants c.
    log_laws : (m, k) array
        log P(report j | law l); −inf where a law never sends a report.

    Notes
    -----
    With s_j = min(1, c_j / max_l P(report j | law l)) the constants become c_j / s_j. The further columns are
    E_jl = P(report j | law l) s_j / c_j, at most one.
    """

    def __init__(self, inner, log_laws):
        ratio = np.asarray(log_laws, dtype=float) - inner.log_constants[:, None]
        shift = np.maximum(ratio.max(axis=1), 0.0)
        self.inner, self.scale, self.extra = inner, np.exp(-shift), np.exp(ratio - shift[:, None])
        super().__init__(inner.counts, inner.n_categories + self.extra.shape[1], inner.log_constants + shift)

    def matvec(self, p, power=1):
        a, scale = self.inner.n_categories, self.scale.reshape(-1, *[1] * (p.ndim - 1)) ** power
        return scale * self.inner.matvec(np.ascontiguousarray(p[:a]), power) + self.extra**power @ p[a:]

    def rmatvec(self, r, power=1):
        scale = self.scale.reshape(-1, *[1] * (r.ndim - 1)) ** power
        return np.concatenate([self.inner.rmatvec(scale * r, power), self.extra.T**power @ r])

    def gram(self, v):
        weighted = v[:, None] * self.extra
        between = self.inner.rmatvec(self.scale[:, None] * weighted)
        return np.block([[self.inner.gram(self.scale**2 * v), between], [between.T, self.extra.T @ weighted]])

    def written(self, part):
        return np.concatenate([self.scale[part, None] * self.inner.written(part), self.extra[part]], axis=1)

    def find_sampler(self):
        return DenseSampler(self)


class RepeatedRows(Rows):
    """L[:, category]: the rows of a protocol where several categories are one to it.

    Parameters
    ----------
    inner : Rows
        L, with its counts and constants.
    category : (E,) int array
        The column of L that each category has.
    """

    def __init__(self, inner, category):
        self.inner, self.category = inner, np.asarray(category)
        super().__init__(inner.counts, self.category.size, inner.log_constants)

    def matvec(self, p, power=1):
        return self.inner.matvec(scatter(self.category, p, self.inner.n_categories), power)

    def rmatvec(self, r, power=1):
        return self.inner.rmatvec(r, power)[self.category]

    def written(self, part):
        return self.inner.written(part)[:, self.category]

    def find_sampler(self):
        return DenseSampler(self)
