"""Many cells under a Dirichlet prior, each with reports that single out one category: exact moments, ends and draws."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference import diagnostics
from ldpbayes.inference.ends import LEVELS, tails
from ldpbayes.posteriors.base import Problem, Watch
from ldpbayes.posteriors.conditioned_product import TiltedFactors
from ldpbayes.posteriors.conditioned_product.polynomial import PolynomialRoute
from ldpbayes.posteriors.exact import Exact, certain, refuse_fractions, refuse_tables, stacked_factors
from ldpbayes.posteriors.frequency import complete
from ldpbayes.posteriors.many import Many, exact_entries

#: Why a cell has this method, and what its draws need.
EVERY = "Every report singles out one category: the posterior is exact at any size."
CHECKED = "Independent draws: no chain diagnostics are needed."
#: Cells whose tables of counts are made together.
TOGETHER = 64


@dataclass(frozen=True, eq=False)
class Conjugate:
    """Cells whose posteriors are independent, and exact.

    Attributes
    ----------
    many : Many
        What gives the moments of all cells at once.
    problems : list of Problem
        Of each cell, all under one Dirichlet prior.
    """

    many: Many
    problems: list[Problem]

    @classmethod
    def of(cls, cells, prior) -> "Conjugate | None":
        """Return the Conjugate of cells under a prior, or None where it does not serve them.

        Parameters
        ----------
        cells : Cells
            Without respondents who ignore the device.
        prior : AbstractPrior
        """
        if prior.concentrations() is None:
            return None
        try:
            many = Many.of(cells)
            for _, form in many.separable:
                refuse_fractions(form)
                refuse_tables(form)
        except InfeasibleError:
            return None
        if many.summarized or cells.nature.weighted or any(cell.derived for cell in cells.values()):
            return None
        return cls(many, [Problem.of(cell, prior) for cell in cells.collections()])

    def sampled(self, draws: int, chains: int, ci_prob: float, seeds: list, watch: Watch) -> dict[str, Any]:
        """Return the draws of P and F, (chains, draws, cells, a), and the entries of ``exact``.

        Parameters
        ----------
        draws, chains : int
        ci_prob : float
        seeds : list of int
            Of each cell: its draws do not depend on the other cells.
        watch : Watch
        """
        size, a, count = draws * chains, self.many.n_categories, len(self.problems)
        alpha = self.problems[0].alpha
        found = self.many.under(alpha, (*tails(ci_prob), *LEVELS), watch)
        known = found.mean, found.variance, found.quantiles[:2], alpha, self.many.n_reports[:, None]
        exact = exact_entries(*known, found.log_evidence)
        exact["distribution_quantile"] = np.moveaxis(found.quantiles[2:], 0, 1)
        p, f = np.empty((2, count, chains, draws, a))
        forms = [form for _, form in self.many.separable]
        family, _ = stacked_factors(forms, alpha)
        starts = range(0, count, TOGETHER)
        for start in watch.track(starts, "Draws of the cells"):
            part = slice(start, min(start + TOGETHER, count))
            some = family.take(slice(part.start * a, part.stop * a))
            route = PolynomialRoute(TiltedFactors(some, np.ones(a), found.tilt[part], part.stop - part.start))
            for k, rng in enumerate(map(np.random.default_rng, seeds[part]), start):
                flat, tallies = p[k].reshape(size, a), f[k].reshape(size, a)
                flat[:], tallies[:], _ = route.draws(np.arange(a), size, rng, of=k - start)
                tallies += certain(forms[k], a)
                complete(tallies, flat, self.problems[k].n_users, rng)
        p, f = (np.moveaxis(one, 0, 2) for one in (p, f))
        return {"distribution": p, "frequency": f, "exact": exact}

    def tree(self, cells, prior, sizes: dict, seeds: list, run: dict, stated: dict):
        """Return the summarised result of all cells.

        Parameters
        ----------
        cells : Cells
        prior : AbstractPrior
        sizes : dict
            draws and chains.
        seeds : list of int
        run : dict
            random_seed, ci_prob and progressbar.
        stated : dict
            What was asked for, to be recorded.
        """
        from ldpbayes.result.cells import facts_of, of_cells

        Exact(**sizes)  # which refuses sizes as for one cell
        found = self.sampled(**sizes, ci_prob=run["ci_prob"], seeds=seeds, watch=Watch(run["progressbar"]))
        exact, count = found.pop("exact"), len(self.problems)
        facts = facts_of(
            count,
            method="exact",
            reason=EVERY,
            outcome=CHECKED,
            frequency_draws="allocated",
            converged=1,
            random_seed=seeds,
            log_evidence=exact["log_evidence"],
        )
        reason = f"{EVERY} Under such a prior the cells are independent."
        attrs = {"reason": reason, "sampling": "independent", "checked": CHECKED}
        draws = {name: (cells.dims, found[name]) for name in ("distribution", "frequency")}
        tree = of_cells(cells, prior, facts, stated, draws=draws, exact=exact, attrs=attrs)
        diagnostics.summarise(tree, run["ci_prob"])
        return tree
