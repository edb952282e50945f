"""Does the model fit the reports? Tests without a prior (check), and several answers side by side (crosschecking)."""

from ldpbayes.fitness.base import Check, Fitness
from ldpbayes.fitness.checking import check

__all__ = ["Check", "Fitness", "check"]
