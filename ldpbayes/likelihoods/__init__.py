"""Likelihood rows: the one abstraction that estimators see.

A collection of reports is a matrix L (one row a distinct report, one column a category) with counts w; the
log-likelihood is Σ_j w_j [log_constant_j + log (L p)_j]. Kinds differ only in how they store and multiply L.
"""

from ldpbayes.likelihoods.base import Rows, Separable, require_separable
from ldpbayes.likelihoods.kinds import DenseRows, LevelRows, SeparableRows, StackedRows
from ldpbayes.likelihoods.two_level import HadamardRows, IdentityRows, SupportRows, TwoLevelRows, walsh_hadamard

__all__ = [
    "DenseRows",
    "HadamardRows",
    "IdentityRows",
    "LevelRows",
    "Rows",
    "Separable",
    "SeparableRows",
    "StackedRows",
    "SupportRows",
    "TwoLevelRows",
    "require_separable",
    "walsh_hadamard",
]
