"""Bayesian inference for privatized categorical data.

Reports collected under local differential privacy, and randomized-response surveys, give the posterior of the
distribution they came from and of these users' own frequencies. What a first analysis needs stands here; protocols, priors,
methods and further questions are in modules. Names load on first use, so that an exact fit pays for neither PyMC nor
matplotlib, and ``ldpbayes --help`` not even for NumPy.
"""

# isort: off
import ldpbayes.starting  # noqa: F401  # before all others: Ctrl-C may come while they load

# isort: on
from typing import TYPE_CHECKING

from ldpbayes.doors import lazily
from ldpbayes.version import __version__ as __version__

if TYPE_CHECKING:  # so that editors complete the names that load on first use
    from ldpbayes import (
        answers,
        collections,
        errors,
        estimators,
        methods,
        pages,
        planning,
        plots,
        priors,
        protocols,
        pymc,
        robust,
        theory,
    )
    from ldpbayes.answers import comparisons, contrast, poststratify, predictions
    from ldpbayes.association.fitting import associate
    from ldpbayes.collections import Cells, Collection, Tally
    from ldpbayes.errors import LDPBayesError
    from ldpbayes.examples import list_examples, load_example
    from ldpbayes.fitness import check
    from ldpbayes.fitting import fit, select_method
    from ldpbayes.pages import save, show
    from ldpbayes.planning.plans import plan
    from ldpbayes.private_groups import by_private_group
    from ldpbayes.protocols import GRR, make_protocol
    from ldpbayes.regression import regress
    from ldpbayes.result import load
    from ldpbayes.robust.crosschecking import crosscheck
    from ldpbayes.scanning import scan
    from ldpbayes.simulation import simulate
    from ldpbayes.sources.door import read, write

#: Names that load on first use, and the module that has them; a module's own name stands for the module.
_HOMES = {
    "GRR": "protocols",
    "Cells": "collections",
    "Collection": "collections",
    "LDPBayesError": "errors",
    "Tally": "collections",
    "answers": "answers",
    "associate": "association",
    "by_private_group": "private_groups",
    "check": "fitness",
    "collections": "collections",
    "comparisons": "answers",
    "contrast": "answers",
    "crosscheck": "robust.crosschecking",
    "errors": "errors",
    "estimators": "estimators",
    "fit": "fitting",
    "list_examples": "examples",
    "load": "result",
    "load_example": "examples",
    "make_protocol": "protocols",
    "methods": "methods",
    "pages": "pages",
    "plan": "planning",
    "planning": "planning",
    "plots": "plots",
    "poststratify": "answers",
    "predictions": "answers",
    "priors": "priors",
    "protocols": "protocols",
    "pymc": "pymc",
    "read": "sources.door",
    "regress": "regression",
    "robust": "robust",
    "save": "pages",
    "scan": "scanning",
    "select_method": "fitting",
    "show": "pages",
    "simulate": "simulation",
    "theory": "theory",
    "write": "sources.door",
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
    "planning",
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
