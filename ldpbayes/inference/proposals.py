"""Distributions that propose draws: a multivariate t, independent skewed coordinates, the prior, and mixtures of these."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtri


@dataclass(frozen=True, eq=False)
class StudentT:
    """Multivariate t: centre + R v.

    Attributes
    ----------
    centre : (u,) array
    root : (u, u) array
        R, whose columns are the axes.
    degrees : float
        Degrees of freedom. Derived: tails |v|^−(8 + u) are heavier than a posterior's under a normal prior. This keeps
        weights bounded, and eight degrees have all moments that a fit takes. Bank: half and double show nothing.
    """

    centre: np.ndarray
    root: np.ndarray
    degrees: float = 8.0

    @classmethod
    def standard(cls, size: int, each: float) -> "StudentT":
        """Return the t about zero with unit axes, and ``each`` degrees of freedom for each axis.

        In many dimensions the radius of a t with few degrees misses the posterior's radius.
        """
        return cls(np.zeros(size), np.eye(size), max(cls.degrees, each * size))

    @classmethod
    def fitted(cls, draws: np.ndarray, weight: np.ndarray, degrees: float) -> "StudentT | None":
        """Return the proposal with the mean and covariance of weighted draws, or None where they span too little."""
        centre = weight @ draws
        offset = draws - centre
        covariance = (weight[:, None] * offset).T @ offset * (1 - 2 / degrees)
        try:
            return cls(centre, np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance))), degrees)
        except np.linalg.LinAlgError:
            return None

    def clusters(self, draws: np.ndarray, weight: np.ndarray, number: int, clustered: int) -> np.ndarray | None:
        """Return to which of some clusters each of weighted draws belongs; None where the draws of one span too little.

        Parameters
        ----------
        draws : (S, u) array
        weight : (S,) array
            Normalized.
        number : int
            Of the clusters.
        clustered : int
            Draws that the places of the clusters come from, at most.

        References
        ----------
        Cappé, Douc, Guillin, Marin, Robert (2008), Statistics and Computing 18, on mixtures fitted to weighted draws.
        """
        from scipy.cluster.vq import kmeans2, vq  # load slowly

        x, rng = (draws - self.centre) @ self._inverse.T, np.random.default_rng(0)
        some = rng.choice(len(x), min(len(x), clustered), p=weight)
        centres, _ = kmeans2(x[some], number, minit="++", seed=rng)
        nearest, _ = vq(x, centres)
        shares, squares = (np.bincount(nearest, power, number) for power in (weight, weight**2))
        return nearest if (shares**2 > self.size * squares).all() else None  # more draws than axes

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        v = rng.standard_normal((size, self.centre.size))
        v /= np.sqrt(rng.chisquare(self.degrees, size) / self.degrees)[:, None]
        log_density = self._standard((v**2).sum(axis=1))
        return self.centre + v @ self.root.T, log_density

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return self.centre.size

    @property
    def uniforms(self) -> int:
        """How many uniform numbers a draw takes."""
        return self.size + 1

    def spread(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the draws of uniform numbers (S, uniforms), such as Sobol points, or of the first of more."""
        u, nu = self.centre.size, self.degrees
        v = ndtri(uniform[:, :u])
        return self.centre + v / np.sqrt(2 * gammaincinv(nu / 2, uniform[:, u : u + 1]) / nu) @ self.root.T

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        v = (z - self.centre) @ self._inverse.T
        return self._standard((v**2).sum(axis=1))

    @cached_property
    def _inverse(self):
        return np.linalg.inv(self.root)

    @cached_property
    def _log_root(self):
        return np.linalg.slogdet(self.root)[1]

    def _standard(self, square):
        """Return the log-density where |v|² has these values."""
        u, nu = self.centre.size, self.degrees
        constant = gammaln((nu + u) / 2) - gammaln(nu / 2) - 0.5 * u * math.log(nu * math.pi) - self._log_root
        return constant - 0.5 * (nu + u) * np.log1p(square / nu)


@dataclass(frozen=True, eq=False)
class Johnson:
    """Independent coordinates centre + σ sinh(δ z)/δ of standard normal z, with a σ and a δ on either side of the centre.

    Effects given their scales are nearly independent; one that reports bound, rather than saying where it is, has a long
    tail on one side. These tails are longer than exponential ones.

    Attributes
    ----------
    centre : (u,) array
    scale : (2, u) array
        σ ahead and behind.
    shape : (2, u) array
        w = exp(2 δ²).
    least : float
        Least w of a fitted coordinate. Bank: at 1.65 most coordinates have too long tails, at 1.05 weights are large in
        some.

    References
    ----------
    Johnson (1949), Biometrika 36, on the family S_U.
    """

    centre: np.ndarray
    scale: np.ndarray
    shape: np.ndarray
    least: float = 1.2

    @classmethod
    def standard(cls, size: int) -> "Johnson":
        """Return the distribution about zero with variances one."""
        return cls._of(np.zeros(size), np.ones((2, size)), np.zeros((2, size)))

    @classmethod
    def fitted(cls, draws: np.ndarray, weight: np.ndarray) -> "Johnson":
        """Return the distribution with the second and fourth moments of weighted draws on either side of their mean.

        With w = exp(2 δ²) the second is σ² (w − 1)/log w, and the kurtosis (w² + 2 w + 3)/2.

        Parameters
        ----------
        draws : (S, u) array
        weight : (S,) array
            Normalized.
        """
        centre = weight @ draws
        square = (draws - centre) ** 2
        total, ahead = weight @ square, draws > centre
        halves = [(weight @ of for of in (side, side * square, side * square**2)) for side in (ahead, ~ahead)]
        share, second, fourth = np.swapaxes([list(half) for half in halves], 0, 1)
        second = np.maximum(second / share, 0.25 * total)
        return cls._of(centre, second, fourth / share / second**2)

    @classmethod
    def _of(cls, centre, second, kurtosis):
        shape = np.maximum(np.sqrt(2 * np.maximum(kurtosis, 3.0) - 2) - 1, cls.least)
        return cls(centre, np.sqrt(second * np.log(shape) / (shape - 1)), shape)

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return self.centre.size

    uniforms = size

    @cached_property
    def _delta(self):
        return np.sqrt(0.5 * np.log(self.shape))

    def spread(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the draws of uniform numbers (S, u), or of the first of more."""
        uniform, delta, wide = uniform[:, : self.size], self._delta, self.scale / self._delta
        below = self.scale[1] / self.scale.sum(axis=0)
        back = uniform < below
        z = ndtri(0.5 * np.where(back, uniform / below, (1 - uniform) / (1 - below)))  # not above zero
        return self.centre + np.sinh(np.where(back, *delta[::-1]) * z) * np.where(back, wide[1], -wide[0])

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        apart = z - self.centre
        ahead = apart > 0
        y = apart * np.where(ahead, *(self._delta / self.scale))
        normal = np.arcsinh(y) / np.where(ahead, *self._delta)
        constant = np.log(self.scale.mean(axis=0)).sum() + 0.5 * self.size * math.log(2 * math.pi)
        return -0.5 * (normal**2 + np.log1p(y**2)).sum(axis=1) - constant


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of distributions of the same coordinates.

    Attributes
    ----------
    components : tuple of StudentT, SplitProposal, Mixture or FromPrior
    shares : (k,) array
        With sum one.
    """

    components: tuple[Any, ...]
    shares: np.ndarray

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return self.components[0].size

    @property
    def uniforms(self) -> int:
        """How many uniform numbers a draw takes."""
        return max(law.uniforms for law in self.components) + 1

    def spread(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the draws of uniform numbers (S, uniforms)."""
        which = np.searchsorted(np.cumsum(self.shares[:-1]), uniform[:, 0], side="right")
        z = np.empty((len(uniform), self.size))
        for k, law in enumerate(self.components):
            here = which == k
            z[here] = law.spread(uniform[here, 1:], rng)
        return z

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        weighted = zip(self.shares, self.components, strict=True)
        return np.logaddexp.reduce([math.log(share) + law.log_density(z) for share, law in weighted])


@dataclass(frozen=True, eq=False)
class SplitProposal:
    """Some coordinates by one distribution, and the others by another, whatever the first ones are.

    Attributes
    ----------
    first : StudentT or Mixture
    rest : Johnson
    """

    first: StudentT | Mixture
    rest: Johnson

    @property
    def uniforms(self) -> int:
        """How many uniform numbers a draw takes."""
        return self.first.uniforms + self.rest.uniforms

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return self.first.size + self.rest.size

    def spread(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the draws of uniform numbers (S, uniforms)."""
        first, rest = np.split(uniform, [self.first.uniforms], axis=1)
        return np.concatenate([self.first.spread(first, rng), self.rest.spread(rest, rng)], axis=1)

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the log-density at coordinates (S, u)."""
        width = self.rest.size
        return self.first.log_density(u[:, :-width]) + self.rest.log_density(u[:, -width:])


@dataclass(frozen=True, eq=False)
class FromPrior:
    """The prior as a proposal of coordinates: weights are then bounded as the likelihood is.

    Attributes
    ----------
    prior : AbstractPrior
        With ``unknowns(size, rng)``.
    frame : Arrow or Conditional
        What the coordinates are of.
    uniforms : int
        How many uniform numbers a draw takes. Derived: none, for a prior draws with its own random numbers.
    """

    prior: Any
    frame: Any
    uniforms: ClassVar[int] = 0

    def spread(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return as many draws as there are rows of uniform numbers; a prior takes none of these."""
        return self.frame.back(self.prior.unknowns(len(uniform), rng))

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the log-density at coordinates (S, u)."""
        with np.errstate(over="ignore", invalid="ignore"):
            z, volume = self.frame.placed(u)
            value = self.prior.log_density(z) + volume
        return np.where(np.isnan(value), -np.inf, value)  # beyond the range of floats, where the prior has no mass


def sobol(law: Any, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return (draws, their log-densities) of a distribution, spread evenly by Sobol points.

    Parameters
    ----------
    law : Mixture
    size : int
        Best a power of two.
    rng : numpy.random.Generator
    """
    from scipy.stats import qmc  # loads slowly

    points = qmc.Sobol(law.uniforms, seed=rng).random_base2(math.ceil(math.log2(size)))[:size]
    z = law.spread(np.clip(points, 1e-12, 1 - 1e-12), rng)
    return z, law.log_density(z)
