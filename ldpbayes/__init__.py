"""Bayesian inference for privatised categorical data.

Reports collected under local differential privacy, and randomised-response surveys, give the posterior of the
distribution they came from and of these users' own frequencies. Light names are imported here; the others load on first
use, so that an exact fit pays for neither PyMC nor cvxpy nor matplotlib.
"""

import importlib

from ldpbayes import protocols
from ldpbayes.collections import Collection, Derived, Tally
from ldpbayes.errors import ArgumentError, ConvergenceError, DataError, InfeasibleError, LDPBayesError
from ldpbayes.fitness.crosschecking import crosscheck
from ldpbayes.fitting import fit, select_method
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Channel, kronecker, make_protocol
from ldpbayes.simulate import population, simulate_collection
from ldpbayes.sources import read_collection, read_frame, write_collection

__version__ = "0.2.0"

#: Names that load on first use, and where they live.
_LAZY = {
    "build_model": "model",
    "observe": "model",
    "load": "result",
    "save": "result",
    "MAP": "estimators.mle",
    "MLE": "estimators.mle",
    "Oracle": "estimators.oracle",
    "Exact": "posteriors.exact",
    "Quadrature": "posteriors.quadrature",
    "TallyStates": "posteriors.tally_states",
    "Surrogate": "posteriors.surrogate",
    "Augmentation": "posteriors.augmentation",
    "PairSlice": "posteriors.pair_slice",
    "NUTS": "posteriors.nuts",
}

__all__ = [
    "GRR",
    "ArgumentError",
    "Channel",
    "Collection",
    "ConvergenceError",
    "DataError",
    "Derived",
    "Dirichlet",
    "InfeasibleError",
    "LDPBayesError",
    "Tally",
    "crosscheck",
    "fit",
    "kronecker",
    "make_protocol",
    "population",
    "protocols",
    "read_collection",
    "read_frame",
    "select_method",
    "simulate_collection",
    "write_collection",
    *_LAZY,
]


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'ldpbayes' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ldpbayes.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})
