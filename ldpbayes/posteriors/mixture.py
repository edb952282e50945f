"""Priors that are one-parameter mixtures of Dirichlet priors: conjugate answers, mixed by what the reports say of each."""

import functools
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from ldpbayes.inference.ends import LEVELS, tails
from ldpbayes.inference.importance import resample
from ldpbayes.inference.verdict import Verdict
from ldpbayes.posteriors.base import AbstractPosterior, Answer, Plan, Problem, Refusal, Sample, Watch
from ldpbayes.posteriors.expansion import refuse_doubtful_cells
from ldpbayes.posteriors.frequency import mixed_frequency_moments
from ldpbayes.posteriors.mixing import entries_of, plan_of, servers_of, shares
from ldpbayes.posteriors.nodes import place
from ldpbayes.priors import Dirichlet

#: Levels of the quantiles that moments of the hyperparameter come from.
FINE = 20_000
#: Draws of a node with the true likelihood correct its weight from this number on.
ENOUGH = 50


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
        _, reason, work, pace = plan_of(problem, self.draws * self.chains)
        return Plan(f"The prior mixes Dirichlet priors: {reason}", work, problem, pace)

    def run(self, plan, rng, watch):
        problem = plan.state
        servers = servers_of([problem], self.draws * self.chains)
        nodes, factor = nodes_of(problem.mixture, servers)
        (sample,), nodes = sampled(nodes, servers, (self.chains, self.draws), [rng], rng, watch)
        exact = sample.exact | ({"log_evidence": nodes.log_evidence} if sample.exact else {})
        facts = facts_of(nodes, factor) | sample.facts
        return replace(sample, exact=exact, facts=facts, facts_at=lambda ci_prob: interval_facts(nodes, ci_prob))


def fit_shared(method, cells, prior, run):
    """Return (an Answer for every cell, attrs about the shared hyperparameter η).

    Parameters
    ----------
    method : Mixture
    cells : Cells
    prior : AbstractPrior
        With a mixture.
    run : dict
        random_seed, ci_prob and progressbar.

    Returns
    -------
    list of Answer, dict
    """
    watch = Watch(run["progressbar"])
    refuse_doubtful_cells(cells)
    root, *rngs = map(np.random.default_rng, np.random.SeedSequence(run["random_seed"]).spawn(len(cells) + 1))
    problems = [Problem.of(cell, prior) for cell in cells.collections()]
    servers = servers_of(problems, method.draws * method.chains, cells.labels)
    nodes, factor = nodes_of(prior.mixture(), servers)
    samples, nodes = sampled(nodes, servers, (method.chains, method.draws), rngs, root, watch)
    facts = facts_of(nodes, factor) | interval_facts(nodes, run["ci_prob"]) | {"log_evidence": float(nodes.log_evidence)}
    settings = {name: run[name] for name in ("random_seed", "ci_prob")}
    answers = []
    for problem, sample, rng in zip(problems, samples, rngs, strict=True):
        facts_kept = {name: value for name, value in sample.facts.items() if name in ("k_hat", "frequency_draws")}
        sample = replace(sample, facts=facts_kept | {"prior_weight": facts["prior_weight"]})
        answers.append(Answer(method, problem, sample, rng, watch, settings))
    return answers, facts


def nodes_of(mixture, servers):
    """Return (nodes by the evidence of all cells, log Bayes factor of the mixture against Jeffreys' prior in every cell).

    Cells are independent given the hyperparameter η: log P(all reports | η) = Σ_c log P(reports of c | η).
    """
    near = [server.settle(mixture) for server in servers]

    def total(prior):
        return sum(float(server.log_evidence(prior).sum()) for server in servers)

    def rough(prior):
        return sum(float(server.rough(prior).sum()) for server in servers)

    nodes = place(mixture, total, rough, near[0] if len(near) == 1 else None)
    # Both are of the same kind, so that errors cancel in the difference.
    return nodes, nodes.log_evidence - total(Dirichlet.jeffreys(servers[0].problems[0].n_categories))


def sampled(nodes, servers, shape, rngs, rng, watch):
    """Return (a Sample of every cell, nodes): ∫ p(P | Y, η) p(η | Y) dη.

    Draw d of all cells has the same η. Draws that are weighted by the true likelihood mend the weights of the nodes first.

    Parameters
    ----------
    nodes : Nodes
    servers : list of servers
        Of all cells.
    shape : pair of int
        Chains and draws.
    rngs : list of numpy.random.Generator
        Of each cell.
    rng : numpy.random.Generator
        Of what they share; no draws that are independent under one Dirichlet prior need it.
    watch : Watch
    """
    size, several = math.prod(shape), len(rngs) > 1
    counts = shares(nodes.weights, size)
    pairs = [(server, c) for server in servers if server.weighted for c in range(len(server.problems))]
    weighed = {}
    for server, c in watch.track(pairs, "Weighted posteriors at the nodes"):
        weighed[server, c] = server.weigh(c, nodes, counts, rngs[server.places[c]], watch, several)
    nodes, chances = _mended(nodes, counts, weighed)
    size = min([size, *(weights.log_weight.size for weights, *_ in weighed.values())])  # less after an interruption
    wanted = shares(chances, size)
    order = rng.permutation(size) if weighed or nodes.values.size > 1 else np.arange(size)
    rows, hyper = order[: size // shape[0] * shape[0]], {}
    if nodes.mixture is not None:
        node = np.repeat(np.arange(wanted.size), wanted)
        hyper = {nodes.mixture.parameter: parameter_draws(nodes, node, rng)[rows].reshape(shape[0], -1)}
    out: list = [None] * len(rngs)
    for server in watch.track(servers, "Posteriors at the nodes"):
        drawn = _samples(server, nodes, wanted, [rngs[k] for k in server.places], several)
        for c, (k, problem) in enumerate(zip(server.places, server.problems, strict=True)):
            (flat, *tallies), sample = next(drawn)
            if server.weighted:
                flat, sample = _resampled(server, problem, nodes, chances, wanted, rngs[k], weighed[server, c], sample)
            draws, *tallies = (array[rows] for array in (flat, *tallies))
            split, beside = (shape[0], -1, problem.n_categories), {}
            if server.signals and not several:  # draws of the true ones can be interrupted
                beside = {"signal": tallies[0]}
            elif tallies:
                tally = tallies[0].astype(float)
                if server.signals:  # the other users take their categories by P
                    tally += rngs[k].multinomial(problem.n_users - np.rint(tally.sum(axis=1)).astype(np.int64), draws)
                beside = {"tallies": tally.reshape(split), "facts": {"frequency_draws": "allocated"}}
            out[k] = replace(sample, distribution=draws.reshape(split), hyperparameters=hyper, **beside)
    return out, nodes


def _samples(server, nodes, counts, rngs, several):
    """Yield ((draws of P, of tallies), node by node, what else is known of it) of each cell.

    Draws that have weights are not made here.
    """
    drawn: list = [[] for _ in rngs]
    for prior, count in zip(nodes.priors, counts, strict=True):
        if count and not server.weighted:
            for batches, draws in zip(drawn, server.draws(prior, int(count), rngs), strict=True):
                batches.append(draws)
    alone = nodes.values.size == 1

    @functools.cache
    def entries(ci_prob=None):
        """Return entries of all cells; where a probability is given those of the ends of intervals."""
        if ci_prob is None:
            moments = entries_of(server, nodes) if server.exact else {}
            return {name: x for name, x in moments.items() if alone or name.startswith(("distribution", "frequency"))}
        moments = entries_of(server, nodes, tails(ci_prob), LEVELS if alone and not server.weighted else ())
        return {name: moments[name] for name in moments if name.endswith(("lower", "upper", "quantile"))}

    def of_cell(c, ci_prob=None):
        return {name: values[c] for name, values in entries(ci_prob).items()}

    whose = "shared hyperparameter" if several else "hyperparameter"
    for c, batches in enumerate(drawn):
        yield (
            [np.concatenate(arrays) for arrays in zip(*batches, strict=True)] or [None],
            Sample(
                np.empty(0),
                exact=of_cell(c),
                intervals=functools.partial(of_cell, c) if server.exact and (alone or not several) else None,
                verdict=Verdict(checked=server.sentence(nodes, counts, whose)) if batches and not alone else Verdict(),
            ),
        )


def _resampled(server, problem, nodes, chances, counts, rng, weighed, sample):
    """Return (draws of P, node by node, the Sample with what their weights say) of a cell whose draws have weights."""
    weights, node, verdict = weighed
    worth = np.bincount(node, weights.weight, chances.size)
    weight = weights.weight * np.divide(chances, worth, out=np.zeros_like(worth), where=worth > 0)[node]
    chosen = []
    for i in np.flatnonzero(counts):
        drawn_here = np.flatnonzero(node == i)
        chosen.append(drawn_here[resample(weight[drawn_here] / weight[drawn_here].sum(), rng, int(counts[i]))])
    p, chosen = weights.distribution, np.concatenate(chosen)
    facts = weights.facts | {"log_evidence": float(nodes.log_evidence)}
    alpha = np.array([prior.concentrations() for prior in nodes.priors])
    moments_of_f = {} if server.exact else {"frequency": mixed_frequency_moments(p, weight, alpha[node], problem.n_users)}
    effective = min(weights.effective_sample, float(chosen.size))
    return p[chosen], replace(
        sample,
        effective=effective,
        verdict=verdict,
        weighted=None if server.exact else (p, weight),
        facts=facts,
        **moments_of_f,
    )


def _mended(nodes, counts, weighed):
    """Return (nodes with the log-evidences that the draws under the true likelihood give them, their chances of a draw).

    Nodes with few draws move as the nearest that has enough.

    Parameters
    ----------
    nodes : Nodes
    counts : (k,) array
        Draws of each.
    weighed : dict of (server, cell) to (Weighted, node of each draw, Verdict)
    """
    worth = {key: np.bincount(node, weights.weight, counts.size) for key, (weights, node, _) in weighed.items()}
    drawn = np.all([counts > 0, *(mass > 0 for mass in worth.values())], axis=0)
    if any(not server.exact for server, _ in worth):
        enough = drawn & (counts >= ENOUGH)
        if not enough.any():
            enough = np.arange(counts.size) == np.where(drawn, counts, 0).argmax()
        shift = sum(
            weighed[key][0].log_evidence + np.log(mass[enough] / nodes.weights[enough])
            for key, mass in worth.items()
            if not key[0].exact
        )
        moved = np.interp(nodes.t, nodes.t[enough], shift)
        with np.errstate(divide="ignore"):
            log_weight = np.log(nodes.weights) + moved
        total = logsumexp(log_weight)
        weighted = [(weights, node) for (server, _), (weights, node, _) in weighed.items() if not server.exact]
        noise = [weights.log_evidence_error for weights, _ in weighted]
        nodes = replace(
            nodes,
            error=float(np.hypot(nodes.error, np.linalg.norm(noise))),  # of the integral over η, and of the weights
            noise=np.sqrt(sum(_relative(weights.weight, node, counts.size) for weights, node in weighted)),
            weights=np.exp(log_weight - total),
            log_evidence=nodes.log_evidence + total,
            log_evidences=nodes.log_evidences + moved,
        )
    chances = np.where(drawn, nodes.weights, 0.0)
    return nodes, chances / chances.sum()


def _relative(weight, node, size):
    """Return the squared relative errors of the sums of weights of all nodes; 1 of a node without draws."""
    total, square = np.bincount(node, weight, size), np.bincount(node, weight**2, size)
    return np.divide(square, total**2, out=np.ones(size), where=total > 0)


def facts_of(nodes, factor):
    """Return the attrs about the hyperparameter that every result under a mixture has."""
    name = nodes.mixture.parameter
    # From the curve through the nodes: the law of α has a tail that few nodes do not see.
    values = nodes.quantile((np.arange(FINE) + 0.5) / FINE)
    return {
        f"{name}_mean": float(values.mean()),
        f"{name}_sd": float(values.std()),
        f"{name}_mcse": float(np.linalg.norm(nodes.noise * nodes.weights * (nodes.values - values.mean()))),
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


def parameter_draws(nodes, node, rng):
    """Return a draw of the hyperparameter for each draw of P, given the node that it came from.

    Nodes share the hyperparameter's posterior out in order: the first has the lowest part with its weight, and so on.
    """
    order = np.argsort(nodes.values[node], kind="stable")
    levels = (np.arange(node.size) + rng.random(node.size)) / node.size
    out = np.empty(node.size)
    out[order] = nodes.quantile(levels)
    return out
