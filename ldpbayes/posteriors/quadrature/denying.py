"""Exact posterior of few categories one of which may be denied: quadrature over δ, and over P at every node of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit

from ldpbayes import checks
from ldpbayes.errors import ConvergenceError
from ldpbayes.inference.ends import tails
from ldpbayes.inference.verdict import Verdict
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample
from ldpbayes.posteriors.merging import Merged, quantile
from ldpbayes.posteriors.problem import checked_concentrations
from ldpbayes.posteriors.quadrature.draws import draw, move
from ldpbayes.posteriors.quadrature.integrals import integrate
from ldpbayes.posteriors.quadrature.margins import Margin
from ldpbayes.posteriors.quadrature.rules import jacobi, remainder, stick_rule
from ldpbayes.posteriors.quadrature.target import Target, maximized

#: Most answers that are handled so.
MAX_ANSWERS = 3
#: Nodes of δ, and of every stick of P given δ; the error is the distance from rules with fewer of both.
NODES, STICK, COARSER = 40, 32, 0.8
#: How many times as many nodes of δ are tried where the rules differ: many direct answers beside a weak device leave a ridge
#: that narrows towards an end of δ.
FINER = (1, 4, 16)
#: Points of δ that its window is looked for at, and how often.
GRID, ZOOMS, EDGE = 41, 4, 1e-12
#: Nodes with less weight than this are left out of distribution functions.
NEGLIGIBLE = 1e-10
#: Points of δ for each node at which a distribution function is looked at between them, by NEAR of them; the probability by
#: which an end that the nodes alone give may be off, the step in sds by which it is moved, and how often.
BETWEEN, NEAR, RESOLVED, STEP, MOVES = 8, 4, 1e-5, 0.05, 6
#: Rows with more entries are left to weighted draws.
MAX_ENTRIES = 2000


@dataclass(frozen=True)
class Denying(AbstractPosterior):
    """The posterior where one category of two or three may be denied: ∫ p(P | Y, δ) p(δ | Y) dδ by Gauss–Jacobi rules.

    Given δ the reports are seen through rows of the answers alone, (1 − δ) times the column of those who admit and δ times
    that of those who deny, under the Dirichlet prior of P: quadrature over the simplex at each node of δ. The ends of P, of
    δ and of the share who deny are quantiles of the mixture. Draws: a node of δ by its weight, P given that, and then δ
    given P, exactly.

    Parameters
    ----------
    draws, chains : int
        chains × draws i.i.d. draws of (P, F, δ).
    tolerance : float
        Largest accepted difference between the rules: means in posterior sd, log-evidence in nats.
    """

    draws: int = 1000
    chains: int = 4
    tolerance: float = 1e-4
    name: ClassVar[str] = "denying"
    order: ClassVar[float] = 2.5
    most: ClassVar[float] = NODES * STICK ** (MAX_ANSWERS - 1)
    pace: ClassVar[Pace] = Pace(0.4, 0.0, 4e-5)
    needs: ClassVar[tuple[str, ...]] = ("rows",)
    checked: ClassVar[Mapping] = {"tolerance": checks.positive}

    def prepare(self, problem):
        split, a = problem.prior.split(), problem.n_categories - 1
        if split is None:
            return Refusal("The method denying needs one category that is denied, and a Dirichlet prior of the answers.")
        if a > MAX_ANSWERS or problem.entries > MAX_ENTRIES:
            return Refusal(
                f"The method denying takes {MAX_ANSWERS} answers and {MAX_ENTRIES:,} entries of the rows at most."
            )
        reason = f"Exact to a checked error by quadrature over the share δ who deny and {a} categories."
        return Plan(reason, NODES * float(STICK) ** (a - 1), Seen.of(problem, split))

    def run(self, plan, rng, watch):
        seen = plan.state
        for nodes in (NODES * finer for finer in FINER):
            mixed = seen.mixed(nodes, STICK, watch)
            coarse = seen.mixed(round(COARSER * nodes), round(COARSER * STICK), watch)
            apart = (abs(mixed.mean - coarse.mean) / mixed.sd).max()
            error = float(max(apart, abs(mixed.log_evidence - coarse.log_evidence)))
            if error <= self.tolerance:
                break
        else:
            raise ConvergenceError(f"Quadrature over δ is not resolved: two rules differ by {error:.1e} posterior sd.")
        p = mixed.draws(self.chains * self.draws, rng)
        size = seen.alpha.size
        own = {"log_evidence": mixed.log_evidence + seen.log_constant, "answers_cov": mixed.covariance}

        def named(**values):
            """Return values of P, δ and the share who deny as entries of result.EXACT."""
            out = {f"answers_{name}": value[:size] for name, value in values.items()}
            return out | ({f"derived_{name}": value[size:] for name, value in values.items()} if seen.plain else {})

        def intervals(ci_prob):
            """Return the ends of the equal-tailed intervals."""
            return named(**dict(zip(("lower", "upper"), map(mixed.quantiles, tails(ci_prob)), strict=True)))

        checked = f"Rules with {nodes} and {round(COARSER * nodes)} nodes of δ agree to {error:.1e} posterior sd."
        return Sample(
            p.reshape(self.chains, self.draws, -1),
            verdict=Verdict(checked=checked),
            exact=own | named(mean=mixed.mean, sd=mixed.sd),
            intervals=intervals,
            facts={"quadrature_error": error},
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """Rows over the answers and those who deny one of them, and the prior: what a rule for δ needs.

    Attributes
    ----------
    matrix, counts : (m, a + 1), (m,) arrays
    alpha : (a,) array
    place : int
        Of the category that is denied.
    beta : pair of float
        b, c of δ.
    log_constant : float
        That the rows leave out.
    plain : bool
        Whether δ and the share who deny are the only derived quantities.
    """

    matrix: np.ndarray
    counts: np.ndarray
    alpha: np.ndarray
    place: int
    beta: tuple[float, float]
    log_constant: float
    plain: bool

    @classmethod
    def of(cls, problem, split):
        """Return what is seen of a problem."""
        (alpha, place, beta), rows = split, problem.rows
        checked_concentrations(alpha)
        dense = rows.dense()
        scale = dense.max(axis=1)
        constant = rows.log_constant + float(rows.counts @ np.log(scale))
        plain = len(problem.collection.derived) == 2
        return cls(dense / scale[:, None], rows.counts, alpha, place, beta, constant, plain)

    def images(self, delta):
        """Return the rows of the answers given values of δ (k,), shape (k, m, a)."""
        out, share = np.repeat(self.matrix[None, :, : self.alpha.size], len(delta), axis=0), np.asarray(delta)[:, None]
        out[:, :, self.place] = (1 - share) * self.matrix[:, self.place] + share * self.matrix[:, -1]
        return out

    def chain(self):
        """Return (order of p′, target) in which the last stick is δ: it holds the places of δ given all else."""
        order = [*(x for x in range(self.alpha.size) if x != self.place), self.alpha.size, self.place]
        alpha = np.array([*np.delete(self.alpha, self.place), *self.beta])
        low = np.minimum(alpha, 1.0)
        whole = Target.of(Merged(self.matrix[:, order], self.counts, 0.0, np.arange(len(order)), low))
        alpha += whole.alpha - low  # what weighted reports add
        return order, Target(whole.matrix, whole.counts, alpha, 0.0, whole.top, whole.centre, whole.depth)

    def mixed(self, nodes, stick, watch):
        """Return the posterior as a mixture over nodes of δ."""
        _, chain = self.chain()
        low, high = self._window(chain.depth)
        _, delta, _, log_rule = (x[0] for x in stick_rule(np.array([low]), np.array([high]), *self.beta, nodes)[:4])
        groups = np.arange(self.alpha.size)
        targets = [Target.of(Merged(image, self.counts, 0.0, groups, self.alpha)) for image in self.images(delta)]
        known = [integrate(target, stick, watch) for target in targets]
        log_weight = log_rule + np.array([one.log_evidence for one in known])
        top = log_weight.max()
        weight = np.exp(log_weight - top)
        return Mixed(
            self, (low, high), delta, weight / weight.sum(), targets, known, float(np.log(weight.sum()) + top), stick, watch
        )

    def _window(self, depth):
        """Return (low, high) of δ, beyond which the likelihood, maximized over P, is so many nats below its maximum."""
        low, high = 0.0, 1.0
        for _ in range(ZOOMS):
            grid = np.linspace(low, high, GRID)
            best, _ = maximized(self.images(np.clip(grid, EDGE, 1 - EDGE)), self.counts)  # at an end rows may be zero
            near = np.flatnonzero(best > best.max() - depth)
            low, high = float(grid[max(near[0] - 1, 0)]), float(grid[min(near[-1] + 1, GRID - 1)])
        return low, high


@dataclass(frozen=True, eq=False)
class Mixed:
    """A posterior of P and δ as a mixture over nodes of δ.

    Attributes
    ----------
    seen : Seen
    window : pair of float
        Of δ.
    delta, weight : (k,) arrays
        The nodes, and their posterior weights.
    targets, known : lists
        Of P given each node, and its moments.
    log_evidence : float
    stick : int
        Nodes of every stick of P.
    """

    seen: Seen
    window: tuple[float, float]
    delta: np.ndarray
    weight: np.ndarray
    targets: list
    known: list
    log_evidence: float
    stick: int
    watch: Any = field(repr=False)
    _functions: dict = field(default_factory=dict, repr=False)

    @cached_property
    def _moments(self):
        """Means (a + 2,) and second moments of P, δ and the share who deny, and the covariance of P."""
        mean, cov = (np.array([getattr(node, name) for node in self.known]) for name in ("mean", "cov"))
        square = np.einsum("kii->ki", cov) + mean**2
        place, delta = self.seen.place, self.delta
        quantities = np.column_stack([mean, delta, delta * mean[:, place]])
        squares = np.column_stack([square, delta**2, delta**2 * square[:, place]])
        average = self.weight @ mean
        centred = mean - average
        between = centred.T @ (self.weight[:, None] * centred)
        return self.weight @ quantities, self.weight @ squares, np.tensordot(self.weight, cov, 1) + between

    @property
    def mean(self):
        """Means of P, δ and the share who deny, shape (a + 2,)."""
        return self._moments[0]

    @property
    def sd(self):
        """Their standard deviations."""
        return np.sqrt(self._moments[1] - self._moments[0] ** 2)

    @property
    def covariance(self):
        """Cov(P), shape (a, a)."""
        return self._moments[2]

    def _function(self, x, k):
        """Return the distribution function of an answer at a node of δ."""
        if (x, k) not in self._functions:
            known, order = self.known[k], np.r_[x, np.delete(np.arange(self.seen.alpha.size), x)]
            known = known if x == 0 else integrate(self.targets[k].ordered(order), self.stick, self.watch)
            self._functions[x, k] = known.margin.cdf
        return self._functions[x, k]

    @cached_property
    def _matter(self):
        """The places of the nodes whose weight a distribution function can tell from zero."""
        return np.flatnonzero(self.weight > NEGLIGIBLE)

    @cached_property
    def _denial(self):
        """The margin of δ: its density is known at the nodes."""
        (low, high), (b, c) = self.window, self.seen.beta
        ends = b if low == 0 else 1.0, remainder(c) if high == 1 else 1.0
        return Margin(low, high - low, *ends, self.weight / jacobi(self.weight.size, *ends)[1])

    def below(self, which, value):
        """Return the probability that P_x, δ (which = a) or the share who deny (which = a + 1) is at most a value."""
        a, delta = self.seen.alpha.size, self.delta[self._matter]
        if which == a:
            return self._denial.cdf(value)
        x = self.seen.place if which > a else which
        scaled = value / delta if which > a else np.full(delta.size, value)
        shares = [self._function(x, k)(min(point, 1.0)) for k, point in zip(self._matter, scaled, strict=True)]
        return float(self.weight[self._matter] @ shares)

    @cached_property
    def _between(self):
        """(δ, weight, places and shares of the NEAR nodes about each) of many points: the density of δ is smooth."""
        denial = self._denial
        t, weight = jacobi(BETWEEN * self.delta.size, denial.low, denial.high)
        weight = weight * np.maximum(denial.density(t), 0)
        t, weight = t[weight > NEGLIGIBLE], weight[weight > NEGLIGIBLE]
        delta = denial.start + denial.width * t
        first = np.clip(np.searchsorted(self.delta, delta) - NEAR // 2, 0, self.delta.size - NEAR)
        places = first[:, None] + np.arange(NEAR)
        shares = np.ones(places.shape)
        for j, k in permutations(range(NEAR), 2):
            nodes = self.delta[places]
            shares[:, j] *= (delta - nodes[:, k]) / (nodes[:, j] - nodes[:, k])
        return delta, weight / weight.sum(), places, shares

    def finely_below(self, which, value):
        """Return what ``below`` does of P_x or the share who deny, also where P given δ hardly varies and moves with δ.

        A distribution function at a value then jumps between two nodes of δ. It does not where the odds of P are divided by
        those of its mean given δ, which is smooth in δ.
        """
        delta, weight, places, shares = self._between
        share = which > self.seen.alpha.size
        x = self.seen.place if share else which
        at = np.minimum(value / delta, 1.0) if share else np.full(delta.size, value)
        odds = logit(np.clip([node.mean[x] for node in self.known], 1e-300, 1 - 1e-16))
        ratio = np.exp(odds[places] - (shares * odds[places]).sum(axis=1, keepdims=True))
        moved = at[:, None] * ratio / (1 - at[:, None] * (1 - ratio))
        known = np.vectorize(lambda k, p: self._function(x, k)(p))(places, moved)
        return float(weight @ (shares * known).sum(axis=1))

    def quantiles(self, level):
        """Return the quantile of P, δ and the share who deny at a level, shape (a + 2,)."""
        a = self.seen.alpha.size
        ends = [self._quantile(which, level) for which in (*range(a), a + 1)]
        return np.array([*ends[:a], self._denial.quantile(level), ends[a]])

    def _quantile(self, which, level):
        """Return the quantile of P_x or of the share who deny: that by the nodes, moved where points between them differ."""
        value = quantile(lambda q: self.below(which, q) - level)
        step, off = STEP * self.sd[which], self.finely_below(which, value) - level
        for _ in range(MOVES):
            if abs(off) < RESOLVED:
                break
            beyond = min(max(value - np.sign(off) * step, 0.0), 1.0)
            slope = (self.finely_below(which, beyond) - level - off) / (beyond - value) if beyond != value else 0.0
            if not slope > 0:
                break
            moved = min(max(value - off / slope, 0.0), 1.0)
            left = self.finely_below(which, moved) - level
            if abs(left) >= abs(off):  # a step too far in a flat tail
                break
            value, step, off = moved, step / 4, left
        return value

    def draws(self, size, rng):
        """Return i.i.d. draws of p′, shape (size, a + 1): P given a node of δ, and then δ given P."""
        (order, chain), place = self.seen.chain(), self.seen.place
        counts = rng.multinomial(size, self.weight)
        nodes = round(COARSER * self.stick)
        drawn = [draw(target, nodes, n, rng, self.watch) for target, n in zip(self.targets, counts, strict=True) if n]
        p, delta = np.concatenate(drawn), np.repeat(self.delta, counts)[:, None]
        admitted = p[:, [place]]
        ordered = np.concatenate([np.delete(p, place, axis=1), delta * admitted, (1 - delta) * admitted], axis=1)
        out = np.empty_like(ordered)
        out[:, order] = move(chain, ordered, len(order) - 2, rng)
        return rng.permutation(out)
