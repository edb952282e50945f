"""Simulation studies: the papers' experiments with the posterior mean and the bounds added."""

from ldpbayes import checks
from ldpbayes.pages.study import pivot
from ldpbayes.study.papers.pooled import FullStudy, run_full
from ldpbayes.study.runner import Study, run_study


def find_study(name):
    """Return a study by its name, or raise an ArgumentError that lists the names."""
    from ldpbayes.study.catalogue import STUDIES

    return STUDIES[checks.choice(name, "study", tuple(STUDIES))]


def full_studies():
    """Return the studies that run at their papers' size, by name."""
    from ldpbayes.study.papers.figures import FULL

    return FULL


def list_studies():
    """Return (name, title, source) of every study."""
    from ldpbayes.study.catalogue import STUDIES

    return [(study.name, study.title, study.source) for study in STUDIES.values()]


__all__ = ["FullStudy", "Study", "find_study", "full_studies", "list_studies", "pivot", "run_full", "run_study"]
