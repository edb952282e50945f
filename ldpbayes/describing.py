"""What is said beside posteriors: of one collection, and of all cells at once."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ldpbayes import rooms
from ldpbayes.answers.deciding import decision_given, decision_of_cells
from ldpbayes.answers.sensitivity import of_draws, of_trait, sensitivities
from ldpbayes.answers.value import prior_of_shares, worth_given
from ldpbayes.collections import Collection
from ldpbayes.collections.cells import FACTS
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.estimators.derived import point_estimates
from ldpbayes.fitness.cells import compliance_of_cells, verdict_of_cells
from ldpbayes.fitness.checking import MAX_GAP, QUICK_REPLICATIONS, check
from ldpbayes.fitness.nested import information_criteria
from ldpbayes.fitness.sums import combined
from ldpbayes.methods.evidence import log_bayes_factors_of_cells
from ldpbayes.methods.problem import Problem
from ldpbayes.result.beside import confidence_of, estimates_of
from ldpbayes.result.fits import Fit

#: Collection and prior → log-evidence, or nan.
EvidenceOf = Callable[[Collection, Any], float]
#: Time: Cells under a shared prior have point estimates beside them where there are at most so many: .3 to .7 ms a cell of
#: 4 to 100 categories by randomized response make .1 to .3 s, as much as a quick fit. Reports with many different rows
#: take longer. Half and double change that time alone, and which pages have the columns.
MAX_ESTIMATED = 400
#: Time: and confidence intervals where cells times categories are at most so many: .15 to .6 ms a cell of 4 to 100
#: categories make .1 to .8 s.
MAX_INTERVALS = 20_000


def describe(fit: Fit, problems: Sequence[Problem], prior: Any, evidence_of: EvidenceOf) -> None:
    """Add estimates and confidence intervals to a fit, and what the reports are worth and say of the prior.

    Parameters
    ----------
    fit : Fit
        Summarized.
    problems : sequence of Problem
        What it is the posterior of, one for each cell; none under a prior over all cells.
    prior : AbstractPrior
        Of all cells at once, where they have no answer each.
    evidence_of : callable
        Collection and prior → log-evidence, or nan where it would take long.
    """
    data = fit.data
    facts = _of_each(fit, problems, evidence_of) if problems else _of_cells_together(fit, prior, evidence_of)
    if not data.by:
        fit.facts |= facts[0] | _shares(fit, problems[0])
        return
    _add_facts(fit, facts)
    p_values = fit.cells["fitness_p"]
    joint = None if data.keeps_reports else combined(p_values, data)
    sentence, flagged = verdict_of_cells(data.labels, p_values, combined=joint)
    fit.facts |= {"fitness": sentence, "fitness_flagged": int(flagged)}
    words = data.wrapper
    if words and f"{words.test}_p" in fit.cells:
        fit.facts[words.test] = compliance_of_cells(data.labels, fit.cells[f"{words.test}_p"], words.some)
    if problems:
        fit.facts |= decision_of_cells(data.labels, fit.cells)


def _of_each(fit: Fit, problems: Sequence[Problem], evidence_of: EvidenceOf) -> list[dict[str, Any]]:
    """Return what is said of each cell, or of the one collection."""
    cells, evidences, estimates = list(fit.data.collections()), fit.evidences, _estimated(fit)
    plain = [_plain(cell) for cell in cells]
    places = np.flatnonzero(plain).tolist()
    (mean, sd), factor_of, moved = fit.moments, {}, [None] * len(cells)
    asked: list = moved  # of what is asked: of several lists, their trait
    with fit.leaving_out("Bayes factors between priors"):
        factors = log_bayes_factors_of_cells([problems[k] for k in places], [evidences[k] for k in places], mean[places])
        factor_of = dict(zip(places, factors, strict=True))
    with fit.leaving_out("How much the shares depend on the prior"):
        asked = moved = sensitivities(fit, problems)
        asked = [of_trait(fit, k, problem) if cells[k].trait else moved[k] for k, problem in enumerate(problems)]
        if all(moved):
            fit.scaled, fit.hyper = moved, {} if fit.data.by else of_draws(fit, problems[0].prior)[1]
    facts: list[dict] = []
    for k, (cell, problem) in enumerate(zip(cells, problems, strict=True)):
        if not cell.keeps_reports:
            facts.append(_fitness(fit, k, cell) | decision_given(None, asked[k]))
            continue
        favoured, attrs = np.nan, _of_rooms(fit, cell, evidences[k], problem.prior, evidence_of)
        if k in factor_of:
            attrs |= factor_of[k].to_attrs()
            if not cell.trait:  # of several lists a concentration of all their categories says nothing about the trait
                favoured = factor_of[k].between("learnt", factor_of[k].used)
        if np.isfinite(fit.prior_weight):
            attrs |= worth_given(mean[k], sd[k], fit.prior_weight, cell, bool(cell.identifiability()))
        attrs |= decision_given(cell, asked[k], favoured)
        mle = estimates[k][0] if estimates[k] and plain[k] else None
        attrs |= _fitness(fit, k, cell, mle.distribution if mle is not None and mle.gap <= MAX_GAP else None)
        if mle is not None and not fit.data.by:
            attrs |= information_criteria(cell, mle.log_likelihood)
        facts.append(attrs)
    return facts


def _shares(fit: Fit, problem: Problem) -> dict[str, str]:
    """Return what the prior says of the derived shares of one collection, where respondents follow the device."""
    assert fit.summary is not None
    derived = fit.summary.entries.get("derived")
    if fit.data.laws or derived is None:
        return {}
    moments = zip(fit.summary.quantities, zip(derived["mean"], derived["sd"], strict=True), strict=True)
    return prior_of_shares(fit.data, problem.alpha, dict(moments))


def _fitness(fit: Fit, k: int, cell: Any, estimate: Any = None) -> dict[str, Any]:
    """Return the facts about the fit of the reports of one collection or cell."""
    with fit.leaving_out(f"The fit of the reports{f' of the cell {fit.data.labels[k]}' if fit.data.by else ''}"):
        tested = check(cell, replications=QUICK_REPLICATIONS, estimate=estimate)
        return {"fitness": tested.verdict, "fitness_flagged": int(tested.flagged), "fitness_p": tested.p_value}
    return {}


def _of_rooms(fit: Fit, cell: Any, evidence: Any, prior: Any, evidence_of: EvidenceOf) -> dict[str, Any]:
    """Return the facts that rooms state of one collection or cell."""
    facts: dict[str, Any] = {}
    for subject, name in rooms.brought("DESCRIBERS").items():
        with fit.leaving_out(subject):
            facts |= rooms.function(name)(evidence, cell, prior, evidence_of)
    return facts


def _of_cells_together(fit: Fit, prior: Any, evidence_of: EvidenceOf) -> list[dict[str, Any]]:
    """Return what the reports of each cell say by themselves, and who decides there, of cells fitted together."""
    cells, scaled = fit.data, None
    if len(cells) <= MAX_ESTIMATED:
        _estimated(fit, MAX_INTERVALS)
    with fit.leaving_out("Who decides"):
        scaled, hyper = of_draws(fit, prior)
        if scaled is not None:
            fit.scaled, fit.hyper = [scaled.at(k) for k in range(len(cells))], hyper
    facts: list[dict] = []
    for k, cell in enumerate(cells.collections()):
        attrs: dict = {"fitness_p": np.nan} | decision_given(None, None if scaled is None else scaled.at(k))
        attrs |= _fitness(fit, k, cell)
        if cell.keeps_reports:
            if cell.n_reports:  # no evidence of a cell alone: that of the others is in its posterior
                attrs |= _of_rooms(fit, cell, None, prior, evidence_of)
            attrs |= {name: value for name, value in cell.stated.items() if name in FACTS}
        facts.append(attrs)
    fit.facts |= decision_of_cells(cells.labels, None, scaled)
    return facts


def _add_facts(fit: Fit, facts: Sequence[dict[str, Any]]) -> None:
    """Write facts about each cell beside those that its method stated, unless a grouping column has the name."""
    taken = fit.data.cell_coords()
    for name in dict.fromkeys(name for attrs in facts for name in attrs if name not in taken):
        blank = FACTS.get(name, next("" if isinstance(attrs[name], str) else np.nan for attrs in facts if name in attrs))
        before = fit.cells.get(name, [blank] * len(facts))
        values = [attrs.get(name, value) for attrs, value in zip(facts, before, strict=True)]
        fit.cells[name] = np.array(values, dtype=object if isinstance(blank, str) else None)


def _plain(cell: Any) -> bool:
    """Return whether all reports of a cell were kept, count alike, and come from people who follow the device."""
    return cell.keeps_reports and not cell.obstacle


def _estimated(fit: Fit, most: float = math.inf) -> list[list]:
    """Return the point estimates of each cell by itself, and add them where all have some.

    With confidence intervals where cells times categories are at most ``most``.
    """
    cells, data = list(fit.data.collections()), fit.data
    estimates: list[list] = [[] for _ in cells]
    with fit.leaving_out("Point estimates"):
        estimates = [point_estimates(cell) if cell.keeps_reports else [] for cell in cells]
    if all(estimates):
        fit.groups["estimate"] = estimates_of(data, estimates, fit.categories)
    if all(map(_plain, cells)) and len(cells) * data.n_categories <= most:
        with fit.leaving_out("Confidence intervals"):
            intervals = confidence_intervals(cells, fit.ci_prob)
            if all(intervals):
                fit.groups["confidence"] = confidence_of(data, intervals)
    return estimates
