"""The compiled likelihood of all cells at one point, for samplers that need its gradient many thousand times."""

import numpy as np

from ldpbayes.compiling import compiled


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def from_logits(eta, cell, row, weight, table, sizes, slope):
    """Return Σ_e weight_e log (table[row_e] · softmax(eta[cell_e])) and write its gradient in eta to slope."""
    cells, a = eta.shape
    p = np.empty((cells, a))
    for c in range(cells):
        top = eta[c, 0]
        for x in range(1, a):
            top = max(top, eta[c, x])
        total = 0.0
        for x in range(a):
            p[c, x] = np.exp(eta[c, x] - top)
            total += p[c, x]
        for x in range(a):
            p[c, x] /= total
            slope[c, x] = -sizes[c] * p[c, x]
    value = 0.0
    for e in range(cell.size):
        c, r = cell[e], row[e]
        u = 0.0
        for x in range(a):
            u += table[r, x] * p[c, x]
        value += weight[e] * np.log(u)
        factor = weight[e] / u
        for x in range(a):
            slope[c, x] += factor * table[r, x] * p[c, x]
    return value
