"""What is said beside posteriors: of one collection, and of all cells at once."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes import rooms
from ldpbayes.answers.deciding import decision_given, decision_of_cells
from ldpbayes.answers.sensitivity import of_draws, of_trait, sensitivities
from ldpbayes.answers.value import prior_of_shares, worth_given
from ldpbayes.collections import Cells, Collection
from ldpbayes.collections.cells import FACTS
from ldpbayes.collections.noncompliance import words_of
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.estimators.together import point_estimates
from ldpbayes.fitness.cells import compliance_of_cells, verdict_of_cells
from ldpbayes.fitness.checking import MAX_GAP, QUICK_REPLICATIONS, check
from ldpbayes.fitness.nested import information_criteria
from ldpbayes.fitness.sums import combined
from ldpbayes.inference.scaling import Scaled
from ldpbayes.methods.evidence import log_bayes_factors_of_cells
from ldpbayes.methods.problem import Problem
from ldpbayes.result.beside import add_confidence, add_estimates, add_sensitivity, leaving_out
from ldpbayes.result.facts import facts_of, log_evidence, state

#: Collection and prior → log-evidence, or nan.
EvidenceOf = Callable[[Collection, Any], float]
#: Cells under a shared prior have point estimates beside them where there are at most so many.
MAX_ESTIMATED = 400
#: … and confidence intervals where cells times categories are at most so many.
MAX_INTERVALS = 20_000


def describe(tree: xr.DataTree, data: Any, problems: Sequence[Problem], prior: Any, evidence_of: EvidenceOf) -> None:
    """Add estimates and confidence intervals to a result, and what the reports are worth and say of the prior.

    Facts about a collection are attrs of the result, those about each cell stand in its group ``cells``.

    Parameters
    ----------
    tree : DataTree
        Summarized.
    data : Collection or Cells
    problems : sequence of Problem
        What the result is the posterior of, one for each cell; none under a prior over all cells.
    prior : AbstractPrior
        Of all cells at once, where they have no answer each.
    evidence_of : callable
        Collection and prior → log-evidence, or nan where it would take long.
    """
    if problems:
        _of_each(tree, data, problems, evidence_of)
    if not data.by:
        return
    scaled = None if problems else _of_cells_together(tree, data, prior, evidence_of)
    p_values = tree["cells"]["fitness_p"].values
    joint = None if data.keeps_reports else combined(p_values, data)
    sentence, flagged = verdict_of_cells(data.labels, p_values, combined=joint)
    state(tree, {"fitness": sentence, "fitness_flagged": int(flagged)})
    words = words_of(data)
    if f"{words.test}_p" in tree["cells"]:
        p_values = tree["cells"][f"{words.test}_p"].values
        state(tree, {words.test: compliance_of_cells(data.labels, p_values, words.some)})
    state(tree, decision_of_cells(data.labels, tree["cells"].to_dataset() if problems else None, scaled))


def _of_each(tree: xr.DataTree, data: Any, problems: Sequence[Problem], evidence_of: EvidenceOf) -> None:
    """Add what is said of each cell, or of the one collection."""
    cells, evidences, estimates = list(data.collections()), _known(tree), _estimated(tree, data)
    plain = [_plain(cell) for cell in cells]
    places = np.flatnonzero(plain).tolist()
    summary = tree["summary"].to_dataset().sel(target="distribution")
    mean, sd = (summary[name].values.reshape(len(cells), -1) for name in ("mean", "sd"))
    factor_of, weight, moved = {}, float(facts_of(tree)["prior_weight"]), [None] * len(cells)
    asked: list = moved  # of what is asked: of several lists, their trait
    with leaving_out(tree, "Bayes factors between priors"):
        factors = log_bayes_factors_of_cells([problems[k] for k in places], [evidences[k] for k in places], mean[places])
        factor_of = dict(zip(places, factors, strict=True))
    with leaving_out(tree, "How much the shares hang on the prior"):
        asked = moved = sensitivities(tree, problems)
        asked = [of_trait(tree, k, problem) if cells[k].trait else moved[k] for k, problem in enumerate(problems)]
        if all(moved):
            add_sensitivity(tree, data, moved, {} if data.by else of_draws(tree, problems[0].prior)[1])
    facts: list[dict] = []
    unclear = bool(facts_of(tree)["identifiability"])  # of one cell at least
    for k, (cell, problem) in enumerate(zip(cells, problems, strict=True)):
        attrs: dict = {}
        favoured = np.nan
        if not cell.keeps_reports:
            facts.append(_fitness(tree, cell, data.labels[k] if data.by else ""))
            continue
        attrs |= _of_rooms(tree, cell, evidences[k], problem.prior, evidence_of)
        if k in factor_of:
            attrs |= factor_of[k].to_attrs()
            if not cell.trait:  # of several lists a concentration of all their categories says nothing about the trait
                favoured = factor_of[k].between("learnt", factor_of[k].used)
        if np.isfinite(weight):
            attrs |= worth_given(mean[k], sd[k], weight, cell, unclear and bool(cell.identifiability()))
        attrs |= decision_given(cell, asked[k], favoured)
        mle = estimates[k][0] if estimates[k] and plain[k] else None
        estimate = mle.distribution if mle is not None and mle.gap <= MAX_GAP else None
        attrs |= _fitness(tree, cell, data.labels[k] if data.by else "", estimate)
        if mle is not None and not data.by:
            attrs |= information_criteria(cell, mle.log_likelihood)
        facts.append(attrs)
    if data.by:
        _add_facts(tree, facts)
    else:
        state(tree, facts[0] | _shares(tree, cells[0], problems[0]))


def _shares(tree, cell, problem):
    """Return what the prior says of the derived shares of one collection, where respondents follow the device."""
    group = tree["summary"].to_dataset()
    if cell.laws or "derived_mean" not in group:
        return {}
    mean, sd = (group[f"derived_{name}"].to_series() for name in ("mean", "sd"))
    return prior_of_shares(cell, problem.alpha, {item.name: (mean[item.name], sd[item.name]) for item in cell.derived})


def _known(tree):
    """Return (log-evidence, its error) of each cell under the prior used, or None where it is not known."""
    if "cells" not in tree.children:
        return [log_evidence(tree)]
    facts = tree["cells"]
    pairs = zip(facts["log_evidence"].values, facts["log_evidence_error"].values, strict=True)
    return [None if np.isnan(value) else (float(value), float(np.nan_to_num(error))) for value, error in pairs]


def _fitness(tree: xr.DataTree, cell: Any, label: str, estimate: Any = None) -> dict[str, Any]:
    """Return the facts about the fit of the reports of one collection or cell."""
    with leaving_out(tree, f"The fit of the reports{f' of the cell {label}' if label else ''}"):
        tested = check(cell, replications=QUICK_REPLICATIONS, estimate=estimate)
        return {"fitness": tested.verdict, "fitness_flagged": int(tested.flagged), "fitness_p": tested.p_value}
    return {}


def _of_rooms(tree: xr.DataTree, cell: Any, evidence: Any, prior: Any, evidence_of: EvidenceOf) -> dict[str, Any]:
    """Return the facts that rooms state of one collection or cell."""
    facts: dict[str, Any] = {}
    for subject, name in rooms.brought("DESCRIBERS").items():
        with leaving_out(tree, subject):
            facts |= rooms.function(name)(evidence, cell, prior, evidence_of)
    return facts


def _of_cells_together(tree: xr.DataTree, cells: Cells, prior: Any, evidence_of: EvidenceOf) -> Scaled | None:
    """Add what the reports of each cell say by themselves, and who decides there, to a result of cells fitted together.

    Returns
    -------
    Scaled or None
        What scaling the prior of all cells does to their shares.
    """
    scaled = None
    if len(cells) <= MAX_ESTIMATED:
        _estimated(tree, cells, MAX_INTERVALS)
    with leaving_out(tree, "Who decides"):
        scaled, hyper = of_draws(tree, prior)
        if scaled is not None:
            add_sensitivity(tree, cells, [scaled.at(k) for k in range(len(cells))], hyper)
    facts: list[dict] = []
    for k, (label, cell) in enumerate(zip(cells.labels, cells.collections(), strict=True)):
        attrs: dict = {"fitness_p": np.nan} | decision_given(None, None if scaled is None else scaled.at(k))
        attrs |= _fitness(tree, cell, label)
        if cell.keeps_reports:
            if cell.n_reports:  # no evidence of a cell alone: that of the others is in its posterior
                attrs |= _of_rooms(tree, cell, None, prior, evidence_of)
            if cell.survey is not None:
                attrs["design_effect"] = cell.survey.effect.value
        facts.append(attrs)
    _add_facts(tree, facts)
    return scaled


def _add_facts(tree, facts):
    """Write facts about each cell into the group ``cells`` of a result, which those of cells fitted together lack so far.

    The sentences about those who deny or ignore the device join them, unless a grouping column has the name.
    """
    labels = {name: array for name, array in tree["posterior"].coords.items() if array.dims == ("cell",)}
    group = tree["cells"].to_dataset() if "cells" in tree.children else xr.Dataset(coords=labels)
    for name in dict.fromkeys(name for attrs in facts for name in attrs if name not in labels):
        blank = FACTS.get(name, next("" if isinstance(attrs[name], str) else np.nan for attrs in facts if name in attrs))
        before = group[name].values if name in group else [blank] * len(facts)
        values = [attrs.get(name, value) for attrs, value in zip(facts, before, strict=True)]
        group[name] = ("cell",), np.array(values, dtype=object if isinstance(blank, str) else None)
    tree["cells"] = xr.DataTree(group)


def _plain(cell: Any) -> bool:
    """Return whether all reports of a cell were kept, count alike, and come from people who follow the device."""
    return cell.keeps_reports and not cell.laws and not cell.weighted


def _estimated(tree: xr.DataTree, data: Any, most: float = math.inf) -> list[list]:
    """Return the point estimates of each cell by itself, and add them where all have some.

    With confidence intervals where cells times categories are at most ``most``.
    """
    cells = list(data.collections())
    estimates: list[list] = [[] for _ in cells]
    with leaving_out(tree, "Point estimates"):
        estimates = [point_estimates(cell) if cell.keeps_reports else [] for cell in cells]
    if all(estimates):
        add_estimates(tree, data, estimates)
    if all(map(_plain, cells)) and len(cells) * data.n_categories <= most:
        with leaving_out(tree, "Confidence intervals"):
            intervals = confidence_intervals(cells, float(tree["summary"].attrs["ci_prob"]))
            if all(intervals):
                add_confidence(tree, data, intervals)
    return estimates
