"""The posterior density of a regression's unknowns, and at many draws what becomes of them over all people."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes.inference import target
from ldpbayes.inference.structure import Arrow
from ldpbayes.inference.weighted import Weighting
from ldpbayes.priors.regression import Regression
from ldpbayes.regression.constants import NUMBERS_IN_CACHE
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
    """

    prior: Regression
    reports: Entries
    totals: Totals | None = None
    trials: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None

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
        return np.concatenate([*axes, (odds @ covariance)[spread > 0] / spread[spread > 0, None]])

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
        arguments = *form.columns, e.starts, e.row, e.weight, np.ascontiguousarray(e.table), e.sizes
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
