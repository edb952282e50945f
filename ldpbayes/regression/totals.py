"""Known totals of a regression: shares of answers among all people that are known from elsewhere, as data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from ldpbayes import checks
from ldpbayes.constants import MIN_P_VALUE
from ldpbayes.errors import ArgumentError, DiagnosticWarning, listed, shown, warn
from ldpbayes.priors.base import softmax


@dataclass(frozen=True, eq=False)
class Totals:
    """log density of known shares given Σ_c n_c P_c / n, each normal.

    Attributes
    ----------
    places : (k,) int array
        Their categories.
    shares, sds : (k,) arrays
    """

    places: np.ndarray
    shares: np.ndarray
    sds: np.ndarray

    def log_density(self, mean: np.ndarray) -> np.ndarray:
        """Return the log-density, (…,), of means of P over people, (…, a)."""
        off = (mean[..., self.places] - self.shares) / self.sds
        return -0.5 * (off**2).sum(axis=-1) - np.log(self.sds * math.sqrt(2 * math.pi)).sum()

    def value_and_gradient(self, target: Any, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density and its gradient at unknowns z."""
        mean = mean_of(target, z)
        steep = np.zeros(mean.size)
        steep[self.places] = (self.shares - mean[self.places]) / self.sds**2
        return float(self.log_density(mean)), pulled(target, z, steep)


@dataclass(frozen=True, eq=False)
class KnownTotals:
    """Totals as they are stated, with nan for the sd of those that are exact."""

    places: np.ndarray
    shares: np.ndarray
    sds: np.ndarray

    @classmethod
    def of(cls, totals: Any, labels: Sequence[str]) -> "KnownTotals":
        """Return what the argument ``totals`` states of categories.

        Parameters
        ----------
        totals : mapping of category to share, or to (share, sd)
        labels : sequence of str

        Raises
        ------
        ArgumentError
            On unknown categories, on what are no shares, and on all categories.
        """
        rule = "a mapping from categories to a share, or to a share and its standard deviation"
        stated: Mapping = checks.instance(totals, "totals", Mapping, rule)
        unknown = [name for name in stated if name not in labels]
        if not stated or unknown or len(stated) == len(labels):
            got = shown(unknown[0]) if unknown else f"{len(stated)} of them"
            raise ArgumentError(f"totals must name some of the categories ({listed(labels)}), but one, got {got}.")
        pairs = []
        for name, value in stated.items():
            numbers = np.atleast_1d(checks.reals(value, f"totals of {name}", rule, ndim=None))
            if numbers.shape not in ((1,), (2,)) or not 0 < numbers[0] < 1 or not (numbers > 0).all():
                raise ArgumentError(
                    f"totals of {name} must be a share between 0 and 1, or that and its sd, got {shown(value)}."
                )
            pairs.append((numbers[0], numbers[1] if numbers.size == 2 else np.nan))
        shares, sds = np.array(pairs).T
        if shares.sum() >= 1:
            raise ArgumentError(f"totals must add up to less than 1, got {shares.sum():.3g}.")
        return cls(np.array([list(labels).index(name) for name in stated]), shares, sds)

    def bound(self, target: Any, z: np.ndarray, covariance: np.ndarray, draws: int) -> tuple[Totals, str]:
        """Return (the totals with an sd each, a sentence that compares them with the reports).

        An exact total gets the sd of the share by reports and prior alone, over the root of the number of draws: so much the
        mean of as many draws leaves open itself, and the information stays within double precision.

        Parameters
        ----------
        target : RegressionTarget
            Without totals.
        z : (u,) array
            Its mode.
        covariance : (u, u) array
            Of the unknowns there.
        draws : int

        Warns
        -----
        DiagnosticWarning
            Where a total is further from the reports than chance explains, by a two-sided test of size MIN_P_VALUE.
        """
        mean = mean_of(target, z)
        slopes = np.array([pulled(target, z, row) for row in np.eye(mean.size)[self.places]])
        alone = np.sqrt(np.einsum("ku,uv,kv->k", slopes, covariance, slopes))
        exact = np.isnan(self.sds)
        sds = np.where(exact, np.maximum(alone, np.finfo(float).eps ** 0.5) / math.sqrt(draws), self.sds)
        apart = (mean[self.places] - self.shares) / np.hypot(alone, sds)
        labels = target.prior.categories
        texts = [
            f"{labels[x]} {share:.4g} ({'exact, as ' if is_exact else ''}sd {sd:.2g}; without it {at:.4g} ± {own:.2g}, "
            f"{off:+.1f} sd apart)"
            for x, share, is_exact, sd, at, own, off in zip(
                self.places, self.shares, exact, sds, mean[self.places], alone, apart, strict=True
            )
        ]
        far = 2 * ndtr(-np.abs(apart)) < MIN_P_VALUE
        if far.any():
            named = listed([f"{labels[x]} ({off:+.1f} sd)" for x, off in zip(self.places[far], apart[far], strict=True)])
            warn(
                f"Known totals and reports disagree on {named}: a total, the device or the sample is wrong.",
                DiagnosticWarning,
            )
        return Totals(self.places, self.shares, sds), f"Known totals of all respondents: {listed(texts)}."


def mean_of(target: Any, z: np.ndarray) -> np.ndarray:
    """Return the mean of P over people, by their weights, (a,)."""
    sizes = target.reports.sizes
    return sizes @ target.prior.kinds(z) @ target.prior.collapse / sizes.sum()


def pulled(target: Any, z: np.ndarray, steep: np.ndarray) -> np.ndarray:
    """Return the gradient in z of a function of these means with the gradient steep (a,)."""
    prior, sizes = target.prior, target.reports.sizes
    logits = prior.logits_of(z)
    kinds, each = softmax(logits), prior.collapse @ steep
    return prior.pullback_logits(z, (sizes / sizes.sum())[:, None] * kinds * (each - (kinds @ each)[:, None]))
