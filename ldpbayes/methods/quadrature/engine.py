"""Deterministic posterior at few distinguishable categories: nested Gauss–Jacobi rules on the sticks of the simplex.

Every stick's nodes lie where the likelihood, maximized over the later sticks, is within e^{−depth} of its maximum, so the
number of nodes does not grow with the number of reports, and the mass left out has a proven bound.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ConvergenceError
from ldpbayes.inference.ends import tails
from ldpbayes.inference.verdict import Verdict
from ldpbayes.methods.base import AbstractPosterior, Outcome, Pace, Preparation, Refusal, whole
from ldpbayes.methods.frequency import frequency_moments
from ldpbayes.methods.quadrature.denial import DenialIntegrand
from ldpbayes.methods.quadrature.device import DeviceIntegrand
from ldpbayes.methods.quadrature.draws import Drawer
from ldpbayes.methods.quadrature.integrals import RuleMoments, difference, integrate, interval_ends, margins_of
from ldpbayes.methods.quadrature.integrand import Integrand
from ldpbayes.methods.quadrature.rules import ProductRule, exact_nodes
from ldpbayes.priors.dirichlet import INTEGRALS as MOMENTS


@dataclass(frozen=True, eq=False)
class Integrals:
    """What the rule says of one posterior: moments of P and F, evidence, and margins where they are asked for."""

    merged: Any
    integrand: Integrand
    rule: ProductRule
    coarse: ProductRule
    moments: RuleMoments
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
        nodes = f"{self.rule.nodes} and {self.coarse.nodes} nodes per dimension"
        return f"Integrals with {nodes} agree to {self.error:.1e} posterior sd."

    @cached_property
    def _margins(self):
        return margins_of(self.merged, self.integrand, self.rule, self.moments, self.watch)

    def intervals(self, ci_prob):
        """Return the ends of the equal-tailed intervals, as entries of result.EXACT."""
        ends = interval_ends(self.merged, self._margins, tails(ci_prob)[0])
        return dict(zip(("distribution_lower", "distribution_upper"), ends, strict=True))


@dataclass(frozen=True)
class Quadrature(AbstractPosterior):
    """Moments, evidence and margins by conical (stick-breaking) Gauss–Jacobi quadrature, with its error; i.i.d. draws.

    With sticks v_i = P_i / (P_i + … + P_g) the prior is a product of Betas and the likelihood a polynomial. The rule with
    q nodes a stick is compared with one of four fifths; q grows until they agree to ``tolerance``. Each margin comes from
    the rule that breaks its category first: its density is known at the nodes of the first stick, a polynomial times a
    Beta weight, and is integrated and inverted as such. Draws start at independent draws from the nodes and then move
    along every stick once by its exact conditional: since the rule integrates smooth functions to its stated error and
    the move makes every function smooth, the draws are i.i.d. from the posterior to that error (and that of inverting a
    distribution function on a grid, below 1e-4 in probability).

    Where one category may be denied, the share δ of it who deny is one more unknown, ∫ p(P | Y, δ) p(δ | Y) dδ: the same
    rules at every node of δ.

    Parameters
    ----------
    draws, chains : int
        chains × draws i.i.d. draws of (P, F), and of δ.
    tolerance : float
        Largest accepted difference between the two rules: means in posterior sd, sd relative, log-evidence in nats. Derived:
        exact to six digits, as integrals of other engines are. Windows may leave out a mass of a thousandth of it.
    nodes : int
        Nodes of a stick at the first try. Derived: a rule of q nodes is exact for 2q − 1 whole reports, and smooth
        beyond: four of five surveys are resolved. Bank: half and double show nothing, of this number alone.
    max_work : float
        Operations. Measured: 6e9 at 1e-8 s (``pace``) are a minute.

    Attributes
    ----------
    most : float
        As in AbstractPosterior. Measured: 1.7e8 at 1e-8 s are some two seconds, in which sampled methods answer. Bank: half
        and double choose another method for one of four, within errors.

    References
    ----------
    Stroud (1971), "Approximate Calculation of Multiple Integrals", for conical products.
    """

    tolerance: float = 1e-6
    nodes: int = 28
    max_work: float = 6e9
    name: ClassVar[str] = "quadrature"
    after: ClassVar[str] = "exact"
    most: ClassVar[float] = 1.7e8
    pace: ClassVar[Pace] = Pace(0.05, 0.0, 1e-8)
    needs: ClassVar[tuple[str, ...]] = ("rows",)
    checked: ClassVar[Mapping] = {
        "tolerance": checks.positive,
        "nodes": whole(2),
        "max_work": checks.positive,
    }

    def prepare(self, problem):
        if problem.collection is not None and problem.collection.device_law is not None:
            return self._prepare_device(problem)
        split = problem.prior.split()
        if split is not None:
            plan = self._plan_of_denial(split[0].size, problem.rows.n_rows, self._usual)
            return replace(plan, state=DenialIntegrand.of(problem, split)) if plan.feasible else plan
        if problem.alpha is None:
            return Refusal(f"The method quadrature needs a Dirichlet prior; this one is {problem.prior.describe()}.")
        g = problem.n_groups
        least = self._work(g, 0, min(self._usual, int(problem.rows.n_reports) // 2 + 2))
        if least > self.max_work:  # before rows are merged
            return self._too_much(least, f"{g} distinguishable categories")
        return self._plan(problem.merged, min(self._usual, exact_nodes(problem.merged)))

    def integrals(self, plan, watch):
        """Return the Integrals of a plan: moments, evidence and margins without draws.

        Raises
        ------
        ConvergenceError
            Where the rule that the tolerance needs would take too long.
        """
        merged = plan.state
        resolved = self._resolved(
            Integrand.of(merged),
            min(self.nodes, exact_nodes(merged)),
            lambda integrand, rule: integrate(integrand, rule, watch),
            lambda nodes: self._plan(merged, nodes),
        )
        return Integrals(merged, *resolved, watch)

    def run(self, plan, rng, watch):
        if plan.state.alone:
            return self.sample(self.integrals(plan, watch), rng, watch)
        return self._sample_with_others(plan.state, rng, watch)

    def sample(self, integrals, rng, watch):
        """Return the Outcome of Integrals: independent draws, and what they say."""
        merged, size = integrals.merged, self.chains * self.draws
        groups = Drawer(integrals.integrand, integrals.coarse, self._interpolated).draw(size, rng, watch)
        distribution, tallies = merged.split(groups, merged.allocate(groups, rng), rng)
        shape = (self.chains, self.draws, -1)
        return Outcome(
            distribution.reshape(shape),
            tallies.reshape(shape),
            verdict=Verdict(checked=integrals.sentence),
            exact=integrals.entries,
            intervals=integrals.intervals,
            facts={
                "n_groups": merged.n_groups,
                "nodes_per_stick": integrals.rule.nodes,
                "quadrature_error": integrals.error,
                "mass_left_out": integrals.moments.left_out,
            },
        )

    def _sample_with_others(self, integrand, rng, watch):
        """Return the Outcome with unknowns beside P: a share who deny, or probabilities of the device."""
        _, rule, coarse, mixture, error = self._resolved(
            integrand,
            self.nodes,
            lambda integrand, rule: integrand.integrated(rule, watch),
            integrand.planned(self),
        )
        p, size = mixture.draws(coarse, self._interpolated, self.chains * self.draws, rng), integrand.alpha.size
        evidence = {"log_evidence": mixture.log_evidence + integrand.log_constant, "answers_cov": mixture.covariance}

        def named(**values):
            """Return values of P, δ and the share who deny: of P by "answers", which completion renames."""
            out = {f"answers_{name}": value[:size] for name, value in values.items()}
            return out | ({f"derived_{name}": value[size:] for name, value in values.items()} if integrand.plain else {})

        def intervals(ci_prob):
            """Return the ends of the equal-tailed intervals."""
            return named(**dict(zip(("lower", "upper"), map(mixture.quantiles, tails(ci_prob)), strict=True)))

        nodes = f"{rule.nodes} and {coarse.nodes} nodes {integrand.over}per dimension"
        return Outcome(
            p.reshape(self.chains, self.draws, -1),
            verdict=Verdict(checked=f"Integrals with {nodes} agree to {error:.1e} posterior sd."),
            exact=evidence | named(mean=mixture.mean, sd=mixture.sd),
            intervals=intervals,
            facts={"nodes_per_stick": rule.nodes, "quadrature_error": error, "mass_left_out": mixture.left_out},
        )

    @property
    def _usual(self) -> int:
        """Nodes a stick by which operations are predicted: the number at the second try."""
        return math.ceil(self.nodes / 0.8)

    @property
    def _interpolated(self) -> int:
        """Nodes of conditional densities, from which draws come."""
        return ProductRule(self.nodes).interpolated

    def _work(self, g, m, nodes, passes=1):
        """Return the operations of rules over g categories and m rows: one for the moments and one for each margin."""
        return (g + passes) * ProductRule(nodes).size(g) * (12 + m)  # a node takes as long as twelve rows

    def _too_much(self, work, size):
        return Refusal(f"Quadrature takes at most {self.max_work:.0e} operations, got {work:.2g} ({size}).")

    def _plan(self, merged, nodes):
        """Return the Preparation or Refusal for merged rows, at ``nodes`` nodes a stick."""
        g, m = merged.n_groups, merged.counts.size
        work, size = (
            self._work(g, m, nodes),
            f"{g} distinguishable categories, {nodes} nodes per dimension, {m} distinct rows",
        )
        if work > self.max_work:
            return self._too_much(work, size)
        return Preparation(f"Exact to a checked error by quadrature ({size}).", work, merged)

    def _prepare_device(self, problem):
        """Return the Preparation or Refusal of two categories beside a device with one or two unknown probabilities."""
        law, alpha = problem.collection.device_law, problem.prior.without(problem.collection.owners).concentrations()
        sizes = [len(unknown.concentrations) for _, unknown in law.unknowns]
        if alpha is None or alpha.size > 2 or len(sizes) > 2 or max(sizes) > 2:
            return Refusal(
                "Quadrature beside an uncertain device takes two categories under a Dirichlet prior, and one or two "
                f"probabilities that are not known; this prior is {problem.prior.describe()}."
            )
        plan = self._plan_of_device(len(sizes), problem.rows.n_rows, self._usual)
        return replace(plan, state=DeviceIntegrand.of(problem, alpha)) if plan.feasible else plan

    def _plan_of_device(self, unknowns, m, nodes):
        """Return the Preparation or Refusal of a device's unknown probabilities, at ``nodes`` nodes each."""
        work = self._work(unknowns + 2, m + 2 * unknowns + 2, nodes, 3)
        size = f"P and {unknowns} probabilities of the device, {nodes} nodes per dimension, {m} distinct rows"
        if work > self.max_work:
            return self._too_much(work, size)
        return Preparation(f"Exact to a checked error by quadrature ({size}).", work, pace=Pace(0.1, 0.0, 1e-8))

    def _plan_of_denial(self, a, m, nodes):
        """Return the Preparation or Refusal where one of ``a`` categories may be denied, at ``nodes`` nodes a stick."""
        # The coarser rule and the draws are made anew at every node of δ.
        work = ProductRule(nodes).interpolated * self._work(a, m, nodes, 3)
        size = f"{a} categories of which one may be denied, {nodes} nodes per dimension, {m} distinct rows"
        if work > self.max_work:
            return self._too_much(work, size)
        return Preparation(f"Exact to a checked error by quadrature ({size}).", work, pace=Pace(0.6, 0.0, 1e-8))

    def _resolved(
        self,
        integrand: Any,
        nodes: int,
        integrated: Callable[[Any, ProductRule], Any],
        plan: Callable[[int], Preparation | Refusal],
    ) -> tuple[Any, ProductRule, ProductRule, Any, float]:
        """Return (integrand, rule, coarser rule, moments, error), with as many nodes and as wide windows as needed.

        ``nodes`` are those of a stick at the first try. ``integrated`` returns what has mean, sd, log_evidence and left_out.
        """
        rule, coarse, rough = ProductRule(nodes), ProductRule(math.ceil(0.8 * nodes)), None
        least = self.tolerance / 1000
        while True:
            fine = integrated(integrand, rule)
            if fine.left_out > least:
                integrand, rough = integrand.deeper(math.log(10 * fine.left_out / least)), None
                continue
            if rough is None:
                rough = integrated(integrand, coarse)
            error = difference(fine, rough)
            if error <= self.tolerance:
                return integrand, rule, coarse, fine, error
            finer = ProductRule(math.ceil(rule.nodes / 0.8))
            beyond = plan(finer.nodes)
            if not beyond.feasible:
                raise ConvergenceError(
                    f"Quadrature is not resolved: {rule.nodes} nodes per dimension differ by {error:.1e} from "
                    f"{coarse.nodes}, tolerance {self.tolerance:g}. {beyond.reason}"
                )
            rule, coarse, rough = finer, rule, fine
