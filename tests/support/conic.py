"""The independent reference of maximum likelihood: an exponential-cone program, solved by cvxpy and Clarabel."""

import warnings

import numpy as np

from ldpbayes.estimators.solvers.base import Solution, certificate


def conic(rows, mass=None):
    """Return the Solution of max Σ_j w_j log (Lp)_j + Σ_x mass_x log p_x over the simplex, with its own certificate."""
    import cvxpy as cp

    matrix = rows.dense()
    matrix = matrix / matrix.max(axis=1, keepdims=True)
    p = cp.Variable(rows.n_categories, nonneg=True)
    objective = (rows.counts / rows.n_reports) @ cp.log(matrix @ p)
    if mass is not None:
        active = mass > 0
        objective += (mass[active] / rows.n_reports) @ cp.log(p[active])
    problem = cp.Problem(cp.Maximize(objective), [cp.sum(p) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about accuracy: the certificate is to judge
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    found = np.maximum(p.value, 0.0)
    found /= found.sum()
    return Solution(found, certificate(rows, found, mass), "cvxpy", 0, float("nan"))
