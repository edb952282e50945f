"""answers.independence has an answer where plain weights of the log-linear engine do not hold, or says why there is none."""

import math
from itertools import product

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.methods import loglinear
from ldpbayes.priors import LogLinear
from ldpbayes.protocols import Attributes
from ldpbayes.protocols.designs import warner
from ldpbayes.result.facts import facts_of


def surveyed(factors, p, n, seed=3):
    protocol, rng = Attributes(factors), np.random.default_rng(seed)
    labels = ["/".join(cell) for cell in product(*([str(i) for i in range(q.n_categories)] for q in factors))]
    return lb.Collection(labels, lb.Tally(protocol, *protocol.simulate(rng.multinomial(n, np.ravel(p)), rng)))


@pytest.fixture(scope="module")
def pair():
    return surveyed((warner(0.8), warner(0.75)), [[0.45, 0.15], [0.15, 0.25]], 400)


@pytest.fixture(scope="module")
def by_weights(pair):
    tree = lb.associate(pair, random_seed=1)
    assert tree.attrs["method"] == "weighted" and facts_of(tree)["sampling"] == "independent"
    return lb.answers.independence(tree)


def test_draws_of_another_engine_give_the_same_evidence(pair, by_weights):
    """What associate asks for where the log-linear engine made no draws at all."""
    found = loglinear.evidences(LogLinear((2, 2)), pair.rows, 2000, np.random.default_rng(0))
    factor = found["log_evidence_independence"] - found["log_evidence"]
    assert factor == pytest.approx(
        float(by_weights["log_bayes_factor"]), abs=0.02 + 5 * (found["log_evidence_error"] + 0.01)
    )


def test_where_there_is_none_the_reason_stands_beside_it(pair):
    table = pair.tallies[0].protocol.channel()
    reports = pair.tallies[0].reports @ [2, 1] if pair.tallies[0].reports.ndim == 2 else pair.tallies[0].reports
    counts = np.bincount(reports, pair.tallies[0].counts, 4).astype(int)
    flat = lb.Collection(pair.categories, lb.Tally(lb.protocols.Channel(table), np.arange(4), counts))
    without = lb.associate(flat, prior="jeffreys", random_seed=1)
    found = lb.answers.independence(without)
    assert math.isnan(found["log_bayes_factor"]) and "product over" in found.attrs["reason"]
    assert any("product over" in note.text for note in lb.show(without).notes)
    alone = lb.associate(pair, order=1, random_seed=1)
    assert "no interactions" in lb.answers.independence(alone).attrs["reason"]


def test_a_prior_without_margins_says_so(pair):
    tree = lb.associate(pair, prior=np.full(4, 0.5), random_seed=1)
    found = lb.answers.independence(tree, "A", "B")
    assert math.isnan(found["probability"]) and "a prior of all cells of the table" in found.attrs["reason"]


@pytest.mark.calibrate
def test_a_table_with_168_effects_has_a_bayes_factor():
    """More effects than plain weights serve: particles. Two seeds agree within their errors."""
    rng, found = np.random.default_rng(1), []
    p = np.outer(rng.dirichlet(np.full(13, 2.0)), rng.dirichlet(np.full(13, 2.0)))
    survey = surveyed((lb.GRR(13, 0.5), lb.GRR(13, 0.5)), p, 300)
    for seed in (1, 2):
        tree = lb.associate(survey, random_seed=seed)
        found.append(lb.answers.independence(tree))
        assert found[-1].attrs["reason"] == "" and found[-1]["error"] < 0.3
    apart = found[0]["log_bayes_factor"] - found[1]["log_bayes_factor"]
    assert abs(apart) < 4.5 * math.hypot(found[0]["error"], found[1]["error"])


def test_evidence_of_weights_that_do_not_hold_is_not_stated():
    """Six cells, weak reports: log Bayes factor 10.5 ± 0.8 beside a Cramér's V of .62, where two million draws say −1.58."""
    protocol, labels = Attributes((lb.GRR(2, 3.0), lb.GRR(3, 0.7))), ["/".join(cell) for cell in product("ny", "abc")]
    counts = [15, 14, 19, 8, 18, 9]
    survey = lb.Collection(labels, lb.Tally(protocol, protocol.list_reports(), counts))
    found = lb.answers.independence(lb.associate(survey, prior="jeffreys", random_seed=1))
    assert math.isnan(found["log_bayes_factor"]) and "evidence of these reports is not known" in found.attrs["reason"]
