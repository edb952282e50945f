"""The engine of exact posteriors: independent factors φ_x(g_x) conditioned on Σ_x g_x = 1.

One set or thousands, in NumPy. factors.py tilts the factors until their means sum to one; transform.py and polynomial.py are
two routes to the law of the sum; laws.py chooses between these, the one integral of two categories and the saddle point;
engine.py turns any of them into moments, evidence, margins and draws.
"""

from ldpbayes.methods.conditioned_product.engine import ConditionedProduct
from ldpbayes.methods.conditioned_product.factors import PowerFactors, TiltedFactors, log_growth

__all__ = ["ConditionedProduct", "PowerFactors", "TiltedFactors", "log_growth"]
