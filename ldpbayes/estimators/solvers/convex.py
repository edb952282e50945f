"""Maximum likelihood under the user's constraints, by cvxpy."""

import warnings

import numpy as np

from ldpbayes.errors import ArgumentError, ConvergenceError, InfeasibleError
from ldpbayes.estimators.base import tangent_diagonal
from ldpbayes.estimators.solvers.base import LARGE_NEWTON_OPERATIONS, Point, Solution, line_search, solver


@solver
def constrained(rows, constraints, tolerance, max_iterations):
    """Sequential quadratic programs on the simplex with the user's constraints.

    The quadratic model has the full Hessian where it is affordable, else the tangent diagonal; the certificate is the
    linear program max g·q − n over the same set, to the precision of its solver.

    Parameters
    ----------
    constraints : callable
        p (a cvxpy Variable) -> list of convex cvxpy constraints.

    Raises
    ------
    InfeasibleError
        If no distribution satisfies the constraints, or they exclude every category behind some report.
    ArgumentError
        If the constraints are not convex cvxpy constraints.
    ConvergenceError
        If cvxpy finds no solution.
    """
    import cvxpy as cp

    size, n = rows.n_categories, rows.n_reports
    q, target = cp.Variable(size, nonneg=True), cp.Parameter(size)
    feasible = [cp.sum(q) == 1, *_convex(constraints, q, cp)]
    root, centre = cp.Parameter((size, size)), cp.Parameter(size)
    linear = cp.Problem(cp.Maximize(target @ q), feasible)
    quadratic = cp.Problem(cp.Minimize(cp.sum_squares(root @ q - centre) / 2 - target @ q), feasible)
    full = rows.n_rows * size**2 <= LARGE_NEWTON_OPERATIONS / 10

    def answer(problem):
        _solve(problem, cp)
        if problem.status == cp.INFEASIBLE:
            raise InfeasibleError("No distribution meets the constraints.")
        if q.value is None:
            raise ConvergenceError(f"cvxpy found no solution under the constraints (status {problem.status}).")
        return _clean(q.value)

    start = answer(cp.Problem(cp.Minimize(cp.sum_squares(q - 1 / size)), feasible))
    if not (rows.matvec(start) > 0).all():
        raise InfeasibleError("The constraints exclude every category behind some report.")
    here, best, passes = Point(start, *rows.value_and_gradient(start), None), None, 1.0
    for iteration in range(max_iterations + 1):
        target.value = here.centred / n
        gap = max(0.0, float(here.centred @ answer(linear)))
        if best is None or gap < best.gap:
            best = Solution(here.p, gap, "sequential quadratic programs", iteration, passes)
        if best.gap <= tolerance or iteration == max_iterations:
            break
        curvature = rows.counts / rows.matvec(here.p) ** 2 / n
        hessian = rows.gram(curvature) if full else np.diag(tangent_diagonal(rows, curvature))
        values, vectors = np.linalg.eigh(hessian)
        root.value = np.sqrt(np.maximum(values, 1e-12 * values[-1]))[:, None] * vectors.T
        centre.value = root.value @ here.p
        there, used = line_search(rows, here, answer(quadratic), None)
        passes += used + 1.5
        if there is None:
            break
        here = there
    return best


def _solve(problem, cp):
    """Run Clarabel at tight tolerances; its warnings about accuracy are for the certificate to judge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        except cp.SolverError as err:
            raise ConvergenceError(f"cvxpy stopped: {err}") from err


def _convex(constraints, q, cp):
    """Return the user's constraints on the cvxpy variable q, checked."""
    rules = constraints(q)
    rules = list(rules) if isinstance(rules, (list, tuple)) else [rules]
    for item in rules:
        if not isinstance(item, cp.Constraint) or not item.is_dcp():
            raise ArgumentError(f"constraints must return convex cvxpy constraints, got {item}.")
    return rules


def _clean(p):
    """Return a solver's answer without its rounding: non-negative and summing to one."""
    p = np.maximum(p, 0.0)
    return p / p.sum()
