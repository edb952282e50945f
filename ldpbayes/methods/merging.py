"""Exact reduction of a collection: categories that the observed reports cannot tell apart become one, likewise reports.

The Dirichlet aggregates: sums over groups of categories are Dirichlet again, and shares within a group keep their prior.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes.errors import InfeasibleError
from ldpbayes.likelihoods import DenseRows
from ldpbayes.methods.constants import MAX_WRITTEN


@dataclass(frozen=True, eq=False)
class Merged:
    """The likelihood Π_j (L_j · G)^{w_j} exp(log_constant) of the group sums G_g = Σ_{x in group g} P_x.

    Given G the reports say nothing about the shares P_x/G_g, which stay Dirichlet(α of the members), independent of G.

    Attributes
    ----------
    matrix : (m, g) array
        Distinct rows, each divided by its largest entry.
    counts : (m,) float array
    log_constant : float
    groups : (a,) int array
        The group of each category.
    member_alpha : (a,) array
        Prior concentrations of the categories.
    """

    matrix: np.ndarray
    counts: np.ndarray
    log_constant: float
    groups: np.ndarray
    member_alpha: np.ndarray
    #: Whether P is the only unknown: no share who deny, no probability of a device.
    alone: ClassVar[bool] = True

    @property
    def n_groups(self):
        """Number of groups, g."""
        return self.matrix.shape[1]

    @property
    def n_reports(self):
        """Number of users, Σ_j w_j."""
        return round(self.counts.sum())

    @cached_property
    def alpha(self):
        """Prior concentrations of the group sums, shape (g,)."""
        return np.bincount(self.groups, self.member_alpha, self.n_groups)

    @cached_property
    def shares(self):
        """Prior mean of P_x/G_g, shape (a,)."""
        return self.member_alpha / self.alpha[self.groups]

    def tally_moments(self, p):
        """Return mean and variance of the true tallies given the reports and p, two (a,) arrays."""
        chances = self.matrix[:, self.groups] * p
        chances /= chances.sum(axis=1, keepdims=True)
        return self.counts @ chances, self.counts @ (chances * (1 - chances))

    def expand(self, mean, cov):
        """Return mean (a,) and covariance (a, a) of P from mean and covariance of G.

        Cov(P_x, P_y) = ū_x ū_y Cov(G_g, G_h) + [g = h] E[G_g²] Cov(u_x, u_y) with u the shares, whose covariance within
        a group is ū_x ([x = y] − ū_y) / (α_g + 1).
        """
        share, groups = self.shares, self.groups
        within = (np.diag(share) - np.outer(share, share)) / (self.alpha[groups] + 1)[:, None]
        square = (np.diag(cov) + mean**2)[groups]
        inside = np.where(groups[:, None] == groups, square[:, None] * within, 0.0)
        return share * mean[groups], np.outer(share, share) * cov[np.ix_(groups, groups)] + inside

    def allocate(self, draws, rng):
        """Return one draw of the group tallies for each draw of G, shape (S, g)."""
        return DenseRows(self.matrix, np.rint(self.counts)).sampler().allocate_each(draws, rng)

    def split(self, draws, tallies, rng):
        """Return draws of (P, T), each (S, a), from draws of the group sums G and of the group tallies, each (S, g)."""
        distribution = np.empty((len(draws), self.groups.size))
        split = np.empty(distribution.shape, dtype=np.int64)
        for g in range(self.n_groups):
            members = np.flatnonzero(self.groups == g)
            if members.size == 1:
                distribution[:, members[0]], split[:, members[0]] = draws[:, g], tallies[:, g]
                continue
            share = rng.dirichlet(self.member_alpha[members], size=len(draws))
            distribution[:, members] = draws[:, [g]] * share
            split[:, members] = rng.multinomial(tallies[:, g], share)
        return distribution, split

    def margins(self):
        """Return (first member of each kind, kind of each category): categories of a kind have the same margin."""
        key = np.stack([self.groups.astype(float), self.member_alpha], axis=1)
        _, first, kind = np.unique(key, axis=0, return_index=True, return_inverse=True)
        return first, kind.ravel()


def merge(rows, prior):
    """Return the Merged form of rows under a Dirichlet prior: exactly equal columns and proportional rows are joined.

    Parameters
    ----------
    rows : Rows
    prior : Dirichlet

    Raises
    ------
    InfeasibleError
        Where the rows are too large to write out.
    """
    if rows.n_rows * rows.n_categories > MAX_WRITTEN:
        raise InfeasibleError(
            f"rows must have at most {MAX_WRITTEN} entries to be written out, got {rows.n_rows} × {rows.n_categories}; "
            "use another method."
        )
    dense = np.ascontiguousarray(rows.dense())
    _, first, groups = np.unique(_keys(dense.T), return_index=True, return_inverse=True)
    order = np.argsort(first)  # groups in the order of their first category
    first, groups = first[order], np.argsort(order)[groups.ravel()]
    matrix = dense[:, first]
    scale = matrix.max(axis=1)
    matrix = np.ascontiguousarray(matrix / scale[:, None])
    _, first, inverse = np.unique(_keys(matrix), return_index=True, return_inverse=True)
    counts = np.bincount(inverse.ravel(), rows.counts)
    constant = rows.log_constant + float(rows.counts @ np.log(scale))
    return Merged(matrix[first], counts, constant, groups, np.asarray(prior.concentrations()))


def count_groups(rows):
    """Return how many distinct columns rows have, by one product with a random vector: cheap, nothing is written out."""
    marks = np.sort(rows.rmatvec(np.random.default_rng(0).random(rows.n_rows)))
    return 1 + int((np.diff(marks) > 1e-10 * marks[-1]).sum())


def quantile(gap, high=1.0):
    """Return the root in [0, high] of the increasing function gap(q) = P(X ≤ q) − level; relative accuracy 1e-13.

    Quantiles under small concentrations are tiny, so the search is in log q; below 1e-300 the answer is 0.
    """
    from scipy.optimize import brentq

    if gap(1e-300) >= 0:
        return 0.0
    if gap(high) <= 0:
        return high
    return math.exp(brentq(lambda u: gap(math.exp(u)), math.log(1e-300), math.log(high), xtol=1e-13, maxiter=500))


def _keys(array):
    """Return each row as one opaque value, so that sorting compares whole rows at memcmp speed."""
    array = np.ascontiguousarray(array) + 0.0  # no negative zeros
    return array.view(np.dtype((np.void, array.dtype.itemsize * array.shape[1]))).ravel()
