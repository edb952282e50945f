import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from ldpbayes import fit
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.fitting import select_method
from ldpbayes.likelihoods import DenseRows
from ldpbayes.posteriors.merging import count_groups, merge
from ldpbayes.posteriors.tally_states import TallyStates, tally_law, tally_states
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Channel, UnaryEncoding
from ldpbayes.result.facts import facts_of


def collection(matrices, counts):
    tallies = [
        Tally(Channel(matrix), np.arange(len(matrix)), count, name=f"c{i}")
        for i, (matrix, count) in enumerate(zip(matrices, counts, strict=True))
    ]
    return Collection([f"x{i}" for i in range(tallies[0].protocol.n_categories)], tallies)


def random_channel(rng, b, a):
    matrix = rng.dirichlet(np.ones(b), size=a).T
    return matrix / matrix.sum(axis=0)


def enumerate_posterior(rows, alpha):
    """E[P], E[PP'], E[F], E[F²] and P(Y), over every vector of true values, in exact fractions."""
    alpha = [Fraction(float(x)) for x in alpha]
    total = sum(alpha)
    matrix = rows.dense()
    reports = [j for j, w in enumerate(rows.counts) for _ in range(int(w))]
    a, n = len(alpha), len(reports)
    cells = [[Fraction(float(q)) for q in row] for row in matrix]
    evidence, first, square = Fraction(0), [Fraction(0)] * a, [[Fraction(0)] * a for _ in range(a)]
    tally1, tally2 = [Fraction(0)] * a, [Fraction(0)] * a
    vectors = defaultdict(Fraction)  # what the vectors of true values with the same tally weigh together, before the prior
    for x in itertools.product(range(a), repeat=n):
        product = math.prod((cells[j][v] for j, v in zip(reports, x, strict=True)), start=Fraction(1))
        vectors[tuple(x.count(v) for v in range(a))] += product
    for t, weight in vectors.items():
        for v in range(a):
            weight *= math.prod((alpha[v] + k for k in range(t[v])), start=Fraction(1))
        weight /= math.prod((total + k for k in range(n)), start=Fraction(1))
        evidence += weight
        for v in range(a):
            first[v] += weight * (alpha[v] + t[v]) / (total + n)
            tally1[v] += weight * t[v]
            tally2[v] += weight * t[v] ** 2
            for u in range(a):
                product = (alpha[v] + t[v]) * (alpha[u] + t[u] + (u == v))
                square[v][u] += weight * product / ((total + n) * (total + n + 1))
    mean = [m / evidence for m in first]
    cov = [[float(square[v][u] / evidence - mean[v] * mean[u]) for u in range(a)] for v in range(a)]
    sd_f = [math.sqrt(s / evidence - (m / evidence) ** 2) / n for m, s in zip(tally1, tally2, strict=True)]
    return {
        "distribution_mean": np.array([float(m) for m in mean]),
        "distribution_cov": np.array(cov),
        "frequency_mean": np.array([float(m / evidence) / n for m in tally1]),
        "frequency_sd": np.array(sd_f),
        "log_evidence": math.log(evidence) + rows.log_constant,
    }


def small_collections():
    rng = np.random.default_rng(5)
    deficient = random_channel(rng, 2, 4)
    equal = random_channel(rng, 3, 4)[:, [0, 1, 1, 0]]
    return {
        "two categories": (collection([random_channel(rng, 2, 2)], [[4, 6]]), [0.5, 0.5]),
        "unequal prior": (collection([random_channel(rng, 3, 3)], [[2, 3, 2]]), [0.3, 1.7, 2.5]),
        "rank-deficient": (collection([deficient], [[4, 2]]), [0.5, 1.0, 2.0, 0.25]),
        "equal columns": (collection([equal], [[3, 1, 2]]), [0.5, 1.0, 0.5, 0.25]),
        "two channels": (collection([random_channel(rng, 2, 3), np.eye(3)], [[3, 3], [1, 0, 1]]), [0.5, 0.5, 0.5]),
        "GRR": (Collection(list("abcd"), [Tally(GRR(4, 1.3), [0, 1, 1, 2, 1, 0])]), [0.5] * 4),
    }


@pytest.mark.parametrize("name", small_collections())
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_moments_and_evidence_equal_enumeration(name):
    survey, alpha = small_collections()[name]
    tree = fit(survey, Dirichlet(alpha), TallyStates(draws=10), random_seed=1, estimates=False)
    for key, value in enumerate_posterior(survey.rows, alpha).items():
        np.testing.assert_allclose(tree["exact"][key].values, value, rtol=1e-10, atol=1e-13, err_msg=key)


def test_every_tally_once_in_the_order_of_the_recurrence():
    states = tally_states(5, 4)
    assert len({tuple(t) for t in states}) == math.comb(8, 3) == len(states)
    assert (states.sum(axis=1) == 5).all() and (states >= 0).all()
    sums = np.cumsum(states, axis=1)
    position = sum(special.comb(sums[:, k - 1] + k - 1, k) for k in range(1, 4))
    np.testing.assert_array_equal(position, np.arange(len(states)))


def test_law_of_the_tallies_when_reports_are_the_values():
    survey = collection([np.eye(3)], [[2, 0, 5]])
    states, probability, log_evidence = tally_law(merge(survey.rows, Dirichlet.jeffreys(3)))
    assert probability[(states == [2, 0, 5]).all(axis=1)] == 1
    # Pólya's urn: categories never seen share what is left.
    expected = special.betaln(2.5, 6.0) - special.betaln(0.5, 1.0) + special.betaln(0.5, 5.5) - special.betaln(0.5, 0.5)
    assert log_evidence == pytest.approx(expected, rel=1e-12)


def test_direct_questions_give_the_beta_posterior():
    tree = fit(
        collection([np.eye(2)], [[7, 3]]), Dirichlet([0.5, 1.5]), TallyStates(), random_seed=3, ci_prob=0.9, estimates=False
    )
    beta = stats.beta([7.5, 4.5], [4.5, 7.5])
    exact = tree["exact"]
    np.testing.assert_allclose(exact["distribution_mean"], beta.mean(), rtol=1e-13)
    np.testing.assert_allclose(exact["distribution_sd"], beta.std(), rtol=1e-12)
    np.testing.assert_allclose(exact["distribution_lower"], beta.ppf(0.05), rtol=1e-10)
    np.testing.assert_allclose(exact["distribution_upper"], beta.ppf(0.95), rtol=1e-10)
    np.testing.assert_allclose(exact["frequency_lower"], [0.7, 0.3])
    np.testing.assert_allclose(exact["frequency_upper"], [0.7, 0.3])


def test_many_reports_at_two_categories_against_a_fine_grid():
    survey = collection([[[0.7, 0.3], [0.3, 0.7]]], [[1800, 1200]])
    exact = fit(survey, Dirichlet.flat(2), TallyStates(draws=10), random_seed=1, estimates=False)["exact"]
    p = (np.arange(200_000) + 0.5) / 200_000
    log_density = 1800 * np.log(0.3 + 0.4 * p) + 1200 * np.log(0.7 - 0.4 * p)
    density = np.exp(log_density - log_density.max())
    mean = p @ density / density.sum()
    assert exact["distribution_mean"].values[0] == pytest.approx(mean, rel=1e-9)
    assert exact["distribution_sd"].values[0] == pytest.approx(np.sqrt((p - mean) ** 2 @ density / density.sum()), rel=1e-8)
    assert exact["log_evidence"] == pytest.approx(log_density.max() + np.log(density.mean()), abs=1e-8)
    cdf = np.cumsum(density) / density.sum()
    assert exact["distribution_lower"].values[0] == pytest.approx(np.interp(0.025, cdf, p), abs=1e-5)
    assert exact["distribution_upper"].values[0] == pytest.approx(np.interp(0.975, cdf, p), abs=1e-5)


def test_groups_are_counted_without_writing_rows_out():
    rows = DenseRows(np.array([[1, 2, 1, 2, 3], [5, 1, 5, 2, 1.0]]), [3, 4])
    assert count_groups(rows) == merge(rows, Dirichlet.flat(5)).n_groups == 4
    survey, _ = small_collections()["GRR"]
    assert count_groups(survey.rows) == merge(survey.rows, Dirichlet.flat(4)).n_groups == 4


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_merging_leaves_the_posterior_alone():
    rng = np.random.default_rng(8)
    matrix = random_channel(rng, 3, 3)[:, [0, 1, 0, 2]]
    alpha = np.array([0.5, 1.0, 2.0, 0.7])
    nudged = matrix * (1 + 1e-13 * rng.random(matrix.shape))  # the same posterior, without equal columns
    nudged /= nudged.sum(axis=0)
    one, four = (
        fit(collection([m], [[4, 5, 3]]), Dirichlet(alpha), TallyStates(), random_seed=1, estimates=False)
        for m in (matrix, nudged)
    )
    assert (facts_of(one)["n_groups"], facts_of(four)["n_groups"]) == (3, 4)
    for key in one["exact"].data_vars:
        np.testing.assert_allclose(one["exact"][key], four["exact"][key], rtol=1e-9, atol=1e-13, err_msg=key)
    for name in ("distribution", "frequency"):
        assert_moments(one, name)
        assert_moments(four, name)


def assert_moments(tree, name):
    """Draws are i.i.d.: their mean and spread are within 4.5 standard errors of the exact ones."""
    exact, values = tree["exact"], tree["posterior"][name].values.reshape(-1, tree["posterior"][name].shape[-1])
    mean, sd = exact[f"{name}_mean"].values, exact[f"{name}_sd"].values
    assert (np.abs(values.mean(axis=0) - mean) <= 4.5 * sd / math.sqrt(len(values)) + 1e-12).all()
    spread = (values - mean) ** 2
    assert (np.abs(spread.mean(axis=0) - sd**2) <= 4.5 * spread.std(axis=0) / math.sqrt(len(values)) + 1e-12).all()


def test_a_thousand_categories_and_five_reports():
    survey = Collection([str(x) for x in range(1024)], [Tally(GRR(1024, 3.0), [5, 5, 17, 900, 31])])
    tree = fit(survey, Dirichlet.jeffreys(1024), TallyStates(draws=500), random_seed=2, estimates=False)
    exact = tree["exact"]
    assert facts_of(tree)["n_groups"] == 5
    assert exact["distribution_mean"].values.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(exact["distribution_cov"].values.sum(axis=0), 0, atol=1e-15)
    assert np.unique(np.delete(exact["distribution_upper"].values, [5, 17, 900, 31])).size == 1
    # The same by hand for the four named categories and one that stands for the other 1,020.
    rows = DenseRows(np.ones((4, 5)) + math.expm1(3.0) * np.eye(4, 5), [2, 1, 1, 1], -math.log(1024 + math.expm1(3.0)))
    by_hand = enumerate_posterior(rows, [0.5] * 4 + [510.0])
    np.testing.assert_allclose(
        exact["distribution_mean"].values[[5, 17, 31, 900]], by_hand["distribution_mean"][:4], rtol=1e-10
    )
    assert exact["log_evidence"] == pytest.approx(by_hand["log_evidence"], rel=1e-12)
    some = tree.isel(category=[5, 17, 31, 900, 0, 1, 2])
    assert_moments(some, "distribution")
    assert_moments(some, "frequency")


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_reports_that_say_nothing_leave_the_prior():
    tree = fit(
        collection([np.full((2, 3), 0.5)], [[3, 2]]), Dirichlet([0.5, 1, 2]), TallyStates(), random_seed=1, estimates=False
    )
    np.testing.assert_allclose(tree["exact"]["distribution_mean"], np.array([0.5, 1, 2]) / 3.5, rtol=1e-12)
    np.testing.assert_allclose(
        tree["exact"]["distribution_upper"], stats.beta([0.5, 1, 2], [3, 2.5, 1.5]).ppf(0.975), rtol=1e-9
    )
    assert tree["exact"]["log_evidence"] == pytest.approx(5 * math.log(0.5))


def test_the_same_seed_gives_the_same_draws():
    survey, alpha = small_collections()["GRR"]
    first, second = (fit(survey, Dirichlet(alpha), TallyStates(draws=20), random_seed=9, estimates=False) for _ in range(2))
    for name in ("distribution", "frequency"):
        np.testing.assert_array_equal(first["posterior"][name], second["posterior"][name])


def test_refuses_above_its_limits(monkeypatch):
    rng = np.random.default_rng(1)
    long = collection([random_channel(rng, 3, 3)], [[500, 500, 500]])
    monkeypatch.setattr("ldpbayes.posteriors.tally_states.MAX_SUMS", 1e9)
    with pytest.raises(InfeasibleError, match=r"Sums over tally states must be at most 1e\+09, got"):
        fit(long, Dirichlet.flat(3), TallyStates(), estimates=False)
    wide = Collection([str(x) for x in range(30)], [Tally(GRR(30, 1.0), np.arange(30))])
    with pytest.raises(InfeasibleError, match="Tally states must be at most"):
        fit(wide, Dirichlet.flat(30), TallyStates(), estimates=False)


def test_refuses_what_has_more_states_than_numbers():
    counts = np.random.default_rng(1).multinomial(100_000, np.full(1024, 1 / 1024))
    large = Collection([str(x) for x in range(1024)], [Tally(GRR(1024, 1.0), np.arange(1024), counts)])
    feasibility = TallyStates().feasibility(large, Dirichlet.flat(1024))
    assert not feasibility.feasible and "got inf" in feasibility.reason


def test_refuses_wrong_settings():
    survey, alpha = small_collections()["GRR"]
    for field, value in (("draws", 0), ("chains", 1.5)):
        with pytest.raises(ArgumentError, match=f"{field} must be"):
            TallyStates(**{field: value})
    with pytest.raises(ArgumentError, match="ci_prob must be"):
        fit(survey, Dirichlet(alpha), TallyStates(), ci_prob=1.0, estimates=False)


def test_sums_that_take_seconds_are_left_to_weighted_draws():
    """Of 20 cells each took 5 s where weighted draws take .2: a limit holds for one of many, too."""
    protocol, rng = UnaryEncoding.optimized(8, epsilon=1.0), np.random.default_rng(1)
    choice = select_method(Collection("abcdefgh", [Tally(protocol, protocol.privatize(rng.integers(8, size=28), rng))]))
    considered = dict(choice.considered)
    assert considered["tally_states"].feasible and considered["tally_states"].seconds > 1.5
    assert choice.method.name == "surrogate"
