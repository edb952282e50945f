"""Interior-point Newton with the full Hessian: few categories, few rows, or rows that defeat the quasi-Newton model."""

import numpy as np

from ldpbayes.estimators.solvers.base import Solution, duality_gap, solver

#: Time: Categories above which the last steps of Newton's method on the positive ones, an (a, a) matrix, are left out. The
#: bank's 317 problems never cross it.
LARGEST_MATRIX = 3000


@solver
def newton(rows, mass, tolerance, max_iterations):
    """Primal-dual interior point with the full Hessian; then the coordinates that vanish are set to 0.

    Σ_j w_j log (Lp)_j + Σ m log p is maximized over p ≥ 0 with the penalty (n + Σm) Σp instead of Σp = 1: since the
    objective rises by (n + Σm) log c when p is multiplied by c, its maximum sums to one by itself. Conditions:
    z = n + Σm − g − m/p and p z = μ → 0. The Newton matrix Lᵀ diag(w/(Lp)²) L + diag(m/p² + z/p) is positive definite for
    any rows, rank-deficient ones included; there the answer is near the analytic centre of the maxima.
    """
    size, n = rows.n_categories, rows.n_reports
    m = np.zeros(size) if mass is None else mass
    total = n + m.sum()
    p = np.full(size, 1 / size)
    u = rows.matvec(p)
    gradient = rows.rmatvec(rows.counts / u)
    z = np.maximum(total - gradient - m / p, 0.05 * total)
    barrier = 0.1 * float(p @ z) / size
    passes, best = 1.0, None
    for iteration in range(1, max_iterations + 1):
        slope = barrier - p * (total - gradient) + m
        # The matrix is scaled by p on both sides: entries of one order however small some categories are.
        hessian = rows.gram(rows.counts / u**2)
        hessian[np.diag_indices(size)] += m / p**2 + z / p
        relative = _solve_positive(hessian * np.outer(p, p), slope)
        passes += size / 2
        step = p * relative
        z_step = barrier / p - z - z * relative
        length = min(1.0, 0.995 / max(-relative.min(), 1e-300))
        length, u = _barrier_search(rows, p, u, step, relative, slope @ relative, m, total, barrier, length)
        z_length = min(1.0, 0.995 / max((-z_step / z).max(), 1e-300))
        p, z = p + length * step, np.maximum(z + z_length * z_step, 1e-300)
        gradient = rows.rmatvec(rows.counts / u)
        passes += 1
        scale = p.sum()
        gap = duality_gap(gradient * scale, p / scale, mass)
        if best is None or gap < best.gap:
            best = Solution(p / scale, gap, "newton", iteration, passes)
        if gap <= tolerance:
            return _crossover(rows, best, total - gradient, mass, tolerance)
        if barrier < 1e-14 * tolerance / size:
            break
        average = float(p @ z) / size
        barrier = min(barrier, average) * (0.02 if min(length, z_length) > 0.9 else 0.3)
    return best


def _solve_positive(matrix, right):
    """Return the solution for a positive definite matrix, with the least ridge that its rounding asks for."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    ridge = 0.0
    while True:
        try:
            return cho_solve(cho_factor(matrix + ridge * np.eye(len(matrix))), right)
        except LinAlgError:
            ridge = max(100 * ridge, 1e-16 * np.trace(matrix) / len(matrix))


def _barrier_search(rows, p, u, step, relative, slope, m, total, barrier, length):
    """Return (step length, L p at the new point) that lowers the barrier function by Armijo's rule."""
    change = rows.matvec(step)
    weight = m + barrier
    for _ in range(40):
        moved = u + length * change
        if (moved > 0).all():
            rise = rows.counts @ np.log1p(length * change / u) + weight @ np.log1p(length * relative)
            rise -= length * total * step.sum()
            if rise >= 1e-4 * length * slope - 1e-13 * total:
                break
        length *= 0.5
    return length, rows.matvec(p + length * step)


def _crossover(rows, solution, slack, mass, tolerance):
    """Return the solution with its vanishing coordinates exactly 0, where the certificate still holds; else as it is.

    A coordinate goes when its share p_x is below its relative slack 1 − g_x/n; a few Newton steps on the others follow.
    """
    n = rows.n_reports
    m = np.zeros(rows.n_categories) if mass is None else mass
    drop = (solution.p < 0.1 * slack / n) & (m == 0)
    if not drop.any() or drop.all():
        return solution
    free = np.flatnonzero(~drop)
    p = np.where(drop, 0.0, solution.p)
    p /= p.sum()
    passes = solution.passes
    for _ in range(4):
        u = rows.matvec(p)
        if not (u > 0).all():
            break
        gradient = rows.rmatvec(rows.counts / u)
        passes += 1
        gap = duality_gap(gradient, p, mass)
        if gap <= tolerance:
            return Solution(p, gap, solution.method, solution.iterations, passes)
        # As in newton the penalty (n + Σm) Σp stands for Σp = 1; the pseudo-inverse for unidentified directions.
        if rows.n_categories > LARGEST_MATRIX:
            break
        hessian = rows.gram(rows.counts / u**2)[np.ix_(free, free)]
        hessian[np.diag_indices(free.size)] += m[free] / p[free] ** 2
        residual = gradient[free] + m[free] / p[free] - n - m.sum()
        scaled = hessian * np.outer(p[free], p[free])
        q = p[free] * (1 + np.linalg.lstsq(scaled, p[free] * residual, rcond=1e-13)[0])
        if (q <= 0).any():
            break
        p = np.zeros_like(p)
        p[free] = q / q.sum()
    return solution
