"""Random walks over ordered categories: Hamiltonian steps whitened by banded matrices, O(a) each, for any protocol."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.chains import least_effective
from ldpbayes.inference.ends import ends_of_equal_draws
from ldpbayes.inference.importance import within_chains
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import AbstractPosterior, Plan, Problem, Refusal, Sample, Watch
from ldpbayes.priors import as_prior

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
#: Seconds an iteration takes, and its parts per category and per entry of dense rows.
ITERATION, PER_CATEGORY, PER_ENTRY = 1e-5, 8e-7, 2e-8


@dataclass(frozen=True, eq=False)
class Form:
    """A likelihood as the kernel takes it: separable rows (kind 0), a quadratic (1), or dense rows (2)."""

    kind: int
    index: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    first: np.ndarray = field(default_factory=lambda: np.empty(0))
    second: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0))
    matrix: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def to_power(self, beta):
        """Return this likelihood raised to a power."""
        if self.kind == 1:
            return replace(self, first=beta * self.first, second=beta * self.second)
        return replace(self, counts=beta * self.counts)

    @property
    def arrays(self):
        """The arrays in the kernel's order."""
        return self.kind, self.index, self.first, self.second, self.counts, self.matrix


@dataclass(frozen=True, eq=False)
class WalkMoments:
    """Posterior under a random-walk prior without its draws.

    Attributes
    ----------
    mean, sd : (a,) arrays
        Of P.
    lower, upper : (a,) arrays
        Ends of the equal-tailed intervals.
    sigma, tau : tuple of three floats
        Mean and ends of the interval of the walk's scale and of the deviations'.
    effective : float
        Least effective sample size of (σ, τ).
    exact_likelihood : bool
        Whether the likelihood was used as it is; otherwise its expansion at the posterior mean was.
    """

    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sigma: tuple[float, float, float]
    tau: tuple[float, float, float]
    effective: float
    exact_likelihood: bool


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
    needs: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "tune", checks.integer(self.tune, "tune", minimum=50))
        object.__setattr__(self, "thin", checks.integer(self.thin, "thin", minimum=1))

    def prepare(self, problem):
        law = problem.prior.walk()
        if law is None:
            return Refusal("The method walk is for random walks over ordered categories, such as the prior smooth.")
        return Plan(
            "The prior is a random walk over ordered categories, which banded matrices handle fast.",
            0.2 + seconds(problem, self.chains * (self.draws * self.thin + self.tune)),
            problem,
        )

    def moments(self, collection, prior="smooth", *, ci_prob=0.9, random_seed=0) -> WalkMoments:
        """Return the posterior mean, sd and intervals of P, without weights, F or a result: the fast way for studies.

        Parameters
        ----------
        collection : Collection
        prior : as in fit
        ci_prob : float
        random_seed : int

        Returns
        -------
        WalkMoments

        Raises
        ------
        InfeasibleError
            Where the prior is no random walk.
        """
        problem = Problem.of(collection, as_prior(prior, collection.n_categories))
        if problem.prior.walk() is None:
            raise InfeasibleError(f"The method walk needs a random walk; this prior is {problem.prior.describe()}.")
        rng = np.random.default_rng(random_seed)
        form, start = form_of(problem, rng)
        draws, scales, _ = run_chains(form, start, problem.prior.walk(), self, rng)
        flat = draws.reshape(-1, draws.shape[-1])
        lower, upper = ends_of_equal_draws(flat, ci_prob)
        sigma, tau = (_mean_and_ends(scales[..., k], ci_prob) for k in range(2))
        return WalkMoments(
            flat.mean(axis=0),
            flat.std(axis=0),
            lower,
            upper,
            sigma,
            tau,
            least_effective(np.log(scales)),
            form.kind != 1,
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
        return sample if form.kind != 1 or not problem.keeps_reports else _weighted(problem, form, sample, rng, watch)


def seconds(problem, iterations):
    """Return the predicted seconds of so many iterations on one core."""
    a = problem.n_categories
    entries = 0 if problem.separable is not None else problem.entries
    return iterations * (ITERATION + PER_CATEGORY * a + PER_ENTRY * (entries if entries <= MAX_ENTRIES else 0))


def _mean_and_ends(draws, ci_prob) -> tuple[float, float, float]:
    low, high = ends_of_equal_draws(draws.ravel(), ci_prob)
    return float(draws.mean()), float(low), float(high)


def form_of(problem, rng):
    """Return (Form, start): the likelihood as the kernel takes it, and a distribution to start from.

    Parameters
    ----------
    problem : Problem
    rng : numpy.random.Generator
    """
    separable, a = problem.separable, problem.n_categories
    if separable is not None:
        order = np.argsort(separable.index, kind="stable")
        arrays = (separable.base, separable.slope, separable.counts)
        first, second, counts = (np.ascontiguousarray(part[order], dtype=float) for part in arrays)
        form = Form(0, separable.index[order].astype(np.int64), first, second, counts)
        return form, _start(problem)
    if not problem.keeps_reports:
        likelihood = problem.likelihood
        return Form(1, first=likelihood.linear, second=likelihood.tangent_curvature), likelihood.pilot
    if problem.rows.n_rows * a <= MAX_ENTRIES or a < 3:
        matrix = np.ascontiguousarray(problem.rows.dense(), dtype=float)
        return Form(2, counts=problem.rows.counts, matrix=matrix), _start(problem)
    engine, _ = surrogate.expand(problem.rows, np.full(a, 0.5), 3)
    mean, spread = engine.saddle_moments()[0], engine.factor_variance
    quick = replace(RandomWalk(), chains=PILOT_RUN[0], draws=PILOT_RUN[1], tune=PILOT_RUN[2], thin=PILOT_RUN[3])
    for _ in range(PILOTS):
        form = Form(1, **dict(zip(("first", "second"), surrogate.quadratic(problem.rows, mean, spread), strict=True)))
        draws, _, _ = run_chains(form, mean, problem.prior.walk(), quick, rng)
        mean, spread = draws.mean(axis=(0, 1)), draws.var(axis=(0, 1))
    linear, curvature = surrogate.quadratic(problem.rows, mean, spread)
    return Form(1, first=linear, second=curvature), mean


def _start(problem):
    """Return a distribution to start from: a Newton step of each category from the uniform one, cut at a third of it."""
    a = problem.n_categories
    even = np.full(a, 1 / a)
    gradient, bend = problem.likelihood.value_and_gradient(even)[1], problem.likelihood.curvature(even)
    p = np.maximum(even + (gradient - gradient.mean()) / np.maximum(bend, 1e-9 + 1e-6 * bend.max()), 0.3 / a)
    return p / p.sum()


def run_chains(form, start, law, method, rng, watch=None):
    """Return (draws (chains, draws, a), scales (chains, draws, 2), facts) of the posterior under one Form.

    Parameters
    ----------
    form : Form
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
        tempered = form.to_power(max(beta, 1e-12))
        settings = draws, TUNE, 2, LENGTH, ACCEPT
        run_chain(eta, hyper, rates, law.degrees, tempered.arrays, settings, rng, p, kept, stats)
        values.append(stats[:, 0] / max(beta, 1e-12))
    values = np.array(values)
    constant, error = 0.0, 0.0
    if form.kind == 0:
        constant = float(problem.separable.counts @ problem.separable.log_constants)
    elif form.kind == 2:
        constant = problem.rows.log_constant
    else:  # the expansion has no constant: the draws' mean of true likelihood over it supplies one
        some = np.ascontiguousarray(p[:: max(draws // 100, 1)])
        gap = problem.rows.log_likelihood(some.T) - (some @ form.first - 0.5 * some**2 @ form.second)
        weight = np.exp(gap - gap.max())
        constant, error = gap.max() + math.log(weight.mean()), weight.std() / weight.mean() / math.sqrt(len(some))
    # Draws of a chain resemble their neighbours: blocks in a row show that, every fourth draw would hide it.
    parts = [_bridged(powers, block) for block in np.array_split(values, BLOCKS, axis=1)]
    spread = float(np.std(parts, ddof=1)) / math.sqrt(BLOCKS)
    return float(_bridged(powers, values) + constant), math.hypot(spread, error)


def _bridged(powers, values):
    """Return Σ log of the ratios of neighbouring constants from draws of ℓ at each power, (K + 1, n), by optimal bridges."""
    total = 0.0
    for low, high, below, above in zip(powers, powers[1:], values, values[1:], strict=False):
        middle = np.median(above)
        one, other = (np.exp(np.clip((high - low) * (part - middle), -600, 600)) for part in (below, above))
        ratio = 1.0
        for _ in range(60):
            ratio = np.mean(one / (one + ratio)) / np.mean(1 / (other + ratio))
        total += math.log(max(ratio, 1e-300)) + (high - low) * middle
    return total


def _weighted(problem, form, sample, rng, watch):
    """Return the Sample resampled chain by chain by true likelihood over expansion, trusted or not."""
    shape = sample.distribution.shape
    flat = sample.distribution.reshape(-1, shape[-1])
    stand_in = flat @ form.first - 0.5 * flat**2 @ form.second
    log_likelihood = surrogate.log_likelihood_of(problem.rows, flat, watch)
    if log_likelihood.size < len(flat):
        raise KeyboardInterrupt("sampling was interrupted before the draws were weighted")
    pick, found, facts = within_chains(sample.distribution, log_likelihood - stand_in, rng)
    return replace(
        sample,
        distribution=sample.distribution[pick],
        stats={name: values[pick] for name, values in sample.stats.items()},
        hyperparameters={name: values[pick] for name, values in sample.hyperparameters.items()},
        facts=dict(sample.facts) | facts,
        verdict=found.verdict,
    )
