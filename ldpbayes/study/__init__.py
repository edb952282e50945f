"""Simulation studies: the papers' experiments with the posterior mean and the bounds added."""

from ldpbayes import checks
from ldpbayes.pages.study import pivot
from ldpbayes.study.runner import Study, run_study


def find_study(name):
    """Return a study by its name, or raise an ArgumentError that lists the names."""
    from ldpbayes.study.catalogue import STUDIES

    return STUDIES[checks.choice(name, "study", tuple(STUDIES))]


def list_studies():
    """Return (name, title, source) of every study."""
    from ldpbayes.study.catalogue import STUDIES

    return [(study.name, study.title, study.source) for study in STUDIES.values()]


__all__ = ["Study", "find_study", "list_studies", "pivot", "run_study"]
