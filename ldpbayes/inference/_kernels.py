"""Compiled: the posterior density of effects whose scales are learnt, with its gradient and trajectories."""

import math

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference.constants import BLOCK, LOW, LOWEST, TINY
from ldpbayes.inference.hmc import compiled_trajectories

#: Terms of the series of e^r, the last one first.
TAYLOR = tuple(1 / math.factorial(k) for k in range(12, -1, -1))


@compiled(nogil=True, fastmath={"contract"})
def exp(x):
    """Return e^x for |x| < 700 to 2e-16, in operations that the compiler vectorizes: 2^k times a Taylor series."""
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # the last bits are now those of k
    k = shifted - 6755399441055744.0
    r = x - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10
    y = 0.0
    for term in TAYLOR:
        y = y * r + term
    return y * np.int64((np.float64(shifted).view(np.int64) << 52) + (1023 << 52)).view(np.float64)


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def of_logits(first, eta, slope, forms, total, product):
    """Return (total, product), to whose sum of total and log(product) the log-likelihood of some cells is added.

    Parameters
    ----------
    first : int
        The number of the first cell; the others follow it.
    eta : (cells, a) array
        Logits of P.
    slope : (cells, a) array
        The gradient in these is written to it.
    forms : tuple
        b and D (all cells, a), or empty: b·p − Σ D p²/2 of a summary; where the separable reports of each cell begin, x,
        base, slope and counts of these: Σ w log(base + slope p_x); where its other reports begin, the number of each in a
        table, counts and the table (m, a): Σ w log(L p); and what the gradient in the table is added to, or empty.
    total, product : float
    """
    cells, a = eta.shape
    p, along, tiny = np.empty(a), np.empty(1), np.empty(1, np.bool_)
    for k in range(cells):
        top, mass = -np.inf, 0.0
        for x in range(a):
            top = max(top, eta[k, x])
        for x in range(a):
            p[x] = 1.0 if eta[k, x] == top else math.exp(eta[k, x] - top)
            mass += p[x]
        inverse = 1.0 / mass
        for x in range(a):
            p[x] *= inverse
        of_p = p.reshape(a, 1), slope[k].reshape(a, 1), along, tiny
        total, product = _of_shares(first + k, 1, *of_p, forms, total, product)
        for x in range(a):
            slope[k, x] = p[x] * (slope[k, x] - along[0])
        if tiny[0]:
            total += _of_tiny(first + k, eta[k], p, slope[k], forms)
    return total, product


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _of_shares(first, number, p, slope, along, tiny, forms, total, product):
    """Do what of_logits does for cells whose P stand side by side, (a, cells).

    The gradient in P is written to slope, Σ_x p_x ∂/∂p_x to along, and to tiny whether reports are next to impossible.
    """
    linear, curvature, starts, index, base, within, counts, row_starts, row, weight, table, moved = forms
    a = len(p)
    slope[:] = 0.0
    for c in range(number):
        cell, summed, lost = first + c, 0.0, False
        if linear.size:
            for x in range(a):
                bent = curvature[cell, x] * p[x, c]
                slope[x, c] = linear[cell, x] - bent
                summed += slope[x, c] * p[x, c]
                total += (linear[cell, x] - 0.5 * bent) * p[x, c]
        if index.size:
            for j in range(starts[cell], starts[cell + 1]):
                x = index[j]
                u = base[j] + within[j] * p[x, c]
                total += counts[j] * math.log(u)
                ratio = counts[j] * within[j] / u
                slope[x, c] += ratio
                summed += ratio * p[x, c]
        for e in range(row_starts[cell], row_starts[cell + 1]):
            r, w, u = row[e], weight[e], 0.0
            for x in range(a):
                u += table[r, x] * p[x, c]
            if not u > TINY:
                lost = True
                continue
            summed += w
            if w == 1.0:
                product *= u
                if product < LOW:
                    total += math.log(product)
                    product = 1.0
            else:
                total += w * math.log(u)
            w /= u
            for x in range(a):
                slope[x, c] += w * table[r, x]
            if moved.size:
                for x in range(a):
                    moved[r, x] += w * p[x, c]
        along[c], tiny[c] = summed, lost
    return total, product


@compiled(nogil=True)
def _of_tiny(c, eta, p, slope, forms):
    """Return the log-likelihood of a cell's reports that are next to impossible, and add its gradient in eta to slope."""
    row_starts, row, weight, table, moved = forms[7:]
    a, total = p.size, 0.0
    top = eta.max()
    mass = np.exp(eta - top).sum()
    for e in range(row_starts[c], row_starts[c + 1]):
        r, w, u, best = row[e], weight[e], 0.0, -np.inf
        for x in range(a):
            u += table[r, x] * p[x]
            if table[r, x] > 0:
                best = max(best, math.log(table[r, x]) + eta[x])
        if u > TINY:
            continue
        summed = 0.0
        for x in range(a):
            if table[r, x] > 0:
                summed += math.exp(math.log(table[r, x]) + eta[x] - best)
        total += w * (best + math.log(summed) - top - math.log(mass))
        for x in range(a):
            slope[x] -= w * p[x]
            if table[r, x] > 0:
                slope[x] += w * math.exp(math.log(table[r, x]) + eta[x] - best) / summed
                if moved.size:
                    moved[r, x] += w * math.exp(eta[x] - best) / summed
    return total


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _shares(first, number, stacked, basis, columns, inner, eta, p):
    """Write P = softmax(X B Vᵀ) of some cells to p (a, cells), and their logits to eta; inner holds (X B)ᵀ meanwhile."""
    full, dense, starts, index, value = columns
    a, free = basis.shape
    inner[:] = 0.0
    for k in range(full.size):
        column = dense[k, first : first + number]
        for f in range(free):
            by, here = stacked[full[k], f], inner[f]
            for c in range(number):
                here[c] += by * column[c]
    for c in range(number):
        for k in range(starts[first + c], starts[first + c + 1]):
            for f in range(free):
                inner[f, c] += value[k] * stacked[index[k], f]
    for x in range(a):
        eta[x] = 0.0
        for f in range(free):
            by = basis[x, f]
            for c in range(number):
                eta[x, c] += by * inner[f, c]
    top, mass = np.empty(number), np.zeros(number)
    for c in range(number):
        top[c] = eta[0, c]
    for x in range(1, a):
        for c in range(number):
            top[c] = max(top[c], eta[x, c])
    for x in range(a):
        for c in range(number):
            p[x, c] = exp(max(eta[x, c] - top[c], -LOWEST))
            mass[c] += p[x, c]
    for x in range(a):
        for c in range(number):
            p[x, c] /= mass[c]


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _pulled(first, number, d, basis, columns, inner, slope):
    """Add the gradient in B to slope (K, k), from that in the logits of some cells, d (a, cells)."""
    full, dense, starts, index, value = columns
    a, free = basis.shape
    inner[:] = 0.0
    for f in range(free):
        for x in range(a):
            by = basis[x, f]
            for c in range(number):
                inner[f, c] += by * d[x, c]
    for k in range(full.size):
        column = dense[k, first : first + number]
        for f in range(free):
            summed, here = 0.0, inner[f]
            for c in range(number):
                summed += here[c] * column[c]
            slope[full[k], f] += summed
    for c in range(number):
        for k in range(starts[first + c], starts[first + c + 1]):
            for f in range(free):
                slope[index[k], f] += value[k] * inner[f, c]


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def of_columns(stacked, slope, basis, full, dense, starts, index, value, forms):
    """Return the log-likelihood at P = softmax(X B Vᵀ), and write its gradient in B to slope.

    Numbers of some cells stand side by side, so that inner loops are vectorized.

    Parameters
    ----------
    stacked, slope : (K, k) arrays
        B, and the gradient in it.
    basis : (a, k) array
        V.
    full, dense, starts, index, value : arrays
        X, from priors.base.Linear.
    forms : tuple
        As in ``of_logits``.
    """
    (a, free), cells = basis.shape, starts.size - 1
    room, columns = min(BLOCK, cells), (full, dense, starts, index, value)
    inner, eta, p, d = np.empty((free, room)), np.empty((a, room)), np.empty((a, room)), np.empty((a, room))
    along, tiny = np.empty(room), np.empty(room, np.bool_)
    total, product = 0.0, 1.0
    slope[:] = 0.0
    for first in range(0, cells, BLOCK):
        number = min(BLOCK, cells - first)
        _shares(first, number, stacked, basis, columns, inner, eta, p)
        total, product = _of_shares(first, number, p, d, along, tiny, forms, total, product)
        for x in range(a):
            for c in range(number):
                d[x, c] = p[x, c] * (d[x, c] - along[c])
        for c in range(number):
            if tiny[c]:
                total += _of_tiny(first + c, eta[:, c], p[:, c], d[:, c], forms)
        _pulled(first, number, d, basis, columns, inner, slope)
    return total + math.log(product)


@compiled(nogil=True)
def likelihoods(stacked, slope, value, *known):
    """Write the log-likelihoods of many coefficients (S, K, k) to value, and their gradients to slope."""
    for s in range(value.size):
        value[s] = of_columns(stacked[s], slope[s], *known)


@compiled(nogil=True)
def _exponential(z):
    """Return −log Φ(−z), above 0: steps are divided by their sum."""
    if z < 0:
        return -math.log1p(-0.5 * math.erfc(min(-z, 37.0) / math.sqrt(2.0)))
    return -math.log(0.5 * math.erfc(min(z, 37.0) / math.sqrt(2.0)))


@compiled(nogil=True)
def widened(numbers, wide, parts, roots):
    """Write the coefficients of the columns to wide (K, k), from the numbers (n,) that they come from.

    Parameters
    ----------
    numbers, wide : arrays
    parts, roots : arrays
        As in priors.base.Linear.
    """
    free, start = wide.shape[1], 0
    for block in range(len(parts)):
        kind, at, row, size, steps = parts[block]
        if kind == 0:
            for i in range(size * free):
                wide[row + i // free, i % free] = numbers[at + i]
            continue
        root = roots[start : start + size * steps].reshape(size, steps)
        start += size * steps
        if kind == 1:
            np.dot(root, numbers[at : at + steps * free].reshape(steps, free), wide[row : row + size])
            continue
        steep = np.empty(steps)
        for k in range(steps):
            steep[k] = _exponential(numbers[at + free + k])
        height = np.dot(root, steep / steep.sum())
        for j in range(size):
            for f in range(free):
                wide[row + j, f] = height[j] * numbers[at + f]


@compiled(nogil=True)
def all_widened(numbers, wide, parts, roots):
    """Do what widened does for many numbers (S, n), into wide (S, K, k)."""
    for s in range(len(numbers)):
        widened(numbers[s], wide[s], parts, roots)


@compiled(nogil=True)
def narrowed(numbers, slope, pulled, parts, roots):
    """Write the gradient in the numbers to slope, from that in the coefficients of the columns; see widened."""
    free, start = pulled.shape[1], 0
    for block in range(len(parts)):
        kind, at, row, size, steps = parts[block]
        if kind == 0:
            for i in range(size * free):
                slope[at + i] = pulled[row + i // free, i % free]
            continue
        root = roots[start : start + size * steps].reshape(size, steps)
        start += size * steps
        if kind == 1:
            np.dot(root.T, pulled[row : row + size], slope[at : at + steps * free].reshape(steps, free))
            continue
        steep = np.empty(steps)
        for k in range(steps):
            steep[k] = _exponential(numbers[at + free + k])
        total = steep.sum()
        along = np.dot(pulled[row : row + size], numbers[at : at + free])
        height = np.dot(root, steep) / total
        for f in range(free):
            slope[at + f] = 0.0
            for j in range(size):
                slope[at + f] += height[j] * pulled[row + j, f]
        mean = np.dot(along, height)
        for k in range(steps):
            z = min(numbers[at + free + k], 37.0)
            hazard = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / (0.5 * math.erfc(z / math.sqrt(2.0)))
            slope[at + free + k] = -mean
            for j in range(size):
                slope[at + free + k] += along[j] * root[j, k]
            slope[at + free + k] *= hazard / total


@compiled(nogil=True)
def _devised(numbers, share, theta, device, table):
    """Write what a device gives each outcome to share (E,), its unknown shares to theta, and its rows to table (m, a)."""
    rows, owners, places, starts, first, centre, _ = device
    for k in range(len(places)):
        left = 1.0
        for j in range(starts[k], starts[k + 1]):
            logit = numbers[first + j] + centre[j]
            theta[j + k] = left / (1.0 + math.exp(-logit))
            left /= 1.0 + math.exp(logit)
        theta[starts[k + 1] + k] = left
    table[:] = 0.0
    for e in range(owners.size):
        share[e] = 1.0
        for k in range(len(places)):
            if places[k, e] >= 0:
                share[e] *= theta[starts[k] + k + places[k, e]]
        share[e] = max(share[e], math.exp(-LOWEST))
        for r in range(len(rows)):
            table[r, owners[e]] += rows[r, e] * share[e]


@compiled(nogil=True)
def _of_device(numbers, slope, share, theta, device, moved):
    """Write the gradient in the logits of a device to slope, and return their density over the normal one, or zero."""
    rows, owners, places, starts, first, centre, sticks = device
    for e in range(owners.size):
        along = 0.0
        for r in range(len(rows)):
            along += rows[r, e] * moved[r, owners[e]]
        share[e] *= along
    value = 0.0
    for k in range(len(places)):
        flow = theta[starts[k] + k : starts[k + 1] + k + 1]
        flow[:] = 0.0
        for e in range(owners.size):
            if places[k, e] >= 0:
                flow[places[k, e]] += share[e]
        later = flow[flow.size - 1]
        for j in range(starts[k + 1] - 1, starts[k] - 1, -1):
            z, here = numbers[first + j], flow[j - starts[k]]
            stick = 1.0 / (1.0 + math.exp(-z - centre[j]))
            slope[first + j] = here * (1.0 - stick) - later * stick
            later += here
            if sticks.size:
                rest = math.log1p(math.exp(-abs(z + centre[j])))
                value -= sticks[j, 0] * (rest - min(z + centre[j], 0.0)) + sticks[j, 1] * (rest + max(z + centre[j], 0.0))
                value += 0.5 * z * z
                slope[first + j] += sticks[j, 0] * (1.0 - stick) - sticks[j, 1] * stick + z
    return value


@compiled(nogil=True)
def likelihood(numbers, slope, wide, pulled, parts, roots, device, *known):
    """Return the log-likelihood at the numbers that columns' coefficients come from, and write its gradient to slope.

    Parameters
    ----------
    numbers, slope : (n,) arrays
    wide, pulled : (K, k) arrays
        Room for the coefficients, and the gradient in them.
    parts, roots : arrays
        As in ``widened``.
    device : tuple
        Of a device whose shares are unknown: rows of its outcomes (m, E), or empty, the category of each, its places among
        the shares (K, E), where the sticks of each share begin, the first of them among the numbers, their logits at zero,
        and the parameters of their Beta laws, whose density over the normal one is then part of the value, or none.
    known
        As in ``of_columns``; the table is that of the device.
    """
    widened(numbers, wide, parts, roots)
    rows, _, places, starts = device[:4]
    table, moved = known[-1][-2:]
    share, theta = np.empty(rows.shape[1]), np.empty(starts[-1] + len(places))
    if rows.size:
        _devised(numbers, share, theta, device, table)
        moved[:] = 0.0
    value = of_columns(wide, pulled, *known)
    narrowed(numbers, slope, pulled, parts, roots)
    if rows.size:
        value += _of_device(numbers, slope, share, theta, device, moved)
    return value


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def arrow(u, out, centre, shared, blocks, border):
    """Write the unknowns at whitened coordinates to out; see structure. Inner loops read contiguous numbers."""
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


@compiled(nogil=True)
def density(u, out, room, frame, bent, reports):
    """Return the log-density of coordinates u, and write its gradient to out; see bending.Bend.

    Parameters
    ----------
    u, out : (u,) arrays
    room : tuple
        Two (u,) arrays and two of numbers, to work in.
    frame : tuple
        What ``arrow`` takes after its first two.
    bent : tuple
        What Bend.arrays says, namely the unknowns that effects are bent about, P, κ, of each batch the place of the log of
        its sd, where its effects begin, end, by what they step and how far the numbers are from them, the scale of its prior
        and 1 where this is exponential, 2 where it is half-normal, and how many of the first unknowns have no learnt sd.
    reports : tuple
        What ``likelihood`` takes after its first two.
    """
    z, ratios, flat, inner = room
    at, precision, normality, places, begins, ends, steps, offsets, scales, powers, fixed = bent
    value = 0.0
    arrow(u, z, *frame)
    for i in range(fixed):
        flat[i] = z[i]
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
    value += likelihood(flat, inner, *reports)
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
        z[i] = inner[i]
    arrow_gradient(z, out, *frame)
    return value


#: Moves chains along trajectories; the last parameters are what ``density`` takes after the first two.
trajectories = compiled_trajectories(density)


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def given_scales(which, scales, curvatures, slopes, numbers, out, back, half):
    """Write unknowns at standard normal coordinates, or back, given the scales; see conditional.Conditional.

    Parameters
    ----------
    which : (S,) int array
        The quadratic of each draw.
    scales : (S, n) array
        D.
    curvatures, slopes : (K, n, n) and (K, n) arrays
        A and h.
    numbers, out : (S, n) arrays
        v and x, or x and v.
    back : bool
        Whether v is written, rather than x.
    half : (S,) array
        Half the log-determinant of I + D A D is written to it.
    """
    n = out.shape[1]
    lower, moved = np.empty((n, n)), np.empty(n)
    for s in range(half.size):
        curvature, slope, d = curvatures[which[s]], slopes[which[s]], scales[s]
        half[s] = 0.0
        for i in range(n):
            row, summed = lower[i], 1.0 + d[i] * d[i] * curvature[i, i]
            for j in range(i):
                other, entry = lower[j], d[i] * curvature[i, j] * d[j]
                for k in range(j):
                    entry -= row[k] * other[k]
                row[j] = entry / other[j]
                summed -= row[j] * row[j]
            row[i] = math.sqrt(summed)
            half[s] += math.log(row[i])
            along = d[i] * slope[i]
            for k in range(i):
                along -= row[k] * moved[k]
            moved[i] = along / row[i]
        if back:  # v = Lᵀ x − L⁻¹ D h
            for i in range(n):
                out[s, i] = -moved[i]
            for i in range(n):
                for k in range(i + 1):
                    out[s, k] += lower[i, k] * numbers[s, i]
            continue
        for i in range(n):
            moved[i] += numbers[s, i]
        for i in range(n - 1, -1, -1):
            out[s, i] = moved[i] / lower[i, i]
            for k in range(i):
                moved[k] -= lower[i, k] * out[s, i]
