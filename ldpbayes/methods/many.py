"""Moments, intervals and evidence without draws: of one collection, or of very many cells in vectorized calls."""

import math
from dataclasses import replace

import numpy as np

from ldpbayes.errors import InfeasibleError
from ldpbayes.methods.conjugate import entries_of, facts_of, interval_facts, nodes_of
from ldpbayes.methods.constants import DEPENDENT, LARGEST, MAX_FACTORS, MOST_COVARIANCES
from ldpbayes.methods.expansion import accuracy, checked_expansion, refusal, refuse_doubtful
from ldpbayes.methods.nodes import Nodes, Placement
from ldpbayes.methods.plan import Cost
from ldpbayes.methods.products import singling
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.methods.servers import EXACT, SURROGATE, Expanded, Few, SeparableServer, blocks, servers_of
from ldpbayes.methods.watch import Watch
from ldpbayes.priors import Dirichlet
from ldpbayes.priors.dirichlet import evidence_error

#: What was checked of the summaries among cells, and the refusal of a prior.
LEAST = "Of the summaries the least accurate: "
NEITHER = "Moments without draws need a Dirichlet prior, or a mixture of such priors; this one is {}."


def in_one_call(cells) -> bool:
    """Return whether all cells are summaries, or have reports that single out one category each."""
    forms = [likelihood.separable() for likelihood in cells.likelihoods if likelihood.keeps_reports]
    return all(form is not None and (form.slope >= 0).all() for form in forms)


def refuse_long(data):
    """Raise an InfeasibleError, before any work is done, where reports that are all distinct would take too long.

    Parameters
    ----------
    data : Collection, Summarized or Cells
    """
    # Reports of one number (GRR, Hadamard) are counted or transformed; reports of several become a row of bits each.
    tallies = (tally for cell in data.collections() for tally in cell.tallies)
    entries = sum(float(len(t.reports)) * data.n_categories for t in tallies if t.reports.ndim > 1)
    seconds, size = Cost().entry * entries, entries / 8e9
    if size > LARGEST:
        raise InfeasibleError(
            f"The likelihood of these reports has {entries:.2g} entries (reports × categories): about {seconds / 60:.0f} "
            f"minutes and {size:.2g} GB. Scan them into a summary (lb.scan), or ask about fewer categories."
        )


def undrawn(problems, levels, method="auto", labels=None, watch=None):
    """Return (entries of ``exact`` with an axis of cells, facts, what was checked, servers, nodes), without draws.

    Exact up to the quadrature for reports that single out one category each and for a few categories; of all others by an
    expansion of the log-likelihood at their mean, which is checked.

    Parameters
    ----------
    problems : list of Problem
        Problem of one collection, or one of each cell, all under one Dirichlet prior or one mixture of such priors.
    levels : pair of floats
        Levels of the ends of the intervals.
    method : str
        "auto", or the method that was asked for.
    labels : sequence of str, optional
        Labels of cells.
    watch : Watch, optional

    Raises
    ------
    InfeasibleError
        Where the prior is neither, the method does not apply, or the expansion may be off.
    """
    first, prior, watch = problems[0], problems[0].prior, watch or Watch()
    _refuse(first, method)
    own_accuracy = None
    if first.alpha is None:
        placement, kinds = Placement(), {"exact": EXACT, "surrogate": SURROGATE}.get(method, EXACT + SURROGATE)
        servers = servers_of(problems, 2, placement, labels, kinds)
        nodes, factor = nodes_of(first.mixing, servers, placement)
        if first.keeps_reports and not servers[0].exact:  # expanded for the concentrations in the middle of the nodes
            middle = np.exp(nodes.weights @ np.log([node.concentrations() for node in nodes.priors]))
            summary, own_accuracy = checked_expansion(first.rows, middle)
            servers = [_integrated(first, summary, Dirichlet(middle))]
            nodes, factor = nodes_of(first.mixing, servers, placement)
        facts = facts_of(nodes, factor) | interval_facts(nodes, levels[1] - levels[0])
        kind = "Exact" if all(server.exact for server in servers) else "Expansions, of second order in the saddle point,"
        checked = f"{kind} at {nodes.size} values of the hyperparameter; no draws were made."
        if labels:
            facts["log_evidence"] = float(nodes.log_evidence)
        else:
            facts["bayes_factors"] = f"Log Bayes factor against the Jeffreys prior: {factor:+.2f} (above 0: favoured)."
    else:
        servers, own_accuracy = _servers(problems, method)
        nodes = Nodes.alone(prior, float(sum(server.log_evidences([prior]).sum() for server in servers)))
        facts, checked = servers[0].checked(prior)
        rough = int(sum(server.engine(prior).rough.sum() for server in servers))
        facts |= {"rough_cells": rough} if labels and rough else {}
    entries: dict = {}
    dependent = first.n_categories <= DEPENDENT and len(problems) * first.n_categories**2 <= MOST_COVARIANCES
    for server in watch.track(servers, "Posteriors of the cells"):
        for name, values in entries_of(server, nodes, levels, dependent=dependent).items():
            entries.setdefault(name, np.empty((len(problems), *values.shape[1:])))[server.places] = values
    if not labels:
        entries["log_evidence"] = np.array([nodes.log_evidence])
    if accuracies := [own_accuracy] if own_accuracy is not None else _accuracies(problems, entries, labels):
        worst = max(accuracies, key=lambda accuracy: accuracy.error)
        facts |= worst.facts()
        if labels and first.alpha is not None:
            error = entries["log_evidence_error"] = np.full(len(problems), evidence_error(first.alpha))
            places = [k for k, problem in enumerate(problems) if not problem.keeps_reports]
            error[places] = [accuracy.evidence for accuracy in accuracies]
        else:
            facts["log_evidence_error"] = math.hypot(nodes.error, sum(accuracy.evidence for accuracy in accuracies))
        alone = first.alpha is not None and not labels
        checked = worst.sentence if alone else f"{checked} {LEAST if labels else ''}{worst.sentence}"
    return entries, facts, checked, servers, nodes


def _refuse(problem, method):
    """Raise an InfeasibleError where a method does not go with the prior or the reports."""
    prior = problem.prior
    if problem.mixing is None or problem.mixing.atom:
        raise InfeasibleError(NEITHER.format(prior.describe()))
    if method == "exact" and problem.keeps_reports and problem.alpha is not None:
        singling(problem.separable)


def _servers(problems, method):
    """Return (servers under a Dirichlet prior, ExpansionAccuracy of one collection whose reports are expanded, or None)."""
    kinds: dict = {SeparableServer: [], Expanded: []}
    checked, first = None, problems[0]
    for k, problem in enumerate(problems):
        kinds[SeparableServer if problem.singled and method != "surrogate" else Expanded].append(k)
    if len(problems) == 1 and kinds[SeparableServer]:
        exact = SeparableServer([first])
        if not exact.engine(first.prior).rough.any():  # powers that are no whole numbers, of few weighted reports
            return [exact], None
        kinds = {SeparableServer: [], Expanded: [0]}
    if len(problems) == 1 and first.keeps_reports:
        plan = Quadrature(draws=2, chains=1).plan(first)
        if method == "auto" and plan.feasible and plan.work <= Quadrature.most:
            return [Few([first])], None
        if first.n_categories > MAX_FACTORS:
            raise InfeasibleError(
                f"Moments of reports that do not single out one category each are made for at most {MAX_FACTORS:,} "
                f"categories, got {first.n_categories:,}."
            )
        summary, checked = checked_expansion(first.rows, first.alpha)
        return [_integrated(first, summary, first.prior)], checked
    return [server for kind, places in kinds.items() for server in blocks(kind, problems, places)], checked


def _integrated(problem, summary, prior):
    """Return the server of an expansion of reports that were kept, whose moments are integrals.

    Raises
    ------
    InfeasibleError
        Where they are of second order in the saddle point, which few reports make inaccurate.
    """
    server = Expanded([replace(problem, likelihood=summary)])
    if server.exact and server.engine(prior).rough.any():
        raise InfeasibleError(
            f"Moments without draws come here from integrals that {summary.n_reports:,.0f} reports are too few for, and the "
            "saddle point is not accurate enough. Leave out draws=0, or make draws: they are weighted by the likelihood."
        )
    return server


def _accuracies(problems, entries, labels):
    """Return the ExpansionAccuracy of every summary, by entries of ``exact``.

    Raises
    ------
    InfeasibleError
        Where a summary cannot stand for its reports; of cells a CellsError.
    """
    places = [k for k, problem in enumerate(problems) if not problem.keeps_reports]
    summaries = [problems[k].likelihood for k in places]
    pairs = zip(entries["distribution_mean"][places], entries["distribution_sd"][places] ** 2, strict=True)
    out = [accuracy(summary, *pair, pair[1]) for summary, pair in zip(summaries, pairs, strict=True)]
    if labels:
        refuse_doubtful([labels[k] for k in places], summaries, out)
    elif out and out[0].problem:
        raise InfeasibleError(refusal(summaries[0], out[0]))
    return out
