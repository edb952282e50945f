"""The density of a regression: derivatives by differences, and the likelihood of cells a second way."""

import numpy as np
import pandas as pd
import pytest

import ldpbayes as lb
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
    labels = [str(x) for x in range(protocol.n_categories)]
    columns = {"design": None, "count": "n", "weights": None, "categories": labels}
    formula = Formula.parse(formula)
    design, reports, _ = _read(formula, table(protocol, n, repeats), protocol, "report", "refuse", columns)
    return Model.of(design, reports, None, None)


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
