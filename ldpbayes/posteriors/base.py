"""The pattern of every engine: prepare a problem once, run the plan, and let the base class make the result."""

import abc
import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from ldpbayes import checks, progress
from ldpbayes.collections.data import MOMENTS_ONLY
from ldpbayes.collections.derived import evaluate_draws
from ldpbayes.errors import ArgumentError, ConvergenceError, InfeasibleError, LDPBayesWarning, warn
from ldpbayes.inference.diagnostics import Diagnostics, of_independent
from ldpbayes.inference.importance import moments as weighted_moments
from ldpbayes.inference.verdict import ACCEPTED, Verdict, of_chains
from ldpbayes.posteriors import frequency
from ldpbayes.posteriors.problem import Problem, problem_of

#: Seconds that a fit takes without a word.
LONG = 20.0
#: Why a method that was asked for.
CALLER = "Chosen by the caller."
#: After an interruption so many draws of F are worth keeping.
LEAST_KEPT = 200
#: Categories beyond which one more takes as good as no time: numpy's calls outweigh them.
MANY = 60
#: Draws of P hold at most so many numbers; P, F and their summary take some ten times the bytes of one such array.
MAX_DRAWN = 1e8


class Pace(NamedTuple):
    """Seconds on one core of the machine where they were measured: they tell how long a fit takes, and decide nothing.

    Attributes
    ----------
    start, category, operation : float
        Whatever the size; for each category, of which MANY count; for each operation that is counted.
    """

    start: float
    category: float
    operation: float

    def seconds(self, work: float, n_categories: int) -> float:
        """Return the predicted seconds of so many operations."""
        return self.start + self.category * min(n_categories, MANY) + self.operation * work


#: What a fit adds to a posterior of separable reports, and of others; operations are those of a draw of F.
SEPARABLE_BESIDE, BESIDE = Pace(0.03, 2.5e-3, 1e-9), Pace(0.05, 3e-3, 1e-9)


@dataclass(frozen=True)
class Plan:
    """What prepare() found: why the engine applies, and the work that run() continues.

    Attributes
    ----------
    reason : str
    work : float
        Operations, as the engine counts them: what chooses between engines.
    state : object
    pace : Pace, optional
        How long they take, where that is not the engine's usual pace.
    seconds : float
        Predicted, of a whole fit.
    """

    reason: str
    work: float
    state: Any = field(default=None, repr=False, compare=False)
    pace: Pace | None = None
    seconds: float = math.nan
    feasible: ClassVar[bool] = True


@dataclass(frozen=True)
class Refusal:
    """Why an engine does not apply."""

    reason: str
    seconds: ClassVar[float] = math.nan
    feasible: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class Sample:
    """What an engine's run() returns.

    Attributes
    ----------
    distribution : (chains, draws, a) array
        Draws of P; fewer than asked for only after an interruption.
    tallies : (chains, draws, a) array, optional
        Draws of the true tallies T; None lets the base class draw F from the rows.
    signal : (chains · draws, a) int array, optional
        Draws of the signal tallies (likelihoods.AbstractSampler), of which those of T are made at once.
    independent : bool
        Whether the draws are independent; otherwise they form chains.
    effective : float, optional
        Independent draws that repeated ones are worth, in all.
    verdict : Verdict
        Whether the draws may be used. One with a problem and nothing to do next lets the draws form a result that says so.
    weighted : pair of (S, a) and (S,) arrays, optional
        The draws that ``distribution`` was resampled from, and their normalized weights: moments and Monte Carlo errors
        come from these.
    frequency : pair of (a,) arrays, optional
        Mean and sd of F, where they follow from ``weighted`` draws by conjugacy.
    exact : mapping, optional
        Entries of result.EXACT.
    intervals : callable, optional
        ci_prob → further entries of result.EXACT.
    stats : mapping of (chains, draws) arrays
    facts : mapping
        Further attrs of the result.
    facts_at : callable, optional
        ci_prob → further attrs, such as the ends of a hyperparameter's interval.
    hyperparameters : mapping of (chains, draws) arrays
        Draws of the prior's hyperparameters, by name.
    variables : mapping of (dims, array)
        Draws of the prior's variables, of cells: the arrays have shape (chains, draws, …).
    known : mapping of mappings
        Entries of the summary of variables that are known better, or already, as in diagnostics.summarize.
    known_at : callable, optional
        ci_prob → what takes the place of ``known``.
    frequencies : tuple, optional
        Of cells: draws of F for ``distribution``, as result.building.frequencies makes them.
    unknowns : (chains, draws, u) array, optional
        The prior's unknowns, where somebody asks for them.
    """

    distribution: np.ndarray
    tallies: np.ndarray | None = None
    signal: np.ndarray | None = None
    independent: bool = True
    effective: float | None = None
    verdict: Verdict = ACCEPTED
    weighted: tuple[np.ndarray, np.ndarray] | None = None
    frequency: tuple[np.ndarray, np.ndarray] | None = None
    exact: Mapping[str, Any] = field(default_factory=dict)
    intervals: Callable[[float], Mapping[str, np.ndarray]] | None = None
    stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    facts_at: Callable[[float], Mapping[str, Any]] | None = None
    hyperparameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    variables: Mapping[str, tuple[tuple[str, ...], np.ndarray]] = field(default_factory=dict)
    known: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    known_at: Callable[[float], Mapping[str, Mapping[str, np.ndarray]]] | None = None
    frequencies: tuple | None = None
    unknowns: np.ndarray | None = None

    @classmethod
    def of_weights(cls, found: Any, prior: Any, p: np.ndarray, split: tuple[int, int], rng: np.random.Generator) -> "Sample":
        """Return the Sample of weighted draws, resampled, with the variables of their prior.

        Parameters
        ----------
        found : inference.weighted.Draws
        prior : AbstractPrior
        p : (N, …) array
            P of all draws.
        split : (int, int)
            Chains and draws.
        rng : numpy.random.Generator
        """
        variables, chosen = prior.variables(found.z), found.chosen(rng)
        named = {"distribution": p} | {name: values for name, (_, values) in variables.items()}
        return cls(
            p[chosen].reshape(*split, *p.shape[1:]),
            effective=found.effective,
            verdict=found.verdict,
            weighted=(p, found.found.weight),
            hyperparameters={name: v[chosen].reshape(split) for name, (dims, v) in variables.items() if not dims},
            variables={name: (dims, v[chosen].reshape(*split, *v.shape[1:])) for name, (dims, v) in variables.items()},
            known_at=lambda prob: {name: replace(found, prob=prob).known(values) for name, values in named.items()},
            facts=found.found.facts,
            unknowns=found.z[chosen].reshape(*split, -1),
        )

    def diagnostics(self, interrupted: bool, share: float = 1.0) -> Diagnostics:
        """Return what the engine found, where this share of its draws is left."""
        return Diagnostics(
            sampling="independent" if self.independent else "mcmc",
            effective_draws=None if self.effective is None else self.effective * share,
            checked=self.verdict.checked if self.verdict.accepted else "",
            problem=self.verdict.problem,
            interrupted=interrupted,
        )

    @property
    def rejected(self) -> str:
        """Why the draws cannot be used, in one sentence, or an empty string."""
        return "" if self.verdict.next == "done" else f"The draws cannot be trusted: {self.verdict.problem}."


class Watch:
    """Progress and Ctrl-C in one object: shows loops where asked to and remembers whether one was cut short."""

    def __init__(self, shown: bool = False):
        self.shown, self.interrupted, self._announced = shown, False, LONG

    def announce(self, what: str, seconds: float) -> None:
        """Warn before it starts that something takes long; again where it takes twice as long as was said.

        Parameters
        ----------
        what : str
            The subject of the sentence.
        seconds : float
            Predicted, of one processor core; nan where nobody knows.
        """
        if math.inf > seconds > self._announced:
            self._announced = 2 * seconds
            shown = "" if self.shown else "; progressbar=True shows how far it is"
            sentence = f"{what} takes about {seconds:.0f} s of one processor core{shown}."
            warn(sentence, LDPBayesWarning)

    def track(self, items, description, total=None, *, weight=None):
        """Yield items, behind a progress bar where shown; see progress.track."""
        return progress.track(items, description, total, shown=self.shown, weight=weight)

    @contextlib.contextmanager
    def keeping(self, enough: Callable[[], bool]):
        """End the block at Ctrl-C where enough() draws are finished; otherwise the KeyboardInterrupt goes on."""
        try:
            yield
        except KeyboardInterrupt:
            if not enough():
                raise
            self.interrupted = True

    def finished(self, results, least=1):
        """Return list(results); after Ctrl-C those that were finished, if there are at least ``least``."""
        out = []
        with self.keeping(lambda: len(out) >= least):
            out.extend(results)  # extends item by item: what came before the interruption stays
        return out


def whole(least: int) -> Callable[[Any, str], int]:
    """Return the check of a setting that is an integer from ``least`` on."""
    return lambda value, name: checks.integer(value, name, minimum=least)


def inside(value: Any, name: str) -> float:
    """Return a probability, checked to be in (0, 1)."""
    return checks.probability(value, name, open_low=True, open_high=True)


class AbstractPosterior(abc.ABC):
    """A way to get the posterior of P and F. Settings are fields of the (frozen dataclass) subclass.

    A subclass has at least the fields ``draws`` (per chain) and ``chains``, and writes prepare() and run(); the seed, the
    draws of F, interruptions, the result and its summary are the same for all and stand here.
    """

    name: ClassVar[str]
    #: Place among the methods that ``auto`` considers: exact ones below 10, sampled ones below 20, any prior below 30.
    order: ClassVar[float]
    #: Operations above which ``auto`` looks for another method.
    most: ClassVar[float] = math.inf
    #: How long its operations take.
    pace: ClassVar[Pace] = Pace(math.nan, 0.0, 0.0)
    #: What the engine cannot do without: "rows" (distinct reports), "concentrations" (a Dirichlet prior).
    needs: ClassVar[tuple[str, ...]] = ("rows", "concentrations")
    #: How settings are checked: (value, name) → value.
    checked: ClassVar[Mapping[str, Callable[[Any, str], Any]]] = {}

    draws: int
    chains: int

    def __post_init__(self):
        """Check the settings, by ``checked`` those that not every method has."""
        for name, check in {"draws": whole(1), "chains": whole(1), **self.checked}.items():
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:  # else it is left to the method
                object.__setattr__(self, name, check(value, name))
        checks.draws_size(self.draws, self.chains, 2)
        if self.draws * self.chains < 2:  # one draw has no spread
            raise ArgumentError("draws must be an integer >= 2 with one chain, got 1.")

    @property
    def settings(self) -> dict[str, Any]:
        """Draws, chains, and further fields that are not at their defaults: what a result records of the method."""
        out = {}
        for one in fields(self):  # type: ignore[arg-type]  # a dataclass
            value = getattr(self, one.name)
            if one.name in ("draws", "chains") or value != one.default:
                out[one.name] = value if isinstance(value, (str, int, float)) else repr(value)
        return out

    @abc.abstractmethod
    def prepare(self, problem: Problem) -> Plan | Refusal:
        """Return the Plan, with the work that run() goes on from, or the Refusal; loads nothing heavy.

        An InfeasibleError that it raises counts as a Refusal with that sentence.
        """

    @abc.abstractmethod
    def run(self, plan: Plan, rng: np.random.Generator, watch: Watch) -> Sample:
        """Return the Sample of a plan that prepare() made.

        Raises
        ------
        ConvergenceError
            Where no draws of any use were made.
        """

    @final
    def plan(self, problem: Problem) -> Plan | Refusal:
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
        return replace(plan, seconds=self._seconds(plan, problem)) if isinstance(plan, Plan) else plan

    def _seconds(self, plan: Plan, problem: Problem) -> float:
        """Return the predicted seconds of a whole fit: the engine's, of draws of F, and of what is said beside them."""
        if not problem.alone:
            return math.nan
        a = problem.n_categories
        seconds = (plan.pace or self.pace).seconds(plan.work, a)
        if math.isnan(seconds) or not problem.keeps_reports:
            return seconds
        sampler, pace = problem.rows.sampler(), BESIDE if problem.separable is None else SEPARABLE_BESIDE
        drawn = 0.0 if sampler is None else sampler.work * self.draws * self.chains
        return seconds + pace.seconds(drawn if drawn < frequency.MOST else 0.0, a)

    @final
    def feasibility(self, collection, prior) -> Plan | Refusal:
        """Return whether the method applies (``.feasible``), why, and the seconds that it would take."""
        return self.plan(problem_of(collection, prior))

    @final
    def posterior(self, collection, prior, *, random_seed=None, ci_prob=0.95, progressbar=False):
        """Return the posterior of P and F as a DataTree: see ldpbayes.result.

        Parameters
        ----------
        collection : Collection
        prior : str, float, array or AbstractPrior
        random_seed : int, optional
            Reproduces every draw; chosen and recorded where not given.
        ci_prob : float
            Probability of the equal-tailed intervals in the group ``summary``.
        progressbar : bool
            Show progress on standard error.

        Returns
        -------
        xarray.DataTree

        Raises
        ------
        InfeasibleError
            Where the method does not apply or would take too long.
        ConvergenceError
            Where the draws cannot be trusted; its ``result`` holds the DataTree, or None.
        """
        random_seed, ci_prob = seed(random_seed), checks.level(ci_prob)
        checks.flag(progressbar, "progressbar")
        problem = problem_of(collection, prior)
        answer = self.answer(problem, self.plan(problem), random_seed=random_seed, ci_prob=ci_prob, progressbar=progressbar)
        if answer.sample.rejected:
            raise ConvergenceError(answer.sample.rejected, answer.tree)
        return answer.tree

    @final
    def answer(
        self, problem: Problem, plan: Plan | Refusal, random_seed: int, ci_prob: float, progressbar=False
    ) -> "Answer":
        """Run a plan and return its Answer, trusted or not; a Refusal becomes an InfeasibleError."""
        if isinstance(plan, Refusal):
            raise InfeasibleError(plan.reason)
        rng, watch = np.random.default_rng(random_seed), Watch(progressbar)
        watch.announce(f"The method {self.name}", plan.seconds)
        sample = self.run(plan, rng, watch)
        if problem.alone:
            sample = problem.stating(sample)
        asked = {"random_seed": random_seed, "ci_prob": ci_prob}
        return Answer(self, problem, sample, rng, watch, asked, plan.reason)


@dataclass(frozen=True, eq=False)
class Parts:
    """What the result of one cell is made of.

    Attributes
    ----------
    draws : dict of (chains, draws, …) arrays
        Of P, of F where it has draws, and of derived quantities, by name.
    hyper : dict of (chains, draws) arrays
        Of what the prior learns.
    exact, stats : dict of arrays
        As in result.build.
    attrs : dict
        With the diagnostics, and of independent draws the verdict on them.
    effective : dict, optional
        As in diagnostics.summarize.
    """

    draws: dict[str, np.ndarray]
    hyper: dict[str, np.ndarray]
    exact: dict[str, Any]
    stats: dict[str, np.ndarray]
    attrs: dict[str, Any]
    effective: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class Answer:
    """A finished run, whose ``tree`` is the result; ``reason`` says why its method applies."""

    method: AbstractPosterior
    problem: Problem
    sample: Sample
    rng: np.random.Generator
    watch: Watch
    asked: Mapping[str, Any]
    reason: str = ""

    @property
    def trouble(self) -> str:
        """Why the answer is rejected, in one sentence, or an empty string."""
        if self.sample.rejected:
            return self.sample.rejected
        attrs = self._judged
        undefined = "undefined" in attrs and self.sample.independent  # no other method would define it
        if attrs["converged"] or attrs["interrupted"] or undefined or self._few:
            return ""
        return attrs["problems"]

    @property
    def _judged(self) -> Mapping[str, Any]:
        """Attrs with the verdict: that on chains, and on all cells at once, comes with their summary."""
        return self.parts.attrs if self.sample.independent and self.problem.alone else self.tree.attrs

    @property
    def _few(self) -> bool:
        """Whether chains are not accepted, and only because too few draws were asked for: no other method has more."""
        if self.sample.independent or self.sample.verdict.problem:
            return False
        attrs, posterior = self.tree.attrs, self.tree["posterior"]
        drawn = posterior.sizes["chain"] * posterior.sizes["draw"]
        return of_chains(attrs["worst_r_hat"], attrs["least_ess"], attrs["divergences"], drawn).next == "done"

    @cached_property
    def tree(self):
        """The summarized DataTree."""
        return self.problem.tree(self)

    @property
    def chosen(self) -> dict[str, Any]:
        """Attrs of every result: the seed, and that the method was asked for."""
        return {"random_seed": self.asked["random_seed"], "reason": CALLER}

    def found(self, shape: tuple[int, ...], share: float = 1.0) -> Diagnostics:
        """Return what the engine found, where so many (chains, draws, …) are left: this share of those that it made."""
        method, cut = self.method, self.watch.interrupted
        known = self.sample.diagnostics(cut or shape[0] != method.chains or shape[1] < method.draws, share)
        return known.adding(_left(shape, method)) if known.interrupted and not self.sample.independent else known

    @cached_property
    def parts(self) -> Parts:
        """What the result is made of; draws F where the engine did not."""
        from ldpbayes.result.moments import frequency_intervals

        problem, sample = self.problem, self.sample
        draws, frequencies, stats, facts = sample.distribution, None, dict(sample.stats), dict(sample.facts)
        facts |= dict(sample.facts_at(self.asked["ci_prob"])) if sample.facts_at else {}
        hyper, share = dict(sample.hyperparameters), 1.0
        exact = dict(sample.exact) | (dict(sample.intervals(self.asked["ci_prob"])) if sample.intervals else {})
        if problem.collection.weighted:
            exact = {name: values for name, values in exact.items() if name.startswith("distribution")}
            facts = {name: value for name, value in facts.items() if not name.startswith("log_evidence")}
        if stated := problem.stated:
            facts |= stated
            if stated["frequency_draws"] == MOMENTS_ONLY:
                exact["frequency_mean"], exact["frequency_sd"] = self._known_moments()
                exact |= frequency_intervals(exact, problem.n_users, self.asked["ci_prob"])
        elif sample.tallies is None:
            place, frequencies, facts["frequency_draws"] = self._frequencies()
            share = place.size / (draws.shape[0] * draws.shape[1])
            draws = draws.reshape(-1, draws.shape[2])[place]
            stats = {name: np.asarray(values).reshape(-1)[place] for name, values in stats.items()}
            hyper = {name: np.asarray(values).reshape(-1)[place] for name, values in hyper.items()}
        else:
            frequencies = sample.tallies / problem.n_users
        diagnostics = self.found(draws.shape, share)
        collection = problem.collection
        concentrations = self._concentrations(hyper)
        variables: dict[str, np.ndarray] = {"distribution": draws}
        if frequencies is not None:
            variables["frequency"] = frequencies
        variables |= evaluate_draws(collection.derived, draws, collection.categories, concentrations, self.rng)
        undefined = [name for name, values in (variables | hyper).items() if np.isnan(values).any()]
        if undefined:
            named = ", ".join(map(repr, undefined))
            diagnostics = diagnostics.adding(
                f"the derived quantity {named} is 0/0 in some draws, which give its categories no share at all"
            )
            facts["undefined"] = named
        if sample.independent:
            diagnostics = of_independent(diagnostics, draws.shape[1])
        drawn = sample.distribution.shape[0] * sample.distribution.shape[1]
        effective = None if sample.weighted is None else _effective(*sample.weighted, collection, share, drawn)
        attrs = diagnostics.to_attrs() | facts | self.chosen
        return Parts(variables, hyper, exact, stats, attrs, effective)

    def _concentrations(self, hyper):
        """Return the callable that gives α of some draws, by their places; None where the prior has no α."""
        prior = self.problem.prior
        alpha, mixing = prior.concentrations(), prior.nodes()
        if alpha is not None:
            return lambda places: np.broadcast_to(alpha, (len(places), alpha.size))
        if mixing is None or mixing.atom or set(mixing.names) - set(hyper):
            return None

        def given(places):
            values = {name: np.ravel(hyper[name])[places] for name in mixing.names}
            return np.stack([one.concentrations() for one in mixing.priors(values, len(places))])

        return given

    def _frequencies(self):
        """Return (places of the draws of P that are kept, as (chains, draws), their F, how F was drawn)."""
        sample, problem = self.sample, self.problem
        chains, length, a = sample.distribution.shape
        flat, place = sample.distribution.reshape(-1, a), np.arange(chains * length)
        draws, how = frequency.frequency_draws_within(
            problem.rows, flat, self.rng, self._known_moments, signal=sample.signal, watch=self.watch, least=LEAST_KEPT
        )
        finished = len(draws)
        if sample.independent:
            place = place[: finished // chains * chains].reshape(chains, -1)
        else:  # whole chains, or what there is of the first
            whole = max(finished // length, 1)
            place = place[: min(whole * length, finished)].reshape(whole, -1)
        return place, draws[place], how

    def _known_moments(self):
        """Return (mean, sd) of F: by conjugacy, or for any other prior from draws of P."""
        sample, problem = self.sample, self.problem
        if "frequency_mean" in sample.exact:
            return sample.exact["frequency_mean"], sample.exact["frequency_sd"]
        if sample.frequency is not None:
            return sample.frequency
        flat = sample.distribution.reshape(-1, problem.n_categories)
        if problem.alpha is None:
            return frequency.moments_from_draws(problem.likelihood, flat[:: max(len(flat) // frequency.AVERAGED, 1)])
        weighted = sample.weighted or (flat, np.full(len(flat), 1 / len(flat)))
        moments = weighted_moments(*weighted)
        pair = moments["mean"], moments["sd"] ** 2
        given_p, error = problem.likelihood.tally_moments, 2 / math.sqrt(len(flat))
        return frequency.frequency_moments(*pair, problem.alpha, problem.n_users, given_p, error)


def _effective(values, weight, collection, share, drawn):
    """Return how many independent draws weighted ones are worth for each quantity, by the name of its variable.

    F follows P. ``share`` of the draws was kept, and no more than were drawn from more of them are independent.
    """
    quantities = {item.name: item.evaluate(values, collection.categories)[:, None] for item in collection.derived}
    out = {}
    for name, x in {"distribution": values, **quantities}.items():
        defined = ~np.isnan(x).any(axis=1)  # a share of categories that have none in a draw is not
        x, w = x[defined], weight[defined] / max(weight[defined].sum(), np.finfo(float).tiny)
        worth = weighted_moments(x, w)["ess_bulk"]
        out[name] = share * (np.minimum(worth, drawn) if len(x) > drawn else worth)
    return out | {"frequency": out["distribution"]}


def _left(shape, method):
    """Return the sentence of what an interruption left of the chains."""
    if shape[0] < method.chains:
        done = f"{shape[0]} of {method.chains} chains with {shape[1]} of {method.draws} draws"
        return f"sampling was interrupted and left {done}"
    return f"sampling was interrupted after {shape[1]} of {method.draws} draws"


def seed(random_seed) -> int:
    """Return the seed as an int, drawn where None; a numpy Generator is refused: a result must name its seed."""
    if random_seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_seed, np.random.Generator):
        raise ArgumentError(
            "random_seed must be an integer >= 0 or None, got a numpy Generator; a result records its seed, so that it can "
            "be made again."
        )
    return checks.seed(random_seed)  # type: ignore[return-value]  # None was answered above
