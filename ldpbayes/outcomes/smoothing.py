"""Curves of group shares over bins: smooth logits, their scale integrated, by banded algebra.

In bin b the private group has shares r_b = softmax(H g_b) with orthonormal contrasts H, and the reports of the bin say
Σ_e n_e log Σ_x L_ex r_bx: a regression whose cells are the bins, each with a column of its own. Second differences of g
over bins are independent normal with variance σ²h³, h the width of a bin; only what they leave free, a level and a slope
at the middle, has a proper prior. The posterior given σ is near normal: its mode and curvature cost O(bins), draws of that
normal get importance weights, and σ is summed over a grid. See
docs/theory/private-groups.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cholesky, cholesky_banded, helmert
from scipy.special import logsumexp, softmax

from ldpbayes.errors import ConvergenceError
from ldpbayes.inference.importance import Weighted, weigh
from ldpbayes.inference.newton import SETTLED, climb
from ldpbayes.inference.structure import DIFFERENCE, BandedFactor, DenseFactor, positive
from ldpbayes.sources.records import Entries

#: Scales σ of a curve per normal score^(3/2), the nodes of their sum …
SCALES = np.geomspace(0.05, 50.0, 14)
#: … and the prior of log σ: Student's t with four degrees of freedom about the log of the first, with the second as scale.
TYPICAL, RANGE = 1.0, 0.7
#: Standard deviations of level, and of slope per normal score, at the middle of the curve.
LEVEL, SLOPE = 2.0, 2.0
#: Standard deviations of the levels of open categories, which have no order: nodes of their sum.
SPREADS = np.geomspace(0.01, 5.0, 12)
#: Nodes with less than this share of the evidence are left out.
NEGLIGIBLE = 1e-4
#: Steps of Newton's method.
MAX_STEPS = 60
#: Draws of a curve that are weighted, at least, and those of a node of the scale.
LEAST_DRAWN, LEAST_OF_NODE = 600, 20


class Walk:
    """The second-order random walk over m bins, for each of the k − 1 contrasts: precision DᵀD/(σ²h³) + level and slope.

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
    ordered = True

    def __init__(self, size: int, width: float, middle: int) -> None:
        self.size, self.width, self.middle = size, width, min(middle, size - 2)

    def log_prior(self, scale: float) -> float:
        """Return the log-density of log σ, Student's t with four degrees of freedom, without its constant."""
        return -2.5 * math.log1p((math.log(scale / TYPICAL) / RANGE) ** 2 / 4)

    def bands(self, scale: float) -> np.ndarray:
        """Return the lower bands of the precision, (3, m): columns that are five apart have no row in common."""
        apart = np.arange(self.size) % 5 == np.arange(5)[:, None]
        columns = np.pad(self.times(apart[..., None].astype(float), scale)[..., 0], ((0, 0), (0, 2)))
        each = np.arange(self.size)
        return np.stack([columns[each % 5, each + below] for below in range(3)])

    def log_det(self, scale: float) -> float:
        """Return the log-determinant of the precision of one contrast."""
        rough = (self.size - 2) * (2 * math.log(scale) + 3 * math.log(self.width))
        return -rough - 2 * math.log(LEVEL) - 2 * math.log(SLOPE * self.width)

    def times(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return precision @ g for g of shape (…, m, K)."""
        rough = (g[..., 2:, :] - 2 * g[..., 1:-1, :] + g[..., :-2, :]) / (scale**2 * self.width**3)
        out = np.zeros_like(g)
        out[..., 2:, :] += rough
        out[..., 1:-1, :] -= 2 * rough
        out[..., :-2, :] += rough
        at = self.middle
        slope = (g[..., at + 1, :] - g[..., at, :]) / (SLOPE * self.width) ** 2
        out[..., at, :] += g[..., at, :] / LEVEL**2 - slope
        out[..., at + 1, :] += slope
        return out

    def quadratic(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return gᵀ precision g of draws (S, m, K), without the loss of digits that the precision itself would have."""
        rough = g[:, 2:] - 2 * g[:, 1:-1] + g[:, :-2]
        level, slope = g[:, self.middle], (g[:, self.middle + 1] - g[:, self.middle]) / self.width
        out = (rough**2).sum(axis=(1, 2)) / (scale**2 * self.width**3)
        return out + (level**2).sum(axis=1) / LEVEL**2 + (slope**2).sum(axis=1) / SLOPE**2

    def factor(self, information: np.ndarray, scale: float) -> "BandedFactor":
        """Return the factor of precision + information (m, K, K)."""
        m, K = information.shape[:2]
        bands = np.zeros((3 * K, m * K))
        for d, band in enumerate(self.bands(scale)):
            bands[d * K] += np.repeat(band, K)
        for c in range(K):
            for below in range(c, K):
                bands[below - c, c::K] += information[:, below, c]
        return BandedFactor(cholesky_banded(bands, lower=True, check_finite=False), (m, K))


class Exchange:
    """Levels of categories without an order: normal about a common one, (σ² I + LEVEL² 1 1ᵀ) for each contrast.

    Parameters
    ----------
    size : int
    """

    scales = SPREADS
    ordered = False

    def __init__(self, size: int) -> None:
        self.size = size

    def log_prior(self, scale: float) -> float:
        """Return the log-density of log σ, half-t with three degrees of freedom, without its constant."""
        return math.log(scale) - 2 * math.log1p(scale**2 / 3)

    def log_det(self, scale: float) -> float:
        """Return the log-determinant of the precision of one contrast."""
        return -2 * self.size * math.log(scale) - math.log1p(self.size * (LEVEL / scale) ** 2)

    def times(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return precision @ g for g of shape (…, m, K)."""
        common = (LEVEL / scale**2) ** 2 / (1 + self.size * (LEVEL / scale) ** 2)
        return g / scale**2 - common * g.sum(axis=-2, keepdims=True)

    def quadratic(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return gᵀ precision g of draws (S, m, K)."""
        mean = g.mean(axis=1)
        apart = ((g - mean[:, None]) ** 2).sum(axis=(1, 2)) / scale**2
        return apart + (mean**2).sum(axis=1) / (scale**2 / self.size + LEVEL**2)

    def factor(self, information: np.ndarray, scale: float) -> "DenseFactor":
        """Return the factor of precision + information (m, K, K)."""
        m, K = information.shape[:2]
        whole = np.zeros((m, K, m, K))
        each = np.arange(m)
        whole[each, :, each, :] = information
        for c in range(K):
            whole[:, c, :, c] += self.times(np.eye(m)[..., None], scale)[..., 0]
        return DenseFactor(cholesky(whole.reshape(m * K, m * K), lower=True, check_finite=False), (m, K))


class Constant(Exchange):
    """One level, normal with standard deviation LEVEL for each contrast."""

    scales = SPREADS[:1]

    def __init__(self) -> None:
        super().__init__(1)


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of shares over bins: its reports and its prior."""

    entries: Entries
    prior: Walk | Exchange

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal contrasts of the groups, (k, k − 1)."""
        return np.ascontiguousarray(helmert(self.entries.table.shape[1]).T)

    @cached_property
    def _known(self) -> tuple:
        """What the compiled likelihood reads: the columns of the bins, and the reports."""
        e, each = self.entries, np.arange(self.entries.n_cells + 1)
        columns = each, each[:-1], np.ones(e.n_cells)
        return self.basis, *columns, e.starts, e.row, e.weight, np.ascontiguousarray(e.table), e.sizes

    def shares(self, g: np.ndarray) -> np.ndarray:
        """Return softmax(H g) for g (…, m, K)."""
        return softmax(g @ self.basis.T, axis=-1)

    def log_likelihood_and_gradient(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-likelihood (S,) of draws (S, m, K) and its gradient, (S, m, K)."""
        from ldpbayes.inference import _kernels

        g = np.ascontiguousarray(g)
        value, slope = np.empty(len(g)), np.empty_like(g)
        _kernels.likelihoods(g, slope, value, *self._known)
        return value, slope

    def log_density(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return the log of likelihood times prior of draws (S, m, K), without (2π)^(−mK/2)."""
        return self.log_density_and_gradient(g, scale)[0]

    def log_density_and_gradient(self, g: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Return log_density (S,) of draws (S, m, K) and its gradient, (S, m, K)."""
        value, slope = self.log_likelihood_and_gradient(g)
        value += 0.5 * g.shape[2] * self.prior.log_det(scale) - 0.5 * self.prior.quadratic(g, scale)
        return value, slope - self.prior.times(g, scale)

    def slopes(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient (m, K) and information (m, K, K) of the log-likelihood: means over draws g (S, m, K).

        Bins do not meet, so that one difference of the gradient does for all of them.
        """
        steps = DIFFERENCE * np.eye(g.shape[2])
        ways = [[self.log_likelihood_and_gradient(g + way * step)[1].mean(axis=0) for way in (-1, 1)] for step in steps]
        found = np.stack([behind - ahead for behind, ahead in ways], axis=2) / (2 * DIFFERENCE)
        return self.log_likelihood_and_gradient(g)[1].mean(axis=0), 0.5 * (found + found.swapaxes(1, 2))

    def start(self) -> np.ndarray:
        """Return the constant curve at about the shares that the pooled reports make likeliest."""
        return np.tile(np.log(self.entries.pooled()) @ self.basis, (self.entries.n_cells, 1))

    def mode(self, scale: float, g: np.ndarray) -> "Mode":
        """Return the maximum of the log-density given σ, by Newton's method from g."""

        def density(g):
            value, slope = self.log_density_and_gradient(g[None], scale)
            return float(value[0]), slope[0]

        def newton(g, slope):
            factor, sure = self._factor(self.slopes(g[None])[1], scale)
            step = factor.solve(slope)
            gain = float((slope * step).sum())
            return step, gain if sure else max(gain, SETTLED), factor

        g, value, factor = climb(density, newton, g, MAX_STEPS)
        return Mode(g, factor, value - factor.half_log_det)

    def _factor(self, information, scale):
        """Return (factor of the precision of the normal approximation, whether it is that of the information as it is)."""
        for held, sure in ((information, True), (positive(information), False)):
            try:
                return self.prior.factor(held, scale), sure
            except LinAlgError:
                continue
        raise ConvergenceError("The curve of group shares has no normal approximation; use fewer bins.")


@dataclass(frozen=True, eq=False)
class Mode:
    """A normal approximation of a curve given σ: its centre, the factor of its precision, and the log of its evidence.

    The evidence is Laplace's, without constants.
    """

    g: np.ndarray
    factor: BandedFactor | DenseFactor
    log_evidence: float

    def log_ratio_and_gradient(self, curve: Curve, scale: float, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (log of posterior over approximation, its gradient) at standard draws z (S, m·K).

        The mean of its exponential is the evidence.
        """
        value, slope = curve.log_density_and_gradient(self.g + self.factor.spread(z), scale)
        return value + 0.5 * (z**2).sum(axis=1) - self.factor.half_log_det, self.factor.pull(slope) + z


@dataclass(frozen=True, eq=False)
class Drawn:
    """Weighted draws of one curve at the nodes of the scale.

    Attributes
    ----------
    node : (S,) int array
    g : (S, m, K) array
    log_ratio : (S,) array
        Log of posterior over proposal given the node; the mean exponential over a node's draws estimates its evidence.
    """

    node: np.ndarray
    g: np.ndarray
    log_ratio: np.ndarray

    def evidence(self, nodes: int) -> np.ndarray:
        """Return the log-evidence of each node."""
        own = [self.log_ratio[self.node == i] for i in range(nodes)]
        return np.array([logsumexp(one) - math.log(one.size) for one in own])


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal approximations of curves at nodes of the scale.

    Attributes
    ----------
    curves : sequence of Curve
    scales : (nodes,) array
    log_prior : (nodes,) array
    modes : list of list of Mode
        By curve and node.
    """

    curves: Sequence[Curve]
    scales: np.ndarray
    log_prior: np.ndarray
    modes: list[list[Mode]]

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> "Normal":
        """Return Laplace's approximations at the nodes that matter."""
        prior = curves[0].prior
        starts = [curve.start() for curve in curves]
        log_mass: list[float] = []
        found = []
        for scale in prior.scales:
            modes = [curve.mode(scale, start) for curve, start in zip(curves, starts, strict=True)]
            starts = [one.g for one in modes]
            found.append(modes)
            log_mass.append(prior.log_prior(scale) + sum(one.log_evidence for one in modes))
            if log_mass[-1] < max(log_mass) - 12 and log_mass[-1] < log_mass[-2]:
                break
        kept = np.flatnonzero(np.exp(np.array(log_mass) - logsumexp(log_mass)) > NEGLIGIBLE)
        log_prior = np.array([prior.log_prior(scale) for scale in prior.scales[kept]])
        return cls(curves, prior.scales[kept], log_prior, [[found[i][c] for i in kept] for c in range(len(curves))])

    def share(self, evidences: Sequence[np.ndarray]) -> np.ndarray:
        """Return the probabilities of the nodes from the log-evidences of each curve, (nodes,)."""
        log_mass = self.log_prior + sum(evidences)
        return np.exp(log_mass - logsumexp(log_mass))

    def weighed(self, c: int, drawn: Drawn, evidences: Sequence[np.ndarray]) -> Weighted:
        """Return the weights of the draws of curve c, given those of all nodes, judged by shares along the curve."""
        share = self.share(evidences)
        sizes = np.bincount(drawn.node, minlength=len(share))
        log_node = np.log(np.maximum(share, 1e-300)) - np.log(sizes) - evidences[c]
        shares = self.curves[c].shares(drawn.g)
        at = np.unique(np.linspace(0, shares.shape[1] - 1, 9).astype(int))
        values = np.concatenate([shares[:, at, 1:].reshape(len(shares), -1), shares.mean(axis=1)[:, 1:]], axis=1)
        return weigh(values, drawn.log_ratio + log_node[drawn.node])


def sizes_of(share: np.ndarray, total: int) -> np.ndarray:
    """Return how many draws each node gets."""
    return np.maximum(np.ceil(total * share), LEAST_OF_NODE).astype(int)
