"""Proximal quasi-Newton on the simplex: about ten passes over the rows, no a × a matrix."""

import numpy as np

from ldpbayes.estimators.base import project, tangent_diagonal
from ldpbayes.estimators.solvers.base import Point, Solution, line_search, prior_value, solver
from ldpbayes.likelihoods.expansion import shared_part

#: Time: Pairs that the quasi-Newton model of the curvature remembers.
MEMORY = 20


@solver
def quasi_newton(rows, mass, tolerance, max_iterations):
    """Proximal quasi-Newton: steps of the model diag(D) + BFGS on the simplex, from the uniform distribution.

    The first step is Norm-Sub of a one-step estimate. Gradients are centred, g − p·g: near the
    maximum their size n would hide the differences that remain. D is recomputed when it does not fit the curvature along
    a step, or when progress is slow.
    """
    size = rows.n_categories
    here, curvature, passes = _start(rows, mass)
    # The reports are a sample, so off-diagonal curvature of this relative size remains for every D.
    noise = 0.05 + 4 * np.sqrt(size / rows.n_reports)
    row_sums = None
    # Steps since D was taken afresh, the misfit that asked for it, and the best gap after every step.
    age, before, lows = 0, np.inf, [here.gap]
    best = here
    for iteration in range(max_iterations + 1):
        if here.gap < best.gap:
            best = here
        if best.gap <= tolerance or iteration == max_iterations:
            break
        q = _model_step(here.p, here.centred, curvature, mass)
        there, used = line_search(rows, here, q, mass)
        passes += used
        if there is None and age == 0:
            break
        misfit = np.inf if there is None else curvature.add(there.p - here.p, here.centred - there.centred)
        age, here = age + 1, there or here
        if age == 1 and misfit > 0.7 * before:
            noise = max(noise, 2 * misfit)  # a new D did not reduce the misfit, and another will not
        lows.append(best.gap)
        slow = len(lows) > 10 and lows[-1] > 0.5 * lows[-6]
        if there is None or (age >= 2 and (misfit > noise or slow)):
            v = rows.counts / rows.matvec(here.p) ** 2
            row_sums = rows.matvec(np.ones(size)) if row_sums is None else row_sums
            curvature = _Curvature(tangent_diagonal(rows, v, rows.rmatvec(v * row_sums)))
            passes, age, before = passes + 1.5, 0, misfit
    return Solution(best.p, best.gap, "quasi-newton", iteration, passes)


def _start(rows, mass):
    """Return (a point, a model of the curvature, passes): the uniform distribution, or one step further where that is cheap.

    The step asks for no gradient: the support counts alone give the oracle's estimate, projected on the simplex.
    """
    size = rows.n_categories
    p = np.full(size, 1 / size)
    rough = rows.rough_expansion() if size > 2 else None
    if rough is None:
        u = rows.matvec(p)
        gradient = rows.rmatvec(rows.counts / u)
        value = float(rows.counts @ np.log(u))
        # At the uniform distribution L·1 is a u, so that H·1 is a g.
        curvature = _Curvature(tangent_diagonal(rows, rows.counts / u**2, size * gradient))
        passes = 1.5
    else:
        _, gradient, diagonal, sums = rough
        curvature = _Curvature(diagonal - 2 * shared_part(diagonal, sums))
        p = _model_step(p, gradient - gradient @ p, curvature, mass)
        value, gradient = rows.value_and_gradient(p)
        passes = 1.3
    return Point(p, value + prior_value(p, mass), gradient, mass), curvature, passes


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


def _model_step(p, gradient, curvature, mass):
    """Return the q of the simplex that maximizes g·(q − p) − ½ (q − p)ᵀB(q − p) + Σ m log q.

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
        if move @ (weights * move) <= 1e-8 * ((q - p) @ (weights * (q - p))):
            break
    return q


def _prior_projection(values, weights, mass):
    """Return the q > 0 of the simplex that minimizes ½ Σ weights (q − values)² − Σ mass log q.

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
