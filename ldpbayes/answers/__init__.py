"""Questions to a posterior: joint intervals, rankings, contrasts, sums over categories or cells, and what reports are worth.

Each function takes a result of fit(). Most return an xarray.Dataset with a Monte Carlo standard error for every
probability and mean; ``total`` returns draws, ``worth`` and ``decision`` return dictionaries, and ``fakes``, which
also takes the reports themselves, a Fakes. ``contamination_hull`` takes the reports and returns a ContaminationHull. A
result with cells is asked about one of them, named by ``cell=``; ``poststratify`` combines them. A result of regress()
answers ``predictions``, ``comparisons``, ``slopes``, ``odds_ratios`` and ``poststratify``.
"""

from ldpbayes.answers.association import (
    conditional,
    cramers_v,
    independence,
    joint_table,
    mutual_information,
    odds_ratio,
)
from ldpbayes.answers.cells import poststratify
from ldpbayes.answers.contrasts import contrast
from ldpbayes.answers.deciding import decision
from ldpbayes.answers.intervals import interval_parts, simultaneous_intervals
from ldpbayes.answers.ranks import probability_in_top
from ldpbayes.answers.regression import comparisons, odds_ratios, predictions, slopes
from ldpbayes.answers.spending import spent
from ldpbayes.answers.sums import category_sum, entropy, total
from ldpbayes.answers.value import worth

__all__ = [
    "category_sum",
    "comparisons",
    "conditional",
    "contrast",
    "cramers_v",
    "decision",
    "entropy",
    "independence",
    "interval_parts",
    "joint_table",
    "mutual_information",
    "odds_ratio",
    "odds_ratios",
    "poststratify",
    "predictions",
    "probability_in_top",
    "simultaneous_intervals",
    "slopes",
    "spent",
    "total",
    "worth",
]


def __dir__() -> list[str]:
    return [*__all__]
