"""Posterior means under contamination: at most m fakes, ranges that contain the mean and grow, ends with bounds."""

import itertools

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.protocols import GRR


def removals(tally, most):
    """Return the counts that are left by every removal of at most so many reports."""
    sizes = [range(min(most, int(count)) + 1) for count in tally.counts]
    return [tally.counts - np.array(removed) for removed in itertools.product(*sizes) if sum(removed) <= most]


def means(tally, most, prior):
    """Return the posterior means after every removal, by importance weights on a fixed grid of the simplex."""
    a = tally.protocol.n_categories
    side = (np.arange(400) + 0.5) / 400
    if a == 2:
        p = np.stack([side, 1 - side], axis=1)
    else:
        x, y = (part.ravel() for part in np.meshgrid(side, side))
        p = np.stack([x, (1 - x) * y, (1 - x) * (1 - y)], axis=1)
    volume = 1.0 if a == 2 else 1 - p[:, 0]
    logs = np.log(tally.protocol.channel()[tally.reports] @ p.T)
    out = []
    for left in removals(tally, most):
        log_density = (prior - 1) * np.log(p).sum(axis=1) + np.log(volume) + left @ logs
        weight = np.exp(log_density - log_density.max())
        out.append(weight @ p / weight.sum())
    return np.array(out)


def test_the_range_of_a_lopsided_pair_contains_its_mean():
    tally = lb.Tally(GRR(2, 3.0), np.array([0, 1]), np.array([100, 1]), categories=("yes", "no"))
    hull = lb.robust.contamination_hull(tally, "yes", share=0.05, prior="flat")
    found = hull.posterior
    assert found.low[0] <= found["mean"].item() <= found.high[0]
    # with the single "no" gone, or with five "yes" gone: grids of one unknown
    every = means(tally, 5, 1.0)[:, 0]
    assert found.low[0] == pytest.approx(every.min(), abs=2e-4)
    assert found.high[0] == pytest.approx(every.max(), abs=2e-4)
    assert found.certified[0]
    assert "then lies between 0.987 and 0.99." in hull.sentence


@pytest.mark.parametrize("seed", range(6))
def test_ends_are_those_of_all_removals_and_within_the_bounds(seed):
    rng = np.random.default_rng(seed)
    a, alpha = (2, 3)[seed % 2], (1.0, 2.0)[seed % 3 % 2]
    counts = 1 + rng.multinomial(20, rng.dirichlet(np.ones(a)))
    labels = ("a", "b", "c")[:a]
    tally = lb.Tally(GRR(a, rng.uniform(0.5, 3)), np.arange(a), counts, categories=labels)
    every = means(tally, 3, alpha)
    for question, weights, closed in (("a", np.eye(a)[0], True), ("a > b", np.eye(a)[0] - np.eye(a)[1], False)):
        found = lb.robust.contamination_hull(tally, question, share=3.4 / counts.sum(), prior=alpha).posterior
        least, most = (every @ weights).min(), (every @ weights).max()
        assert found.low[0] == pytest.approx(least, abs=5e-4)
        assert found.high[0] == pytest.approx(most, abs=5e-4)
        assert found.bound_low[0] <= found.low[0] + 1e-12 and found.bound_high[0] >= found.high[0] - 1e-12
        assert found.certified[0] or not closed


@pytest.mark.parametrize("prior", ["flat", "jeffreys", 0.2])
def test_ranges_grow_with_the_share_in_any_order(prior):
    rng = np.random.default_rng(7)
    for a, question in ((2, "a"), (4, "b > a")):
        counts = 1 + rng.multinomial(60, rng.dirichlet(np.full(a, 0.6)))
        tally = lb.Tally(GRR(a, 1.5), np.arange(a), counts, categories=tuple("abcd"[:a]))
        shares = [0.3, 0.0, 0.1, 0.02]
        found = lb.robust.contamination_hull(tally, question, share=shares, prior=prior).posterior
        order = np.argsort(shares)
        low, high = found.low[order], found.high[order]
        assert low[0] == high[0] == pytest.approx(found["mean"].item())
        assert (np.diff(low) <= 0).all() and (np.diff(high) >= 0).all()


def test_where_ends_do_not_reach_their_bounds_the_sentence_says_so():
    tally = lb.Tally(GRR(3, 1.0), np.arange(3), np.array([14, 9, 6]), categories=("a", "b", "c"))
    hull = lb.robust.contamination_hull(tally, "a", share=0.1, prior="jeffreys")
    found = hull.posterior.isel(share=0)
    assert 0 < found.bound_low < found.low < found.high < found.bound_high < 1 and not found.certified
    assert "as far as a search has seen, and no set of fakes moves it beyond" in hull.sentence


def test_bounds_say_something_of_many_reports_under_concentrations_below_one():
    """Bounds by odds were 0 and 1 here; the lower one is by the share's own reports, and nearly reached."""
    counts = np.array([2513, 2249, 2003, 1742, 1493])
    tally = lb.Tally(GRR(5, 1.5), np.arange(5), counts, categories=tuple("abcde"))
    for question, below, above in (("a", 0.001, 0.1), (["a", "b"], 0.05, 0.06)):
        found = lb.robust.contamination_hull(tally, question, share=0.05, prior="jeffreys").posterior.isel(share=0)
        assert found.low - below < found.bound_low <= found.low
        assert found.high <= found.bound_high < found.high + above
