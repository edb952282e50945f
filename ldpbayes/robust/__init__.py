"""Sensitivity to fakes (how many add lift=0.1 to a share), contamination_hull (bounds), sensitivity (noncompliers).

From the core it takes collections, the laws of crafted reports (``protocols``), fits by several methods, estimates and
their intervals, and the parts of pages and figures. It brings three pages and the figure of a sensitivity beside a fit
(``registered.py``), the answer ``crosscheck``, options of the command ``check``, and three figures.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.fitness.nested import compliance_test as compliance_test
    from ldpbayes.robust.contamination import contamination_hull as contamination_hull
    from ldpbayes.robust.faking import fakes as fakes
    from ldpbayes.robust.ignoring import sensitivity as sensitivity

_HOMES = {
    "compliance_test": "fitness.nested",
    "contamination_hull": "robust.contamination",
    "fakes": "robust.faking",
    "sensitivity": "robust.ignoring",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
