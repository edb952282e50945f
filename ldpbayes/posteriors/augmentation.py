"""Data augmentation (Gibbs): the users whose report carries a signal are given true values, and P is drawn from those."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.inference import verdict
from ldpbayes.likelihoods import require_sampler
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample, whole

#: Where the caller does not say, sweeps per draw make a draw worth this share of an independent one, if all of them take no
#: more than so many operations; where how fast they mix is not known, there are at most so many.
WORTH, THIN_WORK, MAX_THIN = 0.5, 2.5e9, 10
#: Chains whose draws are worth this multiple of what is asked have met, too.
MET = 2.0
#: Rounds to the place where mixing is looked at, and the most entries of the rows, times categories, for which it is.
ROUNDS, MOST_LOOKED_AT = 30, 2e8
#: Operations of a sweep beside its draws, and of an entry of the likelihood of a chain; most of all.
SWEEP, LIKELIHOOD, MAX_WORK = 2e5, 0.7, 6e11


@dataclass(frozen=True)
class Augmentation(AbstractPosterior):
    """Gibbs sampling between P and the tallies of the users whose report carries information about their value.

    Each row is split as L_jx = m_j + R_jx with m_j what all categories share. A user behind report j is *signal* with
    probability (R P)_j / (m_j + (R P)_j), and then has value x with probability ∝ R_jx P_x; the noise users are integrated
    out. Then P ~ Dirichlet(α + signal tallies). Mixing slows as the signal share falls (large n at small ε): read the
    effective sample sizes. The chains run side by side as rows of one array; each starts at a draw from the prior.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and draws discarded before them, per chain.
    thin : int, optional
        Sweeps per draw; by default as many as make a draw worth half of an independent one, if they take no more than
        THIN_WORK operations in all.

    Notes
    -----
    In a sweep the slowest direction forgets the share μ, the least share of the complete data's information that the reports
    and the prior hold, so that a sweep is worth μ/(2 − μ) of an independent draw. Its work is that of the sweeps after which
    the draws would be accepted.

    References
    ----------
    Tanner and Wong (1987); Liu (1994), Journal of the American Statistical Association 89, on the share.
    """

    draws: int = 1000
    chains: int = 4
    tune: int = 500
    thin: int | None = None
    name: ClassVar[str] = "augmentation"
    order: ClassVar[float] = 12
    most: ClassVar[float] = THIN_WORK
    pace: ClassVar[Pace] = Pace(0.0, 0.0, 1e-9)
    checked: ClassVar[Mapping] = {"tune": whole(0), "thin": whole(1)}

    def prepare(self, problem):
        sampler, rows = require_sampler(problem.likelihood), problem.rows
        share = _mixing(rows, problem.alpha)
        sweeps = (self.draws + self.tune) * (SWEEP + self.chains * (sampler.work + LIKELIHOOD * rows.entries))
        thin = self._thin(sweeps, share)
        short = MET * verdict.MIN_ESS / (self.draws * self.chains * min(thin * share, 1.0))
        if thin * sweeps > MAX_WORK:
            return Refusal(f"Gibbs sweeps must take at most {MAX_WORK:.0e} operations, got {thin * sweeps:.2g}.")
        reason = "Gibbs sampling with the noise users integrated out; its effective sample size says whether it mixed."
        return Plan(reason, thin * sweeps * max(short, 1.0), (problem, sampler, thin))

    def run(self, plan, rng, watch):
        problem, sampler, thin = plan.state
        draws, finished = self._sweeps(problem, sampler, thin, rng, watch)
        distribution, tallies, signal, log_likelihood = (np.swapaxes(values[:finished], 0, 1) for values in draws)
        return Sample(
            distribution,
            tallies,
            independent=False,
            stats={"signal_share": signal / sampler.n_reports, "log_likelihood": log_likelihood},
            facts={"sweeps_per_draw": thin},
        )

    def _thin(self, sweeps, share):
        """Return the sweeps per draw; from counts alone, so that a seed gives the same draws everywhere."""
        sweeps_wanted = MAX_THIN if share == 1 else math.ceil(WORTH / share)
        return self.thin or int(np.clip(THIN_WORK / sweeps, 1, sweeps_wanted))

    def _sweeps(self, problem, sampler, thin, rng, watch):
        """Return (P, T, signal users, log-likelihood), each (draws, chains, …), and the number of finished draws."""
        alpha, a = problem.alpha, problem.n_categories
        p = _dirichlet(np.broadcast_to(alpha, (self.chains, a)), rng)
        draws = (
            np.empty((self.draws, self.chains, a)),
            np.empty((self.draws, self.chains, a), dtype=np.int64),
            np.empty((self.draws, self.chains), dtype=np.int64),
            np.empty((self.draws, self.chains)),
        )
        finished = 0
        with watch.keeping(lambda: finished):
            for sweep in watch.track(range(thin * (self.tune + self.draws)), "Gibbs sweeps"):
                signal = sampler.signals(p, rng)
                if sweep >= thin * self.tune and (sweep + 1) % thin == 0:
                    drawn = p, sampler.allocate_each(p, rng, signal), signal.sum(axis=1), problem.rows.log_likelihood(p.T)
                    for values, value in zip(draws, drawn, strict=True):
                        values[finished] = value
                    finished += 1
                p = _dirichlet(alpha + signal, rng)
        return draws, finished


def _mixing(rows, alpha):
    """Return what a sweep is worth of an independent draw, by the information at the end of some rounds; 1 where unknown."""
    a = alpha.size
    if rows.n_rows * a**2 > MOST_LOOKED_AT:
        return 1.0
    floor, p = rows.dense().min(axis=1), np.full(a, 1 / a)
    for _ in range(ROUNDS):
        ratio = rows.counts / rows.matvec(p)
        complete = alpha + np.maximum(p * (rows.rmatvec(ratio) - ratio @ floor), 0.0)
        p = complete / complete.sum()
    # In units of the sd of the complete data, on the plane where p adds up to one.
    scale = p / np.sqrt(complete)
    information = rows.gram(rows.counts / rows.matvec(p) ** 2) + np.diag(alpha / p**2)
    plane = np.linalg.qr(np.column_stack([scale, np.eye(a)[:, :-1]]))[0][:, 1:]
    share = np.linalg.eigvalsh(plane.T @ (scale[:, None] * information * scale) @ plane)[0]
    return float(np.clip(share / (2 - share), 1e-9, 0.99))


def _dirichlet(alpha, rng):
    """Return one Dirichlet draw per row of alpha; gammas below shape 1 in log scale, so that none underflows to zero."""
    small = alpha < 1
    log_gamma = np.log(rng.standard_gamma(alpha + small))
    log_gamma -= np.where(small, rng.standard_exponential(alpha.shape) / alpha, 0.0)
    gamma = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    return gamma / gamma.sum(axis=1, keepdims=True)
