"""Hamiltonian Monte Carlo whose standard normal part is solved exactly, by rotation.

With log-density −|u|²/2 − V(u) and momentum v, a step is a kick v − (t/2)∇V(u), a rotation of (u, v) by the angle t, and a
kick. Only V is integrated with an error, so that few steps make a trajectory of a right angle, after which a draw has
forgotten the one before.

References
----------
Shahbaba, Lan, Johnson and Neal 2014, Statistics and Computing 24; Neal 2011, Handbook of MCMC, chapter 5.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ldpbayes.compiling import compiled


@dataclass(frozen=True)
class Trajectories:
    """How long trajectories are, and which are left to another sampler.

    Attributes
    ----------
    angle, jitter : float
        Mean angle, and by which share it varies. Derived: after a right angle a normal law has forgotten its start, and
        beyond it the next draw lies on the other side; an angle that varies meets no period. Bank: half and double of
        ``jitter`` show nothing.
    first : int
        Steps of the first trajectories; half of them are the fewest. Bank: half and double show nothing.
    most : int
        Steps of any. Measured: of eight groups with a hundred weak reports each, 16 lost the energy of most runs.
    accepted : float
        The number of steps is such that this share is accepted. Derived: 2Φ(−s/2) = .85 has an energy that is off by
        s = .38 nats; costs are flat between .6 and .9. Bank: half shows nothing.
    least_accepted, lost : float
        A smaller share, or an energy that is off by more nats, is left to another sampler. Derived: guards. At .6 the energy
        is off by a nat, and an energy that is off by 50 is lost for good, e^−50 being accepted never.
    pilot : int
        Draws of all chains in a round that says where the posterior lies; a quarter choose the number of steps. Bank:
        half and double show nothing.
    together : int
        Draws of a chain between two looks at whether to stop. Derived: a twentieth of the thousand that a
        chain has by default, so that Ctrl-C and a hopeless run end soon. Bank: half and double show nothing.
    """

    angle: float = 0.55 * math.pi
    jitter: float = 0.1
    first: int = 4
    most: int = 64
    accepted: float = 0.85
    least_accepted: float = 0.6
    lost: float = 50.0
    pilot: int = 240
    together: int = 50


TRAJECTORIES = Trajectories()


def rotated(u, v, pull, angle, steps, force):
    """Return (u, v, value, −∇V) after steps of a kick, a rotation and a kick; of one point, or of many in rows.

    Parameters
    ----------
    u, v, pull : (…, u) arrays
        Point, momentum, and −∇V at the point.
    angle : float
        Angle of a step.
    steps : int
    force : callable
        u → (value, −∇V).
    """
    cosine, sine = math.cos(angle), math.sin(angle)
    for _ in range(steps):
        v = v + 0.5 * angle * pull
        u, v = cosine * u + sine * v, cosine * v - sine * u
        value, pull = force(u)
        v = v + 0.5 * angle * pull
    return u, v, value, pull


def stepwise(density):
    """Return what ``compiled_trajectories`` does, without further parameters, for a density that is not compiled."""

    def force(u):
        value, slope = density(u)
        return value, slope + u

    def trajectories(u, pull, value, kicks, angles, levels, steps, out, values, gained):
        for i, (v, angle) in enumerate(zip(kicks, angles.tolist(), strict=True)):
            energy = 0.5 * float(v @ v) - value
            there, v, reached, slope = rotated(u, v, pull, angle, steps, force)
            gained[i] = reached + energy - 0.5 * float(v @ v)
            if levels[i] < gained[i] < math.inf:
                u[:], pull[:], value = there, slope, reached
            out[i], values[i] = u, value

    return trajectories


def compiled_trajectories(density):
    """Return a compiled function that moves a point, −∇V there and the log-density along trajectories.

    Parameters
    ----------
    density : compiled function
        (u, out, *known) → log-density; writes its gradient to out.

    Returns
    -------
    compiled function
        Takes u, force: (u,) arrays, −∇V the second; value: float; kicks: (n, u) array, momenta at the start, which are
        used up; angles, levels: (n,) arrays, the angle of a step and the least energy gained with which a trajectory is
        accepted; steps: of each trajectory; out, values, gained: (n, u), (n,) and (n,) arrays that draws, log-densities
        and energies gained are written to; and of what ``density`` takes after the first two.
    """

    @compiled(nogil=True)
    def trajectories(u, force, value, kicks, angles, levels, steps, out, values, gained, *arrays):
        there, pull, slope = np.empty(u.size), np.empty(u.size), np.empty(u.size)
        for i in range(angles.size):
            v, angle, reached, energy = kicks[i], angles[i], value, -value
            cosine, sine = math.cos(angle), math.sin(angle)
            for j in range(u.size):
                there[j] = u[j]
                energy += 0.5 * v[j] * v[j]
                v[j] += 0.5 * angle * force[j]
            for k in range(steps):
                for j in range(u.size):
                    before = there[j]
                    there[j] = cosine * before + sine * v[j]
                    v[j] = cosine * v[j] - sine * before
                reached = density(there, slope, *arrays)
                kick = angle if k < steps - 1 else 0.5 * angle
                for j in range(u.size):
                    pull[j] = slope[j] + there[j]
                    v[j] += kick * pull[j]
            gained[i] = reached + energy
            for j in range(u.size):
                gained[i] -= 0.5 * v[j] * v[j]
            accepted = levels[i] < gained[i] < np.inf
            values[i] = value = reached if accepted else value
            for j in range(u.size):
                if accepted:
                    u[j], force[j] = there[j], pull[j]
                out[i, j] = u[j]

    return trajectories


def sampled(density, chains, steps, draws, rng, watch):
    """Return ((draws, statistics), why they cannot be trusted or ""): fewer draws where the energy is lost.

    Parameters
    ----------
    density : tuple of callables
        u → (log-density, gradient), and what moves a chain: ``stepwise`` or ``compiled_trajectories``; where trajectories
        have another length, a pair of its angle and jitter.
    chains : list of (u,) arrays
        Where the chains are.
    steps, draws : int
        Steps of a trajectory, and draws of a chain.
    rng : numpy.random.Generator
    watch : Watch
    """
    lengths = [min(TRAJECTORIES.together, draws - first) for first in range(0, draws, TRAJECTORIES.together)]
    lost = []

    def blocks():
        for length in watch.track(lengths, f"Trajectories of {steps} steps", draws, weight=int):
            u, stats = moved(density, chains, steps, length, rng)
            yield u, stats
            if stats["diverging"].any():
                lost.append(int(stats["diverging"].sum()))
            if lost or stats["accepted"].mean() < TRAJECTORIES.least_accepted / 2:  # so few that the run is ended
                return

    runs = watch.finished(blocks())
    u = np.concatenate([run for run, _ in runs], axis=1)
    stats = {name: np.concatenate([stats_of_run[name] for _, stats_of_run in runs], axis=1) for name in runs[0][1]}
    if lost:
        return (u, stats), f"trajectories of {steps} steps lost their energy"
    accepted = stats["accepted"].mean()
    if accepted < TRAJECTORIES.least_accepted:
        share = f"{100 * accepted:.0f} %, where {100 * TRAJECTORIES.least_accepted:.0f} % are needed"
        return (u, stats), f"trajectories of {steps} steps were accepted at a rate of {share}"
    return (u, stats), ""


def tried(density, chains, steps, rng):
    """Move the chains, and return the number of steps that has the wanted share of trajectories accepted.

    The error of the energy is nearly normal with sd s ∝ 1/steps² and mean −s²/2, and 2Φ(−s/2) are accepted.
    """
    _, stats = moved(density, chains, steps, math.ceil(TRAJECTORIES.pilot // 4 / len(chains)), rng)
    rate = min(max(float(stats["acceptance_rate"].mean()), 0.01), 0.999)
    wanted = steps * math.sqrt(ndtri(rate / 2) / ndtri(TRAJECTORIES.accepted / 2))
    return min(max(round(wanted), TRAJECTORIES.first // 2), TRAJECTORIES.most)


def moved(density, chains, steps, number, rng):
    """Move the chains, and return (draws (chains, number, u), statistics (chains, number) by name)."""
    runs = [_trajectories(density, u, steps, number, rng) for u in chains]
    for k, (run, _) in enumerate(runs):
        chains[k] = run[-1]
    return np.array([run for run, _ in runs]), {name: np.array([stats[name] for _, stats in runs]) for name in runs[0][1]}


def _trajectories(density, u, steps, number, rng):
    """Return (draws (number, u), statistics of each) of trajectories that start at u."""
    density, along, *turn = density
    angle, jitter = turn[0] if turn else (TRAJECTORIES.angle, TRAJECTORIES.jitter)
    value, slope = density(u)
    u, force, draws = u.copy(), slope + u, np.empty((number, u.size))  # force: −∇V
    lp, gained = np.empty(number), np.empty(number)
    angles = angle / steps * rng.uniform(1 - jitter, 1 + jitter, number)
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
        "diverging": gained < -TRAJECTORIES.lost,
        "n_steps": np.full(number, steps),
    }
