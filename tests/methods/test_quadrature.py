import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases import CASES
from references.enumeration import enumerated
from scipy import special, stats

from ldpbayes import fit
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, ConvergenceError, InfeasibleError
from ldpbayes.methods.base import Watch
from ldpbayes.methods.merging import merge
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.methods.quadrature.draws import Drawer
from ldpbayes.methods.quadrature.integrand import Integrand, windows
from ldpbayes.methods.quadrature.rules import ProductRule
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Channel, designs
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.long


def survey(*parts):
    tallies = [Tally(p, np.arange(len(counts)), counts, name=f"c{i}") for i, (p, counts) in enumerate(parts)]
    return Collection([f"x{i}" for i in range(tallies[0].protocol.n_categories)], tallies)


def random_channel(seed, b, a):
    return Channel(np.random.default_rng(seed).dirichlet(np.ones(b), size=a).T)


MINARETS = survey((designs.stochastic_lie_detector(1 / 6), [191, 373]), (designs.stochastic_lie_detector(5 / 6), [294, 398]))
EQUAL = Channel(np.random.default_rng(6).dirichlet(np.ones(3), size=3).T[:, [0, 1, 0, 2]])
SURVEYS = {
    "two categories": (survey((random_channel(1, 2, 2), [40, 70])), [0.5, 0.5]),
    "three reports": (survey((random_channel(2, 3, 3), [1, 0, 2])), [0.5, 0.5, 0.5]),
    "unequal prior": (survey((random_channel(3, 3, 3), [20, 13, 32])), [0.3, 1.7, 25.0]),
    "tiny concentrations": (survey((random_channel(3, 3, 3), [20, 13, 3])), [0.02, 0.1, 0.05]),
    "rank-deficient": (survey((random_channel(4, 2, 4), [30, 21])), [0.5, 1.0, 2.0, 0.25]),
    "two channels": (survey((random_channel(5, 2, 3), [30, 31]), (GRR(3, 1.0), [10, 2, 12])), [0.5, 0.5, 0.5]),
    "direct": (survey((Channel(np.eye(3)), [40, 0, 13])), [0.5, 0.5, 0.5]),
    "equal columns": (survey((EQUAL, [14, 25, 13])), [0.5, 1.0, 2.0, 0.7]),
    "five categories": (survey((GRR(5, 1.5), [9, 5, 3, 1, 0])), [0.5, 0.5, 0.5, 0.5, 1.0]),
    "vertex": (survey((GRR(2, 3.0), [3000, 150])), [0.5, 0.5]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SURVEYS)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_equals_programming_over_tallies(name):
    collection, alpha = SURVEYS[name]
    prior = Dirichlet(alpha)
    tree = fit(collection, prior, Quadrature(draws=10), random_seed=1, ci_prob=0.9, estimates=False)
    exact = enumerated(collection, prior, ci_prob=0.9)
    sd = exact["distribution_sd"]
    for key, value in tree["exact"].data_vars.items():
        scale = {"distribution_cov": np.outer(sd, sd), "log_evidence": 1.0, "frequency_mean": 1.0, "frequency_sd": 1.0}
        difference = np.abs(value.values - exact[key]) / scale.get(key, sd)
        assert difference.max() < (1e-6 if key == "frequency_sd" else 1e-8), key
    assert facts_of(tree)["quadrature_error"] <= 1e-6
    assert facts_of(tree)["mass_left_out"] <= 1e-9


def test_enumeration_over_the_true_values():
    collection, alpha = SURVEYS["three reports"]
    rows, weights = collection.rows, {}
    reports = [j for j, w in enumerate(rows.counts) for _ in range(int(w))]
    cells = [[Fraction(float(q)) for q in row] for row in rows.dense()]
    for x in product(range(3), repeat=3):
        t = tuple(x.count(v) for v in range(3))
        odds = math.prod(
            (Fraction(float(a)) + k for a, m in zip(alpha, t, strict=True) for k in range(m)), start=Fraction(1)
        )
        weights[x] = odds * math.prod(cells[j][v] for j, v in zip(reports, x, strict=True))
    total = sum(weights.values())
    urn = math.prod(Fraction(sum(alpha)) + k for k in range(3))
    exact = fit(collection, Dirichlet(alpha), Quadrature(draws=10), random_seed=1, estimates=False)["exact"]
    assert exact["log_evidence"] == pytest.approx(math.log(total / urn) + rows.log_constant, abs=1e-12)
    tallies = [sum(w * x.count(v) for x, w in weights.items()) / total for v in range(3)]
    np.testing.assert_allclose(exact["frequency_mean"], [float(t) / 3 for t in tallies], rtol=1e-11)
    expected = [float((Fraction(a) + t) / Fraction(sum(alpha) + 3)) for a, t in zip(alpha, tallies, strict=True)]
    np.testing.assert_allclose(exact["distribution_mean"], expected, rtol=1e-12)


@pytest.mark.parametrize("counts", [[7, 3], [100_000, 2], [0, 50_000]])
def test_direct_questions_give_the_beta_posterior(counts):
    collection = survey((Channel(np.eye(2)), counts))
    tree = fit(collection, Dirichlet([0.5, 1.5]), Quadrature(), random_seed=3, estimates=False)
    beta = stats.beta([counts[0] + 0.5, counts[1] + 1.5], [counts[1] + 1.5, counts[0] + 0.5])
    a, b = counts[0] + 0.5, counts[1] + 1.5
    exact, sd = tree["exact"], math.sqrt(a * b / (a + b + 1)) / (a + b)
    np.testing.assert_allclose(exact["distribution_mean"], beta.mean(), rtol=1e-9)
    np.testing.assert_allclose(exact["distribution_sd"], sd, rtol=1e-8)
    for name, level in (("lower", 0.025), ("upper", 0.975)):
        assert (np.abs(exact[f"distribution_{name}"] - beta.ppf(level)) < 1e-7 * sd).all()
    evidence = special.betaln(a, b) - special.betaln(0.5, 1.5)
    assert exact["log_evidence"] == pytest.approx(evidence, abs=1e-8)
    draws = tree["posterior"]["distribution"].values[..., 0].ravel()
    assert stats.kstest(draws, lambda p: special.betainc(a, b, p)).pvalue > 1e-3


@pytest.mark.calibrate
def test_minarets_under_a_flat_prior_against_a_fine_grid():
    """Two channels, three latent categories: midpoints of 1,500 × 1,500 cells of (p0, p1 | p0) sticks."""
    exact = fit(MINARETS, Dirichlet.flat(3), Quadrature(draws=10), random_seed=1, estimates=False)["exact"]
    v = (np.arange(1500) + 0.5) / 1500
    first, second = np.meshgrid(v, v, indexing="ij")
    p = np.stack([first, (1 - first) * second, (1 - first) * (1 - second)]).reshape(3, -1)
    log_density = MINARETS.rows.log_likelihood(p) + np.log(2 * (1 - first.ravel()))
    density = np.exp(log_density - log_density.max())
    weight = density / density.sum()
    mean = p @ weight
    sd = np.sqrt((p - mean[:, None]) ** 2 @ weight)
    np.testing.assert_allclose(exact["distribution_mean"], mean, atol=1e-5 * sd.min())
    np.testing.assert_allclose(exact["distribution_sd"], sd, rtol=1e-4)
    assert exact["log_evidence"] == pytest.approx(log_density.max() + math.log(density.mean()), abs=1e-5)
    for x in range(3):
        order = np.argsort(p[x])
        ends = np.interp([0.025, 0.975], np.cumsum(weight[order]), p[x][order])
        assert exact["distribution_lower"].values[x] == pytest.approx(ends[0], abs=1 / 1500)
        assert exact["distribution_upper"].values[x] == pytest.approx(ends[1], abs=1 / 1500)


def test_minarets_is_accurate_far_below_a_posterior_sd():
    first = fit(MINARETS, Dirichlet.flat(3), Quadrature(draws=10), random_seed=1, estimates=False)
    second = fit(MINARETS, Dirichlet.flat(3), Quadrature(draws=10, tolerance=1e-11), random_seed=1, estimates=False)
    assert facts_of(first)["nodes_per_stick"] < facts_of(second)["nodes_per_stick"]
    sd = second["exact"]["distribution_sd"].values
    for key in ("distribution_mean", "distribution_sd", "distribution_lower", "distribution_upper"):
        assert (np.abs(first["exact"][key] - second["exact"][key]) < 1e-8 * sd).all(), key


def test_a_hundred_thousand_reports():
    """Three categories at n = 1e5: means add up, and the sd is that of the information at the mode."""
    collection = survey((GRR(3, 1.0), [45_000, 32_000, 23_000]))
    exact = fit(collection, Dirichlet.jeffreys(3), Quadrature(draws=10), random_seed=1, estimates=False)["exact"]
    assert exact["distribution_mean"].values.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(exact["distribution_cov"].values.sum(axis=0), 0, atol=1e-12)
    rows, mean = collection.rows, exact["distribution_mean"].values
    tangent = np.array([[1, 0], [0, 1], [-1, -1]])
    information = tangent.T @ rows.gram(rows.counts / rows.matvec(mean) ** 2) @ tangent
    np.testing.assert_allclose(exact["distribution_cov"].values[:2, :2], np.linalg.inv(information), rtol=1e-3)
    # Far from the ends the margin is nearly normal.
    half = (exact["distribution_upper"] - exact["distribution_lower"]).values / 2
    np.testing.assert_allclose(half, 1.959964 * exact["distribution_sd"].values, rtol=1e-3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["two categories", "unequal prior", "rank-deficient", "equal columns", "five categories"])
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_draws_are_from_the_posterior(name):
    collection, alpha = SURVEYS[name]
    tree = fit(collection, Dirichlet(alpha), Quadrature(draws=5000), random_seed=21, ci_prob=0.8, estimates=False)
    exact = tree["exact"]
    for target in ("distribution", "frequency"):
        values = tree["posterior"][target].values.reshape(-1, len(alpha))
        mean, sd = exact[f"{target}_mean"].values, exact[f"{target}_sd"].values
        assert (np.abs(values.mean(axis=0) - mean) < 4 * sd / math.sqrt(len(values))).all()
        square = (values - mean) ** 2
        assert (np.abs(square.mean(axis=0) - sd**2) < 4 * square.std(axis=0) / math.sqrt(len(values))).all()
    values = tree["posterior"]["distribution"].values.reshape(-1, len(alpha))
    for end, level in (("lower", 0.1), ("upper", 0.9)):
        share = (values <= exact[f"distribution_{end}"].values).mean(axis=0)
        assert (np.abs(share - level) < 4 * math.sqrt(0.09 / len(values))).all()
    inside = np.cov(values.T)
    error = np.sqrt((np.outer(*[np.diag(inside)] * 2) + inside**2) / len(values))
    assert (np.abs(inside - exact["distribution_cov"].values) < 6 * error).all()


@pytest.mark.calibrated("alpha1", "alpha2")
@pytest.mark.parametrize("alpha", [(1.0004, 1.2, 2.5), (1.2, 0.7, 0.3003), (2.003, 1.0, 1.0), (3.000001, 0.5, 0.5)])
def test_draws_under_concentrations_just_above_a_whole_number(alpha):
    """What is left of 1.0004 beside a whole count is .0004, whose Beta law has nearly all its mass next to zero."""
    collection = survey((Channel([[0.6, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.2, 0.8]]), [3, 9, 6]))
    _draws_agree(fit(collection, Dirichlet(alpha), Quadrature(draws=2000), random_seed=1, estimates=False))


def test_draws_of_a_category_that_a_report_proves():
    collection = survey((Channel([[0.5, 0, 0], [0.3, 0.7, 0.3], [0.2, 0.3, 0.7]]), [3, 9, 6]))
    _draws_agree(fit(collection, Dirichlet([0.001, 0.5, 0.5]), Quadrature(draws=2000), random_seed=1, estimates=False))


def _draws_agree(tree):
    draws, exact = tree["posterior"]["distribution"].values.reshape(-1, 3), tree["exact"]
    sd = exact["distribution_sd"].values
    assert np.abs(draws.mean(axis=0) - exact["distribution_mean"].values).max() < 4 * sd.max() / math.sqrt(len(draws))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.03)
    for end, level in (("lower", 0.025), ("upper", 0.975)):
        below = (draws < exact[f"distribution_{end}"].values).mean(axis=0)
        np.testing.assert_allclose(below, level, atol=4 * math.sqrt(0.025 * 0.975 / len(draws)))


@pytest.mark.calibrate
def test_five_reports_over_a_thousand_categories():
    collection = Collection([str(x) for x in range(1024)], [Tally(GRR(1024, 3.0), [5, 5, 17, 900, 31])])
    prior = Dirichlet.jeffreys(1024)
    tree = fit(collection, prior, Quadrature(draws=10), random_seed=2, estimates=False)
    exact = enumerated(collection, prior)
    assert facts_of(tree)["n_groups"] == 5
    for key in ("distribution_mean", "distribution_sd", "distribution_lower", "distribution_upper", "log_evidence"):
        np.testing.assert_allclose(tree["exact"][key], exact[key], rtol=1e-7, err_msg=key)


@pytest.mark.sampled(5)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")  # bits of one report, and channels without full rank
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_protocol_has_one_posterior(case):
    """Simulated reports through each protocol of the table: quadrature and tally programming agree on everything."""
    a = max(x for x in case.categories if x <= 3)
    protocol, rng = case.build(a, 1.5), np.random.default_rng(17)
    tally = Tally(protocol, protocol.privatize(rng.choice(a, size=40), rng))
    collection, prior = Collection([f"x{i}" for i in range(a)], [tally]), Dirichlet(np.linspace(0.5, 1.25, a))
    first = fit(collection, prior, Quadrature(draws=10), random_seed=1, estimates=False)["exact"].to_dataset()
    second = enumerated(collection, prior)
    for key in first.data_vars:
        np.testing.assert_allclose(first[key], second[key], rtol=1e-7, atol=1e-12, err_msg=key)


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_reports_that_say_nothing_leave_the_prior():
    alpha = [0.5, 1, 2]
    tree = fit(
        survey((Channel(np.full((2, 3), 0.5)), [3, 2])),
        Dirichlet(alpha),
        Quadrature(draws=500),
        random_seed=1,
        estimates=False,
    )
    np.testing.assert_allclose(tree["exact"]["distribution_mean"], np.array(alpha) / 3.5, rtol=1e-12)
    np.testing.assert_allclose(tree["exact"]["distribution_lower"], stats.beta(alpha, [3, 2.5, 1.5]).ppf(0.025), rtol=1e-9)
    assert tree["exact"]["log_evidence"] == pytest.approx(5 * math.log(0.5))


def test_windows_never_cut_off_what_they_must_keep():
    """Random points within depth of the maximum lie inside the windows, level by level."""
    rng = np.random.default_rng(4)
    collection, alpha = SURVEYS["two channels"]
    problem = Integrand.of(merge(collection.rows, Dirichlet(np.array(alpha) * 3)))
    p = problem.centre + rng.normal(0, 0.1, (4000, 3)) @ (np.eye(3) - 1 / 3)
    p = p[(p > 0).all(axis=1)]
    value = np.log(p @ problem.matrix.T) @ problem.counts
    assert value.max() <= problem.top
    p = p[value > problem.top - problem.depth]
    assert len(p) > 100
    low, high = windows(problem, problem.matrix[None, :, 0], problem.matrix[None, :, 1:])
    assert (p[:, 0] >= low).all() and (p[:, 0] <= high).all()
    images, rest = p[:, :1] * problem.matrix[:, 0], 1 - p[:, :1]
    head, tail = images + rest * problem.matrix[:, 1], images + rest * problem.matrix[:, 2]
    low, high = windows(problem, head, tail[:, :, None])
    stick = p[:, 1] / rest[:, 0]
    assert (stick >= low).all() and (stick <= high).all()


def test_the_same_seed_gives_the_same_draws():
    collection, alpha = SURVEYS["five categories"]
    first, second = (
        fit(collection, Dirichlet(alpha), Quadrature(draws=20), random_seed=9, estimates=False) for _ in range(2)
    )
    np.testing.assert_array_equal(first["posterior"]["distribution"], second["posterior"]["distribution"])
    assert json.loads(first.attrs["settings"])["draws"] == 20


def test_nodes_computed_twice_give_the_draws_of_nodes_in_memory():
    collection, alpha = SURVEYS["five categories"]
    integrand = Integrand.of(merge(collection.rows, Dirichlet(alpha)))
    first, second = (
        Drawer(integrand, ProductRule(8), 56, kept_nodes=number).draw(200, np.random.default_rng(9), Watch())
        for number in (2**22, 0)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("a", [9, 3000])
def test_refuses_many_categories_before_rows_are_merged(monkeypatch, a):
    monkeypatch.setattr("ldpbayes.methods.merging.merge", None)
    wide = Collection([str(x) for x in range(a)], [Tally(GRR(a, 1.0), np.arange(a), [50] * a)])
    with pytest.raises(InfeasibleError, match=r"Quadrature.*6e\+09"):
        fit(wide, Dirichlet.flat(a), Quadrature(), estimates=False)


def test_nine_categories_of_few_reports():
    """The rule is exact by its degree: a product of nine sticks with three nodes."""
    nine = Collection([str(x) for x in range(9)], [Tally(GRR(9, 1.0), [1, 4])])
    tree = fit(nine, Dirichlet.flat(9), Quadrature(draws=20), random_seed=1, estimates=False)
    exact = enumerated(nine, Dirichlet.flat(9))
    for key in ("distribution_mean", "distribution_sd", "log_evidence"):
        np.testing.assert_allclose(tree["exact"][key], exact[key], rtol=1e-9)


def test_refuses_above_its_limits():
    eight = Collection([str(x) for x in range(8)], [Tally(GRR(8, 1.0), np.arange(8), [50] * 8)])
    with pytest.raises(InfeasibleError, match=r"Quadrature.*6e\+09"):
        fit(eight, Dirichlet.flat(8), Quadrature(), estimates=False)
    with pytest.raises(ConvergenceError, match=r"resolved:.*1e-20.*Quadrature"):
        fit(MINARETS, Dirichlet.flat(3), Quadrature(tolerance=1e-20, max_work=4e6), estimates=False)


def test_refuses_wrong_settings():
    for field, value in (("draws", 0), ("chains", 1.5), ("tolerance", math.inf)):
        with pytest.raises(ArgumentError, match=f"{field} must be"):
            Quadrature(**{field: value})
