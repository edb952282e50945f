"""Deterministic posterior at few distinguishable categories: nested Gauss–Jacobi rules on the sticks of the simplex.

target.py finds where the likelihood is; rules.py makes the product rule; integrals.py, margins.py and draws.py turn it into
moments, quantiles and draws; engine.py chooses the number of nodes. denying.py has one more integral outside, over the share
of a category who deny it.
"""

from ldpbayes.posteriors.quadrature.denying import Denying
from ldpbayes.posteriors.quadrature.engine import MAX_GROUPS, Quadrature

__all__ = ["MAX_GROUPS", "Denying", "Quadrature"]
