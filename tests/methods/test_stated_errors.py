"""Errors that stand beside evidence, means, sds and ends, with and without draws, against sums over all tallies.

The kind: a number that is off by more than what is stated beside it. Searched: expansions of reports that were kept, of
summaries, and under mixtures; exact sums, quadrature and dynamic programming at large concentrations; F beside P.
``make fuzz-numbers`` draws such settings by chance (``fuzz_numbers.small``).
"""

import numpy as np
import pytest
import worlds
from fuzz_numbers import Compared, against, of_law

import ldpbayes as lb
from ldpbayes.errors import InfeasibleError
from ldpbayes.likelihoods import Summary
from ldpbayes.result.facts import facts_of

REPORTS = np.array([1, 1, 2, 3, 3, 3, 5, 7, 9, 9, 10, 12, 14, 4])


def surveyed(a, protocol, reports):
    return lb.Collection([f"c{x}" for x in range(a)], lb.Tally(protocol, reports))


@pytest.mark.parametrize("prior", ["flat", "learnt"])
def test_fits_without_draws_lie_within_what_they_state(prior):
    """An expansion of 14 reports was off by .1 nats, and its sds by more than predicted; nothing was said of the first."""
    protocol = lb.protocols.HadamardResponse(7, 2.0)
    data = surveyed(7, protocol, REPORTS % protocol.n_outputs)
    rows = protocol.channel()[REPORTS % protocol.n_outputs]
    parts = worlds.learnt(7)[::8] if prior == "learnt" else [(-np.log(8), np.ones(7))]
    law = worlds.Law(worlds.Tallies.of(rows), [(log + np.log(8), alpha) for log, alpha in parts])
    tree, found = lb.fit(data, prior, draws=0, random_seed=1), Compared()
    assert tree.attrs["draws"] == "none"
    against(found, tree, *of_law(law))
    assert not found.faults and found.within["evidence"] == 1
    held, every = (sum(v for k, v in found.within.items() if k.endswith(", all") == whole) for whole in (False, True))
    assert held >= 0.95 * every - 3.5 * np.sqrt(0.95 * 0.05 * every)


@pytest.mark.parametrize(("prior", "method"), [("flat", "surrogate"), ("learnt", "surrogate")])
def test_expansions_that_are_asked_for_state_their_errors(prior, method):
    """Under a mixture moments were those of the saddle point, of whose error nothing was said."""
    rng = np.random.default_rng(400)
    protocol = lb.protocols.UnaryEncoding.optimized(12, 1.0)
    data = surveyed(12, protocol, protocol.privatize(rng.integers(12, size=400), rng))
    tree, drawn = lb.fit(data, prior, method, draws=0), lb.fit(data, prior, random_seed=1, draws=2000)
    off, error = float(tree["exact"]["log_evidence"]) - facts_of(drawn)["log_evidence"], facts_of(tree)["log_evidence_error"]
    assert abs(off) < 2 * np.hypot(error, facts_of(drawn)["log_evidence_error"]) < 0.1
    one, other = (found["summary"].sel(target="distribution") for found in (tree, drawn))
    bound = facts_of(tree)["predicted_error"] + 3 / np.sqrt(8000)
    assert (np.abs(one["mean"] - other["mean"]) < bound * other["sd"]).all()
    assert (np.abs(one["sd"] / other["sd"] - 1) < bound).all()


def test_expansions_of_few_reports_are_refused():
    """By the saddle point alone sds came out a twentieth too large, with an error of four thousandths beside them."""
    protocol = lb.protocols.HadamardResponse(7, 0.5)
    with pytest.raises(InfeasibleError, match="14 reports"):
        lb.fit(surveyed(7, protocol, REPORTS % protocol.n_outputs), "flat", "surrogate", draws=0)


def test_summaries_state_the_error_of_their_evidence_each():
    """Nothing was stated of a summary, alone or in a cell beside reports that are counted."""
    rng = np.random.default_rng(1)
    protocol = lb.protocols.UnaryEncoding.optimized(7, 1.0)
    data = surveyed(7, protocol, protocol.privatize(rng.integers(7, size=3000), rng))
    drawn = lb.fit(data, "flat", "surrogate", random_seed=1)
    summary = Summary.of(data.rows, drawn["summary"]["mean"].sel(target="distribution").values)
    log_evidence = facts_of(drawn)["log_evidence"]
    alone = lb.fit(summary, "flat", draws=0)
    assert abs(float(alone["exact"]["log_evidence"]) - log_evidence) < facts_of(alone)["log_evidence_error"]
    counted = surveyed(7, lb.GRR(7, 1.0), np.arange(7))
    cells = lb.fit(lb.Cells({"a": summary, "b": counted}, by="group"), "flat", draws=0)["cells"]["log_evidence_error"]
    assert cells.values[0] == pytest.approx(facts_of(alone)["log_evidence_error"]) and 0 < cells.values[1] < 1e-5


@pytest.mark.calibrated("OUE-10000.0", "OUE-1000000.0", "OUE-10000000000.0")
@pytest.mark.parametrize("alpha", [1e4, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("world", ["direct", "GRR", "OUE"])
def test_frequencies_and_evidence_under_large_concentrations(world, alpha):
    """F is the reports' own business there; its sd was a difference of numbers that agree to the last digits."""
    rng = np.random.default_rng(1)
    a, reports = (2, np.array([0, 0, 1])) if world != "OUE" else (4, None)
    if world == "OUE":
        made = worlds.unary(a, rng.integers(a, size=9), rng)
        protocol, reports, rows = made.protocol, made.reports, made.rows
    else:
        keep = 1 / (1 + np.exp(-1))
        protocol = lb.GRR(2, 1.0) if world == "GRR" else lb.protocols.designs.direct(2)
        rows = (np.array([[keep, 1 - keep], [1 - keep, keep]]) if world == "GRR" else np.eye(2))[reports]
    law = worlds.Law(worlds.Tallies.of(rows), [(0.0, np.full(a, alpha))])
    for draws in (0, None):
        tree = lb.fit(surveyed(a, protocol, reports), np.full(a, alpha), draws=draws, random_seed=1)
        one, k = tree["summary"].sel(target="frequency"), np.arange(len(rows) + 1) / len(rows)
        for x in range(a):
            mean = law.count(x) @ k
            sd = np.sqrt(law.count(x) @ (k - mean) ** 2)
            assert float(one["mean"][x]) == pytest.approx(mean, abs=1e-6)
            assert float(one["sd"][x]) == pytest.approx(sd, rel=2e-4, abs=1e-6)
        off = abs(float(tree["exact"]["log_evidence"]) - law.log_evidence)
        assert off < facts_of(tree)["log_evidence_error"] < 1e-2 * alpha / 1e9 + 2e-6


def test_few_reports_under_a_learnt_prior_are_no_foreign_exception():
    """Quadrature was planned at concentrations where it takes few nodes, and asked for at others where it takes many."""
    matrix = np.eye(7, 6) * 0.6 + 0.4 / 7
    tree = lb.fit(surveyed(6, lb.protocols.Channel(matrix / matrix.sum(axis=0)), [0, 1, 6]), "learnt", random_seed=1)
    assert tree.attrs["converged"]
