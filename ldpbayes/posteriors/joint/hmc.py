"""All cells at once by Hamiltonian Monte Carlo, where coordinates make their posterior nearly standard normal."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from ldpbayes.posteriors.base import Refusal
from ldpbayes.posteriors.joint.sampled import AbstractSampled
from ldpbayes.posteriors.joint.settling import settled
from ldpbayes.posteriors.joint.whitening import MAX_DENSE, whitened

#: Mean angle of a trajectory, and how much it varies: beyond a right angle the next draw lies on the other side.
ANGLE, JITTER = 0.55 * math.pi, 0.1
#: Steps of the first trajectories, and the fewest and the most of any.
FIRST_STEPS, LEAST_STEPS, MAX_STEPS = 4, 2, 16
#: The number of steps is such that this share of the trajectories is accepted.
ACCEPTED = 0.85
#: With a smaller share of accepted trajectories, or one whose energy is off by more nats than this, NUTS takes over.
LEAST_ACCEPTED, MAX_ERROR = 0.6, 50.0
#: Trajectories of all chains that choose the number of steps, and those that say where the posterior lies.
TRIED, TUNED = 60, 240
#: Draws of the normal approximation that say where to expand.
PILOT = 150
#: Trajectories of a chain between two looks at whether to stop.
TOGETHER = 50


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
    With log-density −|u|²/2 − V(u) and momentum v, a step is a kick v − (t/2)∇V(u), a rotation of (u, v) by the angle t, and
    a kick. Only V is integrated with an error, so that few steps make a trajectory of a right angle, after which a draw
    has forgotten the one before. The energy decides on acceptance. Effects are bent (joint.bending) so that they hardly
    depend on their scale. Where trajectories of 16 steps are still refused too often, or lose their energy, NUTS takes
    over.

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
        logits = prior.logits()
        shaped = logits is not None and (logits.local() or logits.spectrum(np.zeros(prior.n_unknowns))) is not None
        if prior.n_unknowns > MAX_DENSE and not shaped:
            return Refusal(
                f"The method hmc takes at most {MAX_DENSE} unknowns of a prior that does not know how they hang together; "
                f"got {prior.n_unknowns}."
            )
        return super().prepare(problem)

    def _pilot(self, target, before, rng):
        target, centre = target.bent(*settled(target, None if len(before) == 1 else before.mean(axis=0)))
        coordinates = whitened(target, centre)
        return target.unbent(coordinates.of(rng.standard_normal((PILOT, centre.size))))

    def _last(self, target, pilot, rng, watch):
        target, centre = target.bent(*settled(target, pilot.mean(axis=0)))
        coordinates = whitened(target, centre)
        chains = [rng.standard_normal(centre.size) for _ in range(self.chains)]
        density = coordinates.density(target), coordinates.trajectories(target)
        steps = tried(density, chains, FIRST_STEPS, rng)
        if steps <= MAX_STEPS:
            u, _ = moved(density, chains, steps, math.ceil(TUNED / self.chains), rng)
            later = u[:, u.shape[1] // 3 :, : target.first]
            stretched = coordinates.stretched(later.reshape(-1, target.first))
            chains, coordinates = list(stretched.back(coordinates.of(u[:, -1]))), stretched
            density = coordinates.density(target), coordinates.trajectories(target)
            steps = tried(density, chains, steps, rng)
        run, trouble = None, ""
        while steps <= MAX_STEPS and (run is None or trouble):
            run, trouble = sampled(density, chains, steps, self.draws, rng, watch)
            steps *= 2
        if run is None:
            trouble = f"trajectories of {MAX_STEPS} steps would seldom be accepted"
            run = moved(density, chains, MAX_STEPS, TRIED, rng)
        u, stats = run
        steps = int(stats["n_steps"][0, 0])

        def go_on(number):
            more, held = moved(density, chains, steps, number, rng)
            return target.unbent(coordinates.of(more)), held

        return target.unbent(coordinates.of(u)), stats, {"trajectory_steps": steps}, trouble, go_on


def sampled(density, chains, steps, draws, rng, watch):
    """Return ((draws, statistics), why they cannot be trusted or ""): fewer draws where the energy is lost.

    Parameters
    ----------
    density : tuple of callables
        u → (log-density, gradient), and what ``AbstractCoordinates.trajectories`` returns.
    chains : list of (u,) arrays
        Where the chains are.
    steps, draws : int
        Of a trajectory, and of a chain.
    rng : numpy.random.Generator
    watch : Watch
    """
    lengths = [min(TOGETHER, draws - first) for first in range(0, draws, TOGETHER)]
    lost = []

    def blocks():
        for length in watch.track(lengths, f"Trajectories of {steps} steps", draws, weight=int):
            u, stats = moved(density, chains, steps, length, rng)
            yield u, stats
            if stats["diverging"].any():
                lost.append(int(stats["diverging"].sum()))
                return

    found = watch.finished(blocks())
    u = np.concatenate([run for run, _ in found], axis=1)
    stats = {name: np.concatenate([held[name] for _, held in found], axis=1) for name in found[0][1]}
    if lost:
        return (u, stats), f"trajectories of {steps} steps lost their energy"
    accepted = stats["accepted"].mean()
    if accepted < LEAST_ACCEPTED:
        return (u, stats), f"{accepted:.0%} of the trajectories were accepted, where {LEAST_ACCEPTED:.0%} are needed"
    return (u, stats), ""


def tried(density, chains, steps, rng):
    """Move the chains, and return the number of steps that has ACCEPTED of the trajectories accepted.

    The error of the energy is nearly normal with sd s ∝ 1/steps² and mean −s²/2, and 2Φ(−s/2) are accepted.
    """
    _, stats = moved(density, chains, steps, math.ceil(TRIED / len(chains)), rng)
    rate = min(max(float(stats["acceptance_rate"].mean()), 0.01), 0.999)
    wanted = steps * math.sqrt(ndtri(rate / 2) / ndtri(ACCEPTED / 2))
    return max(round(wanted), LEAST_STEPS)


def moved(density, chains, steps, number, rng):
    """Move the chains, and return (draws (chains, number, u), statistics (chains, number) by name)."""
    found = [_trajectories(density, u, steps, number, rng) for u in chains]
    for k, (run, _) in enumerate(found):
        chains[k] = run[-1]
    return np.array([run for run, _ in found]), {name: np.array([held[name] for _, held in found]) for name in found[0][1]}


def _trajectories(density, u, steps, number, rng):
    """Return (draws (number, u), statistics of each) of trajectories that start at u."""
    density, along = density
    value, slope = density(u)
    u, force, draws = u.copy(), slope + u, np.empty((number, u.size))  # force: −∇V
    lp, gained = np.empty(number), np.empty(number)
    angles = ANGLE / steps * rng.uniform(1 - JITTER, 1 + JITTER, number)
    levels = -rng.exponential(size=number)
    kicks = rng.standard_normal((number, u.size))
    energy = 0.5 * (kicks**2).sum(axis=1)
    with np.errstate(all="ignore"):  # a trajectory that leaves the posterior may overflow
        along(u, force, value, kicks, angles, levels, steps, draws, lp, gained)
    gained[~np.isfinite(gained)] = -np.inf
    return draws, {
        "lp": lp,
        "energy": energy - np.append(value, lp[:-1]),
        "acceptance_rate": np.exp(np.minimum(gained, 0.0)),
        "accepted": gained > levels,
        "diverging": gained < -MAX_ERROR,
        "n_steps": np.full(number, steps),
    }
