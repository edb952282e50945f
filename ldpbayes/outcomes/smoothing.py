"""Curves of group shares over bins: smooth logits, their scale integrated, by banded algebra.

In bin b the private group has shares r_b = softmax(H g_b) with orthonormal contrasts H, and the reports of the bin say
Σ_e n_e log Σ_x L_ex r_bx. Second differences of g over bins are independent normal with variance σ²h³, h the width of a bin;
only what they leave free, a level and a slope at the middle, has a proper prior. The posterior given σ is near normal: its
mode and curvature cost O(bins), draws of that normal get importance weights, and σ is summed over a grid. See
docs/theory/private-groups.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, cholesky_banded, solve_triangular
from scipy.linalg.lapack import dpbtrs, dtbtrs
from scipy.special import logsumexp, softmax

from ldpbayes.errors import ConvergenceError

#: Scales σ of a curve per normal score^(3/2), the nodes of their sum …
SCALES = np.geomspace(0.02, 40.0, 15)
#: … and the scale of their half-t prior with three degrees of freedom.
TYPICAL = 1.0
#: Standard deviations of level, and of slope per normal score, at the middle of the curve.
LEVEL, SLOPE = 2.0, 2.0
#: Standard deviations of the levels of open categories, which have no order: nodes of their sum.
SPREADS = np.geomspace(0.01, 5.0, 12)
#: Nodes with less than this share of the evidence are left out.
NEGLIGIBLE = 1e-4
#: Steps of Newton's method, and the decrease of the log-density below which it stops.
MAX_STEPS, SETTLED = 60, 1e-9
#: Numbers that are held at a time for the likelihood of draws.
BLOCK = 4_000_000


@dataclass(frozen=True, eq=False)
class Entries:
    """The reports of one curve: how often each likelihood row was seen in each bin.

    Attributes
    ----------
    bin, row : (e,) int arrays
        In the order of the bins.
    count : (e,) array
    table : (J, k) array
    size : int
        Number of bins.
    """

    bin: np.ndarray
    row: np.ndarray
    count: np.ndarray
    table: np.ndarray
    size: int

    @cached_property
    def rows(self) -> np.ndarray:
        """Likelihood row of each entry, (e, k)."""
        return self.table[self.row]

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.flatnonzero(np.append(True, np.diff(self.bin) > 0))

    def per_bin(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over the entries of each bin of an (e, …) array."""
        out = np.zeros((self.size, *values.shape[1:]))
        out[self.bin[self._starts]] = np.add.reduceat(values, self._starts, axis=0)
        return out

    def log_likelihood(self, shares: np.ndarray) -> np.ndarray:
        """Return Σ_e n_e log Σ_x L_ex r_bx of shares (S, m, k), shape (S,)."""
        out = np.empty(len(shares))
        step = max(1, BLOCK // max(self.rows.size, 1))
        for start in range(0, len(shares), step):
            some = shares[start : start + step]
            chance = np.zeros((len(some), len(self.bin)))
            for x in range(self.rows.shape[1]):
                chance += some[:, self.bin, x] * self.rows[:, x]
            out[start : start + step] = np.log(np.maximum(chance, 1e-300)) @ self.count
        return out


def contrasts(k: int) -> np.ndarray:
    """Return an orthonormal basis of the vectors of length k that add up to 0, shape (k, k − 1)."""
    basis = np.zeros((k, k - 1))
    for j in range(1, k):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= math.sqrt(j * (j + 1))
    return basis


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
        rough = np.zeros((3, size))  # lower bands of DᵀD
        for j, one in enumerate((1.0, -2.0, 1.0)):
            for i, other in enumerate((1.0, -2.0, 1.0)):
                if i >= j:
                    rough[i - j, j : size - 2 + j] += one * other
        free = np.zeros((3, size))
        at, slope = self.middle, 1 / (SLOPE * width) ** 2
        free[0, at] += 1 / LEVEL**2 + slope
        free[0, at + 1] += slope
        free[1, at] -= slope
        self._rough, self._free = rough, free

    def log_prior(self, scale: float) -> float:
        """Return the log-density of log σ, half-t with three degrees of freedom, without its constant."""
        return math.log(scale) - 2 * math.log1p((scale / TYPICAL) ** 2 / 3)

    def bands(self, scale: float) -> np.ndarray:
        """Return the lower bands of the precision, (3, m)."""
        return self._rough / (scale**2 * self.width**3) + self._free

    def log_det(self, scale: float) -> float:
        """Return the log-determinant of the precision of one contrast."""
        rough = (self.size - 2) * (2 * math.log(scale) + 3 * math.log(self.width))
        return -rough - 2 * math.log(LEVEL) - 2 * math.log(SLOPE * self.width)

    def times(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return precision @ g for g of shape (m, K)."""
        bands = self.bands(scale)
        out = bands[0][:, None] * g
        for d in (1, 2):
            out[d:] += bands[d, :-d, None] * g[:-d]
            out[:-d] += bands[d, :-d, None] * g[d:]
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

    def _common(self, scale: float) -> float:
        return (LEVEL / scale**2) ** 2 / (1 + self.size * (LEVEL / scale) ** 2)

    def log_det(self, scale: float) -> float:
        """Return the log-determinant of the precision of one contrast."""
        return -2 * self.size * math.log(scale) - math.log1p(self.size * (LEVEL / scale) ** 2)

    def times(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return precision @ g for g of shape (m, K)."""
        return g / scale**2 - self._common(scale) * g.sum(axis=0)

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
            whole[each, c, each, c] += 1 / scale**2
            whole[:, c, :, c] -= self._common(scale)
        return DenseFactor(cholesky(whole.reshape(m * K, m * K), lower=True, check_finite=False), (m, K))


@dataclass(frozen=True, eq=False)
class BandedFactor:
    """The lower Cholesky factor of a banded matrix."""

    lower: np.ndarray
    shape: tuple[int, int]

    @property
    def half_log_det(self) -> float:
        return float(np.log(self.lower[0]).sum())

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Return the matrix's inverse times v (m, K)."""
        return dpbtrs(self.lower, v.ravel(), lower=1)[0].reshape(self.shape)

    def spread(self, z: np.ndarray) -> np.ndarray:
        """Return normal draws (S, m, K) with this precision from standard ones (S, m·K)."""
        return dtbtrs(self.lower, z.T, uplo="L", trans="T")[0].T.reshape(len(z), *self.shape)


@dataclass(frozen=True, eq=False)
class DenseFactor:
    """The lower Cholesky factor of a matrix."""

    lower: np.ndarray
    shape: tuple[int, int]

    @property
    def half_log_det(self) -> float:
        return float(np.log(np.diag(self.lower)).sum())

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Return the matrix's inverse times v (m, K)."""
        return cho_solve((self.lower, True), v.ravel()).reshape(self.shape)

    def spread(self, z: np.ndarray) -> np.ndarray:
        """Return normal draws (S, m, K) with this precision from standard ones (S, m·K)."""
        return solve_triangular(self.lower, z.T, lower=True, trans="T").T.reshape(len(z), *self.shape)


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of shares over bins: its reports and its prior."""

    entries: Entries
    prior: Walk | Exchange

    @cached_property
    def basis(self) -> np.ndarray:
        return contrasts(self.entries.table.shape[1])

    def shares(self, g: np.ndarray) -> np.ndarray:
        """Return softmax(H g) for g (…, m, K)."""
        return softmax(g @ self.basis.T, axis=-1)

    def log_density(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return the log of likelihood times prior of draws (S, m, K), without (2π)^(−mK/2)."""
        K = g.shape[2]
        value = self.entries.log_likelihood(self.shares(g)) - 0.5 * self.prior.quadratic(g, scale)
        return value + 0.5 * K * self.prior.log_det(scale)

    def slopes(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return gradient (m, K), observed and empirical information (m, K, K) of the log-likelihood."""
        entries, basis = self.entries, self.basis
        r = self.shares(g)
        own = r[entries.bin]
        post = entries.rows * own
        post /= np.maximum(post.sum(axis=1, keepdims=True), 1e-300)
        apart = (post - own) @ basis
        weighted = apart * entries.count[:, None]
        gradient = entries.per_bin(weighted)
        outer = entries.per_bin(weighted[:, :, None] * apart[:, None, :])
        # −∂² log Σ L r: the spread of the group under r less its spread given the report
        prior = self._spread(r) * entries.per_bin(entries.count)[:, None, None]
        left = entries.per_bin(self._spread(post) * entries.count[:, None, None])
        return gradient, prior - left, outer

    def _spread(self, p: np.ndarray) -> np.ndarray:
        """Return Hᵀ (diag p − p pᵀ) H for p (…, k)."""
        mean = p @ self.basis
        return np.einsum("xc,...x,xd->...cd", self.basis, p, self.basis) - mean[..., :, None] * mean[..., None, :]

    def start(self) -> np.ndarray:
        """Return the constant curve at the shares that the pooled reports make likeliest."""
        k = self.entries.table.shape[1]
        total = np.bincount(self.entries.row, self.entries.count, len(self.entries.table))
        p = np.full(k, 1 / k)
        for _ in range(200):
            post = self.entries.table * p
            post /= np.maximum(post.sum(axis=1, keepdims=True), 1e-300)
            fresh = (total @ post + 0.5) / (total.sum() + 0.5 * k)
            if np.abs(fresh - p).max() < 1e-6:
                break
            p = fresh
        return np.tile(np.log(p) @ self.basis, (self.entries.size, 1))

    def mode(self, scale: float, g: np.ndarray) -> "Mode":
        """Return the maximum of the log-density given σ, by Newton's method from g."""
        value = float(self.log_density(g[None], scale)[0])
        for _ in range(MAX_STEPS):
            gradient, observed, empirical = self.slopes(g)
            gradient = gradient - self.prior.times(g, scale)
            factor, sure = self._factor(observed, empirical, scale)
            step = factor.solve(gradient)
            gain = float((gradient * step).sum())
            if gain < SETTLED and sure:
                break
            size = 1.0
            while size > 1e-6:
                fresh = g + size * step
                found = float(self.log_density(fresh[None], scale)[0])
                if found >= value:
                    break
                size /= 2
            else:
                break
            settled = found - value < SETTLED and gain < 1e-4
            g, value = fresh, found
            if settled:
                gradient, observed, empirical = self.slopes(g)
                factor, sure = self._factor(observed, empirical, scale)
                break
        return Mode(g, factor, value - factor.half_log_det)

    def _factor(self, observed, empirical, scale):
        """Return (factor of the precision of the normal approximation, whether it is the observed one)."""
        for share in (0.0, 0.25, 1.0):
            try:
                return self.prior.factor((1 - share) * observed + share * empirical, scale), share == 0
            except LinAlgError:
                continue
        raise ConvergenceError("The curve of group shares has no normal approximation; use fewer bins.")


@dataclass(frozen=True, eq=False)
class Mode:
    """Mode of a curve given σ, the factor of its precision, and Laplace's log-evidence without constants."""

    g: np.ndarray
    factor: BandedFactor | DenseFactor
    log_evidence: float


@dataclass(frozen=True, eq=False)
class Curves:
    """Draws of curves that share a scale.

    Attributes
    ----------
    shares : tuple of (S, m, k) arrays
        One array for each curve.
    scale : (S,) array
        σ of each draw.
    k_hat : float
        Worst Pareto k̂ of the importance weights over curves.
    effective : float
        Least effective sample size over curves.
    modes : tuple of (m, k) arrays
        Shares at the mode of the likeliest σ.
    """

    shares: tuple[np.ndarray, ...]
    scale: np.ndarray
    k_hat: float
    effective: float
    modes: tuple[np.ndarray, ...]


def draw_curves(curves: Sequence[Curve], draws: int, rng: np.random.Generator) -> Curves:
    """Return draws of curves with a common scale σ.

    Parameters
    ----------
    curves : sequence of Curve
    draws : int
    rng : Generator

    Returns
    -------
    Curves
    """
    from ldpbayes.posteriors.surrogate import weigh

    scales = curves[0].prior.scales
    log_mass = np.array([curves[0].prior.log_prior(scale) for scale in scales])
    modes: list[list[Mode]] = []
    starts = [curve.start() for curve in curves]
    for i, scale in enumerate(scales):
        found = [curve.mode(scale, start) for curve, start in zip(curves, starts, strict=True)]
        starts = [one.g for one in found]
        modes.append(found)
        log_mass[i] += sum(one.log_evidence for one in found)
        if i > 3 and log_mass[i] < log_mass[: i + 1].max() - 20 and log_mass[i] < log_mass[i - 1]:
            log_mass = log_mass[: i + 1]
            break
    share = np.exp(log_mass - logsumexp(log_mass))
    nodes = np.flatnonzero(share > NEGLIGIBLE)
    sizes = np.maximum(np.ceil(1.0 * draws * share[nodes]), min(40, draws)).astype(int)
    proposals: list[list[np.ndarray]] = []
    ratios = np.zeros((len(curves), sizes.sum()))
    stratum = np.repeat(np.arange(len(nodes)), sizes)
    for c, curve in enumerate(curves):
        parts = []
        for i, node in enumerate(nodes):
            mode, scale = modes[node][c], float(scales[node])
            z = rng.standard_normal((sizes[i], mode.g.size))
            g = mode.g + mode.factor.spread(z)
            log_q = -0.5 * (z**2).sum(axis=1) + mode.factor.half_log_det
            ratios[c, stratum == i] = curve.log_density(g, scale) - log_q - mode.log_evidence
            parts.append(g)
        proposals.append(parts)
    found = [_weigh(weigh, one) for one in ratios]
    log_weight = np.stack([one for one, *_ in found])
    # evidence of each σ: Laplace's, corrected by the mean weights of its draws
    corrected = np.log(share[nodes])
    for i in range(len(nodes)):
        held = log_weight[:, stratum == i]
        corrected[i] += (logsumexp(held, axis=1) - math.log(sizes[i])).sum()
    final = np.exp(corrected - logsumexp(corrected))
    chosen = _allocate(final, draws, rng)
    shares, effective = [], math.inf
    order = rng.permutation(draws)
    for c, curve in enumerate(curves):
        picked = []
        for i in range(len(nodes)):
            if not chosen[i]:
                continue
            own = np.exp(log_weight[c, stratum == i] - logsumexp(log_weight[c, stratum == i]))
            at = _systematic(own, chosen[i], rng)
            picked.append(proposals[c][i][at])
        shares.append(curve.shares(np.concatenate(picked)[order]))
        weight = np.exp(log_weight[c]) * (share[nodes] / sizes)[stratum]
        effective = min(effective, float(weight.sum() ** 2 / (weight**2).sum()))
    best = nodes[int(share[nodes].argmax())]
    return Curves(
        tuple(shares),
        np.repeat(scales[nodes], chosen)[order],
        max(k for _, k in found),
        min(effective, float(draws)),
        tuple(curve.shares(mode.g) for curve, mode in zip(curves, modes[best], strict=True)),
    )


def _weigh(weigh, log_ratio):
    """Return (smoothed log weights with mean about 0, k̂)."""
    found = weigh(np.zeros((log_ratio.size, 1)), log_ratio)
    return found.log_weight + math.log(log_ratio.size) + found.log_evidence, found.k_hat


def _allocate(share, draws, rng):
    """Return how many draws each node gets, by systematic resampling."""
    edges = np.floor(np.cumsum(share) * draws + rng.random())
    edges = np.minimum(edges, draws).astype(int)
    edges[-1] = draws
    return np.diff(edges, prepend=0)


def _systematic(weight, size, rng):
    positions = (rng.random() + np.arange(size)) / size
    at = np.minimum(np.searchsorted(np.cumsum(weight), positions), weight.size - 1)
    return rng.permutation(at)
