"""Chains of effects whose scales are learnt: Hamiltonian Monte Carlo, and the No-U-Turn sampler where that does not hold.

Unknowns are coefficients that are standard normal, and batches of standard normal effects, each times a scale e^s, as in a
regression with groups. Chains move in coordinates in which the effects hardly depend on their scale.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ldpbayes.inference import hmc
from ldpbayes.inference.bending import Bend
from ldpbayes.inference.constants import MOST_CHAINED
from ldpbayes.inference.diagnostics import entries_of, verdict_on
from ldpbayes.inference.handover import hand_over, in_order
from ldpbayes.inference.middle import decided, middle
from ldpbayes.inference.sampling import Going, Run, by_hmc, by_nuts, going_on, tuned_coordinates
from ldpbayes.inference.structure import Arrow
from ldpbayes.inference.target import Target
from ldpbayes.inference.verdict import LIMITS


@dataclass(frozen=True)
class Lengths:
    """How long chains of effects are, and what settles their coordinates.

    Attributes
    ----------
    turn, weak : pair of float and float
        Angle of trajectories and its jitter, where reports decide less than this share of the effects on average. Such
        effects have long tails, and a right angle leads too short a way in them. Bank: half and double of ``weak`` show
        nothing.
    aimed, acceptable : float
        Chains go on while interval ends have errors above the first share of what is aimed at, and, where that takes more,
        above the second share of the largest that is accepted. Derived: chains estimate these
        errors, and a margin of 30 % and of an eighth keeps the errors of the final draws below both.
    times : int
        The most of the draws asked for; there are more where gradients cost little. Bank: half and double show nothing.
    cost : float
        Entries of the likelihood that gradients cost in all, up to which ends are aimed at; up to ``times`` as many, ends
        become acceptable. Measured: a few seconds. Bank: half and double show nothing.
    each : triple of float
        What a gradient costs beside its entries: compiled, called back by the sampler, and not compiled, in
        entries. Measured: on one core.
    short, tune : int
        Draws of a short run of NUTS, and discarded ones before it and, where coordinates are whitened, before the run whose
        draws are used. Bank: halving the class harms one problem in four, and doubling it another one.
    accepted, careful : float
        Acceptance rate of NUTS, and of another run where draws diverged. Derived: Hoffman and Gelman (2014, JMLR 15)
        find .6 to .9 best; a step that is accepted at .99 is some four times as short, and follows what .85 misses.
    """

    turn: tuple[float, float] = (0.77 * math.pi, 0.2)
    weak: float = 0.6
    aimed: float = 0.7
    acceptable: float = 0.875
    times: int = 4
    cost: float = 4e8
    each: tuple[float, float, float] = (300, 3000, 20_000)
    short: int = 200
    tune: int = 150
    accepted: float = 0.85
    careful: float = 0.99


LENGTHS = Lengths()


class Chains:
    """Chains in coordinates that trajectories have settled.

    Parameters
    ----------
    target : Target
    before : (k, u) array or None
        Draws of a rough posterior, or a point, such as the mode.
    number : int
        Number of chains.
    rng : numpy.random.Generator

    Attributes
    ----------
    seconds : float
        Seconds of a processor core that a draw takes.
    """

    def __init__(self, target: Target, before: np.ndarray | None, number: int, rng: np.random.Generator):
        density = bent(target, before)
        at = [rng.standard_normal(target.prior.n_unknowns) for _ in range(number)]
        rounds = 3 if density.coordinates.white else 0  # else draws of trajectories are no help to coordinates
        self.density, self.at, self.steps, self.z = tuned_coordinates(density, at, rounds, rng)
        start = time.process_time()
        for u in self.at:
            self.density.value_and_gradient(u)
        self.seconds = self.steps * (time.process_time() - start) / number

    def by_hmc(self, rng: np.random.Generator, watch: Any, going: Going) -> Run:
        """Return the Run of Hamiltonian Monte Carlo."""
        return by_hmc(self.density, self.at, self.steps, rng, watch, going)

    def by_nuts(
        self, rng: np.random.Generator, watch: Any, going: Going, tune: int = LENGTHS.tune, rate: float = LENGTHS.accepted
    ) -> Run:
        """Return the Run of the No-U-Turn sampler, in coordinates that a short run of it says are better.

        Parameters
        ----------
        rng : numpy.random.Generator
        watch : Watch
        going : callable
            See sampling.Going.
        tune : int
            Discarded draws, where the coordinates are not whitened or draws diverge.
        rate : float
            Acceptance rate.
        """
        density, tuned = self.density, LENGTHS.tune if self.density.coordinates.white else tune
        if not density.coordinates.dense:  # effects of many cells bend this way and that: a step suits none
            density = Bent(density.target, self.z.mean(axis=0))
        start = time.process_time()
        first = by_nuts(
            density, density.back(self.z), 1, rng, None, lambda more: more(LENGTHS.short), [(LENGTHS.tune, rate)]
        ).z[0]
        self.seconds = (time.process_time() - start) / (LENGTHS.short + LENGTHS.tune)
        few = 2 * first.shape[1] <= len(first)  # unknowns, so that draws say how to bend them
        better = Bent.about(density.target, first) if few else density.anew(density.back(first))
        # A scale near zero makes the effects narrow.
        careful = [(max(tuned, tune), LENGTHS.careful)] if rate < LENGTHS.careful else []
        return by_nuts(better, better.back(first), len(self.at), rng, watch, going, [(tuned, rate), *careful])


def sample(
    target: Target,
    mode: np.ndarray,
    draws: int,
    chains: int,
    rng: np.random.Generator,
    watch: Any,
    *,
    values: Callable[[np.ndarray], np.ndarray],
    prob: float = 0.95,
    aimed: float = LIMITS.end_error,
    allowed: float = LIMITS.end_error,
    method: str = "auto",
) -> tuple[Run, str]:
    """Return (Run, name of the sampler).

    Chains that are short of effective draws, or whose interval ends are uncertain, go on: there are a multiple of the draws
    asked for. An interruption leaves fewer.

    Parameters
    ----------
    target : Target
    mode : (u,) array
    draws, chains : int
    rng : numpy.random.Generator
    watch : Watch
    values : callable
        z (S, u) → quantities (S, …) whose interval ends are judged.
    prob : float
        Probability of the intervals.
    aimed, allowed : float
        Error of their ends that is aimed at where that is cheap, and the largest that is accepted, in posterior sd.
    method : {"auto", "hmc", "nuts"}
        ``auto`` goes on with NUTS where trajectories do not hold.
    """
    begun = Chains(target, mode[None], chains, rng)

    def going(more, each, title):
        each, start = each if target.kernel is not None else LENGTHS.each[2], time.process_time()
        watch.announce(title, begun.seconds * draws * chains)

        def wanting(run, made):
            worst = end_errors(values, run.z, prob).max(initial=0.0)
            found = verdict_on(reported(target.prior, run.z))
            few = found.next == "more"
            cost = 2 * float(run.stats["n_steps"].sum()) * (target.reports.visited + each)
            enough = LENGTHS.aimed * aimed if cost <= LENGTHS.cost else LENGTHS.acceptable * allowed

            def served(length):  # whether chains of so many times these draws may be twice as long
                cheap = length * max(cost / (LENGTHS.times * LENGTHS.cost), 2 * made * chains / MOST_CHAINED) <= 1
                return cheap or 2 * length * made <= LENGTHS.times * draws

            wanted = (few or worst > enough) and served(1)
            if wanted:
                times = lengthened(max((worst / enough) ** 2, found.times if few else 1), served)
                watch.announce(title, (time.process_time() - start) * times)
            return wanted

        return going_on(more, wanting, draws, watch)

    ways = {
        "hmc": lambda: begun.by_hmc(rng, watch, partial(going, each=LENGTHS.each[0], title="Hamiltonian Monte Carlo")),
        "nuts": lambda: begun.by_nuts(rng, watch, partial(going, each=LENGTHS.each[1], title="The No-U-Turn sampler")),
    }
    allowed_ways = {name: way for name, way in ways.items() if method in ("auto", name)}
    outcome = hand_over(in_order(allowed_ways), lambda run: "" if watch.interrupted else run.trouble)
    return outcome.answer, outcome.name


def lengthened(needed: float, served: Callable[[int], bool]) -> int:
    """Return how many times as long chains become, which double at least once, until that is enough or no longer served.

    Parameters
    ----------
    needed : float
        How many times as many draws are enough.
    served : callable
        Times as long → whether chains so long may be twice as long.
    """
    times = 2
    while times < needed and served(times):
        times *= 2
    return times


def bent(target: Target, before: np.ndarray | None) -> "Bent":
    """Return the density in coordinates about the middle of the posterior, which is sought from draws (k, u) or a point."""
    at, share, _ = middle(target, None if before is None else before.mean(axis=0))
    if share is None:
        return Bent(target, at)
    target = replace(target, turn=LENGTHS.turn) if share[target.effects].mean() < LENGTHS.weak else target
    return Bent(target, at, share / (1 - share))


def reported(prior: Any, z: np.ndarray) -> np.ndarray:
    """Return all variables of a prior side by side, (chains, draws, k): a result judges these, not the unknowns z."""
    variables = prior.variables(z.reshape(-1, z.shape[-1])).values()
    return np.concatenate([values.reshape(*z.shape[:2], -1) for _, values in variables], axis=2)


def end_errors(values: Callable[[np.ndarray], np.ndarray], z: np.ndarray, prob: float) -> np.ndarray:
    """Return the errors of interval ends by chains, in posterior sd.

    Parameters
    ----------
    values : callable
        z (S, u) → quantities (S, …).
    z : (chains, draws, u) array
    prob : float
        Probability of the intervals.
    """
    quantities = values(z.reshape(-1, z.shape[-1])).reshape(*z.shape[:2], -1)
    entries = entries_of(quantities[..., np.ptp(quantities, axis=(0, 1)) > 0], {}, "", prob, False)
    return np.concatenate([entries[name] / entries["sd"] for name in ("lower_error", "upper_error")])


class Bent:
    """The log-density in coordinates u that are nearly standard normal, in which effects hardly depend on their scale.

    Unknowns are bent, and coordinates of the target whiten what they are bent to.

    Parameters
    ----------
    target : Target
    at : (u,) array
        Unknowns.
    precision : (u,) array, optional
        Precision of bending.Bend there; without it nothing is bent.
    """

    def __init__(self, target: Target, at: np.ndarray, precision: np.ndarray | None = None):
        self.target, size, point = target, at.size, at.copy()
        if precision is None:
            for batch in target.batches:
                point[batch.span] = 0.0
        self.bend = Bend(target.batches, point, np.zeros(size) if precision is None else precision, target.normality)
        self._within(Arrow.plain(np.zeros(size)))
        self._within(target.whitened(lambda y: self.value_and_gradient(y)[1], self.bend.back(at)))

    def _within(self, coordinates):
        """Take these coordinates, with the functions that are compiled for them."""
        self.coordinates, self._functions = coordinates, self.target.functions
        if self._functions is not None:
            (fixed, numbers, reports), size = self.target.kernel, self.bend.at.size
            room = tuple(np.empty(shape) for shape in (size, size, numbers, numbers))
            self._known = room, coordinates.frame, self.bend.arrays(fixed), reports
        return self

    def anew(self, u: np.ndarray) -> "Bent":
        """Return the density in coordinates that draws (S, u) of these say are better.

        An arrow is stretched: so few draws say little of the effects of many cells.
        """
        if self.coordinates.white and not self.coordinates.dense:
            return copy.copy(self)._within(self.coordinates.stretched(u))
        return self.about(self.target, self.of(u))

    @classmethod
    def about(cls, target: Target, draws: np.ndarray) -> "Bent":
        """Return the density bent about draws (S, u) of the unknowns, and whitened by what is left of their covariance."""
        precision = np.zeros(draws.shape[1])
        centre = draws.mean(axis=0)
        for batch in target.batches:
            span, apart = batch.span, draws[:, batch.place] - centre[batch.place]
            slope = apart @ draws[:, span] / max(float(apart @ apart), 1e-300)
            spread = (draws[:, span] - centre[span] - apart[:, None] * slope).var(axis=0)
            share = decided(spread)
            precision[span] = share / (1 - share)
        bent = cls(target, centre, precision)
        return bent._within(bent.coordinates.stretched(bent.back(draws)))

    def value_and_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density at u, up to a constant, and its gradient."""
        if self._functions is not None:
            out = np.empty(u.size)
            return self._functions[0](u, out, *self._known), out
        z = self.of(u)
        value, slope = self.bend.pulled(z, *self.target.value_and_gradient(z))
        return value, self.coordinates.gradient(slope)

    @property
    def pair(self):
        """The density and its trajectories, as ``inference.hmc`` takes them."""
        if self._functions is None:
            return self.value_and_gradient, hmc.stepwise(self.value_and_gradient), self.target.turn
        return self.value_and_gradient, lambda *moved: self._functions[1](*moved, *self._known), self.target.turn

    def of(self, u: np.ndarray) -> np.ndarray:
        """Return the unknowns of coordinates, shape (…, u)."""
        return self.bend.unbent(self.coordinates.of(u))

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns, shape (…, u)."""
        return self.coordinates.back(self.bend.back(z))
