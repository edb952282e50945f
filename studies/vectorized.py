"""Many replications of one cell at once: simulation, estimators and posterior means of GRR, and counts of unary encoding."""

import math

import numpy as np
from scipy.special import gammaln

from ldpbayes.methods.conditioned_product import PowerFactors
from studies.batches import batch
from studies.tabulated import tabulate

#: The transforms of factors with this Σα or more die out fast enough for tables.
LEAST_ALPHA = 6.0
#: Places of log α about its prior median, in prior sds: a wide grid, and points of the fine one.
WIDE, FINE = np.linspace(-3.0, 3.0, 13), 13
#: Posterior weight of log α beyond which the fine grid does not reach.
NEGLIGIBLE = 1e-6


def project(estimates):
    """Return the nearest point of the simplex to each row, shape (R, a): Norm-Sub.

    Parameters
    ----------
    estimates : (R, a) array
    """
    a = estimates.shape[1]
    ordered = -np.sort(-estimates, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    kept = (ordered * np.arange(1, a + 1) > excess).sum(axis=1)
    theta = excess[np.arange(len(kept)), kept - 1] / kept
    return np.maximum(estimates - theta[:, None], 0.0)


def normalize(estimates):
    """Return the positive parts of each row, divided by their sum, shape (R, a); without any, the nearest point."""
    positive = np.maximum(estimates, 0.0)
    none = ~positive.any(axis=1)
    if none.any():
        positive[none] = project(estimates[none])
    return positive / positive.sum(axis=1, keepdims=True)


def grr_tallies(true_counts, epsilon, rng):
    """Return tallies of the reports of GRR, shape (R, a), for true counts of that shape."""
    a, beta = true_counts.shape[1], math.expm1(epsilon)
    truthful = rng.binomial(true_counts, beta / (a + beta))
    return truthful + rng.multinomial((true_counts - truthful).sum(axis=1), np.full(a, 1 / a))


def grr_oracle(tallies, epsilon):
    """Return ((a + β) s/n − 1)/β for each row of tallies."""
    a, beta = tallies.shape[1], math.expm1(epsilon)
    return ((a + beta) * tallies / tallies.sum(axis=1, keepdims=True) - 1) / beta


def grr_mle(tallies, epsilon):
    """Return the maximum likelihood estimates of GRR: max(0, s_x/λ − 1/β), λ = S_A/(1 + |A|/β) over the set A kept.

    Parameters
    ----------
    tallies : (R, a) array
    epsilon : float

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2020), App. B; Kairouz, Bonawitz, Ramage (2016), Prop. 6.
    """
    a, beta = tallies.shape[1], math.expm1(epsilon)
    ordered = -np.sort(-tallies, axis=1).astype(float)
    scale = np.cumsum(ordered, axis=1) / (1 + np.arange(1, a + 1) / beta)
    kept = (ordered * beta > scale).sum(axis=1)
    own = scale[np.arange(len(kept)), kept - 1]
    return np.maximum(tallies / own[:, None] - 1 / beta, 0.0)


def grr_posterior(tallies, epsilon, alpha, *, tables=None):
    """Return (mean, variance, log-evidence) of P under Dirichlet(α, …, α) for each row of GRR tallies.

    The evidence leaves out the constant (a + β)^−n.

    Parameters
    ----------
    tallies : (R, a) int array
    epsilon, alpha : float
    tables : bool, optional
        Whether distinct factors are transformed once for all rows; by default where transforms die out fast enough. Rows
        whose transforms do not are of second order in the saddle point.
    """
    replications, a = tallies.shape
    tables = a * alpha >= LEAST_ALPHA if tables is None else tables
    beta = math.expm1(epsilon)
    constant = gammaln(a * alpha) - a * gammaln(alpha)
    if not tables:
        powers = tallies.reshape(-1, 1).astype(float)
        found = batch(PowerFactors(np.full(powers.size, alpha), np.full(powers.shape, beta), powers), replications)
    else:
        values, index = np.unique(tallies, return_inverse=True)
        powers = values[:, None].astype(float)
        family = PowerFactors(np.full(values.size, alpha), np.full(powers.shape, beta), powers)
        found = tabulate(family, index.reshape(tallies.shape))
    return found.mean, found.variance, found.log_evidence + constant


def grr_learnt(tallies, epsilon, median=0.5):
    """Return (mean, variance, mean of F) for each row of GRR tallies, log α ~ N(log median, 1) being integrated over.

    The trapezoidal rule on a grid of log α that all rows share: a wide one finds where any row has weight.

    Parameters
    ----------
    tallies : (R, a) int array
    epsilon : float
    median : float
        Median of α a priori.
    """

    def at(places):
        found = [grr_posterior(tallies, epsilon, median * math.exp(t), tables=True) for t in places]
        mean, variance, evidence = (np.stack(parts) for parts in zip(*found, strict=True))
        log_weight = evidence - 0.5 * np.asarray(places)[:, None] ** 2
        weight = np.exp(log_weight - log_weight.max(axis=0))
        return mean, variance, weight / weight.sum(axis=0)

    places = WIDE
    for _ in range(4):
        mean, variance, weight = at(places)
        seen = np.flatnonzero(weight.max(axis=1) > NEGLIGIBLE)
        low, high = places[max(seen[0] - 1, 0)], places[min(seen[-1] + 1, places.size - 1)]
        # Each row's weights must spread over several points.
        if 1 / (weight**2).sum(axis=0).max() > 2.5:
            break
        places = np.linspace(low, high, max(FINE, min(25, 2 * (seen[-1] - seen[0]) + 3)))
    total = np.einsum("tr,tra->ra", weight, mean)
    spread = np.einsum("tr,tra->ra", weight, variance + (mean - total) ** 2)
    # E[F | Y, α] = ((aα + n) E[P | Y, α] − α)/n
    alpha = median * np.exp(places)[:, None, None]
    n, a = tallies.sum(axis=1, keepdims=True), tallies.shape[1]
    frequency = np.einsum("tr,tra->ra", weight, ((a * alpha + n) * mean - alpha) / n)
    return total, spread, frequency


def unary_counts(true_counts, kappa, lam, rng):
    """Return counts of bits of unary encoding, shape (R, a), for true counts of that shape."""
    users = true_counts.sum(axis=1, keepdims=True)
    return rng.binomial(true_counts, kappa) + rng.binomial(users - true_counts, lam)


def losses_of(found, aims):
    """Return {(estimator, target, metric): (R,) array} of squared and absolute errors summed over the categories.

    Parameters
    ----------
    found : dict
        {(estimator, target): (R, a) array}; the target None stands for every target.
    aims : dict
        {target: (R, a) array}.
    """
    out = {}
    for (name, target), value in found.items():
        for aim, truth in aims.items():
            if target in (None, aim):
                error = value - truth
                out[name, aim, "mse"] = (error**2).sum(axis=1)
                out[name, aim, "l1"] = np.abs(error).sum(axis=1)
    return out
