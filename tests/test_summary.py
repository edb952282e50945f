"""Summaries against the likelihood they stand for: at the pilot, near it, in sums of cells, and refusals."""

import numpy as np
import pytest
from cases import CASES
from tabulated import each_row

from ldpbayes import Cells, Tally, read, write
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods import DenseRows, StackedRows, Summary

#: Protocols whose supports are exchangeable, or nearly: over the simplex their Hessian is nearly a diagonal. With few public
#: hash functions, filters or attributes it is not, and the expansion is only right at the pilot.
SMOOTH = {"grr", "warner", "sue", "oue", "dual", "unary-rates", "subset", "olh", "blh", "olh-xxhash", "mixture"}
PAIRS = [(case, a) for case in CASES for a in case.categories]


def reports(protocol, n=20_000, seed=0):
    """Return (rows, p) of simulated reports."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(protocol.n_categories, 2.0))
    return Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng)).rows, p


def nearby(rows, p, size=200, seed=1):
    """Return draws from the Gaussian that the likelihood is about, shape (a, size)."""
    a = p.size
    tangent = np.eye(a) - 1 / a
    hessian = tangent @ rows.gram(rows.counts / rows.matvec(p) ** 2) @ tangent
    moved = np.random.default_rng(seed).multivariate_normal(p, np.linalg.pinv(hessian), size).T
    moved = np.maximum(moved, 1e-9)
    return moved / moved.sum(axis=0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("case", "a"), PAIRS, ids=str)
def test_every_protocol_at_and_near_the_pilot(case, a):
    rows, p = reports(case.build(a, 1.0))
    summary = Summary.of(rows, p)
    value, gradient = rows.value_and_gradient(p)
    found = summary.value_and_gradient(p)
    assert found[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-12)
    weights = rows.counts / rows.matvec(p) ** 2
    np.testing.assert_allclose(summary.square, rows.rmatvec(weights, 2), rtol=1e-12)
    np.testing.assert_allclose(summary.cross, rows.gram(weights).sum(axis=1), rtol=1e-10)
    assert summary.log_likelihood(p) == pytest.approx(rows.log_likelihood(p), rel=1e-12)
    assert summary.n_reports == rows.n_reports
    np.testing.assert_array_equal(summary.support_counts(), rows.support_counts())
    draws = nearby(rows, p)
    error = summary.log_likelihood(draws) - rows.log_likelihood(draws)
    if case.name in SMOOTH:  # log weights of importance sampling: a sd of 0.1 costs one draw in a hundred
        assert error.std() < 0.06 < 0.5 < rows.log_likelihood(draws).std()


@pytest.mark.parametrize("with_spread", [False, True])
def test_derivatives_are_those_of_the_value(with_spread):
    rows, p = reports(CASES[2].build(5, 2.0), 500)
    summary = Summary.of(rows, p, 0.01 * p**2 if with_spread else None)
    rng = np.random.default_rng(3)
    q, step = rng.dirichlet(np.ones(5)), 1e-4
    ahead = np.array([summary.value_and_gradient(q + step * e)[0] for e in np.eye(5)])
    behind = np.array([summary.value_and_gradient(q - step * e)[0] for e in np.eye(5)])
    value, gradient = summary.value_and_gradient(q)
    np.testing.assert_allclose(gradient, (ahead - behind) / (2 * step), rtol=1e-6)
    np.testing.assert_allclose(summary.curvature(q), (2 * value - ahead - behind) / step**2, rtol=1e-3)
    np.testing.assert_allclose(summary.log_likelihood(np.stack([q, p], axis=1))[0], value + summary.log_constant)


def test_two_categories_have_their_exact_curvature():
    rows, _ = reports(CASES[1].build(2, 1.0), 3000)
    p = np.array([0.3, 0.7])
    summary, along = Summary.of(rows, p), np.array([1.0, -1.0])
    exact = along @ rows.gram(rows.counts / rows.matvec(p) ** 2) @ along
    assert summary.tangent_curvature.sum() == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("pilot", [[0.5, 0.5, 0, 0, 0], [0.3, 0.7, 0, 0, 0], [0.61, 0.38, 0.01, 0, 0]])
def test_pilots_on_few_categories_keep_a_positive_curvature(pilot):
    """For GRR the Hessian is diag(D) + f1ᵀ + 1fᵀ exactly, wherever the pilot sits."""
    rows, _ = reports(CASES[0].build(5, 1.0))
    pilot = np.array(pilot)
    summary = Summary.of(rows, pilot)
    hessian = rows.gram(rows.counts / rows.matvec(pilot) ** 2)
    for x in range(5):
        for y in range(x):
            along = np.eye(5)[x] - np.eye(5)[y]
            assert along**2 @ summary.tangent_curvature == pytest.approx(along @ hessian @ along, rel=1e-9)


def test_gradient_with_a_spread_is_the_mean_gradient_over_it():
    rows, p = reports(CASES[2].build(5, 3.0), 400)
    p, spread = (p + 0.2) / 2, 1e-3 * np.array([1.0, 2, 1, 3, 1])
    rng = np.random.default_rng(5)
    free = rng.normal(size=(5, 4000)) * np.sqrt(spread)[:, None]
    steps = free - spread[:, None] / spread.sum() * free.sum(axis=0)  # independent, given that they add up to 0
    u = rows.matvec(p[:, None] + steps)
    mean = rows.rmatvec(rows.counts[:, None] / u)
    error = mean.std(axis=1) / np.sqrt(4000)
    assert (np.abs(Summary.of(rows, p, spread).gradient - mean.mean(axis=1)) < 4 * error).all()
    assert (np.abs(Summary.of(rows, p).gradient - mean.mean(axis=1)) > 4 * error).any()


def test_sums_of_cells_are_the_summary_of_all_reports():
    protocol = CASES[2].build(5, 1.5)
    (first, p), (second, _) = reports(protocol, 300, 1), reports(protocol, 500, 2)
    for spread in (None, 0.01 * p**2):
        parts = [Summary.of(rows, p, spread) for rows in (first, second)]
        whole = Summary.of(StackedRows([first, second]), p, spread)
        for total in (parts[0] + parts[1], sum(parts)):
            for name in ("n_reports", "value", "gradient", "square", "cross", "log_constant", "supports"):
                np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12, err_msg=name)
            # D is linear in the sums: the curvature of the sum is the sum of the curvatures.
            added = sum(part.tangent_curvature for part in parts)
            np.testing.assert_allclose(total.tangent_curvature, added, rtol=1e-9)
            np.testing.assert_allclose(total.tangent_curvature, whole.tangent_curvature, rtol=1e-9)


def test_a_summary_holds_no_reports():
    rows, p = reports(CASES[2].build(5, 1.5), 300)
    summary = Summary.of(rows, p)
    assert (summary.rows(), summary.separable(), summary.sampler()) == (None, None, None)
    with pytest.raises(ArgumentError, match="second pass"):
        Summary.of(summary, p)


@each_row(
    "pilot, spread, words",
    [
        ([0.5, 0.5], None, r"per category \(5\)"),
        ([0.5, 0.5, 0.5, 0, 0], None, "sum to 1"),
        ([1.2, -0.2, 0, 0, 0], None, "non-negative"),
        ([np.nan, 1, 0, 0, 0], None, "non-negative"),
        ([0.2] * 5, [0.1] * 4, "5 variances"),
        ([0.2] * 5, [-0.1] * 5, "not negative"),
    ],
)
def test_pilots_that_do_not_fit_are_refused(pilot, spread, words):
    rows, _ = reports(CASES[2].build(5, 1.5), 30)
    with pytest.raises(ArgumentError, match=words):
        Summary.of(rows, pilot, spread)


def test_a_pilot_that_rules_a_report_out_is_refused():
    rows = DenseRows(np.eye(3)[:2], [3, 4])
    with pytest.raises(ArgumentError, match="probability above 0"):
        Summary.of(rows, [1.0, 0.0, 0.0])


def test_summaries_at_different_pilots_do_not_add_up():
    rows, p = reports(CASES[2].build(5, 1.5), 300)
    one = Summary.of(rows, p)
    for other in (Summary.of(rows, np.full(5, 0.2)), Summary.of(rows, p, 0.01 * p**2)):
        with pytest.raises(ArgumentError, match=r"pilot.*spread"):
            one + other


def test_summaries_that_no_scan_made_are_written_and_read(tmp_path):
    rows, p = reports(CASES[0].build(4, 1.0))
    cells = Cells({"x": Summary.of(rows, p), "y": Summary.of(rows, np.full(4, 0.25))}, by="day", categories=[*"abcd"])
    write(cells, tmp_path / "cells.parquet")
    found = read(tmp_path / "cells.parquet")
    assert (found.by, found.categories, list(found)) == (("day",), tuple("abcd"), list(cells))
    for name in ("pilot", "gradient", "cross", "value"):
        np.testing.assert_array_equal(getattr(found["y"], name), getattr(cells["y"], name))
    with pytest.raises(ArgumentError, match=r"path must.*\.parquet"):
        write(cells, tmp_path / "cells.toml")
