"""What reports say about a distribution: rows kept one a report, or a summary that adds up.

The reports of a cell are a matrix L (one row a distinct report, one column a category) with counts w; the log-likelihood
is Σ_j w_j [log_constant_j + log (L p)_j]. Kinds of rows differ only in how they store and multiply L; a summary is the
expansion of that sum at a pilot.
"""

from ldpbayes.likelihoods.base import (
    AbstractLikelihood,
    AbstractSampler,
    Rows,
    Separable,
    require_sampler,
)
from ldpbayes.likelihoods.extended import ExtendedRows
from ldpbayes.likelihoods.kinds import DenseRows, LevelRows, StackedRows
from ldpbayes.likelihoods.summary import Summary
from ldpbayes.likelihoods.tensor import AdditiveRows, KroneckerRows
from ldpbayes.likelihoods.two_level import CyclicRows, HadamardRows, IdentityRows, SupportRows, TwoLevelRows, walsh_hadamard

__all__ = [
    "AbstractLikelihood",
    "AbstractSampler",
    "AdditiveRows",
    "CyclicRows",
    "DenseRows",
    "ExtendedRows",
    "HadamardRows",
    "IdentityRows",
    "KroneckerRows",
    "LevelRows",
    "Rows",
    "Separable",
    "StackedRows",
    "Summary",
    "SupportRows",
    "TwoLevelRows",
    "require_sampler",
    "walsh_hadamard",
]
