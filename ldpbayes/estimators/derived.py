"""The point estimates beside a posterior, and those of derived quantities, with standard errors by the delta method."""

from dataclasses import replace

import numpy as np

from ldpbayes.collections import Derived
from ldpbayes.collections.derived import columns_of
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators.base import EXACT_INFORMATION_OPERATIONS, observed_information, tangent_covariance
from ldpbayes.estimators.estimate import Estimate
from ldpbayes.estimators.linearized import linearized


def point_estimates(collection):
    """Return the estimates shown beside a posterior: MLE, and the oracle where the channels have one.

    Where respondents may ignore the device, the MLE is that of the compliers; there is none where γ is not identified.
    """
    from ldpbayes.estimators.mle import MLE
    from ldpbayes.estimators.oracle import Oracle

    if collection.wrapper and not (collection.wrapper.tested and collection.noncompliance().identified):
        return []
    if collection.laws:
        return [among_compliers(with_derived(MLE()(collection), collection), collection)]
    estimates = [MLE()(collection)]
    try:
        estimates.append(Oracle()(collection))
    except (ArgumentError, InfeasibleError):
        pass  # Rank-deficient and very large channels have no oracle; the table leaves its column out.
    return [with_derived(estimate, collection) for estimate in estimates]


def with_derived(estimate: Estimate, collection, quantities=None) -> Estimate:
    """Return the estimate with the collection's derived quantities evaluated at it.

    A quantity q(p) = (Σ_of p)/(Σ_given p) has the gradient (1[of] − q 1[given])/Σ_given p (without given: 1[of]), and by
    the delta method the variance ∇qᵀ Cov ∇q with Cov from the observed information at the maximum. Categories at zero
    count as known.

    Parameters
    ----------
    estimate : Estimate
    collection : Collection
    quantities : sequence of Derived, optional
        Instead of those of the collection.

    Returns
    -------
    Estimate
        With ``derived`` and ``derived_error``, one entry per quantity. Errors are nan for estimators other than the MLE,
        for quantities that the reports do not identify or that are 0 or 1 at the maximum, and where the covariance would
        take too long.
    """
    quantities = collection.derived if quantities is None else quantities
    if not quantities:
        return estimate
    p = estimate.distribution
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.array([item.evaluate(p, collection.categories) for item in quantities], dtype=float)
    errors = np.full(values.size, np.nan)
    rows, size = collection.rows, collection.n_categories
    work = rows.n_rows * float(size) ** 2 + 10.0 * size**3
    if estimate.name == "mle" and work <= EXACT_INFORMATION_OPERATIONS:
        free, inside, unknown, scale = tangent_covariance(observed_information(rows, p), p)
        covariance = np.zeros((size, size))
        covariance[np.ix_(free, free)] = linearized(collection, p)[1][np.ix_(free, free)] if collection.weighted else inside
        gradients = [_gradient(item, value, p, collection) for item, value in zip(quantities, values, strict=True)]
        errors = np.array([_error(gradient, covariance, free, unknown, scale) for gradient in gradients])
        # On the boundary nothing of the quantity is estimated; a category at zero has no standard error either.
        of_all = [set(item.of) == set(item.given or collection.categories) for item in quantities]
        errors[((values <= 0) | (values >= 1)) & ~np.array(of_all)] = np.nan
    return replace(estimate, derived=values, derived_error=errors)


def among_compliers(estimate: Estimate, collection) -> Estimate:
    """Return an MLE of p′ as an estimate of P, of the compliers or of all where some deny, with errors by the delta method.

    Parameters
    ----------
    estimate : Estimate
        Of a collection made by ``with_noncompliers`` or ``with_deniers``.
    collection : Collection
    """
    columns = columns_of(collection, collection.answers)
    shares = tuple(Derived("share", columns_of(collection, (label,)), columns) for label in collection.answers)
    estimates = with_derived(estimate, collection, shares)
    return replace(estimate, distribution=np.asarray(estimates.derived), standard_error=estimates.derived_error)


def _gradient(item, value, p, collection):
    inside = np.isin(collection.categories, item.of).astype(float)
    if not item.given:
        return inside
    given = np.isin(collection.categories, item.given).astype(float)
    total = float(given @ p)
    return (inside - value * given) / total if total > 0 else np.full(p.size, np.nan)


def _error(gradient, covariance, free, unknown, scale):
    if (np.abs(gradient[free] @ unknown) > 1e-6 * (np.abs(gradient[free]) @ scale)).any():
        return float("nan")  # it moves with what the reports do not identify
    used = gradient != 0  # categories that the quantity does not touch may be unidentified
    variance = gradient[used] @ covariance[np.ix_(used, used)] @ gradient[used]
    return float(np.sqrt(max(variance, 0.0))) if np.isfinite(variance) else float("nan")
