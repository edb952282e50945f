"""The No-U-Turn sampler on the coefficients, in coordinates whitened by the Hessian; no model is compiled."""

import math

import numpy as np

from ldpbayes.posteriors.base import Watch
from ldpbayes.posteriors.joint.nuts import sample_in
from ldpbayes.posteriors.joint.whitening import Dense
from ldpbayes.regression.target import Target

#: Draws of a short run about the mode, discarded ones before it, and before the run that is kept.
PILOT, PILOT_TUNE, TUNE = 200, 300, 300
#: Curvatures below this share of the prior's count as this.
LEAST = 0.05
TARGET_ACCEPT = 0.85


def sample(target: Target, mode: np.ndarray, draws: int, chains: int, rng: np.random.Generator, watch: Watch):
    """Return (unknowns (chains, draws, u), statistics by ArviZ's names); fewer draws after an interruption.

    Parameters
    ----------
    target : Target
    mode : (u,) array
        Where a short run starts; the run that is kept starts from its draws.
    draws, chains : int
    rng : numpy.random.Generator
    watch : Watch
    """
    density = Density(target)
    centre = mode.copy()
    for place, _ in target.prior.places:  # the mode of a small sd between groups lies far from its mass
        centre[place] = max(centre[place], -1.0)
    start = centre[None]
    for _ in range(2):
        found, _ = _run(density, centre, start, rng, draws=PILOT, tune=PILOT_TUNE, chains=1)
        start = found[0]
        centre = start.mean(axis=0)
    return _run(density, centre, start, rng, draws=draws, tune=TUNE, chains=chains, watch=watch)


def _run(density, centre, start, rng, **settings):
    """Return (draws, statistics) of a run in coordinates whitened about a point."""
    values, vectors = np.linalg.eigh(-density.target.hessian(centre))
    scale = np.sqrt(np.maximum(np.abs(values), LEAST))
    coordinates = Dense(centre, (vectors / scale) @ vectors.T, (vectors * scale) @ vectors.T)
    begin = coordinates.back(start)
    u, stats = sample_in(density, coordinates, rng, start=begin, target_accept=TARGET_ACCEPT, **settings)
    return coordinates.of(u), stats


class Density:
    """The log-density with its gradient, with the likelihood of all cells compiled.

    Parameters
    ----------
    target : Target
    """

    def __init__(self, target: Target):
        from ldpbayes.regression import _kernels

        self.target, self._likelihood, e = target, _kernels.from_logits, target.entries
        self._columns, self._transposed = np.ascontiguousarray(target.columns), np.ascontiguousarray(target.columns.T)
        held = (e.cell, e.row, e.weight, e.table, e.sizes)
        self._arrays = tuple(np.ascontiguousarray(part) for part in held)
        self._slope = np.empty(target.prior.shape)

    def value_and_gradient(self, z):
        """Return the log-density at z, without the constants of the likelihood, and its gradient."""
        target, prior = self.target, self.target.prior
        basis, k = prior.basis, prior.design.shape[1]
        stacked, free = target.stacked(z), prior.basis.shape[1]
        value = self._likelihood(self._columns @ (stacked @ basis.T), *self._arrays, self._slope)
        inner = self._transposed @ (self._slope @ basis)
        found = np.empty(z.size)
        found[: k * free] = inner[:k].ravel()
        at = k
        for effect, (place, begin) in zip(prior.effects, prior.places, strict=True):
            m = len(effect.levels)
            found[begin : begin + m * free] = math.exp(min(z[place], 300.0)) * inner[at : at + m].ravel()
            found[place] = float((inner[at : at + m] * stacked[at : at + m]).sum())
            at += m
        return value + float(prior.log_density(z)), found + prior.gradient(z)
