"""Rows whose counts are sampling weights: a pseudo-likelihood, which holds no users one by one."""

from ldpbayes.likelihoods.base import Rows
from ldpbayes.likelihoods.expansion import Sums


class PseudoRows(Rows):
    """The rows of a protocol with weights for counts; all products are those of the rows inside.

    Parameters
    ----------
    inner : Rows
        Its counts need not be whole numbers.
    share : float
        What every report counts for besides.
    """

    def __init__(self, inner: Rows, share: float = 1.0) -> None:
        self.inner, self.share = inner, share
        super().__init__(inner.counts * share, inner.n_categories, inner.log_constants)

    def matvec(self, p):
        return self.inner.matvec(p)

    def rmatvec(self, r):
        return self.inner.rmatvec(r)

    def gram(self, v):
        return self.inner.gram(v)

    def gram_diagonal(self, v, power=2):
        return self.inner.gram_diagonal(v, power)

    def square_matvec(self, p):
        return self.inner.square_matvec(p)

    def written(self, part):
        return self.inner.written(part)

    def support_counts(self):
        return self.share * self.inner.support_counts()

    def find_separable(self):
        return self.inner.separable() if self.share == 1 else None

    def closed_form(self):
        return self.inner.closed_form() if self.share == 1 else None

    def value_and_gradient(self, p):
        value, gradient = self.inner.value_and_gradient(p)
        return self.share * value, self.share * gradient

    def expansion(self, pilot, spread=None):
        return Sums(*(self.share * one for one in self.inner.expansion(pilot, spread)))

    def rough_expansion(self):
        found = self.inner.rough_expansion()
        return None if found is None else Sums(*(self.share * one for one in found))

    def log_likelihood(self, p):
        return self.share * self.inner.log_likelihood(p)

    def sampler(self):
        return None
