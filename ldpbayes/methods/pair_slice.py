"""Slice sampling of P two categories at a time: correlated categories, several attributes at once, counts of bits.

The sum of a pair stays, its split is drawn; where the rows are too many to visit for each pair, a quadratic stand-in for
the log-likelihood moves P and the likelihood itself accepts or rejects (Liu 2001, §9.4.3, surrogate transitions).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.inference.diagnostics import verdict_on
from ldpbayes.inference.sampling import Run, going_on
from ldpbayes.inference.verdict import LIMITS, Verdict
from ldpbayes.likelihoods.expansion import Quadratic
from ldpbayes.methods.base import AbstractPosterior, Outcome, Pace, Preparation, Refusal, inside, whole
from ldpbayes.methods.constants import MAX_SQUARE, MAX_WRITTEN, MIN_ALPHA

#: Of a quadratic, whose reports are not visited.
NONE = np.empty(0)
ROUTES = ("auto", "rows", "quadratic")


@dataclass(frozen=True)
class PairSlice(AbstractPosterior):
    """Slice sampling of the split of P_x + P_y for random pairs (x, y); any collection, best where few reports are distinct.

    With s = P_x + P_y fixed and P_x = s sin²θ, the angle has density sin^{2α_x−1}θ cos^{2α_y−1}θ times the likelihood on
    [0, π/2]: bounded for Jeffreys, so no boundary holds the chain, and nothing is tuned. A sweep is as many pairs as there
    are categories. Mixing depends on how correlated the categories are. Where categories are combinations of attributes,
    pairs would change margins that many reports fix: after every pair the corners of a rectangle in their table move,
    (x, y) and (w, z) in opposite ways, so that all margins stay.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and draws discarded before them, per chain. Derived: half as many are discarded as kept, as chains of the
        field have. Bank: half and double of ``tune`` show nothing. Chains that are short of draws go on up to
        ``LIMITS.most`` times as long. Draws at equal distances are then kept, and the attr ``thinned`` has
        the distance.
    thin : int, optional
        Sweeps per draw; by default up to ``sweeps``, as many as take no more than ``thin_work`` operations in all.
    route : {"auto", "rows", "quadratic"}
        "rows": each pair is drawn from the posterior, O(distinct reports). "quadratic": pairs are drawn with
        b·p − pᵀHp/2 for the log-likelihood, O(a), and the end of each draw's sweeps is a Metropolis proposal: the draws
        are from the posterior all the same, and the fact ``acceptance`` says how good the quadratic is.
    sweeps : int
        The most for a draw. Measured: 4,000 draws of twelve cells of two attributes and of eight
        categories are worth 1,500 to 1,650 at one sweep, 3,400 to 3,700 at five, and no more beyond. Where categories are
        more correlated chains go on instead. Bank: half and double show nothing.
    thin_work, rows_work, max_work : float
        Operations. Measured: half a second, two seconds up to which "auto" visits the rows, and minutes beyond which the
        method is refused. Bank: without the quadratic two of four RAPPOR problems are lost.
    expansions : int
        Expansions of the quadratic, each over a tenth of the tuning draws. Derived: ten tenths, less two in which the
        chains converge. Bank: half shows nothing, double fails, as there is no tenth left.
    least_accepted : float
        Derived: below this share of accepted sweeps the tails, where the quadratic is worst, are visited too rarely to be
        trusted: a guard.

    Notes
    -----
    b and H are the gradient and curvature averaged over the chains' own draws, u = Lp: Lᵀ E[w/u] + H E[p] and
    Lᵀ diag(E[w/u²]) L, expanded anew a few times while tuning and then kept.

    References
    ----------
    Neal (2003), "Slice sampling", §4; Liu (2001), "Monte Carlo Strategies in Scientific Computing", §9.4.3; Diaconis and
    Sturmfels (1998), Annals of Statistics 26, on moves that keep margins.
    """

    tune: int = 500
    thin: int | None = None
    route: str = "auto"
    sweeps: int = 10
    thin_work: float = 1.5e9
    rows_work: float = 5e9
    max_work: float = 6e11
    expansions: int = 8
    least_accepted: float = 0.8
    name: ClassVar[str] = "pair_slice"
    after: ClassVar[str] = "surrogate"
    pace: ClassVar[Pace] = Pace(0.15, 0.0, 3.5e-10)
    checked: ClassVar[Mapping] = {
        "tune": whole(100),
        "thin": whole(1),
        "route": lambda value, name: checks.choice(value, name, ROUTES),
        "sweeps": whole(1),
        **dict.fromkeys(("thin_work", "rows_work", "max_work"), checks.positive),
        "expansions": whole(1),
        "least_accepted": inside,
    }

    def prepare(self, problem):
        rows, least = problem.rows, problem.alpha.min()
        if least < MIN_ALPHA:
            return Refusal(f"Pair slices need every concentration to be at least {MIN_ALPHA:g}, got {least:g}.")
        route, (fixed, sweep) = self._costs(rows)
        if route == "rows" and rows.n_rows * rows.n_categories > MAX_WRITTEN:
            return Refusal(f"The rows have more than {MAX_WRITTEN} entries to write out.")
        if route == "quadratic" and rows.n_categories > MAX_SQUARE:
            return Refusal(f"The quadratic has more than {MAX_SQUARE} categories.")
        thin = self._thin(sweep)
        work = fixed + thin * sweep
        if work > self.max_work:
            return Refusal(f"Sweeps over pairs must take at most {self.max_work:.0e} operations, got {work:.2g}.")
        how = "the rows themselves" if route == "rows" else "a quadratic, accepted by the likelihood"
        reason = f"Slice sampling of pairs of categories on {how}; R-hat says whether it mixed."
        return Preparation(reason, work, (problem, route, thin))

    def run(self, plan, rng, watch):
        problem, route, thin = plan.state
        size, longest = self.draws * self.chains, self.draws * min(LIMITS.most, self.max_work / plan.work)
        chains = _Chains(problem.alpha, self.chains, thin * problem.n_categories, problem.rows.sizes, rng)
        steps = iter(watch.track(range(self.tune), "Settling of pair slices"))
        target = (
            _Exact(problem.rows) if route == "rows" else _settle(chains, problem.rows, self.expansions, self._round, steps)
        )
        for _ in steps:
            target.draw(chains)

        def more(number):
            draws, accepted, finished = np.empty((self.chains, number, problem.n_categories)), [], 0
            with watch.keeping(lambda: finished):
                for finished in watch.track(range(number), "Pair slices"):
                    moved = target.draw(chains)
                    draws[:, finished] = chains.p
                    accepted.append(moved)
            accepted, doubt = np.array(accepted).T, ""
            if np.mean(accepted) < self.least_accepted:
                percent, least = 100 * np.mean(accepted), 100 * self.least_accepted
                doubt = f"the likelihood accepts {percent:.0f} % of the quadratic's sweeps, below {least:.0f} %"
            return Run(draws[:, : accepted.shape[1]], {"accepted": accepted}, doubt)

        def wanting(run, made):
            return 2 * made <= longest and verdict_on(run.z, 0, size).next == "more"

        run = going_on(more, wanting, self.draws, watch, thin=True)
        return Outcome(
            run.z,
            independent=False,
            verdict=Verdict(accepted=not run.trouble, problem=run.trouble),
            stats=run.stats,
            facts={"route": route, "sweeps_per_draw": thin, "acceptance": float(run.stats["accepted"].mean())} | run.facts,
        )

    def _costs(self, rows):
        """Return (route, (fixed operations, operations per sweep a draw)); from the sizes alone."""
        m, a = rows.n_rows, rows.n_categories
        # A pair's angle is evaluated some ten times, with a logarithm of every row.
        sweeps, pair = self.chains * (self.draws + self.tune), 600 if rows.sizes else 300
        by_rows = 0.0, sweeps * a * (pair + 20 * m)
        expansion = 0.1 * m * a**2 + m * a * self.chains * self._round
        quadratic = self.expansions * expansion + sweeps * m * a, sweeps * a * (pair + a)
        route = self.route
        if route == "auto":
            route = "rows" if sum(by_rows) <= self.rows_work or a > MAX_SQUARE else "quadratic"
        return route, by_rows if route == "rows" else quadratic

    def _thin(self, sweep):
        """Return the sweeps per draw; from counts alone, so that a seed gives the same draws everywhere."""
        return self.thin or int(np.clip(self.thin_work / sweep, 1, self.sweeps))

    @property
    def _round(self):
        return self.tune // 10


class _Chains:
    """Where the chains are, p (chains, a), how many pairs a draw moves, and the sizes of the table of the categories.

    They start at draws from Dirichlet(α + 1): spread out, and away from the walls.
    """

    def __init__(self, alpha, size, pairs, table, rng):
        self.alpha, self.pairs, self.table, self.rng = alpha, pairs, np.array(table, dtype=np.int64), rng
        self.p = rng.dirichlet(alpha + 1, size=size)


class _Exact:
    """Pairs drawn from the posterior: the rows by column, every pair visits each distinct report."""

    def __init__(self, rows):
        self.columns, self.counts = np.ascontiguousarray(rows.dense().T), rows.counts

    def draw(self, chains):
        """Move every chain; return which moved (all)."""
        from ldpbayes.methods import _kernels as kernels

        for p in chains.p:
            state = p @ self.columns
            kernels.slice_pairs(p, state, self.columns, self.counts, chains.alpha, chains.table, chains.pairs, chains.rng)
            p /= p.sum()
        return np.ones(len(chains.p), dtype=bool)


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """Pairs drawn with b·p − pᵀHp/2 in the likelihood's place, then one Metropolis step on the likelihood.

    Sweeps of random pairs are reversible under the stand-in's posterior, so what they propose is accepted with
    min(1, w(p')/w(p)), w the likelihood over the stand-in.
    """

    rows: object
    stand_in: Quadratic

    def propose(self, chains):
        """Return the chains' places after their sweeps on the stand-in."""
        from ldpbayes.methods import _kernels as kernels

        new = chains.p.copy()
        for p, slope in zip(new, self.stand_in.value_and_gradient(new)[1], strict=True):
            kernels.slice_pairs(p, slope, self.stand_in.hessian, NONE, chains.alpha, chains.table, chains.pairs, chains.rng)
            p /= p.sum()
        return new

    def draw(self, chains):
        """Move every chain; return which accepted."""
        new = self.propose(chains)
        gain = self._log_weight(new) - self._log_weight(chains.p)
        accepted = np.log1p(-chains.rng.random(len(new))) < gain
        chains.p = np.where(accepted[:, None], new, chains.p)
        return accepted

    def _log_weight(self, p):
        return self.rows.log_likelihood(np.ascontiguousarray(p.T)) - self.stand_in.value_and_gradient(p)[0]


def _settle(chains, rows, expansions, length, steps):
    """Return the _Quadratic after ``expansions`` rounds around its own draws; the chains move along with it."""
    around = (chains.alpha / chains.alpha.sum())[None]
    for _ in range(expansions):
        target, seen = _Quadratic(rows, rows.quadratic(around)), []
        for _ in range(length):
            next(steps)
            chains.p = target.propose(chains)
            seen.append(chains.p)
        around = np.concatenate(seen[length // 2 :])
    return target
