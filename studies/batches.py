"""Very many sets of factors, each conditioned on its own sum, in blocks that stay in memory."""

from dataclasses import dataclass

import numpy as np

from ldpbayes.methods.conditioned_product import ConditionedProduct
from ldpbayes.methods.conditioned_product.constants import SETS
from ldpbayes.methods.conditioned_product.factors import grouped


@dataclass(frozen=True, eq=False)
class Batch:
    """Moments and quantiles of all factors of all sets, given that each set sums to one.

    Attributes
    ----------
    mean, variance : (k, a) arrays
    log_evidence : (k,) array
        log ∫ Π φ over the simplex.
    quantiles : (L, k, a) array
    rough : (k,) bool array
        Sets whose transforms do not die out: moments and evidence are of second order in the saddle point, and quantiles
        are those of a normal sum.
    tilt : (k,) array
        Tilts of the sets, for ConditionedProduct's ``start``.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_evidence: np.ndarray
    quantiles: np.ndarray
    rough: np.ndarray
    tilt: np.ndarray


def batch(family, k, levels=(), *, group=None):
    """Return the Batch of k sets of factors that stand one after the other in a family.

    Parameters
    ----------
    family : PowerFactors or another family
        k · a factors.
    k : int
    levels : sequence of float
        Probabilities of the quantiles.
    group : (a,) int array, optional
        Which factor of a set each category has: without it one set is looked through for equal factors.
    """
    if group is None:
        family, group = grouped(family) if k == 1 else (family, np.arange(family.alpha.size // k))
    a, each, levels = group.size, family.alpha.size // k, np.asarray(levels, dtype=float)
    out = Batch(*np.empty((2, k, a)), np.empty(k), np.empty((levels.size, k, a)), np.zeros(k, dtype=bool), np.empty(k))
    step = max(1, SETS // each)
    for start in range(0, k, step):
        part = slice(start, min(start + step, k))
        own = family.take(slice(part.start * each, part.stop * each))
        found = ConditionedProduct(own, group, sets=part.stop - part.start)
        out.mean[part], out.variance[part], out.log_evidence[part] = found.mean, found.variance, found.log_evidence
        out.rough[part], out.tilt[part] = found.rough, found.tilt
        if levels.size:
            out.quantiles[:, part] = found.quantile(levels)
    return out
