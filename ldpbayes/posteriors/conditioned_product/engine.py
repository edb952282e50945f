"""ConditionedProduct: tilted factors, a law of their sum, and what follows given that the sum is one."""

from functools import cached_property

import numpy as np

from ldpbayes.errors import ConvergenceError
from ldpbayes.posteriors.conditioned_product.factors import TiltedFactors
from ldpbayes.posteriors.conditioned_product.laws import Saddle, laws_of
from ldpbayes.posteriors.conditioned_product.margins import INNER
from ldpbayes.posteriors.conditioned_product.polynomial import PolynomialRoute


class ConditionedProduct:
    """The density ∝ Π_x φ_x(g_x) on Σ_x g_x = 1, g ≥ 0, of one set of factors or of each of several sets.

    Parameters
    ----------
    family : PowerFactors or another family
        One entry per distinct factor (G of them), one set after the other.
    group : (a,) int array
        Which factor of a set each category has.
    route : {"transform", "polynomial", "saddle point"}, optional
        By default the one that is quick and accurate; see laws.laws_of.
    start : float or (k,) array, optional
        Tilts near those wanted.
    sets : int, optional
        k. Results have a first axis of this length; without it there is one set, and none.

    Attributes
    ----------
    factors : TiltedFactors
        Before they are conditioned, with the tilt t of each set at which Σ_x E_t[g_x] = 1.
    """

    def __init__(self, family, group, route=None, start=None, sets=None):
        self.family, self.group, self.sets, self._asked = family, np.asarray(group), sets, route
        self.n_categories = self.group.size
        self.multiplicity = np.bincount(self.group, minlength=family.alpha.size // (sets or 1)).astype(float)
        self.factors = TiltedFactors(family, self.multiplicity, start, sets or 1)

    @cached_property
    def _laws(self):
        """[(sets, law)]; of one set all that its moments take, or a ConvergenceError."""
        return laws_of(self.factors, self._asked, saddle=self.sets is not None)

    def _shaped(self, values):
        """Return values (…, k·G) of factors by category: (…, k, a), or (…, a) of one set."""
        values = values.reshape(*values.shape[:-1], -1, self.multiplicity.size)[..., self.group]
        return values[..., 0, :] if self.sets is None else values

    def _each(self, sets):
        """Return the places of the factors of some sets."""
        size = self.multiplicity.size
        return (sets[:, None] * size + np.arange(size)).ravel()

    @cached_property
    def _moments(self):
        """Means and variances of the factors (k·G,), log-evidences (k,)."""
        mean, variance = np.empty((2, self.factors.centre.size))
        log_evidence = np.empty(self.factors.sets)
        for sets, law in self._laws:
            each, moments = self._each(sets), law.moments
            mean[each], variance[each], log_evidence[sets] = moments.mean, moments.variance, moments.log_evidence
        return mean, variance, log_evidence

    @property
    def route(self):
        """Which law the first set has: "transform", "polynomial", "pairs" or "saddle point"."""
        return self._laws[0][1].name

    @property
    def rough(self):
        """Which sets have moments of second order in the saddle point, as their transforms do not die out, (k,)."""
        out = np.zeros(self.factors.sets, dtype=bool)
        for sets, law in self._laws:
            out[sets] = law.name == "saddle point"
        return out

    @property
    def tilt(self):
        """t with Σ_x E_t[g_x] = 1, the saddle point; of several sets (k,)."""
        return float(self.factors.tilt[0]) if self.sets is None else self.factors.tilt

    @property
    def mean(self):
        """E[g_x], shape (a,) or (k, a)."""
        return self._shaped(self._moments[0])

    @property
    def variance(self):
        """Var(g_x), shape (a,) or (k, a)."""
        return self._shaped(self._moments[1])

    @property
    def log_evidence(self):
        """log ∫ Π_x φ_x(g_x) over the simplex (Lebesgue measure of any a − 1 coordinates); of several sets (k,)."""
        evidences = self._moments[2]
        return float(evidences[0]) if self.sets is None else evidences

    def covariance(self):
        """Return Cov(g_x, g_y), shape (a, a) or (k, a, a)."""
        out = np.empty((self.factors.sets, self.n_categories, self.n_categories))
        for sets, law in self._laws:
            left, right = (np.moveaxis(side.reshape(len(side), len(sets), -1), 0, 2) for side in law.products)
            blocks = left @ right.swapaxes(1, 2)
            out[sets] = 0.5 * (blocks + blocks.swapaxes(1, 2))[:, self.group][:, :, self.group]
        np.einsum("kxx->kx", out)[:] = np.reshape(self.variance, (len(out), -1))
        return out[0] if self.sets is None else out

    def row_sum_error(self):
        """Return the largest |Σ_y Cov(g_x, g_y)| / Var(g_x) of one set, zero but for the error of the moments."""
        left, right = self._laws[0][1].products
        others = left.T @ (right @ self.multiplicity) - (left * right).sum(axis=0)
        variance = self._moments[1]
        return float(np.max(np.abs(variance + others) / variance))

    def diagnostics(self):
        """Return the route, the number of nodes and the tilt of one set."""
        return {"route": self.route, "nodes": int(self._laws[0][1].n_nodes), "tilt": float(self.factors.tilt[0])}

    def quantile(self, q):
        """Return the q-quantiles of every g_x: shape (a,) or (k, a), or (len(q), …) for several q."""
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        out = np.empty((levels.size, self.factors.centre.size))
        for index, margin in self._margins(bool(levels.min() >= INNER and levels.max() <= 1 - INNER)):
            out[:, index] = margin.quantile(levels)
        out = self._shaped(out)
        return out if np.ndim(q) else out[0]

    def cdf(self, value):
        """Return P(g_x ≤ value_x), shape (a,) or (k, a); categories with the same factor have the same value."""
        first = np.zeros((self.factors.sets, self.multiplicity.size))
        first[:, self.group] = np.reshape(value, (self.factors.sets, -1))
        first = first.ravel()
        out = np.empty(first.size)
        for index, margin in self._whole_margins:
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
    def _whole_margins(self):
        return self._margins(False)

    def _margins(self, inner):
        """Return [(factor indices, Margin)] of all; what loses digits by transforms goes with polynomials, or alone.

        Parameters
        ----------
        inner : bool
            As for Margin.of_logit.
        """
        out = []
        for sets, law in self._laws:
            each = self._each(sets)
            margins, lost = law.margins(inner)
            if lost.size and self.factors.is_polynomial:
                whole, place = np.unique(lost // self.multiplicity.size, return_inverse=True)
                chosen = place * self.multiplicity.size + lost % self.multiplicity.size
                again = PolynomialRoute(law.factors.take(whole)).margins(inner, chosen)[0]
                margins += [(lost[np.searchsorted(chosen, x)], margin) for x, margin in again]
            elif lost.size:
                margins += [self._alone(law, x) for x in lost]
            out += [(each[index], margin) for index, margin in margins]
        return out

    def _alone(self, law, x):
        """Return (its index, Margin) of a factor whose transforms lose digits; of many sets the saddle may serve."""
        k, place = divmod(int(x), self.multiplicity.size)
        single = law if law.factors.sets == 1 else type(law)(law.factors.take([k]), law.line.take([k]))
        try:
            margin = single.margin_of(place)
        except ConvergenceError:
            if self.sets is None:
                raise
            margin = Saddle(single.factors).margin_of(place)
        return np.array([x]), margin
