"""The design effect of a weighted collection, and the linearized covariance of its maximum-likelihood estimate."""

import numpy as np
from scipy.linalg import helmert

from ldpbayes.collections.survey import DesignEffect
from ldpbayes.errors import InfeasibleError
from ldpbayes.estimators.base import tangent_covariance

#: Memory: Likelihood rows with more entries than this are not written out.
MAX_ENTRIES = 2**26


def scores_of(
    rows: np.ndarray, p: np.ndarray, weight: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (scores BᵀL/(Lp), covariance of one given the true answer, mean G of LLᵀ/(Lp)² over the reports).

    Of the covariance of a score the part BᵀG(diag p − ppᵀ)GB comes from the respondents, and the rest from the device.

    Parameters
    ----------
    rows : (m, a) array
        L, the likelihood rows.
    p : (a,) array
    weight : (m,) array
        Of the reports.
    basis : (a, k) array
        B, directions in which p moves.
    """
    ratio, weight = rows / (rows @ p)[:, None], weight / weight.sum()
    scores, mixed = ratio @ basis, (ratio.T * weight) @ ratio
    centred = scores - weight @ scores
    answers = basis.T @ mixed @ (np.diag(p) - np.outer(p, p)) @ mixed @ basis
    return scores, (centred.T * weight) @ centred - answers, mixed


def linearized(collection, p) -> tuple[DesignEffect, np.ndarray]:
    """Return the design effect and the covariance of the weighted maximum-likelihood estimate.

    The scores of the reports are along the directions that sum to zero over the positive coordinates of p; the observed
    information J is the weighted sum of their outer products.

    Parameters
    ----------
    collection : Collection
        With a survey.
    p : (a,) array
        The maximum.

    Returns
    -------
    DesignEffect, (a, a) array
        The covariance is J⁻¹VJ⁻¹ on the simplex's tangent space; nan for coordinates at 0 and for those that the reports do
        not identify.

    Raises
    ------
    InfeasibleError
        Where the rows are too large to write out.
    DataError
        Where a stratum has a single unit, or the population is smaller than the sample.
    """
    survey, tallies, size = collection.survey, collection.tallies, collection.n_categories
    entries = sum(len(tally.reports) for tally in tallies) * size
    if entries > MAX_ENTRIES:
        raise InfeasibleError(f"A design effect needs likelihood rows of at most {MAX_ENTRIES} entries, got {entries}.")
    rows, place = survey.respondents(tallies)
    inside = np.flatnonzero(p > 0)
    free = inside if inside.size > 1 else np.arange(size)  # at a corner reports vary as well, and the effect is about them
    weight = survey.counts * survey.weights
    weight = np.bincount(place, weight * (survey.n / weight.sum()), len(rows))
    basis = helmert(free.size).T
    scores, device, mixed = scores_of(rows[:, free], p[free], weight, basis)
    effect = survey.design(scores[place], device)
    covariance = np.full((size, size), np.nan)
    if inside.size > 1:
        _, inverse, unknown, scale = tangent_covariance(survey.n * mixed, p[free])
        bread = inverse @ basis
        part = bread @ effect.variance @ bread.T
        lost = (np.abs(unknown) > 1e-6 * scale[:, None]).any(axis=1)
        part[lost, :] = part[:, lost] = np.nan
        covariance[np.ix_(free, free)] = part
    return effect, covariance
