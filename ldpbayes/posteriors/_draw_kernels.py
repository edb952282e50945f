"""Compiled: draws of P and of the users' frequencies from the exact posteriors of cells; see posteriors.conjugate."""

import math

import numpy as np

from ldpbayes.compiling import compiled

#: Gammas of smaller shapes are drawn as logs: they would underflow.
TINY = 0.1


@compiled(nogil=True)
def alias_tables(pmf, starts, keep, other):
    """Write Vose's alias tables of distributions that stand one after the other to keep and other (entries,)."""
    most = np.diff(starts).max()
    small, large = np.empty(most, np.int64), np.empty(most, np.int64)
    for x in range(starts.size - 1):
        low, size, few, many = starts[x], starts[x + 1] - starts[x], 0, 0
        for i in range(size):
            keep[low + i], other[low + i] = pmf[low + i] * size, i
            if keep[low + i] < 1:
                small[few], few = i, few + 1
            else:
                large[many], many = i, many + 1
        while few and many:
            few -= 1
            i, j = small[few], large[many - 1]
            other[low + i] = j
            keep[low + j] -= 1 - keep[low + i]
            if keep[low + j] < 1:
                many -= 1
                small[few], few = j, few + 1
        for i in range(many):
            keep[low + large[i]] = 1.0
        for i in range(few):  # what rounding has left
            keep[low + small[i]] = 1.0


@compiled(nogil=True)
def conditioned(keep, other, starts, first, accepted, alpha, rng, p, k):
    """Add draws of the powers to k (S, a), and write those of P given them to p (S, a); see PolynomialRoute.draws.

    Parameters
    ----------
    keep, other, starts : arrays
        Alias tables of the powers of each category, less ``first`` (a,).
    accepted : array
        Chance that powers are taken, by their sum less that of ``first``.
    alpha : (a,) array
    """
    (size, a), least, power = p.shape, alpha.min(), np.empty(alpha.size, np.int64)
    for s in range(size):
        while True:
            total = 0
            for x in range(a):
                width = starts[x + 1] - starts[x]
                u = rng.random() * width
                i = int(u)
                if u - i >= keep[starts[x] + i]:
                    i = other[starts[x] + i]
                power[x] = i
                total += i
            if rng.random() < accepted[total]:
                break
        mass, top = 0.0, -math.inf
        for x in range(a):
            power[x] += first[x]
            k[s, x] += power[x]
            shape = alpha[x] + power[x]
            if least < TINY:
                p[s, x] = math.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential() / shape
                top = max(top, p[s, x])
            else:
                p[s, x] = rng.standard_gamma(shape)
        for x in range(a):
            if least < TINY:
                p[s, x] = math.exp(p[s, x] - top)
            mass += p[s, x]
        for x in range(a):
            p[s, x] /= mass


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
