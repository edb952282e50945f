"""Quadrature nodes in the hyperparameter of a mixture of Dirichlet priors, placed by the evidence of the reports."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, softmax

from ldpbayes.priors import Dirichlet, Learnt

#: Nodes of the trapezoid rule in t ~ N(0, 1); the first ones reach so far out, and no others farther than the second number.
NODES, REACH, FARTHEST = 13, 5.0, 8.0
#: The rule is placed anew, in at most so many rounds, until the density is within e^−DROP of its largest at INSIDE steps.
ROUNDS, DROP, INSIDE = 6, 10.0, 8
#: Nodes with less weight are left out.
LIGHT = 1e-5
#: Prior sds beyond the nodes in which the log-evidence goes on in a straight line; points of the curve through the nodes.
BEYOND, FINE = 3.0, 4001
#: Least sd of t, and what a log-evidence that cannot be computed counts as.
NARROWEST, LEAST = 0.01, -1e300

#: t (k, n) and the indices of their integrands → log-evidences and their errors, (k, n).
LogEvidences = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Any]]


@dataclass(frozen=True, eq=False)
class Nodes:
    """A mixture of conjugate priors as it matters under a likelihood: quadrature nodes with their posterior weights.

    Attributes
    ----------
    mixture : Learnt or None
        None of one Dirichlet prior.
    values : (k,) array
        The hyperparameter at each node, in order of t.
    priors : tuple of Dirichlet
        The conjugate prior at each node.
    weights : (k,) array
        Posterior weights of the nodes; they sum to one.
    log_evidence : float
        log ∫ (evidence given the hyperparameter) × (its prior).
    log_evidences : (k,) array
        The log-evidence given each node.
    error : float
        Of log_evidence by the rule.
    noise : (k,) array or 0
        Monte Carlo errors of log_evidences, where draws mend them.
    """

    mixture: Learnt
    values: np.ndarray
    priors: tuple[Dirichlet, ...]
    weights: np.ndarray
    log_evidence: float
    log_evidences: np.ndarray
    error: float
    noise: Any = 0.0

    @classmethod
    def alone(cls, prior: Dirichlet, log_evidence: float = math.nan) -> "Nodes":
        """Return the one node that a Dirichlet prior is."""
        certain = np.ones(1)
        nothing: Any = None  # is mixed
        return cls(nothing, certain, (prior,), certain, log_evidence, log_evidence * certain, 0.0)

    @property
    def t(self) -> np.ndarray:
        """The nodes."""
        return self.values if self.mixture is None else self.mixture.coordinate(self.values)

    @property
    def sd(self) -> float:
        """Posterior sd of t."""
        return max(math.sqrt(float(self.weights @ (self.t - self.weights @ self.t) ** 2)), NARROWEST)

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the hyperparameter; the log-evidence is interpolated between the nodes."""
        from scipy.interpolate import CubicSpline

        first, *_, last = places = self.t
        t = np.linspace(first - BEYOND, last + BEYOND, FINE)
        inside, curve = np.clip(t, first, last), CubicSpline(places, self.log_evidences)
        log_density = curve(inside) + curve(inside, 1) * (t - inside) - 0.5 * t**2
        density = np.exp(log_density - log_density.max())
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
        return self.mixture.alpha(np.interp(np.asarray(levels) * cdf[-1], cdf, t))


def place(
    mixture: Learnt,
    log_evidence: Callable[[Dirichlet], float],
    rough: Callable[[Dirichlet], float] | None = None,
    near: Nodes | None = None,
) -> Nodes:
    """Return the nodes of a mixture.

    Parameters
    ----------
    mixture : Learnt
    log_evidence : callable
        The log-evidence of the reports under a Dirichlet prior.
    rough : callable, optional
        A faster one, accurate to some hundredths, for placing the nodes.
    near : Nodes, optional
        Of a log-evidence that differs little: the search starts there.
    """

    def along(point):
        return lambda t, _: (np.array([[float(point(mixture.given(value))) for value in mixture.alpha(t[0])]]), 0.0)

    ends = np.array((-REACH, REACH) if near is None else near.t[[0, -1]])
    ends += np.array([-0.5, 0.5]) * (ends[0] == ends[1])  # of a single node, where reports leave one value
    good = along(log_evidence)
    (t, value, weight), total, error = integrated(good, good if rough is None else along(rough), *np.reshape(ends, (2, 1)))
    heavy = weight[0] > LIGHT
    values, weights = mixture.alpha(t[0, heavy]), weight[0, heavy]
    priors = tuple(mixture.given(value_of) for value_of in values)
    return Nodes(mixture, values, priors, weights / weights.sum(), float(total[0]), value[0, heavy], float(error[0]))


def integrated(log_evidence: LogEvidences, rough: LogEvidences, low: np.ndarray, high: np.ndarray) -> tuple:
    """Return ((t, log-evidences, weights), three (k, NODES) arrays, log ∫ of evidence × N(t; 0, 1), its error, both (k,)).

    The trapezoid rule between the ends that a look at the whole range shows; where these are far apart, between those that
    it shows itself. For smooth densities that die out, twice the nodes square its error, so that this is the square of what
    half of the nodes change; the mean error of the evidences and what lies beyond the ends add to it.

    Parameters
    ----------
    log_evidence, rough : LogEvidences
        The second places the nodes.
    low, high : (k,) arrays
        The first ends.
    """
    k = low.size
    every, (t, value, off) = np.arange(k), np.zeros((3, k, NODES))
    for _ in range(ROUNDS):
        t[every] = np.linspace(low[every], high[every], NODES, axis=1)
        value[every], off[every] = _finite(*rough(t[every], every))
        low[every], high[every], moved = _ends(t[every], value[every] - 0.5 * t[every] ** 2)
        every = every[moved]
        if not every.size:
            break
    if rough is not log_evidence:
        value, off = _finite(*log_evidence(t, np.arange(k)))
    log_density = value - 0.5 * t**2
    totals = [logsumexp(log_density[:, ::step], axis=1) + np.log(t[:, step] - t[:, 0]) for step in (1, 2)]
    weight = softmax(log_density, axis=1)
    error = (weight * off).sum(axis=1) + (totals[0] - totals[1]) ** 2 + 2 * ndtr(-math.sqrt(2 * DROP))
    return (t, value, weight), totals[0] - 0.5 * math.log(2 * math.pi), error


def _finite(value, error):
    """Return log-evidences and their errors, those that are not known as ones without weight."""
    return np.where(np.isfinite(value), value, LEAST), error


def _ends(t, log_density):
    """Return (low, high, whether the rule is to be placed there): the nodes next to those within DROP of the top."""
    k, inside = np.arange(len(t)), log_density > log_density.max(axis=1, keepdims=True) - DROP
    first, last = inside.argmax(axis=1), NODES - 1 - inside[:, ::-1].argmax(axis=1)
    step = t[:, 1] - t[:, 0]
    low, high = np.maximum(t[k, first] - step, -FARTHEST), np.minimum(t[k, last] + step, FARTHEST)
    cut = (inside[:, 0] & (low < t[:, 0])) | (inside[:, -1] & (high > t[:, -1]))
    return low, high, cut | (last - first < INSIDE)
