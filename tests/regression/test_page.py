"""What people see of a regression: the page, its figures, and the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import pages, plots
from ldpbayes.examples import FOLDER

# Weak reports on purpose: that the prior decides is told by tests/regression/test_separation.py.
pytestmark = [pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree) on"), pytest.mark.long]

FORMULA = "connected ~ female + married + age_group"


@pytest.fixture(scope="module")
def nigeria():
    return lb.regress(lb.load_example("nigeria_cells"), FORMULA, random_seed=1, draws=250)


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.integers(0, 3, 400), "report": rng.choice(list("abc"), 400)})
    return lb.regress(frame, "answer ~ x", lb.GRR(3, 2.0), categories=list("abc"), random_seed=1, draws=250)


def test_page_of_a_posterior(nigeria):
    page = lb.show(nigeria)
    table = page.tables[0]
    assert table.title == "Coefficients: log odds of yes against no" and len(table.rows) == 7
    row = dict(zip([column.key for column in table.columns], table.rows[1], strict=True))
    assert row["term"] == "female" and row["odds_ratio"] == pytest.approx(0.55, abs=0.03)
    assert row["odds_interval"][0] == pytest.approx(np.exp(row["interval"][0]), rel=1e-9)
    assert "with female" in page.summary
    text = str(page)
    assert "20 distinct rows" in text and "N(0, 2.5²)" in text
    for renderer in ("html", "markdown", "latex", "csv", "json"):
        assert page.render(renderer)
    facts = json.loads(page.render("json"))
    assert facts["terms"][1] == "female" and len(facts["coefficients"]["mean"]) == 7


def test_pages_of_three_categories_and_of_maximum_likelihood(three, nigeria):
    rows = lb.show(three).tables[0].rows
    assert [row[:2] for row in rows] == [(term, category) for term in ("Intercept", "x") for category in "bc"]
    maximum = lb.regress(lb.load_example("nigeria_cells"), FORMULA, method="mle")
    page = lb.show(maximum)
    assert {name: page.again[name] for name in ("Design", "Data (SHA-256)")}.items() <= lb.show(nigeria).again.items()
    assert page.tables[0].rows[1][1] == pytest.approx(-0.578, abs=1e-4)
    assert "deviance 3085.139" in str(page)
    assert page.tables[1].rows[1][:2] == ("yes", pytest.approx(maximum["average"].values[1]))


def test_figures_show_the_numbers_of_the_summary(nigeria, three):
    pytest.importorskip("matplotlib")
    figure = plots.plot_coefficients(nigeria)
    line = figure.axes[0].lines[0]
    expected = nigeria["summary"]["coefficients_mean"].sel(category="yes").values[1:]
    np.testing.assert_allclose(line.get_xdata(), expected)
    assert figure.axes[0].get_yticklabels()[0].get_text() == "female"
    both = plots.plot_coefficients(three, intercept=True)
    assert {line.get_label() for line in both.axes[0].lines} >= {"b", "c"}
    predicted = lb.predictions(nigeria)
    drawn = plots.plot_predictions(predicted).axes[0].lines[0].get_xdata()
    np.testing.assert_allclose(drawn, predicted["mean"].sel(category="yes"))
    for found in (lb.comparisons(nigeria, "age_group"), lb.answers.slopes(three, "x")):
        assert plots.plot_predictions(found).axes[0].lines
    for figure in lb.show(nigeria).figures:
        assert figure.draw() is not None


def test_a_row_of_the_table_names_its_mean_and_its_median(nigeria):
    """The exponential of the mean log odds stood beside that of the median under one name; estimates have one of each.

    Searched: the tables of denying, of items and of associations, which have no exponentials beside log odds.
    """
    columns = {column.key: column.heading for column in lb.show(nigeria).tables[0].columns}
    assert columns["mean"] == "mean log odds" and columns["odds_ratio"] == "median odds ratio"
    draws = nigeria["posterior"]["coefficients"].sel(category="yes")
    odds = lb.answers.odds_ratio(nigeria)["odds_ratio"].sel(category="yes")
    np.testing.assert_allclose(odds, np.exp(draws.median(("chain", "draw"))))


def test_command_with_a_page(capsys, tmp_path):
    page = tmp_path / "page.html"
    status, out, err = run(capsys, "regress", "example:nigeria_cells", FORMULA, "--seed", 1, "--draws", 100, "--page", page)
    assert status == 0 and "odds ratio" in out and not err
    assert "forced response" in page.read_text() and "<svg" in page.read_text()
    status, out, _ = run(capsys, "regress", "example:nigeria_cells", FORMULA, "--method", "mle", "--json")
    assert status == 0 and json.loads(out)["deviance"] == pytest.approx(3085.139, abs=1e-3)


def test_command_on_a_table(capsys, tmp_path):
    table, result = tmp_path / "survey.csv", tmp_path / "found.nc"
    lines = pd.read_csv(FOLDER / "rr_nigeria_cells.csv").rename(columns={"report": "said"})
    lines.to_csv(table, index=False)
    design = ["--protocol", "forced_response", "-p", "truth=2/3", "-p", "forced=[1, 1]", "--categories", "no,yes"]
    columns = ["--report", "said", "--count", "count"]
    status, out, _ = run(capsys, "regress", table, FORMULA, *design, *columns, "--method", "mle")
    assert status == 0 and "-0.5780" in out
    status, out, _ = run(
        capsys, "regress", table, FORMULA, *design, *columns, "--reference", "yes", "--output", result, "--draws", 100
    )
    assert status == 0 and "no against yes" in out
    assert lb.load(result).attrs["reference"] == "yes"


def test_command_on_a_collection_file_that_has_the_covariate(capsys, tmp_path):
    survey = tmp_path / "survey.toml"
    survey.write_text(
        'title = "S"\ncategories = ["no", "yes"]\n[[channels]]\nprotocol = "warner"\nfile = "s.csv"\nreport = "said"\n'
        "parameters = { p = 0.8 }\n"
    )
    (tmp_path / "s.csv").write_text(
        "age,said\n" + "".join(f"{age},{said}\n" for age in (20, 30, 40) for said in ("no", "yes", "no"))
    )
    status, out, err = run(capsys, "regress", survey, "smokes ~ age", "--draws", 100, "--seed", 1)
    assert status == 0, err
    assert "age" in out and "From 9 reports" in out and "3 distinct rows" in out


@each_row(
    "arguments, words",
    [
        (["example:nigeria_cells", "connected ~ height"], "has no column 'height'; it has female, married, age_group"),
        (["example:nigeria_cells", "female"], "formula must name"),
        (["nowhere.csv", "a ~ b", "--protocol", "grr", "-p", "epsilon=1", "--categories", "x,y"], "No such file"),
        (["nowhere.csv", "a ~ b"], "protocol must say"),
        (["nowhere.csv", "a ~ b", "--protocol", "grr"], "categories must be labels in order"),
        (["example:nigeria_cells", "a ~ female", "--method", "guess"], "method must be one of"),
        (["example:nigeria_cells", "a ~ female", "--report", "x"], "report must be left out"),
        (["example:nigeria_cells", "a ~ female", "--reference", "maybe"], "reference must be one of"),
        (["example:nigeria_cells", "a ~ female", "--method", "mle", "--output", "x.nc"], "output must be left out"),
    ],
)
def test_bad_commands_are_one_sentence(capsys, arguments, words):
    status, out, err = run(capsys, "regress", *arguments)
    assert status == 2 and words in " ".join(err.split()) and err.startswith("ldpbayes: ") and not out


def test_pages_module_is_reachable():
    assert pages.show is lb.show


def test_coefficients_of_columns_in_small_units_are_legible():
    """The log odds of one more euro of income are 2e-05: with four decimals the table said 0.0000, and odds of 1.00."""
    rng = np.random.default_rng(0)
    income = rng.lognormal(10.8, 0.5, 2000).round()
    device = lb.protocols.crosswise(0.25)
    truth = (rng.random(2000) < 1 / (1 + np.exp(1 - income / 50000))).astype(int)
    frame = pd.DataFrame({"income": income, "report": device.privatize(truth, rng)})
    for method in ("auto", "mle"):
        found = lb.regress(frame, "answer ~ income", device, method=method, categories=["no", "yes"], random_seed=1)
        for page in (lb.show(found), lb.show(lb.answers.odds_ratio(found))):
            table = page.tables[0]
            texts = [column.text(value) for column, value in zip(table.columns, table.rows[1], strict=True)]
            ratio, interval = texts[-2:] if len(texts) == 4 else texts[4:6]
            low, high = map(float, interval.split(" to "))
            assert 1 < low < float(ratio) < high < 1.0001
            if len(texts) > 4:
                estimate, sd, (low, high) = float(texts[1]), float(texts[2]), map(float, texts[3].split(" to "))
                assert abs(estimate - 2e-5) < 3 * sd and 0 < low < estimate < high


def test_predictions_print_fractions_with_six_digits():
    """A covariate of 16 digits, and weights, took half of the table; files keep every digit."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=12), "w": rng.uniform(1, 2, 12), "report": rng.integers(0, 2, 12)})
    page = lb.show(lb.predictions(lb.regress(frame, "answer ~ x", lb.GRR(2, 2.0), weights="w", random_seed=1, draws=250)))
    columns = {column.key: k for k, column in enumerate(page.tables[0].columns)}
    for name, row in ((name, row) for name in ("x", "n_reports") for row in page.tables[0].rows):
        assert len(page.tables[0].columns[columns[name]].text(row[columns[name]])) < 12
    assert str(frame["x"][0]) in page.render("csv")


def test_curves_are_not_denied_and_parameters_stand_in_tables_of_their_own():
    rng = np.random.default_rng(0)
    age = rng.integers(0, 6, 600)
    ill = rng.random(600) < 1 / (1 + np.exp(3.0 - age))
    frame = pd.DataFrame({"ill": lb.protocols.warner(0.85).privatize(ill.astype(int), rng), "age": age})
    frame["g"] = rng.choice(list("abcd"), 600)
    settings = {"categories": ["no", "yes"], "random_seed": 1, "draws": 250}
    pages = {
        formula: lb.show(lb.regress(frame, f"ill ~ {formula}", lb.protocols.warner(0.85), **settings))
        for formula in ("mo(age)", "rw(age)", "age")
    }
    assert not any("no coefficient" in page.summary for page in pages.values())
    for formula in ("mo(age)", "rw(age)"):
        row = pages[formula].tables[0].rows[1]
        assert row[0] == f"{formula} from 0 to 5" and row[0] in pages[formula].summary
        assert f"{row[1]:#.3g}" in pages[formula].summary and f"{row[3][0]:#.3g}" in pages[formula].summary
    assert "predictions" in pages["rw(age)"].summary and "Curves" in [table.title for table in pages["rw(age)"].tables]
    test = lb.protocols.Channel(validated=[[190, 15], [10, 85]], answers=["no", "yes"])
    page = lb.show(lb.regress(frame, "ill ~ age + (1|g)", test, **settings))
    rows = {table.title: [row[0] for row in table.rows] for table in page.tables}
    assert rows["Coefficients: log odds of yes against no"] == ["Intercept", "age", "sd of 1|g"]
    assert rows["Probabilities of the device"] == ["no given no", "yes given yes"]
    assert list(json.loads(page.render("json"))["group_sd"]["effects"]) == ["1|g"]


def test_changes_over_levels_and_sds_of_groups_are_rows_of_the_table(tmp_path):
    """Each number is that of the draws, by NumPy; the basis of the curve is the stored one at the least and largest age."""
    rng = np.random.default_rng(5)
    n, protocol, curve = 600, lb.GRR(2, 3.0), "s(age, k=5)"
    age = rng.choice([18, 30, 41, 55, 66, 79], n)  # so that few rows differ
    frame = pd.DataFrame({"age": age, "edu": rng.integers(1, 4, n), "g": rng.choice(list("ab"), n)})
    frame["use"] = protocol.privatize((rng.random(n) < 0.2 + 0.2 * frame["edu"]).astype(int), rng)
    formula = f"use ~ mo(edu) + {curve} + (1 | g)"
    result = lb.regress(frame, formula, protocol, categories=["no", "yes"], draws=500, random_seed=1)
    design, page, table = result["design"], lb.show(result), result.table()
    edu, age = (
        result["posterior"][name].sel(category="yes").transpose("chain", "draw", ...).values for name in ("mo(edu)", curve)
    )
    basis = design[f"basis {curve}"].values[np.argsort(design["covariate age"].values)[[0, -1]]]
    expected = {
        "mo(edu) from 1 to 3": edu[..., -1] - edu[..., 0],
        f"{curve} from 18 to 79": age @ (basis[1] - basis[0]),
    }
    assert len(basis.T) == age.shape[-1] and list(table["term"]) == ["Intercept", *expected, "sd of 1|g"]
    for term, values in expected.items():
        assert term in page.summary and all(term in page.render(name) for name in ("csv", "latex"))
        row, drawn = table.set_index("term").loc[term], values.ravel()
        assert row["mean"] == pytest.approx(drawn.mean(), abs=0.1 * drawn.std())  # of weighted draws, and of those kept
        assert row["sd"] == pytest.approx(drawn.std(), rel=0.1)
        assert row["positive"] == pytest.approx((drawn > 0).mean(), abs=1e-12)
        assert row["odds_ratio"] == pytest.approx(np.exp(np.median(drawn)), rel=1e-9)
        assert row["lower"] == pytest.approx(np.quantile(drawn, 0.025), abs=0.25 * drawn.std())
        assert row["odds_upper"] == pytest.approx(np.exp(row["upper"]), rel=1e-9)
        assert row["mean"] == pytest.approx(drawn.mean(), rel=1e-9) or term.startswith("mo")
    figure = plots.plot_coefficients(result)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xdata(), table["mean"].iloc[1:3])
    assert len(figure.axes[0].get_yticklabels()) == len(expected)
    over = {figure.name: figure for figure in page.figures}
    assert set(over) == {"coefficients", "over_age"}  # three levels of edu are no curve
    line, x = over["over_age"].draw().axes[0].lines[0], [18, 30, 41, 55, 66, 79]
    others = {"edu": [int(frame["edu"].mode()[0])] * 6, "g": [frame["g"].mode()[0]] * 6}
    predicted = lb.predictions(result, pd.DataFrame({"age": x} | others))
    np.testing.assert_array_equal(line.get_xdata(), x)
    assert "beyond" not in predicted.attrs
    outside = lb.predictions(result, pd.DataFrame({"age": [79, 95]} | {name: two[:2] for name, two in others.items()}))
    assert outside["mean"].values[0] == pytest.approx(outside["mean"].values[1]) and "18 to 79" in outside.attrs["beyond"]
    np.testing.assert_allclose(line.get_ydata(), predicted["mean"].sel(category="yes"))
    last = table.iloc[-1]
    assert last["mean"] == pytest.approx(float(result["summary"]["parameter_mean"].sel(parameter="1|g_sigma")))
    assert np.isnan([last["odds_ratio"], last["positive"]]).all()
    assert json.loads(page.render("json"))["changes"]["mo(edu) from 1 to 3"]["mean"][0] == 0.0  # of the reference
    result.save(tmp_path / "result.nc")
    assert lb.load(tmp_path / "result.nc").table().equals(table)


def test_rows_of_changes_have_a_category_and_sds_between_groups_have_none():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"edu": rng.integers(1, 4, 400), "g": rng.choice(list("ab"), 400), "use": rng.integers(0, 3, 400)})
    result = lb.regress(frame, "use ~ mo(edu) + (1 | g)", lb.GRR(3, 3.0), categories=list("abc"), draws=100, random_seed=1)
    steps = frame.rename(columns={"g": "n_steps"})
    other = lb.regress(steps, "use ~ (1 | n_steps)", lb.GRR(3, 3.0), categories=list("abc"), draws=100, random_seed=1)
    assert not any("what multiplies" in note.text for note in lb.show(other).notes)
    rows = [row[:2] for row in lb.show(result).tables[0].rows]
    terms = ("Intercept", "mo(edu) from 1 to 3")
    assert rows == [*((term, category) for term in terms for category in "bc"), ("sd of 1|g", None)]
    assert any("what multiplies mo(edu), are at its mean" in note.text for note in lb.show(result).notes)


def test_maximum_likelihood_tells_curves_from_groups():
    """A curve stood in the table of groups, and a refusal of predictions did not say that there are no draws."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"age": rng.integers(18, 30, 300), "g": rng.choice(list("abc"), 300)})
    frame["use"] = (rng.random(300) < 0.05 * (frame["age"] - 16)).astype(int)
    found = lb.regress(frame, "use ~ s(age, k=5) + (1 | g)", lb.GRR(2, 3.0), method="mle")
    rows = {table.title: [row[0] for row in table.rows] for table in lb.show(found).tables}
    assert rows["Curves: sd"] == ["s(age, k=5)"] and rows["Effects of groups: sd"] == ["1|g"]
    assert "against 0 is " in found.headline and "with 1|g; s(age, k=5) at 0" in found.headline
    assert all(name in found.data_vars for name in ("s(age, k=5)", "1|g"))
    with pytest.raises(lb.errors.ArgumentError, match="no draws"):
        lb.predictions(found)


def test_maximum_likelihood_has_the_average_share():
    """Of one column: p = expit(Xb), and its standard error by the delta method with the covariance of b, in NumPy."""
    rng = np.random.default_rng(8)
    x, protocol = rng.integers(0, 4, 500).astype(float), lb.GRR(2, 2.0)
    reports = protocol.privatize((rng.random(500) < 0.2 + 0.15 * x).astype(int), rng)
    found = lb.regress(pd.DataFrame({"x": x, "use": reports}), "use ~ x", protocol, method="mle")
    columns = np.column_stack([np.ones(500), x])
    p = 1 / (1 + np.exp(-columns @ found.coefficients.values[:, 1]))
    slope = (columns * (p * (1 - p))[:, None]).mean(axis=0)
    assert found.average.values == pytest.approx([1 - p.mean(), p.mean()], rel=1e-9)
    assert found.average_errors.values == pytest.approx(np.sqrt(slope @ found.covariance.values @ slope), rel=1e-6)


def test_the_average_share_of_a_sample_has_the_error_of_its_design():
    """By the sandwich of the coefficients, which clusters make wider; it was that of the scaled likelihood."""
    rng = np.random.default_rng(8)
    village, protocol = np.repeat(np.arange(50), 20), lb.GRR(2, 2.0)
    x = rng.integers(0, 4, 1000).astype(float)
    truth = (rng.random(1000) < 1 / (1 + np.exp(1 - 0.4 * x - rng.normal(size=50)[village]))).astype(int)
    frame = pd.DataFrame({"x": x, "use": protocol.privatize(truth, rng), "w": rng.uniform(0.5, 2, 1000), "village": village})
    found = lb.regress(frame, "use ~ x", protocol, method="mle", weights="w", cluster="village")
    columns = np.column_stack([np.ones(1000), x])
    p = 1 / (1 + np.exp(-columns @ found.coefficients.values[:, 1]))
    slope = np.average(columns * (p * (1 - p))[:, None], axis=0, weights=frame["w"])
    assert found.average.values[1] == pytest.approx(np.average(p, weights=frame["w"]), rel=1e-9)
    assert found.average_errors.values == pytest.approx(np.sqrt(slope @ found.covariance.values @ slope), rel=1e-5)
