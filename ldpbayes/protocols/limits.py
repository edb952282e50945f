"""The least error that any protocol of a privacy level allows."""

import math

from ldpbayes import checks


def least_variance(n_categories: int, epsilon: float) -> float:
    """Return the least n·Σ_x E(P̂_x − p_x)² of any ε-LDP protocol and unbiased estimator at uniform p.

    See ``theory.bounds.exact_bound`` for what it bounds, and the proof.

    Parameters
    ----------
    n_categories : int
    epsilon : float

    Returns
    -------
    float

    Raises
    ------
    ArgumentError
        On anything else than two or more categories and ε above 0.
    """
    a, beta = checks.categories_count(n_categories), math.expm1(checks.epsilon(epsilon))

    def information_of(k: int) -> float:
        return a * beta**2 * k * (a - k) / (a + beta * k) ** 2

    # Unimodal in k, with the maximum over real k at a/(e^ε + 1).
    best = a / (beta + 2)
    trace = max(information_of(k) for k in {max(1, math.floor(best)), min(a - 1, max(1, math.ceil(best)))})
    return (a - 1) ** 2 / trace
