"""The distribution that proposes draws about a mode: a multivariate t, from a Hessian or from weighted draws."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

#: Parts of a defensive mixture, and how much wider each of them is.
PARTS, WIDER = (0.7, 0.2, 0.1), (1.0, 2.0, 5.0)
#: In more dimensions the wider parts are draws of nothing.
MAX_DEFENDED = 30
#: Degrees of freedom: tails heavier than those of the posterior keep the weights bounded.
DEGREES = 8.0


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
