"""Numba kernels for the log-likelihood of many draws of p at once, by tables of single precision around their mean.

Imported by the first call with many draws, so that nothing else pays for loading numba.
"""

import math

import numpy as np

from ldpbayes.compiling import compiled, vector_sum

#: Draws whose partial sums are one vector.
LANES = 16
#: Rows whose sums are held in the second-level cache.
BLOCK = 1024
#: Rows whose ratios are multiplied before a logarithm is taken; ratios from 1/8 to 8 keep the product within 2^±768.
FACTORS = 256

_add_sixteen = vector_sum(16, LANES)
_add_one = vector_sum(1, LANES)


@compiled(nogil=True)
def _fill(delta, first, tables):
    """Write the sums of delta[:, first + d] over the members of every half byte to tables, flat (⌈a/4⌉, 16, LANES)."""
    sums = np.zeros((16, LANES))
    for q in range(delta.shape[0] // 4):
        for k in range(4):
            x = 8 * (q // 2) + 7 - 4 * (q % 2) - k
            for b in range(1 << k):
                for d in range(LANES):
                    sums[(1 << k) + b, d] = sums[b, d] + delta[x, first + d]
        for b in range(16):
            for d in range(LANES):
                tables[(q * 16 + b) * LANES + d] = sums[b, d]


@compiled(nogil=True, fastmath={"contract", "nsz", "nnan"})
def _reduce(sums, start, n, inverse, counts, state, logs):
    """Multiply up 1 + z and add up z over n rows, with z = sums · inverse; state is Σ w z, Π (1 + z), least and most."""
    for i in range(n):
        scale = inverse[start + i]
        for d in range(LANES):
            z = np.float64(sums[i * LANES + d]) * scale
            ratio = 1.0 + z
            state[LANES + d] *= ratio
            state[2 * LANES + d] = min(state[2 * LANES + d], ratio)
            state[3 * LANES + d] = max(state[3 * LANES + d], ratio)
            state[d] += z
        if i % FACTORS == FACTORS - 1 or i == n - 1:
            for d in range(LANES):
                logs[d] += math.log(abs(state[LANES + d]))
                state[LANES + d] = 1.0


@compiled(nogil=True, fastmath={"contract", "nsz", "nnan"})
def _reduce_weighted(sums, start, n, inverse, counts, state, logs):
    """Do as _reduce, with a logarithm for each row."""
    for i in range(n):
        scale, weight = inverse[start + i], counts[start + i]
        for d in range(LANES):
            z = np.float64(sums[i * LANES + d]) * scale
            ratio = 1.0 + z
            state[2 * LANES + d] = min(state[2 * LANES + d], ratio)
            state[3 * LANES + d] = max(state[3 * LANES + d], ratio)
            state[d] += weight * z
            logs[d] += weight * math.log(max(ratio, 1e-300))


@compiled(nogil=True)
def remainders(rows, delta, total, inverse, counts, out, least, most):
    """Write Σ_j w_j [log(1 + z_jd) − z_jd] to out[d], with the least and the greatest 1 + z of each draw.

    z_jd = inverse_j (total_d + Σ_{x ∈ S_j} delta_xd). The sums over the support are single: an error of size e in z then
    costs only w z e, because the linear term of log is not in the result.

    Parameters
    ----------
    rows : (m, ⌈a/64⌉) uint64 array
        Supports in the order of ``pass_kernels``.
    delta : (64 ⌈a/64⌉, k) array
        k is a multiple of LANES.
    total : (k,) array
    inverse : (m,) array
    counts : (m,) or (0,) array
        Empty where every count is one.
    out, least, most : (k,) arrays
    """
    tables = np.empty(delta.shape[0] * 4 * LANES, dtype=np.float32)
    sums = np.empty(BLOCK * LANES, dtype=np.float32)
    state, logs, lanes = np.empty(4 * LANES), np.empty(LANES), np.uint64(LANES)
    for first in range(0, delta.shape[1], LANES):
        _fill(delta, first, tables)
        _begin(state, logs)
        for start in range(0, rows.shape[0], BLOCK):
            n = min(BLOCK, rows.shape[0] - start)
            for i in range(n):
                for d in range(LANES):
                    sums[i * LANES + d] = total[first + d]
            for w in range(rows.shape[1]):
                table = np.uint64(w) * np.uint64(256) * lanes
                for i in range(n):
                    _add_sixteen(sums, np.uint64(i) * lanes, tables, table, rows[start + i, w])
            if counts.size:
                _reduce_weighted(sums, start, n, inverse, counts, state, logs)
            else:
                _reduce(sums, start, n, inverse, counts, state, logs)
        _end(state, logs, first, out, least, most)


@compiled(nogil=True)
def listed_remainders(starts, members, delta, total, inverse, counts, out, least, most):
    """Do as remainders for supports that list their members."""
    table = np.empty(delta.shape[0] * LANES, dtype=np.float32)
    sums = np.empty(BLOCK * LANES, dtype=np.float32)
    state, logs = np.empty(4 * LANES), np.empty(LANES)
    lanes = np.uint64(LANES)
    for first in range(0, delta.shape[1], LANES):
        for x in range(delta.shape[0]):
            for d in range(LANES):
                table[x * LANES + d] = delta[x, first + d]
        _begin(state, logs)
        for start in range(0, inverse.size, BLOCK):
            n = min(BLOCK, inverse.size - start)
            for i in range(n):
                for d in range(LANES):
                    sums[i * LANES + d] = total[first + d]
                for k in range(starts[start + i], starts[start + i + 1]):
                    _add_one(sums, np.uint64(i) * lanes, table, np.uint64(members[k]) * lanes, np.uint64(0))
            if counts.size:
                _reduce_weighted(sums, start, n, inverse, counts, state, logs)
            else:
                _reduce(sums, start, n, inverse, counts, state, logs)
        _end(state, logs, first, out, least, most)


@compiled(nogil=True)
def _begin(state, logs):
    state[:LANES] = 0.0
    state[LANES : 2 * LANES] = 1.0
    state[2 * LANES : 3 * LANES] = math.inf
    state[3 * LANES :] = -math.inf
    logs[:] = 0.0


@compiled(nogil=True)
def _end(state, logs, first, out, least, most):
    for d in range(LANES):
        out[first + d] = logs[d] - state[d]
        least[first + d], most[first + d] = state[2 * LANES + d], state[3 * LANES + d]
