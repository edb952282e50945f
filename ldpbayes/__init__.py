"""Bayesian inference for privatised categorical data.

Reports collected under local differential privacy, and randomised-response surveys, give the posterior of the
distribution they came from and of these users' own frequencies. The names below load on first use, so that an exact fit
pays for neither PyMC nor cvxpy nor matplotlib.
"""

import importlib

_HOMES = {
    "protocols": ("GRR", "Channel", "kronecker", "make_protocol"),
    "prior": ("Dirichlet",),
    "tally": ("Collection", "Derived", "Tally"),
    "reports": ("read_collection", "read_frame", "write_collection"),
    "fit": ("fit", "select_method"),
    "crosscheck": ("crosscheck",),
    "model": ("build_model", "observe"),
    "result": ("load", "save"),
    "errors": ("ArgumentError", "ConvergenceError", "DataError", "InfeasibleError", "LDPBayesError"),
    "estimators.mle": ("MLE",),
    "estimators.oracle": ("Oracle",),
    "posteriors.exact": ("Exact",),
    "posteriors.quadrature": ("Quadrature",),
    "posteriors.surrogate": ("Surrogate",),
    "posteriors.tally_states": ("TallyStates",),
    "posteriors.augmentation": ("Augmentation",),
    "posteriors.nuts": ("NUTS",),
    "simulate": ("population", "simulate_collection"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = ("protocols", "theory", "plots", "diagnostics")

__all__ = sorted([*_HOME_OF, *_MODULES])
__version__ = "0.1.0"


def __getattr__(name):
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"ldpbayes.{_HOME_OF[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"ldpbayes.{name}")
    else:
        raise AttributeError(f"module 'ldpbayes' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return [*__all__, "__version__"]
