"""check() gives one verdict from all tests of fit; that of full compliance is an answer beside it."""

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.protocols import designs
from ldpbayes.result.facts import facts_of


def pair(first, second, n=400, truths=(0.2, 0.3)):
    """Return a crosswise survey with two probabilities, from the number of first answers in each."""
    counts = [[first, n - first], [second, n - second]]
    tallies = [lb.Tally(designs.crosswise(p), [0, 1], one, f"{p}") for p, one in zip(truths, counts, strict=True)]
    return lb.Collection(["no", "yes"], tallies)


@pytest.mark.parametrize("counts", [(336, 294), (332, 300)])
def test_reports_beyond_the_range_are_not_said_to_fit(counts):
    """Here the test of full compliance says p = .0067 and .0035, while a fifth of the level went to shares below zero."""
    survey = pair(*counts)
    assert lb.robust.compliance_test(survey.with_noncompliers({"sayer": 0})).p_value < 0.01
    found = lb.check(survey)
    assert found.flagged and "not fit" in found.verdict


def test_the_test_of_full_compliance_is_no_test_of_fit():
    rng, truths = np.random.default_rng(1), (0.2, 0.7)
    laws, both = [designs.crosswise(p).matrix @ [0.9, 0.1] for p in truths], {False: 0, True: 0}
    for gamma in (0.0, 0.06) * 15:
        ones = [rng.binomial(400, (1 - gamma) * law[0] + gamma) for law in laws]
        survey = pair(*ones, truths=truths).with_noncompliers({"sayer": 0})
        test, found = lb.robust.compliance_test(survey), lb.check(survey)
        assert found.compliance == test and not found.flagged
        some = test.p_value <= 0.05
        assert test.sentence().startswith("Some ignore the device" if some else "The reports do not show that some ignore")
        both[some] += 1
    assert min(both.values()) >= 5


def test_a_fit_says_the_same():
    survey = pair(345, 230).with_noncompliers({"sayer": 0})
    tree = lb.fit(survey, random_seed=1, draws=200)
    found = lb.check(survey)
    assert facts_of(tree)["fitness"] == found.verdict and tree.attrs["fitness_flagged"] == int(found.flagged)
    assert facts_of(tree)["fitness_p"] == found.p_value


def test_the_verdict_names_what_a_p_value_counts_for():
    """Both numbers, the number of tests, and the share of the level where it is less than an equal one."""
    p, n = np.append(0.97, np.full(19, 0.03 / 19)), 1000
    rng = np.random.default_rng(0)
    tallies = [lb.Tally(q, *q.simulate(rng.multinomial(n, p), rng), f"{e}") for e in (1.0, 2.0) for q in [lb.GRR(20, e)]]
    found = lb.check(lb.Collection([str(x) for x in range(20)], tallies))
    assert len(found.checks) == 2 and "adjusted for 2" in found.verdict
    weights = [one.weight for one in found.checks]
    assert ("of the level" in found.verdict) == (weights[int(found.adjusted.argmin())] < max(weights))
