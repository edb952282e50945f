"""Bayesian inference for privatised categorical data.

Reports collected under local differential privacy, and randomised-response surveys, give the posterior of the
distribution they came from and of these users' own frequencies. What a first analysis needs stands here; protocols, priors,
methods and further questions are in modules. Names load on first use, so that an exact fit pays for neither PyMC nor cvxpy
nor matplotlib.
"""

# isort: off
import ldpbayes.starting  # noqa: F401  # before all others: Ctrl-C may come while they load

# isort: on
from typing import TYPE_CHECKING

from ldpbayes import collections, errors, priors, protocols
from ldpbayes.association import associate
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.doors import lazily
from ldpbayes.errors import LDPBayesError
from ldpbayes.fitness.crosschecking import crosscheck
from ldpbayes.fitting import fit, select_method
from ldpbayes.protocols import GRR, make_protocol
from ldpbayes.simulation import simulate
from ldpbayes.sources import scan
from ldpbayes.sources.door import read, write

if TYPE_CHECKING:  # so that editors complete the names that load on first use
    from ldpbayes import answers, estimators, methods, pages, plots, pymc, robust, theory
    from ldpbayes.answers import comparisons, contrast, poststratify, predictions
    from ldpbayes.examples import list_examples, load_example
    from ldpbayes.fitness import check
    from ldpbayes.outcomes import by_private_group
    from ldpbayes.pages import show
    from ldpbayes.regression import regress
    from ldpbayes.result import load, save
    from ldpbayes.theory.planning import plan

__version__ = "0.2.0"

#: Names that load on first use, and the module that has them; a module's own name stands for the module.
_HOMES = {
    "answers": "answers",
    "by_private_group": "outcomes",
    "check": "fitness",
    "comparisons": "answers",
    "contrast": "answers",
    "estimators": "estimators",
    "list_examples": "examples",
    "load": "result",
    "load_example": "examples",
    "methods": "methods",
    "pages": "pages",
    "plan": "theory.planning",
    "plots": "plots",
    "poststratify": "answers",
    "predictions": "answers",
    "pymc": "pymc",
    "regress": "regression",
    "robust": "robust",
    "save": "result",
    "show": "pages",
    "theory": "theory",
}

__all__ = [
    "GRR",
    "Cells",
    "Collection",
    "LDPBayesError",
    "Tally",
    "answers",
    "associate",
    "by_private_group",
    "check",
    "collections",
    "comparisons",
    "contrast",
    "crosscheck",
    "errors",
    "estimators",
    "fit",
    "list_examples",
    "load",
    "load_example",
    "make_protocol",
    "methods",
    "pages",
    "plan",
    "plots",
    "poststratify",
    "predictions",
    "priors",
    "protocols",
    "pymc",
    "read",
    "regress",
    "robust",
    "save",
    "scan",
    "select_method",
    "show",
    "simulate",
    "theory",
    "write",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
