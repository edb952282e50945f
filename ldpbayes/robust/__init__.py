"""What conclusions withstand: fake reports, respondents who ignore the device, attacks on a protocol.

From the core it takes collections, the laws of crafted reports (``protocols``), estimates and their intervals, and the
parts of pages and figures. It brings two pages and the figure of a sensitivity beside a fit (``registered.py``), options of
the command ``check``, and two figures.
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
