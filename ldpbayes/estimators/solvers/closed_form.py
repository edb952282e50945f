"""Maximum likelihood under GRR, where sorting the tallies is all there is to do."""

import numpy as np


def closed_form(rows):
    """Return the MLE under GRR: p_x = max(0, (s_x/S_A)(|A|/β + 1) − 1/β), S_A the sum of the kept tallies.

    The kept set A holds the largest tallies. Lopuhaä-Zwakenberg et al. (2020), Algorithm 1, without the n − k and the mixed
    indices of its printed last loop; Kairouz et al. (2016), Prop. 6. See docs/theory/estimators.md.
    """
    tally = np.bincount(rows.index, rows.counts, rows.n_categories)
    ordered = np.sort(tally)[::-1]
    kept = np.arange(1, tally.size + 1)
    sums = np.cumsum(ordered)
    # With whole tallies k s − S is exact, so that small β costs no digits.
    positive = ordered + (kept * ordered - sums) / rows.beta > 0
    k = int(np.flatnonzero(positive)[-1]) + 1
    total = sums[k - 1]
    p = np.maximum(0.0, (tally + (k * tally - total) / rows.beta) / total)
    return p / p.sum()
