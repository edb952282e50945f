"""Models compared by their likelihoods: information criteria, equal distributions in all cells, and full compliance."""

import math

import numpy as np
from scipy.special import chdtrc

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection, as_collection
from ldpbayes.collections.data import mechanisms
from ldpbayes.collections.noncompliance import compliers_only
from ldpbayes.collections.wrappers import AbstractWrapper
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.estimators.base import information_covariance
from ldpbayes.estimators.mle import maximize
from ldpbayes.fitness.base import Check, ComplianceTest
from ldpbayes.fitness.constants import TINY
from ldpbayes.presenting import recorded

#: Time: Simulated Z for the weights of a boundary of three shares and more.
SIMULATED = 4000


def information_criteria(collection: Collection, log_likelihood: float | None = None) -> dict[str, float]:
    """Return AIC and BIC, which compare designs (with and without respondents who ignore the device) on the same reports.

    Parameters
    ----------
    collection : Collection
    log_likelihood : float, optional
        The maximum, where it is known.

    Returns
    -------
    dict
        aic, 2 k − 2 log-likelihood; bic, k log n − 2 log-likelihood; and parameters, k: the free shares that the reports can
        determine.

    References
    ----------
    Akaike (1974), IEEE Transactions on Automatic Control 19; Schwarz (1978), Annals of Statistics 6.
    """
    checks.instance(collection, "collection", Collection, "a Collection")
    if log_likelihood is not None:
        log_likelihood = checks.real(log_likelihood, "log_likelihood")
    else:
        log_likelihood = float(collection.rows.log_likelihood(maximize(collection.rows).p))
    k = _free(collection)
    deviance = -2 * log_likelihood
    return {"aic": 2 * k + deviance, "bic": k * float(np.log(collection.n_reports)) + deviance, "parameters": k}


def _free(collection: Collection) -> int:
    """Return the number of free shares that the reports can determine."""
    return collection.n_categories - 1 - len(collection.null_space)


def equality_test(cells: Cells) -> Check:
    """Return the likelihood-ratio test that all cells have the same distribution.

    2 [Σ_c max ℓ_c(p_c) − max Σ_c ℓ_c(p)] is χ² under equality, with the free shares of the cells less those of the pooled
    reports as degrees of freedom. Where shares are zero it has fewer, and the p-value is an upper bound.

    Parameters
    ----------
    cells : Cells
        Of collections.

    Returns
    -------
    Check

    Raises
    ------
    InfeasibleError
        Where a cell is a summary, or there is one cell only.
    """
    checks.instance(cells, "cells", Cells, "Cells")
    if len(cells) < 2:
        raise InfeasibleError("One cell has nothing to be compared with.")
    try:
        pooled = cells.pooled()
    except ArgumentError as err:
        raise InfeasibleError(f"Cells cannot be compared: {err}") from err
    p = maximize(pooled.rows).p
    statistic, df = 0.0, -_free(pooled)
    for cell in cells.values():
        own = maximize(cell.rows).p
        statistic += 2 * float(cell.rows.log_likelihood(own) - cell.rows.log_likelihood(p))
        df += _free(cell)
    statistic, df = max(statistic, 0.0), max(df, 1)
    detail = f"likelihood ratio {statistic:.4g} on {df} degrees of freedom"
    p_value = float(chdtrc(df, statistic))
    return Check("equal distributions in all cells", "", statistic, df, p_value, "chi-squared", detail=detail)


@recorded
def compliance_test(collection: Collection) -> ComplianceTest:
    """Return the likelihood-ratio test that nobody denies or ignores the device, for a collection that says how some may.

    Where some reports are impossible then, the statistic is infinite and p = 0. Zero lies on the boundary: with one law the
    statistic is 0 or χ²₁ with probability ½ each; with m laws, or m categories that are denied, it is χ²_j with the
    probability that j coordinates of Z ~ N(0, V), projected on Z ≥ 0 in the metric of V⁻¹, are positive. V is the covariance
    of the m shares by the observed information under the null hypothesis. Where that does not exist, the mixture of χ² with
    m − 1 and m degrees of freedom bounds the p-value from above.

    Raises
    ------
    InfeasibleError
        Where the reports do not identify the shares, or are weighted: the statistic has no χ² law then.

    References
    ----------
    Self and Liang (1987), Journal of the American Statistical Association 82; Shapiro (1985), Biometrika 72.
    """
    wrapper = need_noncompliers(collection)
    test = collection.noncompliance()
    if not test.identified:
        raise InfeasibleError(test.sentence)
    if collection.weighted:
        raise InfeasibleError(
            f"The test of {wrapper.nobody} takes no sampling weights: its statistic has no known law then."
        )
    rows, m, source = collection.rows, len(collection.laws), mechanisms(collection.channels())
    p = maximize(rows).p
    gamma = float(p[-m:].sum())
    try:
        plain = compliers_only(collection).rows
    except DataError:  # reports that nobody sends who follows the device
        return ComplianceTest(math.inf, 0.0, gamma, wrapper, source)
    null = maximize(plain).p
    gain = float(rows.log_likelihood(p) - plain.log_likelihood(null))
    statistic = max(2 * gain, 0.0) if p[-m:].any() else 0.0  # both maxima are one then, but for rounding
    covariance = information_covariance(rows, np.append(null, np.full(m, TINY)))[-m:, -m:]
    tails = [float(statistic <= 0.0), *(chdtrc(j, statistic) for j in range(1, m + 1))]
    p_value = float(boundary_weights(covariance) @ tails)
    return ComplianceTest(statistic, p_value, gamma, wrapper, source)


def boundary_weights(covariance: np.ndarray) -> np.ndarray:
    """Return the probabilities that 0, …, m coordinates of Z ~ N(0, V) are positive after its projection on Z ≥ 0.

    Parameters
    ----------
    covariance : (m, m) array
        V; where it is not known, half the weight is on m − 1 and half on m, which no other weights exceed.

    Notes
    -----
    The projection is in the metric of V⁻¹. With two coordinates the probabilities are ¼ − q, ½ and ¼ + q with
    q = arcsin(correlation)/2π; with more they are those of simulated Z, the same ones each time.
    """
    m = len(covariance)
    weights, scale = np.zeros(m + 1), np.sqrt(np.abs(covariance.diagonal()))
    if m == 1 or not (np.isfinite(covariance).all() and (scale > 0).all()):
        weights[-2:] = 0.5
        return weights
    correlation = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    if m == 2:
        beyond = np.arcsin(correlation[0, 1]) / (2 * np.pi)
        return np.array([0.25 - beyond, 0.5, 0.25 + beyond])
    values, vectors = np.linalg.eigh(correlation)
    root = np.sqrt(np.maximum(values, values[-1] * 1e-12))
    whitened = vectors.T / root[:, None]
    from scipy.optimize import nnls

    for z in np.random.default_rng(0).standard_normal((SIMULATED, m)):
        weights[(nnls(whitened, z)[0] > 0).sum()] += 1 / SIMULATED
    return weights


def need_noncompliers(collection: Collection) -> AbstractWrapper:
    """Return who may deny or ignore the device in a collection, or raise an ArgumentError where nobody may."""
    wrapper = as_collection(collection).wrapper
    if wrapper is None:
        raise ArgumentError("collection must be one made by with_noncompliers or with_deniers.")
    return wrapper
