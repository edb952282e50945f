"""The pattern of every engine: prepare a problem once, run the plan, and let the base class make the result."""

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, final

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.inference.verdict import LIMITS, refused
from ldpbayes.methods import frequency
from ldpbayes.methods.answer import MethodAnswer
from ldpbayes.methods.constants import MAX_DRAWN
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.plan import Pace, Preparation, Refusal
from ldpbayes.methods.problem import Problem, problem_of
from ldpbayes.methods.watch import Watch

#: What a fit adds to a posterior of separable reports, and of others; operations are in units of a draw of F.
SEPARABLE_BESIDE, BESIDE = Pace(0.03, 2.5e-3, 1e-9), Pace(0.05, 3e-3, 1e-9)


def whole(least: int) -> Callable[[Any, str], int]:
    """Return the check of a setting that is an integer from ``least`` on."""
    return lambda value, name: checks.integer(value, name, minimum=least)


def inside(value: Any, name: str) -> float:
    """Return a probability, checked to be in (0, 1)."""
    return checks.probability(value, name, open_low=True, open_high=True)


@dataclass(frozen=True)
class AbstractPosterior(abc.ABC):
    """A way to get the posterior of P and F. Settings are fields of the (frozen dataclass) subclass.

    A subclass writes prepare() and run(); the seed, the draws of F, interruptions, the result and its summary are the same
    for all and stand here.

    Attributes
    ----------
    draws, chains : int
        Draws of each chain, and chains. Derived: as every sampler of the field has; ends of intervals have errors of some
        .03 sd and less with 4,000 independent draws.
    most : float
        Operations above which ``auto`` looks for another method. Bank: of 403 fits none chose otherwise than by a limit
        for each method. It is some ten seconds of a sampled one, and two hours of exact sums at their pace.
    """

    name: ClassVar[str]
    #: The method that ``auto`` considers before this one: exact ones come first, then sampled ones, then any prior's.
    after: ClassVar[str] = ""
    #: Whether it serves a prior over all cells, too: prepare() and run() take a Problem that is not ``alone``.
    joint: ClassVar[bool] = False
    most: ClassVar[float] = 2e10
    #: How long its operations take.
    pace: ClassVar[Pace] = Pace(math.nan, 0.0, 0.0)
    #: What the engine cannot do without: "rows" (distinct reports), "concentrations" (a Dirichlet prior).
    needs: ClassVar[tuple[str, ...]] = ("rows", "concentrations")
    #: How settings are checked: (value, name) → value.
    checked: ClassVar[Mapping[str, Callable[[Any, str], Any]]] = {}

    draws: int = LIMITS.usual // 4
    chains: int = 4

    def __post_init__(self):
        """Check the settings, by ``checked`` those that not every method has."""
        for name, check in {"draws": whole(1), "chains": whole(1), **self.checked}.items():
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:  # else it is left to the method
                object.__setattr__(self, name, check(value, name))
        checks.draws_size(self.draws, self.chains, 2)
        if self.draws * self.chains < 2:  # one draw has no spread
            raise ArgumentError("draws must be an integer >= 2 with one chain, got 1.")

    @abc.abstractmethod
    def prepare(self, problem: Problem) -> Preparation | Refusal:
        """Return the Preparation, with the work that run() goes on from, or the Refusal; loads nothing heavy.

        An InfeasibleError that it raises counts as a Refusal with that sentence.
        """

    @abc.abstractmethod
    def run(self, plan: Preparation, rng: np.random.Generator, watch: Watch) -> Outcome:
        """Return the Outcome of a plan that prepare() made.

        Raises
        ------
        ConvergenceError
            Where no draws of any use were made.
        """

    @final
    def plan(self, problem: Problem) -> Preparation | Refusal:
        """Return prepare(problem), after the needs of the engine are checked."""
        numbers = math.prod(problem.prior.shape)
        drawn = self.draws * self.chains * numbers
        if problem.alone and drawn > MAX_DRAWN:
            return Refusal(
                f"Draws must hold at most {MAX_DRAWN:.0e} numbers (chains × draws × categories), got {drawn:.2g}; ask "
                "for fewer draws, or for Exact().moments, which needs none."
            )
        checks.draws_size(self.draws, self.chains, numbers)
        if "concentrations" in self.needs and problem.alpha is None:
            return Refusal(f"The method {self.name} needs a Dirichlet prior; this one is {problem.prior.describe()}.")
        if "rows" in self.needs and not problem.keeps_reports:
            return Refusal(f"The method {self.name} needs the distinct reports; of a summary only sums are left.")
        if problem.alone and (doubt := problem.doubt):
            return Refusal(doubt)
        try:
            plan = self.prepare(problem)
        except InfeasibleError as err:
            return Refusal(str(err))
        return replace(plan, seconds=self._seconds(plan, problem)) if plan.feasible else plan

    def _seconds(self, plan: Preparation, problem: Problem) -> float:
        """Return the predicted seconds of a whole fit: the engine's, of draws of F, and of what is said beside them."""
        if not problem.alone:
            return math.nan
        a = problem.n_categories
        seconds = (plan.pace or self.pace).seconds(plan.work, a)
        if math.isnan(seconds) or not problem.keeps_reports:
            return seconds
        sampler, pace = problem.rows.sampler(), BESIDE if problem.separable is None else SEPARABLE_BESIDE
        drawn = 0.0 if sampler is None else sampler.work * self.draws * self.chains
        return seconds + pace.seconds(drawn if drawn < frequency.ALLOCATION.most else 0.0, a)

    @property
    def settings(self) -> dict[str, Any]:
        """Draws and chains, and what else is not at its default."""
        every = {item.name: (getattr(self, item.name), item.default) for item in fields(self)}  # type: ignore[arg-type]
        changed = {name: x for name, (x, default) in every.items() if name in ("draws", "chains") or x != default}
        return {name: x if isinstance(x, (str, int, float)) else repr(x) for name, x in changed.items()}

    @final
    def feasibility(self, collection, prior) -> Preparation | Refusal:
        """Return whether the method applies (``.feasible``), why, and the seconds that it would take."""
        return self.plan(problem_of(collection, prior))

    @final
    def answer(
        self, problem: Problem, plan: Preparation | Refusal, random_seed: int, ci_prob: float, progressbar=False
    ) -> MethodAnswer:
        """Run a plan and return its MethodAnswer, trusted or not; a Refusal becomes an InfeasibleError."""
        if not plan.feasible:
            raise InfeasibleError(plan.reason)
        rng, watch = np.random.default_rng(random_seed), Watch(progressbar)
        watch.announce(f"The method {self.name}", plan.seconds)
        outcome = self.run(plan, rng, watch)
        if problem.data.device_law is not None and outcome.verdict.accepted and outcome.distribution is not None:
            from ldpbayes.inference.target import Target
            from ldpbayes.inference.weighted import WEIGHTING
            from ldpbayes.methods.forms import Apart

            draws = outcome.distribution.reshape(-1, *problem.prior.shape)
            unseen = Target(problem.prior, Apart(problem.likelihoods)).unseen(draws, WEIGHTING.deep)
            outcome = replace(outcome, verdict=refused(unseen)) if unseen else outcome
        if problem.alone:
            outcome = problem.stating(outcome)
        asked = {"random_seed": random_seed, "ci_prob": ci_prob}
        return MethodAnswer(self, problem, outcome, rng, watch, asked, plan.reason)
