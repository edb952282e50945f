"""Compiled: coordinates with the structure of an arrow, and the density of all cells in them."""

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference._kernels import compiled_density
from ldpbayes.inference.hmc import compiled_trajectories
from ldpbayes.posteriors._form_kernels import from_logits


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def arrow(u, out, centre, shared, blocks, border):
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
def likelihood(stacked, slope, centre, scale, basis, eta, d_eta, forms):
    """Return the log-likelihood of all cells under priors.base.Grouped, and write its gradient to slope.

    Parameters
    ----------
    stacked, slope : (1 + cells, k) arrays
        Centre and effects of the cells, and the gradient in them.
    centre, scale, basis
        Of Grouped.
    eta, d_eta : (cells, categories) arrays
        Room to work in.
    forms : tuple
        What forms.Forms holds.
    """
    linear, curvature, starts, index, base, inner, counts, row_starts, rows, row_counts = forms
    slope[1:] = centre * stacked[0] + scale * stacked[1:]
    np.dot(slope[1:], basis, eta)
    value = from_logits(eta, linear, curvature, starts, index, base, inner, counts, row_starts, rows, row_counts, d_eta)
    np.dot(d_eta, basis.T, slope[1:])
    slope[0] = 0.0
    for c in range(1, slope.shape[0]):
        for k in range(slope.shape[1]):
            slope[0, k] += centre * slope[c, k]
            slope[c, k] *= scale
    return value


density = compiled_density(arrow, arrow_gradient, likelihood)
#: Moves chains along trajectories; the last parameters are what ``density`` takes after the first two.
trajectories = compiled_trajectories(density)
