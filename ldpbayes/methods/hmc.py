"""Hamiltonian Monte Carlo of a prior's unknowns, of all cells at once or of a random walk over ordered categories."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.inference.structure import CURVATURES
from ldpbayes.methods.base import AbstractPosterior, Pace, Preparation, Refusal, whole
from ldpbayes.methods.constants import MAX_ENTRIES
from ldpbayes.methods.forms import entries
from ldpbayes.methods.sampler import Sampler
from ldpbayes.methods.walk import operations


@dataclass(frozen=True)
class HMC(AbstractPosterior):
    """Hamiltonian Monte Carlo whose standard normal part is solved exactly, on the reports in their cheapest form.

    Its priors are those over all cells, and random walks, such as ``smooth``.

    Parameters
    ----------
    draws, chains : int
        Draws kept per chain, and chains.
    written : int
        Entries, distinct reports × categories, up to which reports enter as they are. More are expanded, and the draws
        weighted by the reports.

    Notes
    -----
    With log-density −|u|²/2 − V(u) and momentum v, a step is a kick v − (t/2)∇V(u), a rotation of (u, v) by the angle t,
    and a kick. Only V is integrated with an error, so that few steps make a trajectory of a right angle, or of more
    where reports say little, after which a draw has forgotten the one before. The energy decides on acceptance. Effects
    are bent (inference.bending) so that they hardly depend on their scale; the coordinates of a random walk come from a
    filter along the categories (methods.walk). NUTS takes over where trajectories of 64 steps are refused too often or lose
    their energy, or weights are rejected.

    References
    ----------
    Shahbaba, Lan, Johnson and Neal 2014, Statistics and Computing 24, on splitting off the normal part; Neal 2011, Handbook
    of Markov Chain Monte Carlo, chapter 5; the theory pages on cells and on priors.
    """

    written: int = Sampler.written
    name: ClassVar[str] = "hmc"
    after: ClassVar[str] = "weighted"
    joint: ClassVar[bool] = True
    pace: ClassVar[Pace] = Pace(0.2, 0.0, 1.2e-9)
    needs: ClassVar[tuple[str, ...]] = ()
    checked: ClassVar[Mapping] = {"draws": whole(4), "written": whole(0)}

    @property
    def sampler(self):
        """What makes the chains."""
        return Sampler(self.written)

    def prepare(self, problem):
        prior = problem.prior
        if problem.alone and prior.kind != "walk":
            return Refusal(
                "The method hmc is for priors over all cells and for random walks over ordered categories, such as smooth, "
                f"without unknowns of a device or of people beside them; this one is {prior.describe()}."
            )
        shaped = problem.alone or (prior.cell_unknowns() or prior.spectrum(np.zeros(prior.n_unknowns))) is not None
        if prior.n_unknowns > CURVATURES.most_dense and not shaped:
            return Refusal(
                f"The method hmc takes at most {CURVATURES.most_dense} unknowns of a prior that does not state how they "
                f"depend on each other; got {prior.n_unknowns}."
            )
        written, size = self.sampler.takes_reports(problem), entries(problem.likelihoods)
        if written and size > MAX_ENTRIES:
            return Refusal(f"The rows have {size} entries (distinct reports × categories); hmc takes at most {MAX_ENTRIES}.")
        how = "its reports as they are" if written else "its reports expanded, and weighted afterwards"
        if not problem.alone:
            how = how.replace("its", "their")
            return Preparation(f"The prior joins all cells, so that they are sampled together, {how}.", 0.0, problem)
        reason = f"The prior is a random walk over ordered categories, which a filter follows, {how}."
        return Preparation(reason, self.draws * self.chains * operations(problem, self.written), problem)

    def run(self, plan, rng, watch):
        def way(chains, going):
            if not plan.state.alone:  # a random walk is announced by its plan
                watch.announce(f"The method {self.name}", chains.seconds * self.draws * self.chains)
            return chains.by_hmc(rng, watch, going)

        return self.sampler.outcome(plan.state, self.draws, self.chains, rng, watch, way)
