"""All cells at once by weights: of effects given their scales, where the prior has these; else about the mode."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.inference.target import Target
from ldpbayes.inference.weighted import weighted
from ldpbayes.posteriors.base import Plan, Refusal, Sample
from ldpbayes.posteriors.forms import Apart, Forms, entries
from ldpbayes.posteriors.joint.base import AbstractJoint
from ldpbayes.posteriors.joint.sampled import MAX_ENTRIES
from ldpbayes.posteriors.laplace import MAX_UNKNOWNS

#: More unknowns, whose effects have a learnt scale, are far from their joint mode: weights about it came to nothing.
MAX_SCALED = 60


@dataclass(frozen=True)
class AboutTheMode(AbstractJoint):
    """Weighted draws of effects given their scales, where the prior has these; else of a t about the mode of all unknowns.

    Parameters
    ----------
    draws, chains : int
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "laplace"

    def prepare(self, problem):
        scaled = bool(problem.prior.varying)
        most = MAX_SCALED if scaled else MAX_UNKNOWNS
        if problem.prior.n_unknowns > most:
            kind = "unknowns of effects whose scale is learnt" if scaled else "unknowns"
            return Refusal(f"The method laplace takes at most {most} {kind}, got {problem.prior.n_unknowns}.")
        way = "of effects, given how much they vary" if scaled else "about the mode of all unknowns"
        return Plan(f"The prior joins all cells: weighted draws {way}.", 0.0, problem)

    def run(self, plan, rng, watch):
        prior, likelihoods, size = plan.state.prior, plan.state.likelihoods, self.draws * self.chains
        written = entries(likelihoods) <= MAX_ENTRIES
        draws = weighted(Target(prior, Forms.of(likelihoods) if written else Apart(likelihoods)), size, rng, watch)
        return Sample.of_weights(draws, prior, draws.values, (self.chains, self.draws), rng)
