"""Private groups of open measurements: the distribution of an open value within each group of a privatized answer."""

from ldpbayes.outcomes.fitting import by_private_group
from ldpbayes.outcomes.result import PrivateGroups

__all__ = ["PrivateGroups", "by_private_group"]
