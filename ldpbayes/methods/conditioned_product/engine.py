"""ConditionedProduct: tilted factors, a law of their sum, and what follows given that the sum is one."""

from functools import cached_property

import numpy as np

from ldpbayes.errors import ConvergenceError
from ldpbayes.methods.conditioned_product.factors import TiltedFactors
from ldpbayes.methods.conditioned_product.laws import Saddle, laws_of
from ldpbayes.methods.conditioned_product.polynomial import PolynomialRoute


class ConditionedProduct:
    """The densities ∝ Π_x φ_x(g_x) on Σ_x g_x = 1, g ≥ 0, of k sets of factors.

    Parameters
    ----------
    family : PowerFactors or another family
        One entry per distinct factor (G of them in each set), one set after the other.
    group : (a,) int array
        Which factor of a set each category has.
    route : {"transform", "polynomial", "saddle point"}, optional
        By default the one that is quick and accurate; see laws.laws_of.
    start : float or (k,) array, optional
        Tilts near those wanted.
    sets : int
        k.

    Attributes
    ----------
    factors : TiltedFactors
        Before they are conditioned, with the tilt t of each set at which Σ_x E_t[g_x] = 1.
    """

    def __init__(self, family, group, route=None, start=None, sets=1):
        self.family, self.group, self._asked = family, np.asarray(group), route
        self.n_categories = self.group.size
        self.multiplicity = np.bincount(self.group, minlength=family.alpha.size // sets).astype(float)
        self.factors = TiltedFactors(family, self.multiplicity, start, sets)

    @cached_property
    def _laws(self):
        """[(sets, law)]."""
        return laws_of(self.factors, self._asked)

    def _shaped(self, values):
        """Return values (…, k·G) of factors by category, (…, k, a)."""
        return values.reshape(*values.shape[:-1], -1, self.multiplicity.size)[..., self.group]

    @cached_property
    def _moments(self):
        """Means and variances of the factors (k·G,), log-evidences (k,)."""
        mean, variance = np.empty((2, self.factors.centre.size))
        log_evidence = np.empty(self.factors.sets)
        for sets, law in self._laws:
            each, moments = self.factors.members(sets), law.moments
            mean[each], variance[each], log_evidence[sets] = moments.mean, moments.variance, moments.log_evidence
        return mean, variance, log_evidence

    @cached_property
    def rough(self):
        """Which sets have moments of second order in the saddle point, as their transforms do not die out, (k,)."""
        out = np.zeros(self.factors.sets, dtype=bool)
        for sets, law in self._laws:
            out[sets] = law.name == "saddle point"
        return out

    @property
    def tilt(self):
        """t with Σ_x E_t[g_x] = 1, the saddle points, (k,)."""
        return self.factors.tilt

    @property
    def mean(self):
        """E[g_x], shape (k, a)."""
        return self._shaped(self._moments[0])

    @property
    def variance(self):
        """Var(g_x), shape (k, a)."""
        return self._shaped(self._moments[1])

    @property
    def log_evidence(self):
        """log ∫ Π_x φ_x(g_x) over the simplex (Lebesgue measure of any a − 1 coordinates), (k,)."""
        return self._moments[2]

    def covariance(self):
        """Return Cov(g_x, g_y), shape (k, a, a)."""
        out = np.empty((self.factors.sets, self.n_categories, self.n_categories))
        for sets, law in self._laws:
            left, right = (np.moveaxis(side.reshape(len(side), len(sets), -1), 0, 2) for side in law.products)
            blocks = left @ right.swapaxes(1, 2)
            out[sets] = 0.5 * (blocks + blocks.swapaxes(1, 2))[:, self.group][:, :, self.group]
        np.einsum("kxx->kx", out)[:] = self.variance
        return out

    def diagnostics(self):
        """Return the route, the number of nodes and the tilt of the first set, and how far its moments are from sums of one.

        covariance_row_sum_error is the largest |Σ_y Cov(g_x, g_y)| / Var(g_x).
        """
        law, first = self._laws[0][1], slice(self.multiplicity.size)
        left, right = (side[:, first] for side in law.products)
        others = left.T @ (right @ self.multiplicity) - (left * right).sum(axis=0)
        variance = self._moments[1][first]
        return {
            "route": law.name,
            "nodes": int(law.n_nodes),
            "tilt": float(self.tilt[0]),
            "mean_sum_error": float(abs(self.mean[0].sum() - 1)),
            "covariance_row_sum_error": float(np.max(np.abs(variance + others) / variance)),
        }

    def quantile(self, q):
        """Return the q-quantiles of every g_x: shape (k, a), or (len(q), k, a) for several q."""
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        out = np.empty((levels.size, self.factors.centre.size))
        for index, margin in self._margins:
            out[:, index] = margin.quantile(levels)
        out = self._shaped(out)
        return out if np.ndim(q) else out[0]

    def cdf(self, value):
        """Return P(g_x ≤ value_x), shape (k, a); categories with the same factor have the same value."""
        first = np.zeros((self.factors.sets, self.multiplicity.size))
        first[:, self.group] = value
        first = first.ravel()
        out = np.empty(first.size)
        for index, margin in self._margins:
            out[index] = margin.cdf(first[index])
        return self._shaped(out)

    def draws(self, size, rng, of=0):
        """Return (g, k, acceptance) of the set ``of``: ``size`` independent draws, and the accepted share of proposals.

        For polynomial factors, by whichever route the moments are. Each polynomial is Σ_k c_k g^k: k, shape (size, a) like
        g, are draws of the powers, given which g is a Dirichlet distribution's.
        """
        return self.polynomial.draws(self.group, size, rng, of)

    @cached_property
    def polynomial(self):
        """The PolynomialRoute of all sets."""
        return PolynomialRoute(self.factors)

    @cached_property
    def _margins(self):
        """[(factor indices, Margin)] of all; what loses digits by transforms goes with polynomials, or alone."""
        out, g = [], self.multiplicity.size
        for sets, law in self._laws:
            each, lost = self.factors.members(sets), law.lost
            margins = law.margins(np.setdiff1d(np.arange(each.size), lost))
            if lost.size and self.factors.is_polynomial:
                whole, place = np.unique(lost // g, return_inverse=True)
                chosen = place * g + lost % g
                again = PolynomialRoute(law.factors.take(whole)).margins(chosen)
                margins += [(lost[np.searchsorted(chosen, x)], margin) for x, margin in again]
            elif lost.size:
                margins += [self._alone(law, x) for x in lost]
            out += [(each[index], margin) for index, margin in margins]
        return out

    def _alone(self, law, x):
        """Return (its index, Margin) of a factor whose transforms lose digits; the saddle point serves where it has none."""
        k, place = divmod(int(x), self.multiplicity.size)
        single = law if law.factors.sets == 1 else law.take([k])
        try:
            margin = single.margin_of(place)
        except ConvergenceError:
            margin = Saddle(single.factors).margins(np.array([place]))[0][1]
        return np.array([x]), margin
