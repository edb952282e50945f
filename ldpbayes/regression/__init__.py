"""Regression on a private answer: formulas, the likelihood of all cells at once, and maximum likelihood."""

from ldpbayes.regression.fitting import METHODS, Model, regress
from ldpbayes.regression.maximum import Maximum

__all__ = ["METHODS", "Maximum", "Model", "regress"]
