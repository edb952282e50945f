"""Questions to a regression, each against the same number computed by hand from the draws."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols.designs import warner

# Weak reports on purpose: that the prior decides is told by tests/regression/test_separation.py.
pytestmark = pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree) on")


@pytest.fixture(scope="module")
def found():
    """A binary regression on a number, a factor and their interaction."""
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame({"age": rng.integers(20, 60, n), "sex": rng.choice(["f", "m"], n)})
    value = (rng.random(n) < expit(0.03 * (frame["age"] - 40))).astype(int)
    frame["report"] = warner(0.85).privatize(value, rng)
    labels = ["no", "yes"]
    frame["report"] = np.array(labels)[frame["report"]]
    return lb.regress(frame, "smokes ~ age * sex", warner(0.85), categories=labels, random_seed=1, draws=200)


def shares(found, age, male):
    """Return the draws of the share of yes for arrays of covariates, (800, rows)."""
    b = found["posterior"]["coefficients"].sel(category="yes").values.reshape(-1, 4)
    order = list(found["posterior"]["term"].values)
    assert order == ["Intercept", "age", "sex[m]", "age:sex[m]"]
    return expit(b @ np.stack([np.ones_like(age), age, male, age * male]))


def people(found):
    held = found["design"].to_dataset()
    male = (held["covariate sex"].values == "m").astype(float)
    return held["covariate age"].values.astype(float), male, held["n_reports"].values


def test_predictions(found):
    asked = {"age": [25, 50, 25], "sex": ["f", "m", "m"]}
    answer = lb.predictions(found, asked)
    draws = shares(found, np.array([25.0, 50, 25]), np.array([0.0, 1, 1]))
    np.testing.assert_allclose(answer["mean"].sel(category="yes"), draws.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(answer["lower"].sel(category="yes"), np.quantile(draws, 0.025, axis=0), rtol=1e-10)
    np.testing.assert_allclose(answer["mean"].sum("category"), 1)
    assert answer["sex"].values.tolist() == ["f", "m", "m"] and (answer["mcse"] < 0.01).all()
    whole = lb.predictions(found)
    average = (whole["mean"] * whole["n_reports"]).sum("row") / whole["n_reports"].sum()
    draws = found["posterior"]["distribution"].mean(("chain", "draw"))
    np.testing.assert_allclose(average, draws, atol=1e-9)  # the result's distribution is the average of predictions
    summary = found["summary"].sel(target="distribution")  # of all weighted draws, not of those kept alone
    assert (np.abs(average.values - summary["mean"].values) < 0.1 * summary["sd"].values).all()


def test_comparisons(found):
    age, male, weight = people(found)
    answer = lb.comparisons(found, "sex")
    draws = (shares(found, age, np.ones_like(age)) - shares(found, age, np.zeros_like(age))) @ weight / weight.sum()
    assert answer["comparison"].values.tolist() == ["m - f"]
    assert float(answer["mean"].sel(category="yes", comparison="m - f")) == pytest.approx(draws.mean(), abs=1e-10)
    assert float(answer["probability_positive"].sel(category="yes", comparison="m - f")) == pytest.approx((draws > 0).mean())
    one = (shares(found, age + 1, male) - shares(found, age, male)) @ weight / weight.sum()
    assert float(lb.comparisons(found, "age")["mean"].sel(category="yes")[0]) == pytest.approx(one.mean(), abs=1e-10)
    wide = lb.comparisons(found, "age", [20, 40, 60])
    assert wide["comparison"].values.tolist() == ["40 - 20", "60 - 20"]
    few = lb.comparisons(found, "sex", data={"age": [30], "sex": ["f"]})
    draws = shares(found, np.array([30.0]), np.array([1.0])) - shares(found, np.array([30.0]), np.array([0.0]))
    assert float(few["mean"].sel(category="yes")[0]) == pytest.approx(draws.mean(), abs=1e-10)


def test_readers_see_the_asked_answer_and_files_both(found):
    for answer in (
        lb.comparisons(found, "sex"),
        lb.predictions(found, {"age": [30], "sex": ["f"]}),
        lb.answers.slopes(found, "age"),
    ):
        page, rows = lb.show(answer), answer["mean"].size
        (table,) = page.tables
        keys = [column.key for column in table.columns]
        assert {line["category"] for line in table.records()} == {"yes"} and len(table.rows) == rows / 2
        assert len(answer.table()) == len(table.complete().rows) == rows and len(page.facts["rows"]) == rows
        at = keys.index("mean")
        assert keys[at : at + 2] == ["mean", "interval"] and keys[-3:] == ["mcse", "lower_error", "upper_error"]


def test_slopes_are_the_derivative_of_the_average(found):
    age, male, weight = people(found)
    b = found["posterior"]["coefficients"].sel(category="yes").values.reshape(-1, 4)
    p = shares(found, age, male)
    exact = (p * (1 - p) * (b[:, 1:2] + b[:, 3:4] * male)) @ weight / weight.sum()
    answer = lb.answers.slopes(found, "age")
    assert float(answer["mean"].sel(category="yes")) == pytest.approx(exact.mean(), rel=1e-5)
    assert float(answer["sd"].sel(category="yes")) == pytest.approx(exact.std(ddof=1), rel=1e-5)


def test_poststratification_to_a_table(found):
    table = pd.DataFrame({"age": [30, 50, 30], "sex": ["f", "f", "m"], "N": [100, 50, 150], "land": ["a", "b", "b"]})
    draws = shares(found, np.array([30.0, 50, 30]), np.array([0.0, 0, 1]))
    answer = lb.poststratify(found, table, count="N")
    assert float(answer["mean"].sel(category="yes")) == pytest.approx((draws @ [100, 50, 150] / 300).mean(), abs=1e-10)
    each = lb.poststratify(found, table, count="N", by="land")
    b = (draws[:, 1:] @ [50, 150] / 200).mean()
    assert float(each["mean"].sel(category="yes", group="b")) == pytest.approx(b, abs=1e-10)
    with pytest.raises(ArgumentError, match="count must"):
        lb.poststratify(found, table)
    with pytest.raises(DataError, match="column 'country'"):
        lb.poststratify(found, table, count="N", by="country")


def test_odds_ratios_have_the_ends_of_the_summary_and_of_the_page(found):
    answer = lb.answers.odds_ratio(found, ci_prob=found["summary"].attrs["ci_prob"]).sel(category="yes")
    summary, page = found["summary"].sel(category="yes"), found.table().set_index("term")
    for end in ("lower", "upper"):
        np.testing.assert_array_equal(answer[end], np.exp(summary[f"coefficients_{end}"]))
        np.testing.assert_array_equal(answer[end], page.loc[answer["term"].values, f"odds_{end}"])


def test_odds_ratios(found):
    draws = found["posterior"]["coefficients"].sel(category="yes", term="age").values.ravel()
    answer = lb.answers.odds_ratio(found, ci_prob=0.9).sel(category="yes", term="age")
    assert float(answer["odds_ratio"]) == pytest.approx(np.exp(np.median(draws)))
    assert float(answer["upper"]) == pytest.approx(np.exp(np.quantile(draws, 0.95)))
    maximum = lb.regress(lb.load_example("nigeria_cells"), "connected ~ female", method="mle")
    answer = lb.answers.odds_ratio(maximum).sel(category="yes", term="female")
    assert float(answer["odds_ratio"]) == pytest.approx(
        float(np.exp(maximum.coefficients.sel(category="yes", term="female")))
    )


def test_one_sentence_for_what_cannot_be_answered(found):
    cases = [
        (
            lambda: lb.predictions(found, {"age": [30], "sex": ["x"]}),
            DataError,
            "sex has the level 'x', which the fit has not",
        ),
        (lambda: lb.predictions(found, {"age": [30]}), DataError, "no column 'sex'"),
        (lambda: lb.predictions(found, {"age": [None], "sex": ["f"]}), DataError, "age.*missing in 1 of 1"),
        (lambda: lb.comparisons(found, "height"), ArgumentError, "covariate of the formula"),
        (lambda: lb.comparisons(found, "sex", ["f", "x"]), DataError, "has not seen"),
        (lambda: lb.comparisons(found, "sex", ["f"]), ArgumentError, "at least two"),
        (lambda: lb.answers.slopes(found, "sex"), ArgumentError, "is a factor"),
        (lambda: lb.predictions(found["posterior"]), ArgumentError, "posterior that regress returned"),
        (lambda: lb.answers.odds_ratio(3), ArgumentError, "associate or regress"),
    ]
    for ask, kind, words in cases:
        with pytest.raises(kind, match=words):
            ask()


def test_transforms_of_the_data_are_those_of_the_fit(found):
    """scale() uses the mean and sd of the rows of the fit, also after saving, and for one new row."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 300), "report": rng.integers(0, 2, 300)})
    scaled = lb.regress(frame, "smokes ~ scale(age)", warner(0.85), report="report", random_seed=1)
    plain = lb.regress(frame, "smokes ~ age", warner(0.85), report="report", random_seed=1)
    one, two = (lb.predictions(tree, {"age": [33]})["mean"] for tree in (scaled, plain))
    # The prior stands on standardized columns: both are one model. Its axes have signs that rounding settles: other draws.
    np.testing.assert_allclose(one, two, atol=3e-3)


def test_rows_of_predictions_and_steps_are_in_the_order_of_levels():
    levels = ["low", "middle", "high"]
    rng = np.random.default_rng(0)
    edu = pd.Categorical(rng.choice(levels[::-1], 300), levels, ordered=True)
    frame = pd.DataFrame({"edu": edu, "x": rng.choice([2, 10], 300), "y": rng.choice(["no", "yes"], 300)})
    found = lb.regress(frame, "y ~ mo(edu) + x", warner(0.85), random_seed=1, draws=100)
    rows = lb.predictions(found)
    assert rows["edu"].values.tolist() == np.repeat(levels, 2).tolist() and rows["x"].values.tolist() == [2, 10] * 3
    counted = frame.groupby(["edu", "x"], observed=True).size()
    assert rows["n_reports"].values.tolist() == counted.tolist()
    steps = found["posterior"]["mo(edu)_steps"].mean(("chain", "draw")).values
    (table,) = [table for table in lb.show(found).tables if table.title == "Steps of mo(edu)"]
    assert [row[0] for row in table.rows] == levels[1:] and np.allclose([row[1] for row in table.rows], steps, atol=0.02)
