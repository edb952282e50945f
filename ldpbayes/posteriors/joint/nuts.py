"""All cells at once by the No-U-Turn sampler on the prior's unknowns, without a model to compile."""

from dataclasses import dataclass
from typing import ClassVar

from ldpbayes import checks
from ldpbayes.inference.nuts import sample_density
from ldpbayes.posteriors.joint.sampled import AbstractSampled
from ldpbayes.posteriors.joint.whitening import Plain, whitened

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

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "tune", checks.integer(self.tune, "tune", minimum=50))
        accept = checks.probability(self.target_accept, "target_accept", open_low=True, open_high=True)
        object.__setattr__(self, "target_accept", accept)

    def _pilot(self, target, before, rng):
        coordinates = whitened(target, before.mean(axis=0))
        settings = {"draws": PILOT, "tune": PILOT_TUNE, "chains": 1, "target_accept": self.target_accept}
        u, _ = sample_in(target, coordinates, rng, start=coordinates.back(before), **settings)
        return coordinates.of(u[0])

    def _last(self, target, pilot, rng, watch):
        pilot = self._pilot(target, pilot, rng) if len(pilot) == 1 else pilot
        coordinates = whitened(target, pilot.mean(axis=0))
        white = type(coordinates) is not Plain
        start = coordinates.back(pilot)
        settings, more = {"draws": self.draws, "tune": TUNE if white else self.tune, "chains": self.chains}, {}
        u, stats = sample_in(
            target, coordinates, rng, target_accept=self.target_accept, start=start, watch=watch, **settings
        )
        if stats["diverging"].any() and self.target_accept < CAREFUL and not (watch is not None and watch.interrupted):
            # Once more with smaller steps: a scale near zero makes the effects narrow.
            settings |= {"tune": max(settings["tune"], self.tune)}
            more = {"target_accept_used": CAREFUL}
            u, stats = sample_in(target, coordinates, rng, target_accept=CAREFUL, start=start, watch=watch, **settings)
        settings |= {"target_accept": more.get("target_accept_used", self.target_accept), "watch": watch}
        ends = u[:, -1]

        def go_on(number):
            nonlocal ends
            again = settings | {"start": ends, "draws": number, "tune": TUNE}
            found, held = sample_in(target, coordinates, rng, **again)
            ends = found[:, -1]
            return coordinates.of(found), held

        return coordinates.of(u), stats, more, "", go_on


def sample_in(target, coordinates, rng, *, start, **settings):
    """Return (draws (chains, draws, u), statistics) in the given coordinates; chains start near some points of theirs.

    Parameters
    ----------
    target : Target
    coordinates : Plain, Dense or Arrow
    rng : numpy.random.Generator
    start : (k, u) array
    **settings
        As for ``chains.sample_density``.
    """
    size = coordinates.centre.size

    def begin(own):
        return start[own.integers(len(start))] + 0.1 * own.standard_normal(size)

    return sample_density(coordinates.density(target), begin, rng, size=size, **settings)
