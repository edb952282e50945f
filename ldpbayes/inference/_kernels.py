"""Compiled: the posterior density of effects whose scales are learnt, with its gradient and trajectories."""

import math

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference.hmc import compiled_trajectories

#: A report with a smaller probability has it computed in logarithms: a category that the channel rules out has a zero in
#: its row, and the others may have shares beyond the range of floats.
TINY = 1e-200
#: Probabilities of single reports are multiplied until they are smaller than this, and then their logarithm is taken.
LOW = 1e-100


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
def density(
    u, out, z, stacked, slope, centre, root, at, precision, places, begins, ends, scales, powers, first, fixed, *reports
):
    """Return the log-density of whitened coordinates u, and write its gradient to out; see effects.Bent.

    Unknowns are bent ones, centre + u root; z, stacked and slope are room to work in.

    Parameters
    ----------
    u, out, z : (u,) arrays
    stacked, slope : (K, a − 1) arrays
    centre, root : (u,) and (u, u) arrays
    at, precision : (u,) arrays
        The unknowns that they are bent about, and the precision that reports give to effects times their variance there.
    places, begins, ends, scales, powers : (factors,) arrays
        Where the log of the sd of each batch of effects stands, where its effects begin and end, the scale of its prior, and
        1 where this is exponential, 2 where it is half-normal.
    first, fixed : int
        Where the coefficients without a learnt sd begin, and their number.
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
        flat[i] = z[first + i]
        value -= 0.5 * flat[i] * flat[i]
    k = fixed
    for f in range(places.size):
        log_sd = min(z[places[f]], 300.0)
        sd, apart = math.exp(log_sd), log_sd - at[places[f]]
        grown = math.exp(2.0 * apart)
        value += log_sd - (sd / scales[f]) ** powers[f] / powers[f]
        for i in range(begins[f], ends[f]):
            ratio = (1.0 + precision[i]) / (1.0 + precision[i] * grown)
            z[i] = at[i] * math.exp(apart) * ratio + math.sqrt(ratio) * z[i]
            value += 0.5 * math.log(ratio) - 0.5 * z[i] * z[i]
            flat[k] = sd * z[i]
            k += 1
    value += likelihood(stacked, slope, *reports)
    for i in range(fixed):
        inner[i] -= flat[i]
    # z becomes the gradient in the bent unknowns.
    k = fixed
    for f in range(places.size):
        log_sd = min(z[places[f]], 300.0)
        sd, apart = math.exp(log_sd), log_sd - at[places[f]]
        grown, along_sd = math.exp(2.0 * apart), 1.0 - (sd / scales[f]) ** powers[f]
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
        z[first + i] = inner[i]
    for i in range(size):
        out[i] = 0.0
        for j in range(size):
            out[i] += root[i, j] * z[j]
    return value


#: Moves chains along trajectories; the last parameters are what ``density`` takes after the first two.
trajectories = compiled_trajectories(density)
