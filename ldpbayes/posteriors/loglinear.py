"""Log-linear models of tables, without PyMC: Laplace's approximation at every sd of the interactions, then weights."""

import heapq
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logsumexp

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference import effects
from ldpbayes.inference.bending import Batch
from ldpbayes.inference.bridge import log_ratio
from ldpbayes.inference.chains import least_effective
from ldpbayes.inference.importance import first_accepted, proposed, resample
from ldpbayes.inference.newton import climb
from ldpbayes.inference.proposals import Mixture, StudentT
from ldpbayes.inference.verdict import Verdict, refused
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample, Watch
from ldpbayes.priors.base import softmax

#: More effects than this are left to NUTS: their Hessian is a dense matrix.
MAX_EFFECTS = 1200
#: Most entries of (distinct reports × effects) and of (cells × effects).
MAX_ENTRIES = 5e7
#: Nodes of log σ lie on a lattice with this step, wherever the approximate posterior is within FALL nats of the best node.
STEP, FALL, MAX_NODES = 0.7, 5.0, 80
#: Many effects make nodes expensive, and their posterior of log σ narrow.
LARGE, LARGE_STEP, LARGE_NODES = 150, 0.8, 12
#: Part of the proposals that is spread evenly over the nodes.
EVEN = 0.1
#: Newton's method stops when a step gains less than this many nats.
SETTLED, MAX_STEPS = 1e-8, 100
#: Draws that chains start from where there are many effects.
STARTS = 200
#: Part of the proposals with so few degrees of freedom that they reach wherever the posterior does.
DEFENSIVE, HEAVY = 0.2, 4.0
#: Distances from the mode, in units of the sd, at which the density is looked at for the scales of the proposal, and these.
DISTANCES, SCALES = (1.0, 2.0, 3.0), (0.3, 3.0)
#: Chains where weights of the effects without interactions do not hold.
CHAINS = 4
#: Rows with more entries are not written out for chains.
MAX_WRITTEN = 2**20
#: Chains that went on keep at most so many numbers, or the draws asked for.
MAX_KEPT = 2**22


@dataclass(frozen=True, eq=False)
class Table:
    """Log-likelihood of the effects θ of a log-linear model: ℓ(softmax(B θ)), with derivatives in closed form.

    Attributes
    ----------
    prior : LogLinear
    rows : Rows
    """

    prior: Any
    rows: Any

    def log_likelihood(self, effects):
        """Return (ℓ, P) of many θ, shape (k, n_effects)."""
        p = softmax(self.prior.predictor(effects))
        return self.rows.log_likelihood(np.ascontiguousarray(p.T)), p

    def log_density(self, effects):
        """Return (log of likelihood times prior, P) of many θ, the sds integrated over."""
        value, p = self.log_likelihood(effects)
        return value + self.prior.log_prior(effects), p

    def at(self, effects):
        """Return (ℓ, its gradient, P) at θ."""
        p = softmax(self.prior.predictor(effects))
        value, slope = self.rows.value_and_gradient(p)
        value += self.rows.log_constant
        return value, self.prior.effects_of(p * (slope - p @ slope)), p

    def information(self, p):
        """Return (minus the Hessian of ℓ, a positive stand-in for it), at P.

        Σ_j w_j (M_j − m)(M_j − m)ᵀ-like parts: with M_j = E[B | report j], m = E[B] and t_x = Σ_j w_j P(x | report j),
        −H = Σ_j w_j M_j M_jᵀ − n m mᵀ + Bᵀ diag(n p − t) B. The last part has mean zero under the model and is left out
        of the stand-in, which centres M_j at their mean.
        """
        basis, w, n = self.prior.basis, self.rows.counts, self.rows.n_reports
        u = self.rows.matvec(p)
        given = self.rows.matvec(p[:, None] * basis) / u[:, None]
        true = p * self.rows.rmatvec(w / u)
        mean = basis.T @ p
        outer = (w[:, None] * given).T @ given
        centre = w @ given / n
        gap = (n * p - true)[:, None] * basis
        return outer - n * np.outer(mean, mean) + basis.T @ gap, outer - n * np.outer(centre, centre)


@dataclass(frozen=True, eq=False)
class Node:
    """Laplace's approximation of θ given the sds.

    Attributes
    ----------
    logs : (order − 1,) array
        log(σ_m/scale).
    about : StudentT
        At the mode, with the precision's shape.
    log_weight : float
        log ∫ p(Y, θ, logs) dθ by Laplace.
    """

    logs: np.ndarray
    about: StudentT
    log_weight: float

    def split(self, table):
        """Return this node with scales of the proposal that the density's fall along the axes asks for."""

        def log_joint(effects):
            return table.log_likelihood(effects)[0] + table.prior.log_prior_given(effects, self.logs)

        return replace(self, about=self.about.looking(log_joint, DISTANCES, SCALES))


def settle(table, logs, start):
    """Return the Node at given sds: Newton's method from a start, with a positive stand-in where the Hessian is none.

    Parameters
    ----------
    table : Table
    logs : (order − 1,) array
        log(σ_m/scale).
    start : (n_effects,) array
    """
    prior = table.prior
    precision = prior.deviations(np.asarray(logs, dtype=float)) ** -2.0

    def density(theta):
        value, gradient, _ = table.at(theta)
        return value - 0.5 * (precision * theta**2).sum(), gradient - precision * theta

    def newton(theta, slope):
        exact, safe = table.information(softmax(prior.predictor(theta)))
        factor = _cholesky(exact + np.diag(precision))
        if factor is None:
            factor = np.linalg.cholesky(safe + np.diag(precision) * (1 + 1e-9))
        step = cho_solve((factor, True), slope)
        return step, 0.5 * float(slope @ step), factor

    theta, value, factor = climb(density, newton, np.array(start), MAX_STEPS, SETTLED)
    log_determinant = np.log(np.diag(factor)).sum()
    prior_part = float(prior.log_prior_given(theta, logs)) + 0.5 * float((precision * theta**2).sum())
    log_weight = value + prior_part - log_determinant + 0.5 * theta.size * math.log(2 * math.pi)
    root = solve_triangular(factor, np.eye(theta.size), lower=True, trans="T")
    about = StudentT(theta, root, max(8.0, 1.5 * theta.size), inverse=factor.T)
    return Node(np.asarray(logs, dtype=float), about, log_weight)


def _cholesky(matrix):
    try:
        return cho_factor(matrix, lower=True, check_finite=False)[0] * np.tri(len(matrix))
    except np.linalg.LinAlgError:
        return None


def explore(table, watch=None):
    """Return the Nodes on a lattice of log σ, from the prior's scale outwards: the best-weighted node is expanded first.

    Parameters
    ----------
    table : Table
    watch : Watch, optional
    """
    prior = table.prior
    free = prior.order - 1
    large = prior.n_effects > LARGE
    step, most = (LARGE_STEP, LARGE_NODES) if large else (STEP, MAX_NODES)
    first = (0,) * free
    nodes = {first: settle(table, np.zeros(free), np.zeros(prior.n_effects))}
    open_nodes = [(-nodes[first].log_weight, first)] if free else []
    rounds = iter(watch.track(range(most), "Sds of the interactions") if watch is not None else range(most))
    next(rounds, None)
    while open_nodes and len(nodes) < most:
        negative, place = heapq.heappop(open_nodes)
        if -negative < max(node.log_weight for node in nodes.values()) - FALL:
            break
        for m in range(free):
            for way in (-1, 1):
                other = tuple(x + way * (i == m) for i, x in enumerate(place))
                if other in nodes or not -12 <= step * min(other) or not step * max(other) <= 4 or len(nodes) >= most:
                    continue
                nodes[other] = settle(table, step * np.array(other), nodes[place].about.centre)
                heapq.heappush(open_nodes, (-nodes[other].log_weight, other))
                next(rounds, None)
    for _ in rounds:  # the bar ends full
        pass
    return list(nodes.values())


def weighted_draws(table, nodes, size, rng, watch=None):
    """Return (θ, P, Weighted, problem): draws of the mixture of the nodes, Pareto-smoothed weights on the posterior of θ.

    Parameters
    ----------
    table : Table
    nodes : list of Node
    size : int
    rng : numpy.random.Generator
    watch : Watch, optional
    """
    even, watch = _shares(nodes), watch or Watch()
    if table.prior.n_effects > LARGE:  # weights of so many effects do not hold: the draws are where chains start
        theta, p, found = proposed(table.log_density, _mixture(even), STARTS, rng)
        found = replace(found, log_weight=np.full(STARTS, -math.log(STARTS)))
        return theta, p, found, "too many effects for weighted draws"
    split = [(node.split(table), share) for node, share in even]
    both = [(node, share / 2) for node, share in split + even]

    def rounds():
        for times, nodes in watch.track(((1, split), (4, split), (4, both)), "Weighted draws", 3):
            if size * times * table.prior.n_categories > MAX_ENTRIES:
                return
            yield _mixture(nodes), size * times

    theta, p, found = first_accepted(table.log_density, rounds(), size, rng)
    return theta, p, found, found.judged(size).problem


def _shares(nodes):
    """Return the nodes that matter, each with its share of the proposals."""
    logs = np.array([node.log_weight for node in nodes])
    shares = np.exp(logs - logsumexp(logs))
    shares = (1 - EVEN) * shares + EVEN * np.where(shares > math.exp(-FALL), 1.0, 0.0) / (shares > math.exp(-FALL)).sum()
    total = shares[shares > 1e-4].sum()
    return [(node, share / total) for node, share in zip(nodes, shares, strict=True) if share > 1e-4]


def _mixture(nodes):
    """Return the proposal of nodes and their shares: part of each has tails that reach wherever the posterior does."""
    parts = [(replace(node.about, degrees=HEAVY), share * DEFENSIVE) for node, share in nodes]
    parts += [(node.about, share * (1 - DEFENSIVE)) for node, share in nodes]
    return Mixture(tuple(part for part, _ in parts), np.array([share for _, share in parts]))


def bridged(table, nodes, theta, rng):
    """Return (log-evidence, its standard error) by bridge sampling between draws of the posterior and of the nodes.

    Weights of so many effects do not hold, since few proposals reach the posterior; the optimal bridge needs no more than
    that the two laws overlap. Chains count by their effective sample size.

    Parameters
    ----------
    table : Table
    nodes : list of Node
    theta : (chains, draws, u) array
        Draws of the posterior.
    rng : numpy.random.Generator

    References
    ----------
    Frühwirth-Schnatter (2004), Econometrics Journal 7, for the error.
    """
    mixture, flat = _mixture(_shares(nodes)), theta.reshape(-1, theta.shape[-1])
    size = len(flat)
    drawn, log_proposal = mixture.draw(size, rng)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        density = table.log_density(drawn)[0]
        of_posterior = table.log_density(flat)[0] - mixture.log_density(flat)
    of_nodes = np.where(np.isfinite(density), density - log_proposal, -math.inf)
    found, half = log_ratio(of_nodes, of_posterior), math.log(0.5)
    first = np.exp(of_nodes - found - np.logaddexp(of_nodes - found, 0.0) - half)
    second = np.exp(-np.logaddexp(of_posterior - found, 0.0) - half)
    effective = np.fmin(least_effective(second.reshape(*theta.shape[:2], 1)), float(size))
    variance = first.var() / first.mean() ** 2 / size + second.var() / second.mean() ** 2 / effective
    return found, math.sqrt(variance)


def evidences(prior, rows, p, rng):
    """Return the facts about the evidence of a log-linear prior and of independence, from draws of P by another engine.

    Parameters
    ----------
    prior : LogLinear
    rows : Rows
    p : (chains, draws, a) array
    rng : numpy.random.Generator

    Raises
    ------
    InfeasibleError
        Where there are too many effects for a dense Hessian.
    """
    if prior.n_effects > MAX_EFFECTS or max(rows.n_rows, prior.n_categories) * prior.n_effects > MAX_ENTRIES:
        raise InfeasibleError(f"the evidence of {prior.n_effects:,} effects would take too long")
    table = Table(prior, rows)
    flat = np.log(np.maximum(p.reshape(-1, p.shape[-1]), 1e-300))
    theta = (prior.effects_of(flat) / (prior.basis**2).sum(axis=0)).reshape(*p.shape[:2], -1)  # columns are orthogonal
    found, error = bridged(table, explore(table), theta, rng)
    return {"log_evidence": found, "log_evidence_error": error} | of_independence(prior, rows, flat.shape[0], rng)


def of_independence(prior, rows, size, rng):
    """Return the facts about the evidence of a log-linear prior without interactions, by weighted draws.

    Parameters
    ----------
    prior : LogLinear
    rows : Rows
    size : int
        Draws.
    rng : numpy.random.Generator
    """
    alone = Table(prior.independence(), rows)
    nodes = explore(alone)
    theta, _, found, rejected = weighted_draws(alone, nodes, size, rng)
    value, error = found.log_evidence, found.log_evidence_error
    if rejected:
        drawn = sampled(alone, theta, found.weight, size // CHAINS, CHAINS, rng, Watch())[0]
        value, error = bridged(alone, nodes, drawn, rng)
    return {"log_evidence_independence": value, "log_evidence_independence_error": error}


@dataclass(frozen=True, eq=False)
class Unknowns(effects.AbstractTarget):
    """The posterior density of log(σ_m/scale) and of the effects in units of their sd, as chains take it.

    Attributes
    ----------
    table : Table
    """

    table: Table

    @cached_property
    def batches(self):
        """The interactions of each order."""
        free = self.table.prior.order - 1
        return [Batch(m, slice(free + at[0], free + at[-1] + 1), 1.0, 1) for m, at in enumerate(self.table.prior.batches)]

    @property
    def visited(self):
        """Entries of the likelihood."""
        return self.table.rows.n_rows * self.table.prior.n_categories

    @cached_property
    def kernel(self):
        """What the compiled density reads, a regression of one row; None where the rows are better left in their form."""
        prior, rows = self.table.prior, self.table.rows
        if self.visited > MAX_WRITTEN or prior.n_effects > LARGE:
            return None
        one, number = np.array([0, 1]), rows.n_rows
        basis = prior.basis * prior.deviations(np.zeros(prior.order - 1))
        reports = np.array([0, number]), np.arange(number), rows.counts.astype(float), np.ascontiguousarray(rows.dense())
        size = np.array([float(rows.n_reports)])
        return prior.order - 1, prior.mains.size, (1, prior.n_effects), (basis, one, one[:1], np.ones(1), *reports, size)

    def value_and_gradient(self, z):
        """Return the log-density at z and its gradient."""
        prior = self.table.prior
        value, slope = self.table.rows.value_and_gradient(prior.to_simplex(z))
        return value + float(prior.log_density(z)), prior.gradient(z) + prior.pullback(z, slope)


def sampled(table, theta, weight, draws, chains, rng, watch):
    """Return (θ, log(σ/scale), statistics, name of the sampler, what is wrong) of chains that go on from weighted draws.

    Parameters
    ----------
    table : Table
    theta : (S, u) array
    weight : (S,) array
    draws, chains : int
    rng : numpy.random.Generator
    watch : Watch
    """
    prior = table.prior
    free = prior.order - 1
    chosen = theta[resample(weight, rng)]
    scales = prior.draw_scales(chosen, rng)
    logs = np.stack([np.log(scales[name] / prior.scale) for name in prior.scales], axis=1) if free else chosen[:, :0]
    start = np.concatenate([logs, chosen / prior.deviations(logs)], axis=1)
    (z, stats, trouble, _), name = effects.sample(Unknowns(table), start, draws, chains, rng, watch)
    most = max(draws, MAX_KEPT // (chains * prior.n_categories))
    step = -(-z.shape[1] // most)  # none is left out that fits: R-hat of fewer draws says less
    z, stats = z[:, step - 1 :: step], {key: values[:, step - 1 :: step] for key, values in stats.items()}
    return z[..., free:] * prior.deviations(z[..., :free]), z[..., :free], stats, name, trouble


@dataclass(frozen=True)
class LogLinearTable(AbstractPosterior):
    """The posterior of a log-linear prior: weighted draws about the modes of the effects, one for every sd of interactions.

    Given the sds of the interactions the effects are nearly normal. Newton's method finds their mode and precision on a
    lattice of log σ; draws of the mixture of multivariate t distributions are weighted by the posterior density of the
    effects, in which the sds are integrated over exactly, and resampled. Weights are accepted where Pareto's k-hat is below
    0.7 and they are worth a quarter of the draws kept; otherwise chains go on from them.

    Parameters
    ----------
    draws, chains : int
        Draws kept, shaped like chains; as many proposals are weighted and resampled.

    Notes
    -----
    A surrogate that is diagonal in the cells is wrong for channels that are products over attributes: their information is
    block-diagonal in the interactions instead, see docs/theory/association.md. The Hessian of the effects is used in
    full. The log-evidence comes with that of independence, the model without interactions.

    References
    ----------
    Rue, Martino, Chopin (2009), JRSS B 71, on lattices of hyperparameters; Owen and Zhou (2000), JASA 95, on mixtures as
    proposals.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "loglinear"
    order: ClassVar[float] = 21
    pace: ClassVar[Pace] = Pace(0.1, 0.0, 6e-9)
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def prepare(self, problem):
        prior = problem.prior.log_linear()
        if prior is None:
            return Refusal(f"The method loglinear needs a log-linear prior; this one is {problem.prior.describe()}.")
        effects, reports = prior.n_effects, problem.rows.n_rows
        if effects > MAX_EFFECTS:
            return Refusal(f"The method loglinear takes at most {MAX_EFFECTS} effects; {prior.describe()} has {effects}.")
        if max(reports, prior.n_categories) * effects > MAX_ENTRIES:
            return Refusal(
                f"The method loglinear holds a matrix of reports × effects ({reports:,} × {effects:,} here), of "
                f"{MAX_ENTRIES:.0e} entries at most; lower order."
            )
        try:
            prior.basis  # noqa: B018  (made here, so that run() finds it)
        except InfeasibleError as err:
            return Refusal(str(err))
        work = effects**2 * (reports + prior.n_categories)
        return Plan("A log-linear prior: Laplace's approximation at every sd, weighted.", work, problem)

    def run(self, plan, rng, watch):
        problem = plan.state
        prior = problem.prior.log_linear()
        table = Table(prior, problem.rows)
        size = self.draws * self.chains
        nodes = explore(table, watch)
        theta, p, found, rejected = weighted_draws(table, nodes, size, rng, watch)
        facts = {} if prior.n_effects > LARGE else found.facts  # what a few draws say of the weights is worth nothing
        if prior.order > 1:
            facts |= of_independence(prior, problem.rows, size, rng)
        if rejected:
            facts |= {"weights_rejected": rejected}
            return self._continued(table, nodes, theta, found, facts, rng, watch)
        chosen = rng.choice(resample(found.weight, rng), size, replace=False)
        split = (self.chains, self.draws)
        hyper = prior.draw_scales(theta[chosen], rng)
        return Sample(
            p[chosen].reshape(*split, *prior.shape),
            effective=min(found.effective_sample, float(size)),
            verdict=found.judged(size),
            weighted=(p, found.weight),
            hyperparameters={name: values.reshape(split) for name, values in hyper.items()},
            facts=facts,
        )

    def _continued(self, table, nodes, theta, found, facts, rng, watch):
        """Return the Sample of chains that start from weighted draws; the evidence by a bridge, not by rejected weights."""
        prior = table.prior
        theta, logs, stats, name, trouble = sampled(table, theta, found.weight, self.draws, self.chains, rng, watch)
        facts["log_evidence"], facts["log_evidence_error"] = bridged(table, nodes, theta, rng)
        p = softmax(prior.predictor(theta.reshape(-1, prior.n_effects)))
        hyper = {name: prior.scale * np.exp(logs[..., m]) for m, name in enumerate(prior.scales)}
        before = f"Draws about the modes were not enough ({facts['weights_rejected']})"
        said = refused(trouble) if trouble else Verdict(checked=f"{before}; {name.upper()} went on from them.")
        shape = (*theta.shape[:2], *prior.shape)
        kept = {"stats": stats, "hyperparameters": hyper, "facts": facts}
        return Sample(p.reshape(shape), independent=False, verdict=said, **kept)
