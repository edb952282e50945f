"""A conditioned product of one set of factors, without the axis of sets."""

from ldpbayes.posteriors.conditioned_product import ConditionedProduct


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
