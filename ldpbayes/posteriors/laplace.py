"""Any prior, without PyMC: the mode of the unconstrained unknowns, proposals about it, and weights on the true posterior."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.inference.importance import first_accepted, resample
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.proposals import StudentT, defensive
from ldpbayes.inference.target import Target
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample, Watch
from ldpbayes.posteriors.forms import Apart

#: More unknowns than this are left to NUTS: their Hessian is a dense matrix, and weights over so many seldom hold.
MAX_UNKNOWNS = 400
#: Proposals are fitted anew to weighted draws at most this often where their weights are not accepted.
MAX_REFITS = 3
#: Proposals for each draw that is kept, where all of them evaluate at most so many entries of the rows: few fall into a tail
#: that is heavier than theirs, as that of a logit whose share may be 0.
PROPOSALS, MAX_EVALUATED = 8, 4e7
#: Operations of one evaluation of a prior's gradient, where an entry of the likelihood's rows takes one.
EVALUATION = 3e4


def about_the_mode(target, size, kept, rng, watch=None, proposing=defensive):
    """Return (z, P, Weighted): draws about the mode with weights on the target, fitted to these anew where rejected.

    Parameters
    ----------
    target : Target
    size, kept : int
        Proposals, and draws that will be kept.
    rng : numpy.random.Generator
    watch : Watch, optional
    proposing : callable
        StudentT → proposal.
    """
    watch = watch or Watch()

    def fitted(narrow):
        for _ in watch.track(range(1 + MAX_REFITS), "Weighted draws"):
            z, weight = yield proposing(narrow), size
            narrow = StudentT.fitted(z, weight)
            if narrow is None:
                return

    mode = find_mode(target, np.zeros(target.prior.n_unknowns), watch)
    return first_accepted(target.log_density, fitted(StudentT.at_mode(*mode)), kept, rng)


@dataclass(frozen=True)
class Laplace(AbstractPosterior):
    """Importance sampling about the mode of the unconstrained unknowns; any prior, any protocol, without PyMC.

    Newton's method finds the mode of prior × likelihood in the prior's unknowns. Draws of a multivariate t distribution with
    the Hessian's shape, of few unknowns some with wider scales, are weighted by the true density, the weights
    Pareto-smoothed, and the draws resampled. The weights are accepted by the rule of the surrogate: Pareto k-hat below 0.7
    and an effective sample of a quarter.

    Parameters
    ----------
    draws, chains : int
        Draws kept, shaped like chains; they are resampled from as many weighted proposals, or from eight times as many where
        the reports are few kinds.

    Notes
    -----
    It needs a likelihood's value and gradient only, so that it handles reports kept as rows and summaries alike. Priors
    that are Dirichlet have exact and faster engines and are left to them.

    References
    ----------
    Geweke 1989, Econometrica 57, on multivariate t proposals; Hesterberg 1995, Technometrics 37, on mixtures of them;
    Vehtari et al. 2024, JMLR 25, on Pareto smoothing.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "laplace"
    order: ClassVar[float] = 22
    most: ClassVar[float] = 7e9
    pace: ClassVar[Pace] = Pace(0.05, 0.0, 1.5e-9)
    needs: ClassVar[tuple[str, ...]] = ()

    def prepare(self, problem):
        prior = problem.prior
        if problem.alpha is not None:
            return Refusal("The method laplace is for priors that are not Dirichlet; other methods are better for this one.")
        if prior.n_unknowns > MAX_UNKNOWNS:
            return Refusal(
                f"The method laplace takes at most {MAX_UNKNOWNS} unknowns; {prior.describe()} has {prior.n_unknowns}."
            )
        entries = max(problem.entries, problem.n_categories)
        evaluations = 40 * prior.n_unknowns + self.draws * self.chains / 10
        reason = "Weighted draws about the mode handle every prior; their Pareto k-hat shows whether to trust them."
        return Plan(reason, evaluations * (EVALUATION + entries), problem)

    def run(self, plan, rng, watch):
        problem = plan.state
        target = Target(problem.prior, Apart((problem.likelihood,)))
        size = self.draws * self.chains
        entries = problem.n_categories + problem.entries
        proposed = size * max(1, min(PROPOSALS, int(MAX_EVALUATED / (size * entries))))
        z, p, found = about_the_mode(target, proposed, size, rng, watch)
        chosen = rng.permutation(resample(found.weight, rng, size))
        split = (self.chains, self.draws)
        hyper = problem.prior.hyperparameters(z[chosen])
        return Sample(
            p[chosen].reshape(*split, *problem.prior.shape),
            effective=min(found.effective_sample, size),
            verdict=found.judged(size),
            weighted=(p, found.weight),
            hyperparameters={name: values.reshape(split) for name, values in hyper.items()},
            facts=found.facts,
        )
