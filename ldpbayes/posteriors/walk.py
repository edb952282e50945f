"""Random walks over ordered categories: Hamiltonian Monte Carlo in filtered coordinates, O(a) a step, for any protocol."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, polygamma, softmax

from ldpbayes.inference import sampling, verdict
from ldpbayes.inference.diagnostics import verdict_on
from ldpbayes.inference.nested import annealed
from ldpbayes.posteriors import expanded
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample, Watch, whole
from ldpbayes.posteriors.forms import Forms, StandIn, expand, log_weights, reweighed

#: Dense rows with at most this many entries (rows × categories) are used as they are; more are expanded at a pilot.
MAX_ENTRIES = 20_000
#: Expansions of the likelihood at the posterior mean of a short run.
PILOTS = 2
#: Fewest rounds of trajectories that settle the coordinates, and the angle of a trajectory with its jitter: weights of steps
#: have long tails, in which a right angle leads too short a way.
ROUNDS, TURN = 5, (0.75 * math.pi, 0.1)
#: Scales at first, as a share of their prior mean, the spread of their logs, and steps towards the mode at these scales: no
#: category moves by more than FARTHEST nats at first, and by ever less where steps would turn round for ever.
USUAL, FIRST_SPREAD, NEWTON, SHORTER = 0.4, 0.3, 32, 0.75
#: Draws that the curvature of the log-likelihood is looked at for; the share of its part that is never negative, and that of
#: its mean over draws, which it is at least.
LOOKED, SURE, LEAST = 60, 0.1, 0.02
#: Pseudo-reports are no further from the mean of η, in nats, and the sum of their precisions is at least this.
FARTHEST, FEWEST = 3.0, 0.2
#: Variances of the logs of weights are drawn to one by so many draws.
DRAWN_TO_ONE = 50
#: The most and the fewest particles that tell the evidence, times categories that all of them may visit, and the share of
#: the effective ones that is kept at a step of their way; as many draws take about as long.
PARTICLES, VISITED, KEPT_EFFECTIVE, EVIDENCE = (300, 80), 1e5, 0.97, 4000
#: Gradients of a draw; operations of a gradient, and its parts per category.
GRADIENTS, GRADIENT, PER_CATEGORY = 20, 500, 40


@dataclass(frozen=True)
class RandomWalk(AbstractPosterior):
    """Posterior under a random walk over ordered categories, such as ``smooth``; any protocol, O(a) a step.

    Separable reports and small tables of rows are used as they are. The log-likelihood of other reports is expanded at the
    posterior mean of a short run, as Surrogate does, and the draws are weighted by the true likelihood.

    Parameters
    ----------
    draws : int
        Draws kept, per chain.
    chains : int
    tune : int
        Draws discarded, per chain: they settle the coordinates.
    thin : int
        Chains whose draws are too few become up to so many times as long, or longer where few draws are asked for, and keep
        draws at equal distances.

    Notes
    -----
    See docs/theory/priors.md.
    """

    draws: int = 1000
    chains: int = 4
    tune: int = 500
    thin: int = 5
    name: ClassVar[str] = "walk"
    order: ClassVar[float] = 21.5
    most: ClassVar[float] = 8e9
    pace: ClassVar[Pace] = Pace(0.2, 0.0, 1.2e-9)
    needs: ClassVar[tuple[str, ...]] = ()
    checked: ClassVar[Mapping] = {"tune": whole(50), "thin": whole(1)}

    def prepare(self, problem):
        if problem.prior.walk() is None:
            return Refusal("The method walk is for random walks over ordered categories, such as the prior smooth.")
        return Plan(
            "The prior is a random walk over ordered categories, which banded matrices handle fast.",
            work(problem, self.chains * (self.draws + self.tune)),
            problem,
        )

    def run(self, plan, rng, watch):
        problem = plan.state
        form = form_of(problem, rng)
        run = run_chains(form, problem.prior.walk(), self, rng, watch)
        draws, scales = shares(run.z), np.exp(run.z[..., :2])
        sample = Sample(
            draws,
            independent=False,
            verdict=verdict.refused(run.trouble) if run.trouble else verdict.ACCEPTED,
            stats=run.stats,
            facts=run.facts,
            hyperparameters={"sigma": scales[..., 0], "tau": scales[..., 1]},
        )
        if not form.expanded.any() or run.trouble:
            return sample
        summary = StandIn(*(array[0] for array in form.arrays[:2]))
        logs = log_weights((problem.likelihood,), (summary,), draws.reshape(-1, 1, draws.shape[-1]))
        return reweighed(sample, logs[:, 0], rng)[0]


def work(problem, draws):
    """Return the operations of so many draws."""
    a = problem.n_categories
    entries = 0 if problem.separable is not None else problem.entries
    return draws * GRADIENTS * (GRADIENT + PER_CATEGORY * a + (entries if entries <= MAX_ENTRIES else 0))


def form_of(problem, rng):
    """Return the Forms of the likelihood: the reports, or their expansion at the posterior mean of a short run.

    Parameters
    ----------
    problem : Problem
    rng : numpy.random.Generator
    """
    a, likelihoods = problem.n_categories, (problem.likelihood,)
    if not problem.keeps_reports or problem.separable is not None or problem.rows.n_rows * a <= MAX_ENTRIES or a < 3:
        return Forms.of(likelihoods)
    engine, _ = expanded.expand(problem.rows, np.full(a, 0.5), 3)
    mean, spread = engine.saddle_moments()[0], engine.factor_variance
    for pilot in range(PILOTS + 1):
        form = Forms.of(likelihoods, expand(likelihoods, [mean], [spread]))
        if pilot < PILOTS:
            p = shares(settled(form, problem.prior.walk(), RandomWalk(chains=1), rng)[3])
            mean, spread = p.mean(axis=0), p.var(axis=0)
    return form


def run_chains(form, law, method, rng, watch=None):
    """Return the Run of the posterior under one form of the likelihood: chains that go on while their draws are too few.

    Parameters
    ----------
    form : Forms
    law : Walk
    method : RandomWalk
    rng : numpy.random.Generator
    watch : Watch, optional
    """
    watch, size = watch or Watch(), method.draws * method.chains
    longest = method.thin * method.draws * max(verdict.USUAL / size, 1.0)

    def wanting(run, made):
        return 2 * made <= longest and verdict_on(shares(run.z), 0, size).next == "more"

    def going(more):
        return sampling.going_on(more, wanting, method.draws, watch, thin=True)

    density, at, steps, _ = settled(form, law, method, rng)
    return sampling.by_hmc(density, at, steps, rng, watch, going)


def settled(form, law, method, rng):
    """Return (Filtered, where the chains are in it, steps of a trajectory, unknowns (S, u) of a short run)."""
    density = Filtered.about(form, law)
    at = [0.5 * chain_rng.standard_normal(density.size) for chain_rng in rng.spawn(method.chains)]
    rounds = max(method.tune * method.chains // sampling.PILOT, ROUNDS)
    return sampling.settled(density, at, rounds, rng)


def shares(z):
    """Return P of unknowns, (…, 3a + 1)."""
    return softmax(z[..., 2 * z.shape[-1] // 3 + 1 :], axis=-1)


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
        Of log σ, log τ and the logs of the weights.
    slant : float
        Of log τ along the coordinate of log σ.
    mean, precision : (a,) arrays
        The pseudo-reports.
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
        middle[:2], spread[:2] = np.log([USUAL / law.rate, USUAL * law.local]), FIRST_SPREAD
        eta = np.full(a, -math.log(a))  # normalized, here and below
        for longest in FARTHEST * SHORTER ** np.arange(NEWTON):
            density = cls(form, law, middle, spread, 0.0, *pseudo_reports(form, eta[None], 1.0))
            moved = density.of(np.zeros(density.size))[2 * a + 1 :]
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
        from ldpbayes.posteriors import _walk_kernels

        def value_and_gradient(u):
            (value,), (slope,) = self.values_and_gradients(u[None])
            return value, slope

        return value_and_gradient, lambda *along: _walk_kernels.trajectories(*along, *self._arguments), TURN

    def values_and_gradients(self, u):
        """Return the log-densities of coordinates (S, u), shape (S,), and their gradients (S, u)."""
        from ldpbayes.posteriors import _walk_kernels

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
        from ldpbayes.posteriors import _walk_kernels

        flat = np.ascontiguousarray(u.reshape(-1, self.size))
        z = np.empty_like(flat)
        _walk_kernels.places(flat, z, self.frame, _room(self.mean.size))
        return z.reshape(u.shape)

    def back(self, z):
        """Return the coordinates of unknowns, shape (…, u)."""
        return np.stack([self._back(row) for row in z.reshape(-1, self.size)]).reshape(z.shape)

    def _back(self, z):
        from ldpbayes.posteriors import _walk_kernels

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
        """Return the same density about the draws (S, u)."""
        a, z, number = self.mean.size, self.of(u), len(u)
        logs = z[:, : a + 1]
        spread = np.sqrt((number * logs.var(axis=0) + DRAWN_TO_ONE) / (number + DRAWN_TO_ONE))
        lower = np.linalg.cholesky(np.cov(logs[:, :2].T) + FIRST_SPREAD**2 / number * np.eye(2))
        spread[:2] = np.diag(lower)
        eta = z[:: max(number // LOOKED, 1), 2 * a + 1 :]
        mean, precision = pseudo_reports(self.form, eta)
        return replace(self, middle=logs.mean(axis=0), spread=spread, slant=lower[1, 0], mean=mean, precision=precision)


def pseudo_reports(form, eta, sure=SURE):
    """Return what the reports say of η near draws of it (S, a), as normal ones would: a mean and its precision, (a,) each.

    The curvature is at least a share of what is never negative.

    Precisions are harmonic means over the draws: where reports only bound a share from above, its logit has a long tail in
    which they say nothing, and pseudo-reports that did would keep chains from it.
    """
    slopes = np.array([of_logits(form, point)[1] for point in eta])
    straight = np.array([p**2 * form.curvature(p) for p in softmax(eta, axis=1)])
    a, eta, bends = eta.shape[1], eta - logsumexp(eta, axis=1, keepdims=True), np.maximum(straight - slopes, sure * straight)
    precision = 1 / (1 / (bends + LEAST * bends.mean(axis=0) + 1e-300)).mean(axis=0)
    precision = np.maximum(precision, FEWEST / a)
    middle = eta.mean(axis=0)
    return middle + np.clip(slopes.mean(axis=0) / precision, -FARTHEST, FARTHEST), precision


def of_logits(form, eta):
    """Return the log-likelihood at η (a,) by a form, and its gradient."""
    from ldpbayes.inference import _kernels

    slope = np.empty((1, eta.size))
    value, product = _kernels.of_logits(0, eta[None], slope, form.arrays, 0.0, 1.0)
    return value + math.log(product), slope[0]


def _room(a):
    return tuple(np.empty(a) for _ in range(5))


def log_evidence(problem, rng, *, particles=None):
    """Return (log P(Y) under a random-walk prior, its standard error), by annealed importance sampling.

    In the coordinates of its draws the posterior is nearly standard normal: particles move from the standard normal law to
    it. The error is that of their mean weight.

    Parameters
    ----------
    problem : Problem
    rng : numpy.random.Generator
    particles : int, optional
        By default fewer of many categories.
    """
    form = form_of(problem, rng)
    particles = particles or int(np.clip(VISITED / problem.n_categories, *PARTICLES[::-1]))
    density, *_ = settled(form, problem.prior.walk(), RandomWalk(chains=1), rng)
    path = []

    def ratio(u):
        values, slopes = density.values_and_gradients(u)
        return values + 0.5 * (u**2).sum(axis=1), slopes + u

    with np.errstate(all="ignore"):  # a trajectory that leaves the posterior may overflow
        annealed(ratio, density.size, path, KEPT_EFFECTIVE, particles // 4, rng)
        u, log_weight = annealed(ratio, density.size, path, 0.0, particles, rng)
    z = density.of(u)
    # What the form leaves out is a constant, the same at every draw, except where it is an expansion.
    inside = [of_logits(form, point[-density.mean.size :])[0] for point in z]
    log_weight += problem.rows.log_likelihood(np.ascontiguousarray(shares(z).T)) - inside
    weight = np.exp(log_weight - log_weight.max())
    evidence = log_weight.max() + math.log(weight.mean()) + density.log_constant
    return float(evidence), float(weight.std() / weight.mean() / math.sqrt(particles))
