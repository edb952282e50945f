"""Maximum likelihood: certified, equal to cvxpy and to the closed form, and the numbers that others published."""

import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from cases import CASES
from conic import conic
from hypothesis import given, settings
from hypothesis import strategies as st
from tabulated import each_row

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError
from ldpbayes.estimators import base, mle
from ldpbayes.estimators.base import information_covariance
from ldpbayes.estimators.mle import MLE, maximize
from ldpbayes.estimators.solvers.base import certificate
from ldpbayes.likelihoods import DenseRows, IdentityRows, StackedRows
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Channel, designs
from ldpbayes.sources import read_collection

pytestmark = pytest.mark.long

DATA = pathlib.Path(__file__).parents[2] / "data"


def collection(*tallies):
    return Collection([f"c{x}" for x in range(tallies[0].protocol.n_categories)], tallies)


def survey(protocol, tally):
    return collection(Tally(protocol, np.arange(len(tally)), tally))


def unary_rows(size, n, epsilon, seed, p=None):
    """Return dense two-level rows of symmetric unary reports."""
    rng = np.random.default_rng(seed)
    keep = 1 / (1 + np.exp(-epsilon / 2))
    values = rng.choice(size, n, p=rng.dirichlet(np.ones(size)) if p is None else p)
    bits = rng.random((n, size)) > keep
    bits[np.arange(n), values] = rng.random(n) < keep
    bits, counts = np.unique(bits, axis=0, return_counts=True)
    return DenseRows(1 + np.expm1(epsilon) * bits, counts)


@st.composite
def random_rows(draw):
    """Small rows of every temperament: nearly uninformative to noiseless, with zeros, fewer rows than columns."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    size, m = draw(st.integers(2, 8)), draw(st.integers(1, 12))
    matrix = 1 + np.expm1(draw(st.sampled_from([0.05, 0.5, 2.0, 8.0]))) * rng.random((m, size)) ** 3
    counts = rng.integers(1, draw(st.sampled_from([2, 30, 100_000])), m)
    return DenseRows(matrix, counts)


@given(rows=random_rows(), method=st.sampled_from(["newton", "quasi-newton"]))
@settings(max_examples=30, deadline=None)
def test_random_rows_agree_with_cvxpy(rows, method):
    found, reference = maximize(rows, method=method), conic(rows)
    assert found.gap <= 1e-6
    assert found.p.sum() == pytest.approx(1, abs=1e-12) and (found.p >= 0).all()
    # Each certificate bounds its own shortfall from any other point.
    gain = rows.log_likelihood(reference.p) - rows.log_likelihood(found.p)
    assert -reference.gap - 1e-9 * rows.n_reports <= gain <= found.gap + 1e-9 * rows.n_reports


@given(seed=st.integers(0, 10**6), size=st.integers(2, 40), n=st.integers(1, 10_000), epsilon=st.floats(0.01, 8))
@settings(max_examples=30, deadline=None)
def test_grr_closed_form_equals_the_iterations(seed, size, n, epsilon):
    rng = np.random.default_rng(seed)
    tally = rng.multinomial(n, rng.dirichlet(np.full(size, 0.5)))
    seen = np.flatnonzero(tally)
    rows = IdentityRows(seen, np.expm1(epsilon), tally[seen], size)
    closed = maximize(rows)
    assert closed.method == "closed" and closed.gap <= 1e-9 * n
    generic = maximize(rows, method="newton", tolerance=1e-7)
    assert generic.gap <= 1e-7
    assert abs(rows.log_likelihood(closed.p) - rows.log_likelihood(generic.p)) <= 1e-7 + 1e-12 * n
    assert closed.p == pytest.approx(generic.p, abs=1e-3)


def test_the_certificate_is_the_bound_of_the_specification():
    rows = unary_rows(5, 300, 1.0, 0)
    p = np.random.default_rng(0).dirichlet(np.ones(5))
    matrix = rows.dense()
    by_hand = (rows.counts[:, None] * matrix / (matrix @ p)[:, None]).sum(axis=0).max() - rows.n_reports
    assert certificate(rows, p) == pytest.approx(by_hand, rel=1e-12)
    assert rows.log_likelihood(maximize(rows).p) - rows.log_likelihood(p) <= by_hand


def test_the_certificate_with_a_prior_is_the_best_linearized_value():
    import cvxpy as cp

    rows, mass = unary_rows(5, 300, 1.0, 0), np.array([0.0, 0.5, 2.0, 0.0, 1e-3])
    p = np.random.default_rng(0).dirichlet(np.ones(5))
    _, gradient = rows.value_and_gradient(p)
    q, some = cp.Variable(5, nonneg=True), mass > 0
    objective = gradient @ (q - p) + mass[some] @ (cp.log(q[some]) - np.log(p[some]))
    best = cp.Problem(cp.Maximize(objective), [cp.sum(q) == 1]).solve(solver=cp.CLARABEL)
    assert certificate(rows, p, mass) == pytest.approx(best, rel=1e-6)
    assert certificate(rows, np.array([0.5, 0.5, 0, 0, 0]), mass) == np.inf


@pytest.mark.parametrize("method", ["newton", "quasi-newton"])
@pytest.mark.parametrize("alpha", [1.5, [1.0, 3.0, 1.0, 1.001, 20.0, 2.0]])
def test_posterior_mode_meets_its_conditions(method, alpha):
    protocol = designs.forced_response(0.4, [1, 2, 3, 0, 1, 1])
    data = survey(protocol, [40, 10, 3, 0, 12, 9])
    # Categories of little prior mass and none of the data move the objective little: they need a small gap.
    mass = mle.prior_mass(alpha, 6)
    p = maximize(data.rows, mass, tolerance=1e-10, method=method).p
    # g + m/p is n + Σm where p > 0 and no larger elsewhere.
    level = data.n_reports + mass.sum()
    _, gradient = data.rows.value_and_gradient(p)
    inside = p > (1e-6)
    slope = gradient + np.divide(mass, p, out=np.zeros(6), where=p > 0)
    assert slope[inside] == pytest.approx(level, rel=2e-3)
    assert (gradient[~inside] <= level * 1.001).all()
    assert MLE(prior=alpha)(data).name == "map"


@given(rows=random_rows(), seed=st.integers(0, 1000), method=st.sampled_from(["newton", "quasi-newton"]))
@settings(max_examples=30, deadline=None)
def test_random_posterior_modes_agree_with_cvxpy(rows, seed, method):
    mass = np.random.default_rng(seed).choice([0.0, 0.01, 1.0, 30.0], rows.n_categories)
    mass[0] = 0.5

    def objective(p):
        some = mass > 0
        return rows.log_likelihood(p) + mass[some] @ np.log(p[some])

    found, reference = maximize(rows, mass, method=method), conic(rows, mass)
    assert found.gap <= 1e-6
    gain = objective(reference.p) - objective(found.p)
    assert -reference.gap - 1e-9 * rows.n_reports <= gain <= found.gap + 1e-9 * rows.n_reports


def test_map_without_data_worth_speaking_of_is_the_mode_of_the_prior():
    rows, alpha = DenseRows(np.ones((1, 3)), [5]), np.array([2.0, 4.0, 3.0])
    for method in ("newton", "quasi-newton"):
        assert maximize(rows, alpha - 1, method=method).p == pytest.approx([1 / 6, 1 / 2, 1 / 3], abs=1e-4)


@pytest.mark.parametrize("method", ["auto", "newton", "quasi-newton"])
def test_a_mass_of_zeros_is_maximum_likelihood(method):
    """The dual of an empty mass ended in a ValueError of NumPy."""
    rows = survey(designs.forced_response(0.4, [1, 2, 3]), [40, 10, 3]).rows
    assert maximize(rows, np.zeros(3), method=method).p == pytest.approx(maximize(rows).p, abs=1e-5)


def test_map_refuses_concentrations_below_one():
    with pytest.raises(ArgumentError, match=r"alpha must.*1"):
        MLE(prior="jeffreys")(survey(GRR(3, 1.0), [3, 4, 5]))


def test_a_flat_prior_is_maximum_likelihood():
    data = survey(designs.forced_response(0.5, [1, 2, 3]), [20, 30, 10])
    flat, plain = MLE(prior=Dirichlet.flat(3))(data), MLE()(data)
    assert np.array_equal(flat.distribution, plain.distribution) and flat.name == "mle"


# ---- published numbers ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "innocuous, yes, value, error",
    [
        (1 / 12, 328, 0.84061, 0.037421),
        (1 / 10, 180, 0.407042, 0.032653),
        (2 / 3, 280, 0.122066, 0.036682),
        (1 / 10, 81, 0.128169, 0.023862),
        (1 / 3, 164, 0.128638, 0.031634),
        (1 / 12, 53, 0.065962, 0.019727),
    ],
)
def test_granada(innocuous, yes, value, error):
    estimate = MLE()(survey(designs.unrelated_question(0.5, innocuous), [710 - yes, yes]))
    assert estimate.distribution[1] == pytest.approx(value, abs=6e-6)
    assert estimate.standard_error == pytest.approx([error, error], abs=6e-7)
    assert estimate.gap <= 1e-6


def test_eriksson():
    protocol = designs.forced_response(0.5, [1, 1, 0, 1, 1, 1, 0, 0, 0, 0])
    estimate = MLE()(survey(protocol, [31, 19, 1, 17, 10, 17, 3, 1, 1, 2]))
    printed = [0.406522, 0.171739, 0.019565, 0.132609, 0, 0.132609, 0.058696, 0.019565, 0.019565, 0.03913]
    assert estimate.distribution == pytest.approx(printed, abs=1e-6)
    rows = survey(protocol, [31, 19, 1, 17, 10, 17, 3, 1, 1, 2]).rows
    assert maximize(rows, method="quasi-newton").p == pytest.approx(printed, abs=1e-6)
    assert np.isnan(estimate.standard_error).tolist() == [x == 4 for x in range(10)]
    assert "1 of 10 categories" in estimate.outcome


def test_nigeria():
    estimate = MLE()(read_collection(DATA / "rr_nigeria.toml"))
    assert estimate.distribution[1] == pytest.approx(0.26191, abs=6e-6)
    assert estimate.standard_error[1] == pytest.approx(0.014413, abs=6e-7)


def test_minarets():
    parts = [
        Tally(designs.stochastic_lie_detector(1 / 6), [0, 1], [191, 373], "one"),
        Tally(designs.stochastic_lie_detector(5 / 6), [0, 1], [294, 398], "two"),
    ]
    data = collection(*parts)
    estimate = MLE()(data)
    assert estimate.distribution == pytest.approx([0.553594, 0.317102, 0.129305], abs=1e-6)
    covariance = information_covariance(data.rows, estimate.distribution)
    carriers = np.array([1, 1, 0])
    variance = carriers @ covariance @ carriers
    shares = np.array([191 / 564, 294 / 692])
    assert variance == pytest.approx(2.25 * (shares * (1 - shares) / [564, 692]).sum(), rel=1e-9)
    # The printed 0.041118 divides by n − 1 in each group, where the information says n.
    printed = variance + 2.25 * (shares * (1 - shares) / ([563, 691] * np.array([564, 692]))).sum()
    assert np.sqrt(printed) == pytest.approx(0.041118, abs=6e-7)
    assert covariance.sum(axis=1) == pytest.approx(np.zeros(3), abs=1e-15)


# ---- standard errors --------------------------------------------------------------------------------------------------
def test_covariance_is_the_inverse_of_the_curvature_along_free_directions():
    rows = unary_rows(5, 4000, 2.0, 3)
    p = maximize(rows, tolerance=1e-10).p
    basis = np.linalg.qr(np.eye(5)[:, :4] - 0.2)[0]
    curvature, h = np.zeros((4, 4)), 1e-4
    for i in range(4):
        for j in range(4):
            moves = [(s * basis[:, i] + t * basis[:, j]) * h for s in (1, -1) for t in (1, -1)]
            a, b, c, d = (rows.log_likelihood(p + move) for move in moves)
            curvature[i, j] = -(a - b - c + d) / (4 * h * h)
    by_differences = basis @ np.linalg.inv(curvature) @ basis.T
    assert information_covariance(rows, p) == pytest.approx(by_differences, rel=1e-3, abs=1e-9)


def test_approximate_errors_are_close_and_said_to_be_approximate(monkeypatch):
    rows = unary_rows(30, 30_000, 1.0, 4)
    p = maximize(rows).p
    exact, is_exact = base.standard_errors(rows, p)
    monkeypatch.setattr(base, "EXACT_INFORMATION_OPERATIONS", 0)
    near, near_exact = base.standard_errors(rows, p)
    assert is_exact and not near_exact
    assert near == pytest.approx(exact, rel=0.03, nan_ok=True)
    assert any("approximations" in note for note in mle._error_notes(p, near, near_exact))


def test_separable_errors_are_exact_at_any_size():
    tally = np.random.default_rng(0).multinomial(50_000, np.full(50, 0.02))
    rows = IdentityRows(np.arange(50), 3.0, tally, 50)
    p = maximize(rows).p
    quick, is_exact = base.standard_errors(rows, p)
    assert is_exact
    assert quick == pytest.approx(np.sqrt(np.diag(information_covariance(rows, p))), rel=1e-9, nan_ok=True)


def test_unidentified_categories_have_no_standard_error():
    matrix = [[0.6, 0.6, 0.1], [0.4, 0.4, 0.9]]
    with pytest.raises(ArgumentError):
        _ = Channel(matrix).decoder().inverse
    estimate = MLE()(survey(Channel(matrix), [300, 400]))
    assert estimate.gap <= 1e-6
    assert np.isnan(estimate.standard_error[:2]).all() and np.isfinite(estimate.standard_error[2])
    assert "2 of 3 categories" in estimate.outcome
    assert estimate.distribution[0] == pytest.approx(estimate.distribution[1], abs=1e-6)  # the analytic centre


def test_a_vertex_has_no_standard_errors():
    estimate = MLE()(survey(GRR(4, 0.01), [9, 1, 1, 1]))
    assert estimate.distribution.tolist() == [1, 0, 0, 0]
    assert np.isnan(estimate.standard_error).all()


def test_sparse_estimates_from_almost_nothing_are_called_so():
    rng = np.random.default_rng(8)
    weak = survey(GRR(50, 0.02), rng.multinomial(400, np.full(50, 0.02)))
    assert "uniform distribution" in MLE()(weak).outcome
    strong = survey(GRR(50, 4.0), np.append(np.full(40, 20), np.full(10, 2000)))
    assert "uniform" not in MLE()(strong).outcome


# ---- hard problems ----------------------------------------------------------------------------------------------------
@pytest.mark.sampled(4)
@pytest.mark.calibrated("True-40-3000-0.3", "True-40-3000-1.0")
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 8.0, 20.0])
@pytest.mark.parametrize("size, n", [(3, 1), (40, 1), (40, 15), (40, 3000)])
@pytest.mark.parametrize("concentrated", [False, True])
def test_stress_set_is_certified(epsilon, size, n, concentrated):
    p = np.full(size, 0.01 / (size - 1)) if concentrated else np.random.default_rng(size).dirichlet(np.ones(size))
    p[0] += 1 - p.sum()
    rows = unary_rows(size, n, epsilon, 7, p)
    for method in ("auto", "newton", "quasi-newton"):
        solution = maximize(rows, method=method)
        assert solution.gap <= 1e-6, method


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 12.0])
def test_rank_deficient_cohorts_are_certified(epsilon):
    rng = np.random.default_rng(11)
    member = [rng.permutation(60) % 4 == rng.integers(4) for _ in range(6)]
    support = np.concatenate([np.stack([m, ~m]) for m in member])
    rows = DenseRows(1 + np.expm1(epsilon) * support, rng.integers(1, 5000, len(support)))
    for method in ("auto", "newton", "quasi-newton"):
        assert maximize(rows, method=method).gap <= 1e-6, method


@pytest.mark.sampled(3)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("mass", [None, 0.5])
def test_fewer_rows_than_categories_are_certified(epsilon, mass):
    rng = np.random.default_rng(4)
    rows = DenseRows(1 + np.expm1(epsilon) * (rng.random((12, 200)) < 0.3), rng.integers(1, 3000, 12))
    mass = None if mass is None else np.full(200, mass)
    solution = maximize(rows, mass, method="newton")
    assert solution.gap <= 1e-6 and solution.gap == pytest.approx(certificate(rows, solution.p, mass), abs=1e-9)
    if mass is None:
        assert np.isnan(base.standard_errors(rows, solution.p)[0]).any()


@pytest.mark.parametrize("method", ["newton", "quasi-newton"])
def test_noiseless_channels(method):
    rows = survey(designs.direct(5), [50, 30, 0, 20, 1000]).rows
    assert maximize(rows, method=method).p == pytest.approx(np.array([50, 30, 0, 20, 1000]) / 1100, abs=1e-6)


def test_stacked_levels_of_privacy_agree_with_cvxpy():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(6))
    parts = []
    for epsilon, n in [(0.3, 4000), (1.5, 500), (4.0, 60)]:
        protocol = GRR(6, epsilon)
        parts.append(protocol.rows(np.arange(6), np.maximum(rng.multinomial(n, protocol.channel() @ p), 1)))
    rows = StackedRows(parts)
    found, reference = maximize(rows), conic(rows)
    assert found.gap <= 1e-6
    assert found.p == pytest.approx(reference.p, abs=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_protocol(case):
    protocol = case.build(case.categories[-1], 1.0)
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(protocol.n_categories))
    reports, counts = protocol.simulate(rng.multinomial(3000, p), rng)
    data = collection(Tally(protocol, reports, counts))
    estimate = MLE()(data)
    assert estimate.gap <= 1e-6 and "Certified" in estimate.outcome
    reference = conic(data.rows)
    assert estimate.log_likelihood == pytest.approx(data.rows.log_likelihood(reference.p), abs=1e-4)


def test_quasi_newton_on_a_few_thousand_reports_needs_few_passes():
    solution = maximize(unary_rows(128, 10_000, 1.0, 5), method="quasi-newton")
    assert solution.gap <= 1e-6 and solution.passes <= 16


def test_auto_falls_back_on_newton(monkeypatch):
    rows = unary_rows(20, 500, 1.0, 3)
    poor = mle.Solution(np.full(20, 0.05), 1.0, "quasi-newton", 1, 2.0)
    monkeypatch.setattr(mle, "SMALL_NEWTON_OPERATIONS", 0)
    monkeypatch.setattr(mle, "quasi_newton", lambda *args: poor)
    assert maximize(rows).method == "newton"
    monkeypatch.setattr(mle, "LARGE_NEWTON_OPERATIONS", 0)
    assert maximize(rows) is poor


def test_auto_falls_back_from_newton(monkeypatch):
    rows = unary_rows(20, 50, 1.0, 3)
    poor = mle.Solution(np.full(20, 0.05), 1.0, "newton", 1, 2.0)
    monkeypatch.setattr(mle, "newton", lambda *args: poor)
    solution = maximize(rows)
    assert solution.method == "quasi-newton" and solution.gap <= 1e-6


# ---- constraints ------------------------------------------------------------------------------------------------------
def monotone(p):
    return [p[:-1] >= p[1:]]


def test_constraints_are_met_and_certified():
    import cvxpy as cp

    data = survey(designs.forced_response(0.4, [1, 2, 1, 3, 1]), [40, 45, 30, 90, 22])
    estimate = MLE(constraints=monotone, tolerance=1e-5)(data)
    assert (np.diff(estimate.distribution) <= 1e-7).all()
    p = cp.Variable(5, nonneg=True)
    objective = data.rows.counts @ cp.log(data.rows.dense() @ p)
    best = cp.Problem(cp.Maximize(objective), [cp.sum(p) == 1, *monotone(p)]).solve(solver=cp.CLARABEL)
    assert estimate.log_likelihood == pytest.approx(best, abs=2e-5)
    assert estimate.standard_error is None and "under constraints" in estimate.outcome


def test_known_margin_and_bounds():
    data = survey(designs.forced_response(0.5, [1, 1, 1, 1]), [100, 80, 60, 200])
    estimate = MLE(constraints=lambda p: [p[0] + p[1] == 0.5, p[3] <= 0.4], tolerance=1e-5)(data)
    assert estimate.distribution[:2].sum() == pytest.approx(0.5, abs=1e-7)
    assert estimate.distribution[3] <= 0.4 + 1e-7


def test_constraints_that_nothing_meets():
    with pytest.raises(InfeasibleError, match=r"distribution.*constraints"):
        MLE(constraints=lambda p: [p[0] >= 2])(survey(GRR(3, 1.0), [3, 4, 5]))


@pytest.mark.parametrize("wrong", [lambda p: [p[0] * p[1] >= 0.1], lambda p: [1.0], lambda p: "monotone"])
def test_constraints_must_be_convex(wrong):
    with pytest.raises(ArgumentError, match="constraints must"):
        MLE(constraints=wrong)(survey(GRR(3, 1.0), [3, 4, 5]))


def test_constraints_that_make_a_report_impossible():
    with pytest.raises(InfeasibleError, match="exclude every"):
        MLE(constraints=lambda p: p[0] == 0)(survey(Channel(np.eye(3)), [3, 4, 5]))


# ---- failures and settings ---------------------------------------------------------------------------------------------
def test_stopping_early_is_said():
    rng = np.random.default_rng(1)
    data = survey(Channel(rng.dirichlet(np.ones(30), size=12).T), rng.integers(1, 90, 30))
    with pytest.warns(DiagnosticWarning, match=r"Stopped early.*certificate") as caught:
        estimate = MLE(max_iterations=1)(data)
    assert estimate.gap > 1e-6 and str(caught[0].message) in estimate.outcome


@each_row(
    "settings, message",
    [
        ({"tolerance": 0}, "tolerance must"),
        ({"max_iterations": 0}, "max_iterations must"),
        ({"constraints": 3}, "constraints must"),
        ({"constraints": monotone, "prior": 2.0}, "without a prior"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ArgumentError, match=message):
        MLE(**settings)


def test_priors_that_do_not_apply():
    data = survey(designs.forced_response(0.5, [1, 2, 3]), [3, 4, 5])
    with pytest.raises(ArgumentError, match="concentration per"):
        MLE(prior=[1.0, 2.0])(data)


def test_exact_methods_load_no_cvxpy():
    code = (
        "import sys, numpy as np; from ldpbayes.estimators.mle import MLE; from ldpbayes.estimators.oracle import Oracle\n"
        "from ldpbayes.protocols import designs; from ldpbayes.collections import Collection, Tally\n"
        "data = Collection(['a', 'b'], [Tally(designs.warner(0.7), [0, 1], [60, 40])]); MLE()(data); Oracle()(data)\n"
        "assert not {'cvxpy', 'pymc', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("matrix", [[[0.3, 0.3], [0.7, 0.7]], [[0.3, 0.3, 0.3], [0.7, 0.7, 0.7]]])
def test_unidentified_channels_have_no_standard_error(matrix):
    """Two categories got one of 5.7e14: the rounding of an information that is zero."""
    survey = Collection("abc"[: len(matrix[0])], [Tally(Channel(matrix), [0, 1], [30, 70])])
    estimate = MLE()(survey)
    assert np.isnan(estimate.standard_error).all()
    assert "standard error" in estimate.outcome


@pytest.mark.parametrize("epsilon", [1e-3, 1e-5, 1e-6])
def test_weak_channels_keep_their_standard_error(epsilon):
    """(a + β)/β times the binomial error, as long as double precision can tell the information from none."""
    estimate = MLE()(Collection("ab", [Tally(GRR(2, epsilon), [0, 1], [5000, 5000])]))
    expected = (2 + math.expm1(epsilon)) / math.expm1(epsilon) * 0.005
    assert estimate.standard_error == pytest.approx([expected, expected], rel=1e-3)
