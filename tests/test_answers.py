"""Answers from a posterior against closed forms of the Dirichlet and a multinomial without privacy."""

import numpy as np
import pytest
from scipy import special, stats

from ldpbayes import Collection, Tally, answers, fit, result
from ldpbayes.errors import ArgumentError
from ldpbayes.posteriors.diagnostics import summarise
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, designs
from ldpbayes.protocols.unary import UnaryEncoding

COUNTS = np.array([5, 9, 16, 30])
ALPHA = COUNTS + 0.5


@pytest.fixture(scope="module")
def open_answers():
    """A result whose posterior is Dirichlet(α + counts): direct questioning, no privacy."""
    rng = np.random.default_rng(11)
    collection = Collection(list("abcd"), [Tally(designs.direct(4), np.arange(4), COUNTS)])
    draws = rng.dirichlet(ALPHA, size=(4, 5000))
    tree = result.build(
        collection,
        Dirichlet.jeffreys(4),
        method="test",
        settings={},
        draws=draws,
        frequencies=np.broadcast_to(COUNTS / COUNTS.sum(), draws.shape),
        attrs={"sampling": "independent"},
    )
    return summarise(tree, 0.95)


def test_simultaneous_band_covers_jointly_and_is_wider(open_answers):
    band = answers.simultaneous_intervals(open_answers, ci_prob=0.9)
    fresh = np.random.default_rng(5).dirichlet(ALPHA, size=40_000)
    inside = ((fresh >= band["lower"].values) & (fresh <= band["upper"].values)).all(axis=1).mean()
    assert abs(inside - 0.9) < 0.01
    single = stats.beta.ppf([[0.05], [0.95]], ALPHA, ALPHA.sum() - ALPHA)
    assert (band["lower"].values < single[0]).all() and (band["upper"].values > single[1]).all()


def test_probability_in_top(open_answers):
    top = answers.probability_in_top(open_answers, 1)
    assert top["probability"].sum() == pytest.approx(1)
    # P(category d is the largest) by direct integration over its Gamma against those of the others.
    g = np.linspace(0, 120, 20_001)[1:]
    density = stats.gamma.pdf(g, ALPHA[3]) * stats.gamma.cdf(g[:, None], ALPHA[:3]).prod(axis=1)
    expected = np.trapezoid(density, g)
    assert abs(top["probability"].values[3] - expected) < 4 * top["mcse"].values[3] + 1e-4


def test_contrast_of_categories(open_answers):
    delta = answers.contrast(open_answers, "d", ["a", "b"])
    total = ALPHA.sum()
    mean = (ALPHA[3] - ALPHA[0] - ALPHA[1]) / total
    weights = np.array([-1, -1, 0, 1])
    covariance = (np.diag(ALPHA / total) - np.outer(ALPHA, ALPHA) / total**2) / (total + 1)
    assert abs(float(delta["mean"]) - mean) < 4 * float(delta["mcse"])
    assert float(delta["sd"]) == pytest.approx(np.sqrt(weights @ covariance @ weights), rel=0.03)
    assert 0.9 < float(delta["probability_positive"]) < 1


def test_contrast_of_a_collection_with_itself_is_centred(open_answers):
    shuffled = open_answers.copy(deep=True)
    values = shuffled["posterior"]["distribution"].values
    shuffled["posterior"]["distribution"].values[:] = values[::-1]
    delta = answers.contrast(open_answers, "d", "d", other=shuffled)
    assert abs(float(delta["mean"])) < 1e-12
    assert abs(float(delta["probability_positive"]) - 0.5) < 0.02


def test_contrast_of_fits_from_one_seed():
    """One seed gives both fits the same random numbers; the difference must still vary as that of independent posteriors."""
    bits = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    tallies = [Tally(UnaryEncoding.optimised(3, 1.0), bits, counts) for counts in ([60, 40, 30, 20], [50, 45, 35, 20])]
    first, second = (Collection(list("abc"), [tally]) for tally in tallies)
    trees = [fit(c, method="quadrature", draws=n, random_seed=1) for c, n in ((first, 1000), (second, 400))]
    for x in "abc":
        one, other = (tree["summary"].sel(target="distribution", category=x) for tree in trees)
        delta = answers.contrast(trees[0], x, x, other=trees[1])
        assert float(delta["sd"]) == pytest.approx(np.hypot(one["sd"], other["sd"]).item(), rel=0.06)
        assert abs(float(delta["mean"] - one["mean"] + other["mean"])) < 4 * float(delta["mcse"])


def test_errors_of_weighted_draws_count_effective_draws(open_answers):
    weighted = open_answers.copy()
    weighted.attrs["effective_draws"] = 5000.0
    plain, worse = (answers.category_sum(tree, "d")["mcse"] for tree in (open_answers, weighted))
    assert float(worse) == pytest.approx(2 * float(plain))
    paired = answers.contrast(open_answers, "d", "d", other=weighted)
    assert float(paired["mcse"]) == pytest.approx(np.hypot(plain, worse).item())


def test_entropy_mean(open_answers):
    found = answers.entropy(open_answers)
    total = ALPHA.sum()
    expected = special.digamma(total + 1) - (ALPHA / total * special.digamma(ALPHA + 1)).sum()
    assert abs(float(found["mean"]) - expected) < 4 * float(found["mcse"])


def test_parts_of_the_interval():
    """Without privacy all the width is sampling; at small epsilon nearly all of it is privacy."""
    direct = fit(Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [70, 30])]), random_seed=1)
    assert answers.interval_parts(direct)["privacy_share"].max() < 1e-6
    noisy = fit(Collection(["no", "yes"], [Tally(designs.warner(0.55), [0, 1], [500, 500])]), random_seed=1)
    parts = answers.interval_parts(noisy)
    assert parts["privacy_share"].min() > 0.95
    assert np.allclose(parts["sampling_sd"] ** 2 + parts["privacy_sd"] ** 2, parts["sd"] ** 2)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda t: answers.probability_in_top(t, 0), "k must be an integer >= 1"),
        (lambda t: answers.category_sum(t, ["a", "z"]), "got 'z'"),
        (lambda t: answers.category_sum(t, []), "got none"),
        (lambda t: answers.entropy(t, target="tallies"), "target must be one of"),
        (lambda t: answers.simultaneous_intervals(t, ci_prob=1.0), "ci_prob must be"),
    ],
)
def test_bad_questions(open_answers, call, words):
    with pytest.raises(ArgumentError, match=words):
        call(open_answers)


def test_worth_of_the_reports():
    """Open answers are worth themselves; a Warner survey is worth n times the share that the oracle's variance says."""
    direct = Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [700, 300])])
    assert fit(direct, random_seed=1).attrs["effective_open_answers"] == pytest.approx(1000, rel=0.01)
    warner = Collection(["no", "yes"], [Tally(designs.warner(0.75), [0, 1], [5000, 5000])])
    tree = fit(warner, random_seed=1)
    assert tree.attrs["effective_open_answers"] == pytest.approx(10_000 * 0.25 / (0.25 / 0.5**2), rel=0.01)
    assert tree.attrs["bound_sd"] == pytest.approx(np.sqrt(2 / 2**2 / 10_000), rel=1e-6)
    assert tree.attrs["total_sd"] > tree.attrs["bound_sd"]
    assert "10,000 reports tell about P what 2,5" in tree.attrs["worth"] or "what 2,4" in tree.attrs["worth"]


@pytest.mark.parametrize("alpha", [0.5, 100.0])
def test_worth_does_not_count_the_prior(alpha):
    """Open answers are worth exactly themselves, and reports at a tiny epsilon nothing, whatever the prior."""
    direct = Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [70, 30])])
    assert fit(direct, alpha, random_seed=1).attrs["effective_open_answers"] == pytest.approx(100, rel=1e-6)
    noise = Collection(["no", "yes"], [Tally(designs.warner(0.5025), [0, 1], [50, 50])])
    assert fit(noise, alpha, random_seed=1).attrs["effective_open_answers"] < 0.1


def test_worth_says_where_the_prior_outweighs_the_reports():
    few = Collection([f"c{x}" for x in range(50)], [Tally(GRR(50, epsilon=0.5), np.arange(50), np.full(50, 4))])
    assert "The prior weighs 25 answers" in fit(few, random_seed=1).attrs["worth"]
    many = Collection(["no", "yes"], [Tally(designs.warner(0.75), [0, 1], [5000, 5000])])
    assert "The prior weighs" not in fit(many, random_seed=1).attrs["worth"]
