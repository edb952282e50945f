"""Compiled: value and gradient of the log-likelihoods of all cells, in the cheapest form of each."""

import math

import numpy as np

from ldpbayes.compiling import compiled

#: Draws whose likelihoods are computed together.
BLOCK = 64


@compiled(nogil=True, error_model="numpy")
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


@compiled(nogil=True, error_model="numpy")
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


@compiled(nogil=True, error_model="numpy")
def from_shares(p, linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, out):
    """Return the log-likelihood at P, and write its gradient with respect to P to out."""
    total = 0.0
    for c in range(p.shape[0]):
        total += _cell(c, p[c], linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, out[c])
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def of_draws(p, rows, counts, out):
    """Write Σ_j w_j log (L p)_j to out for each draw of p, shape (a, S); logarithms are of products of several rows.

    A row's largest entry is one, and a product is taken up before it leaves the range of floats.
    """
    a, size = p.shape
    u, product, total = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, size, BLOCK):
        width = min(BLOCK, size - first)
        total[:] = 0.0
        product[:] = 1.0
        for j in range(counts.size):
            u[:] = 0.0
            for x in range(a):
                entry = rows[j, x]
                for s in range(width):
                    u[s] += entry * p[x, first + s]
            repeats = counts[j]
            if repeats <= 4.0 and repeats == math.floor(repeats):
                least = 1.0
                for _ in range(int(repeats)):
                    for s in range(width):
                        product[s] *= u[s]
                for s in range(width):
                    least = min(least, product[s])
                if least < 1e-200:
                    for s in range(width):
                        total[s] += math.log(product[s])
                        product[s] = 1.0
            else:
                for s in range(width):
                    total[s] += repeats * math.log(u[s])
        for s in range(width):
            out[first + s] = total[s] + math.log(product[s])


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
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


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def arrow_gradient(slope, shared, blocks, border, out):
    """Write the gradient in whitened coordinates to out."""
    start = shared.shape[0]
    cells, width = blocks.shape[:2]
    out[:] = 0.0
    for j in range(start):
        for i in range(start):
            out[i] += shared[j, i] * slope[j]
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


@compiled(nogil=True, error_model="numpy")
def grouped(
    u, centre, shared, blocks, border, settings, basis, linear, curvature, starts, index, base, slope, counts, row_starts,
    rows, row_counts, z, eta, d_eta, d_z, out,
):  # fmt: skip
    """Return the log-density of whitened coordinates under priors.base.Grouped, and write its gradient to out.

    ``settings`` holds the scales of the centre and of σ, and the number of σ; z, eta, d_eta and d_z are room to work in.
    """
    arrow(u, centre, shared, blocks, border, z)
    cells, width = blocks.shape[:2]
    a, n_scales = basis.shape[1], int(settings[2])
    start = width + n_scales
    value = 0.0
    for i in range(z.size):
        if width <= i < start:
            grown = math.exp(2 * min(z[i], 300.0))
            value += z[i] - 0.5 * grown
            d_z[i] = 1 - grown
        else:
            value -= 0.5 * z[i] * z[i]
            d_z[i] = -z[i]
    sigma = np.empty(n_scales)
    for i in range(n_scales):
        sigma[i] = settings[1] * math.exp(min(z[width + i], 300.0))
    for c in range(cells):
        at = start + c * width
        eta[c, :] = 0.0
        for k in range(width):
            logit = settings[0] * z[k] + sigma[k % n_scales] * z[at + k]
            for x in range(a):
                eta[c, x] += logit * basis[k, x]
    value += from_logits(eta, linear, curvature, starts, index, base, slope, counts, row_starts, rows, row_counts, d_eta)
    for c in range(cells):
        at = start + c * width
        for k in range(width):
            d = 0.0
            for x in range(a):
                d += d_eta[c, x] * basis[k, x]
            d_z[k] += settings[0] * d
            d *= sigma[k % n_scales]
            d_z[width + k % n_scales] += d * z[at + k]
            d_z[at + k] += d
    arrow_gradient(d_z, shared, blocks, border, out)
    return value
