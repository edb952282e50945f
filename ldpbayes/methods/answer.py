"""An answer: a finished run of a method, with the verdict on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes.inference.diagnostics import Diagnostics, Statistics, of_independent, summarize
from ldpbayes.inference.verdict import of_chains
from ldpbayes.methods.completion import Completion, Posterior, of_answers_alone
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.watch import Watch


@dataclass(frozen=True, eq=False)
class MethodAnswer:
    """A finished run.

    Attributes
    ----------
    method : AbstractPosterior
    problem : Problem or Joint
    outcome : Outcome
    rng : numpy.random.Generator
        Random numbers for draws after the run.
    watch : Watch
    asked : dict
        random_seed and ci_prob.
    reason : str
        Why the method applies.
    """

    method: Any
    problem: Any
    outcome: Outcome
    rng: np.random.Generator
    watch: Watch
    asked: Mapping[str, Any]
    reason: str = ""

    @cached_property
    def posterior(self) -> Posterior:
        """Draws of all quantities, F among them, and numbers that the draws do not decide."""
        completion = Completion(self.method.chains, self.method.draws, self.asked["ci_prob"])
        run = self.problem, self.outcome, self.rng, self.watch
        if not self.problem.alone:
            return completion.of_cells(*run)
        posterior = completion.of_collection(*run)
        return of_answers_alone(posterior, self.problem.collection) if self.problem.collection.laws else posterior

    @cached_property
    def summary(self) -> Statistics:
        """What is printed, with the verdict."""
        posterior, prob = self.posterior, self.asked["ci_prob"]
        mean = {} if posterior.frequency_mean is None else {"frequency_mean": posterior.frequency_mean}
        return summarize(
            posterior.draws,
            posterior.diagnostics,
            prob,
            exact=posterior.exact | mean,
            stats=posterior.stats,
            facts=posterior.facts,
            effective=posterior.effective,
            known=posterior.known_at(prob) if posterior.known_at else None,
        )

    @property
    def diagnostics(self) -> Diagnostics:
        """The diagnostics with their verdict: that on chains, and on all cells at once, comes with their summary."""
        if self.outcome.independent and self.problem.alone:
            return of_independent(self.posterior.diagnostics, self.posterior.length[1])
        return self.summary.diagnostics

    @property
    def facts(self) -> dict[str, Any]:
        """What a result says of the run."""
        about = {"random_seed": self.asked["random_seed"], "method": self.method.name}
        return self.diagnostics.to_attrs() | self.posterior.facts | about

    @property
    def settings(self) -> dict[str, Any]:
        """What the method was run with."""
        return self.method.settings | dict(self.asked)

    @property
    def trouble(self) -> str:
        """Why the answer is rejected, in one sentence, or an empty string."""
        if self.outcome.rejected:
            return self.outcome.rejected
        undefined = "undefined" in self.posterior.facts and self.outcome.independent  # no other method would define it
        diagnostics = self.diagnostics
        if diagnostics.converged or diagnostics.interrupted or undefined or self._few:
            return ""
        return diagnostics.problems

    @property
    def _few(self) -> bool:
        """Whether chains are not accepted, and only because too few draws were asked for: no other method has more."""
        if self.outcome.independent or self.outcome.verdict.problem:
            return False
        diagnostics, (chains, draws) = self.diagnostics, self.posterior.length
        said = diagnostics.worst_r_hat, diagnostics.least_ess, diagnostics.divergences
        made = chains * draws * self.posterior.facts.get("thinned", 1)
        return of_chains(*said, chains * draws, made).next == "done"  # type: ignore[arg-type]  # chains have all

    @property
    def log_evidence(self) -> tuple[float, float] | None:
        """(log-evidence, its standard error), or None where the method has none."""
        value = self.posterior.exact.get("log_evidence", self.posterior.facts.get("log_evidence"))
        return None if value is None else (float(value), float(self.posterior.facts.get("log_evidence_error", 0.0)))
