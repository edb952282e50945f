"""Compiled: the likelihood of a regression at many draws."""

import math

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference._kernels import exp
from ldpbayes.regression.constants import DRAWS_TOGETHER, LARGEST_LOGIT


@compiled(nogil=True, fastmath={"contract", "nsz"})
def _shares(near, full, column, index, value, p, u):
    """Write P of one cell to p (a, DRAWS_TOGETHER), from its columns and the log odds of draws; u is room."""
    u[:] = 1.0
    for x in range(len(near)):
        here = p[x + 1]
        here[:] = 0.0
        for k in range(full.size):
            by, at = column[k], near[x, full[k]]
            for s in range(DRAWS_TOGETHER):
                here[s] += by * at[s]
        for k in range(index.size):
            by, at = value[k], near[x, index[k]]
            for s in range(DRAWS_TOGETHER):
                here[s] += by * at[s]
        for s in range(DRAWS_TOGETHER):
            here[s] = exp(min(max(here[s], -LARGEST_LOGIT), LARGEST_LOGIT))
            u[s] += here[s]
    for s in range(DRAWS_TOGETHER):
        u[s] = 1.0 / u[s]
        p[0, s] = u[s]
    for x in range(1, len(p)):
        for s in range(DRAWS_TOGETHER):
            p[x, s] *= u[s]


@compiled(nogil=True, fastmath={"contract", "nsz"})
def _mixed(entries, p, u):
    """Write Σ_x entries_x p_x to u (DRAWS_TOGETHER,)."""
    for s in range(DRAWS_TOGETHER):
        u[s] = entries[0] * p[0, s]
    for x in range(1, len(p)):
        for s in range(DRAWS_TOGETHER):
            u[s] += entries[x] * p[x, s]


@compiled(nogil=True, fastmath={"contract", "nsz"})
def _mixed_by_draw(entries, p, u):
    """Do the same with entries (a, DRAWS_TOGETHER) of each draw."""
    for s in range(DRAWS_TOGETHER):
        u[s] = entries[0, s] * p[0, s]
    for x in range(1, len(p)):
        for s in range(DRAWS_TOGETHER):
            u[s] += entries[x, s] * p[x, s]


@compiled(nogil=True, fastmath={"contract", "nsz"})
def of_draws(
    coefficients, full, dense, starts, index, value, entry_starts, row, weight, tables, sizes, out, shares, expected
):
    """Add the log-likelihoods of many draws to out, and sums over people of P to shares.

    Parameters
    ----------
    coefficients : (a − 1, K, S) array
        Log odds against the first category.
    full, dense, starts, index, value : arrays
        As in ``inference._kernels.of_columns``.
    entry_starts, row, weight, tables, sizes : arrays
        Of Entries; the table is one (m, a, 1), or of each draw (m, a, S).
    out : (S,) array
    shares : (a, S) array
    expected : (a, S) array, or one of size 0
        What the expected true tallies are added to.
    """
    free, _, size = coefficients.shape
    a, tallied, by_draw = free + 1, expected.size > 0, tables.shape[2] > 1
    table, of_draws = tables[:, :, 0].copy(), np.ones((len(tables) if by_draw else 0, a, DRAWS_TOGETHER))
    least = np.empty(len(table))
    for r in range(len(table)):
        least[r] = math.log(max(tables[r].min(), 1e-300))
    p, u = np.empty((a, DRAWS_TOGETHER)), np.empty(DRAWS_TOGETHER)
    product, total = np.empty(DRAWS_TOGETHER), np.empty(DRAWS_TOGETHER)
    near = np.zeros((free, coefficients.shape[1], DRAWS_TOGETHER))
    summed = np.zeros((a, DRAWS_TOGETHER))
    for first in range(0, size, DRAWS_TOGETHER):
        width, reached = min(DRAWS_TOGETHER, size - first), 0.0
        for x in range(free):
            for k in range(near.shape[1]):
                for s in range(width):
                    near[x, k, s] = coefficients[x, k, first + s]
        if by_draw:
            for r in range(len(tables)):
                for x in range(a):
                    for s in range(width):
                        of_draws[r, x, s] = tables[r, x, first + s]
        summed[:] = 0.0
        total[:] = 0.0
        product[:] = 1.0
        for c in range(sizes.size):
            cell = slice(starts[c], starts[c + 1])
            _shares(near, full, dense[:, c], index[cell], value[cell], p, u)
            many = sizes[c]
            for x in range(a):
                for s in range(DRAWS_TOGETHER):
                    summed[x, s] += many * p[x, s]
            for e in range(entry_starts[c], entry_starts[c + 1]):
                r, w = row[e], weight[e]
                if by_draw:
                    _mixed_by_draw(of_draws[r], p, u)
                else:
                    _mixed(table[r], p, u)
                if w == 1.0:
                    reached += least[r]
                    if reached < -600.0:
                        reached = least[r]
                        for s in range(DRAWS_TOGETHER):
                            total[s] += math.log(product[s])
                        product[:] = 1.0
                    for s in range(DRAWS_TOGETHER):
                        product[s] *= u[s]
                else:
                    for s in range(DRAWS_TOGETHER):
                        total[s] += w * math.log(u[s])
                if tallied:
                    for x in range(a):
                        for s in range(width):
                            entry = of_draws[r, x, s] if by_draw else table[r, x]
                            expected[x, first + s] += w * entry * p[x, s] / u[s]
        for s in range(width):
            out[first + s] += total[s] + math.log(product[s])
            for x in range(a):
                shares[x, first + s] += summed[x, s]
