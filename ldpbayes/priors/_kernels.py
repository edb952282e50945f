"""Compiled: logits of the cells from their effects, and back."""

from ldpbayes.compiling import compiled


@compiled(nogil=True)
def logits(centre, scale, effects, basis, out):
    """Write (centre + scale∘effects) basis to out, shape (cells, categories)."""
    cells, width = effects.shape
    for c in range(cells):
        for x in range(basis.shape[1]):
            out[c, x] = 0.0
        for k in range(width):
            value = centre[k] + scale[k % scale.size] * effects[c, k]
            for x in range(basis.shape[1]):
                out[c, x] += value * basis[k, x]


@compiled(nogil=True)
def pullback(scale, effects, basis, slope, d_centre, d_scale, d_effects):
    """Write the gradients with respect to centre, log scale and effects of a function with this gradient in the logits."""
    cells, width = effects.shape
    d_centre[:] = 0.0
    d_scale[:] = 0.0
    for c in range(cells):
        for k in range(width):
            d = 0.0
            for x in range(basis.shape[1]):
                d += slope[c, x] * basis[k, x]
            d_centre[k] += d
            d *= scale[k % scale.size]
            d_scale[k % scale.size] += d * effects[c, k]
            d_effects[c, k] = d
