"""Information-theoretic privacy and utility under a Dirichlet prior (Lopuhaä-Zwakenberg et al. 2019).

Where they appear, ``draws`` counts draws of P, each with its n reports where n is an argument, ``reports`` those simulated
where a channel is too large to sum over, and ``random_seed`` (int, SeedSequence or Generator) seeds both. They matter only
where no quadrature or sum is feasible; the Value then carries its Monte Carlo error.
"""

import math

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import digamma, gammaln, xlogy

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.protocols import subset
from ldpbayes.theory import base, information
from ldpbayes.theory.base import Value
from ldpbayes.theory.information import conditional_information, reports_information, value_entropy

#: Entropies of values and of their tallies are sums over all numbers of users up to n, held in memory.
MAX_LISTED = 10**7

_HALF_LOG_2PIE = 0.5 * math.log(2 * math.pi * math.e)


# ---- privacy -------------------------------------------------------------------------------------------------------
@base.checked
def ldp_level(protocol):
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
def worst_case_privacy(protocol):
    """Return S^wc = e^{−LDP(Q)}, in [0, 1]; 0 for deterministic protocols (2019, Thm 5.3)."""
    return Value(math.exp(-ldp_level(protocol).value))


@base.checked
def average_privacy(protocol, prior, *, draws=400, reports=20_000, random_seed=0):
    """Return S_μ(Q) = H(X|Y,P)/H(X|P) = 1 − I(Y;X|P)/H(X|P), in [S^wc, 1]; independent of n (2019, Def. 4.3).

    Parameters
    ----------
    protocol : AbstractProtocol
    prior : Dirichlet
    draws : int
        Draws of P where no quadrature is feasible.
    reports : int
        Reports simulated where the channel is too large to sum over.
    random_seed : int, SeedSequence or Generator

    Returns
    -------
    Value
    """
    found = conditional_information(protocol, prior, draws=draws, reports=reports, random_seed=random_seed)
    entropy = value_entropy(prior).value
    return Value(1 - found.value / entropy, found.standard_error / entropy, found.method)


# ---- one report ----------------------------------------------------------------------------------------------------
@base.checked
def report_information(protocol, p=None, *, reports=20_000, random_seed=0):
    """Return I(X;Y) in nats of one report when X ~ p (uniform by default).

    Σ_k W_k I_k for exchangeable supports at uniform p (Wang et al. 2016, Thm 2.1 and (8)); a sum over the reports, or
    simulation, otherwise.

    Parameters
    ----------
    protocol : AbstractProtocol
    p : (a,) array, optional
        Distribution of the value; uniform by default.
    reports : int
        Reports simulated where the channel is too large to sum over.
    random_seed : int, SeedSequence or Generator

    Returns
    -------
    Value
        In nats.

    Raises
    ------
    ArgumentError
        If an argument breaks its rule.
    """
    a = protocol.n_categories
    p = np.full(a, 1 / a) if p is None else checks.distribution(p, "p", a)
    law = information.support_law(protocol)
    if law is not None and np.ptp(p) <= 1e-15:
        return Value(float(law.weights @ [subset_information(a, protocol.epsilon, k).value for k in law.sizes]))
    if information.dense_feasible(protocol):
        channel = protocol.channel()
        mixed = channel @ p
        return Value(float(-xlogy(mixed, mixed).sum() + p @ xlogy(channel, channel).sum(axis=0)), 0.0, "sum over reports")
    rng = checks.generator(random_seed)
    ratios = np.concatenate([information.log_ratios(protocol, p, size, rng) for size in information.chunks(reports, a)])
    return Value(float(ratios.mean()), float(ratios.std(ddof=1) / math.sqrt(ratios.size)), "Monte Carlo")


def subset_information(n_categories, epsilon, size):
    """Return I_k, the mutual information in nats of one report of SS(k) under a uniform prior; 0 at k = 0 and k = a.

    I_k = [k e^ε log(a e^ε/(k e^ε + a − k)) + (a − k) log(a/(k e^ε + a − k))]/(k e^ε + a − k) (Wang et al. 2016, Thm 2.1).

    Parameters
    ----------
    n_categories : int
        Number of categories, a ≥ 2.
    epsilon : float
        LDP level in nats.
    size : int
        k, from 0 to a.

    Returns
    -------
    Value
        In nats.

    Raises
    ------
    ArgumentError
        If an argument breaks its rule.
    """
    a, k = checks.categories_count(n_categories), checks.integer(size, "size", 0, n_categories)
    return Value(subset.mutual_information(a, checks.epsilon(epsilon), k))


# ---- many reports ---------------------------------------------------------------------------------------------------
@base.checked
def values_information(prior, n):
    """Return I(X⃗;P) in nats of n open answers, exact in O(a n)."""
    n = checks.integer(n, "n", 1, MAX_LISTED)
    return Value(_values_entropy(prior, n) - n * value_entropy(prior).value)


@base.checked
def tally_entropy(prior, n):
    """Return H(T) in nats of the tallies of n values, exact in O(a n)."""
    n = checks.integer(n, "n", 1, MAX_LISTED)
    coefficient = math.lgamma(n + 1) - sum(w @ gammaln(np.arange(n + 1) + 1) for w in _tally_margins(prior, n))
    return Value(float(_values_entropy(prior, n) - coefficient))


@base.checked
def distribution_utility(protocol, prior, n, *, draws=200, random_seed=0, moments=None):
    """Return U^distr = I(Y⃗;P)/I(X⃗;P) at n users, in [0, 1] (2019, §4).

    Parameters
    ----------
    protocol : AbstractProtocol
    prior : Dirichlet
    n : int
        Number of users.
    draws : int
        Simulated collections.
    random_seed : int, SeedSequence or Generator
    moments : callable, optional
        (collection, prior) -> object with mean, variance and log_evidence; the exact posterior by default.

    Returns
    -------
    Value
    """
    full = values_information(prior, n).value  # refuses what does not fit, before anything is simulated
    found = reports_information(protocol, prior, n, draws=draws, random_seed=random_seed, moments=moments)
    return Value(found.value / full, found.standard_error / full, found.method)


@base.checked
def digit_utility(protocol, prior, n, *, draws=200, random_seed=0, moments=None):
    """Return U^digit = (I(Y⃗;P) − h(P))/(a − 1) at n users, in nats per free coordinate; U^digit − ½log n → U^as.

    Parameters
    ----------
    protocol : AbstractProtocol
    prior : Dirichlet
    n : int
        Number of users.
    draws : int
        Simulated collections.
    random_seed : int, SeedSequence or Generator
    moments : callable, optional
        (collection, prior) -> object with mean, variance and log_evidence; the exact posterior by default.

    Returns
    -------
    Value
        In nats.
    """
    found = reports_information(protocol, prior, n, draws=draws, random_seed=random_seed, moments=moments)
    free = prior.n_categories - 1
    return Value((found.value - base.dirichlet_entropy(prior.alpha)) / free, found.standard_error / free, found.method)


@base.checked
def tally_utility(protocol, prior, n, *, limit=4_000_000):
    """Return U^tally = I(Y⃗;T)/H(T) at n users, exact; refused where tallies × report tallies exceed ``limit``.

    I(Y⃗;T) = I(S;T), S the tallies of the reports; P(S|T) is built up one user at a time.

    Parameters
    ----------
    protocol : AbstractProtocol
    prior : Dirichlet
    n : int
        Number of users.
    limit : int
        Largest number of pairs (tallies, report tallies) that is computed.

    Returns
    -------
    Value

    Raises
    ------
    InfeasibleError
        If the numbers needed are more than ``limit``.
    """
    n = checks.users_count(n)
    a, b = prior.n_categories, protocol.n_outputs
    work = math.inf if b is None else math.comb(n + a - 1, n) * float(n + 1) ** (b - 1)
    if work > limit:
        raise InfeasibleError(
            f"The exact tally utility needs {work:.2g} numbers for {n} users, more than {limit:g}; use fewer users, or "
            "limits() for large n."
        )
    given = {(0,) * a: _one_hot_start(n, b)}
    channel = protocol.channel()
    for _ in range(n):
        given = _one_more_user(given, channel)
    tallies = np.array(list(given))
    weights = np.exp(base.log_multinomial(tallies) + _log_dirichlet_ratio(prior.alpha, tallies))
    stacked = np.array([law.ravel() for law in given.values()])
    mixed = weights @ stacked
    found = -xlogy(mixed, mixed).sum() + weights @ xlogy(stacked, stacked).sum(axis=1)
    return Value(float(found / tally_entropy(prior, n).value), 0.0, "sum over reports")


# ---- large n --------------------------------------------------------------------------------------------------------
@base.checked
def asymptotic_utility(protocol, prior, *, draws=400, reports=20_000, random_seed=0):
    """Return U^as = −½log(2πe) + E log det(Qᵀ diag(QP)⁻¹ Q)/(2a − 2); −inf where rank Q < a (2019, Def. 6.5).

    The limit of U^digit − ½ log n as n → ∞.

    Parameters
    ----------
    protocol : AbstractProtocol
    prior : Dirichlet
    draws : int
        Draws of P where no quadrature is feasible.
    reports : int
        Reports simulated where the channel is too large to sum over.
    random_seed : int, SeedSequence or Generator

    Returns
    -------
    Value
        In nats.
    """
    found = information.log_det_gram(protocol, prior, draws=draws, reports=reports, random_seed=random_seed)
    free = 2 * (prior.n_categories - 1)
    return Value(found.value / free - _HALF_LOG_2PIE, found.standard_error / free, found.method)


@base.checked
def open_answers_utility(prior):
    """Return C_μ = U^as(identity) = −½log(2πe) − E Σ log P_x/(2a − 2), the most any protocol attains (2019, Lemma 6.6)."""
    logs = float((digamma(prior.alpha) - digamma(prior.total)).sum())
    return Value(-_HALF_LOG_2PIE - logs / (2 * (prior.n_categories - 1)))


@base.checked
def participation_factor(protocol, prior, *, draws=400, reports=20_000, random_seed=0):
    """Return F_μ = e^{2U^as − 2C_μ} in (0, 1]; 0 if rank Q < a.

    For large n, n reports carry as much information as F_μ n open answers.

    Parameters
    ----------
    protocol : AbstractProtocol
    prior : Dirichlet
    draws : int
        Draws of P where no quadrature is feasible.
    reports : int
        Reports simulated where the channel is too large to sum over.
    random_seed : int, SeedSequence or Generator

    Returns
    -------
    Value
    """
    utility = asymptotic_utility(protocol, prior, draws=draws, reports=reports, random_seed=random_seed)
    ceiling = open_answers_utility(prior).value
    factor = math.exp(2 * (utility.value - ceiling))
    return Value(factor, 2 * factor * utility.standard_error, utility.method)


@base.checked
def limits(protocol):
    """Return {"distribution": (d−1)/(a−1), "tally": (d+b'−2)/(2a−2)}, the limits of U^distr and U^tally as n → ∞.

    d = rank Q; b' = number of classes of reports that share no value (2019, Def. 6.3 and Cor. 6.8).
    """
    a = protocol.n_categories
    if information.dense_feasible(protocol):
        channel = protocol.channel()
        rank = int(np.linalg.matrix_rank(channel))
        report, value = np.nonzero(channel)
        size = len(channel) + a
        graph = coo_array((np.ones(len(report)), (report, len(channel) + value)), shape=(size, size))
        classes = connected_components(graph, directed=False)[0] - int((channel.max(axis=1) == 0).sum())
    elif protocol.decoder() is not None:
        rank, classes = protocol.decoder().rank, 1
    else:
        raise InfeasibleError(f"{protocol} has too many reports for the rank of its channel.")
    return {"distribution": Value((rank - 1) / (a - 1)), "tally": Value((rank + classes - 2) / (2 * a - 2))}


def frontier(worst_case):
    """Return the ceiling of U^as for any protocol with S^wc = worst_case: −½log(2πe) + log((1−S)/S) (2019, Thm 8.1)."""
    s = checks.probability(worst_case, "worst_case", open_low=True)
    return Value(-_HALF_LOG_2PIE + (math.log((1 - s) / s) if s < 1 else -math.inf))


# ---- parts ------------------------------------------------------------------------------------------------------------
def _tally_margins(prior, n):
    """Yield P(T_x = 0..n) for each category."""
    for alpha in prior.alpha:
        yield np.exp(base.beta_binomial_logpmf(n, alpha, prior.total - alpha))


def _values_entropy(prior, n):
    """Return H(X⃗) = −E log B(α+T)/B(α) of n values."""
    k = np.arange(n + 1)
    gains = (w @ (gammaln(al + k) - gammaln(al)) for w, al in zip(_tally_margins(prior, n), prior.alpha, strict=True))
    return math.lgamma(prior.total + n) - math.lgamma(prior.total) - float(sum(gains))


def _log_dirichlet_ratio(alpha, tallies):
    """Return log B(α + t)/B(α) for each row t."""
    total = alpha.sum()
    rising = gammaln(alpha + tallies) - gammaln(alpha)
    return rising.sum(axis=1) + gammaln(total) - gammaln(total + tallies.sum(axis=1))


def _one_hot_start(n, b):
    """Return the law of zero reports' tallies: axes are the counts of all reports but the last."""
    out = np.zeros((n + 1,) * (b - 1))
    out[(0,) * (b - 1)] = 1.0
    return out


def _one_more_user(given, channel):
    """Return the laws P(S|T) with one user more from those with one less."""
    grown = {}
    for tally, law in given.items():
        for x in range(len(tally)):
            key = (*tally[:x], tally[x] + 1, *tally[x + 1 :])
            if key not in grown:
                grown[key] = sum(q * (np.roll(law, 1, axis=y) if y < law.ndim else law) for y, q in enumerate(channel[:, x]))
    return grown
