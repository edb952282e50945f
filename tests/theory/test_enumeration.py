import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from references.enumeration import enumerated
from scipy import special, stats

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import InfeasibleError
from ldpbayes.likelihoods import DenseRows
from ldpbayes.methods.merging import count_groups, merge
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Channel
from ldpbayes.theory.enumeration import Enumeration, tally_law, tally_states


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", small_collections())
def test_moments_and_evidence_equal_enumeration(name):
    survey, alpha = small_collections()[name]
    exact = enumerated(survey, Dirichlet(alpha))
    for key, value in enumerate_posterior(survey.rows, alpha).items():
        np.testing.assert_allclose(exact[key], value, rtol=1e-10, atol=1e-13, err_msg=key)


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
    exact = enumerated(collection([np.eye(2)], [[7, 3]]), Dirichlet([0.5, 1.5]), ci_prob=0.9)
    beta = stats.beta([7.5, 4.5], [4.5, 7.5])
    np.testing.assert_allclose(exact["distribution_mean"], beta.mean(), rtol=1e-13)
    np.testing.assert_allclose(exact["distribution_sd"], beta.std(), rtol=1e-12)
    np.testing.assert_allclose(exact["distribution_lower"], beta.ppf(0.05), rtol=1e-10)
    np.testing.assert_allclose(exact["distribution_upper"], beta.ppf(0.95), rtol=1e-10)
    np.testing.assert_allclose(exact["frequency_lower"], [0.7, 0.3])
    np.testing.assert_allclose(exact["frequency_upper"], [0.7, 0.3])


@pytest.mark.parametrize(
    ("truths", "counts"),
    [
        ([0.7], [[1800, 1200]]),
        ([0.7], [[3000, 7000]]),
        ([0.95], [[700, 9300]]),
        ([0.7, 0.55, 0.9], [[2100, 2900], [950, 1050], [350, 650]]),
        (np.linspace(0.55, 0.95, 300), np.random.default_rng(1).multinomial(15, [0.35, 0.65], 300)),
    ],
    ids=["few", "many", "rare", "three devices", "300 devices"],
)
def test_many_reports_at_two_categories_against_a_fine_grid(truths, counts):
    survey = collection([[[t, 1 - t], [1 - t, t]] for t in truths], counts)
    exact = enumerated(survey, Dirichlet.flat(2))
    p = (np.arange(200_000) + 0.5) / 200_000
    said = [np.log((1 - t) + (2 * t - 1) * p) for t in truths]
    denied = [np.log(t - (2 * t - 1) * p) for t in truths]
    log_density = sum(yes * a + no * b for (yes, no), a, b in zip(counts, said, denied, strict=True))
    density = np.exp(log_density - log_density.max())
    mean = p @ density / density.sum()
    assert exact["distribution_mean"][0] == pytest.approx(mean, rel=1e-8)
    assert exact["distribution_sd"][0] == pytest.approx(np.sqrt((p - mean) ** 2 @ density / density.sum()), rel=1e-7)
    assert exact["log_evidence"] == pytest.approx(log_density.max() + np.log(density.mean()), abs=1e-7)
    cdf = np.cumsum(density) / density.sum()
    assert exact["distribution_lower"][0] == pytest.approx(np.interp(0.025, cdf, p), abs=1e-5)
    assert exact["distribution_upper"][0] == pytest.approx(np.interp(0.975, cdf, p), abs=1e-5)


def test_groups_are_counted_without_writing_rows_out():
    rows = DenseRows(np.array([[1, 2, 1, 2, 3], [5, 1, 5, 2, 1.0]]), [3, 4])
    assert count_groups(rows) == merge(rows, Dirichlet.flat(5)).n_groups == 4
    survey, _ = small_collections()["GRR"]
    assert count_groups(survey.rows) == merge(survey.rows, Dirichlet.flat(4)).n_groups == 4


def test_merging_leaves_the_posterior_alone():
    rng = np.random.default_rng(8)
    matrix = random_channel(rng, 3, 3)[:, [0, 1, 0, 2]]
    alpha = np.array([0.5, 1.0, 2.0, 0.7])
    nudged = matrix * (1 + 1e-13 * rng.random(matrix.shape))  # the same posterior, without equal columns
    nudged /= nudged.sum(axis=0)
    one, four = (enumerated(collection([m], [[4, 5, 3]]), Dirichlet(alpha)) for m in (matrix, nudged))
    for key in one:
        np.testing.assert_allclose(one[key], four[key], rtol=1e-9, atol=1e-13, err_msg=key)


def test_a_thousand_categories_and_five_reports():
    survey = Collection([str(x) for x in range(1024)], [Tally(GRR(1024, 3.0), [5, 5, 17, 900, 31])])
    exact = enumerated(survey, Dirichlet.jeffreys(1024))
    assert exact["distribution_mean"].sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(exact["distribution_cov"].sum(axis=0), 0, atol=1e-15)
    assert np.unique(np.delete(exact["distribution_upper"], [5, 17, 900, 31])).size == 1
    # The same by hand for the four named categories and one that stands for the other 1,020.
    rows = DenseRows(np.ones((4, 5)) + math.expm1(3.0) * np.eye(4, 5), [2, 1, 1, 1], -math.log(1024 + math.expm1(3.0)))
    by_hand = enumerate_posterior(rows, [0.5] * 4 + [510.0])
    np.testing.assert_allclose(exact["distribution_mean"][[5, 17, 31, 900]], by_hand["distribution_mean"][:4], rtol=1e-10)
    assert exact["log_evidence"] == pytest.approx(by_hand["log_evidence"], rel=1e-12)


def test_reports_that_say_nothing_leave_the_prior():
    exact = enumerated(collection([np.full((2, 3), 0.5)], [[3, 2]]), Dirichlet([0.5, 1, 2]))
    np.testing.assert_allclose(exact["distribution_mean"], np.array([0.5, 1, 2]) / 3.5, rtol=1e-12)
    np.testing.assert_allclose(exact["distribution_upper"], stats.beta([0.5, 1, 2], [3, 2.5, 1.5]).ppf(0.975), rtol=1e-9)
    assert exact["log_evidence"] == pytest.approx(5 * math.log(0.5))


def test_a_prior_far_from_the_reports_is_refused_where_tallies_underflow():
    """Its posterior was .9953 where the integral has .99999864; a weaker one is summed."""
    survey = collection([GRR(2, 4.0).channel()], [[100, 4900]])
    with pytest.raises(InfeasibleError, match="underflow"):
        Enumeration()(survey, Dirichlet([1e6, 1.0]))
    found, p = Enumeration()(survey, Dirichlet([20.0, 1.0])), (np.arange(400_000) + 0.5) / 400_000
    high, low = survey.tallies[0].protocol.channel()[0]
    log_density = 100 * np.log(low + (high - low) * p) + 4900 * np.log(high - (high - low) * p) + 19 * np.log(p)
    density = np.exp(log_density - log_density.max())
    assert found.mean[0] == pytest.approx(p @ density / density.sum(), rel=1e-8)


def test_too_many_tallies_and_other_priors_are_refused():
    counts = np.random.default_rng(1).multinomial(100_000, np.full(1024, 1 / 1024))
    large = Collection([str(x) for x in range(1024)], [Tally(GRR(1024, 1.0), np.arange(1024), counts)])
    with pytest.raises(InfeasibleError, match="inf tallies"):
        Enumeration()(large, Dirichlet.flat(1024))
    survey, alpha = small_collections()["GRR"]
    with pytest.raises(InfeasibleError, match="too many"):
        Enumeration(most=100)(survey, Dirichlet(alpha))
    with pytest.raises(InfeasibleError, match="Dirichlet prior"):
        Enumeration()(survey, "learnt")
