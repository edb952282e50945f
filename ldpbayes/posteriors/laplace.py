"""Weighted draws, without PyMC: of effects given their scales, where the prior has these; else about the mode."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.target import Target
from ldpbayes.inference.weighted import from_prior, weighted
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample
from ldpbayes.posteriors.forms import MAX_ENTRIES, Apart, Forms, entries

#: More unknowns than this are left to NUTS: their Hessian is a dense matrix, and weights over so many seldom hold.
MAX_UNKNOWNS = 400
#: More unknowns, whose effects have a learnt scale, are far from their joint mode: weights about it came to nothing. Where
#: they are given a share, too, weights hold for more.
MAX_SCALED, MAX_SHARED = 60, 100
#: Operations of one evaluation of a prior's gradient, where an entry of the likelihood's rows takes one.
EVALUATION = 3e4


@dataclass(frozen=True)
class Laplace(AbstractPosterior):
    """Importance sampling about the mode of the unconstrained unknowns; any prior without an atom, any protocol, no PyMC.

    The prior is one of a single collection, or of all cells at once.

    Newton's method finds the mode of prior × likelihood in the prior's unknowns. Draws of a multivariate t distribution with
    the Hessian's shape, of few unknowns with two scales along each axis, are weighted by the true density, the weights
    Pareto-smoothed, and the draws resampled. Where that asks for it, proposals are fitted to the weighted draws. The weights
    are accepted by the rule of the surrogate: Pareto k-hat below 0.7 and an effective sample of a quarter.

    Parameters
    ----------
    draws, chains : int
        Draws kept, shaped like chains; they are resampled from as many weighted proposals, or from more where these are
        cheap.

    Notes
    -----
    It needs a likelihood's value and gradient only, so that it handles reports kept as rows and summaries alike. Priors
    that are Dirichlet have exact and faster engines and are left to them. Where weights about the mode are not accepted,
    draws of the prior are weighted by the likelihood, if the reports of a collection are so few that these hold; under a
    prior with a probability at one value, such as ``floor``, at once, because weights about one mode may miss most of a
    posterior of two parts. Where reports say more, NUTS takes over.

    References
    ----------
    Geweke 1989, Econometrica 57, on multivariate t proposals; Vehtari et al. 2024, JMLR 25, on Pareto smoothing.
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
        most, kind, way = MAX_UNKNOWNS, "unknowns", "of the prior" if prior.has_atom else "about the mode"
        if prior.varying:
            most, kind, way = (
                MAX_SHARED if prior.pivots else MAX_SCALED,
                "unknowns of effects whose scale is learnt",
                "of effects, given how much they vary,",
            )
        if prior.n_unknowns > most:
            return Refusal(f"The method laplace takes at most {most} {kind}; {prior.describe()} has {prior.n_unknowns}.")
        evaluations = 40 * prior.n_unknowns + self.draws * self.chains / 10
        work = evaluations * (EVALUATION + max(problem.entries, problem.n_categories)) if problem.alone else 0.0
        reason = f"Weighted draws {way} handle this prior; their Pareto k-hat shows whether to trust them."
        return Plan(reason, work, problem)

    def run(self, plan, rng, watch):
        prior, likelihoods = plan.state.prior, plan.state.likelihoods
        written = not plan.state.alone and entries(likelihoods) <= MAX_ENTRIES
        reports = Forms.of(likelihoods) if written else Apart(likelihoods)
        target, size = Target(prior, reports), self.draws * self.chains
        found = None if prior.has_atom else weighted(target, size, rng, watch)
        if plan.state.alone and (found is None or not found.verdict.accepted):
            every = found, from_prior(target, size, rng, watch)
            found = max((draws for draws in every if draws is not None), key=lambda draws: draws.rank, default=None)
        if found is None:
            raise InfeasibleError(
                "The prior has a probability at one value; with it and without it the posterior has a part each, weights "
                "about the mode of one may miss most of the other, and the reports say too much for draws of the prior."
            )
        return Sample.of_weights(found, prior, found.values, (self.chains, self.draws), rng)
