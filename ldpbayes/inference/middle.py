"""Where a posterior lies: effects about their mode for given scales, scales by how much the effects vary."""

import math
from typing import Any

import numpy as np

from ldpbayes.inference.bending import FIRST_SCALE, MOST_SHARE
from ldpbayes.inference.newton import climb

#: Rounds at most, Newton steps of each, and the change of a log scale, in its posterior sd, below which nothing moves.
ROUNDS, STEPS, LEAST_CHANGE = 20, 10, 0.1
#: Unknowns are at their mode where a Newton step gains fewer nats than this for each of them.
NEAR = 0.002
#: The longest change of a log scale.
LONGEST = 0.7


def middle(
    target: Any, z: np.ndarray | None = None, *, given: bool = False
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return (unknowns in the middle of the posterior, share of each effect that the reports decide or None, and Fisher's
    information on the log scales).

    Parameters
    ----------
    target : Target
    z : (u,) array, optional
        Where to start.
    given : bool
        Whether the scales stay, and what else is given: the mode of the others, then.

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
    kept, variances, places = target.rest, np.ones(z.size), [batch.place for batch in batches]
    if given:
        kept = np.setdiff1d(kept, target.prior.pivots)
    else:
        z[places] = FIRST_SCALE if not z.any() else np.maximum(z[places], FIRST_SCALE)

    def density(x):
        point = z.copy()
        point[kept] = x
        value, slope = target.value_and_gradient(point)
        return value, slope[kept]

    def newton(x, slope):
        z[kept] = x
        coordinates = target.whitened(lambda at: density(at)[1], z, kept if batches else None)
        along = coordinates.gradient(slope)
        return coordinates.of(along) - x, 0.5 * float(along @ along), coordinates

    near, before, length, information = NEAR * z.size, *(np.full(len(batches), start) for start in (0.0, 1.0, 1.0))
    for _ in range(ROUNDS):
        z[kept], _, coordinates = climb(density, newton, z[kept], STEPS, near)
        if given or not batches:
            return z, None, information
        variances[kept] = coordinates.variances
        moved = 0.0
        for k, batch in enumerate(batches):
            span = batch.span
            raised = math.exp(batch.power * (min(z[batch.place], 20.0) - math.log(batch.scale)))
            slope = (z[span] ** 2 + variances[span] - 1).sum() + 1 - raised
            information[k] = bend = 2 * ((1 - variances[span]) ** 2).sum() + batch.power * raised
            length[k], before[k] = 0.5 * length[k] if slope * before[k] < 0 else length[k], slope
            change = length[k] * min(max(slope / bend, -LONGEST), LONGEST)
            z[batch.place] += change
            z[span] *= math.exp(-change)
            moved = max(moved, abs(change) * math.sqrt(bend))
        if moved < LEAST_CHANGE:
            break
    return z, np.where(target.effects, np.clip(1 - variances, 0.0, MOST_SHARE), 0.0), information
