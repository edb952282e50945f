"""The log-density of the unknowns of a prior given the reports of all cells, with its gradient and Hessian: one for all."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from ldpbayes.inference import hmc
from ldpbayes.inference.bending import ScaledEffects
from ldpbayes.inference.modes import PriorDraws
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.structure import CURVATURES, Arrow, curvature
from ldpbayes.inference.verdict import LIMITS

#: What compiled functions read of a device that is known; see ``inference._kernels.likelihood``.
NO_DEVICE = (
    np.zeros((0, 0)),
    np.zeros(0, np.int64),
    np.zeros((0, 0), np.int64),
    np.zeros(1, np.int64),
    0,
    np.zeros(0),
    np.zeros((0, 2)),
)


@dataclass(frozen=True, eq=False)
class Given:
    """A log-density of some unknowns, where the others have given values.

    Attributes
    ----------
    target : Target
    z : (u,) array
        All unknowns.
    free : (k,) int array
        Places of those that the density is of.
    """

    target: Any
    z: np.ndarray
    free: np.ndarray

    def whole(self, free: np.ndarray) -> np.ndarray:
        """Return all unknowns where the free ones have these values."""
        z = self.z.copy()
        z[self.free] = free
        return z

    def value_and_gradient(self, free: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density and its gradient in the free unknowns."""
        value, slope = self.target.value_and_gradient(self.whole(free))
        return value, slope[self.free]

    def hessian(self, free: np.ndarray) -> np.ndarray:
        """Return the Hessian in the free unknowns, by differences of the gradient."""
        return -curvature(lambda at: self.value_and_gradient(at)[1], free)


@dataclass(frozen=True, eq=False)
class Target:
    """log prior(z) + Σ_c ℓ_c(p_c), P = softmax(η(z)).

    Attributes
    ----------
    prior : AbstractPrior
        With P of shape (a,), or (cells, a).
    reports : object
        Reports of all cells: ``arrays``, what compiled functions read (inference._kernels.of_logits), or None; and
        without these ``value_and_gradient`` of η (cells, a). ``visited``: numbers that an evaluation visits. Of draws of P:
        ``log_likelihood``.
    flat : bool
        Leave the prior out.
    turn : pair of float
        Angle of a trajectory and its jitter; see inference.hmc.
    bounded : float
        Normality (see bending.Bend) where each cell has its own effects. Derived: it is negative where reports bound
        effects, as those of weak cells do, rather than saying where they are. Bank: half and double change no number.
    ends : int
        The most entries of P whose interval ends are judged; of more entries, evenly spaced ones are. Measured: judging all
        of a hundred cells takes longer than drawing. Bank: half and double change no number.
    """

    prior: Any
    reports: Any
    flat: bool = False
    turn: tuple[float, float] = hmc.TRAJECTORIES.angle, hmc.TRAJECTORIES.jitter
    bounded: float = -0.3
    ends: int = 48

    # ---- one point -----------------------------------------------------------------------------------------------------
    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density at z (u,), without the likelihood's constants, and its gradient."""
        value, slope = self._likelihood(z)
        if self.flat:
            return value, slope
        return value + float(self.prior.log_density(z)), slope + self.prior.gradient(z)

    def _likelihood(self, z):
        from ldpbayes.inference import _kernels

        if self.kernel is None:
            logits = np.ascontiguousarray(self.prior.logits_of(z))
            eta = logits.reshape(-1, logits.shape[-1])
            if self.reports.arrays is None:
                value, slope = self.reports.value_and_gradient(eta)
            else:
                slope = np.empty_like(eta)
                total, product = _kernels.of_logits(0, eta, slope, self.reports.arrays, 0.0, 1.0)
                value = total + math.log(product)
            return value, self.prior.pullback_logits(z, slope.reshape(logits.shape))
        numbers, out = self.numbers(z), np.zeros(len(z))
        slope = np.empty_like(numbers)
        value = _kernels.likelihood(numbers, slope, *self._alone)
        out[self.rest] = slope
        for batch in self.batches:
            scale = np.exp(min(z[batch.place], 300.0))
            out[batch.span] *= scale
            out[batch.place] = out[batch.span] @ z[batch.span]
        return value, out

    def hessian(self, z: np.ndarray) -> np.ndarray:
        """Return the Hessian at z by differences of the gradient."""
        return -curvature(lambda at: self.value_and_gradient(at)[1], z)

    # ---- many points ---------------------------------------------------------------------------------------------------
    def log_density(self, z: np.ndarray, watch: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density of many z, shape (S, u), with the likelihood's constants, and their P."""
        p = self.prior.to_simplex(z)
        return self.prior.log_density(z) + self.reports.log_likelihood(p.reshape(len(z), -1, p.shape[-1])), p

    # ---- what weights ask for ------------------------------------------------------------------------------------------
    def prior_draws(self, rng: np.random.Generator) -> PriorDraws | None:
        """Return draws of the prior that show modes which other draws miss, or None where it has effects of many cells."""
        return None if self.batches else PriorDraws.of(self.prior, self.reports, rng)

    def weighed_by(self, z: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the quantities (S, k) of draws that their weights are judged by: P, as log_density gives it."""
        return values.reshape(len(z), -1)

    def judged(self, z: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the quantities (S, …) of draws whose interval ends are judged: some of P."""
        every = values.reshape(len(z), -1)
        return every[:, np.unique(np.linspace(0, every.shape[1] - 1, self.ends).astype(int))]

    def axes(self, covariance: np.ndarray) -> np.ndarray:
        """Return axes (k, u), one sd of draws long each, along which their weights are checked: here none."""
        return np.zeros((0, len(covariance)))

    def others(self, z: np.ndarray, deep: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return modes in which answers are exchanged, at most so many nats lower than z (u,), and axes one sd long there.

        The exchanged device is given first, until the answers follow; then all unknowns but the scales are free: the columns
        of the axes are theirs.
        """
        height, found = self.value_and_gradient(z)[0], []
        for at, changed in self.prior.exchanged(z):
            for given in (changed, changed[:0]):
                free = np.setdiff1d(self.rest, given)
                part = Given(self, at, free)
                mode, values, vectors = find_mode(part, at[free])
                at = part.whole(mode)
            apart = np.linalg.norm(np.sqrt(values) * (vectors.T @ (at - z)[free])) > 1  # else the search came back
            if apart and self.value_and_gradient(at)[0] > height - deep:
                found.append((at, vectors / np.sqrt(values)))
        return found

    def unseen(self, p: np.ndarray, deep: float) -> str:
        """Return the sentence about a mode of exchanged answers that no draw of P (S, …) is near, or an empty string.

        The share of a mode is that of its Laplace approximation, given the scales in the middle of the posterior.
        """
        from ldpbayes.inference.middle import middle

        if not self.prior.exchanged(np.zeros(self.prior.n_unknowns)):
            return ""
        at, *_ = middle(self)
        if not (others := self.others(at, deep)):
            return ""
        part = Given(self, at, self.rest)
        mode, values, vectors = find_mode(part, at[self.rest])
        places = [(part.whole(mode), vectors / np.sqrt(values)), *others]
        mass = softmax([self.value_and_gradient(z)[0] + np.linalg.slogdet(axes)[1] for z, axes in places])
        flat = p.reshape(len(p), -1)
        apart = [(flat - self.prior.to_simplex(z).ravel()) / (flat.std(axis=0) + 1e-12) for z, _ in places]
        nearest = np.argmin(np.linalg.norm(apart, axis=-1), axis=0)
        seen = np.bincount(nearest, minlength=len(places)) / len(p)
        share = float(np.max(mass, where=seen < LIMITS.unseen, initial=0.0))
        said = f"no draw is near a mode in which answers are exchanged, as the device may be, with a share of {share:.2g}"
        return said if share > LIMITS.unseen else ""

    # ---- effects and their scales --------------------------------------------------------------------------------------
    @property
    def batches(self) -> list[ScaledEffects]:
        """The effects of each learnt scale."""
        return self.prior.varying

    @cached_property
    def rest(self) -> np.ndarray:
        """Places of the unknowns that are not the log of a scale."""
        return np.delete(np.arange(self.prior.n_unknowns), [batch.place for batch in self.batches])

    @cached_property
    def effects(self) -> np.ndarray:
        """Which unknowns are effects with a learnt scale, (u,)."""
        is_effect = np.zeros(self.prior.n_unknowns, bool)
        for batch in self.batches:
            is_effect[batch.span] = True
        return is_effect

    def numbers(self, z: np.ndarray) -> np.ndarray:
        """Return what the coefficients of columns are made of, (…, n): the unknowns but log scales, effects times these."""
        z = z.copy()
        for batch in self.batches:
            z[..., batch.span] *= np.exp(np.minimum(z[..., batch.place, None], 300.0))
        return np.take(z, self.rest, axis=-1)

    # ---- what chains ask for -------------------------------------------------------------------------------------------
    @property
    def normality(self) -> float:
        """The normality of bending.Bend."""
        return 1.0 if self.prior.cell_unknowns() is None else self.bounded

    @cached_property
    def kernel(self) -> tuple | None:
        """What the compiled density reads: (how many of the first unknowns have no learnt scale, numbers, the rest)."""
        form = self.prior.linear
        if form is None or self.reports.arrays is None:
            return None
        room, fixed = (form.n_columns, form.basis.shape[1]), min([batch.place for batch in self.batches], default=None)
        device, forms = NO_DEVICE, self.reports.arrays
        if form.device is not None:
            *forms, table, _ = forms
            device = table, *form.device
            forms = *forms, *np.zeros((2, len(table), len(form.basis)))
        arguments = np.zeros(room), np.zeros(room), form.parts, form.roots, device, form.basis, *form.columns, forms
        return self.prior.n_unknowns if fixed is None else fixed, self.rest.size, arguments

    @cached_property
    def _alone(self) -> tuple:
        """What the compiled likelihood reads, without the law of a device."""
        assert self.kernel is not None
        first, device, rest = self.kernel[2][:4], self.kernel[2][4], self.kernel[2][5:]
        return *first, (*device[:-1], NO_DEVICE[-1]), *rest

    def whitened(
        self, gradient: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, free: np.ndarray | None = None
    ) -> Arrow:
        """Return coordinates in which a density with this gradient is nearly standard normal about a point.

        Parameters
        ----------
        gradient : callable
        centre : (u,) array
        free : (k,) int array, optional
            The unknowns that it is a density of; those before the effects that are left out are logs of scales.
        """
        fixed, at = 0 if free is None else centre.size - free.size, centre if free is None else centre[free]
        disjoint, spectrum = self.prior.disjoint(), self.prior.spectrum(centre)
        if disjoint is not None:
            return Arrow.at(gradient, at, disjoint[0] - fixed, disjoint[1])
        if spectrum is not None and (free is not None or at.size > CURVATURES.most_dense):
            return Arrow.near(gradient, at, spectrum[0] - fixed, *spectrum[1:])
        return Arrow.whole(gradient, at) if at.size <= CURVATURES.most_dense else Arrow.plain(at)

    @property
    def functions(self) -> tuple[Callable, Callable] | None:
        """The density and its trajectories that are compiled, or None."""
        if self.kernel is None:
            return None
        from ldpbayes.inference import _kernels

        return _kernels.density, _kernels.trajectories
