"""Masses of very many sets of factors, each conditioned on its own sum, in blocks that stay in memory."""

import numpy as np

from ldpbayes.methods.conditioned_product.constants import SETS
from ldpbayes.methods.conditioned_product.factors import TiltedFactors
from ldpbayes.methods.conditioned_product.polynomial import PolynomialRoute


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
    masses, error, counts = np.empty(k), np.empty(k), np.full(k, np.inf)
    if form is not None:
        counts = form[1].sum(axis=1).reshape(k, g) @ multiplicity
    short, together = g * counts <= 2e4, max(1, SETS // g)  # longer polynomials take longer than the saddle point
    for exact in (True, False):
        left = np.flatnonzero(short == exact)
        for start in range(0, left.size, together):
            sets = left[start : start + together]
            members = family.take((sets[:, None] * g + np.arange(g)).ravel())
            tilted = TiltedFactors(members, multiplicity, sets=sets.size)
            if exact:
                route = PolynomialRoute(tilted)
                masses[sets], error[sets] = route.log_evidence, route.log_evidence_error
            else:
                masses[sets], error[sets] = tilted.saddle_log_evidence()
    return masses, error
