"""Who decides is a question of sensitivity: a learnt prior that has found the empty categories does not decide."""

import numpy as np
import pytest
from scipy.stats import beta

import ldpbayes as lb
from ldpbayes.answers.deciding import compared_widths, decision_given
from ldpbayes.answers.sensitivity import HALF, sensitivities
from ldpbayes.posteriors.problem import Problem
from ldpbayes.priors import Learnt
from ldpbayes.protocols import UnaryEncoding, designs


def survey(protocol, filled, n, seed=0):
    """Return n reports of a population in which so many categories, with shares as 1, 1/2, 1/3, …, are not empty."""
    rng, p = np.random.default_rng(seed), np.zeros(protocol.n_categories)
    p[:filled] = 1 / np.arange(1, filled + 1)
    tally = lb.Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))
    return lb.Collection([f"c{x}" for x in range(p.size)], tally)


@pytest.mark.parametrize("protocol", [lb.GRR(60, 2.0), UnaryEncoding.optimized(40, 1.0)], ids=["grr", "oue"])
def test_nine_tenths_of_the_categories_are_empty(protocol):
    """Most credible intervals are less than half as wide as the confidence intervals, rightly so."""
    found = survey(protocol, protocol.n_categories // 10, 8000)
    tree = lb.fit(found, random_seed=1, draws=500)
    assert tree.attrs["prior"].startswith("learnt") and tree.attrs["narrow_share"] > 0.6
    assert tree.attrs["prior_decides"] == 0 and not tree.attrs["decides"]
    page = " ".join(note.text for note in lb.show(tree).notes)
    assert "prior decides" not in page


@pytest.mark.parametrize("prior", ["learnt", "jeffreys"])
def test_weak_reports_hang_on_the_prior(prior):
    tree = lb.fit(survey(lb.GRR(30, 0.5), 30, 200), prior=prior, random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 1
    assert "with twice its weight the mean or an end of" in tree.attrs["decides"]


def test_strong_reports_do_not():
    tree = lb.fit(survey(lb.GRR(6, 2.0), 6, 20_000), prior="jeffreys", random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 0


def test_the_moves_are_those_of_two_fits_in_closed_form():
    """Direct answers: the posterior under γα is Dirichlet(γα + counts), whose margins are Beta."""
    counts, alpha = np.array([40, 25, 3, 0]), np.array([0.5, 1.0, 2.0, 0.3])
    data = lb.Collection(list("abcd"), lb.Tally(designs.direct(4), np.arange(4), counts))
    tree = lb.fit(data, prior=alpha, random_seed=1, draws=250)
    found = sensitivities(tree, [Problem.of(data, alpha)])[0]

    def numbers(scale):
        a, total = scale * alpha + counts, (scale * alpha + counts).sum()
        return np.stack([a / total, *(beta.ppf(level, a, total - a) for level in (0.025, 0.975))])

    expected = np.abs(numbers(HALF) - numbers(1 / HALF)).max(axis=0)
    np.testing.assert_allclose(found.moves, expected, atol=1e-6)


def test_weights_of_the_learnt_prior_are_those_of_another_fit():
    """Under the learnt prior: moves by weighted draws against two fits with the moved medians, within Monte Carlo error."""
    data = survey(lb.GRR(12, 1.0), 5, 400)
    tree = lb.fit(data, prior="learnt", random_seed=1)
    found = sensitivities(tree, [Problem.of(data, "learnt")])[0]
    low, high = (
        lb.fit(data, prior=Learnt(median=0.5 * scale), draws=0)["summary"].to_dataset().sel(target="distribution")
        for scale in (1 / HALF, HALF)
    )
    names = ("mean", "lower", "upper")
    expected = np.max([np.abs((high[name] - low[name]).values) for name in names], axis=0)
    sd = tree["summary"]["sd"].sel(target="distribution").values
    assert np.abs(found.moves - expected).max() < 0.12 * sd.max()


def test_the_practical_floor_is_an_option():
    data = survey(lb.GRR(30, 0.5), 30, 200)
    tree = lb.fit(data, prior="jeffreys", random_seed=1, draws=250)
    problem = Problem.of(data, "jeffreys")
    weights = tree.attrs["prior_weight"], tree.attrs["effective_open_answers"]
    for floor, decides in ((0.002, 1), (0.5, 0)):
        (moved,) = sensitivities(tree, [problem], floor)
        found = decision_given(data, compared_widths(tree, [data]), moved, weights, 0.0)
        assert found["prior_decides"] == decides
