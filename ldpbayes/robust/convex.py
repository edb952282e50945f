"""The maximum of the likelihood by cvxpy, from probabilities that the likelihoods had no part in."""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from ldpbayes.collections import Collection
from ldpbayes.errors import InfeasibleError
from ldpbayes.robust.described import probabilities


@dataclass(frozen=True, eq=False)
class Convex:
    """A maximum of Σ_y n_y log (QP)_y over the simplex.

    Attributes
    ----------
    distribution : (a,) array
    gap : float
        By how many nats the log-likelihood of any other P can be larger: max_x Σ_y n_y Q_yx / (QP)_y − n.
    table, counts : (m, a) and (m,) arrays
        Q, up to a factor of each report, and n_y.
    """

    distribution: np.ndarray
    gap: float
    table: np.ndarray
    counts: np.ndarray

    def log_likelihood(self, p: np.ndarray) -> float:
        """Return Σ_y n_y log (Qp)_y, up to a constant of the reports."""
        with np.errstate(divide="ignore"):
            return float(self.counts @ np.log(self.table @ p))

    @property
    def rounding(self) -> float:
        """By how many nats two log-likelihoods and two gaps may be off in double precision.

        A sum of k products is off by at most k u of that of their absolute values, with u = ε/2: n a u for the logarithms of
        Q p, (m + 1) u of Σ n_y |log (Q p)_y| for their sum, and n (a + m + 1) u for a gap.
        """
        (m, a), n = self.table.shape, float(self.counts.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            size = float(self.counts @ np.abs(np.log(self.table @ self.distribution)))
        return float(np.finfo(float).eps) * ((a + m + 1) * 2 * n + (m + 1) * size)

    def excess(self, p: np.ndarray) -> float:
        """Return by how many nats the log-likelihood of another P exceeds this one."""
        return self.log_likelihood(p) - self.log_likelihood(self.distribution)


def convex_maximum(collection: Collection) -> Convex:
    """Return the maximum of the likelihood by cvxpy's Clarabel.

    Parameters
    ----------
    collection : Collection

    Returns
    -------
    Convex

    Raises
    ------
    InfeasibleError
        Where the reports are too many or have no description, or the solver finds no solution.
    """
    import cvxpy as cp

    table, counts = probabilities(collection)
    p = cp.Variable(table.shape[1], nonneg=True)
    share = counts / counts.sum()
    problem = cp.Problem(cp.Maximize(share @ cp.log(table @ p)), [cp.sum(p) == 1])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the gap judges how accurate the answer is
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    except cp.SolverError as err:
        raise InfeasibleError(f"cvxpy found no maximum: {err}.") from err
    if p.value is None:
        raise InfeasibleError(f"cvxpy found no maximum: its status is {problem.status}.")
    found = np.maximum(p.value, 0.0)
    found /= found.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = table.T @ (counts / (table @ found))
    gap = float(slope.max() - counts.sum())
    return Convex(found, gap if math.isfinite(gap) else math.inf, table, counts)


__all__ = ["Convex", "convex_maximum"]
