"""Weighted draws of a prior's unknowns: mode, proposals, weights on the reports, verdict; no PyMC."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.target import Target
from ldpbayes.inference.weighted import from_prior, weighted
from ldpbayes.methods import loglinear
from ldpbayes.methods.base import AbstractPosterior, Pace, Preparation, Refusal
from ldpbayes.methods.constants import MAX_ENTRIES
from ldpbayes.methods.forms import Apart, Forms, entries
from ldpbayes.methods.outcome import Outcome


@dataclass(frozen=True)
class Weighted(AbstractPosterior):
    """Importance sampling about the mode of the unconstrained unknowns; any prior that is no Dirichlet, any protocol.

    The prior is one of a single collection, or of all cells at once.

    Newton's method finds the mode of prior × likelihood in the prior's unknowns. Draws about it are weighted by the true
    density, the weights Pareto-smoothed, and the draws resampled. The structure of the prior says how the first proposals
    are made. Effects with learnt scales are proposed given these scales. The effects of a table are proposed about their
    mode at each of a lattice of scales (methods.loglinear). All other unknowns come from a multivariate t with the Hessian's
    shape. Where weights call for it, proposals are fitted to the weighted draws. The
    weights are accepted by one rule: Pareto k-hat below 0.7 and an effective sample of a quarter.

    Parameters
    ----------
    draws, chains : int
        Draws kept, shaped like chains; they are resampled from as many weighted proposals, or from more where these are
        cheap.
    unknowns : int
        The most of a prior without learnt scales. Measured: a dense Hessian of 400 takes .1 s to decompose, and weights over
        more are seldom accepted.
    scaled : int
        The most where effects have learnt scales. Measured: more effects are far from their joint mode, and weights about
        the mode are rejected. Twice as many are accepted where the prior has pivots.

    Notes
    -----
    It needs a likelihood's value and gradient only, so that it handles reports kept as rows and summaries alike. Priors
    that are Dirichlet have exact and faster engines and are left to them, random walks over categories to Hamiltonian Monte
    Carlo: their scales and steps leave weights no effective draws. Where weights about the mode are not accepted,
    draws of the prior are weighted by the likelihood, if the reports of a collection are so few that these hold; under a
    prior with a probability at one value, such as ``floor``, at once, because weights about one mode may miss most of a
    posterior of two parts.

    References
    ----------
    Geweke 1989, Econometrica 57, on multivariate t proposals; Vehtari et al. 2024, JMLR 25, on Pareto smoothing; Rue,
    Martino and Chopin 2009, JRSS B 71, on lattices of scales.
    """

    unknowns: int = 400
    scaled: int = 60
    name: ClassVar[str] = "weighted"
    after: ClassVar[str] = "pair_slice"
    joint: ClassVar[bool] = True
    pace: ClassVar[Pace] = Pace(0.05, 0.0, 1.5e-9)
    needs: ClassVar[tuple[str, ...]] = ()

    def prepare(self, problem):
        prior = problem.prior
        if problem.alpha is not None:
            return Refusal(
                "The method weighted is for priors that are not Dirichlet; other methods are better for this one."
            )
        if prior.kind == "walk":
            return Refusal(f"The method weighted has no proposals for a random walk; this prior is {prior.describe()}.")
        if prior.kind == "table" and problem.keeps_reports:
            return loglinear.planned(problem)
        most, kind, way = self.unknowns, "unknowns", "of the prior" if prior.has_atom else "about the mode"
        if prior.varying:
            most = self.scaled * (2 if prior.pivots else 1)
            kind, way = "unknowns of effects whose scale is learnt", "of effects, given how much they vary,"
        if prior.n_unknowns > most:
            return Refusal(f"The method weighted takes at most {most} {kind}; {prior.describe()} has {prior.n_unknowns}.")
        # A prior's gradient takes as long as the gradient of some 30,000 entries of the likelihood.
        evaluations = 40 * prior.n_unknowns + self.draws * self.chains / 10
        work = evaluations * (3e4 + max(problem.entries, problem.n_categories)) if problem.alone else 0.0
        reason = f"Weighted draws {way} handle this prior; their Pareto k-hat shows whether to trust them."
        return Preparation(reason, work, (problem, None))

    def run(self, plan, rng, watch):
        problem, table = plan.state
        size, split = self.draws * self.chains, (self.chains, self.draws)
        if table is not None:
            return table.outcome(size, split, rng, watch)
        prior, likelihoods = problem.prior, problem.likelihoods
        written = not problem.alone and entries(likelihoods) <= MAX_ENTRIES
        target = Target(prior, Forms.of(likelihoods) if written else Apart(likelihoods))
        drawn = None if prior.has_atom else weighted(target, size, rng, watch)
        if problem.alone and (drawn is None or not drawn.verdict.accepted):
            every = drawn, from_prior(target, size, rng, watch)
            drawn = max((draws for draws in every if draws is not None), key=lambda draws: draws.rank, default=None)
        if drawn is None:
            raise InfeasibleError(
                "The prior has a probability at one value, so that the posterior has a part with this value and one "
                "without. Weights about the mode of one may miss most of the other, and the reports say too much for draws "
                "of the prior."
            )
        return Outcome.of_weights(drawn, prior, drawn.values, split, rng)
