"""Priors that are one-parameter mixtures of Dirichlet priors: conjugate answers, mixed by what the reports say of each."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.inference.ends import tails
from ldpbayes.posteriors.base import AbstractPosterior, Plan, Refusal, Sample
from ldpbayes.posteriors.expansion import checked_expansion
from ldpbayes.posteriors.mixing import mixed_ends, mixed_moments, server_of, shares
from ldpbayes.posteriors.nodes import place
from ldpbayes.priors import Dirichlet

#: Levels of the quantiles that moments of the hyperparameter come from.
LEVELS = 20_000


@dataclass(frozen=True)
class Mixture(AbstractPosterior):
    """Posterior under a prior that mixes Dirichlet priors, such as ``learnt``: ∫ p(P | Y, η) p(η | Y) dη.

    Quadrature nodes in the hyperparameter η stand about the mode of its posterior, and a conjugate engine handles each node:
    the exact posterior of separable reports, quadrature for a few categories, the surrogate elsewhere. Draws are shared
    out by the nodes' posterior weights. Surrogate draws of all nodes are weighted together by the true likelihood, which
    also mends the weights of the nodes.

    Parameters
    ----------
    draws, chains : int
        Independent draws of (P, F, η), shaped like chains.

    Notes
    -----
    The attrs have the log-evidence with η integrated over, ``log_bayes_factor_jeffreys`` (its difference to that of
    Jeffreys' prior; above 0 favours this prior), and mean, lower and upper end of η.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "mixture"
    order: ClassVar[float] = 21
    most: ClassVar[float] = 2e10
    needs: ClassVar[tuple[str, ...]] = ()

    def prepare(self, problem):
        if problem.mixture is None:
            return Refusal("The method mixture is for priors that mix Dirichlet priors, such as learnt.")
        server = server_of(problem, self.draws * self.chains)
        reason = f"The prior mixes Dirichlet priors: {server.reason}"
        return Plan(reason, server.work, (problem, server), server.pace)

    def run(self, plan, rng, watch):
        problem, server = plan.state
        nodes, factor = nodes_of(problem, server)
        found = server.draws(nodes, shares(nodes.weights, self.draws * self.chains), rng, watch)
        nodes = found.nodes or nodes
        order = rng.permutation(len(found.node))
        parameter = parameter_draws(nodes, found.node, rng)[order]
        rows = len(order) // self.chains * self.chains
        shape = (self.chains, rows // self.chains)

        def intervals(ci_prob):
            """Return the ends of P's intervals: those of the mixture of the nodes' distribution functions."""
            centre, sd = found.exact["distribution_mean"], found.exact["distribution_sd"]
            ends = mixed_ends(nodes, server, centre, sd, tails(ci_prob))
            return dict(zip(("distribution_lower", "distribution_upper"), ends, strict=True))

        return Sample(
            found.distribution[order][:rows].reshape(*shape, -1),
            effective=found.effective,
            verdict=found.verdict,
            moments=found.moments,
            weighted=found.weighted,
            frequency=found.frequency,
            intervals=intervals if server.exact else None,
            exact=found.exact | ({"log_evidence": nodes.log_evidence} if found.exact else {}),
            facts=facts_of(nodes, factor) | found.facts,
            facts_at=lambda ci_prob: interval_facts(nodes, ci_prob),
            hyperparameters={problem.mixture.parameter: parameter[:rows].reshape(shape)},
        )


def mixture_moments(problem, levels):
    """Return (entries of ``exact``, attrs, what was checked) of one collection under a mixture, without draws.

    Exact up to the quadrature for reports that single out one category each and for a few categories; of all others by an
    expansion of the log-likelihood at their mean, which is checked.

    Parameters
    ----------
    problem : Problem
    levels : pair of floats
        Of the ends of the intervals.

    Raises
    ------
    InfeasibleError
        Where the expansion may be off by more than a tenth of a posterior sd.
    """
    server = server_of(problem, 2)
    nodes, factor = nodes_of(problem, server)
    facts, text = facts_of(nodes, factor) | interval_facts(nodes, levels[1] - levels[0]), ""
    facts["bayes_factors"] = f"Log Bayes factor against the Jeffreys prior: {factor:+.2f} (above 0: favoured)."
    if not server.exact:  # under the concentrations in the middle of the nodes
        middle = np.exp(nodes.weights @ np.log([prior.concentrations() for prior in nodes.priors]))
        _, found = checked_expansion(problem.likelihood, middle)
        facts, text = facts | found.facts(), f" {found.sentence}"
    entries = mixed_moments(nodes, *server.moments(nodes.priors), problem.n_users)
    ends = mixed_ends(nodes, server, entries["distribution_mean"], entries["distribution_sd"], levels)
    entries |= dict(zip(("distribution_lower", "distribution_upper"), ends, strict=True))
    entries["log_evidence"] = np.array(nodes.log_evidence)
    kind = "Exact" if server.exact else "Expansions, of second order in the saddle point,"
    return entries, facts, f"{kind} at {nodes.values.size} values of the hyperparameter; no draws were made.{text}"


def facts_of(nodes, factor):
    """Return the attrs about the hyperparameter that every result under a mixture has."""
    name = nodes.mixture.parameter
    # From the curve through all values that were looked at: the law of α has a tail that few nodes do not see.
    values = nodes.quantile((np.arange(LEVELS) + 0.5) / LEVELS)
    return {
        f"{name}_mean": float(values.mean()),
        f"{name}_sd": float(values.std()),
        f"{name}_nodes": nodes.values.size,
        "prior_weight": float(nodes.weights @ [prior.total for prior in nodes.priors]),
        "log_bayes_factor_jeffreys": float(factor),
        "log_bayes_factor_jeffreys_error": nodes.error,
        "log_evidence_error": nodes.error,
    }


def interval_facts(nodes, ci_prob):
    """Return the attrs with the ends of the hyperparameter's interval."""
    ends = nodes.quantile(np.array(tails(ci_prob)))
    return {f"{nodes.mixture.parameter}_{side}": float(end) for side, end in zip(("lower", "upper"), ends, strict=True)}


def shared_facts(nodes, factor, ci_prob):
    """Return the attrs about a hyperparameter that all cells share."""
    own = facts_of(nodes, factor) | interval_facts(nodes, ci_prob)
    return own | {"log_evidence": float(nodes.log_evidence)}


def nodes_of(problem, server):
    """Return (nodes, log Bayes factor of the mixture against Jeffreys' prior)."""
    near = server.settle(problem.mixture)
    nodes = place(problem.mixture, server.log_evidence, server.rough, near)
    # Both are of the same kind, so that errors cancel in the difference.
    return nodes, nodes.log_evidence - server.log_evidence(Dirichlet.jeffreys(problem.n_categories))


def parameter_draws(nodes, node, rng):
    """Return a draw of the hyperparameter for each draw of P, given the node that it came from.

    Nodes share the hyperparameter's posterior out in order: the first has the lowest part with its weight, and so on.
    """
    order = np.argsort(nodes.values[node], kind="stable")
    levels = (np.arange(node.size) + rng.random(node.size)) / node.size
    out = np.empty(node.size)
    out[order] = nodes.quantile(levels)
    return out
