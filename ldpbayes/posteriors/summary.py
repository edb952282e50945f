"""The engine of summaries: one-dimensional integrals under a Dirichlet prior, other engines under any other."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal
from ldpbayes.posteriors.expansion import of_rows, refusal, trusted
from ldpbayes.posteriors.hmc import HMC
from ldpbayes.posteriors.mixing import Expanded
from ldpbayes.posteriors.mixture import Mixture, sampled
from ldpbayes.posteriors.nodes import Nodes
from ldpbayes.posteriors.weighted import Weighted


@dataclass(frozen=True)
class OfSummary(AbstractPosterior):
    """The posterior of a summary: a log-likelihood that is known as its expansion at a pilot.

    A Dirichlet prior times the expansion is a product of independent factors on the simplex: moments, quantiles and
    evidence are one-dimensional integrals. Other priors go to the engine that handles them. A summary whose predicted error
    is above a tenth of a posterior sd is refused.

    Parameters
    ----------
    draws, chains : int
        Draws of P, shaped like chains. The respondents' own frequencies F have mean and sd, and no draws.

    Notes
    -----
    A collection whose reports were kept is expanded at its own posterior mean first.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "summary"
    order: ClassVar[float] = 30
    pace: ClassVar[Pace] = Pace(0.05, 0.0, 1e-7)
    needs: ClassVar[tuple[str, ...]] = ()

    def prepare(self, problem):
        kept = problem.keeps_reports
        if kept:
            if problem.n_categories < 3:
                return Refusal("Reports over two categories are not expanded: their posterior is exact.")
            own, expansion = of_rows(problem.rows, problem.alpha)
            problem = replace(problem, likelihood=own)
        else:
            expansion = trusted(problem.likelihood, problem.alpha)
        if expansion.problem:
            return Refusal(refusal(problem.likelihood, expansion, kept=kept))
        reason = "Only sums over the reports were kept: their expansion at a pilot is the likelihood."
        if problem.alpha is not None:
            return Plan(reason, problem.n_categories * (self.draws * self.chains + 1e3), (problem, expansion, None))
        engine, plan = self._other(problem)
        state, pace = (problem, expansion, (engine, plan)), plan.pace or engine.pace
        return Plan(f"{reason} {plan.reason}", plan.work, state, pace)

    def _other(self, problem):
        """Return (engine, Plan) for a prior that is no Dirichlet."""
        reasons = []
        for kind in (Mixture, Weighted, HMC):
            engine = kind(draws=self.draws, chains=self.chains)
            plan = engine.plan(problem)
            if plan.feasible:
                return engine, plan
            reasons.append(plan.reason)
        raise InfeasibleError(" ".join(reasons))

    def run(self, plan, rng, watch):
        problem, found, other = plan.state
        sample = self._dirichlet(problem, rng, watch) if other is None else other[0].run(other[1], rng, watch)
        checked = f"{found.sentence} {sample.verdict.checked}".strip()
        facts = dict(sample.facts) | found.facts()
        facts["log_evidence_error"] = math.hypot(found.evidence, facts.get("log_evidence_error", 0.0))
        return replace(sample, verdict=replace(sample.verdict, checked=checked), facts=facts)

    def _dirichlet(self, problem, rng, watch):
        """Return the Sample under a Dirichlet prior: integrals are known but for transforms that do not die out."""
        prior, server = problem.prior, Expanded([problem])
        server.exact = not (server.exact and server.engine(prior).rough.any())
        nodes = Nodes.alone(prior, float(server.log_evidence(prior)[0]))
        (sample,), _ = sampled(nodes, [server], (self.chains, self.draws), [rng], rng, watch)
        return sample
