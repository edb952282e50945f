"""Conjugate posteriors of cells at every value of a mixture's hyperparameter: the work that values share is done once."""

import math
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp, softmax

from ldpbayes.errors import CellsError, InfeasibleError
from ldpbayes.inference.scaling import POWERS
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import Pace, Watch
from ldpbayes.posteriors.conditioned_product.batched import BLOCK
from ldpbayes.posteriors.frequency import frequency_moments, tallies_given
from ldpbayes.posteriors.nodes import NODES, REACH, place
from ldpbayes.posteriors.products import EVERY, Products, certain, drawable, singling, tables
from ldpbayes.posteriors.quadrature import Quadrature
from ldpbayes.priors import Dirichlet

#: Log-evidences by counts have a smaller error; others come with moments.
EXACT_EVIDENCE = 1e-6
#: Quadrature is used for a mixture where the integrals of one fit take no more operations; so many are made, and each calls
#: numpy as often as takes so many operations.
QUICK, INTEGRALS, CALLS = 5e6, 30, 1e6
#: … and for cells that share the hyperparameter where those of all of them take no more.
TOGETHER = 1e9
#: How much wider than the surrogate the proposals of a node are, where many cells are judged: four fifths of the draws are
#: left.
WIDER = 0.6
#: Operations of the nodes of one category: of exact posteriors, in those of a draw, of surrogates, in those of an entry.
EXACT_FACTOR, SURROGATE_FACTOR = 1500, 4e6
#: From so many entries of the rows on, the first pilot comes from the support counts.
LARGE = 1e9
#: Above so many categories of a summary the saddle point is used, which is then accurate to its second order.
MAX_LINE = 2000
#: Engines of so many values of the hyperparameter are kept of one cell: those of the nodes, and Jeffreys'.
#: With fewer, every pass over the nodes makes them all again.
KEPT = NODES + 1
#: The common pilot of all nodes is settled when the mixture's mean is within so many posterior sd of it, or after so many
#: rounds.
SETTLED, ROUNDS = 0.1, 4
#: Quantiles are sought from e^−LONGEST on, in at most so many steps, until the level is met to this share of the tail.
LONGEST, STEPS, CLOSE = 690.0, 60, 1e-5


class _Factored:
    """Cells whose likelihoods are products of factors, in one computation.

    A server of cells has ``problems`` and their ``places``; ``name``, that of the method without draws; ``exact``, whether
    moments and ends are; ``weighted``, whether its draws have weights; ``signals``, whether it draws signal tallies,
    and not true ones; ``together``, whether it takes several cells.
    ``log_evidence`` and ``rough``, which may be faster and places nodes, have shape (cells,).
    """

    name, exact, weighted, together = "summary", True, False, True
    route: str | None = None
    signals = False

    def __init__(self, problems, places, products):
        self.problems, self.places = problems, np.asarray(places)
        self._fresh(products)

    def _fresh(self, products):
        self._products, self._masses, self._evidences, self._engines, self._tilts = products, {}, {}, {}, {}

    def settle(self, mixture):
        """Return None: exact evidence needs no pilot."""

    def engine(self, prior):
        """Return the ConditionedProduct of all cells under one prior."""
        key, alpha = key_of(prior), prior.concentrations()
        if key not in self._engines:
            if len(self._engines) >= (KEPT if self.exact and self._products.cells == 1 else 1):
                del self._engines[next(iter(self._engines))]
            total = float(alpha.sum())
            engine = self._products.engine(alpha, start=self._start(total), route=self.route)
            self._engines[key], self._tilts[total] = engine, engine.tilt
        return self._engines[key]

    def _start(self, total):
        """Return tilts near those of Dirichlet priors of weight ``total``: they grow by what Σα does."""
        near = min(self._tilts, key=lambda sum_then: abs(math.log(sum_then / total)), default=None)
        if near is None:
            return None
        tilt = self._tilts[near]
        return np.where(tilt > 0, np.maximum(tilt + total - near, 1e-3 * tilt), tilt + total - near)

    def rough(self, prior):
        """Return the log-evidences without moments."""
        return self._mass(prior)[0]

    def _mass(self, prior):
        """Return (log-evidences without moments, their errors)."""
        key, alpha = key_of(prior), prior.concentrations()
        if key not in self._masses:
            if self._products.family.polynomials() is not None:
                self._masses[key] = self._products.log_evidence(alpha)
            else:
                value, error = self.engine(prior).factors.saddle_log_evidence()
                self._masses[key] = value + self._products.left_out(alpha), error
        return self._masses[key]

    def log_evidence(self, prior):
        """Return the log-evidences."""
        key = key_of(prior)
        if key not in self._evidences:
            value, error = self._mass(prior)
            off = (error > EXACT_EVIDENCE) & (self.route is None)
            if off.any():
                value = np.where(
                    off, self.engine(prior).log_evidence + self._products.left_out(prior.concentrations()), value
                )
            self._evidences[key] = value
        return self._evidences[key]

    def checked(self, prior):
        """Return (attrs, what was checked) of answers without draws under one prior."""
        return {}, "Moments, intervals and evidence are integrals; no draws were made."

    def weigh(self, c, nodes, counts, rng, watch, wider):
        """Return (draws of a cell from all nodes, Weighted by the true likelihood; the node of each; Verdict).

        Parameters
        ----------
        c : int
            Which of the cells.
        nodes : Nodes
        counts : (k,) int array
            Draws of each.
        rng : numpy.random.Generator
        watch : Watch
        wider : bool
            Whether the proposals have heavier tails.

        Notes
        -----
        The weights are relative to the log-evidences that placed the nodes: the log of their mean says what the draws add.
        """
        log_mass = np.log(nodes.weights) - [self.log_evidence(prior)[c] for prior in nodes.priors]

        def draw(i, count):
            if i not in proposals:
                proposal = self.proposal(nodes.priors[i], c, watch)
                proposals[i] = widened(proposal) if wider else proposal
            return surrogate.proposals(proposals[i], count, rng)

        proposals: dict = {}
        return surrogate.weighed(draw, log_mass, counts, self.problems[c].likelihood, rng, watch)


class Separable(_Factored):
    """Reports that single out one category each: exact posteriors and draws."""

    name, signals = "exact", True

    def __init__(self, problems, places=(0,)):
        forms = [singling(problem.separable) for problem in problems]
        super().__init__(problems, places, Products.of(forms, problems[0].n_categories))

    @staticmethod
    def plan(problem, size, cells=1):
        """Return (reason, operations, Pace) of a problem that it serves."""
        work = problem.n_categories * (size + EXACT_FACTOR) + tables(drawable(problem.separable)) / 4
        return EVERY, work, Pace(0.03, 2e-3, 4e-7)

    def sentence(self, nodes, counts, whose):
        """Return what was checked of draws."""
        return f"Exact at {counts.size} values of the {whose}. Independent draws need no chain diagnostics."

    def draws(self, prior, count, rngs):
        """Yield (draws of P, of the signal tallies), two (count, a) arrays, of each cell under one prior."""
        for c, (problem, rng) in enumerate(zip(self.problems, rngs, strict=True)):
            p, signal, _ = self.engine(prior).draws(count, rng, c)
            yield p, signal + certain(problem.separable, problem.n_categories)


class Few(_Factored):
    """Quadrature, for a few categories that the reports can tell apart."""

    name, together = "quadrature", False

    def __init__(self, problems, places=(0,)):
        self.problems, self.places, self._known = problems, np.asarray(places), {}
        self._engine = Quadrature(draws=2, chains=1)

    @staticmethod
    def plan(problem, size, cells=1):
        """Return (reason, operations, Pace) of a problem that it serves."""
        far = problem.mixture.given(problem.mixture.alpha(REACH))  # a node that takes as long as any
        plan = Quadrature(draws=2, chains=1).plan(replace(problem, prior=far))
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        work = INTEGRALS * (plan.work + CALLS)
        if plan.work > QUICK:
            raise InfeasibleError(f"Quadrature at every node would take {work:.2g} operations.")
        if cells > 1 and cells * work > TOGETHER:
            raise InfeasibleError(f"Quadrature of {cells} cells would take {cells * work:.2g} operations.")
        return plan.reason, work, Pace(0.0, 0.0, 1e-8)

    def integrals(self, prior):
        """Return the Integrals under one prior."""
        key = key_of(prior)
        if key not in self._known:
            plan = self._engine.plan(replace(self.problems[0], prior=prior))
            self._known[key] = self._engine.integrals(plan, Watch())
        return self._known[key]

    def log_evidence(self, prior):
        return np.atleast_1d(self.integrals(prior).entries["log_evidence"])

    rough = log_evidence

    engine = integrals

    def checked(self, prior):
        integrals = self.integrals(prior)
        return {"quadrature_error": integrals.error}, f"{integrals.sentence} No draws were made."

    def sentence(self, nodes, counts, whose):
        """Return what was checked of draws."""
        detail = self.integrals(nodes.priors[int(counts.argmax())]).sentence
        return f"Quadrature at {counts.size} values of the {whose}; {detail}"

    def draws(self, prior, count, rngs):
        """Yield (draws of P, of the true tallies), two (count, a) arrays, under one prior."""
        sample = Quadrature(draws=max(count, 2), chains=1).sample(self.integrals(prior), rngs[0], Watch())
        yield sample.distribution[0, :count], sample.tallies[0, :count]


class Expanded(_Factored):
    """Summaries: the expansion at their pilot is the likelihood, for all values of the hyperparameter."""

    weighted = True

    def __init__(self, problems, places=(0,)):
        zeros = np.zeros(problems[0].n_categories)
        likelihoods = [problem.likelihood for problem in problems]
        families = [surrogate.ExpandedFactors(zeros, form.linear, form.tangent_curvature) for form in likelihoods]
        if zeros.size > MAX_LINE:
            self.exact, self.route = False, "saddle point"
        super().__init__(problems, places, Products(surrogate.joined(families), [form.constant for form in likelihoods]))
        self._families = families

    @staticmethod
    def plan(problem, size, cells=1):
        """Return (reason, operations, Pace) of a problem that it serves."""
        if problem.keeps_reports:
            raise InfeasibleError("Reports that were kept need no summary.")
        work = problem.n_categories * (size + 2e4)
        return "surrogates of the summary at values of the hyperparameter.", work, Pace(1.0, 0.0, 1e-7)

    def proposal(self, prior, c, watch):
        """Return the surrogate of one cell under one prior."""
        return surrogate.Proposal(replace(self._families[c], alpha=prior.concentrations()))

    def sentence(self, nodes, counts, whose):
        """Return what was checked of draws."""
        return ""


class Weighted(_Factored):
    """Surrogates, for any reports over three categories or more, with weights on the true likelihood.

    The log-likelihood is expanded once for all values of the hyperparameter, at the mean of their mixture; moments and
    evidence are of second order in the saddle point.
    """

    exact, weighted, together, route = False, True, False, "saddle point"

    def __init__(self, problems, places=(0,)):
        self.problems, self.places, self._centre = problems, np.asarray(places), None
        self._large = _work(problems[0]) > LARGE
        self._rows = problems[0].rows

    @staticmethod
    def plan(problem, size, cells=1):
        """Return (reason, operations, Pace) of a problem that it serves."""
        a = problem.n_categories
        if a < 3:
            raise InfeasibleError("The surrogate needs three categories.")
        if cells == 1 and _work(problem) <= surrogate.MAX_LOOKED_AT:
            _looked_at(problem.rows)
        work = surrogate.weighing(problem.rows, size) + 3 * surrogate.EXPANDING * _work(problem) + SURROGATE_FACTOR * a
        reason = "surrogates at values of the hyperparameter, with weights on the true likelihood."
        return reason, work, Pace(0.08, 2.5e-3, 0.8 * surrogate.Surrogate.pace.operation)

    def settle(self, mixture):
        """Look, and move the pilot to the mean of the mixture, until that hardly moves; return the nodes there."""
        self.look()
        nodes = None
        for _ in range(ROUNDS):
            nodes = place(mixture, lambda prior: float(self.log_evidence(prior)[0]), near=nodes)
            engines = [self.engine(prior) for prior in nodes.priors]
            means, variances = (np.concatenate([getattr(e, name) for e in engines]) for name in ("mean", "variance"))
            mean = nodes.weights @ means
            spread = nodes.weights @ (variances + (means - mean) ** 2)
            if (np.abs(mean - self._centre) < SETTLED * np.sqrt(spread)).all():
                break
            self._expand(mean)
        return nodes

    def look(self):
        """Find the first pilot by the posterior under Jeffreys' prior, and look at the weights of a few of its draws.

        Raises
        ------
        InfeasibleError
            Where these show that no weights will be trusted.
        """
        alpha = Dirichlet.jeffreys(self.problems[0].n_categories).alpha
        rough = self._rows.rough_expansion() if self._large else None
        if rough is not None:  # a pass over so many reports takes seconds: the support counts find the first pilot
            self._centre = np.full(alpha.size, 1 / alpha.size)
            gradient = rough.gradient, surrogate.tangent_curvature(rough.square, rough.cross)
            self._fresh(Products(surrogate.ExpandedFactors(0 * alpha, *gradient, self._centre), [0.0]))
            return
        engine = surrogate.expand(self._rows, alpha, 3)[0] if self._large else _looked_at(self._rows)
        self._expand(engine.saddle_moments()[0])

    def _expand(self, mean):
        family, constant = surrogate.anchored(self._rows, np.zeros_like(mean), mean)
        self._centre = mean
        self._fresh(Products(family, [constant]))

    def proposal(self, prior, c, watch):
        """Return the surrogate expanded at its own mean under one prior."""
        alpha, start = prior.concentrations(), self.engine(prior).mean[0]
        return surrogate.expand(self._rows, alpha, watch=watch, start=start)[0]


def _looked_at(rows):
    """Return the surrogate under Jeffreys' prior; refused where a few of its draws are worth nothing."""
    engine, _, far = surrogate.looked_at(rows, tuple(Dirichlet.jeffreys(rows.n_categories).alpha))
    if far:
        raise InfeasibleError(far)
    return engine


def _work(problem):
    """Return the entries of the rows, as products with them go through."""
    return problem.rows.n_rows * problem.n_categories


def widened(proposal):
    """Return a proposal with its mean and a curvature that is smaller by WIDER/√(a − 1): heavier tails bound the weights.

    Where reports say little the log-likelihood falls off more slowly than its quadratic. In k dimensions a normal proposal
    with a precision of 1 − δ leaves (1 − δ²)^(k/2) of the draws.
    """
    family, mean = proposal.whole, proposal.saddle_moments()[0]
    share = 1 - WIDER / math.sqrt(mean.size - 1)
    wider = replace(family, curvature=share * family.curvature)
    return surrogate.Proposal(replace(wider, linear=family.linear + family.slope(mean) - wider.slope(mean)), proposal.tilt)


def key_of(prior):
    """Return what two conjugate priors share exactly where they are the same: the bytes of their concentrations."""
    return prior.concentrations().tobytes()


def shares(weights, size):
    """Return how many of ``size`` draws each node gets: in proportion to its weight, the largest remainders rounded up."""
    expected = weights * size
    counts = np.floor(expected).astype(int)
    counts[np.argsort(counts - expected, kind="stable")[: size - counts.sum()]] += 1
    return counts


def entries_of(server, nodes, levels=None, quantiles=(), dependent=False):
    """Return entries of result.EXACT with an axis of cells: moments of P and F over nodes, and evidence.

    Parameters
    ----------
    server : one of the servers
    nodes : Nodes
    levels : pair of floats, optional
        Of ends of intervals, which are entries too.
    quantiles : sequence of float
        Levels of further quantiles, under one Dirichlet prior.
    dependent : bool
        Whether Cov(P) is an entry.
    """
    engines = [server.engine(prior) for prior in nodes.priors]
    evidences = [server.log_evidence(prior) for prior in nodes.priors]
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
        if len(engines) == 1:
            lower, upper, *more = engines[0].quantile((*levels, *quantiles))
        else:
            lower, upper, *more = (inverted(engines, nodes.weights, level, centre) for level in levels)
        out |= {"distribution_lower": lower, "distribution_upper": upper}
        out |= {"distribution_quantile": np.stack(more, axis=1)} if more else {}
    parameter = {} if nodes.mixture is None else {nodes.mixture.parameter: nodes.values}
    log_ratio = server.problems[0].prior.log_hyperprior(parameter) if parameter else None
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


def inverted(engines, weights, level, centre):
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


def servers_of(problems, size, labels=None):
    """Return servers that cover all cells: blocks of those that go together, and one each of others.

    Parameters
    ----------
    problems : list of Problem
    size : int
        Draws that are wanted of each.
    labels : sequence of str, optional
        Of several cells.

    Raises
    ------
    InfeasibleError
        Where there is none; of cells a CellsError.
    """
    kinds: dict = {}
    refused = {}
    for k, problem in enumerate(problems):
        try:
            kinds.setdefault(plan_of(problem, size, len(problems))[0], []).append(k)
        except InfeasibleError as err:
            if labels is None:
                raise
            refused[labels[k]] = str(err)
    if refused:
        label, why = next(iter(refused.items()))
        raise CellsError(f"Cell {label}: {why}", refused)
    return [server for kind, places in kinds.items() for server in blocks(kind, problems, places)]


def blocks(kind, problems, places):
    """Yield servers of a kind for the cells at some places, as many in each as are worked on together."""
    step = max(1, BLOCK // problems[0].n_categories) if kind.together else 1
    for start in range(0, len(places), step):
        block = np.array(places[start : start + step])
        yield kind([problems[k] for k in block], block)


def plan_of(problem, size, cells=1):
    """Return (the first kind of server that applies to a problem, why, operations, Pace), for so many draws and cells.

    Raises
    ------
    InfeasibleError
        Where none does.
    """
    reasons = []
    for kind in (Separable, Few, Weighted) if problem.keeps_reports else (Expanded,):
        try:
            return kind, *kind.plan(problem, size, cells)
        except InfeasibleError as err:
            reasons.append(str(err))
    raise InfeasibleError(" ".join(reasons))
