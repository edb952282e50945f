"""Private groups of open measurements: the distribution of an open value within each group of a privatized answer.

From the core it takes protocols and likelihoods, readers of files (``sources``), how methods hand over (``inference``), and
the parts of pages and figures. It brings a page and a format of stored results (``registered.py``), the command
``private-groups``, three figures, and ``observe_mixture``.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.private_groups.fitting import by_private_group as by_private_group
    from ldpbayes.private_groups.result import PrivateGroups as PrivateGroups

_HOMES = {"PrivateGroups": "private_groups.result", "by_private_group": "private_groups.fitting"}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
