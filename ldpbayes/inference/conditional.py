"""Coordinates of effects given their scales: given scales and shares, all other coordinates are nearly standard normal.

Unknowns are standard normal under the prior, and effects are multiplied by learnt scales: b = D x. A quadratic of the
log-likelihood, h·b − ½ bᵀAb, makes x given the scales normal with the precision I + D A D and the mean (I + D A D)⁻¹ D h,
at whatever scales. Quadratics about the mode of x at a few places serve the scales next to them. One Cholesky factor makes x
of standard normal numbers, and weights of draws correct what the quadratics miss. A share of people is given likewise, for
it bounds what their reports say: where the share is near zero, only the prior tells of these people.

References
----------
Rue, Martino, Chopin 2009, JRSS B 71.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes.inference.middle import middle
from ldpbayes.inference.structure import curvature, positive


@dataclass(frozen=True)
class QuadraticPlaces:
    """Where quadratics of the log-likelihood are taken, beside the middle, in units of the posterior.

    Attributes
    ----------
    apart : int
        Distance of the two for each log scale. Derived: beyond two sd lies a twentieth of a normal law. Bank: half and
        double change one of three, within errors.
    reach : int
        Largest distance of the ones for each pivot, which stand at each whole distance. Derived: beyond three sd lie .3
        % of a normal law; a pivot moves the likelihood's curvature between them. Bank: half and double change one of
        three, within errors.
    least : float
        Information on a log scale or pivot below this counts as this. Derived: a unit is then at most 1/√.1 = 3 prior sd,
        where nothing of the prior is left. Bank: half and double change no number.
    """

    apart: int = 2
    reach: int = 3
    least: float = 0.1


PLACES = QuadraticPlaces()


class Conditional:
    """Coordinates (of log scales and what else is given, v) of unknowns, v nearly standard normal.

    Parameters
    ----------
    target : Target
        With the prior, and ``flat``.
    start : (u,) array, optional
        Where the middle of the posterior is looked for first.
    quadratics : QuadraticPlaces
    """

    def __init__(self, target: Any, start: np.ndarray | None = None, quadratics: QuadraticPlaces = PLACES):
        self.likelihood, scales = replace(target, flat=True), [batch.place for batch in target.batches]
        # What comes last moves all others with it, so that tails of what is no effect lie along an axis.
        self.rest = np.setdiff1d(target.rest, target.prior.pivots)[::-1]
        self.places, (at, _, information) = np.array([*scales, *target.prior.pivots], dtype=int), middle(target, start)
        if target.prior.pivots:
            information = np.append(information, self._left(-target.hessian(at))[len(scales) :])
        self.centre, self.spread = at[self.places], 1 / np.sqrt(np.maximum(information, quadratics.least))
        owner = np.full(at.size, len(self.places))
        for k, batch in enumerate(target.batches):
            owner[batch.span] = k
        self.owner = owner[self.rest]
        distances: Sequence[float] = [quadratics.apart]
        axes = np.eye(self.places.size)
        if target.prior.pivots:  # scales move quadratics little, and D knows of them: the nearest of the pivots serves
            axes, distances = axes[len(scales) :], range(1, quadratics.reach + 1)
        steps = [np.zeros(self.places.size), *(way * step * axis for way in (-1, 1) for step in distances for axis in axes)]
        self.at = self.centre + self.spread * np.array(steps)
        self.forms = [self._about(at)]
        for given in self.at[1:]:
            at[self.places] = given
            self.forms.append(self._about(middle(target, at, given=True)[0]))

    def _left(self, bent):
        """Return the information on each place that minus a Hessian leaves when all but these are integrated over."""
        across = bent[np.ix_(self.places, self.rest)]
        inside = np.linalg.solve(bent[np.ix_(self.rest, self.rest)], across.T)
        return np.diag(bent[np.ix_(self.places, self.places)] - across @ inside)

    def _about(self, at):
        """Return (A, h) of the log-likelihood about unknowns, where the pivots are theirs."""
        z, b = at.copy(), at[self.rest] * self._scales(at[None, self.places])[0]
        z[[batch.place for batch in self.likelihood.batches]] = 0.0

        def gradient(b):
            z[self.rest] = b
            return self.likelihood.value_and_gradient(z)[1][self.rest]

        bent = positive(curvature(gradient, b))
        return bent, gradient(b) + bent @ b

    def _scales(self, given):
        """Return D where these log scales, and what else, are given (S, d), shape (S, n)."""
        padded = np.append(given, np.zeros((len(given), 1)), axis=1)  # of what is no effect it is one
        return np.exp(np.clip(padded[:, self.owner], -300.0, 300.0))

    def placed(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (unknowns of coordinates (S, u), log of their volume for a unit of these)."""
        z = np.empty(u.shape)
        z[:, self.places] = self.centre + self.spread * u[:, : self.places.size]
        z[:, self.rest], half = self._given(z[:, self.places], u[:, self.places.size :], False)
        return z, np.log(self.spread).sum() - half

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns (S, u)."""
        given = z[:, self.places]
        return np.concatenate([(given - self.centre) / self.spread, self._given(given, z[:, self.rest], True)[0]], 1)

    def _given(self, given, numbers, back):
        """Return (x of v where something is given, or v of x, half the log-determinant of I + D A D)."""
        from ldpbayes.inference import _kernels

        half, out = np.empty(len(numbers)), np.empty(numbers.shape)
        nearest = (((given[:, None] - self.at) / self.spread) ** 2).sum(axis=2).argmin(axis=1)
        forms = (np.array(each) for each in zip(*self.forms, strict=True))
        _kernels.given_scales(nearest, self._scales(given), *forms, np.ascontiguousarray(numbers), out, back, half)
        return out, half
