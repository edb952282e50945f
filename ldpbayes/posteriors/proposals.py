"""Distributions that propose draws: a multivariate t, one with two scales along each axis, and mixtures of these."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtri

#: Parts of a defensive mixture, and how much wider each of them is.
PARTS, WIDER = (0.7, 0.2, 0.1), (1.0, 2.0, 5.0)
#: In more dimensions the wider parts are draws of nothing.
MAX_DEFENDED = 30
#: Degrees of freedom: tails heavier than those of the posterior keep the weights bounded.
DEGREES = 8.0
#: Distances from the mode, in units of the curvature, at which the density is looked at for the scales of a split t, the
#: largest fall that counts, in nats, and the scales that are believed.
DISTANCES, DEEPEST, SCALES = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0), 12.0, (0.3, 10.0)
#: Rounds of expectation-maximisation of a mixture, and what its covariances are multiplied by.
EM_ROUNDS, WIDENED = 30, 1.1


@dataclass(frozen=True, eq=False)
class StudentT:
    """Multivariate t: centre + R v.

    Attributes
    ----------
    centre : (u,) array
    root : (u, u) array
        R with scale matrix R Rᵀ.
    log_root : float
        log |det R|.
    degrees : float
    """

    centre: np.ndarray
    root: np.ndarray
    log_root: float
    degrees: float = DEGREES

    @classmethod
    def at_mode(
        cls, centre: np.ndarray, eigenvalues: np.ndarray, vectors: np.ndarray, degrees: float = DEGREES
    ) -> "StudentT":
        """Return the proposal whose scale matrix is the inverse of the absolute value of the Hessian at the mode."""
        return cls(centre, vectors / np.sqrt(eigenvalues), -0.5 * float(np.log(eigenvalues).sum()), degrees)

    @classmethod
    def fitted(cls, draws: np.ndarray, weight: np.ndarray, degrees: float = DEGREES) -> "StudentT | None":
        """Return the proposal with the mean and covariance of weighted draws, or None where they span too little."""
        centre = weight @ draws
        offset = draws - centre
        covariance = (weight[:, None] * offset).T @ offset * (1 - 2 / degrees)
        try:
            root = np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance)))
        except np.linalg.LinAlgError:
            return None
        return cls(centre, root, float(np.log(np.diag(root)).sum()), degrees)

    def refitted(self, draws: np.ndarray, weight: np.ndarray) -> "StudentT | None":
        """Return the proposal of the same kind with the mean and covariance of weighted draws, or None."""
        return self.fitted(draws, weight)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        v = self.standard(size, rng)
        return self.centre + v @ self.root.T, self.log_density((v**2).sum(axis=1))

    def standard(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws of the standard t, shape (size, u)."""
        normal = rng.standard_normal((size, self.centre.size))
        return normal / np.sqrt(rng.chisquare(self.degrees, size) / self.degrees)[:, None]

    def log_density(self, square: np.ndarray) -> np.ndarray:
        """Return the log-density where |R⁻¹(z − centre)|² has these values."""
        u, nu = self.centre.size, self.degrees
        constant = gammaln((nu + u) / 2) - gammaln(nu / 2) - 0.5 * u * math.log(nu * math.pi) - self.log_root
        return constant - 0.5 * (nu + u) * np.log1p(square / nu)


@dataclass(frozen=True, eq=False)
class Defensive:
    """A mixture of a multivariate t and the same one with wider scales.

    The logit of a share that may be 0 has a tail that falls off as exp(−|z|/2), slowly near the mode: a t of the Hessian's
    scale sends few draws there, and these carry large weights.

    Attributes
    ----------
    narrow : StudentT

    References
    ----------
    Hesterberg (1995), Technometrics 37.
    """

    narrow: StudentT

    def refitted(self, draws: np.ndarray, weight: np.ndarray) -> "Defensive | None":
        """Return the mixture about the mean and covariance of weighted draws, or None."""
        found = self.narrow.fitted(draws, weight)
        return None if found is None else Defensive(found)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities under the mixture); each part has its share of the draws."""
        v = self.narrow.standard(size, rng)
        ends = np.rint(np.cumsum(PARTS) * size).astype(int)
        v *= np.repeat(WIDER, np.diff(ends, prepend=0))[:, None]
        square = (v**2).sum(axis=1)
        parts = [
            math.log(part) + self.narrow.log_density(square / wider**2) - v.shape[1] * math.log(wider)
            for part, wider in zip(PARTS, WIDER, strict=True)
        ]
        return self.narrow.centre + v @ self.narrow.root.T, np.logaddexp.reduce(parts)


@dataclass(frozen=True, eq=False)
class SplitT:
    """Multivariate t with one scale ahead of its centre and another behind it along each of its axes: centre + R v.

    Attributes
    ----------
    centre : (u,) array
    root, inverse : (u, u) arrays
        R, whose columns are the axes, and R⁻¹.
    ahead, behind : (u,) arrays
        Scales of v.
    degrees : float

    References
    ----------
    Geweke (1989), Econometrica 57.
    """

    centre: np.ndarray
    root: np.ndarray
    inverse: np.ndarray
    ahead: np.ndarray
    behind: np.ndarray
    degrees: float = DEGREES

    @classmethod
    def looking(cls, centre, root, log_density, degrees: float = DEGREES) -> "SplitT":
        """Return the one whose scales are the widest that the fall of a density at some distances asks for.

        A tail that is flat on one side shows along the axes, neither in the curvature at the mode nor in weights of draws
        that do not reach it.

        Parameters
        ----------
        centre : (u,) array
            The mode.
        root : (u, u) array
        log_density : callable
            (S, u) → (S,).
        degrees : float
        """
        steps = np.array([way * distance * axis for way in (1, -1) for distance in DISTANCES for axis in root.T])
        with np.errstate(all="ignore"):
            values = log_density(np.concatenate([centre[None], centre + steps]))
        fall = np.maximum(values[0] - values[1:], 1e-3).reshape(2, len(DISTANCES), -1)
        distance = np.array(DISTANCES)[:, None]
        wanted = np.where(fall < DEEPEST, distance / np.sqrt(2 * fall), 0.0)
        ahead, behind = np.clip(wanted.max(axis=1), *SCALES)
        return cls(centre, root, np.linalg.inv(root), ahead, behind, degrees)

    def of(self, uniform: np.ndarray) -> np.ndarray:
        """Return the draws of uniform numbers (S, u + 1), such as Sobol points."""
        u, nu = self.centre.size, self.degrees
        below = self.behind / (self.ahead + self.behind)
        q = uniform[:, :u]
        back = q < below
        half = np.where(back, q / below, (1 - q) / (1 - below))
        v = np.where(back, self.behind, -self.ahead) * ndtri(0.5 * half)
        return self.centre + v / np.sqrt(2 * gammaincinv(nu / 2, uniform[:, u:]) / nu) @ self.root.T

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        u, nu = self.centre.size, self.degrees
        v = (z - self.centre) @ self.inverse.T
        square = ((v / np.where(v > 0, self.ahead, self.behind)) ** 2).sum(axis=1)
        constant = gammaln((nu + u) / 2) - gammaln(nu / 2) - 0.5 * u * math.log(nu * math.pi)
        constant += np.log(2 / (self.ahead + self.behind)).sum() + np.linalg.slogdet(self.inverse)[1]
        return constant - 0.5 * (nu + u) * np.log1p(square / nu)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of split t distributions, and of a prior.

    Attributes
    ----------
    parts : tuple of SplitT
    shares : (parts,) array
        With sum one less the share of the prior.
    prior : Regression
    """

    parts: tuple
    shares: np.ndarray
    prior: Any

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities): Sobol points spread them evenly where size is a power of two."""
        u = self.parts[0].centre.size
        from scipy.stats import qmc  # loads slowly

        uniform = np.clip(qmc.Sobol(u + 2, seed=rng).random(size), 1e-12, 1 - 1e-12)
        which = np.searchsorted(np.cumsum(self.shares), uniform[:, 0], side="right")
        z = np.empty((size, u))
        for k, part in enumerate(self.parts):
            z[which == k] = part.of(uniform[which == k, 1:])
        rest = which == len(self.parts)
        z[rest] = self.prior.unknowns(int(rest.sum()), rng)
        return z, self.log_density(z)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at z (S, u)."""
        parts = [math.log(share) + part.log_density(z) for share, part in zip(self.shares, self.parts, strict=True)]
        left = 1 - self.shares.sum()
        if left > 1e-9:
            parts.append(math.log(left) + self.prior.log_density(z))
        return np.logaddexp.reduce(parts)


def fitted_parts(z: np.ndarray, number: int, degrees: float, rng: np.random.Generator) -> tuple[tuple, np.ndarray]:
    """Return (SplitT, …), shares: a mixture of t distributions fitted to draws by expectation-maximisation.

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
    x = np.linalg.solve(scale, (z - centre).T).T
    places = [int(rng.integers(size))]
    for _ in range(number - 1):  # each next centre far from those before
        distance = np.min([((x - x[k]) ** 2).sum(axis=1) for k in places], axis=0)
        places.append(int(rng.choice(size, p=distance / distance.sum())))
    means, roots, shares = x[places], np.stack([np.eye(u) / number ** (1 / u)] * number), np.full(number, 1 / number)
    for _ in range(EM_ROUNDS):
        logs, scaled = np.empty((number, size)), np.empty((number, size))
        for k in range(number):
            square = (((x - means[k]) @ np.linalg.inv(roots[k]).T) ** 2).sum(axis=1)
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
            means[k] = pulled @ x / max(pulled.sum(), 1e-300)
            offset = x - means[k]
            roots[k] = np.linalg.cholesky((pulled[:, None] * offset).T @ offset / total[k] + 1e-4 * np.eye(u))
    parts, ones = [], np.ones(u)
    for mean, root in zip(means, roots, strict=True):
        whole = scale @ root * math.sqrt(WIDENED)
        parts.append(SplitT(centre + scale @ mean, whole, np.linalg.inv(whole), ones, ones, degrees))
    return tuple(parts), shares
