"""Monotone effects and walks that differ by a factor, smooths, and factor(x): coding, priors, gradients and predictions."""

import numpy as np
import pandas as pd
import pytest
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols.designs import warner
from ldpbayes.regression.design import Design
from ldpbayes.regression.fitting import Model
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.reports import Asked, read_reports

DEVICE = warner(0.9)


def truth_of(frame):
    """Return the share of each row."""
    eta = np.sin(frame["age"] / 10) + np.where(frame["sex"] == "m", 0.5, -0.3) * (frame["edu"] - 3)
    return 1 / (1 + np.exp(-eta))


@pytest.fixture(scope="module")
def survey():
    rng = np.random.default_rng(1)
    n = 6000
    columns = {"age": rng.integers(18, 80, n), "sex": rng.choice(["f", "m"], n), "edu": rng.integers(1, 6, n)}
    frame = pd.DataFrame(columns)
    return frame.assign(sent=DEVICE.privatize((rng.random(n) < truth_of(frame)).astype(int), rng))


def model_of(survey, formula, **settings):
    """Return the model that regress fits."""
    parsed = Formula.parse(formula)
    asked = Asked.of(survey, DEVICE, "sent", parsed.answer)
    reports = read_reports(survey, np.ones(len(survey), bool), asked, parsed.answer)
    return Model.of(Design(parsed, survey[list(parsed.variables)]), reports, None, None, **settings)


#: Formulas, the names of their effects, and common terms.
CODED = {
    "y ~ sex*mo(edu)": (["mo(edu)", "sex[m]:mo(edu)"], ["Intercept", "sex[m]"]),
    "y ~ sex + sex:mo(edu)": (["sex[f]:mo(edu)", "sex[m]:mo(edu)"], ["Intercept", "sex[m]"]),
    "y ~ sex*rw(edu)": (["rw(edu)", "sex[m]:rw(edu)"], ["Intercept", "sex[m]"]),
    "y ~ sex/mo(edu)": (["sex[f]:mo(edu)", "sex[m]:mo(edu)"], ["Intercept", "sex[m]"]),
    "y ~ age*mo(edu)": (["mo(edu)", "age:mo(edu)"], ["Intercept", "age"]),
    "y ~ sex*s(age) + mo(edu)": (["s(age)", "mo(edu)", "sex[m]:s(age)"], ["Intercept", "sex[m]"]),
    "y ~ factor(edu)*mo(age)": (["mo(age)", *(f"factor(edu)[{k}]:mo(age)" for k in (2, 3, 4, 5))], None),
}


@pytest.mark.parametrize("formula", CODED)
def test_coding_gradients_and_reported_effects(survey, formula):
    names, terms = CODED[formula]
    model = model_of(survey, formula)
    assert [group.name for group in model.design.columns.groups] == names
    assert terms is None or list(model.prior.terms) == terms
    prior, rng = model.prior, np.random.default_rng(0)
    z = 0.5 * rng.standard_normal(prior.n_unknowns)
    slope = rng.standard_normal(prior.shape)
    h = 1e-6 * np.eye(z.size)
    differences = [(slope * (prior.logits_of(z + d) - prior.logits_of(z - d))).sum() / 2e-6 for d in h]
    np.testing.assert_allclose(prior.pullback_logits(z, slope), differences, rtol=1e-5, atol=1e-5)
    # What is reported adds up to the log odds.
    variables, first = prior.variables(z[None]), model.design.cells[0]
    eta = model.design.columns.common[first] @ variables["coefficients"][1]
    for group in model.design.columns.groups:
        eta = eta + group.times(variables[group.name][1], slice(None))[:, first]
    logits = prior.logits_of(z)
    np.testing.assert_allclose(np.diff(eta[0], axis=1), np.diff(logits, axis=1), atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*prior")
@pytest.mark.parametrize(
    "formula", ["y ~ sex*mo(edu) + s(age)", pytest.param("y ~ sex*rw(edu) + rw(age)", marks=pytest.mark.calibrate)]
)
def test_predictions_are_near_the_truth(survey, formula):
    found = lb.regress(survey, formula, DEVICE, report="sent", random_seed=1, draws=250)
    assert found.attrs["converged"]
    grid = pd.DataFrame([(a, s, e) for a in (25, 40.5, 60) for s in "fm" for e in (1, 3, 5)], columns=["age", "sex", "edu"])
    shares = lb.predictions(found, grid).sel(category="yes")
    off = (shares["mean"].values - truth_of(grid)) / shares["sd"].values
    assert np.sqrt((off**2).mean()) < 1.6 and np.abs(shares["mean"].values - truth_of(grid)).max() < 0.1
    whole = lb.predictions(found).sel(category="yes")
    mean = np.average(whole["mean"], weights=whole["n_reports"])
    assert mean == pytest.approx(found["summary"]["mean"].sel(target="distribution", category="yes").item(), abs=1e-3)


def test_a_monotone_effect_that_differs_of_two_levels_is_a_factor(survey):
    pairs = survey.assign(edu=survey["edu"] // 3)
    settings = {"report": "sent", "random_seed": 1}
    found, factor = (lb.regress(pairs, f"y ~ sex*{of}(edu)", DEVICE, **settings) for of in ("mo", "C"))
    grid = pd.DataFrame({"sex": ["f", "f", "m", "m"], "edu": [0, 1, 0, 1]})
    one, two = (lb.predictions(fit, grid)["mean"].sel(category="yes") for fit in (found, factor))
    np.testing.assert_allclose(one, two, atol=0.003)


def test_without_a_column_of_its_factor_a_monotone_effect_starts_at_zero(survey):
    model = model_of(survey, "y ~ mo(edu) + sex:mo(edu)")
    own, other = model.prior.monotone
    assert own.root[0].max() < 0 and not other.root[0].any()


def test_a_smooth_has_unit_sd_over_the_values(survey):
    (effect,) = model_of(survey, "y ~ s(age)").prior.effects
    design = model_of(survey, "y ~ s(age)").design
    (group,), levels = design.columns.groups, np.sort(design.frame["age"].unique())
    curves = group.basis[np.argsort(design.frame["age"].to_numpy())] @ effect.root
    assert curves.shape == (62, 17) and len(levels) == 62  # 62 // 4 pieces, 3 functions more, one direction less
    np.testing.assert_allclose(curves.mean(axis=0), 0, atol=1e-12)
    assert (curves**2).sum(axis=1).mean() == pytest.approx(1)
    few = model_of(survey, "y ~ s(age, k=6)").prior.effects[0]
    assert few.root.shape == (6, 5)


def test_a_smooth_ends_where_the_data_do_and_has_slopes(survey, tmp_path):
    found = lb.regress(survey, "y ~ s(age)", DEVICE, report="sent", random_seed=1, draws=100)
    lb.save(found, tmp_path / "found.nc")
    shares = lb.predictions(lb.load(tmp_path / "found.nc"), pd.DataFrame({"age": [79, 95]}))["mean"].sel(category="yes")
    assert shares[0] == pytest.approx(shares[1].item())
    assert lb.answers.slopes(found, "age", data=pd.DataFrame({"age": [30.0, 32]}))["mean"].sel(category="yes") < 0
    found.extend("log_likelihood")
    assert np.isfinite(found["log_likelihood"]["reports"]).all()
    mle = lb.regress(survey, "y ~ s(age)", DEVICE, report="sent", method="mle")
    posterior = found["posterior"]["s(age)_sigma"]
    assert abs(mle["group_sd"].item() - posterior.mean()) < 2 * posterior.std()


@each_row(
    "formula, error",
    [
        ("y ~ mo(edu):rw(age)", ArgumentError),
        ("y ~ (mo(edu) | sex)", ArgumentError),
        ("y ~ s(sex)", DataError),
        ("y ~ s(edu, k=3)", DataError),
        ("y ~ s(edu, k=2.5)", ArgumentError),
    ],
)
def test_what_has_no_curve_is_one_sentence(survey, formula, error):
    with pytest.raises(error):
        lb.regress(survey, formula, DEVICE, report="sent")


def test_factor_is_taken_as_c(survey):
    one, other = (lb.regress(survey, f"y ~ {name}(edu)", DEVICE, report="sent", method="mle") for name in ("factor", "C"))
    np.testing.assert_array_equal(one.coefficients, other.coefficients)
    assert one.terms[1] == "factor(edu)[2]"


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore:.*prior")
@pytest.mark.parametrize("formula", ["y ~ sex*mo(edu) + s(age)", "y ~ sex + sex:rw(edu)"])
def test_weighted_draws_agree_with_chains(survey, formula):
    few = survey.iloc[:1200]
    settings = {"report": "sent", "random_seed": 1}
    fits = [lb.regress(few, formula, DEVICE, method=method, **settings)["posterior"] for method in ("weighted", "nuts")]
    for name in fits[0].data_vars:
        one, two = (fit[name].values.reshape(4000, -1) for fit in fits)
        moved = two.std(axis=0) > 1e-9
        sd = two.std(axis=0)[moved]
        assert np.abs((one.mean(axis=0) - two.mean(axis=0))[moved] / sd).max() < 0.15
        assert np.abs(one.std(axis=0)[moved] / sd - 1).max() < 0.1
