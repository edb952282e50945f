"""Confidence intervals contain every share at least as often as they say: by summing over all counts, not by simulation."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, chi2

from ldpbayes import GRR, Collection, Tally, fit
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.confidence import (
    SUMMED_VARIANCE,
    _at_least,
    confidence_intervals,
    distribution_interval,
    frequency_interval,
    likelihood_intervals,
)
from ldpbayes.protocols import designs
from ldpbayes.protocols.base import Binomials
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

MAKERS = {
    "grr": GRR,
    "oue": UnaryEncoding.optimized,
    "subset": SubsetSelection,
    "olh": LocalHashing,
    "hadamard": HadamardResponse,
}


def rates(name, a, epsilon):
    """Return (g, h) of a protocol; forced response answers truthfully as often as GRR of that level would."""
    if name == "forced response":
        design = designs.forced_response(1 - a / (np.expm1(epsilon) + a), [1] * a)
        form = design.binomials(np.arange(a), np.ones(a, dtype=int))
        return float(form.hit[0]), float(form.other[0])
    return MAKERS[name](a, epsilon).hit_rates


def every_count(n, g, h):
    return Binomials(np.arange(n + 1.0), np.full(n + 1, g), np.full(n + 1, h), n)


def two_binomials(t, n, g, h):
    """Return the chances of 0 … n supports where t users have the category."""
    return np.convolve(binom.pmf(np.arange(t + 1), t, g), binom.pmf(np.arange(n - t + 1), n - t, h))


def least_coverage(name, a, epsilon, n, shares, numbers):
    """Return the least probability, over shares of P and over numbers of users, that an interval contains the truth."""
    g, h = rates(name, a, epsilon)
    form = every_count(n, g, h)
    low, high = distribution_interval(form, 0.95)
    # No report that supports x excludes, by the likelihood ratio, what is above this: no interval ends nearer to zero.
    least = min(-np.expm1(-chi2.ppf(0.95, 1) / (2 * n)) * (1 - h) / (g - h), 1.0)
    assert (high >= least * (1 - 1e-9)).all()
    of_p = min(binom.pmf(form.counts, n, h + (g - h) * p)[(low <= p) & (p <= high)].sum() for p in shares)
    assert (high > 0).all() and (low < 1).all() and (low <= high).all()
    low, high = frequency_interval(form, 0.95)
    assert (high >= least * (1 - 1e-9)).all() and (low < 1).all() and (low <= high).all()
    held = [two_binomials(t, n, g, h)[(low * n <= t + 1e-6) & (t - 1e-6 <= high * n)].sum() for t in numbers]
    return of_p, min(held)


@pytest.mark.parametrize("name", [*MAKERS, "forced response"])
def test_intervals_cover_every_share(name):
    shares, numbers = np.concatenate([[0, 1e-3, 0.01], np.linspace(0.03, 1, 12)]), [0, 1, 7, 60, 399, 400]
    for a, epsilon in ((2, 1.0), (20, 0.5), (200, 3.0)):
        of_p, of_f = least_coverage(name, a, epsilon, 400, shares, numbers)
        assert of_p >= 0.95 - 1e-9 and of_f >= 0.95 - 1e-4


@pytest.mark.calibrate
@pytest.mark.parametrize("name", [*MAKERS, "forced response"])
@pytest.mark.parametrize("a", [2, 20, 200])
def test_intervals_cover_every_share_in_all_settings(name, a):
    """At ε = ½, 1 and 3 and 50, 1,000 and 10,000 users; Zipf and uniform shares, the ends and forty between."""
    zipf = 1 / np.arange(1, a + 1) / (1 / np.arange(1, a + 1)).sum()
    shares = np.unique(np.concatenate([[0, 1], zipf, [1 / a], np.linspace(0, 1, 41)]))
    for epsilon in (0.5, 1.0, 3.0):
        for n in (50, 1000, 10_000):
            numbers = np.unique(np.concatenate([[0, 1, 2, n], np.linspace(0, n, 16).astype(int)]))
            of_p, of_f = least_coverage(name, a, epsilon, n, shares, numbers)
            assert of_p >= 0.95 - 1e-9 and of_f >= 0.95 - 1e-4


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*MAKERS, "forced response"])
def test_coverage_of_simulated_collections(name):
    """The counts of simulated reports have the law that the intervals assume: 100 collections of 12 categories."""
    p = 1 / np.arange(1, 13) / (1 / np.arange(1, 13)).sum()
    protocol = designs.forced_response(0.4, np.arange(1, 13)) if name == "forced response" else MAKERS[name](12, 1.0)
    rng, forms, truths = np.random.default_rng(3), [], []
    for _ in range(100):
        counts = rng.multinomial(400, p)
        tally = Tally(protocol, *protocol.simulate(counts, rng))
        forms.append(protocol.binomials(tally.reports, tally.counts))
        truths.append(np.stack([p, counts / 400]))
    parts = (np.concatenate([getattr(form, name) for form in forms]) for name in ("counts", "hit", "other"))
    every, truth = Binomials(*parts, 400), np.concatenate(truths, axis=1)
    for ends, value in zip((distribution_interval(every, 0.95), frequency_interval(every, 0.95)), truth, strict=True):
        covered = ((ends[0] <= value + 1e-12) & (value - 1e-12 <= ends[1])).reshape(100, 12).sum(axis=0)
        # Of 24 shares the worst is above what 100 tosses of 0.95 fall below once in a million.
        assert covered.min() >= binom.ppf(1e-6, 100, 0.95) and covered.mean() >= 0.94 * 100


def test_known_ends():
    """Clopper and Pearson's interval of 7 in 20, and the likelihood ratio where fewer came in than noise alone gives."""
    direct_answers = Tally(designs.direct(2), [0, 1], [13, 7])
    found = confidence_intervals([direct_answers])[0]
    assert found.lower[0][1] == pytest.approx(0.1539, abs=1e-4) and found.upper[0][1] == pytest.approx(0.5922, abs=1e-4)
    assert found.lower[1].tolist() == found.upper[1].tolist() == [0.65, 0.35]  # F is seen
    few = confidence_intervals([Tally(GRR(4, 1.0), [0, 1, 2, 3], [700, 250, 50, 0])])[0]
    g, h = GRR(4, 1.0).hit_rates

    def fall(p):
        q = h + (g - h) * p
        return 2 * (1000 * np.log1p(-h) - 1000 * np.log1p(-q)) - chi2.ppf(0.95, 1)

    assert few.upper[0][3] == pytest.approx(brentq(fall, 0, 1), rel=1e-6)
    assert few.lower[0][3] == 0 and few.upper[1][3] > 0


@pytest.mark.parametrize(("n", "a", "epsilon"), [(1, 3, 1.0), (1, 3, 0.5), (2, 2, 0.2)])
def test_no_interval_leaves_what_is_possible(n, a, epsilon):
    for x in range(a):
        (found,) = confidence_intervals([Tally(GRR(a, epsilon), np.arange(a), n * (np.arange(a) == x))])
        assert (found.lower >= 0).all()
        assert (found.upper <= 1).all()


@pytest.mark.parametrize("g, h", [(0.6, 0.2), (0.5, 0.01), (1.0, 0.3), (0.4, 0.0), (0.99, 0.001)])
def test_tails_of_two_binomials(g, h):
    """Against the convolution: exact where the variance is small, elsewhere within half a per cent where it matters."""
    n, form = 400, every_count(400, g, h)
    for t in (0, 1, 20, 200, 400):
        tail = two_binomials(t, n, g, h)[::-1].cumsum()[::-1]
        found = _at_least(form.counts, np.full(n + 1, float(t)), form)
        near = (tail > 0.005) & (tail < 0.1)
        small = t * g * (1 - g) + (n - t) * h * (1 - h) < SUMMED_VARIANCE
        np.testing.assert_allclose(found[near], tail[near], rtol=1e-9 if small else 5e-3)


def test_profile_likelihood_of_two_channels():
    """Two categories, two crosswise questions: the ends are where the log-likelihood is 1.92 below its maximum."""
    tallies = [Tally(designs.warner(q), [0, 1], c, name=f"{q}") for q, c in ((0.2, [700, 300]), (0.8, [290, 710]))]
    collection = Collection(["no", "yes"], tallies)
    found = confidence_intervals([collection])[0]
    assert found.method == "profile likelihood" and found.form is None and np.isnan(found.lower[1]).all()
    ends = np.array([1 - found.lower[0][1], found.lower[0][1]]), np.array([1 - found.upper[0][1], found.upper[0][1]])
    best = max(float(collection.rows.log_likelihood(np.array([1 - p, p]))) for p in np.linspace(0.5, 0.999, 500))
    for end in ends:
        assert float(collection.rows.log_likelihood(end)) == pytest.approx(best - 1.9207, abs=0.01)


def test_profile_likelihood_agrees_with_the_exact_interval_for_many_reports():
    """And its expansion to second order agrees with both, at shares of zero too."""
    tally = Tally(GRR(4, 1.0), [0, 1, 2, 3], [32_510, 26_500, 23_500, 17_490])
    exact = confidence_intervals([tally])[0]
    found = likelihood_intervals(tally.rows, 0.95)
    lower, upper, method = found.lower[0], found.upper[0], found.method
    assert method == "profile likelihood"
    np.testing.assert_allclose(lower, exact.lower[0], atol=3e-3)
    np.testing.assert_allclose(upper, exact.upper[0], atol=3e-3)
    cohorts = CohortRR(12, 2.0, buckets=4, cohorts=16)
    p = np.append(np.full(6, 1 / 6), np.zeros(6))
    reports, counts = cohorts.simulate(np.random.default_rng(0).multinomial(20_000, p), np.random.default_rng(1))
    found = confidence_intervals([Tally(cohorts, reports, counts)])[0]
    assert found.method == "profile likelihood, second order" and (found.upper[0] > 0).all()
    assert ((found.lower[0] <= p) & (p <= found.upper[0])).sum() >= 11


def test_unidentified_shares_have_no_bounds():
    twins = Collection(list("abc"), [Tally(designs.stochastic_lie_detector(0.3), [0, 1], [40, 60])])
    found = confidence_intervals([twins])[0]
    assert (found.upper[0] - found.lower[0] > 0.3).all()


def test_bad_probability():
    with pytest.raises(ArgumentError, match="ci_prob must"):
        confidence_intervals([Tally(GRR(2, 1.0), [0, 1])], 1.0)[0]


def zipf_fit(a, n, epsilon, prior="jeffreys"):
    p = 1 / np.arange(1, a + 1) / (1 / np.arange(1, a + 1)).sum()
    protocol, rng = GRR(a, epsilon), np.random.default_rng(3)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
    return fit(tally, prior, random_seed=1)


@pytest.mark.parametrize(
    "epsilon, decides", [pytest.param(1.0, True, marks=pytest.mark.calibrate), (2.0, True), (4.0, False)]
)
def test_the_prior_decides_where_reports_are_weak(epsilon, decides):
    tree = zipf_fit(205, 10_000, epsilon)
    assert tree.attrs["prior_decides"] == decides and bool(tree.attrs["decides"]) == decides
    if decides:
        assert tree.attrs["decides"].startswith("Here the prior decides: ") and "it would not." in tree.attrs["decides"]


@pytest.mark.calibrate
def test_a_prior_that_does_not_fit_the_population_is_said_to_decide():
    tree = zipf_fit(205, 10_000, 3.0)
    assert "learnt prior" in tree.attrs["decides"]


def test_the_advice_would_do():
    """As many reports as the sentence asks for, or the ε that it names: the prior alone does not decide."""
    few = zipf_fit(40, 300, 1.0)
    words = few.attrs["decides"].split()
    users = int(words[words.index("about") + 1].replace(",", ""))
    epsilon = float(words[words.index("=") + 1])
    assert zipf_fit(40, users, 1.0).attrs["decided_by"] != "prior"
    assert zipf_fit(40, 300, epsilon).attrs["decided_by"] != "prior"


@pytest.mark.calibrate
def test_credible_intervals_cover_what_the_prior_draws():
    """P from the prior: .946 of all categories of 250 collections, .944 of the five with the largest fitted means."""
    protocol, rng = GRR(20, 1.0), np.random.default_rng(1)
    held, largest = [], []
    for seed in range(250):
        p = rng.dirichlet(np.full(20, 0.5))
        tally = Tally(protocol, *protocol.simulate(rng.multinomial(2000, p), rng))
        tree = fit(tally, "jeffreys", method="exact", random_seed=seed, estimates=False, draws=50)
        found = tree["summary"].sel(target="distribution")
        covered = (found["lower"].values <= p) & (p <= found["upper"].values)
        held.append(covered)
        largest.append(covered[np.argsort(-found["mean"].values)[:5]])
    assert 0.93 <= np.mean(held) <= 0.97 and 0.93 <= np.mean(largest) <= 0.97
