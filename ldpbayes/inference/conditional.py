"""Coordinates of effects and their scales: what is no scale is nearly standard normal given these.

Unknowns are standard normal under the prior, and effects are multiplied by learnt scales: b = D x. A quadratic of the
log-likelihood, h·b − ½ bᵀAb, makes x given the scales normal with the precision I + D A D and the mean (I + D A D)⁻¹ D h,
at whatever scales; those about the mode of x at a few places each serve the scales next to them. One Cholesky factor makes x
of standard normal numbers, and weights of draws correct what the quadratics miss.

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
#: Coordinates of a log scale at which quadratics are taken, beside the middle.
APART = -2.0, 2.0


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
        # What comes last moves all others with it, so that tails of what is no effect lie along an axis.
        self.likelihood, self.rest = replace(target, flat=True), target.rest[::-1]
        self.places, (at, _, information) = np.array([batch.place for batch in target.batches]), middle(target, start)
        self.centre, self.spread = at[self.places], 1 / np.sqrt(np.maximum(information, LEAST))
        owner = np.full(at.size, len(self.places))
        for k, batch in enumerate(target.batches):
            owner[batch.span] = k
        self.owner = owner[self.rest]
        steps = [np.zeros(self.places.size), *(step * axis for step in APART for axis in np.eye(self.places.size))]
        self.at, self.forms = self.centre + self.spread * np.array(steps), [self._about(target.numbers(at)[::-1])]
        for log_scales in self.at[1:]:
            at[self.places] = log_scales
            self.forms.append(self._about(target.numbers(middle(target, at, given=True)[0])[::-1]))

    def _gradient(self, b):
        """Return the gradient of the log-likelihood at b."""
        z = np.zeros(self.rest.size + self.places.size)
        z[self.rest] = b
        return self.likelihood.value_and_gradient(z)[1][self.rest]

    def _about(self, b):
        """Return (A, h) of the log-likelihood about b."""
        bent = positive(curvature(self._gradient, b))
        return bent, self._gradient(b) + bent @ b

    def _scales(self, log_scales):
        """Return D at log scales (S, d), shape (S, n)."""
        padded = np.append(log_scales, np.zeros((len(log_scales), 1)), axis=1)  # of what is no effect it is one
        return np.exp(np.clip(padded[:, self.owner], -300.0, 300.0))

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

        half, out = np.empty(len(numbers)), np.empty(numbers.shape)
        nearest = ((log_scales[:, None] - self.at) ** 2).sum(axis=2).argmin(axis=1)
        forms = (np.array(each) for each in zip(*self.forms, strict=True))
        _kernels.given_scales(nearest, self._scales(log_scales), *forms, np.ascontiguousarray(numbers), out, back, half)
        return out, half
