"""Masses of very many sets of factors, each conditioned on its own sum, in blocks that stay in memory."""

import numpy as np

from ldpbayes.methods.conditioned_product.factors import RoughlyTilted, TiltedFactors
from ldpbayes.methods.conditioned_product.polynomial import PolynomialRoute

#: Factors that are worked on together: their nodes stay in the processor's cache.
BLOCK = 1024
#: Counts times distinct factors up to which masses come from polynomials: more take longer than the saddle point.
COUNTED = 2e4
#: Log-masses by polynomials with a larger error are made again by another tilt.
CLOSE = 1e-7


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
    masses, error, counts = np.empty(k), np.full(k, np.inf), np.full(k, np.inf)
    if form is not None:
        counts = form[1].sum(axis=1).reshape(k, g) @ multiplicity
    counted = g * counts <= COUNTED
    # Modes are tilted quickly; where they sum to one and means do not, these are.
    for chosen, factors, exact in (
        (counted, RoughlyTilted, True),
        (counted, TiltedFactors, True),
        (~counted, TiltedFactors, False),
    ):
        left = np.flatnonzero(chosen & ~(error < CLOSE))
        for start in range(0, left.size, max(1, BLOCK // g)):
            sets = left[start : start + max(1, BLOCK // g)]
            members = family.take((sets[:, None] * g + np.arange(g)).ravel())
            tilted = factors(members, multiplicity, sets=sets.size)
            if exact:
                route = PolynomialRoute(tilted)
                masses[sets], error[sets] = route.log_evidence, route.log_evidence_error
            else:
                masses[sets], error[sets] = tilted.saddle_log_evidence()
    return masses, error
