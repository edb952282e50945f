"""All cells at once by weights: about the mode of the prior's unknowns, or of effects given their scales; few unknowns."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ldpbayes.inference.conditional import Conditional, Given
from ldpbayes.inference.importance import first_accepted, moments, resample
from ldpbayes.inference.proposals import DEGREES, FromPrior, Mixture, fitted_parts
from ldpbayes.inference.target import Target
from ldpbayes.posteriors.base import Plan, Refusal, Sample
from ldpbayes.posteriors.forms import Apart, Forms, entries
from ldpbayes.posteriors.joint.base import AbstractJoint
from ldpbayes.posteriors.laplace import MAX_EVALUATED, MAX_UNKNOWNS, PROPOSALS, about_the_mode

#: More unknowns, whose effects have a learnt scale, are far from their joint mode: weights about it came to nothing.
MAX_SCALED = 60
#: Proposals of effects and their scales are fitted anew to weighted draws at most so often: a mixture of at most so many t
#: distributions, one for so many effective draws of each unknown.
MAX_REFITS, MOST_PARTS, DRAWS_EACH = 4, 6, 20
#: Shares of proposals from the prior, and beside fitted ones of those given the scales.
DEFENCE, FIRST = 0.1, 0.3


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
        problem = plan.state
        prior = problem.prior
        size = self.draws * self.chains
        z, p, found = _weighted(problem, size, rng, watch)
        variables = prior.variables(z)
        chosen = rng.permutation(resample(found.weight, rng, size))
        split = (self.chains, self.draws)
        named = {"distribution": p, **{name: values for name, (_, values) in variables.items()}}
        return Sample(
            p[chosen].reshape(*split, *prior.shape),
            effective=min(found.effective_sample, float(size)),
            verdict=found.judged(size),
            variables={name: (dims, v[chosen].reshape(*split, *v.shape[1:])) for name, (dims, v) in variables.items()},
            known={name: moments(values, found.weight, size) for name, values in named.items()},
            facts=found.facts,
        )


def _weighted(problem, size, rng, watch):
    """Return (unknowns, P, Weighted): of effects given their scales where a prior has these, else about the mode."""
    target = Target(problem.prior, Apart(problem.likelihoods))
    if not problem.prior.varying:
        return about_the_mode(target, size, size, rng, watch, lambda narrow: narrow)
    shaped = replace(target, reports=Forms.of(problem.likelihoods))
    most = MAX_EVALUATED / max(entries(problem.likelihoods), math.prod(problem.prior.shape))
    return first_accepted(target.log_density, _given_scales(shaped, size, most, rng, watch), size, rng)


def _given_scales(target, size, most, rng, watch):
    """Yield (proposal, draws): of effects given their scales, beside the prior, then also of what weights ask for.

    Where reports bound a share, the likelihood is flat beyond: there the effects are as far out as the prior lets them.
    """
    conditional, prior = Conditional(target), FromPrior(target.prior)
    given = Given(conditional.proposal(), conditional)
    first = drawn = 2 ** math.ceil(math.log2(size))
    parts, shares = (given, prior), np.array([1 - DEFENCE, DEFENCE])
    for _ in watch.track(range(1 + MAX_REFITS), "Weighted draws"):
        z, weight = yield Mixture(parts, shares), drawn
        number = int(1 / (weight @ weight) / (DRAWS_EACH * z.shape[1]))
        try:
            fitted = fitted_parts(z[resample(weight, rng, first)], min(max(number, 1), MOST_PARTS), DEGREES, rng)
        except np.linalg.LinAlgError:
            return
        parts = (given, prior, *fitted[0])
        shares = np.concatenate([[FIRST, DEFENCE], (1 - FIRST - DEFENCE) * fitted[1]])
        drawn = drawn if 2 * drawn > min(PROPOSALS * first, most) else 2 * drawn
