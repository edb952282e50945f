"""What engines for a prior over all cells share: the problem, seeds, the result and its weighted moments."""

import abc
import json
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
        import xarray as xr

        from ldpbayes import result

        prior, cells = problem.prior, problem.cells
        data: dict[str, tuple] = {"distribution": (("chain", "draw", "cell", "category"), sample.distribution)}
        for name, (dims, values) in sample.variables.items():
            data[name] = (("chain", "draw", *dims), values, {"of": "prior"})
        # A prior names categories and cells by position; the data have their labels.
        named = {"category": list(cells.categories), "cell": list(cells.labels)}
        used = {dim for dims, *_ in data.values() for dim in dims}
        coords = {name: list(labels) for name, labels in (dict(prior.coords()) | named).items() if name in used}
        trace = {"posterior": xr.Dataset(data, coords)}
        if sample.stats:
            trace["sample_stats"] = xr.Dataset({name: (("chain", "draw"), values) for name, values in sample.stats.items()})
        facts = {
            "prior_weight": prior.weight(),
            "method": self.name,
            "reason": reason,
            "settings": json.dumps(asdict(self) | asked, sort_keys=True, default=float),  # type: ignore[call-overload]  # a dataclass
            "sampling": "independent" if sample.independent else "mcmc",
            "checked": sample.verdict.checked if sample.verdict.accepted else "",
            "problem": sample.verdict.problem,
            "interrupted": int(watch.interrupted),
        }
        if sample.effective is not None:
            facts["effective_draws"] = sample.effective
        tree = result.attach(
            xr.DataTree.from_dict(trace),
            cells,
            var_name="distribution",
            prior=prior.describe(),
            log_likelihood=False,
            known=sample.known,
            attrs=facts | dict(sample.facts),
            **asked,
        )
        kept = tree["constant_data"].to_dataset()
        for name, value in prior.to_dict().items():
            array = np.asarray(value)
            own = prior.dims if array.shape == prior.shape else tuple(f"prior_{name}_{i}" for i in range(array.ndim))
            kept[name if name not in kept else f"prior_{name}"] = (own, array)
        tree["constant_data"] = xr.DataTree(kept)
        return tree
