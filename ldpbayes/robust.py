"""What conclusions withstand: fake reports, respondents who ignore the device, attacks on a protocol."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.answers.contamination import contamination_hull as contamination_hull
    from ldpbayes.answers.faking import fakes as fakes
    from ldpbayes.fitness.nested import compliance_test as compliance_test
    from ldpbayes.fitness.noncompliance import sensitivity as sensitivity

_HOMES = {
    "compliance_test": "fitness.nested",
    "contamination_hull": "answers.contamination",
    "fakes": "answers.faking",
    "sensitivity": "fitness.noncompliance",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
