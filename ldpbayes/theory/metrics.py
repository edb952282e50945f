"""Information-theoretic privacy and utility under a Dirichlet prior (Lopuhaä-Zwakenberg et al. 2019)."""

import math

import numpy as np
from scipy.special import digamma

from ldpbayes import checks
from ldpbayes.theory import base, information
from ldpbayes.theory.base import Value
from ldpbayes.theory.information import conditional_information, value_entropy

__all__ = [
    "asymptotic_utility",
    "average_privacy",
    "direct_answers_utility",
    "frontier",
    "ldp_level",
    "participation_factor",
    "worst_case_privacy",
]

_HALF_LOG_2PIE = 0.5 * math.log(2 * math.pi * math.e)


# ---- privacy -------------------------------------------------------------------------------------------------------
@base.checked
def ldp_level(protocol) -> Value:
    """Return LDP(Q) = max log Q[y,x]/Q[y,x'] in nats; inf where a report excludes a value but not all (deterministic).

    From the channel where it is small enough to list, else the protocol's own ε.
    """
    if not information.dense_feasible(protocol):
        return Value(protocol.epsilon)
    channel = protocol.channel()
    low, high = channel.min(axis=1), channel.max(axis=1)
    if ((low == 0) & (high > 0)).any():
        return Value(math.inf)
    seen = high > 0
    return Value(float(np.log(high[seen] / low[seen]).max()))


@base.checked
def worst_case_privacy(protocol) -> Value:
    """Return S^wc = e^{−LDP(Q)}, in [0, 1]; 0 for deterministic protocols (2019, Thm 5.3)."""
    return Value(math.exp(-ldp_level(protocol).value))


@base.checked
def average_privacy(protocol, prior, *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return S_μ(Q) = H(X|Y,P)/H(X|P) = 1 − I(Y;X|P)/H(X|P), in [S^wc, 1]; independent of n (2019, Def. 4.3)."""
    value = conditional_information(protocol, prior, draws=draws, simulations=simulations, random_seed=random_seed)
    entropy = value_entropy(prior).value
    return Value(1 - value.value / entropy, value.standard_error / entropy, value.method)


# ---- large n --------------------------------------------------------------------------------------------------------
@base.checked
def asymptotic_utility(protocol, prior, *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return U^as = −½log(2πe) + E log det(Qᵀ diag(QP)⁻¹ Q)/(2a − 2); −inf where rank Q < a (2019, Def. 6.5).

    The limit of (I(Y⃗;P) − h(P))/(a − 1) − ½ log n as n → ∞.

    Returns
    -------
    Value
        In nats.
    """
    value = information.log_det_gram(protocol, prior, draws=draws, simulations=simulations, random_seed=random_seed)
    free = 2 * (prior.n_categories - 1)
    return Value(value.value / free - _HALF_LOG_2PIE, value.standard_error / free, value.method)


@base.checked
def direct_answers_utility(prior) -> Value:
    """Return C_μ = U^as(identity) = −½log(2πe) − E Σ log P_x/(2a − 2), the most any protocol attains (2019, Lemma 6.6)."""
    logs = float((digamma(prior.alpha) - digamma(prior.total)).sum())
    return Value(-_HALF_LOG_2PIE - logs / (2 * (prior.n_categories - 1)))


@base.checked
def participation_factor(protocol, prior, *, draws=400, simulations=20_000, random_seed=0) -> Value:
    """Return F_μ = e^{2U^as − 2C_μ} in (0, 1]; 0 if rank Q < a.

    For large n, n reports carry as much information as F_μ n direct answers.
    """
    utility = asymptotic_utility(protocol, prior, draws=draws, simulations=simulations, random_seed=random_seed)
    ceiling = direct_answers_utility(prior).value
    factor = math.exp(2 * (utility.value - ceiling))
    return Value(factor, 2 * factor * utility.standard_error, utility.method)


def frontier(worst_case) -> Value:
    """Return the ceiling of U^as for any protocol with S^wc = worst_case: −½log(2πe) + log((1−S)/S) (2019, Thm 8.1)."""
    s = checks.probability(worst_case, "worst_case", open_low=True)
    return Value(-_HALF_LOG_2PIE + (math.log((1 - s) / s) if s < 1 else -math.inf))
