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
def likelihoods(stacked, slope, value, *known):
    """Write the log-likelihoods of many coefficients (S, K, a − 1) to value, and their gradients to slope."""
    for s in range(value.size):
        value[s] = likelihood(stacked[s], slope[s], *known)


def compiled_density(of, back, likelihood):
    """Return a compiled function: the log-density of coordinates u, which writes its gradient; see bending.Bend.

    Parameters
    ----------
    of, back : compiled functions
        (u, z, *frame): write the unknowns of coordinates to z; (slope, out, *frame): their gradient, from that in unknowns.
    likelihood : compiled function
        (stacked, slope, *reports) → log-likelihood of the coefficients, writes its gradient to slope.

    Returns
    -------
    compiled function
        Of u and out, (u,) arrays; room: two (u,) arrays and two of coefficients, to work in; frame; bent: what Bend.arrays
        says, namely the unknowns that effects are bent about, P, κ, of each batch the place of the log of its sd, where its
        effects begin, end, by what they step and how far the coefficients are from them, the scale of its prior and 1 where
        this is exponential, 2 where it is half-normal, and where the coefficients without a learnt sd begin, and their
        number; reports.
    """

    @compiled(nogil=True)
    def density(u, out, room, frame, bent, reports):
        z, ratios, stacked, slope = room
        at, precision, normality, places, begins, ends, steps, offsets, scales, powers, first, fixed = bent
        value = 0.0
        of(u, z, *frame)
        flat, inner = stacked.ravel(), slope.ravel()
        for i in range(fixed):
            flat[i] = z[first + i]
            value -= 0.5 * flat[i] * flat[i]
        for f in range(places.size):
            log_sd = min(z[places[f]], 300.0)
            sd, apart = math.exp(log_sd), log_sd - at[places[f]]
            grown, moved = math.exp(2.0 * normality * apart), math.exp(apart)
            value += log_sd - (sd / scales[f]) ** powers[f] / powers[f]
            for i in range(begins[f], ends[f], steps[f]):
                fallen = (1.0 + precision[i]) / (1.0 + precision[i] * grown)
                log_ratio = math.log(fallen) / normality
                ratio = fallen if normality == 1.0 else math.exp(log_ratio)
                ratios[i] = ratio
                z[i] = at[i] * moved * ratio + math.sqrt(ratio) * z[i]
                value += 0.5 * log_ratio - 0.5 * z[i] * z[i]
                flat[offsets[f] + i] = sd * z[i]
        value += likelihood(stacked, slope, *reports)
        for i in range(fixed):
            inner[i] -= flat[i]
        # z becomes the gradient in the bent unknowns.
        for f in range(places.size):
            log_sd = min(z[places[f]], 300.0)
            sd, apart = math.exp(log_sd), log_sd - at[places[f]]
            grown, shifted = math.exp(2.0 * normality * apart), math.exp(apart)
            along_sd = 1.0 - (sd / scales[f]) ** powers[f]
            for i in range(begins[f], ends[f], steps[f]):
                k = offsets[f] + i
                share = precision[i] * grown / (1.0 + precision[i] * grown)
                along_sd += inner[k] * flat[k] - share
                along = sd * inner[k] - z[i]
                moved = at[i] * shifted * ratios[i]
                along_sd += along * ((1.0 - 2.0 * share) * moved - share * (z[i] - moved))
                z[i] = along * math.sqrt(ratios[i])
            z[places[f]] = along_sd
        for i in range(fixed):
            z[first + i] = inner[i]
        back(z, out, *frame)
        return value

    return density


@compiled(nogil=True)
def dense(u, z, centre, root):
    """Write centre + u root to z; root is symmetric."""
    for i in range(u.size):
        z[i] = centre[i]
    for i in range(u.size):
        for j in range(u.size):
            z[j] += u[i] * root[i, j]


@compiled(nogil=True)
def dense_gradient(slope, out, centre, root):
    """Write the gradient in coordinates to out."""
    for i in range(slope.size):
        out[i] = 0.0
        for j in range(slope.size):
            out[i] += root[i, j] * slope[j]


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def arrow(u, out, centre, shared, blocks, border):
    """Write the unknowns at whitened coordinates to out; see structure.Arrow. Inner loops read contiguous numbers."""
    start = shared.shape[0]
    cells, width = blocks.shape[:2]
    for i in range(u.size):
        out[i] = centre[i]
    for j in range(start):
        for i in range(start):
            out[i] += shared[j, i] * u[j]
        for i in range(cells * width):
            out[start + i] -= border[j, i] * u[j]
    for c in range(cells):
        at = start + c * width
        for j in range(width):
            for i in range(width):
                out[at + i] += blocks[c, j, i] * u[at + j]


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def arrow_gradient(slope, out, centre, shared, blocks, border):
    """Write the gradient in whitened coordinates to out."""
    start = shared.shape[0]
    cells, width = blocks.shape[:2]
    out[:] = 0.0
    for j in range(start):
        for i in range(start):
            out[j] += shared[j, i] * slope[i]
    for j in range(start):
        along = 0.0
        for i in range(cells * width):
            along += border[j, i] * slope[start + i]
        out[j] -= along
    for c in range(cells):
        at = start + c * width
        for j in range(width):
            for i in range(width):
                out[at + i] += blocks[c, j, i] * slope[at + j]


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def given_scales(which, scales, curvatures, slopes, v, x, back, half):
    """Write unknowns of standard normal ones, or these of those, given the scales; see conditional.Conditional.

    Parameters
    ----------
    which : (S,) int array
        The quadratic of each draw.
    scales : (S, n) array
        D.
    curvatures, slopes : (K, n, n) and (K, n) arrays
        A and h.
    v, x : (S, n) arrays
    back : bool
        Whether v is written, rather than x.
    half : (S,) array
        Half the log-determinant of I + D A D is written to it.
    """
    n = x.shape[1]
    lower, moved = np.empty((n, n)), np.empty(n)
    for s in range(which.size):
        a, d = curvatures[which[s]], scales[s]
        half[s] = 0.0
        for i in range(n):
            row, summed = lower[i], 1.0 + d[i] * d[i] * a[i, i]
            for j in range(i):
                other, entry = lower[j], d[i] * a[i, j] * d[j]
                for k in range(j):
                    entry -= row[k] * other[k]
                row[j] = entry / other[j]
                summed -= row[j] * row[j]
            row[i] = math.sqrt(summed)
            half[s] += math.log(row[i])
            along = d[i] * slopes[which[s], i]
            for k in range(i):
                along -= row[k] * moved[k]
            moved[i] = along / row[i]
        if back:  # v = Lᵀ x − L⁻¹ D h
            for i in range(n):
                v[s, i] = -moved[i]
            for i in range(n):
                for k in range(i + 1):
                    v[s, k] += lower[i, k] * x[s, i]
            continue
        for i in range(n):
            moved[i] += v[s, i]
        for i in range(n - 1, -1, -1):
            x[s, i] = moved[i] / lower[i, i]
            for k in range(i):
                moved[k] -= lower[i, k] * x[s, i]


density = compiled_density(dense, dense_gradient, likelihood)
#: Moves chains along trajectories; the last parameters are what ``density`` takes after the first two.
trajectories = compiled_trajectories(density)
