"""Any protocol at any n: a conditioned product with Gaussian-tilted Gamma factors, and weights on the true likelihood.

On the simplex's tangent space the log-likelihood's Hessian is nearly diagonal plus terms that vanish there, so the
posterior is close to independent factors g^{α−1} exp(b g − D g²/2) conditioned on Σ g = 1; importance weights mend the
rest, and Pareto smoothing says whether they can.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, softmax

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.importance import resample, weigh
from ldpbayes.likelihoods.expansion import FLOOR, NODES, WEIGHTS, noise_of
from ldpbayes.posteriors.base import AbstractPosterior, Plan, Problem, Refusal, Sample, Watch
from ldpbayes.posteriors.conditioned_product import TiltedFactors, log_growth
from ldpbayes.posteriors.conditioned_product.factors import positive_roots
from ldpbayes.posteriors.proposals import MAX_DEFENDED

#: Draws whose likelihood is computed together: enough that a pass over the rows costs little, few enough to interrupt.
BLOCK = 500
#: The expansion point is settled when the mean moves by less than this many posterior sd.
SETTLED = 1e-3
#: Nodes of the integral over the radius of a proposal.
RADII = 161


@dataclass(frozen=True, eq=False)
class GaussianFactors:
    """Factors φ_x(g) = g^{α_x−1} exp(b_x g − D_x g²/2), for the conditioned product.

    Attributes
    ----------
    alpha, linear, curvature : (a,) arrays
        α > 0, b, and D > 0.
    """

    alpha: np.ndarray
    linear: np.ndarray
    curvature: np.ndarray
    lowest_tilt = -math.inf

    def take(self, index):
        """Return the family of these factors only."""
        return GaussianFactors(self.alpha[index], self.linear[index], self.curvature[index])

    def polynomials(self):
        """Return None: the factors are no polynomials."""
        return None

    def log_smooth(self, g):
        """Return b g − D g²/2 for g of shape (a,)."""
        return (self.linear - 0.5 * self.curvature * g) * g

    def log_remainder(self, g, delta):
        """Return log_smooth(g + delta) − log_smooth(g) − delta·slope(g); g (a,), delta (a, N)."""
        return -0.5 * self.curvature[:, None] * delta**2

    def slope(self, g):
        """Return b − D g."""
        return self.linear - self.curvature * g

    def modes(self, tilt):
        """Return the modes of g φ(g) e^{−tg}, the positive roots of α + (b − t) g − D g², shape (a,)."""
        return positive_roots(self.curvature, self.linear - tilt, self.alpha)


class Proposal(TiltedFactors):
    """The surrogate's factors, tilted so that their sum is 1 on average, before they are conditioned on it.

    Parameters
    ----------
    family : GaussianFactors
        One factor per category.
    start : float, optional
        A tilt near the one wanted.
    """

    def __init__(self, family, start=None):
        super().__init__(family, np.ones(family.alpha.size), start)

    @cached_property
    def _fine(self):
        return self.nodes(2048)

    @property
    def factor_variance(self):
        """Variances of the tilted factors, shape (a,)."""
        return self.coarse.variance

    @property
    def factor_log_mass(self):
        """log ∫ φ_x(g) e^{−tg} dg, shape (a,)."""
        return self._fine.log_mass

    def independent_log_draws(self, size, rng):
        """Return the logs of draws of the tilted factors, shape (size, a), by their inverse cdf on a fine grid.

        Between the grid's points u is uniform given its cell: relative to the factor's density an error of order 1e-5.
        """
        nodes, low = self._fine, self.window[0]
        cumulative = np.concatenate([np.zeros((low.size, 1)), nodes.weight.cumsum(axis=1)], axis=1)
        edges = np.arange(cumulative.shape[1])
        out = np.empty((size, low.size))
        for x in range(low.size):
            u = low[x] + nodes.step[x] * np.interp(rng.random(size), cumulative[x], edges)
            out[:, x] = math.log(self.centre[x]) + log_growth(u)
        return out


@dataclass(frozen=True)
class Surrogate(AbstractPosterior):
    """Importance sampling from a conditioned-product surrogate of the likelihood; any protocol, any n.

    Parameters
    ----------
    draws, chains : int
        Draws kept, shaped like chains; as many surrogate draws are weighted and resampled.
    max_expansions : int
        Most rounds of expanding the likelihood at the surrogate's mean.

    Notes
    -----
    Round: weights h_j = E[w_j/u_j²] and g_j = E[w_j/u_j] with u_j = (Lp)_j Gaussian under the surrogate; gradient Lᵀg,
    D = diag H − 2f, f = (H1 − diag H − F)/(a−2), F = Σ f, H = Lᵀ diag(h) L: then H = diag D + f1ᵀ + 1fᵀ in its row
    sums, and the last two vanish on the tangent space. Only three passes over the rows are needed, no a × a matrix.
    Ctrl-C keeps the draws that are weighted, if their weights can be trusted.
    """

    draws: int = 1000
    chains: int = 4
    max_expansions: int = 12
    name: ClassVar[str] = "surrogate"
    order: ClassVar[float] = 11
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "max_expansions", checks.integer(self.max_expansions, "max_expansions", minimum=1))

    def prepare(self, problem):
        a = problem.n_categories
        if problem.alpha is None and (problem.prior.tilted() is None or problem.prior.n_unknowns <= MAX_DEFENDED):
            return Refusal(f"The method surrogate needs a Dirichlet prior; this one is {problem.prior.describe()}.")
        if a < 3:
            return Refusal("The surrogate needs three categories.")
        seconds = 0.2 + 2e-4 * a + problem.rows.n_rows * a * (self.draws * self.chains * 2.5e-11 + 1e-8)
        return Plan("Surrogate with weights on the true likelihood; its k-hat says whether to trust it.", seconds, problem)

    def run(self, plan, rng, watch):
        found = self._weighted(plan.state, rng, watch)
        if found.verdict.problem and watch.interrupted:
            raise KeyboardInterrupt(f"the draws weighted so far cannot be trusted: {found.verdict.problem}")
        flat = found.distribution[rng.permutation(resample(found.weight, rng))]
        draws = len(flat) // self.chains
        return Sample(
            flat[: self.chains * draws].reshape(self.chains, draws, -1),
            effective=found.effective_sample,
            verdict=found.verdict,
            weighted=(found.distribution, found.weight),
            facts={
                "k_hat": found.k_hat,
                "shift_by_weights": found.shift,
                "expansions": found.expansions,
                "log_evidence": found.log_evidence,
                "log_evidence_error": found.log_evidence_error,
            },
        )

    def weighted(self, collection, prior, *, random_seed=None, progressbar=False):
        """Return the Weighted draws, trusted or not.

        Raises
        ------
        InfeasibleError
            With two categories (every such collection has an exact posterior).
        """
        problem = Problem.of(collection, prior)
        plan = self.plan(problem)
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        return self._weighted(problem, checks.generator(random_seed, "random_seed"), Watch(progressbar))

    def _weighted(self, problem, rng, watch):
        alpha, tilt = problem.alpha, None
        if alpha is None:
            alpha, tilt = problem.prior.tilted()
        engine, expansions = expand(problem.rows, alpha, self.max_expansions, watch=watch)
        distribution, log_surrogate = proposals(engine, self.draws * self.chains, rng)
        log_likelihood = log_likelihood_of(problem.rows, distribution, watch)
        kept, size = log_likelihood.size, len(distribution)
        log_ratio = log_likelihood - log_surrogate[:kept]
        if tilt is not None:
            log_ratio += tilt(distribution[:kept])
        return replace(weigh(distribution[:kept], log_ratio, expansions), interrupted=kept < size)


def expand(rows, alpha, max_expansions=12, *, watch=None, start=None):
    """Return (Proposal, rounds): the surrogate posterior, expanded at its own mean until that settles.

    Parameters
    ----------
    rows : Rows
    alpha : (a,) array
    max_expansions : int
    watch : Watch, optional
    start : pair of (a,) arrays, optional
        Mean and spread of the first expansion; the prior's mean and none by default.
    """
    watch = watch or Watch()
    # The spread is the variances of the independent factors.
    mean, spread = start or (alpha / alpha.sum(), np.zeros_like(alpha))
    least = 2 if start is None else 0
    for rounds in watch.track(range(1, max_expansions + 1), "Expansions of the likelihood"):
        linear, curvature = quadratic(rows, mean, spread)
        engine = Proposal(GaussianFactors(alpha, linear, curvature))
        before, (mean, variance) = mean, engine.saddle_moments()
        spread = engine.factor_variance
        if rounds > least and (np.abs(mean - before) < SETTLED * np.sqrt(variance)).all():
            break
    return engine, rounds


def quadratic(rows, mean, spread):
    """Return (b, D) of the log-likelihood's expansion at mean, averaged over the surrogate's spread."""
    return quadratic_of(rows.expansion(mean, spread), mean)


def quadratic_of(sums, mean):
    """Return (b, D) of the log-likelihood from the sums of its expansion at mean."""
    _, gradient, diagonal, cross = sums
    others = cross - diagonal
    a = mean.size
    shared = (others - others.sum() / (2 * a - 2)) / (a - 2)
    curvature = diagonal - 2 * shared
    curvature = np.maximum(curvature, 1e-6 * np.median(np.abs(curvature)) + 1e-9)
    return gradient + curvature * mean, curvature


def constant_term(rows, mean, spread, linear, curvature):
    """Return c so that c + b·p − Σ D p²/2 has the log-likelihood's average over the spread about the mean."""
    centre, total = rows.matvec(mean), max(spread.sum(), np.finfo(float).tiny)
    logs = np.log(centre)
    if spread.any():
        noise = noise_of(rows, spread)
        nodes = zip(NODES, WEIGHTS, strict=True)
        logs = sum(weight * np.log(np.maximum(centre + node * noise, FLOOR * centre)) for node, weight in nodes)
    inside = spread * (1 - spread / total)  # variances given that the sum is one
    return float(rows.log_constant + rows.counts @ logs - linear @ mean + 0.5 * curvature @ (mean**2 + inside))


def proposals(engine, size, rng):
    """Return (draws of p, log of their density over that of the prior), for weights on the true likelihood.

    Parameters
    ----------
    engine : Proposal
    size : int
    rng : numpy.random.Generator
    """
    alpha = engine.family.alpha
    p, log_radius = _propose(engine, size, rng)
    return p, log_radius - (gammaln(alpha.sum()) - gammaln(alpha).sum() + engine.factor_log_mass.sum())


def _propose(engine, size, rng):
    """Return (draws of p, log ∫ r^{Σα−1} exp(r·B − r²C/2) dr): normalised independent factors, and their radius.

    The density of p = g/Σg is Π_x p^{α_x−1}/Z_x times that integral, with B = Σ(b − t)p and C = ΣDp²; the powers of p
    are the prior's and cancel in the weights. In log r the integrand has one mode and no singularity, however small Σα
    is; its left tail dies out like r^{Σα}, so that the steps grow exponentially on both sides.
    """
    log_g = engine.independent_log_draws(size, rng)  # under small concentrations all of g may underflow
    p = softmax(log_g, axis=1)
    family = engine.family
    linear, square = p @ (family.linear - engine.tilt), p**2 @ family.curvature
    total = family.alpha.sum()
    mode = (linear + np.sqrt(linear**2 + 4 * square * total)) / (2 * square)
    scale = 1 / np.sqrt(total + square * mode**2)
    # Both ends reach 45 nats down: on the left at the slower of the two rates, on the right as a Gaussian in r.
    s = np.linspace(-1.0, 1.0, RADII) * np.arcsinh(12 + 45 / (total * scale))[:, None]
    log_growth_of_r = np.minimum(scale[:, None] * np.sinh(s), 20.0)
    growth = np.expm1(log_growth_of_r)
    log_density = total * log_growth_of_r + (linear * mode)[:, None] * growth
    log_density -= 0.5 * (square * mode**2)[:, None] * growth * (growth + 2)
    top = total * np.log(mode) + linear * mode - 0.5 * square * mode**2
    step = (s[:, -1] - s[:, 0]) / (RADII - 1)
    return p, top + np.log((np.exp(log_density) * np.cosh(s)).sum(axis=1) * scale * step)


def log_likelihood_of(rows, distribution, watch):
    """Return the log-likelihood of each draw; after Ctrl-C of the first of them, in whole blocks."""
    starts = watch.track(range(0, len(distribution), BLOCK), "Likelihood of the draws")
    blocks = (rows.log_likelihood(np.ascontiguousarray(distribution[start : start + BLOCK].T)) for start in starts)
    return np.concatenate(watch.finished(blocks))
