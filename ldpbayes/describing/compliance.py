"""What is said beside the posterior of a survey in which some respondents may ignore the device."""

import math
from collections.abc import Callable
from typing import Any

from ldpbayes.collections import Collection
from ldpbayes.collections.noncompliance import EXPLANATION, compliers_only
from ldpbayes.fitness.nested import compliance_test
from ldpbayes.posteriors.problem import scaled
from ldpbayes.priors import AbstractPrior

#: Collection and prior → log-evidence, or nan.
EvidenceOf = Callable[[Collection, Any], float]


def findings(
    known: tuple[float, float] | None, collection: Collection, prior: AbstractPrior, evidence_of: EvidenceOf
) -> dict:
    """Return the facts about non-compliance that stand in the attrs of a result.

    Parameters
    ----------
    known : pair of floats, optional
        Log-evidence of the result, and its error.
    collection : Collection
        Made by ``with_noncompliers``.
    prior : AbstractPrior
        Of p′.
    evidence_of : callable
        Collection and prior → log-evidence, or nan where it would take long.

    Returns
    -------
    dict
        noncompliance: what P and F mean, and what the reports can say of γ; noncompliance_low and _high: the γ that the
        reports allow; noncompliance_sd: the sd that the design gives; compliance: the test of full compliance and the Bayes
        factor, with compliance_statistic, compliance_p, compliance_gamma and log_bayes_factor_noncompliance.
    """
    found = scaled(collection).noncompliance()
    facts = {"noncompliance": f"{EXPLANATION} {_said(found)}", "noncompliance_sd": found.sd}
    if not found.identified:
        return facts | {"noncompliance_low": found.low, "noncompliance_high": found.high}
    if collection.nature.weighted:  # no χ² law, and no evidence, under weights
        return facts
    test = compliance_test(collection)
    factor = _log_bayes_factor(known, collection, prior, evidence_of)
    sentence = (
        f"Full compliance (γ = 0): likelihood-ratio statistic {test.statistic:.2f}, p = {test.p_value:.3g}, with "
        f"γ = {test.gamma:.3g} at the maximum."
    )
    if math.isfinite(factor):
        word = "against" if factor > 0 else "for"
        sentence += f" The log Bayes factor {word} full compliance is {abs(factor):.1f}, under these priors."
    return facts | {
        "compliance": sentence,
        "compliance_statistic": test.statistic,
        "compliance_p": test.p_value,
        "compliance_gamma": test.gamma,
        "log_bayes_factor_noncompliance": factor,
    }


def _said(found):
    """Return what the reports can say of γ, for a result that was made all the same."""
    if found.identified:
        return found.sentence
    return (
        f"The reports do not decide between the γ from {found.low:.3g} to {found.high:.3g}: within that interval γ follows "
        "its prior, and so does P with it. No maximum-likelihood estimate is shown, because it is not unique; a sensitivity "
        "curve shows P for every γ."
    )


def _log_bayes_factor(known, collection, prior, evidence_of):
    """Return log P(reports | prior) − log P(reports | all follow the device) by the evidence of a result, or nan."""
    belief = prior.without(len(collection.laws))
    if belief is None or known is None or not math.isfinite(known[0]):
        return math.nan
    return known[0] - evidence_of(compliers_only(collection), belief)
