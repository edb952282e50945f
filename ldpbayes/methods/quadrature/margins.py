"""The density of one category or of its share of a group: distribution function and quantiles."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from ldpbayes.methods.merging import quantile
from ldpbayes.methods.quadrature.rules import jacobi, remainder


@lru_cache(maxsize=64)
def barycentric(nodes, low, high):
    """Return the nodes of a Gauss–Jacobi rule, and the weights of interpolation between them."""
    x, _ = jacobi(nodes, low, high)
    gaps = x[:, None] - x + np.eye(nodes)
    log_size = -np.log(np.abs(gaps)).sum(axis=1)
    return x, np.sign(gaps).prod(axis=1) * np.exp(log_size - log_size.max())


def interpolation(nodes, low, high, t):
    """Return the matrix (…, nodes) that takes values at the nodes of a Gauss–Jacobi rule to those at t: barycentric."""
    x, weights = barycentric(nodes, low, high)
    away = np.asarray(t)[..., None] - x
    exact = away == 0
    share = weights / np.where(exact, 1.0, away)
    share /= share.sum(axis=-1, keepdims=True)
    return np.where(exact.any(axis=-1, keepdims=True), exact, share)


@dataclass(frozen=True, eq=False)
class StickMargin:
    """Density t^{low − 1} (1 − t)^{high − 1} h(t) of t = (P_x − start)/width on [0, 1], with h known at Gauss nodes."""

    start: float
    width: float
    low: float
    high: float
    values: np.ndarray

    @classmethod
    def of(cls, integrand, probability):
        """Return the margin of the first category from the probabilities of the first stick's nodes."""
        start, end = (float(x[0]) for x in integrand.first)
        low = float(integrand.alpha[0]) if start == 0 else 1.0
        high = remainder(float(integrand.alpha[1:].sum())) if end == 1 else 1.0
        return cls(start, end - start, low, high, probability / jacobi(probability.size, low, high)[1])

    def density(self, t):
        """Return h(t) by barycentric interpolation."""
        return interpolation(self.values.size, self.low, self.high, t) @ self.values

    def below(self, t):
        """Return P(T ≤ t), from the other end where t is past the middle: the upper end may be singular."""
        t = np.asarray(t)
        return np.where(t > 0.5, 1 - self._tail(1 - t, True), self._tail(t, False))[()]

    def above(self, t):
        """Return P(T > t), from the other end where t is before the middle."""
        t = np.asarray(t)
        return np.where(t > 0.5, self._tail(1 - t, True), 1 - self._tail(t, False))[()]

    def _tail(self, reach, from_above):
        """Return the probability within a distance of one end, of at most a half; nothing beyond."""
        near, far = (self.high, self.low) if from_above else (self.low, self.high)
        x, w = jacobi(max(64, self.values.size), near, 1.0)
        out, some = np.zeros(reach.shape), reach <= 0.5
        if some.any():
            inside = reach[some]
            points = inside[..., None] * x
            density = self.density(1 - points if from_above else points)
            out[some] = inside**near * (((1 - points) ** (far - 1) * density) @ w)
        return out

    def quantile(self, level):
        """Return the quantile of P_x, integrating from the nearer end."""
        if level <= 0.5:
            t = quantile(lambda t: self.below(t) - level)
        else:
            t = quantile(lambda t: (1 - level) - self.above(t))
        return self.start + self.width * t

    def cdf(self, value):
        """Return the probability that P_x is at most a value."""
        return self.below(np.clip((value - self.start) / self.width, 0.0, 1.0))

    def share_cdf(self, value, alpha, rest):
        """Return P(P_x u ≤ value) with u ~ Beta(alpha, rest) independent: a category that shares its group."""
        x, w = jacobi(200, 1.0, self.high)
        powers = sum(x**k for k in range(6))  # 1 − x⁶ = (1 − x) powers: the upper end stays in the weight
        t0 = min(max((value - self.start) / self.width, 0.0), 1.0)
        t = t0 + (1 - t0) * x**6  # the sixth power smooths the edge at P_x = value
        jacobian = 6 * x**5 * (1 - t0) ** self.high * powers ** (self.high - 1)
        inside = special.betainc(alpha, rest, np.minimum(1.0, value / (self.start + self.width * t)))
        inner = float(w @ (jacobian * t ** (self.low - 1) * self.density(t) * inside))
        return inner + (self.below(t0) if t0 > 0 else 0.0)

    def share_quantile(self, level, alpha, rest):
        """Return the quantile of P_x u of share_cdf."""
        return quantile(lambda value: self.share_cdf(value, alpha, rest) - level, self.start + self.width)
