"""Random walks over ordered categories: coordinates that a filter makes, O(a) a step, and the evidence."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, polygamma, softmax

from ldpbayes.inference import sampling
from ldpbayes.inference.effects import LENGTHS
from ldpbayes.inference.nested import annealed
from ldpbayes.methods.forms import Forms


def operations(problem, written):
    """Return the operations of a draw, where a gradient visits at most ``written`` entries of rows."""
    entries = 0 if problem.separable is not None else problem.entries
    return 20 * (500 + 40 * problem.n_categories + (entries if entries <= written else 0))


def unknowns_near(form, law, number, rng):
    """Return draws (number, u) of the prior's unknowns that are normal in coordinates about the mode."""
    density = Filtered.about(form, law)
    return density.unknowns(density.of(rng.standard_normal((number, density.size))))


class Walks:
    """Chains in coordinates of a random walk that trajectories have settled.

    Parameters
    ----------
    form : Forms
        Form of the likelihood.
    law : Smooth
        The prior.
    number : int
        Number of chains.
    rng : numpy.random.Generator
    """

    def __init__(self, form: Forms, law: Any, number: int, rng: np.random.Generator):
        density = Filtered.about(form, law)
        at = [0.5 * chain_rng.standard_normal(density.size) for chain_rng in rng.spawn(number)]
        self.density, self.at, self.steps, _ = sampling.tuned_coordinates(density, at, 8, rng)

    def by_hmc(self, rng: np.random.Generator, watch: Any, going: sampling.Going) -> sampling.Run:
        """Return the Run of Hamiltonian Monte Carlo, whose z are unknowns of the prior."""

        def in_prior(more):
            def made(number):
                run = more(number)
                return run._replace(z=self.density.unknowns(run.z))

            return going(made)

        return sampling.by_hmc(self.density, self.at, self.steps, rng, watch, in_prior)


@dataclass(frozen=True, eq=False)
class Filtered:
    """The posterior density of log σ, log τ, the logs of the weights of the steps, walk and η, in coordinates.

    Given σ, τ and the weights, walk and η are normal under the prior and pseudo-reports: for each category a mean of η and
    its precision, at the curvature of the log-likelihood. Their coordinates are standard normal there, whatever σ, τ and
    the weights are; see _walk_kernels.place.

    Attributes
    ----------
    form : Forms
    law : Walk
    middle, spread : (a + 1,) arrays
        Middle and spread of log σ, log τ and the logs of the weights.
    slant : float
        Slope of log τ along the coordinate of log σ.
    mean, precision : (a,) arrays
        The pseudo-reports.

    Notes
    -----
    Bank: half and double of one number show nothing, for draws take the place of where they begin; of all numbers of this
    file together, doubled, six of six problems are lost.
    """

    form: Forms
    law: Any
    middle: np.ndarray
    spread: np.ndarray
    slant: float
    mean: np.ndarray
    precision: np.ndarray

    @classmethod
    def about(cls, form, law):
        """Return the density in coordinates about the mode at usual scales and weights."""
        a, shape = form.arrays[0].shape[1], 0.5 * law.degrees + 0.5  # of weights, given steps
        middle = np.full(a + 1, digamma(shape) - math.log(shape))
        spread = np.full(a + 1, math.sqrt(polygamma(1, shape)))
        middle[:2], spread[:2] = np.log([0.4 / law.rate, 0.4 * law.local]), 0.3
        eta = np.full(a, -math.log(a))  # normalized, here and below
        density = cls(form, law, middle, spread, 0.0, eta, np.ones(a))
        for step in range(1, 33):  # towards the mode, where Newton's steps alone would turn round for ever
            density = density.informed(eta[None], 1.0)
            moved = density.of(np.zeros(density.size))[2 * a + 1 :]
            longest = 3.0 / step
            eta = eta + np.clip(moved - logsumexp(moved) - eta, -longest, longest)
        return density

    @property
    def log_constant(self):
        """Log of what the density leaves out of the ratio of prior and likelihood to a standard normal density."""
        law, a, shape = self.law, self.mean.size, 0.5 * self.law.degrees
        logs = np.log(self.spread).sum() + math.log(law.rate / law.local)
        weights = (a - 1) * (shape * math.log(shape) - gammaln(shape))
        return logs + weights + 0.5 * (a + 1) * math.log(2 * math.pi) + 0.5 * math.log(self.precision.sum())

    @property
    def size(self):
        """Number of coordinates."""
        return 3 * self.mean.size + 1

    @property
    def frame(self):
        """What compiled functions read of the coordinates."""
        return self.middle, self.spread, self.slant, self.precision, self.mean

    @property
    def pair(self):
        """The maps u → (log-density, gradient), and what moves a chain along trajectories; see inference.hmc.sampled."""
        from ldpbayes.methods import _walk_kernels

        def value_and_gradient(u):
            (value,), (slope,) = self.values_and_gradients(u[None])
            return value, slope

        return value_and_gradient, lambda *along: _walk_kernels.trajectories(*along, *self._arguments), LENGTHS.turn

    def values_and_gradients(self, u):
        """Return the log-densities of coordinates (S, u), shape (S,), and their gradients (S, u)."""
        from ldpbayes.methods import _walk_kernels

        values, slopes = np.empty(len(u)), np.empty(u.shape)
        _walk_kernels.densities(np.ascontiguousarray(u), values, slopes, *self._arguments)
        return values, slopes

    @cached_property
    def _arguments(self):
        """What compiled functions take beside the coordinates."""
        rates = np.array([self.law.rate, 1 / self.law.local]), float(self.law.degrees)
        return self.frame, rates, (_room(self.mean.size), np.empty(self.size)), self.form.arrays

    def of(self, u):
        """Return the unknowns of coordinates, shape (…, u)."""
        from ldpbayes.methods import _walk_kernels

        flat = np.ascontiguousarray(u.reshape(-1, self.size))
        z = np.empty_like(flat)
        _walk_kernels.places(flat, z, self.frame, _room(self.mean.size))
        return z.reshape(u.shape)

    def back(self, z):
        """Return the coordinates of unknowns, shape (…, u)."""
        return np.stack([self._back(row) for row in z.reshape(-1, self.size)]).reshape(z.shape)

    def _back(self, z):
        from ldpbayes.methods import _walk_kernels

        a, room, u = self.mean.size, _room(self.mean.size), np.zeros(self.size)
        u[: a + 1] = (z[: a + 1] - self.middle) / self.spread
        u[1] -= self.slant * u[0] / self.spread[1]
        _walk_kernels.place(u, np.empty(self.size), self.frame, room)
        _, _, flow, narrow, share = room
        walk, eta, tight = z[a + 1 : 2 * a + 1], z[2 * a + 1 :], math.exp(-2 * z[1])
        u[a + 1 : 2 * a + 1] = (walk - share * np.append(walk[1:], 0.0) - flow * narrow) / np.sqrt(narrow)
        precision = tight + self.precision
        u[2 * a + 1 :] = (eta - (tight * walk + self.precision * self.mean) / precision) * np.sqrt(precision)
        return u

    def anew(self, u):
        """Return the same density about the draws (S, u); about chains that stand, only its pseudo-reports are new."""
        a, z, number = self.mean.size, self.of(u), len(u)
        if not np.ptp(u, axis=0).any():  # all were refused: what has no spread says nothing of scales
            return self.informed(z[:1, 2 * a + 1 :], 0.1)
        logs = z[:, : a + 1]
        spread = logs.std(axis=0)
        lower = np.linalg.cholesky(np.cov(logs[:, :2].T) + 0.3**2 / number * np.eye(2))
        spread[:2] = np.diag(lower)
        density = replace(self, middle=logs.mean(axis=0), spread=spread, slant=lower[1, 0])
        return density.informed(z[:: max(number // 60, 1), 2 * a + 1 :], 0.1)

    def informed(self, eta, least):
        """Return the same density with pseudo-reports that say of η what the reports say near draws of it (S, a).

        The curvature is at least a share of what is never negative.

        Precisions are harmonic means over the draws: where reports only bound a share from above, its logit has a long tail
        in which they say nothing, and pseudo-reports that did would keep chains from it.
        """
        slopes = np.array([of_logits(self.form, point)[1] for point in eta])
        straight = np.array([p**2 * self.form.curvature(p) for p in softmax(eta, axis=1)])
        a, eta, bends = (
            eta.shape[1],
            eta - logsumexp(eta, axis=1, keepdims=True),
            np.maximum(straight - slopes, least * straight),
        )
        precision = 1 / (1 / (bends + 1e-300)).mean(axis=0)
        precision = np.maximum(precision, least / a)  # there is some, so that the level of η is known
        shift = np.clip(slopes.mean(axis=0) / precision, -3.0, 3.0)
        return replace(self, mean=eta.mean(axis=0) + shift, precision=precision)

    def unknowns(self, z):
        """Return the unknowns of the prior at unknowns of this density, shape (…, 2a + 1)."""
        a = self.mean.size
        scales, walk, eta = z[..., :2], z[..., a + 1 : 2 * a + 1], z[..., 2 * a + 1 :]
        logs = scales + np.log([self.law.rate, 1 / self.law.local])
        sigma, tau = np.exp(scales[..., :1]), np.exp(scales[..., 1:])
        return np.concatenate([logs, np.diff(walk, axis=-1) / sigma, (eta - walk) / tau], axis=-1)


def of_logits(form, eta):
    """Return the log-likelihood at η (a,) by a form, and its gradient."""
    from ldpbayes.inference import _kernels

    slope = np.empty((1, eta.size))
    value, product = _kernels.of_logits(0, eta[None], slope, form.arrays, 0.0, 1.0)
    return value + math.log(product), slope[0]


def _room(a):
    return tuple(np.empty(a) for _ in range(5))


def log_evidence(problem, form, rng):
    """Return (log P(Y) under a random-walk prior, its standard error), by annealed importance sampling.

    In the coordinates of its draws the posterior is nearly standard normal: particles move from the standard normal law to
    it. The error is the standard error of their mean weight.

    Parameters
    ----------
    problem : Problem
    form : Forms
        Form of its likelihood.
    rng : numpy.random.Generator
    """
    density = Walks(form, problem.prior, 1, rng).density
    particles, a = 300, density.mean.size  # for errors of a tenth of a nat
    path = []

    def ratio(u):
        values, slopes = density.values_and_gradients(u)
        return values + 0.5 * (u**2).sum(axis=1), slopes + u

    with np.errstate(all="ignore"):  # a trajectory that leaves the posterior may overflow
        annealed(ratio, density.size, path, 0.97, particles // 4, rng)
        u, log_weight = annealed(ratio, density.size, path, 0.0, particles, rng)
    eta = density.of(u)[:, 2 * a + 1 :]
    # What the form leaves out is a constant, the same at every draw, except where it is an expansion.
    inside = [of_logits(form, point)[0] for point in eta]
    log_weight += problem.rows.log_likelihood(np.ascontiguousarray(softmax(eta, axis=1).T)) - inside
    weight = np.exp(log_weight - log_weight.max())
    evidence = log_weight.max() + math.log(weight.mean()) + density.log_constant
    return float(evidence), float(weight.std() / weight.mean() / math.sqrt(particles))
