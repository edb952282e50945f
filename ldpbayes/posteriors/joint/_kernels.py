"""Compiled: value and gradient of the log-likelihoods of all cells, in the cheapest form of each."""

import math

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference.hmc import compiled_trajectories

#: Draws whose likelihoods are computed together.
BLOCK = 64
#: A report that was given more often enters by its logarithm rather than by its power.
MOST_POWERS = 1024


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _cell(c, p, linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, out):
    total, a = 0.0, p.size
    for x in range(a):
        bent = curvature[c, x] * p[x]
        out[x] = linear[c, x] - bent
        total += (linear[c, x] - 0.5 * bent) * p[x]
    for j in range(starts[c], starts[c + 1]):
        u = base[j] + slope[j] * p[index[j]]
        total += counts[j] * math.log(u)
        out[index[j]] += counts[j] * slope[j] / u
    for j in range(row_starts[c], row_starts[c + 1]):
        u = 0.0
        for x in range(a):
            u += rows[j, x] * p[x]
        total += row_counts[j] * math.log(u)
        ratio = row_counts[j] / u
        for x in range(a):
            out[x] += ratio * rows[j, x]
    return total


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def from_logits(eta, linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, out):
    """Return the log-likelihood at P = softmax(eta), and write its gradient with respect to eta to out.

    A cell's log-likelihood is b·p − Σ D p²/2 (a summary; zero otherwise) + Σ w log(base + slope p_x) (separable reports) +
    Σ w log(L p) (rows).
    """
    cells, a = eta.shape
    total = 0.0
    for c in range(cells):
        top = eta[c, 0]
        for x in range(1, a):
            top = max(top, eta[c, x])
        mass = 0.0
        for x in range(a):
            eta[c, x] = math.exp(eta[c, x] - top)
            mass += eta[c, x]
        for x in range(a):
            eta[c, x] /= mass
        total += _cell(
            c, eta[c], linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, out[c]
        )
        along = 0.0
        for x in range(a):
            along += eta[c, x] * out[c, x]
        for x in range(a):
            out[c, x] = eta[c, x] * (out[c, x] - along)
    return total


@compiled(nogil=True)
def from_shares(p, linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, out):
    """Return the log-likelihood at P, and write its gradient with respect to P to out."""
    total = 0.0
    for c in range(p.shape[0]):
        total += _cell(c, p[c], linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, out[c])
    return total


@compiled(nogil=True, fastmath={"contract", "nsz"})
def of_draws(p, rows, counts, out):
    """Write Σ_j w_j log (L p)_j to out for each draw of p, shape (a, S).

    Rows that begin alike share the sums over what is alike: fewest operations where they are sorted. Logarithms are of
    products of several rows' powers; a row's largest entry is one, and a product is taken up before it leaves the range of
    floats.
    """
    a, size = p.shape
    number = counts.size
    new, least, power = np.zeros(number, np.int64), np.empty(number), np.zeros(number, np.int64)
    for j in range(number):
        while j > 0 and new[j] < a - 1 and rows[j, new[j]] == rows[j - 1, new[j]]:
            new[j] += 1
        least[j] = math.log(max(rows[j].min(), 1e-300))
        if counts[j] == math.floor(counts[j]) and counts[j] * least[j] > -300.0 and counts[j] < MOST_POWERS:
            power[j] = int(counts[j])
    partial = np.zeros((a + 1, BLOCK))
    raised, product, total = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    drawn = np.empty((a, BLOCK))
    for first in range(0, size, BLOCK):
        width, reached = min(BLOCK, size - first), 0.0
        for x in range(a):
            drawn[x, :width] = p[x, first : first + width]
            drawn[x, width:] = p[x, first]
        total[:] = 0.0
        product[:] = 1.0
        for j in range(number):
            for x in range(new[j], a):
                entry = rows[j, x]
                for s in range(BLOCK):
                    partial[x + 1, s] = partial[x, s] + entry * drawn[x, s]
            if power[j] == 0:
                for s in range(width):
                    total[s] += counts[j] * math.log(partial[a, s])
                continue
            reached += power[j] * least[j]
            if reached < -600.0:
                reached = power[j] * least[j]
                for s in range(BLOCK):
                    total[s] += math.log(product[s])
                    product[s] = 1.0
            repeats = power[j]
            if repeats & 1:
                for s in range(BLOCK):
                    product[s] *= partial[a, s]
            repeats >>= 1
            if repeats:
                raised[:] = partial[a]
            while repeats:
                for s in range(BLOCK):
                    raised[s] *= raised[s]
                if repeats & 1:
                    for s in range(BLOCK):
                        product[s] *= raised[s]
                repeats >>= 1
        for s in range(width):
            out[first + s] = total[s] + math.log(product[s])


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def arrow(u, centre, shared, blocks, border, out):
    """Write the unknowns at whitened coordinates to out; see whitening.Arrow. Inner loops read contiguous numbers."""
    start = shared.shape[0]
    cells, width = blocks.shape[:2]
    out[:] = centre
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
def arrow_gradient(slope, shared, blocks, border, out):
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
def grouped(
    u, out, centre, shared, blocks, border, settings, basis, bent_at, mean, share, linear, curvature, starts, index, base,
    slope, counts, row_starts, rows, row_counts, z, eta, d_eta, d_z, effects, shrunk,
):  # fmt: skip
    """Return the log-density of whitened coordinates under priors.base.Grouped, and write its gradient to out.

    ``settings`` holds the scales of the centre and of σ, and the number of σ; ``bent_at``, ``mean`` and ``share`` are those
    of joint.bending.Bend; z, eta, d_eta, d_z, effects and shrunk are room to work in.
    """
    arrow(u, centre, shared, blocks, border, z)
    cells, width = blocks.shape[:2]
    n_scales = int(settings[2])
    start = width + n_scales
    value = 0.0
    for k in range(width):
        value -= 0.5 * z[k] * z[k]
        d_z[k] = -z[k]
    sigma, apart = np.empty(n_scales), np.empty(n_scales)
    for j in range(n_scales):
        log_scale = min(z[width + j], 300.0)
        scale = math.exp(log_scale)
        value += log_scale - 0.5 * scale * scale
        d_z[width + j] = 1 - scale * scale
        sigma[j] = settings[1] * scale
        apart[j] = log_scale - bent_at[j]
    for c in range(cells):
        for k in range(width):
            i, j = c * width + k, k % n_scales
            shrunk[i] = math.exp(-share[i] * apart[j])
            value -= share[i] * apart[j]
            moved = mean[i] * math.exp(apart[j]) * shrunk[i] * shrunk[i]
            effects[i] = moved + shrunk[i] * z[start + i]
            value -= 0.5 * effects[i] * effects[i]
    offsets = np.empty((cells, width))
    for c in range(cells):
        for k in range(width):
            offsets[c, k] = settings[0] * z[k] + sigma[k % n_scales] * effects[c * width + k]
    np.dot(offsets, basis, eta)
    value += from_logits(eta, linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, d_eta)
    np.dot(d_eta, basis.T, offsets)
    for c in range(cells):
        for k in range(width):
            i, j = c * width + k, k % n_scales
            d = offsets[c, k]
            d_z[k] += settings[0] * d
            d *= sigma[j]
            along, slide = d - effects[i], shrunk[i] * z[start + i]
            d_z[width + j] += d * effects[i] - share[i]
            d_z[width + j] += along * ((1 - 2 * share[i]) * (effects[i] - slide) - share[i] * slide)
            d_z[start + i] = along * shrunk[i]
    arrow_gradient(d_z, shared, blocks, border, out)
    return value


#: Moves chains along trajectories; the last parameters are what ``grouped`` takes after the first two.
trajectories = compiled_trajectories(grouped)
