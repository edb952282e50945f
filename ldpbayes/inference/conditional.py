"""Laplace's approximation at all scales of effects, by a few quadratics of the likelihood.

Unknowns are standard normal under the prior, and effects are multiplied by learnt scales: b = D x. A quadratic of the
log-likelihood, h·b − ½ bᵀAb, makes x given the scales normal with the precision I + D A D and the mean (I + D A D)⁻¹ D h, at
whatever scales. Those about the mode of x at a few places each serve the scales next to them. One Cholesky factor then makes
a draw of x and its density, and weights of draws correct what the quadratics miss.

References
----------
Rue, Martino, Chopin 2009, JRSS B 71.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from ldpbayes.inference.middle import middle
from ldpbayes.inference.nested import DEGREES
from ldpbayes.inference.newton import climb
from ldpbayes.inference.proposals import Mixture, StudentT
from ldpbayes.inference.structure import curvature, positive

#: A mode is close enough where a step gains so few nats.
GAIN = 1e-4
#: Information on a log scale below this counts as this.
LEAST = 0.1
#: Scales at which the prior alone has fallen by so many nats are not looked at.
DEEP = 30.0


class Quadratic(NamedTuple):
    """Of the log-likelihood in b about b̂: constant + slope · b − ½ bᵀ curvature b."""

    place: np.ndarray
    constant: float
    slope: np.ndarray
    curvature: np.ndarray


class Conditional:
    """Coordinates (log scales, v) of unknowns, v nearly standard normal.

    Parameters
    ----------
    target : Target
        With the prior, and ``flat``.
    start : (u,) array, optional
        Where the middle of the posterior is looked for first.
    """

    def __init__(self, target: Any, start: np.ndarray | None = None):
        self.target, self.likelihood = target, replace(target, flat=True)
        self.places = np.array([batch.place for batch in target.batches])
        self.rest, (at, _, information) = target.rest, middle(target, start)
        self.spread = 1 / np.sqrt(np.maximum(information, LEAST))
        owner = np.full(at.size, len(self.places))
        for k, batch in enumerate(target.batches):
            owner[batch.span] = k
        self.owner = owner[self.rest]
        self.quadratics = [self._about(at[self.places], target.numbers(at))]

    def scales(self, log_scales: np.ndarray) -> np.ndarray:
        """Return D at log scales (…, d), shape (…, n): of what is no effect it is one."""
        padded = np.append(log_scales, np.zeros((*log_scales.shape[:-1], 1)), axis=-1)
        return np.exp(np.minimum(padded[..., self.owner], 300.0))

    def log_prior(self, log_scales: np.ndarray) -> np.ndarray:
        """Return the log-density of log scales (…, d), up to a constant."""
        scaled = zip(self.target.batches, np.moveaxis(log_scales, -1, 0), strict=True)
        return sum(x - np.exp(b.power * np.minimum(x - np.log(b.scale), 300.0)) / b.power for b, x in scaled)

    # ---- quadratics ----------------------------------------------------------------------------------------------------
    def _at(self, b):
        """Return the log-likelihood of b and its gradient."""
        z = np.zeros(self.rest.size + self.places.size)
        z[self.rest] = b
        value, slope = self.likelihood.value_and_gradient(z)
        return value, slope[self.rest]

    def _about(self, place, b):
        value, slope = self._at(b)
        bent = positive(curvature(lambda at: self._at(at)[1], b))
        return Quadratic(place, value - slope @ b - 0.5 * b @ bent @ b, slope + bent @ b, bent)

    def expand(self, log_scales: np.ndarray) -> Quadratic:
        """Return the quadratic about the mode of the unknowns given log scales (d,), and keep it for another there."""
        scale, near = self.scales(log_scales), self.quadratics[self.nearest(log_scales[None])[0]]
        factor = cho_factor(np.eye(scale.size) + scale[:, None] * near.curvature * scale)

        def density(x):
            value, slope = self._at(scale * x)
            return value - 0.5 * x @ x, scale * slope - x

        def newton(x, slope):
            step = cho_solve(factor, slope)
            return step, 0.5 * float(slope @ step), None

        x, _, _ = climb(density, newton, cho_solve(factor, scale * near.slope), settled=GAIN)
        others = [form for form in self.quadratics if (form.place != log_scales).any()]  # the first is about no mode
        self.quadratics = [*others, self._about(log_scales, scale * x)]
        return self.quadratics[-1]

    def nearest(self, log_scales: np.ndarray) -> np.ndarray:
        """Return the number of the quadratic whose place is next to each of log scales (S, d)."""
        distance = [((log_scales - quadratic.place) ** 2).sum(axis=1) for quadratic in self.quadratics]
        return np.argmin(distance, axis=0)

    # ---- the scales ----------------------------------------------------------------------------------------------------
    def proposal(self) -> StudentT:
        """Return a split t of the log scales, as wide as their approximate posterior asks for; it adds quadratics."""
        return StudentT(self.quadratics[0].place, np.diag(self.spread)).looking(self.log_evidence)

    def log_evidence(self, log_scales: np.ndarray) -> np.ndarray:
        """Return Laplace's approximation of the log-density of log scales (S, d), each with a quadratic of its own."""
        evidence = self.log_prior(log_scales)
        near = evidence > evidence.max() - DEEP
        evidence[~near] = -np.inf
        for k in np.flatnonzero(near):
            _, constant, slope, bent = self.expand(log_scales[k])
            scale = self.scales(log_scales[k])
            lower = np.linalg.cholesky(np.eye(scale.size) + scale[:, None] * bent * scale)
            along = solve_triangular(lower, scale * slope, lower=True)
            evidence[k] += constant + 0.5 * along @ along - np.log(np.diag(lower)).sum()
        return evidence

    # ---- the unknowns --------------------------------------------------------------------------------------------------
    def of(self, log_scales: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (unknowns (S, u), log |dv/dx|) of log scales (S, d) and v (S, n)."""
        z = np.empty((len(v), self.rest.size + self.places.size))
        z[:, self.places] = log_scales
        x = np.empty_like(v)
        half = self._given(log_scales, v, x, False)
        z[:, self.rest] = x
        return z, half

    def back(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (log scales, v, log |dv/dx|) of unknowns (S, u)."""
        log_scales, x = np.ascontiguousarray(z[:, self.places]), np.ascontiguousarray(z[:, self.rest])
        v = np.empty_like(x)
        return log_scales, v, self._given(log_scales, v, x, True)

    def _given(self, log_scales, v, x, back):
        from ldpbayes.inference import _kernels

        half, quadratics = np.empty(len(v)), self.quadratics
        forms = np.array([q.curvature for q in quadratics]), np.array([q.slope for q in quadratics])
        _kernels.given_scales(self.nearest(log_scales), self.scales(log_scales), *forms, v, x, back, half)
        return half


@dataclass(frozen=True, eq=False)
class Given:
    """A proposal of the log scales, and a t of everything else given these.

    Attributes
    ----------
    scales : StudentT or Mixture
    conditional : Conditional
    """

    scales: StudentT | Mixture
    conditional: Conditional

    @property
    def _rest(self):
        n = self.conditional.rest.size
        return StudentT(np.zeros(n), np.eye(n), max(DEGREES[0], DEGREES[1] * n))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        log_scales, log_density = self.scales.draw(size, rng)
        v, of_rest = self._rest.draw(size, rng)
        z, half = self.conditional.of(log_scales, v)
        return z, log_density + of_rest + half

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        log_scales, v, half = self.conditional.back(z)
        return self.scales.log_density(log_scales) + self._rest.log_density(v) + half
