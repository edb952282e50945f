"""Where a posterior lies: effects about their mode for given scales, scales by how much the effects vary."""

import math
from typing import Any

import numpy as np

from ldpbayes.inference.newton import Steps, climb


def decided(variances: np.ndarray) -> np.ndarray:
    """Return which share of effects the reports decide, from their variances in units of the prior's.

    At most .98, which bounds the information of reports by the information of fifty priors.
    """
    return np.clip(1 - variances, 0.0, 0.98)


def middle(target: Any, z: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return (unknowns in the middle of the posterior, share of each effect that the reports decide or None, and Fisher's
    information on the log scales).

    Parameters
    ----------
    target : Target
    z : (u,) array, optional
        Where to start.

    Notes
    -----
    Where effects are standard normal times a scale s, the joint mode lies far from the mass: it knows nothing of the
    effects' variances. Rounds do: Newton steps for the centre and the effects w given the scales, and one step of Fisher
    scoring for log s on its marginal density, whose slope under a half-normal scale is Σ(E[w²] − 1) + 1 − s² and whose
    information is 2 Σ(1 − v)² + 2 s², v the variances of the effects under the normal approximation. Reports that bound
    effects, rather than saying where they are, bend it more than that, so that steps go too far, and to and fro for
    ever: where the slope changes its sign, steps are halved from there on. Without scales it is the mode.
    """
    batches, z = target.batches, np.zeros(target.prior.n_unknowns) if z is None else np.array(z, dtype=float)
    free, variances, places = target.rest, np.ones(z.size), [batch.place for batch in batches]
    z[places] = np.maximum(z[places], -1.0) if z.any() else -1.0  # the mode of a small scale is far from its mass

    def density(x):
        point = z.copy()
        point[free] = x
        value, slope = target.value_and_gradient(point)
        return value, slope[free]

    def newton(x, slope):
        z[free] = x
        coordinates = target.whitened(lambda at: density(at)[1], z, free if batches else None)
        along = coordinates.gradient(slope)
        return coordinates.of(along) - x, 0.5 * float(along @ along), coordinates

    least = 0.002  # nats: what gains less, by .06 sd of an unknown, is at the middle, and draws correct it
    steps = Steps(20, least * z.size)
    before, length, information = (np.full(len(batches), start) for start in (0.0, 1.0, 1.0))
    for _ in range(20):
        z[free], _, coordinates = climb(density, newton, z[free], steps)
        if not batches:
            return z, None, information
        variances[free] = coordinates.variances
        gained = 0.0
        for k, batch in enumerate(batches):
            span = batch.span
            raised = math.exp(batch.power * (min(z[batch.place], 20.0) - math.log(batch.scale)))
            slope = (z[span] ** 2 + variances[span] - 1).sum() + 1 - raised
            information[k] = bend = 2 * ((1 - variances[span]) ** 2).sum() + batch.power * raised
            length[k], before[k] = 0.5 * length[k] if slope * before[k] < 0 else length[k], slope
            change = length[k] * min(max(slope / bend, -math.log(2)), math.log(2))
            z[batch.place] += change
            z[span] *= math.exp(-change)
            gained = max(gained, 0.5 * change**2 * bend)
        if gained < least:
            break
    return z, np.where(target.effects, decided(variances), 0.0), information
