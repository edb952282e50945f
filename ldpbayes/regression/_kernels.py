"""Compiled: the likelihood of a regression at many draws, and its posterior density with gradient and trajectories."""

import math

import numpy as np

from ldpbayes.compiling import compiled, reinterpreted
from ldpbayes.inference.hmc import compiled_trajectories

#: A report with a smaller probability has it computed in logarithms: a category that the channel rules out has a zero in
#: its row, and the others may have shares beyond the range of floats.
TINY = 1e-200
#: Probabilities of single reports are multiplied until they are smaller than this, and then their logarithm is taken.
LOW = 1e-100
#: Draws that are computed together, and where their log odds are cut: e^325 and its reciprocal are far from the ends.
BLOCK, LARGEST = 64, 325.0


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def likelihood(stacked, slope, basis, starts, index, value, entry_starts, row, weight, table, sizes):
    """Return Σ_e weight_e log (table[row_e] · softmax(η[cell_e])), η = X B Vᵀ, and write its gradient in B to slope.

    Parameters
    ----------
    stacked, slope : (K, a − 1) arrays
        B, and its gradient.
    basis : (a, a − 1) array
        V.
    starts, index, value : (cells + 1,), (z,) and (z,) arrays
        X without its zeros: columns and entries of each cell.
    entry_starts, row, weight, table, sizes : arrays
        Of Entries.
    """
    a, free = basis.shape
    eta, p, d, inner = np.empty(a), np.empty(a), np.empty(a), np.empty(free)
    total, product = 0.0, 1.0
    slope[:] = 0.0
    for c in range(sizes.size):
        inner[:] = 0.0
        for k in range(starts[c], starts[c + 1]):
            for f in range(free):
                inner[f] += value[k] * stacked[index[k], f]
        top = -np.inf
        for x in range(a):
            eta[x] = 0.0
            for f in range(free):
                eta[x] += basis[x, f] * inner[f]
            top = max(top, eta[x])
        mass = 0.0
        for x in range(a):
            p[x] = 1.0 if eta[x] == top else math.exp(eta[x] - top)
            mass += p[x]
        part = 1.0 / mass
        for x in range(a):
            p[x] *= part
            d[x] = -sizes[c] * p[x]
        for e in range(entry_starts[c], entry_starts[c + 1]):
            r, w = row[e], weight[e]
            u = 0.0
            for x in range(a):
                u += table[r, x] * p[x]
            if u > TINY:
                if w == 1.0:
                    product *= u
                    if product < LOW:
                        total += math.log(product)
                        product = 1.0
                else:
                    total += w * math.log(u)
                w /= u
                for x in range(a):
                    d[x] += w * table[r, x] * p[x]
                continue
            best = -np.inf
            for x in range(a):
                if table[r, x] > 0:
                    best = max(best, math.log(table[r, x]) + eta[x])
            summed = 0.0
            for x in range(a):
                if table[r, x] > 0:
                    summed += math.exp(math.log(table[r, x]) + eta[x] - best)
            total += w * (best + math.log(summed) - top - math.log(mass))
            for x in range(a):
                if table[r, x] > 0:
                    d[x] += w * math.exp(math.log(table[r, x]) + eta[x] - best) / summed
        for f in range(free):
            inner[f] = 0.0
            for x in range(a):
                inner[f] += d[x] * basis[x, f]
        for k in range(starts[c], starts[c + 1]):
            for f in range(free):
                slope[index[k], f] += value[k] * inner[f]
    return total + math.log(product)


@compiled(nogil=True)
def density(u, out, z, stacked, slope, centre, root, at, precision, places, begins, ends, scales, fixed, *reports):
    """Return the log-density of whitened coordinates u, and write its gradient to out; see nuts.Bent.

    Unknowns are bent ones, centre + u root; z, stacked and slope are room to work in.

    Parameters
    ----------
    u, out, z : (u,) arrays
    stacked, slope : (K, a − 1) arrays
    centre, root : (u,) and (u, u) arrays
    at, precision : (u,) arrays
        The unknowns that they are bent about, and the precision that reports give to effects times their variance there.
    places, begins, ends, scales : (factors,) arrays
        Where the log of the sd of each factor of effects stands, where its effects begin and end, its half-normal scale.
    fixed : int
        Number of coefficients before the effects.
    *reports
        What ``likelihood`` takes after these.
    """
    size, value = u.size, 0.0
    z[:] = centre
    for i in range(size):
        for j in range(size):
            z[j] += u[i] * root[i, j]
    flat, inner = stacked.ravel(), slope.ravel()
    for i in range(fixed):
        flat[i] = z[i]
        value -= 0.5 * z[i] * z[i]
    k = fixed
    for f in range(places.size):
        log_sd = min(z[places[f]], 300.0)
        sd, apart = math.exp(log_sd), log_sd - at[places[f]]
        grown = math.exp(2.0 * apart)
        value += log_sd - 0.5 * (sd / scales[f]) ** 2
        for i in range(begins[f], ends[f]):
            ratio = (1.0 + precision[i]) / (1.0 + precision[i] * grown)
            z[i] = at[i] * math.exp(apart) * ratio + math.sqrt(ratio) * z[i]
            value += 0.5 * math.log(ratio) - 0.5 * z[i] * z[i]
            flat[k] = sd * z[i]
            k += 1
    value += likelihood(stacked, slope, *reports)
    for i in range(fixed):
        inner[i] -= z[i]
    # z becomes the gradient in the bent unknowns.
    k = fixed
    for f in range(places.size):
        log_sd = min(z[places[f]], 300.0)
        sd, apart = math.exp(log_sd), log_sd - at[places[f]]
        grown, along_sd = math.exp(2.0 * apart), 1.0 - (sd / scales[f]) ** 2
        for i in range(begins[f], ends[f]):
            ratio = (1.0 + precision[i]) / (1.0 + precision[i] * grown)
            share = precision[i] * grown / (1.0 + precision[i] * grown)
            along_sd += inner[k] * flat[k] - share
            along = sd * inner[k] - z[i]
            moved = at[i] * math.exp(apart) * ratio
            along_sd += along * ((1.0 - 2.0 * share) * moved - share * (z[i] - moved))
            z[i] = along * math.sqrt(ratio)
            k += 1
        z[places[f]] = along_sd
    for i in range(fixed):
        z[i] = inner[i]
    for i in range(size):
        out[i] = 0.0
        for j in range(size):
            out[i] += root[i, j] * z[j]
    return value


#: Moves chains along trajectories; the last parameters are what ``density`` takes after the first two.
trajectories = compiled_trajectories(density)

_bits, _float = reinterpreted()


@compiled(nogil=True, fastmath={"contract"})
def _exp(x):
    """Return e^x for |x| < 700 to 2e-16, in operations that the compiler vectorises: 2^k times a Taylor series."""
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # the last bits are now those of k
    k = shifted - 6755399441055744.0
    r = x - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10
    y = 1 / 479001600.0
    y = y * r + 1 / 39916800.0
    y = y * r + 1 / 3628800.0
    y = y * r + 1 / 362880.0
    y = y * r + 1 / 40320.0
    y = y * r + 1 / 5040.0
    y = y * r + 1 / 720.0
    y = y * r + 1 / 120.0
    y = y * r + 1 / 24.0
    y = y * r + 1 / 6.0
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    return y * _float((_bits(shifted) << 52) + (1023 << 52))


@compiled(nogil=True, fastmath={"contract", "nsz"})
def _shares(near, index, value, p, u):
    """Write P of one cell to p (a, BLOCK), from its columns other than zero and the log odds of draws; u is room."""
    u[:] = 1.0
    for x in range(len(near)):
        here = p[x + 1]
        here[:] = 0.0
        for k in range(index.size):
            by, at = value[k], near[x, index[k]]
            for s in range(BLOCK):
                here[s] += by * at[s]
        for s in range(BLOCK):
            here[s] = _exp(min(max(here[s], -LARGEST), LARGEST))
            u[s] += here[s]
    for s in range(BLOCK):
        u[s] = 1.0 / u[s]
        p[0, s] = u[s]
    for x in range(1, len(p)):
        for s in range(BLOCK):
            p[x, s] *= u[s]


@compiled(nogil=True, fastmath={"contract", "nsz"})
def _mixed(entries, p, u):
    """Write Σ_x entries_x p_x to u (BLOCK,)."""
    for s in range(BLOCK):
        u[s] = entries[0] * p[0, s]
    for x in range(1, len(p)):
        for s in range(BLOCK):
            u[s] += entries[x] * p[x, s]


@compiled(nogil=True, fastmath={"contract", "nsz"})
def _take_up(product, power):
    """Move the exponents of products to powers of two."""
    for s in range(BLOCK):
        bits = _bits(product[s])
        power[s] += (bits >> 52) - 1023
        product[s] = _float((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)


@compiled(nogil=True, fastmath={"contract", "nsz"})
def of_draws(coefficients, starts, index, value, entry_starts, row, weight, table, sizes, out, shares, expected):
    """Add the log-likelihoods of many draws to out, and sums over people of P to shares.

    Parameters
    ----------
    coefficients : (a − 1, K, S) array
        Log odds against the first category.
    starts, index, value, entry_starts, row, weight, table, sizes : arrays
        As in ``likelihood``.
    out : (S,) array
    shares : (a, S) array
    expected : (a, S) array, or one of size 0
        What the expected true tallies are added to.
    """
    free, _, size = coefficients.shape
    a, tallied = free + 1, expected.size > 0
    least = np.empty(len(table))
    for r in range(len(table)):
        least[r] = math.log(max(table[r].min(), 1e-300))
    p, u = np.empty((a, BLOCK)), np.empty(BLOCK)
    product, power, total = np.empty(BLOCK), np.empty(BLOCK, np.int64), np.empty(BLOCK)
    near = np.zeros((free, coefficients.shape[1], BLOCK))
    summed = np.zeros((a, BLOCK))
    for first in range(0, size, BLOCK):
        width, reached = min(BLOCK, size - first), 0.0
        near[:, :, :width] = coefficients[:, :, first : first + width]
        summed[:] = 0.0
        total[:] = 0.0
        product[:] = 1.0
        power[:] = 0
        for c in range(sizes.size):
            cell = slice(starts[c], starts[c + 1])
            _shares(near, index[cell], value[cell], p, u)
            many = sizes[c]
            for x in range(a):
                for s in range(BLOCK):
                    summed[x, s] += many * p[x, s]
            for e in range(entry_starts[c], entry_starts[c + 1]):
                r, w = row[e], weight[e]
                _mixed(table[r], p, u)
                if w == 1.0:
                    reached += least[r]
                    if reached < -600.0:
                        reached = least[r]
                        _take_up(product, power)
                    for s in range(BLOCK):
                        product[s] *= u[s]
                else:
                    for s in range(BLOCK):
                        total[s] += w * math.log(u[s])
                if tallied:
                    for x in range(a):
                        entry = w * table[r, x]
                        for s in range(width):
                            expected[x, first + s] += entry * p[x, s] / u[s]
        for s in range(width):
            out[first + s] += total[s] + math.log(product[s]) + power[s] * math.log(2.0)
            for x in range(a):
                shares[x, first + s] += summed[x, s]
