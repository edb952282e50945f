"""The posterior of two shares under any prior that has a density: one rule over its unknowns serves all reports."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldpbayes.arrays import FloatArray, IntArray
from ldpbayes.errors import ConvergenceError
from ldpbayes.inference.ends import ends_of_weighted_draws
from ldpbayes.priors.base import AbstractPrior

#: Rules that are independent of each other, and the logarithm to base 2 of the nodes of each.
RULES, LEVEL = 8, 16
#: A posterior whose mean is known to no better than this is refused.
COARSE = 1e-3


class Moments:
    """Mean, covariance and intervals of two shares from weighted nodes; ``error`` is the standard error of the mean."""

    def __init__(self, share: FloatArray, log_weight: FloatArray) -> None:
        weight = np.exp(log_weight - max(log_weight.max(), -1e300))
        whole = np.maximum(weight.sum(axis=1), 1e-300)
        each = (weight * share).sum(axis=1) / whole
        self.error = float(each.std(ddof=1) / len(each) ** 0.5) if whole.min() > 1e-300 else np.inf
        first, self._weight = share.ravel(), weight.ravel() / whole.sum()
        self._shares = np.column_stack([first, 1 - first])
        self.mean = self._weight @ self._shares

    def covariance(self) -> FloatArray:
        variance = float(self._weight @ (self._shares[:, 0] - self.mean[0]) ** 2)
        return variance * np.array([[1.0, -1.0], [-1.0, 1.0]])

    def interval(self, ci_prob: float) -> FloatArray:
        """Return the ends of the equal-tailed intervals of both shares, shape (2, 2)."""
        return ends_of_weighted_draws(self._shares, self._weight, ci_prob)[:2]


class PriorNodes:
    """Nodes of a prior of two shares: scrambled Sobol points, taken to heavy tails and weighted by the prior's density.

    All reports are weighed on the same nodes. These are a prior of their own, for which what holds under every prior holds
    exactly; how far its means are from those of the prior itself is told by RULES rules that are independent.
    """

    def __init__(self, prior: AbstractPrior) -> None:
        self.prior = prior

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """Shares of the first category and their log-weights, (RULES, nodes) each."""
        from scipy.stats import qmc  # loads slowly

        size = self.prior.n_unknowns
        each = [qmc.Sobol(size, seed=np.random.default_rng([size, k])).random_base2(LEVEL) for k in range(RULES)]
        u = np.clip(np.concatenate(each), 1e-12, 1 - 1e-12)
        z = (2 * u - 1) / np.sqrt(2 * u * (1 - u))  # Student's law with two degrees of freedom
        with np.errstate(all="ignore"):  # far out a density may overflow: it is nil there
            log_weight = self.prior.log_density(z) + 1.5 * np.log1p(z**2 / 2).sum(axis=1)
            share = self.prior.to_simplex(z)[:, 0]
        known = np.isfinite(log_weight) & np.isfinite(share)
        parts = np.where(known, share, 0.5), np.where(known, log_weight, -np.inf)
        return parts[0].reshape(RULES, -1), parts[1].reshape(RULES, -1)

    def given(self, base: FloatArray, slope: FloatArray, first: NDArray[np.bool_], counts: IntArray) -> Moments:
        """Return the posterior given counts of reports with the probability base + slope × (share of its category).

        Parameters
        ----------
        base, slope : (m,) arrays
        first : (m,) array of bool
            Whether the category is the first.
        counts : (m,) array

        Raises
        ------
        ConvergenceError
            Where the mean has a standard error above COARSE.
        """
        share, log_weight = self._nodes
        for b, s, own, count in zip(base, slope, first, counts, strict=True):
            if count:
                log_weight = log_weight + count * np.log(np.maximum(b + s * (share if own else 1 - share), 1e-300))
        found = Moments(share, log_weight)
        if not found.error <= COARSE:
            raise ConvergenceError(
                f"The posterior mean under this prior is known to {found.error:.1g} only, and the range under fakes needs "
                f"{COARSE:g}: the prior has little mass where these reports put it."
            )
        return found


__all__ = ["Moments", "PriorNodes"]
