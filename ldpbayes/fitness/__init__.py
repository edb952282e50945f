"""Does the model fit the reports? Tests without a prior."""

from ldpbayes.fitness.base import Check, Fitness
from ldpbayes.fitness.cells import CellsFitness
from ldpbayes.fitness.checking import check
from ldpbayes.fitness.nested import equality_test, information_criteria

__all__ = ["CellsFitness", "Check", "Fitness", "check", "equality_test", "information_criteria"]
