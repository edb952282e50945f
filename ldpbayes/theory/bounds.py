"""Lower bounds on the error of any estimator, for one protocol or for every ε-LDP protocol.

Squared errors are sums over the categories. Each function says for which n it holds.
"""

import math

import numpy as np
from scipy.linalg import helmert

from ldpbayes import checks
from ldpbayes.protocols.subset import least_variance
from ldpbayes.theory import base, information
from ldpbayes.theory.base import Value

__all__ = ["corollary_4_3", "delta", "exact_bound", "gamma", "theorem_4_1", "theorem_4_4", "theorem_4_5"]

_LOG_2PIE = math.log(2 * math.pi * math.e)


# ---- one protocol, one prior -----------------------------------------------------------------------------------------
@base.checked
def gamma(protocol, prior, *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return γ_μ(Q) = ((a−1)/2) log 2πe − ½ E log det Qᵀ diag(QP)⁻¹ Q = lim h(P|Y⃗) + ((a−1)/2) log n; +inf if rank Q < a.

    Large n. Equals −(a−1) U^as (Lopuhaä-Zwakenberg et al. 2020, (39) and Thm 4.2).

    Returns
    -------
    Value
        In nats.
    """
    value = information.log_det_gram(protocol, prior, draws=draws, simulations=simulations, random_seed=random_seed)
    free = protocol.n_categories - 1
    return Value(free / 2 * _LOG_2PIE - value.value / 2, value.standard_error / 2, value.method)


@base.checked
def delta(protocol, prior, *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return δ_μ(Q) = γ_μ(Q) + ½ E log(det G_P/Π_y (QP)_y) = lim H(F|Y⃗) − ((a−1)/2) log n.

    Large n. The (b−1)-dimensional determinant is never formed: det G_p/Π(Qp)_y = det(I − ST), with T the tangent
    information of one report and S = Uᵀ(diag p − ppᵀ)U, so the cost does not grow with b. −inf where the reports give the
    values away (2020, (40)).

    Returns
    -------
    Value
        In nats.
    """
    rng = checks.generator(random_seed)
    log_det, pointwise = information.at_each(protocol, _log_frequency_dets, simulations=simulations, random_seed=rng)
    found = base.average(prior, log_det, draws=draws, random_seed=rng, pointwise=pointwise)
    # log det D = log a + log det T on the tangent.
    value = (protocol.n_categories - 1) / 2 * _LOG_2PIE + (found.value - math.log(protocol.n_categories)) / 2
    return Value(value, found.standard_error / 2, found.method)


@base.checked
def corollary_4_3(protocol, prior, target="distribution", *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return (a/2πe) e^{2γ/(a−1)} (distribution) or (a/2πe) e^{2δ/(a−1)} (frequency): a floor under lim n·MSE.

    Holds as n → ∞, for this protocol and prior and any estimator (2020, Cor. 4.3).

    Returns
    -------
    Value
        Squared error of one user; divide by n.
    """
    entropy = (gamma if target == "distribution" else delta)(
        protocol, prior, draws=draws, simulations=simulations, random_seed=random_seed
    )
    return _entropy_power(entropy, protocol.n_categories)


@base.checked
def theorem_4_1(protocol, prior, n, *, draws=200, random_seed=0) -> Value:
    """Return (a/2πe) exp(2 h(P|Y⃗)/(a−1)) ≤ MSE^distr(Π_opt), with h(P|Y⃗) = h(P) − I(P;Y⃗).

    Holds at every n. I(P;Y⃗) is a sum over report tallies at tiny n, else the Monte Carlo mean of log P(Y|P)/P(Y) with
    exact evidences: for GRR any n and a (2020, Thm 4.1 and (23)).
    """
    from scipy.stats import dirichlet

    gained = information.reports_information(protocol, prior, n, draws=draws, random_seed=random_seed)
    entropy = Value(float(dirichlet(prior.alpha).entropy()) - gained.value, gained.standard_error, gained.method)
    return _entropy_power(entropy, protocol.n_categories)


# ---- every ε-LDP protocol ----------------------------------------------------------------------------------------------
@base.checked
def theorem_4_4(n_categories, epsilon, target="distribution", n_outputs=None) -> Value:
    """Return the floor of γ_μ(Q) or δ_μ(Q) over ε-LDP protocols: (a−1) log(√(2πe)/(e^ε−1)), less a term for δ.

    Large n, any prior. For δ the paper subtracts bε/2; without n_outputs the term here is (a−1)ε/2, which is smaller for
    every channel that identifies P (b ≥ a): an ε-LDP report is an erasure with probability e^{−ε}, hence no eigenvalue of
    ST (see delta) exceeds 1 − e^{−ε}.
    """
    free = checks.categories_count(n_categories) - 1
    floor = free * (0.5 * _LOG_2PIE - math.log(math.expm1(checks.epsilon(epsilon))))
    if target == "distribution":
        return Value(floor)
    b = free if n_outputs is None else checks.integer(n_outputs, "n_outputs", minimum=n_categories)
    return Value(floor - b * epsilon / 2)


@base.checked
def theorem_4_5(n_categories, epsilon, target="distribution", n_outputs=None) -> Value:
    """Return the floor under lim n·MSE for any ε-LDP protocol, prior and estimator: a/(e^ε−1)², or less for F.

    Holds as n → ∞; tight at a = 2 as ε → 0. For F the factor is e^{−ε} (see theorem_4_4), or with n_outputs the
    e^{−bε/(a−1)} that follows from the paper's (55); its (60) prints half that exponent.
    """
    return _entropy_power(theorem_4_4(n_categories, epsilon, target, n_outputs), n_categories)


@base.checked
def exact_bound(n_categories: int, epsilon: float, target: str = "distribution") -> Value:
    """Return the least n·Σ_x E(P̂_x − p_x)² of any ε-LDP protocol and unbiased estimator at uniform p.

    min_k (a−1)²(a+βk)²/(aβ²k(a−k)) over k = 1 … a−1, β = e^ε − 1; for F, 1 − 1/a less. It holds at every n for unbiased
    estimators, and as n → ∞ for all (locally minimax). Subset selection with the minimizing k attains it. It is the floor of
    the worst case over p: at other p, and averaged over a prior, a protocol can have less, and at small n a biased
    estimator can.

    Notes
    -----
    Let T be the Fisher information of one report on the tangent space {v : Σv = 0}, of dimension a − 1. Cramér–Rao bounds
    n·MSE by tr T⁻¹ ≥ (a−1)²/tr T. A report y with probabilities q_x adds ‖q − q̄‖²/q̄ to tr T, where q̄ = Σq_x/a is its
    probability at uniform p. This is convex and homogeneous of degree one in q, so tr T is greatest for rows at the corners
    of the cone max q ≤ e^ε min q: k entries e^ε θ and a − k entries θ, q̄ = θ(a+βk)/a. Such a row adds
    q̄ · aβ²k(a−k)/(a+βk)², and the q̄ sum to one, hence tr T ≤ max_k aβ²k(a−k)/(a+βk)². For subset selection T is a
    multiple of the identity, so both inequalities are equalities. Ye and Barg (2018, 2019) prove the same value
    asymptotically minimax.

    Examples
    --------
    >>> round(exact_bound(16, 1.0).value, 2)
    51.91
    """
    least = least_variance(n_categories, epsilon)
    return Value(least - (1 - 1 / n_categories if target == "frequency" else 0.0))


# ---- parts --------------------------------------------------------------------------------------------------------------
def _log_frequency_dets(fisher, p):
    """Return log det(T⁻¹ − S) for stacks T, p: the covariance of F̂ − F that one report leaves, S = Uᵀ(diag p − ppᵀ)U."""
    basis = helmert(p.shape[1]).T
    along = p @ basis
    spread = np.einsum("xi,mx,xj->mij", basis, p, basis, optimize=True) - along[:, :, None] * along[:, None, :]
    log_det = information.log_dets(fisher)
    faithful = log_det > -np.inf
    root = np.linalg.cholesky(np.where(faithful[:, None, None], fisher, np.eye(fisher.shape[1])))
    values = np.linalg.eigvalsh(np.swapaxes(root, 1, 2) @ spread @ root)
    revealed = values[:, -1] >= 1 - 1e-12
    out = np.log1p(-np.where(revealed[:, None], 0.0, values)).sum(axis=1) - np.where(faithful, log_det, 0.0)
    return np.where(faithful, np.where(revealed, -np.inf, out), np.inf)


def _entropy_power(entropy, n_categories):
    """Return (a/2πe) e^{2h/(a−1)} with the error of h carried over."""
    a = n_categories
    if entropy.value == math.inf:
        return Value(math.inf, 0.0, entropy.method)
    value = a * math.exp(2 * entropy.value / (a - 1) - _LOG_2PIE)
    return Value(value, 2 * value / (a - 1) * entropy.standard_error, entropy.method)
