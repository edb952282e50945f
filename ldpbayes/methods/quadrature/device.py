"""Two categories and a device with one or two unknown probabilities: quadrature over P and these.

Every probability of a report is linear in each of the unknowns, P_0 and the θ, which have independent Beta priors. A rule
takes them in some order, each in the window where the likelihood, at its maximum over those after it, is not negligible; the
margin of each comes from the rule that takes it first. Given the others the log-likelihood is concave in each unknown; along
two of them it may be curved, so that windows of all but the last are found by refining a grid.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln

from ldpbayes.methods.constants import CELLS
from ldpbayes.methods.problem import checked_concentrations
from ldpbayes.methods.quadrature.draws import inverted
from ldpbayes.methods.quadrature.integrand import maximized, whole_part, windows
from ldpbayes.methods.quadrature.margins import StickMargin
from ldpbayes.methods.quadrature.rules import jacobi, remainder, stick_rule


@dataclass(frozen=True, eq=False)
class DeviceIntegrand:
    """Rows that are linear in each unknown, and what whole reports leave of their Beta priors.

    Attributes
    ----------
    table : (m, 2, …, 2) array
        T: the probability of a row is T contracted with (c, 1 − c) along the axis of each unknown.
    counts : (m,) array
    ends : (d, 2) array
        Concentrations of each unknown, in (0, 1] or a little above: whole counts above are rows.
    certainty : (d,) array
        Sums of the concentrations of the Beta priors.
    alpha : (2,) array
        α of the prior of P.
    quantities : tuple of (int, bool)
        The unknown of each reported quantity, and whether it is one less it: P_0, P_1 and the probabilities of the device.
    outcomes : callable
        Unknowns (S, d) → probabilities of the outcomes.
    log_constant : float
        That the rows leave out.
    plain : bool
        Whether the device's probabilities are the only derived quantities.
    top : float
        The log-likelihood at its maximum, as far as it is known.
    depth : float
        Windows leave out points whose log-likelihood is this far below ``top``.
    """

    table: np.ndarray
    counts: np.ndarray
    ends: np.ndarray
    certainty: np.ndarray
    alpha: np.ndarray
    quantities: tuple[tuple[int, bool], ...]
    outcomes: Any
    log_constant: float
    plain: bool
    depth: float
    top: float = -math.inf
    alone: ClassVar[bool] = False
    over: ClassVar[str] = ""

    @classmethod
    def of(cls, problem, alpha):
        """Return the integrand of a problem over the outcomes of a device, with P ~ Dirichlet(α)."""
        law, rows = problem.collection.device_law, problem.rows
        checked_concentrations(alpha)
        dense = rows.dense()
        scale = dense.max(axis=1)
        d = 1 + len(law.unknowns)
        share = np.stack([law.category, *law.places])  # of an outcome in each unknown: 0, 1 or both
        inside = [[(share[k] == i) | (share[k] < 0) for i in (0, 1)] for k in range(d)]
        table = np.zeros((len(dense), *[2] * d))
        for corner in np.ndindex(*[2] * d):
            here = np.logical_and.reduce([inside[k][i] for k, i in enumerate(corner)])
            table[(slice(None), *corner)] = (dense / scale[:, None])[:, here].sum(axis=1)
        priors = np.array([alpha, *(unknown.concentrations for _, unknown in law.unknowns)])
        powers = whole_part(priors)
        units = np.zeros((d, 2, *[2] * d))
        for k, i in np.ndindex(d, 2):
            units[k, i].swapaxes(0, k)[i] = 1.0
        seen = powers.ravel() > 0
        table = np.concatenate([table, units.reshape(2 * d, *[2] * d)[seen]])
        counts = np.concatenate([rows.counts, powers.ravel()[seen]])
        ends = priors - powers
        constant = (
            rows.log_constant + float(rows.counts @ np.log(scale)) + float((betaln(*ends.T) - betaln(*priors.T)).sum())
        )
        of_device = [(k, not names[0]) for k, (names, _) in enumerate(law.unknowns, 1)]

        def outcomes(c):
            pairs = np.stack([c, 1 - c], axis=-1)
            return law.outcomes(pairs[:, 0], [pairs[:, k] for k in range(1, d)])

        plain = len(problem.collection.derived) == len(of_device)
        depth = 22 + 0.5 * d * math.log1p(counts.sum())
        quantities = ((0, False), (0, True), *of_device)
        out = cls(table, counts, ends, priors.sum(axis=1), alpha, quantities, outcomes, constant, plain, depth)
        return replace(out, top=max(out.rule_order(k)[0] for k in range(d)))

    @property
    def size(self):
        """Number of unknowns."""
        return len(self.ends)

    def planned(self, quadrature):
        """Return the function of nodes of a stick that gives the plan, or why there is none."""
        return lambda nodes: quadrature._plan_of_device(self.size - 1, len(self.table), nodes)

    def deeper(self, nats):
        """Return the same integrand with wider windows."""
        return replace(self, depth=self.depth + nats)

    def order(self, first):
        """Return the unknowns in an order with this one first, and the least certain of the others last."""
        return [first, *sorted(set(range(self.size)) - {first}, key=lambda k: -self.certainty[k])]

    def images(self, order, c):
        """Return T given the first of the unknowns in an order, c (N, i), shape (N, m, 2, …)."""
        out = np.transpose(self.table, (0, *(1 + np.array(order))))[None]
        for value in c.T:
            share = value.reshape(-1, *[1] * (out.ndim - 2))
            out = share * out[:, :, 0] + (1 - share) * out[:, :, 1]
        return out

    def profile(self, order, c):
        """Return the log-likelihood given the first unknowns c (N, i), at its maximum over the others."""
        left = self.size - c.shape[1]
        if left == 1:
            return maximized(self.images(order, c), self.counts)[0]
        return self._refined(order, c)[2]

    def _refined(self, order, c):
        """Return (low, high, greatest profile), each (N,): the window of the next unknown given the first ones c (N, i)."""
        size, cells = len(c), 12  # of the grid that windows are refined on: six and 24 give the same numbers
        low, high, best = np.zeros(size), np.ones(size), np.full(size, -np.inf)
        active, middle = np.arange(size), (np.arange(cells) + 0.5) / cells
        for _ in range(60):  # each refinement halves the window at least
            at = low[active, None] + (high - low)[active, None] * middle
            points = np.concatenate([np.repeat(c[active], cells, axis=0), at.reshape(-1, 1)], axis=1)
            values = self.profile(order, points).reshape(at.shape)
            best[active] = np.maximum(best[active], values.max(axis=1))
            level = np.minimum(max(self.top, best.max()) - self.depth, best[active] - 4 - 2 * self.size)
            seen = (values >= level[:, None]) | (values == values.max(axis=1, keepdims=True))
            first = np.maximum(seen.argmax(axis=1) - 1, 0)
            last = np.minimum(cells - seen[:, ::-1].argmax(axis=1) + 1, cells)
            start, width = low[active], (high - low)[active]
            low[active], high[active] = (
                start + width * first / cells,
                np.where(last == cells, high[active], start + width * last / cells),
            )
            active = active[last - first <= cells / 2]
            if not active.size:
                break
        return low, high, best

    def rule_order(self, first):
        """Return (greatest log-likelihood, low, high) of the unknown that a rule takes first."""
        low, high, best = self._refined(self.order(first), np.empty((1, 0)))
        return float(best[0]), float(low[0]), float(high[0])

    def nodes(self, first, rule):
        """Return (unknowns (N, d), log weights, place of the first unknown's node, its window) of a rule."""
        order, c, log_weight = self.order(first), np.empty((1, 0)), np.zeros(1)
        for step, k in enumerate(order):
            last = step == self.size - 1
            images = self.images(order, c)
            if last:
                low, high = windows(self, images[:, :, 0], images[:, :, 1:])
            else:
                low, high, _ = self._refined(order, c)
            if not step:
                window = float(low[0]), float(high[0])
            _, at, _, log_rule = stick_rule(low, high, *self.ends[k], rule.nodes if step else rule.interpolated)
            c = np.concatenate([np.repeat(c, at.shape[1], axis=0), at.reshape(-1, 1)], axis=1)
            log_weight = (log_weight[:, None] + log_rule).ravel()
        with np.errstate(divide="ignore"):
            log_weight = log_weight + np.log(self.images(order, c)) @ self.counts - self.top
        place = np.repeat(np.arange(rule.interpolated), len(c) // rule.interpolated)
        return c[:, np.argsort(order)], log_weight, place, window

    def integrated(self, rule, watch):
        """Return the DevicePosterior of a rule."""
        return DevicePosterior.of(self, rule)

    def move(self, c, k, nodes, rng):
        """Return unknowns c (S, d) with one of them drawn from its conditional given the others."""
        order = [*(j for j in range(self.size) if j != k), k]
        images = self.images(order, c[:, order[:-1]])
        low, high = windows(self, images[:, :, 0], images[:, :, 1:])
        _, at, rest, log_weight = stick_rule(low, high, *self.ends[k], nodes)
        image = at[:, :, None] * images[:, None, :, 0] + rest[:, :, None] * images[:, None, :, 1]
        with np.errstate(divide="ignore"):
            log_weight += np.log(image) @ self.counts
        out = c.copy()
        out[:, k] = low + (high - low) * inverted(log_weight, low, high, *self.ends[k], CELLS, rng)
        return out


@dataclass(frozen=True, eq=False)
class DevicePosterior:
    """What one rule says: log-evidence, moments of the reported quantities, and the margin of each unknown.

    Attributes
    ----------
    log_evidence, left_out : float
        As in RuleMoments.
    mean, sd : arrays
        Mean and sd of the quantities.
    covariance : (2, 2) array
        Covariance of P.
    """

    integrand: DeviceIntegrand
    rule: Any
    points: np.ndarray
    weight: np.ndarray
    log_evidence: float
    left_out: float
    mean: np.ndarray
    sd: np.ndarray

    @classmethod
    def of(cls, integrand, rule):
        """Return the posterior by the rule that takes P first."""
        points, log_weight, *_ = integrand.nodes(0, rule)
        weight = np.exp(log_weight)
        total = weight.sum()
        weight /= total
        middle = weight @ points
        spread = np.sqrt(weight @ (points - middle) ** 2)
        at, less = np.array(integrand.quantities).T
        mean = np.where(less, 1 - middle[at], middle[at])
        left_out = integrand.size * math.exp(min(-integrand.depth - math.log(total), 700.0))
        log_evidence = math.log(total) + integrand.top
        return cls(integrand, rule, points, weight, log_evidence, left_out, mean, spread[at])

    @property
    def covariance(self):
        return self.sd[0] ** 2 * np.array([[1.0, -1.0], [-1.0, 1.0]])

    @cached_property
    def _margins(self):
        """The margin of each unknown, by the rule that takes it first."""
        out = []
        for k, (alpha, rest) in enumerate(self.integrand.ends):
            _, log_weight, place, (low, high) = self.integrand.nodes(k, self.rule)
            weight = np.exp(log_weight)
            ends = float(alpha) if low == 0 else 1.0, remainder(float(rest)) if high == 1 else 1.0
            share = np.bincount(place, weight) / weight.sum()
            out.append(StickMargin(low, high - low, *ends, share / jacobi(share.size, *ends)[1]))
        return out

    def quantiles(self, level):
        """Return the quantile of each quantity at a level."""
        margins = self._margins
        return np.array(
            [
                1 - margins[k].quantile(1 - level) if less else margins[k].quantile(level)
                for k, less in self.integrand.quantities
            ]
        )

    def draws(self, rule, nodes, size, rng):
        """Return i.i.d. draws of the outcomes, (size, E): nodes by their weights, then one exact move of each unknown."""
        points, log_weight, *_ = self.integrand.nodes(0, rule)
        weight = np.exp(log_weight)
        c = points[rng.choice(len(points), size=size, p=weight / weight.sum())]
        for k in range(self.integrand.size):
            c = self.integrand.move(c, k, nodes, rng)
        return self.integrand.outcomes(c)
