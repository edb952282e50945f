"""Where the posterior of cells lies: effects about their mode for given scales, scales by how much the effects vary."""

import numpy as np

from ldpbayes.inference.effects import MOST_SHARE
from ldpbayes.inference.newton import climb
from ldpbayes.inference.structure import Arrow

#: Rounds at most, Newton steps of each, and the change of a log scale, in its posterior sd, below which nothing moves.
ROUNDS, STEPS, LEAST_CHANGE = 20, 10, 0.1
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
    effects' variances. Rounds do: Newton steps for the centre and the effects w given the scales, and one step of Fisher
    scoring for log s on its marginal density, whose slope is Σ(E[w²] − 1) + 1 − s² and whose information is
    2 Σ(1 − v)² + 2 s², v the variances of the effects under the normal approximation. Reports that bound effects, rather
    than saying where they are, bend it more than that, so that steps go too far, and to and fro for ever: where the slope
    changes its sign, steps are halved from there on. Without scales it is the mode.
    """
    scales, start = target.scales, z is None
    z = np.zeros(target.prior.n_unknowns) if start else np.array(z, dtype=float)
    kept = np.ones(z.size, bool)
    if scales is not None:
        kept[scales] = False
        if start:
            z[scales] = FIRST_SCALE

    def density(x):
        whole = z.copy()
        whole[kept] = x
        value, slope = target.value_and_gradient(whole)
        return value, slope[kept]

    def newton(x, slope):
        z[kept] = x
        coordinates = _about(target, z, kept, lambda at: density(at)[1])
        along = coordinates.gradient(slope)
        return coordinates.of(along) - x, 0.5 * float(along @ along), coordinates

    near, before, length = NEAR * z.size, 0.0, 1.0
    for _ in range(ROUNDS):
        z[kept], _, coordinates = climb(density, newton, z[kept], STEPS, near)
        if scales is None:
            return z, None
        effects, square = z[scales.stop :].reshape(-1, scales.start), np.exp(2 * np.clip(z[scales], -20.0, 20.0))
        variances = (coordinates.blocks**2).sum(axis=1).ravel() + (coordinates.border**2).sum(axis=0)
        variances = variances.reshape(effects.shape)
        slope = (effects**2 + variances - 1).sum(axis=0).reshape(square.size, -1).sum(axis=1) + 1 - square
        bend = 2 * ((1 - variances) ** 2).sum(axis=0).reshape(square.size, -1).sum(axis=1) + 2 * square
        length, before = np.where(slope * before < 0, 0.5 * length, length), slope
        change = length * np.clip(slope / bend, -LONGEST, LONGEST)
        z[scales] += change
        z[scales.stop :] = (effects.reshape(len(effects), square.size, -1) * np.exp(-change)[:, None]).ravel()
        if (np.abs(change) < LEAST_CHANGE / np.sqrt(bend)).all():
            break
    return z, np.clip(1 - variances.ravel(), 0.0, MOST_SHARE)


def _about(target, z, kept, gradient):
    """Return the coordinates about z of the unknowns kept."""
    if kept.all():
        return target.whitened(gradient, z)
    start = target.scales.start
    if target.local is None:
        return Arrow.near(gradient, z[kept], start, *target.spectrum(z)[1:])
    return Arrow.at(gradient, z[kept], start, start)
