"""Before a collection: plan, power for two groups, whether noncompliance shows, poisoned_share, worth of device trials.

From the core it takes protocols, their decoders and priors; from ``theory`` the information of a report. It brings the page
of plans (``registered.py``), the command ``plan`` and the figure ``plot_plan``.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.planning import risk as risk
    from ldpbayes.planning.plans import ESTIMATORS as ESTIMATORS
    from ldpbayes.planning.plans import KINDS as KINDS
    from ldpbayes.planning.plans import PROTOCOLS as PROTOCOLS
    from ldpbayes.planning.plans import Plan as Plan
    from ldpbayes.planning.plans import Plans as Plans
    from ldpbayes.planning.plans import bytes_per_report as bytes_per_report
    from ldpbayes.planning.plans import curves as curves
    from ldpbayes.planning.plans import expected_error as expected_error
    from ldpbayes.planning.plans import plan as plan
    from ldpbayes.planning.prospects import POWER as POWER
    from ldpbayes.planning.prospects import SHARE as SHARE
    from ldpbayes.planning.prospects import asked_directly as asked_directly
    from ldpbayes.planning.prospects import half_width_for as half_width_for
    from ldpbayes.planning.prospects import least_difference as least_difference
    from ldpbayes.planning.prospects import noncompliance as noncompliance
    from ldpbayes.planning.prospects import poisoned_share as poisoned_share
    from ldpbayes.planning.prospects import power as power
    from ldpbayes.planning.prospects import with_prospects as with_prospects
    from ldpbayes.planning.trials import ValidationStudy as ValidationStudy
    from ldpbayes.planning.trials import validation as validation
    from ldpbayes.protocols.making import has_free_epsilon as has_free_epsilon
    from ldpbayes.protocols.making import named_makers as named_makers

_HOMES = {
    "ESTIMATORS": "planning.plans",
    "KINDS": "planning.plans",
    "POWER": "planning.prospects",
    "PROTOCOLS": "planning.plans",
    "Plan": "planning.plans",
    "Plans": "planning.plans",
    "SHARE": "planning.prospects",
    "asked_directly": "planning.prospects",
    "bytes_per_report": "planning.plans",
    "curves": "planning.plans",
    "expected_error": "planning.plans",
    "half_width_for": "planning.prospects",
    "has_free_epsilon": "protocols.making",
    "least_difference": "planning.prospects",
    "named_makers": "protocols.making",
    "noncompliance": "planning.prospects",
    "plan": "planning.plans",
    "poisoned_share": "planning.prospects",
    "power": "planning.prospects",
    "ValidationStudy": "planning.trials",
    "risk": "planning.risk",
    "validation": "planning.trials",
    "with_prospects": "planning.prospects",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
