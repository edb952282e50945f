"""Posteriors of regressions: quadrature, frames of all kinds, results that are saved and asked, and what the user hears."""

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import ldpbayes as lb
from ldpbayes import examples
from ldpbayes.errors import ArgumentError, ConvergenceError, DataError, DiagnosticWarning, InfeasibleError
from ldpbayes.pages import show
from ldpbayes.protocols.designs import forced_response, warner
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

# Weak reports on purpose: that the prior decides is told by tests/regression/test_separation.py.
pytestmark = [
    pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree) on"),
    pytest.mark.together("kernels"),
]

DIE = forced_response(2 / 3, (1, 1))


@pytest.fixture(scope="module")
def nigeria():
    return lb.regress(lb.load_example("nigeria_cells"), "connected ~ female + married + age_group", random_seed=1)


@pytest.fixture(scope="module")
def counts():
    return pd.read_csv(examples.FOLDER / "rr_nigeria_cells.csv")


def asked(frame, formula="connected ~ female + age_group", **more):
    settings = {"report": "report", "count": "count", "categories": ["no", "yes"], "random_seed": 1, "draws": 100}
    return lb.regress(frame, formula, DIE, **(settings | more))


# ---- numbers -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scale", [None, 1.3])
def test_one_cell_of_two_categories_is_the_exact_posterior(scale):
    """An intercept alone against quadrature over the log odds: mean, sd, interval of P and the log-evidence."""
    frame = pd.DataFrame({"report": [0, 1], "n": [40, 20]})
    stated = None if scale is None else {"Intercept": scale}
    design = warner(0.7)
    found = lb.regress(frame, "answer ~ 1", design, report="report", count="n", scale=stated, random_seed=3, draws=2000)
    sd = np.pi if scale is None else scale

    def density(t, power=0):
        p = 1 / (1 + np.exp(-t))
        yes = 0.3 + 0.4 * p
        return stats.norm.pdf(t, 0, sd) * yes**20 * (1 - yes) ** 40 * 1e16 * p**power

    whole, first, second = (integrate.quad(density, -60, 60, args=(k,), epsabs=0, limit=400)[0] for k in range(3))
    mean = first / whole
    summary = found["summary"].sel(target="distribution", category="yes")
    error = float(summary["mcse"])
    assert float(summary["mean"]) == pytest.approx(mean, abs=4 * error) and error < 0.0035
    assert float(summary["sd"]) == pytest.approx(np.sqrt(second / whole - mean**2), rel=0.05)
    evidence = np.log(whole) - 16 * np.log(10)
    assert facts_of(found)["log_evidence"] == pytest.approx(evidence, abs=4 * facts_of(found)["log_evidence_error"] + 1e-6)


def test_nigeria_lies_about_its_maximum(nigeria):
    maximum = lb.regress(lb.load_example("nigeria_cells"), "connected ~ female + married + age_group", method="mle")
    found = nigeria["summary"]["coefficients_mean"].sel(category="yes")
    assert (
        np.abs((found - maximum.coefficients.sel(category="yes")) / maximum.standard_errors.sel(category="yes")).max() < 0.3
    )
    sd = nigeria["summary"]["coefficients_sd"].sel(category="yes")
    np.testing.assert_allclose(sd, maximum.standard_errors.sel(category="yes"), rtol=0.1)
    assert nigeria["posterior"]["coefficients"].dims == ("chain", "draw", "term", "category")
    assert facts_of(nigeria)["k_hat"] < 0.7 and nigeria.attrs["converged"]
    mean = float(nigeria["summary"]["mean"].sel(target="distribution", category="yes"))
    assert mean == pytest.approx(0.2639, abs=0.01)  # as another package averages over the covariates, without a prior


def test_the_reference_does_not_change_the_model():
    frame = pd.DataFrame({"x": np.tile([0.0, 1, 2], 40), "report": np.random.default_rng(0).choice(list("abc"), 120)})
    kept = {"report": "report", "categories": ["a", "b", "c"], "draws": 500, "random_seed": 1}
    first, last = (lb.regress(frame, "answer ~ x", lb.GRR(3, 2.0), reference=name, **kept) for name in ("a", "c"))
    error = np.hypot(*(one["summary"]["mcse"].sel(target="distribution") for one in (first, last)))
    apart = [one["summary"]["mean"].sel(target="distribution") for one in (first, last)]
    assert (np.abs(apart[0] - apart[1]) < 5 * error).all()  # how many draws are made hangs on the ends that are judged
    turned = first["posterior"]["coefficients"] - first["posterior"]["coefficients"].sel(category="c")
    means = [one.mean(["chain", "draw"]) for one in (turned, last["posterior"]["coefficients"])]
    sd = turned.std(["chain", "draw"])
    assert (np.abs(means[0] - means[1]) <= 5 * sd * np.sqrt(2 / 2000)).all()


def test_the_same_seed_gives_the_same_draws(counts):
    one, two = (asked(counts, "connected ~ female") for _ in range(2))
    np.testing.assert_array_equal(one["posterior"]["coefficients"], two["posterior"]["coefficients"])
    assert one.attrs["random_seed"] == 1


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "duckdb", "columns", "rows"])
def test_every_kind_of_frame(kind, counts):
    expected = asked(counts, method="mle")
    if kind == "polars":
        frame = pytest.importorskip("polars").from_pandas(counts).lazy()
    elif kind == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(counts)
    elif kind == "duckdb":
        frame = pytest.importorskip("duckdb").from_df(counts)
    elif kind == "columns":
        frame = {name: counts[name].to_numpy() for name in counts}
    else:
        whole = counts.loc[counts.index.repeat(counts["count"])].sample(frac=1, random_state=1)
        found = asked(whole, count=None, method="mle")
        np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=1e-8)
        assert found.n_reports == expected.n_reports
        return
    np.testing.assert_allclose(asked(frame, method="mle").coefficients, expected.coefficients, atol=1e-9)


def test_weights_are_a_pseudo_posterior_with_a_linearized_design_effect(counts):
    rng = np.random.default_rng(0)
    whole = counts.loc[counts.index.repeat(counts["count"])].reset_index(drop=True)
    even, uneven = np.full(len(whole), 3.0), rng.choice([1.0, 4.0], len(whole))
    plain, same, other = (
        asked(whole.assign(w=w), "connected ~ female", count=None, weights=name)
        for w, name in ((even, None), (even, "w"), (uneven, "w"))
    )
    np.testing.assert_allclose(plain["posterior"]["coefficients"], same["posterior"]["coefficients"])
    assert facts_of(other)["design_effect"] == pytest.approx(1.36, abs=0.1)  # E w²/(E w)² of weights 1 and 4
    assert "pseudo-posterior" in other.attrs["pseudo"]
    assert np.isnan(other["summary"]["mean"].sel(target="frequency")).all()  # F has no meaning under weights
    ratio = other["summary"]["coefficients_sd"] / plain["summary"]["coefficients_sd"]
    np.testing.assert_allclose(ratio.sel(category="yes"), np.sqrt(1.36), rtol=0.15)
    with pytest.raises(ArgumentError, match="survey weights"):
        other.extend("log_likelihood")


@pytest.mark.calibrate
def test_effects_of_groups_are_pooled_in_part():
    """Thirty groups of eighty: estimates lie between the common mean and each group alone, and σ is found."""
    rng = np.random.default_rng(3)
    groups, each = 30, 80
    effect = 0.8 * rng.standard_normal(groups)
    g = np.repeat(np.arange(groups), each)
    value = (rng.random(g.size) < 1 / (1 + np.exp(-effect[g]))).astype(int)
    frame = pd.DataFrame({"g": [f"g{k:02d}" for k in g], "report": warner(0.85).privatize(value, rng)})
    found = lb.regress(frame, "answer ~ 1 + (1 | g)", warner(0.85), report="report", random_seed=2, draws=500)
    assert float(found["summary"]["parameter_lower"].sel(parameter="1|g_sigma")) < 0.8
    assert float(found["summary"]["parameter_upper"].sel(parameter="1|g_sigma")) > 0.8
    own = found["posterior"]["1|g"].mean(("chain", "draw")).sel(category="yes").values
    error = np.sqrt(np.mean((own - effect) ** 2))
    assert error < 0.8 * np.sqrt(np.mean(effect**2))
    assert found["posterior"]["1|g"].dims == ("chain", "draw", "category", "1|g_level")
    again = lb.predictions(found, {"g": ["g00", "g29"]})
    assert again.sizes == {"row": 2, "category": 2}


def test_a_result_with_effects_of_groups_has_their_spread_and_predicts_known_and_new_groups():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.tile(["u", "v", "w"], 100), "report": rng.integers(0, 2, 300)})
    try:
        found = lb.regress(frame, "answer ~ 1 + (1 | g)", warner(0.9), method="weighted", draws=50, random_seed=1)
    except ConvergenceError as err:  # weights of so few draws
        found = err.result
    assert found["posterior"]["1|g"].dims == ("chain", "draw", "category", "1|g_level")
    assert (found["posterior"]["1|g_sigma"] > 0).all()
    row = show(found).tables[0].rows[-1]
    assert row[0] == "sd of 1|g" and row[1] == pytest.approx(
        float(found["summary"]["parameter_mean"].sel(parameter="1|g_sigma"))  # of all weighted draws
    )
    effects = found["posterior"]["1|g"].sel({"1|g_level": "v", "category": "yes"})
    whole = effects + found["posterior"]["coefficients"].sel(term="Intercept", category="yes")
    expected = float((1 / (1 + np.exp(-whole))).mean())
    answer = lb.predictions(found, {"g": ["v"]})
    assert float(answer["mean"].sel(category="yes")[0]) == pytest.approx(expected, abs=1e-12)
    assert "unseen" not in answer.attrs
    # A group that the fit has not met: an effect from its prior, whose sd is that of each draw.
    new = lb.predictions(found, {"g": ["v", "z"]})
    assert "g 'z' (50.0 %" in new.unseen
    np.testing.assert_allclose(new["mean"][0], answer["mean"][0], atol=1e-12)
    intercept = found["posterior"]["coefficients"].sel(term="Intercept", category="yes").values.ravel()
    sd = found["posterior"]["1|g_sigma"].values.reshape(intercept.size, -1)[:, 0]
    drawn = 1 / (1 + np.exp(-(intercept + sd * np.random.default_rng(1).standard_normal((400, intercept.size)))))
    assert float(new["mean"].sel(category="yes")[1]) == pytest.approx(
        drawn.mean(), abs=4 * drawn.std() / np.sqrt(intercept.size)
    )
    assert float(new["sd"].sel(category="yes")[1]) == pytest.approx(drawn.std(), rel=0.15)


def test_the_prior_serves_fit_of_cells(nigeria):
    cells = lb.load_example("nigeria_cells")
    design = nigeria["design"]["columns"].values
    prior = lb.priors.Regression(design, tuple(nigeria["design"]["term"].values), 2, sizes=cells.sizes)
    found = lb.fit(cells, prior, random_seed=1, draws=250, estimates=False)
    one, two = (tree["summary"]["coefficients_mean"].sel(category="yes") for tree in (found, nigeria))
    assert float(np.abs((one - two) / nigeria["summary"]["coefficients_sd"].sel(category="yes")).max()) < 0.2
    assert found["posterior"]["distribution"].dims == ("chain", "draw", "cell", "category")


# ---- results -------------------------------------------------------------------------------------------------------------
def test_save_and_load(nigeria, tmp_path):
    lb.save(nigeria, tmp_path / "found.nc")
    again = lb.load(tmp_path / "found.nc")
    np.testing.assert_array_equal(again["posterior"]["coefficients"], nigeria["posterior"]["coefficients"])
    np.testing.assert_allclose(lb.predictions(again)["mean"], lb.predictions(nigeria)["mean"], atol=1e-14)


def test_leave_one_out_and_compare(nigeria, counts):
    from arviz_stats import compare

    few = counts.assign(count=counts["count"] // 6)
    whole, smaller = (asked(few, formula) for formula in ("connected ~ female", "connected ~ 1"))
    for tree in (whole, smaller):
        tree.extend("log_likelihood")
        assert tree["log_likelihood"]["reports"].sizes["report"] == few["count"].sum()
    table = compare({"female": whole, "none": smaller})
    assert table.index[0] == "female" and 0 < table.loc["female", "p"] < 4
    nigeria.extend("log_likelihood", by="cell")
    assert nigeria["log_likelihood"]["reports"].sizes["cell"] == 20
    whole = nigeria["log_likelihood"]["reports"].sum("cell").values.ravel()
    p = nigeria["posterior"]["distribution"]
    assert whole.size == p.sizes["chain"] * p.sizes["draw"] and np.isfinite(whole).all()


def test_one_sentence_for_what_cannot_be(counts):
    cases = [
        (ArgumentError, "names? the private answer|must name the private answer", {"formula": "female"}),
        (ArgumentError, "cannot be read", {"formula": "answer ~ female + ("}),
        (DataError, "no column 'height'", {"formula": "answer ~ height"}),
        (ArgumentError, "reference must be one of", {"reference": "maybe"}),
        (ArgumentError, "scale must name terms", {"scale": {"height": 1.0}}),
        (ArgumentError, "report must name", {"report": None, "formula": "connected ~ female"}),
        (DataError, "no column 'n'", {"count": "n"}),
        (DataError, "weights must not be negative", {"weights": "female"}),
        (ArgumentError, "method must be one of", {"method": "guess"}),
        (ArgumentError, "right side", {"formula": "female ~ female"}),
    ]
    frame = counts.rename(columns={"report": "said"}).assign(female=-1)
    for kind, words, change in cases:
        given = {"report": "said"} | change
        with pytest.raises(kind, match=words):
            asked(frame, **given)


def test_missing_covariates_are_refused_or_dropped(counts):
    frame = counts.assign(female=counts["female"].astype(float))
    frame.loc[:2, "female"] = np.nan
    with pytest.raises(DataError, match=r"female.*missing.*39"):
        asked(frame)
    assert asked(frame, bad_rows="skip", method="mle").n_reports == 2423 - counts["count"][:3].sum()


def test_missing_reports_are_refused_or_dropped_and_the_page_says_so(counts):
    frame = counts.copy()
    frame["report"] = frame["report"].where(frame.index > 2)
    with pytest.raises(DataError, match=r"report.*39.*bad_rows='skip'"):
        asked(frame)
    found = asked(frame, bad_rows="skip", method="mle")
    assert found.n_reports == 2423 - counts["count"][:3].sum()
    assert "3 of 39" in str(lb.show(found))


def test_a_factor_of_one_level_is_refused(counts):
    with pytest.raises(DataError, match="one level"):
        asked(counts.assign(country="NG"), "connected ~ female + country")
    with pytest.raises(DataError, match="one level"):
        asked(counts.assign(year=2014), "connected ~ C(year)")
    with pytest.raises(DataError, match="holds times"):
        asked(counts.assign(day=pd.date_range("2014-01-01", periods=len(counts))), "connected ~ day")


def test_the_prior_decides_where_the_design_does_not():
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [2.0, 4, 6, 8], "report": [0, 1, 0, 1], "n": [300, 200, 250, 240]})
    with pytest.warns(DiagnosticWarning, match="linear combination"):
        found = lb.regress(frame, "answer ~ x + y", lb.GRR(2, 1.0), report="report", count="n", random_seed=1)
    assert "only the" in found.attrs["prior_decides"]
    empty = pd.DataFrame({"g": ["a", "a", "b", "b", "c"], "report": [0, 1, 0, 1, 0], "n": [30, 20, 25, 24, 0]})
    with pytest.warns(DiagnosticWarning, match=r"g\[c\]"):
        found = lb.regress(empty, "answer ~ g", lb.GRR(2, 1.0), report="report", count="n", random_seed=1)
    sd = found["summary"]["coefficients_sd"].sel(category="1", term="g[c]")
    known = found["constant_data"]["coefficient_prior_sd"].sel(category="1", term="g[c]")
    assert float(sd) == pytest.approx(float(known), rel=0.1)


def test_perfect_separation_has_a_posterior():
    frame = pd.DataFrame({"g": ["a", "a", "b"], "report": [0, 1, 0], "n": [10, 40, 50]})
    found = lb.regress(frame, "answer ~ g", lb.protocols.Channel(np.eye(2)), report="report", count="n", random_seed=1)
    low, high = (float(found["summary"][f"coefficients_{end}"].sel(category="1", term="g[b]")) for end in ("lower", "upper"))
    assert -40 < low < high < -2


def test_designs_of_a_column_must_be_known(counts):
    frame = counts.assign(form=np.where(counts["female"] == 1, "A", "B"))
    with pytest.raises(ArgumentError, match="design must"):
        lb.regress(frame, "connected ~ 1", {"A": DIE}, report="report", count="count", categories=["no", "yes"])
    kept = {"design": "form", "report": "report", "count": "count", "categories": ["no", "yes"]}
    with pytest.raises(DataError, match=r"form.*'B'.*no entry"):
        lb.regress(frame, "connected ~ 1", {"A": DIE}, **kept)
    both = lb.regress(frame, "connected ~ married", {"A": DIE, "B": DIE}, method="mle", **kept)
    same = asked(counts, "connected ~ married", method="mle")
    np.testing.assert_allclose(both.coefficients, same.coefficients, atol=1e-8)


def test_sets_as_reports_and_whole_reports_only():
    rng = np.random.default_rng(1)
    protocol = UnaryEncoding.optimized(4, 2.0)
    reports = protocol.privatize(rng.integers(0, 4, 300), rng)
    (texts,) = protocol.format_reports(reports, list("abcd"))
    frame = pd.DataFrame({"x": rng.integers(0, 2, 300), "report": texts})
    found = lb.regress(frame, "answer ~ x", protocol, categories=list("abcd"), method="mle")
    assert found.coefficients.shape == (2, 4) and found.n_reports == 300


def test_summaries_are_referred_to_fit():
    cells = lb.load_example("nigeria_cells").summaries([0.7, 0.3])
    with pytest.raises((InfeasibleError, ArgumentError), match="summar"):
        lb.regress(cells, "connected ~ female")
    assert issubclass(ConvergenceError, lb.LDPBayesError)


def test_type_checkers_know_every_keyword_of_regress():
    from ldpbayes.regression.fitting import Settings, regress

    keywords = set(inspect.signature(regress, follow_wrapped=True).parameters) - {"data", "formula", "protocol", "method"}
    assert set(Settings.__annotations__) == keywords
