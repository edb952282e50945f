"""What is said beside the posterior of one collection."""

import numpy as np
import xarray as xr

from ldpbayes import answers, result
from ldpbayes.collections import Collection
from ldpbayes.describing.compliance import EvidenceOf, findings
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.estimators.together import point_estimates
from ldpbayes.fitness.checking import MAX_GAP, QUICK_REPLICATIONS, check
from ldpbayes.fitness.nested import information_criteria
from ldpbayes.posteriors.evidence import log_bayes_factors, of_result
from ldpbayes.posteriors.problem import Problem


def describe(tree: xr.DataTree, collection: Collection, problem: Problem, ci_prob: float, evidence_of: EvidenceOf) -> None:
    """Add estimates and confidence intervals to a result, and what the reports are worth and say of the prior.

    Parameters
    ----------
    tree : DataTree
        From fit().
    collection : Collection
    problem : Problem
        What the result is the posterior of.
    ci_prob : float
    evidence_of : callable
        As for ``compliance.findings``.
    """
    estimates = point_estimates(collection)
    if estimates:
        result.add_estimates(tree, collection, [estimates])
    alone, favoured = not collection.laws and not collection.nature.weighted, np.nan
    if collection.laws:
        tree.attrs |= findings(tree, collection, problem.prior, evidence_of)
    elif alone:
        factors = log_bayes_factors(collection, problem=problem, known=of_result(tree))
        tree.attrs |= factors.to_attrs()
        favoured = factors.between("learnt", factors.used)
        confidence = confidence_intervals(collection, ci_prob)
        if confidence is not None:
            result.add_confidence(tree, collection, [confidence])
    if np.isfinite(tree.attrs["prior_weight"]):
        tree.attrs |= answers.worth(tree, collection)
    tree.attrs |= answers.decision(tree, collection, favoured, problem)
    mle = estimates[0] if estimates and alone else None
    estimate = mle.distribution if mle is not None and mle.gap <= MAX_GAP else None
    fitness = check(collection, replications=QUICK_REPLICATIONS, estimate=estimate)
    tree.attrs |= {"fitness": fitness.verdict, "fitness_flagged": int(fitness.flagged), "fitness_p": fitness.p_value}
    if mle is not None:
        criteria = information_criteria(collection, mle.log_likelihood)
        tree.attrs |= {"aic": criteria.aic, "bic": criteria.bic, "parameters": criteria.parameters}
