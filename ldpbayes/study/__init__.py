"""Simulation studies: the papers' experiments with the posterior mean and the bounds added; others may be registered."""

from ldpbayes.study.base import Study
from ldpbayes.study.page import pivot
from ldpbayes.study.runner import find_study, list_studies, register, run_study

__all__ = ["Study", "find_study", "list_studies", "pivot", "register", "run_study"]
