"""Every posterior method gives the same answer on the same small collection of every protocol, within its stated error."""

import re

import numpy as np
import pytest
from arviz_stats.base import array_stats
from cases import CASES
from references.enumeration import enumerated

from ldpbayes import Collection, Tally
from ldpbayes.methods.completion import Completion
from ldpbayes.methods.problem import Problem
from ldpbayes.priors import Dirichlet
from ldpbayes.road.methods import METHODS

#: Exact methods, with settings that state an error below TIGHT.
EXACT = {"exact": {}, "quadrature": {"tolerance": 1e-9}}
SAMPLED = {
    "pair_slice": {"draws": 400},
    "nuts": {"draws": 1000, "tune": 500},
}
#: For priors that are not Dirichlet: compared with exact results in tests/methods, each under its own priors.
OTHER_PRIORS = {"weighted", "hmc"}
TIGHT = 1e-8
#: Monte Carlo errors allowed: of about 1,500 comparisons one is beyond 3.5 by chance, one in a thousand runs beyond 5.
MCSE = 5.0


#: Cases whose every report singles out one category, by being likelier there: the exact method must serve these.
SINGLED = {
    *("grr", "warner", "compose", "channel", "forced-response", "unrelated-question", "crosswise", "triangular"),
    *("kuk", "kuk-2", "christofides"),
}


def collected(case, a, epsilon, n):
    """Return n users of the case over a categories; shares 6, 3, 1, 1, …"""
    rng = np.random.default_rng(11)
    protocol = case.build(a, epsilon)
    p = np.array([6.0, 3.0, *[1.0] * a])[:a]
    return Collection(
        [f"c{x}" for x in range(a)], [Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))]
    )


def everybody(collection):
    """Return Jeffreys' prior of all categories, those of respondents who ignore the device among them."""
    return Dirichlet.jeffreys(collection.n_categories)


def answered(method, collection, random_seed):
    """Return the Posterior of a method: of all categories, as engines see them."""
    problem = Problem.of(collection, everybody(collection))
    answer = method.answer(problem, method.plan(problem), random_seed=random_seed, ci_prob=0.95)
    return Completion(method.chains, method.draws, 0.95).of_collection(problem, answer.outcome, answer.rng, answer.watch)


# Direct answers are the frequencies: their posterior has no spread to compare within.
INDIRECT = [case for case in CASES if case.engines and case.name != "direct"]


@pytest.fixture(scope="module", params=INDIRECT, ids=str)
def truth(request):
    """(case name, collection of 80 users, the exact group by dynamic programming, which applies to every protocol)."""
    collection = collected(request.param, 3 if 3 in request.param.categories else 2, 1.5, 80)
    reference = enumerated(collection, everybody(collection))
    return request.param.name, collection, reference


def test_the_table_of_methods_is_complete():
    assert EXACT.keys() | SAMPLED.keys() | OTHER_PRIORS | {"surrogate"} == METHODS.keys()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", list(EXACT))
def test_exact_methods_agree(truth, name):
    """Means, sds, interval ends and evidence to TIGHT, in posterior sd and in nats."""
    case, collection, reference = truth
    method = METHODS[name](draws=10, chains=1, **EXACT[name])
    if name == "exact" and case not in SINGLED and collection.n_categories > 2:  # two categories are always exact
        assert re.search("singles? out", method.feasibility(collection, everybody(collection)).reason)
        return
    found = answered(method, collection, 0).exact
    for target in ("distribution", "frequency"):
        scale = reference[f"{target}_sd"]
        for moment in ("mean", "sd", "lower", "upper"):
            key = f"{target}_{moment}"
            if key in found:
                assert (np.abs(found[key] - reference[key]) < TIGHT * scale).all(), key
    assert abs(float(found["log_evidence"] - reference["log_evidence"])) < TIGHT


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in SAMPLED if name != "nuts"])
def test_draws_agree_with_the_exact_moments(truth, name):
    _, collection, reference = truth
    check_draws(answered(METHODS[name](**SAMPLED[name]), collection, 1), reference)


@pytest.mark.calibrate  # each costs a compilation; tests/methods/test_nuts.py has counts, tests/test_model.py densities
def test_nuts_agrees_with_the_exact_moments(truth):
    _, collection, reference = truth
    check_draws(answered(METHODS["nuts"](**SAMPLED["nuts"]), collection, 1), reference)


@pytest.mark.calibrate  # tests/methods/test_surrogate.py compares weighted draws of the same size
@pytest.mark.parametrize("case", [case for case in INDIRECT if max(case.categories) > 2], ids=str)
def test_the_surrogate_agrees_with_the_exact_moments_of_every_protocol(case):
    """40 users over the most categories that the case has at epsilon 1, where no surrogate is rejected."""
    collection = collected(case, max(case.categories), 1.0, 40)
    reference = enumerated(collection, everybody(collection))
    check_draws(answered(METHODS["surrogate"](draws=500), collection, 1), reference, repeated=True)


def check_draws(posterior, reference, repeated=False):
    """Means and sds of P and F within MCSE Monte Carlo errors, and a sampled evidence within as many of its own."""
    for target in ("distribution", "frequency"):
        mean, sd = reference[f"{target}_mean"], reference[f"{target}_sd"]
        draws = np.moveaxis(posterior.draws[target][1], -1, 0)
        errors = [array_stats.mcse(draws, method=moment) for moment in ("mean", "sd")]
        if repeated:  # such draws look independent; the effective sample knows better
            size = posterior.diagnostics.effective_draws
            errors = [np.maximum(error, sd / np.sqrt(size)) for error in errors]
        assert (np.abs(draws.mean(axis=(1, 2)) - mean) < MCSE * errors[0]).all(), target
        assert (np.abs(draws.std(axis=(1, 2)) - sd) < MCSE * errors[1]).all(), target
    if "log_evidence" in posterior.facts:
        error = abs(posterior.facts["log_evidence"] - float(reference["log_evidence"]))
        assert error < MCSE * posterior.facts["log_evidence_error"]
