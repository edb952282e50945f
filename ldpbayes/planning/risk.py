"""Expected errors: exact for the oracles, asymptotic for the MLE, exact or Monte Carlo for the Bayes estimators."""

import math

import numpy as np
from scipy.linalg import helmert

from ldpbayes import checks
from ldpbayes.methods.frequency import frequency_moments
from ldpbayes.theory import base, information
from ldpbayes.theory.base import Value

__all__ = [
    "NORMS",
    "TARGETS",
    "average_risk",
    "balanced_mle_risk",
    "bayes_risk",
    "mle_risk",
    "oracle_risk",
    "spread",
]

TARGETS = ("distribution", "frequency")
NORMS = ("l2", "l1", "max")
#: Time: Reports up to which the trace of the information is a sum over all of them, however many categories there are.
MAX_REPORTS = 2**17


@base.checked
def oracle_risk(protocol, p, n, target="distribution", norm="l2") -> Value:
    """Return the risk of the protocol's unbiased oracle.

    l2: E‖F̂ − target‖² = Σ_x Var_x, exact at every n. l1: Σ_x √(2 Var_x/π), from the normal limit (large n).
    max: the largest standard error of a coordinate, exact.

    Parameters
    ----------
    p : (a,) array
        The distribution, or the users' true frequencies for target "frequency".

    References
    ----------
    Kairouz, Bonawitz, Ramage (2016), Prop. 3 and 4.
    """
    return Value(spread(np.asarray(protocol.oracle_variance(p, n, target)), norm))


@base.checked
def mle_risk(protocol, p, n, target="distribution", norm="l2", *, simulations=20_000, random_seed=0) -> Value:
    """Return the asymptotic risk of the MLE, which is also that of the Bayes estimators; inf where rank Q < a.

    l2: tr V/n (distribution) or (tr V − 1 + Σp²)/n (frequency); l1 and max as for oracle_risk. At uniform p and for
    exchangeable supports V = (I − J/a)/c with c = Σ_k W_k β²k(a−k)/(a(a−1)(1+βk/a)²), W_k the law of the support's size:
    k = 1 for GRR, w for subset selection, Bernoulli(g) + Binomial(a−1, h) for unary encoding and (ideal) local hashing.

    Parameters
    ----------
    n : int
        Users; the formula is the leading term in 1/n.

    References
    ----------
    van der Vaart (1998), ch. 5 and 8.
    """
    p = checks.distribution(p, "p", protocol.n_categories)
    saturated = _saturated_variance(protocol, p)
    if saturated is not None:
        return Value(_error(saturated, p, n, target, norm))
    law = information.support_law(protocol)
    if law is not None and np.ptp(p) <= 1e-15:
        curvature, a = law.curvature(), p.size
        variance = np.full(a, (a - 1) / (a * curvature) if curvature > 0 else math.inf)
        return Value(_error(variance, p, n, target, norm))

    def risk(fisher):
        return _error(_variances(fisher[None])[0], p, n, target, norm)

    batches, method = information.informations(protocol, p, simulations=simulations, random_seed=random_seed)
    return base.jackknife(risk, batches, method)


@base.checked
def balanced_mle_risk(protocol, p, n, target="distribution", norm="l2") -> Value:
    """Return mle_risk from the trace of the information alone: exact where it is a multiple of I, else a floor.

    (a−1)²/tr T ≤ tr T⁻¹. For Hadamard response at uniform p the gap is below 0.2 % from a = 30 on, for block designs below
    0.5 % from a = 16 on. If the channel cannot be listed, the result is the oracle's risk, an upper bound; the field
    ``method`` of the Value states this.
    """
    p = checks.distribution(p, "p", protocol.n_categories)
    a, b = p.size, protocol.n_outputs
    if b is None or (b > MAX_REPORTS and b * a > 2**24):
        value = oracle_risk(protocol, p, n, target, norm)
        return Value(value.value, 0.0, "oracle (an upper bound)")
    rows, ones = protocol.rows(protocol.all_reports(), np.ones(b)), np.ones(a)
    spread_of_row = rows.matvec(ones, 2) - rows.matvec(ones) ** 2 / a
    trace = float(np.exp(rows.log_constants) @ (spread_of_row / rows.matvec(p)))
    variance = np.full(a, (a - 1) ** 2 / (a * trace))
    return Value(_error(variance, p, n, target, norm), 0.0, "trace of the information")


@base.checked
def bayes_risk(protocol, prior, n, target="distribution", *, draws=200, random_seed=0) -> Value:
    """Return the MSE of the optimal estimator, E[P|Y] or E[F|Y]: E Σ_x Var(P_x|Y) or E Σ_x Var(F_x|Y).

    A sum over all report tallies where n users can send at most 1,000 of them; else a Monte Carlo mean, over simulated
    reports, of the exact inner variance (unbiased, with its standard error). Holds at every n.

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2020), Thm 3.1 and (87).
    """

    def posterior_spread(collection, found, p):
        if target == "distribution":
            return float(np.sum(found.variance))
        given_p = collection.likelihood.tally_moments
        return float((frequency_moments(found.mean, found.variance, prior.alpha, n, given_p)[1] ** 2).sum())

    return base.over_reports(protocol, prior, n, posterior_spread, draws=draws, random_seed=random_seed)


@base.checked
def average_risk(
    protocol, prior, n, target="distribution", norm="l2", *, estimator="mle", draws=100, random_seed=0
) -> Value:
    """Return the risk of the oracle or the MLE averaged over p from the prior.

    The oracle's ℓ2 risk for P is linear in Σp², so that one is closed; others are quadrature or Monte Carlo over p.

    Parameters
    ----------
    estimator : {"oracle", "mle"}
    """
    checks.choice(estimator, "estimator", ("oracle", "mle"))
    rng = checks.generator(random_seed)
    if estimator == "oracle" and norm == "l2" and protocol.hit_rates is not None:
        # For P the variances are quadratic in each p_x, for F linear: two evaluations per kind give the expectation.
        return Value(_expected_oracle_risk(protocol, prior, n, target))
    channel = information.explicit_channel(protocol) if estimator == "mle" else None

    def many(p):
        if estimator == "oracle":
            return np.array([oracle_risk(protocol, row, n, target, norm).value for row in p])
        if channel is None:
            return np.array([mle_risk(protocol, row, n, target, norm, random_seed=rng).value for row in p])
        variances = _variances(information.dense_informations(channel, p))
        return np.array([_error(variance, row, n, target, norm) for variance, row in zip(variances, p, strict=True)])

    return base.average(prior, many, draws=draws, random_seed=rng, pointwise=channel is None)


def spread(variance, norm) -> float:
    """Return the risk in this norm from the variances of the coordinates: Σ Var, Σ √(2 Var/π) or √max Var."""
    checks.choice(norm, "norm", NORMS)
    variance = checks.reals(variance, "variance", "finite variances", ndim=None, finite=False)
    if norm == "l2":
        return float(np.sum(variance))
    deviations = np.sqrt(np.maximum(variance, 0.0))
    return float(math.sqrt(2 / math.pi) * deviations.sum()) if norm == "l1" else float(deviations.max())


def _error(variance, p, n, target, norm):
    """Return the error of n reports from n times the variances about P: that about F is less by what direct answers vary."""
    return spread((variance - (p * (1 - p) if target == "frequency" else 0.0)) / n, norm)


def _variances(fisher):
    """Return n times the MLE's variances, (m, a), from tangent informations (m, a−1, a−1); inf where one lacks rank."""
    basis = helmert(fisher.shape[1] + 1).T
    deficient = information.log_dets(fisher) == -np.inf
    inverse = np.linalg.inv(np.where(deficient[:, None, None], np.eye(fisher.shape[1]), fisher))
    variance = np.einsum("xi,mij,xj->mx", basis, inverse, basis, optimize=True)
    variance[deficient] = np.inf
    return variance


def _saturated_variance(protocol, p):
    """Return n Var of the oracle where b = a and rank a: there the MLE inside the simplex is the oracle."""
    if protocol.n_outputs != protocol.n_categories or protocol.hit_rates is None:
        return None
    return np.asarray(protocol.oracle_variance(p, 1, "distribution"))


def _expected_oracle_risk(protocol, prior, n, target):
    """Return E_p Σ_x Var_x of a (g, h) oracle: q(1 − q) and its linear twin need only E p and E p²."""
    g, h = protocol.hit_rates
    mean = prior.mean
    square = mean * (prior.alpha + 1) / (prior.total + 1)
    if target == "frequency":
        noise = mean * g * (1 - g) + (1 - mean) * h * (1 - h)
    else:
        noise = h * (1 - h) + (g - h) * (1 - 2 * h) * mean - (g - h) ** 2 * square
    return float(noise.sum() / (n * (g - h) ** 2))
