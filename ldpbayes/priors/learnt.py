"""A symmetric Dirichlet whose concentration is learnt from the reports: how uneven is this population?"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import digamma, gammaln, log_expit

from ldpbayes import checks
from ldpbayes.compiling import model_data
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import AbstractMixture, AbstractPrior, Nodes
from ldpbayes.priors.dirichlet import Dirichlet, sticks

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

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


@dataclass(frozen=True)
class Learnt(AbstractPrior):
    """P | α ~ Dirichlet(α, …, α) with log α ~ N(log median, sd²), integrated over.

    Parameters
    ----------
    median : float
        Median of α a priori; ½ is Jeffreys.
    sd : float
        Prior standard deviation of log α.
    n_categories : int, optional
        Filled in by the collection.

    Notes
    -----
    The unknowns are t = (log α − log median)/sd and the sticks of Dirichlet(α). A flat prior of log α would be harmful:
    where the reports say little, it puts weight on values of α for which one category has everything.
    """

    median: float = 0.5
    sd: float = 1.0
    n_categories: int | None = None

    def __post_init__(self):
        for name in ("median", "sd"):
            object.__setattr__(self, name, checks.positive(getattr(self, name), name))
        if not (1e-3 <= self.median <= 1e3 and self.sd <= 3):
            raise ArgumentError(f"median must be from 0.001 to 1000 and sd at most 3, got {self.median:g} and {self.sd:g}.")
        if self.n_categories is not None:
            object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], "Learnt"]]:
        return {"learnt": lambda n_categories: cls(n_categories=n_categories)}

    @property
    def n_unknowns(self) -> int:
        return self.n_categories

    def alpha(self, t):
        """Return α at t prior standard deviations of log α above its median."""
        return self.median * np.exp(self.sd * np.asarray(t, dtype=float))

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        shape = self.alpha(rng.standard_normal(size))[:, None]
        # Gamma(α) = Gamma(α + 1) U^(1/α), in logs: a small α underflows otherwise.
        log_gamma = np.log(rng.standard_gamma(np.broadcast_to(shape + 1, (size, self.n_categories))))
        log_gamma += np.log(rng.random((size, self.n_categories))) / shape
        p = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        alpha, count = self.alpha(z[..., 0]), self._after
        logit = z[..., 1:] - np.log(count)
        taken, rest = log_expit(logit).sum(axis=-1), log_expit(-logit) @ count
        a = self.n_categories
        constant = gammaln(a * alpha) - a * gammaln(alpha)
        return constant + alpha * (taken + rest) - 0.5 * z[..., 0] ** 2 - 0.5 * math.log(2 * math.pi)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        alpha, count, a = float(self.alpha(z[0])), self._after, self.n_categories
        logit = z[1:] - np.log(count)
        share = np.exp(log_expit(logit))
        slope = a * digamma(a * alpha) - a * digamma(alpha) + log_expit(logit).sum() + log_expit(-logit) @ count
        return np.concatenate([[self.sd * alpha * slope - z[0]], alpha * (1 - share) - alpha * count * share])

    @property
    def _after(self):
        """Return the number of categories after each stick, shape (a − 1,)."""
        return np.arange(self.n_categories - 1, 0, -1.0)

    @property
    def _sticks(self):
        return Dirichlet.flat(self.n_categories)  # the map from sticks to P does not depend on α

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        return self._sticks.to_simplex(np.asarray(z, dtype=float)[..., 1:])

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], self._sticks.pullback(z[1:], dp)])

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return {"alpha": self.alpha(z[..., 0])}

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        t = pm.Normal(f"{name}_t", 0.0, 1.0)
        alpha = pm.Deterministic("alpha", self.median * pt.exp(self.sd * t))
        after = model_data(f"{name}_categories_after", self._after)
        # α stays above what a logit of float64 can express; the prior gives less than 1e-9 of its mass there.
        floor = pt.maximum(alpha, 1e-3)
        return sticks(name, floor + 0 * after, floor * after, self.n_categories)

    def describe(self) -> str:
        return f"learnt, symmetric Dirichlet with log alpha ~ N(log {self.median:g}, {self.sd:g}²)"

    def to_dict(self) -> dict[str, np.ndarray]:
        return {"median": np.array(self.median), "sd": np.array(self.sd)}

    def mixture(self) -> "Concentration":
        return Concentration(self)


@dataclass(frozen=True, eq=False)
class Concentration(AbstractMixture):
    """The mixture of symmetric Dirichlet priors over t = (log α − log median)/sd ~ N(0, 1)."""

    prior: Learnt
    parameter: ClassVar[str] = "alpha"

    def at(self, value: float) -> Dirichlet:
        return Dirichlet(np.full(self.prior.n_categories, float(value)))

    def nodes(
        self,
        log_evidence: Callable[[Dirichlet], float],
        rough: Callable[[Dirichlet], float] | None = None,
        near: Nodes | None = None,
    ) -> Nodes:
        """Return Gauss–Hermite nodes in log α about the posterior's mean, with its sd.

        The first rule stands about the mode with the curvature's sd; its mean and sd place the next. A rough log-evidence
        places the rule, and the good one weighs its nodes.
        """
        good = _Curve(self, log_evidence)
        first = good if rough is None else _Curve(self, rough)
        rule = _settled(first, *(_about_mode(first) if near is None else self._moments(near)))
        if rough is None:
            return _refined(rule, good, good.seen()).nodes(self, good.seen())
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
            return refined.nodes(self, (places, values[at]))
        return exact.nodes(self, (places[order], values[order]))

    def _moments(self, nodes):
        """Return the posterior mean and sd of t that nodes give."""
        t = (np.log(nodes.values) - math.log(self.prior.median)) / self.prior.sd
        mean = float(nodes.weights @ t)
        return mean, max(math.sqrt(float(nodes.weights @ (t - mean) ** 2)), NARROWEST)

    def quantile(self, nodes: Nodes, levels: np.ndarray) -> np.ndarray:
        """Return posterior quantiles of α; between the values looked at, the log-evidence is interpolated."""
        seen = (np.log(nodes.seen) - math.log(self.prior.median)) / self.prior.sd
        t, log_density = _through(seen, nodes.seen_log_evidences)
        density = np.exp(log_density - log_density.max())
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
        return self.prior.alpha(np.interp(np.asarray(levels) * cdf[-1], cdf, t))


class _Curve:
    """The log-density of t given the reports, up to a constant; every value is computed once."""

    def __init__(self, mixture, log_evidence):
        self._mixture, self._compute, self._known = mixture, log_evidence, {}

    def log_evidence(self, t):
        """Return the log-evidence at t."""
        if t not in self._known:
            value = float(self._compute(self._mixture.at(self._mixture.prior.alpha(t))))
            self._known[t] = value if math.isfinite(value) else LEAST
        return self._known[t]

    def __call__(self, t):
        return self.log_evidence(t) - 0.5 * t**2

    def alpha(self, t):
        """Return α at t."""
        return float(self._mixture.prior.alpha(t))

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
        self.mean, self.sd, self.t = mean, sd, mean + sd * x
        self.log_evidences = np.array([curve.log_evidence(float(t)) for t in self.t])
        log_weight = np.log(w) + self.log_evidences - 0.5 * self.t**2 + 0.5 * x**2
        top = log_weight.max()
        weight = np.exp(log_weight - top)
        self.log_evidence = top + math.log(weight.sum()) + math.log(sd) - 0.5 * math.log(2 * math.pi)
        self.weight = weight / weight.sum()
        self.new_mean = float(self.weight @ self.t)
        self.new_sd = max(math.sqrt(float(self.weight @ (self.t - self.new_mean) ** 2)), NARROWEST)
        self.moved = max(abs(self.new_mean - mean), abs(self.new_sd - sd))

    def nodes(self, mixture, seen):
        values = mixture.prior.alpha(self.t)
        priors = tuple(mixture.at(value) for value in values)
        every = mixture.prior.alpha(seen[0])
        return Nodes(values, priors, self.weight, self.log_evidence, self.log_evidences, every, seen[1], self.error(seen))

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
    return _Rule(curve, rule.new_mean, rule.new_sd, MORE) if curve.alpha(lowest) > SMALLEST else rule


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
