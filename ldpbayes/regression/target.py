"""The posterior density of a regression's unknowns, with its gradient and Hessian, over all cells at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from ldpbayes.priors.regression import Regression
from ldpbayes.regression.reports import Entries

#: Draws between two looks at whether to stop, and evaluations (cells × draws × categories) beyond which progress is shown.
TOGETHER, WATCHED = 512, 5e8
#: Cells or entries whose gradient or Hessian is computed together.
BLOCK = 2**14
#: A cell with at least this many distinct reports has them multiplied as a matrix.
MANY = 8


@dataclass(frozen=True, eq=False)
class Target:
    """log prior(z) + log P(Y | z), or the likelihood alone.

    Attributes
    ----------
    prior : Regression
    entries : Entries
    flat : bool
        Leave the prior out: for maximum likelihood.
    """

    prior: Regression
    entries: Entries
    flat: bool = False

    # ---- the linear map from unknowns to logits ------------------------------------------------------------------------
    @cached_property
    def columns(self) -> np.ndarray:
        """All columns that have coefficients, those of groups too, shape (cells, K)."""
        parts = [effect.matrix / np.sqrt(2) for effect in self.prior.effects]
        return np.hstack([self.prior.columns, *parts]) if parts else self.prior.columns

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What compiled functions read: where each cell's columns other than zero begin, these and their values; entries."""
        e = self.entries
        cell, index = np.nonzero(self.columns)
        sparse = np.searchsorted(cell, np.arange(e.n_cells + 1)), index, self.columns[cell, index]
        return tuple(np.ascontiguousarray(part) for part in (*sparse, e.starts, e.row, e.weight, e.table, e.sizes))

    def stacked(self, z: np.ndarray) -> np.ndarray:
        """Return the coefficients of the columns in the basis V, shape (…, K, a − 1)."""
        prior, free = self.prior, self.prior.n_categories - 1
        k = prior.design.shape[1]
        parts = [z[..., : k * free].reshape(*z.shape[:-1], k, free)]
        for effect, (at, start) in zip(prior.effects, prior.places, strict=True):
            m = len(effect.levels)
            own = z[..., start : start + m * free].reshape(*z.shape[:-1], m, free)
            parts.append(np.exp(np.minimum(z[..., at], 300.0))[..., None, None] * own)
        return np.concatenate(parts, axis=-2)

    # ---- one point -----------------------------------------------------------------------------------------------------
    def _at(self, z):
        """Return (log-likelihood, p (cells, a), q (e, a)) with q the true category's distribution given each report."""
        e = self.entries
        p = softmax(self.columns @ (self.stacked(z) @ self.prior.basis.T), axis=1)
        joint = e.table[e.row] * p[e.cell]
        u = joint.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(e.weight @ np.log(u)), p, joint / u[:, None]

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density at z, without the constants of the likelihood, and its gradient."""
        e, prior = self.entries, self.prior
        value, p, q = self._at(z)
        with np.errstate(invalid="ignore"):
            slope = e.per_cell(e.weight[:, None] * q) - e.sizes[:, None] * p
            gradient = prior.pullback_logits(z, slope)
        if self.flat:
            return value, gradient
        return value + float(prior.log_density(z)), gradient + prior.gradient(z)

    def hessian(self, z: np.ndarray) -> np.ndarray:
        """Return the Hessian at z.

        With q_e the distribution of the true category given report e, and D_c = Σ_e w_e q_e − n_c p_c the gradient in the
        logits of cell c, the Hessian in these logits is diag D_c − Σ_e w_e q_e q_eᵀ + n_c p_c p_cᵀ.
        """
        e, prior = self.entries, self.prior
        _, p, q = self._at(z)
        basis, columns = prior.basis, self.columns
        free, k = basis.shape[1], columns.shape[1]
        total = np.zeros((k, free, k, free))
        slope = np.zeros((e.n_cells, free))
        for start in range(0, e.n_cells, BLOCK):
            cells = slice(start, min(start + BLOCK, e.n_cells))
            inside = slice(*e.starts[[cells.start, cells.stop]])
            own, w = q[inside], e.weight[inside]
            part = Entries(e.cell[inside] - start, e.row[inside], w, e.table, e.log_constants, cells.stop - start)
            d = part.per_cell(w[:, None] * own) - e.sizes[cells, None] * p[cells]
            slope[cells] = d @ basis
            inner, mean = own @ basis, p[cells] @ basis
            within = np.einsum("cx,xj,xk->cjk", d, basis, basis, optimize=True)
            within += e.sizes[cells, None, None] * mean[:, :, None] * mean[:, None, :]
            within -= _outer_sums(part, inner)
            here = columns[cells]
            for i in range(free):
                for j in range(i, free):
                    product = here.T @ (within[:, i, j, None] * here)
                    total[:, i, :, j] += product
                    if i != j:
                        total[:, j, :, i] += product
        return self._in_unknowns(z, total.reshape(k * free, k * free), (columns.T @ slope).ravel())

    def _in_unknowns(self, z, linear, slope):
        """Return the Hessian in z from that in the coefficients, with the slope there: effects are σ times unknowns."""
        prior, free = self.prior, self.prior.n_categories - 1
        stacked = self.stacked(z).ravel()
        n = prior.n_unknowns
        position, factor = np.empty(stacked.size, dtype=np.int64), np.ones(stacked.size)
        fixed = prior.design.shape[1] * free
        position[:fixed] = np.arange(fixed)
        at, spans = fixed, []
        for effect, (place, start) in zip(prior.effects, prior.places, strict=True):
            span = slice(at, at + len(effect.levels) * free)
            position[span] = np.arange(start, start + span.stop - span.start)
            factor[span] = np.exp(min(z[place], 300.0))
            spans.append((place, span))
            at = span.stop
        out = np.zeros((n, n))
        out[np.ix_(position, position)] = factor[:, None] * linear * factor
        along = np.zeros((stacked.size, len(spans)))
        for t, (_, span) in enumerate(spans):
            along[span, t] = stacked[span]
        moved = linear @ along
        for t, (place, span) in enumerate(spans):
            cross = factor * moved[:, t]
            cross[span] += factor[span] * slope[span]
            out[place, position] = out[position, place] = cross
            for s, (other, _) in enumerate(spans):
                out[place, other] = along[:, t] @ moved[:, s] + (slope[span] @ stacked[span] if s == t else 0.0)
        return out if self.flat else out - np.diag(prior.curvature(z))

    # ---- many points ---------------------------------------------------------------------------------------------------
    def log_density(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density of many z, shape (S, n_unknowns), with the likelihood's constants, and z itself."""
        found = self.likelihoods(z)[0]
        return found + (0.0 if self.flat else self.prior.log_density(z)), z

    def gradients(self, z: np.ndarray) -> np.ndarray:
        """Return the gradients of the log-density at many z, shape (S, n_unknowns)."""
        prior, free = self.prior, self.prior.n_categories - 1
        slope = np.zeros((prior.n_categories, self.columns.shape[1], len(z)))
        self.likelihoods(z, tallies=True, slope=slope)
        inner = np.einsum("xks,xj->skj", slope, prior.basis)
        stacked, k = self.stacked(z), prior.design.shape[1]
        found = np.empty((len(z), prior.n_unknowns))
        found[:, : k * free] = inner[:, :k].reshape(len(z), -1)
        for effect, (at, start) in zip(prior.effects, prior.places, strict=True):
            m = len(effect.levels)
            own = inner[:, k : k + m]
            sd = np.exp(np.minimum(z[:, at], 300.0))
            found[:, start : start + m * free] = (sd[:, None, None] * own).reshape(len(z), -1)
            found[:, at] = (own * stacked[:, k : k + m]).sum(axis=(1, 2))
            k += m
        if not self.flat:
            found += np.array([prior.gradient(one) for one in z])
        return found

    def likelihoods(self, z: np.ndarray, *, tallies: bool = False, slope: np.ndarray | None = None, watch=None):
        """Return (log-likelihoods (S,), sums over people of P (S, a), sums of the expected true tallies or None).

        Parameters
        ----------
        z : (S, n_unknowns) array
        tallies : bool
            Whether to add up E[T | z, reports] = Σ_e w_e q_e, shape (S, a).
        slope : (a, K, S) array, optional
            With ``tallies``: what the gradients in the coefficients of the columns are added to.
        watch : Watch, optional
        """
        from ldpbayes.regression import _kernels

        a, size = self.prior.n_categories, len(z)
        value, shares = np.full(size, self.entries.constant), np.empty((size, a))
        expected = np.empty((size, a)) if tallies else None
        blocks = range(0, size, TOGETHER)
        if watch is not None and self.columns.shape[0] * size * a > WATCHED:
            blocks = watch.track(blocks, "Likelihood of the draws", len(blocks))
        for start in blocks:
            part = slice(start, min(start + TOGETHER, size))
            many = part.stop - start
            contrasts = self.stacked(z[part]) @ (self.prior.basis[1:] - self.prior.basis[0]).T  # (S, K, a - 1)
            sums = np.zeros((a, many)), np.zeros((a if tallies else 0, many))
            along = np.zeros((0, 0, 0) if slope is None else (*slope.shape[:2], many))
            moved = np.ascontiguousarray(np.moveaxis(contrasts, 0, -1).swapaxes(0, 1))
            _kernels.of_draws(moved, *self.arrays, value[part], *sums, along)
            shares[part] = sums[0].T
            if expected is not None:
                expected[part] = sums[1].T
            if slope is not None:
                slope[:, :, part] += along
        return value, shares, expected

    def shares(self, columns: np.ndarray, z: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """Return P for columns of other people, shape (S, rows, a), or its weighted mean over the rows, shape (S, a)."""
        stacked = self.stacked(z) @ self.prior.basis.T
        if weight is None:
            return softmax(columns @ stacked, axis=-1)
        found, step = np.zeros((len(z), stacked.shape[-1])), max(1, 2**22 // (len(z) * stacked.shape[-1]))
        for start in range(0, len(columns), step):
            part = slice(start, start + step)
            found += np.einsum("r,sra->sa", weight[part], softmax(columns[part] @ stacked, axis=-1))
        return found / weight.sum()


def _outer_sums(part, inner):
    """Return Σ_e w_e inner_e inner_eᵀ for each cell, shape (cells, f, f)."""
    f = inner.shape[1]
    many = np.diff(part.starts).mean() >= MANY
    if not many:
        return part.per_cell((part.weight[:, None] * inner)[:, :, None] * inner[:, None, :])
    out = np.zeros((part.n_cells, f, f))
    for c in range(part.n_cells):
        rows = slice(part.starts[c], part.starts[c + 1])
        out[c] = (part.weight[rows, None] * inner[rows]).T @ inner[rows]
    return out
