"""Several lists about one trait, each answered by respondents of its own: a chain of tallies for each list."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.importance import Weighted
from ldpbayes.inference.verdict import Verdict
from ldpbayes.likelihoods import require_sampler
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Sample
from ldpbayes.posteriors.tally_chain import FIRST, PASSES, PROPOSALS, WANTED, Links, Sides, Tilted, bounded, chain_of

#: Most entries of the rows that are looked at.
MAX_ENTRIES = 2_000_000


@dataclass(frozen=True)
class TallyChains(AbstractPosterior):
    """The law of the tallies of several lists about one trait, hence P, where nobody answers two of them.

    Of the n_k who answer list k let M_k have the trait. Its share is Beta(b + Σ M_k, c + Σ (n_k − M_k)) given these, so that
    lists meet in them alone. With h_k(M) the chance of the reports of list k and of M, which draws of its chain give,
    P(M_1, M_2, …) ∝ Π h_k(M_k) B(b + Σ M_k, c + Σ (n_k − M_k)): a convolution.

    Parameters
    ----------
    draws, chains : int
        chains × draws independent draws of P.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "tally_chains"
    order: ClassVar[float] = 3.6
    most: ClassVar[float] = 4e8
    pace: ClassVar[Pace] = Pace(0.1, 0.0, 2.5e-8)
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def prepare(self, problem):
        prior, lists, constant = chains_of(problem)
        reason = f"Exact by chains of tallies of {len(lists)} lists, weighted by the tallies of those with the trait."
        return Plan(reason, PASSES[True] * sum(chain.pairs for chain, _ in lists), (problem, prior, lists, constant))

    def run(self, plan, rng, watch):
        problem, prior, lists, constant = plan.state
        size = self.chains * self.draws
        pools = _led(prior, lists, [], PROPOSALS * size, rng)
        for wanted in WANTED:
            pools = _led(prior, lists, pools, PROPOSALS * size, rng, wanted)
            found = [_judged(k, prior, lists, pools) for k in range(len(lists))]
            verdicts = [one.judged(size) for one in found]
            if all(one.accepted for one in verdicts):
                break
        chosen, log_evidence = _drawn(prior, lists, pools, size, rng)
        total = sum(pool.tally[own] for pool, own in zip(pools, chosen, strict=True))
        share = rng.beta(*_ends(prior, total, sum(own.total for _, own in lists)))
        blocks = [part[:, None] for part in (share, 1 - share)]
        for (chain, _), pool, own in zip(lists, pools, chosen, strict=True):
            gammas = rng.standard_gamma(chain.alpha + pool.drawn[own])[:, np.argsort(chain.order)]
            for t, part in enumerate(np.split(gammas, 2, axis=1)):
                split = part / part.sum(axis=1, keepdims=True)
                blocks[t] = (blocks[t][:, :, None] * split[:, None, :]).reshape(size, -1)
        p = np.empty((size, problem.n_categories))
        p[:, np.concatenate(problem.prior.blocks)] = np.concatenate(blocks, axis=1)
        worth = 1 / sum(1 / one.effective_sample for one in found)
        return Sample(
            p.reshape(self.chains, self.draws, -1),
            effective=min(worth, float(size)),
            verdict=next((one for one in verdicts if not one.accepted), Verdict(checked=plan.reason)),
            facts={
                "k_hat": max(one.k_hat for one in found),
                "shift_by_weights": max(one.shift for one in found),
                "log_evidence": log_evidence + sum(chain.constant for chain, _ in lists) + constant,
                "log_evidence_error": float(np.hypot.reduce([one.log_evidence_error for one in found])),
            },
        )


def chains_of(problem: Any) -> tuple[np.ndarray, list[tuple[Links, Sides]], float]:
    """Return (b and c of the share, chain and sides of each list, what is left of the log-evidence) of a problem.

    b and c hold the reports that name the trait alone; those of the sides are left open.

    Raises
    ------
    InfeasibleError
        Where the reports or the prior do not have that form, or the states are too many.
    """
    require_sampler(problem.likelihood)
    known = problem.prior.crossed()
    if known is None:
        raise InfeasibleError("Chains of tallies need a prior of a trait and of what is independent given it.")
    if problem.entries > MAX_ENTRIES:
        raise InfeasibleError(f"Chains of tallies take at most {MAX_ENTRIES:,} entries of rows, got {problem.entries:,}.")
    top, alphas = known
    sizes = [alpha.size for alpha in alphas[0]]
    counts = np.rint(problem.rows.counts).astype(int)
    table = problem.rows.dense()[:, np.concatenate(problem.prior.blocks)].reshape(len(counts), 2, *sizes)
    axes = [tuple(k + 2 for k in range(len(sizes)) if k != own) for own in range(len(sizes))]
    narrow = [np.ptp(table, axis=others).reshape(len(counts), -1).max(axis=1) < 1e-12 for others in axes]
    alone = np.all(narrow, axis=0)  # reports that hang on no list name the trait
    named = table[alone].reshape(-1, 2, int(np.prod(sizes)))[..., 0]
    if not np.any(narrow, axis=0).all() or (np.sort(named, axis=1) != [0, 1]).any():
        raise InfeasibleError("Chains of tallies need reports on one list each, or on the trait alone.")
    prior, lists = top + counts[alone] @ named, []
    for k, size in enumerate(sizes):
        mine = narrow[k] & ~alone
        rows = table[mine].max(axis=axes[k]).reshape(-1, 2 * size)
        block = np.repeat([True, False], size)
        chain = chain_of(rows, counts[mine], np.concatenate([alpha[k] for alpha in alphas]), block, 0.0)
        if chain is None:
            raise InfeasibleError("Chains of tallies need reports that name one category, or two neighbours in a row.")
        own = np.array([alpha[k].sum() for alpha in alphas])
        lists.append((bounded(chain), Sides(own, own, np.zeros(2, dtype=int), int(counts[mine].sum()))))
    return prior, lists, float(problem.rows.log_constant) - betaln(*top)


def _log_given(sides, tally):
    """Return log of Γ(A)/Γ(A + M) of those with the trait and of the others, which the chain does not have."""
    (one, other), left = sides.chain, sides.total - tally
    return gammaln(sides.chain).sum() - gammaln(one + tally) - gammaln(other + left)


def _masses(lists, pools):
    """Return (distinct M, log h(M)) of each list."""
    found = [(pool.masses(), own) for pool, (_, own) in zip(pools, lists, strict=True)]
    return [(values, logs + _log_given(own, values)) for (values, logs), own in found]


def _sums(masses):
    """Return (sums of tallies, log of their mass) of lists' (tallies, log-masses), in the order of the sums."""
    values, logs = np.zeros(1, dtype=int), np.zeros(1)
    for own, mass in masses:
        total, each = (values[:, None] + own).ravel(), (logs[:, None] + mass).ravel()
        values, place = np.unique(total, return_inverse=True)
        top = np.full(len(values), -np.inf)
        np.maximum.at(top, place, each)
        logs = top + np.log(np.bincount(place, np.exp(each - top[place])))
    return values, logs


def _ends(prior, values, n):
    """Return the parameters of the Beta of the share, of n reports with tallies that sum to values."""
    return prior[0] + values, prior[1] + n - values


def _led(prior, lists, pools, size, rng, wanted=None):
    """Return draws of each list where it and the others want them: led by draws so far, or roughly where there are none."""
    pools = list(pools)
    for k, (chain, own) in enumerate(lists):
        others = [j for j in range(len(pools)) if j != k]
        values, logs = _sums(_masses([lists[j] for j in others], [pools[j] for j in others]))
        b, c = _ends(prior, values, sum(lists[j][1].total for j in others))
        weight = np.exp(logs + betaln(b, c) - logsumexp(logs + betaln(b, c)))
        mean, square = weight @ (b / (b + c)), weight @ (b * (b + 1) / ((b + c) * (b + c + 1)))
        number = (mean - square) / (square - mean**2)  # b + c of the Beta of the same mean and sd
        near = Sides(number * np.array([mean, 1 - mean]), own.chain, own.reports, own.total)
        if wanted is None:
            pools.append(Tilted.roughly(chain, near, size // FIRST, rng))
        else:
            pools[k] = pools[k].led(near, wanted, size, rng)
    return pools


def _judged(k, prior, lists, pools) -> Weighted:
    """Return the weights of the draws of one list beside all others, judged by the share of the trait."""
    masses, (_, own) = _masses(lists, pools), lists[k]
    values, logs = _sums([mass for j, mass in enumerate(masses) if j != k])
    n = sum(one.total for _, one in lists)

    def log_weight(tally):
        found, place = np.unique(tally, return_inverse=True)
        return (logsumexp(logs + betaln(*_ends(prior, values + found[:, None], n)), axis=1) + _log_given(own, found))[place]

    each, counts = np.unique(pools[k].tally, return_counts=True)
    b, c = _ends(prior, values + each[:, None], n)
    weight = np.exp(logs + betaln(b, c) - logsumexp(logs + betaln(b, c), axis=1, keepdims=True))
    means = np.repeat((weight * b / (b + c)).sum(axis=1), counts)
    return pools[k].weighed(means[:, None], log_weight)


def _drawn(prior, lists, pools, size, rng):
    """Return (the places in each pool of draws of all tallies together, log of the mean chance of all reports)."""
    masses = _masses(lists, pools)
    before = [_sums(masses[:k]) for k in range(len(masses) + 1)]
    values, logs = before[-1]
    logs = logs + betaln(*_ends(prior, values, sum(own.total for _, own in lists)))
    total = rng.choice(values, size=size, p=np.exp(logs - logsumexp(logs)))
    chosen = []
    for k in range(len(lists) - 1, -1, -1):
        (own, mass), (sums, rest) = masses[k], before[k]
        tally = np.empty(size, dtype=int)
        for value in np.unique(total):
            mine = np.flatnonzero(total == value)
            place = np.minimum(np.searchsorted(sums, value - own), len(sums) - 1)
            each = np.where(sums[place] == value - own, mass + rest[place], -np.inf)
            tally[mine] = rng.choice(own, size=len(mine), p=np.exp(each - logsumexp(each)))
        first, last = (np.searchsorted(pools[k].tally, tally, side) for side in ("left", "right"))
        chosen.append(rng.integers(first, last))
        total = total - tally
    return chosen[::-1], float(logsumexp(logs))
