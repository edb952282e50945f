"""What users do to regressions that no other file here does: odd formulas, odd tables, odd questions; and honest errors."""

import numpy as np
import pandas as pd
import pytest

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError, DiagnosticWarning
from ldpbayes.inference import diagnostics, weighted
from ldpbayes.inference.importance import weigh
from ldpbayes.priors.regression import Effects, Regression
from ldpbayes.protocols.designs import forced_response
from ldpbayes.regression.design import Design
from ldpbayes.regression.fitting import Model
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.reports import Asked, read_reports

# Weak reports on purpose: that the prior decides is told by tests/regression/test_separation.py.
pytestmark = pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree) on")

DIE = forced_response(0.9, (1, 1))


@pytest.fixture(scope="module")
def frame():
    """Three hundred respondents of a forced-response survey."""
    rng = np.random.default_rng(0)
    n = 300
    table = pd.DataFrame({"age": rng.integers(18, 80, n), "sex": rng.choice(["f", "m"], n), "kids": rng.integers(0, 3, n)})
    table["home"], table["w"] = rng.random(n) < 0.4, rng.uniform(0.5, 2, n)
    table["size"] = pd.Categorical(rng.choice(list("SML"), n), list("SML"), ordered=True)
    table["county"] = rng.choice(list("abcd"), n)
    value = (rng.random(n) < 1 / (1 + np.exp(1 - 0.03 * (table["age"] - 50)))).astype(int)
    table["report"] = np.array(["no", "yes"])[DIE.privatize(value, rng)]
    return table


def asked(frame, formula, **more):
    return lb.regress(frame, formula, DIE, **({"categories": ["no", "yes"], "random_seed": 1, "draws": 50} | more))


@pytest.fixture(scope="module")
def found(frame):
    return asked(frame, "smokes ~ age * sex + C(kids) + home + size")


# ---- formulas ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("right", ["offset(age)", "sex + offset(age)", "age + offset( w )"])
def test_an_offset_is_refused_and_not_taken_for_a_term(frame, right):
    with pytest.raises(ArgumentError, match="an offset"):
        asked(frame, f"smokes ~ {right}", method="mle")


def test_functions_have_their_names_in_r(frame):
    plain, dotted = (asked(frame, f"smokes ~ {name}(age)", method="mle") for name in ("log", "np.log"))
    np.testing.assert_array_equal(plain.coefficients, dotted.coefficients)
    with pytest.raises(ArgumentError, match=r"functions.*'cube'"):
        asked(frame, "smokes ~ cube(age)")
    with pytest.raises(ArgumentError, match="ordered Categorical"):
        asked(frame, "smokes ~ C(sex, levels=['m', 'f'])")


# ---- maximum likelihood --------------------------------------------------------------------------------------------------
def test_maximum_likelihood_takes_no_prior_and_keeps_the_level_of_intervals(frame):
    with pytest.raises(ArgumentError, match=r"scale must.*left"):
        asked(frame, "smokes ~ age", method="mle", scale=1.0)
    narrow, wide = (asked(frame, "smokes ~ age", method="mle", ci_prob=level).summary() for level in (0.5, 0.95))
    assert narrow.attrs["ci_prob"] == 0.5
    assert ((wide["upper"] - wide["lower"]) > 2.5 * (narrow["upper"] - narrow["lower"])).all()


def test_a_maximum_prints_as_a_table_and_has_no_criterion_under_weights(frame):
    plain, weighted = (asked(frame, "smokes ~ age", method="mle", weights=w) for w in (None, "w"))
    row = plain.table().set_index("term").loc["age"]
    expected = [float(plain.coefficients[1, 1]), float(plain.standard_errors[1, 1])]
    assert [row["estimate"], row["standard_error"]] == pytest.approx(expected)
    assert "age" in repr(plain) and "AIC" in plain.fit and "pseudo" in weighted.fit and "AIC" not in weighted.fit
    assert np.isnan([weighted.aic, weighted.bic]).all()
    assert "1 cell;" in asked(frame, "smokes ~ 1", method="mle").outcome


def test_a_stratum_is_named_as_in_the_table(frame):
    with pytest.raises(DataError, match=r"stratum 'north'.*single"):
        asked(frame.assign(area=np.where(frame.index == 3, "north", "south")), "smokes ~ age", strata="area", method="mle")


def test_cells_with_sampling_weights_are_their_table(frame):
    frame = frame.assign(area=np.where(frame.index % 3, "north", "south"))
    columns = {"weights": "w", "strata": "area"}
    cells = lb.read(frame, DIE, report="report", by="sex", categories=["no", "yes"], **columns)
    whole, table = lb.regress(cells, "smokes ~ sex", method="mle"), asked(frame, "smokes ~ sex", method="mle", **columns)
    for name in ("coefficients", "standard_errors"):
        np.testing.assert_allclose(getattr(whole, name), getattr(table, name), rtol=1e-8)


def test_a_cell_of_which_only_a_summary_was_kept_is_left_out(frame):
    cells = lb.read(frame, DIE, report="report", by=["sex", "size"], categories=["no", "yes"])
    last = list(cells)[-1]
    some = cells.with_cells(
        {key: cells.take([key]).summaries([0.5, 0.5])[key] if key == last else cells[key] for key in cells}
    )
    with pytest.warns(DiagnosticWarning, match=r"1 of \d+.*summary"):
        found = lb.regress(some, "smokes ~ sex", draws=100, random_seed=1)
    same = lb.regress(cells.take([key for key in cells if key != last]), "smokes ~ sex", draws=100, random_seed=1)
    np.testing.assert_array_equal(found["summary"]["coefficients_mean"], same["summary"]["coefficients_mean"])
    assert "left_out" in found.attrs and "left out" in str(lb.show(found))


def test_a_collection_is_no_table():
    with pytest.raises(ArgumentError, match=r"frame.*Collection"):
        lb.regress(lb.load_example("nigeria"), "smokes ~ 1")


# ---- questions -----------------------------------------------------------------------------------------------------------
ROW = {"age": 30, "sex": "f", "kids": 1, "home": True, "size": "M"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"age": "30"}, "age.*numbers"),
        ({"kids": "1"}, "kids.*numbers"),
        ({"home": "True"}, "home.*True.*False"),
        ({"size": "XL"}, "size.*'XL'"),
        ({"age": np.nan}, "age.*leave.*out"),
    ],
)
def test_new_data_of_another_type_are_refused(found, change, match):
    with pytest.raises(DataError, match=match):
        lb.predictions(found, {name: [value] for name, value in (ROW | change).items()})


def test_new_data_may_write_the_same_values_otherwise(found):
    expected = lb.predictions(found, pd.DataFrame([ROW]))["mean"]
    others = [ROW, {name: [value] for name, value in (ROW | {"home": 1, "kids": 1.0, "age": 30.0}).items()}]
    others.append(pd.DataFrame([ROW]).assign(size=pd.Categorical(["M"], list("LMS"), ordered=True)))
    for data in others:
        np.testing.assert_allclose(lb.predictions(found, data)["mean"], expected, atol=1e-14)


def test_questions_that_have_no_answer_are_one_sentence(found, frame):
    for values, match in ((["False", "True"], "True or False"), (3, "at least two"), ([0, 2], "True or False")):
        with pytest.raises(ArgumentError, match=match):
            lb.comparisons(found, "home", values)
    with pytest.raises(ArgumentError, match="be finite"):
        lb.comparisons(found, "age", [20, np.inf])
    with pytest.raises(ArgumentError, match="by must"):
        lb.poststratify(found, frame.assign(N=1), count="N", by=3)
    step = asked(frame, "smokes ~ age + C(kids > 1)")
    with pytest.raises(ArgumentError, match=r"jump.*'kids'"):
        lb.answers.slopes(step, "kids")
    assert np.isfinite(lb.answers.slopes(step, "age")["mean"]).all()


# ---- errors --------------------------------------------------------------------------------------------------------------
def test_monte_carlo_errors_count_weights_and_resampling():
    """Means of kept draws scatter as stated, here about N(0.8, 1) from N(0, 1); 1/√Σw² states less."""
    rng, scatter, stated, naive = np.random.default_rng(5), [], [], []
    for _ in range(200):
        z = rng.standard_normal((300, 1))
        weights = weigh(z, 0.8 * z[:, 0])
        draws = weighted.Draws(z, z, z, weights, 300, z)
        scatter.append(float(z[draws.chosen(rng)].mean()) - 0.8)
        stated.append(float(draws.known(z)["mcse"][0]))
        naive.append(1 / np.sqrt(weights.effective_sample))
    ratio = np.sqrt(np.mean(np.square(scatter)) / np.mean(np.square(stated)))
    assert 0.85 < ratio < 1.15 and np.mean(stated) > 1.15 * np.mean(naive)


# ---- effects of groups ---------------------------------------------------------------------------------------------------
def test_varying_slopes_depend_on_neither_unit_nor_origin_of_their_column(frame):
    def model(table):
        parsed = Formula.parse("smokes ~ age + (age | county)")
        reports = read_reports(
            table, np.ones(len(table), bool), Asked.of(table, DIE, None, "smokes"), "smokes", ["no", "yes"]
        )
        return Model.of(Design(parsed, table[["age", "county"]]), reports, None, None)

    plain, moved = model(frame), model(frame.assign(age=2000 + 365.0 * frame["age"]))
    z = np.random.default_rng(1).standard_normal((3, plain.prior.n_unknowns))
    np.testing.assert_allclose(plain.target.log_density(z)[0], moved.target.log_density(z)[0], rtol=1e-9)
    first, second = plain.prior.variables(z), moved.prior.variables(z)
    np.testing.assert_allclose(first["age|county_sigma"][1], 365 * second["age|county_sigma"][1])
    at, there = first["1|county"][1] + 40 * first["age|county"][1], 2000 + 365 * 40
    np.testing.assert_allclose(at, second["1|county"][1] + there * second["age|county"][1], atol=1e-8)


def test_effects_without_units_are_as_they_were():
    x = np.column_stack([np.ones(4), np.arange(4.0)])
    groups = np.repeat(np.eye(2), 2, axis=0)
    prior = Regression(x, effects=[Effects("1|g", ("u", "v"), groups), Effects("x|g", ("u", "v"), groups * x[:, 1:])])
    z = np.random.default_rng(0).standard_normal((2, prior.n_unknowns))
    named = prior.variables(z)
    index = [0, 0, 1, 1]
    eta = named["coefficients"][1].swapaxes(1, 2) @ x.T
    eta = eta.swapaxes(1, 2) + named["1|g"][1][:, index] + named["x|g"][1][:, index] * x[:, 1:]
    logits = prior.logits_of(z)
    np.testing.assert_allclose(eta, logits - logits[..., :1], atol=1e-12)


def test_the_spread_between_groups_is_diagnosed():
    """σ mixes worst; chains that disagree about it alone cannot be trusted."""
    rng = np.random.default_rng(2)
    p, sd = rng.dirichlet([2, 2], (4, 500)), np.exp(rng.standard_normal((4, 500)))
    for stuck in (False, True):
        sigma = sd + 3.0 * stuck * np.arange(4)[:, None]
        draws = {"distribution": (("category",), p), "1|g_sigma": ((), sigma, {"of": "prior"})}
        found = diagnostics.summarize(draws, diagnostics.Diagnostics(), 0.95, joint=True).diagnostics
        assert found.converged != stuck and ("R-hat" in found.problems) == stuck


def test_categories_in_another_order_than_the_designs_answers_are_refused(frame):
    """The first category is that of the answer "no": under exchanged labels no and yes would change places in silence."""
    with pytest.raises(ArgumentError, match=r"order.*forced_response.*yes, no"):
        asked(frame, "smokes ~ age", categories=["yes", "no"], method="mle")
    with pytest.raises(ArgumentError, match=r"order.*answers"):
        lb.read(frame, DIE, report="report", categories=["yes", "no"])
    turned = lb.protocols.Channel(
        DIE.channel()[::-1], answers=("yes", "no")
    )  # rows of a plain matrix may stand in any order
    first, second = (
        lb.regress(frame, "smokes ~ age", protocol, categories=["no", "yes"], method="mle") for protocol in (DIE, turned)
    )
    np.testing.assert_allclose(first.coefficients, second.coefficients, atol=1e-9)


def test_columns_with_numbers_for_names_and_sparse_columns(frame):
    expected = asked(frame, "smokes ~ age + kids", method="mle").coefficients
    other = frame.assign(kids=pd.arrays.SparseArray(frame["kids"])).rename(columns={"age": 0})
    np.testing.assert_allclose(asked(other, "smokes ~ `0` + kids", method="mle").coefficients, expected, atol=1e-12)


def test_the_first_sentences_make_no_claim_about_terms_that_interact(found):
    from ldpbayes.pages import show

    said = show(found).summary
    assert "with age." not in said and "with age;" not in said and "with sex[m];" not in said


@pytest.fixture(scope="module")
def weak():
    """Eight hundred reports at ε = ½, with the device: the likelihood has two maxima, the posterior is far from normal."""
    rng = np.random.default_rng(27)
    rng.integers(2, 5), rng.choice([60, 200, 800]), rng.choice([0.5, 1, 2, 3])
    n, device = 800, lb.GRR(2, 0.5)
    table = pd.DataFrame({"x": rng.normal(size=n).round(1), "g": rng.choice(list("uv"), n)})
    weights = np.column_stack([np.ones(n), table["x"], table["g"] == "v"]) @ rng.normal(size=(3, 2))
    p = np.exp(weights) / np.exp(weights).sum(axis=1, keepdims=True)
    table["report"] = device.privatize((rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1), rng)
    return table, device


def test_maximum_likelihood_is_the_highest_maximum_and_names_the_next(weak):
    """Newton's method from the pooled shares ends at −549.5561, as do most starts of BFGS; the highest is −549.5334."""
    table, device = weak
    found = lb.regress(table, "y ~ x + g", device, report="report", method="mle")
    assert found.log_likelihood == pytest.approx(-549.53335, abs=1e-4)
    assert "0.023 nats lower" in found.outcome


def test_a_skewed_posterior_of_weak_reports_keeps_its_far_side(weak):
    """Draws about the mode alone lost a sixth of the sd.

    Means and standard deviations by 80,000 draws of another proposal, with an effective sample of 33,000.
    """
    from ldpbayes.methods.base import Watch
    from ldpbayes.regression import maximum

    table, device = weak
    reports = read_reports(table, np.ones(len(table), bool), Asked.of(table, device, "report", "y"), "y")
    target = Model.of(Design(Formula.parse("y ~ x + g"), table[["x", "g"]]), reports, None, None).target
    draws = weighted.weighted(target, 8000, np.random.default_rng(1), Watch(False), maximum.climb(target))
    mean = draws.found.weight @ draws.z
    sd = np.sqrt(draws.found.weight @ (draws.z - mean) ** 2)
    assert draws.verdict.accepted and draws.found.k_hat < 0.5
    known = np.array([0.42964, 0.40560, 0.47890])
    np.testing.assert_allclose((mean - [0.84497, 0.48381, -0.66187]) / known, 0, atol=0.1)
    np.testing.assert_allclose(sd, known, rtol=0.07)
