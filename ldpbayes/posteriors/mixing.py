"""Conjugate posteriors at every value of a mixture's hyperparameter, with the work that the values share done once."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.importance import enough, resample, weigh
from ldpbayes.inference.verdict import ACCEPTED, Verdict, hopeless
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import Pace, Watch
from ldpbayes.posteriors.conditioned_product import ConditionedProduct
from ldpbayes.posteriors.conditioned_product.batched import log_masses, saddle_quantiles
from ldpbayes.posteriors.conditioned_product.factors import grouped
from ldpbayes.posteriors.exact import Exact, moments_given, stacked_factors
from ldpbayes.posteriors.frequency import frequency_moments, mixed_frequency_moments
from ldpbayes.posteriors.nodes import MORE, Nodes, place
from ldpbayes.posteriors.quadrature import MAX_GROUPS, Quadrature
from ldpbayes.priors import Dirichlet

#: Log-evidences by counts have a smaller error; others come with moments.
EXACT_EVIDENCE = 1e-6
#: Quadrature is used for a mixture where the integrals of one fit take no more operations; so many are made, and each calls
#: numpy as often as takes so many operations.
QUICK, INTEGRALS, CALLS = 5e6, 30, 1e6
#: … and for cells that share the hyperparameter where those of all of them take no more.
TOGETHER = 1e9
#: Quadrature is used for one Dirichlet prior without draws where it would take no more operations.
PATIENT = 1e9
#: How much wider than the surrogate the proposals of a node are: four fifths of the draws are left.
WIDER = 0.6
#: Operations of the nodes of one category: of exact posteriors, in those of a draw, of surrogates, in those of an entry.
EXACT_FACTOR, SURROGATE_FACTOR = 1250, 4e6
#: From so many entries of the rows on, the first pilot comes from the support counts.
LARGE = 1e9
#: Draws hold at most so many numbers where more of them are weighted than are kept.
MOST_WEIGHTED = 2**21
#: So many draws under Jeffreys' prior show whether surrogates are worth making.
LOOKED_AT = 250
#: Draws of a node with the true likelihood correct its weight from this number on.
ENOUGH = 50
#: From this number of categories on, evidence without moments places the nodes of separable reports; exact one weighs them.
MANY = 50
#: Engines of so many values of the hyperparameter are kept: those of the finest rule's nodes, and Jeffreys'. With fewer,
#: every pass over the nodes makes them all again.
KEPT = MORE + 1
#: The common pilot of all nodes is settled when the mixture's mean is within so many posterior sd of it, or after so many
#: rounds.
SETTLED, ROUNDS = 0.1, 4
#: Quantiles are sought from e^−LONGEST on, in at most so many steps, until the level is met to this share of the tail.
LONGEST, STEPS, CLOSE = 690.0, 60, 1e-6


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws of P with the node of each, and what is known of P beyond them."""

    distribution: np.ndarray
    node: np.ndarray
    exact: dict
    facts: dict
    nodes: Nodes | None = None
    moments: tuple[np.ndarray, np.ndarray] | None = None
    effective: float | None = None
    weighted: tuple[np.ndarray, np.ndarray] | None = None
    frequency: tuple[np.ndarray, np.ndarray] | None = None
    verdict: Verdict = ACCEPTED


@dataclass(frozen=True, eq=False)
class NodeDraws:
    """Draws of P under one prior, what they are worth, and what they add to the log-evidence that placed the nodes.

    Weighted draws come with those drawn and the logs of their weights, relative to the mean: those of all nodes are judged
    together.
    """

    distribution: np.ndarray
    effective: float
    correction: float = 0.0
    drawn: tuple[np.ndarray, np.ndarray] | None = None


class _Exact:
    """Posteriors that are known at every node, whose draws are those of the nodes."""

    exact, rough = True, None

    def settle(self, mixture):
        """Return None: exact evidence needs no pilot."""

    def draws(self, nodes, counts, rng, watch):
        pairs = [(prior, int(count)) for prior, count in zip(nodes.priors, counts, strict=True) if count]
        shown = watch.track(pairs, "Exact posteriors of the nodes")
        return Drawn(
            np.concatenate([self.node_draws(prior, count, rng, watch).distribution for prior, count in shown]),
            np.repeat(np.arange(counts.size), counts),
            mixed_moments(nodes, *self.moments(nodes.priors), self.problem.n_users),
            {},
            verdict=Verdict(checked=self.sentence(nodes, counts)),
        )


class Separable(_Exact):
    """Exact posteriors, for reports that single out one category each."""

    product = True

    def __init__(self, problem, size):
        plan = Exact(draws=max(size, 2), chains=1).plan(problem_of(problem, Dirichlet.jeffreys(problem.n_categories)))
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        self.problem, (_, form) = problem, plan.state
        self.reason, a = plan.reason, problem.n_categories
        self.work, self.pace = plan.work + EXACT_FACTOR * a, Pace(0.12, 0.01, Exact.pace.operation)
        family, log_scale = stacked_factors([form], np.zeros(a))
        (self._family, self._group), self._log_scale = grouped(family), float(log_scale[0])
        self._tilts, self._evidence, self._engines = {}, {}, {}
        self.rough = (lambda prior: self._mass(prior)[0]) if problem.n_categories >= MANY else None

    def log_evidence(self, prior):
        """Return the log-evidence."""
        key = key_of(prior)
        if key not in self._evidence:
            value, error = self._mass(prior)
            self._evidence[key] = value if error <= EXACT_EVIDENCE else self._found(prior).log_evidence
        return self._evidence[key]

    def _mass(self, prior):
        """Return (log-evidence without moments, its error)."""
        alpha = prior.concentrations()
        family, group = self._under(alpha)
        found, error = log_masses(family, np.bincount(group).astype(float), 1)
        return float(found[0] + self._log_scale + gammaln(alpha.sum()) - gammaln(alpha).sum()), float(error[0])

    def moments(self, priors):
        """Return (means, variances) of P given each of the priors, two (k, a) arrays."""
        found = [self._found(prior) for prior in priors]
        return np.array([one.mean for one in found]), np.array([one.variance for one in found])

    def cdf(self, prior, value):
        """Return P(P_x ≤ value_x) of every category under one prior, shape (a,)."""
        return self._found(prior).engine.cdf(value)

    def sentence(self, nodes, counts):
        """Return what was checked of draws."""
        return f"Exact at {counts.size} values of the hyperparameter. Independent draws: no chain diagnostics are needed."

    def node_draws(self, prior, count, rng, watch):
        """Return the NodeDraws under one prior."""
        return NodeDraws(self._found(prior).engine.draws(count, rng)[0], count)

    def _start(self, total):
        """Return a tilt near that of Dirichlet priors of weight ``total``: it grows by what Σα does."""
        near = min(self._tilts, key=lambda known: abs(math.log(known / total)), default=None)
        return None if near is None else max(self._tilts[near] + total - near, 1e-3 * self._tilts[near])

    def _under(self, alpha):
        """Return (factors, group of each category): categories with equal reports and equal concentrations are one group."""
        code = np.unique(alpha, return_inverse=True)[1]
        _, first, group = np.unique(self._group * alpha.size + code, return_index=True, return_inverse=True)
        family = self._family.take(self._group[first])
        return replace(family, alpha=family.alpha + alpha[first]), group

    def _found(self, prior):
        """Return the ExactMoments under one prior."""
        alpha, key = prior.concentrations(), key_of(prior)
        if key not in self._engines:
            if len(self._engines) >= KEPT:
                del self._engines[next(iter(self._engines))]
            total = float(alpha.sum())
            engine = ConditionedProduct(*self._under(alpha), start=self._start(total))
            self._tilts[total] = engine.tilt
            self._engines[key] = moments_given(engine, self._log_scale, alpha, self.problem.n_users)
        return self._engines[key]


class Few(_Exact):
    """Quadrature, for a few categories that the reports can tell apart."""

    product = False

    def __init__(self, problem, size):
        self.problem, self._engine, self._known = problem, Quadrature(draws=2, chains=1), {}
        plan = self._engine.plan(problem_of(problem, Dirichlet.jeffreys(problem.n_categories)))
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        self.reason, self.work, self.pace = plan.reason, INTEGRALS * (plan.work + CALLS), Pace(0.0, 0.0, 1e-8)
        if plan.work > QUICK:
            raise InfeasibleError(f"Quadrature at every node would take {self.work:.2g} operations.")

    def _found(self, prior):
        """Return the Integrals under one prior."""
        key = key_of(prior)
        if key not in self._known:
            plan = self._engine.plan(problem_of(self.problem, prior))
            self._known[key] = self._engine.integrals(plan, Watch())
        return self._known[key]

    def log_evidence(self, prior):
        """Return the log-evidence."""
        return self._found(prior).entries["log_evidence"]

    def moments(self, priors):
        """Return (means, variances) of P given each of the priors, two (k, a) arrays."""
        found = [self._found(prior).entries for prior in priors]
        return (
            np.array([one["distribution_mean"] for one in found]),
            np.array([one["distribution_sd"] ** 2 for one in found]),
        )

    def cdf(self, prior, value):
        """Return P(P_x ≤ value_x) of every category under one prior, shape (a,)."""
        return self._found(prior).cdf(value)

    def sentence(self, nodes, counts):
        """Return what was checked of draws."""
        detail = self._found(nodes.priors[int(counts.argmax())]).sentence
        return f"Quadrature at {counts.size} values of the hyperparameter; {detail}"

    def node_draws(self, prior, count, rng, watch):
        """Return the NodeDraws under one prior."""
        engine = Quadrature(draws=max(count, 2), chains=1)
        found = engine.run(engine.plan(problem_of(self.problem, prior)), rng, watch)
        return NodeDraws(found.distribution.reshape(-1, self.problem.n_categories)[:count], count)


@dataclass(frozen=True, eq=False)
class _Known:
    """What the saddle point says of one value of the hyperparameter."""

    total: float
    log_evidence: float
    mean: np.ndarray
    variance: np.ndarray
    tilt: float


class Weighted:
    """Surrogates, for any reports over three categories or more, with weights on the true likelihood.

    The log-likelihood is expanded once for all values of the hyperparameter, at the mean of their mixture.
    """

    rough, exact, product = None, False, False

    def __init__(self, problem, size):
        if problem.n_categories < 3:
            raise InfeasibleError("The surrogate needs three categories.")
        self.problem, self._known, self._factors = problem, {}, None
        entries = problem.rows.n_rows * problem.n_categories
        self._large = entries > LARGE
        self.reason = "surrogates at values of the hyperparameter, with weights on the true likelihood."
        a = problem.n_categories
        self.work = entries * (size * problem.rows.entry_work + 3 * surrogate.EXPANDING) + SURROGATE_FACTOR * a
        self.pace = Pace(0.3, 9e-3, surrogate.Surrogate.pace.operation)

    def settle(self, mixture):
        """Move the pilot to the mean of the mixture, until that hardly moves; return the nodes that it is found with.

        Raises
        ------
        InfeasibleError
            Where a few draws under Jeffreys' prior show that no weights will be trusted.
        """
        self._look()
        nodes = None
        for _ in range(ROUNDS):
            nodes = place(mixture, self.log_evidence, near=nodes)
            known = [self._at(prior) for prior in nodes.priors]
            means = np.array([one.mean for one in known])
            mean = nodes.weights @ means
            inside = nodes.weights @ np.array([one.variance for one in known])
            between = nodes.weights @ (means - mean) ** 2
            if (np.abs(mean - self._factors.centre) < SETTLED * np.sqrt(inside + between)).all():
                break
            self._expand(mean)
        return nodes

    def _look(self):
        """Find the first pilot by the posterior under Jeffreys' prior, and look at the weights of a few of its draws."""
        if self._large or self._factors is not None:
            return
        rows, alpha = self.problem.rows, Dirichlet.jeffreys(self.problem.n_categories).alpha
        engine, _ = surrogate.expand(rows, alpha)
        self._expand(engine.saddle_moments()[0])
        p, log_surrogate = surrogate.proposals(engine, LOOKED_AT, np.random.default_rng(0))
        found = weigh(p, rows.log_likelihood(np.ascontiguousarray(p.T)) - log_surrogate)
        if hopeless(found.k_hat, found.effective_sample):
            raise InfeasibleError(
                f"Surrogates are far from these reports: {LOOKED_AT} draws under Jeffreys' prior are worth "
                f"{found.effective_sample:.1f}."
            )

    def log_evidence(self, prior):
        """Return the log-evidence of the surrogate to second order in the saddle point."""
        return self._at(prior).log_evidence

    def moments(self, priors):
        """Return (means, variances) of P given each of the priors by the saddle point, two (k, a) arrays."""
        found = [self._at(prior) for prior in priors]
        return np.array([one.mean for one in found]), np.array([one.variance for one in found])

    def ends(self, prior, levels):
        """Return quantiles of every P_x under one prior by the saddle point, shape (levels, a)."""
        family = replace(self._factors, alpha=prior.concentrations())
        proposal = surrogate.Proposal(family, self._at(prior).tilt)
        return saddle_quantiles(proposal, levels)[:, proposal.group]

    def _expand(self, mean):
        self._factors, self._known = surrogate.expanded(self.problem.rows, np.ones_like(mean), mean), {}
        self._constant = float(self.problem.rows.log_likelihood(mean) - self._factors.log_smooth(mean).sum())

    def _at(self, prior):
        """Return what is Known under one prior; the first one asked for finds the first pilot."""
        alpha = prior.concentrations()
        total = float(alpha.sum())
        rough = self.problem.rows.rough_expansion() if self._factors is None and self._large else None
        if rough is not None:  # a pass over so many reports takes seconds: the support counts find the first pilot
            uniform = np.full(alpha.size, 1 / alpha.size)
            gradient = rough.gradient, surrogate.tangent_curvature(rough.square, rough.cross)
            self._factors, self._constant = surrogate.ExpandedFactors(alpha, *gradient, uniform), 0.0
        elif self._factors is None:
            engine, _ = surrogate.expand(self.problem.rows, Dirichlet.jeffreys(alpha.size).alpha, 3)
            self._expand(engine.saddle_moments()[0])
        key = key_of(prior)
        if key not in self._known:
            near = min(self._known.values(), key=lambda known: abs(math.log(known.total / total)), default=None)
            start = None if near is None else near.tilt + total - near.total
            engine = surrogate.Proposal(replace(self._factors, alpha=alpha), start)
            log_evidence = engine.saddle_log_evidence() + self._constant + gammaln(total) - gammaln(alpha).sum()
            mean, variance = engine.saddle_moments()
            self._known[key] = _Known(total, float(log_evidence), mean, variance, engine.tilt)
        return self._known[key]

    def _proposal(self, prior, watch):
        """Return the surrogate expanded at its own mean under one prior."""
        alpha, start = prior.concentrations(), self._at(prior).mean
        return surrogate.expand(self.problem.rows, alpha, watch=watch, start=start)[0]

    def node_draws(self, prior, count, rng, watch):
        """Return the NodeDraws under one prior: the surrogate's, resampled by their weights on the true likelihood."""
        p, log_surrogate = surrogate.proposals(widened(self._proposal(prior, watch)), count, rng)
        log_likelihood = surrogate.log_likelihood_of(self.problem.likelihood, p, watch)
        kept = log_likelihood.size
        log_ratio = log_likelihood - log_surrogate[:kept]
        found = weigh(p[:kept], log_ratio)
        correction = found.log_evidence - self.log_evidence(prior)
        chosen = p[:kept][resample(found.weight, rng)]
        return NodeDraws(chosen, found.effective_sample, correction, (p[:kept], log_ratio - found.log_evidence))

    def draws(self, nodes, counts, rng, watch):
        size = int(counts.sum())
        log_hyperprior = np.log(nodes.weights) - nodes.log_evidences + nodes.log_evidence
        proposals, made = {i: self._proposal(nodes.priors[i], watch) for i in np.flatnonzero(counts)}, []

        def make(total):
            parts, log_ratio, node = [], [], []
            for i, proposal in proposals.items():
                p, log_surrogate = surrogate.proposals(proposal, int(counts[i]) * (total // size), rng)
                parts.append(p)
                log_ratio.append(log_hyperprior[i] - math.log(counts[i] / size) - log_surrogate)
                node.append(np.full(len(p), i))
            order = rng.permutation(total)  # so that an interruption leaves draws of every node
            distribution = np.concatenate(parts)[order]
            log_likelihood = surrogate.log_likelihood_of(self.problem.likelihood, distribution, watch)
            kept = log_likelihood.size
            made[:] = [np.concatenate(node)[order][:kept]]
            return weigh(distribution[:kept], log_likelihood + np.concatenate(log_ratio)[order][:kept])

        found, verdict = enough(make, size, MOST_WEIGHTED // self.problem.n_categories)
        node, kept = made[0], min(size, found.log_weight.size)
        if verdict.problem and watch.interrupted:
            raise KeyboardInterrupt(f"the draws weighted so far cannot be trusted: {verdict.problem}")
        chosen = resample(found.weight, rng, kept)
        worth = np.bincount(node, found.weight, counts.size)
        corrected = _corrected(nodes, worth, counts, found.log_evidence)
        facts = {
            "k_hat": found.k_hat,
            "shift_by_weights": found.shift,
            "log_evidence": found.log_evidence,
            "log_evidence_error": found.log_evidence_error,
        }
        return Drawn(
            found.distribution[chosen],
            node[chosen],
            {},
            facts,
            effective=min(found.effective_sample, float(kept)),
            weighted=(found.distribution, found.weight),
            frequency=mixed_frequencies(nodes, found.distribution, found.weight, node, self.problem.n_users),
            verdict=verdict,
            nodes=corrected,
        )


class Expanded(Weighted):
    """Summaries: the expansion at their pilot is the likelihood, for all values of the hyperparameter."""

    def __init__(self, problem, size):
        if problem.keeps_reports:
            raise InfeasibleError("Reports that were kept need no summary.")
        self.problem, self._known = problem, {}
        one = problem.likelihood
        uniform = np.ones(problem.n_categories)
        self._factors = surrogate.ExpandedFactors(uniform, one.linear, one.tangent_curvature)
        self._constant = one.constant
        self.reason = "surrogates of the summary at values of the hyperparameter."
        self.work, self.pace = problem.n_categories * (size + 2e4), Pace(1.0, 0.0, 1e-7)

    def settle(self, mixture):
        """Return None: a summary cannot be expanded again."""

    def _proposal(self, prior, watch):
        return surrogate.Proposal(replace(self._factors, alpha=prior.concentrations()), self._at(prior).tilt)


def widened(proposal):
    """Return a proposal with its mean and a curvature that is smaller by WIDER/√(a − 1): heavier tails bound the weights.

    Where reports say little the log-likelihood falls off more slowly than its quadratic. In k dimensions a normal proposal
    with a precision of 1 − δ leaves (1 − δ²)^(k/2) of the draws.
    """
    family, mean = proposal.whole, proposal.saddle_moments()[0]
    share = 1 - WIDER / math.sqrt(mean.size - 1)
    wider = replace(family, curvature=share * family.curvature)
    return surrogate.Proposal(replace(wider, linear=family.linear + family.slope(mean) - wider.slope(mean)), proposal.tilt)


def _corrected(nodes, weights, counts, log_evidence):
    """Return the nodes with the posterior weights that draws weighted by the true likelihood give them.

    Nodes with few draws keep their weight relative to the nearest that has enough.
    """
    enough = (counts >= ENOUGH) & (weights > 0)
    if not enough.any():
        return nodes
    moved, seen = spread_over(nodes, enough, np.log(weights[enough] / nodes.weights[enough]))
    corrected = nodes.weights * np.exp(moved)
    return replace(
        nodes,
        weights=corrected / corrected.sum(),
        log_evidence=log_evidence,
        log_evidences=nodes.log_evidences + moved,
        seen_log_evidences=nodes.seen_log_evidences + seen,
    )


def spread_over(nodes, known, shift):
    """Return what some nodes' log-evidences move by at all nodes, and at all values looked at: interpolated, flat beyond.

    In the logarithm of a hyperparameter that is positive.

    Parameters
    ----------
    nodes : Nodes
    known : (k,) index
        Of the nodes whose shift is known.
    shift : (known,) array
    """
    positive = min(nodes.values.min(), nodes.seen.min()) > 0
    place, seen = (np.log(values) if positive else values for values in (nodes.values, nodes.seen))
    order = np.argsort(place[known])
    return tuple(np.interp(at, place[known][order], shift[order]) for at in (place, seen))


def key_of(prior):
    """Return what two conjugate priors share exactly where they are the same: the bytes of their concentrations."""
    return prior.concentrations().tobytes()


def problem_of(problem, prior):
    """Return the same problem under another prior."""
    return replace(problem, prior=prior)


def shares(weights, size):
    """Return how many of ``size`` draws each node gets: in proportion to its weight, the largest remainders rounded up."""
    wanted = weights * size
    counts = np.floor(wanted).astype(int)
    counts[np.argsort(counts - wanted, kind="stable")[: size - counts.sum()]] += 1
    return counts


def mixed_moments(nodes, means, variances, n):
    """Return entries of result.EXACT: moments of P and F over nodes with conjugate moments.

    Parameters
    ----------
    nodes : Nodes
    means, variances : (k, …, a) arrays
        E[P | Y] and Var(P | Y) given each node.
    n : int or (…, 1) array
        Number of users.
    """
    pairs = zip(means, variances, nodes.priors, strict=True)
    frequency = np.array([frequency_moments(m, v, prior.concentrations(), n) for m, v, prior in pairs])
    out = {}
    for name, mean, square in (("distribution", means, variances), ("frequency", frequency[:, 0], frequency[:, 1] ** 2)):
        centre = np.tensordot(nodes.weights, mean, 1)
        out[f"{name}_mean"] = centre
        out[f"{name}_sd"] = np.sqrt(np.tensordot(nodes.weights, square + (mean - centre) ** 2, 1))
    return out


def heavy(nodes, least):
    """Return the nodes with at least so large a weight."""
    keep = nodes.weights > least
    priors = tuple(prior for prior, kept in zip(nodes.priors, keep, strict=True) if kept)
    weights = nodes.weights[keep] / nodes.weights[keep].sum()
    return replace(nodes, values=nodes.values[keep], weights=weights, priors=priors, log_evidences=nodes.log_evidences[keep])


def moved_ends(nodes, ends, variances, centre, sd):
    """Return averages of the nodes' quantiles, moved so that the interval is as much wider than theirs as the sd is.

    Parameters
    ----------
    nodes : Nodes
    ends : (k, L, …, a) array
        Quantiles given each node.
    variances : (k, …, a) array
        Var(P | Y) given each node.
    centre, sd : (…, a) arrays
        Mean and sd of P over the nodes.

    Returns
    -------
    (L, …, a) array
    """
    wider = sd / np.sqrt(np.tensordot(nodes.weights, variances, 1))
    return np.clip(centre + wider * (np.tensordot(nodes.weights, ends, 1) - centre), 0.0, 1.0)


def mixed_frequencies(nodes, distribution, weight, node, n):
    """Return (mean, sd) of F from weighted draws of P (S, a) at nodes (S,)."""
    alpha = np.array([prior.concentrations() for prior in nodes.priors])
    return mixed_frequency_moments(distribution, weight, alpha[node], n)


def integrals_of(problem, levels, most=PATIENT):
    """Return what quadrature says of a Dirichlet prior: (entries of ``exact``, attrs, what was checked), without draws.

    None where it does not apply, or would take long.

    Parameters
    ----------
    problem : Problem
    levels : pair of float
        Of the ends of the intervals.
    most : float
        Operations above which there are none.
    """
    engine = Quadrature(draws=2, chains=1)
    if not problem.keeps_reports or problem.n_categories > MAX_GROUPS:
        return None
    plan = engine.plan(problem)
    if not plan.feasible or plan.work > most:
        return None
    found = engine.integrals(plan, Watch())
    entries = {name: value for name, value in found.entries.items() if name != "distribution_cov"}
    entries |= found.intervals(levels[1] - levels[0])
    entries["log_evidence"] = np.array(entries["log_evidence"])
    return entries, {"quadrature_error": found.error}, f"{found.sentence} No draws were made."


def mixed_ends(nodes, server, centre, sd, levels):
    """Return quantiles of every P_x over nodes, an array of shape (a,) a level.

    Where the nodes' distribution functions are known, those of their mixture: F(x) = Σ_k w_k F_k(x) is inverted on the
    scale of log x by the Illinois rule. Elsewhere averages of the nodes' quantiles, moved so that the interval is as much
    wider than theirs as the sd is.

    Parameters
    ----------
    nodes : Nodes
    server : one of the servers
    centre, sd : (a,) arrays
        Mean and sd of P over the nodes.
    levels : sequence of float
    """
    nodes = heavy(nodes, 1e-7)
    if server.exact:
        return [_inverted(server, nodes.weights, nodes.priors, level, centre) for level in levels]
    ends = np.array([server.ends(prior, levels) for prior in nodes.priors])
    return list(moved_ends(nodes, ends, server.moments(nodes.priors)[1], centre, sd))


def _inverted(server, weights, priors, level, centre):
    """Return where Σ_k w_k F_k(x) reaches a level, shape (a,)."""

    def off(y):
        value = np.exp(y)
        return sum(weight * server.cdf(prior, value) for weight, prior in zip(weights, priors, strict=True)) - level

    low, high = np.full(centre.size, -LONGEST), np.full(centre.size, -1e-15)
    below, above = np.full(centre.size, -level), np.full(centre.size, 1 - level)
    y, side = np.log(centre), np.zeros(centre.size)
    for step in range(STEPS):
        found = off(y)
        up = found < 0
        # Illinois: an end that stays twice counts half, so that the other one moves, too.
        below = np.where(up, found, np.where(side < 0, 0.5 * below, below))
        above = np.where(~up, found, np.where(side > 0, 0.5 * above, above))
        low, high = np.where(up, y, low), np.where(up, high, y)
        side = np.where(up, 1.0, -1.0)
        if (np.abs(found) < CLOSE * min(level, 1 - level)).all() or (high - low < CLOSE).all():
            break
        middle, secant = 0.5 * (low + high), low - below * (high - low) / (above - below)
        # Far out F is a power of x: halving the logarithm is slow, and so is a secant over a long span.
        y = np.where((high - low > 1) & (step % 2 == 0) | ~np.isfinite(secant), middle, np.clip(secant, low, high))
    return np.exp(y)


def server_of(problem, size, cells=1):
    """Return the first server that applies to a problem, for ``size`` draws, where so many cells share the hyperparameter.

    Raises
    ------
    InfeasibleError
        Where none does.
    """
    reasons = []
    for make in (Separable, Few, Weighted) if problem.keeps_reports else (Expanded,):
        try:
            found = make(problem, size)
        except InfeasibleError as err:
            reasons.append(str(err))
            continue
        if make is not Few or cells == 1 or cells * found.work <= TOGETHER:
            return found
        reasons.append(f"Quadrature of {cells} cells would take {cells * found.work:.2g} operations.")
    raise InfeasibleError(" ".join(reasons))
