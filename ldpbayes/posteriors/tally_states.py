"""Exact posterior of any channel at small (a, n): dynamic programming over the unknown tallies of the true values."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from ldpbayes.inference.ends import tails
from ldpbayes.inference.verdict import Verdict
from ldpbayes.likelihoods import require_sampler
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample, Watch
from ldpbayes.posteriors.merging import ends_of_tallies, moments_of_tallies

#: Largest number of tally states held in memory (about 40 bytes each).
MAX_STATES = 2**24
#: The recurrence runs in so many parts.
PARTS = 100
#: Sums that a final state is worth, and the most of all that are made.
STATE, MAX_SUMS = 40, 4.5e10


@dataclass(frozen=True)
class TallyStates(AbstractPosterior):
    """The whole law of the tallies T given the reports, hence everything about P and F, exactly.

    With U_i[T] the probability of the first i reports averaged over the orders of a true tally T,

        U_{i+1}[T] = Σ_x (T_x/(i+1)) L_jx U_i[T − e_x],

    convex averages that cannot overflow; then P(T, Y) = DirichletMultinomial(T; α) U_n[T] and P | T ~ Dirichlet(α + T).
    Categories that the observed reports cannot tell apart are merged first, so g counts groups. Cost: g C(n + g, g) sums.

    Parameters
    ----------
    draws, chains : int
        chains × draws i.i.d. draws of (P, F).

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2020), App. A, for the mixture.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "tally_states"
    order: ClassVar[float] = 3
    most: ClassVar[float] = 7.5e8
    pace: ClassVar[Pace] = Pace(0.05, 0.0, 1.3e-9)

    def prepare(self, problem):
        require_sampler(problem.likelihood)
        plan = self._plan(problem.n_groups, problem.n_users)
        if not plan.feasible:
            return plan
        merged = problem.merged
        return self._plan(merged.n_groups, merged.n_reports, merged)

    def run(self, plan, rng, watch):
        merged = plan.state
        states, probability, log_evidence = tally_law(merged, watch)
        size = self.chains * self.draws
        tallies = states[rng.choice(len(states), size=size, p=probability)].astype(np.int64)
        gammas = rng.standard_gamma(merged.alpha + tallies)
        distribution, tallies = merged.split(gammas / gammas.sum(axis=1, keepdims=True), tallies, rng)
        shape = (self.chains, self.draws, -1)
        law = merged, states, probability
        exact = _of_margins(*law, moments_of_tallies)
        return Sample(
            distribution.reshape(shape),
            tallies.reshape(shape),
            verdict=Verdict(checked=plan.reason),
            exact=exact | {"distribution_cov": _covariance(*law), "log_evidence": log_evidence},
            intervals=lambda ci_prob: _of_margins(*law, ends_of_tallies, tails(ci_prob)[0]),
            facts={"n_states": len(states), "n_groups": merged.n_groups},
        )

    def _plan(self, g, n, merged=None):
        """Return the Plan or Refusal for g groups of categories and n reports."""
        states, steps = (float(special.binom(n + g - k, g - k)) for k in (1, 0))
        work = g * (steps + STATE * states)
        size = f"{g} distinguishable categories and {n} reports: {states:.3g} tally states, {steps:.3g} steps"
        if states > MAX_STATES:
            return Refusal(f"Tally states must be at most {MAX_STATES}, got {states:.3g} ({size}).")
        if work > MAX_SUMS:
            return Refusal(f"Sums over tally states must be at most {MAX_SUMS:.2g}, got {work:.2g} ({size}).")
        return Plan(f"Exact by dynamic programming over {size}.", work, merged)


def tally_law(merged, watch=None):
    """Return (states, probability, log evidence): P(T | Y) over every group tally T with Σ T = n.

    Parameters
    ----------
    merged : Merged
    watch : Watch, optional

    Returns
    -------
    states : (N, g) int array
    probability : (N,) array
    log_evidence : float
        log P(Y), ordered reports.
    """
    n, g = merged.n_reports, merged.n_groups
    averages, log_scale = _averages(merged, watch or Watch())
    states = tally_states(n, g)
    grid = np.arange(n + 1)
    log_prior = special.gammaln(n + 1) + special.gammaln(merged.alpha.sum()) - special.gammaln(merged.alpha.sum() + n)
    with np.errstate(divide="ignore"):
        log_weight = np.log(averages)
    for x, alpha in enumerate(merged.alpha):
        table = special.gammaln(alpha + grid) - special.gammaln(alpha) - special.gammaln(grid + 1)
        log_weight += table[states[:, x]]
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    total = weight.sum()
    return states, weight / total, float(top + np.log(total) + log_prior + log_scale + merged.log_constant)


def _averages(merged, watch):
    """Return (U_n over all states, divided by its scale, log of that scale), in parts between which Ctrl-C is heard."""
    from ldpbayes.posteriors import _kernels as kernels

    matrix, n = np.ascontiguousarray(merged.matrix), merged.n_reports
    users = np.repeat(np.arange(len(matrix)), np.rint(merged.counts).astype(np.int64))
    current, following, offsets = kernels.start_averages(n, merged.n_groups)
    done, log_scale = 0, 0.0
    for block in watch.track(np.array_split(users, min(n, PARTS)), "Tally states"):
        current, following, log = kernels.continue_averages(matrix, block, done, current, following, offsets)
        done, log_scale = done + len(block), log_scale + log
    return current, log_scale


def tally_states(n, g):
    """Return every tally of n users over g groups, shape (C(n+g−1, g−1), g), in the order of the recurrence.

    With partial sums s_k = T_1 + … + T_k the position of T is Σ_{k<g} C(s_k + k − 1, k).
    """
    from ldpbayes.posteriors import _kernels as kernels

    size = math.comb(n + g - 1, g - 1)
    return kernels.fill_tallies(np.empty((size, g), dtype=np.int16 if n < 2**15 else np.int32), n)


def _covariance(merged, states, probability):
    """Return Cov(P), where P | T is Dirichlet(α + T)."""
    total = merged.alpha.sum() + merged.n_reports
    mean_tally = probability @ states
    centred = states - mean_tally
    cov_tally = centred.T @ (probability[:, None] * centred)
    mean = (merged.alpha + mean_tally) / total
    # Law of total covariance: E[Cov(P | T)] + Cov(E[P | T]), without differences of large numbers.
    within = (np.diag(mean) - np.outer(mean, mean) - cov_tally / total**2) / (total + 1)
    return merged.expand(mean, within + cov_tally / total**2)[1]


def _of_margins(merged, states, probability, entries, *settings):
    """Return entries of EXACT that follow from the laws of the tallies, computed once for each kind of category."""
    first, kind = merged.margins()
    pmfs = [_tally_margin(merged, states, probability, x) for x in first]
    values = entries(pmfs, merged.member_alpha[first], merged.member_alpha.sum() + merged.n_reports, *settings)
    return {name: x[kind] for name, x in values.items()}


def _tally_margin(merged, states, probability, x):
    """Return P(T_x = t | Y), t = 0..n: the group's tally, thinned by a Beta-binomial where x shares its group."""
    g, n = merged.groups[x], merged.n_reports
    pmf = np.bincount(states[:, g], probability, n + 1)
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
