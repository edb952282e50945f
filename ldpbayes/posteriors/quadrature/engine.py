"""Deterministic posterior at few distinguishable categories: nested Gauss–Jacobi rules on the sticks of the simplex.

Every stick's nodes lie where the likelihood, maximized over the later sticks, is within e^{−depth} of its maximum, so the
number of nodes does not grow with the number of reports, and the mass left out has a proven bound.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ConvergenceError
from ldpbayes.inference.ends import tails
from ldpbayes.inference.verdict import Verdict
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample
from ldpbayes.posteriors.frequency import frequency_moments
from ldpbayes.posteriors.quadrature.draws import draw
from ldpbayes.posteriors.quadrature.integrals import Moments, integrate, interval_ends, margins_of
from ldpbayes.posteriors.quadrature.rules import FIRST_STICK, exact_nodes
from ldpbayes.posteriors.quadrature.target import Target
from ldpbayes.priors.dirichlet import INTEGRALS as MOMENTS

#: Largest number of groups of categories that a product rule is tried on.
MAX_GROUPS = 8
#: The rule's error is its distance from the rule with COARSER times its nodes; where too large, it gets FINER times as many.
COARSER, FINER = 0.8, 1.25
#: Largest share of the mass that windows may leave out. Wider ones aim at e^−WIDENING, a tenth of that.
MAX_LEFT_OUT, WIDENING = 1e-9, 23
#: Nodes a stick: at the first try, and where most collections are resolved.
FIRST_NODES, USUAL_NODES = 28, 35
#: Operations of a node, where a row takes one, and of a stick of a draw; most of all.
NODE, DRAW, MAX_WORK = 12, 2000, 6e9


@dataclass(frozen=True, eq=False)
class Integrals:
    """What the rule says of one posterior: moments of P and F, evidence, and margins where they are asked for."""

    merged: Any
    target: Target
    nodes: int
    moments: Moments
    error: float
    watch: Any

    @cached_property
    def entries(self) -> dict:
        """Entries of result.EXACT."""
        merged = self.merged
        mean, cov = merged.expand(self.moments.mean, self.moments.cov)
        sd = np.sqrt(np.diag(cov))
        pair, error = (merged.member_alpha, merged.n_reports), max(self.error, MOMENTS)
        frequency_mean, frequency_sd = frequency_moments(mean, sd**2, *pair, merged.tally_moments, error)
        return {
            "distribution_mean": mean,
            "distribution_sd": sd,
            "distribution_cov": cov,
            "frequency_mean": frequency_mean,
            "frequency_sd": frequency_sd,
            "log_evidence": self.moments.log_evidence + merged.log_constant,
        }

    #: Which sets are rough, as a ConditionedProduct says: like its, what follows has an axis of sets, here one.
    rough: ClassVar[np.ndarray] = np.zeros(1, dtype=bool)

    @property
    def mean(self):
        """E[P], shape (1, a)."""
        return self.entries["distribution_mean"][None]

    @property
    def variance(self):
        """Var(P), shape (1, a)."""
        return self.entries["distribution_sd"][None] ** 2

    def covariance(self):
        """Return Cov(P), shape (1, a, a)."""
        return self.entries["distribution_cov"][None]

    def quantile(self, levels):
        """Return the ends at two levels, shape (2, 1, a)."""
        return np.array(list(self.intervals(levels[1] - levels[0]).values()))[:, None]

    def cdf(self, value):
        """Return P(P_x ≤ value_x), shape (1, a)."""
        first, kind = self.merged.margins()
        values = [self._margins[x][0](value[0, x]) for x in first]
        return np.array(values)[None, kind]

    @property
    def sentence(self) -> str:
        """What was checked."""
        coarse = math.ceil(COARSER * self.nodes)
        return f"Integrals with {self.nodes} and {coarse} nodes per dimension agree to {self.error:.1e} posterior sd."

    @cached_property
    def _margins(self):
        return margins_of(self.merged, self.target, self.nodes, self.moments, self.watch)

    def intervals(self, ci_prob):
        """Return the ends of the equal-tailed intervals, as entries of result.EXACT."""
        ends = interval_ends(self.merged, self._margins, tails(ci_prob)[0])
        return dict(zip(("distribution_lower", "distribution_upper"), ends, strict=True))


@dataclass(frozen=True)
class Quadrature(AbstractPosterior):
    """Moments, evidence and margins by conical (stick-breaking) Gauss–Jacobi quadrature, with its error; i.i.d. draws.

    With sticks v_i = P_i / (P_i + … + P_g) the prior is a product of Betas and the likelihood a polynomial. The rule with
    q nodes a stick is compared with the one with 0.8 q; q grows until they agree to ``tolerance``. Each margin comes from
    the rule that breaks its category first: its density is known at the nodes of the first stick, a polynomial times a
    Beta weight, and is integrated and inverted as such. Draws start at independent draws from the nodes and then move
    along every stick once by its exact conditional: since the rule integrates smooth functions to its stated error and
    the move makes every function smooth, the draws are i.i.d. from the posterior to that error (and that of inverting a
    distribution function on a grid, below 1e-4 in probability).

    Parameters
    ----------
    draws, chains : int
        chains × draws i.i.d. draws of (P, F).
    tolerance : float
        Largest accepted difference between the two rules: means in posterior sd, sd relative, log-evidence in nats.

    References
    ----------
    Stroud (1971), "Approximate Calculation of Multiple Integrals", for conical products.
    """

    draws: int = 1000
    chains: int = 4
    tolerance: float = 1e-6
    name: ClassVar[str] = "quadrature"
    order: ClassVar[float] = 2
    most: ClassVar[float] = 1.7e8
    pace: ClassVar[Pace] = Pace(0.05, 0.0, 1e-8)
    checked: ClassVar[Mapping] = {"tolerance": checks.positive}

    def prepare(self, problem):
        if problem.n_groups > MAX_GROUPS:
            return Refusal(
                f"Distinguishable categories must be at most {MAX_GROUPS} for quadrature, got {problem.n_groups}."
            )
        return self._plan(problem.merged)

    def integrals(self, plan, watch):
        """Return the Integrals of a plan: moments, evidence and margins without draws.

        Raises
        ------
        ConvergenceError
            Where the rule that the tolerance needs would take too long.
        """
        return Integrals(plan.state, *self._resolve(plan.state, watch), watch)

    def run(self, plan, rng, watch):
        return self.sample(self.integrals(plan, watch), rng, watch)

    def sample(self, integrals, rng, watch):
        """Return the Sample of Integrals: independent draws, and what they say."""
        merged, nodes, error = integrals.merged, integrals.nodes, integrals.error
        groups = draw(integrals.target, math.ceil(COARSER * nodes), self.chains * self.draws, rng, watch)
        distribution, tallies = merged.split(groups, merged.allocate(groups, rng), rng)
        shape = (self.chains, self.draws, -1)
        return Sample(
            distribution.reshape(shape),
            tallies.reshape(shape),
            verdict=Verdict(checked=integrals.sentence),
            exact=integrals.entries,
            intervals=integrals.intervals,
            facts={
                "n_groups": merged.n_groups,
                "nodes_per_stick": nodes,
                "quadrature_error": error,
                "mass_left_out": integrals.moments.left_out,
            },
        )

    def _plan(self, merged, nodes=None):
        """Return the Plan or Refusal for merged rows; at the nodes that most collections need where none are given."""
        g, m = merged.n_groups, merged.counts.size
        nodes = nodes or min(USUAL_NODES, exact_nodes(merged))
        passes = g + 1  # one for the moments, about one for the coarser ones and the draws, one for each further margin
        work = passes * FIRST_STICK * float(nodes) ** (g - 1) * (NODE + m) + DRAW * (g - 1) * self.draws * self.chains
        size = f"{g} distinguishable categories, {nodes} nodes per dimension, {m} distinct rows"
        if work > MAX_WORK:
            return Refusal(f"Quadrature takes at most {MAX_WORK:.0e} operations, got {work:.2g} ({size}).")
        return Plan(f"Exact to a checked error by quadrature ({size}).", work, merged)

    def _resolve(self, merged, watch):
        """Return (target, nodes a stick, moments, error), with as many nodes and as wide windows as the answer needs."""
        nodes = min(FIRST_NODES, exact_nodes(merged))
        target, coarse = Target.of(merged), None
        while True:
            fine = integrate(target, nodes, watch)
            if fine.left_out > MAX_LEFT_OUT:
                target, coarse = target.deeper(math.log(fine.left_out) + WIDENING), None
                continue
            if coarse is None:
                coarse = integrate(target, math.ceil(COARSER * nodes), watch)
            error = fine.distance(coarse)
            if error <= self.tolerance or merged.n_groups == 1:
                return target, nodes, fine, error
            finer = math.ceil(FINER * nodes)
            plan = self._plan(merged, finer)
            if not plan.feasible:
                raise ConvergenceError(
                    f"Quadrature is not resolved: {nodes} nodes per dimension differ by {error:.1e} from 0.8 as many, "
                    f"tolerance {self.tolerance:g}. {plan.reason}"
                )
            nodes, coarse = finer, fine
