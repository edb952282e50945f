"""Likelihoods of cells that are products of one factor a category, and their posteriors under Dirichlet priors."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from ldpbayes.errors import InfeasibleError
from ldpbayes.methods.conditioned_product import ConditionedProduct, PowerFactors
from ldpbayes.methods.conditioned_product.batched import log_masses
from ldpbayes.methods.conditioned_product.factors import grouped
from ldpbayes.methods.constants import MAX_TABLES

#: Why exact methods apply.
EVERY = "Every report singles out one category: the posterior is exact at any size."


class Products:
    """k cells; of one alone, equal factors are worked on once.

    Attributes
    ----------
    operations : float
        Operations of one factor at one node; the unit is a draw of one category. Measured: on one core.
    rounding : float
        Measured: error of a log-evidence by counts, in nats; larger errors come with the moments.

    Parameters
    ----------
    family : PowerFactors or ExpandedFactors
        k · a factors, the cells one after the other; the prior's α is added to theirs.
    constant : (k,) array
        Logs of what the factors leave out of the likelihoods.
    """

    operations: ClassVar[float] = 250
    rounding: ClassVar[float] = 1e-6

    def __init__(self, family, constant):
        self.constant = np.asarray(constant, dtype=float)
        self.cells, self.size = self.constant.size, family.alpha.size // self.constant.size
        self.family, self.group = grouped(family) if self.cells == 1 else (family, np.arange(self.size))

    @classmethod
    def of(cls, forms, n_categories):
        """Return the Products of separable reports.

        Parameters
        ----------
        forms : list of Separable
            Of each cell.
        n_categories : int
        """
        return cls(*_stacked(forms, n_categories))

    def at(self, alpha):
        """Return (factors, group of each category) under Dirichlet(α), with α (a,) or, of each cell, (k, a)."""
        if self.cells > 1:
            concentrations = np.broadcast_to(alpha, (self.cells, self.size)).ravel()
            return replace(self.family, alpha=self.family.alpha + concentrations), self.group
        alpha = np.reshape(alpha, -1)
        code = np.unique(alpha, return_inverse=True)[1]
        _, first, group = np.unique(self.group * alpha.size + code, return_index=True, return_inverse=True)
        family = self.family.take(self.group[first])
        return replace(family, alpha=family.alpha + alpha[first]), group

    def left_out(self, alpha):
        """Return the logs of what integrals of the factors leave out of the evidences under Dirichlet(α), shape (k,)."""
        alpha = np.atleast_2d(alpha)
        return self.constant + gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)

    def log_evidence(self, alpha):
        """Return (log-evidences without moments, their errors), two (k,) arrays, under Dirichlet(α)."""
        family, group = self.at(alpha)
        logs, error = log_masses(family, np.bincount(group).astype(float), self.cells)
        return logs + self.left_out(alpha), error

    def engine(self, alpha, **settings):
        """Return the ConditionedProduct of all cells under Dirichlet(α), with its settings."""
        return ConditionedProduct(*self.at(alpha), sets=self.cells, **settings)


def _stacked(forms, a):
    """Return (PowerFactors of all cells with the powers that reports give, log of the constants left out of each).

    A zero base is a pure power of p and raises α; a zero slope is a constant.
    """
    k = len(forms)
    cell = np.repeat(np.arange(k), [form.index.size for form in forms])
    index, base, slope, counts, constants = (
        np.concatenate([getattr(form, name) for form in forms])
        for name in ("index", "base", "slope", "counts", "log_constants")
    )
    flat = cell * a + index.astype(np.int64)
    pure, level = base == 0, slope == 0
    scale = np.bincount(cell, counts * (constants + np.log(np.where(pure, slope, base))), k)
    both = ~pure & ~level
    slopes, powers = padded(flat[both], slope[both] / base[both], counts[both], k * a)
    return PowerFactors(np.bincount(flat[pure], counts[pure], k * a), slopes, powers), scale


def padded(index, slope, count, size):
    """Return (slopes, powers), each (size, m): the rows of each category side by side, equal slopes merged."""
    order = np.lexsort((slope, index))
    index, slope, count = index[order], slope[order], count[order]
    new = np.ones(index.size, dtype=bool)
    new[1:] = (np.diff(index) != 0) | (np.diff(slope) != 0)
    starts = np.flatnonzero(new)
    if not starts.size:
        return np.zeros((size, 1)), np.zeros((size, 1))
    count = np.add.reduceat(count, starts)
    index, slope = index[starts], slope[starts]
    column = np.arange(index.size) - np.searchsorted(index, index)
    slopes, powers = np.zeros((size, column.max() + 1)), np.zeros((size, column.max() + 1))
    slopes[index, column], powers[index, column] = slope, count
    return slopes, powers


def certain(form, n_categories):
    """Return how many users certainly have each category, shape (a,): their reports are impossible under every other."""
    pure = form.base == 0
    return np.bincount(form.index[pure], form.counts[pure], n_categories).astype(np.int64)


def singling(form):
    """Return the separable form, or refuse where there is none or where some report makes its category less likely."""
    if form is None:
        raise InfeasibleError(
            "The separable exact posterior needs reports that each single out one category (GRR, forced response, any "
            "two-category design); these reports weigh several categories differently. Use another method."
        )
    if (form.slope < 0).any():
        raise InfeasibleError(
            "The separable exact posterior needs reports that single out a category by being likelier there; these "
            "single one out by being less likely. Use another method."
        )
    return form


def drawable(form):
    """Return the separable form, or refuse where exact draws cannot be made of it."""
    form = singling(form)
    if (form.counts % 1).any():  # draws come from polynomials
        raise InfeasibleError("Exact draws need whole counts, and sampling weights are none; Exact().moments takes them.")
    size = tables(form)
    if size > MAX_TABLES:
        raise InfeasibleError(
            f"Exact draws need tables of at most {MAX_TABLES:.0e} numbers, got {size:.2g}; Exact().moments gives the "
            "posterior without draws."
        )
    return form


def tables(form):
    """Return the numbers in the tables that draws are made from."""
    named = np.bincount(form.index, form.counts)
    return np.minimum(named, 20 * np.sqrt(named)).sum()
