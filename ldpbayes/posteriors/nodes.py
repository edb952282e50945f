"""Quadrature nodes in the hyperparameter of a mixture of Dirichlet priors, placed by the evidence of the reports."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbayes.priors import Dirichlet
from ldpbayes.priors.base import AbstractMixture

#: Nodes of the Gauss–Hermite rule in log α; of that which takes its place where its log-evidence is off by more than OFF.
NODES, MORE, OFF = 7, 15, 2e-5
#: … as long as its least α is above this.
SMALLEST = 0.01
#: Prior sds beyond the values that were looked at in which the log-evidence goes on in a straight line.
BEYOND = 3.0
#: Points of the curve through all values that were looked at.
FINE = 4001
#: The rule is placed anew until its mean and sd move by less than this share of the sd …
SETTLED = 0.15
#: … or so many times.
MAX_PLACINGS = 4
#: Prior sd of log α within which its mode is looked for.
REACH = 8.0
#: Least sd of the rule, and what a log-evidence that cannot be computed counts as.
NARROWEST, LEAST = 0.01, -1e300


@dataclass(frozen=True, eq=False)
class Nodes:
    """A mixture of conjugate priors as it matters under a likelihood: quadrature nodes with their posterior weights.

    Attributes
    ----------
    mixture : AbstractMixture or None
        None of one Dirichlet prior.
    values : (k,) array
        The hyperparameter at each node.
    priors : tuple of Dirichlet
        The conjugate prior at each node.
    weights : (k,) array
        Posterior weights of the nodes; they sum to one.
    log_evidence : float
        log ∫ (evidence given the hyperparameter) × (its prior).
    log_evidences : (k,) array
        The log-evidence given each node.
    seen, seen_log_evidences : (m,) arrays
        All values of the hyperparameter that were looked at, in order, and the log-evidences there.
    error : float
        Of log_evidence by the rule: its difference to the integral of the curve through all values that were looked at.
    """

    mixture: AbstractMixture
    values: np.ndarray
    priors: tuple[Dirichlet, ...]
    weights: np.ndarray
    log_evidence: float
    log_evidences: np.ndarray
    seen: np.ndarray
    seen_log_evidences: np.ndarray
    error: float = math.nan

    @classmethod
    def alone(cls, prior: Dirichlet, log_evidence: float) -> "Nodes":
        """Return the one node that a Dirichlet prior is."""
        one = np.ones(1)
        nothing: Any = None  # is mixed
        return cls(nothing, one, (prior,), one, log_evidence, log_evidence * one, one, log_evidence * one, 0.0)

    @property
    def moments(self) -> tuple[float, float]:
        """Posterior mean and sd of t."""
        t = self.mixture.coordinate(self.values)
        mean = float(self.weights @ t)
        return mean, max(math.sqrt(float(self.weights @ (t - mean) ** 2)), NARROWEST)

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the hyperparameter; the log-evidence is interpolated between the values looked at."""
        t, log_density = _through(self.mixture.coordinate(self.seen), self.seen_log_evidences)
        density = np.exp(log_density - log_density.max())
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
        return self.mixture.value(np.interp(np.asarray(levels) * cdf[-1], cdf, t))


def place(
    mixture: AbstractMixture,
    log_evidence: Callable[[Dirichlet], float],
    rough: Callable[[Dirichlet], float] | None = None,
    near: Nodes | None = None,
) -> Nodes:
    """Return Gauss–Hermite nodes in t about the posterior's mean, with its sd.

    The first rule stands about the mode with the curvature's sd; its mean and sd place the next. A rough log-evidence
    places the rule, and the good one weighs its nodes.

    Parameters
    ----------
    mixture : AbstractMixture
    log_evidence : callable
        The log-evidence of the reports under a Dirichlet prior.
    rough : callable, optional
        A faster one, accurate to some hundredths, for placing the nodes.
    near : Nodes, optional
        Of a log-evidence that differs little: the search starts there.
    """
    good = _Curve(mixture, log_evidence)
    first = good if rough is None else _Curve(mixture, rough)
    rule = _settled(first, *(_about_mode(first) if near is None else near.moments))
    if rough is None:
        return _refined(rule, good, good.seen()).nodes(good.seen())
    exact = _Rule(good, rule.mean, rule.sd)
    if exact.moved > SETTLED * exact.new_sd:
        exact = _settled(good, exact.new_mean, exact.new_sd)
    # What only the rough one has seen is moved by what the good one says at its own nodes.
    known, (places, values) = good.seen(), first.seen()
    shift = np.interp(places, known[0], known[1] - np.array([first.log_evidence(t) for t in known[0]]))
    fresh = ~np.isin(places, known[0])
    places = np.concatenate([known[0], places[fresh]])
    values = np.concatenate([known[1], (values + shift)[fresh]])
    order = np.argsort(places)
    refined = _refined(exact, good, (places[order], values[order]))
    if refined is not exact:
        places, values = np.concatenate([places, refined.t]), np.concatenate([values, refined.log_evidences])
        places, at = np.unique(places, return_index=True)
        return refined.nodes((places, values[at]))
    return exact.nodes((places[order], values[order]))


class _Curve:
    """The log-density of t given the reports, up to a constant; every value is computed once."""

    def __init__(self, mixture, log_evidence):
        self.mixture, self._compute, self._known = mixture, log_evidence, {}

    def log_evidence(self, t):
        """Return the log-evidence at t."""
        if t not in self._known:
            value = float(self._compute(self.mixture.at(self.mixture.value(t))))
            self._known[t] = value if math.isfinite(value) else LEAST
        return self._known[t]

    def __call__(self, t):
        return self.log_evidence(t) - 0.5 * t**2

    def value(self, t):
        """Return the hyperparameter at t."""
        return float(self.mixture.value(t))

    def seen(self):
        """Return (values of t in order, their log-evidences)."""
        places = np.array(sorted(self._known))
        return places, np.array([self._known[float(t)] for t in places])


class _Rule:
    """Gauss–Hermite nodes about a mean with an sd, and the moments of t that they give."""

    def __init__(self, curve, mean, sd, size=NODES):
        x, w = np.polynomial.hermite_e.hermegauss(size)
        if size > NODES:  # far out α is too small for the engines, and the weight next to nothing
            inside = np.abs(mean + sd * x) <= REACH
            x, w = x[inside], w[inside]
        self.mixture, self.mean, self.sd, self.t = curve.mixture, mean, sd, mean + sd * x
        self.log_evidences = np.array([curve.log_evidence(float(t)) for t in self.t])
        log_weight = np.log(w) + self.log_evidences - 0.5 * self.t**2 + 0.5 * x**2
        top = log_weight.max()
        weight = np.exp(log_weight - top)
        self.log_evidence = top + math.log(weight.sum()) + math.log(sd) - 0.5 * math.log(2 * math.pi)
        self.weight = weight / weight.sum()
        self.new_mean = float(self.weight @ self.t)
        self.new_sd = max(math.sqrt(float(self.weight @ (self.t - self.new_mean) ** 2)), NARROWEST)
        self.moved = max(abs(self.new_mean - mean), abs(self.new_sd - sd))

    def nodes(self, seen):
        mixture = self.mixture
        values = mixture.value(self.t)
        priors = tuple(mixture.at(value) for value in values)
        every = mixture.value(seen[0])
        return Nodes(
            mixture, values, priors, self.weight, self.log_evidence, self.log_evidences, every, seen[1], self.error(seen)
        )

    def error(self, seen):
        """Return by how much the log-evidence differs from the integral of the curve through all that was seen."""
        t, log_density = _through(*seen)
        top = log_density.max()
        total = np.trapezoid(np.exp(log_density - top), t)
        return abs(float(top + math.log(total)) - 0.5 * math.log(2 * math.pi) - self.log_evidence)


def _through(places, log_evidences):
    """Return (t, log-density of t up to a constant) on a fine grid, by the spline through known log-evidences."""
    from scipy.interpolate import CubicSpline

    t = np.linspace(places[0] - BEYOND, places[-1] + BEYOND, FINE)
    inside, curve = np.clip(t, places[0], places[-1]), CubicSpline(places, log_evidences)
    return t, curve(inside) + curve(inside, 1) * (t - inside) - 0.5 * t**2


def _refined(rule, curve, seen):
    """Return the rule, or where its error is above OFF one with more nodes, unless that reaches α too small for engines."""
    if rule.error(seen) < OFF:
        return rule
    lowest = max(rule.new_mean + rule.new_sd * float(np.polynomial.hermite_e.hermegauss(MORE)[0].min()), -REACH)
    return _Rule(curve, rule.new_mean, rule.new_sd, MORE) if curve.value(lowest) > SMALLEST else rule


def _about_mode(curve):
    """Return (mode, sd by the curvature) of a curve."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(lambda t: -curve(float(t)), bounds=(-REACH, REACH), method="bounded", options={"xatol": 0.2})
    mean, sd = float(found.x), 0.5
    for _ in range(2):  # the step follows the sd that it finds
        bend = 2 * curve(mean) - curve(mean - sd) - curve(mean + sd)
        sd = min(max(sd / math.sqrt(max(bend, 0.05)), NARROWEST), 1.0)
    return mean, sd


def _settled(curve, mean, sd):
    """Return the rule placed anew until its mean and sd hardly move."""
    for _ in range(MAX_PLACINGS):
        rule = _Rule(curve, mean, sd)
        if rule.moved < SETTLED * rule.new_sd:
            break
        mean, sd = rule.new_mean, rule.new_sd
    return rule
