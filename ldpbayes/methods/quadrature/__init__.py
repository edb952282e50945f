"""Deterministic posterior at few distinguishable categories: nested Gauss–Jacobi rules on the sticks of the simplex.

integrand.py finds where the likelihood is; rules.py makes the product rule; integrals.py, margins.py and draws.py turn it
into moments, quantiles and draws; denial.py has one more integral outside, over the share of a category who deny it,
and device.py those over the unknown probabilities of a device; engine.py chooses the number of nodes.
"""

from ldpbayes.methods.quadrature.engine import Quadrature

__all__ = ["Quadrature"]
