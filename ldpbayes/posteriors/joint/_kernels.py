"""Compiled: the density of all cells, in coordinates with a dense root or with the structure of an arrow."""

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.inference._kernels import arrow, arrow_gradient, compiled_density, dense, dense_gradient
from ldpbayes.inference.hmc import compiled_trajectories
from ldpbayes.posteriors._form_kernels import from_logits


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def likelihood(stacked, slope, centre, scale, basis, root, inner, eta, d_eta, forms):
    """Return the log-likelihood of all cells under priors.base.Grouped, and write its gradient to slope.

    Parameters
    ----------
    stacked, slope : (1 + rank, k) arrays
        Centre and effects, and the gradient in them.
    centre, scale, basis, root
        Of Grouped.
    inner : (cells, k) array
    eta, d_eta : (cells, categories) arrays
        Room to work in.
    forms : tuple
        What forms.Forms holds.
    """
    linear, curvature, starts, index, base, within, counts, row_starts, rows, row_counts = forms
    if root.size:
        np.dot(root, stacked[1:], inner)
    else:
        for c in range(inner.shape[0]):
            for k in range(inner.shape[1]):
                inner[c, k] = stacked[1 + c, k]
    for c in range(inner.shape[0]):
        for k in range(inner.shape[1]):
            inner[c, k] = centre * stacked[0, k] + scale * inner[c, k]
    np.dot(inner, basis, eta)
    value = from_logits(eta, linear, curvature, starts, index, base, within, counts, row_starts, rows, row_counts, d_eta)
    np.dot(d_eta, basis.T, inner)
    slope[0] = 0.0
    for c in range(inner.shape[0]):
        for k in range(inner.shape[1]):
            slope[0, k] += centre * inner[c, k]
            inner[c, k] *= scale
    if root.size:
        np.dot(root.T, inner, slope[1:])
    else:
        for c in range(inner.shape[0]):
            for k in range(inner.shape[1]):
                slope[1 + c, k] = inner[c, k]
    return value


density = compiled_density(arrow, arrow_gradient, likelihood)
dense_density = compiled_density(dense, dense_gradient, likelihood)
#: Move chains along trajectories; the last parameters are what a density takes after the first two.
trajectories, dense_trajectories = compiled_trajectories(density), compiled_trajectories(dense_density)
