"""Numba kernels of the posterior methods: the recurrence over tallies, slices of pairs, multinomials.

Imported where first needed, so that nothing else pays for loading numba.
"""

import math

import numpy as np

from ldpbayes.compiling import compiled


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
def start_averages(n, g):
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
def continue_averages(matrix, rows, users, current, following, offsets):
    """Return (U after these further users, room for the next, log of the scale it is divided by); rows one a user."""
    log_scale = 0.0
    for j in rows:
        users += 1
        top = _step(current, following, matrix[j], users, offsets)
        current, following = following, current
        if top < 1e-100:  # averages of numbers in [0, 1]: rescale now and then
            current /= top
            log_scale += np.log(top)
    return current, following, log_scale


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


@compiled()
def slice_pairs(p, state, columns, counts, alpha, pairs, rng):
    """Slice-sample the split of p[x] + p[y] for that many random pairs, in place; each draw is from [0, π/2] shrunk.

    With counts (m,): the log-likelihood Σ_j counts_j log state_j, state = L p and columns = Lᵀ (a, m). Without: the
    quadratic with columns = H (a, a) and state = its gradient b − H p. ``state`` follows p.
    """
    a, size = p.size, state.size
    quadratic = counts.size == 0
    change, relative = np.empty(size), np.empty(size)
    for _ in range(pairs):
        x, y = int(rng.random() * a), int(rng.random() * (a - 1))
        y += y >= x
        total, shape_x, shape_y = p[x] + p[y], 2 * alpha[x] - 1, 2 * alpha[y] - 1
        for j in range(size):
            change[j] = columns[x, j] - columns[y, j]
            if not quadratic:
                relative[j] = change[j] / state[j]
        angle = math.atan2(math.sqrt(p[x]), math.sqrt(p[y]))
        level = math.log1p(-rng.random()) + _log_prior(angle, shape_x, shape_y)
        low, high = 0.0, 0.5 * math.pi
        for _ in range(200):  # then the interval is a point: stay
            new = low + (high - low) * rng.random()
            step = total * math.sin(new) ** 2 - p[x]
            value = _log_prior(new, shape_x, shape_y)
            if quadratic:
                value += (state[x] - state[y] - 0.5 * (change[x] - change[y]) * step) * step
            else:
                for j in range(size):
                    value += counts[j] * math.log(1 + step * relative[j])
            if value >= level:
                p[x], p[y] = total * math.sin(new) ** 2, total * math.cos(new) ** 2
                direction = -step if quadratic else step
                for j in range(size):
                    state[j] += direction * change[j]
                break
            if new < angle:
                low = new
            else:
                high = new


@compiled()
def _log_prior(angle, shape_x, shape_y):
    """Return the log-density of the angle under the prior: zero everywhere for Jeffreys."""
    value = 0.0
    if shape_x != 0:
        value += shape_x * math.log(max(math.sin(angle), 1e-300))
    if shape_y != 0:
        value += shape_y * math.log(max(math.cos(angle), 1e-300))
    return value


@compiled(nogil=True)
def multinomials(number, p, log_factorial, inverse, rng, out):
    """Add a draw of Multinomial(number_s, p_s) to out (S, a), category by category: the others share what is left.

    Parameters
    ----------
    number : (S,) int array
    p : (S, a) array
    log_factorial, inverse : arrays
        log i! and 1/i of all i up to the largest number.
    """
    size, a = p.shape
    for s in range(size):
        left, mass = number[s], 1.0
        for x in range(a - 1):
            if left == 0:
                break
            share = min(p[s, x] / mass, 1.0) if mass > 0 else 1.0
            drawn = _binomial(left, share, log_factorial, inverse, rng)
            out[s, x] += drawn
            left -= drawn
            mass -= p[s, x]
        out[s, a - 1] += left


@compiled(nogil=True)
def _binomial(n, chance, log_factorial, inverse, rng):
    """Return a draw by inversion, from the mode outwards on both sides."""
    q = min(chance, 1 - chance)
    if q <= 0:
        return n if chance > 0.5 else 0
    mode = int((n + 1) * q)
    top = log_factorial[n] - log_factorial[mode] - log_factorial[n - mode]
    top += mode * math.log(q) + (n - mode) * math.log1p(-q)
    u, below, above = rng.random(), mode, mode
    odds, against = q / (1 - q), (1 - q) / q
    down = up = math.exp(top)
    u -= up
    found = mode
    while u >= 0 and (below > 0 or above < n):
        if above < n:
            up *= (n - above) * inverse[above + 1] * odds
            above += 1
            u -= up
            if u < 0:
                found = above
                break
        if below > 0:
            down *= below * inverse[n - below + 1] * against
            below -= 1
            u -= down
            if u < 0:
                found = below
    return found if chance <= 0.5 else n - found
