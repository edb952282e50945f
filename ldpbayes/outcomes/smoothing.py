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
SCALES = np.geomspace(0.05, 50.0, 14)
#: … and the prior of log σ: Student's t with four degrees of freedom about the log of the first, with the second as scale.
TYPICAL, RANGE = 1.0, 0.7
#: Standard deviations of level, and of slope per normal score, at the middle of the curve.
LEVEL, SLOPE = 2.0, 2.0
#: Standard deviations of the levels of open categories, which have no order: nodes of their sum.
SPREADS = np.geomspace(0.01, 5.0, 12)
#: Nodes with less than this share of the evidence are left out.
NEGLIGIBLE = 1e-4
#: Steps of Newton's method, and the decrease of the log-density below which it stops.
MAX_STEPS, SETTLED = 60, 1e-9
#: Importance weights are trusted below this Pareto k̂, and where they are worth this share of the draws.
MAX_K_HAT, MIN_EFFICIENCY = 0.7, 0.25
#: Chains: draws kept of each, steps before, first step size and the most leaps of a trajectory.
KEPT, WARM, FIRST_STEP, MAX_LEAPS = 40, 10, 0.7, 12
#: Chains are accepted below this R-hat, for they are many and short, and from so many effective draws; else they go on, for
#: so many rounds.
MAX_R_HAT, LEAST_EFFECTIVE, ROUNDS = 1.15, 100, 4
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

    @cached_property
    def _dense(self) -> np.ndarray | None:
        """Counts by bin and row, (m, J), where few of them are 0; else None."""
        m, J = self.size, len(self.table)
        if m * J > 3 * len(self.bin) + 1000:
            return None
        return np.bincount(self.bin * J + self.row, self.count, m * J).reshape(m, J)

    @cached_property
    def totals(self) -> np.ndarray:
        """Number of reports in each bin, (m,)."""
        return np.bincount(self.bin, self.count, self.size)

    def log_likelihood(self, shares: np.ndarray) -> np.ndarray:
        """Return Σ_e n_e log Σ_x L_ex r_bx of shares (S, m, k), shape (S,)."""
        return self.score(shares, gradient=False)[0]

    def score(self, shares: np.ndarray, gradient: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-likelihood (S,) of shares (S, m, k) and its gradient in their logits, (S, m, k).

        The gradient is r_bx Σ_e n_e L_ex / (L r)_e − n_b r_bx.
        """
        value = np.empty(len(shares))
        slope = np.empty_like(shares) if gradient else np.empty(0)
        dense = self._dense
        width = self.size * len(self.table) if dense is not None else len(self.bin) * self.table.shape[1]
        step = max(1, BLOCK // max(width, 1))
        for start in range(0, len(shares), step):
            block = slice(start, start + step)
            r = shares[block]
            if dense is not None:
                chance = np.maximum(r @ self.table.T, 1e-300)
                value[block] = np.einsum("smj,mj->s", np.log(chance), dense)
                if gradient:
                    slope[block] = (dense / chance) @ self.table
            else:
                chance = np.zeros((len(r), len(self.bin)))
                for x in range(self.rows.shape[1]):
                    chance += r[:, self.bin, x] * self.rows[:, x]
                np.maximum(chance, 1e-300, out=chance)
                value[block] = np.log(chance) @ self.count
                if gradient:
                    slope[block] = 0.0
                    held = self.bin[self._starts]
                    weight = self.count / chance
                    for x in range(self.rows.shape[1]):
                        slope[block, held, x] = np.add.reduceat(weight * self.rows[:, x], self._starts, axis=1)
            if gradient:
                slope[block] -= self.totals[:, None]
                slope[block] *= r
        return value, slope


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
        """Return the log-density of log σ, Student's t with four degrees of freedom, without its constant."""
        return -2.5 * math.log1p((math.log(scale / TYPICAL) / RANGE) ** 2 / 4)

    def bands(self, scale: float) -> np.ndarray:
        """Return the lower bands of the precision, (3, m)."""
        return self._rough / (scale**2 * self.width**3) + self._free

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

    def _common(self, scale: float) -> float:
        return (LEVEL / scale**2) ** 2 / (1 + self.size * (LEVEL / scale) ** 2)

    def log_det(self, scale: float) -> float:
        """Return the log-determinant of the precision of one contrast."""
        return -2 * self.size * math.log(scale) - math.log1p(self.size * (LEVEL / scale) ** 2)

    def times(self, g: np.ndarray, scale: float) -> np.ndarray:
        """Return precision @ g for g of shape (…, m, K)."""
        return g / scale**2 - self._common(scale) * g.sum(axis=-2, keepdims=True)

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


class Constant(Exchange):
    """One level, normal with standard deviation LEVEL for each contrast."""

    scales = SPREADS[:1]

    def __init__(self) -> None:
        super().__init__(1)


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

    def pull(self, v: np.ndarray) -> np.ndarray:
        """Return gradients in the standard normal z (S, m·K) from those in g = spread(z), (S, m, K)."""
        return dtbtrs(self.lower, v.reshape(len(v), -1).T, uplo="L", trans="N")[0].T


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

    def pull(self, v: np.ndarray) -> np.ndarray:
        """Return gradients in the standard normal z (S, m·K) from those in g = spread(z), (S, m, K)."""
        return solve_triangular(self.lower, v.reshape(len(v), -1).T, lower=True).T


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

    def log_density_and_gradient(self, g: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Return log_density (S,) of draws (S, m, K) and its gradient, (S, m, K)."""
        value, slope = self.entries.score(self.shares(g))
        value += 0.5 * g.shape[2] * self.prior.log_det(scale) - 0.5 * self.prior.quadratic(g, scale)
        return value, slope @ self.basis - self.prior.times(g, scale)

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
    sampling : {"independent", "mcmc"}
        Weighted draws of the normal approximation, or chains of Hamiltonian Monte Carlo that begin there.
    k_hat : float
        Worst Pareto k̂ of the importance weights over curves.
    effective : float
        Least effective sample size that was found.
    r_hat : float
        Worst split R-hat of chains; nan for weighted draws.
    """

    shares: tuple[np.ndarray, ...]
    scale: np.ndarray
    sampling: str
    k_hat: float
    effective: float
    r_hat: float = math.nan


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal approximations of curves at nodes of the scale: g = mode + spread(z) with z standard normal.

    Attributes
    ----------
    curves : sequence of Curve
    scales : (nodes,) array
    share : (nodes,) array
        Posterior probability of each node by Laplace's evidence.
    modes : list of list of Mode
        By node and curve.
    """

    curves: Sequence[Curve]
    scales: np.ndarray
    share: np.ndarray
    modes: list[list[Mode]]

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> "Normal":
        """Return the approximations at the nodes that matter."""
        prior = curves[0].prior
        starts = [curve.start() for curve in curves]
        mass: list[float] = []
        modes = []
        for scale in prior.scales:
            found = [curve.mode(scale, start) for curve, start in zip(curves, starts, strict=True)]
            starts = [one.g for one in found]
            modes.append(found)
            mass.append(prior.log_prior(scale) + sum(one.log_evidence for one in found))
            if mass[-1] < max(mass) - 12 and mass[-1] < mass[-2]:
                break
        log_mass = np.array(mass)
        share = np.exp(log_mass - logsumexp(log_mass))
        kept = np.flatnonzero(share > NEGLIGIBLE)
        return cls(curves, prior.scales[kept], share[kept] / share[kept].sum(), [modes[i] for i in kept])

    def log_ratio(self, c: int, node: int, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (g, log of posterior over approximation) of curve c at standard draws z (S, m·K)."""
        mode = self.modes[node][c]
        g = mode.g + mode.factor.spread(z)
        value = self.curves[c].log_density(g, float(self.scales[node]))
        return g, value + 0.5 * (z**2).sum(axis=1) - mode.factor.half_log_det - mode.log_evidence


def draw_curves(curves: Sequence[Curve], draws: int, rng: np.random.Generator, sampling: str = "auto") -> Curves:
    """Return draws of curves with a common scale σ.

    Draws of the normal approximations get importance weights. Where these are not trustworthy, chains of Hamiltonian Monte
    Carlo begin at the weighted draws.

    Parameters
    ----------
    curves : sequence of Curve
    draws : int
    rng : Generator
    sampling : {"auto", "independent", "mcmc"}

    Returns
    -------
    Curves
    """
    normal = Normal.of(curves)
    weighted, starts = _weighted(normal, draws, rng)
    good = weighted.k_hat < MAX_K_HAT and weighted.effective >= MIN_EFFICIENCY * draws
    if sampling == "independent" or (sampling == "auto" and good):
        return weighted
    return _chains(normal, weighted.k_hat, starts, draws, rng)


def _weighted(normal: Normal, draws: int, rng: np.random.Generator) -> tuple[Curves, tuple[np.ndarray, list[np.ndarray]]]:
    """Return weighted draws, made equally likely by resampling, and (node, z of each curve) of every draw."""
    nodes = len(normal.scales)
    sizes = np.maximum(np.ceil(draws * normal.share), min(40, draws)).astype(int)
    stratum = np.repeat(np.arange(nodes), sizes)
    log_weight, curves_z, curves_g, k_hat = [], [], [], -math.inf
    for c in range(len(normal.curves)):
        z = rng.standard_normal((len(stratum), normal.modes[0][c].g.size))
        parts = [normal.log_ratio(c, i, z[stratum == i]) for i in range(nodes)]
        smoothed, own = _smoothed(np.concatenate([ratio for _, ratio in parts]))
        k_hat = max(k_hat, own)
        log_weight.append(smoothed)
        curves_z.append(z)
        curves_g.append(np.concatenate([g for g, _ in parts]))
    # evidence of each node: Laplace's, times the mean weights of its draws
    corrected = np.log(normal.share)
    for i in range(nodes):
        corrected[i] += sum(logsumexp(one[stratum == i]) - math.log(sizes[i]) for one in log_weight)
    chosen = _allocate(np.exp(corrected - logsumexp(corrected)), draws, rng)
    order = rng.permutation(draws)
    effective, shares, starts = math.inf, [], []
    for c, curve in enumerate(normal.curves):
        picked = []
        for i in np.flatnonzero(chosen).tolist():
            held = np.flatnonzero(stratum == i)
            own = np.exp(log_weight[c][held] - logsumexp(log_weight[c][held]))
            picked.append(held[_systematic(own, chosen[i], rng)])
        at = np.concatenate(picked)[order]
        shares.append(curve.shares(curves_g[c][at]))
        starts.append(curves_z[c][at])
        weight = np.exp(log_weight[c] - log_weight[c].max()) * (normal.share / sizes)[stratum]
        effective = min(effective, float(weight.sum() ** 2 / (weight**2).sum()))
    node = np.repeat(np.arange(nodes), chosen)[order]
    effective = min(effective, float(draws))
    return Curves(tuple(shares), normal.scales[node], "independent", k_hat, effective), (node, starts)


def _chains(
    normal: Normal, k_hat: float, starts: tuple[np.ndarray, list[np.ndarray]], draws: int, rng: np.random.Generator
) -> Curves:
    """Return draws of Hamiltonian Monte Carlo in the standard normal z of each curve, and of the node of the scale.

    A step moves z of every curve along a trajectory, then proposes another node at the same z from the nodes' approximate
    probabilities, which is accepted by the ratio of the importance weights.
    """
    n_chains = max(20, math.ceil(draws / KEPT))
    kept = math.ceil(draws / n_chains)
    pick = rng.choice(len(starts[0]), n_chains, replace=False)
    node = starts[0][pick]
    z = [one[pick] for one in starts[1]]
    n_curves = len(normal.curves)
    step = np.full(n_curves, FIRST_STEP)
    size = [math.ceil(0.5 * math.pi / one) for one in step]
    held: list[list[np.ndarray]] = [[] for _ in range(n_curves)]
    scales = []
    for t in range(WARM + ROUNDS * kept):
        value = np.zeros(n_chains)
        for c in range(n_curves):
            z[c], own, chance = _trajectory(normal, c, node, z[c], float(step[c]), size[c], rng)
            value += own
            if t < WARM:
                step[c] = np.clip(step[c] * math.exp(min(max(chance - 0.8, -0.5), 0.2)), 0.02, 1.2)
                size[c] = min(MAX_LEAPS, math.ceil(0.5 * math.pi / step[c]))
        if len(normal.scales) > 1:
            fresh = rng.choice(len(normal.scales), n_chains, p=normal.share)
            moved = np.flatnonzero(fresh != node)
            if moved.size:
                found = np.zeros(moved.size)
                for i in np.unique(fresh[moved]):
                    mine = fresh[moved] == i
                    found[mine] = sum(normal.log_ratio(c, i, z[c][moved[mine]])[1] for c in range(n_curves))
                taken = moved[np.log(rng.random(moved.size)) < found - value[moved]]
                node = node.copy()
                node[taken] = fresh[taken]
        if t >= WARM:
            for c in range(n_curves):
                held[c].append(_curve_at(normal, c, node, z[c]))
            scales.append(normal.scales[node])
            if (t + 1 - WARM) % kept == 0:
                r_hat, effective = _diagnosed(held, scales)
                if r_hat < MAX_R_HAT and effective >= LEAST_EFFECTIVE:
                    break
    chosen = rng.permutation(len(scales) * n_chains)[:draws]
    shares = [curve.shares(np.concatenate(one)[chosen]) for curve, one in zip(normal.curves, held, strict=True)]
    return Curves(tuple(shares), np.concatenate(scales)[chosen], "mcmc", k_hat, min(effective, draws), r_hat)


def _curve_at(normal, c, node, z):
    """Return g (S, m, K) of curve c at nodes (S,) and z (S, m·K)."""
    out = np.empty((len(z), *normal.modes[0][c].g.shape))
    for i in np.unique(node):
        mine = node == i
        out[mine] = normal.modes[i][c].g + normal.modes[i][c].factor.spread(z[mine])
    return out


def _slope(normal, c, node, z):
    """Return (log of posterior over approximation, gradient of the log-posterior in z) of curve c."""
    value, slope = np.empty(len(z)), np.empty_like(z)
    for i in np.unique(node):
        mine = np.flatnonzero(node == i)
        mode = normal.modes[i][c]
        g = mode.g + mode.factor.spread(z[mine])
        found, gradient = normal.curves[c].log_density_and_gradient(g, float(normal.scales[i]))
        slope[mine] = mode.factor.pull(gradient)
        value[mine] = found - mode.factor.half_log_det - mode.log_evidence
    return value + 0.5 * (z**2).sum(axis=1), slope


def _trajectory(normal, c, node, z, step, size, rng):
    """Return (z, log-ratio, mean acceptance) after one trajectory of every chain.

    The normal part of the density is followed exactly, by rotation; leaps correct for the rest.
    """
    ratio, slope = _slope(normal, c, node, z)
    momentum = rng.standard_normal(z.shape)
    begin = ratio - 0.5 * (z**2).sum(axis=1) - 0.5 * (momentum**2).sum(axis=1)
    each = step * rng.uniform(0.85, 1.0)
    cosine, sine = math.cos(each), math.sin(each)
    at, own, pull = z, ratio, slope + z
    for _ in range(size):
        momentum = momentum + 0.5 * each * pull
        at, momentum = cosine * at + sine * momentum, cosine * momentum - sine * at
        own, slope = _slope(normal, c, node, at)
        pull = slope + at
        momentum = momentum + 0.5 * each * pull
    end = own - 0.5 * (at**2).sum(axis=1) - 0.5 * (momentum**2).sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        chance = np.exp(np.minimum(np.nan_to_num(end - begin, nan=-math.inf, posinf=0.0), 0.0))
    taken = rng.random(len(z)) < chance
    return np.where(taken[:, None], at, z), np.where(taken, own, ratio), float(chance.mean())


def _diagnosed(held, scales):
    """Return worst R-hat and least effective sample size of the scale and of each curve's shares at some bins."""
    from ldpbayes.posteriors.diagnostics import chain_health

    columns = [np.log(np.stack(scales))]
    for one in held:
        whole = np.stack(one)
        at = np.unique(np.linspace(0, whole.shape[2] - 1, 7).astype(int))
        columns += [whole[:, :, b, x] for b in at for x in range(whole.shape[3])]
        columns += [whole[..., x].mean(axis=2) for x in range(whole.shape[3])]
    return chain_health(np.moveaxis(np.stack(columns, axis=-1), 0, 1))


def _smoothed(log_ratio):
    """Return (smoothed log weights with mean weight as it was, k̂)."""
    from ldpbayes.inference.importance import weigh

    found = weigh(np.zeros((log_ratio.size, 1)), log_ratio)
    return found.log_weight + math.log(log_ratio.size) + found.log_evidence, found.k_hat


def _allocate(share, draws, rng):
    """Return how many draws each node gets, by systematic resampling."""
    edges = np.floor(np.cumsum(share) * draws + rng.random())
    edges = np.minimum(edges, draws).astype(int)
    edges[-1] = draws
    return np.diff(edges, prepend=0)


def _systematic(weight, size, rng):
    """Return places drawn by weight, in random order."""
    positions = (rng.random() + np.arange(size)) / size
    at = np.minimum(np.searchsorted(np.cumsum(weight), positions), weight.size - 1)
    return rng.permutation(at)
