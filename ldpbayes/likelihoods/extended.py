"""Rows with further columns: categories whose reports follow a known law beside those of a protocol."""

import numpy as np

from ldpbayes.likelihoods.base import Rows
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

    def matvec(self, p):
        a = self.inner.n_categories
        scale = self.scale if p.ndim == 1 else self.scale[:, None]
        return scale * self.inner.matvec(np.ascontiguousarray(p[:a])) + self.extra @ p[a:]

    def square_matvec(self, p):
        a = self.inner.n_categories
        return self.scale**2 * self.inner.square_matvec(np.ascontiguousarray(p[:a])) + self.extra**2 @ p[a:]

    def rmatvec(self, r):
        scale = self.scale if r.ndim == 1 else self.scale[:, None]
        return np.concatenate([self.inner.rmatvec(scale * r), self.extra.T @ r])

    def gram(self, v):
        weighted = v[:, None] * self.extra
        between = self.inner.rmatvec(self.scale[:, None] * weighted)
        return np.block([[self.inner.gram(self.scale**2 * v), between], [between.T, self.extra.T @ weighted]])

    def gram_diagonal(self, v, power=2):
        return np.concatenate([self.inner.gram_diagonal(self.scale**power * v, power), self.extra.T**power @ v])

    def written(self, part):
        return np.concatenate([self.scale[part, None] * self.inner.written(part), self.extra[part]], axis=1)

    def find_sampler(self):
        return DenseSampler(self)
