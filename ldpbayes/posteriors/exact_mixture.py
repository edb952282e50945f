"""Exact moments under a mixture of Dirichlet priors, without draws."""

import numpy as np

from ldpbayes.posteriors.exact import exact_moments
from ldpbayes.posteriors.mixing import Separable, inverted
from ldpbayes.posteriors.mixture import nodes_of
from ldpbayes.posteriors.problem import Problem


class ExactMixture:
    """Exact posteriors under a mixture of Dirichlet priors, without draws: those given each node, and their mixture.

    Parameters
    ----------
    rows : Rows
        Reports that each single out one category.
    prior : AbstractPrior
        With a mixture.

    Attributes
    ----------
    weights : (k,) array
    parts : tuple of ExactMoments
    mean : (a,) array
    """

    def __init__(self, rows, prior):
        problem = Problem(rows, prior, rows.n_reports, prior.n_categories, None)
        nodes, _ = nodes_of(prior.mixture(), [Separable([problem])])
        self.weights, self.parts = nodes.weights, tuple(exact_moments(rows, given) for given in nodes.priors)
        self._means = np.array([part.mean for part in self.parts])
        self.mean = self.weights @ self._means

    def covariance(self):
        """Return Cov(P|Y), shape (a, a)."""
        away = self._means - self.mean
        within = sum(weight * part.covariance() for weight, part in zip(self.weights, self.parts, strict=True))
        return within + (self.weights[:, None] * away).T @ away

    def quantile(self, q):
        """Return the quantiles of every P_x, shape (len(q), a)."""
        engines = [part.engine for part in self.parts]
        return np.array([inverted(engines, self.weights, level, self.mean) for level in q])
