"""Maximum likelihood with effects of groups: the likelihood integrated over these, and its maximum.

Effects of one grouping factor are integrated group by group, by Gauss–Hermite quadrature about the mode of each group in
coordinates of its curvature; one node is Laplace's approximation. Several factors, walks and smooths are integrated at once,
by Laplace's approximation alone.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial.hermite import hermgauss
from scipy.sparse import csr_array
from scipy.special import logsumexp

from ldpbayes.errors import ConvergenceError, listed
from ldpbayes.inference.newton import STEPS
from ldpbayes.inference.structure import curvature
from ldpbayes.priors.base import softmax
from ldpbayes.priors.regression import Regression
from ldpbayes.regression.constants import LEAST, NUMBERS_TOGETHER
from ldpbayes.regression.maximum import MAXIMA, maximize
from ldpbayes.regression.target import RegressionTarget


@dataclass(frozen=True, eq=False)
class CellLikelihood:
    """log P(Y | f) of each cell, f = X B its coordinates in the basis of the logits, with derivatives."""

    target: RegressionTarget

    @cached_property
    def _summed(self):
        """What adds up the entries of each cell, (cells, entries)."""
        e = self.target.reports
        return csr_array((e.weight, (e.cell, np.arange(e.cell.size))), shape=(e.n_cells, e.cell.size))

    def _shares(self, f):
        """Return (what the columns add up to, P, the likelihood of each entry) at f (cells, …, a − 1)."""
        e, prior = self.target.reports, self.target.prior
        eta = f @ prior.basis.T
        p = softmax(prior.to_odds(eta))
        return eta, p, np.maximum(np.einsum("e...a,ea->e...", p[e.cell], e.table[e.row]), LEAST)

    def values(self, f: np.ndarray) -> np.ndarray:
        """Return the log-likelihoods (cells, N) at f (cells, N, a − 1)."""
        return self._summed @ np.log(self._shares(f)[2])

    def curved(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values (cells,), gradients (cells, a − 1) and Hessians (cells, a − 1, a − 1) at f (cells, a − 1)."""
        e, prior = self.target.reports, self.target.prior
        eta, p, u = self._shares(f)
        q, a = e.table[e.row] * p[e.cell] / u[:, None], p.shape[1]
        slope = self._summed @ q - e.sizes[:, None] * p
        pairs = self._summed @ (q[:, :, None] * q[:, None, :]).reshape(len(q), -1)
        bent = np.eye(a) * slope[:, None, :] - pairs.reshape(-1, a, a)
        bent += e.sizes[:, None, None] * p[:, :, None] * p[:, None, :]
        basis = np.broadcast_to(prior.basis, (len(p), *prior.basis.shape))
        more = np.zeros((len(p), 1, 1))
        if prior.linked is not None:  # the derivatives of the logits in f
            way, x = prior.event @ prior.basis, eta @ prior.event
            more = 0.5 * (prior.linked.curvature(x) * (slope @ prior.event))[:, None, None] * way**2
            basis = 0.5 * prior.linked.slope(x)[:, None, None] * prior.event[:, None] * way
        slopes = np.einsum("ca,cak->ck", slope, basis)
        return self._summed @ np.log(u), slopes, basis.swapaxes(1, 2) @ bent @ basis + more


@dataclass(frozen=True, eq=False)
class Marginal:
    """log P(Y | coefficients, σ), effects σ w integrated over normal w; θ is the unknowns of the columns, and then σ.

    A σ and its negative are the same model, so that a σ of 0 is a maximum inside the range.

    Attributes
    ----------
    target : RegressionTarget
    group : (cells,) int array, optional
        The group of each cell, where all effects are those of one grouping factor.
    nodes : int
        Of the quadrature, along each effect of a group.
    modes : dict
        The last modes of the effects, where the next search starts.
    """

    target: RegressionTarget
    group: np.ndarray | None
    nodes: int = 1
    modes: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def prior(self) -> Regression:
        return self.target.prior

    @cached_property
    def cells(self) -> CellLikelihood:
        return CellLikelihood(self.target)

    @cached_property
    def _columns(self):
        """What a unit of each σ's effects moves: of groups (cells, effects), else (cells, unknowns of all effects)."""
        effects, rows = self.prior.effects, np.arange(len(self.prior.design))
        if self.group is not None:
            return np.column_stack([effect.matrix[rows, self.group] for effect in effects]) / np.sqrt(2)
        roots = [effect.matrix if effect.root is None else effect.matrix @ effect.root for effect in effects]
        return np.hstack(roots) / np.sqrt(2)

    @cached_property
    def _owner(self):
        """Which σ multiplies each of the columns."""
        sizes = [1 if self.group is not None else effect.size for effect in self.prior.effects]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def _members(self):
        """What adds up the cells of each group, (groups, cells)."""
        group = np.zeros(len(self.prior.design), dtype=int) if self.group is None else self.group
        number = 1 if self.group is None else len(self.prior.effects[0].levels)
        return csr_array((np.ones(group.size), (group, np.arange(group.size))), shape=(number, group.size))

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (X B without effects (cells, a − 1), the columns of the effects times their σ) at θ."""
        first = self.prior.spans[""].stop
        slopes = self.prior.blocks()[""][0].of(theta[:first]).reshape(self.prior.design.shape[1], -1)
        return self.prior.columns @ slopes, self._columns * theta[first:][self._owner]

    def _moved(self, columns, w):
        """Return what effects w (groups, N, columns, a − 1) add to each cell, (cells, N, a − 1)."""
        if self.group is None:
            return np.moveaxis(np.tensordot(columns, w[0], (1, 1)), 0, 0)
        return np.einsum("ce,cNek->cNk", columns, w[self.group])

    def _about(self, fixed, columns, w):
        """Return (log-density, gradient, minus the Hessian) of w (groups, d) in each group."""
        k, width = self.prior.n_categories - 1, columns.shape[1]
        value, slope, bent = self.cells.curved(fixed + self._moved(columns, w.reshape(len(w), 1, width, k))[:, 0])
        if self.group is None:
            gradient = (columns.T @ slope).reshape(1, -1)
            within = np.einsum("ce,ckl,cf->ekfl", columns, bent, columns, optimize=True)
        else:
            gradient = self._members @ (columns[:, :, None] * slope[:, None, :]).reshape(len(slope), -1)
            each = np.einsum("ce,ckl,cf->cekfl", columns, bent, columns)
            within = self._members @ each.reshape(len(slope), -1)
        within = within.reshape(len(w), width * k, width * k)
        height = self._members @ value - 0.5 * (w**2).sum(axis=1)
        return height, gradient - w, np.eye(width * k) - within

    def effects(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the modes of the effects (groups, d), the log-density and the Cholesky factors of minus its Hessian there.

        Newton's method, in all groups at once: a step that leads lower in some is halved there.
        """
        fixed, columns = self.split(theta)
        shape = self._members.shape[0], columns.shape[1] * (self.prior.n_categories - 1)
        w = self.modes.get("w", np.zeros(shape))
        height, gradient, bent = self._about(fixed, columns, w)
        for _ in range(STEPS.most):
            values, vectors = np.linalg.eigh(bent)
            along = np.einsum("gij,gi->gj", vectors, gradient) / np.maximum(np.abs(values), 1e-10)
            step = np.einsum("gij,gj->gi", vectors, along)
            step *= np.minimum(1.0, STEPS.longest / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
            if np.abs((gradient * step).sum(axis=1)).max() < STEPS.settled * MAXIMA.same:
                break
            length = np.ones((len(w), 1))
            while True:
                there = self._about(fixed, columns, w + length * step)
                lower = (there[0] < height - 1e-12 * np.abs(height)) & (length[:, 0] > np.finfo(float).eps)
                if not lower.any():
                    break
                length[lower] *= 0.5
            w, (height, gradient, bent) = w + length * step, there
        self.modes["w"] = w
        return w, height, np.linalg.cholesky(bent)

    def value(self, theta: np.ndarray) -> float:
        """Return the log-likelihood at θ, without the constants of the reports."""
        try:
            w, height, lower = self.effects(theta)
        except np.linalg.LinAlgError:  # a saddle, far from the maximum
            return -np.inf
        half = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        if self.nodes == 1:
            return float((height - half).sum())
        d, (at, weight) = w.shape[1], hermgauss(self.nodes)
        grid = np.stack(np.meshgrid(*[at] * d, indexing="ij"), axis=-1).reshape(-1, d)
        log_weight = np.log(np.stack(np.meshgrid(*[weight] * d, indexing="ij"))).reshape(d, -1).sum(axis=0)
        fixed, columns = self.split(theta)
        places = w[:, None] + np.sqrt(2) * np.linalg.solve(lower.swapaxes(1, 2)[:, None], grid[:, :, None])[..., 0]
        moved = self._moved(columns, places.reshape(*places.shape[:2], columns.shape[1], -1))
        heights = self._members @ self.cells.values(fixed[:, None] + moved) - 0.5 * (places**2).sum(axis=2)
        heights += log_weight + (grid**2).sum(axis=1)
        return float((logsumexp(heights, axis=1) - half - 0.5 * d * np.log(np.pi)).sum())

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient at θ, by central differences."""
        h = np.finfo(float).eps ** 0.25
        return np.array([self.value(theta + h * axis) - self.value(theta - h * axis) for axis in np.eye(theta.size)]) / (
            2 * h
        )

    @property
    def finer(self) -> "Marginal | None":
        """The same with about twice as many nodes, or None where there is no other rule or no room."""
        nodes, k = 2 * self.nodes + 1, self.prior.n_categories
        if self.group is None:
            return None
        room = self.target.reports.cell.size * k * float(nodes) ** (len(self.prior.effects) * (k - 1))
        return replace(self, nodes=nodes) if room <= NUMBERS_TOGETHER else None


@dataclass(frozen=True, eq=False)
class MixedMaximum:
    """The maximum of a Marginal.

    Attributes
    ----------
    marginal : Marginal
    theta : (u,) array
    covariance : (u, u) array
        By the observed information; of a σ that is 0 zero.
    value : float
        log P(Y), without the constants of the reports.
    apart : float, optional
        How far the log-likelihood with the next finer rule is from this; None where there is none.
    """

    marginal: Marginal
    theta: np.ndarray
    covariance: np.ndarray
    value: float
    apart: float | None

    @property
    def sds(self) -> np.ndarray:
        return np.abs(self.theta[self.marginal.prior.spans[""].stop :])

    def variables(self) -> dict[str, tuple]:
        """Return the sd between groups and the effects at their modes, as {name: (dims, array)}, of log odds or a link."""
        marginal, prior = self.marginal, self.marginal.prior
        modes, k = marginal.effects(self.theta)[0], prior.n_categories - 1
        split = np.cumsum([effect.size for effect in prior.effects])[:-1]
        if marginal.group is None:
            each = np.split(modes.reshape(-1, k), split)
        else:
            each = list(np.moveaxis(modes.reshape(len(modes), -1, k), 1, 0))
        signed = self.theta[prior.spans[""].stop :]
        values = {f"effects_{i}": w[None] for i, w in enumerate(each)} | {
            f"sd_{i}": s[None, None] for i, s in enumerate(signed)
        }
        return {name: (dims, x[0]) for name, (dims, x) in prior.of_groups(values).items() if dims}

    def sentence(self) -> str:
        """Return how the effects were integrated, and how sure that is."""
        if self.marginal.group is None:
            how = "Laplace's approximation"
        else:
            how = f"adaptive Gauss–Hermite quadrature with {self.marginal.nodes} nodes"
        sure = "" if self.apart is None else f"; with twice as many the log-likelihood moves by {self.apart:.1g}"
        names = [effect.name for effect in self.marginal.prior.effects]
        none = [name for name, sd in zip(names, self.sds, strict=True) if not sd]
        zero = f" The sd of {', '.join(none)} is estimated as 0, where it has no standard error." if none else ""
        modes = "variables of these names are their modes" if len(names) > 1 else "variable of this name is its mode"
        return f"The likelihood is integrated over {listed(names)} by {how}{sure}; the result's {modes}.{zero}"


def maximize_marginal(target: RegressionTarget, group: np.ndarray | None) -> MixedMaximum:
    """Return the maximum of the likelihood with effects integrated over their law.

    The number of nodes is doubled until the log-likelihood moves by less than ``maximum.MAXIMA``.

    Parameters
    ----------
    target : RegressionTarget
        With ``flat`` set.
    group : (cells,) int array, optional
        See Marginal.

    Raises
    ------
    InfeasibleError
        Where the likelihood without the effects has no maximum.
    ConvergenceError
        Where the search stops elsewhere.
    """
    prior, marginal = target.prior, Marginal(target, group)
    z, covariance, _ = maximize(replace(target, prior=replace(prior, effects=())))
    number = len(prior.effects)
    theta = np.append(z, [effect.scale for effect in prior.effects])
    size = np.block([[covariance, np.zeros((z.size, number))], [np.zeros((number, z.size)), np.eye(number)]])
    while True:
        theta, size = _climbed(marginal, theta, size)
        value, finer = marginal.value(theta), marginal.finer
        if finer is None:
            return MixedMaximum(marginal, theta, size, value, None)
        if (apart := abs(finer.value(theta) - value)) < MAXIMA.same:
            return MixedMaximum(marginal, theta, size, value, apart)
        marginal = finer


def _climbed(marginal: Marginal, theta: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (θ at the maximum, its covariance) from a start, and a covariance that says how far to step first."""
    from scipy.optimize import minimize

    # In coordinates in which the covariance is about one; of a σ that was 0 it is 0.
    root = np.linalg.cholesky(0.5 * (size + size.T) + np.diag(np.diag(size) == 0))
    start, first = theta, marginal.prior.spans[""].stop
    moved: Any = minimize(
        lambda u: -marginal.value(start + root @ u),
        np.zeros(theta.size),
        jac=lambda u: -root.T @ marginal.gradient(start + root @ u),
        options={"gtol": np.sqrt(MAXIMA.same)},
    )
    theta = start + root @ moved.x
    for k in range(first, theta.size):
        without = np.where(np.arange(theta.size) == k, 0.0, theta)
        if marginal.value(without) > marginal.value(theta) - MAXIMA.same:
            theta = without
    free = np.flatnonzero((np.arange(theta.size) < first) | (theta != 0))

    def slope(at):
        whole = theta.copy()
        whole[free] = at
        return marginal.gradient(whole)[free]

    covariance, value = np.zeros((theta.size, theta.size)), marginal.value(theta)
    while True:  # a step of Newton's method, or several: the search by gradients ends where differences are rounding
        information, gradient = curvature(slope, theta[free], np.finfo(float).eps ** 0.125), slope(theta[free])
        if np.linalg.eigvalsh(information)[0] <= 0:
            raise ConvergenceError("The likelihood is flat in some direction where its maximum was looked for.", None)
        inside = np.linalg.inv(information)
        gain, before = 0.5 * float(gradient @ inside @ gradient), value
        theta[free] += inside @ gradient
        value = marginal.value(theta)
        if gain < MAXIMA.same:
            covariance[np.ix_(free, free)] = inside
            return theta, covariance
        if not value > before:
            raise ConvergenceError(f"The likelihood was not maximized: another step would gain {gain:.2g} nats.", None)
