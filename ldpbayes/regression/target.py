"""The posterior density of a regression's unknowns, and at many draws what becomes of them over all people."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbayes.inference import target
from ldpbayes.priors.regression import Regression
from ldpbayes.regression.reports import Entries

#: Draws between two looks at whether to stop, and evaluations (cells × draws × categories) beyond which progress is shown.
TOGETHER, WATCHED = 512, 5e8


@dataclass(frozen=True, eq=False)
class Target(target.Target):
    """log prior(z) + log P(Y | z), or the likelihood alone, of many cells of few reports."""

    prior: Regression
    reports: Entries

    def pooled(self) -> np.ndarray:
        """Return the distribution of all people together, roughly."""
        return self.reports.pooled()

    def stated_rows(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the likelihood rows as a result keeps them, as {name: (dims, values)}."""
        return {"likelihood_rows": (("code", "category"), self.reports.table)}

    def stated_columns(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return further columns of the cells that a result keeps, as {name: (dims, values)}."""
        return {}

    def joint(self, z: np.ndarray, cell: np.ndarray, code: np.ndarray) -> np.ndarray:
        """Return P(report, category) of reports by the numbers of their rows, given the cell of each, up to a constant."""
        return self.reports.table[code] * self.prior.to_simplex(z)[cell]

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
        from ldpbayes.inference._kernels import all_widened
        from ldpbayes.regression import _kernels

        a, size, form, e = self.prior.n_categories, len(z), self.prior.linear, self.reports
        assert form is not None  # of a regression
        known = *form.columns, e.starts, e.row, e.weight, np.ascontiguousarray(e.table), e.sizes
        value, shares = np.full(size, e.constant), np.empty((size, a))
        expected = np.empty((size, a)) if tallies else None
        blocks = range(0, size, TOGETHER)
        if watch is not None and e.n_cells * size * a > WATCHED:
            blocks = watch.track(blocks, "Likelihood of the draws", len(blocks))
        for start in blocks:
            part = slice(start, min(start + TOGETHER, size))
            many = part.stop - start
            wide = np.empty((many, form.n_columns, form.basis.shape[1]))
            all_widened(self.numbers(z[part]), wide, form.parts, form.roots)
            contrasts = wide @ (form.basis[1:] - form.basis[0]).T  # (S, K, a − 1)
            sums = np.zeros((a, many)), np.zeros((a if tallies else 0, many))
            moved = np.ascontiguousarray(np.moveaxis(contrasts, 0, -1).swapaxes(0, 1))
            _kernels.of_draws(moved, *known, value[part], *sums)
            shares[part] = sums[0].T
            if expected is not None:
                expected[part] = sums[1].T
        return value, shares, expected
