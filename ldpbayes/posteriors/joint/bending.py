"""Unknowns in which effects hardly depend on their scale: bent from standard normal ones towards the effects themselves."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Bend:
    """w = ŵ exp((1 − 2b) δ) + exp(−b δ) y for the standard normal effects w of a prior, δ = log s − log ŝ.

    Reports decide the share b of an effect: with precision r of the effect s w, b = s² r / (1 + s² r). Given s the mean of
    w is proportional to s^(1 − 2b) about ŝ, and its sd to s^(−b), so that the mean and the sd of y change in second order
    only. At b = 0 it is the effect over its scale (the non-centred form), at b = 1 the effect itself (the centred one).

    Attributes
    ----------
    scales : slice
        Where the unknowns are log s; what follows are the effects.
    at : (scales,) array
        log ŝ.
    mean, share : (effects,) arrays
        ŵ and b.

    References
    ----------
    Papaspiliopoulos, Roberts and Sköld 2007, Statistical Science 22, on partially centred forms; Gorinova, Moore and
    Hoffman 2020, ICML, on their choice by the posterior.
    """

    scales: slice
    at: np.ndarray
    mean: np.ndarray
    share: np.ndarray

    @property
    def _width(self):
        return self.mean.size // self.scales.start, self.scales.start

    def _parts(self, y):
        """Return (δ of each effect, exp(−b δ), y of the effects, what the mean has become)."""
        apart = np.minimum(y[..., self.scales], 300.0) - self.at
        each = np.broadcast_to(apart[..., None, :], (*apart.shape[:-1], *self._width))
        each = each.reshape(*apart.shape[:-1], -1)
        shrunk = np.exp(-self.share * each)
        return each, shrunk, y[..., self.scales.stop :], self.mean * np.exp(each) * shrunk**2

    def unbent(self, y):
        """Return the prior's unknowns, shape (…, u)."""
        _, shrunk, own, moved = self._parts(y)
        return np.concatenate([y[..., : self.scales.stop], moved + shrunk * own], axis=-1)

    def log_volume(self, y):
        """Return the log of the absolute determinant of unbent's derivative at y of shape (u,)."""
        return -float(self.share @ self._parts(y)[0])

    def pullback(self, y, slope):
        """Return the gradient in y of a function of the unknowns whose gradient is slope, plus that of the volume."""
        _, shrunk, own, moved = self._parts(y)
        along = slope[self.scales.stop :]
        turned = along * ((1 - 2 * self.share) * moved - self.share * shrunk * own) - self.share
        turned = turned.reshape(self._width).sum(axis=0)
        out = np.concatenate([slope[: self.scales.stop], along * shrunk])
        out[self.scales] += turned if self.at.size > 1 else turned.sum()
        return out
