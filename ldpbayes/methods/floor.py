"""Dirichlets over a floor: what reports say of P = λE + (1 − λ)D given λ and α, from one expansion of their likelihood.

The log-likelihood is expanded once, in P; given D it makes factors of E, and with E integrated over it makes factors of D.
See docs/theory/floor.md.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, logsumexp

from ldpbayes.methods import expanded
from ldpbayes.methods.conditioned_product import TiltedFactors
from ldpbayes.methods.conditioned_product.factors import grouped
from ldpbayes.methods.constants import NEVER_ZERO, NOTHING, TOGETHER


@dataclass(frozen=True, eq=False)
class OverFloors:
    """The log-likelihood expanded at a pilot, and what it says of P under Dirichlets over a floor.

    Attributes
    ----------
    family : ExpandedFactors
        The distinct factors of the likelihood.
    group : (a,) int array
        Which of them each category has.
    constant : float
        Log of what they leave out of the likelihood.
    evenness : float
        κ.
    still : float
        Sds of P by which the mean of D may still move, all categories apart. Derived: the evidence moves by the square of
        it. Bank: half and double change no number; of all of this file together half moves four of seven problems.
    least : float
        Part of a category's curvature that is left, at least, where E is integrated over. Derived: it keeps a factor proper;
        weights correct it. Bank: half and double change no number.
    """

    family: expanded.ExpandedFactors
    group: np.ndarray
    constant: float
    evenness: float
    still: float = 0.05
    least: float = 0.02

    @classmethod
    def of(cls, rows, pilot, evenness):
        """Return the expansion of rows at a pilot (a,)."""
        family, constant = expanded.anchored(rows, np.ones_like(pilot), pilot)
        return cls(*grouped(family), constant, evenness)

    @property
    def multiplicity(self):
        """How many categories have each of the factors, (G,)."""
        return np.bincount(self.group).astype(float)

    def at(self, priors):
        """Return (log-evidences (k,), means and variances of P, two (k, a) arrays) under priors ``OverFloor``."""
        share, alpha = (np.array([getattr(prior, name) for prior in priors]) for name in ("share", "alpha"))
        out = [np.empty((len(priors), *shape)) for shape in ((), self.multiplicity.shape, self.multiplicity.shape)]
        step = max(1, TOGETHER // 4 // self.multiplicity.size)
        for kind in (share == 0, share > 0):  # with a floor, and without
            places = np.flatnonzero(kind)
            for start in range(0, places.size, step):
                block = places[start : start + step]
                for array, values in zip(out, self._sets(share[block], alpha[block])[:3], strict=True):
                    array[block] = values
        return out[0], out[1][:, self.group], out[2][:, self.group]

    def _sets(self, share, alpha):
        """Return what ``at`` does of a few nodes, with the factors of D of the last one to settle, and what gives its E."""
        if not share.any():
            return *self._plain(alpha), None
        k, g, m = share.size, self.multiplicity.size, self.multiplicity
        rest = np.maximum(self.family.centre - share[:, None] / m.sum(), 1e-3 / m.sum())
        rest /= (rest @ m)[:, None]
        log_evidence, mean, variance, left = np.empty(k), np.empty((k, g)), np.empty((k, g)), np.arange(k)
        for _ in range(12):  # nodes far from the mode need more rounds, and count for nothing
            factors, uneven, moved, floor = self._marginal(share[left], alpha[left], rest[left])
            log_evidence[left], mean[left], variance[left] = factors
            far = (np.abs((1 - share[left, None]) * (moved - rest[left])) / np.sqrt(variance[left])).max(axis=1)
            rest[left] = moved
            left, far = left[far > self.still], far[far > self.still]
            if not left.size:
                break
        log_evidence[left[far > 1]] = NOTHING  # a posterior sd: far from the mode
        # The average likelihood is below the likelihood of the mean. An expansion that says otherwise is far from both.
        fit = self.constant + np.array([self.family.log_smooth(g) @ m for g in mean])
        return np.where(log_evidence <= fit, log_evidence, NOTHING), mean, variance, uneven, floor

    def _plain(self, alpha):
        """Return (log-evidences, means, variances, factors) at λ = 0."""
        k, g, m = alpha.size, self.multiplicity.size, self.multiplicity
        family = replace(self.family.take(np.tile(np.arange(g), k)), alpha=np.repeat(alpha, g))
        factors = TiltedFactors(family, m, sets=k)
        log_evidence = factors.saddle_log_evidence()[0] + self.constant + _dirichlet(alpha, m.sum())
        return log_evidence, *(moments.reshape(k, g) for moments in factors.saddle_moments()), family

    def _marginal(self, share, alpha, rest):
        """Return ((log-evidences, means, variances of P), factors of D, its mean, what gives E), expanded about a D (k, G).

        E is integrated over: its mean given D moves the gradient, its variance takes a part of the curvature.
        """
        k, g, m = share.size, self.multiplicity.size, self.multiplicity
        family = self.family.take(np.tile(np.arange(g), k))
        share, alpha, rest = np.repeat(share, g), np.repeat(alpha, g), rest.ravel()
        even, inside, mass = self._floor(family, share, (1 - share) * rest, k)
        p = share * even + (1 - share) * rest
        grown = 1 + family.skew * (p - family.centre)
        curvature, skew, linear = family.curvature / grown**2, family.skew / grown, (1 - share) * family.slope(p)
        left = np.clip(1 - curvature * share**2 * inside, self.least, 1.0)
        skew = np.minimum((1 - share) * skew * left**2, NEVER_ZERO / rest)
        uneven = expanded.ExpandedFactors(alpha, linear, (1 - share) ** 2 * curvature * left, rest, skew)
        factors = TiltedFactors(uneven, m, sets=k)
        log_evidence = mass + factors.saddle_log_evidence()[0] - factors.summed(linear * rest)
        log_evidence += self.constant + _dirichlet(alpha[::g], m.sum())
        moved, variance = factors.saddle_moments()
        # Where D is not at its centre, E makes up for a part of the difference.
        mean = np.maximum(p + (1 - share) * left * (moved - rest), 1e-3 * (1 - share) * moved).reshape(k, g)
        spread = share**2 * inside + ((1 - share) * left) ** 2 * variance
        factors = log_evidence, mean / (mean @ m)[:, None], spread.reshape(k, g)
        return factors, uneven, moved.reshape(k, g), (even, inside, rest, left)

    def _floor(self, family, share, rest, k):
        """Return (mean and variance of E given D (k·G,), log ∫ of the likelihood over E (k,)); rest is (1 − λ)D."""
        m, kappa = self.multiplicity, self.evenness
        if kappa == math.inf:
            even = np.full(share.size, 1 / m.sum())
            return even, np.zeros(share.size), family.log_smooth(share * even + rest).reshape(k, -1) @ m
        smooth = expanded.ExpandedFactors(
            np.full(share.size, kappa),
            family.linear * share,
            share**2 * family.curvature,
            (family.centre - rest) / share,
            share * family.skew,
        )
        factors = TiltedFactors(smooth, m, sets=k)
        # What the factors of E leave out: b·(1 − λ)D.
        mass = factors.saddle_log_evidence()[0] + factors.summed(family.linear * rest) + _dirichlet(kappa, m.sum())
        return *factors.saddle_moments(), mass

    def proposal(self, prior):
        """Return (TiltedProposal of D, what gives E) under one prior."""
        *_, uneven, floor = self._sets(np.array([prior.share]), np.array([prior.alpha]))
        return expanded.TiltedProposal(uneven.take(self.group)), floor and tuple(array[self.group] for array in floor)

    def draws(self, prior, size, rng, made):
        """Return (draws of P, log of proposal over prior density) under one prior; proposals are kept in ``made``.

        Draws of E given D are gamma variables with E's moments, divided by their sum r. The posterior has no r. It is
        given a gamma law near the law of the draws, so that no integral over r is needed.
        """
        if prior not in made:
            made[prior] = self.proposal(prior)
        (proposal, floor), share = made[prior], prior.share
        p, log_surrogate = expanded.proposals(proposal, size, rng)
        if not share:
            return p, log_surrogate
        even, spread, rest, remaining = floor
        a, kappa = even.size, self.evenness
        if kappa == math.inf:
            return share / a + (1 - share) * p, log_surrogate
        mean = even - (1 - share) / share * (1 - remaining) * (p - rest)
        mean = np.maximum(mean, 0.1 * even)
        shape, scale = mean**2 / spread, spread / mean
        log_g = np.log(np.maximum(rng.standard_gamma(shape), 1e-300)) + np.log(scale)
        log_r = logsumexp(log_g, axis=1)
        log_e = log_g - log_r[:, None]
        log_own = (shape * log_g - np.exp(log_g) / scale - gammaln(shape) - shape * np.log(scale)).sum(axis=1)
        centre, width = mean.sum(axis=1), (shape * scale**2).sum(axis=1)
        n, b = centre**2 / width, width / centre
        log_radius = n * log_r - np.exp(log_r) / b - gammaln(n) - n * np.log(b)
        log_prior = _dirichlet(kappa, a) + kappa * log_e.sum(axis=1)
        return share * np.exp(log_e) + (1 - share) * p, log_surrogate + log_own - log_radius - log_prior


def _dirichlet(alpha, a):
    """Return the log of the normalizer of a symmetric Dirichlet."""
    return gammaln(a * alpha) - a * gammaln(alpha)
