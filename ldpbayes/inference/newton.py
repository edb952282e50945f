"""Newton's method for unknowns without bounds, with the curvature's own structure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Steps:
    """When Newton's method ends, and how far it goes at once.

    Attributes
    ----------
    most : int
        Steps. Derived: a loop has to end, and modes are reached in some ten. Bank: half and double change no number.
    settled : float
        The mode is reached where a step gains fewer nats. Derived: steps that gain 1e-9 nats move by 5e-5 posterior sd.
    longest : float
        Largest change of an unknown in a step. Derived: unknowns are of the order of one under their prior, four sd of
        which hold nearly all. Bank: half and double show nothing.
    """

    most: int = 200
    settled: float = 1e-9
    longest: float = 4.0


STEPS = Steps()


def climb(
    density: Callable, newton: Callable, z: np.ndarray, steps: Steps = STEPS, watch: Any = None
) -> tuple[np.ndarray, float, Any]:
    """Return (z, log-density, curvature) where a step gains next to nothing, or nothing higher is found.

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
    steps : Steps
    watch : Watch, optional
    """
    value, gradient = density(z)
    for _ in range(steps.most) if watch is None else watch.track(range(steps.most), "Newton steps to the mode"):
        step, gain, curvature = newton(z, gradient)
        if gain < steps.settled:
            if np.abs(step).max() < 0.1:  # along a flat direction the quadratic says nothing
                z = z + step
            break
        there = higher(density, z, value, gradient, step)
        if there is None:  # round-off: nothing higher along this line
            break
        z, value, gradient = there
    return z, value, curvature


def higher(density: Callable, z: np.ndarray, value: float, gradient: np.ndarray, step: np.ndarray):
    """Return (z, log-density, gradient) at the first of ever shorter steps that leads higher, or None.

    Along a step without a slope both ways are tried.
    """
    slope, length = float((gradient * step).sum()), 1.0
    while length > np.finfo(float).eps:
        for sign in (1.0, -1.0) if slope <= 0 else (1.0,):
            there = z + sign * length * step
            with np.errstate(all="ignore"):  # a step too long may lead to where floats end
                height, slope_there = density(there)
            if np.isfinite(height) and np.isfinite(slope_there).all() and height > value:
                return there, height, slope_there
        length *= 0.5
    return None


def find_mode(
    target: Any, start: np.ndarray, watch: Any = None, steps: Steps = STEPS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    steps : Steps

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
        if gain < steps.settled and signed[0] < -1e-6 * eigenvalues[-1]:  # a saddle
            step, gain = vectors[:, 0], np.inf
        return step * min(1.0, steps.longest / max(np.abs(step).max(), 1e-300)), gain, (eigenvalues, vectors)

    z, _, (eigenvalues, vectors) = climb(target.value_and_gradient, newton, np.array(start, dtype=float), steps, watch)
    return z, eigenvalues, vectors
