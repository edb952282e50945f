"""The density of a regression: derivatives by differences, and the likelihood of cells a second way."""

import numpy as np
import pandas as pd
import pytest
from samples import regression_model

import ldpbayes as lb
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.inference.diagnostics import chain_diagnostics, extremes
from ldpbayes.inference.effects import reported
from ldpbayes.priors.regression import Effects, Regression
from ldpbayes.protocols.designs import warner
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.regression.fitting import Model, _read
from ldpbayes.regression.formula import Formula

PROTOCOLS = {
    "warner": warner(0.7),
    "grr": lb.GRR(4, 1.5),
    "oue": UnaryEncoding.optimized(3, 1.0),
    "open": lb.protocols.Channel(np.eye(3)),
}


def table(protocol, n=300, repeats=True, seed=0):
    """Return users of three groups with reports that do not depend on them."""
    rng = np.random.default_rng(seed)
    value = rng.integers(0, protocol.n_categories, n)
    (report,) = protocol.format_reports(protocol.privatize(value, rng), [str(x) for x in range(protocol.n_categories)])
    x = rng.integers(0, 4, n) if repeats else rng.standard_normal(n)
    return pd.DataFrame({"x": x, "g": rng.choice(["u", "v", "w"], n), "report": report, "n": rng.integers(0, 4, n)})


def model(name, formula="answer ~ x + (1|g) + (x|g)", repeats=True, n=300):
    protocol = PROTOCOLS[name]
    return regression_model(formula, table(protocol, n, repeats), protocol, "n")


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_derivatives(name, repeats):
    target = model(name, repeats=repeats, n=120).target
    z = 0.6 * np.random.default_rng(1).standard_normal(target.prior.n_unknowns)
    steps = 1e-5 * np.eye(z.size)
    up, down = zip(*((target.value_and_gradient(z + s), target.value_and_gradient(z - s)) for s in steps), strict=True)
    numeric = np.array([a[0] - b[0] for a, b in zip(up, down, strict=True)]) / 2e-5
    np.testing.assert_allclose(target.value_and_gradient(z)[1], numeric, rtol=1e-6, atol=1e-5)
    numeric = np.array([a[1] - b[1] for a, b in zip(up, down, strict=True)]) / 2e-5
    np.testing.assert_allclose(target.hessian(z), numeric, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_many_points_are_single_points_and_the_likelihoods_of_the_cells(name, repeats):
    found = model(name, repeats=repeats)
    target, prior = found.target, found.prior
    z = 0.8 * np.random.default_rng(2).standard_normal((7, prior.n_unknowns))
    value, shares, expected = target.likelihoods(z, tallies=True)
    single = [target.value_and_gradient(one)[0] - prior.log_density(one) + target.reports.constant for one in z]
    np.testing.assert_allclose(value, single, rtol=1e-11)
    p = prior.to_simplex(z)
    np.testing.assert_allclose(shares, np.einsum("c,kcx->kx", target.reports.sizes, p), rtol=1e-10)
    frame = (
        found.design.frame.iloc[found.design.pattern]
        .reset_index(drop=True)
        .assign(cell=found.cell, report=table(PROTOCOLS[name], repeats=repeats)["report"], n=found.reports.count.astype(int))
    )
    labels = list(prior.categories)
    cells = lb.read(frame[frame["n"] > 0], PROTOCOLS[name], report="report", count="n", categories=labels, by="cell")
    each = [(cells[key].likelihood, p[:, key[0]]) for key in cells]
    np.testing.assert_allclose(value, sum(one.log_likelihood(q.T) for one, q in each), rtol=1e-10)
    tallies = sum(np.array([q_ * one.value_and_gradient(q_)[1] for q_ in q]) for one, q in each)
    np.testing.assert_allclose(expected, tallies, rtol=1e-8)


def test_extreme_unknowns_stay_finite():
    for name in ("warner", "grr"):
        target = model(name).target
        value, shares, _ = target.likelihoods(40 * np.random.default_rng(3).standard_normal((5, target.prior.n_unknowns)))
        assert np.isfinite(value).all() and np.isfinite(shares).all()


def test_distinct_rows_do_not_depend_on_the_order_of_columns():
    from ldpbayes.regression.table import distinct_rows

    a, b = np.array([1.0, 1, 2, 2, 1]), np.array(["x", "y", "x", "x", "x"], dtype=object)
    first, code = distinct_rows([a, b], 5)
    assert first.tolist() == [0, 1, 2] and code.tolist() == [0, 1, 2, 2, 0]
    assert distinct_rows([], 3)[1].tolist() == [0, 0, 0]


def many_groups(n, groups, seed=1):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    odds = -0.5 + rng.normal(0, 0.5, groups)[group]
    truth = rng.random(n) < 1 / (1 + np.exp(-odds))
    said = np.where(rng.random(n) < np.e / (1 + np.e), truth, ~truth).astype(int)
    return pd.DataFrame({"g": group.astype(str), "report": said})


def of_groups(groups):
    columns = {"design": None, "count": None, "weights": None}
    formula, data = Formula.parse("report ~ (1 | g)"), many_groups(600, groups)
    design, reports, *_ = _read(formula, data, lb.GRR(2, 1.0), None, "refuse", columns)
    return Model.of(design, reports, None, None)


@pytest.mark.parametrize("groups", [5, 70])
def test_groups_of_one_factor_do_not_meet_in_the_curvature(groups):
    """The coordinates come from blocks: their covariance is the inverse of the whole Hessian."""
    model = of_groups(groups)
    target, size = model.target, model.prior.n_unknowns
    assert model.prior.disjoint() == (2, 1) and size == groups + 2
    z, rest = np.random.default_rng(2).normal(0, 0.3, size), target.rest

    def given_the_scale(at):
        return target.value_and_gradient(np.r_[at[:1], z[1], at[1:]])[1][rest]

    coordinates = target.whitened(given_the_scale, z, rest)
    rooted = coordinates.of(np.eye(size - 1)) - z[rest]
    precision = -target.hessian(z)[np.ix_(rest, rest)]
    np.testing.assert_allclose(rooted.T @ rooted @ precision, np.eye(size - 1), atol=1e-4)


def test_chains_go_on_for_what_a_result_reports():
    """Effects and the log of their sd may each have met where their product, the effect of a group, has not."""
    prior, rng = of_groups(5).prior, np.random.default_rng(3)
    z = rng.standard_normal((4, 1000, prior.n_unknowns))
    (batch,) = prior.varying
    z[0, :, batch.place] = np.sort(z[0, :, batch.place])
    z[0, :, batch.span.start] = np.sort(z[0, :, batch.span.start])  # in the first chain they rise together
    mixed = rng.permutation(1000)
    z[0] = z[0, mixed]
    r_hat, _ = extremes(chain_diagnostics(z))
    values = reported(prior, z)
    assert values.shape == (4, 1000, 2 * (1 + 5) + 1) and r_hat < 1.01
    assert extremes(chain_diagnostics(values))[0] > 1.01


@pytest.mark.parametrize("levels", [3, 40])
def test_effects_of_levels_are_the_product_with_their_matrix(levels):
    rng, level = np.random.default_rng(1), np.random.default_rng(2).integers(0, levels, 90)
    matrix = np.zeros((90, levels))
    matrix[np.arange(90), level] = rng.standard_normal(90) * rng.integers(0, 2, 90)  # of some cells zero
    matrix[:, 0] += 1  # a walk between levels, say: two entries in a row
    design = np.column_stack([np.ones(90), rng.standard_normal(90)])
    prior = Regression(design, n_categories=3, effects=(Effects("g", tuple(map(str, range(levels))), matrix),))
    z = rng.standard_normal((5, prior.n_unknowns))
    values = prior.values(z)
    effects = values["sd_0"][..., None] / np.sqrt(2) * values["effects_0"]
    expected = (prior.columns @ values[""] + matrix @ effects) @ prior.basis.T
    np.testing.assert_allclose(prior.logits_of(z), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(prior.logits_of(z[0]), expected[0], rtol=1e-12, atol=1e-12)


def test_a_factor_of_many_weak_levels_as_plain_columns_is_announced():
    said = r"^g has 50 levels, each with .* and few reports.* \(1 \| g\) estimates them together, in less\.$"
    with pytest.raises(DiagnosticWarning, match=said):  # warnings are errors here, so that nothing is fitted
        lb.regress(many_groups(500, 50), "report ~ g", protocol=lb.GRR(2, 1.0), random_seed=1)
    lb.regress(many_groups(60_000, 50), "report ~ g", protocol=lb.GRR(2, 4.0), random_seed=1)  # strong levels take a second


@pytest.mark.calibrate
def test_a_factor_of_four_hundred_groups_with_five_reports_each_is_trusted():
    found = lb.regress(many_groups(2000, 400), "report ~ (1 | g)", protocol=lb.GRR(2, 1.0), random_seed=1)
    assert found.attrs["converged"] and found.attrs["method"] == "hmc"
    assert 0.1 < float(found["posterior"]["1|g_sigma"].mean()) < 1.0
