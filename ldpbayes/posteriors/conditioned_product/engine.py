"""ConditionedProduct: tilted factors, a route to the law of their sum, and what follows given that the sum is one."""

import math
from functools import cached_property

import numpy as np

from ldpbayes.errors import ConvergenceError
from ldpbayes.posteriors.conditioned_product.factors import DROP, TiltedFactors
from ldpbayes.posteriors.conditioned_product.margins import Margin
from ldpbayes.posteriors.conditioned_product.polynomial import PolynomialRoute
from ldpbayes.posteriors.conditioned_product.transform import TransformRoute

#: Grid points of the density of one factor, or of a sum of some: fewer where no side's concentrations are below SMALL.
MARGIN_NODES, FEW_MARGIN_NODES, SMALL = 512, 256, 0.3


class ConditionedProduct:
    """The density ∝ Π_x φ_x(g_x) on Σ_x g_x = 1, g ≥ 0.

    Parameters
    ----------
    family : PowerFactors or another family
        One entry per distinct factor (G of them).
    group : (a,) int array
        Which factor each category has.
    route : {"transform", "polynomial"}, optional
        By default the transforms where they die out, else the polynomials.
    start : float, optional
        A tilt near the one wanted.

    Attributes
    ----------
    factors : TiltedFactors
        Before they are conditioned, with the tilt t at which Σ_x E_t[g_x] = 1.
    route : str
        "transform" (quadrature of the factors) or "polynomial" (roots of unity).
    """

    def __init__(self, family, group, route=None, start=None):
        self.family = family
        self.group = np.asarray(group)
        self.n_categories = self.group.size
        self.multiplicity = np.bincount(self.group, minlength=family.alpha.size).astype(float)
        self.factors = TiltedFactors(family, self.multiplicity, start)
        self._transform = TransformRoute(self.factors)
        self._polynomial = PolynomialRoute(self.factors)
        self.route = route or self._choose_route()

    def _choose_route(self):
        """Return "transform" where the transforms die out at a reasonable cost, else "polynomial" where that applies."""
        if not self.factors.is_polynomial:
            return "transform"
        try:
            _ = self._transform.line
        except ConvergenceError:
            return "polynomial"
        return "transform"

    @property
    def _chosen(self):
        return self._transform if self.route == "transform" else self._polynomial

    @property
    def tilt(self):
        """t with Σ_x E_t[g_x] = 1, the saddle point."""
        return self.factors.tilt

    @property
    def mean(self):
        """E[g_x], shape (a,)."""
        return self._chosen.moments.mean[self.group]

    @property
    def variance(self):
        """Var(g_x), shape (a,)."""
        return self._chosen.moments.variance[self.group]

    @property
    def log_evidence(self):
        """log ∫ Π_x φ_x(g_x) over the simplex (Lebesgue measure of any a − 1 coordinates)."""
        return float(self._chosen.moments.log_evidence)

    def covariance(self):
        """Return Cov(g_x, g_y), shape (a, a)."""
        return self._chosen.moments.covariance(self.group)

    def row_sum_error(self):
        """Return the largest |Σ_y Cov(g_x, g_y)| / Var(g_x), zero but for the error of the moments."""
        return self._chosen.moments.row_sum_error(self.multiplicity)

    def diagnostics(self):
        """Return the route, the number of complex nodes and the tilt."""
        return {"route": self.route, "nodes": int(self._chosen.n_nodes), "tilt": float(self.tilt)}

    def quantile(self, q):
        """Return the q-quantiles of every g_x: shape (a,), or (len(q), a) for several q."""
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        out = np.empty((levels.size, self.family.alpha.size))
        for index, margin in self._margins:
            out[:, index] = margin.quantile(levels)
        out = out[:, self.group]
        return out if np.ndim(q) else out[0]

    def cdf(self, value):
        """Return P(g_x ≤ value_x) of every category, shape (a,); categories with the same factor have the same value."""
        value = np.asarray(value, dtype=float)
        first = np.zeros(self.family.alpha.size)
        first[self.group] = value
        out = np.empty(first.size)
        for index, margin in self._margins:
            out[index] = margin.cdf(first[index])
        return out[self.group]

    def draws(self, size, rng):
        """Return (g, k, acceptance): ``size`` independent draws, and the accepted share of proposals.

        For polynomial factors, by whichever route the moments are. Each polynomial is Σ_k c_k g^k: k, shape (size, a) like
        g, are draws of the powers, given which g is a Dirichlet distribution's.
        """
        return self._polynomial.draws(self.group, size, rng)

    @cached_property
    def _margins(self):
        """Return [(factor indices, Margin)] of all factors."""
        everything = np.arange(self.family.alpha.size)
        margins, left = self._transform.margins() if self.route == "transform" else ([], everything)
        return margins + [(np.array([x]), self._margin(x)) for x in left]

    def _margin(self, x):
        """Return the Margin of a factor: φ_x(p) times the density of the others' sum at 1 − p, on a grid in logit p.

        logit p = centre + scale·sinh(u): narrow in the middle, long at the ends, both at once.
        """
        moments, alpha = self._chosen.moments, self.family.alpha[x]
        mean, rest = moments.mean[x], self.factors.alpha_total - alpha
        centre, scale = math.log(mean / (1 - mean)), min(math.sqrt(moments.variance[x]) / (mean * (1 - mean)), 3.0)
        ends = [-math.asinh((DROP / alpha + 20) / scale), math.asinh((DROP / rest + 20) / scale)]
        size = MARGIN_NODES if min(alpha, rest) < SMALL else FEW_MARGIN_NODES
        step = (ends[1] - ends[0]) / size
        u = ends[0] + step * (np.arange(size) + 0.5)
        y = centre + scale * np.sinh(u)
        log_p, log_r = -np.logaddexp(0, -y), -np.logaddexp(0, y)
        log_density = self.factors.one_log_density(np.array([x]), moments.mean[[x]], log_p) + self._others(x, log_r)
        log_density += log_p + log_r + np.log(np.cosh(u))
        density = np.exp(log_density - log_density.max())
        return Margin(np.array([ends[0]]), np.array([step]), density[None], np.array([centre]), scale)

    def _others(self, x, log_value):
        """Return the log-density, up to a constant, of the tilted sum of all but one factor x at exp(log_value), (N,)."""
        part = self.multiplicity.copy()
        part[x] -= 1
        if part.sum() == 1:
            x = np.flatnonzero(part)
            return self.factors.one_log_density(x, self._chosen.moments.mean[x], log_value)
        found = self._chosen.part_log_density(part, log_value)
        if found is None and self.factors.is_polynomial:
            return self._polynomial.part_log_density(part, log_value)
        if found is None:
            raise ConvergenceError("The transforms of a part of the sum must die out, but they do not; use its draws.")
        return found
