"""Distributions that propose draws: a multivariate t, with two scales along each axis where asked, and mixtures of these."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtri

from ldpbayes.inference.importance import resample

#: Degrees of freedom: tails heavier than those of the posterior keep the weights bounded.
DEGREES = 8.0
#: Distances from the mode, in units of the curvature, at which the density is looked at for the scales of a split t, the
#: largest fall that counts, in nats, and the scales that are believed.
DISTANCES, DEEPEST, SCALES = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0), 12.0, (0.3, 10.0)
#: Rounds of expectation-maximization of a mixture, and what its covariances are multiplied by.
EM_ROUNDS, WIDENED = 30, 1.1


@dataclass(frozen=True, eq=False)
class StudentT:
    """Multivariate t: centre + R v; a split one has a scale ahead of its centre and another behind it along each axis.

    Attributes
    ----------
    centre : (u,) array
    root : (u, u) array
        R, whose columns are the axes.
    degrees : float
    ahead, behind : (u,) arrays, optional
        Scales of v; one where not given.

    References
    ----------
    Geweke (1989), Econometrica 57, on split ones.
    """

    centre: np.ndarray
    root: np.ndarray
    degrees: float = DEGREES
    ahead: np.ndarray | None = None
    behind: np.ndarray | None = None

    @classmethod
    def fitted(cls, draws: np.ndarray, weight: np.ndarray, degrees: float = DEGREES) -> "StudentT | None":
        """Return the proposal with the mean and covariance of weighted draws, or None where they span too little."""
        centre = weight @ draws
        offset = draws - centre
        covariance = (weight[:, None] * offset).T @ offset * (1 - 2 / degrees)
        try:
            return cls(centre, np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance))), degrees)
        except np.linalg.LinAlgError:
            return None

    def looking(self, log_density) -> "StudentT":
        """Return the split one whose scales are the widest that the fall of a density at some distances asks for.

        A tail that is flat on one side shows along the axes, neither in the curvature at the mode nor in weights of draws
        that do not reach it.

        Parameters
        ----------
        log_density : callable
            (S, u) → (S,), with its mode at the centre.
        """
        steps = np.array([way * distance * axis for way in (1, -1) for distance in DISTANCES for axis in self.root.T])
        with np.errstate(all="ignore"):
            values = log_density(np.concatenate([self.centre[None], self.centre + steps]))
        fall = np.maximum(values[0] - values[1:], 1e-3).reshape(2, len(DISTANCES), -1)
        distances = np.where(fall < DEEPEST, np.array(DISTANCES)[:, None] / np.sqrt(2 * fall), 0.0)
        ahead, behind = np.clip(distances.max(axis=1), *SCALES)
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

    def spread(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the draws of uniform numbers (S, u + 1), such as Sobol points."""
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
class FromPrior:
    """The prior as a proposal of coordinates: weights are then bounded as the likelihood is.

    Attributes
    ----------
    prior : AbstractPrior
        With ``unknowns(size, rng)``.
    frame : Arrow or Conditional
        What the coordinates are of.
    """

    prior: Any
    frame: Any

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        u = self.frame.back(self.prior.unknowns(size, rng))
        return u, self.log_density(u)

    def spread(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return as many draws as there are rows of uniform numbers; a prior takes none of these."""
        return self.draw(len(uniform), rng)[0]

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the log-density at coordinates (S, u)."""
        z, volume = self.frame.placed(u)
        return self.prior.log_density(z) + volume


@dataclass(frozen=True, eq=False)
class Beside:
    """Some coordinates by one proposal, and the others by a t distribution, whatever the first ones are.

    Attributes
    ----------
    first : StudentT or Mixture
    rest : StudentT
    """

    first: Any
    rest: StudentT

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        (u, log_density), (v, of_rest) = self.first.draw(size, rng), self.rest.draw(size, rng)
        return np.concatenate([u, v], axis=1), log_density + of_rest

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the log-density at coordinates (S, u)."""
        width = self.rest.centre.size
        return self.first.log_density(u[:, :-width]) + self.rest.log_density(u[:, -width:])


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of proposals.

    Attributes
    ----------
    parts : tuple of proposals
        StudentT, FromPrior, or one Beside before others of all coordinates.
    shares : (parts,) array
        With sum one.
    sobol : bool
        Whether draws are spread evenly by Sobol points, best as many as a power of two.
    """

    parts: tuple
    shares: np.ndarray
    sobol: bool = False

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities), each part with its share of them."""
        if len(self.parts) == 1 and not self.sobol:
            return self.parts[0].draw(size, rng)
        if not self.sobol:
            counts = np.bincount(resample(self.shares, rng, size), minlength=len(self.parts))
            drawn = [law.draw(count, rng)[0] for law, count in zip(self.parts, counts.tolist(), strict=True) if count]
            z = np.concatenate(drawn)
            return z, self.log_density(z)
        from scipy.stats import qmc  # loads slowly

        u = self.parts[0].centre.size
        points = qmc.Sobol(u + 2, seed=rng).random_base2(math.ceil(math.log2(size)))[:size]
        uniform = np.clip(points, 1e-12, 1 - 1e-12)
        which = np.searchsorted(np.cumsum(self.shares[:-1]), uniform[:, 0], side="right")
        z = np.empty((size, u))
        for k, law in enumerate(self.parts):
            here = which == k
            z[here] = law.spread(uniform[here, 1:], rng)
        return z, self.log_density(z)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        weighted = zip(self.shares, self.parts, strict=True)
        return np.logaddexp.reduce([math.log(share) + law.log_density(z) for share, law in weighted])


def fitted_parts(z: np.ndarray, number: int, degrees: float, rng: np.random.Generator) -> tuple[tuple, np.ndarray]:
    """Return (StudentT, …), shares: a mixture of t distributions fitted to draws by expectation-maximization.

    Parameters
    ----------
    z : (S, u) array
    number : int
        Of the distributions.
    degrees : float
    rng : numpy.random.Generator

    References
    ----------
    Cappé, Douc, Guillin, Marin, Robert (2008), Statistics and Computing 18; Hoogerheide, Opschoor, van Dijk (2012), Journal
    of Econometrics 171.
    """
    size, u = z.shape
    centre = z.mean(axis=0)
    scale = np.linalg.cholesky(np.cov(z.T).reshape(u, u) + 1e-12 * np.eye(u))
    x = np.linalg.solve(scale, (z - centre).T)  # (u, S), so that what is added up per draw lies side by side
    places = [int(rng.integers(size))]
    for _ in range(number - 1):  # each next centre far from those before
        distance = np.min([((x - x[:, [k]]) ** 2).sum(axis=0) for k in places], axis=0)
        places.append(int(rng.choice(size, p=distance / distance.sum())))
    means, roots, shares = x.T[places], np.stack([np.eye(u) / number ** (1 / u)] * number), np.full(number, 1 / number)
    logs, scaled = np.empty((number, size)), np.empty((number, size))
    for _ in range(EM_ROUNDS):
        for k in range(number):
            v = np.linalg.inv(roots[k]) @ (x - means[k][:, None])
            square = np.einsum("us,us->s", v, v)
            scaled[k] = (degrees + u) / (degrees + square)
            logs[k] = (
                math.log(shares[k]) - np.log(np.diag(roots[k])).sum() - 0.5 * (degrees + u) * np.log1p(square / degrees)
            )
        mine = np.exp(logs - logs.max(axis=0))
        mine /= mine.sum(axis=0)
        total = np.maximum(mine.sum(axis=1), 1e-3)
        shares = total / total.sum()
        for k in range(number):
            pulled = mine[k] * scaled[k]
            means[k] = x @ pulled / max(pulled.sum(), 1e-300)
            offset = x - means[k][:, None]
            roots[k] = np.linalg.cholesky((pulled * offset) @ offset.T / total[k] + 1e-4 * np.eye(u))
    roots = scale @ roots * math.sqrt(WIDENED)
    return tuple(StudentT(centre + scale @ mean, root, degrees) for mean, root in zip(means, roots, strict=True)), shares
