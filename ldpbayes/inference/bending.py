"""Unknowns in which effects hardly depend on their scale: bent from standard normal ones towards the effects themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class ScaledEffects(NamedTuple):
    """Effects that are multiplied by one learnt scale.

    Attributes
    ----------
    place : int
        Where the log of the scale stands among the unknowns.
    span : slice or array of int
        Places of the effects among the unknowns.
    scale, power : float and int
        Scale and power in the prior of the learnt scale: exponential for power 1, half-normal for 2.
    """

    place: int
    span: Any
    scale: float
    power: int

    def moved(self, start: int) -> "ScaledEffects":
        """Return the same effects with unknowns that begin at ``start``."""
        span = self.span
        span = slice(span.start + start, span.stop + start, span.step) if isinstance(span, slice) else span + start
        return self._replace(place=self.place + start, span=span)


@dataclass(frozen=True, eq=False)
class Bend:
    """Standard normal effects w as a mean and an sd that depend on their scale σ, times unknowns y that hardly do.

    Reports that gave an effect w σ the mean m and the precision r, as normal ones would, make w given σ normal with mean
    σ r m/(1 + σ² r) and variance 1/(1 + σ² r). The bent unknowns are y with w = mean(σ) + sd(σ)/sd(σ̂) y, as far from σ as
    the reports are normal; of what is no effect they are the unknowns themselves. At r = 0 they are the effects over their
    scale (the non-centred form), and for a large r the effects themselves (the centred one).

    With P = σ̂² r and δ = log σ − log σ̂, sd² changes by the factor {(1 + P)/(1 + P e^(2κδ))}^(1/κ), and the mean by that
    times e^δ: κ = 1 for normal reports. Near κ = 0 the factor is e^(−2bδ), b = P/(1 + P), and below it the share b that
    reports decide falls with the scale: so it is where they bound effects, rather than saying where these are.

    Attributes
    ----------
    batches : sequence of ScaledEffects
    at : (u,) array
        Unknowns: log σ̂, and the means of the effects w at σ̂.
    precision : (u,) array
        P of the effects, zero for what is no effect.
    normality : float
        κ, not zero.

    References
    ----------
    Papaspiliopoulos, Roberts and Sköld 2007, Statistical Science 22, on partially centred forms; Gorinova, Moore and
    Hoffman 2020, ICML, on their choice by the posterior.
    """

    batches: Sequence[ScaledEffects]
    at: np.ndarray
    precision: np.ndarray
    normality: float

    def unbent(self, y: np.ndarray) -> np.ndarray:
        """Return the unknowns, shape (…, u)."""
        z = y.copy()
        for _, apart, ratio, _, span in self._factors(y):
            z[..., span] = self.at[span] * np.exp(apart) * ratio + np.sqrt(ratio) * z[..., span]
        return z

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the bent unknowns of unknowns, shape (…, u)."""
        y = z.copy()
        for _, apart, ratio, _, span in self._factors(z):
            y[..., span] = (z[..., span] - self.at[span] * np.exp(apart) * ratio) / np.sqrt(ratio)
        return y

    def pulled(self, z: np.ndarray, value: float, slope: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density of bent unknowns and its gradient, from those at the unknowns z (u,)."""
        slope = slope.copy()
        for place, apart, ratio, share, span in self._factors(z):
            middle = self.at[span] * np.exp(apart) * ratio
            value += 0.5 * float(np.log(ratio).sum())
            slope[place] += (slope[span] * (middle - share * (z[span] + middle)) - share).sum()
            slope[span] *= np.sqrt(ratio)
        return value, slope

    def arrays(self, fixed: int) -> tuple:
        """Return what the compiled density reads, where the first ``fixed`` unknowns have no learnt sd."""
        spans = [range(*batch.span.indices(self.at.size)) for batch in self.batches]
        before = [fixed + sum(len(range(s.start, min(s.stop, span.start), s.step)) for s in spans) for span in spans]
        columns = [
            (b.place, s.start, s.stop, s.step, k - s.start) for b, s, k in zip(self.batches, spans, before, strict=True)
        ]
        table = np.ascontiguousarray(np.array(columns, dtype=np.int64).reshape(-1, 5).T)
        law = np.array([(batch.scale, batch.power) for batch in self.batches], dtype=float).reshape(-1, 2).T
        return self.at, self.precision, self.normality, *table, *np.ascontiguousarray(law), fixed

    def _factors(self, z):
        for batch in self.batches:
            apart = (np.minimum(z[..., batch.place], 300.0) - self.at[batch.place])[..., None]
            precisions = self.precision[batch.span]
            fallen = (1 + precisions) / (1 + precisions * np.exp(2 * self.normality * apart))
            yield batch.place, apart, fallen ** (1 / self.normality), 1 - fallen / (1 + precisions), batch.span
