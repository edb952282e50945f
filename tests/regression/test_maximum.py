"""Maximum likelihood of regressions: published coefficients, statsmodels on direct answers, and why there may be none."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import examples
from ldpbayes.errors import DataError, InfeasibleError
from ldpbayes.protocols.designs import forced_response
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

DIE = forced_response(2 / 3, (1, 1))
#: Recomputed for this library by other code, to the digits that stand with the data.
NIGERIA = {
    "coefficients": [-0.57502, -0.578, -0.45028, -0.14595, 0.09713, 0.01405, 0.18948],
    "standard_errors": [0.13559, 0.16285, 0.24445, 0.19906, 0.3171, 0.34273, 0.32642],
}


def one(**columns):
    return pd.DataFrame(columns)


def test_nigeria_by_cells():
    found = lb.regress(lb.load_example("nigeria_cells"), "connected ~ female + married + age_group", method="mle")
    assert found.n_reports == 2423 and found.reference == "no"
    for name, expected in NIGERIA.items():
        np.testing.assert_allclose(getattr(found, name).sel(category="yes"), expected, atol=1e-5)
    assert found.deviance == pytest.approx(3085.139, abs=5e-4)
    assert found.aic == pytest.approx(found.deviance + 14)
    assert (found.coefficients.sel(category="no") == 0).all()


def test_nigeria_from_a_frame_with_counts_and_the_intercept_alone():
    frame = one(answer=["no", "yes"], count=[1604, 831])
    found = lb.regress(frame, "connected ~ 1", DIE, report="answer", count="count", categories=["no", "yes"], method="mle")
    assert float(found.coefficients.sel(category="yes")[0]) == pytest.approx(-1.0360666, abs=1e-7)
    assert float(found.standard_errors.sel(category="yes")[0]) == pytest.approx(0.074556, abs=1e-6)


def test_the_reference_turns_signs_and_changes_nothing_else():
    cells = lb.load_example("nigeria_cells")
    found, other = (
        lb.regress(cells, "connected ~ female + married", method="mle", reference=name) for name in ("no", "yes")
    )
    np.testing.assert_allclose(found.coefficients.sel(category="yes"), -other.coefficients.sel(category="no"), atol=1e-9)
    assert found.log_likelihood == pytest.approx(other.log_likelihood)


@pytest.fixture(scope="module")
def fair():
    """Marriages: answers from one to five and covariates of 6,366 women; public domain, bundled with statsmodels."""
    datasets = pytest.importorskip("statsmodels.datasets")
    return datasets.fair.load_pandas().data


def test_direct_answers_are_an_ordinary_multinomial_logit(fair):
    import statsmodels.api as sm

    part = fair.iloc[::4]
    x = sm.add_constant(part[["age", "religious", "educ"]])
    expected = sm.MNLogit(part["rate_marriage"].astype(int) - 1, x).fit(method="newton", disp=0, maxiter=100, tol=1e-9)
    frame = part.assign(report=part["rate_marriage"].astype(int) - 1)
    found = lb.regress(
        frame, "rating ~ age + religious + educ", lb.protocols.Channel(np.eye(5)), report="report", method="mle"
    )
    np.testing.assert_allclose(found.coefficients[:, 1:], expected.params, atol=1e-6)
    np.testing.assert_allclose(found.standard_errors[:, 1:], expected.bse, rtol=1e-5)
    assert found.log_likelihood == pytest.approx(expected.llf, abs=1e-8)


def test_two_direct_answers_are_a_logit(fair):
    import statsmodels.api as sm

    frame = fair.assign(report=(fair["affairs"] > 0).astype(int))
    x = sm.add_constant(frame[["rate_marriage", "yrs_married", "religious"]])
    expected = sm.Logit(frame["report"], x).fit(method="newton", disp=0, maxiter=50, tol=1e-9)
    found = lb.regress(
        frame,
        "affair ~ rate_marriage + yrs_married + religious",
        lb.protocols.Channel(np.eye(2)),
        report="report",
        method="mle",
    )
    np.testing.assert_allclose(found.coefficients[:, 1], expected.params, atol=1e-6)
    for ask in (
        lambda: lb.predictions(found),
        lambda: lb.poststratify(found, frame),
        lambda: lb.poststratify(found, frame, count="n"),
    ):
        with pytest.raises(lb.errors.ArgumentError, match="maximum likelihood has no draws"):
            ask()


def test_coefficients_are_recovered_through_several_designs_at_once():
    """Forty thousand users behind GRR and OUE at two levels: within four standard errors, which also fit."""
    rng = np.random.default_rng(4)
    n, b = 40_000, np.array([[0.0, 0.5, -0.5], [0.0, 0.8, -0.6]])
    x = rng.integers(0, 3, n) - 1.0
    p = np.exp(np.column_stack([np.ones(n), x]) @ b)
    value = (rng.random((n, 1)) > (p / p.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    weak, strong, bits = lb.GRR(3, 1.0), lb.GRR(3, 3.0), UnaryEncoding.optimized(3, 2.0)
    device = np.array(["weak", "strong", "bits"])[rng.integers(0, 3, n)]
    report = np.empty(n, dtype=object)
    for name, protocol in (("weak", weak), ("strong", strong), ("bits", bits)):
        here = device == name
        sent = protocol.privatize(value[here], rng)
        (texts,) = protocol.format_reports(sent, ["a", "b", "c"])
        report[here] = texts
    frame = one(x=x, device=device, report=report)
    found = lb.regress(
        frame,
        "answer ~ x",
        {"weak": weak, "strong": strong, "bits": bits},
        design="device",
        report="report",
        categories=["a", "b", "c"],
        method="mle",
    )
    errors = (found.coefficients.values - b)[:, 1:] / found.standard_errors.values[:, 1:]
    assert np.abs(errors).max() < 4 and found.standard_errors.values.max() < 0.06


# ---- where there is no maximum ------------------------------------------------------------------------------------------
def test_perfect_separation_is_said():
    frame = one(group=["a", "a", "b", "b"], report=[0, 1, 0, 1], n=[10, 40, 50, 0])
    with pytest.raises(InfeasibleError, match=r"no maximum.*group\[b\]"):
        lb.regress(
            frame,
            "answer ~ group",
            lb.protocols.Channel(np.eye(2)),
            report="report",
            count="n",
            method="mle",
        )


def test_fewer_yes_than_the_device_forces_is_a_boundary():
    frame = one(group=["a", "a", "b", "b"], report=["no", "yes", "no", "yes"], n=[300, 200, 480, 20])
    with pytest.raises(InfeasibleError, match="no maximum"):
        lb.regress(frame, "answer ~ group", DIE, report="report", count="n", categories=["no", "yes"], method="mle")


def test_a_rank_deficient_design_names_the_column():
    frame = one(x=[1.0, 2, 3, 4], y=[2.0, 4, 6, 8], report=[0, 1, 0, 1], n=[30, 20, 25, 24])
    with pytest.raises(InfeasibleError, match="linear combination"):
        lb.regress(frame, "answer ~ x + y", lb.GRR(2, 1.0), report="report", count="n", method="mle")


def test_a_level_without_reports_is_rank_deficient():
    frame = one(g=["a", "a", "b", "b", "c"], report=[0, 1, 0, 1, 0], n=[30, 20, 25, 24, 0])
    with pytest.raises(InfeasibleError, match=r"g\[c\]"):
        lb.regress(frame, "answer ~ g", lb.GRR(2, 1.0), report="report", count="n", method="mle")


def test_weights_all_alike_change_nothing_but_the_standard_errors_method():
    cells = pd.read_csv(examples.FOLDER / "rr_nigeria_cells.csv")
    settings = {"report": "report", "count": "count", "categories": ["no", "yes"], "method": "mle"}
    plain = lb.regress(cells, "connected ~ female", DIE, **settings)
    same = lb.regress(cells.assign(w=2.0), "connected ~ female", DIE, weights="w", **settings)
    uneven = lb.regress(cells.assign(w=1.0 + cells["married"]), "connected ~ female", DIE, weights="w", **settings)
    np.testing.assert_allclose(plain.coefficients, same.coefficients)
    np.testing.assert_allclose(plain.standard_errors, same.standard_errors)
    assert uneven.weighted and not np.allclose(plain.coefficients, uneven.coefficients)


def test_weights_give_the_variance_of_the_weighted_scores():
    """An intercept alone: p̂ is a ratio of weighted sums, whose linearized variance is known in closed form."""
    rng = np.random.default_rng(0)
    n = 400
    frame = one(report=rng.integers(0, 2, n), w=rng.choice([1.0, 3.0], n))
    found = lb.regress(frame, "answer ~ 1", lb.protocols.Channel(np.eye(2)), report="report", weights="w", method="mle")
    w, y = frame["w"].to_numpy(), frame["report"].to_numpy()
    share = w @ y / w.sum()
    variance = n / (n - 1) * (w**2 * (y - share) ** 2).sum() / w.sum() ** 2
    assert float(found.coefficients[0, 1]) == pytest.approx(np.log(share / (1 - share)), abs=1e-8)
    assert float(found.standard_errors[0, 1]) == pytest.approx(np.sqrt(variance) / (share * (1 - share)), rel=1e-6)


def sampled(seed=1, clusters=40, size=12):
    """Return (frame with a direct answer, strata and clusters)."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(clusters), size)
    x, v = rng.normal(size=group.size), rng.normal(size=clusters)[group]
    eta = -0.3 + 0.5 * x + 0.4 * v + 0.7 * rng.normal(size=clusters)[group]
    answer = (rng.random(group.size) < 1 / (1 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"x": x, "v": v, "s": group % 3, "c": group, "w": 1.0 + group % 3, "report": answer})


def test_clusters_have_the_sandwich_of_statsmodels_and_strata_its_formula():
    import statsmodels.api as sm

    frame, device = sampled(), lb.protocols.Channel(np.eye(2))
    settings = {"report": "report", "method": "mle"}
    columns = sm.add_constant(frame[["x", "v"]].to_numpy())
    fitted = sm.Logit(frame["report"], columns).fit(
        disp=0, cov_type="cluster", cov_kwds={"groups": frame["c"], "use_correction": False}
    )
    found = lb.regress(frame, "answer ~ x + v", device, cluster="c", **settings)
    np.testing.assert_allclose(found.standard_errors[:, 1], fitted.bse * np.sqrt(40 / 39), rtol=1e-6)
    # With weights and strata: totals of clusters about the mean of their stratum.
    found = lb.regress(frame, "answer ~ x + v", device, weights="w", strata="s", cluster="c", **settings)
    p = 1 / (1 + np.exp(-columns @ found.coefficients.values[:, 1]))
    w = frame["w"].to_numpy() / frame["w"].mean()
    scores = (w * (frame["report"] - p)).to_numpy()[:, None] * columns
    totals, stratum = np.add.reduceat(scores, np.arange(0, len(frame), 12)), np.arange(40) % 3
    middle = sum((stratum == h).sum() * np.cov(totals[stratum == h].T) for h in range(3))
    inverse = np.linalg.inv((columns.T * (w * p * (1 - p))) @ columns)
    np.testing.assert_allclose(found.standard_errors[:, 1], np.sqrt(np.diag(inverse @ middle @ inverse)), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
@pytest.mark.parametrize("device", [lb.GRR(2, 2.5), lb.protocols.Channel(np.eye(2))])
def test_columns_that_clusters_decide_are_not_known_for_sure(device):
    """A column of the villages that were sampled: the scores of a village add up to 0, and sds were 2e-4 and 0.

    The kind: a variance over the design that its own estimate makes vanish. Searched: strata (their effects are seen within
    them), weights alone, a device and a direct question, the posterior and maximum likelihood.
    """
    village = np.repeat(np.arange(5), 48)
    truth = (np.random.default_rng(0).random(240) < 0.2 + 0.1 * village).astype(int)
    frame = one(g=[f"v{k}" for k in village], report=device.privatize(truth, np.random.default_rng(1)))
    settings = {"report": "report", "random_seed": 1, "draws": 1000}
    plain, designed = (lb.regress(frame, "answer ~ g", device, cluster=name, **settings) for name in (None, "g"))
    sds = (found["posterior"]["coefficients"].values[..., 1].std(axis=(0, 1)) for found in (plain, designed))
    assert (np.divide(*sds) < 1.1).all()
    with pytest.raises(InfeasibleError, match=r"variance.*Intercept"):
        lb.regress(frame, "answer ~ g", device, report="report", cluster="g", method="mle")


def test_draws_of_a_clustered_sample_have_the_linearized_covariance():
    frame, device = sampled(), lb.protocols.Channel(np.eye(2))
    columns = {"report": "report", "weights": "w", "strata": "s", "cluster": "c"}
    exact = lb.regress(frame, "answer ~ x + v", device, method="mle", **columns)
    found = lb.regress(frame, "answer ~ x + v", device, random_seed=1, **columns)
    larger = stats.t.ppf(0.975, 24.2) / stats.t.ppf(0.975, 479)  # 40 clusters of unlike weights in 3 strata
    np.testing.assert_allclose(found["summary"]["coefficients_sd"][:, 1], larger * exact.standard_errors[:, 1], rtol=0.09)
    np.testing.assert_allclose(
        found["summary"]["coefficients_mean"][:, 1], exact.coefficients[:, 1], atol=0.3 * exact.standard_errors.values.max()
    )
    assert facts_of(found)["design_effect"] > 1.3 and "linearized covariance" in found.attrs["pseudo"]
    assert np.isnan(found["summary"]["mean"].sel(target="frequency")).all()


@each_row(
    "change, columns, match",
    [
        ({"s": [None, *range(479)]}, {"strata": "s"}, "'s':.*1 of 480"),
        ({"s": [9, *[1] * 479]}, {"strata": "s", "cluster": "c"}, "single cluster"),
        ({}, {"strata": "nowhere"}, "'nowhere'.*strata"),
        ({}, {"strata": "s", "cluster": "s"}, "different columns"),
    ],
)
def test_columns_of_a_sample_that_do_not_fit_are_one_sentence(change, columns, match):
    with pytest.raises((DataError, lb.errors.ArgumentError), match=match):
        lb.regress(sampled().assign(**change), "answer ~ x", lb.GRR(2, 3.0), report="report", method="mle", **columns)


@pytest.mark.parametrize("offset", [1e6, 2.024e12])
def test_a_column_far_from_zero_varies(offset):
    """Years in seconds, or identifiers: a digit of the offset is no reason to call a column a combination of the intercept.

    The kind: variation judged beside the size of the entries. Searched: standardization, the rank of the design.
    """
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 8, 2000), rng.integers(0, 2, 2000)
    near, far = (
        lb.regress(one(x=x + shift, report=y), "answer ~ x", lb.GRR(2, 2.0), report="report", method="mle")
        for shift in (0.0, offset)
    )
    np.testing.assert_allclose(near.coefficients[1], far.coefficients[1], rtol=1e-3)
    np.testing.assert_allclose(near.standard_errors[1], far.standard_errors[1], rtol=1e-3)


def test_settings_of_estimates_have_no_draws():
    cells = lb.load_example("nigeria_cells")
    for totals, drawn in ((None, set()), ({"yes": 0.26}, {"draws", "chains"})):  # which say how exact a total is
        found = lb.regress(cells, "connected ~ female", method="mle", totals=totals)
        arguments = found.settings["arguments"]
        assert {"draws", "chains", "random_seed"} & set(arguments) == drawn
        again = lb.regress(**arguments | {"data": cells})
        np.testing.assert_array_equal(again.coefficients, found.coefficients)
