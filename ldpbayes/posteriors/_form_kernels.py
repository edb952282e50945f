"""Compiled: log-likelihoods of many draws by rows that are written out; see posteriors.forms."""

import math

import numpy as np

from ldpbayes.compiling import compiled

#: Draws whose likelihoods are computed together.
BLOCK = 64
#: A report that was given more often enters by its logarithm rather than by its power.
MOST_POWERS = 1024


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
            for s in range(BLOCK):
                drawn[x, s] = p[x, first + s if s < width else first]
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
                for s in range(BLOCK):
                    raised[s] = partial[a, s]
            while repeats:
                for s in range(BLOCK):
                    raised[s] *= raised[s]
                if repeats & 1:
                    for s in range(BLOCK):
                        product[s] *= raised[s]
                repeats >>= 1
        for s in range(width):
            out[first + s] = total[s] + math.log(product[s])
