"""What is said beside the posteriors of cells, for all of them at once."""

from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.answers.deciding import compared_widths, decision_given
from ldpbayes.answers.sensitivity import sensitivity_of_cells
from ldpbayes.answers.value import worth_given
from ldpbayes.collections import Cells
from ldpbayes.estimators.confidence import confidence_of_cells
from ldpbayes.estimators.together import point_estimates
from ldpbayes.fitness.cells import verdict_of_cells
from ldpbayes.fitness.checking import MAX_GAP, QUICK_REPLICATIONS, check
from ldpbayes.posteriors.conjugate import Conjugate
from ldpbayes.posteriors.evidence import log_bayes_factors_of_cells
from ldpbayes.result.beside import add_confidence, add_estimates

#: Cells under a shared prior have point estimates beside them where there are at most so many.
MAX_ESTIMATED = 400
#: … and confidence intervals where cells times categories are at most so many.
MAX_INTERVALS = 20_000


def describe(tree: xr.DataTree, cells: Cells, served: Conjugate, ci_prob: float) -> dict[str, list[Any]]:
    """Add estimates and confidence intervals of every cell to a result, and return facts about each cell by name.

    Parameters
    ----------
    tree : DataTree
        With the group ``summary``, dims target, cell and category.
    cells : Cells
    served : Conjugate
        What the result is the posterior of.
    ci_prob : float
    """
    collections = list(cells.values())
    estimates = [point_estimates(cell) for cell in collections]
    add_estimates(tree, cells, estimates)
    confidence = confidence_of_cells(collections, ci_prob)
    if all(confidence):
        add_confidence(tree, cells, confidence)
    evidence = tree["exact"]["log_evidence"].values
    factors = log_bayes_factors_of_cells(served.problems, [(float(value), 0.0) for value in evidence])
    summary = tree["summary"].to_dataset().sel(target="distribution")
    mean, sd = summary["mean"].values, summary["sd"].values
    alpha = served.problems[0].alpha
    total = float(alpha.sum())
    moved = sensitivity_of_cells(served.many, alpha, mean, sd, ci_prob)
    ratios, whole, words = compared_widths(tree, collections)
    facts: list[dict] = []
    for k, cell in enumerate(collections):
        about = factors[k].to_attrs() | worth_given(mean[k], sd[k], total, cell, bool(cell.identifiability()))
        weights = total, about["effective_open_answers"]
        favoured = factors[k].between("learnt", factors[k].used)
        about |= decision_given(cell, (ratios[k], whole[k], words), moved[k], weights, favoured)
        mle = estimates[k][0]
        tested = check(cell, replications=QUICK_REPLICATIONS, estimate=mle.distribution if mle.gap <= MAX_GAP else None)
        about |= {"fitness": tested.verdict, "fitness_flagged": int(tested.flagged), "fitness_p": tested.p_value}
        facts.append(about)
    return {name: [about[name] for about in facts] for name in facts[0] if all(name in about for about in facts)}


def add_facts(tree: xr.DataTree, about: dict[str, list[Any]]) -> None:
    """Write facts about each cell, by name, into the group ``cells`` of a result."""
    facts = tree["cells"].to_dataset()
    known = {name: (("cell",), np.array(values, facts[name].dtype)) for name, values in about.items() if name in facts}
    tree["cells"] = xr.DataTree(facts.assign(known))


def fitness(tree: xr.DataTree, cells: Cells) -> dict[str, Any]:
    """Return the facts about the fit of the reports of all cells; cells that are summaries cannot be tested."""
    if "cells" in tree.children:
        p = tree["cells"]["fitness_p"].values
    else:
        p = [
            check(cell, replications=QUICK_REPLICATIONS).p_value if cell.keeps_reports else np.nan
            for cell in cells.collections()
        ]
    sentence, flagged = verdict_of_cells(cells.labels, p)
    return {"fitness": sentence, "fitness_flagged": int(flagged)}


def estimates_alone(tree: xr.DataTree, cells: Cells) -> None:
    """Add point estimates and confidence intervals of each cell alone to a result of cells fitted together.

    Where all cells have their reports.
    """
    if "estimate" in tree.children or len(cells) > MAX_ESTIMATED or not cells.keeps_reports:
        return
    estimates = [point_estimates(cell) for cell in cells.values()]
    if all(estimates):
        add_estimates(tree, cells, estimates)
    if len(cells) * cells.n_categories <= MAX_INTERVALS and not cells.nature.weighted:
        ci_prob = float(tree["summary"].attrs["ci_prob"])
        intervals = confidence_of_cells(list(cells.values()), ci_prob)
        if all(intervals):
            add_confidence(tree, cells, intervals)
