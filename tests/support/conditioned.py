"""A conditioned product of one set of factors, without the axis of sets, and weighted draws of one Dirichlet prior."""

import numpy as np

from ldpbayes.methods import expanded
from ldpbayes.methods.base import Watch
from ldpbayes.methods.conditioned_product import ConditionedProduct
from ldpbayes.methods.problem import Problem


class Alone:
    def __init__(self, family, group, **settings):
        self.every = ConditionedProduct(family, group, **settings)

    def __getattr__(self, name):
        return getattr(self.every, name)[0]

    def covariance(self):
        return self.every.covariance()[0]

    def quantile(self, levels):
        return self.every.quantile(levels)[..., 0, :]

    def cdf(self, value):
        return self.every.cdf(value)[0]

    def draws(self, size, rng):
        return self.every.draws(size, rng)

    def row_sum_error(self):
        return self.every.diagnostics()["covariance_row_sum_error"]


def weighted(collection, prior, draws=1000, random_seed=1):
    """Return four times so many Weighted draws of the surrogate under a Dirichlet prior, trusted or not."""
    problem = Problem.of(collection, prior)
    return expanded.weighted_draws(
        problem.rows, problem.alpha, 4 * draws, np.random.default_rng(random_seed), watch=Watch()
    )[0]
