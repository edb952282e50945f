"""The coverage study: exact sums for binary designs, and the vectorized intervals against those that fits state."""

import dataclasses
import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.special import betaincinv, expit
from scipy.stats import binom

import ldpbayes as lb
from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.methods.exact import Exact
from ldpbayes.protocols.base import Binomials
from ldpbayes.protocols.designs import crosswise, warner
from ldpbayes.protocols.grr import GRR
from studies import binary, coverage, evaluate
from studies.catalogue import STUDIES
from studies.plotting import plot_study
from studies.runner import run_study

CREDIBLE = ("jeffreys", "jeffreys_hdi", "flat", "flat_hdi", "learnt", "learnt_hdi")
METHODS = (*CREDIBLE, "confidence", "wilson", "wald", "bootstrap")
FEW = ("jeffreys", "flat", "learnt", "confidence", "wald", "bootstrap")
DESIGNS = [(name, epsilon) for name in binary.DESIGNS for epsilon in (0.5, 3.0)]


def posteriors(design, epsilon, n, prior, counts=None):
    hit, other = coverage.rates_of(design, epsilon)
    counts = np.arange(n + 1) if counts is None else counts
    return binary.Posteriors(binary.prior_of(prior), counts, n, hit, other), counts, hit, other


# ---- binary designs ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("design", binary.DESIGNS)
def test_designs_have_the_privacy_level_that_they_are_named_by(design):
    for epsilon in (0.5, 1.0, 3.0):
        assert binary.DESIGNS[design](epsilon).epsilon == pytest.approx(epsilon, abs=1e-12)


def test_warner_stands_for_the_crosswise_model_and_for_grr():
    for epsilon in (0.5, 2.0):
        p = 1 / (1 + np.exp(-epsilon))
        np.testing.assert_allclose(warner(p).matrix, crosswise(p).matrix)
        np.testing.assert_allclose(warner(p).matrix, GRR(2, epsilon).channel())


@pytest.mark.parametrize("design, epsilon", [("warner", 0.5), ("forced_response", 1.0), ("unrelated_question", 3.0)])
def test_quantiles_are_those_of_the_exact_posterior(design, epsilon):
    """All counts at once on a grid, against the package's posterior of one collection at a time."""
    protocol, n = binary.DESIGNS[design](epsilon), 60
    for prior in ("jeffreys", "flat"):
        found, *_ = posteriors(design, epsilon, n, prior, np.array([7, 31]))
        lower, upper = found.equal_tailed()
        for i, count in enumerate((7, 31)):
            exact = Exact().moments(Collection(["no", "yes"], [Tally(protocol, [0, 1], [n - count, count])]), prior)
            ends = np.array(exact.interval())[:, 1]
            np.testing.assert_allclose([lower[i], upper[i]], ends, rtol=1e-5, atol=1e-8)


def test_the_learnt_prior_of_a_share_is_a_mixture():
    """P(p < quantile | C) by midpoints: over α, and over the probability that the prior given α leaves below p."""
    n, count = 80, 30
    found, _, hit, other = posteriors("unrelated_question", 1.0, n, "learnt", np.array([count]))
    t = np.linspace(-5, 5, 61)[:, None]
    alpha = 0.5 * np.exp(t)
    p = betaincinv(alpha, alpha, (np.arange(1500) + 0.5) / 1500)
    weight = np.exp(-0.5 * t**2) * binom.pmf(count, n, other + (hit - other) * p)
    for level in (0.025, 0.3, 0.975):
        assert weight[p < found.quantile(level)[0]].sum() / weight.sum() == pytest.approx(level, abs=2e-3)


def test_shortest_intervals_have_their_probability_and_are_shortest():
    found, *_ = posteriors("warner", 1.0, 40, "jeffreys")
    lower, upper = found.shortest()
    even = found.equal_tailed()
    assert (upper - lower <= even[1] - even[0] + 1e-9).all()
    for shift in np.linspace(0, 0.05, 101):
        assert (upper - lower <= found.quantile(shift + 0.95) - found.quantile(shift) + 1e-7).all()
    # The probability between the ends, by a plain sum over a fine grid.
    angle = (np.arange(200_000) + 0.5) * np.pi / 400_000
    p = np.sin(angle) ** 2  # under Jeffreys' prior the angle is uniform
    hit, other = coverage.rates_of("warner", 1.0)
    for count in (2, 11, 25):
        weight = binom.pmf(count, 40, other + (hit - other) * p)
        inside = (p >= lower[count]) & (p <= upper[count])
        assert weight[inside].sum() / weight.sum() == pytest.approx(0.95, abs=2e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prior", binary.PRIORS)
@pytest.mark.parametrize("design, n", [("warner", 50), ("forced_response", 30), ("unrelated_question", 300)])
def test_credible_intervals_cover_exactly_on_average_over_their_prior(design, n, prior):
    """∫ coverage(p) π(p) dp = 0.95 for every set of posterior probability 0.95: a theorem, here by direct sums."""
    found, counts, hit, other = posteriors(design, 1.0, n, prior)
    law, y = binary.prior_of(prior), np.linspace(-33.9, 33.9, 6001)
    weight = np.exp(law.log_density(y))
    # Even in logit p, and the rest at 0 and 1: small concentrations have a hundredth of their mass there.
    rest = law.below(expit(y[0]))
    p, weight = np.r_[0, expit(y), 1], np.r_[rest, weight * (1 - 2 * rest) / weight.sum(), rest]
    for lower, upper in (found.equal_tailed(), found.shortest()):
        held, _ = binary.expected(lower, upper, counts, n, hit, other, p)
        assert weight @ held == pytest.approx(0.95, abs=5e-4)


@pytest.mark.parametrize("design, epsilon", DESIGNS)
@pytest.mark.parametrize("n", [50, 300])
def test_exact_confidence_intervals_cover_everywhere(design, epsilon, n):
    hit, other = coverage.rates_of(design, epsilon)
    counts = np.arange(n + 1)
    form = Binomials(counts.astype(float), np.full(n + 1, hit), np.full(n + 1, other), n)
    p = np.concatenate([[0, 1], np.linspace(1e-4, 1 - 1e-4, 700)])
    held, width = binary.expected(*coverage.distribution_interval(form, 0.95), counts, n, hit, other, p)
    assert held.min() >= 0.95
    assert (width <= 1).all()


@pytest.mark.calibrate
@pytest.mark.parametrize("n", [100, 1_000, 10_000])
@pytest.mark.parametrize("design", binary.DESIGNS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0])
def test_exact_confidence_intervals_cover_everywhere_on_the_whole_grid(design, epsilon, n):
    hit, other = coverage.rates_of(design, epsilon)
    counts = binary.likely_counts(n, other, hit)
    form = Binomials(counts, np.full(counts.size, hit), np.full(counts.size, other), n)
    p, _ = coverage.sweep()
    held, _ = binary.expected(*coverage.distribution_interval(form, 0.95), counts, n, hit, other, p)
    assert held.min() >= 0.95


def test_intervals_without_a_prior_have_their_formulas():
    """Wald against the package's oracle; Wilson as the roots of its quadratic equation; the bootstrap by simulation."""
    design, epsilon, n, count = "forced_response", 1.0, 200, 116.0
    protocol = binary.DESIGNS[design](epsilon)
    hit, other = coverage.rates_of(design, epsilon)
    form = Binomials(np.array([count]), np.array([hit]), np.array([other]), n)
    oracle = Oracle()(Tally(protocol, [0, 1], [n - int(count), int(count)]))
    reach = 1.959963984540054 * oracle.standard_error[1]
    np.testing.assert_allclose(np.ravel(binary.wald(form)), oracle.distribution[1] + np.array([-reach, reach]), rtol=1e-9)
    for end in binary.wilson(form):
        rate = other + (hit - other) * end[0]
        assert (count / n - rate) ** 2 == pytest.approx(1.959963984540054**2 * rate * (1 - rate) / n)
    confident = confidence_intervals([Tally(protocol, [0, 1], [n - int(count), int(count)])])[0]
    np.testing.assert_allclose(
        np.ravel(coverage.distribution_interval(form, 0.95)), [confident.lower[0, 1], confident.upper[0, 1]]
    )
    again = np.random.default_rng(1).binomial(n, other + (hit - other) * oracle.distribution[1], 200_000)
    ends = np.quantile(np.clip((again / n - other) / (hit - other), 0, 1), coverage.TAILS)
    np.testing.assert_allclose(np.ravel(binary.bootstrap(form)), ends, atol=1e-9)


def test_expected_coverage_is_that_of_simulated_answers():
    hit, other = coverage.rates_of("warner", 2.0)
    counts = np.arange(101)
    lower, upper = binary.all_intervals(counts, 100, hit, other)["jeffreys"]
    (held,), (width,) = binary.expected(lower, upper, counts, 100, hit, other, [0.07])
    drawn = np.random.default_rng(2).binomial(100, other + (hit - other) * 0.07, 100_000)
    inside = (lower[drawn] <= 0.07) & (0.07 <= upper[drawn])
    assert abs(inside.mean() - held) < 4 * np.sqrt(held * (1 - held) / drawn.size)
    assert (upper - lower)[drawn].mean() == pytest.approx(width, rel=0.01)


# ---- several categories --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def replications():
    rng, protocol = np.random.default_rng(4), GRR(6, 1.5)
    hit, other = protocol.hit_rates
    p = coverage.shares_of("spiked", 6)
    return protocol, rng.multinomial(2_000, other + (hit - other) * p, size=3).astype(float), hit, other


@pytest.mark.calibrate
def test_intervals_of_all_replications_are_those_of_fits(replications):
    """Jeffreys', the flat and the learnt prior, all replications at once, against fits without draws."""
    protocol, counts, hit, other = replications
    found = coverage.grr_intervals(counts, hit, other)
    for name, tolerance in (("jeffreys", 1e-6), ("flat", 1e-6), ("learnt", 3e-3)):
        for i in range(1 if name == "learnt" else 2):
            collection = Collection(evaluate.labels(6), Tally(protocol, np.arange(6), counts[i].astype(int)))
            summary = lb.fit(collection, name, draws=0, estimates=False)["summary"].sel(target="distribution")
            for end, key in zip(found[name], ("lower", "upper"), strict=True):
                np.testing.assert_allclose(end[i], summary[key].values, atol=tolerance)


def test_shortest_intervals_of_several_categories(replications):
    _, counts, hit, other = replications
    found = coverage.grr_intervals(counts, hit, other)
    for name in ("jeffreys", "flat"):
        even, short = found[name], found[f"{name}_hdi"]
        assert (short[1] - short[0] <= even[1] - even[0] + 1e-9).all()
    assert (found["jeffreys_hdi"][0] == 0).any()  # a share that may be none


def test_closed_mle_of_grr(replications):
    protocol, counts, hit, other = replications
    counts = np.concatenate([counts, [[1990, 2, 2, 2, 2, 2]], [[400, 400, 400, 400, 399, 1]]])
    for row, found in zip(counts, coverage.grr_mle(counts, hit, other), strict=True):
        tally = Tally(protocol, np.arange(6), row.astype(int))
        np.testing.assert_allclose(found, MLE(tolerance=1e-10)(tally).distribution, atol=1e-6)


@pytest.mark.parametrize("protocol", ["grr", "oue"])
def test_a_cell_of_several_categories(protocol):
    cell = {"protocol": protocol, "n_categories": 4, "epsilon": 3.0, "n_reports": 500, "population": "spiked"}
    lines = coverage.simulate_coverage(cell | {"replications": 2}, np.random.default_rng(5))
    held = {(line["estimator"], line["metric"]): line["value"] for line in lines}
    methods = {"jeffreys", "jeffreys_hdi", "flat", "flat_hdi", "learnt", "confidence", "wilson", "wald"}
    methods |= {"bootstrap"} if protocol == "grr" else set()
    assert {name for name, _ in held} == methods
    for name in methods:
        assert 0 <= held[name, "coverage_least"] <= held[name, "coverage"] <= 1
        assert 0 < held[name, "width"] <= held[name, "width_largest"] * 1.5
    assert held["jeffreys", "coverage_empty"] == 0  # an equal-tailed interval never holds 0


def test_coverage_is_drawn_on_a_linear_axis():
    study = STUDIES["coverage"]
    one = dataclasses.replace(study, cells=lambda setting: study.cells("small")[:1])
    (axes,) = plot_study(run_study(one), study.x, study.lines, study.panels).axes
    assert axes.get_yscale() == "linear" and axes.get_ylabel() == "coverage"


def test_populations():
    for name in ("even", "zipf", "spiked"):
        for a in (5, 20, 100):
            p = coverage.shares_of(name, a)
            assert p.sum() == pytest.approx(1) and p.size == a
    assert coverage.shares_of("spiked", 20)[0] == 0.5 and (coverage.shares_of("spiked", 20) == 0).sum() == 5


def test_binary_cells_are_exact():
    cell = {"protocol": "warner", "n_categories": 2, "epsilon": 1.0, "n_reports": 100}
    lines = coverage.simulate_coverage(cell, np.random.default_rng(0))
    assert lines == coverage.simulate_coverage(cell, np.random.default_rng(1))
    mean = {
        line["estimator"]: line["value"] for line in lines if (line["population"], line["metric"]) == ("uniform", "coverage")
    }
    assert mean["flat"] == pytest.approx(0.95, abs=1e-3) and mean["flat_hdi"] == pytest.approx(0.95, abs=1e-3)
    assert mean["confidence"] >= 0.95
    assert {line["metric"] for line in lines} == {"coverage", "width", "coverage_least"}
    assert len(STUDIES["coverage"].cells("paper")) == 132


# ---- what is stored ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def stored():
    path = pathlib.Path(__file__).parents[1] / "docs" / "studies" / "coverage.parquet"
    return pq.read_table(path).to_pylist()


def values(stored, **wanted):
    return [line["value"] for line in stored if all(line[key] == value for key, value in wanted.items())]


def test_the_page_recommends_what_the_stored_results_say(stored):
    assert len({(line["protocol"], line["n_categories"], line["epsilon"], line["n_reports"]) for line in stored}) >= 60
    least = {name: min(values(stored, estimator=name, metric="coverage_least", n_categories=2)) for name in METHODS}
    assert least["confidence"] >= 0.95
    assert least["jeffreys"] >= 0.915 and least["jeffreys"] == max(least[name] for name in CREDIBLE)
    assert least["flat"] < 0.3 and least["jeffreys_hdi"] < 0.83 and least["wald"] < 0.87
    for name in ("flat", "flat_hdi"):
        mean = values(stored, estimator=name, metric="coverage", population="uniform")
        np.testing.assert_allclose(mean, 0.95, atol=1e-3)
    spiked = {"protocol": "grr", "n_categories": 100, "n_reports": 10_000, "epsilon": 1.0, "population": "spiked"}
    largest = {name: values(stored, estimator=name, metric="coverage_largest", **spiked)[0] for name in FEW}
    assert largest["jeffreys"] < 0.1 and largest["flat"] < 0.1 and largest["bootstrap"] < 0.4
    assert largest["confidence"] > 0.9 and largest["learnt"] > 0.8


def test_a_stored_cell_can_be_had_again(stored):
    cell = {"protocol": "forced_response", "n_categories": 2, "epsilon": 2.0, "n_reports": 100}
    kept = [line for line in stored if all(line[key] == value for key, value in cell.items())]
    again = coverage.simulate_coverage(cell, np.random.default_rng(0))
    assert len(kept) == len(again)
    for old, new in zip(kept, again, strict=True):
        assert (old["estimator"], old["metric"], old["population"]) == (new["estimator"], new["metric"], new["population"])
        assert old["value"] == pytest.approx(new["value"], abs=1e-6)
