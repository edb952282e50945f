"""Least squares of hashed reports (O-RR, O-RAPPOR) without simulating users: the estimate's normal law, drawn directly."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from studies.vectorized import project

#: Singular values of the normal matrix below this share of the largest count as zero.
TINY = 1e-10


@dataclass(frozen=True, eq=False)
class Hashed:
    """What the covariance of the least-squares estimate needs of a hashing, whatever ε and n: sums over the cohorts.

    Attributes
    ----------
    p : (S,) array
    cohorts, width : int
        C cohorts; k buckets or bits.
    meetings : (S, S) array
        G = Σ_c F_cᵀF_c, F_c (k, S) being the buckets or bits of each candidate.
    weighted : (S, S) array
        Σ_c F_cᵀ (F_c diag(p) F_cᵀ) F_c.
    bits, crossed : (S, S) arrays
        Σ_c d_c d_cᵀ and Σ_c d_c (G_c p)ᵀ, d_c = F_cᵀ1.
    """

    p: np.ndarray
    cohorts: int
    width: int
    meetings: np.ndarray
    weighted: np.ndarray
    bits: np.ndarray
    crossed: np.ndarray

    @classmethod
    def drawn(cls, p, width, cohorts, rng, *, hashes=1, closed=False):
        """Return the Hashed of random hash functions (or, closed, of permutations taken modulo the width).

        Parameters
        ----------
        p : (S,) array
            True distribution of the candidates.
        width, cohorts, hashes : int
            k, C and h.
        rng : numpy.random.Generator
        closed : bool
            Permutations of a known alphabet instead of hash functions.
        """
        size = p.size
        meetings, weighted, bits, crossed = (np.zeros((size, size)) for _ in range(4))
        diagonal = sparse.diags(p)
        step = max(1, 4096 // max(width, 16)) if hashes == 1 else 1
        for start in range(0, cohorts, step):
            part = min(step, cohorts - start)
            places = _places(part, size, width, hashes, closed, rng)
            rows = (places + width * np.arange(part)[:, None, None]).ravel()
            columns = np.broadcast_to(np.arange(size), places.shape).ravel()
            filters = sparse.coo_matrix((np.ones(rows.size), (rows, columns)), shape=(part * width, size)).tocsr()
            filters.data[:] = 1.0  # two hashes of a candidate may name one bit
            if hashes == 1:
                # One hash: F_c diag(p) F_cᵀ is the diagonal of the buckets' shares.
                meetings += (filters.T @ filters).toarray()
                weighted += (filters.T @ (sparse.diags(filters @ p) @ filters)).toarray()
            else:
                met = (filters.T @ filters).toarray()
                meetings += met
                weighted += ((filters.T @ (filters @ diagonal @ filters.T)) @ filters).toarray()
                ones = np.asarray(filters.sum(axis=0)).ravel()
                bits += np.outer(ones, ones)
                crossed += np.outer(ones, met @ p)
        if hashes == 1:
            bits += cohorts
            crossed += (meetings @ p)[None, :]
        return cls(p, cohorts, width, meetings, weighted, bits, crossed)

    def randomized_response(self, epsilon):
        """Return the Normal law of the least-squares estimate of O-RR.

        The reports are m over (c, y) with probabilities (1 + β F p)/(C(β + k)); the estimate solves
        G p̂ = (C(β + k) Fᵀm̂ − C 1)/β.
        """
        beta, c = math.expm1(epsilon), self.cohorts
        scale = c * (beta + self.width)
        mean = (c + beta * self.meetings @ self.p) / scale
        spread = (self.meetings + beta * self.weighted) / scale - np.outer(mean, mean)
        return self._law((scale * mean - c) / beta, spread, scale / beta)

    def rappor(self, epsilon, hashes=1):
        """Return the Normal law of the least-squares estimate of O-RAPPOR.

        A bit is kept with probability κ = e^{ε/2h}/(1 + e^{ε/2h}); given the value, bits are independent. The estimate
        solves G p̂ = (C Fᵀv̂ − (1 − κ) Σ_c d_c)/(2κ − 1), v̂ being the shares of all reports with each bit of each cohort.
        """
        keep = 1 / (1 + math.exp(-epsilon / (2 * hashes)))
        flip, gain, c = 1 - keep, 2 * keep - 1, self.cohorts
        ones = np.diag(self.meetings)  # Σ_c d_c: each candidate's own bits
        mean = (flip * ones + gain * self.meetings @ self.p) / c
        spread = flip * keep * self.meetings + flip**2 * self.bits
        spread += flip * gain * (self.crossed + self.crossed.T) + gain**2 * self.weighted
        return self._law((c * mean - flip * ones) / gain, spread / c - np.outer(mean, mean), c / gain)

    def _law(self, right, spread, scale):
        value, vector = self._spectrum
        kept = value > TINY * value[-1]
        inverse = (vector[:, kept] / value[kept]) @ vector[:, kept].T
        return Normal(inverse @ right, inverse, spread, scale)

    @cached_property
    def _spectrum(self):
        return linalg.eigh(self.meetings)


def _places(cohorts, size, width, hashes, closed, rng):
    """Return the bucket of every candidate, shape (cohorts, hashes, size)."""
    if not closed:
        return rng.integers(width, size=(cohorts, hashes, size))
    return rng.permuted(np.broadcast_to(np.arange(size), (cohorts, hashes, size)), axis=2) % width


@dataclass(frozen=True, eq=False)
class Normal:
    """The law of p̂: mean + scale · inverse · N(0, spread/n).

    Attributes
    ----------
    mean : (S,) array
    inverse, spread : (S, S) arrays
    scale : float
    """

    mean: np.ndarray
    inverse: np.ndarray
    spread: np.ndarray
    scale: float

    @property
    def covariance(self):
        """n · Cov(p̂), shape (S, S)."""
        return self.scale**2 * self.inverse @ self.spread @ self.inverse

    @cached_property
    def root(self):
        """A matrix R with R Rᵀ = covariance, shape (S, S)."""
        try:
            root = linalg.cholesky(
                self.spread + 1e-13 * np.trace(self.spread) / len(self.mean) * np.eye(len(self.mean)), lower=True
            )
        except linalg.LinAlgError:  # some direction has no variance
            value, vector = linalg.eigh(self.spread)
            root = vector * np.sqrt(np.maximum(value, 0.0))
        return self.scale * self.inverse @ root

    def draws(self, n, size, rng):
        """Return estimates from n reports, projected onto the simplex, shape (size, S)."""
        return project(self.mean + rng.standard_normal((size, self.mean.size)) @ self.root.T / math.sqrt(n))
