"""Newton's method for unknowns without bounds, with the curvature's own structure."""

from collections.abc import Callable
from typing import Any

import numpy as np

#: The mode is found when a Newton step gains less than this many nats.
SETTLED = 1e-9
#: Most Newton steps, and the longest one in any unknown: unknowns are of the order of one under their prior.
MAX_STEPS, LONGEST = 200, 4.0
#: The last step is taken where no unknown moves by more: along a flat direction its quadratic says nothing.
LAST = 0.1
#: Most halvings of a step, and the share of what its slope promises that it must gain.
HALVINGS, GAINED = 40, 1e-4


def climb(
    density: Callable, newton: Callable, z: np.ndarray, most: int = MAX_STEPS, settled: float = SETTLED, watch: Any = None
) -> tuple[np.ndarray, float, Any]:
    """Return (z, log-density, curvature) where a step gains less than ``settled`` nats, or nothing higher is found.

    That last step is taken, unseen by the log-density and the curvature.

    Parameters
    ----------
    density : callable
        z → (log-density, gradient), of the shape of z.
    newton : callable
        (z, gradient) → (step, nats that it gains by its quadratic, curvature, in any form). Infinitely many nats ask for a
        step although the slope is zero.
    z : array
        Where to start.
    most : int
        Steps.
    settled : float
    watch : Watch, optional
    """
    value, gradient = density(z)
    for _ in range(most) if watch is None else watch.track(range(most), "Newton steps to the mode"):
        step, gain, curvature = newton(z, gradient)
        if gain < settled:
            if np.abs(step).max() < LAST:  # the last digits, which no value of the density would show
                z = z + step
            break
        there = higher(density, z, value, gradient, step)
        if there is None:  # round-off: nothing higher along this line
            break
        z, value, gradient = there
    return z, value, curvature


def higher(density: Callable, z: np.ndarray, value: float, gradient: np.ndarray, step: np.ndarray):
    """Return (z, log-density, gradient) at the first of ever shorter steps that gains enough, or None.

    Along a step without a slope both ways are tried.
    """
    slope, length = float((gradient * step).sum()), 1.0
    for _ in range(HALVINGS):
        for sign in (1.0, -1.0) if slope <= 0 else (1.0,):
            there = z + sign * length * step
            with np.errstate(all="ignore"):  # a step too long may lead to where floats end
                height, slope_there = density(there)
            if np.isfinite(height) and np.isfinite(slope_there).all() and height > value + GAINED * length * max(slope, 0.0):
                return there, height, slope_there
        length *= 0.5
    return None


def find_mode(target: Any, start: np.ndarray, watch: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (mode, eigenvalues, eigenvectors) of a log-density: Newton with the absolute values of the eigenvalues.

    The log-density of a k-ary likelihood in unconstrained unknowns is not concave everywhere. |λ| makes every step one of
    ascent, and a stationary point with a negative eigenvalue is left along its eigenvector; a Cholesky factor of a shifted
    Hessian would stop there.

    Parameters
    ----------
    target : object
        With ``value_and_gradient`` and ``hessian``.
    start : (u,) array
    watch : Watch, optional

    Returns
    -------
    tuple
        The mode (u,), the absolute eigenvalues (u,) of minus the Hessian there, and its eigenvectors (u, u).
    """

    def newton(z, gradient):
        signed, vectors = np.linalg.eigh(-target.hessian(z))
        eigenvalues = np.maximum(np.abs(signed), 1e-10 * max(np.abs(signed).max(), 1.0))
        along = vectors.T @ gradient
        gain = 0.5 * float((along**2 / eigenvalues).sum())
        step = vectors @ (along / eigenvalues)
        if gain < SETTLED and signed[0] < -1e-6 * eigenvalues[-1]:  # a saddle
            step, gain = vectors[:, 0], np.inf
        return step * min(1.0, LONGEST / max(np.abs(step).max(), 1e-300)), gain, (eigenvalues, vectors)

    z, _, (eigenvalues, vectors) = climb(target.value_and_gradient, newton, np.array(start, dtype=float), watch=watch)
    return z, eigenvalues, vectors
