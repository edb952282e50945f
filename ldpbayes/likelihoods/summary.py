"""The log-likelihood of a cell expanded at a pilot: a few sums over its reports, which add up over files and machines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods.base import AbstractLikelihood, Rows
from ldpbayes.likelihoods.expansion import expected_inverses, shared_part, tangent_curvature
from ldpbayes.likelihoods.kinds import StackedRows

#: Rule: Pairs of so many of the most probable categories are looked at: what a diagonal misses of the curvature lies there.
HEAVY = 8
#: Rule: A mean is compared with its expectation, and pairs of bits with theirs, from this many reports on.
LEAST_REPORTS = 100


def sum_of_shares(excess: np.ndarray | None, n: float) -> tuple[float, float, float, float] | None:
    """Return (Σ_x p̃_x of n reports, its error, z, the p-value of one), by ``Summary.excess``; None without a test."""
    if excess is None or excess[1] <= 0:
        return None
    total, error = float(excess[0]), math.sqrt(excess[1])
    return 1 + total / n, error / n, total / error, math.erfc(abs(total) / error / math.sqrt(2))


class Missed(NamedTuple):
    """What an expansion leaves out at a posterior, by a sample of the reports.

    Attributes
    ----------
    gradient : (a,) array
        E[∇ℓ] over the posterior minus the gradient of the expansion, both of the sample, over the sample's rate.
    curvature : (a,) array
        The curvature over the posterior divided by that of the expansion.
    heavy : (k,) int array
        The most probable categories.
    pairs : (k, k) array
        H − diag(D) − f1ᵀ − 1fᵀ between them.
    """

    gradient: np.ndarray
    curvature: np.ndarray
    heavy: np.ndarray
    pairs: np.ndarray


@dataclass(frozen=True, eq=False)
class Summary(AbstractLikelihood):
    """ℓ(p) ≈ ℓ(p₀) + G·(p − p₀) − ½ Σ_x D_x (p_x − p₀_x)² for p on the simplex.

    Summaries of different reports add up where they have the same pilot p₀ and spread.

    Parameters
    ----------
    n_reports : float
        Number of users.
    pilot : (a,) array
        The point p₀ on the simplex.
    value : float
        Σ_j w_j log u_j with u = L p₀: the log-likelihood at the pilot without its constants.
    gradient : (a,) array
        G = Σ_j w_j E[1/u_j] L_j.
    square : (a,) array
        diag H = Σ_j w_j E[1/u_j²] L_jx².
    cross : (a,) array
        H 1 = Σ_j w_j E[1/u_j²] (Σ_x L_jx) L_j.
    log_constant : float
        Σ_j w_j log c_j, the factors of the reports' probabilities that do not depend on p.
    spread : (a,) array, optional
        Variances of p about the pilot over which the expectations are taken: the expansion then follows the likelihood
        over that region rather than at one point. None for an expansion at the pilot itself.
    supports : (a,) array, optional
        C_x, how many reports have x in their support.
    sample : Rows, optional
        A Poisson sample of the reports: every report is in it with probability ``rate``, independently. It says how far
        the expansion is off.
    rate : float
        The probability with which a report is in the sample.
    missing : int
        How many more people were asked and gave no answer.
    excess : (2,) array, optional
        n (Σ_x p̃_x − 1) of the unbiased estimates p̃ of all shares, which is zero but for the device's randomness where the
        reports come from their design, and its variance; zero where all reports support as many categories. None where it
        is not known.

    Notes
    -----
    A summary keeps 4a + 5 numbers (one vector more with a spread). Over directions δ with Σδ = 0, terms f1ᵀ + 1fᵀ of the
    Hessian vanish, and H is nearly diag(D) + f1ᵀ + 1fᵀ. Its row sums then give

        f = (H1 − diag H − F) / (a − 2),   F = Σ_x f_x = Σ_x (H1 − diag H)_x / (2a − 2),   D = diag H − 2f.

    With two categories only f₁ + f₂ matters, and D is exact.
    """

    n_reports: float
    pilot: np.ndarray
    value: float
    gradient: np.ndarray
    square: np.ndarray
    cross: np.ndarray
    log_constant: float = 0.0
    spread: np.ndarray | None = None
    supports: np.ndarray | None = None
    sample: Rows | None = None
    rate: float = 1.0
    missing: int = 0
    excess: np.ndarray | None = None

    @classmethod
    def of(cls, likelihood: AbstractLikelihood, pilot, spread=None) -> Summary:
        """Return the expansion of a likelihood at a pilot.

        Parameters
        ----------
        likelihood : AbstractLikelihood
            One that holds the reports (its ``rows()`` is not None).
        pilot : (a,) array
            On the simplex.
        spread : (a,) array, optional
            Variances of p about the pilot; (0.3 p₀)² suits a first expansion of many cells at their common mean.

        Returns
        -------
        Summary

        Raises
        ------
        ArgumentError
            Where the pilot or the spread do not fit, or the likelihood holds no reports.
        """
        rows = likelihood.rows()
        if rows is None:
            raise ArgumentError(
                "A summary cannot be expanded at another pilot: expand the reports themselves, in a second pass over them."
            )
        pilot, spread = _checked(pilot, spread, rows.n_categories)
        if not (rows.matvec(pilot) > 0).all():
            raise ArgumentError("pilot must give every report a probability above 0; mix it with the uniform distribution.")
        return cls(
            n_reports=rows.n_reports,
            pilot=pilot,
            **rows.expansion(pilot, spread)._asdict(),
            log_constant=rows.log_constant,
            spread=spread,
            supports=rows.support_counts(),
        )

    @property
    def n_categories(self) -> int:
        """Number of categories, a."""
        return self.pilot.size

    @property
    def likelihood(self) -> Summary:
        """The summary itself, as a collection has its ``likelihood``."""
        return self

    @cached_property
    def tangent_curvature(self) -> np.ndarray:
        """D: minus the diagonal of the Hessian on the simplex's tangent space, shape (a,), above zero."""
        return tangent_curvature(self.square, self.cross)

    @cached_property
    def linear(self) -> np.ndarray:
        """b of the log-likelihood c + Σ_x b_x p_x − ½ Σ_x D_x p_x², shape (a,)."""
        return self.gradient + self.tangent_curvature * self.pilot

    @cached_property
    def constant(self) -> float:
        """c of the log-likelihood c + Σ_x b_x p_x − ½ Σ_x D_x p_x²."""
        at_pilot = self.linear @ self.pilot - 0.5 * self.tangent_curvature @ self.pilot**2
        return self.log_constant + self.value - float(at_pilot)

    def value_and_gradient(self, p):
        step = p - self.pilot
        bent = self.tangent_curvature * step
        return float(self.value + self.gradient @ step - 0.5 * bent @ step), self.gradient - bent

    def curvature(self, p):
        return self.tangent_curvature

    def log_likelihood(self, p):
        return self.constant + self.linear @ p - 0.5 * self.tangent_curvature @ p**2

    def tally_moments(self, p):
        # ∇ℓ is known on the tangent space, where constants vanish; Σ_x E[T_x | P] = n settles the constant.
        slope = self.gradient - self.tangent_curvature * (p - self.pilot)
        mean = p * (slope + (self.n_reports - (p * slope).sum(axis=-1, keepdims=True)))
        return mean, np.maximum(mean - p**2 * self.square, 0.0)

    def missed(self, mean, spread) -> Missed | None:
        """Return what the expansion leaves out at ``mean``, by the sample; None where there is no sample.

        Parameters
        ----------
        mean : (a,) array
            Of the posterior of this summary.
        spread : (a,) array
            Variances of p about it, before Σ p = 1 is imposed.

        Returns
        -------
        Missed or None
        """
        if self.sample is None:
            return None
        mean = np.maximum(mean, 1e-12)
        here, there = Summary.of(self.sample, self.pilot, self.spread), Summary.of(self.sample, mean / mean.sum(), spread)
        expanded = here.gradient - here.tangent_curvature * (there.pilot - self.pilot)
        heavy = np.argsort(-mean)[:HEAVY]
        return Missed(
            (there.gradient - expanded) / self.rate,
            there.tangent_curvature / here.tangent_curvature,
            heavy,
            _pairs(self.sample, there, heavy) / self.rate,
        )

    @cached_property
    def structure_gap(self) -> float:
        """Relative size of what diag(D) + f1ᵀ + 1fᵀ leaves out of the Hessian, seen in H p₀ = G; nan with a spread.

        The remainder E has E1 = 0 by the construction of f. E p₀ = E(p₀ − 1/a) is compared with D(p₀ − 1/a), both on the
        tangent space and in posterior sds.
        """
        if self.spread is not None:
            return float("nan")
        p, a, d = self.pilot, self.n_categories, self.tangent_curvature
        f = shared_part(self.square, self.cross)
        left = self.gradient - (d * p + f + f @ p)
        main = d * (p - 1 / a)
        size = [(vector - (vector / d).sum() / (1 / d).sum()) ** 2 / d for vector in (left, main)]
        return float(np.sqrt(size[0].sum() / size[1].sum())) if size[1].sum() > 0 else 0.0

    def support_counts(self):
        return self.supports

    def rows(self):
        return None

    def separable(self):
        return None

    def sampler(self):
        return None

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of both sets of reports.

        Raises
        ------
        ArgumentError
            Where the pilots or the spreads differ.
        """
        if type(other) is not Summary:
            return NotImplemented
        if self.spread is None or other.spread is None:
            same = self.spread is other.spread
        else:
            same = np.array_equal(self.spread, other.spread)
        if not (same and np.array_equal(self.pilot, other.pilot)):
            raise ArgumentError(
                "summaries add up only where they have the same pilot and spread: expand both sets of reports at one pilot, "
                "in a second pass over them."
            )
        names = ("n_reports", "value", "gradient", "square", "cross", "log_constant", "missing")
        sample, rate = _joined(self, other)
        return replace(
            self,
            sample=sample,
            rate=rate,
            **{name: getattr(self, name) + getattr(other, name) for name in names},
            **{name: _both(getattr(self, name), getattr(other, name)) for name in ("supports", "excess")},
        )

    def __radd__(self, other):
        """Let sum() start from 0."""
        return self if type(other) is int and other == 0 else NotImplemented

    def __eq__(self, other):
        if type(other) is not Summary:
            return NotImplemented
        names = [name for name in self.__dataclass_fields__ if name != "sample"]
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)


def _both(one, other):
    """Return the sum of what both summaries keep, None where one of them lacks it."""
    return None if one is None or other is None else one + other


def _pairs(rows, summary, heavy):
    """Return H − diag(D) − f1ᵀ − 1fᵀ of a summary of these rows between some categories, shape (k, k)."""
    centre = rows.matvec(summary.pilot)
    noise = np.zeros_like(centre) if summary.spread is None else rows.noise(summary.spread)
    columns = rows.columns(heavy)
    hessian = columns.T @ (columns * (rows.counts * expected_inverses(centre, noise)[1])[:, None])
    shared = (summary.square - summary.tangent_curvature)[heavy] / 2
    left = hessian - shared[:, None] - shared
    np.fill_diagonal(left, 0.0)
    return left


def _joined(summary, other):
    """Return (sample, rate) of two summaries; where the rates differ, the reports of the larger one count for less."""
    if summary.sample is None or other.sample is None:
        return None, 1.0
    rate = min(summary.rate, other.rate)
    return StackedRows([part.sample.weighing(rate / part.rate) for part in (summary, other)]), rate


def _checked(pilot, spread, n_categories):
    """Return (pilot, spread) as arrays of the right size, or raise an ArgumentError."""
    pilot = np.array(pilot, dtype=float)
    if pilot.shape != (n_categories,):
        raise ArgumentError(f"pilot must have one entry per category ({n_categories}), got shape {pilot.shape}.")
    if not (np.isfinite(pilot).all() and (pilot >= 0).all() and abs(pilot.sum() - 1) < 1e-6):
        raise ArgumentError(f"pilot must be non-negative and sum to 1, got a sum of {pilot.sum():.12g}.")
    pilot /= pilot.sum()
    if spread is None:
        return pilot, None
    spread = np.array(spread, dtype=float)
    if spread.shape != (n_categories,) or not (np.isfinite(spread).all() and (spread >= 0).all()):
        raise ArgumentError(f"spread must hold {n_categories} variances, finite and not negative.")
    return pilot, spread if spread.any() else None
