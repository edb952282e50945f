"""The exact posterior of few reports through any channel: a Dirichlet mixture over the tallies of true values."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from ldpbayes import checks
from ldpbayes.arrays import FloatArray, IntArray
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.constants import GOLDEN
from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.ends import tails
from ldpbayes.likelihoods import require_sampler

#: Time: Operations that a final state costs, in those of one sum.
STATE = 40


@dataclass(frozen=True)
class Enumeration:
    """The sum over all tallies T of the true values, by dynamic programming over the reports.

    With U_i[T] the probability of the first i reports averaged over the orders of a true tally T,

        U_{i+1}[T] = Σ_x (T_x/(i+1)) L_jx U_i[T − e_x],

    convex averages that cannot overflow; then P(T, Y) = DirichletMultinomial(T; α) U_n[T] and P | T ~ Dirichlet(α + T).
    Categories that the observed reports cannot tell apart are merged first, so g counts groups. Cost: g C(n + g, g) sums.

    Attributes
    ----------
    most : float
        Sums, above which nothing is summed. Measured: 5.9e8, of 210 reports of four categories, take .6 CPU seconds. It
        admits 220 reports of four categories, 86 of five and 23 of eight; sums grow as n⁴ of four, so that half admits 185
        and double 262. It decides whether a cross-check has this reference, and no posterior.

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2020), App. A, for the mixture.
    """

    most: float = 7.5e8

    def obstacle(self, n_groups: int, n_reports: int) -> str:
        """Return why so many reports of so many groups of categories are not summed over; empty where they are.

        Parameters
        ----------
        n_groups, n_reports : int
        """
        states, steps = (float(special.binom(n_reports + n_groups - k, n_groups - k)) for k in (1, 0))
        if n_groups * (steps + STATE * states) <= self.most:
            return ""
        size = f"{n_groups} distinguishable categories and {n_reports} reports"
        return f"Of {size} there are {states:.3g} tallies and {steps:.3g} steps to them, too many to sum over."

    def __call__(self, collection: Collection | Tally, prior: object) -> "Enumerated":
        """Return the posterior of a collection under a Dirichlet prior.

        Parameters
        ----------
        collection : Collection or Tally
        prior : as in fit

        Raises
        ------
        InfeasibleError
            Where the tallies are too many, the reports are weighted, or the prior is not Dirichlet.
        """
        # Imported lazily: nothing else of the theory needs the posterior package.
        from ldpbayes.methods.problem import Problem

        problem = Problem.of(as_collection(collection), prior)
        if problem.alpha is None:
            raise InfeasibleError(f"A sum over tallies needs a Dirichlet prior; this one is {problem.prior.describe()}.")
        require_sampler(problem.likelihood)
        obstacle = self.obstacle(problem.n_groups, problem.n_users)
        if obstacle:
            raise InfeasibleError(obstacle)
        return Enumerated(problem.merged, *tally_law(problem.merged))


@dataclass(frozen=True, eq=False)
class Enumerated:
    """P(T | Y) over every tally T of the groups of categories, and what follows from it.

    Attributes
    ----------
    merged : Merged
        The reports, with categories that they cannot tell apart in one group.
    states : (N, g) int array
    probability : (N,) array
    log_evidence : float
        log P(Y), ordered reports.
    """

    merged: Any
    states: IntArray
    probability: FloatArray
    log_evidence: float

    @cached_property
    def moments(self) -> dict[str, FloatArray]:
        """Means and sds of P and of the users' frequencies F, (a,) each, by name in result.EXACT."""
        total = self.merged.member_alpha.sum() + self.merged.n_reports
        return self._by_kind(lambda pmfs, alpha: _moments(pmfs, alpha, total))

    @property
    def mean(self) -> FloatArray:
        """E[P|Y], shape (a,)."""
        return self.moments["distribution_mean"]

    @property
    def variance(self) -> FloatArray:
        """Var(P|Y), shape (a,)."""
        return self.moments["distribution_sd"] ** 2

    def covariance(self) -> FloatArray:
        """Return Cov(P|Y), shape (a, a)."""
        merged, total = self.merged, self.merged.alpha.sum() + self.merged.n_reports
        mean_tally = self.probability @ self.states
        centred = self.states - mean_tally
        between = centred.T @ (self.probability[:, None] * centred) / total**2
        mean = (merged.alpha + mean_tally) / total
        # Law of total covariance: E[Cov(P | T)] + Cov(E[P | T]), without differences of large numbers.
        within = (np.diag(mean) - np.outer(mean, mean) - between) / (total + 1)
        return merged.expand(mean, within + between)[1]

    def ends(self, ci_prob: float = 0.95) -> dict[str, FloatArray]:
        """Return the ends of equal-tailed intervals of P (of Beta mixtures) and of F, by name in result.EXACT.

        Parameters
        ----------
        ci_prob : float
        """
        total, tail = self.merged.member_alpha.sum() + self.merged.n_reports, tails(checks.level(ci_prob))[0]
        return self._by_kind(lambda pmfs, alpha: _ends(pmfs, alpha, total, tail))

    def _by_kind(self, entries):
        """Return entries that follow from the laws of the tallies, computed once for each kind of category."""
        first, kind = self.merged.margins()
        values = entries([self._margin(x) for x in first], self.merged.member_alpha[first])
        return {name: x[kind] for name, x in values.items()}

    def _margin(self, x):
        """Return P(T_x = t | Y), t = 0..n: the group's tally, thinned by a Beta-binomial where x shares its group."""
        merged = self.merged
        g, n = merged.groups[x], merged.n_reports
        pmf = np.bincount(self.states[:, g], self.probability, n + 1)
        alpha, rest = merged.member_alpha[x], merged.alpha[g] - merged.member_alpha[x]
        if (merged.groups == g).sum() == 1:
            return pmf
        out = np.zeros(n + 1)
        for tally in np.flatnonzero(pmf > 0):
            t = np.arange(tally + 1)
            log_pmf = special.betaln(alpha + t, rest + tally - t) - special.betaln(alpha, rest)
            log_pmf -= np.log(tally + 1.0) + special.betaln(tally - t + 1, t + 1)
            out[: tally + 1] += pmf[tally] * np.exp(log_pmf)
        return out


def tally_law(merged: Any) -> tuple[IntArray, FloatArray, float]:
    """Return (states, probability, log evidence): P(T | Y) over every group tally T with Σ T = n.

    Parameters
    ----------
    merged : Merged

    Returns
    -------
    states : (N, g) int array
    probability : (N,) array
    log_evidence : float
        log P(Y), ordered reports.

    Raises
    ------
    InfeasibleError
        Where tallies that underflow may have a share of the posterior.
    """
    from ldpbayes.theory import _tally_kernels as kernels

    n, g = merged.n_reports, merged.n_groups
    users = np.repeat(np.arange(len(merged.matrix)), np.rint(merged.counts).astype(np.int64))
    # By the golden ratio, so that reports of one kind are spread evenly: one kind after another, the tallies that the last
    # kind needs underflow, from 2,500 reports on.
    users = users[np.argsort(np.arange(n) * GOLDEN % 1)]
    averages, log_scale = kernels.averages(np.ascontiguousarray(merged.matrix), users, *kernels.start(n, g))
    states = tally_states(n, g)
    grid = np.arange(n + 1)
    log_prior = special.gammaln(n + 1) + special.gammaln(merged.alpha.sum()) - special.gammaln(merged.alpha.sum() + n)
    floor = averages.max() / kernels.RESCALED * np.finfo(float).tiny  # below it averages may have underflowed on the way
    with np.errstate(divide="ignore"):
        log_weight = np.log(averages)
    most = np.where(averages < floor, np.log(floor), -np.inf)
    for x, alpha in enumerate(merged.alpha):
        table = special.gammaln(alpha + grid) - special.gammaln(alpha) - special.gammaln(grid + 1)
        log_weight += table[states[:, x]]
        most += table[states[:, x]]
    top = log_weight.max()
    if most.max() > top + np.log(np.finfo(float).eps):
        raise InfeasibleError("The prior is so far from the reports that the probabilities of the tallies underflow.")
    weight = np.exp(log_weight - top)
    total = weight.sum()
    return states, weight / total, float(top + np.log(total) + log_prior + log_scale + merged.log_constant)


def tally_states(n: int, g: int) -> IntArray:
    """Return every tally of n users over g groups, shape (C(n+g−1, g−1), g), in the order of the recurrence.

    With partial sums s_k = T_1 + … + T_k the position of T is Σ_{k<g} C(s_k + k − 1, k).

    Parameters
    ----------
    n, g : int
    """
    from ldpbayes.theory import _tally_kernels as kernels

    size = math.comb(n + g - 1, g - 1)
    return kernels.fill_tallies(np.empty((size, g), dtype=np.int16 if n < 2**15 else np.int32), n)


def _moments(pmfs, alpha, total):
    """Return mean and sd of P (Beta mixtures) and of F, by name in EXACT; see _ends.

    Given T the share P_x is Beta(α + T_x, Σα + n − α − T_x): its variance is the mean of theirs and that of their means,
    without differences of large numbers.
    """
    grid = np.arange(len(pmfs[0]))
    mean = np.array([pmf @ grid for pmf in pmfs])
    variance = np.array([pmf @ (grid - m) ** 2 for pmf, m in zip(pmfs, mean, strict=True)])
    p = (alpha + mean) / total
    return {
        "distribution_mean": p,
        "distribution_sd": np.sqrt((p * (1 - p) - variance / total**2) / (total + 1) + variance / total**2),
        "frequency_mean": mean / grid[-1],
        "frequency_sd": np.sqrt(variance) / grid[-1],
    }


def _ends(pmfs, alpha, total, tail):
    """Return the equal-tailed interval ends of P (Beta mixtures) and of F (from its probabilities), by name in EXACT.

    ``pmfs`` are the laws (n + 1,) of the tally of each category, ``alpha`` (k,) their concentrations, ``total`` is Σα + n
    over all categories, ``tail`` the probability beyond each end.
    """
    ends = np.empty((4, len(pmfs)))
    for x, (pmf, concentration) in enumerate(zip(pmfs, alpha, strict=True)):
        ends[:2, x] = [_beta_mixture_quantile(pmf, concentration, total, level) for level in (tail, 1 - tail)]
        ends[2:, x] = np.searchsorted(np.cumsum(pmf), np.array([tail, 1 - tail]) * (1 - 1e-12)) / (len(pmf) - 1)
    return dict(zip(("distribution_lower", "distribution_upper", "frequency_lower", "frequency_upper"), ends, strict=True))


def _beta_mixture_quantile(pmf, alpha, total, level):
    """Return the root of Σ_t pmf_t P(Beta(α + t, total − α − t) ≤ q) = level."""
    from ldpbayes.methods.merging import quantile

    t = np.flatnonzero(pmf > 1e-18)
    low, high = alpha + t, total - alpha - t
    if level <= 0.5:
        return quantile(lambda q: float(pmf[t] @ special.betainc(low, high, q)) - level)
    # From the upper end: no cancellation.
    return quantile(lambda q: (1 - level) - float(pmf[t] @ special.betaincc(low, high, q)))
