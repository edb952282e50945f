"""Where the posterior of cells lies: effects about their mode for given scales, scales by how much the effects vary."""

import numpy as np

from ldpbayes.inference.effects import MOST_SHARE
from ldpbayes.inference.newton import higher
from ldpbayes.posteriors.joint.whitening import Arrow, whitened

#: Rounds at most, and the change of a log scale, in its posterior sd, below which nothing moves.
ROUNDS, LEAST_CHANGE = 60, 0.1
#: Unknowns are at their mode where a Newton step gains fewer nats than this for each of them.
NEAR = 0.002
#: The log scale at the start, and its longest change.
FIRST_SCALE, LONGEST = -1.0, 0.7


def settled(target, z=None):
    """Return (unknowns in the middle of the posterior, share of each effect that the reports decide or None).

    Parameters
    ----------
    target : Target
    z : (u,) array, optional
        Where to start.

    Notes
    -----
    Where effects are standard normal times a scale s, the joint mode lies far from the mass: it knows nothing of the
    effects' variances. Rounds of two steps do: a Newton step for the centre and the effects w given the scales, and one of
    Fisher scoring for log s on its marginal density, whose slope is Σ(E[w²] − 1) + 1 − s² and whose information is
    2 Σ(1 − v)² + 2 s², v the variances of the effects under the normal approximation. Without scales it is the mode.
    """
    scales, start = target.scales, z is None
    z = np.zeros(target.prior.n_unknowns) if start else np.array(z, dtype=float)
    kept = np.ones(z.size, bool)
    if scales is not None:
        kept[scales] = False
        if start:
            z[scales] = FIRST_SCALE
    variances = np.ones(0 if scales is None else z.size - scales.stop)
    for _ in range(ROUNDS):
        coordinates, gain = _step(target, z, kept)
        if gain > NEAR * z.size:  # the unknowns are still far from their mode, and say nothing of their scales
            continue
        if scales is None:
            break
        effects, square = z[scales.stop :].reshape(-1, scales.start), np.exp(2 * np.clip(z[scales], -20.0, 20.0))
        variances = (coordinates.blocks**2).sum(axis=1).ravel() + (coordinates.border**2).sum(axis=0)
        variances = variances.reshape(effects.shape)
        slope = (effects**2 + variances - 1).sum(axis=0).reshape(square.size, -1).sum(axis=1) + 1 - square
        bend = 2 * ((1 - variances) ** 2).sum(axis=0).reshape(square.size, -1).sum(axis=1) + 2 * square
        change = np.clip(slope / bend, -LONGEST, LONGEST)
        z[scales] += change
        z[scales.stop :] = (effects.reshape(len(effects), square.size, -1) * np.exp(-change)[:, None]).ravel()
        if (np.abs(change) < LEAST_CHANGE / np.sqrt(bend)).all():
            break
    return z, None if scales is None else np.clip(1 - variances.ravel(), 0.0, MOST_SHARE)


def _step(target, z, kept):
    """Take a Newton step in the unknowns kept, in place; return (coordinates about z, nats gained by the quadratic)."""

    def density(x):
        whole = z.copy()
        whole[kept] = x
        value, slope = target.value_and_gradient(whole)
        return value, slope[kept]

    def gradient(x):
        return density(x)[1]

    centre = z[kept]
    if kept.all():
        coordinates = whitened(target, z)
    elif target.local is None:
        coordinates = Arrow.near(gradient, centre, target.scales.start, *target.spectrum(z)[1:])
    else:
        coordinates = Arrow.at(gradient, centre, target.scales.start, target.scales.start)
    value, slope = density(centre)
    along = coordinates.gradient(slope)
    there = higher(density, centre, value, slope, coordinates.of(along) - centre)
    if there is None:
        return coordinates, 0.0
    z[kept] = there[0]
    return coordinates, 0.5 * float(along @ along)
