"""Exact moments under a Dirichlet prior or a mixture of Dirichlet priors, without draws."""

import numpy as np

from ldpbayes.posteriors.mixing import Separable, entries_of, inverted
from ldpbayes.posteriors.mixture import nodes_of
from ldpbayes.posteriors.nodes import Nodes
from ldpbayes.posteriors.problem import Problem


class ExactMixture:
    """Exact posterior of separable reports, without draws: under every Dirichlet prior that the prior mixes, and mixed.

    Parameters
    ----------
    rows : Rows
        Reports that each single out one category.
    prior : AbstractPrior
        A Dirichlet prior, or one with a mixture.

    Attributes
    ----------
    weights : (k,) array
        Posterior weights of the Dirichlet priors.
    mean : (a,) array
    """

    def __init__(self, rows, prior):
        self._server = Separable([Problem(rows, prior, rows.n_reports, prior.n_categories, None)])
        mixture = prior.mixture()
        self._nodes = Nodes.alone(prior) if mixture is None else nodes_of(mixture, [self._server])[0]
        self._engines = [self._server.engine(given) for given in self._nodes.priors]
        self.weights = self._nodes.weights
        self.mean = self.weights @ np.concatenate([engine.mean for engine in self._engines])

    def covariance(self):
        """Return Cov(P|Y), shape (a, a)."""
        return entries_of(self._server, self._nodes, dependent=True)["distribution_cov"][0]

    def quantile(self, q):
        """Return the quantiles of every P_x, shape (len(q), a)."""
        if len(self._engines) == 1:
            return self.given(q)[0]
        return np.array([inverted(self._engines, self.weights, level, self.mean[None])[0] for level in q])

    def given(self, q):
        """Return the quantiles under each of the Dirichlet priors, shape (k, len(q), a)."""
        return np.array([engine.quantile(q)[:, 0] for engine in self._engines])
