"""Post-processing of an unbiased estimate towards the simplex; each function is pure and returns a new array.

If no entry is positive, the Euclidean projection is returned instead of zeros.
"""

import numpy as np

from ldpbayes import checks
from ldpbayes.arguments import explained
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.estimators.base import estimate_array, project

#: Memory: Quadrature nodes times categories of a power law, in the largest array.
MAX_NODES = 2**16
#: Describes what all of them take and return.
_described = explained({"estimate": "estimate : (a,) array"}, {"Returns": "(a,) array"})


@_described
def truncate_and_renormalize(estimate):
    """Return max(0, F̂) divided by its sum: a point on the simplex."""
    positive = _positive_part(estimate)
    return positive / positive.sum()


@_described
def project_to_simplex(estimate):
    """Return the point of the simplex nearest to the estimate in Euclidean distance.

    References
    ----------
    Wang & Carreira-Perpiñán (2013).

    Examples
    --------
    >>> project_to_simplex([0.7, 0.5, -0.2]).round(3).tolist()
    [0.6, 0.4, 0.0]
    """
    return project(estimate_array(estimate))


#: Norm-Sub of Wang, Li, Li and Jha (2020), max(0, F̂ + δ) with δ such that it sums to one, is the same map.
norm_sub = project_to_simplex


@_described
def norm_cut(estimate):
    """Return the largest entries of F̂ whose sum stays at or below one, and 0 elsewhere: Norm-Cut.

    Negative entries become 0. While the rest sum to more than one, the smallest become 0 as well. By definition the
    result may sum to less than one.

    Returns
    -------
    (a,) array
        Non-negative; its sum is in (0, 1].

    Notes
    -----
    A largest entry that is itself above one stays, at one.

    References
    ----------
    Wang, Li, Li, Jha (2020).
    """
    positive = _positive_part(estimate)
    order = np.argsort(-positive, kind="stable")
    total = np.cumsum(positive[order])
    out = np.zeros_like(positive)
    kept = order[total <= 1 + 1e-12]
    if kept.size == 0:
        out[order[0]] = 1.0
    else:
        out[kept] = positive[kept]
    return out


@_described
def power_law(estimate, standard_error, n_reports, *, exponent=None, nodes=512):
    """Return the posterior mean of each frequency under a power-law prior, moved onto the simplex by Norm-Sub.

    F̂_x | F_x ~ N(F_x, se_x²) and F_x has density ∝ f^{−s} on [1/n, 1]. The exponent s maximizes the marginal likelihood
    Π_x ∫ N(F̂_x; f, se_x²) f^{−s} df / ∫ f^{−s} df of all categories together, unless it is given.

    Parameters
    ----------
    estimate : (a,) array
        Unbiased estimate, such as the oracle's.
    standard_error : float or (a,) array
        Above 0, such as the oracle's.
    n_reports : int
        Number of users; 1/n is the least frequency that a category can have and be present.
    exponent : float, optional
        s; fitted in [0, 5] by default.
    nodes : int
        Quadrature nodes, even in log f.

    References
    ----------
    Jia & Gong (2019), Calibrate; the fit of s by marginal likelihood and the last step are ours.
    """
    from scipy.optimize import minimize_scalar

    estimate = estimate_array(estimate)
    error = checks.reals(standard_error, "standard_error", "numbers above 0, one or one per category", ndim=None)
    if error.shape not in ((), (1,), estimate.shape):
        raise ArgumentError(f"standard_error must be one number or {estimate.size}, got shape {error.shape}.")
    error = np.broadcast_to(error, estimate.shape)
    if not (np.isfinite(error) & (error > 1 / checks.LARGEST)).all():
        raise ArgumentError("standard_error must be finite and above 0 for every category.")
    n_reports = checks.integer(n_reports, "n_reports", minimum=2, maximum=checks.MAX_COUNT)
    grid = np.geomspace(1 / n_reports, 1.0, checks.integer(nodes, "nodes", minimum=16, maximum=MAX_NODES))
    log_grid = np.log(grid)
    log_density = -0.5 * ((estimate[:, None] - grid) / error[:, None]) ** 2

    def log_prior(s):
        weights = (1 - s) * log_grid  # f^{−s} df = f^{1−s} d log f
        return weights - np.logaddexp.reduce(weights)

    def surprise(s):
        return -np.logaddexp.reduce(log_density + log_prior(s), axis=1).sum()

    if exponent is not None:
        exponent = checks.real(exponent, "exponent", "a number from -100 to 100")
        if not -100 <= exponent <= 100:
            raise ArgumentError(f"exponent must be a number from -100 to 100, got {shown(exponent)}.")
    else:
        exponent = minimize_scalar(surprise, bounds=(0.0, 5.0), method="bounded").x
    log_weights = log_density + log_prior(exponent)
    log_weights -= np.logaddexp.reduce(log_weights, axis=1, keepdims=True)
    return norm_sub(np.exp(log_weights) @ grid)


@_described
def ldp_recover(estimate, rates, share, *, targets=None, support=1.0):
    """Return the estimate of the honest users' frequencies after an attack, on the simplex: LDPRecover.

    With a share η of fakes the unbiased estimate is F̂ = (1 − η) F + η A in expectation, where A_x = (s_x − h)/(g − h) and
    s_x is the probability that a fake supports x. F = (F̂ − η A)/(1 − η) is recovered exactly where A is known; noise is
    then taken off by ``norm_sub``, the nearest point of the simplex.

    - ``support`` an array: s itself, such as ``protocol.crafted(targets).support``.
    - With targets (LDPRecover*): fakes support as many targets as they can and other categories with what is left of their
      support, evenly.
    - Without: only Σ A = (k − a h)/(g − h) is known, with k the number of categories that a fake supports. It is spread
      evenly over the categories whose estimate is above zero, as if these alone were attacked.

    Parameters
    ----------
    estimate : (a,) array
        The unbiased estimate from all reports.
    rates : pair of float
        g and h, ``protocol.hit_rates``.
    share : float
        η, the share of fakes among all reports; at least 0 and below 1. It is not estimated.
    targets : sequence of int, optional
        Positions of the attacked categories.
    support : float or (a,) array
        k, how many categories a fake supports on average, or s.

    Raises
    ------
    ArgumentError
        If an argument breaks its rule.

    References
    ----------
    Sun, Ye, Hu, Duan, Wo, Xu and Yang (2024), LDPRecover: recovering frequencies from poisoning attacks against local
    differential privacy, ICDE. Its share counts fakes per honest user, η/(1 − η); k is one there.

    Examples
    --------
    >>> from ldpbayes.protocols import GRR
    >>> import numpy as np
    >>> g, h = GRR(3, 1.0).hit_rates
    >>> honest, fakes = np.array([0.6, 0.3, 0.1]), (np.array([0.0, 0.0, 1.0]) - h) / (g - h)
    >>> ldp_recover(0.9 * honest + 0.1 * fakes, (g, h), 0.1, targets=[2]).round(3).tolist()
    [0.6, 0.3, 0.1]
    """
    estimate = estimate_array(estimate)
    a = estimate.size
    share = checks.probability(share, "share", open_high=True)
    rates = checks.entries(rates, "rates", "two numbers, g and h")
    if len(rates) != 2:
        raise ArgumentError(f"rates must be two numbers, g and h, got {shown(rates)}.")
    g, h = (checks.probability(rate, "rates") for rate in rates)
    if not h < g - 1e-12:
        raise ArgumentError(f"rates must be g and h with h below g, got {g!r} and {h!r}.")
    supports = checks.reals(support, "support", "a number or one probability for each category", ndim=None)
    if supports.shape not in ((), (a,)) or not (np.isfinite(supports) & (supports >= 0) & (supports <= a)).all():
        raise ArgumentError(f"support must be a number from 0 to {a}, or one probability for each category.")
    if targets is not None and supports.ndim:
        raise ArgumentError("targets must be left out where support has one probability for each category.")
    if supports.ndim:
        attack = (supports - h) / (g - h)
    elif targets is None:
        raised = estimate > 0
        raised = raised if raised.any() else np.ones(a, dtype=bool)
        attack = np.where(raised, (supports - a * h) / (g - h) / raised.sum(), 0.0)
    else:
        places = checks.values(targets, a, "targets")
        if not places.size or np.unique(places).size != places.size:
            raise ArgumentError("targets must be at least one category, each named once.")
        held, others = min(float(supports), places.size), a - places.size
        chances = np.full(a, (float(supports) - held) / others if others else 0.0)
        chances[places] = held / places.size
        attack = (chances - h) / (g - h)
    return norm_sub((estimate - share * attack) / (1 - share))


def _positive_part(estimate):
    """Return max(0, F̂), or the projection onto the simplex where no entry is positive."""
    estimate = estimate_array(estimate)
    positive = np.maximum(estimate, 0.0)
    return positive if positive.any() else project(estimate)
