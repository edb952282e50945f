"""Rows whose counts are sampling weights: a pseudo-likelihood, which holds no users one by one."""

from ldpbayes.likelihoods.base import Rows
from ldpbayes.likelihoods.expansion import Sums


class PseudoRows(Rows):
    """The rows of a protocol with weights for counts; all products are those of the rows inside.

    Parameters
    ----------
    inner : Rows
        Its counts need not be whole numbers.
    """

    def __init__(self, inner: Rows) -> None:
        self.inner = inner
        super().__init__(inner.counts, inner.n_categories, inner.log_constants)

    def matvec(self, p):
        return self.inner.matvec(p)

    def rmatvec(self, r):
        return self.inner.rmatvec(r)

    def gram(self, v):
        return self.inner.gram(v)

    def gram_diagonal(self, v):
        return self.inner.gram_diagonal(v)

    def square_matvec(self, p):
        return self.inner.square_matvec(p)

    def dense(self):
        return self.inner.dense()

    def support_counts(self):
        return self.inner.support_counts()

    def find_separable(self):
        return self.inner.separable()

    def closed_form(self):
        return self.inner.closed_form()

    def value_and_gradient(self, p):
        return self.inner.value_and_gradient(p)

    def expansion(self, pilot, spread=None):
        return self.inner.expansion(pilot, spread)

    def rough_expansion(self):
        return self.inner.rough_expansion()

    def log_likelihood(self, p):
        return self.inner.log_likelihood(p)

    def sampler(self):
        return None


class ThinnedRows(PseudoRows):
    """Rows of which every report counts for a share of one.

    Parameters
    ----------
    inner : Rows
    share : float
    """

    def __init__(self, inner: Rows, share: float) -> None:
        super().__init__(inner)
        self.share, self.counts = share, inner.counts * share

    def support_counts(self):
        return self.share * self.inner.support_counts()

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
