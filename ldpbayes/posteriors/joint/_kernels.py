"""Compiled: coordinates with the structure of an arrow, and the density of all cells in them."""

import math

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference.hmc import compiled_trajectories
from ldpbayes.posteriors._form_kernels import from_logits


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
