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

if TYPE_CHECKING:  # so that editors complete the names that load on first use
    from ldpbayes import answers as answers
    from ldpbayes import collections as collections
    from ldpbayes import errors as errors
    from ldpbayes import estimators as estimators
    from ldpbayes import methods as methods
    from ldpbayes import pages as pages
    from ldpbayes import plots as plots
    from ldpbayes import priors as priors
    from ldpbayes import protocols as protocols
    from ldpbayes import pymc as pymc
    from ldpbayes import robust as robust
    from ldpbayes import theory as theory
    from ldpbayes.answers import comparisons as comparisons
    from ldpbayes.answers import contrast as contrast
    from ldpbayes.answers import poststratify as poststratify
    from ldpbayes.answers import predictions as predictions
    from ldpbayes.association import associate as associate
    from ldpbayes.collections import Cells as Cells
    from ldpbayes.collections import Collection as Collection
    from ldpbayes.collections import Tally as Tally
    from ldpbayes.errors import LDPBayesError as LDPBayesError
    from ldpbayes.examples import list_examples as list_examples
    from ldpbayes.examples import load_example as load_example
    from ldpbayes.fitness import check as check
    from ldpbayes.fitness.crosschecking import crosscheck as crosscheck
    from ldpbayes.fitting import fit as fit
    from ldpbayes.fitting import select_method as select_method
    from ldpbayes.outcomes import by_private_group as by_private_group
    from ldpbayes.pages import save as save
    from ldpbayes.pages import show as show
    from ldpbayes.protocols import GRR as GRR
    from ldpbayes.protocols import make_protocol as make_protocol
    from ldpbayes.regression import regress as regress
    from ldpbayes.result import load as load
    from ldpbayes.simulation import simulate as simulate
    from ldpbayes.sources import scan as scan
    from ldpbayes.sources.door import read as read
    from ldpbayes.sources.door import write as write
    from ldpbayes.theory.planning import plan as plan

__version__ = "1.0.0rc1"

#: Names that load on first use, and the module that has them; a module's own name stands for the module.
_HOMES = {
    "GRR": "protocols",
    "Cells": "collections",
    "Collection": "collections",
    "LDPBayesError": "errors",
    "Tally": "collections",
    "answers": "answers",
    "associate": "association",
    "by_private_group": "outcomes",
    "check": "fitness",
    "collections": "collections",
    "comparisons": "answers",
    "contrast": "answers",
    "crosscheck": "fitness.crosschecking",
    "errors": "errors",
    "estimators": "estimators",
    "fit": "fitting",
    "list_examples": "examples",
    "load": "result",
    "load_example": "examples",
    "make_protocol": "protocols",
    "methods": "methods",
    "pages": "pages",
    "plan": "theory.planning",
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
    "scan": "sources",
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
