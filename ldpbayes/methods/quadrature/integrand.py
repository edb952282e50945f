"""What is integrated, and the windows of a stick outside which the likelihood is negligible."""

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special


def whole_part(value):
    """Return the whole numbers below values; up to a thousandth above one stays with it: t^{−1} has no Gauss rule."""
    return np.maximum(np.ceil(value - 1e-3) - 1, 0)


@dataclass(frozen=True, eq=False)
class Integrand:
    """Σ_j w_j log (L_j p) under Dirichlet(α), α ≤ 1: whole counts above that are reports of a category.

    Weighted reports that only one category can have made join its α: a broken power of p_x is no polynomial.

    Attributes
    ----------
    matrix, counts : (m, g), (m,) arrays
    alpha : (g,) array
        In (0, 1], or a little above.
    log_factor : float
        Log of the constant by which the change of prior multiplies the evidence.
    top : float
        An upper bound on the log-likelihood.
    centre : (g,) array
        Where it is nearly reached.
    depth : float
        Windows leave out points whose log-likelihood is this far below ``top``.
    """

    matrix: np.ndarray
    counts: np.ndarray
    alpha: np.ndarray
    log_factor: float
    top: float
    centre: np.ndarray
    depth: float

    @classmethod
    def of(cls, merged):
        """Return the integrand of merged rows."""
        single = ((merged.matrix > 0).sum(axis=1) == 1) & (merged.counts % 1 > 0)
        total = merged.alpha + merged.counts[single] @ (merged.matrix[single] > 0)
        degree = whole_part(total)
        extra = np.flatnonzero(degree > 0)
        matrix = np.concatenate([merged.matrix[~single], np.eye(merged.n_groups)[extra]])
        counts = np.concatenate([merged.counts[~single], degree[extra]])
        alpha = total - degree
        log_factor = (
            _log_beta(alpha) - _log_beta(merged.alpha) + merged.counts[single] @ np.log(merged.matrix[single].max(axis=1))
        )
        bound, centre = maximized(matrix[None], counts)
        depth = 22 + 0.5 * (merged.n_groups - 1) * math.log1p(counts.sum())
        return cls(matrix, counts, alpha, log_factor, float(bound[0]), centre[0], depth)

    @cached_property
    def first(self):
        """The window of the first stick, (low, high) of shape (1,) each."""
        return windows(self, self.matrix[None, :, 0], self.matrix[None, :, 1:])

    def deeper(self, nats):
        """Return the same integrand with wider windows."""
        return dataclasses.replace(self, depth=self.depth + nats)

    def ordered(self, order):
        """Return the same integrand with the categories in another order."""
        return dataclasses.replace(self, matrix=self.matrix[:, order], alpha=self.alpha[order], centre=self.centre[order])


def maximized(images, counts, iterations=60):
    """Return (upper bound on max_u Σ w log(Y u) over the simplex, u) for a batch of Y, shapes (N,), (N, k).

    Damped Newton on the self-concordant Σ w log(Y u) + Σ log u, whose maximizer is within k nats of the maximum; the bound
    is the certificate value + max_x (Yᵀ(w/Yu))_x − Σ w, valid at any u.
    """
    size, _, k = images.shape
    u = np.full((size, k), 1 / k)
    if k == 1:
        with np.errstate(divide="ignore"):
            return np.log(images[:, :, 0]) @ counts, u
    total = counts.sum()
    active = np.arange(size)
    for _ in range(iterations):
        y = images[active]
        v = u[active]
        ratio = y / np.einsum("nmk,nk->nm", y, v)[:, :, None]
        gradient = np.einsum("nmk,m->nk", ratio, counts) + 1 / v
        hessian = np.swapaxes(ratio, 1, 2) @ (counts[:, None] * ratio)
        hessian[:, np.arange(k), np.arange(k)] += 1 / v**2
        solved = np.linalg.solve(hessian, np.stack([gradient, np.ones_like(gradient)], axis=2))
        multiplier = solved[:, :, 0].sum(axis=1) / solved[:, :, 1].sum(axis=1)
        step = solved[:, :, 0] - multiplier[:, None] * solved[:, :, 1]
        decrement = np.sqrt(np.maximum(np.einsum("nk,nk->n", step, gradient - multiplier[:, None]), 0))
        far = decrement > 0.25
        length = np.ones(active.size)
        if far.any():
            length[far] = _step_length(ratio[far], counts, step[far] / v[far], step[far], decrement[far])
        u[active] = v + length[:, None] * step
        u[active] /= u[active].sum(axis=1, keepdims=True)
        active = active[decrement > 0.1]
        if not active.size:
            break
    fitted = np.einsum("nmk,nk->nm", images, u)
    slopes = np.einsum("nmk,nm->nk", images, counts / fitted)
    return np.log(fitted) @ counts + slopes.max(axis=1) - total, u


def _step_length(ratio, counts, relative, step, decrement):
    """Return step lengths between the one that is safe for self-concordant functions and the one that maximizes."""
    rise = np.einsum("nmk,nk->nm", ratio, step)
    short = 1 / (1 + decrement)
    long = np.maximum(np.minimum(0.99 / np.maximum(-relative.min(axis=1), 1e-300), 2.0), short)
    for _ in range(6):
        t = np.sqrt(short * long)[:, None]
        uphill = (rise / np.maximum(1 + t * rise, 1e-300)) @ counts + (relative / (1 + t * relative)).sum(axis=1) > 0
        short, long = np.where(uphill, t[:, 0], short), np.where(uphill, long, t[:, 0])
    return short


def windows(integrand, head, tails):
    """Return (low, high): the range of c outside which max_u ℓ(c head + (1 − c) tails u) is below top − depth, (N,) each.

    Parameters
    ----------
    head : (N, m) array
        L p where the stick is the whole rest.
    tails : (N, m, k) array
        L p where each of the k later categories is the whole rest.
    """
    size = len(head)
    low, high = np.zeros(size), np.ones(size)
    level = np.full(size, integrand.top - integrand.depth)
    with np.errstate(divide="ignore"):
        cut_low = np.log(tails.mean(axis=2)) @ integrand.counts < level
        cut_high = np.log(head) @ integrand.counts < level
    cut = np.flatnonzero(cut_low | cut_high)
    if not cut.size:
        return low, high
    bound, best = maximized(np.concatenate([head[cut][:, :, None], tails[cut]], axis=2), integrand.counts)
    level[cut] = np.minimum(level[cut], bound - 4 - 2 * tails.shape[2])
    peak = np.full(size, 0.5)
    peak[cut] = best[:, 0]
    rows = np.concatenate([np.flatnonzero(cut_low), np.flatnonzero(cut_high)])
    down = np.arange(rows.size) < np.count_nonzero(cut_low)
    side, reach = np.where(down, -1.0, 1.0), np.where(down, peak[rows], 1 - peak[rows])

    def beyond(log_distance, i):
        c = (peak[rows[i]] + side[i] * reach[i] * np.exp(log_distance))[:, None, None]
        mixed = c * head[rows[i]][:, :, None] + (1 - c) * tails[rows[i]]
        return level[rows[i]] - maximized(mixed, integrand.counts)[0]

    distance = reach_of(beyond, rows.size)
    at_end = distance == 1
    low[rows[down]] = np.where(at_end, 0.0, peak[rows] - distance * reach)[down]
    high[rows[~down]] = np.where(at_end, 1.0, peak[rows] + distance * reach)[~down]
    return low, high


def reach_of(beyond, size):
    """Return how far from peaks windows reach, as shares of the ways to the ends, shape (size,).

    Windows a fifth too wide do no harm; near an end they go to it: the prior is singular there.

    Parameters
    ----------
    beyond : callable
        Logs of such shares, places (k,) → by how many nats a log-likelihood there is too low.
    size : int
    """
    from scipy.optimize.elementwise import find_root

    near_end = math.log(0.8)
    bracket = find_root(beyond, (-23.0, near_end), args=(np.arange(size),), tolerances={"xatol": math.log(1.2)}).bracket
    return np.where(bracket[1] >= near_end, 1.0, np.exp(bracket[1]))


def _log_beta(alpha):
    return float(special.gammaln(alpha).sum() - special.gammaln(alpha.sum()))
