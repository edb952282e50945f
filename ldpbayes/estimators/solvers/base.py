"""What the solvers share: the answer with its certificate, points with their gradients, and the line search."""

from dataclasses import dataclass

import numpy as np

from ldpbayes.arguments import explained
from ldpbayes.estimators.base import WORDS, described

#: Describes what solvers take and return.
solver = explained(WORDS, {"Returns": "Solution\n    The best point, whose gap may be above the tolerance."})
#: Time: Multiplications of one full Newton step above which full Hessians are not formed.
LARGE_NEWTON_OPERATIONS = 5e10


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found.

    Attributes
    ----------
    p : (a,) array
        On the simplex.
    gap : float
        Certified bound on the objective that p lacks, in nats.
    method : str
    iterations : int
    passes : float
        Passes over the rows; one is a value with its gradient, L @ p and L.T @ r.
    """

    p: np.ndarray
    gap: float
    method: str
    iterations: int
    passes: float


class Point:
    """A point with its objective, centred gradient of the log-likelihood, and certificate."""

    def __init__(self, p, value, gradient, mass):
        self.p, self.value = p, value
        self.centred = gradient - gradient @ p
        self.gap = duality_gap(gradient, p, mass)


@described
def certificate(rows, p, mass=None):
    """Return an upper bound on max_q objective(q) − objective(p), in nats.

    Without a prior: max_x g_x − n, g = Lᵀ(w/Lp). With one, only the likelihood is linearized: the bound is
    max_q Σ_x [g_x (q_x − p_x) + m_x log(q_x/p_x)], taken from above by its dual,
    λ − n + Σ_x m_x [log(m_x/((λ − g_x) p_x)) − 1] for any λ ≥ max g. See docs/theory/estimators.md.

    Returns
    -------
    float
        inf where p gives a report, or a category with mass, probability zero.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        _, gradient = rows.value_and_gradient(p)
    return duality_gap(gradient, p, mass)


def duality_gap(gradient, p, mass=None):
    """Return the certificate of p for the gradient (a,) of the log-likelihood at it, with the mass or None."""
    if not np.isfinite(gradient).all():
        return float("inf")
    level = float(gradient @ p)  # n, with the same rounding as the gradient
    if mass is None:
        return max(0.0, float(gradient.max()) - level)
    active = mass > 0
    if (p[active] <= 0).any():
        return float("inf")
    m, g = mass[active], gradient[active]
    lowest = max(float((g + m).max()), float(gradient.max()))  # Σ m/(λ − g) ≥ 1 at g_x + m_x
    lam = _dual_level(g, m, lowest, float(g.max() + m.sum()))
    lam = max(lam, float(gradient.max()))
    with np.errstate(divide="ignore"):
        bound = lam - level + float(np.sum(m * (np.log(m / ((lam - g) * p[active])) - 1)))
    return max(0.0, bound) if np.isfinite(bound) else float("inf")


def _dual_level(g, m, low, high):
    """Return λ ≥ low with Σ m/(λ − g) = 1 (low where the sum is already below one there), by safeguarded Newton."""
    lam = low
    for _ in range(100):
        share = m / (lam - g)
        excess = share.sum() - 1
        if excess <= 0 or lam >= high:  # convex and decreasing: Newton approaches the root from below
            break
        step = excess / (share / (lam - g)).sum()
        if step <= 1e-15 * abs(lam):
            break
        lam += step
    return lam


def prior_value(p, mass):
    """Return Σ mass log p, 0 without a prior."""
    if mass is None:
        return 0.0
    active = mass > 0
    with np.errstate(divide="ignore"):
        return float(mass[active] @ np.log(p[active]))


@described
def line_search(rows, here, q, mass):
    """Return (the point accepted on the way from here to q, or None; passes used).

    A point is accepted when the objective rises (Armijo), or, where the difference is lost to rounding, when the slope
    along the step has not turned back by more than 0.8 of itself or the certificate has become smaller.

    Parameters
    ----------
    here : Point
        Current point.
    q : (a,) array
        Proposed point of the simplex.
    """
    direction = q - here.p
    t, passes = 1.0, 0.0
    while t > 1e-9:
        p = q if t == 1 else here.p + t * direction
        with np.errstate(divide="ignore", invalid="ignore"):  # a report that p makes impossible: refused below
            value, gradient = rows.value_and_gradient(p)
        passes += 1
        prior = prior_value(p, mass)
        if np.isfinite(value + prior):
            there = Point(p, value + prior, gradient, mass)
            rise = t * (here.centred @ direction) + prior - prior_value(here.p, mass)
            change = there.value - here.value
            if change > 0 and change >= 1e-4 * rise:
                return there, passes
            lost = abs(change) <= 1e-11 * (abs(value) + rows.n_reports)
            back = there.centred if mass is None else there.centred + mass / np.maximum(p, 1e-300) - mass.sum()
            if lost and (there.gap < here.gap or t * (back @ direction) >= -0.8 * abs(rise)):
                return there, passes
        t *= 0.5 if t > 0.1 else 0.1
    return None, passes
