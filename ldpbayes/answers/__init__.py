"""Functions of a result that return an Answer: joint intervals, the largest categories, contrasts, association, slopes.

Each function takes a result and returns an Answer, with a Monte Carlo standard error for every probability and mean. A
result with cells is asked about one of them, named by ``cell=``; ``poststratify`` combines them. A result of associate()
answers ``joint_table`` to ``independence``, one of regress() ``predictions``, ``comparisons``, ``slopes`` and
``poststratify``; both have an ``odds_ratio``.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.answer import Answer as Answer
    from ldpbayes.answers.contrasts import contrast as contrast
    from ldpbayes.answers.intervals import interval_parts as interval_parts
    from ldpbayes.answers.intervals import largest as largest
    from ldpbayes.answers.intervals import simultaneous_intervals as simultaneous_intervals
    from ldpbayes.answers.odds import odds_ratio as odds_ratio
    from ldpbayes.answers.shares import category_sum as category_sum
    from ldpbayes.answers.shares import entropy as entropy
    from ldpbayes.answers.shares import probability_in_top as probability_in_top
    from ldpbayes.association.questions import conditional as conditional
    from ldpbayes.association.questions import cramers_v as cramers_v
    from ldpbayes.association.questions import independence as independence
    from ldpbayes.association.questions import joint_table as joint_table
    from ldpbayes.association.questions import mutual_information as mutual_information
    from ldpbayes.regression.poststratification import poststratify as poststratify
    from ldpbayes.regression.questions import comparisons as comparisons
    from ldpbayes.regression.questions import predictions as predictions
    from ldpbayes.regression.questions import slopes as slopes
    from ldpbayes.surveys.missing import missing_answers as missing_answers

_HOMES = {
    "Answer": "answer",
    "category_sum": "answers.shares",
    "comparisons": "regression.questions",
    "conditional": "association.questions",
    "contrast": "answers.contrasts",
    "cramers_v": "association.questions",
    "entropy": "answers.shares",
    "independence": "association.questions",
    "interval_parts": "answers.intervals",
    "joint_table": "association.questions",
    "largest": "answers.intervals",
    "missing_answers": "surveys.missing",
    "mutual_information": "association.questions",
    "odds_ratio": "answers.odds",
    "poststratify": "regression.poststratification",
    "predictions": "regression.questions",
    "probability_in_top": "answers.shares",
    "simultaneous_intervals": "answers.intervals",
    "slopes": "regression.questions",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
