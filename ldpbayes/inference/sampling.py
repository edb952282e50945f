"""One way of chains from the first trajectories to the last draw, for every density with coordinates of its own.

Trajectories say where the posterior lies, Hamiltonian Monte Carlo takes more steps where too few of its trajectories are
accepted, the No-U-Turn sampler takes smaller ones where draws diverge, and chains that are short of draws go on.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from ldpbayes.inference import hmc
from ldpbayes.inference.nuts import sample_density


class Density(Protocol):
    """A log-density in coordinates u that are nearly standard normal."""

    @property
    def pair(self) -> tuple:
        """The maps u → (log-density, gradient), and what moves a chain along trajectories; see inference.hmc.sampled."""

    def of(self, u: np.ndarray) -> np.ndarray:
        """Return the unknowns of coordinates, shape (…, u)."""

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns, shape (…, u)."""

    def anew(self, u: np.ndarray) -> Self:
        """Return the same density in coordinates that draws (S, u) say are better."""


class Run(NamedTuple):
    """Chains.

    Attributes
    ----------
    z : (chains, draws, u) array
        Unknowns.
    stats : dict
        Statistics (chains, draws) by ArviZ's names.
    trouble : str
        Why the draws cannot be trusted, or an empty string.
    facts : dict
        What a result says about the run.
    """

    z: np.ndarray
    stats: dict
    trouble: str = ""
    facts: dict = {}


#: (callable: draws of each chain → Run, from where the chains are) → Run of as many as are needed.
Going = Callable[[Callable[[int], Run]], Run]


def going_on(
    more: Callable[[int], Run], wanting: Callable[[Run, int], bool], draws: int, watch: Any, *, thin: bool = False
) -> Run:
    """Return the Run of chains that go on, twice as long each time, while more draws are needed.

    Parameters
    ----------
    more : callable
        Draws of each chain → Run, from where the chains are.
    wanting : callable
        (Run, draws made of each chain) → whether chains of twice the length are needed, and not too dear.
    draws : int
        Draws of each chain, at first.
    watch : Watch
        An interruption leaves what was made before the chains went on.
    thin : bool
        Whether as many draws are kept as were made at first, at equal distances; else all.
    """
    run, made = more(draws), draws
    while not (run.trouble or watch.interrupted) and wanting(run, made):
        length, step, stride = run.z.shape[1], made // draws if thin else 1, 1 + thin
        runs = [_every(stride, 0, run)]
        with watch.keeping(lambda: True):
            for before in range(made, 2 * made, length):
                longer = more(length)
                if longer.trouble:
                    return run._replace(trouble=longer.trouble)
                if watch.interrupted:
                    break
                runs.append(_every(step * stride, before, longer))
        if watch.interrupted:
            break
        z = np.concatenate([piece.z for piece in runs], axis=1)
        stats = {name: np.concatenate([piece.stats[name] for piece in runs], axis=1) for name in run.stats}
        made *= 2
        run = Run(z, stats, "", run.facts | ({"thinned": made // draws} if thin else {}))
    return run


def _every(step, before, run):
    """Return every ``step``-th draw of a Run; ``before`` draws were made before it."""
    chosen = slice((-1 - before) % step, None, step)
    return run._replace(z=run.z[:, chosen], stats={name: values[:, chosen] for name, values in run.stats.items()})


def tuned_coordinates[D: Density](
    density: D, at: list, rounds: int, rng: np.random.Generator
) -> tuple[D, list, int, np.ndarray]:
    """Return (density, where the chains are in it, steps of a trajectory, draws (S, u) of the unknowns) after some rounds.

    Parameters
    ----------
    density : Density
    at : list of (u,) arrays
        Where the chains are.
    rounds : int
    rng : numpy.random.Generator
    """
    steps, z = hmc.TRAJECTORIES.first, density.of(np.array(at))
    for _ in range(rounds):
        steps = hmc.tried(density.pair, at, steps, rng)
        u, _ = hmc.moved(density.pair, at, steps, math.ceil(hmc.TRAJECTORIES.pilot / len(at)), rng)
        last, later = density.of(np.array(at)), u[:, u.shape[1] // 3 :].reshape(-1, u.shape[-1])
        z, density = density.of(later), density.anew(later)
        at = list(density.back(last))
    return density, at, steps, z


def by_hmc(density: Density, at: list, steps: int, rng: np.random.Generator, watch: Any, going: Going) -> Run:
    """Return the Run of Hamiltonian Monte Carlo, with √2 times the steps as long as its trajectories cannot be trusted.

    Parameters
    ----------
    density : Density
    at : list of (u,) arrays
        Where the chains are.
    steps : int
        Number of steps of the first trajectories.
    rng : numpy.random.Generator
    watch : Watch
    going : callable
        See Going.
    """
    steps = hmc.tried(density.pair, at, steps, rng)
    while True:

        def more(number, steps=steps):
            (u, stats), trouble = hmc.sampled(density.pair, at, steps, number, rng, watch)
            return Run(density.of(u), stats, trouble, {"trajectory_steps": steps})

        run = going(more)
        if not run.trouble or watch.interrupted or steps >= hmc.TRAJECTORIES.most:
            return run
        steps = min(math.ceil(math.sqrt(2) * steps), hmc.TRAJECTORIES.most)


def by_nuts(
    density: Density,
    start: np.ndarray,
    chains: int,
    rng: np.random.Generator,
    watch: Any,
    going: Going,
    tries: Iterable[tuple[int, float]],
) -> Run:
    """Return the Run of the No-U-Turn sampler, made once more with smaller steps where draws diverge.

    Parameters
    ----------
    density : Density
    start : (k, u) array
        Candidate coordinates: each chain starts near one of them.
    chains : int
    rng : numpy.random.Generator
    watch : Watch or None
    going : callable
        See Going.
    tries : iterable of (int, float)
        Discarded draws and acceptance rate of each try.
    """
    for tune, rate in tries:
        near = start

        def more(number, tune=tune, rate=rate):
            nonlocal near
            tune = tune if near is start else min(tune, 100)  # chains that go on have met
            begin, settings = near, {"draws": number, "tune": tune, "chains": chains, "target_accept": rate}

            def at(chain_rng):
                return begin[chain_rng.integers(len(begin))] + 0.1 * chain_rng.standard_normal(begin.shape[1])

            u, stats = sample_density(density.pair[0], at, rng, size=start.shape[1], watch=watch, **settings)
            near = u[:, -1]
            return Run(density.of(u), stats, "", {"target_accept_used": rate})

        run = going(more)
        if not run.stats["diverging"].any() or (watch is not None and watch.interrupted):
            break
    return run
