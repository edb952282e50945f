"""Bayesian inference for privatised categorical data.

Reports collected under local differential privacy, and randomised-response surveys, give the posterior of the
distribution they came from and of these users' own frequencies. Light names are imported here; the others load on first
use, so that an exact fit pays for neither PyMC nor cvxpy nor matplotlib.
"""

# isort: off
import ldpbayes.starting  # noqa: F401  # before all others: Ctrl-C may come while they load

# isort: on
import importlib
from typing import TYPE_CHECKING

from ldpbayes import protocols
from ldpbayes.association import associate
from ldpbayes.collections import Cells, Collection, Derived, Tally
from ldpbayes.errors import (
    ArgumentError,
    ConvergenceError,
    DataError,
    InfeasibleError,
    LDPBayesError,
    LDPBayesWarning,
)
from ldpbayes.fitness.crosschecking import crosscheck
from ldpbayes.fitting import fit, select_method
from ldpbayes.likelihoods import Summary
from ldpbayes.priors import Compliance, Dirichlet, Hierarchical, Learnt, LogLinear, Regression, Smooth
from ldpbayes.protocols import GRR, Attributes, Channel, kronecker, make_protocol
from ldpbayes.simulate import population, simulate_collection
from ldpbayes.sources import (
    read_collection,
    read_frame,
    read_reports,
    read_summaries,
    scan,
    write_collection,
    write_reports,
)

if TYPE_CHECKING:  # so that editors complete the names that load on first use
    from ldpbayes import answers, pages, plots, result, theory
    from ldpbayes.answers import comparisons, contamination_hull, odds_ratios, poststratify, predictions, slopes
    from ldpbayes.estimators.mle import MAP, MLE
    from ldpbayes.estimators.oracle import Oracle
    from ldpbayes.examples import list_examples, load_example
    from ldpbayes.fitness import check
    from ldpbayes.fitness.nested import compliance_test
    from ldpbayes.fitness.noncompliance import sensitivity
    from ldpbayes.model import build_model, observe
    from ldpbayes.outcomes import PrivateGroups, by_private_group
    from ldpbayes.outcomes.mixture import observe_mixture
    from ldpbayes.pages import show
    from ldpbayes.posteriors.augmentation import Augmentation
    from ldpbayes.posteriors.exact import Exact
    from ldpbayes.posteriors.laplace import Laplace
    from ldpbayes.posteriors.mixture import Mixture
    from ldpbayes.posteriors.nuts import NUTS
    from ldpbayes.posteriors.pair_slice import PairSlice
    from ldpbayes.posteriors.quadrature import Quadrature
    from ldpbayes.posteriors.surrogate import Surrogate
    from ldpbayes.posteriors.tally_states import TallyStates
    from ldpbayes.posteriors.walk import RandomWalk
    from ldpbayes.protocols.respondents import attack as attack
    from ldpbayes.regression import regress
    from ldpbayes.result import attach, load, save

__version__ = "0.2.0"

#: Names that load on first use, and the module that has them; a module's own name stands for the module.
_LAZY = {
    "Augmentation": "posteriors.augmentation",
    "Exact": "posteriors.exact",
    "Laplace": "posteriors.laplace",
    "MAP": "estimators.mle",
    "MLE": "estimators.mle",
    "Mixture": "posteriors.mixture",
    "NUTS": "posteriors.nuts",
    "Oracle": "estimators.oracle",
    "PairSlice": "posteriors.pair_slice",
    "PrivateGroups": "outcomes",
    "Quadrature": "posteriors.quadrature",
    "RandomWalk": "posteriors.walk",
    "Surrogate": "posteriors.surrogate",
    "TallyStates": "posteriors.tally_states",
    "answers": "answers",
    "attach": "result",
    "attack": "protocols.respondents",
    "build_model": "model",
    "by_private_group": "outcomes",
    "check": "fitness",
    "comparisons": "answers",
    "compliance_test": "fitness.nested",
    "contamination_hull": "answers",
    "list_examples": "examples",
    "load": "result",
    "load_example": "examples",
    "observe": "model",
    "observe_mixture": "outcomes.mixture",
    "odds_ratios": "answers",
    "pages": "pages",
    "plots": "plots",
    "poststratify": "answers",
    "predictions": "answers",
    "regress": "regression",
    "result": "result",
    "save": "result",
    "sensitivity": "fitness.noncompliance",
    "show": "pages",
    "slopes": "answers",
    "theory": "theory",
}

__all__ = [
    "GRR",
    "MAP",
    "MLE",
    "NUTS",
    "ArgumentError",
    "Attributes",
    "Augmentation",
    "Cells",
    "Channel",
    "Collection",
    "Compliance",
    "ConvergenceError",
    "DataError",
    "Derived",
    "Dirichlet",
    "Exact",
    "Hierarchical",
    "InfeasibleError",
    "LDPBayesError",
    "LDPBayesWarning",
    "Laplace",
    "Learnt",
    "LogLinear",
    "Mixture",
    "Oracle",
    "PairSlice",
    "PrivateGroups",
    "Quadrature",
    "RandomWalk",
    "Regression",
    "Smooth",
    "Summary",
    "Surrogate",
    "Tally",
    "TallyStates",
    "answers",
    "associate",
    "attach",
    "attack",
    "build_model",
    "by_private_group",
    "check",
    "comparisons",
    "compliance_test",
    "contamination_hull",
    "crosscheck",
    "fit",
    "kronecker",
    "list_examples",
    "load",
    "load_example",
    "make_protocol",
    "observe",
    "observe_mixture",
    "odds_ratios",
    "pages",
    "plots",
    "population",
    "poststratify",
    "predictions",
    "protocols",
    "read_collection",
    "read_frame",
    "read_reports",
    "read_summaries",
    "regress",
    "result",
    "save",
    "scan",
    "select_method",
    "sensitivity",
    "show",
    "simulate_collection",
    "slopes",
    "theory",
    "write_collection",
    "write_reports",
]


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'ldpbayes' has no attribute {name!r}")
    module = importlib.import_module(f"ldpbayes.{_LAZY[name]}")
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})
