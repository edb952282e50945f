"""What follows a run: draws of the users' own frequencies F, derived quantities, and what is known without draws."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes.collections.data import MOMENTS_ONLY
from ldpbayes.collections.derived import evaluate_draws
from ldpbayes.collections.noncompliance import collapse
from ldpbayes.inference.diagnostics import TARGETS, Diagnostics
from ldpbayes.inference.ends import ends_of_draws
from ldpbayes.inference.importance import moments as weighted_moments
from ldpbayes.methods import frequency
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.watch import Watch
from ldpbayes.priors.dirichlet import evidence_error

#: Entries of the summary that are known better than from the draws, by the probability of the intervals.
Known = Callable[[float], Mapping[str, Mapping[str, np.ndarray]]]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of every quantity that a result has, and what is known beside them.

    Attributes
    ----------
    draws : dict of str to (dims, array) or (dims, array, attrs)
        By name, dims after chain and draw; the attribute ``of`` is "prior" for unknowns of the prior.
    diagnostics : Diagnostics
        What the method says of the draws, without a verdict.
    facts : dict
        What else it says.
    exact, stats : dict of str to array
        Entries of result.EXACT, and what a sampler says of each draw.
    coords : dict
        Labels of dims that differ from the data's.
    effective : dict, optional
        As in diagnostics.summarize.
    known_at : callable, optional
        Probability → ``known`` of diagnostics.summarize.
    frequency_mean : array, optional
        Mean of F, where nothing else is known of it.
    """

    draws: dict[str, tuple]
    diagnostics: Diagnostics
    facts: dict[str, Any]
    exact: dict[str, Any]
    stats: Mapping[str, np.ndarray]
    coords: Mapping[str, Any]
    effective: Mapping[str, np.ndarray] | None = None
    known_at: Known | None = None
    frequency_mean: np.ndarray | None = None

    @property
    def length(self) -> tuple[int, int]:
        """Chains and draws."""
        return self.draws["distribution"][1].shape[:2]


@dataclass(frozen=True)
class Completion:
    """What follows a run of a method.

    Attributes
    ----------
    chains, draws : int
        Asked for.
    ci_prob : float
    """

    chains: int
    draws: int
    ci_prob: float

    def of_collection(self, problem: Any, outcome: Outcome, rng: np.random.Generator, watch: Watch) -> Posterior:
        """Return the Posterior of one collection, of all its categories."""
        collection, facts, exact = problem.collection, dict(outcome.facts), dict(outcome.exact)
        facts |= dict(outcome.facts_at(self.ci_prob)) if outcome.facts_at else {}
        exact |= dict(outcome.intervals(self.ci_prob)) if outcome.intervals else {}
        if collection.weighted:
            exact = {
                name: values for name, values in exact.items() if name.startswith(("distribution", "answers_", "derived_"))
            }
            facts = {name: value for name, value in facts.items() if not name.startswith("log_evidence")}
        elif problem.alpha is not None and "log_evidence" in exact:
            facts["log_evidence_error"] = max(facts.get("log_evidence_error", 0.0), evidence_error(problem.alpha))
        facts |= collection.explained()
        draws, frequencies, share = outcome.distribution, None, 1.0
        stats, hyper = dict(outcome.stats), dict(outcome.hyperparameters)
        if stated := problem.stated:
            facts |= stated
            if stated["frequency_draws"] == MOMENTS_ONLY:
                exact["frequency_mean"], exact["frequency_sd"] = _frequency_moments(problem, outcome)
                known = exact if "distribution_lower" in exact else self._of_p(outcome) | exact
                exact |= frequency.frequency_intervals(known, problem.n_users, self.ci_prob)
        elif outcome.tallies is None:
            place, frequencies, facts["frequency_draws"] = self._frequencies(problem, outcome, rng, watch)
            share = place.size / (draws.shape[0] * draws.shape[1])
            draws = draws.reshape(-1, draws.shape[2])[place]
            stats = {name: np.asarray(values).reshape(-1)[place] for name, values in stats.items()}
            hyper = {name: np.asarray(values).reshape(-1)[place] for name, values in hyper.items()}
        else:
            frequencies = outcome.tallies / problem.n_users
        diagnostics = self.diagnostics(outcome, draws.shape, watch, share)
        variables = {"distribution": draws} | ({} if frequencies is None else {"frequency": frequencies})
        concentrations = _concentrations(problem.prior, hyper)
        variables |= evaluate_draws(collection.derived, draws, collection.categories, concentrations, rng)
        if undefined := [name for name, values in (variables | hyper).items() if np.isnan(values).any()]:
            facts["undefined"] = ", ".join(map(repr, undefined))
            diagnostics = diagnostics.adding(
                f"the derived quantity {facts['undefined']} is 0/0 in some draws, which give its categories no share at all"
            )
        drawn = outcome.distribution.shape[0] * outcome.distribution.shape[1]
        effective = None if outcome.weighted_draws is None else _effective(*outcome.weighted_draws, collection, share, drawn)
        named: dict[str, tuple] = {name: (collection.dims if x.ndim > 2 else (), x) for name, x in variables.items()}
        named |= {name: ((), x, {"of": "prior"}) for name, x in hyper.items()}
        return Posterior(named, diagnostics, facts, exact, stats, {}, effective, outcome.known_at)

    def of_cells(self, problem: Any, outcome: Outcome, rng: np.random.Generator, watch: Watch) -> Posterior:
        """Return the Posterior of all cells under a prior over them."""
        cells, stated = problem.cells, problem.stated
        facts = {name: value for name, value in outcome.facts.items() if not (stated and name.startswith("log_evidence"))}
        facts |= cells.explained() | dict(stated)
        others = {name: (dims, values, {"of": "prior"}) for name, (dims, values) in outcome.variables.items()}
        draws, coords, mean, how = of_draws(cells, outcome.distribution, others, rng, outcome.frequencies)
        used = {dim for dims, *_ in others.values() for dim in dims}
        # A prior names categories and cells by position; the data have their labels.
        named = {name: list(labels) for name, labels in problem.prior.coords().items() if name in used - set(cells.dims)}

        def known_at(ci_prob: float) -> Mapping[str, Mapping[str, np.ndarray]]:
            known = outcome.known_at(ci_prob) if outcome.known_at else outcome.known
            return {name: values for name, values in known.items() if not (cells.owners and name in TARGETS)}

        diagnostics = self.diagnostics(outcome, outcome.distribution.shape, watch)
        facts = {"frequency_draws": how} | facts
        return Posterior(draws, diagnostics, facts, {}, outcome.stats, named | coords, None, known_at, mean)

    def diagnostics(self, outcome: Outcome, shape: tuple[int, ...], watch: Watch, share: float = 1.0) -> Diagnostics:
        """Return what a method says of its draws; ``shape`` (chains, draws, …), a share of them, is left."""
        said = outcome.diagnostics(watch.interrupted or shape[0] != self.chains or shape[1] < self.draws, share)
        if outcome.independent or not said.interrupted:
            return said
        if shape[0] < self.chains:
            done = f"{shape[0]} of {self.chains} chains with {shape[1]} of {self.draws} draws"
            return said.adding(f"sampling was interrupted and left {done}")
        return said.adding(f"sampling was interrupted after {shape[1]} of {self.draws} draws")

    def _of_p(self, outcome):
        """Return what is known of P where its ends are no integrals: by the draws, or by their weights."""
        flat = outcome.distribution.reshape(-1, outcome.distribution.shape[-1])
        worth = np.full(flat.shape[1], outcome.effective or float(len(flat)))
        ends = ends_of_draws(flat, self.ci_prob, worth)
        known = {"mean": flat.mean(axis=0), "sd": flat.std(axis=0, ddof=1)}
        known |= dict(zip(("lower", "upper", "lower_error", "upper_error"), ends, strict=True))
        better = outcome.known_at(self.ci_prob) if outcome.known_at else outcome.known
        known |= {name: values for name, values in better.get("distribution", {}).items() if name in known}
        return {f"distribution_{name}": values for name, values in known.items()}

    def _frequencies(self, problem, outcome, rng, watch):
        """Return (places of the draws of P that are kept, as (chains, draws), their F, how F was drawn)."""
        chains, length, a = outcome.distribution.shape
        flat, place = outcome.distribution.reshape(-1, a), np.arange(chains * length)
        draws, how = frequency.frequency_draws_within(
            problem.rows,
            flat,
            rng,
            lambda: _frequency_moments(problem, outcome),
            signal=outcome.signal,
            watch=watch,
            least=200,  # draws of F that are worth keeping after Ctrl-C: their mean has an error of 1/√200 sd
        )
        finished = len(draws)
        if outcome.independent:
            place = place[: finished // chains * chains].reshape(chains, -1)
        else:  # whole chains, or what there is of the first
            whole = max(finished // length, 1)
            place = place[: min(whole * length, finished)].reshape(whole, -1)
        return place, draws[place], how


def of_answers_alone(posterior: Posterior, collection: Any) -> Posterior:
    """Return the Posterior of what respondents answer, without those who deny or ignore the device.

    Parameters
    ----------
    posterior : Posterior
        Posterior of all categories; few of a method's exact numbers remain once categories are joined.
    collection : Collection
    """
    draws = {
        name: (dims, collapse(x, collection.owners), *attrs) if name in TARGETS else (dims, x, *attrs)
        for name, (dims, x, *attrs) in posterior.draws.items()
    }
    names = [name for name in posterior.exact if name.startswith(("answers_", "derived_", "log_evidence"))]
    exact = {name.replace("answers", "distribution"): posterior.exact[name] for name in names}
    coords = {"category": list(collection.answers)}
    return replace(posterior, draws=draws, exact=exact, coords=coords, effective=None, known_at=None)


def of_draws(
    data: Any,
    draws: np.ndarray,
    others: Mapping[str, tuple],
    rng: np.random.Generator,
    drawn: tuple | None = None,
) -> tuple[dict[str, tuple], dict[str, Any], np.ndarray | None, str]:
    """Return (draws of all quantities, labels of categories, mean of F where it has no draws, how F was drawn).

    Parameters
    ----------
    data : Collection, Summarized or Cells
    draws : (chains, draws, [cells,] a) array
        Draws of P, or of p′ where some deny or ignore the device.
    others : mapping of name to (dims, array) or (dims, array, attrs)
        Other variables, dims after chain and draw.
    rng : numpy.random.Generator
    drawn : tuple, optional
        What ``frequency.together`` returned for these draws.
    """
    allocated, mean, how = drawn or frequency.together(data.likelihoods, draws, rng)
    asked = [item for item in data.derived if item.name not in others]  # a device that all cells share is one number
    derived = {item.name: (data.dims[:-1], item.evaluate(draws, data.categories)) for item in asked}
    coords: dict[str, Any] = {}
    if data.owners:
        draws, allocated = collapse(draws, data.owners), None if allocated is None else collapse(allocated, data.owners)
        mean = None  # of F alone: the compliers' mean is no function of it
        coords = {"category": list(data.answers)}
    variables: dict[str, tuple] = {"distribution": (data.dims, draws)}
    variables |= ({} if allocated is None else {"frequency": (data.dims, allocated)}) | derived
    variables |= {name: values for name, values in others.items() if name not in variables}
    return variables, coords, mean if allocated is None else None, how


def _concentrations(prior, hyper):
    """Return the callable that gives α of some draws, by their places; None where the prior has no α."""
    alpha, mixing = prior.concentrations(), prior.nodes()
    if alpha is not None:
        return lambda places: np.broadcast_to(alpha, (len(places), alpha.size))
    if mixing is None or mixing.atom or set(mixing.names) - set(hyper):
        return None

    def given(places):
        values = {name: np.ravel(hyper[name])[places] for name in mixing.names}
        return np.stack([one.concentrations() for one in mixing.priors(values, len(places))])

    return given


def _frequency_moments(problem, outcome):
    """Return (mean, sd) of F: by conjugacy, or for any other prior from draws of P."""
    if "frequency_mean" in outcome.exact:
        return outcome.exact["frequency_mean"], outcome.exact["frequency_sd"]
    if outcome.frequency is not None:
        return outcome.frequency
    flat = outcome.distribution.reshape(-1, problem.n_categories)
    if problem.alpha is None:
        return frequency.moments_from_draws(problem.likelihood, flat[:: max(len(flat) // frequency.ALLOCATION.averaged, 1)])
    weighted_draws = outcome.weighted_draws or (flat, np.full(len(flat), 1 / len(flat)))
    moments = weighted_moments(*weighted_draws)
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
