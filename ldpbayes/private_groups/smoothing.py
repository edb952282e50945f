"""Curves of group shares over bins: smooth logits, their scale integrated, by banded algebra.

In bin b the private group has shares r_b = softmax(H g_b) with orthonormal contrasts H, and the reports of the bin say
Σ_e n_e log Σ_x L_ex r_bx: a regression whose cells are the bins, each with a column of its own. Second differences of g
over bins are independent normal with variance σ²h³, h the width of a bin; only what they leave free, a level and a slope
at the middle, has a proper prior. The posterior given σ is near normal: its mode and curvature cost O(bins), draws of that
normal get importance weights, and σ is summed over a grid. See
docs/theory/private-groups.md.
"""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky_banded, helmert
from scipy.special import softmax

from ldpbayes.arrays import times
from ldpbayes.inference.constants import DIFFERENCE
from ldpbayes.inference.nested import WAYS, Cores, Grid, Nested, nested
from ldpbayes.inference.structure import Factor
from ldpbayes.sources.records import Entries

#: Scales σ of a curve per normal score^(3/2), the nodes of their sum …
SCALES = np.geomspace(0.05, 50.0, 14)
#: Rule: and the prior of log σ: Student's t with four degrees of freedom about the log of the first, with the second as
#: scale. With σ = 1 a curve leaves its line by 1/√3 = .6 over one normal score, and 95 % of the prior are from .14 to 7, so
#: that reports decide. Of two samples of 10,000 records and one of 1,000 (the near design of docs/theory/private-groups.md)
#: shares, means and quantiles move by .09 to .22 sd at half and double of the first, and by .09 to .16 at half of the
#: second; with another seed by .09 to .17.
TYPICAL, RANGE = 1.0, 0.7
#: Rule: Standard deviations of level, and of slope per normal score, at the middle of the curve. Log odds of two groups have
#: √2 times the sd of a contrast: 2.8, where Jeffreys' prior has π = 3.1. At half 95 % of the shares would be from .06 to
#: .94; at double half of them below .02 or above .98. Two normal groups d sd apart have a slope of some d/√2: one sd of the
#: prior is 2.8 of theirs, more than most groups differ by, and at half 1.4, which would pull distinct groups together. On
#: the samples named above all moves are from .05 to .2 sd (half and double of the level, half of the slope).
LEVEL, SLOPE = 2.0, 2.0
#: Standard deviations of the levels of open categories, which have no order: nodes of their sum.
SPREADS = np.geomspace(0.01, 5.0, 12)
#: Rule: Scales whose evidence is so many nats below that of the best one are left out: e^−9 = 1.2e-4 of its weight each,
#: .002 if all others were so, which moves a mean three sd away by .005 sd. At half .01 each, up to .15; at double nothing
#: is left out that any draw would take, and each scale costs a mode.
FALL = 9.0


class Levels(abc.ABC):
    """What is believed of the logits g (m, K) of m bins given a scale σ: contrasts are independent and normal.

    A member states ``root(scale)``, a square A (m, m) with precision AᵀA, and ``free``, the rows of A that no scale changes.
    """

    scales: np.ndarray
    size: int
    #: Diagonals of the precision, from its main one down.
    width: int
    free: Any

    @abc.abstractmethod
    def root(self, scale: float) -> Any:
        """Return A, an array or a sparse one."""

    @abc.abstractmethod
    def log_det(self, scale: float) -> float:
        """Return the log-determinant of the precision of one contrast."""

    @abc.abstractmethod
    def log_prior(self, scale: Any) -> Any:
        """Return the log-density of log σ, without its constant."""

    def log_hyperprior(self, g: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the log-density of what few unknowns have a proper prior, the free ones and log σ, of draws (S, m, K)."""
        return self.log_prior(scale) - 0.5 * (times(self.free, g) ** 2).sum(axis=(1, 2))

    def times(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return precision @ g for g of shape (…, m, K)."""
        root = self.root(scale)
        return times(root.T, times(root, g))

    def quadratic(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return gᵀ precision g of draws (S, m, K), without the loss of digits that the precision itself would have."""
        return (times(self.root(scale), g) ** 2).sum(axis=(1, 2))

    def factor(self, information: np.ndarray, scale: float) -> Factor:
        """Return the factor of precision + information (m, K, K)."""
        (m, K), root = information.shape[:2], self.root(scale)
        precision, bands = root.T @ root, np.zeros((self.width * K, m * K))
        for d in range(self.width):
            bands[d * K, : (m - d) * K] += np.repeat(precision.diagonal(-d), K)
        for c in range(K):
            for below in range(c, K):
                bands[below - c, c::K] += information[:, below, c]
        return Factor(cholesky_banded(bands, lower=True, check_finite=False), (m, K), banded=True)


class Walk(Levels):
    """The second-order random walk over m bins, with a proper prior of level and slope alone.

    Parameters
    ----------
    size : int
        m, at least three.
    width : float
        h, in normal scores.
    middle : int
        The bin at which level and slope have their prior; below m − 1.
    """

    scales = SCALES
    width = 3

    def __init__(self, size: int, width: float, middle: int) -> None:
        self.size, self.step, at = size, width, min(middle, size - 2)
        self._rough = sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(size - 2, size)) / width**1.5
        slope = 1 / (SLOPE * width)
        self.free = sparse.csr_array(([1 / LEVEL, -slope, slope], ([0, 1, 1], [at, at, at + 1])), shape=(2, size))

    def log_prior(self, scale: Any) -> Any:
        """Return the log-density of log σ, Student's t with four degrees of freedom, without its constant."""
        return -2.5 * np.log1p((np.log(scale / TYPICAL) / RANGE) ** 2 / 4)

    def root(self, scale: float) -> Any:
        return sparse.vstack([self._rough / scale, self.free], format="csr")

    def log_det(self, scale: float) -> float:
        rough = (self.size - 2) * (2 * math.log(scale) + 3 * math.log(self.step))
        return -rough - 2 * math.log(LEVEL) - 2 * math.log(SLOPE * self.step)


class Exchange(Levels):
    """Levels of categories without an order: normal about a common one, (σ² I + LEVEL² 1 1ᵀ) for each contrast.

    Parameters
    ----------
    size : int
        Of one category the level is normal with standard deviation LEVEL, whatever its negligible spread.
    """

    scales = SPREADS

    def __init__(self, size: int) -> None:
        self.size = self.width = size
        if size == 1:
            self.scales = SPREADS[:1]
        self.free = np.full((1, size), 1 / (LEVEL * size))

    def log_prior(self, scale: Any) -> Any:
        """Return the log-density of log σ, half-t with three degrees of freedom, without its constant."""
        return np.log(scale) - 2 * np.log1p(scale**2 / 3)

    def root(self, scale: float) -> np.ndarray:
        common = 1 / math.sqrt(scale**2 + self.size * LEVEL**2)
        return np.eye(self.size) / scale + (common - 1 / scale) / self.size

    def log_det(self, scale: float) -> float:
        return -2 * self.size * math.log(scale) - math.log1p(self.size * (LEVEL / scale) ** 2)


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of shares over bins: its reports and its prior."""

    entries: Entries
    prior: Levels

    @property
    def visited(self) -> int:
        """Numbers that one evaluation of the density visits."""
        return self.entries.weight.size + self.entries.n_cells

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal contrasts of the groups, (k, k − 1)."""
        return np.ascontiguousarray(helmert(self.entries.table.shape[1]).T)

    @cached_property
    def _inputs(self) -> tuple:
        """What the compiled likelihood reads: the columns of the bins, and the reports."""
        e, each = self.entries, np.arange(self.entries.n_cells + 1)
        columns = each[:0], np.empty((0, e.n_cells)), each, each[:-1], np.ones(e.n_cells)
        return self.basis, *columns, e.arrays

    def shares(self, g: np.ndarray) -> np.ndarray:
        """Return softmax(H g) for g (…, m, K)."""
        return softmax(g @ self.basis.T, axis=-1)

    def log_likelihood_and_gradient(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-likelihood (S,) of draws (S, m, K) and its gradient, (S, m, K)."""
        from ldpbayes.inference import _kernels

        g = np.ascontiguousarray(g)
        value, slope = np.empty(len(g)), np.empty_like(g)
        _kernels.likelihoods(g, slope, value, *self._inputs)
        return value, slope

    def log_density_and_gradient(self, g: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the log of likelihood times prior of draws (S, m, K), without (2π)^(−mK/2), and its gradient, (S, m, K)."""
        value, slope = self.log_likelihood_and_gradient(g)
        value += 0.5 * g.shape[2] * self.prior.log_det(scale) - 0.5 * self.prior.quadratic(g, scale)
        return value, slope - self.prior.times(g, scale)

    def information(self, g: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of the log-likelihood in each bin, (m, K, K): its mean over draws g (S, m, K).

        Bins do not meet, so that one difference of the gradient does for all of them.
        """
        steps = DIFFERENCE * np.eye(g.shape[2])
        ways = [[self.log_likelihood_and_gradient(g + way * step)[1].mean(axis=0) for way in (-1, 1)] for step in steps]
        curvature = np.stack([behind - ahead for behind, ahead in ways], axis=2) / (2 * DIFFERENCE)
        return 0.5 * (curvature + curvature.swapaxes(1, 2))

    def factor(self, information: np.ndarray, scale: float) -> Factor:
        """Return the factor of the prior's precision plus an information (m, K, K)."""
        return self.prior.factor(information, scale)

    def left_out(self, g: np.ndarray, nodes: Any) -> float:
        """Return 0: the prior of σ is one on the nodes."""
        return 0.0

    def judged(self, g: np.ndarray) -> np.ndarray:
        """Return shares along the curve and over it, by which weights of draws g (S, m, K) are judged."""
        shares = self.shares(g)
        at = np.unique(np.linspace(0, shares.shape[1] - 1, 9).astype(int))
        return np.concatenate([shares[:, at, 1:].reshape(len(shares), -1), shares.mean(axis=1)[:, 1:]], axis=1)

    def start(self) -> np.ndarray:
        """Return the constant curve at about the shares that the pooled reports make likeliest."""
        return np.tile(np.log(self.entries.pooled()) @ self.basis, (self.entries.n_cells, 1))


@dataclass(frozen=True, eq=False)
class Curves:
    """Draws of curves that share a scale: ``drawn`` are those of their logits, and how far to trust them."""

    curves: Sequence[Curve]
    drawn: Nested

    @property
    def scale(self) -> np.ndarray:
        """σ of each draw, (S,)."""
        return self.drawn.at[:, 0]

    @cached_property
    def shares(self) -> list[np.ndarray]:
        """The shares along each curve, (S, m, k)."""
        return [curve.shares(g) for curve, g in zip(self.curves, self.drawn.g, strict=True)]

    @property
    def log_prior(self) -> np.ndarray:
        """Log-density of the few unknowns with a proper prior, (S,): the free ones of each curve, and log σ, once."""
        each = [curve.prior.log_hyperprior(g, self.scale) for curve, g in zip(self.curves, self.drawn.g, strict=True)]
        return sum(each) - (len(each) - 1) * self.curves[0].prior.log_prior(self.scale)


def approximated(curves: Sequence[Curve]) -> Cores:
    """Return the normal approximations of curves with a common scale σ, at the values of σ that matter.

    Their evidence compares ways to share the same reports out among curves: their grid is the same.

    Parameters
    ----------
    curves : sequence of Curve
    """
    prior = curves[0].prior
    return Cores.of(curves, Grid((prior.scales,), (len(prior.scales) // 2,), prior.log_prior, FALL, len(prior.scales)))


def draw_curves(cores: Cores, draws: int, rng: np.random.Generator, ways: Sequence[str] = WAYS) -> Curves:
    """Return draws of curves with a common scale σ; see inference.nested.

    Parameters
    ----------
    cores : Cores
        What ``approximated`` returns.
    draws : int
    rng : Generator
    ways : sequence of str
    """
    return Curves(cores.families, nested(cores, draws, rng, ways))
