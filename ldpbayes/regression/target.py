"""The posterior density of a regression's unknowns, and at many draws what becomes of them over all people."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ldpbayes.inference import target
from ldpbayes.inference.constants import MOST_HELD
from ldpbayes.inference.modes import LOOKING
from ldpbayes.inference.structure import Arrow
from ldpbayes.inference.verdict import LIMITS
from ldpbayes.inference.weighted import Weighting
from ldpbayes.priors.regression import Regression
from ldpbayes.regression.constants import LEAST, NUMBERS_IN_CACHE
from ldpbayes.regression.devices import Tried
from ldpbayes.regression.reports import Entries
from ldpbayes.regression.totals import Totals

#: Time: Draws between two looks at whether to stop, and evaluations (cells × draws × categories) beyond which progress is
#: shown.
TOGETHER, WATCHED = 512, 5e8
#: Rule: Ends of coefficients are aimed at a fortieth of a posterior sd, a quarter of ``LIMITS.end_error``, as far as more
#: draws than a verdict wants are cheap. Derived: ends of N good draws have errors of 2.7/√N sd, so that 11,700, made as
#: 16,384, reach it. Half asks for 46,700, beyond the 32,768 that ``Weighting.work`` allows. Double asks for 2,900, fewer
#: than the 4,096 of the first proposal, and so does the .0625 of other posteriors.
WEIGHTING = Weighting(aimed=0.025)
#: Time: Axes along which log odds of so many cells move belong to those that are looked along.
MOST_CELLS = 12


@dataclass(frozen=True, eq=False)
class RegressionTarget(target.Target):
    """log prior(z) + log P(Y | z), or the likelihood alone, of many cells of few reports, and of known totals.

    Attributes
    ----------
    trials : callable, optional
        Of the trials of an uncertain device, where no prior has them: z (u,) → (log-likelihood, gradient).
    modes : tuple of pairs of (u,) array and float
        The highest mode first, then others whose mass may count, such as that where labels switch, each with how many nats
        lower the log of its mass is, by its Hessian.
    """

    prior: Regression
    reports: Entries
    totals: Totals | None = None
    trials: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None
    modes: tuple[tuple[np.ndarray, float], ...] = ()

    @property
    def kernel(self) -> tuple | None:  # type: ignore[override]  # where shares of all people are data, cells are not apart
        return super().kernel if self.totals is None else None

    def value_and_gradient(self, z):
        value, slope = super().value_and_gradient(z)
        if self.trials is None:
            return value, slope
        more, steep = self.trials(z)
        return value + more, slope + steep

    def _likelihood(self, z):
        value, slope = super()._likelihood(z)
        if self.totals is None:
            return value, slope
        more, steep = self.totals.value_and_gradient(self, z)
        return value + more, slope + steep

    def joint(self, z: np.ndarray, cell: np.ndarray, code: np.ndarray) -> np.ndarray:
        """Return P(report, category) of reports by the numbers of their rows, given the cell of each, up to a constant."""
        return (self.reports.table[code] * self.prior.kinds(z)[cell]) @ self.prior.collapse

    def whitened(self, gradient, centre, kept=None):
        if self.prior.disjoint() is not None and self.totals is None:
            return super().whitened(gradient, centre, kept)
        return Arrow.whole(gradient, centre if kept is None else centre[kept])  # of any number of unknowns

    def prior_draws(self, rng):
        # Hardly a draw of the prior of all coefficients is near the posterior, and so none shows a second mode; a posterior
        # of weak reports can have one (docs/theory/regression.md). A tenth of the proposals comes from the prior instead.
        return None

    def weighed_by(self, z, values):
        return z

    def judged(self, z, values):
        return self.prior.coefficients(z)

    def axes(self, covariance):
        """Return those of the covariance, of each unknown, and of the log odds of the least known cells.

        Those of an unknown or of log odds move the others as they go with it.
        """
        prior, seen, common = self.prior, self.reports.sizes > 0, self.prior.spans[""]
        # An unknown of two categories counts once; the log odds of a cell are X_c Z Vᵀ.
        block = covariance[common, common].reshape(prior.design.shape[1], prior.n_categories - 1, prior.design.shape[1], -1)
        variance = np.einsum("ck,kflf,cl->c", prior.columns, block, prior.columns, optimize=True) * seen
        cells = np.argsort(-variance)[:MOST_CELLS]
        odds = np.zeros((len(cells), prior.n_categories, len(covariance)))
        odds[:, :, common] = np.einsum("ck,xf->cxkf", prior.columns[cells], prior.basis).reshape(*odds.shape[:2], -1)
        odds = odds.reshape(-1, len(covariance))[: prior.n_categories * len(cells)]
        spread = np.sqrt(np.einsum("iu,uv,iv->i", odds, covariance, odds))
        values, vectors = np.linalg.eigh(covariance)
        axes = (vectors * np.sqrt(np.maximum(values, 0.0))).T, covariance / np.sqrt(np.diag(covariance))[:, None]
        others = [(z - self.modes[0][0])[None] / Weighting().far[0] for z, _ in self.modes[1:]]
        return np.concatenate([*axes, (odds @ covariance)[spread > 0] / spread[spread > 0, None], *others])

    # ---- several modes ---------------------------------------------------------------------------------------------------
    def mass(self, mode: tuple[np.ndarray, ...]) -> float:
        """Return the log of the mass of a mode, as ``find_mode`` has it, by its Hessian; without a prior its height."""
        volume = 0.0 if self.flat else -0.5 * float(np.log(np.maximum(mode[1], LEAST)).sum())
        return self.value_and_gradient(mode[0])[0] + volume

    def ranked(self, modes: list[tuple[np.ndarray, ...]]) -> tuple[Self, tuple[np.ndarray, ...], list[float]]:
        """Return (the target with its modes, the one of the largest mass, how many nats lower the others are).

        Parameters
        ----------
        modes : list of tuple
            As ``find_mode`` has them.
        """
        modes = sorted(modes, key=self.mass, reverse=True)
        best, lower, others = modes[0], list[float](), list[np.ndarray]()
        for mode in modes[1:]:
            apart = best[2].T @ (mode[0] - best[0]) * np.sqrt(best[1])
            if np.linalg.norm(apart) > 1 and all(np.linalg.norm(mode[0] - z) > 1e-3 for z in others):
                others.append(mode[0])
                lower.append(self.mass(best) - self.mass(mode))
        near = ((z, less) for z, less in zip(others, lower, strict=True) if less < Weighting().deep)
        return replace(self, modes=((best[0], 0.0), *near)), best, lower

    #: Whether other data than the reports may have modes in which labels switch.
    alike: ClassVar[bool] = False

    def exchanged(self, z: np.ndarray) -> list[np.ndarray]:
        """Return unknowns like z (u,) but with two labels of the answer exchanged, for every two of them.

        With a device as it is, where other data have modes in which labels switch. An uncertain device may have its columns
        exchanged as well, where its law has them so, and then reports do not tell labels from each other.
        """
        out, device = list[np.ndarray](), self.prior if isinstance(self.prior, Tried) else None
        of_device = [] if device is None else device.device.exchangeable(LOOKING.draws)
        for pair in itertools.combinations(range(self.prior.n_categories), 2) if self.alike else of_device:
            order = np.arange(self.prior.n_categories)
            order[list(pair)] = pair[::-1]
            at = self.relabelled(z, order)
            out += [at] if self.alike else []
            out += [device.relabelled(at, order, self.reports.table)] if device is not None and pair in of_device else []
        return out

    def relabelled(self, z: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return unknowns like z (u,) whose categories are in another order, by their common terms."""
        prior, at = self.prior, z.copy()
        terms = z[prior.spans[""]].reshape(-1, prior.n_categories - 1)
        at[prior.spans[""]] = (terms @ prior.basis.T[:, order] @ prior.basis).ravel()
        return at

    def unvisited(self, z: np.ndarray) -> str:
        """Return the sentence about a mode that no draw of chains (…, u) comes near, or an empty string."""
        masses = np.exp([-lower for _, lower in self.modes])
        apart = [np.linalg.norm((z - mode) / z.std(axis=(0, 1)), axis=-1) for mode, _ in self.modes]
        seen = np.bincount(np.argmin(apart, axis=0).ravel(), minlength=len(masses)) / apart[0].size
        share = float(np.max(masses / masses.sum(), where=seen < LIMITS.unseen, initial=0.0))
        return f"no chain came to a mode, such as that of switched labels, with a share of {share:.2g}" * (
            share > LIMITS.unseen
        )

    @cached_property
    def places(self) -> list[tuple[int, np.ndarray]]:
        """The number of each likelihood row that was seen, and where it is among the entries."""
        return [(row, np.flatnonzero(self.reports.row == row)) for row in np.unique(self.reports.row).tolist()]

    def log_density(self, z: np.ndarray, watch: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density of many z (S, u), with the likelihood's constants, and sums over people of P (S, a)."""
        value, shares, _ = self.likelihoods(z, watch=watch)
        return value + (0.0 if self.flat else self.prior.log_density(z)), shares

    def likelihoods(self, z: np.ndarray, *, tallies: bool = False, watch=None):
        """Return (log-likelihoods (S,), sums over people of P (S, a), sums of the expected true tallies or None).

        Parameters
        ----------
        z : (S, n_unknowns) array
        tallies : bool
            Whether to add up E[T | z, reports] = Σ_e w_e q_e, shape (S, a).
        watch : Watch, optional
        """
        a, size, e = self.prior.n_categories, len(z), self.reports
        value, shares, expected = np.full(size, e.constant), np.empty((size, a)), np.zeros((size, a))
        step, some = TOGETHER, self._compiled
        if isinstance(self.prior, Tried):  # whose rows differ by draw
            step = max(min(step, MOST_HELD // e.table.size), 1)
        if self.prior.linear is None:
            step, some = max(NUMBERS_IN_CACHE // (e.n_categories * (e.cell.size + e.n_cells)), 1), self._by_row
        blocks = range(0, size, step)
        if watch is not None and e.n_cells * size * a > WATCHED:
            blocks = watch.track(blocks, "Likelihood of the draws", len(blocks))
        for start in blocks:
            block = slice(start, start + step)
            some(z[block], value[block], shares[block], expected[block] if tallies else None)
        if self.totals is not None:
            value += self.totals.log_density(shares / e.sizes.sum())
        return value, shares, expected if tallies else None

    def _compiled(self, z, value, shares, expected):
        """Add the log-likelihoods to value, and write the sums to shares and expected; see likelihoods."""
        from ldpbayes.inference._kernels import all_widened
        from ldpbayes.regression import _kernels

        form, e = self.prior.linear, self.reports
        assert form is not None  # of what is compiled
        wide = np.empty((len(z), form.n_columns, form.basis.shape[1]))
        all_widened(self.numbers(z), wide, form.parts, form.roots)
        contrasts = wide @ (form.basis[1:] - form.basis[0]).T  # (S, K, a − 1)
        moved = np.ascontiguousarray(np.moveaxis(contrasts, 0, -1).swapaxes(0, 1))
        tables = e.table[:, :, None]
        if isinstance(self.prior, Tried):
            tables = np.moveaxis(self.prior.rows(z, e.table), 0, -1)
        arguments = *form.columns, e.starts, e.row, e.weight, np.ascontiguousarray(tables), e.sizes
        sums = np.zeros(shares.T.shape), np.zeros((0, 0) if expected is None else expected.T.shape)
        _kernels.of_draws(moved, *arguments, value, *sums)
        shares[:] = sums[0].T
        if expected is not None:
            expected[:] = sums[1].T

    def _by_row(self, z, value, shares, expected):
        """Do what _compiled does, for any prior."""
        e, collapse = self.reports, self.prior.collapse
        kinds = self.prior.kinds(z)
        shares[:] = np.tensordot(kinds, e.sizes, (1, 0)) @ collapse
        for row, some in self.places:
            here = kinds[:, e.cell[some]]
            seen = np.maximum(here @ e.table[row], 1e-300)
            value += np.log(seen) @ e.weight[some]
            if expected is not None:
                expected += (np.einsum("se,sek->sk", e.weight[some] / seen, here) * e.table[row]) @ collapse
