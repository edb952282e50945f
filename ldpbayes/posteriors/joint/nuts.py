"""All cells at once by the No-U-Turn sampler."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.posteriors.base import Plan, Sample
from ldpbayes.posteriors.joint.base import AbstractJoint


@dataclass(frozen=True)
class Whitened(AbstractJoint):
    """NUTS on the unknowns of the prior.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and discarded per chain, and chains.
    target_accept : float
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.9
    name: ClassVar[str] = "nuts"

    def __post_init__(self):
        for field, least in (("draws", 4), ("tune", 50), ("chains", 1)):
            object.__setattr__(self, field, checks.integer(getattr(self, field), field, minimum=least))

    def prepare(self, problem):
        return Plan("The prior joins all cells, so that they are sampled together.", np.nan, problem)

    def run(self, plan, rng, watch):
        from ldpbayes.model import sample_cells

        problem = plan.state
        trace = sample_cells(
            problem.cells,
            problem.prior,
            draws=self.draws,
            tune=self.tune,
            chains=self.chains,
            target_accept=self.target_accept,
            random_seed=int(rng.integers(2**31)),
            progressbar=watch.shown,
        )
        names = [name for name in problem.prior.hyperparameter_names if name in trace["posterior"]]
        draws = trace["posterior"]["distribution"].values
        return Sample(
            draws / draws.sum(axis=-1, keepdims=True),
            independent=False,
            variables={name: ((), trace["posterior"][name].values) for name in names},
        )
