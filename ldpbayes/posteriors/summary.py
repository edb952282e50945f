"""The engine of summaries: one-dimensional integrals under a Dirichlet prior, other engines under any other."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.inference.ends import tails
from ldpbayes.inference.importance import resample
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample
from ldpbayes.posteriors.expansion import Expansion, of_rows, refusal, trusted
from ldpbayes.posteriors.frequency import AVERAGED, frequency_moments, moments_from_draws
from ldpbayes.posteriors.laplace import Laplace
from ldpbayes.posteriors.mixture import Mixture
from ldpbayes.posteriors.walk import RandomWalk


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
        if problem.keeps_reports:
            if problem.n_categories < 3:
                return Refusal("Reports over two categories are not expanded: their posterior is exact.")
            own, found = of_rows(
                problem.rows, np.full(problem.n_categories, 0.5) if problem.alpha is None else problem.alpha
            )
            problem = replace(problem, likelihood=own.summary)
        else:
            own = None if problem.alpha is None else Expansion(problem.likelihood, problem.alpha)
            found = trusted(problem.likelihood) if own is None else own.accuracy
        summary, alpha = problem.likelihood, problem.alpha
        own = None if alpha is None else own
        if found.problem:
            return Refusal(refusal(summary, found))
        reason = "Only sums over the reports were kept: their expansion at a pilot is the likelihood."
        if own is not None:
            return Plan(reason, alpha.size * (self.draws * self.chains + 1e3), (problem, own, found, None))
        engine, plan = self._other(problem)
        state, pace = (problem, None, found, (engine, plan)), plan.pace or engine.pace
        return Plan(f"{reason} {plan.reason}", plan.work, state, pace)

    def _other(self, problem):
        """Return (engine, Plan) for a prior that is no Dirichlet."""
        said = []
        for kind in (Mixture, RandomWalk, Laplace):
            engine = kind(draws=self.draws, chains=self.chains)
            plan = engine.plan(problem)
            if plan.feasible:
                return engine, plan
            said.append(plan.reason)
        raise InfeasibleError(" ".join(said))

    def run(self, plan, rng, watch):
        problem, own, found, other = plan.state
        if other is not None:
            sample = other[0].run(other[1], rng, watch)
            verdict = replace(sample.verdict, checked=f"{found.sentence} {sample.verdict.checked}".strip())
            exact = dict(sample.exact)
            if "frequency_mean" not in exact:
                flat = (
                    sample.weighted[0][resample(sample.weighted[1], rng)]
                    if sample.weighted
                    else (sample.distribution.reshape(-1, problem.n_categories))
                )
                some = flat[rng.permutation(len(flat))[:AVERAGED]]
                exact["frequency_mean"], exact["frequency_sd"] = moments_from_draws(problem.likelihood, some)
            intervals = _with_frequency(sample.intervals, exact, problem.n_users)
            facts = dict(sample.facts) | found.facts()
            return replace(sample, verdict=verdict, exact=exact, intervals=intervals, facts=facts)
        return self._dirichlet(problem, own, found, rng)

    def _dirichlet(self, problem, own, found, rng):
        engine, log_scale = own.exact()
        drawn = own.draws(self.draws * self.chains, rng)
        flat = drawn.distribution[rng.permutation(resample(drawn.weight, rng))]
        facts, exact, intervals = found.facts(), {}, None
        if engine is not None:
            mean, variance = engine.mean, engine.variance
            exact = {"distribution_mean": mean, "distribution_sd": np.sqrt(variance)}
            exact["log_evidence"] = engine.log_evidence + log_scale

            def intervals(ci_prob):
                try:
                    lower, upper = engine.quantile(tails(ci_prob))
                except ConvergenceError:  # the draws' quantiles take their place
                    return {}
                return {"distribution_lower": lower, "distribution_upper": upper}

        else:
            mean = drawn.weight @ drawn.distribution
            variance = drawn.weight @ (drawn.distribution - mean) ** 2
            facts |= {"log_evidence": drawn.log_evidence, "log_evidence_error": drawn.log_evidence_error}
        exact["frequency_mean"], exact["frequency_sd"] = frequency_moments(mean, variance, own.alpha, problem.n_users)
        return Sample(
            flat.reshape(self.chains, self.draws, -1),
            effective=drawn.effective_sample,
            verdict=replace(drawn.verdict, checked=found.sentence),
            weighted=None if engine is not None else (drawn.distribution, drawn.weight),
            exact=exact,
            intervals=_with_frequency(intervals, exact, problem.n_users),
            facts=facts,
        )


def _with_frequency(intervals, exact, n_reports):
    """Return ci_prob → ends of intervals, with those of F from its moments and the interval of P."""

    def both(ci_prob):
        from ldpbayes.result.moments import frequency_intervals

        known = dict(intervals(ci_prob)) if intervals else {}
        return frequency_intervals(exact | known, n_reports, ci_prob) | known

    return both
