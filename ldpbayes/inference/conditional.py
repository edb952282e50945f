"""Coordinates of unknowns given some others, the pivots: given these, all other coordinates are nearly standard normal.

Pivots are logs of learnt scales, or shares of people. Near zero such a share bounds what reports say of others: only the
prior tells what these people would report. A quadratic of the log-likelihood, h·b − ½ bᵀAb, in the unknowns b = D x, x
standard normal under the prior and D their scales, makes x given the pivots normal with the precision I + D A D and the
mean (I + D A D)⁻¹ D h. Quadratics about the mode of x at a few places serve the pivots next to them. One Cholesky factor
makes x of standard normal numbers, and weights of draws correct what the quadratics miss. Of unknowns that are not standard
normal under the prior the quadratic has what the prior is beyond that.

References
----------
Rue, Martino, Chopin 2009, JRSS B 71.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from ldpbayes.inference.middle import middle
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.structure import curvature, positive, roots
from ldpbayes.inference.target import Given


@dataclass(frozen=True)
class QuadraticPlaces:
    """Where quadratics of the log-likelihood are taken, beside the middle, in units of the posterior.

    Attributes
    ----------
    apart : int
        Distance of the two for each log scale. Derived: beyond two sd lies a twentieth of a normal law. Bank: half and
        double change one of three, within errors.
    least : float
        Information on a log scale, a pivot or what is neither counts as at least this. Derived: a unit is then at most
        1/√.1 = 3 prior sd, where nothing of the prior is left. Bank: half and double change no number.
    """

    apart: int = 2
    least: float = 0.1


PLACES = QuadraticPlaces()


class Conditional:
    """Coordinates (of log scales and pivots, v) of unknowns, v nearly standard normal.

    Parameters
    ----------
    target : Target
    start : (u,) array, optional
        Where the middle of the posterior is looked for first.
    far : sequence of float
        Distances of the places for each pivot, both ways.
    quadratics : QuadraticPlaces
    """

    def __init__(
        self,
        target: Any,
        start: np.ndarray | None = None,
        far: Sequence[float] = (),
        quadratics: QuadraticPlaces = PLACES,
    ):
        self.target, self.quadratics, scales = target, quadratics, [batch.place for batch in target.batches]
        # What comes last moves all others with it, so that tails of what is no effect lie along an axis.
        self.rest = np.setdiff1d(target.rest, target.prior.pivots)[::-1]
        self.places, (at, _, information) = np.array([*scales, *target.prior.pivots], dtype=int), middle(target, start)
        bent = np.diag(information)
        if target.prior.pivots:
            bent = block_diag(bent, self._left(-target.hessian(at))[len(scales) :, len(scales) :])
        self.centre, (self.root, self.inverse) = at[self.places], roots(bent, quadratics.least)
        owner = np.full(at.size, len(self.places))
        for k, batch in enumerate(target.batches):
            owner[batch.span] = k
        self.owner = owner[self.rest]
        distances: Sequence[float] = [quadratics.apart]
        axes = np.eye(self.places.size)
        if target.prior.pivots:  # scales move quadratics little, and D knows of them: the nearest of the pivots serves
            axes, distances = axes[len(scales) :], far
        steps = [np.zeros(self.places.size), *(way * step * axis for way in (-1, 1) for step in distances for axis in axes)]
        self.steps = np.array(steps)
        self.at = self.centre + self.steps @ self.root
        self.forms = [self._about(at)]
        for given in self.at[1:]:
            at[self.places] = given
            at[self.rest] = find_mode(Given(target, at, self.rest), at[self.rest])[0]
            self.forms.append(self._about(at))

    def _left(self, bent):
        """Return the information on the places that minus a Hessian leaves when all but these are integrated over."""
        across = bent[np.ix_(self.places, self.rest)]
        inside = np.linalg.solve(bent[np.ix_(self.rest, self.rest)], across.T)
        return bent[np.ix_(self.places, self.places)] - across @ inside

    def _about(self, at):
        """Return (A, h) about unknowns, where the pivots are theirs."""
        z, b = at.copy(), at[self.rest] * self._scales(at[None, self.places])[0]
        z[[batch.place for batch in self.target.batches]] = 0.0

        def gradient(b):
            z[self.rest] = b
            return self.target.value_and_gradient(z)[1][self.rest] + b  # what the prior is beyond standard normal, too

        beyond = 0.0 if self.target.batches else 1 - self.quadratics.least  # scaled effects have D of any size
        bent = positive(curvature(gradient, b) + beyond * np.eye(b.size)) - beyond * np.eye(b.size)
        return bent, gradient(b) + bent @ b

    def _scales(self, given):
        """Return D where these log scales, and what else, are given (S, d), shape (S, n)."""
        padded = np.append(given, np.zeros((len(given), 1)), axis=1)  # of what is no effect it is one
        return np.exp(np.clip(padded[:, self.owner], -300.0, 300.0))

    def placed(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (unknowns of coordinates (S, u), log of their volume for a unit of these)."""
        z = np.empty(u.shape)
        first, numbers = np.split(u, [self.places.size], axis=1)
        z[:, self.places] = given = self.centre + first @ self.root
        z[:, self.rest], half = self._given(first, given, numbers, False)
        return z, np.linalg.slogdet(self.root)[1] - half

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns (S, u)."""
        given = z[:, self.places]
        first = (given - self.centre) @ self.inverse
        return np.concatenate([first, self._given(first, given, z[:, self.rest], True)[0]], 1)

    def _nearest(self, first):
        """Return the number of the step that is nearest to each of some coordinates (S, d)."""
        nearest, least = np.zeros(len(first), dtype=np.int64), np.zeros(len(first))
        for k, step in enumerate(self.steps[1:], 1):  # one by one: with all, there may be very many numbers
            further = step @ step - 2 * first @ step
            nearest[further < least] = k
            least = np.minimum(least, further)
        return nearest

    def _given(self, first, given, numbers, back):
        """Return (x of v where something is given, or v of x, half the log-determinant of I + D A D)."""
        from ldpbayes.inference import _kernels

        half, out = np.empty(len(numbers)), np.empty(numbers.shape)
        nearest = self._nearest(first)
        forms = (np.array(each) for each in zip(*self.forms, strict=True))
        _kernels.given_scales(nearest, self._scales(given), *forms, np.ascontiguousarray(numbers), out, back, half)
        return out, half
