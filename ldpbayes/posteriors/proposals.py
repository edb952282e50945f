"""The distribution that proposes draws about a mode: a multivariate t, from a Hessian or from weighted draws."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

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
    def fitted(cls, draws: np.ndarray, weight: np.ndarray) -> "StudentT | None":
        """Return the proposal with the mean and covariance of weighted draws, or None where they span too little."""
        centre = weight @ draws
        offset = draws - centre
        covariance = (weight[:, None] * offset).T @ offset * (1 - 2 / DEGREES)
        try:
            root = np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance)))
        except np.linalg.LinAlgError:
            return None
        return cls(centre, root, float(np.log(np.diag(root)).sum()))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (draws, their log-densities)."""
        u, nu = self.centre.size, self.degrees
        v = rng.standard_normal((size, u)) / np.sqrt(rng.chisquare(nu, size) / nu)[:, None]
        constant = gammaln((nu + u) / 2) - gammaln(nu / 2) - 0.5 * u * math.log(nu * math.pi) - self.log_root
        return self.centre + v @ self.root.T, constant - 0.5 * (nu + u) * np.log1p((v**2).sum(axis=1) / nu)
