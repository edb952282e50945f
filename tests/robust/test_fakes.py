"""fakes() against the estimates of collections that the fabricated reports were added to; exact rates of supports."""

import numpy as np
import pytest
from cases import CASES
from tabulated import each_row

from ldpbayes import GRR, Collection, Tally, fit
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators import Oracle
from ldpbayes.planning import poisoned_share
from ldpbayes.protocols import designs
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.robust import fakes

LABELS = ("a", "b", "c", "d", "e")
PROTOCOLS = [
    GRR(5, 1.0),
    UnaryEncoding.optimized(5, 1.0),
    SubsetSelection(5, 1.0, 2),
    HadamardResponse(5, 1.0),
    designs.forced_response(0.6, [1, 2, 1, 1, 3]),
]


def collected(protocol, n=4000):
    reports, counts = protocol.simulate(np.array([4, 3, 2, 1, 0]) * n // 10, np.random.default_rng(0))
    return Tally(protocol, reports, counts, categories=LABELS)


def crafted(protocol, target, avoided):
    """Return a report that supports the target and not the avoided category."""
    for report in protocol.all_reports():
        form = protocol.binomials(report[None], np.ones(1, dtype=int))
        if form.counts[target] and not form.counts[avoided]:
            return report
    raise AssertionError("no such report")


def with_fakes(tally, m, target, avoided):
    """Return the unbiased estimate after m fabricated reports."""
    report = crafted(tally.protocol, target, avoided)
    return Oracle()(tally + Tally(tally.protocol, np.repeat(report[None], m, axis=0), categories=LABELS)).distribution


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.design)
def test_added_fakes_do_what_is_said_and_one_less_does_not(protocol):
    tally = collected(protocol)
    before = Oracle()(tally).distribution
    m = fakes(tally, "e", lift=0.05).added
    assert with_fakes(tally, m, 4, 0)[4] - before[4] >= 0.05 - 1e-12
    assert with_fakes(tally, m - 1, 4, 0)[4] - before[4] < 0.05
    m = fakes(tally, "e", overtake="a").added
    after, short = with_fakes(tally, m, 4, 0), with_fakes(tally, m - 1, 4, 0)
    assert after[4] > after[0] and short[4] <= short[0] + 1e-12
    assert fakes(tally, "a", overtake="e").added == 0


def test_replaced_fakes_and_the_expected_poisoning():
    """Replacing reports at random lifts the estimate by what the formula says, in expectation."""
    protocol, rng = GRR(20, 1.0), np.random.default_rng(1)
    reports = protocol.privatize(rng.choice(20, 10_000), rng)
    lifts = []
    for _ in range(200):
        poisoned = reports.copy()
        poisoned[rng.choice(10_000, 500, replace=False)] = 3
        lifts.append(Oracle()(Tally(protocol, poisoned)).distribution[3])
    lift = np.mean(lifts) - Oracle()(Tally(protocol, reports)).distribution[3]
    assert poisoned_share(protocol, 0.05, 0.05) - 0.05 == pytest.approx(lift, rel=0.02)
    needed = fakes(Tally(protocol, reports), "3", lift=lift)
    assert needed.replaced == pytest.approx(500, rel=0.02)


def test_a_result_knows_as_much_as_its_reports():
    tally = collected(PROTOCOLS[0])
    tree = fit(tally, "jeffreys", random_seed=1)
    by_result, by_reports = (fakes(one, "e", overtake="a") for one in (tree, tally))
    assert (by_result.added, by_result.sentence) == (by_reports.added, by_reports.sentence)
    assert fakes(tree, "e", lift=0.1) == fakes(tally, "e", lift=0.1)


def test_no_number_is_enough_for_a_share_above_one():
    found = fakes(collected(PROTOCOLS[0]), "e", lift=1.0)
    assert found.added == 1716
    full = Tally(designs.direct(2), [0, 1], [90, 10], categories=("no", "yes"))
    assert "No number" in fakes(full, "yes", lift=0.95).sentence


def test_bad_questions_about_fakes():
    tally = collected(PROTOCOLS[0])
    with pytest.raises(ArgumentError, match=r"one of.*overtake"):
        fakes(tally, "a")
    with pytest.raises(ArgumentError, match="category must"):
        fakes(tally, "x", lift=0.1)
    with pytest.raises(ArgumentError, match="another category"):
        fakes(tally, "a", overtake="a")
    cohorts = CohortRR(5, 1.0, buckets=2, cohorts=8)
    with pytest.raises(InfeasibleError, match="support counts"):
        fakes(Tally(cohorts, cohorts.all_reports(), categories=LABELS), "a", lift=0.1)
    two = Collection(LABELS, [Tally(GRR(5, 1.0), [0, 1], name="x"), Tally(GRR(5, 2.0), [0, 1], name="y")])
    with pytest.raises(ArgumentError, match="channel must"):
        fakes(two, "a", lift=0.1)
    assert fakes(two, "c", overtake="a", channel="y").added == 2


@each_row("case", CASES)
def test_rates_of_supports_are_those_of_the_channel(case):
    """Every value x' ≠ x hits the support of x with one probability h, and x itself with g, by the listed channel."""
    a = case.categories[-1]
    protocol = case.build(a, 1.0)
    if protocol.n_outputs is None:
        assert protocol.name in ("local_hashing", "rappor_bits", "loloha")
        return
    every, channel = protocol.all_reports(), protocol.channel()
    known = protocol.binomials(every, np.ones(len(every), dtype=int))
    if known is None:
        assert case.name not in ("grr", "warner", "forced-response", "crosswise", "kuk-2", "christofides")
        return
    inside = [protocol.binomials(every[[y]], np.ones(1, dtype=int)).counts for y in range(len(every))]
    chances = np.array(inside).T @ channel
    expected = np.where(np.eye(a, dtype=bool), known.hit[:, None], known.other[:, None])
    np.testing.assert_allclose(chances, expected, atol=1e-9)
    assert (known.hit > known.other).all()
