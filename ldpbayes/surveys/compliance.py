"""What is said beside the posterior of a survey in which some respondents may deny or ignore the device."""

import math

from ldpbayes.collections import Collection
from ldpbayes.collections.noncompliance import compliers_only
from ldpbayes.describing import EvidenceOf
from ldpbayes.fitness.nested import compliance_test
from ldpbayes.methods.problem import scaled
from ldpbayes.priors import AbstractPrior


def findings(
    known: tuple[float, float] | None, collection: Collection, prior: AbstractPrior, evidence_of: EvidenceOf
) -> dict:
    """Return the facts about non-compliance that stand in the attrs of a result.

    Parameters
    ----------
    known : pair of floats, optional
        Log-evidence of the result, and its error; None of a cell that was fitted together with others.
    collection : Collection
        Of others than those of ``with_noncompliers`` nothing is stated.
    prior : AbstractPrior
        Of p′.
    evidence_of : callable
        Collection and prior → log-evidence, or nan where it would take long.

    Returns
    -------
    dict
        noncompliance: what P and F mean, and what the reports can say of γ; noncompliance_low and _high: the γ that the
        reports allow; noncompliance_sd: the sd that the design gives; compliance: the test of full compliance and the Bayes
        factor, with compliance_statistic, compliance_p, compliance_gamma and log_bayes_factor_noncompliance. Where
        respondents may deny the names are deniers and honesty.
    """
    if collection.wrapper is None or not collection.wrapper.tested:
        return {}
    found, words = scaled(collection).noncompliance(), collection.wrapper
    name, test_name = words.name, words.test
    facts = {name: f"{words.explanation} {_said(found, words)}", f"{name}_sd": found.sd}
    if not found.identified:
        return facts | {f"{name}_low": found.low, f"{name}_high": found.high}
    if collection.weighted:  # no χ² law, and no evidence, under weights
        return facts
    test, factor, sentence = compliance_test(collection), math.inf, ""
    if math.isfinite(test.statistic):  # elsewhere the evidence of full compliance is zero
        factor = _log_bayes_factor(known, collection, prior, evidence_of)
    if math.isfinite(factor):
        word = "against" if factor > 0 else "for"
        sentence = f" The log Bayes factor {word} {words.nobody} is {abs(factor):.1f}, under these priors."
    return facts | {
        test_name: test.sentence() + sentence,
        f"{test_name}_statistic": test.statistic,
        f"{test_name}_p": test.p_value,
        f"{test_name}_gamma": test.gamma,
        f"log_bayes_factor_{name}": factor,
    }


def _said(test, words):
    """Return what the reports can say of γ or δ, for a result that was made all the same."""
    if test.identified:
        return test.sentence
    sentence = (
        f"The reports do not decide between the shares from {test.low:.3g} to {test.high:.3g}: within that interval "
        f"{words.symbol} follows its prior, and so does P with it. No maximum-likelihood estimate is shown, because it is "
        "not unique"
    )
    return f"{sentence}; a sensitivity curve shows P for every γ." if words.symbol == "γ" else f"{sentence}."


def _log_bayes_factor(evidence, collection, prior, evidence_of):
    """Return log P(reports | prior) − log P(reports | all follow the device) by the evidence of a result, or nan."""
    if evidence is None or not math.isfinite(evidence[0]):
        return math.nan
    belief = prior.without(collection.owners)
    return math.nan if belief is None else evidence[0] - evidence_of(compliers_only(collection), belief)
