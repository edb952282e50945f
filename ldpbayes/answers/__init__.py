"""Questions to a posterior: joint intervals, rankings, contrasts, sums over categories or cells, association, prediction.

Each function takes a result and returns an Answer, with a Monte Carlo standard error for every probability and mean. A
result with cells is asked about one of them, named by ``cell=``; ``poststratify`` combines them. A result of associate()
answers ``joint_table`` to ``independence``, one of regress() ``predictions``, ``comparisons``, ``slopes``, ``odds_ratios``
and ``poststratify``.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.answer import Answer
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
    from ldpbayes.answers.intervals import interval_parts, largest, simultaneous_intervals
    from ldpbayes.answers.missing import missing_answers
    from ldpbayes.answers.ranks import probability_in_top
    from ldpbayes.answers.regression import comparisons, odds_ratios, predictions, slopes
    from ldpbayes.answers.sums import category_sum, entropy

_HOMES = {
    "Answer": "answer",
    "category_sum": "answers.sums",
    "comparisons": "answers.regression",
    "conditional": "answers.association",
    "contrast": "answers.contrasts",
    "cramers_v": "answers.association",
    "entropy": "answers.sums",
    "independence": "answers.association",
    "interval_parts": "answers.intervals",
    "joint_table": "answers.association",
    "largest": "answers.intervals",
    "missing_answers": "answers.missing",
    "mutual_information": "answers.association",
    "odds_ratio": "answers.association",
    "odds_ratios": "answers.regression",
    "poststratify": "answers.cells",
    "predictions": "answers.regression",
    "probability_in_top": "answers.ranks",
    "simultaneous_intervals": "answers.intervals",
    "slopes": "answers.regression",
}

__all__ = [
    "Answer",
    "category_sum",
    "comparisons",
    "conditional",
    "contrast",
    "cramers_v",
    "entropy",
    "independence",
    "interval_parts",
    "joint_table",
    "largest",
    "missing_answers",
    "mutual_information",
    "odds_ratio",
    "odds_ratios",
    "poststratify",
    "predictions",
    "probability_in_top",
    "simultaneous_intervals",
    "slopes",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
