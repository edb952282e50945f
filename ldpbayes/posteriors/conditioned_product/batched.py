"""Very many sets of factors, each conditioned on its own sum, in blocks that stay in memory."""

from dataclasses import dataclass

import numpy as np

from ldpbayes.posteriors.conditioned_product.engine import ConditionedProduct
from ldpbayes.posteriors.conditioned_product.factors import RoughlyTilted, TiltedFactors, grouped
from ldpbayes.posteriors.conditioned_product.polynomial import PolynomialRoute

#: Factors that are worked on together: their nodes stay in the processor's cache.
BLOCK = 1024
#: Counts times distinct factors up to which masses come from polynomials: more take longer than the saddle point.
COUNTED = 2e4
#: Log-masses by polynomials with a larger error are made again by another tilt.
CLOSE = 1e-7


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
    step = max(1, BLOCK // each)
    for start in range(0, k, step):
        part = slice(start, min(start + step, k))
        own = family.take(slice(part.start * each, part.stop * each))
        found = ConditionedProduct(own, group, sets=part.stop - part.start)
        out.mean[part], out.variance[part], out.log_evidence[part] = found.mean, found.variance, found.log_evidence
        out.rough[part], out.tilt[part] = found.rough, found.tilt
        if levels.size:
            out.quantiles[:, part] = found.quantile(levels)
    return out


def log_masses(family, multiplicity, k):
    """Return (log ∫ Π_x φ_x(g_x) over Σ g = 1, its error) for k sets of factors that stand one after the other, two (k,).

    Exact, by the counts of short polynomials, or else to second order in the saddle point.

    Parameters
    ----------
    family : PowerFactors or another family
        k × G factors.
    multiplicity : (G,) array
        How many categories have each factor of a set.
    k : int
    """
    g, form = multiplicity.size, family.polynomials()
    found, error, counts = np.empty(k), np.full(k, np.inf), np.full(k, np.inf)
    if form is not None:
        counts = form[1].sum(axis=1).reshape(k, g) @ multiplicity
    counted = g * counts <= COUNTED
    # Modes are tilted quickly; where they sum to one and means do not, these are.
    for chosen, made, exact in (
        (counted, RoughlyTilted, True),
        (counted, TiltedFactors, True),
        (~counted, TiltedFactors, False),
    ):
        left = np.flatnonzero(chosen & ~(error < CLOSE))
        for start in range(0, left.size, max(1, BLOCK // g)):
            sets = left[start : start + max(1, BLOCK // g)]
            some = family.take((sets[:, None] * g + np.arange(g)).ravel())
            tilted = made(some, multiplicity, sets=sets.size)
            if exact:
                route = PolynomialRoute(tilted)
                found[sets], error[sets] = route.log_evidence, route.log_evidence_error
            else:
                found[sets], error[sets] = tilted.saddle_log_evidence()
    return found, error
