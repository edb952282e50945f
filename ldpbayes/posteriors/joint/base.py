"""What engines for a prior over all cells share: the problem, seeds, the result and its weighted moments."""

import abc
from dataclasses import asdict
from typing import ClassVar, final

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors.base import Plan, Refusal, Sample, Watch
from ldpbayes.posteriors.problem import Joint


class AbstractJoint(abc.ABC):
    """A way to get the joint posterior of all cells. Settings are fields of the (frozen dataclass) subclass."""

    name: ClassVar[str]

    draws: int
    chains: int

    def __post_init__(self):
        """Check the settings that every engine has."""
        for name in ("draws", "chains"):
            object.__setattr__(self, name, checks.integer(getattr(self, name), name, minimum=1))

    @abc.abstractmethod
    def prepare(self, problem: Joint) -> Plan | Refusal:
        """Return the Plan, with the work that run() goes on from, or the Refusal; loads nothing heavy."""

    @abc.abstractmethod
    def run(self, plan: Plan, rng: np.random.Generator, watch: Watch) -> Sample:
        """Return the Sample of a plan; ``distribution`` has shape (chains, draws, cells, categories)."""

    @final
    def plan(self, problem: Joint) -> Plan | Refusal:
        """Return prepare(problem), after the size of the draws is checked."""
        checks.draws_size(self.draws, self.chains, len(problem.cells) * problem.cells.n_categories)
        try:
            return self.prepare(problem)
        except InfeasibleError as err:
            return Refusal(str(err))

    @final
    def tree(self, problem: Joint, sample: Sample, watch: Watch, reason: str, asked: dict):
        """Return the result of a run.

        Parameters
        ----------
        problem : Joint
        sample : Sample
        watch : Watch
            Of the run.
        reason : str
            Why this engine.
        asked : dict
            random_seed and ci_prob.
        """
        from ldpbayes.result.building import of_draws

        prior, cells = problem.prior, problem.cells
        facts = {
            "reason": reason,
            "random_seed": asked["random_seed"],
            "sampling": "independent" if sample.independent else "mcmc",
            "checked": sample.verdict.checked if sample.verdict.accepted else "",
            "problem": sample.verdict.problem,
            "interrupted": int(watch.interrupted),
        }
        if sample.effective is not None:
            facts["effective_draws"] = sample.effective
        used = {dim for dims, _ in sample.variables.values() for dim in dims}
        return of_draws(
            cells,
            prior,
            sample.distribution,
            method=self.name,
            settings=asdict(self) | asked,  # type: ignore[call-overload]  # a dataclass
            others={name: (dims, values, {"of": "prior"}) for name, (dims, values) in sample.variables.items()},
            ci_prob=asked["ci_prob"],
            rng=np.random.default_rng(asked["random_seed"]),
            known=sample.known,
            # A prior names categories and cells by position; the data have their labels.
            coords={name: list(labels) for name, labels in prior.coords().items() if name in used - set(cells.dims)},
            stats=sample.stats,
            attrs=facts | dict(sample.facts),
        )
