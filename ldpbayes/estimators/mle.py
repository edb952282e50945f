"""Maximum likelihood and posterior mode on the simplex for any likelihood rows, each with a duality certificate."""

from dataclasses import dataclass

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.compiling import OneThread
from ldpbayes.errors import ArgumentError, DiagnosticWarning, warn
from ldpbayes.estimators.base import standard_errors
from ldpbayes.estimators.estimate import Estimate
from ldpbayes.estimators.linearized import linearized
from ldpbayes.estimators.solvers.base import LARGE_NEWTON_OPERATIONS, Solution, certificate, solver
from ldpbayes.estimators.solvers.convex import constrained
from ldpbayes.estimators.solvers.newton import newton
from ldpbayes.estimators.solvers.quasi_newton import quasi_newton
from ldpbayes.presenting import recorded
from ldpbayes.priors import as_dirichlet

#: Time: Multiplications of one full Newton step below which it is cheaper than the quasi-Newton bookkeeping.
SMALL_NEWTON_OPERATIONS = 5e6


@dataclass(frozen=True)
class MLE:
    """The maximum of Σ_j w_j log (Lp)_j over the simplex, or with a prior that of the posterior density.

    It stops on the certificate log-likelihood* − log-likelihood(p) ≤ max_x (Lᵀ(w/Lp))_x − n, which is computed afresh for
    the answer of every method. See docs/theory/estimators.md.

    Parameters
    ----------
    tolerance : float
        Largest certified gap in nats, absolute; 0.01 is already 1e-4 of a standard error.
    max_iterations : int
    prior : optional
        Dirichlet, vector, number or "flat" with every α ≥ 1: the posterior mode (MAP). None is maximum likelihood.
    constraints : callable, optional
        p (a cvxpy Variable) -> list of convex cvxpy constraints, such as ``lambda p: [p[:-1] >= p[1:]]``. Solved by
        sequential quadratic programs through cvxpy, usually two to five; 100 categories take about a second at any n.
        The certificate is the maximum of the linearized likelihood over the constrained set (a linear program).
        No standard errors; not with a prior.

    Examples
    --------
    >>> from ldpbayes.protocols import warner
    >>> from ldpbayes.collections import Collection, Tally
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])])
    >>> estimate = MLE()(survey)
    >>> estimate.distribution.round(3).tolist(), estimate.standard_error.round(3).tolist()
    ([0.75, 0.25], [0.122, 0.122])

    References
    ----------
    Lopuhaä-Zwakenberg, Škorić, Li (2020), (22) and Appendix B.
    """

    tolerance: float = 1e-6
    max_iterations: int = 500
    prior: object = None
    constraints: object = None

    def __post_init__(self):
        object.__setattr__(self, "tolerance", checks.positive(self.tolerance, "tolerance"))
        object.__setattr__(self, "max_iterations", checks.integer(self.max_iterations, "max_iterations", minimum=1))
        if self.constraints is not None and not callable(self.constraints):
            raise ArgumentError("constraints must be a function of the cvxpy variable p that returns a list of constraints.")
        if self.constraints is not None and self.prior is not None:
            raise ArgumentError("constraints must come without a prior.")

    @recorded
    def __call__(self, collection: Collection | Tally) -> Estimate:
        """Return the Estimate for a Collection or a Tally.

        Raises
        ------
        ArgumentError
            Where the prior has some α < 1.
        InfeasibleError
            Where no distribution meets the constraints.

        Warns
        -----
        DiagnosticWarning
            Where the certificate stays above the tolerance.
        """
        collection = as_collection(collection)
        rows = collection.rows
        mass = prior_mass(self.prior, collection.n_categories)
        name = "mle" if mass is None else "map"
        if self.constraints is not None:
            solution = constrained(rows, self.constraints, self.tolerance, self.max_iterations)
        else:
            solution = maximize(rows, mass, self.tolerance, self.max_iterations)
        certified = solution.gap <= self.tolerance
        sentences = [_verdict(solution, self.tolerance, certified)]
        if self.constraints is not None:
            error, exact = None, True
            sentences.append("No standard errors: those of the information do not hold under constraints.")
        elif collection.weighted:
            effect, covariance = linearized(collection, solution.p)
            error, exact = np.sqrt(covariance.diagonal()), True
            sentences.append(f"Weighted; standard errors are linearized over the design (effect {effect.value:.3g}).")
        else:
            error, exact = standard_errors(rows, solution.p, mass)
        sentences += [] if error is None else _error_notes(solution.p, error, exact)
        if (wrapper := collection.wrapper) is not None and not (test := collection.noncompliance()).identified:
            sentences.append(
                f"Not an estimate of {wrapper.share}: every one from {test.low:.3g} to {test.high:.3g} has "
                "the same likelihood."
            )
        likelihood = float(rows.log_likelihood(solution.p))
        sentences += _uniform_note(rows, solution.p, likelihood)
        estimate = Estimate(name, solution.p, error, likelihood, solution.gap, " ".join(sentences), collection=collection)
        if not certified:
            warn(sentences[0], DiagnosticWarning)
        return estimate


@solver
def maximize(rows, mass=None, tolerance=1e-6, max_iterations=500, method="auto"):
    """Return the Solution of max Σ_j w_j log (Lp)_j + Σ_x mass_x log p_x over the simplex.

    Parameters
    ----------
    method : {"auto", "quasi-newton", "newton"}
        "quasi-newton" needs about ten passes over the rows; "newton" (interior point with the full Hessian) is for few
        categories or awkward rows. "auto" has the closed form of GRR without a prior, then takes the cheaper solver, and the
        other one where the first stops above the tolerance.
    """
    mass = mass if np.any(mass) else None  # a mass of zeros is none
    p = rows.closed_form() if mass is None and method == "auto" else None
    if p is not None:
        return Solution(p, certificate(rows, p), "closed", 0, 1.0)
    order = (method,) if method != "auto" else _order(rows)
    best = None
    for name in order:
        if name == "newton":
            solution = newton(rows, mass, tolerance, max_iterations)
        else:
            # A hundred steps show whether quasi-Newton will converge; after them the next solver takes over.
            with OneThread():
                solution = quasi_newton(
                    rows, mass, tolerance, max_iterations if name == order[-1] else min(max_iterations, 100)
                )
        best = solution if best is None or solution.gap < best.gap else best
        if best.gap <= tolerance:
            break
    return best


def _order(rows):
    """Return the iterative solvers for rows, the one to try first in front: by the cost of a full Newton step."""
    size = rows.n_categories
    cost = (rows.n_rows + size) * size**2
    if size == 2 or cost <= SMALL_NEWTON_OPERATIONS:
        return "newton", "quasi-newton"
    return ("quasi-newton", "newton") if cost <= LARGE_NEWTON_OPERATIONS else ("quasi-newton",)


def prior_mass(prior, n_categories):
    """Return α − 1, or None without a prior (or a flat one); refuse α < 1, where the density has no mode inside."""
    if prior is None:
        return None
    alpha = as_dirichlet(prior, n_categories, "A posterior mode").alpha
    if (alpha < 1).any():
        raise ArgumentError(
            f"alpha must be >= 1 for a posterior mode, got {alpha.min():g}; below 1 the density is unbounded where a "
            "category is 0, so that its mode is meaningless; use the posterior mean of ldpbayes.fit."
        )
    return alpha - 1 if (alpha > 1).any() else None


def _verdict(solution, tolerance, certified):
    how = "in closed form" if solution.method == "closed" else f"by {solution.method} in {solution.iterations} iterations"
    if certified:
        return f"Certified {how}: within {max(solution.gap, 1e-12):.1g} nats of the maximum."
    return (
        f"Stopped early {how}: the certificate is {solution.gap:.2g} nats, above the tolerance of {tolerance:.2g}; "
        "raise max_iterations."
    )


def _error_notes(p, error, exact):
    """Return the sentences that say what the standard errors are not."""
    zeros = int((p == 0).sum())
    unknown = int(np.isnan(error).sum()) - zeros
    notes = []
    if zeros:
        notes.append(
            f"{zeros} of {p.size} categories are at 0 and have no standard error; "
            "the standard errors of the others treat these zeros as known."
        )
    if unknown > 0:
        which = f"{unknown} more have" if zeros else f"{unknown} of {p.size} categories have"
        notes.append(f"{which} no standard error because the reports do not identify them.")
    if not exact:
        notes.append("Standard errors are diagonal-plus-rank-one approximations.")
    return notes


def _uniform_note(rows, p, likelihood):
    """Return a warning sentence where the estimate is sparse though the reports hardly differ from uniform ones."""
    from scipy.special import chdtrc

    if 2 * (p == 0).sum() < p.size:
        return []
    ratio = 2 * (likelihood - float(rows.log_likelihood(np.full(p.size, 1 / p.size))))
    if chdtrc(p.size - 1, max(ratio, 0.0)) < 0.05:
        return []
    return [
        f"Over all categories together the reports do not exclude the uniform distribution (likelihood ratio {ratio:.1f} on "
        f"{p.size - 1} degrees of freedom): most zeros here are noise; prefer the posterior mean."
    ]
