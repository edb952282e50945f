"""The range of estimates under at most so many fakes: against linear programmes, enumeration, attacks and simulation."""

import json

import numpy as np
import pytest
from cases import CASES
from commands import run
from scipy.optimize import linprog

import ldpbayes as lb
from ldpbayes import Collection, Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators import Oracle
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.protocols import GRR, LocalHashing, SubsetSelection, UnaryEncoding, designs
from ldpbayes.robust import contamination_hull

LABELS = tuple("abcdefghijklmnopqrstuvwxyz")

#: Protocols whose estimate is not known as a mean over the reports.
WITHOUT = {"stochastic-lie-detector", "smp", "rs-fd", "cheater-detection"}
#: Cases of which a range is asked: those who ignore a device are no category to fake.
ASKED = [case for case in CASES if case.name != "noncompliance"]


def collected(protocol, n=2000, seed=1):
    a = protocol.n_categories
    counts = np.random.default_rng(seed).multinomial(n, np.arange(a, 0, -1) / (a * (a + 1) / 2))
    return Tally(protocol, *protocol.simulate(counts, np.random.default_rng(seed)), categories=LABELS[:a])


# ---- the bounds --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", ASKED, ids=str)
def test_the_range_is_that_of_a_linear_programme_over_the_fakes(case):
    """Fakes f_y among the observed reports: min and max of the honest mean by HiGHS, for every protocol with scores."""
    a = case.categories[-1]
    protocol = case.build(a, 1.0)
    tally = Tally(protocol, *protocol.simulate(np.arange(3, a + 3) * 9, np.random.default_rng(5)), categories=LABELS[:a])
    question = ["a", "b"] if a > 2 else "a"
    weights = np.isin(LABELS[:a], question).astype(float)
    if case.name in WITHOUT:
        with pytest.raises(InfeasibleError, match="mean over"):
            contamination_hull(tally, question, share=0.1)
        return
    hull = contamination_hull(tally, question, share=0.1)
    rows, m, n = tally.rows, int(hull.fakes[0]), tally.n_reports
    scores = protocol.decoder().scores(rows, weights)
    assert hull.estimate[0] == pytest.approx(weights @ Oracle()(tally).distribution)
    bounds = list(zip(np.zeros(len(scores)), rows.counts, strict=True))
    for sign, end in ((1, hull.low), (-1, hull.high)):
        found = linprog(-sign * scores, A_eq=np.ones((1, scores.size)), b_eq=[m], bounds=bounds, method="highs")
        value = (rows.counts @ scores + sign * found.fun) / (n - m)
        assert end[0, 0] == pytest.approx(np.clip(value, 0, 1), abs=1e-9)


@pytest.mark.parametrize("protocol, size", [(GRR(6, 1.0), (1, 1)), (SubsetSelection(6, 0.5, 2), (2, 2))], ids=str)
def test_the_range_lies_in_that_of_support_counts(protocol, size):
    """Supports of the fakes: 0 ≤ D_x ≤ m, 0 ≤ C_x − D_x ≤ n − m, Σ D = m·size. The same range under GRR."""
    tally = collected(protocol)
    form = protocol.binomials(tally.reports, tally.counts)
    hull = contamination_hull(tally, "a > b", share=0.08)
    m, n = int(hull.fakes[0]), form.n
    slope = (np.arange(6) == 0).astype(float) - (np.arange(6) == 1)
    bounds = [(max(0, c - (n - m)), min(m, c)) for c in form.counts]
    ends = []
    for sign in (1, -1):
        sums = np.ones((1, 6))
        limits = {"A_ub": np.vstack([sums, -sums]), "b_ub": [m * size[1], -m * size[0]]}
        found = linprog(-sign * slope, **limits, bounds=bounds, method="highs").x
        ends.append(((slope @ (form.counts - found)) / (n - m)) / (form.hit[0] - form.other[0]))
    assert ends[0] <= hull.low[0, 0] + 1e-9 and hull.high[0, 0] <= ends[1] + 1e-9
    if size == (1, 1):
        assert hull.low[0, 0] == pytest.approx(ends[0]) and hull.high[0, 0] == pytest.approx(ends[1])


def test_the_formula_of_one_category():
    tally, eta = collected(UnaryEncoding.optimized(4, 1.0)), 0.05
    g, h = tally.protocol.hit_rates
    form = tally.protocol.binomials(tally.reports, tally.counts)
    hull = contamination_hull(tally, share=[0.0, eta])
    share = form.counts / form.n
    np.testing.assert_allclose(hull.low[1], np.clip(((share - eta) / (1 - eta) - h) / (g - h), 0, 1))
    np.testing.assert_allclose(hull.high[1], np.clip((share / (1 - eta) - h) / (g - h), 0, 1))
    exact = confidence_intervals([tally])[0]  # the limits without fakes are those of every fit
    inside = exact.lower[0] > 0
    np.testing.assert_allclose(hull.confidence_low[0][inside], exact.lower[0][inside], atol=1e-9)
    np.testing.assert_allclose(hull.confidence_high[0][inside], exact.upper[0][inside], atol=1e-9)
    assert hull.exact and "anything from" in hull.sentence


@pytest.mark.parametrize(
    "protocol", [GRR(5, 1.0), UnaryEncoding.optimized(5, 1.0), SubsetSelection(5, 1.0, 2), LocalHashing(5, 1.0)], ids=str
)
def test_an_attack_exists_that_reaches_each_end(protocol):
    """Fakes by the maximal gain attack: the lower end of the target is the estimate of the honest, to rounding."""
    honest, rng = collected(protocol, 1900), np.random.default_rng(7)
    before = Oracle()(honest).distribution
    fake = protocol.crafted(np.array([1])).draw(100, rng)
    hull = contamination_hull(honest + Tally(protocol, fake, categories=honest.categories), "b", share=0.05)
    assert hull.fakes[0] == 100 and hull.low[0, 0] == pytest.approx(before[1])
    # … and fakes that never support the target make its estimate the upper end's.
    fake = protocol.crafted(np.array([1])).draw(100, rng)
    while True:
        held = protocol.rows(fake, np.ones(len(fake))).support_sums(np.eye(1, 5, 1)[0]) > 0
        if not held.any():
            break
        fake[held] = protocol.privatize(np.zeros(int(held.sum()), dtype=int), rng)
    hull = contamination_hull(honest + Tally(protocol, fake, categories=honest.categories), "b", share=0.05)
    assert hull.high[0, 0] == pytest.approx(before[1])


def test_the_turning_point_is_where_the_range_crosses():
    tally = collected(GRR(5, 1.0), 3000)
    for question in ("a > b", "a > 20 %", "e < 0.3"):
        hull = contamination_hull(tally, question)
        side = "low" if hull.estimate[0] > hull.threshold else "high"
        just, before = (
            getattr(contamination_hull(tally, question, share=hull.turning - less / tally.n_reports), side)[0, 0]
            for less in (0, 1)
        )
        ends = (before, hull.threshold, just) if side == "high" else (just, hull.threshold, before)
        assert list(ends) == sorted(ends) and 0 < hull.turning < 0.5
        assert hull.turning_confident <= hull.turning
        at = np.abs(hull.curve["share"].values - hull.turning).argmin()
        assert abs(hull.curve[side][at] - hull.threshold) < 0.05
        assert "enough to" in hull.sentence
    # As many as fakes adds to an estimate turn the order back.
    needed = lb.robust.fakes(tally, "b", overtake="a")
    assert needed.share == pytest.approx(contamination_hull(tally, "b < a").turning, rel=0.35)
    assert np.isinf(contamination_hull(collected(designs.direct(2), 100), "a > 0.01").turning)


# ---- coverage ----------------------------------------------------------------------------------------------------------
def coverage(protocol, question, truth, share, replications, n=3000, seed=11):
    """Return how often the limits contain the truth where fakes attack the first category, all of them allowed for."""
    rng, inside = np.random.default_rng(seed), 0
    a, m = protocol.n_categories, int(share * n)
    p = np.arange(a, 0, -1) / (a * (a + 1) / 2)
    crafted = protocol.crafted(np.array([0]))
    for _ in range(replications):
        reports = np.concatenate([protocol.privatize(rng.choice(a, n - m, p=p), rng), crafted.draw(m, rng)])
        hull = contamination_hull(Tally(protocol, reports, categories=LABELS[:a]), question, share=share)
        inside += hull.confidence_low[0, 0] <= truth(p) <= hull.confidence_high[0, 0]
    return inside / replications


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", [GRR(5, 1.0), UnaryEncoding.optimized(5, 1.0)], ids=str)
def test_the_limits_contain_the_truth(protocol):
    assert coverage(protocol, "a", lambda p: p[0], 0.05, 100) >= 0.93
    assert coverage(protocol, "a > b", lambda p: p[0] - p[1], 0.05, 60) >= 0.93


@pytest.mark.calibrate
@pytest.mark.parametrize(
    "protocol", [GRR(5, 1.0), UnaryEncoding.optimized(5, 1.0), LocalHashing(5, 1.0), SubsetSelection(5, 1.0)], ids=str
)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1])
def test_the_limits_contain_the_truth_often_enough(protocol, share):
    for question, truth in (("a", lambda p: p[0]), ("a > b", lambda p: p[0] - p[1])):
        assert coverage(protocol, question, truth, share, 1000) >= 0.95 - 0.014


def test_a_conclusion_about_a_sum_is_that_about_the_rest():
    """a + b > 0.6 turns where c < 0.4 does, and the ranges are each other's complement."""
    tally = collected(GRR(3, 1.0))
    labels = tally.categories
    both = contamination_hull(tally, f"{labels[0]} + {labels[1]} > 60 %", share=0.05)
    rest = contamination_hull(tally, f"{labels[2]} < 0.4", share=0.05)
    np.testing.assert_allclose([both.low.item(), both.high.item()], [1 - rest.high.item(), 1 - rest.low.item()])
    assert both.attrs["turning"] == rest.attrs["turning"]
    assert both.low.item() == contamination_hull(tally, list(labels[:2]), share=0.05).low.item()


# ---- errors, page, command line ----------------------------------------------------------------------------------------
def test_bad_questions_are_one_sentence():
    tally = collected(GRR(3, 1.0))
    for share in (-0.01, 0.5, float("nan"), "x", []):
        with pytest.raises(ArgumentError, match="share must"):
            contamination_hull(tally, share=share)
    for question in ("z", "a > z", "a > a", "z > 0.1", ["a", "z"], ["a", "a"], [], list("abc"), "a > 1.5", "a > 0,5", 3):
        with pytest.raises(ArgumentError, match=r"categories must|threshold"):
            contamination_hull(tally, question)
    with pytest.raises(ArgumentError, match="laws out"):
        contamination_hull(Collection("abc", tally).with_noncompliers({"o": "uniform"}), "a")
    two = Collection("abc", [Tally(GRR(3, 1.0), [0, 1], name="x"), Tally(GRR(3, 2.0), [0, 1], name="y")])
    with pytest.raises(ArgumentError, match="channel must"):
        contamination_hull(two)
    assert contamination_hull(two, channel="y").n == 2


def test_scores_are_those_of_the_estimate_where_another_one_happens_to_agree():
    """Expected counts have one estimate by cards and by whether any was red; reports taken away tell them apart."""
    cards, counts = designs.kuk(0.8, 0.3, 2), np.array([4, 4, 2])
    scores = [Oracle()(Tally(cards, [card], [1], categories=("a", "b"))).distribution[0] for card in range(3)]
    hull = contamination_hull(Tally(cards, range(3), counts, categories=("a", "b")), "a", share=0.1)
    total = counts @ scores
    assert np.allclose([hull.low.item(), hull.high.item()], [(total - scores[0]) / 9, (total - scores[2]) / 9])


def test_ties_are_ties():
    hull = contamination_hull(Tally(designs.warner(0.8), [0, 1], [4, 4], categories=("a", "b")), "a < b", share=0.45)
    assert hull.estimate.item() == 0 and "not hold" in hull.sentence and "e-1" not in hull.sentence
    # Two reports of "no" fewer leave a share of exactly 0.3.
    tally = Tally(designs.unrelated_question(0.6, 0.2), [0, 1], [7, 5], categories=("a", "b"))
    assert np.isclose(contamination_hull(tally, "a > 0.3").turning, 2 / 12)


def test_page_and_figure():
    hull = contamination_hull(collected(GRR(4, 1.0)), "a > b", share=0.02)
    page = lb.show(hull)
    assert "enough to" in page.render("markdown") and page.figures[0].draw().axes
    assert isinstance(hull, lb.answers.Answer)
    every = lb.show(contamination_hull(collected(GRR(4, 1.0))))
    assert len(every.tables[0].rows) == 12 and every.figures[0].draw().axes


def test_command_line(capsys):
    command = ("check", "example:nigeria", "--fake-share")
    status, out, _ = run(capsys, *command, "0.01,0.05", "--conclusion", "yes > 0.2", "--json")
    found = json.loads(out)["contamination"]
    assert status == 0 and found["share"] == [0.01, 0.05] and 0 < found["turning"] < 0.5
    status, out, _ = run(capsys, *command, "0.05")
    assert status == 0 and "anything from" in " ".join(out.split())
    for wrong in (["0.5"], ["x"], ["0.1", "--conclusion", "perhaps > 0.2"]):
        status, out, err = run(capsys, *command, *wrong)
        assert status == 2 and not out and err.count("\n") == 1
    status, out, err = run(capsys, "check", "example:nigeria", "--conclusion", "yes > 0.2")
    assert status == 2 and "fake-share" in err
    status, out, err = run(capsys, "check", "example:wada", "--fake-share", "0.05")
    assert status == 2 and "channel must" in err
    status, out, _ = run(capsys, "check", "example:wada", "--fake-share", "0.05", "--channel", "B", "--json")
    hull = contamination_hull(lb.load_example("wada"), share=0.05, channel="B")
    assert json.loads(out)["contamination"]["low"] == hull.low.values.tolist() and status in (0, 1)
