"""Several lists about one trait, each answered by respondents of its own: a chain of tallies for each list."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln

from ldpbayes.errors import InfeasibleError
from ldpbayes.likelihoods import require_sampler
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan
from ldpbayes.posteriors.tally_chain import PASSES, Lists, Sides, bounded, chain_of

#: Most entries of the rows that are looked at.
MAX_ENTRIES = 2_000_000


@dataclass(frozen=True)
class TallyChains(AbstractPosterior):
    """The law of the tallies of several lists about one trait, hence P, where nobody answers two of them.

    Lists meet in the numbers of those who have the trait alone: see tally_chain.Lists.

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
        lists = lists_of(problem)
        reason = f"Exact by chains of tallies of {len(lists.chains)} lists, weighted by the tallies of those with the trait."
        return Plan(reason, PASSES[True] * sum(chain.pairs for chain, _ in lists.chains), lists)

    def run(self, plan, rng, watch):
        return plan.state.sample(self, plan.reason, rng)


def lists_of(problem: Any) -> Lists:
    """Return the Lists of a problem: the block is the trait.

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
        lists.append((bounded(chain), Sides(own, own, int(counts[mine].sum()))))
    return Lists(prior, lists, problem.prior.blocks, float(problem.rows.log_constant) - betaln(*top))
