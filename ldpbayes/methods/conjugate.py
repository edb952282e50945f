"""Conjugate posteriors at the nodes of a prior, mixed by what the reports say of each: nodes × servers × cells at once.

A Dirichlet prior is one node, and one collection is one cell. Draws are shared out by the nodes' posterior weights. Where
draws need weights, all nodes' draws are weighted together by the true likelihood, which also corrects the nodes' weights.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from ldpbayes.inference.ends import LEVELS, tails
from ldpbayes.inference.importance import resample
from ldpbayes.inference.scaling import POWERS
from ldpbayes.inference.verdict import Verdict
from ldpbayes.methods import expanded
from ldpbayes.methods.answer import MethodAnswer
from ldpbayes.methods.constants import CLOSE, COVARIANCES, LONGEST, STEPS
from ldpbayes.methods.expansion import refuse_doubtful_cells
from ldpbayes.methods.frequency import frequency_moments, mixed_frequency_moments, tallies_given
from ldpbayes.methods.nodes import Nodes, Placement
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.plan import Preparation, Refusal
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.servers import server_of, servers_of
from ldpbayes.methods.watch import Watch
from ldpbayes.priors import Dirichlet


def plan_of(method: Any, problem: Any, kinds: tuple) -> Preparation | Refusal:
    """Return the Preparation of a method by the first kind of server that applies, or the Refusal."""
    if problem.mixing is None:
        return Refusal(
            f"The method {method.name} needs a Dirichlet prior, or one that mixes conjugate priors, such as learnt; this "
            f"one is {problem.prior.describe()}."
        )
    kind, work, reason = server_of(problem, method.draws * method.chains, method.placement, kinds)
    if not problem.mixing.single:
        reason = f"The prior mixes conjugate priors. {reason}"
    return Preparation(reason, work, (problem, kind))


def run(method: Any, plan: Preparation, rng: np.random.Generator, watch: Watch) -> Outcome:
    """Return the Outcome of a plan: ∫ p(P | Y, z) p(z | Y) dz over the coordinates z of what the prior mixes."""
    problem, kind = plan.state
    server, mixing = kind([problem]), problem.mixing
    nodes, factor = nodes_of(mixing, [server], method.placement)
    (sample,), nodes = sampled(nodes, [server], method, [rng], rng, watch)
    exact, facts = dict(sample.exact), dict(sample.facts)
    if exact:
        exact["log_evidence"] = nodes.log_evidence
    if mixing.size == 1:
        facts = facts_of(nodes, factor) | facts
        return replace(sample, exact=exact, facts=facts, facts_at=lambda ci_prob: interval_facts(nodes, ci_prob))
    if mixing.single and exact and not server.reweighs:
        (prior,) = nodes.priors
        facts |= {f"exact_{name}": value for name, value in server.engine(prior).diagnostics().items()}
        if problem.n_categories <= COVARIANCES:
            exact["distribution_cov"] = server.engine(prior).covariance()[0]
        else:
            facts["exact_covariance"] = f"left out above {COVARIANCES} categories; Exact().moments gives it"
    if not mixing.single:
        facts["log_evidence_error"] = nodes.error
    zero = min(float(nodes.weights[nodes.atoms].sum()), 1.0)
    return replace(sample, exact=exact, facts=facts | mixing.facts(sample.hyperparameters, zero))


def fit_shared(
    methods: Mapping[str, Any], cells: Any, prior: Any, settings: Mapping[str, Any]
) -> tuple[list[MethodAnswer], dict[str, Any]]:
    """Return (a MethodAnswer for every cell, attrs about the hyperparameter that they share).

    Parameters
    ----------
    methods : mapping of str to method
        Those that may be taken, in their order, by name.
    cells : Cells
    prior : AbstractPrior
        That mixes Dirichlet priors by one coordinate.
    settings : mapping
        random_seed, ci_prob and progressbar.
    """
    watch = Watch(settings["progressbar"])
    refuse_doubtful_cells(cells)
    root, *rngs = map(np.random.default_rng, np.random.SeedSequence(settings["random_seed"]).spawn(len(cells) + 1))
    problems = [Problem.of(cell, prior) for cell in cells.collections()]
    kinds = tuple(kind for method in methods.values() for kind in method.kinds)
    method = next(iter(methods.values()))
    servers = servers_of(problems, method.draws * method.chains, method.placement, cells.labels, kinds)
    if len(methods) > 1 and not all(server.name == "exact" for server in servers):
        method = methods["surrogate"]
    nodes, factor = nodes_of(prior.nodes(), servers, method.placement)
    samples, nodes = sampled(nodes, servers, method, rngs, root, watch)
    facts = facts_of(nodes, factor) | interval_facts(nodes, settings["ci_prob"])
    facts["log_evidence"] = float(nodes.log_evidence)
    asked = {name: settings[name] for name in ("random_seed", "ci_prob")}
    answers = []
    for problem, sample, rng in zip(problems, samples, rngs, strict=True):
        stated = {name: value for name, value in sample.facts.items() if name in ("k_hat", "frequency_draws")}
        sample = replace(sample, facts=stated | {"prior_weight": facts["prior_weight"]})
        answers.append(MethodAnswer(method, problem, sample, rng, watch, asked))
    return answers, facts


def nodes_of(mixing: Any, servers: list, placement: Placement) -> tuple[Nodes, float]:
    """Return (nodes by the evidence of all cells, log Bayes factor of the prior against Jeffreys' in every cell).

    Cells are independent given the hyperparameter: log P(all reports | z) = Σ_c log P(reports of c | z). The factor is nan
    where the servers have no evidence under Jeffreys' prior.
    """
    near = [server.settle(mixing, placement) for server in servers]

    def total(priors):
        return sum(server.log_evidences(priors).sum(axis=1) for server in servers)

    def rough(priors):
        return sum(server.rough(priors).sum(axis=1) for server in servers)

    nodes = near[0] if len(near) == 1 else None
    if nodes is None:
        nodes = placement.place(mixing, total, rough)
    for server in servers:
        if server.exact and server.reweighs:
            server.exact = not any(server.engine(prior).rough.any() for prior in nodes.priors)
    if mixing.size != 1:
        return nodes, math.nan
    # Both are of the same kind, so that errors cancel in the difference.
    jeffreys = Dirichlet.jeffreys(servers[0].problems[0].n_categories)
    return nodes, nodes.log_evidence - float(total([jeffreys])[0])


def sampled(
    nodes: Nodes, servers: list, method: Any, rngs: list, rng: np.random.Generator | None, watch: Watch
) -> tuple[list[Outcome], Nodes]:
    """Return (an Outcome of every cell, nodes).

    Draw d of all cells has the same hyperparameter. Draws that are weighted by the true likelihood correct the weights of
    the nodes first.

    Parameters
    ----------
    nodes : Nodes
    servers : list of Server
        Servers of all cells.
    method : AbstractPosterior
        With draws, chains and a placement.
    rngs : list of numpy.random.Generator
        Generator of each cell.
    rng : numpy.random.Generator
        Generator of what they share; no draws that are independent under one Dirichlet prior need it.
    watch : Watch
    """
    chains, several = method.chains, len(rngs) > 1
    size = chains * method.draws
    counts = shares(nodes.weights, size)
    pairs = [(server, c) for server in servers if server.reweighs for c in range(len(server.problems))]
    weighed = {}
    for server, c in watch.track(pairs, "Weighted posteriors at the nodes"):
        weighed[server, c] = _weighed(server, c, nodes, counts, rngs[server.places[c]], watch)
    nodes, chances = _corrected(nodes, counts, weighed, method.placement.enough if several else 1)
    size = min([size, *(weights.log_weight.size for weights, *_ in weighed.values())])  # less after an interruption
    wanted = shares(chances, size)
    order = rng.permutation(size) if weighed or nodes.size > 1 else np.arange(size)  # type: ignore[union-attr]
    rows, node = order[: size // chains * chains], np.repeat(np.arange(wanted.size), wanted)
    hyper: dict[str, np.ndarray] = {}
    if not nodes.single:
        z = nodes.draws(node, rng)[rows]  # type: ignore[arg-type]
        hyper = {name: values.reshape(chains, -1) for name, values in nodes.mixing.values(z).items()}
    out: list = [None] * len(rngs)
    for server in watch.track(servers, "Posteriors at the nodes"):
        drawn = _samples(server, nodes, wanted, [rngs[k] for k in server.places], several)
        for c, (k, problem) in enumerate(zip(server.places, server.problems, strict=True)):
            (flat, *tallies), sample = next(drawn)
            if server.reweighs:
                flat, sample = _resampled(server, problem, nodes, chances, wanted, rngs[k], weighed[server, c], sample)
            draws, *tallies = (array[rows] for array in (flat, *tallies))
            split, beside = (chains, -1, problem.n_categories), {}
            if server.signals and not several:  # draws of the true ones can be interrupted
                beside = {"signal": tallies[0]}
            elif tallies:
                tally = tallies[0].astype(float)
                if server.signals:  # the other users take their categories by P
                    tally += rngs[k].multinomial(problem.n_users - np.rint(tally.sum(axis=1)).astype(np.int64), draws)
                beside = {"tallies": tally.reshape(split), "facts": {"frequency_draws": "allocated"}}
            out[k] = replace(sample, distribution=draws.reshape(split), hyperparameters=hyper, **beside)
    return out, nodes


def _weighed(server, c, nodes, counts, rng, watch):
    """Return (draws of a cell from all nodes, WeightedDraws on the true likelihood; the node of each; Verdict).

    The weights are relative to the log-evidences that placed the nodes: the log of their mean says what the draws add.
    """
    log_mass, made = np.log(nodes.weights) - server.log_evidences(nodes.priors)[:, c], {}

    def draw(i, count):
        return server.proposed(nodes.priors[i], c, count, rng, watch, made)

    return expanded.weighed(draw, log_mass, counts, server.problems[c].likelihood, rng, watch)


def _samples(server, nodes, counts, rngs, several):
    """Yield ((draws of P, of tallies), node by node, what else is said of it) of each cell.

    Draws that have weights are not made here.
    """
    drawn: list = [[] for _ in rngs]
    for prior, count in zip(nodes.priors, counts, strict=True):
        if count and not server.reweighs:
            for batches, draws in zip(drawn, server.draws(prior, int(count), rngs), strict=True):
                batches.append(draws)

    @functools.cache
    def entries(ci_prob=None):
        """Return entries of all cells: ends of intervals where a probability is given, else moments."""
        if ci_prob is None:
            moments = entries_of(server, nodes) if server.exact else {}
            return {name: x for name, x in moments.items() if nodes.single or name.startswith(("distribution", "frequency"))}
        moments = entries_of(server, nodes, tails(ci_prob), LEVELS if nodes.single and not server.reweighs else ())
        return {name: moments[name] for name in moments if name.endswith(("lower", "upper", "quantile"))}

    def of_cell(c, ci_prob=None):
        return {name: values[c] for name, values in entries(ci_prob).items()}

    whose = "shared hyperparameter" if several else "hyperparameter"
    for c, batches in enumerate(drawn):
        yield (
            [np.concatenate(arrays) for arrays in zip(*batches, strict=True)] or [None],
            Outcome(
                np.empty(0),
                exact=of_cell(c),
                intervals=functools.partial(of_cell, c) if server.exact and (nodes.single or not several) else None,
                verdict=Verdict(checked=server.sentence(nodes, counts, whose))
                if batches and not nodes.single
                else Verdict(),
            ),
        )


def _resampled(server, problem, nodes, chances, counts, rng, weighed, sample):
    """Return (draws of P, node by node, the Outcome with what their weights say) of a cell whose draws have weights."""
    weights, node, verdict = weighed
    worth = np.bincount(node, weights.weight, chances.size)
    weight = weights.weight * np.divide(chances, worth, out=np.zeros_like(worth), where=worth > 0)[node]
    chosen = []
    for i in np.flatnonzero(counts):
        places = np.flatnonzero(node == i)
        chosen.append(places[resample(weight[places] / weight[places].sum(), rng, int(counts[i]))])
    p, chosen = weights.distribution, np.concatenate(chosen)
    facts = weights.facts | {"log_evidence": float(nodes.log_evidence)}
    alpha, moments_of_f = [prior.concentrations() for prior in nodes.priors], {}
    if not (server.exact or nodes.single or alpha[0] is None):
        moments_of_f = {"frequency": mixed_frequency_moments(p, weight, np.array(alpha)[node], problem.n_users)}
    return p[chosen], replace(
        sample,
        effective=min(weights.effective_sample, float(chosen.size)),
        verdict=verdict,
        weighted_draws=None if server.exact else (p, weight),
        facts=facts,
        **moments_of_f,
    )


def _corrected(nodes, counts, weighed, enough):
    """Return (nodes with the log-evidences that the draws under the true likelihood give them, their chances of a draw).

    Nodes with fewer than ``enough`` draws move as the nearest that has them; ``counts`` (k,) are the draws of each.
    ``weighed`` is a dict of (server, cell) to (WeightedDraws, node of each draw, Verdict).
    """
    worth = {key: np.bincount(node, weights.weight, counts.size) for key, (weights, node, _) in weighed.items()}
    drawn = np.all([counts > 0, *(mass > 0 for mass in worth.values())], axis=0)
    if any(not server.exact for server, _ in worth):
        told = drawn & (counts >= enough)
        if not told.any():
            told = np.arange(counts.size) == np.where(drawn, counts, 0).argmax()
        shift = np.zeros(counts.size)
        for key, (weights, *_) in weighed.items():
            if not key[0].exact:
                shift[told] += weights.log_evidence + np.log(worth[key][told] / nodes.weights[told])
        moved = shift[nodes.nearest(told)]
        with np.errstate(divide="ignore"):
            log_weight = np.log(nodes.weights) + moved
        total = float(logsumexp(log_weight))
        several = [(weights, node) for (server, _), (weights, node, _) in weighed.items() if not server.exact]
        noise = [weights.log_evidence_error for weights, _ in several]
        nodes = replace(
            nodes,
            error=float(np.hypot(nodes.error, np.linalg.norm(noise))),  # of the integral over z, and of the weights
            noise=np.sqrt(sum(_relative(weights.weight, node, counts.size) for weights, node in several)),
            weights=np.exp(log_weight - total),
            log_evidence=nodes.log_evidence + total,
            log_evidences=nodes.log_evidences + moved,
            shift=nodes.shift + moved,
        )
    chances = np.where(drawn, nodes.weights, 0.0)
    return nodes, chances / chances.sum()


def _relative(weight, node, size):
    """Return the squared relative errors of the sums of weights of all nodes; 1 where none is above 1e-162, or no draw."""
    total, square = np.bincount(node, weight, size), np.bincount(node, weight**2, size)
    return np.divide(square, total**2, out=np.ones(size), where=total**2 > 0)


def shares(weights: np.ndarray, size: int) -> np.ndarray:
    """Return how many of ``size`` draws each node gets: in proportion to its weight, the largest remainders rounded up."""
    wanted = weights * size
    counts = np.floor(wanted).astype(int)
    counts[np.argsort(counts - wanted, kind="stable")[: size - counts.sum()]] += 1
    return counts


# ---- what is said of the nodes -----------------------------------------------------------------------------------------
def facts_of(nodes: Nodes, factor: float) -> dict[str, Any]:
    """Return the attrs about the one hyperparameter that every result under such a prior has."""
    (name,) = nodes.mixing.names
    # From the curve through the nodes: the law of α has a tail that few nodes do not see.
    t, density = nodes.density()
    values, at_nodes = nodes.mixing.values(t[:, None])[name], nodes.values[name]
    mean = float(density @ values)
    return {
        f"{name}_mean": mean,
        f"{name}_sd": float(np.sqrt(density @ (values - mean) ** 2)),
        f"{name}_mcse": float(np.linalg.norm(nodes.noise * nodes.weights * (at_nodes - mean))),
        f"{name}_nodes": nodes.size,
        "prior_weight": float(nodes.weights @ [prior.total for prior in nodes.priors]),
        "log_bayes_factor_jeffreys": float(factor),
        "log_bayes_factor_jeffreys_error": nodes.error,
        "log_evidence_error": nodes.error,
    }


def interval_facts(nodes: Nodes, ci_prob: float) -> dict[str, float]:
    """Return the attrs with the ends of the hyperparameter's interval."""
    (name,) = nodes.mixing.names
    ends = nodes.mixing.values(nodes.quantile(np.array(tails(ci_prob)))[:, None])[name]
    return {f"{name}_{side}": float(end) for side, end in zip(("lower", "upper"), ends, strict=True)}


# ---- moments, ends and evidence over the nodes --------------------------------------------------------------------------
def entries_of(
    server: Any, nodes: Nodes, levels: Any = None, quantiles: Any = (), dependent: bool = False
) -> dict[str, np.ndarray]:
    """Return entries of result.EXACT with an axis of cells: moments of P and F over nodes, and evidence.

    Parameters
    ----------
    server : Server
    nodes : Nodes
    levels : pair of floats, optional
        Levels of the ends of intervals, which are entries too.
    quantiles : sequence of float
        Levels of further quantiles, under one Dirichlet prior.
    dependent : bool
        Whether Cov(P) is an entry.
    """
    engines = [server.engine(prior) for prior in nodes.priors]
    evidences = server.log_evidences(nodes.priors)
    means, variances = (np.array([getattr(engine, name) for engine in engines]) for name in ("mean", "variance"))
    users = np.array([[problem.n_users] for problem in server.problems])
    sets = [(m, v, prior.concentrations()) for m, v, prior in zip(means, variances, nodes.priors, strict=True)]
    frequency = np.array([frequency_moments(*one, users, tallies_given(server.problems)) for one in sets])
    out = {"log_evidence": logsumexp(evidences, axis=0, b=nodes.weights[:, None])}
    for name, mean, square in (("distribution", means, variances), ("frequency", frequency[:, 0], frequency[:, 1] ** 2)):
        centre = np.tensordot(nodes.weights, mean, 1)
        out[f"{name}_mean"] = centre
        out[f"{name}_sd"] = np.sqrt(np.tensordot(nodes.weights, square + (mean - centre) ** 2, 1))
    centre = out["distribution_mean"]
    if dependent:
        away, within = means - centre, np.tensordot(nodes.weights, [engine.covariance() for engine in engines], 1)
        out["distribution_cov"] = within + np.einsum("k,kcx,kcy->cxy", nodes.weights, away, away)
    if levels is not None:
        if nodes.size == 1:
            lower, upper, *more = engines[0].quantile((*levels, *quantiles))
        else:
            lower, upper, *more = (inverted(engines, nodes.weights, level, centre) for level in levels)
        out |= {"distribution_lower": lower, "distribution_upper": upper}
        out |= {"distribution_quantile": np.stack(more, axis=1)} if more else {}
    log_ratio = None if nodes.single else server.problems[0].prior.log_hyperprior(nodes.values)
    return out if log_ratio is None else out | {"under": _under(nodes, log_ratio, means, variances)}


def _under(nodes, log_ratio, means, variances):
    """Return means and sds of P under the prior of the hyperparameter to both POWERS, shape (cells, 2, 2, a).

    ``log_ratio`` is what it gains at each node for one unit of the log of the power.
    """
    out = []
    for power in POWERS:
        weight = softmax(np.log(nodes.weights) + math.log(power) * log_ratio)
        mean = np.tensordot(weight, means, 1)
        out.append((mean, np.sqrt(np.tensordot(weight, variances + (means - mean) ** 2, 1))))
    return np.moveaxis(np.array(out), 2, 0).swapaxes(1, 2)


def inverted(engines: list, weights: np.ndarray, level: float, centre: np.ndarray) -> np.ndarray:
    """Return where Σ_k w_k F_k(x) reaches a level, shape (cells, a), on the scale of log x by the Illinois rule."""

    def off(y):
        value = np.exp(y)
        return sum(weight * engine.cdf(value) for weight, engine in zip(weights, engines, strict=True)) - level

    low, high = np.full(centre.shape, -LONGEST), np.full(centre.shape, -1e-15)
    below, above = np.full(centre.shape, -level), np.full(centre.shape, 1 - level)
    y, side = np.log(centre), np.zeros(centre.shape)
    for step in range(STEPS):
        excess = off(y)
        up = excess < 0
        # Illinois: an end that stays twice counts half, so that the other one moves, too.
        below = np.where(up, excess, np.where(side < 0, 0.5 * below, below))
        above = np.where(~up, excess, np.where(side > 0, 0.5 * above, above))
        low, high = np.where(up, y, low), np.where(up, high, y)
        side = np.where(up, 1.0, -1.0)
        if (np.abs(excess) < CLOSE * min(level, 1 - level)).all() or (high - low < CLOSE).all():
            break
        middle, secant = 0.5 * (low + high), low - below * (high - low) / (above - below)
        # Far out F is a power of x: halving the logarithm is slow, and so is a secant over a long span.
        y = np.where((high - low > 1) & (step % 2 == 0) | ~np.isfinite(secant), middle, np.clip(secant, low, high))
    return np.exp(y)
