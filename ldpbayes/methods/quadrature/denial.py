"""One category of a few may be denied: quadrature over the share δ who do, and over P at every node of it.

Given δ the reports are seen through rows of the answers alone, (1 − δ) times the column of those who admit and δ times that
of those who deny, under the Dirichlet prior of P. Ends of P, of δ and of the share who deny are quantiles of the mixture
over the nodes. Draws: a node by its weight, P given that, and then δ given P, exactly.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit, ndtri

from ldpbayes.methods.constants import NEAR
from ldpbayes.methods.merging import Merged, quantile
from ldpbayes.methods.problem import checked_concentrations
from ldpbayes.methods.quadrature.draws import Drawer
from ldpbayes.methods.quadrature.integrals import integrate
from ldpbayes.methods.quadrature.integrand import Integrand, maximized, reach_of
from ldpbayes.methods.quadrature.margins import StickMargin
from ldpbayes.methods.quadrature.rules import jacobi, remainder, stick_rule


@dataclass(frozen=True, eq=False)
class DenialIntegrand:
    """Rows over the answers and those who deny one of them, and the prior.

    Attributes
    ----------
    matrix, counts : (m, a + 1), (m,) arrays
    alpha : (a,) array
    place : int
        Place of the category that is denied.
    beta : pair of float
        b, c of δ.
    log_constant : float
        That the rows leave out.
    plain : bool
        Whether δ and the share who deny are the only derived quantities.
    widening : float
        Nats by which windows are deeper than usual.
    """

    matrix: np.ndarray
    counts: np.ndarray
    alpha: np.ndarray
    place: int
    beta: tuple[float, float]
    log_constant: float
    plain: bool
    widening: float
    alone: ClassVar[bool] = False
    over: ClassVar[str] = "of δ and "

    @classmethod
    def of(cls, problem, split):
        """Return the integrand of a problem whose prior splits like this; see AbstractPrior.split."""
        (alpha, place, beta), rows = split, problem.rows
        checked_concentrations(alpha)
        dense = rows.dense()
        scale = dense.max(axis=1)
        constant = rows.log_constant + float(rows.counts @ np.log(scale))
        plain = len(problem.collection.derived) == 2
        return cls(dense / scale[:, None], rows.counts, alpha, place, beta, constant, plain, 0.0)

    def planned(self, quadrature):
        """Return the function of nodes of a stick that gives the plan, or why there is none."""
        return lambda nodes: quadrature._plan_of_denial(self.alpha.size, len(self.matrix), nodes)

    def deeper(self, nats):
        """Return the same integrand with wider windows."""
        return replace(self, widening=self.widening + nats)

    def images(self, delta):
        """Return the rows of the answers given values of δ (k,), shape (k, m, a)."""
        out, share = np.repeat(self.matrix[None, :, : self.alpha.size], len(delta), axis=0), np.asarray(delta)[:, None]
        out[:, :, self.place] = (1 - share) * self.matrix[:, self.place] + share * self.matrix[:, -1]
        return out

    def chain(self):
        """Return (order of p′, integrand) in which the last stick is δ: the law of δ given all else."""
        order = [*(x for x in range(self.alpha.size) if x != self.place), self.alpha.size, self.place]
        alpha = np.array([*np.delete(self.alpha, self.place), *self.beta])
        low = np.minimum(alpha, 1.0)
        whole = Integrand.of(Merged(self.matrix[:, order], self.counts, 0.0, np.arange(len(order)), low))
        alpha += whole.alpha - low  # what weighted reports add
        return order, replace(whole, alpha=alpha, log_factor=0.0).deeper(self.widening)

    def integrated(self, rule, watch):
        """Return the posterior as a mixture over nodes of δ, as many as a stick of the rule has."""
        low, high, floor = self._window()
        _, delta, _, log_rule = (
            x[0] for x in stick_rule(np.array([low]), np.array([high]), *self.beta, rule.interpolated)[:4]
        )
        groups = np.arange(self.alpha.size)
        integrands = [
            Integrand.of(Merged(image, self.counts, 0.0, groups, self.alpha)).deeper(self.widening)
            for image in self.images(delta)
        ]
        given = [integrate(integrand, rule, watch) for integrand in integrands]
        log_weight = log_rule + np.array([moments.log_evidence for moments in given])
        top = log_weight.max()
        weight = np.exp(log_weight - top)
        log_evidence, weight = float(np.log(weight.sum()) + top), weight / weight.sum()
        left_out = float(weight @ [moments.left_out for moments in given] + np.exp(min(floor - log_evidence, 700.0)))
        return DenialMixture(self, (low, high), delta, weight, integrands, given, log_evidence, left_out, rule, watch)

    def _window(self):
        """Return (low, high, level): the range of δ outside which the likelihood, maximized over P, is below a level."""
        _, chain = self.chain()
        denied, admitted = chain.centre[-2:]
        peak = denied / (denied + admitted)
        level = float(maximized(self.images([peak]), self.counts)[0][0]) - chain.depth

        def beyond(log_distance, side):
            delta = np.where(side == 0, peak * (1 - np.exp(log_distance)), peak + (1 - peak) * np.exp(log_distance))
            return level - maximized(self.images(delta), self.counts)[0]

        below, above = reach_of(beyond, 2)
        return peak * (1 - below), peak + (1 - peak) * above if above < 1 else 1.0, level


@dataclass(frozen=True, eq=False)
class DenialMixture:
    """A posterior of P and δ as a mixture over nodes of δ.

    Attributes
    ----------
    integrand : DenialIntegrand
    window : pair of float
        Least and largest δ.
    delta, weight : (k,) arrays
        The nodes, and their posterior weights.
    integrands, given : lists
        Integrands of P given each node, and its moments.
    log_evidence, left_out : float
        As in RuleMoments.
    rule : ProductRule
    resolved : float
        Probability by which an end may be off, and the sum of weights that distribution functions leave out. Derived: 1e-5
        over a density of φ(1.96) is some 1e-4 posterior sd, as ACCURACY.solved says. Bank: half and double
        show nothing, in one problem.
    """

    integrand: DenialIntegrand
    window: tuple[float, float]
    delta: np.ndarray
    weight: np.ndarray
    integrands: list
    given: list
    log_evidence: float
    left_out: float
    rule: Any
    watch: Any = field(repr=False)
    resolved: float = 1e-5
    _functions: dict = field(default_factory=dict, repr=False)

    @cached_property
    def _moments(self):
        """Means (a + 2,) and second moments of P, δ and the share who deny, and the covariance of P."""
        mean, cov = (np.array([getattr(moments, name) for moments in self.given]) for name in ("mean", "cov"))
        square = np.einsum("kii->ki", cov) + mean**2
        place, delta = self.integrand.place, self.delta
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
            moments, order = self.given[k], np.r_[x, np.delete(np.arange(self.integrand.alpha.size), x)]
            moments = moments if x == 0 else integrate(self.integrands[k].ordered(order), self.rule, self.watch)
            self._functions[x, k] = moments.margin.cdf
        return self._functions[x, k]

    @cached_property
    def _matter(self):
        """The places of the nodes whose weight a distribution function can tell from zero."""
        return np.flatnonzero(self.weight > self.resolved / self.weight.size)

    @cached_property
    def _denial(self):
        """The margin of δ: its density is known at the nodes."""
        (low, high), (b, c) = self.window, self.integrand.beta
        ends = b if low == 0 else 1.0, remainder(c) if high == 1 else 1.0
        return StickMargin(low, high - low, *ends, self.weight / jacobi(self.weight.size, *ends)[1])

    def below(self, which, value):
        """Return the probability that P_x, δ (which = a) or the share who deny (which = a + 1) is at most a value."""
        a, delta = self.integrand.alpha.size, self.delta[self._matter]
        if which == a:
            return self._denial.cdf(value)
        x = self.integrand.place if which > a else which
        scaled = value / delta if which > a else np.full(delta.size, value)
        shares = [self._function(x, k)(min(point, 1.0)) for k, point in zip(self._matter, scaled, strict=True)]
        return float(self.weight[self._matter] @ shares)

    @cached_property
    def _between(self):
        """(δ, weight, places and shares of the nodes about each) of many points: the density of δ is smooth."""
        denial, near = self._denial, NEAR
        t, weight = jacobi(near * self.delta.size, denial.low, denial.high)
        weight = weight * np.maximum(denial.density(t), 0)
        matter = weight > self.resolved / weight.size
        t, weight = t[matter], weight[matter]
        delta = denial.start + denial.width * t
        first = np.clip(np.searchsorted(self.delta, delta) - near // 2, 0, self.delta.size - near)
        places = first[:, None] + np.arange(near)
        shares = np.ones(places.shape)
        for j, k in permutations(range(near), 2):
            nodes = self.delta[places]
            shares[:, j] *= (delta - nodes[:, k]) / (nodes[:, j] - nodes[:, k])
        return delta, weight / weight.sum(), places, shares

    def finely_below(self, which, value):
        """Return what ``below`` does of P_x or the share who deny, also where P given δ hardly varies and moves with δ.

        A distribution function at a value then jumps between two nodes of δ. It does not where the odds of P are divided by
        the odds of its mean given δ, which is smooth in δ.
        """
        delta, weight, places, shares = self._between
        share = which > self.integrand.alpha.size
        x = self.integrand.place if share else which
        at = np.minimum(value / delta, 1.0) if share else np.full(delta.size, value)
        odds = logit(np.clip([moments.mean[x] for moments in self.given], 1e-300, 1 - 1e-16))
        ratio = np.exp(odds[places] - (shares * odds[places]).sum(axis=1, keepdims=True))
        moved = at[:, None] * ratio / (1 - at[:, None] * (1 - ratio))
        given = np.empty(places.shape)
        for k in np.unique(places):
            given[places == k] = self._function(x, k)(moved[places == k])
        return float(weight @ (shares * given).sum(axis=1))

    def quantiles(self, level):
        """Return the quantile of P, δ and the share who deny at a level, shape (a + 2,)."""
        a = self.integrand.alpha.size
        ends = [self._quantile(which, level) for which in (*range(a), a + 1)]
        return np.array([*ends[:a], self._denial.quantile(level), ends[a]])

    def _quantile(self, which, level):
        """Return the quantile of P_x or of the share who deny: that by the nodes, moved where points between them differ."""
        from scipy.optimize import brentq

        value = quantile(lambda q: self.below(which, q) - level)
        off = self.finely_below(which, value) - level
        if abs(off) < self.resolved:
            return value
        sd, other, sign = self.sd[which], value, np.sign(off)
        step = off * sd * math.sqrt(2 * math.pi) * math.exp(0.5 * ndtri(level) ** 2)  # Newton's, were the margin normal
        while np.sign(off) == sign and 0 < other < 1:
            step *= 2
            other = min(max(value - step, 0.0), 1.0)
            off = self.finely_below(which, other) - level
        low, high = sorted((value, other))
        return brentq(lambda q: self.finely_below(which, q) - level, low, high, xtol=self.resolved * sd)

    def draws(self, rule, nodes, size, rng):
        """Return i.i.d. draws of p′, shape (size, a + 1): P given a node of δ, and then δ given P.

        Parameters
        ----------
        rule : ProductRule
        nodes : int
            Of conditional densities.
        size : int
        rng : Generator
        """
        (order, chain), place = self.integrand.chain(), self.integrand.place
        counts = rng.multinomial(size, self.weight)
        drawn = [
            Drawer(integrand, rule, nodes).draw(n, rng, self.watch)
            for integrand, n in zip(self.integrands, counts, strict=True)
            if n
        ]
        p, delta = np.concatenate(drawn), np.repeat(self.delta, counts)[:, None]
        admitted = p[:, [place]]
        ordered = np.concatenate([np.delete(p, place, axis=1), delta * admitted, (1 - delta) * admitted], axis=1)
        out = np.empty_like(ordered)
        out[:, order] = Drawer(chain, rule, nodes).move(ordered, len(order) - 2, rng)
        return rng.permutation(out)
