"""Numba kernels of the sum over tallies. Imported where first needed, so that nothing else pays for loading numba."""

import numpy as np

from ldpbayes.compiling import compiled

#: Format: The largest average that is brought back to 1.
RESCALED = 1e-100


@compiled()
def fill_tallies(out, n):
    """Fill out (N, g) with every tally of n users over g groups, in colexicographic order of the partial sums."""
    g = out.shape[1]
    partial = np.zeros(g + 1, dtype=np.int64)
    partial[g] = n
    for r in range(out.shape[0]):
        for k in range(g):
            out[r, k] = partial[k + 1] - partial[k]
        k = 1  # the next tally in colexicographic order of the partial sums
        while k < g and partial[k] == partial[k + 1]:
            partial[k] = 0
            k += 1
        if k < g:
            partial[k] += 1
    return out


@compiled()
def start(n, g):
    """Return (U_0, room for the next, offsets) for n users over g groups."""
    # offsets[k, s] = C(s + k − 2, k − 1): how far the position moves when s_k falls by one.
    offsets = np.zeros((g + 1, n + 2), dtype=np.int64)
    offsets[1, 1:] = 1
    for k in range(2, g):
        for s in range(1, n + 2):
            offsets[k, s] = offsets[k, s - 1] + offsets[k - 1, s]
    size = 1
    for k in range(1, g):
        size = size * (n + k) // k
    current, following = np.zeros(size), np.zeros(size)
    current[0] = 1.0
    return current, following, offsets


@compiled()
def averages(matrix, rows, current, following, offsets):
    """Return (U over all tallies of these users divided by its scale, log of that scale); rows has one a user."""
    log_scale = 0.0
    for i, j in enumerate(rows):
        top = _step(current, following, matrix[j], i + 1, offsets)
        current, following = following, current
        if top < RESCALED:  # averages of numbers in [0, 1]: rescale now and then
            current /= top
            log_scale += np.log(top)
    return current, log_scale


@compiled()
def _step(current, following, row, users, offsets):
    """Fill ``following`` with U_{users}, from U_{users − 1}; return its maximum."""
    g = row.size
    top = 0.0
    if g == 1:
        following[0] = row[0] * current[0]
        return following[0]
    partial = np.zeros(g + 1, dtype=np.int64)
    partial[g] = users
    position = 0
    inverse = 1.0 / users
    back = np.zeros(g + 1, dtype=np.int64)
    while True:
        # Everything but s_1 is fixed here; s_1 runs over 0..s_2 in consecutive positions.
        for k in range(g - 1, 1, -1):
            back[k] = back[k + 1] + offsets[k, partial[k]]
        first = back[2] + 1
        for s in range(partial[2] + 1):
            r = position + s
            total = 0.0
            if s > 0:
                total = s * row[0] * current[r - first]
            if s < partial[2]:
                total += (partial[2] - s) * row[1] * current[r - back[2]]
            for x in range(2, g):
                count = partial[x + 1] - partial[x]
                if count > 0:
                    total += count * row[x] * current[r - back[x + 1]]
            total *= inverse
            following[r] = total
            top = max(top, total)
        position += partial[2] + 1
        k = 2
        while k < g and partial[k] == partial[k + 1]:
            partial[k] = 0
            k += 1
        if k >= g:
            return top
        partial[k] += 1
