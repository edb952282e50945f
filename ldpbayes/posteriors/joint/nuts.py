"""All cells at once by the No-U-Turn sampler on the prior's unknowns, without a model to compile."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes.inference.effects import Bent
from ldpbayes.inference.sampling import by_nuts
from ldpbayes.posteriors.base import inside, whole
from ldpbayes.posteriors.joint.sampled import AbstractSampled

#: Where draws diverge, they are made once more with this acceptance rate.
CAREFUL = 0.99
#: Draws of a short run that says where to expand, and discarded draws before it and before the last run.
PILOT, PILOT_TUNE, TUNE = 150, 100, 100


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

    def _pilot(self, target, before, rng):
        density, tries = _about(target, before), [(PILOT_TUNE, self.target_accept)]
        return by_nuts(density, density.back(before), 1, rng, None, lambda more: more(PILOT), tries).z[0]

    def _last(self, target, pilot, rng, watch, going):
        pilot = self._pilot(target, pilot, rng) if len(pilot) == 1 else pilot
        density = _about(target, pilot)
        tune = TUNE if density.coordinates.white else self.tune
        # A scale near zero makes the effects narrow.
        careful = [(max(tune, self.tune), CAREFUL)] if self.target_accept < CAREFUL else []
        tries = [(tune, self.target_accept), *careful]
        return by_nuts(density, density.back(pilot), self.chains, rng, watch, going, tries)


def _about(target, before):
    return Bent(target, before.mean(axis=0))
