"""Coordinates of effects and their scales: what is no scale is nearly standard normal given these.

Unknowns are standard normal under the prior, and effects are multiplied by learnt scales: b = D x. A quadratic of the
log-likelihood about the middle of the posterior, h·b − ½ bᵀAb, makes x given the scales normal with the precision
I + D A D and the mean (I + D A D)⁻¹ D h, at whatever scales. One Cholesky factor makes x of standard normal numbers, and
weights of draws correct what the quadratic misses.

References
----------
Rue, Martino, Chopin 2009, JRSS B 71.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes.inference.middle import middle
from ldpbayes.inference.structure import curvature, positive

#: Information on a log scale below this counts as this.
LEAST = 0.1


class Conditional:
    """Coordinates (of log scales, v) of unknowns, v nearly standard normal.

    Parameters
    ----------
    target : Target
        With the prior, and ``flat``.
    start : (u,) array, optional
        Where the middle of the posterior is looked for first.
    """

    def __init__(self, target: Any, start: np.ndarray | None = None):
        likelihood, self.rest = replace(target, flat=True), target.rest
        self.places, (at, _, information) = np.array([batch.place for batch in target.batches]), middle(target, start)
        self.centre, self.spread = at[self.places], 1 / np.sqrt(np.maximum(information, LEAST))
        owner = np.full(at.size, len(self.places))
        for k, batch in enumerate(target.batches):
            owner[batch.span] = k
        self.owner = owner[self.rest]

        def gradient(b):
            z = np.zeros(at.size)
            z[self.rest] = b
            return likelihood.value_and_gradient(z)[1][self.rest]

        b = target.numbers(at)
        self.curvature = positive(curvature(gradient, b))
        self.slope = gradient(b) + self.curvature @ b

    def placed(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (unknowns of coordinates (S, u), log of their volume for a unit of these)."""
        z = np.empty(u.shape)
        z[:, self.places] = self.centre + self.spread * u[:, : self.places.size]
        z[:, self.rest], half = self._given(z[:, self.places], u[:, self.places.size :], False)
        return z, np.log(self.spread).sum() - half

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns (S, u)."""
        log_scales = z[:, self.places]
        return np.concatenate(
            [(log_scales - self.centre) / self.spread, self._given(log_scales, z[:, self.rest], True)[0]], 1
        )

    def _given(self, log_scales, numbers, back):
        """Return (x of v given log scales, or v of x, half the log-determinant of I + D A D)."""
        from ldpbayes.inference import _kernels

        padded = np.append(log_scales, np.zeros((len(log_scales), 1)), axis=1)  # of what is no effect the scale is one
        scales = np.exp(np.clip(padded[:, self.owner], -300.0, 300.0))
        half, out = np.empty(len(numbers)), np.empty(numbers.shape)
        _kernels.given_scales(scales, self.curvature, self.slope, np.ascontiguousarray(numbers), out, back, half)
        return out, half
