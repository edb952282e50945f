"""Every posterior method gives the same answer on the same small collection of every protocol, within its stated error."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from cases import CASES

from ldpbayes import Collection, Tally
from ldpbayes.errors import ConvergenceError
from ldpbayes.fitting import METHODS, make_method

#: Exact methods, with settings that state an error below TIGHT.
EXACT = {"exact": {}, "quadrature": {"tolerance": 1e-9}, "tally_states": {}}
SAMPLED = {
    "surrogate": {"draws": 1000},
    "augmentation": {"draws": 1000},
    "pair_slice": {},
    "nuts": {"draws": 1000, "tune": 500},
}
TIGHT = 1e-8
#: Monte Carlo errors allowed: of about 1,500 comparisons one is beyond 3.5 by chance, one in a thousand runs beyond 5.
MCSE = 5.0


def collected(case):
    """Return 80 users of the case, over three categories where it can."""
    a = 3 if 3 in case.categories else 2
    rng = np.random.default_rng(11)
    protocol = case.build(a, 1.5)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(80, [0.6, 0.3, 0.1][:a] / np.sum([0.6, 0.3, 0.1][:a])), rng))
    return Collection("abc"[:a], [tally])


# Direct answers are the frequencies: their posterior has no spread to compare within.
@pytest.fixture(scope="module", params=[case for case in CASES if case.name != "direct"], ids=str)
def truth(request):
    """(collection, exact group by dynamic programming, the method that applies to every protocol)."""
    collection = collected(request.param)
    return collection, make_method("tally_states", draws=10).posterior(collection, "jeffreys", random_seed=0)["exact"]


def test_the_table_of_methods_is_complete():
    assert EXACT.keys() | SAMPLED.keys() == METHODS.keys()


@pytest.mark.parametrize("name", [name for name in EXACT if name != "tally_states"])
def test_exact_methods_agree(truth, name):
    """Means, sds, interval ends and evidence to TIGHT, in posterior sd and in nats."""
    collection, reference = truth
    method = make_method(name, draws=10, chains=1, **EXACT[name])
    feasible = method.feasibility(collection, "jeffreys")
    if not feasible.feasible:
        assert name == "exact"  # quadrature applies to every protocol at this size
        pytest.skip(feasible.reason)
    found = method.posterior(collection, "jeffreys", random_seed=0)["exact"]
    for target in ("distribution", "frequency"):
        scale = reference[f"{target}_sd"].values
        for moment in ("mean", "sd", "lower", "upper"):
            key = f"{target}_{moment}"
            if key in found:
                assert (np.abs(found[key] - reference[key]) < TIGHT * scale).all(), key
    assert abs(float(found["log_evidence"] - reference["log_evidence"])) < TIGHT


@pytest.mark.parametrize("name", SAMPLED)
def test_draws_agree_with_the_exact_moments(truth, name):
    """Means and sds of P and F within MCSE Monte Carlo errors, and the surrogate's evidence within as many of its own."""
    collection, reference = truth
    method = make_method(name, **SAMPLED[name])
    feasible = method.feasibility(collection, "jeffreys")
    if not feasible.feasible:
        assert name == "surrogate" and collection.n_categories == 2
        pytest.skip(feasible.reason)
    try:
        tree = method.posterior(collection, "jeffreys", random_seed=1)
    except ConvergenceError as err:
        assert name == "surrogate"
        pytest.skip(str(err))  # it says so itself; the method it hands over to is in this table too
    for target in ("distribution", "frequency"):
        mean, sd = reference[f"{target}_mean"].values, reference[f"{target}_sd"].values
        draws = np.moveaxis(tree["posterior"][target].values, -1, 0)
        errors = [array_stats.mcse(draws, method=moment) for moment in ("mean", "sd")]
        if name == "surrogate":  # repeated draws look independent; the effective sample knows better
            size = tree.attrs["effective_draws"]
            errors = [np.maximum(error, sd / np.sqrt(size)) for error in errors]
        assert (np.abs(draws.mean(axis=(1, 2)) - mean) < MCSE * errors[0]).all(), target
        assert (np.abs(draws.std(axis=(1, 2)) - sd) < MCSE * errors[1]).all(), target
    if "log_evidence" in tree.attrs:
        error = abs(tree.attrs["log_evidence"] - float(reference["log_evidence"]))
        assert error < MCSE * tree.attrs["log_evidence_error"]
