"""What engines for a prior over all cells add to the pattern of posteriors.base: their problem, and their result."""

import math
from dataclasses import asdict
from functools import cached_property
from typing import ClassVar

from ldpbayes.collections.noncompliance import words_of
from ldpbayes.posteriors.base import CALLER, AbstractPosterior, Answer
from ldpbayes.posteriors.problem import Joint, prior_of_cells


class AbstractJoint(AbstractPosterior):
    """A way to get the joint posterior of all cells; ``distribution`` has shape (chains, draws, cells, categories)."""

    needs: ClassVar[tuple[str, ...]] = ()
    largest: ClassVar[float] = math.inf

    @staticmethod
    def _problem(data, prior):
        return Joint(data, prior_of_cells(prior, data))

    def _seconds(self, plan, problem):
        return math.nan

    def _answered(self, *run):
        return JointAnswer(self, *run)


class JointAnswer(Answer):
    """A finished run over all cells."""

    @property
    def _judged(self):
        return self.tree.attrs

    @cached_property
    def tree(self):
        """The summarized DataTree of all cells."""
        from ldpbayes.result.building import of_draws

        sample, prior, cells = self.sample, self.problem.prior, self.problem.cells
        facts = {
            "random_seed": self.asked["random_seed"],
            "sampling": "independent" if sample.independent else "mcmc",
            "checked": sample.verdict.checked if sample.verdict.accepted else "",
            "problem": sample.verdict.problem,
            "interrupted": int(self.watch.interrupted),
            "reason": CALLER,
        }
        if sample.effective is not None:
            facts["effective_draws"] = sample.effective
        stated = self.problem.stated
        about = {name: value for name, value in sample.facts.items() if not (stated and name.startswith("log_evidence"))}
        about |= words_of(cells).of_each() if cells.laws else {}
        used = {dim for dims, _ in sample.variables.values() for dim in dims}
        tree = of_draws(
            cells,
            prior,
            sample.distribution,
            method=self.method.name,
            settings=asdict(self.method) | dict(self.asked),
            others={name: (dims, values, {"of": "prior"}) for name, (dims, values) in sample.variables.items()},
            ci_prob=self.asked["ci_prob"],
            rng=self.rng,
            known=sample.known,
            drawn=sample.frequencies,
            owners=cells.owners,
            # A prior names categories and cells by position; the data have their labels.
            coords={name: list(labels) for name, labels in prior.coords().items() if name in used - set(cells.dims)},
            stats=sample.stats,
            attrs=facts | about,
        )
        tree.attrs |= stated
        return tree
