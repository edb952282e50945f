"""Simulation studies: the papers' experiments with the posterior mean and the bounds added."""

from ldpbayes.pages.study import pivot
from ldpbayes.study.base import Study
from ldpbayes.study.papers.pooled import FullStudy, run_full
from ldpbayes.study.runner import find_study, full_studies, list_studies, run_study

__all__ = ["FullStudy", "Study", "find_study", "full_studies", "list_studies", "pivot", "run_full", "run_study"]
