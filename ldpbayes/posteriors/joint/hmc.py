"""All cells at once by Hamiltonian Monte Carlo, where coordinates make their posterior nearly standard normal."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ldpbayes.inference import sampling
from ldpbayes.inference.effects import ROUNDS, Bent
from ldpbayes.inference.structure import MAX_DENSE, Dense
from ldpbayes.posteriors.base import Refusal
from ldpbayes.posteriors.joint.sampled import AbstractSampled
from ldpbayes.posteriors.joint.settling import settled

#: Angle of trajectories and its jitter, where reports decide less than the share WEAK of the effects on average: those have
#: long tails, in which a right angle leads too short a way.
TURN, WEAK = (0.77 * math.pi, 0.2), 0.6
#: Most steps of a trajectory: of eight groups with a hundred weak reports each, 16 lost the energy of most runs.
MOST_STEPS = 64
#: Draws of the normal approximation that say where to expand.
PILOT = 150


@dataclass(frozen=True)
class Rotating(AbstractSampled):
    """Hamiltonian Monte Carlo whose standard normal part is solved exactly, each cell in its cheapest form.

    Parameters
    ----------
    draws, chains : int
        Draws kept per chain, and chains. About 90 draws of each chain are discarded.
    form : {"auto", "rows", "summary"}
        What stands for cells whose reports are neither separable nor few: summaries, whose draws are weighted by the
        reports, or the rows themselves.

    Notes
    -----
    With log-density −|u|²/2 − V(u) and momentum v, a step is a kick v − (t/2)∇V(u), a rotation of (u, v) by the angle t,
    and a kick. Only V is integrated with an error, so that few steps make a trajectory of a right angle, or of more
    where reports say little, after which a draw has forgotten the one before. The energy decides on acceptance. Effects
    are bent (inference.bending) so that they hardly depend on their scale. Where trajectories of 64 steps are still
    refused too often, or lose their energy, NUTS takes over.

    References
    ----------
    Shahbaba, Lan, Johnson and Neal 2014, Statistics and Computing 24, on splitting off the normal part; Neal 2011, Handbook
    of Markov Chain Monte Carlo, chapter 5; the theory page on cells.
    """

    draws: int = 1000
    chains: int = 4
    form: str = "auto"
    name: ClassVar[str] = "hmc"

    def prepare(self, problem):
        prior = problem.prior
        shaped = (prior.local() or prior.spectrum(np.zeros(prior.n_unknowns))) is not None
        if prior.n_unknowns > MAX_DENSE and not shaped:
            return Refusal(
                f"The method hmc takes at most {MAX_DENSE} unknowns of a prior that does not know how they hang together; "
                f"got {prior.n_unknowns}."
            )
        return super().prepare(problem)

    def _pilot(self, target, before, rng):
        density = _about(target, before)
        return density.of(rng.standard_normal((PILOT, target.prior.n_unknowns)))

    def _last(self, target, pilot, rng, watch, going):
        at = [rng.standard_normal(target.prior.n_unknowns) for _ in range(self.chains)]
        density = _about(target, pilot)
        rounds = ROUNDS if isinstance(density.coordinates, Dense) else 1  # which learns from its draws
        density, at, steps, _ = sampling.settled(density, at, rounds, rng, MOST_STEPS)
        return sampling.by_hmc(density, at, steps, rng, watch, going, MOST_STEPS)


def _about(target, before):
    """Return the density in coordinates about the middle of the posterior: from draws where there is more than one."""
    at, share = settled(target, None if len(before) == 1 else before.mean(axis=0))
    if share is None:
        return Bent(target, at)
    target = replace(target, turn=TURN) if share[target.effects].mean() < WEAK else target
    return Bent(target, at, share / (1 - share))
