"""Maximum likelihood and posterior mode on the simplex for any likelihood rows, each with a duality certificate."""

import warnings
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, ConvergenceError, DiagnosticWarning, InfeasibleError
from ldpbayes.estimate import Estimate
from ldpbayes.estimators.base import information_covariance, project, standard_errors, tangent_diagonal
from ldpbayes.prior import as_prior
from ldpbayes.rows import IdentityRows

METHODS = ("auto", "closed", "quasi-newton", "newton", "cvxpy")
#: Multiplications of one full Newton step below which it is cheaper than the quasi-Newton bookkeeping.
SMALL_NEWTON_OPERATIONS = 5e6
#: … and above which the full Newton method is not tried even as a fallback.
LARGE_NEWTON_OPERATIONS = 5e10
#: Categories above which the last steps of Newton's method on the positive ones, an (a, a) matrix, are left out.
LARGEST_MATRIX = 3000
#: Entries of L above which the exponential-cone program is refused.
CVXPY_ENTRIES = 3e7
#: Pairs that the quasi-Newton model of the curvature remembers.
MEMORY = 20


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


@dataclass(frozen=True)
class MLE:
    """The maximum of Σ_j w_j log (Lp)_j over the simplex, or with a prior that of the posterior density.

    It stops on the certificate log-likelihood* − log-likelihood(p) ≤ max_x (Lᵀ(w/Lp))_x − n, which is computed afresh for
    every answer, whichever method gave it (spec 2.1).

    Parameters
    ----------
    tolerance : float
        Largest certified gap in nats, absolute; 0.01 is already 1e-4 of a standard error.
    max_iterations : int
    method : {"auto", "closed", "quasi-newton", "newton", "cvxpy"}
        "closed" is for GRR without a prior; "quasi-newton" needs some ten passes over the rows; "newton" (interior point
        with the full Hessian) is for few categories or awkward rows; "cvxpy" is the slow independent reference. "auto"
        takes the cheapest that applies, and "newton" where "quasi-newton" stops early.
    prior : optional
        Dirichlet, vector, number or "flat" with every α ≥ 1: the posterior mode (MAP). None is maximum likelihood.
    constraints : callable, optional
        p (a cvxpy Variable) -> list of convex cvxpy constraints, such as ``lambda p: [p[:-1] >= p[1:]]``. Solved by
        sequential quadratic programs through cvxpy, usually two to five, about a second for 100 categories whatever n
        is, with the maximum of the linearised likelihood over the constrained set (a linear program) as certificate.
        No standard errors; not with a prior.
    strict : bool
        Raise a ConvergenceError instead of a DiagnosticWarning where the tolerance is not reached.

    Examples
    --------
    >>> from ldpbayes.protocols import designs
    >>> from ldpbayes.tally import Collection, Tally
    >>> survey = Collection(["no", "yes"], [Tally(designs.warner(0.7), [0, 1], [60, 40])])
    >>> estimate = MLE()(survey)
    >>> estimate.distribution.round(3).tolist(), estimate.standard_error.round(3).tolist()
    ([0.75, 0.25], [0.122, 0.122])

    References
    ----------
    Lopuhaä-Zwakenberg, Škorić, Li (2020), (22) and Appendix B; spec 2.1.
    """

    tolerance: float = 1e-6
    max_iterations: int = 500
    method: str = "auto"
    prior: object = None
    constraints: object = None
    strict: bool = False

    def __post_init__(self):
        object.__setattr__(self, "tolerance", checks.positive(self.tolerance, "tolerance"))
        object.__setattr__(self, "max_iterations", checks.integer(self.max_iterations, "max_iterations", minimum=1))
        checks.choice(self.method, "method", METHODS)
        if self.constraints is not None and not callable(self.constraints):
            raise ArgumentError("constraints must be a function of the cvxpy variable p that returns a list of constraints.")
        if self.constraints is not None and (self.prior is not None or self.method not in ("auto", "cvxpy")):
            raise ArgumentError('constraints must come without a prior and with method "auto" or "cvxpy".')

    def __call__(self, collection):
        """Return the Estimate for a Collection.

        Raises
        ------
        ArgumentError
            Where the prior has some α < 1, or the method does not apply.
        ConvergenceError
            With strict=True, where the certificate stays above the tolerance.
        InfeasibleError
            Where no distribution meets the constraints, or cvxpy is asked for a problem above its limit.

        Warns
        -----
        DiagnosticWarning
            Where the certificate stays above the tolerance.
        """
        rows = collection.rows
        mass = prior_mass(self.prior, collection.n_categories)
        name = "mle" if mass is None else "map"
        if self.constraints is not None:
            solution = _constrained(rows, self.constraints, self.tolerance, self.max_iterations)
        else:
            solution = maximise(rows, mass, self.tolerance, self.max_iterations, self.method)
        certified = solution.gap <= self.tolerance
        parts = [_verdict(solution, self.tolerance, certified)]
        if self.constraints is not None:
            error = None
            parts.append("No standard errors: those of the information do not hold under constraints.")
        else:
            error, exact = standard_errors(rows, solution.p, mass)
            parts += _error_notes(solution.p, error, exact)
        likelihood = float(rows.log_likelihood(solution.p))
        parts += _uniform_note(rows, solution.p, likelihood)
        estimate = Estimate(name, solution.p, error, likelihood, solution.gap, " ".join(parts))
        if not certified:
            if self.strict:
                raise ConvergenceError(parts[0], estimate)
            warnings.warn(parts[0], DiagnosticWarning, stacklevel=2)
        return estimate


def MAP(prior, **settings):
    """Return the MLE estimator with a Dirichlet prior, every α ≥ 1: the mode of the posterior density.

    Parameters
    ----------
    prior : Dirichlet, vector, number or "flat"
    **settings
        Fields of MLE.
    """
    return MLE(prior=prior, **settings)


def maximise(rows, mass=None, tolerance=1e-6, max_iterations=500, method="auto"):
    """Return the Solution of max Σ_j w_j log (Lp)_j + Σ_x mass_x log p_x over the simplex.

    Parameters
    ----------
    rows : Rows
    mass : (a,) array, optional
        α − 1 ≥ 0; None for the likelihood alone.
    tolerance : float
        Nats.
    max_iterations : int
    method : str
        As in MLE.
    """
    closed = isinstance(rows, IdentityRows) and mass is None
    if method == "closed" and not closed:
        raise ArgumentError(
            'method must be other than "closed" here: the closed form is for one GRR channel without a prior.'
        )
    if method == "closed" or (method == "auto" and closed):
        p = _closed_form(rows)
        return Solution(p, certificate(rows, p), "closed", 0, 1.0)
    if method == "cvxpy":
        return _cvxpy(rows, mass)
    order = (method,) if method != "auto" else _order(rows)
    best = None
    for name in order:
        if name == "newton":
            found = _newton(rows, mass, tolerance, max_iterations)
        else:
            # A hundred steps say whether it will do, where another solver is left. Its matrices have some twenty columns:
            # threads would cost more than they compute.
            with threadpool_limits(1, user_api="blas"):
                found = _quasi_newton(
                    rows, mass, tolerance, max_iterations if name == order[-1] else min(max_iterations, 100)
                )
        best = found if best is None or found.gap < best.gap else best
        if best.gap <= tolerance:
            break
    return best


def _order(rows):
    """Return the iterative solvers for rows, the one to try first in front: by the cost of a full Newton step."""
    size, narrow = rows.n_categories, min(rows.n_rows, rows.n_categories)
    cost = rows.n_rows * size * narrow + narrow**3
    if size == 2 or cost <= SMALL_NEWTON_OPERATIONS:
        return "newton", "quasi-newton"
    return ("quasi-newton", "newton") if cost <= LARGE_NEWTON_OPERATIONS else ("quasi-newton",)


def certificate(rows, p, mass=None):
    """Return an upper bound on max_q objective(q) − objective(p), in nats.

    Without a prior: max_x g_x − n, g = Lᵀ(w/Lp) (spec 2.1). With one, only the likelihood is linearised: the bound is
    max_q Σ_x [g_x (q_x − p_x) + m_x log(q_x/p_x)], taken from above by its dual,
    λ − n + Σ_x m_x [log(m_x/((λ − g_x) p_x)) − 1] for any λ ≥ max g.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        _, gradient = rows.value_and_gradient(p)
    return _gap(gradient, p, mass)


def prior_mass(prior, n_categories):
    """Return α − 1, or None without a prior (or a flat one); refuse α < 1, where the density has no mode inside."""
    if prior is None:
        return None
    alpha = as_prior(prior, n_categories).alpha
    if (alpha < 1).any():
        raise ArgumentError(
            f"alpha must be >= 1 for a posterior mode, got {alpha.min():g}; below 1 the density is unbounded where a "
            "category is 0, so its mode says nothing: use the posterior mean of ldpbayes.fit."
        )
    return alpha - 1 if (alpha > 1).any() else None


# ---- the certificate ---------------------------------------------------------------------------------------------------
def _gap(gradient, p, mass=None):
    """Return the certificate for a gradient of the log-likelihood at p."""
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


# ---- GRR ---------------------------------------------------------------------------------------------------------------
def _closed_form(rows):
    """Return the MLE under GRR: p_x = max(0, (s_x/S_A)(|A|/β + 1) − 1/β), S_A the sum of the kept tallies.

    The kept set A holds the largest tallies. Lopuhaä-Zwakenberg et al. (2020), Algorithm 1 with spec 5's correction;
    Kairouz et al. (2016), Prop. 6.
    """
    tally = np.bincount(rows.index, rows.counts, rows.n_categories)
    ordered = np.sort(tally)[::-1]
    kept = np.arange(1, tally.size + 1)
    sums = np.cumsum(ordered)
    # With whole tallies k s − S is exact, so that small β costs no digits.
    positive = ordered + (kept * ordered - sums) / rows.beta > 0
    k = int(np.flatnonzero(positive)[-1]) + 1
    total = sums[k - 1]
    p = np.maximum(0.0, (tally + (k * tally - total) / rows.beta) / total)
    return p / p.sum()


# ---- quasi-Newton ------------------------------------------------------------------------------------------------------
class _Curvature:
    """B ≈ −Hessian on the tangent: diag(D) corrected by the last pairs of steps and gradient changes (compact BFGS)."""

    def __init__(self, diagonal):
        self.steps, self.changes = [], []
        positive = diagonal[diagonal > 0]
        floor = 1e-4 * np.median(positive) if positive.size else 1.0
        self.diagonal = np.maximum(diagonal, floor)
        self._factor()

    def add(self, step, change):
        """Remember B @ step ≈ change, and return by how much D alone misses it, ‖change − D step‖ / ‖D step‖ in D⁻¹.

        A multiple of the ones is free in change: the one nearest to D step is taken off, and asks least of the correction.
        """
        assumed, inverse = self.diagonal * step, 1 / self.diagonal
        change = change - (change - assumed) @ inverse / inverse.sum()
        size = step @ assumed
        if step @ change > 1e-10 * size:  # pairs without curvature are left out
            self.steps, self.changes = [*self.steps, step][-MEMORY:], [*self.changes, change][-MEMORY:]
            self._factor()
        return np.sqrt((change - assumed) ** 2 @ inverse / size) if size > 0 else np.inf

    def _factor(self):
        """Write D^{-1/2} B D^{-1/2} = I + V diag(c) Vᵀ with orthonormal V, and take its extreme eigenvalues."""
        self.root = np.sqrt(self.diagonal)
        self.vectors, self.shifts = np.zeros((self.root.size, 0)), np.zeros(0)
        self.low = self.high = 1.0
        if not self.steps:
            return
        s = np.stack(self.steps, axis=1) * self.root[:, None]
        y = np.stack(self.changes, axis=1) / self.root[:, None]
        cross = s.T @ y
        lower = np.tril(cross, -1)
        middle = np.block([[s.T @ s, lower], [lower.T, -np.diag(cross.diagonal())]])
        basis, triangle = np.linalg.qr(np.concatenate([s, y], axis=1))
        try:
            inner = -triangle @ np.linalg.solve(middle, triangle.T)
        except np.linalg.LinAlgError:
            self.steps, self.changes = self.steps[-1:], self.changes[-1:]
            return self._factor()
        shifts, rotation = np.linalg.eigh((inner + inner.T) / 2)
        self.shifts = np.maximum(shifts, 1e-6 - 1)
        self.vectors = basis @ rotation
        self.low, self.high = min(1.0, 1 + self.shifts.min()), max(1.0, 1 + self.shifts.max())

    def __matmul__(self, d):
        scaled = self.root * d
        return self.root * (scaled + self.vectors @ (self.shifts * (self.vectors.T @ scaled)))


def _model_step(p, gradient, curvature, mass, accuracy):
    """Return the q of the simplex that maximises g·(q − p) − ½ (q − p)ᵀB(q − p) + Σ m log q.

    Accelerated proximal gradient in the metric D with constant momentum, restarted where it turns back.
    """
    weights = curvature.high * curvature.diagonal
    ratio = np.sqrt(curvature.low / curvature.high)
    momentum = (1 - ratio) / (1 + ratio)
    q = ahead = p
    for _ in range(400):
        target = ahead + (gradient - (curvature @ (ahead - p))) / weights
        new = project(target, weights) if mass is None else _prior_projection(target, weights, mass)
        move = new - q
        restart = ((ahead - new) * weights) @ move > 0
        ahead = new if restart else new + momentum * move
        q = new
        if move @ (weights * move) <= accuracy**2 * ((q - p) @ (weights * (q - p))):
            break
    return q


def _prior_projection(values, weights, mass):
    """Return the q > 0 of the simplex that minimises ½ Σ weights (q − values)² − Σ mass log q.

    q = (t + √(t² + 4 mass/weights))/2 with t = values − τ/weights; Newton on τ from the side where Σq ≥ 1.
    """
    inverse, spread = 1 / weights, 4 * mass / weights
    start = project(values, weights)
    active = start > 0
    tau = (values[active].sum() - 1) / inverse[active].sum()
    for _ in range(100):
        t = values - tau * inverse
        root = np.sqrt(t**2 + spread)
        # The form without cancellation on the side where t < 0.
        q = np.where(t > 0, (t + root) / 2, np.divide(spread / 2, root - t, out=np.zeros_like(t), where=root > t))
        slope = np.divide(q, root, out=np.zeros_like(t), where=root > 0) @ inverse
        step = (q.sum() - 1) / slope
        tau += step
        if abs(q.sum() - 1) <= 1e-14:
            break
    return q / q.sum()


def _prior_value(p, mass):
    if mass is None:
        return 0.0
    active = mass > 0
    with np.errstate(divide="ignore"):
        return float(mass[active] @ np.log(p[active]))


def _quasi_newton(rows, mass, tolerance, max_iterations):
    """Proximal quasi-Newton: steps of the model diag(D) + BFGS on the simplex, from the uniform distribution.

    The first step is Norm-Sub of a one-step estimate. Gradients are centred, g − p·g: their own size, n, would drown what
    is left of them near the maximum. D is taken afresh where it does not fit the curvature that a step met, or where
    progress is slow.
    """
    size = rows.n_categories
    p = np.full(size, 1 / size)
    u = rows.matvec(p)
    gradient = rows.rmatvec(rows.counts / u)
    here = _Point(p, float(rows.counts @ np.log(u)) + _prior_value(p, mass), gradient, mass)
    # At the uniform distribution L·1 is a u, so that H·1 is a g.
    curvature = _Curvature(tangent_diagonal(rows, rows.counts / u**2, size * gradient))
    # Reports are a sample: off-diagonal curvature of this relative size is there whatever D is.
    noise = 0.05 + 4 * np.sqrt(size / rows.n_reports)
    passes, age, best, row_sums = 1.5, 0, here, size * u
    before = np.inf
    lows = [here.gap]
    for iteration in range(max_iterations + 1):
        if here.gap < best.gap:
            best = here
        if best.gap <= tolerance or iteration == max_iterations:
            break
        q = _model_step(here.p, here.centred, curvature, mass, 1e-4 if here.gap < 1 else 1e-2)
        there, used = _line_search(rows, here, q, mass)
        passes += used
        if there is None and age == 0:
            break
        misfit = np.inf if there is None else curvature.add(there.p - here.p, here.centred - there.centred)
        age, here = age + 1, there or here
        if age == 1 and misfit > 0.7 * before:
            noise = max(noise, 2 * misfit)  # what a fresh D did not mend is not for another one to mend
        lows.append(best.gap)
        slow = len(lows) > 10 and lows[-1] > 0.5 * lows[-6]
        if there is None or (age >= 2 and (misfit > noise or slow)):
            v = rows.counts / rows.matvec(here.p) ** 2
            curvature = _Curvature(tangent_diagonal(rows, v, rows.rmatvec(v * row_sums)))
            passes, age, before = passes + 1.5, 0, misfit
    return Solution(best.p, best.gap, "quasi-newton", iteration, passes)


class _Point:
    """A point with its objective, centred gradient of the log-likelihood, and certificate."""

    def __init__(self, p, value, gradient, mass):
        self.p, self.value = p, value
        self.centred = gradient - gradient @ p
        self.gap = _gap(gradient, p, mass)


def _line_search(rows, here, q, mass):
    """Return (the point accepted on the way from here to q, or None; passes used).

    A point is accepted when the objective rises (Armijo), or, where the difference is lost to rounding, when the slope
    along the step has not turned back by more than 0.8 of itself or the certificate has become smaller.
    """
    direction = q - here.p
    t, passes = 1.0, 0.0
    while t > 1e-9:
        p = q if t == 1 else here.p + t * direction
        with np.errstate(divide="ignore", invalid="ignore"):  # a report that p makes impossible: refused below
            value, gradient = rows.value_and_gradient(p)
        passes += 1
        prior = _prior_value(p, mass)
        if np.isfinite(value + prior):
            there = _Point(p, value + prior, gradient, mass)
            rise = t * (here.centred @ direction) + prior - _prior_value(here.p, mass)
            change = there.value - here.value
            if change > 0 and change >= 1e-4 * rise:
                return there, passes
            lost = abs(change) <= 1e-11 * (abs(value) + rows.n_reports)
            back = there.centred if mass is None else there.centred + mass / np.maximum(p, 1e-300) - mass.sum()
            if lost and (there.gap < here.gap or t * (back @ direction) >= -0.8 * abs(rise)):
                return there, passes
        t *= 0.5 if t > 0.1 else 0.1
    return None, passes


# ---- interior-point Newton ---------------------------------------------------------------------------------------------
def _newton(rows, mass, tolerance, max_iterations):
    """Primal-dual interior point with the full Hessian; then the coordinates that vanish are set to 0.

    Σ_j w_j log (Lp)_j + Σ m log p is maximised over p ≥ 0 with the penalty (n + Σm) Σp instead of Σp = 1: since the
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
    # Fewer reports than categories: the Newton matrix is diagonal plus low rank, solved in the space of the rows.
    wide = rows.dense() if rows.n_rows <= size / 2 and size > 100 else None

    for iteration in range(1, max_iterations + 1):
        slope = barrier - p * (total - gradient) + m
        if wide is None:
            hessian = rows.gram(rows.counts / u**2)
            hessian[np.diag_indices(size)] += m / p**2 + z / p
            # Scaled by p: entries of one order however small some categories are.
            relative = _solve_positive(hessian * np.outer(p, p), slope)
        else:
            scaled, diagonal = wide * p * (np.sqrt(rows.counts) / u)[:, None], m + p * z
            inner = (scaled / diagonal) @ scaled.T
            inner[np.diag_indices(rows.n_rows)] += 1
            relative = (slope - scaled.T @ _solve_positive(inner, scaled @ (slope / diagonal))) / diagonal
        passes += min(size, rows.n_rows) / 2
        step = p * relative
        z_step = barrier / p - z - z * relative
        length = min(1.0, 0.995 / max(-relative.min(), 1e-300))
        length, u = _barrier_search(rows, p, u, step, relative, slope @ relative, m, total, barrier, length)
        z_length = min(1.0, 0.995 / max((-z_step / z).max(), 1e-300))
        p, z = p + length * step, np.maximum(z + z_length * z_step, 1e-300)
        gradient = rows.rmatvec(rows.counts / u)
        passes += 1
        scale = p.sum()
        gap = _gap(gradient * scale, p / scale, mass)
        if wide is not None and best is not None and 0.5 * best.gap < gap < 0.01 and size <= 512:
            wide = None  # low rank plus a vanishing diagonal loses digits at the end; the full matrix does not
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
        gap = _gap(gradient, p, mass)
        if gap <= tolerance:
            return Solution(p, gap, solution.method, solution.iterations, passes)
        # As in _newton the penalty (n + Σm) Σp stands for Σp = 1; the pseudo-inverse for unidentified directions.
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


# ---- cvxpy -------------------------------------------------------------------------------------------------------------
def _cvxpy(rows, mass):
    """Solve the exponential-cone program with Clarabel; the status is not trusted, the certificate is recomputed."""
    import cvxpy as cp

    size = rows.n_categories
    if rows.n_rows * size > CVXPY_ENTRIES:
        raise InfeasibleError(
            f"cvxpy solves at most {CVXPY_ENTRIES:g} rows × categories, got {rows.n_rows * size:g}; "
            'use method "quasi-newton" or "newton".'
        )
    matrix = rows.dense()
    matrix = matrix / matrix.max(axis=1, keepdims=True)
    p = cp.Variable(size, nonneg=True)
    objective = (rows.counts / rows.n_reports) @ cp.log(matrix @ p)
    if mass is not None:
        active = mass > 0
        objective += (mass[active] / rows.n_reports) @ cp.log(p[active])
    problem = cp.Problem(cp.Maximize(objective), [cp.sum(p) == 1])
    _solve(problem, cp)
    if p.value is None:
        raise ConvergenceError(f"cvxpy found no solution (status {problem.status}).")
    value = np.maximum(p.value, 0.0)
    value /= value.sum()
    return Solution(value, certificate(rows, value, mass), "cvxpy", problem.solver_stats.num_iters or 0, float("nan"))


def _solve(problem, cp):
    """Run Clarabel at tight tolerances; its warnings about accuracy are for the certificate to judge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        except cp.SolverError as err:
            raise ConvergenceError(f"cvxpy stopped: {err}") from err


def _constrained(rows, constraints, tolerance, max_iterations):
    """Sequential quadratic programs on the simplex with the user's constraints.

    The quadratic model has the full Hessian where it is affordable, else the tangent diagonal; the certificate is the
    linear program max g·q − n over the same set, to the precision of its solver.
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
    here, best, passes = _Point(start, *rows.value_and_gradient(start), None), None, 1.0
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
        there, used = _line_search(rows, here, answer(quadratic), None)
        passes += used + 1.5
        if there is None:
            break
        here = there
    return best


def _convex(constraints, q, cp):
    """Return the user's constraints on the cvxpy variable q, checked."""
    stated = constraints(q)
    stated = list(stated) if isinstance(stated, (list, tuple)) else [stated]
    for item in stated:
        if not isinstance(item, cp.Constraint) or not item.is_dcp():
            raise ArgumentError(f"constraints must return convex cvxpy constraints, got {item}.")
    return stated


def _clean(p):
    """Return a solver's answer without its rounding: non-negative and summing to one."""
    p = np.maximum(p, 0.0)
    return p / p.sum()


# ---- what is said ------------------------------------------------------------------------------------------------------
def _verdict(solution, tolerance, certified):
    how = "in closed form" if solution.method == "closed" else f"by {solution.method} in {solution.iterations} iterations"
    if certified:
        return f"Certified {how}: within {max(solution.gap, 1e-12):.1g} nats of the maximum."
    return (
        f"Stopped early {how}: the certificate is {solution.gap:.2g} nats, above the tolerance of {tolerance:.2g}; "
        "raise max_iterations or take another method."
    )


def _error_notes(p, error, exact):
    """Return the sentences that say what the standard errors are not."""
    zeros = int((p == 0).sum())
    unknown = int(np.isnan(error).sum()) - zeros
    notes = []
    if zeros:
        notes.append(f"{zeros} of {p.size} categories are at 0 and have no standard error; the others take them as known.")
    if unknown > 0:
        notes.append(f"{unknown} more have none because the reports do not identify them.")
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
        f"The reports do not even exclude the uniform distribution (likelihood ratio {ratio:.1f} on {p.size - 1} degrees of "
        "freedom): zeros here are noise; prefer the posterior mean."
    ]


__all__ = ["MAP", "METHODS", "MLE", "Solution", "certificate", "information_covariance", "maximise", "prior_mass"]
