"""All cells at once by the No-U-Turn sampler on the prior's unknowns, without a model to compile."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.posteriors.base import inside, whole
from ldpbayes.posteriors.joint.sampled import AbstractSampled


@dataclass(frozen=True)
class Whitened(AbstractSampled):
    """NUTS in coordinates whitened by the Hessian, each cell in its cheapest form.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and discarded per chain, and chains; ``tune`` counts where the coordinates are not whitened.
    target_accept : float
    form : {"auto", "rows", "summary"}
        What stands for cells whose reports are neither separable nor few: summaries, whose draws are weighted by the
        reports, or the rows themselves.
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.8
    form: str = "auto"
    name: ClassVar[str] = "nuts"
    checked: ClassVar[Mapping] = {**AbstractSampled.checked, "tune": whole(50), "target_accept": inside}

    def sampled(self, chains, rng, watch, going):
        return chains.by_nuts(rng, watch, going, self.tune, self.target_accept)
