"""All cells at once by Hamiltonian Monte Carlo, where coordinates make their posterior nearly standard normal."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.inference.structure import MAX_DENSE
from ldpbayes.posteriors.base import Refusal
from ldpbayes.posteriors.joint.sampled import AbstractSampled


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

    def sampled(self, chains, rng, watch, going):
        return chains.by_hmc(rng, watch, going)
