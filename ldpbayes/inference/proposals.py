"""Distributions that propose draws: a multivariate t, with two scales along each axis where asked, and mixtures of these."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtri


@dataclass(frozen=True, eq=False)
class StudentT:
    """Multivariate t: centre + R v; a split one has a scale ahead of its centre and another behind it along each axis.

    Attributes
    ----------
    centre : (u,) array
    root : (u, u) array
        R, whose columns are the axes.
    degrees : float
        Of freedom. Chosen once: tails heavier than those of the posterior keep weights bounded.
    ahead, behind : (u,) arrays, optional
        Scales of v; one where not given.

    References
    ----------
    Geweke (1989), Econometrica 57, on split ones.
    """

    centre: np.ndarray
    root: np.ndarray
    degrees: float = 8.0
    ahead: np.ndarray | None = None
    behind: np.ndarray | None = None

    @classmethod
    def standard(cls, size: int, each: float) -> "StudentT":
        """Return the one about zero with unit axes, and so many degrees of freedom for each of them.

        In many dimensions the radius of a t with few degrees misses that of the posterior.
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

    def parts(
        self, draws: np.ndarray, weight: np.ndarray, number: int, widened: float, clustered: int
    ) -> "tuple[tuple[StudentT, ...], np.ndarray] | None":
        """Return one for each of some clusters of weighted draws, and their shares; None where a cluster spans too little.

        Parameters
        ----------
        draws : (S, u) array
        weight : (S,) array
            Normalized.
        number : int
            Of the clusters.
        widened : float
            How many times wider each is than its cluster.
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
        shares = np.bincount(nearest, weight, number)
        if not (shares**2 > self.size * np.bincount(nearest, weight**2, number)).all():  # no more draws than axes
            return None
        laws = [StudentT.fitted(draws[nearest == k], weight[nearest == k] / shares[k], self.degrees) for k in range(number)]
        return None if None in laws else (tuple(replace(law, root=widened * law.root) for law in laws if law), shares)

    def halves(self, draws: np.ndarray, weight: np.ndarray) -> "StudentT":
        """Return the split one with the scales of weighted draws ahead of zero and behind it, no narrower than this.

        Parameters
        ----------
        draws : (S, u) array
            Coordinates v.
        weight : (S,) array
            Normalized.
        """
        sides = [np.sqrt(weight @ (draws**2 * on) / np.maximum(weight @ on, 1e-3)) for on in (draws > 0, draws < 0)]
        ahead, behind = np.maximum(sides, 1.0)
        return replace(self, ahead=ahead, behind=behind)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        v = rng.standard_normal((size, self.centre.size))
        v /= np.sqrt(rng.chisquare(self.degrees, size) / self.degrees)[:, None]
        log_density = self._standard((v**2).sum(axis=1))
        if self.ahead is not None and self.behind is not None:
            forward = rng.random(v.shape) < self.ahead / (self.ahead + self.behind)
            v = np.abs(v) * np.where(forward, self.ahead, -self.behind)
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
        """Return the draws of uniform numbers (S, uniforms), such as Sobol points."""
        u, nu = self.centre.size, self.degrees
        ahead, behind = (np.ones(u) if side is None else side for side in (self.ahead, self.behind))
        below = behind / (ahead + behind)
        q = uniform[:, :u]
        back = q < below
        half = np.where(back, q / below, (1 - q) / (1 - below))
        v = np.where(back, behind, -ahead) * ndtri(0.5 * half)
        return self.centre + v / np.sqrt(2 * gammaincinv(nu / 2, uniform[:, u:]) / nu) @ self.root.T

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        v = (z - self.centre) @ self._inverse.T
        if self.ahead is not None and self.behind is not None:
            v = v / np.where(v > 0, self.ahead, self.behind)
        return self._standard((v**2).sum(axis=1))

    @cached_property
    def _inverse(self):
        return np.linalg.inv(self.root)

    @cached_property
    def _log_root(self):
        wider = 0.0 if self.ahead is None else np.log((self.ahead + self.behind) / 2).sum()
        return np.linalg.slogdet(self.root)[1] + wider

    def _standard(self, square):
        """Return the log-density where |v|², over the scales, has these values."""
        u, nu = self.centre.size, self.degrees
        constant = gammaln((nu + u) / 2) - gammaln(nu / 2) - 0.5 * u * math.log(nu * math.pi) - self._log_root
        return constant - 0.5 * (nu + u) * np.log1p(square / nu)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of distributions of the same coordinates.

    Attributes
    ----------
    components : tuple of StudentT, SplitProposal or FromPrior
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
    """Some coordinates by one distribution, and the others by a t, whatever the first ones are.

    Attributes
    ----------
    first : Mixture
    rest : StudentT
    """

    first: Mixture
    rest: StudentT

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
        width = self.rest.centre.size
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
        How many uniform numbers a draw takes: none.
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
