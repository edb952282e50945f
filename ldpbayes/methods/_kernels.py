"""Numba kernels of the posterior methods: slices of pairs.

Imported where first needed, so that nothing else pays for loading numba.
"""

import math

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.methods.constants import UNTOLD


@compiled()
def slice_pairs(p, state, columns, counts, alpha, sizes, pairs, rng):
    """Slice-sample the split of p[x] + p[y] for that many random pairs, in place.

    With counts (m,): the log-likelihood Σ_j counts_j log state_j, state = L p and columns = Lᵀ (a, m). Without: the
    quadratic with columns = H (a, a) and state = its gradient b − H p. ``state`` follows p. Where categories are the cells
    of a table of these sizes, every pair is followed by the corners of a rectangle in it, which leaves all margins alone.
    """
    a, change, told = p.size, np.empty(state.size), np.empty(state.size, dtype=np.int64)
    nobody = np.int64(-1)  # a literal −1 would have _slice compiled once more
    for _ in range(pairs):
        x, y = int(rng.random() * a), int(rng.random() * (a - 1))
        y += y >= x
        _slice(p, state, columns, counts, alpha, x, y, nobody, nobody, change, told, rng)
        if sizes.size < 2:
            continue
        x, w = int(rng.random() * a), int(rng.random() * a)
        k = int(rng.random() * sizes.size)
        stride = 1
        for j in range(k + 1, sizes.size):
            stride *= sizes[j]
        apart = ((w // stride) % sizes[k] - (x // stride) % sizes[k]) * stride
        y, z = x + apart, w - apart
        if y != x and y != w:
            x, w = (x, w) if p[x] <= p[w] else (w, x)
            y, z = (y, z) if p[y] <= p[z] else (z, y)
            _slice(p, state, columns, counts, alpha, x, y, w, z, change, told, rng)


@compiled()
def _slice(p, state, columns, counts, alpha, x, y, w, z, change, told, rng):
    """Move mass from p[y] to p[x], and as much from p[z] to p[w], no smaller than they, where these are not −1.

    p[x] = (p[x] + p[y]) sin²θ; θ is drawn from [0, π/2] shrunk. Only reports that tell the places apart are visited, and of
    these the logarithms where the sum of log(1 + t) ≤ t − t²/2 + t³/3 is not below the level already.
    """
    quadratic, number = counts.size == 0, 0
    first, second, third = 0.0, 0.0, 0.0
    for j in range(state.size):
        change[j] = columns[x, j] - columns[y, j]
        if w >= 0:
            change[j] += columns[w, j] - columns[z, j]
        if quadratic:
            continue
        change[j] /= state[j]
        if abs(change[j]) > UNTOLD:
            told[number] = j
            number += 1
            power = counts[j] * change[j]
            first += power
            power *= change[j]
            second += power
            third += power * change[j]
    total, shape_x, shape_y = p[x] + p[y], 2 * alpha[x] - 1, 2 * alpha[y] - 1
    bend = 0.0
    if quadratic:
        bend = change[x] - change[y] + (change[w] - change[z] if w >= 0 else 0.0)
        slope = state[x] - state[y] + (state[w] - state[z] if w >= 0 else 0.0)
    rest_w, rest_z = (p[w] - p[x], p[z] - p[y]) if w >= 0 else (0.0, 0.0)
    angle = math.atan2(math.sqrt(p[x]), math.sqrt(p[y]))
    level = math.log1p(-rng.random()) + _log_prior(angle, shape_x, shape_y)
    if w >= 0:
        level += _log_rest(alpha[w], p[w]) + _log_rest(alpha[z], p[z])
    low, high = 0.0, 0.5 * math.pi
    for _ in range(200):  # then the interval is a point: stay
        new = low + (high - low) * rng.random()
        up, down = total * math.sin(new) ** 2, total * math.cos(new) ** 2
        step = up - p[x]
        value = _log_prior(new, shape_x, shape_y)
        if w >= 0:
            value += _log_rest(alpha[w], rest_w + up) + _log_rest(alpha[z], rest_z + down)
        if quadratic:
            value += (slope - 0.5 * bend * step) * step
        elif value + step * (first - step * (second / 2 - step * third / 3)) >= level:
            for i in range(number):
                j = told[i]
                value += counts[j] * math.log(1 + step * change[j])
        else:
            value = -math.inf
        if value >= level:
            p[x], p[y] = up, down
            if w >= 0:
                p[w], p[z] = rest_w + up, rest_z + down
            if quadratic:
                for j in range(state.size):
                    state[j] -= step * change[j]
            for i in range(number):
                j = told[i]
                state[j] *= 1 + step * change[j]
            break
        if new < angle:
            low = new
        else:
            high = new


@compiled()
def _log_rest(alpha, p):
    """Return the log-density of a corner that cannot become zero."""
    return (alpha - 1) * math.log(max(p, 1e-300))


@compiled()
def _log_prior(angle, shape_x, shape_y):
    """Return the log-density of the angle under the prior: zero everywhere for Jeffreys."""
    value = 0.0
    if shape_x != 0:
        value += shape_x * math.log(max(math.sin(angle), 1e-300))
    if shape_y != 0:
        value += shape_y * math.log(max(math.cos(angle), 1e-300))
    return value
