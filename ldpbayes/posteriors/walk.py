"""Random walks over ordered categories: Hamiltonian steps whitened by banded matrices, O(a) each, for any protocol."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ldpbayes.inference.bridge import log_ratio
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample, Watch, whole
from ldpbayes.posteriors.forms import Forms, StandIn, log_weights, reweighed

#: Dense rows with at most this many entries (rows × categories) are used as they are; more are expanded at a pilot.
MAX_ENTRIES = 20_000
#: Expansions of the likelihood at the posterior mean of a short run, and that run's chains, draws and tuning.
PILOTS, PILOT_RUN = 2, (1, 150, 150, 1)
#: Length of a trajectory in whitened time, and the acceptance rate that steps are adapted to.
LENGTH, ACCEPT = 1.5, 0.8
#: The evidence's powers of the likelihood, and the draws and tuning at each.
STONES, DRAWS, TUNE = 12, 200, 100
#: Parts of the draws, one after the other, whose spread is the error of the evidence.
BLOCKS = 8
#: Operations of an iteration, and its parts per category and per entry of dense rows.
ITERATION, PER_CATEGORY, PER_ENTRY = 500, 40, 1


@dataclass(frozen=True)
class RandomWalk(AbstractPosterior):
    """Posterior under a random walk over ordered categories, such as ``smooth``; any protocol, O(a) a step.

    Separable reports and small tables of rows are used as they are. The log-likelihood of other reports is expanded at the
    posterior mean of a short run, as Surrogate does, and the draws are weighted by the true likelihood.

    Parameters
    ----------
    draws, tune : int
        Draws kept and discarded, per chain.
    chains : int
    thin : int
        Every such draw is kept: scales mix slowly where the reports say little of them.

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
    most: ClassVar[float] = 5e8
    pace: ClassVar[Pace] = Pace(0.2, 0.0, 2e-8)
    needs: ClassVar[tuple[str, ...]] = ()
    checked: ClassVar[Mapping] = {"tune": whole(50), "thin": whole(1)}

    def prepare(self, problem):
        law = problem.prior.walk()
        if law is None:
            return Refusal("The method walk is for random walks over ordered categories, such as the prior smooth.")
        return Plan(
            "The prior is a random walk over ordered categories, which banded matrices handle fast.",
            work(problem, self.chains * (self.draws * self.thin + self.tune)),
            problem,
        )

    def run(self, plan, rng, watch):
        problem = plan.state
        form, start = form_of(problem, rng)
        draws, scales, facts = run_chains(form, start, problem.prior.walk(), self, rng, watch)
        sample = Sample(
            draws,
            independent=False,
            stats=facts.pop("stats"),
            facts=facts,
            hyperparameters={"sigma": scales[..., 0], "tau": scales[..., 1]},
        )
        if not form.expanded.any():
            return sample
        summary = StandIn(*(part[0] for part in form.arrays[:2]))
        logs = log_weights((problem.likelihood,), (summary,), draws.reshape(-1, 1, draws.shape[-1]))
        return reweighed(sample, logs[:, 0], rng)[0]


def work(problem, iterations):
    """Return the operations of so many iterations."""
    a = problem.n_categories
    entries = 0 if problem.separable is not None else problem.entries
    return iterations * (ITERATION + PER_CATEGORY * a + PER_ENTRY * (entries if entries <= MAX_ENTRIES else 0))


def form_of(problem, rng):
    """Return (Forms, start): the likelihood as the kernel takes it, and a distribution to start from.

    Parameters
    ----------
    problem : Problem
    rng : numpy.random.Generator
    """
    a, one = problem.n_categories, (problem.likelihood,)
    if not problem.keeps_reports:
        return Forms.of(one), problem.likelihood.pilot
    if problem.separable is not None or problem.rows.n_rows * a <= MAX_ENTRIES or a < 3:
        return Forms.of(one), _start(problem)
    engine, _ = surrogate.expand(problem.rows, np.full(a, 0.5), 3)
    mean, spread = engine.saddle_moments()[0], engine.factor_variance
    quick = replace(RandomWalk(), chains=PILOT_RUN[0], draws=PILOT_RUN[1], tune=PILOT_RUN[2], thin=PILOT_RUN[3])
    for _ in range(PILOTS):
        form = Forms.of(one, [StandIn(*surrogate.quadratic(problem.rows, mean, spread))])
        draws, _, _ = run_chains(form, mean, problem.prior.walk(), quick, rng)
        mean, spread = draws.mean(axis=(0, 1)), draws.var(axis=(0, 1))
    return Forms.of(one, [StandIn(*surrogate.quadratic(problem.rows, mean, spread))]), mean


def _start(problem):
    """Return a distribution to start from: a Newton step of each category from the uniform one, cut at a third of it."""
    a = problem.n_categories
    even = np.full(a, 1 / a)
    gradient, bend = problem.likelihood.value_and_gradient(even)[1], problem.likelihood.curvature(even)
    p = np.maximum(even + (gradient - gradient.mean()) / np.maximum(bend, 1e-9 + 1e-6 * bend.max()), 0.3 / a)
    return p / p.sum()


def run_chains(form, start, law, method, rng, watch=None):
    """Return (draws (chains, draws, a), scales (chains, draws, 2), facts) of the posterior under one form of the likelihood.

    Parameters
    ----------
    form : Forms
    start : (a,) array
    law : Walk
    method : RandomWalk
        For draws, tune and chains.
    rng : numpy.random.Generator
    watch : Watch, optional
    """
    from ldpbayes.posteriors._walk_kernels import run_chain

    watch = watch or Watch()
    a, out, scales, facts = start.size, [], [], []
    settings = method.draws, method.tune, method.thin, LENGTH, ACCEPT
    rates, rough = np.array([law.rate, 1 / law.local]), np.log(np.maximum(start, 0.02 / a))

    def one(own):
        eta = rough * own.uniform(0.5, 1.0) + 0.1 * own.standard_normal(a)
        p, kept, stats = np.empty((method.draws, a)), np.empty((method.draws, 2)), np.empty((method.draws, 2))
        hyper = own.uniform(-2.0, 0.0, 2)
        run_chain(eta, hyper, rates, law.degrees, form.arrays, settings, own, p, kept, stats)
        return p, kept, stats

    chains = watch.track(rng.spawn(method.chains), "Chains of the random walk")
    for p, kept, stats in watch.finished(one(own) for own in chains):
        out.append(p)
        scales.append(kept)
        facts.append(stats)
    stats = np.array(facts)
    return np.array(out), np.array(scales), {"stats": {"lp": stats[..., 0], "n_steps": stats[..., 1]}}


def log_evidence(problem, rng, *, draws=DRAWS, stones=STONES):
    """Return (log P(Y) under a random-walk prior, its standard error), by bridges between powers of the likelihood.

    Chains run on prior × likelihood^β at β = (k/K)⁴, k = 0 … K, each started where the last one ended. The ratio of the
    constants of two neighbours is the optimal bridge between their draws; BLOCKS blocks of the draws give the error. Where
    the likelihood was expanded, a few weighted draws at β = 1 mend it.

    Parameters
    ----------
    problem : Problem
    rng : numpy.random.Generator
    draws, stones : int
        Draws at each power, and K.
    """
    from ldpbayes.posteriors._walk_kernels import run_chain

    form, start = form_of(problem, rng)
    law, a = problem.prior.walk(), start.size
    eta, hyper, rates = 0.1 * rng.standard_normal(a), rng.uniform(-2.0, 0.0, 2), np.array([law.rate, 1 / law.local])
    powers, values = (np.arange(stones + 1) / stones) ** 4, []
    for beta in powers:
        p, kept, stats = np.empty((draws, a)), np.empty((draws, 2)), np.empty((draws, 2))
        tempered = form.powered(max(beta, 1e-12))
        settings = draws, TUNE, 2, LENGTH, ACCEPT
        run_chain(eta, hyper, rates, law.degrees, tempered.arrays, settings, rng, p, kept, stats)
        values.append(stats[:, 0] / max(beta, 1e-12))
    values = np.array(values)
    # What the form leaves out is a constant, the same at every draw, except where it is an expansion.
    some = slice(None, None, max(draws // 100, 1)) if form.expanded.any() else slice(1)
    gap = problem.rows.log_likelihood(np.ascontiguousarray(p[some].T)) - values[-1, some]
    weight = np.exp(gap - gap.max())
    constant, error = gap.max() + math.log(weight.mean()), weight.std() / weight.mean() / math.sqrt(len(gap))
    # Draws of a chain resemble their neighbours: blocks in a row show that, every fourth draw would hide it.
    parts = [_bridged(powers, block) for block in np.array_split(values, BLOCKS, axis=1)]
    spread = float(np.std(parts, ddof=1)) / math.sqrt(BLOCKS)
    return float(_bridged(powers, values) + constant), math.hypot(spread, error)


def _bridged(powers, values):
    """Return the log of the ratio of the outermost constants from draws of ℓ at each power, (K + 1, n)."""
    steps = zip(np.diff(powers), values[:-1], values[1:], strict=True)
    return sum(log_ratio(step * below, step * above) for step, below, above in steps)
