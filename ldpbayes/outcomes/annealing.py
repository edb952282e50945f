"""Draws of a curve where its posterior is far from normal: particles that move from an approximation in steps.

Where a group is nearly empty, reports bound its logit on one side only: the posterior is a wide prior with a cliff, which
Laplace's approximation at the mode misses on one side or the other, and chains cross slowly. The approximation here is the
normal law nearest to the posterior in KL(normal ‖ posterior), found by Newton's method on expected slopes. Particles are
drawn from it, and the density is changed to the posterior's by steps (Neal, 2001); between steps each particle moves by a
trajectory that leaves the density of the step as it is. The product of the ratios along the way is the particle's weight:
particles are independent, and weights judge themselves as those of plain draws do.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.special import logsumexp

from ldpbayes.inference.hmc import rotated
from ldpbayes.inference.structure import positive
from ldpbayes.outcomes.smoothing import Curve, Drawn, Mode, Normal, sizes_of

#: Rounds: the first weighs draws of Laplace's approximation as they are; each other one keeps this share of the effective
#: particles at a step, and draws so many times the particles of the first.
KEPT, MORE = (0.0, 0.97, 0.985, 0.99), (1, 1, 2, 4)
ROUNDS = len(KEPT)
#: Draws over which slopes are averaged, the steps of Newton's method, their length, and the gain below which it stops.
AVERAGED, STEPS, LENGTH, SETTLED = 32, 16, 0.7, 1e-2
#: Particles of the run that chooses the steps and the lengths of trajectories.
PILOT = 80
#: First angle of a leap, those it stays between, the share of trajectories to be accepted, and the most leaps of one.
FIRST_ANGLE, ANGLES, ACCEPTED, MAX_LEAPS = 0.7, (0.02, 1.2), 0.75, 10
#: Particles that move together.
TOGETHER = 1000


def drawn(
    normal: Normal, c: int, evidences: Sequence[np.ndarray], total: int, number: int, rng: np.random.Generator
) -> Drawn:
    """Return weighted draws of curve c.

    Parameters
    ----------
    normal : Normal
    c : int
    evidences : sequence of (nodes,) arrays
        What is known of the log-evidences of each curve.
    total : int
        Particles in the first rounds.
    number : int
        The round, from 0.
    rng : Generator
    """
    plans, known = [], evidences[c].copy()
    for i, (mode, scale) in enumerate(zip(normal.modes[c], normal.scales.tolist(), strict=True)):
        path: list[tuple[float, float]] = [] if number else [(1.0, FIRST_ANGLE)]
        near = _nearest(normal.curves[c], scale, mode, rng) if number else mode
        ratio, pilot = partial(near.log_ratio_and_gradient, normal.curves[c], scale), None
        if number:
            pilot = _moved(ratio, rng.standard_normal((PILOT, mode.g.size)), path, KEPT[number], rng)
            known[i] = logsumexp(pilot[1]) - math.log(PILOT)
        plans.append((near, ratio, path, pilot))
    share = normal.share([known if other == c else one for other, one in enumerate(evidences)])
    node, g, log_ratio = [], [], []
    for i, ((near, ratio, path, pilot), size) in enumerate(zip(plans, sizes_of(share, MORE[number] * total), strict=True)):
        runs = [] if pilot is None else [pilot]  # enough for a node with next to no probability
        if not runs or size > PILOT:
            blocks = np.array_split(np.arange(size), -(-size // TOGETHER))
            runs = [_moved(ratio, rng.standard_normal((one.size, near.g.size)), path, 0.0, rng) for one in blocks]
        for z, log_weight in runs:
            g.append(near.g + near.factor.spread(z))
            log_ratio.append(log_weight)
            node.append(np.full(log_weight.size, i))
    return Drawn(np.concatenate(node), np.concatenate(g), np.concatenate(log_ratio))


def _nearest(curve: Curve, scale: float, mode: Mode, rng: np.random.Generator) -> Mode:
    """Return the normal approximation whose mean slope is 0 and whose precision is the mean information under itself."""
    half = rng.standard_normal((AVERAGED // 2, mode.g.size))
    z = np.concatenate([half, -half])
    g, factor, information = mode.g, mode.factor, None
    for _ in range(STEPS):
        gradient, observed = curve.slopes(g + factor.spread(z))
        gradient = gradient - curve.prior.times(g, scale)
        sure = positive(observed)
        information = sure if information is None else information + LENGTH * (sure - information)
        factor = curve.prior.factor(information, scale)
        step = factor.solve(gradient)
        g = g + LENGTH * step
        if float((gradient * step).sum()) < SETTLED:
            break
    return Mode(g, factor, mode.log_evidence)


def _moved(ratio, z, path, kept, rng):
    """Return (z, log-weights) of particles after all steps.

    Parameters
    ----------
    ratio : callable
    z : (S, m·K) array
        Standard normal.
    path : list of (power, angle)
        The steps; where it is empty they are chosen, so that each keeps a share ``kept`` of the effective particles.
    kept : float
    rng : Generator
    """
    value, slope = ratio(z)
    log_weight, power, angle = np.zeros(len(z)), 0.0, FIRST_ANGLE
    chosen = bool(path)
    k = 0
    while power < 1.0:
        fresh, angle = path[k] if chosen else (_next(log_weight, value, power, kept), angle)
        log_weight = log_weight + (fresh - power) * value
        power = fresh
        if not chosen:
            path.append((power, angle))
        if power < 1.0:
            z, value, slope, accepted = _trajectory(ratio, power, z, value, slope, angle, rng)
            angle = float(np.clip(angle * math.exp(np.clip(1.5 * (accepted - ACCEPTED), -0.7, 0.3)), *ANGLES))
        k += 1
    return z, log_weight


def _next(log_weight, value, power, kept):
    """Return the power at which the weights of a step keep a share of the effective particles."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()

    def share(fresh):
        gain = (fresh - power) * value
        gain = np.exp(gain - gain.max())
        return (weight @ gain) ** 2 / (weight @ gain**2)

    if share(1.0) >= kept:
        return 1.0
    low, high = power, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) >= kept else (low, middle)
    return min(max(low, power + 1e-4), 1.0)


def _trajectory(ratio, power, z, value, slope, angle, rng):
    """Return (z, log-ratio, its gradient, mean acceptance) after a trajectory of every particle.

    The density is that of the approximation times the ratio to a power. The normal part is followed exactly, by rotation;
    leaps correct for the rest.
    """
    momentum = rng.standard_normal(z.shape)
    begin = power * value - 0.5 * (z**2).sum(axis=1) - 0.5 * (momentum**2).sum(axis=1)
    each = angle * rng.uniform(0.85, 1.0)
    steps = min(MAX_LEAPS, math.ceil(0.5 * math.pi / angle))

    def force(at):
        reached, pull = ratio(at)
        return reached, power * pull

    at, momentum, reached, pull = rotated(z, momentum, power * slope, each, steps, force)
    end = power * reached - 0.5 * (at**2).sum(axis=1) - 0.5 * (momentum**2).sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        chance = np.exp(np.minimum(np.nan_to_num(end - begin, nan=-math.inf, posinf=0.0), 0.0))
    taken = rng.random(len(z)) < chance
    keep = taken[:, None]
    return np.where(keep, at, z), np.where(taken, reached, value), np.where(keep, pull / power, slope), float(chance.mean())
