"""Any protocol at any n: conjugate posteriors of an expanded likelihood, and weights on the true one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ldpbayes.methods import conjugate
from ldpbayes.methods.base import AbstractPosterior
from ldpbayes.methods.nodes import Placement, checked_placement
from ldpbayes.methods.plan import Pace
from ldpbayes.methods.servers import SURROGATE


@dataclass(frozen=True)
class Surrogate(AbstractPosterior):
    """Importance sampling from a conditioned-product surrogate of the likelihood; any protocol, any n.

    It serves Dirichlet priors, and priors that mix Dirichlet priors, over a floor or not. Draws from the surrogates at all
    nodes are weighted together by the true likelihood, which also corrects the weights of the nodes. The expansion of a
    summary is its likelihood: moments are integrals, and the predicted error says how far they are from the moments by
    reports.

    Parameters
    ----------
    draws, chains : int
        Draws kept, shaped like chains; as many surrogate draws are weighted and resampled, or more where more are enough.
    placement : Placement
        Placement of the nodes.

    Notes
    -----
    The attrs have the log-evidence, and under a prior that mixes Dirichlet priors what ``Exact`` says of the
    hyperparameter. Ctrl-C keeps the draws that are weighted, if their weights can be trusted.
    """

    placement: Placement = field(default=Placement(), repr=False)
    name: ClassVar[str] = "surrogate"
    after: ClassVar[str] = "quadrature"
    pace: ClassVar[Pace] = Pace(0.05, 2e-3, 5e-10)
    needs: ClassVar[tuple[str, ...]] = ()
    checked: ClassVar[Mapping] = {"placement": checked_placement}
    kinds: ClassVar[tuple[type, ...]] = SURROGATE

    def prepare(self, problem):
        return conjugate.plan_of(self, problem, self.kinds)

    def run(self, plan, rng, watch):
        return conjugate.run(self, plan, rng, watch)
