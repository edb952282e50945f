"""What the reports of one cell say about its distribution: the interface, and likelihoods that keep one row a report."""

import abc
import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes.arrays import FloatArray, IntArray, blocks
from ldpbayes.errors import InfeasibleError
from ldpbayes.likelihoods.constants import BLOCK
from ldpbayes.likelihoods.expansion import Quadratic, Sums, expected_inverses

#: Time: Entries of rows up to which NumPy computes, which takes less time than loading the compiled kernels.
SMALL = 2**16
#: Time: Probabilities up to which each has its own logarithm.
PLAIN = 2**14


class AbstractLikelihood(abc.ABC):
    """log P(Y | p) of the reports of one cell, as a function of the cell's distribution p.

    Members either hold the reports as rows (``Rows``) or expand their log-likelihood at a pilot (``Summary``). What only
    some of them can do is a method that returns the object that does it, or None.

    Attributes
    ----------
    n_categories : int
        Number of categories, a.
    n_reports : float
        Number of users.
    """

    if TYPE_CHECKING:  # a field of some members and a property of others

        @property
        def n_categories(self) -> int: ...
        @property
        def n_reports(self) -> float: ...

    @abc.abstractmethod
    def value_and_gradient(self, p: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood of p, shape (a,), without its constants, and its gradient."""

    @abc.abstractmethod
    def curvature(self, p: FloatArray) -> FloatArray:
        """Return minus the diagonal of the log-likelihood's Hessian at p, shape (a,)."""

    @abc.abstractmethod
    def log_likelihood(self, p: FloatArray) -> float | FloatArray:
        """Return log P(Y | p) (ordered reports: no multinomial coefficient) for p of shape (a,) or (a, k)."""

    def tally_moments(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the true tallies T given the reports and p, two arrays of the shape of p, (…, a).

        T_x is a sum of independent choices with probabilities L_jx p_x/(L p)_j: E[T_x] = p_x g_x with the gradient g of the
        log-likelihood, and Var(T_x) = p_x g_x − p_x² D_x with minus the diagonal D of its Hessian.
        """
        flat = np.reshape(p, (-1, self.n_categories))
        gradients = [self.value_and_gradient(p)[1] for p in flat]
        mean = np.stack([p * gradient for p, gradient in zip(flat, gradients, strict=True)])
        variance = mean - flat**2 * np.stack([self.curvature(p) for p in flat])
        return mean.reshape(np.shape(p)), variance.reshape(np.shape(p))

    def tally_means(self, draws: FloatArray) -> FloatArray:
        """Return E[T | reports, p] = p∘∇ℓ(p) of draws of p, (S, a); Σ_x E[T_x] = n settles a constant of ∇ℓ."""
        return self.tally_moments(draws)[0]

    @abc.abstractmethod
    def support_counts(self) -> FloatArray | None:
        """Return C_x, how many reports have x in their support, shape (a,); None where they were not kept."""

    @property
    def entries(self) -> int:
        """Distinct reports times categories; 0 where only sums over the reports were kept."""
        return 0

    @property
    def keeps_reports(self) -> bool:
        """Whether the distinct reports are there, and not only sums over them."""
        return self.entries > 0

    @abc.abstractmethod
    def rows(self) -> "Rows | None":
        """Return the likelihood rows, or None where the reports themselves were not kept."""

    @abc.abstractmethod
    def separable(self) -> "Separable | None":
        """Return the Separable form, or None if some report gives several categories different weights."""

    @abc.abstractmethod
    def sampler(self) -> "AbstractSampler | None":
        """Return the sampler of the true tallies given p, or None if the likelihood does not hold users one by one."""


class AbstractSampler(abc.ABC):
    """Draws the true tallies T of the users given their reports and the distribution p.

    With f_j the part of row j that all categories share, a user of report j is *noise* with weight f_j Σp and *signal* of
    category x with weight (L_jx − f_j) p_x. Given the signal tallies k, p ~ Dirichlet(α + k): the categories of noise users
    need not be drawn.

    Attributes
    ----------
    n_reports : float
        Number of users.
    """

    n_reports: float

    @abc.abstractmethod
    def signals(self, draws: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return one draw of the signal tallies k for each draw of p, shape (S, a)."""

    @property
    @abc.abstractmethod
    def work(self) -> float:
        """Operations of one draw."""

    @final
    def allocate_each(self, draws: FloatArray, rng: np.random.Generator, signal: IntArray | None = None) -> IntArray:
        """Return one draw of the true tallies T, Σ_j Multinomial(w_j, L_j∘p / (L p)_j), for each draw p, shape (S, a).

        Signal users take their category, and the others any, by p; the signal tallies may be known already.
        """
        signal = self.signals(draws, rng) if signal is None else signal
        left = int(self.n_reports) - signal.sum(axis=1)
        return signal + rng.multinomial(left, draws / draws.sum(axis=1, keepdims=True))


class Rows(AbstractLikelihood):
    """L (n_rows × n_categories, non-negative) with counts: log P(Y | p) = Σ_j w_j [log_constant_j + log (L p)_j].

    Attributes
    ----------
    counts : (n_rows,) float array
        How many users sent the report of row j; above zero.
    log_constants : (n_rows,) float array
        Factors of the report's probability that do not depend on p: P(report j | p) = exp(log_constants_j) (L p)_j.
    n_categories : int
    entry_work : float
        Operations of the likelihood of one draw for one of n_rows · n_categories entries, in those of a dense one.
    sizes : tuple of int
        Of the table whose cells the categories are, where they are combinations of attributes; else empty.
    weighs : bool
        Whether the counts are sampling weights, of a pseudo-likelihood.
    """

    counts: FloatArray
    log_constants: FloatArray
    n_categories: int
    entry_work: float = 1.0
    sizes: tuple[int, ...] = ()
    weighs: bool = False

    def __init__(self, counts: ArrayLike, n_categories: int, log_constants: ArrayLike) -> None:
        self.counts = np.asarray(counts, dtype=float)
        self.n_categories = int(n_categories)
        self.log_constants = np.broadcast_to(np.asarray(log_constants, dtype=float), self.counts.shape)

    @abc.abstractmethod
    def matvec(self, p: FloatArray, power: int = 1) -> FloatArray:
        """Return L @ p for p of shape (a,) or (a, k); of a power of every entry, for p of shape (a,)."""

    def support_sums(self, p: FloatArray) -> FloatArray | None:
        """Return Σ_{x ∈ S_j} p_x for every row, where a row favours a set S_j of categories; else None."""
        return None

    @abc.abstractmethod
    def rmatvec(self, r: FloatArray, power: int = 1) -> FloatArray:
        """Return L.T @ r for r of shape (n_rows,) or (n_rows, k); of a power of every entry, for r of shape (n_rows,)."""

    def gram(self, v: FloatArray) -> FloatArray:
        """Return L.T @ diag(v) @ L, shape (a, a)."""
        total, signs = np.zeros((self.n_categories, self.n_categories)), None if v.min() >= 0 else np.sign(v)
        for part in self.parts():
            rows = np.sqrt(np.abs(v[part]))[:, None] * self.written(part)
            total += rows.T @ (rows if signs is None else signs[part, None] * rows)  # a product with itself takes half
        return total

    def expansion(self, pilot: FloatArray, spread: FloatArray | None = None) -> Sums:
        """Return the sums that expand the log-likelihood at a pilot, averaged over variances of p about it.

        Parameters
        ----------
        pilot : (a,) array
            On the simplex; every report has a probability above zero there.
        spread : (a,) array, optional
            Variances of p; none by default.

        Returns
        -------
        Sums
        """
        centre = self.matvec(pilot)
        if spread is None or not spread.any():
            first, second = 1 / centre, 1 / centre**2
        else:
            first, second = expected_inverses(centre, self.noise(spread))
        first, second = self.counts * first, self.counts * second
        return Sums(
            float(self.counts @ np.log(centre)),
            self.rmatvec(first),
            self.rmatvec(second, 2),
            self.rmatvec(second * self.matvec(np.ones_like(pilot))),
        )

    def noise(self, spread: FloatArray) -> FloatArray:
        """Return the standard deviations of L p where p has these variances, independent given their sum."""
        variance = self.matvec(spread, 2) - self.matvec(spread) ** 2 / spread.sum()
        return np.sqrt(np.maximum(variance, 0.0))

    def quadratic(self, draws: FloatArray) -> Quadratic:
        """Return the log-likelihood to second order, averaged over draws (S, a)."""
        u = self.matvec(np.ascontiguousarray(draws.T))
        first, second = (self.counts * (1 / u**power).mean(axis=1) for power in (1, 2))
        hessian = np.ascontiguousarray(self.gram(second))
        return Quadratic(self.rmatvec(first) + hessian @ draws.mean(axis=0), hessian)

    def rough_expansion(self) -> Sums | None:
        """Return nearly what expansion() gives at the uniform distribution, from sums that cost far less, or None.

        An optimizer may begin with it; the value is not computed (nan).
        """
        return None

    def log_likelihood(self, p: FloatArray) -> float | FloatArray:
        with np.errstate(divide="ignore"):
            return self.log_constant + weighted_logs(self.counts, self.matvec(p))

    def value_and_gradient(self, p: FloatArray) -> tuple[float, FloatArray]:
        u = self.matvec(p)
        with np.errstate(divide="ignore"):
            ratio = self.counts / u
            return float(self.counts @ np.log(u, out=u)), self.rmatvec(ratio)

    @abc.abstractmethod
    def written(self, part: slice) -> FloatArray:
        """Return some rows of L as an array."""

    @final
    def dense(self) -> FloatArray:
        """Return L as an (n_rows, a) array; tests compare the fast products with it."""
        return self.written(slice(None))

    @final
    def parts(self) -> list[slice]:
        """Return slices of the rows with some 2^20 entries of L each."""
        return list(blocks(self.n_rows, self.n_categories, 2**20))

    def columns(self, index: IntArray) -> FloatArray:
        """Return L[:, index], shape (n_rows, k)."""
        units = np.zeros((len(index), self.n_categories))
        units[np.arange(len(index)), index] = 1.0
        return np.stack([self.matvec(unit) for unit in units], axis=1)

    def support_counts(self) -> FloatArray:
        """Return C_x, how many reports have x in their support, shape (a,).

        Rows of more than two levels have no supports; a report then counts for x by its share L_jx / Σ_x' L_jx'.
        """
        return self.rmatvec(self.counts / self.matvec(np.ones(self.n_categories)))

    def find_separable(self) -> "Separable | None":
        """Return what separable() returns, computed anew."""
        return None

    def closed_form(self) -> FloatArray | None:
        """Return the p of largest likelihood, shape (a,), or None where only iterations find it."""
        return None

    @final
    def tally_means(self, draws: FloatArray) -> FloatArray:
        pieces = (np.ascontiguousarray(draws[part].T) for part in blocks(len(draws), self.n_rows, BLOCK))
        return np.concatenate([(p * self.rmatvec(self.counts[:, None] / self.matvec(p))).T for p in pieces])

    @final
    def rows(self) -> "Rows":
        return self

    @final
    def separable(self) -> "Separable | None":
        return self._separable

    @final
    def sampler(self) -> "AbstractSampler | None":
        return None if self.weighs else self.find_sampler()

    @abc.abstractmethod
    def find_sampler(self) -> "AbstractSampler | None":
        """Return what sampler() returns where the counts are users."""

    def weighing(self, share: float = 1.0) -> Self:
        """Return the same rows with counts that are sampling weights, multiplied by a share: no users one by one."""
        out = copy.copy(self)
        members = (member for kind in type(self).__mro__ for member in vars(kind).items())
        for name in [name for name, member in members if isinstance(member, cached_property)]:
            out.__dict__.pop(name, None)
        out.counts, out.weighs = self.counts * share, True
        return out

    @final
    @cached_property
    def _separable(self) -> "Separable | None":
        return self.find_separable()

    @final
    def curvature(self, p: FloatArray) -> FloatArray:
        return self.rmatvec(self.counts / self.matvec(p) ** 2, 2)

    @final
    @property
    def n_rows(self) -> int:
        """Number of distinct reports."""
        return len(self.counts)

    @final
    @property
    def entries(self) -> int:
        """Distinct reports times categories."""
        return self.n_rows * self.n_categories

    @final
    @property
    def n_reports(self) -> float:
        """Number of users, Σ_j w_j."""
        return float(self.counts.sum())

    @final
    @cached_property
    def log_constant(self) -> float:
        """Σ_j w_j log_constants_j."""
        return float(self.counts @ self.log_constants)


@dataclass(frozen=True, eq=False)
class Separable:
    """Rows that each look at one coordinate: (L p)_j = base_j + slope_j p[index_j] for p on the simplex.

    Attributes
    ----------
    index : (m,) int array
        The coordinate of row j.
    base, slope : (m,) float arrays
        base ≥ 0 and base + slope ≥ 0; slope may be negative.
    counts, log_constants : (m,) float arrays
        Report counts and the row constants log c_j, so that log P(report j) = log c_j + log(base + slope p).
    """

    index: IntArray
    base: FloatArray
    slope: FloatArray
    counts: FloatArray
    log_constants: FloatArray


def require_sampler(likelihood: AbstractLikelihood) -> AbstractSampler:
    """Return likelihood.sampler().

    Parameters
    ----------
    likelihood : AbstractLikelihood

    Returns
    -------
    AbstractSampler

    Raises
    ------
    InfeasibleError
        Where the likelihood does not hold users one by one: weighted likelihoods, and summaries.
    """
    sampler = likelihood.sampler()
    if sampler is None:
        raise InfeasibleError(
            "The true tallies can be drawn only where the likelihood holds every user's report: sampling weights are not "
            "users, and a summary keeps sums only."
        )
    return sampler


def weighted_logs(counts: FloatArray, u: FloatArray) -> float | FloatArray:
    """Return Σ_j w_j log u_j for u of shape (m,) or (m, k): eight share a logarithm where nearly all weights are one."""
    several = counts != 1
    if u.ndim == 1 or u.size < PLAIN or 4 * several.sum() > several.size or not (u.min() > 1e-30 and u.max() < 1e30):
        return counts @ np.log(u)
    eights = len(u) // 8 * 8
    logs = np.log(u[:eights].reshape(8, -1, u.shape[1]).prod(axis=0)).sum(axis=0) + np.log(u[eights:]).sum(axis=0)
    return logs + (counts[several] - 1) @ np.log(u[several])


def scatter(index: IntArray, r: FloatArray, size: int) -> FloatArray:
    """Return Σ_j r_j [index_j = x] for r of shape (m,) or (m, k), shape (size, …).

    Parameters
    ----------
    index : (m,) int array
        Below size.
    r : (m,) or (m, k) array
    size : int
        Number of categories.

    Returns
    -------
    (size,) or (size, k) array
    """
    if r.ndim == 1:
        return np.bincount(index, r, size)
    out = np.zeros((size, *r.shape[1:]))
    np.add.at(out, index, r)
    return out
