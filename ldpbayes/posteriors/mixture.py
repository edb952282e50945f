"""Priors that are one-parameter mixtures of Dirichlet priors: conjugate answers, mixed by what the reports say of each."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import AbstractPosterior, Plan, Refusal, Sample, Status
from ldpbayes.posteriors.exact import Exact, evidence_of, moments_of
from ldpbayes.posteriors.frequency import frequency_moments
from ldpbayes.posteriors.quadrature import Quadrature
from ldpbayes.priors import Dirichlet
from ldpbayes.priors.base import Nodes

#: Quadrature serves a mixture where one fit of it takes less than this many seconds; some thirty are made.
QUICK = 0.1
#: Draws of a node with the true likelihood correct its weight from this number on.
ENOUGH = 50


@dataclass(frozen=True)
class Mixture(AbstractPosterior):
    """Posterior under a prior that mixes Dirichlet priors, such as ``learnt``: ∫ p(P | Y, η) p(η | Y) dη.

    Quadrature nodes in the hyperparameter η stand about the mode of its posterior, and a conjugate engine serves each node:
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
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def prepare(self, problem):
        mixture = problem.prior.mixture()
        if mixture is None:
            return Refusal("The method mixture is for priors that mix Dirichlet priors, such as learnt.")
        size, reasons = self.draws * self.chains, []
        for make in (_Separable, _Few, _Weighted):
            try:
                server = make(problem, size)
            except InfeasibleError as err:
                reasons.append(str(err))
                continue
            reason = f"The prior mixes Dirichlet priors: {server.reason}"
            return Plan(reason, server.seconds, (problem, mixture, server))
        return Refusal(" ".join(reasons))

    def run(self, plan, rng, watch):
        problem, mixture, server = plan.state
        nodes = mixture.nodes(server.log_evidence)
        mixed = nodes.log_evidence  # of the same kind as Jeffreys', so that errors cancel in the difference
        jeffreys = server.log_evidence(Dirichlet.jeffreys(problem.n_categories))
        size = self.draws * self.chains
        found = server.draws(nodes, shares(nodes.weights, size), rng, watch)
        nodes = found.nodes or nodes
        order = rng.permutation(len(found.node))
        parameter = _parameter_draws(mixture, nodes, found.node, rng)[order]
        tail = 0.025
        ends = mixture.quantile(nodes, np.array([tail, 1 - tail]))
        name = mixture.parameter
        facts = {
            f"{name}_mean": float(nodes.weights @ nodes.values),
            f"{name}_lower": float(ends[0]),
            f"{name}_upper": float(ends[1]),
            f"{name}_nodes": nodes.values.size,
            "prior_weight": float(nodes.weights @ [prior.total for prior in nodes.priors]),
            "log_bayes_factor_jeffreys": float(mixed - jeffreys),
        }
        rows = len(order) // self.chains * self.chains
        shape = (self.chains, rows // self.chains)
        return Sample(
            found.distribution[order][:rows].reshape(*shape, -1),
            effective=found.effective,
            status=found.status,
            detail=found.detail,
            moments=found.moments,
            weighted=found.weighted,
            exact=found.exact | ({"log_evidence": nodes.log_evidence} if found.exact else {}),
            facts=facts | found.facts,
            hyperparameters={name: parameter[:rows].reshape(shape)},
        )


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
    status: Status = Status.ACCEPTED
    detail: str = ""


class _Separable:
    """Exact posteriors, for reports that single out one category each."""

    def __init__(self, problem, size):
        plan = Exact(draws=max(size, 2), chains=1).plan(problem_of(problem, Dirichlet.jeffreys(problem.n_categories)))
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        self.problem, (_, self.form) = problem, plan.state
        self.reason, self.seconds = plan.reason, plan.seconds + 30 * 2e-4 * problem.n_categories

    def log_evidence(self, prior):
        return evidence_of(self.form, prior.concentrations())

    def draws(self, nodes, counts, rng, watch):
        n = self.problem.n_users
        means, variances, parts = [], [], []
        pairs = zip(nodes.priors, counts, strict=True)
        for prior, count in watch.track(list(pairs), "Exact posteriors of the nodes"):
            found = moments_of(self.form, prior.concentrations(), n)
            means.append(found.mean)
            variances.append(found.variance)
            if count:
                parts.append(found.engine.draws(int(count), rng)[0])
        detail = f"Exact at {len(counts)} values of the hyperparameter. Independent draws: no chain diagnostics are needed."
        return Drawn(
            np.concatenate(parts),
            np.repeat(np.arange(counts.size), counts),
            mixed_moments(nodes, np.array(means), np.array(variances), n),
            {},
            detail=detail,
        )


class _Few:
    """Quadrature, for a few categories that the reports can tell apart."""

    def __init__(self, problem, size):
        self.problem, self.known = problem, {}
        self.engine = Quadrature(draws=2, chains=1)
        plan = self.engine.plan(problem_of(problem, Dirichlet.jeffreys(problem.n_categories)))
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        if plan.seconds > QUICK:
            raise InfeasibleError(f"Quadrature at every node would take {30 * plan.seconds:.2g} s.")
        self.reason, self.seconds = plan.reason, 30 * plan.seconds

    def _run(self, prior, engine, rng, watch):
        plan = engine.plan(problem_of(self.problem, prior))
        return engine.run(plan, rng, watch)

    def log_evidence(self, prior):
        from ldpbayes.posteriors.base import Watch

        return self._run(prior, self.engine, np.random.default_rng(0), Watch()).exact["log_evidence"]

    def draws(self, nodes, counts, rng, watch):
        found = []
        for prior, count in zip(nodes.priors, counts, strict=True):
            engine = Quadrature(draws=max(int(count), 2), chains=1)
            found.append((self._run(prior, engine, rng, watch), int(count)))
        a = self.problem.n_categories
        moments = np.array([(one.exact["distribution_mean"], one.exact["distribution_sd"] ** 2) for one, _ in found])
        return Drawn(
            np.concatenate([one.distribution.reshape(-1, a)[:count] for one, count in found]),
            np.repeat(np.arange(counts.size), counts),
            mixed_moments(nodes, moments[:, 0], moments[:, 1], self.problem.n_users),
            {},
            detail=f"Quadrature at {counts.size} values of the hyperparameter; {found[counts.argmax()][0].detail}",
        )


class _Weighted:
    """Surrogates, for any reports over three categories or more, with weights on the true likelihood."""

    def __init__(self, problem, size):
        if problem.n_categories < 3:
            raise InfeasibleError("The surrogate needs three categories.")
        self.problem, self.known = problem, {}
        work = problem.rows.n_rows * problem.n_categories
        self.reason = "surrogates at values of the hyperparameter, with weights on the true likelihood."
        self.seconds = 1.0 + 4e-3 * problem.n_categories + work * (size * 2.5e-11 + 1e-7)

    def log_evidence(self, prior):
        """Return the log-evidence of the surrogate, expanded about its own mean, to second order in the saddle point.

        The expansion starts where the one for the nearest prior ended, so that two rounds settle it.
        """
        rows, alpha = self.problem.rows, prior.concentrations()
        known = min(self.known, key=lambda one: abs(math.log(one / alpha[0])), default=None)
        mean, spread = (prior.mean, np.zeros(alpha.size)) if known is None else self.known[known]
        for _ in range(6 if known is None else 2):
            linear, curvature = surrogate.quadratic(rows, mean, spread)
            constant = surrogate.constant_term(rows, mean, spread, linear, curvature)
            engine = surrogate.Proposal(surrogate.GaussianFactors(alpha, linear, curvature))
            mean, spread = engine.saddle_moments()[0], engine.factor_variance
        self.known[float(alpha[0])] = mean, spread
        return float(engine.saddle_log_evidence() + constant + gammaln(alpha.sum()) - gammaln(alpha).sum())

    def draws(self, nodes, counts, rng, watch):
        rows, size = self.problem.rows, int(counts.sum())
        log_hyperprior = np.log(nodes.weights) - nodes.log_evidences + nodes.log_evidence
        parts, log_ratio, node = [], [], []
        for i in np.flatnonzero(counts):
            alpha = nodes.priors[i].concentrations()
            engine, _ = surrogate.expand(rows, alpha, watch=watch)
            p, log_surrogate = surrogate.proposals(engine, int(counts[i]), rng)
            parts.append(p)
            log_ratio.append(log_hyperprior[i] - math.log(counts[i] / size) - log_surrogate)
            node.append(np.full(len(p), i))
        order = rng.permutation(size)  # so that an interruption leaves draws of every node
        distribution, node = np.concatenate(parts)[order], np.concatenate(node)[order]
        log_likelihood = surrogate.log_likelihood_of(rows, distribution, watch)
        kept = log_likelihood.size
        found = surrogate.weigh(distribution[:kept], log_likelihood + np.concatenate(log_ratio)[order][:kept])
        if found.problem and watch.interrupted:
            raise KeyboardInterrupt(f"the draws weighted so far cannot be trusted: {found.problem}")
        chosen = surrogate.resample(found.weight, rng)
        corrected = _corrected(nodes, np.bincount(node[:kept], found.weight, counts.size), counts, found.log_evidence)
        facts = {
            "k_hat": found.k_hat,
            "shift_by_weights": found.shift,
            "log_evidence": found.log_evidence,
            "log_evidence_error": found.log_evidence_error,
        }
        return Drawn(
            found.distribution[chosen],
            node[:kept][chosen],
            {},
            facts,
            effective=found.effective_sample,
            weighted=(found.distribution, found.weight),
            status=Status.NOT_TRUSTED if found.problem else Status.ACCEPTED,
            detail=found.problem or found.checked,
            nodes=corrected,
        )


def _corrected(nodes, weights, counts, log_evidence):
    """Return the nodes with the posterior weights that draws weighted by the true likelihood give them.

    Nodes with few draws keep their weight relative to the nearest that has enough.
    """
    enough = (counts >= ENOUGH) & (weights > 0)
    if not enough.any():
        return nodes
    shift = np.log(weights[enough] / nodes.weights[enough])
    place = np.log(nodes.values)
    moved = nodes.weights * np.exp(np.interp(place, place[enough], shift))
    seen = nodes.seen_log_evidences + np.interp(np.log(nodes.seen), place[enough], shift)
    return replace(
        nodes,
        weights=moved / moved.sum(),
        log_evidence=log_evidence,
        log_evidences=nodes.log_evidences + np.interp(place, place[enough], shift),
        seen_log_evidences=seen,
    )


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
    means, variances : (k, a) arrays
        E[P | Y] and Var(P | Y) given each node.
    n : int
        Number of users.
    """
    weights = nodes.weights
    pairs = zip(means, variances, nodes.priors, strict=True)
    frequency = np.array([frequency_moments(m, v, prior.concentrations(), n) for m, v, prior in pairs])
    out = {}
    for name, mean, sd in (
        ("distribution", means, np.sqrt(variances)),
        ("frequency", frequency[:, 0], frequency[:, 1]),
    ):
        centre = weights @ mean
        out[f"{name}_mean"] = centre
        out[f"{name}_sd"] = np.sqrt(weights @ (sd**2 + (mean - centre) ** 2))
    return out


def _parameter_draws(mixture, nodes, node, rng):
    """Return a draw of the hyperparameter for each draw of P, given the node that it came from.

    Nodes share the hyperparameter's posterior out in order: the first has the lowest part with its weight, and so on.
    """
    order = np.argsort(nodes.values[node], kind="stable")
    levels = (np.arange(node.size) + rng.random(node.size)) / node.size
    out = np.empty(node.size)
    out[order] = mixture.quantile(nodes, levels)
    return out
