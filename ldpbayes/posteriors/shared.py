"""One hyperparameter for all cells: conjugate posteriors of each at shared nodes, weighed by the evidence of all."""

from dataclasses import replace

import numpy as np

from ldpbayes.errors import CellsError, InfeasibleError
from ldpbayes.inference.importance import weigh
from ldpbayes.inference.verdict import Verdict
from ldpbayes.posteriors.base import Answer, Problem, Sample, Watch
from ldpbayes.posteriors.expansion import refuse_doubtful_cells
from ldpbayes.posteriors.mixing import ENOUGH, mixed_frequencies, mixed_moments, server_of, shares, spread_over
from ldpbayes.posteriors.mixture import parameter_draws, shared_facts
from ldpbayes.posteriors.nodes import place
from ldpbayes.priors import Dirichlet


def fit_shared(method, cells, prior, run, many):
    """Return (an Answer for every cell, attrs about the shared hyperparameter η).

    Cells are independent given η, so that log P(all reports | η) = Σ_c log P(reports of c | η). Its nodes are placed as for
    one collection; at every node each cell has the posterior of a Dirichlet prior, and draw d of all cells has the same η.

    Parameters
    ----------
    method : Mixture
    cells : Cells
    prior : AbstractPrior
        With a mixture.
    run : dict
        random_seed, ci_prob and progressbar.
    many : Many or None
        Where every cell has separable reports: what gives their evidences and moments in one call.

    Returns
    -------
    list of Answer, dict
    """
    watch, size = Watch(run["progressbar"]), method.draws * method.chains
    root, *seeds = np.random.SeedSequence(run["random_seed"]).spawn(len(cells) + 1)
    rngs, rng = [np.random.default_rng(one) for one in seeds], np.random.default_rng(root)
    mixture, servers = prior.mixture(), []
    refuse_doubtful_cells(cells)
    for label, cell in zip(cells.labels, cells.collections(), strict=True):
        try:
            servers.append(server_of(Problem.of(cell, prior), size, len(cells)))
        except InfeasibleError as err:
            raise CellsError(f"Cell {label}: {err}", {label: str(err)}) from err
    many = many if all(server.product for server in servers) else None
    nodes, factor = _nodes(mixture, servers, many, cells.n_categories)
    # Moments of all cells at once, at every node.
    known = None if many is None else [many.under(prior.concentrations()) for prior in nodes.priors]
    counts = shares(nodes.weights, size)
    drawn = []
    pairs = list(zip(servers, rngs, strict=True))
    for server, own in watch.track(pairs, "Posteriors of the cells at the nodes"):
        some = [(i, server.node_draws(nodes.priors[i], int(counts[i]), own, watch)) for i in np.flatnonzero(counts)]
        drawn.append(dict(some))
    nodes = _mended(nodes, drawn, counts)
    # The corrected weights take other numbers of draws from every node, the same ones in all cells.
    wanted = np.where(counts > 0, nodes.weights, 0.0)
    wanted = shares(wanted / wanted.sum(), size)
    place = {i: np.arange(wanted[i]) * counts[i] // max(wanted[i], 1) for i in np.flatnonzero(counts)}
    node = np.repeat(np.arange(wanted.size), wanted)
    order = rng.permutation(size)
    shape = (method.chains, method.draws)
    hyper = {mixture.parameter: parameter_draws(nodes, node, rng)[order].reshape(shape)}
    facts = shared_facts(nodes, factor, run["ci_prob"])
    stated = {name: run[name] for name in ("random_seed", "ci_prob")}
    out = []
    for c, (server, own, parts) in enumerate(zip(servers, rngs, drawn, strict=True)):
        flat = np.concatenate([parts[i].distribution[place[i]] for i in place])[order]
        moments = None
        if server.exact:
            one = (
                server.moments(nodes.priors)
                if known is None
                else zip(*((f.mean[c], f.variance[c]) for f in known), strict=True)
            )
            moments = mixed_moments(nodes, *map(np.array, one), server.problem.n_users)
        sample = _sample(moments, counts, parts, flat.reshape(*shape, -1))
        if not server.exact:
            even = np.full(size, 1 / size)
            sample = replace(sample, frequency=mixed_frequencies(nodes, flat, even, node[order], server.problem.n_users))
        about = dict(sample.facts) | {"prior_weight": facts["prior_weight"]}
        sample = replace(sample, hyperparameters=hyper, facts=about)
        out.append(Answer(method, server.problem, sample, own, watch, stated))
    return out, facts


def _nodes(mixture, servers, many, n_categories):
    """Return (nodes of the evidence of all cells, log Bayes factor against Jeffreys' prior in every cell)."""
    for server in servers:
        server.settle(mixture)

    def total(prior):
        if many is not None:
            return float(many.log_evidence(prior.concentrations()).sum())
        return sum(server.log_evidence(prior) for server in servers)

    def rough(prior):
        return sum((server.rough or server.log_evidence)(prior) for server in servers)

    nodes = place(mixture, total, rough if many is None and any(server.rough is not None for server in servers) else None)
    return nodes, nodes.log_evidence - total(Dirichlet.jeffreys(n_categories))


def _mended(nodes, drawn, counts):
    """Return the nodes with the log-evidences that the draws under the true likelihood give them.

    Nodes with few draws move as the nearest that has enough.
    """
    enough = np.flatnonzero(counts >= ENOUGH)
    if not enough.size:
        enough = np.array([counts.argmax()])
    shift = np.array([sum(parts[i].correction for parts in drawn) for i in enough])
    moved, seen = spread_over(nodes, enough, shift)
    top = (np.log(nodes.weights) + moved).max()
    weights = np.exp(np.log(nodes.weights) + moved - top)
    return replace(
        nodes,
        weights=weights / weights.sum(),
        log_evidence=nodes.log_evidence + top + np.log(weights.sum()),
        log_evidences=nodes.log_evidences + moved,
        seen_log_evidences=nodes.seen_log_evidences + seen,
    )


def _sample(known, counts, parts, distribution):
    """Return the Sample of one cell, whose exact moments may be known."""
    if known is not None:
        text = f"Exact at {counts.size} values of the shared hyperparameter. Independent draws need no chain diagnostics."
        return Sample(distribution, exact=known, verdict=Verdict(checked=text))
    # The tail of a few draws is mostly noise: the weights of all nodes are judged together, as those of one collection are.
    whole = [part.drawn for part in parts.values()]
    found = weigh(*(np.concatenate(arrays) for arrays in zip(*whole, strict=True)))
    effective = sum(part.effective for part in parts.values())
    return Sample(distribution, effective=effective, verdict=found.verdict, facts={"k_hat": found.k_hat})
