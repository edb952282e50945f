"""All cells at once about the mode of the prior's unknowns: few unknowns, any prior with a gradient."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.inference.importance import moments, resample
from ldpbayes.posteriors.base import Plan, Refusal, Sample
from ldpbayes.posteriors.joint.base import AbstractJoint
from ldpbayes.posteriors.laplace import MAX_UNKNOWNS, Target, about_the_mode

#: More unknowns, whose effects have a learnt scale, are far from their joint mode: weights about it came to nothing.
MAX_SCALED = 60


@dataclass(frozen=True)
class AboutTheMode(AbstractJoint):
    """Weighted draws of a multivariate t about the mode of all unknowns, as posteriors.laplace makes them for one cell.

    Parameters
    ----------
    draws, chains : int
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "laplace"

    def prepare(self, problem):
        logits = problem.prior.logits()
        scaled = logits is not None and logits.scales() is not None
        most = MAX_SCALED if scaled else MAX_UNKNOWNS
        if problem.prior.n_unknowns > most:
            kind = "unknowns of effects whose scale is learnt" if scaled else "unknowns"
            return Refusal(f"The method laplace takes at most {most} {kind}, got {problem.prior.n_unknowns}.")
        return Plan("The prior joins all cells: weighted draws about the mode of all unknowns.", 0.0, problem)

    def run(self, plan, rng, watch):
        problem = plan.state
        prior = problem.prior
        size = self.draws * self.chains
        target = Target(prior, problem.likelihoods)
        z, p, found = about_the_mode(target, size, size, rng, watch, lambda narrow: narrow)
        variables = prior.variables(z)
        chosen = rng.permutation(resample(found.weight, rng))
        split = (self.chains, self.draws)
        named = {"distribution": p, **{name: values for name, (_, values) in variables.items()}}
        return Sample(
            p[chosen].reshape(*split, *prior.shape),
            effective=found.effective_sample,
            verdict=found.verdict,
            variables={name: (dims, v[chosen].reshape(*split, *v.shape[1:])) for name, (dims, v) in variables.items()},
            known={name: moments(values, found.weight) for name, values in named.items()},
            facts=found.facts,
        )
